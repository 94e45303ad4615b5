/* SPDX-License-Identifier: Apache-2.0
 * Names of reasons, and the memory of beginnings behind the three kinds of misses.
 */
#include <string.h>

#include "sessions/heads.h"
#include "sessions/reason.h"
#include "tests/sessions/expect.h"

START_TEST(test_names) {
    for (int a = 0; a < SES_REASONS; a++) {
        ck_assert_str_ne(ses_reason_text((enum ses_reason)a), "");
        ck_assert_str_ne(ses_reason_name((enum ses_reason)a), "unknown");
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(ses_reason_name((enum ses_reason)a),
                             ses_reason_name((enum ses_reason)b));
    }
    ck_assert_str_eq(ses_reason_name((enum ses_reason)77), "unknown");
    ck_assert_ptr_nonnull(ses_reason_text((enum ses_reason)77));
}
END_TEST

START_TEST(test_heads) {
    struct ses_heads *h;
    struct status_note note;
    EXPECT_FINE(ses_heads_open(100, &h, &note) == STATUS_OK, note);
    uint32_t ids[40];
    for (uint32_t i = 0; i < 40; i++)
        ids[i] = i * 7;
    ck_assert_int_eq(ses_heads_reason(h, 7, 1, ids, 40), SES_MISS_NEW);
    ses_heads_known(h, 7, 1, ids, 40);
    ck_assert_int_eq(ses_heads_reason(h, 7, 1, ids, 40), SES_MISS_NEW);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 40), SES_MISS_KEY);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 16), SES_MISS_KEY);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 15), SES_MISS_NEW);
    ck_assert_int_eq(ses_heads_reason(h, 8, 2, ids, 40),
                     SES_MISS_NEW);     /* another tenant learns nothing */
    ses_heads_evicted(h, 7, 2, ids, 5); /* a short session that the prompt continues */
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 40), SES_MISS_EVICTED);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 5), SES_MISS_EVICTED);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 4), SES_MISS_NEW);
    ck_assert_int_eq(ses_heads_reason(h, 7, 3, ids, 5), SES_MISS_NEW);
    ids[3]++;
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 40), SES_MISS_NEW);
    ids[3]--;
    ses_heads_clear(h);
    ck_assert_int_eq(ses_heads_reason(h, 7, 2, ids, 40), SES_MISS_NEW);
    for (uint32_t i = 0; i < 100000; i++) { /* it forgets, and never grows */
        ses_heads_evicted(h, 7, i, ids, 1 + i % 40);
        ses_heads_known(h, 7, i, ids, 1 + i % 40);
    }
    ck_assert_int_eq(ses_heads_reason(h, 7, 99999, ids, 40), SES_MISS_EVICTED);
    ses_heads_close(h);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/reason");
    TCase *tcase = tcase_create("reason");
    tcase_add_test(tcase, test_names);
    tcase_add_test(tcase, test_heads);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
