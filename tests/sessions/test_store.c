/* SPDX-License-Identifier: Apache-2.0
 * The store under cuts of power and kill -9 at every point of its work, bad disks, flipped bits,
 * and other people's directories. What it said it stored is there and right after any of it;
 * what it gives back verifies; what cannot be had is a counted cause.
 */
#include "sessions/query.h"
#include "tests/sessions/store_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(test_power_cut_at_every_point) {
    uint64_t compacted = 0, cuts = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fake_disk_faults none = {.seed = seed};
        rig_world_begin(seed);
        fake_disk_set(&none);
        EXPECT(rig_begin());
        rig_work(400);
        rig_finish();
        uint64_t points = fake_disk_points();
        rig_end();
        compacted += truth->counts.compactions;
        for (uint64_t cut = 1 + seed % 3; cut <= points; cut += 3) {
            struct fake_disk_faults faults = {.seed = seed * 1000 + cut, .cut_at = cut};
            rig_world_begin(seed);
            fake_disk_set(&faults);
            if (rig_begin())
                rig_work(400);
            if (!fake_disk_dead())
                rig_finish();
            rig_end();
            cuts += fake_disk_dead();
            rig_read_back();
        }
    }
    EXPECT(compacted > 0 && cuts > 400);
    rig_world_end();
}
END_TEST

START_TEST(test_killed_at_every_point) {
    uint64_t killed = 0;
    rig_world_begin(11);
    struct fake_disk_faults none = {.seed = 11};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    rig_work(500);
    rig_finish();
    uint64_t points = fake_disk_points();
    rig_end();
    EXPECT(truth->counts.compactions > 0);
    for (uint64_t at = 1; at <= points; at++) {
        rig_world_begin(11);
        struct fake_disk_faults faults = {.seed = 11, .cut_at = at, .kill = true};
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            fake_disk_set(&faults);
            if (rig_begin())
                rig_work(500);
            rig_finish();
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        killed += WIFSIGNALED(status) != 0;
        rig_read_back();
    }
    EXPECT(killed > 200);
    rig_world_end();
}
END_TEST

START_TEST(test_bad_disks) {
    uint64_t errors = 0, shorter = 0, failed = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        rig_world_begin(seed);
        struct fake_disk_faults good = {.seed = seed};
        fake_disk_set(&good);
        EXPECT(rig_begin());
        struct fake_disk_faults faults = {.seed = seed,
                                          .io_error = seed % 3 == 0 ? 60 : 0,
                                          .shorter = seed % 3 == 1 ? 300 : 0,
                                          .no_space = seed % 3 == 2 ? 500 : 0};
        fake_disk_set(&faults);
        rig.settled = true;
        rig_work(500);
        rig_finish();
        failed += rig.failed_puts;
        ses_store_count(rig.store, &truth->counts);
        errors += truth->counts.io_errors;
        shorter += truth->counts.short_reads;
        rig_end();
        rig_read_back();
    }
    EXPECT(errors > 100 && shorter > 500 && failed > 50);
    rig_world_end();
}
END_TEST

/* The budget and the floor are kept before anything is written. */
START_TEST(test_budget_and_floor) {
    rig_world_begin(5);
    struct fake_disk_faults faults = {.seed = 5, .space = 100 << 10};
    fake_disk_set(&faults);
    rig.settled = true;
    struct ses_store_config c = rig_config(1);
    c.floor = 10 << 10;
    struct status_note note;
    EXPECT(
        rig_begin()); /* no floor: two segments fit in what is said to be free, again and again */
    rig_work(300);
    rig_finish();
    struct ses_store_counts counts;
    ses_store_count(rig.store, &counts);
    EXPECT(counts.bytes <= c.budget && counts.stored > 50 && counts.refused == 0);
    rig_end();
    rig_world_begin(6);
    faults.space = 4 * (4096 + RIG_HOST) + (10 << 10) - 1; /* one byte less than a segment needs */
    fake_disk_set(&faults);
    rig.settled = true;
    EXPECT_FINE(ses_store_open(&c, &rig.store, &note) == STATUS_OK, note);
    EXPECT_FINE(ses_store_settle(rig.store, &note) == STATUS_OK, note);
    ses_store_answer_to(rig.store, &rig_answers);
    memset(rig.slot_busy, 0, sizeof rig.slot_busy);
    memset(rig.number_busy, 0, sizeof rig.number_busy);
    rig_work(100);
    rig_finish();
    ses_store_count(rig.store, &counts);
    EXPECT(counts.bytes == 0 && counts.stored == 0 && counts.refused > 0);
    rig_end();
    c.disk = fake_disk_open();
    c.budget = 50000;
    ck_assert_int_eq(ses_store_open(&c, &rig.store, &note), STATUS_TOO_LARGE);
    ck_assert(strstr(note.text, "too small") != NULL && strstr(note.text, rig.folder) != NULL);
    rig_world_end();
}
END_TEST

/* A budget smaller than last time: the store shrinks to it and goes on. The rest is a miss. */
START_TEST(test_smaller_budget) {
    enum { SEGMENT = 4 * (4096 + RIG_HOST), BUDGET = 8 * SEGMENT, NEW = RIG_KEYS - 8 };
    for (uint32_t full = 0; full < 2; full++) {
        struct ses_store_counts counts;
        struct fake_disk_faults none = {.seed = 7};
        rig_world_begin(7);
        fake_disk_set(&none);
        rig.settled = true;
        EXPECT(rig_begin());
        for (uint32_t key = 0; key < NEW; key++)
            rig_put(key);
        for (uint32_t key = 0; key < NEW && !full; key++)
            if (key % 4 != 3) /* something is left in each segment */
                rig_erase(key);
        ses_store_count(rig.store, &counts);
        EXPECT(counts.bytes > BUDGET && counts.stored == NEW);
        rig_end();
        rig.budget = BUDGET;
        EXPECT(rig_begin());
        rig_finish(); /* nobody asks for anything: what lives and fits is moved together */
        ses_store_count(rig.store, &counts);
        EXPECT(full ? counts.moved == 0 : counts.bytes <= BUDGET && counts.moved > 0);
        EXPECT_EQ(counts.dropped, 0);
        uint32_t tries = 0;
        for (uint32_t key = NEW; key < RIG_KEYS; key++) {
            for (; truth->key[key].state != KEY_HELD; tries++) {
                EXPECT(tries < 8 + 12);
                if (full) /* as the memory does, which knows how many have room */
                    rig_erase(NEW - 1 - tries);
                rig_put(key);
            }
        }
        ses_store_count(rig.store, &counts);
        EXPECT(counts.bytes <= BUDGET && counts.stored == 8);
        EXPECT(full ? counts.dropped > 0 : counts.dropped == 0 && counts.moved > 0);
        rig_end();
        rig_read_back();
        for (uint32_t key = NEW; key < RIG_KEYS; key++)
            EXPECT(truth->key[key].state == KEY_HELD);
    }
    rig_world_end();
}
END_TEST

enum { CHAINS = 6, CHAIN = 3 };
static uint32_t acked, lost_pins;

static void on_acked(void *self, uint32_t slot, enum status status) {
    (void)self;
    EXPECT(slot == 0 && status == STATUS_OK);
    acked++;
}

static void on_said(void *self, const char *sentence) {
    (void)self;
    lost_pins += strstr(sentence, "1 of 1 pinned sessions") != NULL;
}

/* How many pages it finds of each session of three, parents first; with so many places. */
static void find_chains(uint32_t n_places, uint32_t *n) {
    struct ses_store_config c = rig_config(1);
    struct ses_store_counts counts;
    struct status_note note;
    c.n_places = n_places;
    c.say = on_said;
    EXPECT_FINE(ses_store_open(&c, &rig.store, &note) == STATUS_OK, note);
    memset(n, 0, CHAINS * sizeof *n);
    for (uint32_t i = 0; i < ses_store_n_found(rig.store); i++) {
        const struct ses_record *r = ses_store_found(rig.store, i);
        EXPECT_EQ(r->depth, n[r->name.word[1]]++);
        EXPECT_EQ(ses_store_find(rig.store, r), i);
        ses_store_bind(rig.store, i, i);
    }
    EXPECT_FINE(ses_store_settle(rig.store, &note) == STATUS_OK, note);
    ses_store_count(rig.store, &counts);
    EXPECT_EQ(counts.orphans, 0);
    ses_store_close(rig.store);
    rig.store = NULL;
}

/* A smaller budget has places for fewer pages than are found: what is pinned stays, then whole
 * sessions, those used last; what is forgotten is forgotten for good, and a pin is not lost without
 * a word. */
START_TEST(test_fewer_places) {
    static const struct ses_store_answers answers = {.stored = on_acked};
    struct ses_store_config c;
    struct fake_disk_faults none = {.seed = 9};
    uint32_t n[CHAINS];
    rig_world_begin(9);
    fake_disk_set(&none);
    c = rig_config(1);
    EXPECT_FINE(ses_store_open(&c, &rig.store, &rig.note) == STATUS_OK, rig.note);
    EXPECT_FINE(ses_store_settle(rig.store, &rig.note) == STATUS_OK, rig.note);
    ses_store_answer_to(rig.store, &answers);
    acked = lost_pins = 0;
    for (uint32_t i = 0; i < CHAINS * CHAIN; i++) {
        uint32_t chain = i / CHAIN, depth = i % CHAIN, ids[RIG_TOKENS] = {i};
        struct ses_record r = {.space = ses_space_of(&c.key, 0),
                               .name = {{100 + i, chain}},
                               .depth = depth,
                               .n_tokens = RIG_TOKENS,
                               .tokens = ids};
        r.use = depth == CHAIN - 1 ? 10 + chain : 1; /* what was used is noted where it ends */
        if (depth > 0)
            r.parent = (struct ses_name){{99 + i, chain}};
        if (chain == 1 && depth == CHAIN - 1)
            r.flags = SES_RECORD_PINNED;
        ses_store_put(rig.store, &r, i, 0);
        rig_finish();
    }
    EXPECT_EQ(acked, CHAINS * CHAIN);
    ses_store_close(rig.store);
    find_chains(CHAINS * CHAIN, n);
    for (uint32_t k = 0; k < CHAINS; k++)
        EXPECT_EQ(n[k], CHAIN);
    for (uint32_t round = 0; round < 2; round++) {
        find_chains(round == 0 ? 8 : 0, n);
        for (uint32_t k = 0; k < CHAINS; k++)
            EXPECT_EQ(n[k], k == 1 || k == 5 ? 3 : k == 4 ? 2 : 0);
    }
    EXPECT_EQ(lost_pins, 0);
    find_chains(2, n);
    EXPECT_EQ(n[1], 2);
    EXPECT_EQ(n[5], 0);
    EXPECT_EQ(lost_pins, 1);
    rig_world_end();
}
END_TEST

/* One bit anywhere in a record, header, tokens, page and padding: that record and no other is
 * bad. */
START_TEST(test_flipped_bits) {
    rig_some_records();
    rig_read_all();
    uint64_t all = rig.good_loads, bytes, flips = 0;
    EXPECT(all > 4 && rig.bad_loads == 0);
    int fd = rig_segment(1, &bytes);
    for (uint64_t at = 0; at < 4096 + RIG_HOST;
         at += at < 160 || (at > 4090 && at < 4110) ? 1 : 97) {
        unsigned char byte, flipped;
        EXPECT(pread(fd, &byte, 1, (off_t)at) == 1);
        flipped = byte ^ (unsigned char)(1u << at % 8);
        EXPECT(pwrite(fd, &flipped, 1, (off_t)at) == 1);
        rig_read_all();
        EXPECT_EQ(rig.bad_loads, 1);
        EXPECT_EQ(rig.good_loads, all - 1);
        EXPECT_EQ(truth->counts.bad_header + truth->counts.bad_sum, 1);
        EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1);
        flips++;
    }
    close(fd);
    EXPECT(flips > 250);
    rig_read_all();
    EXPECT_EQ(rig.good_loads, all);
    rig_world_end();
}
END_TEST

/* An index that is newer than its data: segments cut short or gone, or swapped. */
START_TEST(test_lost_segments) {
    char path[128], other[128];
    uint64_t bytes;
    rig_some_records();
    rig_read_all();
    uint64_t all = rig.good_loads;
    int fd = rig_segment(1, &bytes);
    EXPECT(ftruncate(fd, 4096 + RIG_HOST) == 0);
    close(fd);
    for (uint32_t key = 0; key < RIG_KEYS; key++) /* nothing is promised of what lay there */
        if (truth->key[key].state == KEY_HELD)
            truth->key[key].state = KEY_UNSURE;
    rig_read_all();
    EXPECT(rig.good_loads >= 1 && rig.good_loads < all && rig.bad_loads == 0);
    EXPECT_EQ(truth->counts.lost_segments, all - rig.good_loads);
    rig_read_all(); /* they were removed from the index: counted once */
    EXPECT_EQ(truth->counts.lost_segments, 0);
    rig_some_records();
    snprintf(path, sizeof path, "%s/segment-%05d", rig.folder, 1);
    snprintf(other, sizeof other, "%s/segment-%05d", rig.folder, 2);
    EXPECT(rename(path, other) == 0);
    for (uint32_t key = 0; key < RIG_KEYS; key++)
        if (truth->key[key].state == KEY_HELD)
            truth->key[key].state = KEY_UNSURE;
    rig_read_all();
    EXPECT(truth->counts.lost_segments > 0 && rig.bad_loads > 0 && rig.good_loads == 0);
    EXPECT_EQ(truth->counts.bad_header, rig.bad_loads);
    rig_world_end();
}
END_TEST

/* What it says of its format; emulators leave it short of address space too. */
static void say_to(void *self, const char *sentence) {
    if (strstr(sentence, "address space is scarce") == NULL)
        snprintf(self, 320, "%s", sentence);
}

/* The file format is gone, empty or full of noise: the rest says what it is, and all of it is
 * still there, also where only the index or only the segments can say so. */
START_TEST(test_format_heals) {
    static const char *const noise[] = {NULL, "", "roundhouse session\n", "\x01\xff\n"};
    struct status_note note;
    char path[128], file[160], said[320];
    rig_some_records();
    rig_read_all();
    uint64_t all = rig.good_loads;
    for (uint32_t i = 0; i < 4; i++) {
        struct ses_store *s;
        struct ses_store_config c = rig_config(1);
        c.say = say_to;
        c.say_self = said;
        said[0] = '\0';
        snprintf(path, sizeof path, "%s/format", rig.folder);
        EXPECT(unlink(path) == 0);
        FILE *f = noise[i] != NULL ? fopen(path, "w") : NULL;
        if (f != NULL) {
            fputs(noise[i], f);
            fclose(f);
        }
        EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
        EXPECT_EQ(ses_store_n_found(s), all);
        ses_store_close(s);
        ck_assert_msg(strstr(said, i == 0 ? "was missing" : "was damaged") != NULL, "%s", said);
        said[0] = '\0';
        c.disk = fake_disk_open();
        EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
        ses_store_close(s);
        ck_assert_str_eq(said, "");
    }
    rig_read_all();
    EXPECT_EQ(rig.good_loads, all);
    /* Segments of a later format are another's, whatever else lies there. */
    EXPECT(unlink(path) == 0);
    for (uint32_t n = 1; n < 100; n++) {
        char segment[160];
        uint64_t bytes;
        snprintf(segment, sizeof segment, "%s/segment-%05u", rig.folder, n);
        if (access(segment, F_OK) != 0)
            continue;
        int fd = rig_segment(n, &bytes);
        EXPECT(pwrite(fd, "\2", 1, 8) == 1);
        close(fd);
    }
    struct ses_store_config c = rig_config(1);
    struct ses_store *s;
    snprintf(file, sizeof file, "%s/index", rig.folder);
    fake_disk_clear(file);
    EXPECT(rmdir(file) == 0);
    ck_assert_int_eq(ses_store_open(&c, &s, &note), STATUS_BAD_FILE);
    rig_world_end();
}
END_TEST

START_TEST(test_other_directories) {
    struct status_note note;
    struct ses_store *second;
    char path[128];
    rig_some_records();
    struct fake_disk_faults none = {.seed = 3};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    struct ses_store_config c = rig_config(1);
    c.disk = NULL;
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_DUPLICATE);
    ck_assert(strstr(note.text, "in use by another server") != NULL);
    rig_end();
    snprintf(path, sizeof path, "%s/format", rig.folder);
    FILE *f = fopen(path, "w");
    fputs("roundhouse session store, format 2\n", f);
    fclose(f);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    ck_assert(strstr(note.text, "format 2") != NULL);
    unlink(path);
    /* Folders of a stranger: refused, and left as they were. */
    fake_disk_clear(rig.folder);
    snprintf(path, sizeof path, "%s/letters", rig.folder);
    EXPECT(mkdir(path, 0700) == 0);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    ck_assert(strstr(note.text, "no session store and not empty") != NULL);
    EXPECT(rmdir(path) == 0 && rmdir(rig.folder) == 0 && mkdir(rig.folder, 0700) == 0);
    snprintf(path, sizeof path, "%s/format", rig.folder);
    f = fopen(path, "w");
    fputs("mine\x01\xff", f);
    fclose(f);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    ck_assert_msg(strstr(note.text, "'mine\\x01\\xff'") != NULL, "%s", note.text);
    EXPECT(unlink(path) == 0 && rmdir(rig.folder) == 0 && mkdir(rig.folder, 0700) == 0);
    /* Folders of other numbers of ranks may lie there first; nothing else may. */
    fake_disk_clear(rig.folder);
    snprintf(path, sizeof path, "%s/rank-7-list", rig.folder);
    EXPECT(mkdir(path, 0700) == 0);
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_BAD_FILE);
    EXPECT(rmdir(path) == 0);
    snprintf(path, sizeof path, "%s/rank-0-of-2", rig.folder);
    EXPECT(mkdir(path, 0700) == 0);
    EXPECT_FINE(ses_store_open(&c, &second, &note) == STATUS_OK, note);
    ses_store_close(second);
    /* A first start on a disk that fails says how it failed. */
    fake_disk_clear(rig.folder);
    struct fake_disk_faults fails = {
        .seed = 3, .fail_at = 1, .fail_for = 1, .fail_error = EREMOTEIO};
    c.disk = fake_disk_open();
    fake_disk_set(&fails);
    errno = 0;
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_IO);
    ck_assert_msg(strstr(note.text, strerror(EREMOTEIO)) != NULL, "%s", note.text);
    c.disk = NULL;
    c.folder = "/proc/nobody";
    ck_assert_int_eq(ses_store_open(&c, &second, &note), STATUS_IO);
    rig_world_end();
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
    rig_some_records();
    struct ses_store_counts counts;
    struct ses_store_config c = rig_config(2);
    EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
    EXPECT_EQ(ses_store_n_found(s), 0);
    ses_store_count(s, &counts);
    EXPECT(counts.found_other > 4);
    EXPECT_FINE(ses_store_settle(s, &note) == STATUS_OK, note);
    ses_store_close(s);
    rig_read_all();
    EXPECT(rig.good_loads > 4 && rig.bad_loads == 0);
    rig_some_more(); /* and segments with gaps */
    /* One whose records are smaller, and segments too: what cannot be moved to those goes. */
    c = rig_config(2);
    c.host_bytes = 4096;
    c.page_bytes = 4000;
    c.segment_bytes = 8192;
    c.budget = 1 << 17;
    EXPECT_FINE(ses_store_open(&c, &rig.store, &note) == STATUS_OK, note);
    EXPECT_FINE(ses_store_settle(rig.store, &note) == STATUS_OK, note);
    ses_store_answer_to(rig.store, &rig_answers);
    memset(rig.slot_busy, 0, sizeof rig.slot_busy);
    memset(rig.number_busy, 0, sizeof rig.number_busy);
    rig.settled = true;
    uint32_t key = 0;
    while (truth->key[key].state == KEY_HELD)
        key++;
    for (int tries = 0; truth->key[key].state != KEY_HELD; tries++) {
        EXPECT(tries < 8);
        rig_put(key);
    }
    ses_store_count(rig.store, &counts);
    EXPECT(counts.bytes <= c.budget && counts.dropped > 0);
    rig_end();
    rig_world_end();
}
END_TEST

/* In a full store what was written first of another model gives way, but for what is pinned there,
 * and that is counted and said. */
START_TEST(test_others_give_way) {
    enum { SEGMENT = 4 * (4096 + RIG_HOST), THEIRS = 24, OURS = 12 };
    struct fake_disk_faults none = {.seed = 7};
    struct ses_store_counts counts;
    struct ses_key key = rig_key(2);
    const struct ses_store_answers to = {.stored = on_acked};
    rig_world_begin(7);
    fake_disk_set(&none);
    EXPECT(rig_begin());
    for (uint32_t k = 0; k < THEIRS; k++)
        rig_put(k);
    ses_store_mark(rig.store, truth->key[1].number, 0, SES_RECORD_PINNED);
    rig_finish();
    rig_end();
    struct ses_store_config c = rig_config(2);
    c.budget = 9 * SEGMENT;
    rig.said = acked = 0;
    EXPECT_FINE(ses_store_open(&c, &rig.store, &rig.note) == STATUS_OK, rig.note);
    EXPECT_FINE(ses_store_settle(rig.store, &rig.note) == STATUS_OK, rig.note);
    ses_store_answer_to(rig.store, &to);
    for (uint32_t i = 0; i < OURS; i++) {
        struct ses_record r = {.space = ses_space_of(&key, 0),
                               .name = {{i + 1, i}},
                               .n_tokens = 1,
                               .tokens = rig.tokens[0]};
        ses_store_put(rig.store, &r, i, 0);
        rig_finish();
    }
    ses_store_count(rig.store, &counts);
    EXPECT(counts.bytes <= c.budget && acked == OURS && counts.others_dropped == 8);
    EXPECT_EQ(rig.said, 1);
    rig_end();
    truth->counts.dropped = 8;
    EXPECT(rig_begin());
    for (uint32_t k = 0; k < THEIRS; k++) /* all but those of the second and third segment */
        EXPECT(truth->key[k].state == (k / 4 == 1 || k / 4 == 2 ? KEY_ABSENT : KEY_HELD));
    rig_end();
    rig_world_end();
}
END_TEST

/* Use and pins are there after a restart: a changed pin at once, use with what is committed next,
 * whatever a compaction moved meanwhile. */
START_TEST(test_marks) {
    rig_some_records();
    struct fake_disk_faults none = {.seed = 4};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    uint32_t marked = 0;
    for (uint32_t key = 0; key < RIG_KEYS; key++)
        if (truth->key[key].state == KEY_HELD) {
            truth->key[key].use = 1000 + key;
            ses_store_mark(rig.store, truth->key[key].number, 1000 + key, key % 2);
            marked++;
        }
    rig_finish();
    rig_end();
    EXPECT(marked > 4 && truth->counts.marks >= marked);
    for (int round = 0; round < 2; round++) {
        EXPECT(rig_begin());
        rig_end();
        struct ses_index *index;
        struct status_note note;
        char path[128];
        snprintf(path, sizeof path, "%s/index", rig.folder);
        EXPECT_FINE(ses_index_open(path, true, 0, &index, &note) == STATUS_OK, note);
        uint64_t bad = 0;
        uint32_t right_marks = 0;
        EXPECT_FINE(ses_index_each(index, &right_marks, count_marks, &bad, &note) == STATUS_OK,
                    note);
        ses_index_close(index);
        EXPECT_EQ(right_marks, marked);
        EXPECT_EQ(bad, 0);
    }
    /* Only use changed: nothing is written for it, until the end is near. */
    EXPECT(rig_begin());
    for (uint32_t key = 0; key < RIG_KEYS; key++)
        if (truth->key[key].state == KEY_HELD) {
            truth->key[key].use = 2000;
            ses_store_mark(rig.store, truth->key[key].number, 2000, key % 2);
        }
    EXPECT(!rig_cycle());
    ses_store_marks_now(rig.store);
    rig_finish();
    struct ses_store_counts counts;
    ses_store_count(rig.store, &counts);
    EXPECT_EQ(counts.marks, marked);
    rig_end();
    rig_world_end();
}
END_TEST

static void ask(struct ses_store *s, struct ses_query *q, enum ses_query_kind kind,
                uint64_t tenant) {
    q->kind = kind;
    q->tenant = tenant;
    q->from = 0;
    ses_store_query(s, q);
}

/* Lists what is of no use to the tenant; forgets one of it at last. Returns how many. */
static uint32_t look_at_others(struct ses_store *s, uint64_t tenant, enum ses_why why, bool last) {
    static struct ses_query q;
    ask(s, &q, SES_QUERY_OTHERS, tenant);
    EXPECT(q.status == STATUS_OK && q.next == 0);
    uint32_t n = q.n;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t key = (uint32_t)q.other[k].name.word[1];
        EXPECT(key % 3 == tenant && key % 4 == 0); /* of the rest the beginnings are not there */
        EXPECT_EQ(q.other[k].why, why);
        EXPECT_EQ(q.other[k].tokens, 1 + key % RIG_TOKENS);
        ck_assert_str_eq(q.other[k].text, "a model of the tests");
    }
    if (n == 0)
        return 0;
    q.name = q.other[0].name;
    uint32_t key = (uint32_t)q.name.word[1];
    ask(s, &q, SES_QUERY_OTHER_TOKENS, tenant + 1);
    EXPECT_EQ(q.status, STATUS_NOT_FOUND);
    ask(s, &q, SES_QUERY_OTHER_TOKENS, tenant);
    EXPECT(q.status == STATUS_OK && q.n == 1 + key % RIG_TOKENS && q.token[0] == key * 100);
    ask(s, &q, SES_QUERY_OTHER_FORGET, tenant + 1);
    EXPECT_EQ(q.status, STATUS_NOT_FOUND);
    if (!last)
        return n;
    ask(s, &q, SES_QUERY_OTHER_FORGET, tenant);
    EXPECT(q.status == STATUS_OK && q.n == 1);
    ask(s, &q, SES_QUERY_OTHERS, tenant);
    EXPECT_EQ(q.n, n - 1);
    return n;
}

/* What is of no use is listed with the reason, to its tenant alone; its tokens can be had, and it
 * can be forgotten. */
START_TEST(test_others) {
    static const enum ses_why whys[] = {SES_WHY_MODEL,   SES_WHY_WORLD,   SES_WHY_PAGES,
                                        SES_WHY_LAYOUT,  SES_WHY_PROFILE, SES_WHY_VIRTUAL_RANKS,
                                        SES_WHY_KV_TYPE, SES_WHY_PROFILE};
    enum { WHYS = sizeof whys / sizeof *whys };
    struct status_note note;
    rig_some_records();
    for (size_t i = 0; i < WHYS; i++) {
        struct ses_store *s;
        struct ses_store_config c = rig_config(1);
        c.key.profile += i >= 4;
        c.key.fingerprint[0] += i == 0;
        c.key.world += i == 1;
        c.key.layout_version += i == 2 || i == 3;
        c.page_tokens *= i == 2 ? 2 : 1;
        c.profile.virtual_ranks += i == 5 || i == 7; /* what comes with another name is not it */
        strcpy(c.profile.name, i == 7 ? "another" : i == 5 ? "tests-v5" : "tests");
        c.profile.kv += i == 6;
        EXPECT_FINE(ses_store_open(&c, &s, &note) == STATUS_OK, note);
        EXPECT_FINE(ses_store_settle(s, &note) == STATUS_OK, note);
        uint32_t all = 0;
        for (uint64_t tenant = 0; tenant < 3; tenant++)
            all += look_at_others(s, tenant, whys[i], i + 1 == WHYS);
        EXPECT(all > 0);
        ses_store_close(s);
    }
    rig_world_end();
}
END_TEST

/* Both real disks: the same answers. */
START_TEST(test_real_disks) {
    for (int kind = 0; kind < 2; kind++) {
        struct status_note note;
        rig_world_begin(9);
        struct ses_store_config c = rig_config(1);
        enum status status =
            kind == 0 ? ses_disk_plain_open(&c.disk, &note) : ses_disk_uring_open(&c.disk, &note);
        if (kind == 1 && status == STATUS_UNSUPPORTED)
            continue; /* a kernel that refuses it: the other one serves */
        EXPECT_FINE(status == STATUS_OK, note);
        EXPECT_FINE(ses_store_open(&c, &rig.store, &note) == STATUS_OK, note);
        EXPECT_FINE(ses_store_settle(rig.store, &note) == STATUS_OK, note);
        ses_store_answer_to(rig.store, &rig_answers);
        memset(rig.slot_busy, 0, sizeof rig.slot_busy);
        memset(rig.number_busy, 0, sizeof rig.number_busy);
        struct fake_disk_faults none = {.seed = 9};
        fake_disk_set(&none);
        rig_work(1500);
        rig_finish();
        EXPECT(truth->puts > 100 && truth->gets > 100 && truth->erases > 50);
        EXPECT(rig.bad_loads == 0 && rig.failed_puts == 0);
        rig_end();
        EXPECT(truth->counts.compactions > 0);
        rig_read_back();
    }
    rig_world_end();
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
    tcase_add_test(tcase, test_smaller_budget);
    tcase_add_test(tcase, test_fewer_places);
    tcase_add_test(tcase, test_flipped_bits);
    tcase_add_test(tcase, test_lost_segments);
    tcase_add_test(tcase, test_format_heals);
    tcase_add_test(tcase, test_other_directories);
    tcase_add_test(tcase, test_other_keys);
    tcase_add_test(tcase, test_others_give_way);
    tcase_add_test(tcase, test_marks);
    tcase_add_test(tcase, test_others);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
