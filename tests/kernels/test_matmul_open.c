/* SPDX-License-Identifier: Apache-2.0
 * Products are opened only after the self-test of their own kind: this program has its own, which
 * refuses when it is told to. (What the real ones refuse: test_q8.c, test_bf16.c.)
 */
#include <string.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/matmul.h"
#include "kernels/rowfn.h"
#include "tests/harness.h"

static bool refuse;
static unsigned asked_q8, asked_bf16;

enum status krn_q8_selftest(const struct krn_q8 *q8, struct status_note *note) {
    asked_q8++;
    return refuse ? status_say(note, STATUS_UNSUPPORTED, "refused: %s", q8->isa) : STATUS_OK;
}

enum status krn_bf16_selftest(const struct krn_bf16_fn *fn, struct status_note *note) {
    asked_bf16++;
    return refuse ? status_say(note, STATUS_UNSUPPORTED, "refused: %s", fn->isa) : STATUS_OK;
}

static void check(enum krn_dtype act, const unsigned *asked) {
    struct krn_profile profile = {.name = "tests", .act = act};
    struct krn_matmul matmul;
    struct status_note note;
    const struct krn_rowfn *fn = krn_rowfn_pick("scalar");
    refuse = true;
    ck_assert_int_eq(krn_matmul_open(&profile, fn, &matmul, &note), STATUS_UNSUPPORTED);
    ck_assert(strstr(note.text, "refused: ") != NULL);
    ck_assert_int_eq(krn_matmul_open(&profile, fn, &matmul, &note), STATUS_UNSUPPORTED);
    ck_assert_uint_eq(*asked, 2); /* what was refused is not taken for proven */
    refuse = false;
    ck_assert_int_eq(krn_matmul_open(&profile, fn, &matmul, &note), STATUS_OK);
    refuse = true; /* and what is proven is not asked again */
    ck_assert_int_eq(krn_matmul_open(&profile, fn, &matmul, &note), STATUS_OK);
    ck_assert_uint_eq(*asked, 3);
}

START_TEST(products_are_proven_before_they_are_used) {
    check(KRN_Q8_0, &asked_q8);
    check(KRN_BF16, &asked_bf16);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kernels/matmul_open");
    TCase *tc = tcase_create("matmul_open");
    tcase_add_test(tc, products_are_proven_before_they_are_used);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
