/* SPDX-License-Identifier: Apache-2.0
 * Pages that are read in pieces: those asked for first come first, the first long before the last
 * is read; a bad byte or a read that fails in any piece is that page's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sessions/store_rig.h"

enum { HOST = 65536, PIECE = 4096, PIECES = HOST / PIECE, SLOTS = 8, TOKENS = 8 };

/* The plain disk, asked one thing after the other in the order in which they were submitted. */
static struct fifo {
    struct ses_disk disk, *below;
    struct ses_disk_op *op[SES_DISK_DEPTH];
    uint32_t first, n, reads;
    uint64_t fail_at; /* this read fails, counted from 1; 0: none */
} fifo;

static int fifo_create(struct ses_disk *d, const char *path, uint64_t bytes) {
    (void)d;
    return fifo.below->ops->create(fifo.below, path, bytes);
}

static int fifo_open(struct ses_disk *d, const char *path) {
    (void)d;
    return fifo.below->ops->open(fifo.below, path);
}

static int fifo_remove(struct ses_disk *d, const char *path) {
    (void)d;
    return fifo.below->ops->remove(fifo.below, path);
}

static int fifo_sync_folder(struct ses_disk *d, const char *path) {
    (void)d;
    return fifo.below->ops->sync_folder(fifo.below, path);
}

static int fifo_space(struct ses_disk *d, const char *path, uint64_t *bytes) {
    (void)d;
    return fifo.below->ops->space(fifo.below, path, bytes);
}

static void fifo_submit(struct ses_disk *d, struct ses_disk_op *op) {
    (void)d;
    EXPECT(fifo.n < SES_DISK_DEPTH);
    fifo.op[(fifo.first + fifo.n++) % SES_DISK_DEPTH] = op;
    fifo.reads += op->kind == SES_DISK_READ;
    if (op->kind == SES_DISK_READ && fifo.reads == fifo.fail_at)
        op->fd = -1;
}

static struct ses_disk_op *fifo_wait(struct ses_disk *d) {
    (void)d;
    EXPECT(fifo.n > 0);
    struct ses_disk_op *op = fifo.op[fifo.first];
    fifo.first = (fifo.first + 1) % SES_DISK_DEPTH;
    fifo.n--;
    op->result = op->fd < 0 && op->kind == SES_DISK_READ ? -EIO : ses_disk_transfer(op);
    return op;
}

static int fifo_commit(struct ses_disk *d, bool before) {
    (void)d;
    return fifo.below->ops->commit(fifo.below, before);
}

static void fifo_close(struct ses_disk *d) {
    (void)d;
    fifo.below->ops->close(fifo.below);
}

static const struct ses_disk_ops fifo_ops = {.create = fifo_create,
                                             .open = fifo_open,
                                             .remove = fifo_remove,
                                             .sync_folder = fifo_sync_folder,
                                             .space = fifo_space,
                                             .submit = fifo_submit,
                                             .wait = fifo_wait,
                                             .commit = fifo_commit,
                                             .close = fifo_close};

/* What the store answered, in order. */
static struct seen {
    uint32_t n, slot[SLOTS], reads[SLOTS];
    enum status status[SLOTS];
} seen;

static void on_stored(void *self, uint32_t slot, enum status status) {
    (void)self;
    (void)slot;
    EXPECT_EQ((int)status, STATUS_OK);
}

static void on_loaded(void *self, uint32_t slot, enum status status) {
    (void)self;
    EXPECT(seen.n < SLOTS);
    seen.slot[seen.n] = slot;
    seen.reads[seen.n] = fifo.reads;
    seen.status[seen.n++] = status;
}

static unsigned char *host;
static char folder[64];

static void fill(uint32_t slot) {
    for (uint32_t i = 0; i < HOST; i++)
        host[slot * HOST + i] = (unsigned char)(i / 256 * 7 + i * 13 + slot * 31);
}

static bool right(uint32_t slot) {
    static unsigned char there[HOST];
    memcpy(there, host + slot * HOST, HOST);
    fill(slot);
    return memcmp(there, host + slot * HOST, HOST) == 0;
}

static struct ses_store *open_store(void) {
    struct status_note note;
    struct ses_store *s;
    memset(&fifo, 0, sizeof fifo);
    fifo.disk = (struct ses_disk){.ops = &fifo_ops, .name = "fifo"};
    EXPECT_FINE(ses_disk_plain_open(&fifo.below, &note) == STATUS_OK, note);
    struct ses_store_config c = {.folder = folder,
                                 .disk = &fifo.disk,
                                 .budget = 32 << 20,
                                 .key = rig_key(1),
                                 .text = "a model of the tests",
                                 .profile = {.name = "tests", .version = 1, .virtual_ranks = 4},
                                 .page_tokens = TOKENS,
                                 .page_bytes = HOST,
                                 .host = host,
                                 .host_bytes = HOST,
                                 .n_host = SLOTS,
                                 .piece_bytes = PIECE,
                                 .n_numbers = SLOTS};
    EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
    EXPECT_FINE(ses_store_settle(s, &note) == STATUS_OK, note);
    static const struct ses_store_answers to = {.stored = on_stored, .loaded = on_loaded};
    ses_store_answer_to(s, &to);
    return s;
}

static struct ses_store *with_records(void) {
    void *map = NULL;
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-load-XXXXXX" : "/tmp/rh-load-XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    EXPECT_EQ(posix_memalign(&map, SES_DISK_BLOCK, SLOTS * HOST), 0);
    host = map;
    struct ses_store *s = open_store();
    struct ses_key key = rig_key(1);
    static uint32_t tokens[SLOTS][TOKENS];
    static struct ses_record record[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        fill(i);
        tokens[i][0] = i;
        record[i] = (struct ses_record){.space = ses_space_of(&key, 1),
                                        .name = {{i + 1, 77}},
                                        .n_tokens = TOKENS,
                                        .tokens = tokens[i]};
        ses_store_put(s, &record[i], i, i);
    }
    while (ses_store_cycle(s))
        ;
    return s;
}

static void all_over(struct ses_store *s) {
    ses_store_close(s);
    fake_disk_clear(folder);
    rmdir(folder);
    free(host);
}

static void load_all(struct ses_store *s) {
    memset(&seen, 0, sizeof seen);
    memset(host, 0, SLOTS * HOST);
    fifo.reads = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        ses_store_get(s, i, i);
    while (ses_store_cycle(s))
        ;
    EXPECT_EQ(seen.n, SLOTS);
}

START_TEST(test_pages_come_in_order) {
    struct ses_store *s = with_records();
    load_all(s);
    EXPECT_EQ(fifo.reads, SLOTS * PIECES);
    for (uint32_t i = 0; i < SLOTS; i++) {
        EXPECT_EQ(seen.slot[i], i);
        EXPECT_EQ((int)seen.status[i], STATUS_OK);
        EXPECT(right(i));
        /* It was handed on with no more asked for than may be under way behind it. */
        EXPECT(seen.reads[i] <= (i + 1) * PIECES + SES_STORE_BATCH);
    }
    all_over(s);
}
END_TEST

/* Slot 2's record is the third of the only segment. */
START_TEST(test_a_bad_byte_in_any_piece) {
    struct ses_store *s = with_records();
    char path[96];
    snprintf(path, sizeof path, "%s/segment-00001", folder);
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0);
    for (uint32_t piece = 0; piece < PIECES; piece++) {
        off_t at = 2 * (SES_DISK_BLOCK + HOST) + SES_DISK_BLOCK + (off_t)piece * PIECE + 5;
        unsigned char byte, flipped;
        EXPECT(pread(fd, &byte, 1, at) == 1);
        flipped = byte ^ 16;
        EXPECT(pwrite(fd, &flipped, 1, at) == 1);
        load_all(s);
        EXPECT(pwrite(fd, &byte, 1, at) == 1);
        for (uint32_t i = 0; i < SLOTS; i++) {
            EXPECT_EQ((int)seen.status[i], seen.slot[i] == 2 ? STATUS_BAD_FILE : STATUS_OK);
            EXPECT(seen.slot[i] == 2 || right(seen.slot[i]));
        }
    }
    close(fd);
    all_over(s);
}
END_TEST

START_TEST(test_a_read_that_fails_in_any_piece) {
    struct ses_store *s = with_records();
    for (uint32_t piece = 0; piece < PIECES; piece++) {
        fifo.fail_at = PIECES + piece + 1; /* of slot 1 */
        load_all(s);
        for (uint32_t i = 0; i < SLOTS; i++)
            EXPECT_EQ((int)seen.status[i], seen.slot[i] == 1 ? STATUS_IO : STATUS_OK);
        EXPECT(fifo.reads <= SLOTS * PIECES);
    }
    fifo.fail_at = 0;
    load_all(s);
    for (uint32_t i = 0; i < SLOTS; i++)
        EXPECT(seen.status[i] == STATUS_OK && right(i));
    all_over(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/store_load");
    TCase *tcase = tcase_create("load");
    tcase_add_test(tcase, test_pages_come_in_order);
    tcase_add_test(tcase, test_a_bad_byte_in_any_piece);
    tcase_add_test(tcase, test_a_read_that_fails_in_any_piece);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
