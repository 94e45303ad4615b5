/* SPDX-License-Identifier: Apache-2.0
 * The store under cuts of power and kill -9 at every point of its work, bad disks, flipped bits,
 * and other people's directories. What it said it stored is there and right after any of it;
 * what it gives back verifies; what cannot be had is a counted cause.
 */
#include "sessions/store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sessions/expect.h"
#include "tests/sessions/fake_disk.h"

enum { KEYS = 64, SLOTS = 8, TOKENS = 8, PAGE = 5000, HOST = 8192, NUMBERS = 96 };

enum key_state { ABSENT, PUTTING, HELD, ERASING, UNSURE };

/* Shared with a child that is killed. */
struct truth {
    struct {
        enum key_state state;
        uint32_t version, number;
        uint64_t use; /* it was marked with last */
    } key[KEYS];
    uint64_t points, puts, gets, erases;
    struct ses_store_counts counts;
};

static struct truth *truth;
static struct {
    char folder[64];
    unsigned char *host;
    struct ses_store *store;
    uint32_t slot_key[SLOTS], number_key[NUMBERS];
    bool slot_busy[SLOTS], number_busy[NUMBERS];
    uint32_t tokens[SLOTS][TOKENS];
    struct ses_record record[SLOTS];
    uint64_t rng;
    bool settled; /* failures say that nothing happened, not that nobody knows */
    uint64_t bad_loads, good_loads, failed_puts;
} w;

static uint32_t below(uint32_t n) {
    w.rng = w.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w.rng >> 33) % n);
}

static void fill(unsigned char *page, uint32_t key, uint32_t version) {
    uint64_t x = (uint64_t)key << 32 | version;
    for (uint32_t i = 0; i < PAGE; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        page[i] = (unsigned char)(x >> 56);
    }
    memset(page + PAGE, 0, HOST - PAGE);
}

static bool right(const unsigned char *page, uint32_t key, uint32_t version) {
    static unsigned char want[HOST];
    fill(want, key, version);
    return memcmp(page, want, HOST) == 0;
}

static struct ses_key the_key(uint32_t model) {
    return (struct ses_key){.fingerprint = {model, 1}, .profile = 2, .world = 1};
}

static void record_of(uint32_t key, uint32_t slot) {
    struct ses_space space;
    struct ses_key k = the_key(1);
    space = ses_space_of(&k, key % 3);
    for (uint32_t i = 0; i < TOKENS; i++)
        w.tokens[slot][i] = key * 100 + i;
    w.record[slot] = (struct ses_record){.space = space,
                                         .name = {{key * 0x9e3779b97f4a7c15u, key}},
                                         .depth = key % 4,
                                         .n_tokens = 1 + key % TOKENS,
                                         .tokens = w.tokens[slot]};
}

static void on_stored(void *self, uint32_t slot, enum status status) {
    (void)self;
    uint32_t key = w.slot_key[slot];
    EXPECT(w.slot_busy[slot] && truth->key[key].state == PUTTING);
    w.slot_busy[slot] = false;
    if (status == STATUS_OK) {
        truth->key[key].state = HELD;
        truth->puts++;
        return;
    }
    w.failed_puts++;
    truth->key[key].state = w.settled ? ABSENT : UNSURE;
    w.number_busy[truth->key[key].number] = false;
}

static void on_loaded(void *self, uint32_t slot, enum status status) {
    (void)self;
    uint32_t key = w.slot_key[slot];
    EXPECT(w.slot_busy[slot]);
    w.slot_busy[slot] = false;
    w.good_loads += status == STATUS_OK;
    w.bad_loads += status != STATUS_OK;
    if (status == STATUS_OK)
        EXPECT(right(w.host + slot * HOST, key, truth->key[key].version));
    truth->gets++;
}

static void on_erased(void *self, uint32_t number) {
    (void)self;
    uint32_t key = w.number_key[number];
    EXPECT(w.number_busy[number] && truth->key[key].state == ERASING);
    truth->key[key].state = ABSENT;
    w.number_busy[number] = false;
    truth->erases++;
}

static struct ses_store_config config_of(uint32_t model) {
    return (struct ses_store_config){.folder = w.folder,
                                     .disk = fake_disk_open(),
                                     .budget = 1 << 20,
                                     .segment_bytes = 4 * (4096 + HOST),
                                     .key = the_key(model),
                                     .text = "a model of the tests",
                                     .page_tokens = TOKENS,
                                     .page_bytes = PAGE,
                                     .host = w.host,
                                     .host_bytes = HOST,
                                     .n_host = SLOTS,
                                     .n_numbers = NUMBERS};
}

/* Opens it and binds everything that it knows; false: the power went. */
static bool store_begin(void) {
    struct status_note note = {{0}};
    struct ses_store_config c = config_of(1);
    enum status s = ses_store_open(&c, &w.store, &note);
    memset(w.slot_busy, 0, sizeof w.slot_busy);
    memset(w.number_busy, 0, sizeof w.number_busy);
    if (s != STATUS_OK && fake_disk_dead())
        return false;
    EXPECT_FINE(s == STATUS_OK, note);
    static const struct ses_store_answers answers = {
        .stored = on_stored, .loaded = on_loaded, .erased = on_erased};
    ses_store_answer_to(w.store, &answers);
    bool there[KEYS] = {false};
    uint64_t missing = 0;
    for (uint32_t i = 0; i < ses_store_n_found(w.store); i++) {
        const struct ses_record *r = ses_store_found(w.store, i);
        uint32_t key = (uint32_t)r->name.word[1];
        EXPECT(key < KEYS && !there[key]);
        EXPECT(r->tokens[0] == key * 100 && r->n_tokens == 1 + key % TOKENS);
        EXPECT(truth->key[key].state != ABSENT);
        EXPECT(r->use <= truth->key[key].use && r->flags <= SES_RECORD_PINNED);
        there[key] = true;
        truth->key[key].number = i;
        w.number_key[i] = key;
        w.number_busy[i] = true;
        ses_store_bind(w.store, i, i);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        missing += !there[key] && truth->key[key].state == HELD;
        truth->key[key].state = there[key] ? HELD : ABSENT;
    }
    EXPECT(missing <= truth->counts.dropped); /* what was acknowledged is there */
    s = ses_store_settle(w.store, &note);
    EXPECT(s == STATUS_OK || fake_disk_dead());
    return true;
}

static bool cycle(void) {
    return ses_store_cycle(w.store);
}

static void finish(void) {
    for (uint32_t i = 0; cycle(); i++)
        EXPECT(i < 100000);
}

static void act(void) {
    uint32_t slot = below(SLOTS), key = below(KEYS), number = below(NUMBERS);
    enum key_state state = truth->key[key].state;
    if (w.slot_busy[slot])
        return;
    for (uint32_t i = 0; i < SLOTS; i++) /* one thing at a time with a key */
        if (w.slot_busy[i] && w.slot_key[i] == key)
            return;
    if (state == ABSENT && !w.number_busy[number]) {
        truth->key[key].state = PUTTING;
        truth->key[key].version++;
        truth->key[key].number = number;
        record_of(key, slot);
        fill(w.host + slot * HOST, key, truth->key[key].version);
        w.slot_key[slot] = key;
        w.slot_busy[slot] = true;
        w.number_busy[number] = true;
        w.number_key[number] = key;
        ses_store_put(w.store, &w.record[slot], number, slot);
    } else if (state == HELD && below(4) == 0) {
        ses_store_mark(w.store, truth->key[key].number, ++truth->key[key].use, below(2));
    } else if (state == HELD && below(3) > 0) {
        w.slot_key[slot] = key;
        w.slot_busy[slot] = true;
        memset(w.host + slot * HOST, 0xee, HOST);
        ses_store_get(w.store, truth->key[key].number, slot);
    } else if (state == HELD) {
        truth->key[key].state = ERASING;
        ses_store_erase(w.store, truth->key[key].number);
    }
}

static void work(uint32_t steps) {
    for (uint32_t i = 0; i < steps && !fake_disk_dead(); i++) {
        act();
        if (below(3) == 0)
            cycle();
    }
}

static void store_end(void) {
    if (w.store == NULL)
        return;
    ses_store_count(w.store, &truth->counts);
    ses_store_close(w.store);
    w.store = NULL;
}

static void world_begin(uint64_t seed) {
    if (truth == NULL) {
        truth =
            mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        w.host =
            mmap(NULL, SLOTS * HOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        /* Thousands of syncs: in memory where that is possible. */
        strcpy(w.folder,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-store-XXXXXX" : "/tmp/rh-store-XXXXXX");
        EXPECT(truth != MAP_FAILED && w.host != MAP_FAILED && mkdtemp(w.folder) != NULL);
    }
    fake_disk_clear(w.folder);
    memset(truth, 0, sizeof *truth);
    w.rng = seed * 2 + 1;
    w.settled = false;
    w.bad_loads = w.good_loads = w.failed_puts = 0;
}

static void world_end(void) {
    fake_disk_clear(w.folder);
    rmdir(w.folder);
    truth = NULL;
}

/* A last look: all that is held reads back right. */
static void read_back(void) {
    struct fake_disk_faults none = {.seed = 1};
    fake_disk_set(&none);
    EXPECT(store_begin());
    uint64_t bad = w.bad_loads;
    for (uint32_t key = 0; key < KEYS; key++) {
        if (truth->key[key].state != HELD)
            continue;
        w.slot_key[0] = key;
        w.slot_busy[0] = true;
        ses_store_get(w.store, truth->key[key].number, 0);
        finish();
    }
    EXPECT_EQ(w.bad_loads, bad);
    store_end();
}

START_TEST(test_power_cut_at_every_point) {
    uint64_t compacted = 0, cuts = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fake_disk_faults none = {.seed = seed};
        world_begin(seed);
        fake_disk_set(&none);
        EXPECT(store_begin());
        work(400);
        finish();
        uint64_t points = fake_disk_points();
        store_end();
        compacted += truth->counts.compactions;
        for (uint64_t cut = 1 + seed % 3; cut <= points; cut += 3) {
            struct fake_disk_faults faults = {.seed = seed * 1000 + cut, .cut_at = cut};
            world_begin(seed);
            fake_disk_set(&faults);
            if (store_begin())
                work(400);
            if (!fake_disk_dead())
                finish();
            store_end();
            cuts += fake_disk_dead();
            read_back();
        }
    }
    EXPECT(compacted > 0 && cuts > 400);
    world_end();
}
END_TEST

START_TEST(test_killed_at_every_point) {
    uint64_t killed = 0;
    world_begin(11);
    struct fake_disk_faults none = {.seed = 11};
    fake_disk_set(&none);
    EXPECT(store_begin());
    work(500);
    finish();
    uint64_t points = fake_disk_points();
    store_end();
    EXPECT(truth->counts.compactions > 0);
    for (uint64_t at = 1; at <= points; at++) {
        world_begin(11);
        struct fake_disk_faults faults = {.seed = 11, .cut_at = at, .kill = true};
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            fake_disk_set(&faults);
            if (store_begin())
                work(500);
            finish();
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        killed += WIFSIGNALED(status) != 0;
        read_back();
    }
    EXPECT(killed > 200);
    world_end();
}
END_TEST

START_TEST(test_bad_disks) {
    uint64_t errors = 0, shorter = 0, failed = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        world_begin(seed);
        struct fake_disk_faults good = {.seed = seed};
        fake_disk_set(&good);
        EXPECT(store_begin());
        struct fake_disk_faults faults = {.seed = seed,
                                          .io_error = seed % 3 == 0 ? 60 : 0,
                                          .shorter = seed % 3 == 1 ? 300 : 0,
                                          .no_space = seed % 3 == 2 ? 500 : 0};
        fake_disk_set(&faults);
        w.settled = true;
        work(500);
        finish();
        failed += w.failed_puts;
        ses_store_count(w.store, &truth->counts);
        errors += truth->counts.io_errors;
        shorter += truth->counts.short_reads;
        store_end();
        read_back();
    }
    EXPECT(errors > 100 && shorter > 500 && failed > 50);
    world_end();
}
END_TEST

/* The budget and the floor are kept before anything is written. */
START_TEST(test_budget_and_floor) {
    world_begin(5);
    struct fake_disk_faults faults = {.seed = 5, .space = 100 << 10};
    fake_disk_set(&faults);
    w.settled = true;
    struct ses_store_config c = config_of(1);
    c.floor = 10 << 10;
    struct status_note note;
    EXPECT(
        store_begin()); /* no floor: two segments fit in what is said to be free, again and again */
    work(300);
    finish();
    struct ses_store_counts counts;
    ses_store_count(w.store, &counts);
    EXPECT(counts.bytes <= c.budget && counts.stored > 50 && counts.refused == 0);
    store_end();
    world_begin(6);
    faults.space = 4 * (4096 + HOST) + (10 << 10) - 1; /* one byte less than a segment needs */
    fake_disk_set(&faults);
    w.settled = true;
    EXPECT_FINE(ses_store_open(&c, &w.store, &note) == STATUS_OK, note);
    EXPECT_FINE(ses_store_settle(w.store, &note) == STATUS_OK, note);
    static const struct ses_store_answers answers = {
        .stored = on_stored, .loaded = on_loaded, .erased = on_erased};
    ses_store_answer_to(w.store, &answers);
    memset(w.slot_busy, 0, sizeof w.slot_busy);
    memset(w.number_busy, 0, sizeof w.number_busy);
    work(100);
    finish();
    ses_store_count(w.store, &counts);
    EXPECT(counts.bytes == 0 && counts.stored == 0 && counts.refused > 0);
    store_end();
    c.disk = fake_disk_open();
    c.budget = 50000;
    ck_assert_int_eq(ses_store_open(&c, &w.store, &note), STATUS_TOO_LARGE);
    ck_assert(strstr(note.text, "too small") != NULL);
    world_end();
}
END_TEST

static void some_records(void) {
    struct fake_disk_faults none = {.seed = 3};
    world_begin(3);
    fake_disk_set(&none);
    EXPECT(store_begin());
    for (uint32_t i = 0; i < 40; i++)
        act();
    finish();
    store_end();
}

static void read_all(void) {
    struct fake_disk_faults none = {.seed = 3};
    fake_disk_set(&none);
    EXPECT(store_begin());
    w.good_loads = w.bad_loads = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        if (truth->key[key].state != HELD)
            continue;
        w.slot_key[0] = key;
        w.slot_busy[0] = true;
        ses_store_get(w.store, truth->key[key].number, 0);
        finish();
    }
    ses_store_count(w.store, &truth->counts);
    store_end();
}

static int segment_open(uint32_t n, uint64_t *bytes) {
    char path[128];
    struct stat s;
    snprintf(path, sizeof path, "%s/segment-%05u", w.folder, n);
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0 && fstat(fd, &s) == 0);
    *bytes = (uint64_t)s.st_size;
    return fd;
}

/* One bit anywhere in a record, header, tokens, page and padding: that record and no other is
 * bad. */
START_TEST(test_flipped_bits) {
    some_records();
    read_all();
    uint64_t all = w.good_loads, bytes, flips = 0;
    EXPECT(all > 4 && w.bad_loads == 0);
    int fd = segment_open(1, &bytes);
    for (uint64_t at = 0; at < 4096 + HOST; at += at < 160 || (at > 4090 && at < 4110) ? 1 : 97) {
        unsigned char byte, flipped;
        EXPECT(pread(fd, &byte, 1, (off_t)at) == 1);
        flipped = byte ^ (unsigned char)(1u << at % 8);
        EXPECT(pwrite(fd, &flipped, 1, (off_t)at) == 1);
        read_all();
        EXPECT_EQ(w.bad_loads, 1);
        EXPECT_EQ(w.good_loads, all - 1);
        EXPECT_EQ(truth->counts.bad_header + truth->counts.bad_sum, 1);
        EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1);
        flips++;
    }
    close(fd);
    EXPECT(flips > 250);
    read_all();
    EXPECT_EQ(w.good_loads, all);
    world_end();
}
END_TEST

/* An index that is newer than its data: segments cut short or gone, or swapped. */
START_TEST(test_lost_segments) {
    char path[128], other[128];
    uint64_t bytes;
    some_records();
    read_all();
    uint64_t all = w.good_loads;
    int fd = segment_open(1, &bytes);
    EXPECT(ftruncate(fd, 4096 + HOST) == 0);
    close(fd);
    for (uint32_t key = 0; key < KEYS; key++) /* nothing is promised of what lay there */
        if (truth->key[key].state == HELD)
            truth->key[key].state = UNSURE;
    read_all();
    EXPECT(w.good_loads >= 1 && w.good_loads < all && w.bad_loads == 0);
    EXPECT_EQ(truth->counts.lost_segments, all - w.good_loads);
    read_all(); /* they were removed from the index: counted once */
    EXPECT_EQ(truth->counts.lost_segments, 0);
    some_records();
    snprintf(path, sizeof path, "%s/segment-%05d", w.folder, 1);
    snprintf(other, sizeof other, "%s/segment-%05d", w.folder, 2);
    EXPECT(rename(path, other) == 0);
    for (uint32_t key = 0; key < KEYS; key++)
        if (truth->key[key].state == HELD)
            truth->key[key].state = UNSURE;
    read_all();
    EXPECT(truth->counts.lost_segments > 0 && w.bad_loads > 0 && w.good_loads == 0);
    EXPECT_EQ(truth->counts.bad_header, w.bad_loads);
    world_end();
}
END_TEST

START_TEST(test_other_directories) {
    struct status_note note;
    struct ses_store *second;
    char path[128];
    some_records();
    struct fake_disk_faults none = {.seed = 3};
    fake_disk_set(&none);
    EXPECT(store_begin());
    struct ses_store_config c = config_of(1);
    c.disk = NULL;
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_DUPLICATE);
    ck_assert(strstr(note.text, "in use by another server") != NULL);
    store_end();
    snprintf(path, sizeof path, "%s/format", w.folder);
    FILE *f = fopen(path, "w");
    fputs("roundhouse session store, format 2\n", f);
    fclose(f);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    ck_assert(strstr(note.text, "format 2") != NULL);
    unlink(path);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    ck_assert(strstr(note.text, "no session store and not empty") != NULL);
    c.folder = "/proc/nobody";
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_IO);
    world_end();
}
END_TEST

static bool count_marks(void *self, const struct ses_record *r, const struct ses_where *where,
                        uint32_t flags) {
    uint32_t *n = self, key = (uint32_t)r->name.word[1];
    (void)where;
    *n += r->use == 1000 + key && flags == key % 2;
    return true;
}

/* Another model's records stay, are told of, and give way when room is needed. */
START_TEST(test_other_keys) {
    struct status_note note;
    struct ses_store *s;
    some_records();
    struct ses_store_counts counts;
    struct ses_store_config c = config_of(2);
    EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
    EXPECT_EQ(ses_store_n_found(s), 0);
    ses_store_count(s, &counts);
    EXPECT(counts.found_other > 4);
    EXPECT_FINE(ses_store_settle(s, &note) == STATUS_OK, note);
    ses_store_close(s);
    read_all();
    EXPECT(w.good_loads > 4 && w.bad_loads == 0);
    world_end();
}
END_TEST

/* Use and pins are there after a restart: a changed pin at once, use with what is committed next,
 * whatever a compaction moved meanwhile. */
START_TEST(test_marks) {
    some_records();
    struct fake_disk_faults none = {.seed = 4};
    fake_disk_set(&none);
    EXPECT(store_begin());
    uint32_t marked = 0;
    for (uint32_t key = 0; key < KEYS; key++)
        if (truth->key[key].state == HELD) {
            truth->key[key].use = 1000 + key;
            ses_store_mark(w.store, truth->key[key].number, 1000 + key, key % 2);
            marked++;
        }
    finish();
    store_end();
    EXPECT(marked > 4 && truth->counts.marks >= marked);
    for (int round = 0; round < 2; round++) {
        EXPECT(store_begin());
        store_end();
        struct ses_index *index;
        struct status_note note;
        char path[128];
        snprintf(path, sizeof path, "%s/index", w.folder);
        EXPECT_FINE(ses_index_open(path, true, &index, &note) == STATUS_OK, note);
        uint64_t bad = 0;
        uint32_t right_marks = 0;
        EXPECT_FINE(ses_index_each(index, &right_marks, count_marks, &bad, &note) == STATUS_OK,
                    note);
        ses_index_close(index);
        EXPECT_EQ(right_marks, marked);
        EXPECT_EQ(bad, 0);
    }
    /* Only use changed: nothing is written for it, until the end is near. */
    EXPECT(store_begin());
    for (uint32_t key = 0; key < KEYS; key++)
        if (truth->key[key].state == HELD) {
            truth->key[key].use = 2000;
            ses_store_mark(w.store, truth->key[key].number, 2000, key % 2);
        }
    EXPECT(!cycle());
    ses_store_marks_now(w.store);
    finish();
    struct ses_store_counts counts;
    ses_store_count(w.store, &counts);
    EXPECT_EQ(counts.marks, marked);
    store_end();
    world_end();
}
END_TEST

/* Both real disks: the same answers. */
START_TEST(test_real_disks) {
    for (int kind = 0; kind < 2; kind++) {
        struct status_note note;
        world_begin(9);
        struct ses_store_config c = config_of(1);
        enum status status =
            kind == 0 ? ses_disk_plain_open(&c.disk, &note) : ses_disk_uring_open(&c.disk, &note);
        if (kind == 1 && status == STATUS_UNSUPPORTED)
            continue; /* a kernel that refuses it: the other one serves */
        EXPECT_FINE(status == STATUS_OK, note);
        EXPECT_FINE(ses_store_open(&c, &w.store, &note) == STATUS_OK, note);
        EXPECT_FINE(ses_store_settle(w.store, &note) == STATUS_OK, note);
        static const struct ses_store_answers answers = {
            .stored = on_stored, .loaded = on_loaded, .erased = on_erased};
        ses_store_answer_to(w.store, &answers);
        memset(w.slot_busy, 0, sizeof w.slot_busy);
        memset(w.number_busy, 0, sizeof w.number_busy);
        struct fake_disk_faults none = {.seed = 9};
        fake_disk_set(&none);
        work(1500);
        finish();
        EXPECT(truth->puts > 100 && truth->gets > 100 && truth->erases > 50);
        EXPECT(w.bad_loads == 0 && w.failed_puts == 0);
        store_end();
        EXPECT(truth->counts.compactions > 0);
        read_back();
    }
    world_end();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/store");
    TCase *tcase = tcase_create("store");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_real_disks);
    tcase_add_test(tcase, test_power_cut_at_every_point);
    tcase_add_test(tcase, test_killed_at_every_point);
    tcase_add_test(tcase, test_bad_disks);
    tcase_add_test(tcase, test_budget_and_floor);
    tcase_add_test(tcase, test_flipped_bits);
    tcase_add_test(tcase, test_lost_segments);
    tcase_add_test(tcase, test_other_directories);
    tcase_add_test(tcase, test_other_keys);
    tcase_add_test(tcase, test_marks);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
