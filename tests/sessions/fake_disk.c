/* SPDX-License-Identifier: Apache-2.0
 * Transfers go to the files at once; what they overwrote is remembered until a sync, and a power
 * cut puts some of it back.
 */
#include "tests/sessions/fake_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sessions/expect.h"

enum { FILES_MAX = 512, PATH_BYTES = 300, UNDO_MAX = 4096, SECTOR = 512 };

struct undo {
    int fd;
    uint64_t offset, bytes;
    unsigned char *old;
};

static struct {
    struct ses_disk disk;
    struct fake_disk_faults faults;
    uint64_t rng, points;
    bool dead;
    struct {
        int fd;
        char path[PATH_BYTES];
        bool unnamed; /* its name is not durable */
    } file[FILES_MAX];
    uint32_t n_files;
    struct undo undo[UNDO_MAX];
    uint32_t n_undo;
    struct ses_disk_op *done[SES_DISK_DEPTH];
    uint32_t n_done;
} f;

static uint32_t below(uint32_t n) {
    f.rng = f.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((f.rng >> 33) % n);
}

uint64_t fake_disk_points(void) {
    return f.points;
}

bool fake_disk_dead(void) {
    return f.dead;
}

void fake_disk_set(const struct fake_disk_faults *faults) {
    f.faults = *faults;
    f.rng = faults->seed * 2 + 1;
    f.points = 0;
    f.dead = false;
}

static const char *path_of(int fd) {
    for (uint32_t i = f.n_files; i > 0; i--) /* numbers are used again: the last one counts */
        if (f.file[i - 1].fd == fd)
            return f.file[i - 1].path;
    ck_abort_msg("no file %d", fd);
}

static void lose(void) {
    for (uint32_t i = f.n_undo; i > 0; i--) {
        struct undo *u = &f.undo[i - 1];
        int fd = open(path_of(u->fd), O_RDWR);
        uint32_t how = below(4); /* whole, none, or sector by sector */
        for (uint64_t at = 0; fd >= 0 && at < u->bytes; at += SECTOR)
            if (how == 0 || (how > 1 && below(2) == 0))
                EXPECT(pwrite(fd, u->old + at, SECTOR, (off_t)(u->offset + at)) == SECTOR);
        if (fd >= 0)
            close(fd);
        free(u->old);
    }
    f.n_undo = 0;
    for (uint32_t i = 0; i < f.n_files; i++)
        if (f.file[i].unnamed && below(2) == 0)
            unlink(f.file[i].path);
}

/* 0, or why it fails: for ever, when there is no power (any more). */
static int point(void) {
    if (f.dead)
        return -EIO;
    if (++f.points == f.faults.call_at)
        f.faults.call();
    if (f.faults.fail_error != 0 && f.points >= f.faults.fail_at &&
        f.points - f.faults.fail_at < f.faults.fail_for)
        return -f.faults.fail_error;
    if (f.points != f.faults.cut_at)
        return 0;
    if (f.faults.kill)
        kill(getpid(), SIGKILL);
    f.dead = true;
    lose();
    return -EIO;
}

static int note_file(int fd, const char *path, bool unnamed) {
    if (fd < 0)
        return fd;
    EXPECT(f.n_files < FILES_MAX && strlen(path) < PATH_BYTES);
    for (uint32_t i = 0; i < f.n_files; i++)
        if (f.file[i].fd == fd)
            f.file[i].fd = -1;
    f.file[f.n_files].fd = fd;
    strcpy(f.file[f.n_files].path, path);
    f.file[f.n_files++].unnamed = unnamed;
    return fd;
}

static int fake_create(struct ses_disk *d, const char *path, uint64_t bytes) {
    int error = point();
    if (error != 0)
        return error;
    if (f.faults.no_space > 0 && below(1000) < f.faults.no_space)
        return -ENOSPC;
    return note_file(ses_disk_file_create(d, path, bytes), path, true);
}

static int fake_open(struct ses_disk *d, const char *path) {
    return f.dead ? -EIO : note_file(ses_disk_file_open(d, path), path, false);
}

static int fake_remove(struct ses_disk *d, const char *path) {
    int error = point();
    return error != 0 ? error : ses_disk_file_remove(d, path);
}

static int fake_sync_folder(struct ses_disk *d, const char *path) {
    int result = point();
    if (result == 0)
        result = ses_disk_folder_sync(d, path);
    for (uint32_t i = 0; result == 0 && i < f.n_files; i++)
        f.file[i].unnamed = false;
    return result;
}

static int fake_space(struct ses_disk *d, const char *path, uint64_t *bytes) {
    int result = ses_disk_folder_space(d, path, bytes);
    if (f.faults.space != 0)
        *bytes = f.faults.space;
    return result;
}

static void remember(const struct ses_disk_op *op) {
    EXPECT(f.n_undo < UNDO_MAX);
    struct undo *u = &f.undo[f.n_undo++];
    *u = (struct undo){.fd = op->fd, .offset = op->offset};
    for (uint32_t i = 0; i < op->n_parts; i++)
        u->bytes += op->part[i].iov_len;
    int fd = open(path_of(op->fd), O_RDONLY);
    if (fd < 0) { /* somebody removed it */
        f.n_undo--;
        return;
    }
    u->old = calloc(1, u->bytes);
    EXPECT(pread(fd, u->old, u->bytes, (off_t)u->offset) >= 0);
    close(fd);
}

static void forget_undo(int fd) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f.n_undo; i++)
        if (f.undo[i].fd == fd)
            free(f.undo[i].old);
        else
            f.undo[kept++] = f.undo[i];
    f.n_undo = kept;
}

static int64_t transfer(struct ses_disk_op *op) {
    int error = op->kind != SES_DISK_READ ? point() : f.dead ? -EIO : 0;
    if (error != 0)
        return error;
    if (f.faults.io_error > 0 && below(1000) < f.faults.io_error)
        return -EIO;
    if (op->kind == SES_DISK_WRITE)
        remember(op);
    int64_t n = ses_disk_transfer(op);
    if (op->kind == SES_DISK_SYNC && n == 0)
        forget_undo(op->fd);
    if (n > 0 && f.faults.shorter > 0 && below(1000) < f.faults.shorter)
        n = below((uint32_t)n);
    return n;
}

static void fake_submit(struct ses_disk *d, struct ses_disk_op *op) {
    (void)d;
    EXPECT(f.n_done < SES_DISK_DEPTH);
    op->result = transfer(op);
    f.done[f.n_done++] = op;
}

static struct ses_disk_op *fake_wait(struct ses_disk *d) {
    (void)d;
    EXPECT(f.n_done > 0);
    uint32_t i = below(f.n_done); /* in any order */
    struct ses_disk_op *op = f.done[i];
    f.done[i] = f.done[--f.n_done];
    return op;
}

static int fake_commit(struct ses_disk *d, bool before) {
    (void)d;
    int error = point();
    return before || f.dead ? error : 0; /* behind a commit only the power can go */
}

static void fake_close(struct ses_disk *d) {
    (void)d;
    while (f.n_undo > 0)
        free(f.undo[--f.n_undo].old);
    f.n_files = f.n_done = 0;
}

static const struct ses_disk_ops fake_ops = {.create = fake_create,
                                             .open = fake_open,
                                             .remove = fake_remove,
                                             .sync_folder = fake_sync_folder,
                                             .space = fake_space,
                                             .submit = fake_submit,
                                             .wait = fake_wait,
                                             .commit = fake_commit,
                                             .close = fake_close};

void fake_disk_clear(const char *folder) {
    char path[600];
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (unlink(path) != 0) {
            fake_disk_clear(path);
            rmdir(path);
        }
    }
    if (d != NULL)
        closedir(d);
}

struct ses_disk *fake_disk_open(void) {
    f.disk = (struct ses_disk){.ops = &fake_ops, .name = "a disk of the tests"};
    return &f.disk;
}
