/* SPDX-License-Identifier: Apache-2.0
 * Blocked formats: every value of every block bit for bit as the exact fp64 value rounded once; the
 * oracle's reading, the table and packing agree.
 */
#include "tests/harness.h"

#include "kernels/oracle_rows.h"
#include "kernels/quant/quant.h"
#include "tests/kernels/gguf_make.h"
#include "tests/kernels/kit_blocks.h"

enum { BLOCKS = 400 };

START_TEST(test_every_value) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    const struct krn_format *f = krn_format_of(type);
    struct kit_rand r = {.seed = 71 + (uint64_t)_i};
    ck_assert_uint_eq(f->block, gguf_block(type));
    ck_assert_uint_eq(f->bytes, gguf_block_bytes(type));
    ck_assert_uint_eq(KRN_QUANT_BLOCK_MAX % f->block, 0);
    ck_assert_uint_le(f->bytes, KRN_QUANT_BYTES_MAX);
    unsigned char *blocks = malloc((size_t)BLOCKS * f->bytes); /* exactly: nothing is read behind */
    float *got = malloc((size_t)BLOCKS * f->block * sizeof *got);
    ck_assert(blocks != NULL && got != NULL);
    for (uint32_t b = 0; b < BLOCKS; b++)
        kit_block(&r, type, kit_below(&r, 4), blocks + (size_t)b * f->bytes);
    krn_unpack(type, blocks, 0, (uint64_t)BLOCKS * f->block, got);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        float exact[KRN_QUANT_BLOCK_MAX], oracle[KRN_QUANT_BLOCK_MAX];
        for (uint32_t i = 0; i < f->block; i++) {
            exact[i] = (float)gguf_value(type, blocks + (size_t)b * f->bytes, i);
            oracle[i] = type < KRN_DTYPES
                            ? exact[i]
                            : krn_oracle_blocked(type, blocks, (uint64_t)b * f->block + i);
        }
        kit_equal(got + (size_t)b * f->block, exact, f->block, "%s, block %u", f->word, b);
        kit_equal(oracle, exact, f->block, "oracle, %s, block %u", f->word, b);
    }
    float one[KRN_QUANT_BLOCK_MAX];
    krn_unpack(type, blocks, 7 * f->block, f->block, one);
    kit_equal(one, got + 7 * (size_t)f->block, f->block, "%s, one block", f->word);
    free(blocks);
    free(got);
}
END_TEST

/* Each element lands near what was stored, so none is out of its place. */
START_TEST(test_quantised_values_return) {
    static const double steps[KRN_TYPES] = {
        [KRN_Q8_0] = 127, [KRN_Q4_0] = 7,  [KRN_Q4_1] = 7,  [KRN_Q5_0] = 15, [KRN_Q5_1] = 15,
        [KRN_Q4_K] = 7,   [KRN_Q5_K] = 15, [KRN_Q6_K] = 31, [KRN_IQ4_NL] = 5};
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {.seed = 72};
    float x[KRN_QUANT_BLOCK_MAX], y[KRN_QUANT_BLOCK_MAX];
    unsigned char block[KRN_QUANT_BYTES_MAX];
    for (int b = 0; b < 8; b++) {
        kit_fill(&r, x, gguf_block(type), KIT_TAME);
        gguf_quantise(type, x, block);
        krn_unpack(type, block, 0, gguf_block(type), y);
        for (uint32_t i = 0; i < gguf_block(type); i++)
            ck_assert_msg(fabs((double)y[i] - (double)x[i]) <= 1.1 / steps[type],
                          "type %d, element %u: %g for %g", _i, i, (double)y[i], (double)x[i]);
    }
}
END_TEST

/* Any rows and columns of a matrix, also inside blocks; products equal the oracle's. */
START_TEST(test_packing) {
    enum { N = 37, K = 512 };
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {.seed = 73 + (uint64_t)_i};
    uint64_t bytes = (uint64_t)N * K / gguf_block(type) * gguf_block_bytes(type);
    unsigned char *data = malloc(bytes);
    float *flat = kit_floats(N * K);
    ck_assert_ptr_nonnull(data);
    for (uint64_t at = 0; at < bytes; at += gguf_block_bytes(type)) {
        float x[KRN_QUANT_BLOCK_MAX];
        kit_fill(&r, x, gguf_block(type), KIT_TAME);
        gguf_quantise(type, x, data + at);
    }
    struct krn_tensor w = {
        .name = "w", .dtype = type, .n_dims = 2, .dims = {N, K}, .data = data, .bytes = bytes};
    krn_unpack(type, data, 0, (uint64_t)N * K, flat);
    const struct krn_rowfn *table[4];
    unsigned n_tables = kit_tables(table);
    for (int round = 0; round < 20; round++) {
        uint32_t row0 = kit_below(&r, N), n = 1 + kit_below(&r, N - row0);
        uint32_t col0 = 32 * kit_below(&r, K / 32), k = 1 + kit_below(&r, K - col0);
        if (round % 2 == 0)
            k = (k + 31) / 32 * 32;
        else if (k % 32 == 0)
            k--;
        struct krn_packed p;
        float *out = kit_alloc(krn_packed_bytes(type, n, k));
        krn_pack(&w, row0, n, col0, k, out, &p);
        ck_assert(p.n == n && p.k == k && p.dtype == (k % 32 == 0 ? type : KRN_F32));
        ck_assert_uint_eq(p.bytes, krn_packed_bytes(type, n, k));
        if (k % 32 == 0) { /* cells: about the file's bytes */
            ck_assert_uint_le(4 * p.bytes * gguf_block(type),
                              5ull * p.n_blocks * KRN_BLOCK * k * gguf_block_bytes(type));
            for (uint32_t row = 0; row < n; row++) {
                float got[K];
                for (unsigned t = 0; t < n_tables; t++) {
                    table[t]->embed(&p, row, got);
                    kit_equal(got, flat + (size_t)(row0 + row) * K + col0, k, "%s type %d, row %u",
                              table[t]->isa, _i, row);
                }
            }
            free(out);
            continue;
        }
        for (uint32_t row = 0; row < p.n_blocks * KRN_BLOCK; row++) {
            float expected[K] = {0}, got[K];
            if (row < n)
                memcpy(expected, flat + (size_t)(row0 + row) * K + col0, k * sizeof *expected);
            for (uint32_t i = 0; i < k; i++)
                got[i] = out[((size_t)row / KRN_BLOCK * k + i) * KRN_BLOCK + row % KRN_BLOCK];
            kit_equal(got, expected, k, "type %d, row %u", _i, row);
        }
        free(out);
    }
    free(data);
    free(flat);
}
END_TEST

int main(void) {
    Suite *s = suite_create("quant");
    TCase *t = tcase_create("quant");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_every_value, 0, KRN_TYPES);
    tcase_add_loop_test(t, test_quantised_values_return, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(t, test_packing, KRN_DTYPES, KRN_TYPES);
    suite_add_tcase(s, t);
    return test_run(s);
}
