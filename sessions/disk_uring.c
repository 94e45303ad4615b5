/* SPDX-License-Identifier: Apache-2.0
 * The disk through io_uring.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "sessions/disk.h"

struct uring {
    struct ses_disk disk;
    struct io_uring ring;
    uint32_t n;
};

static void uring_submit(struct ses_disk *d, struct ses_disk_op *op) {
    struct uring *u = (struct uring *)d;
    CHECK(u->n < SES_DISK_DEPTH);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    CHECK(sqe != NULL); /* as many entries as there may be under way */
    if (op->kind == SES_DISK_SYNC)
        io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
    else if (op->kind == SES_DISK_READ)
        io_uring_prep_readv(sqe, op->fd, op->part, op->n_parts, op->offset);
    else
        io_uring_prep_writev(sqe, op->fd, op->part, op->n_parts, op->offset);
    io_uring_sqe_set_data(sqe, op);
    u->n++;
    /* What the kernel does not take now goes with the next one, or with wait. */
    io_uring_submit(&u->ring);
}

static struct ses_disk_op *uring_wait(struct ses_disk *d) {
    struct uring *u = (struct uring *)d;
    struct io_uring_cqe *cqe = NULL;
    CHECK(u->n > 0);
    while (io_uring_submit(&u->ring), io_uring_wait_cqe(&u->ring, &cqe) < 0)
        ;
    struct ses_disk_op *op = io_uring_cqe_get_data(cqe);
    op->result = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    u->n--;
    if (op->result == -EAGAIN || op->result == -EINTR) /* it may be done the plain way */
        op->result = ses_disk_transfer(op);
    return op;
}

static void uring_close(struct ses_disk *d) {
    struct uring *u = (struct uring *)d;
    io_uring_queue_exit(&u->ring);
    free(u);
}

static const struct ses_disk_ops uring_ops = {.create = ses_disk_file_create,
                                              .open = ses_disk_file_open,
                                              .remove = ses_disk_file_remove,
                                              .sync_folder = ses_disk_folder_sync,
                                              .space = ses_disk_folder_space,
                                              .submit = uring_submit,
                                              .wait = uring_wait,
                                              .commit = ses_disk_commit,
                                              .close = uring_close};

enum status ses_disk_uring_open(struct ses_disk **out, struct status_note *note) {
    struct uring *u = calloc(1, sizeof *u);
    *out = NULL;
    if (u == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the disk");
    int error = io_uring_queue_init(SES_DISK_DEPTH, &u->ring, 0);
    if (error < 0) {
        free(u);
        return status_say(note, STATUS_UNSUPPORTED, "no io_uring here: %s", strerror(-error));
    }
    u->disk = (struct ses_disk){.ops = &uring_ops, .name = "io_uring"};
    *out = &u->disk;
    return STATUS_OK;
}
