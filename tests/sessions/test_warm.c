/* SPDX-License-Identifier: Apache-2.0
 * Host memory that is touched before it is used: the kernel is asked which of it is there.
 */
#include <string.h>
#include <sys/mman.h>

#include "sessions/warm.h"
#include "tests/sessions/expect.h"

enum { SYSTEM_PAGE = 4096, MORE = 24 << 20 };

static uint32_t n_there(const struct ses_warm_range *r) {
    static unsigned char there[(SES_WARM_FIRST + MORE) / SYSTEM_PAGE];
    uint32_t n = 0;
    ck_assert_int_eq(mincore(r->at, r->bytes, there), 0);
    for (uint64_t i = 0; i < r->bytes / SYSTEM_PAGE; i++)
        n += there[i] & 1;
    return n;
}

static struct ses_warm_range memory_of(uint64_t bytes) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    return (struct ses_warm_range){map, bytes};
}

/* Ends the run when what was spawned before it has ended: nothing else would. */
static void watch_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    const struct ses_warm_range *r = self;
    if (msg->kind != ACT_KIND_stop && n_there(r) < r->bytes / SYSTEM_PAGE) {
        act_timer_arm(ctx, 1000000, 0);
        return;
    }
    act_rt_stop(act_rt_of(ctx));
    act_exit(ctx);
}

static const struct act_kind watch_kind = {.name = "watch", .receive = watch_receive};

static void run_beside(struct ses_warm *w, struct ses_warm_range *watched) {
    struct status_note note;
    struct act_rt *rt;
    struct act_rt_config rc = {.port = ACT_PORT_THREADS,
                               .workers = 1,
                               .actors_max = 4,
                               .messages_max = 64,
                               .timers_max = 8};
    EXPECT_FINE(act_rt_open(&rc, &rt, &note) == STATUS_OK, note);
    ck_assert_uint_ne(act_spawn(rt, &ses_warm_kind, w, ACT_OWN_THREAD), 0);
    ck_assert_uint_ne(act_spawn(rt, &watch_kind, watched, 0), 0);
    act_rt_run(rt);
    act_rt_close(rt);
}

START_TEST(test_first_part_is_there_at_once) {
    struct ses_warm_range small = memory_of(8 * SYSTEM_PAGE);
    struct ses_warm_range r = memory_of(SES_WARM_FIRST + MORE);
    madvise(r.at, r.bytes, MADV_NOHUGEPAGE); /* so that no page is there by its neighbour's touch */
    ck_assert_uint_eq(n_there(&r), 0);
    if (!ses_warm_first(&r))
        ck_assert_uint_eq(n_there(&r), 0); /* a kernel before 5.14 */
    else
        ck_assert_uint_eq(n_there(&r), SES_WARM_FIRST / SYSTEM_PAGE);
    if (ses_warm_first(&small))
        ck_assert_uint_eq(n_there(&small), 8);
    munmap(r.at, r.bytes);
    munmap(small.at, small.bytes);
}
END_TEST

START_TEST(test_all_of_it_later_and_no_byte_changes) {
    struct ses_warm_range r[2] = {memory_of(SES_WARM_FIRST + MORE), memory_of(SYSTEM_PAGE)};
    struct ses_warm *w;
    struct status_note note;
    if (!ses_warm_first(&r[0])) /* a kernel before 5.14 */
        return;
    for (uint64_t at = 0; at < r[0].bytes; at += 3 << 20)
        memset(r[0].at + at, (int)(1 + at / (3 << 20)), 100);
    EXPECT_FINE(ses_warm_open(r, 2, &w, &note) == STATUS_OK, note);
    run_beside(w, &r[0]);
    ck_assert_uint_eq(n_there(&r[1]), 1);
    for (uint64_t at = 0; at < r[0].bytes; at += 3 << 20) {
        for (int i = 0; i < 100; i++)
            ck_assert_uint_eq(r[0].at[at + (uint64_t)i], 1 + at / (3 << 20));
        ck_assert_uint_eq(r[0].at[at + 100], 0);
    }
    ses_warm_close(w);
    munmap(r[0].at, r[0].bytes);
    munmap(r[1].at, r[1].bytes);
}
END_TEST

/* Memory that cannot be had ends it, and nothing else. */
START_TEST(test_memory_that_is_gone) {
    struct ses_warm_range r[2] = {memory_of(2 * SYSTEM_PAGE), memory_of(SYSTEM_PAGE)};
    struct ses_warm *w;
    struct status_note note;
    if (!ses_warm_first(&r[1]))
        return;
    munmap(r[0].at + SYSTEM_PAGE, SYSTEM_PAGE);
    ck_assert(!ses_warm_first(&r[0]));
    EXPECT_FINE(ses_warm_open(r, 1, &w, &note) == STATUS_OK, note);
    run_beside(w, &r[1]);
    ses_warm_close(w);
    munmap(r[0].at, SYSTEM_PAGE);
    munmap(r[1].at, SYSTEM_PAGE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/warm");
    TCase *tcase = tcase_create("warm");
    tcase_add_test(tcase, test_first_part_is_there_at_once);
    tcase_add_test(tcase, test_all_of_it_later_and_no_byte_changes);
    tcase_add_test(tcase, test_memory_that_is_gone);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
