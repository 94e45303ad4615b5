/* SPDX-License-Identifier: Apache-2.0
 * The portable disk: transfers are done on the store's own thread when they are submitted. And what
 * the io_uring disk has in common with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "actors/check.h"
#include "sessions/disk.h"

struct plain {
    struct ses_disk disk;
    struct ses_disk_op *done[SES_DISK_DEPTH];
    uint32_t n;
};

static int open_direct(struct ses_disk *d, const char *path, int flags) {
    int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);
    d->direct = fd >= 0;
    if (fd < 0 && errno == EINVAL) /* a file system without it */
        fd = open(path, (flags & ~O_EXCL) | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : -errno;
}

int ses_disk_file_create(struct ses_disk *d, const char *path, uint64_t bytes) {
    int fd = open_direct(d, path, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error == EINVAL || error == EOPNOTSUPP)
        error = ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
    if (error != 0) {
        close(fd);
        unlink(path);
        return -error;
    }
    return fd;
}

int ses_disk_file_open(struct ses_disk *d, const char *path) {
    return open_direct(d, path, O_RDWR);
}

int ses_disk_file_remove(struct ses_disk *d, const char *path) {
    (void)d;
    return unlink(path) == 0 ? 0 : -errno;
}

int ses_disk_folder_sync(struct ses_disk *d, const char *path) {
    (void)d;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result = fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    return result;
}

int ses_disk_folder_space(struct ses_disk *d, const char *path, uint64_t *bytes) {
    (void)d;
    struct statvfs s;
    if (statvfs(path, &s) != 0)
        return -errno;
    *bytes = (uint64_t)s.f_bavail * s.f_frsize;
    return 0;
}

int ses_disk_commit(struct ses_disk *d, bool before) {
    (void)d;
    (void)before;
    return 0;
}

int64_t ses_disk_transfer(const struct ses_disk_op *op) {
    ssize_t n = op->kind == SES_DISK_SYNC ? fdatasync(op->fd)
                : op->kind == SES_DISK_READ
                    ? preadv(op->fd, op->part, (int)op->n_parts, (off_t)op->offset)
                    : pwritev(op->fd, op->part, (int)op->n_parts, (off_t)op->offset);
    return n >= 0 ? n : -errno;
}

static void plain_submit(struct ses_disk *d, struct ses_disk_op *op) {
    struct plain *p = (struct plain *)d;
    CHECK(p->n < SES_DISK_DEPTH);
    op->result = ses_disk_transfer(op);
    p->done[p->n++] = op;
}

static struct ses_disk_op *plain_wait(struct ses_disk *d) {
    struct plain *p = (struct plain *)d;
    CHECK(p->n > 0);
    return p->done[--p->n];
}

static void plain_close(struct ses_disk *d) {
    free(d);
}

static const struct ses_disk_ops plain_ops = {.create = ses_disk_file_create,
                                              .open = ses_disk_file_open,
                                              .remove = ses_disk_file_remove,
                                              .sync_folder = ses_disk_folder_sync,
                                              .space = ses_disk_folder_space,
                                              .submit = plain_submit,
                                              .wait = plain_wait,
                                              .commit = ses_disk_commit,
                                              .close = plain_close};

enum status ses_disk_plain_open(struct ses_disk **out, struct status_note *note) {
    struct plain *p = calloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the disk");
    p->disk = (struct ses_disk){.ops = &plain_ops, .name = "pread and pwrite"};
    *out = &p->disk;
    return STATUS_OK;
}

enum status ses_disk_open(struct ses_disk **out, struct status_note *note) {
    if (ses_disk_uring_open(out, note) == STATUS_OK)
        return STATUS_OK;
    return ses_disk_plain_open(out, note);
}
