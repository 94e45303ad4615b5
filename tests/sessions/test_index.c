/* SPDX-License-Identifier: Apache-2.0
 * The index where address space is scarce: a small map that grows with its file, a refusal in one
 * sentence when not even the least is to be had, and nothing lost of what was committed when it
 * can grow no more. In children, whose limit (ulimit -v) is theirs alone.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/sessions/store_rig.h"

enum { TOKENS = 64, BATCH = 50, UNLIMITED_HERE = 77 };
static const uint64_t mib = 1 << 20;
static char folder[64];
static struct status_note note;

static void setup(void) {
    snprintf(folder, sizeof folder, "/tmp/index-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* This process may have so much more address space than it has; false: nobody keeps that limit. */
static bool limit(uint64_t more) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    EXPECT(f != NULL && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    struct rlimit as = {.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + more,
                        .rlim_max = RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &as) == 0);
    void *much = mmap(NULL, 2 * more, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (much != MAP_FAILED)
        munmap(much, 2 * more);
    return much == MAP_FAILED;
}

/* work in a child with that limit; false: there is no such limit here. */
static bool in_child(void (*work)(void), uint64_t more) {
    fflush(stdout);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv(EXPECT_CHILD, "1", 1);
        if (!limit(more))
            _exit(UNLIMITED_HERE);
        work();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNLIMITED_HERE)
        return false;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    return true;
}

static enum status put(struct ses_index *x, uint32_t i) {
    static uint32_t tokens[TOKENS] = {1, 2, 3};
    uint64_t name = (i + 1) * 0x9e3779b97f4a7c15u; /* in no order */
    struct ses_record r = {
        .space = {.key = {7, 8}}, .name = {{name, i}}, .n_tokens = TOKENS, .tokens = tokens};
    struct ses_where where = {.segment = 1, .offset = i};
    return ses_index_put(x, &r, &where, 0, &note);
}

static bool count(void *self, const struct ses_record *r, const struct ses_where *where,
                  uint32_t flags) {
    EXPECT(r->name.word[1] == where->offset && r->tokens[2] == 3 && flags == 0);
    ++*(uint64_t *)self;
    return true;
}

static uint64_t all_of(struct ses_index *x) {
    uint64_t n = 0, bad = 0;
    EXPECT_FINE(ses_index_each(x, &n, count, &bad, &note) == STATUS_OK, note);
    EXPECT_EQ(bad, 0);
    return n;
}

/* Puts records until n are there or one batch is refused; how many were committed. */
static uint64_t fill(struct ses_index *x, uint32_t n) {
    for (uint32_t done = 0; done < n; done += BATCH) {
        enum status s = STATUS_OK;
        for (uint32_t i = done; i < done + BATCH && s == STATUS_OK; i++)
            s = put(x, i);
        if (s == STATUS_OK)
            s = ses_index_commit(x, &note);
        ses_index_abort(x);
        if (s != STATUS_OK) {
            EXPECT_EQ(s, STATUS_NO_MEMORY);
            EXPECT_FINE(strstr(note.text, "ulimit -v") != NULL, note);
            return done;
        }
    }
    return n;
}

static void grows(void) {
    struct ses_index *x, *beside;
    uint64_t need = ses_index_need(1000, TOKENS);
    EXPECT_FINE(ses_index_open(folder, false, need, &x, &note) == STATUS_OK, note);
    EXPECT_EQ(ses_index_map(x), need);
    EXPECT_EQ(fill(x, 8000), 8000);
    EXPECT(ses_index_map(x) > need && ses_index_bytes(x) > need);
    EXPECT_EQ(all_of(x), 8000);
    ses_index_close(x);
    EXPECT_FINE(ses_index_check(folder, &note) == STATUS_OK, note);
    EXPECT_FINE(ses_index_open(folder, true, 0, &beside, &note) == STATUS_OK, note);
    EXPECT_EQ(all_of(beside), 8000);
    ses_index_close(beside);
}

START_TEST(test_grows) {
    struct ses_index *x;
    if (!in_child(grows, 128 * mib))
        TEST_SKIP("this machine keeps no limit of address space (an emulator)");
    /* And a process that may have all maps all of what the other left. */
    ck_assert_int_eq(ses_index_open(folder, false, mib, &x, &note), STATUS_OK);
    ck_assert_uint_eq(ses_index_map(x), SES_INDEX_MAP_BYTES);
    ck_assert_uint_eq(all_of(x), 8000);
    ses_index_close(x);
}
END_TEST

static void grows_no_more(void) {
    struct ses_index *x;
    EXPECT_FINE(ses_index_open(folder, false, mib, &x, &note) == STATUS_OK, note);
    uint64_t n = fill(x, 100000);
    EXPECT(n > 1000 && n < 100000);
    EXPECT_EQ(all_of(x), n);
    EXPECT_EQ(put(x, 7), STATUS_OK); /* it goes on as far as there is room */
    ses_index_close(x);
    EXPECT_FINE(ses_index_open(folder, false, mib, &x, &note) == STATUS_OK, note);
    EXPECT_EQ(all_of(x), n);
    ses_index_close(x);
}

START_TEST(test_grows_no_more) {
    if (!in_child(grows_no_more, 40 * mib))
        TEST_SKIP("this machine keeps no limit of address space (an emulator)");
}
END_TEST

static void refused(void) {
    struct ses_index *x;
    EXPECT_EQ(ses_index_open(folder, false, 1024 * mib, &x, &note), STATUS_NO_MEMORY);
    EXPECT(x == NULL);
    EXPECT_FINE(strstr(note.text, folder) != NULL && strstr(note.text, "1024 MiB") != NULL &&
                    strstr(note.text, "ulimit -v") != NULL,
                note);
}

START_TEST(test_refused) {
    if (!in_child(refused, 64 * mib))
        TEST_SKIP("this machine keeps no limit of address space (an emulator)");
}
END_TEST

static void remember(void *self, const char *text) {
    snprintf(self, 512, "%s", text);
}

/* The whole store says so once, and works. */
static void store_works(void) {
    char said[512] = "";
    struct ses_store_config c = rig_config(1);
    c.say = remember;
    c.say_self = said;
    EXPECT_FINE(ses_store_open(&c, &rig.store, &note) == STATUS_OK, note);
    EXPECT_FINE(strstr(said, "address space is scarce") != NULL, note);
    ses_store_close(rig.store);
    EXPECT(rig_begin());
    rig_work(400);
    rig_finish();
    rig_end();
}

START_TEST(test_store) {
    struct fake_disk_faults none = {.seed = 5};
    rig_world_begin(5);
    fake_disk_set(&none);
    bool limited = in_child(store_works, 128 * mib);
    if (limited) {
        ck_assert_uint_gt(truth->puts, 10);
        rig_read_back();
    }
    rig_world_end();
    if (!limited)
        TEST_SKIP("this machine keeps no limit of address space (an emulator)");
}
END_TEST

START_TEST(test_need) {
    ck_assert_uint_eq(ses_index_need(0, 16), mib);
    ck_assert_uint_ge(ses_index_need(100000, 64), (uint64_t)100000 * 402 * 4);
    ck_assert_uint_lt(ses_index_need(100000, 64), (uint64_t)100000 * 402 * 8);
    ck_assert_uint_eq(ses_index_need(UINT32_MAX, SES_INDEX_TOKENS_MAX), SES_INDEX_MAP_BYTES);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/index");
    TCase *tcase = tcase_create("index");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_grows);
    tcase_add_test(tcase, test_grows_no_more);
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_store);
    tcase_add_test(tcase, test_need);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
