/* SPDX-License-Identifier: Apache-2.0
 * The pool: states, handles that die with their page, holders, free lists, news of freed pages.
 */
#include "sessions/pages.h"
#include "tests/sessions/expect.h"

enum { DEVICE = 12, TIER = 5, HELD_MAX = 64 };

static struct ses_pages *open_pages(uint32_t device, uint32_t tier) {
    struct ses_pages *p;
    struct status_note note;
    EXPECT_FINE(ses_pages_open(device, tier, &p, &note) == STATUS_OK, note);
    return p;
}

START_TEST(test_moves) {
    static const enum ses_page_state legal[][2] = {
        {SES_PAGE_FREE, SES_PAGE_FILLING},      /* taken */
        {SES_PAGE_FILLING, SES_PAGE_FREE},      /* a lane ended */
        {SES_PAGE_FILLING, SES_PAGE_FULL},      /* shared */
        {SES_PAGE_FILLING, SES_PAGE_PARKED},    /* the tier has the bytes */
        {SES_PAGE_FILLING, SES_PAGE_RESTORING}, /* the tier will write it */
        {SES_PAGE_FULL, SES_PAGE_FREE},         /* evicted */
        {SES_PAGE_FULL, SES_PAGE_PARKING},
        {SES_PAGE_FULL, SES_PAGE_FILLING}, /* moved into a lane */
        {SES_PAGE_PARKING, SES_PAGE_FULL}, /* done */
        {SES_PAGE_PARKED, SES_PAGE_FREE},
        {SES_PAGE_RESTORING, SES_PAGE_FILLING}, /* done: it is the waiting lane's own */
    };
    for (int from = 0; from < SES_PAGE_STATES; from++)
        for (int to = 0; to < SES_PAGE_STATES; to++) {
            bool expected = false;
            for (size_t i = 0; i < sizeof legal / sizeof *legal; i++)
                expected = expected || ((int)legal[i][0] == from && (int)legal[i][1] == to);
            EXPECT_EQ(ses_pages_may_move((enum ses_page_state)from, (enum ses_page_state)to),
                      expected);
        }
    for (int state = 0; state < SES_PAGE_STATES; state++)
        ck_assert_str_ne(ses_page_state_name((enum ses_page_state)state), "");
}
END_TEST

START_TEST(test_handles_die) {
    struct ses_pages *p = open_pages(1, 0);
    ses_page_t first = ses_pages_take(p, 0, SES_PLACE_DEVICE, SES_HOLD_LANE);
    ck_assert_uint_eq(ses_page_id(first), 1);
    ck_assert(ses_pages_take(p, 0, SES_PLACE_DEVICE, SES_HOLD_LANE) == 0);
    ck_assert(ses_pages_take(p, 0, SES_PLACE_TIER, SES_HOLD_LANE) == 0);
    ses_pages_hold(p, first, SES_HOLD_JOB);
    ck_assert(!ses_pages_drop(p, first, SES_HOLD_LANE));
    ck_assert(ses_pages_live(p, first));
    ck_assert(ses_pages_drop(p, first, SES_HOLD_JOB));
    ck_assert(!ses_pages_live(p, first));
    ses_page_t second = ses_pages_take(p, 0, SES_PLACE_DEVICE, SES_HOLD_LANE);
    ck_assert_uint_eq(ses_page_id(second), 1);
    ck_assert(second != first);
    ck_assert(!ses_pages_live(p, first));
    ck_assert(!ses_pages_live(p, 0));
    ck_assert(!ses_pages_live(p, second + 1));
    ses_pages_close(p);
}
END_TEST

START_TEST(test_freed_is_told_once) {
    struct ses_pages *p = open_pages(20, 3);
    ses_page_t page[20], tier;
    uint32_t ids[32];
    for (uint32_t i = 0; i < 20; i++)
        page[i] = ses_pages_take(p, 0, SES_PLACE_DEVICE, SES_HOLD_LANE);
    tier = ses_pages_take(p, 0, SES_PLACE_TIER, SES_HOLD_TRIE);
    ck_assert_uint_eq(ses_pages_place(20, tier), SES_PLACE_TIER);
    for (uint32_t i = 0; i < 20; i++)
        ses_pages_drop(p, page[i], SES_HOLD_LANE);
    ses_pages_drop(p, tier, SES_HOLD_TRIE); /* no plan ever names it */
    for (uint32_t i = 0; i < 4; i++)        /* taken again before it was told */
        page[i] = ses_pages_take(p, 0, SES_PLACE_DEVICE, SES_HOLD_LANE);
    uint32_t total = 0, n, seen = 0;
    while ((n = ses_pages_freed(p, ids, 8)) > 0) {
        total += n;
        for (uint32_t i = 0; i < n; i++) {
            EXPECT(ids[i] >= 1 && ids[i] <= 20);
            EXPECT((seen >> ids[i] & 1) == 0);
            seen |= 1u << ids[i];
            EXPECT(ses_pages_at(p, ids[i]) == 0);
        }
    }
    ck_assert_uint_eq(total, 16);
    ses_pages_close(p);
}
END_TEST

/* Random takes, holds and drops against a list of who holds what. */
START_TEST(test_conserved) {
    for (unsigned long long seed = 1; seed <= 200; seed++) {
        unsigned long long random = seed;
        struct ses_pages *p = open_pages(DEVICE, TIER);
        struct {
            ses_page_t page;
            enum ses_holder holder;
        } held[HELD_MAX];
        uint32_t n = 0;
        for (int step = 0; step < 300; step++) {
            uint32_t what = (uint32_t)(expect_random(&random) % 3);
            enum ses_holder holder = expect_random(&random) % 2 ? SES_HOLD_LANE : SES_HOLD_JOB;
            uint32_t at = n > 0 ? (uint32_t)(expect_random(&random) % n) : 0;
            if (what == 0 && n < HELD_MAX) {
                enum ses_place place =
                    expect_random(&random) % 4 ? SES_PLACE_DEVICE : SES_PLACE_TIER;
                uint32_t before = ses_pages_free(p, place);
                ses_page_t page = ses_pages_take(p, 0, place, holder);
                EXPECT_EQ(page != 0, before > 0);
                for (uint32_t i = 0; page != 0 && i < n; i++)
                    EXPECT(held[i].page != page);
                if (page != 0) {
                    held[n].page = page;
                    held[n++].holder = holder;
                }
            } else if (what == 1 && n > 0 && n < HELD_MAX) {
                ses_pages_hold(p, held[at].page, holder);
                held[n].page = held[at].page;
                held[n++].holder = holder;
            } else if (what == 2 && n > 0) {
                ses_page_t page = held[at].page;
                holder = held[at].holder;
                held[at] = held[--n];
                bool last = true;
                for (uint32_t i = 0; i < n; i++)
                    last = last && held[i].page != page;
                EXPECT_EQ(ses_pages_drop(p, page, holder), last);
                EXPECT_EQ(ses_pages_live(p, page), !last);
            }
            struct status_note note;
            EXPECT_FINE(ses_pages_audit(p, &note), note);
            EXPECT_EQ(ses_pages_holders(p, SES_HOLD_LANE) + ses_pages_holders(p, SES_HOLD_JOB), n);
        }
        ses_pages_close(p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/pages");
    TCase *tcase = tcase_create("pages");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, test_moves);
    tcase_add_test(tcase, test_handles_die);
    tcase_add_test(tcase, test_freed_is_told_once);
    tcase_add_test(tcase, test_conserved);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
