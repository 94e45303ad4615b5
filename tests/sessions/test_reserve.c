/* SPDX-License-Identifier: Apache-2.0
 * The admission rule over all small pools, against what the books would look like afterwards.
 */
#include "sessions/reserve.h"
#include "tests/sessions/expect.h"

static bool covered(uint32_t free, uint32_t idle, uint32_t reserved) {
    return free + idle >= reserved;
}

static void check(const struct ses_funds *f, const struct ses_ask *a) {
    struct ses_grant g = ses_reserve_decide(f, a);
    uint32_t idle = f->idle - a->shared_idle, fresh = a->pages - a->shared;
    /* Copied: the source may not go meanwhile. Moved: it is one of the fresh pages. */
    bool copy = covered(f->free, idle - a->source_idle, f->reserved + fresh);
    bool move = a->source_idle && covered(f->free, idle - 1, f->reserved + fresh - 1);
    EXPECT_EQ(g.available, f->free + f->idle - f->reserved);
    EXPECT_EQ(g.fresh, fresh);
    if (a->pages > f->total || a->pages > a->pages_max) {
        EXPECT_EQ(g.status, STATUS_NO_PAGES);
        return;
    }
    EXPECT_EQ(g.status, copy || move ? STATUS_OK : STATUS_AGAIN);
    if (g.status == STATUS_OK)
        EXPECT_EQ(g.move, !copy);
    if (f->free + f->idle == f->total && f->reserved == 0)
        EXPECT_EQ(g.status, STATUS_OK); /* with nothing running, whatever fits goes */
}

START_TEST(test_all_small_pools) {
    uint64_t cases = 0;
    for (uint32_t total = 1; total <= 6; total++)
        for (uint32_t free = 0; free <= total; free++)
            for (uint32_t idle = 0; free + idle <= total; idle++)
                for (uint32_t reserved = 0; reserved <= free + idle; reserved++)
                    for (uint32_t pages = 1; pages <= total + 1; pages++)
                        for (uint32_t shared = 0; shared < pages && shared < total; shared++)
                            for (uint32_t si = 0; si <= shared && si <= idle; si++)
                                for (int source = 0; source < 3; source++) {
                                    if (source == 2 && si + 1 > idle)
                                        continue;
                                    struct ses_funds f = {total, free, idle, reserved};
                                    struct ses_ask a = {pages, 5,          shared,
                                                        si,    source > 0, source == 2};
                                    check(&f, &a);
                                    cases++;
                                }
    ck_assert_uint_gt(cases, 10000);
}
END_TEST

START_TEST(test_whole_pages) {
    ck_assert_uint_eq(ses_pages_for(1, 64), 1);
    ck_assert_uint_eq(ses_pages_for(64, 64), 1);
    ck_assert_uint_eq(ses_pages_for(65, 64), 2);
    ck_assert_uint_eq(ses_pages_for(UINT32_MAX, 64), 1u << 26);
    ck_assert_uint_eq(ses_pages_for(UINT32_MAX, 1), UINT32_MAX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/reserve");
    TCase *tcase = tcase_create("reserve");
    tcase_add_test(tcase, test_all_small_pools);
    tcase_add_test(tcase, test_whole_pages);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
