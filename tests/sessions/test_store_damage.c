/* SPDX-License-Identifier: Apache-2.0
 * What others do to a store's directory, and what a disk does to the store: an index with any byte
 * flipped, cut short, foreign or gone; segments cut short and deleted while it runs; a disk that
 * turns read-only or full at every step. Nothing crashes, nothing wrong is read, what can be had is
 * there, and the cause is counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sessions/store_rig.h"

enum { INDEX_MOST = 1 << 20, LOCK_BYTES = 8192 };

/* The index as it was, and what is shared with children. */
static unsigned char whole[INDEX_MOST];
static uint64_t whole_bytes;
static struct shared { uint64_t at, rebuilt, held; } * shared;

static const char *index_path(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/index/%s", rig.folder, name);
    return path;
}

static void keep_index(void) {
    int fd = open(index_path("data.mdb"), O_RDONLY);
    EXPECT(fd >= 0);
    ssize_t n = read(fd, whole, sizeof whole);
    EXPECT(n > 4 * 4096 && n < (ssize_t)sizeof whole);
    whole_bytes = (uint64_t)n;
    close(fd);
}

static void put_index(const unsigned char *bytes, uint64_t n) {
    char folder[160];
    snprintf(folder, sizeof folder, "%s/index", rig.folder);
    mkdir(folder, 0700);
    unlink(index_path("lock.mdb"));
    int fd = open(index_path("data.mdb"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

/* Records, their index, and how many there are. */
static uint64_t records(void) {
    if (shared == NULL)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
    rig_some_records();
    rig_some_more();
    rig_read_all();
    EXPECT(rig.good_loads > 8 && rig.bad_loads == 0);
    keep_index();
    return rig.good_loads;
}

/* The last read_all found all of them right, whatever it had to do for that. */
static void expect_all(uint64_t all) {
    EXPECT_EQ(rig.bad_loads, 0);
    EXPECT_EQ(rig.good_loads, all);
    shared->rebuilt += truth->counts.rebuilt;
}

/* In a child, because a damaged page may end the process: what it was at is said then. */
static void in_child(void (*work)(uint64_t all), uint64_t all) {
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        setenv(EXPECT_CHILD, "1", 1);
        work(all);
        _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ck_abort_msg("the child ended with %d at %llu", status, (unsigned long long)shared->at);
}

static uint64_t stride(uint64_t usual) {
    const char *s = getenv("RH_DAMAGE_STRIDE"); /* 1: every byte */
    const char *scale = getenv("RH_TEST_SCALE");
    uint64_t small = scale != NULL && strcmp(scale, "small") == 0 ? 4 : 1;
    return s != NULL ? strtoull(s, NULL, 10) : usual * small;
}

/* The free pages and everything that is in use are checked alike: a flip is either harmless or the
 * index is made anew. The heads byte by byte. */
static void flips(uint64_t all) {
    uint64_t step = stride(97);
    for (uint64_t at = 0; at < whole_bytes; at += at % 4096 < 160 && at < 8192 ? 1 : step) {
        shared->at = at;
        whole[at] ^= (unsigned char)(1u << at % 8);
        put_index(whole, whole_bytes);
        whole[at] ^= (unsigned char)(1u << at % 8);
        rig_read_all();
        expect_all(all);
    }
}

START_TEST(test_flipped_index) {
    uint64_t all = records();
    in_child(flips, all);
    EXPECT(shared->rebuilt > 40);
    rig_world_end();
}
END_TEST

static void cuts(uint64_t all) {
    for (uint64_t n = 0; n < whole_bytes; n += n < 8192 ? 512 : 2048) {
        shared->at = n;
        put_index(whole, n);
        rig_read_all();
        expect_all(all);
    }
    for (uint64_t page = 0; page < whole_bytes / 4096;
         page++) { /* a page of nothing, or of noise */
        unsigned char kept[4096];
        memcpy(kept, whole + page * 4096, sizeof kept);
        for (uint32_t i = 0; i < sizeof kept; i++)
            whole[page * 4096 + i] = page % 2 == 0 ? 0 : (unsigned char)(i * 197 + page);
        shared->at = page;
        put_index(whole, whole_bytes);
        memcpy(whole + page * 4096, kept, sizeof kept);
        rig_read_all();
        expect_all(all);
    }
}

START_TEST(test_index_cut_or_overwritten) {
    uint64_t all = records();
    in_child(cuts, all);
    EXPECT(shared->rebuilt > 20);
    rig_world_end();
}
END_TEST

static void foreign_index(void) {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi db;
    MDB_val key = {3, "abc"}, value = {5, "other"};
    EXPECT(mdb_env_create(&env) == 0 && mdb_env_set_maxdbs(env, 2) == 0);
    EXPECT(mdb_env_open(env, index_path(""), 0, 0600) == 0);
    EXPECT(mdb_txn_begin(env, NULL, 0, &txn) == 0 && mdb_dbi_open(txn, "x", MDB_CREATE, &db) == 0);
    EXPECT(mdb_put(txn, db, &key, &value, 0) == 0 && mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
}

static void clear_index(void) {
    char folder[160];
    snprintf(folder, sizeof folder, "%s/index", rig.folder);
    fake_disk_clear(folder);
    rmdir(folder);
    unlink(folder);
}

/* Gone, a file, a directory where its file should be, another program's, and a lock file that was
 * left behind in any state. */
START_TEST(test_foreign_index) {
    uint64_t all = records();
    char folder[160];
    snprintf(folder, sizeof folder, "%s/index", rig.folder);
    for (int what = 0; what < 7; what++) {
        clear_index();
        if (what > 1)
            mkdir(folder, 0700);
        if (what == 1)
            close(open(folder, O_WRONLY | O_CREAT, 0600));
        if (what == 2)
            mkdir(index_path("data.mdb"), 0700);
        if (what == 3)
            foreign_index();
        if (what > 3) {
            put_index(whole, whole_bytes);
            int fd = open(index_path("lock.mdb"), O_WRONLY | O_CREAT, 0600);
            static unsigned char noise[LOCK_BYTES];
            memset(noise, what == 4 ? 0xa5 : 0, sizeof noise);
            EXPECT(fd >= 0 && write(fd, noise, what == 6 ? 100 : sizeof noise) > 0);
            close(fd);
        }
        rig_read_all();
        EXPECT_EQ(truth->counts.rebuilt, what > 3 ? 0 : 1);
        expect_all(all);
        rig_read_all(); /* once is enough */
        EXPECT_EQ(truth->counts.rebuilt, 0);
        expect_all(all);
    }
    rig_world_end();
}
END_TEST

/* An index from a while ago: what it does not know is not found, what it knows is right or gone. */
START_TEST(test_older_index) {
    rig_some_records();
    keep_index();
    for (int round = 0; round < 3; round++) {
        struct fake_disk_faults none = {.seed = 4};
        fake_disk_set(&none);
        EXPECT(rig_begin());
        rig_work(400);
        rig_finish();
        rig_end();
    }
    EXPECT(truth->counts.compactions > 0);
    put_index(whole, whole_bytes);
    for (uint32_t key = 0; key < RIG_KEYS; key++) /* an older version counts as right here */
        truth->key[key].state = KEY_UNSURE;
    rig.any_version = true;
    rig_read_all();
    rig.any_version = false;
    struct ses_store_counts *c = &truth->counts;
    EXPECT_EQ(c->bad_header + c->bad_sum + c->short_reads / 3, rig.bad_loads);
    EXPECT(c->lost_segments > 0 && c->rebuilt == 0);
    rig_world_end();
}
END_TEST

/* Killed at any point while it makes the index anew. */
START_TEST(test_killed_while_rebuilding) {
    uint64_t all = records(), killed = 0;
    for (uint64_t at = 1; at < 200; at++) {
        whole[16] ^= 0xff; /* the first head's magic */
        put_index(whole, whole_bytes);
        whole[16] ^= 0xff;
        fflush(stdout);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            struct fake_disk_faults faults = {.seed = 3, .cut_at = at, .kill = true};
            fake_disk_set(&faults);
            rig_begin();
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child);
        rig_read_all();
        expect_all(all);
        if (WIFEXITED(status))
            break;
        killed++;
    }
    EXPECT(killed > 3 && killed < 199);
    rig_world_end();
}
END_TEST

/* Made anew from headers of which one is damaged: that record is gone, and nothing else. */
START_TEST(test_rebuilt_from_bad_headers) {
    uint64_t all = records(), bytes;
    int fd = rig_segment(1, &bytes);
    uint64_t first = 0, key_of = 0; /* a record that was not erased again */
    while (pread(fd, &key_of, sizeof key_of, (off_t)first + 48) == sizeof key_of && key_of % 3 == 0)
        first += 4096 + RIG_HOST;
    for (uint64_t at = first; at < first + 200; at += 3) {
        unsigned char byte, flipped;
        EXPECT(pread(fd, &byte, 1, (off_t)at) == 1);
        flipped = byte ^ (unsigned char)(1u << at % 8);
        EXPECT(pwrite(fd, &flipped, 1, (off_t)at) == 1);
        put_index(whole, whole_bytes / 2);
        for (uint32_t key = 0; key < RIG_KEYS; key++)
            if (truth->key[key].state == KEY_HELD)
                truth->key[key].state = KEY_UNSURE;
        rig_read_all();
        EXPECT(truth->counts.rebuilt == 1 && rig.bad_loads == 0);
        EXPECT_EQ(rig.good_loads, all - 1);
        EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1);
        for (uint32_t key = 0; key < RIG_KEYS; key++)
            if (key % 3 != 0) /* those that were not erased */
                truth->key[key].state = KEY_UNSURE;
    }
    close(fd);
    rig_world_end();
}
END_TEST

/* Every step fails once, or from there on, with each errno; then the disk is well again. */
static void fails_at(uint64_t at, uint64_t how_long, int error) {
    rig_world_begin(21);
    rig.settled = true;
    struct fake_disk_faults none = {.seed = 21}, faults = {.seed = 21,
                                                           .fail_at = at,
                                                           .fail_for = how_long,
                                                           .fail_error = error};
    fake_disk_set(&faults);
    if (!rig_try_begin()) { /* refused at start, in one sentence */
        EXPECT(rig.note.text[0] != '\0');
        rig_read_back();
        return;
    }
    rig_work(250);
    rig_finish();
    uint64_t failed = rig.failed_puts, puts = truth->puts;
    ses_store_count(rig.store, &truth->counts);
    EXPECT(failed == 0 || truth->counts.io_errors + truth->counts.refused > 0);
    fake_disk_set(&none);
    rig_work(200);
    rig_finish();
    EXPECT_EQ(rig.failed_puts, failed);
    EXPECT(truth->puts > puts + 5);
    rig_end();
    rig_read_back();
}

START_TEST(test_every_step_fails) {
    static const int errors[] = {ENOSPC, EROFS, EIO};
    rig_world_begin(21);
    struct fake_disk_faults none = {.seed = 21};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    rig_work(250);
    rig_finish();
    uint64_t points = fake_disk_points(), step = stride(2);
    rig_end();
    EXPECT(points > 100);
    for (uint64_t at = 1; at <= points; at += step) {
        fails_at(at, 1, errors[at / step % 3]);
        fails_at(at, UINT64_MAX, errors[(at / step + 1) % 3]);
    }
    rig_world_end();
}
END_TEST

/* The index cannot grow any more: its writes fail below the library, and it goes on when they
 * work again. */
static void no_growth(uint64_t all) {
    (void)all;
    struct rlimit full, little;
    struct fake_disk_faults none = {.seed = 3};
    signal(SIGXFSZ, SIG_IGN);
    fake_disk_set(&none);
    rig.settled = true;
    EXPECT(rig_begin());
    EXPECT(getrlimit(RLIMIT_FSIZE, &full) == 0);
    little = full;
    little.rlim_cur = 4096; /* not even what is there may be written again */
    EXPECT(setrlimit(RLIMIT_FSIZE, &little) == 0);
    rig_work(100);
    rig_finish();
    uint64_t failed = rig.failed_puts, puts = truth->puts;
    EXPECT(failed > 3);
    EXPECT(setrlimit(RLIMIT_FSIZE, &full) == 0);
    rig_work(200);
    rig_finish();
    EXPECT_EQ(rig.failed_puts, failed);
    EXPECT(truth->puts > puts + 5);
    rig_end();
    rig_read_back();
}

START_TEST(test_index_cannot_grow) {
    in_child(no_growth, records());
    rig_world_end();
}
END_TEST

/* Somebody removes or cuts segments while the store has them open, or not. */
START_TEST(test_segments_vanish_while_it_runs) {
    uint64_t bad = 0, short_reads = 0, lost = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rig_world_begin(seed);
        struct fake_disk_faults none = {.seed = seed};
        fake_disk_set(&none);
        EXPECT(rig_begin());
        rig.settled = true;
        for (uint32_t i = 0; i < 40; i++) {
            rig_work(20);
            char path[128];
            uint32_t n = 1 + (i * 7 + (uint32_t)seed) % 12;
            snprintf(path, sizeof path, "%s/segment-%05u", rig.folder, n);
            if (i % 4 == 1)
                unlink(path);
            if (i % 4 == 3 && truncate(path, (off_t)(i * 1000)) != 0)
                EXPECT(errno == ENOENT);
        }
        rig_finish();
        ses_store_count(rig.store, &truth->counts);
        bad += rig.bad_loads;
        short_reads += truth->counts.short_reads;
        lost += truth->counts.lost_segments + truth->counts.bad_header + truth->counts.bad_sum;
        rig_end();
        for (uint32_t key = 0; key < RIG_KEYS; key++)
            truth->key[key].state = KEY_UNSURE;
        rig.any_version = true;
        rig_read_all(); /* and what is there next time is right */
    }
    EXPECT(bad > 20 && short_reads + lost > 20);
    rig_world_end();
}
END_TEST

static void read_only(uint64_t all) {
    (void)all;
    struct ses_store_config c = rig_config(1);
    struct status_note note = {{0}};
    struct ses_store *s;
    c.disk = NULL;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(rig.folder, rig.folder, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, rig.folder, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        shared->at = 1;
        return;
    }
    ck_assert_int_eq(ses_store_open(&c, &s, &note), STATUS_IO);
    EXPECT(strstr(note.text, "cannot be written: Read-only file system") != NULL);
    char path[160];
    snprintf(path, sizeof path, "%s/deeper", rig.folder);
    c.folder = path;
    ck_assert_int_eq(ses_store_open(&c, &s, &note), STATUS_IO);
    EXPECT(strstr(note.text, "cannot be created: Read-only file system") != NULL);
}

START_TEST(test_read_only_at_open) {
    records();
    in_child(read_only, 0);
    bool here = shared->at == 0;
    rig_world_end();
    if (!here)
        TEST_SKIP("this system lets the test mount nothing");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/store_damage");
    TCase *tcase = tcase_create("store_damage");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_flipped_index);
    tcase_add_test(tcase, test_index_cut_or_overwritten);
    tcase_add_test(tcase, test_foreign_index);
    tcase_add_test(tcase, test_older_index);
    tcase_add_test(tcase, test_killed_while_rebuilding);
    tcase_add_test(tcase, test_rebuilt_from_bad_headers);
    tcase_add_test(tcase, test_every_step_fails);
    tcase_add_test(tcase, test_index_cannot_grow);
    tcase_add_test(tcase, test_segments_vanish_while_it_runs);
    tcase_add_test(tcase, test_read_only_at_open);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
