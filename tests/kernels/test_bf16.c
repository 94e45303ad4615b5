/* SPDX-License-Identifier: Apache-2.0
 * Products of the profile amx-bf16: every form (scalar, vectors, tiles) against the oracle's plain
 * loops, every row count, K and output tail, type, segment count and cut; rounding; the digest.
 */
#include "tests/harness.h"

#include <inttypes.h>

#include "kernels/cpu/bf16.h"
#include "kernels/oracle_rows.h"
#include "tests/kernels/kit.h"

static const struct krn_bf16_fn *form[4];
static unsigned n_forms;
static void *scratch;

static struct krn_packed pack(const struct krn_tensor *w) {
    struct krn_packed p;
    uint32_t n = (uint32_t)w->dims[0], k = (uint32_t)w->dims[1];
    size_t bytes = krn_bf16_packed_bytes(w->dtype, n, k);
    void *out = kit_alloc(bytes);
    memset(out, 0xff, bytes); /* NaN where nothing is written */
    krn_bf16_pack(w, 0, n, 0, k, out, &p);
    return p;
}

/* Sums around 2^-126, where flushing decides bits. */
static void fill(struct kit_rand *r, float *x, size_t n, int kind) {
    if (kind < KIT_VALUES) {
        kit_fill(r, x, n, (enum kit_values)kind);
        return;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = ldexpf(kit_unit(r), (int)kit_below(r, 6) - 66);
}

static struct krn_tensor weights(struct kit_rand *r, enum krn_dtype dtype, uint32_t n, uint32_t k,
                                 int kind) {
    struct krn_tensor w = kit_tensor(r, dtype, n, k, kind < KIT_VALUES ? (enum kit_values)kind : 0);
    for (size_t i = 0; kind == KIT_VALUES && i < (size_t)n * k; i++) {
        float x;
        fill(r, &x, 1, kind);
        if (dtype == KRN_F32)
            ((float *)(uintptr_t)w.data)[i] = x;
        else if (dtype == KRN_BF16)
            ((uint16_t *)(uintptr_t)w.data)[i] = kit_half(r, dtype, x);
    }
    return w;
}

static void check_product(struct kit_rand *r, uint32_t rows, uint32_t n, uint32_t k,
                          enum krn_dtype dtype, uint32_t segments, int kind, unsigned flags) {
    size_t ldy = n + kit_below(r, 5), ldq = krn_bf16_row_bytes(k) + 64 * kit_below(r, 2);
    struct krn_tensor w = weights(r, dtype, n, k, kind), bias = kit_tensor(r, KRN_F32, 1, n, 0);
    bias.n_dims = 1;
    bias.dims[0] = n;
    struct krn_packed packed = pack(&w);
    float *x = kit_floats((size_t)rows * k), *y0 = kit_floats(rows * ldy),
          *want = kit_floats(rows * ldy), *got = kit_floats(rows * ldy), *two = kit_floats(2 * k);
    unsigned char *q = kit_alloc(rows * ldq);
    fill(r, x, (size_t)rows * k, kind);
    kit_fill(r, y0, rows * ldy, KIT_TAME);
    memcpy(want, y0, rows * ldy * sizeof(float));
    for (uint32_t i = 0; i < rows; i++)
        krn_oracle_product_bf16(x + (size_t)i * k, &w, segments, (flags & 1) != 0 ? &bias : NULL,
                                (flags & 2) != 0, want + i * ldy, two);
    for (unsigned t = 0; t < n_forms; t++) {
        memset(q, 0xff, rows * ldq);
        for (uint32_t i = 0; i < rows; i++)
            form[t]->round(x + (size_t)i * k, k, q + i * ldq);
        struct krn_product p = {.q = q,
                                .ldq = ldq,
                                .rows = rows,
                                .w = &packed,
                                .segments = segments,
                                .bias = (flags & 1) != 0 ? bias.data : NULL,
                                .add = (flags & 2) != 0,
                                .y = got,
                                .ldy = ldy};
        memcpy(got, y0, rows * ldy * sizeof(float));
        form[t]->product(&p, 0, packed.n_blocks, scratch);
        krn_fpenv_check();
        kit_equal(got, want, rows * ldy, "%s rows %u n %u k %u type %d segments %u kind %d",
                  form[t]->isa, rows, n, k, dtype, segments, kind);
        /* the same in two cuts of blocks and two of rows */
        uint32_t bcut = kit_below(r, packed.n_blocks + 1), rcut = kit_below(r, rows + 1);
        memcpy(got, y0, rows * ldy * sizeof(float));
        for (unsigned half = 0; half < 2; half++) {
            struct krn_product part = p;
            part.q = q + (half != 0 ? rcut : 0) * ldq;
            part.y = got + (half != 0 ? rcut : 0) * ldy;
            part.rows = half != 0 ? rows - rcut : rcut;
            if (part.rows == 0)
                continue;
            form[t]->product(&part, bcut, packed.n_blocks, scratch);
            form[t]->product(&part, 0, bcut, scratch);
        }
        kit_equal(got, want, rows * ldy, "%s cut at block %u, row %u of %u", form[t]->isa, bcut,
                  rcut, rows);
    }
    free((void *)(uintptr_t)w.data);
    free((void *)(uintptr_t)bias.data);
    free((void *)(uintptr_t)packed.data);
    free(x);
    free(y0);
    free(want);
    free(got);
    free(two);
    free(q);
}

START_TEST(every_row_count) {
    struct kit_rand r = {1, 0};
    for (uint32_t rows = 1; rows <= 130; rows++)
        check_product(&r, rows, 24 + rows % 2 * 16, 64, (enum krn_dtype)(rows % 3), 1u << rows % 2,
                      KIT_SPREAD, rows & 3);
    check_product(&r, 257, 40, 96, KRN_BF16, 1, KIT_SPREAD, 0);
}
END_TEST

START_TEST(every_k_tail) {
    struct kit_rand r = {2, 0};
    for (uint32_t k = 1; k <= 70; k++)
        for (uint32_t rows = 1; rows <= 18; rows += 17)
            check_product(&r, rows, 17, k, (enum krn_dtype)(k % 3), 1, KIT_SPREAD, k & 3);
    static const uint32_t around[] = {511, 512, 513, 1025, 8191, 16400};
    for (unsigned i = 0; i < sizeof around / sizeof around[0]; i++)
        check_product(&r, 9, 17, around[i], KRN_BF16, 1, KIT_TAME, 0);
}
END_TEST

START_TEST(every_output_count) {
    struct kit_rand r = {3, 0};
    for (uint32_t n = 1; n <= 150; n += n < 40 ? 1 : 13)
        check_product(&r, 1 + n % 23, n, 48, (enum krn_dtype)(n % 3), 1, KIT_SPREAD, n & 3);
}
END_TEST

START_TEST(every_segment_count) {
    struct kit_rand r = {4, 0};
    for (uint32_t s = 1; s <= 8; s *= 2)
        for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
            for (uint32_t rows = 1; rows <= 40; rows += 13)
                check_product(&r, rows, 40, s * 32 * (1 + rows % 3), (enum krn_dtype)dtype, s,
                              KIT_SPREAD, rows & 3);
}
END_TEST

START_TEST(hostile_and_tiny_values) {
    struct kit_rand r = {5, 0};
    for (int kind = 0; kind <= KIT_VALUES; kind++)
        for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
            for (uint32_t rows = 1; rows <= 34; rows += 11)
                check_product(&r, rows, 37, 128, (enum krn_dtype)dtype, 4, kind, rows & 3);
    for (uint32_t i = 0; i < 40; i++)
        check_product(&r, 5, 32, 64, KRN_F32, 1, KIT_VALUES, 0);
}
END_TEST

/* Row split: ranks hold whole segments and add in the tree. Column split: whole blocks. */
START_TEST(ranks_add_in_the_tree) {
    enum { V = 8, N = 48, K = 512 };
    struct kit_rand r = {6, 0};
    struct krn_tensor w = kit_tensor(&r, KRN_F32, N, K, KIT_SPREAD);
    struct krn_packed whole = pack(&w), part;
    size_t ldq = krn_bf16_row_bytes(K);
    float *x = kit_floats(9 * K), *want = kit_floats(9 * N), *y[V];
    unsigned char *q = kit_alloc(9 * ldq), *mine = kit_alloc(9 * ldq);
    void *data = kit_alloc(krn_bf16_packed_bytes(w.dtype, N, K));
    kit_fill(&r, x, 9 * K, KIT_SPREAD);
    for (unsigned t = 0; t < n_forms; t++)
        for (uint32_t rows = 1; rows <= 9; rows += 4)
            for (uint32_t world = 1; world <= V; world *= 2) {
                for (uint32_t i = 0; i < rows; i++)
                    form[t]->round(x + i * K, K, q + i * ldq);
                struct krn_product p = {.q = q,
                                        .ldq = ldq,
                                        .rows = rows,
                                        .w = &whole,
                                        .segments = V,
                                        .y = want,
                                        .ldy = N};
                form[t]->product(&p, 0, whole.n_blocks, scratch);
                for (uint32_t rank = 0; rank < world; rank++) {
                    uint32_t k = K / world;
                    y[rank] = kit_floats(rows * N);
                    krn_bf16_pack(&w, 0, N, rank * k, k, data, &part);
                    for (uint32_t i = 0; i < rows; i++)
                        form[t]->round(x + i * K + rank * k, k, mine + i * ldq);
                    struct krn_product own = p;
                    own.q = mine;
                    own.w = &part;
                    own.segments = V / world;
                    own.y = y[rank];
                    form[t]->product(&own, 0, part.n_blocks, scratch);
                }
                const struct krn_rowfn *fn = krn_rowfn_pick("scalar");
                for (uint32_t step = 1; step < world; step *= 2)
                    for (uint32_t i = 0; i < world; i += 2 * step)
                        fn->add(y[i], y[i + step], y[i], rows * N);
                kit_equal(y[0], want, rows * N, "%s world %u rows %u", form[t]->isa, world, rows);
                for (uint32_t rank = 0; rank < world; rank++)
                    free(y[rank]);
            }
    free(data);
    free(q);
    free(mine);
    free(x);
    free(want);
    free((void *)(uintptr_t)w.data);
    free((void *)(uintptr_t)whole.data);
}
END_TEST

/* Every fp32 exponent, significands at the ties, and what stays what it is. */
START_TEST(rounds_to_nearest_even) {
    static const uint32_t low[] = {0,      1,       0x7fff,   0x8000,   0x8001,
                                   0xffff, 0x18000, 0x7fffff, 0x7f8000, 0x7f7fff};
    enum { LOWS = sizeof low / sizeof low[0] };
    float *x = kit_floats(512 * LOWS + 5);
    uint32_t n = 0;
    for (uint32_t e = 0; e < 512; e++)
        for (unsigned i = 0; i < LOWS; i++)
            x[n++] = krn_float(e << 23 | low[i]);
    n += 5; /* a tail shorter than a vector */
    for (uint32_t i = n - 5; i < n; i++)
        x[i] = krn_float(0x3f808000u + i);
    uint16_t *got = kit_alloc(krn_bf16_row_bytes(n));
    for (unsigned t = 0; t < n_forms; t++) {
        form[t]->round(x, n, got);
        for (uint32_t i = 0; i < n; i++) {
            float back = krn_widen_bf16(got[i]), exact = x[i];
            uint16_t below = (uint16_t)(krn_bits(exact) >> 16);
            float a = krn_widen_bf16(below), b = krn_widen_bf16((uint16_t)(below + 1));
            if (exact != exact) {
                ck_assert_msg(back != back, "%s: NaN %08x became %a", form[t]->isa, krn_bits(exact),
                              (double)back);
            } else if (fabsf(exact) < 0x1p-126f) {
                ck_assert_uint_eq(got[i], krn_bits(exact) >> 16 & 0x8000u);
            } else if (a == exact) {
                ck_assert_uint_eq(got[i], below);
            } else {
                double da = fabs((double)exact - (double)a);
                double ulp = ldexp(1.0, (int)(krn_bits(exact) >> 23 & 0xff) - 127 - 7);
                bool up = da > ulp / 2 || (da == ulp / 2 && (below & 1) != 0);
                ck_assert_msg(back == (up ? b : a), "%s: %a became %a", form[t]->isa, (double)exact,
                              (double)back);
            }
        }
        for (uint32_t i = n; i < krn_bf16_padded(n); i++)
            ck_assert_uint_eq(got[i], 0);
    }
    free(x);
    free(got);
}
END_TEST

START_TEST(embeds_what_was_packed) {
    struct kit_rand r = {7, 0};
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
        for (uint32_t k = 31; k <= 65; k += 17) {
            struct krn_tensor w = kit_tensor(&r, (enum krn_dtype)dtype, 21, k, KIT_HOSTILE);
            struct krn_packed p = pack(&w);
            float got[65], want[65];
            for (uint32_t row = 0; row < 21; row++) {
                krn_bf16_embed(&p, row, got);
                krn_oracle_embed_bf16(&w, row, want);
                kit_equal(got, want, k, "type %d row %u", dtype, row);
            }
            free((void *)(uintptr_t)w.data);
            free((void *)(uintptr_t)p.data);
        }
}
END_TEST

START_TEST(forms_give_the_golden_digest) {
    char path[512];
    uint64_t digest = 0;
    snprintf(path, sizeof path, "%s/tests/golden/bf16.txt", test_srcdir());
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    ck_assert_int_eq(fscanf(f, "%" SCNx64, &digest), 1);
    fclose(f);
    ck_assert_uint_eq(digest, KRN_BF16_GOLDEN);
    void *memory = kit_alloc(krn_bf16_golden_bytes());
    for (unsigned t = 0; t < n_forms; t++) {
        struct status_note note;
        ck_assert_msg(krn_bf16_golden_run(form[t], memory) == digest, "%s differs", form[t]->isa);
        ck_assert_int_eq(krn_bf16_selftest(form[t], &note), STATUS_OK);
    }
    free(memory);
}
END_TEST

static void off_by_a_bit(const struct krn_product *p, uint32_t block0, uint32_t block1,
                         void *memory) {
    krn_bf16_named("scalar")->product(p, block0, block1, memory);
    p->y[0] = krn_float(krn_bits(p->y[0]) ^ 1u);
}

START_TEST(selftest_refuses_another_order) {
    struct krn_bf16_fn fn = *krn_bf16_named("scalar");
    struct status_note note;
    fn.product = off_by_a_bit;
    ck_assert_int_eq(krn_bf16_selftest(&fn, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "form scalar") != NULL, "%s", note.text);
}
END_TEST

int main(void) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "amx", "neon"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (krn_bf16_named(names[i]) != NULL)
            form[n_forms++] = krn_bf16_named(names[i]);
        else
            printf("skip: this machine does not run the form %s\n", names[i]);
    scratch = kit_alloc(KRN_SCRATCH_BYTES);
    Suite *suite = suite_create("bf16");
    TCase *tc = tcase_create("bf16");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_row_count);
    tcase_add_test(tc, every_k_tail);
    tcase_add_test(tc, every_output_count);
    tcase_add_test(tc, every_segment_count);
    tcase_add_test(tc, hostile_and_tiny_values);
    tcase_add_test(tc, ranks_add_in_the_tree);
    tcase_add_test(tc, rounds_to_nearest_even);
    tcase_add_test(tc, embeds_what_was_packed);
    tcase_add_test(tc, forms_give_the_golden_digest);
    tcase_add_test(tc, selftest_refuses_another_order);
    suite_add_tcase(suite, tc);
    int failed = test_run(suite);
    free(scratch);
    return failed;
}
