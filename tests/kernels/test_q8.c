/* SPDX-License-Identifier: Apache-2.0
 * Profile q8: every form of this machine against the oracle's plain loops: rows rounded, every row
 * count, K, type, segment count and cut, ranks, hostile rows and scales.
 */
#include "tests/harness.h"

#include <inttypes.h>

#include "kernels/cpu/q8_entries.h"
#include "kernels/cpu/q8_row.h"
#include "kernels/oracle_rows.h"
#include "tests/kernels/kit_blocks.h"

static const struct krn_q8 *form[8];
static unsigned n_forms;
static void *scratch;

/* Rows as a form reads them, some bytes apart. */
static unsigned char *rounded(const struct krn_q8 *m, const float *x, size_t ldx, uint32_t rows,
                              uint32_t k, size_t *ldq) {
    *ldq = krn_q8_row_bytes(k) + 64;
    unsigned char *q = kit_alloc(rows * *ldq);
    for (uint32_t r = 0; r < rows; r++)
        m->round(x + r * ldx, k, q + r * *ldq);
    return q;
}

struct shape {
    uint32_t rows, n, k, segments;
    enum krn_dtype type;
    uint32_t scales; /* of kit_block */
    enum kit_values values;
    bool bias, add;
};

static void check(struct kit_rand *r, struct shape s) {
    size_t ldx = s.k + kit_below(r, 3) * 4, ldy = s.n + kit_below(r, 5), ldq;
    struct krn_tensor w = s.type < KRN_DTYPES ? kit_tensor(r, s.type, s.n, s.k, s.values)
                                              : kit_blocked(r, s.type, s.n, s.k, s.scales);
    struct krn_tensor bias = kit_tensor(r, KRN_F32, 1, s.n, KIT_TAME);
    bias.n_dims = 1;
    bias.dims[0] = s.n;
    float *x = kit_floats(s.rows * ldx), *y0 = kit_floats(s.rows * ldy),
          *want = kit_floats(s.rows * ldy), *got = kit_floats(s.rows * ldy);
    kit_fill(r, x, s.rows * ldx, s.values);
    kit_fill(r, y0, s.rows * ldy, KIT_TAME);
    memcpy(want, y0, s.rows * ldy * sizeof(float));
    for (uint32_t i = 0; i < s.rows; i++)
        krn_oracle_product_q8(x + i * ldx, &w, s.segments, s.bias ? &bias : NULL, s.add,
                              want + i * ldy);
    for (unsigned f = 0; f < n_forms; f++) {
        const struct krn_q8 *m = form[f];
        unsigned char *q = rounded(m, x, ldx, s.rows, s.k, &ldq);
        struct krn_packed packed;
        void *data = kit_alloc(krn_packed_bytes(s.type, s.n, s.k));
        krn_pack(&w, 0, s.n, 0, s.k, data, &packed);
        uint32_t bcut = kit_below(r, packed.n_blocks + 1), rcut = kit_below(r, s.rows + 1);
        for (unsigned cut = 0; cut < 2; cut++) { /* whole, then in two cuts of rows and of blocks */
            memcpy(got, y0, s.rows * ldy * sizeof(float));
            for (unsigned half = 0; half < 1 + cut; half++) {
                uint32_t r0 = half != 0 ? rcut : 0, r1 = cut != 0 && half == 0 ? rcut : s.rows;
                struct krn_product p = {.x = x + r0 * ldx,
                                        .ldx = ldx,
                                        .q = q + r0 * ldq,
                                        .ldq = ldq,
                                        .rows = r1 - r0,
                                        .w = &packed,
                                        .segments = s.segments,
                                        .bias = s.bias ? bias.data : NULL,
                                        .add = s.add,
                                        .y = got + r0 * ldy,
                                        .ldy = ldy};
                if (r0 == r1)
                    continue;
                m->product(&p, cut != 0 ? bcut : 0, packed.n_blocks, scratch);
                if (cut != 0)
                    m->product(&p, 0, bcut, scratch);
            }
            kit_equal(got, want, s.rows * ldy, "%s, cut %u: type %d rows %u n %u k %u segments %u",
                      m->isa, cut, s.type, s.rows, s.n, s.k, s.segments);
        }
        free(data);
        free(q);
    }
    free((void *)w.data);
    free((void *)bias.data);
    free(x);
    free(y0);
    free(want);
    free(got);
}

START_TEST(every_row_count) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {21 + (uint64_t)_i, 0};
    for (uint32_t rows = 1; rows <= 70; rows++)
        check(&r, (struct shape){rows, 1 + kit_below(&r, 50), 256, 1u << rows % 4, type, rows % 3,
                                 KIT_TAME, rows % 2 != 0, rows % 3 == 0});
    check(&r, (struct shape){257, 40, 256, 2, type, 0, KIT_SPREAD, true, true});
}
END_TEST

START_TEST(every_k) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {41 + (uint64_t)_i, 0};
    uint32_t step = krn_format_of(type)->block;
    for (uint32_t k = step; k <= 12 * step; k += step)
        for (uint32_t rows = 1; rows <= 31; rows += 10)
            check(&r, (struct shape){rows, 33, k, 1, type, 0, KIT_SPREAD, false, false});
    check(&r, (struct shape){19, 33, 16384, 4, type, 0, KIT_TAME, false, false});
}
END_TEST

START_TEST(every_output_count) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {61 + (uint64_t)_i, 0};
    for (uint32_t n = 1; n <= 100; n += n < 40 ? 1 : 13)
        check(&r, (struct shape){1 + n % 23, n, 256, 1, type, 0, KIT_TAME, n % 2 != 0, false});
}
END_TEST

/* Rows and scales of every kind: zeros, subnormals, what overflows, NaN, infinities. */
START_TEST(hostile_values) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {81 + (uint64_t)_i, 0};
    for (int values = 0; values < KIT_VALUES; values++)
        for (uint32_t scales = 0; scales < 4; scales++)
            for (uint32_t rows = 1; rows <= 25; rows += 8)
                check(&r, (struct shape){rows, 21, 512, 4, type, scales, (enum kit_values)values,
                                         rows % 2 != 0, scales % 2 != 0});
}
END_TEST

/* Weights of plain types are products of section 3. */
START_TEST(plain_weights) {
    struct kit_rand r = {5, 0};
    for (int type = 0; type < KRN_DTYPES; type++)
        for (uint32_t rows = 1; rows <= 60; rows += 13)
            check(&r, (struct shape){rows, 40, 64, 2, (enum krn_dtype)type, 0, KIT_SPREAD, true,
                                     false});
}
END_TEST

/* A row's codes as numerics.md 14.1 says them, the same bytes from every form. */
START_TEST(rows_round) {
    enum { K = 96 };
    struct kit_rand r = {6, 0};
    for (int round = 0; round < 600; round++) {
        float x[K];
        kit_fill(&r, x, K, (enum kit_values)(round % KIT_VALUES));
        if (round % 7 == 0) /* at and around the least magnitude */
            for (int i = 0; i < 32; i++)
                x[i] = round % 2 != 0 ? 0x1p-100f : 0x1.fffffep-101f;
        for (unsigned f = 0; f < n_forms; f++) {
            unsigned char *q = kit_alloc(krn_q8_row_bytes(K));
            form[f]->round(x, K, q);
            struct q8_row row = q8_row_of(K, q);
            for (uint32_t b = 0; b < K / 32; b++) {
                float most = 0.0f;
                bool finite = true;
                int sum = 0, half = 0;
                for (uint32_t i = 32 * b; i < 32 * b + 32; i++) {
                    finite = finite && isfinite(x[i]);
                    most = fmaxf(most, fabsf(x[i]));
                }
                for (uint32_t i = 32 * b; i < 32 * b + 32; i++) {
                    double t = finite && most >= 0x1p-100f ? (double)(x[i] * (127.0f / most)) : 0.0;
                    ck_assert_int_eq(row.code[i], (int)nearbyint(t));
                    sum += row.code[i];
                    half += i % 32 < 16 ? row.code[i] : 0;
                }
                ck_assert_int_eq(row.sum[b], sum);
                ck_assert_int_eq(row.half[b], half);
                float scale = !finite ? NAN : most < 0x1p-100f ? 0.0f : most / 127.0f;
                const float want[2] = {scale, scale * (float)sum};
                const float got[2] = {row.scale[b], row.edge[b]};
                kit_equal(got, want, 2, "%s scale and edge", form[f]->isa);
            }
            free(q);
        }
    }
}
END_TEST

/* Row split: each rank holds whole segments and rounds its own inputs; the tree adds. */
START_TEST(ranks_add_in_the_tree) {
    enum { V = 8, N = 48, K = 2048, ROWS = 11 };
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {101 + (uint64_t)_i, 0};
    struct krn_tensor w = kit_blocked(&r, type, N, K, 0);
    float *x = kit_floats(ROWS * K), *want = kit_floats(ROWS * N), *y[V];
    kit_fill(&r, x, ROWS * K, KIT_SPREAD);
    for (uint32_t i = 0; i < ROWS; i++)
        krn_oracle_product_q8(x + (size_t)i * K, &w, V, NULL, false, want + (size_t)i * N);
    for (unsigned f = 0; f < n_forms; f++)
        for (uint32_t world = 1; world <= V; world *= 2) {
            uint32_t k = K / world;
            size_t ldq;
            for (uint32_t rank = 0; rank < world; rank++) {
                unsigned char *q = rounded(form[f], x + (size_t)rank * k, K, ROWS, k, &ldq);
                struct krn_packed part;
                void *data = kit_alloc(krn_packed_bytes(type, N, k));
                krn_pack(&w, 0, N, rank * k, k, data, &part);
                y[rank] = kit_floats(ROWS * N);
                struct krn_product p = {.q = q,
                                        .ldq = ldq,
                                        .rows = ROWS,
                                        .w = &part,
                                        .segments = V / world,
                                        .y = y[rank],
                                        .ldy = N};
                form[f]->product(&p, 0, part.n_blocks, scratch);
                free(q);
                free(data);
            }
            for (uint32_t step = 1; step < world; step *= 2)
                for (uint32_t i = 0; i < world; i += 2 * step)
                    krn_rowfn_pick("scalar")->add(y[i], y[i + step], y[i], ROWS * N);
            kit_equal(y[0], want, ROWS * N, "%s world %u", form[f]->isa, world);
            for (uint32_t rank = 0; rank < world; rank++)
                free(y[rank]);
        }
    free(x);
    free(want);
    free((void *)w.data);
}
END_TEST

/* The codes are good for something: the product is near the exact one. */
START_TEST(near_the_exact_product) {
    enum { N = 32, K = 1024 };
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {121 + (uint64_t)_i, 0};
    struct krn_tensor w = kit_blocked(&r, type, N, K, 0);
    float x[K], got[N], wide[K];
    kit_fill(&r, x, K, KIT_TAME);
    krn_oracle_product_q8(x, &w, 1, NULL, false, got);
    for (uint32_t n = 0; n < N; n++) {
        double exact = 0, size = 0;
        krn_oracle_embed(&w, n, wide);
        for (uint32_t i = 0; i < K; i++) {
            exact += (double)x[i] * (double)wide[i];
            size += (double)wide[i] * (double)wide[i];
        }
        /* an input is off by half a step of 1 / 127 at most, at random */
        double most = sqrt(size / 12.0) / 127.0 * 6.0;
        ck_assert_msg(fabs(exact - (double)got[n]) <= most, "type %d, output %u: %g for %g", _i, n,
                      (double)got[n], exact);
    }
    free((void *)w.data);
}
END_TEST

START_TEST(forms_give_the_golden_digest) {
    char path[512];
    uint64_t digest = 0;
    snprintf(path, sizeof path, "%s/tests/golden/q8.txt", test_srcdir());
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    ck_assert_int_eq(fscanf(f, "%" SCNx64, &digest), 1);
    fclose(f);
    ck_assert_uint_eq(digest, KRN_Q8_GOLDEN);
    void *memory = kit_alloc(krn_q8_golden_bytes());
    for (unsigned i = 0; i < n_forms; i++) {
        struct status_note note;
        uint64_t got = krn_q8_golden_run(form[i], memory);
        ck_assert_msg(got == digest, "%s gives %016" PRIx64, form[i]->isa, got);
        ck_assert_int_eq(krn_q8_selftest(form[i], &note), STATUS_OK);
    }
    free(memory);
}
END_TEST

static void off_by_a_bit(const struct krn_product *p, uint32_t block0, uint32_t block1,
                         void *memory) {
    krn_q8_plain.product(p, block0, block1, memory);
    p->y[0] = krn_float(krn_bits(p->y[0]) ^ 1u);
}

START_TEST(selftest_refuses_another_bit) {
    struct krn_q8 q8 = krn_q8_plain;
    struct status_note note;
    q8.product = off_by_a_bit;
    ck_assert_int_eq(krn_q8_selftest(&q8, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "profile q8") != NULL, "%s", note.text);
}
END_TEST

int main(void) {
    for (unsigned i = 0; i < 8 && krn_q8_at(i) != NULL; i++)
        form[n_forms++] = krn_q8_at(i);
    scratch = kit_alloc(KRN_SCRATCH_BYTES);
    Suite *suite = suite_create("q8");
    TCase *tc = tcase_create("q8");
    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, every_row_count, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(tc, every_k, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(tc, every_output_count, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(tc, hostile_values, KRN_DTYPES, KRN_TYPES);
    tcase_add_test(tc, plain_weights);
    tcase_add_test(tc, rows_round);
    tcase_add_loop_test(tc, ranks_add_in_the_tree, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(tc, near_the_exact_product, KRN_DTYPES, KRN_TYPES);
    tcase_add_test(tc, forms_give_the_golden_digest);
    tcase_add_test(tc, selftest_refuses_another_bit);
    suite_add_tcase(suite, tc);
    int rc = test_run(suite);
    free(scratch);
    return rc;
}
