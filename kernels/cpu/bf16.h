/* SPDX-License-Identifier: Apache-2.0
 * Products of the profile `amx-bf16` (numerics.md 15): bf16 rows times bf16 weights in K-steps of
 * 32, as the matrix tiles of AMX add them up. The forms below give the same bits: tiles where the
 * machine has them and rows are several, vectors everywhere else. Private to kernels/ and its
 * tests; others come through kernels/matmul.h.
 */
#ifndef KERNELS_CPU_BF16_H
#define KERNELS_CPU_BF16_H

#include "kernels/rowfn.h"

enum { BF16_STEP = 32, BF16_STEP_BYTES = BF16_STEP * KRN_BLOCK * 2 };

struct krn_bf16_fn {
    const char *isa; /* "scalar", "avx2", "avx512", "amx", "neon" */
    /* k inputs become bf16, filled up with zeros to whole K-steps; out is 64-byte aligned. */
    void (*round)(const float *x, uint32_t k, void *out);
    /* As krn_rowfn.product, over rows that `round` left (krn_product.q). */
    void (*product)(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch);
    /* As in krn_rowfn, over tiles of bf16. */
    void (*kv_write)(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos, uint32_t head,
                     const float *k, const float *v);
    void (*attend)(const struct krn_attend *a, uint32_t unit0, uint32_t unit1, void *scratch);
};

/* The form for the row functions fn; tiles where the machine, the system and fn allow them. */
const struct krn_bf16_fn *krn_bf16_pick(const struct krn_rowfn *fn);
/* The named form, or NULL when this machine cannot run it. */
const struct krn_bf16_fn *krn_bf16_named(const char *isa);

/* Inputs of a row with its zeros. */
static inline uint32_t krn_bf16_padded(uint32_t k) {
    return (k + BF16_STEP - 1) / BF16_STEP * BF16_STEP;
}

/* 64 keys and values of a head, as two packed weights: keys [64 / 16][padded head_dim / 2][16][2],
 * then values [head_dim / 16][64 / 2][16][2]. */
static inline size_t krn_bf16_keys_bytes(uint32_t head_dim) {
    return (size_t)krn_bf16_padded(head_dim) * KRN_TILE * 2;
}
size_t krn_bf16_tile_bytes(uint32_t head_dim);

/* Bytes of a rounded row: an odd number of cache lines, so that the rows of a tile spread over the
 * sets of the first cache. */
size_t krn_bf16_row_bytes(uint32_t k);

/* Packed: for each block of 16 outputs, for each pair of inputs, 16 outputs side by side, each the
 * pair: data[block][k / 2][16][2]. So a K-step of a block is one tile of 16 rows of 64 bytes. */
uint64_t krn_bf16_packed_bytes(enum krn_dtype dtype, uint32_t n, uint32_t k);
void krn_bf16_pack(const struct krn_tensor *w, uint32_t row0, uint32_t n, uint32_t col0, uint32_t k,
                   void *out, struct krn_packed *p);
void krn_bf16_embed(const struct krn_packed *w, uint32_t token, float *y);

/* What every form gives on fixed inputs, and the check of one form. memory: krn_bf16_golden_bytes()
 * bytes, 64-byte aligned. */
#define KRN_BF16_GOLDEN 0xbb985721acadd194ull
uint64_t krn_bf16_golden_run(const struct krn_bf16_fn *fn, void *memory);
size_t krn_bf16_golden_bytes(void);
enum status krn_bf16_selftest(const struct krn_bf16_fn *fn, struct status_note *note);

#endif
