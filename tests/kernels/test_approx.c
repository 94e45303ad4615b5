/* SPDX-License-Identifier: Apache-2.0
 * Our exp, log, sin, cos and pow against the library's in a wider type: the stated errors hold,
 * exact cases are exact. Also Philox against its published vectors, profiles, and RoPE tables.
 */
#include "tests/harness.h"

#include "kernels/model.h"
#include "tests/kernels/kit.h"

/* Distance in units of the last place of the exact value. */
static double ulps(float got, double exact) {
    int e;
    frexp(exact, &e);
    return fabs((double)got - exact) / ldexp(1.0, e - 24);
}

/* Every 101st float of the range in which exp is finite and normal. */
START_TEST(exp_error) {
    double worst = 0.0;
    for (uint32_t u = 0; u < 0x42b17218u; u += 101)
        for (int sign = 0; sign < 2; sign++) {
            float x = krn_float(u | (sign != 0 ? 0x80000000u : 0));
            if (x < KRN_EXP_LO)
                continue;
            double exact = exp((double)x), off = ulps(krn_expf(x), exact);
            if (exact >= 0x1.0p-126 * (1 + 0x1p-23))
                worst = off > worst ? off : worst;
        }
    printf("exp: at most %.4f ulp\n", worst);
    ck_assert_double_lt(worst, 1.0); /* numerics.md 0.5 */
}
END_TEST

START_TEST(exp_exact_cases) {
    ck_assert(krn_expf(0.0f) == 1.0f && krn_expf(-0.0f) == 1.0f);
    ck_assert(krn_expf(-INFINITY) == 0.0f && !signbit(krn_expf(-INFINITY)));
    ck_assert(krn_expf(INFINITY) == INFINITY);
    ck_assert(isnan(krn_expf(NAN)) && isnan(krn_expf(-NAN)));
    ck_assert(krn_expf(88.72283f) < INFINITY && krn_expf(88.7229f) == INFINITY);
    ck_assert(krn_expf(-87.34f) == 0.0f && krn_expf(-1e30f) == 0.0f);
    for (uint32_t u = 0xc2aea000u; u < 0xc2aeb000u; u++) { /* around the edge: normal or +0 */
        float y = krn_expf(krn_float(u));
        ck_assert(y == 0.0f || y >= 0x1p-126f);
    }
}
END_TEST

/* The vector exp, seen through the gate: g / (1 + exp(-g)). */
START_TEST(exp_is_the_same_in_every_table) {
    const struct krn_rowfn *table[4];
    unsigned n_tables = kit_tables(table);
    float g[1024], want[1024], u[1024];
    for (unsigned i = 0; i < 1024; i++)
        u[i] = 1.0f;
    for (uint32_t base = 0; base < 0xffffff00u - (1u << 24); base += 1u << 24)
        for (unsigned t = 0; t < n_tables; t++) {
            for (uint32_t i = 0; i < 1024; i++) {
                float x = krn_float(base + i * 16411u);
                g[i] = x;
                want[i] = x / (1.0f + krn_expf(-x));
            }
            table[t]->gate(g, u, 1024);
            kit_equal(g, want, 1024, "%s from %08x", table[t]->isa, base);
        }
}
END_TEST

START_TEST(fp64_functions) {
    struct kit_rand r = {31, 0};
    for (unsigned i = 0; i < 200000; i++) {
        double x = (double)kit_unit(&r) * 300.0, y = krn_exp64(x);
        ck_assert_double_lt(fabs(y / exp(x) - 1.0), 0x1p-44); /* |x| 2^-53, and the series */
        double l = ldexp(1.0 + fabs((double)kit_unit(&r)), (int)kit_below(&r, 400) - 200);
        ck_assert_double_lt(fabs(krn_log64(l) - log(l)), 0x1p-50 * (1.0 + fabs(log(l))));
        double a = ldexp((double)kit_unit(&r), (int)kit_below(&r, 21)), s, c;
        krn_sincos64(a, &s, &c);
        ck_assert_double_lt(fabs(s - sin(a)), 0x1p-50);
        ck_assert_double_lt(fabs(c - cos(a)), 0x1p-50);
    }
    ck_assert(krn_log64(1.0) == 0.0 && krn_exp64(0.0) == 1.0);
}
END_TEST

/* Published test vectors of Philox4x32-10. */
START_TEST(philox_vectors) {
    static const uint32_t in[3][6] = {
        {0, 0, 0, 0, 0, 0},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0}};
    static const uint32_t want[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        krn_philox(in[i], in[i] + 4, out);
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(out[k], want[i][k]);
    }
    for (uint64_t pos = 0; pos < 1000; pos++)
        ck_assert(krn_philox_u64(5, pos) != 0 && krn_philox_u64(5, pos) != krn_philox_u64(6, pos));
}
END_TEST

/* Every entry within half a unit of fp32 of the exact cosine of the fp32 angle, frequencies as
 * published. */
static void check_table(const struct krn_rope *rope, const float *inv, uint32_t d,
                        uint32_t context) {
    float *t = kit_floats((size_t)context * d);
    krn_rope_table(rope, d, context, t);
    for (uint32_t pos = 0; pos < context; pos++)
        for (uint32_t i = 0; i < d / 2; i++) {
            double a = (double)((float)pos * inv[i]);
            ck_assert_msg(t[(size_t)pos * d + i] == (float)cos(a) &&
                              t[(size_t)pos * d + d / 2 + i] == (float)sin(a),
                          "position %u, pair %u", pos, i);
        }
    free(t);
}

START_TEST(rope_tables) {
    enum { D = 64, CONTEXT = 5000 };
    float plain[D / 2], linear[D / 2], llama3[D / 2];
    for (uint32_t i = 0; i < D / 2; i++) {
        plain[i] = 1.0f / (float)pow(500000.0, (double)((float)(2 * i) / (float)D));
        linear[i] = plain[i] / 4.0f;
        float wave = (float)(2.0 * M_PI) / plain[i];
        float smooth = (8192.0f / wave - 1.0f) / 3.0f;
        float mid = (1.0f - smooth) * plain[i] / 8.0f + smooth * plain[i];
        llama3[i] = wave > 8192.0f ? plain[i] / 8.0f : wave < 2048.0f ? plain[i] : mid;
    }
    struct krn_rope rope = {.kind = KRN_ROPE_PLAIN, .theta = 500000.0, .factor = 4.0};
    check_table(&rope, plain, D, CONTEXT);
    rope.kind = KRN_ROPE_LINEAR;
    check_table(&rope, linear, D, CONTEXT);
    rope = (struct krn_rope){.kind = KRN_ROPE_LLAMA3,
                             .theta = 500000.0,
                             .factor = 8.0,
                             .low_freq_factor = 1.0,
                             .high_freq_factor = 4.0,
                             .original_context = 8192};
    check_table(&rope, llama3, D, CONTEXT);
    ck_assert(llama3[0] == plain[0] && llama3[D / 2 - 1] == plain[D / 2 - 1] / 8.0f);
}
END_TEST

static struct krn_config config(uint32_t heads, uint32_t kv, uint32_t d, uint32_t ffn) {
    return (struct krn_config){.heads = heads, .kv_heads = kv, .head_dim = d, .ffn = ffn};
}

START_TEST(virtual_ranks) {
    static const struct {
        uint32_t heads, kv, d, ffn, v;
    } cases[] = {{4, 2, 64, 704, 4},   {32, 8, 128, 14336, 8}, {8, 8, 16, 128, 8},
                 {8, 1, 16, 1024, 8},  {6, 2, 64, 768, 2},     {9, 3, 64, 1536, 1},
                 {8, 3, 64, 1024, 1},  {8, 6, 64, 1024, 2},    {16, 8, 64, 16 * 4, 4},
                 {12, 4, 64, 3072, 4}, {8, 8, 16, 120, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c = config(cases[i].heads, cases[i].kv, cases[i].d, cases[i].ffn);
        ck_assert_msg(krn_profile_virtual_ranks_max(&c, 16) == cases[i].v, "case %u gives %u", i,
                      krn_profile_virtual_ranks_max(&c, 16));
    }
}
END_TEST

START_TEST(profiles) {
    struct krn_config c = config(8, 8, 64, 1024);
    struct krn_profile p, q;
    struct status_note note;
    ck_assert_int_eq(krn_profile_portable(&c, 0, &p, &note), STATUS_OK);
    ck_assert_str_eq(p.name, "portable");
    ck_assert_int_eq(krn_profile_portable(&c, 8, &q, &note), STATUS_OK);
    ck_assert_uint_eq(krn_profile_digest(&p), krn_profile_digest(&q));
    ck_assert_int_eq(krn_profile_portable(&c, 2, &q, &note), STATUS_OK);
    ck_assert_str_eq(q.name, "portable-v2");
    ck_assert_uint_ne(krn_profile_digest(&p), krn_profile_digest(&q));
    static const uint32_t bad[] = {3, 16, 1u << 31};
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(krn_profile_portable(&c, bad[i], &q, &note), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(note.text, "K-steps of 16; take a power of two up to 8") != NULL, "%s",
                  note.text);
    struct krn_config odd = config(8, 8, 64, 1040), dense = c;
    ck_assert_int_eq(krn_profile_open("q8", &odd, 0, &q, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "profile q8") != NULL && strstr(note.text, "of 32") != NULL &&
                      strstr(note.text, "1040") != NULL,
                  "%s", note.text);
    dense.experts = 4;
    dense.dense_ffn = 208; /* 13 K-steps */
    ck_assert_uint_eq(krn_profile_virtual_ranks_max(&dense, 16), 1);
    ck_assert_int_eq(krn_profile_open("q8", &dense, 0, &q, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "208") != NULL, "%s", note.text);
    ck_assert_int_eq(krn_profile_open(NULL, &c, 0, &q, &note), STATUS_OK);
    ck_assert_uint_eq(krn_profile_digest(&p), krn_profile_digest(&q));
    ck_assert_int_eq(krn_profile_open("portabel", &c, 0, &q, &note), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(note.text, "'portabel'") != NULL, "%s", note.text);
    ck_assert_msg(strstr(note.text, krn_profile_name(0)) != NULL, "%s", note.text);
    for (unsigned i = 0; krn_profile_name(i) != NULL; i++) {
        ck_assert_int_eq(krn_profile_open(krn_profile_name(i), &c, 0, &q, &note), STATUS_OK);
        ck_assert_str_eq(q.name, krn_profile_name(i));
    }
    /* every field moves the digest */
    uint32_t *field[] = {&q.version,       &q.lanes,     &q.block,        &q.k_step,
                         &q.virtual_ranks, &q.attn_tile, &q.attn_segment, &q.promotion};
    for (unsigned i = 0; i < sizeof field / sizeof field[0]; i++) {
        q = p;
        *field[i] += 1;
        ck_assert_uint_ne(krn_profile_digest(&p), krn_profile_digest(&q));
    }
    q = p;
    q.kv = KRN_BF16;
    ck_assert_uint_ne(krn_profile_digest(&p), krn_profile_digest(&q));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("approx");
    TCase *tc = tcase_create("approx");
    tcase_add_test(tc, exp_error);
    tcase_add_test(tc, exp_exact_cases);
    tcase_add_test(tc, exp_is_the_same_in_every_table);
    tcase_add_test(tc, fp64_functions);
    tcase_add_test(tc, philox_vectors);
    tcase_add_test(tc, rope_tables);
    tcase_add_test(tc, virtual_ranks);
    tcase_add_test(tc, profiles);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
