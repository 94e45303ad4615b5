/* SPDX-License-Identifier: Apache-2.0
 * step16 in integers (numerics.md 16.2): what an H200 gave for every kind of input, and the rules
 * one by one.
 */
#include <math.h>
#include <xxhash.h>

#include "kernels/approx.h"
#include "kernels/step16.h"
#include "tests/harness.h"
#include "tests/kernels/step16_inputs.h"

/* Digests of every fourth row and sixteenth output, as tests/cuda/test_step16 prints them. */
static const uint64_t of_an_h200[STEP16_KINDS] = {
    0xb7d7f926b1bdd0f8, 0xd54dc42c23b063b3, 0x1dcf86b9c75bf8c3, 0xd2c7af386cc20c5a,
    0x4af8d625296560d7, 0x16592f0956131102, 0x47742975d39a79c8, 0x2d24b030e3510120,
    0xfded429879f89b31, 0x68e4a150ca7c1c4d, 0x1941d8a5c46058cb, 0xe3f1cc6050d76358,
    0x3323b0940588cc0a};

START_TEST(as_an_h200) {
    static uint16_t x[STEP16_ROWS * STEP16_K_MAX], w[STEP16_OUTPUTS * STEP16_K_MAX];
    for (uint32_t kind = 0; kind < STEP16_KINDS; kind++) {
        uint32_t k = step16_inputs(kind, x, w);
        static uint32_t some[STEP16_ROWS / 4 * STEP16_OUTPUTS / 16];
        size_t n_some = 0;
        for (uint32_t r = 0; r < STEP16_ROWS; r += 4)
            for (uint32_t n = 0; n < STEP16_OUTPUTS; n += 16) {
                float v = krn_step16_chain(0.0f, x + r * k, w + n * k, k);
                some[n_some++] = v != v ? 0x7fc00000 : krn_bits(v);
            }
        uint64_t digest = XXH3_64bits(some, sizeof some);
        ck_assert_msg(digest == of_an_h200[kind], "%s: %016llx", step16_kinds[kind].name,
                      (unsigned long long)digest);
    }
}
END_TEST

/* a[i] * 1 for up to four values. */
static float sum_of(float c, float v0, float v1, float v2, float v3) {
    uint16_t a[KRN_STEP16] = {krn_step16_bf16(v0), krn_step16_bf16(v1), krn_step16_bf16(v2),
                              krn_step16_bf16(v3)};
    uint16_t b[KRN_STEP16];
    for (int i = 0; i < KRN_STEP16; i++)
        b[i] = krn_step16_bf16(1.0f);
    return krn_step16(c, a, b);
}

static void same(float got, float expected) {
    ck_assert_msg(krn_bits(got) == krn_bits(expected), "%a, not %a", (double)got, (double)expected);
}

START_TEST(rules) {
    same(sum_of(1.5f, 2.0f, -0.25f, 3.0f, 0.0f), 6.25f);
    /* 25 bits behind the greatest exponent stay, each term cut towards zero alone */
    same(sum_of(-1.0f, 1.0f, 0x1p-25f, 0.0f, 0.0f), 0x1p-25f);
    same(sum_of(-1.0f, 1.0f, 0x1p-26f, 0x1p-26f, 0x1p-26f), 0.0f);
    same(sum_of(-1.0f, 1.0f, -0x1.8p-25f, 0.0f, 0.0f), -0x1p-25f);
    /* the result is cut towards zero, from either side */
    same(sum_of(0x1.000002p+0f, 0x1p-24f, 0x1p-25f, 0.0f, 0.0f), 0x1.000002p+0f);
    same(sum_of(-0x1.000002p+0f, -0x1p-24f, -0x1p-25f, 0.0f, 0.0f), -0x1.000002p+0f);
    /* a zero is nowhere: it raises no exponent */
    uint16_t a[KRN_STEP16] = {0, krn_step16_bf16(0x1p-60f)};
    uint16_t b[KRN_STEP16] = {krn_step16_bf16(0x1p+127f), krn_step16_bf16(0x1p-60f)};
    same(krn_step16(0.0f, a, b), 0x1p-120f);
    /* no zero is negative; steps of zeros change nothing */
    same(sum_of(-0.0f, -0.0f, 0.0f, 0.0f, 0.0f), 0.0f);
    same(sum_of(0.0f, -0x1p-133f, 0x1p-133f, 0.0f, 0.0f), 0.0f);
    same(sum_of(0x1.234562p-140f, 0.0f, 0.0f, 0.0f, 0.0f), 0x1.234562p-140f);
    same(sum_of(-0x1.fffffep+127f, 0.0f, 0.0f, 0.0f, 0.0f), -0x1.fffffep+127f);
    /* beyond fp32 */
    same(sum_of(0x1.fffffep+127f, 0x1p+104f, 0.0f, 0.0f, 0.0f), INFINITY);
    same(sum_of(0x1.fffffep+127f, 0x1p+103f, 0.0f, 0.0f, 0.0f), 0x1.fffffep+127f);
    same(sum_of(-INFINITY, 1.0f, 0.0f, 0.0f, 0.0f), -INFINITY);
    ck_assert(isnan(sum_of(-INFINITY, INFINITY, 0.0f, 0.0f, 0.0f)));
    ck_assert(isnan(sum_of(0.0f, NAN, 0.0f, 0.0f, 0.0f)));
}
END_TEST

/* A chain is its steps, the last one filled up with zeros. */
START_TEST(chains) {
    uint16_t a[48] = {0}, b[48] = {0};
    uint64_t seed = 7;
    for (uint32_t n = 0; n <= 40; n++) {
        for (uint32_t i = 0; i < 48; i++) {
            a[i] = i < n ? step16_element(&seed, 120, 9, 5, 0) : 0;
            b[i] = i < n ? step16_element(&seed, 120, 9, 5, 0) : 0;
        }
        float c = krn_step16(krn_step16(krn_step16(1.25f, a, b), a + 16, b + 16), a + 32, b + 32);
        same(krn_step16_chain(1.25f, a, b, n), c);
    }
}
END_TEST

START_TEST(rounding) {
    ck_assert_uint_eq(krn_step16_bf16(1.0f), 0x3f80);
    ck_assert_uint_eq(krn_step16_bf16(0x1.01p+0f), 0x3f80); /* a tie, to even */
    ck_assert_uint_eq(krn_step16_bf16(0x1.03p+0f), 0x3f82);
    ck_assert_uint_eq(krn_step16_bf16(0x1.010002p+0f), 0x3f81);
    ck_assert_uint_eq(krn_step16_bf16(0x1p-133f), 1);
    ck_assert_uint_eq(krn_step16_bf16(0x1.fffffep+127f), 0x7f80);
    ck_assert_uint_eq(krn_step16_bf16(-0.0f), 0x8000);
    ck_assert_uint_gt(krn_step16_bf16(-NAN) & 0x7fff, 0x7f80);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kernels/step16");
    TCase *tc = tcase_create("step16");
    tcase_add_test(tc, as_an_h200);
    tcase_add_test(tc, rules);
    tcase_add_test(tc, chains);
    tcase_add_test(tc, rounding);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
