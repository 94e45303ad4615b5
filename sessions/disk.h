/* SPDX-License-Identifier: Apache-2.0
 * What the store asks of a file system: files in one directory, transfers under way, barriers.
 * Implementations: io_uring, plain pread and pwrite (each chosen at start and named), and the
 * tests' disk that loses what was not synced. Used by one thread at a time.
 */
#ifndef SESSIONS_DISK_H
#define SESSIONS_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "actors/status.h"

enum { SES_DISK_DEPTH = 64, SES_DISK_BLOCK = 4096 };

enum ses_disk_kind { SES_DISK_READ, SES_DISK_WRITE, SES_DISK_SYNC };

/* A transfer. Memory, offset and sizes are whole blocks. It is the disk's until wait gives it back.
 */
struct ses_disk_op {
    enum ses_disk_kind kind;
    int fd;
    uint64_t offset;
    struct iovec part[2];
    uint32_t n_parts;
    int64_t result; /* bytes, or a negative errno */
};

struct ses_disk;

struct ses_disk_ops {
    /* Creates a file of that many bytes, or opens one. Negative errno on failure. */
    int (*create)(struct ses_disk *d, const char *path, uint64_t bytes);
    int (*open)(struct ses_disk *d, const char *path);
    int (*remove)(struct ses_disk *d, const char *path);
    /* Names in the directory are durable. */
    int (*sync_folder)(struct ses_disk *d, const char *path);
    /* Bytes that may still be written to the file system of path. */
    int (*space)(struct ses_disk *d, const char *path, uint64_t *bytes);
    /* At most SES_DISK_DEPTH under way. */
    void (*submit)(struct ses_disk *d, struct ses_disk_op *op);
    /* Waits for at least one that is under way. */
    struct ses_disk_op *(*wait)(struct ses_disk *d);
    /* Asked around every commit of the index; negative errno: the machine lost its power. */
    int (*commit)(struct ses_disk *d, bool before);
    void (*close)(struct ses_disk *d);
};

struct ses_disk {
    const struct ses_disk_ops *ops;
    const char *name; /* of the implementation, said at start */
    bool direct;      /* the last file was opened past the page cache */
};

enum status ses_disk_uring_open(struct ses_disk **out, struct status_note *note);
enum status ses_disk_plain_open(struct ses_disk **out, struct status_note *note);
/* The best of the above that this system lets us have. */
enum status ses_disk_open(struct ses_disk **out, struct status_note *note);

/* What both real ones do alike. */
int ses_disk_file_create(struct ses_disk *d, const char *path, uint64_t bytes);
int ses_disk_file_open(struct ses_disk *d, const char *path);
int ses_disk_file_remove(struct ses_disk *d, const char *path);
int ses_disk_folder_sync(struct ses_disk *d, const char *path);
int ses_disk_folder_space(struct ses_disk *d, const char *path, uint64_t *bytes);
int ses_disk_commit(struct ses_disk *d, bool before);
/* The whole transfer at once, on this thread. */
int64_t ses_disk_transfer(const struct ses_disk_op *op);

#endif
