/* SPDX-License-Identifier: Apache-2.0
 * Products: every table against the oracle's plain loops, every row count, K tail, type, segment
 * count and cut.
 */
#include "tests/harness.h"

#include "kernels/oracle_rows.h"
#include "tests/kernels/kit_blocks.h"

static const struct krn_rowfn *table[4];
static unsigned n_tables;
static void *scratch;

/* One product with everything chosen by the caller; compares all tables, whole and cut in pieces.
 */
static void check_product(struct kit_rand *r, uint32_t rows, uint32_t n, uint32_t k,
                          enum krn_dtype dtype, uint32_t segments, enum kit_values kind,
                          unsigned flags) {
    size_t ldx = k + kit_below(r, 3) * 4, ldy = n + kit_below(r, 5);
    struct krn_tensor w = dtype < KRN_DTYPES
                              ? kit_tensor(r, dtype, n, k, kind)
                              : kit_blocked(r, dtype, n, k, kind == KIT_HOSTILE ? 3 : kind % 3);
    struct krn_tensor bias = kit_tensor(r, KRN_F32, 1, n, KIT_TAME);
    bias.n_dims = 1;
    bias.dims[0] = n;
    struct krn_packed packed = kit_pack(&w);
    float *x = kit_floats(rows * ldx), *y0 = kit_floats(rows * ldy), *want = kit_floats(rows * ldy),
          *got = kit_floats(rows * ldy);
    kit_fill(r, x, rows * ldx, kind);
    kit_fill(r, y0, rows * ldy, KIT_TAME);
    memcpy(want, y0, rows * ldy * sizeof(float));
    for (uint32_t i = 0; i < rows; i++)
        krn_oracle_product(x + i * ldx, &w, segments, (flags & 1) != 0 ? &bias : NULL,
                           (flags & 2) != 0, want + i * ldy);
    for (unsigned t = 0; t < n_tables; t++) {
        struct krn_product p = {.x = x,
                                .ldx = ldx,
                                .rows = rows,
                                .w = &packed,
                                .segments = segments,
                                .bias = (flags & 1) != 0 ? bias.data : NULL,
                                .add = (flags & 2) != 0,
                                .y = got,
                                .ldy = ldy};
        memcpy(got, y0, rows * ldy * sizeof(float));
        table[t]->product(&p, 0, packed.n_blocks, scratch);
        kit_equal(got, want, rows * ldy, "%s rows %u n %u k %u type %d segments %u kind %d",
                  table[t]->isa, rows, n, k, dtype, segments, kind);
        /* the same in two cuts of blocks and two of rows */
        uint32_t bcut = kit_below(r, packed.n_blocks + 1), rcut = kit_below(r, rows + 1);
        memcpy(got, y0, rows * ldy * sizeof(float));
        for (unsigned half = 0; half < 2; half++) {
            struct krn_product q = p;
            q.x = x + (half != 0 ? rcut : 0) * ldx;
            q.y = got + (half != 0 ? rcut : 0) * ldy;
            q.rows = half != 0 ? rows - rcut : rcut;
            if (q.rows == 0)
                continue;
            table[t]->product(&q, bcut, packed.n_blocks, scratch);
            table[t]->product(&q, 0, bcut, scratch);
        }
        kit_equal(got, want, rows * ldy, "%s cut at block %u, row %u of %u", table[t]->isa, bcut,
                  rcut, rows);
    }
    free((void *)w.data);
    free((void *)bias.data);
    free((void *)packed.data);
    free(x);
    free(y0);
    free(want);
    free(got);
}

START_TEST(every_row_count) {
    struct kit_rand r = {1, 0};
    for (uint32_t rows = 1; rows <= 257; rows++)
        check_product(&r, rows, 24, 32, (enum krn_dtype)(rows % 3), 1u << rows % 3, KIT_SPREAD,
                      rows & 3);
}
END_TEST

START_TEST(every_k_tail) {
    struct kit_rand r = {2, 0};
    for (uint32_t k = 1; k <= 70; k++)
        for (uint32_t rows = 1; rows <= 16; rows += 15)
            check_product(&r, rows, 17, k, (enum krn_dtype)(k % 3), 1, KIT_SPREAD, k & 3);
    static const uint32_t around[] = {511, 512, 513, 1023, 1024, 1025, 1040, 8191, 16400};
    for (unsigned i = 0; i < sizeof around / sizeof around[0]; i++)
        for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
            check_product(&r, 9, 17, around[i], (enum krn_dtype)dtype, 1, KIT_TAME, 0);
}
END_TEST

START_TEST(every_output_count) {
    struct kit_rand r = {3, 0};
    for (uint32_t n = 1; n <= 300; n += n < 40 ? 1 : 13)
        check_product(&r, 1 + n % 23, n, 48, (enum krn_dtype)(n % 3), 1, KIT_SPREAD, n & 3);
}
END_TEST

START_TEST(every_segment_count) {
    struct kit_rand r = {4, 0};
    for (uint32_t s = 1; s <= 8; s *= 2)
        for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
            for (uint32_t rows = 1; rows <= 40; rows += 13)
                for (unsigned flags = 0; flags < 4; flags++)
                    check_product(&r, rows, 40, s * (16 + 8 * flags), (enum krn_dtype)dtype, s,
                                  KIT_SPREAD, flags);
}
END_TEST

START_TEST(hostile_values) {
    struct kit_rand r = {5, 0};
    for (int kind = 0; kind < KIT_VALUES; kind++)
        for (int dtype = 0; dtype < KRN_DTYPES; dtype++)
            for (uint32_t rows = 1; rows <= 31; rows += 6)
                check_product(&r, rows, 37, 64, (enum krn_dtype)dtype, 4, (enum kit_values)kind,
                              rows & 3);
}
END_TEST

/* Blocked weights, from cells and, where a cut falls inside one, from f32. */
START_TEST(blocked_weights) {
    struct kit_rand r = {8, 0};
    const enum krn_dtype type = (enum krn_dtype)_i;
    const uint32_t step = krn_format_of(type)->block;
    for (uint32_t rows = 1; rows <= 70; rows += rows < 20 ? 1 : 17)
        for (uint32_t s = 1; s <= 4; s *= 2)
            check_product(&r, rows, 1 + kit_below(&r, 70), s * step * (1 + kit_below(&r, 3)), type,
                          s, KIT_SPREAD, rows & 3);
    for (int kind = 0; kind < KIT_VALUES; kind++)
        for (uint32_t rows = 1; rows <= 41; rows += 10)
            check_product(&r, rows, 37, 256, type, 4, (enum kit_values)kind, rows & 3);
    check_product(&r, 9, 17, 16384, type, 2, KIT_TAME, 0);
    for (uint32_t rows = 3; rows <= 30; rows += 27) /* segments of 96 */
        check_product(&r, rows, 17, 768, type, 8, KIT_TAME, 0);
}
END_TEST

/* Row split: each of `world` ranks holds whole segments; their sums are added by the tree with
 * rowfn.add. Column split: each holds whole blocks. Both must give the bits of one rank. */
static void check_ranks(const struct krn_rowfn *fn, struct kit_rand *r, uint32_t world,
                        uint32_t rows) {
    enum { V = 8, N = 48, K = 256 };
    struct krn_tensor w = kit_tensor(r, KRN_BF16, N, K, KIT_SPREAD);
    struct krn_packed whole = kit_pack(&w), part;
    float *x = kit_floats(rows * K), *want = kit_floats(rows * N), *y[V];
    void *data = kit_alloc(krn_packed_bytes(w.dtype, N, K));
    kit_fill(r, x, rows * K, KIT_SPREAD);
    struct krn_product p = {
        .x = x, .ldx = K, .rows = rows, .w = &whole, .segments = V, .y = want, .ldy = N};
    fn->product(&p, 0, whole.n_blocks, scratch);
    for (uint32_t rank = 0; rank < world; rank++) {
        uint32_t k = K / world;
        y[rank] = kit_floats(rows * N);
        krn_pack(&w, 0, N, rank * k, k, data, &part);
        struct krn_product q = {.x = x + rank * k,
                                .ldx = K,
                                .rows = rows,
                                .w = &part,
                                .segments = V / world,
                                .y = y[rank],
                                .ldy = N};
        fn->product(&q, 0, part.n_blocks, scratch);
    }
    for (uint32_t step = 1; step < world; step *= 2)
        for (uint32_t i = 0; i < world; i += 2 * step)
            fn->add(y[i], y[i + step], y[i], rows * N);
    kit_equal(y[0], want, rows * N, "%s world %u rows %u", fn->isa, world, rows);
    for (uint32_t rank = 0; rank < world; rank++)
        free(y[rank]);
    free(data);
    free(x);
    free(want);
    free((void *)w.data);
    free((void *)whole.data);
}

START_TEST(ranks_add_in_the_tree) {
    struct kit_rand r = {6, 0};
    for (unsigned t = 0; t < n_tables; t++)
        for (uint32_t world = 1; world <= 8; world *= 2)
            for (uint32_t rows = 1; rows <= 40; rows += 13)
                check_ranks(table[t], &r, world, rows);
}
END_TEST

START_TEST(column_shards) {
    struct kit_rand r = {7, 0};
    enum { N = 128, K = 80, ROWS = 19 };
    struct krn_tensor w = kit_tensor(&r, KRN_F16, N, K, KIT_SPREAD);
    struct krn_packed whole = kit_pack(&w), part;
    float *x = kit_floats(ROWS * K), *want = kit_floats(ROWS * N), *got = kit_floats(ROWS * N);
    void *data = kit_alloc(krn_packed_bytes(w.dtype, N, K));
    kit_fill(&r, x, ROWS * K, KIT_SPREAD);
    for (unsigned t = 0; t < n_tables; t++) {
        struct krn_product p = {
            .x = x, .ldx = K, .rows = ROWS, .w = &whole, .segments = 1, .y = want, .ldy = N};
        table[t]->product(&p, 0, whole.n_blocks, scratch);
        for (uint32_t world = 1; world <= 8; world *= 2) {
            for (uint32_t rank = 0; rank < world; rank++) {
                uint32_t n = N / world;
                krn_pack(&w, rank * n, n, 0, K, data, &part);
                struct krn_product q = p;
                q.w = &part;
                q.y = got + rank * n;
                table[t]->product(&q, 0, part.n_blocks, scratch);
            }
            kit_equal(got, want, ROWS * N, "%s world %u", table[t]->isa, world);
        }
    }
    free(data);
    free(x);
    free(want);
    free(got);
    free((void *)w.data);
    free((void *)whole.data);
}
END_TEST

int main(void) {
    n_tables = kit_tables(table);
    scratch = kit_alloc(KRN_SCRATCH_BYTES);
    Suite *suite = suite_create("product");
    TCase *tc = tcase_create("product");
    tcase_add_test(tc, every_row_count);
    tcase_add_test(tc, every_k_tail);
    tcase_add_test(tc, every_output_count);
    tcase_add_test(tc, every_segment_count);
    tcase_add_test(tc, hostile_values);
    tcase_add_loop_test(tc, blocked_weights, KRN_DTYPES, KRN_TYPES);
    tcase_add_test(tc, ranks_add_in_the_tree);
    tcase_add_test(tc, column_shards);
    suite_add_tcase(suite, tc);
    int rc = test_run(suite);
    free(scratch);
    return rc;
}
