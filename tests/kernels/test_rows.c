/* SPDX-License-Identifier: Apache-2.0
 * The functions of one row: every table against the oracle's loops at every length, and the rules
 * on zeros, NaN and the floating-point environment.
 */
#include "tests/harness.h"

#include <fenv.h>

#include "kernels/oracle_rows.h"
#include "tests/kernels/kit.h"

static const struct krn_rowfn *table[4];
static unsigned n_tables;

enum { LENGTH_MAX = 300 };

START_TEST(norm_of_every_length) {
    struct kit_rand r = {21, 0};
    for (uint32_t n = 1; n <= LENGTH_MAX; n++)
        for (int kind = 0; kind < KIT_VALUES; kind++) {
            struct krn_tensor w = kit_tensor(&r, KRN_F32, 1, n, KIT_TAME);
            float x[LENGTH_MAX], want[LENGTH_MAX], got[LENGTH_MAX + 16];
            kit_fill(&r, x, n, (enum kit_values)kind);
            krn_oracle_norm(x, &w, want, n, 1e-5f);
            for (unsigned t = 0; t < n_tables; t++) {
                memset(got, 0x55, sizeof got);
                table[t]->norm(x, w.data, got, n, 1e-5f);
                kit_equal(got, want, n, "%s norm of %u, kind %d", table[t]->isa, n, kind);
                ck_assert_uint_eq(krn_bits(got[n]), 0x55555555u);
                memcpy(got, x, n * sizeof(float)); /* in place */
                table[t]->norm(got, w.data, got, n, 1e-5f);
                kit_equal(got, want, n, "%s norm in place", table[t]->isa);
            }
            free((void *)w.data);
        }
}
END_TEST

START_TEST(gate_add_finite_of_every_length) {
    struct kit_rand r = {22, 0};
    for (uint32_t n = 1; n <= LENGTH_MAX; n++)
        for (int kind = 0; kind < KIT_VALUES; kind++) {
            float a[LENGTH_MAX], b[LENGTH_MAX], want[LENGTH_MAX], got[LENGTH_MAX + 1];
            float gelu[LENGTH_MAX], scaled[LENGTH_MAX];
            kit_fill(&r, a, n, (enum kit_values)kind);
            kit_fill(&r, b, n, (enum kit_values)kind);
            if (kind == KIT_TAME)
                for (uint32_t i = 0; i < n; i++)
                    a[i] = a[i] * 100.0f; /* where exp flushes and overflows */
            memcpy(want, a, n * sizeof(float));
            krn_oracle_gate(want, b, n);
            memcpy(gelu, a, n * sizeof(float));
            krn_oracle_gate_gelu(gelu, b, n);
            memcpy(scaled, a, n * sizeof(float));
            krn_oracle_scale(scaled, 6.9375f, n);
            for (unsigned t = 0; t < n_tables; t++) {
                memcpy(got, a, n * sizeof(float));
                got[n] = 7.0f;
                table[t]->gate(got, b, n);
                kit_equal(got, want, n, "%s gate of %u, kind %d", table[t]->isa, n, kind);
                memcpy(got, a, n * sizeof(float));
                table[t]->gate_gelu(got, b, n);
                kit_equal(got, gelu, n, "%s gelu gate of %u, kind %d", table[t]->isa, n, kind);
                memcpy(got, a, n * sizeof(float));
                table[t]->scale(got, 6.9375f, n);
                kit_equal(got, scaled, n, "%s scale of %u, kind %d", table[t]->isa, n, kind);
                table[t]->add(a, b, got, n);
                for (uint32_t i = 0; i < n; i++)
                    ck_assert(krn_bits(got[i]) == krn_bits(a[i] + b[i]) || isnan(a[i] + b[i]));
                ck_assert(got[n] == 7.0f);
                ck_assert_int_eq(table[t]->finite(a, n), krn_oracle_finite(a, n));
            }
        }
}
END_TEST

START_TEST(mix_of_every_length) {
    struct kit_rand r = {29, 0};
    for (uint32_t n = 1; n <= LENGTH_MAX; n++)
        for (int kind = 0; kind < KIT_VALUES; kind++) {
            float x[LENGTH_MAX], y[LENGTH_MAX], got[LENGTH_MAX + 1], want[LENGTH_MAX];
            float w = kit_value(&r, (enum kit_values)kind);
            kit_fill(&r, x, n, (enum kit_values)kind);
            kit_fill(&r, y, n, (enum kit_values)kind);
            for (uint32_t i = 0; i < n; i++)
                want[i] = fmaf(w, x[i], y[i]);
            for (unsigned t = 0; t < n_tables; t++) {
                memcpy(got, y, n * sizeof(float));
                got[n] = 7.0f;
                table[t]->mix(got, x, w, n);
                kit_equal(got, want, n, "%s mix of %u, kind %d", table[t]->isa, n, kind);
                ck_assert(got[n] == 7.0f);
            }
        }
}
END_TEST

/* Against gelu's tanh form in fp64: a few roundings of fp32 away, and its limits. */
START_TEST(gelu_is_gelu) {
    float g[64], u[64];
    for (unsigned t = 0; t < n_tables; t++)
        for (int base = -12; base < 12; base++) {
            for (int i = 0; i < 64; i++) {
                g[i] = (float)base + (float)i / 64.0f;
                u[i] = 1.0f;
            }
            table[t]->gate_gelu(g, u, 64);
            for (int i = 0; i < 64; i++) {
                double x = base + i / 64.0;
                double want =
                    0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
                ck_assert_double_lt(fabs((double)g[i] - want),
                                    4e-7 * (fabs(x) < 1.0 ? 1.0 : fabs(x)));
            }
        }
    for (unsigned t = 0; t < n_tables; t++) {
        float far[4] = {1e30f, -1e30f, 0.0f, -0.0f}, two[4] = {2.0f, 2.0f, 2.0f, 2.0f};
        table[t]->gate_gelu(far, two, 4);
        ck_assert(far[0] == 2e30f && far[1] == 0.0f && far[2] == 0.0f && far[3] == 0.0f);
    }
}
END_TEST

START_TEST(finite_sees_every_place) {
    float x[LENGTH_MAX];
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu};
    for (uint32_t n = 1; n <= 70; n++)
        for (uint32_t at = 0; at < n; at++)
            for (unsigned b = 0; b < sizeof bad / sizeof bad[0]; b++) {
                for (uint32_t i = 0; i < n; i++)
                    x[i] = krn_float(i % 2 != 0 ? 0x7f7fffffu : 1u);
                for (unsigned t = 0; t < n_tables; t++)
                    ck_assert(table[t]->finite(x, n));
                x[at] = krn_float(bad[b]);
                for (unsigned t = 0; t < n_tables; t++)
                    ck_assert(!table[t]->finite(x, n));
            }
}
END_TEST

START_TEST(rope_of_every_head) {
    struct kit_rand r = {23, 0};
    for (uint32_t d = 16; d <= KRN_HEAD_MAX; d += 16)
        for (int kind = 0; kind < KIT_VALUES; kind++) {
            float x[KRN_HEAD_MAX], cs[KRN_HEAD_MAX], want[KRN_HEAD_MAX], got[KRN_HEAD_MAX];
            kit_fill(&r, x, d, (enum kit_values)kind);
            kit_fill(&r, cs, d, KIT_TAME);
            memcpy(want, x, sizeof want);
            krn_oracle_rope(want, cs, d);
            for (unsigned t = 0; t < n_tables; t++) {
                memcpy(got, x, sizeof got);
                table[t]->rope(got, cs, d);
                kit_equal(got, want, d, "%s rope of %u", table[t]->isa, d);
            }
        }
}
END_TEST

START_TEST(embed_widens_exactly) {
    struct kit_rand r = {24, 0};
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
        for (uint32_t n = 1; n <= 40; n += 13) {
            struct krn_tensor w = kit_tensor(&r, (enum krn_dtype)dtype, n, 33, KIT_HOSTILE);
            struct krn_packed p = kit_pack(&w);
            float want[33], got[33];
            for (uint32_t i = 0; i < n; i++) {
                krn_oracle_embed(&w, i, want);
                for (unsigned t = 0; t < n_tables; t++) {
                    table[t]->embed(&p, i, got);
                    kit_equal(got, want, 33, "%s embed type %d row %u", table[t]->isa, dtype, i);
                }
            }
            free((void *)w.data);
            free((void *)p.data);
        }
}
END_TEST

/* All 65,536 halves by arithmetic that shares nothing with the widening. */
START_TEST(halves_widen_exactly) {
    for (uint32_t h = 0; h < 65536; h++) {
        float x = krn_widen_f16((uint16_t)h), b = krn_widen_bf16((uint16_t)h);
        int e = (int)(h >> 10 & 31);
        double m = (double)(h & 1023), want = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
        if (e == 31)
            want = m != 0 ? NAN : INFINITY;
        want = h >> 15 != 0 ? -want : want;
        ck_assert(isnan(want) ? isnan(x) : (double)x == want && signbit(x) == signbit((float)want));
        ck_assert_uint_eq(krn_bits(b), h << 16);
    }
}
END_TEST

/* A shard keeps whole blocks, and the tail block is padded with zeros. */
START_TEST(pack_places_every_element) {
    struct kit_rand r = {25, 0};
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++) {
        struct krn_tensor w = kit_tensor(&r, (enum krn_dtype)dtype, 70, 50, KIT_TAME);
        struct krn_packed p;
        size_t e = dtype == KRN_F32 ? 4 : 2;
        unsigned char *out = kit_alloc(krn_packed_bytes(w.dtype, 35, 20));
        krn_pack(&w, 32, 35, 16, 20, out, &p);
        ck_assert_uint_eq(p.n_blocks, 3);
        ck_assert_uint_eq(p.bytes, 3 * 16 * 20 * e);
        static const unsigned char zero[4];
        for (uint32_t n = 0; n < 48; n++)
            for (uint32_t k = 0; k < 20; k++) {
                const unsigned char *at = out + ((n / 16 * 20 + k) * 16 + n % 16) * e;
                const unsigned char *from =
                    (const unsigned char *)w.data + ((32 + n) * 50 + 16 + k) * e;
                ck_assert_int_eq(memcmp(at, n < 35 ? from : zero, e), 0);
            }
        free(out);
        free((void *)w.data);
    }
}
END_TEST

START_TEST(kv_write_places_every_element) {
    enum { D = 32, HEADS = 3, PAGE = 128, POS = 300 };
    uint64_t layer = PAGE * HEADS * D * 2;
    const uint32_t pages[3] = {2, 0, 1};
    for (unsigned t = 0; t < n_tables; t++) {
        float *pool = kit_floats(3 * 2 * layer);
        memset(pool, 0, 3 * 2 * layer * sizeof(float));
        struct krn_kv kv = {.pool = (unsigned char *)pool,
                            .page_bytes = 2 * layer * sizeof(float),
                            .layer_off = layer * sizeof(float),
                            .page_tokens = PAGE,
                            .kv_heads = HEADS,
                            .head_dim = D};
        for (uint32_t pos = 0; pos < POS; pos++)
            for (uint32_t h = 0; h < HEADS; h++) {
                float k[D], v[D];
                for (uint32_t i = 0; i < D; i++) {
                    k[i] = (float)(pos * 256 + h * 64 + i + 1);
                    v[i] = -k[i];
                }
                table[t]->kv_write(&kv, pages, pos, h, k, v);
            }
        size_t written = 0;
        for (uint32_t pos = 0; pos < POS; pos++)
            for (uint32_t h = 0; h < HEADS; h++)
                for (uint32_t i = 0; i < D; i++) {
                    const float *tile = pool + pages[pos / PAGE] * 2 * layer + layer +
                                        (h * 2 + pos % PAGE / 64) * 2 * D * 64;
                    float want = (float)(pos * 256 + h * 64 + i + 1);
                    ck_assert(tile[i * 64 + pos % 64] == want);
                    ck_assert(tile[D * 64 + pos % 64 * D + i] == -want);
                }
        for (size_t i = 0; i < 3 * 2 * layer; i++)
            written += pool[i] != 0.0f;
        ck_assert_uint_eq(written, (size_t)POS * HEADS * D * 2);
        free(pool);
    }
}
END_TEST

/* Accumulators start at +0: a sum of nothing but -0 is +0 (0 * -x), never -0. */
START_TEST(sums_start_at_plus_zero) {
    void *scratch = kit_alloc(KRN_SCRATCH_BYTES);
    float one[16], x[1] = {-0.0f}, y[16];
    for (unsigned i = 0; i < 16; i++)
        one[i] = 1.0f;
    struct krn_packed w = {
        .dtype = KRN_F32, .n = 16, .k = 1, .n_blocks = 1, .data = one, .bytes = 64};
    for (unsigned t = 0; t < n_tables; t++) {
        struct krn_product p = {
            .x = x, .ldx = 1, .rows = 1, .w = &w, .segments = 1, .y = y, .ldy = 16};
        table[t]->product(&p, 0, 1, scratch);
        for (unsigned i = 0; i < 16; i++)
            ck_assert_uint_eq(krn_bits(y[i]), 0);
    }
    free(scratch);
}
END_TEST

/* One rounding: 1 + 2^-12 squared, less its rounded square, shows what a fused multiply-add
 * leaves. */
START_TEST(multiply_add_is_fused) {
    void *scratch = kit_alloc(KRN_SCRATCH_BYTES);
    float a = 1.0f + 0x1p-12f, wv[32], x[2] = {-(a * a), a}, y[16];
    for (unsigned i = 0; i < 16; i++) {
        wv[i] = 1.0f;
        wv[16 + i] = a;
    }
    struct krn_packed w = {
        .dtype = KRN_F32, .n = 16, .k = 2, .n_blocks = 1, .data = wv, .bytes = 128};
    for (unsigned t = 0; t < n_tables; t++) {
        struct krn_product p = {
            .x = x, .ldx = 2, .rows = 1, .w = &w, .segments = 1, .y = y, .ldy = 16};
        table[t]->product(&p, 0, 1, scratch);
        ck_assert(y[0] == 0x1p-24f && y[15] == 0x1p-24f);
    }
    /* and what is written as two operations is not fused: (x * r) * w keeps both roundings */
    volatile float p = a;
    float two = p * p - a * a;
    ck_assert(two == 0.0f);
    free(scratch);
}
END_TEST

START_TEST(environment_is_checked) {
    krn_fpenv_check();
    volatile float tiny = 0x1p-126f;
    ck_assert(tiny * 0.5f != 0.0f); /* subnormals live */
}
END_TEST

START_TEST(tables_are_picked_by_name) {
    ck_assert(krn_rowfn_pick("no such") == NULL);
    ck_assert_str_eq(krn_rowfn_pick("scalar")->isa, "scalar");
    char *keep = getenv("ROUNDHOUSE_ISA"), saved[32] = "";
    if (keep != NULL)
        snprintf(saved, sizeof saved, "%s", keep);
    setenv("ROUNDHOUSE_ISA", "scalar", 1);
    ck_assert_str_eq(krn_rowfn_pick(NULL)->isa, "scalar");
    setenv("ROUNDHOUSE_ISA", "no such", 1);
    ck_assert(krn_rowfn_pick(NULL) == NULL);
    if (keep != NULL)
        setenv("ROUNDHOUSE_ISA", saved, 1);
    else
        unsetenv("ROUNDHOUSE_ISA");
}
END_TEST

int main(void) {
    n_tables = kit_tables(table);
    Suite *suite = suite_create("rows");
    TCase *tc = tcase_create("rows");
    tcase_add_test(tc, norm_of_every_length);
    tcase_add_test(tc, gate_add_finite_of_every_length);
    tcase_add_test(tc, gelu_is_gelu);
    tcase_add_test(tc, mix_of_every_length);
    tcase_add_test(tc, finite_sees_every_place);
    tcase_add_test(tc, rope_of_every_head);
    tcase_add_test(tc, embed_widens_exactly);
    tcase_add_test(tc, halves_widen_exactly);
    tcase_add_test(tc, pack_places_every_element);
    tcase_add_test(tc, kv_write_places_every_element);
    tcase_add_test(tc, sums_start_at_plus_zero);
    tcase_add_test(tc, multiply_add_is_fused);
    tcase_add_test(tc, environment_is_checked);
    tcase_add_test(tc, tables_are_picked_by_name);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
