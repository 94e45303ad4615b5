/* SPDX-License-Identifier: Apache-2.0
 * Products of profile `q8` (numerics.md 14): rows as bytes, weights in cells, exact integer sums,
 * one fp32 chain over cells. One source, included by q8_*.c after the choice of a vector form; each
 * gives an entry of kernels/matmul.c.
 */
#ifndef KERNELS_CPU_Q8_H
#define KERNELS_CPU_Q8_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/product_close.h"
#include "kernels/cpu/q8_row.h"
#include "kernels/cpu/tables.h"
#include "kernels/rowfn.h"

#if defined(KRN_ISA_AVX512)
#include "kernels/cpu/q8_dot_vnni.h"
#elif defined(KRN_ISA_AVX2)
#include "kernels/cpu/q8_dot_avx2.h"
#elif defined(KRN_ISA_NEON)
#include "kernels/cpu/q8_dot_neon.h"
#else
#include "kernels/cpu/q8_dot_plain.h"
#endif

enum {
    Q8_ROWS = 8,  /* rows that share a read of a cell */
    Q8_AHEAD = 24 /* cells: so long before its use a chain asks for a cell */
};

struct q8_tile {
    const uint8_t *cells; /* of one block, from the first cell on */
    uint32_t n;           /* cells of the chain */
    uint32_t first;       /* its first cell: place in the rows */
    struct q8_row row[Q8_ROWS];
    float *acc; /* [R][16] */
};

/* Asks for a later cell. */
VEC_FN void q8_ask(const struct krn_cell c, const uint8_t *cell) {
    UNROLL for (uint32_t o = 0; o < krn_cell_bytes(c); o += 64)
        __builtin_prefetch(cell + Q8_AHEAD * krn_cell_bytes(c) + o);
}

/* One chain over cells for R rows and sixteen outputs. */
VEC_FN void q8_chain(const enum krn_dtype type, const int R, const struct q8_tile *t) {
    const struct krn_cell c = krn_cell(type);
    const bool min = c.scales == KRN_CELL_DM || c.scales == KRN_CELL_K;
    v16 acc[Q8_ROWS];
    UNROLL for (int r = 0; r < R; r++) acc[r] = v_zero();
    const uint8_t *cell = t->cells;
    for (uint32_t i = t->first; i < t->first + t->n; i++, cell += krn_cell_bytes(c)) {
        q8_ask(c, cell);
        const struct q8_codes codes = q8_read(c, cell);
        const struct cell_scales s = cell_scales_of(c, cell);
        UNROLL for (int r = 0; r < R; r++) {
            const struct q8_row *x = &t->row[r];
            const int8_t *q = x->code + (size_t)i * KRN_CELL;
            v16 scale = v_set1(x->scale[i]);
            if (c.scales == KRN_CELL_K6) {
                int32_t half = x->half[i];
                v16 sum = q8_dot(c, &codes, q, 0, 4, half);
                acc[r] = v_fma(sum, v_mul(s.step[0], scale), acc[r]);
                sum = q8_dot(c, &codes, q, 4, 8, x->sum[i] - half);
                acc[r] = v_fma(sum, v_mul(s.step[1], scale), acc[r]);
            } else {
                v16 sum = q8_dot(c, &codes, q, 0, 8, x->sum[i]);
                acc[r] = v_fma(sum, v_mul(s.step[0], scale), acc[r]);
            }
            if (min)
                acc[r] = v_fma(s.min, v_set1(x->edge[i]), acc[r]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) v_store(t->acc + r * 16, acc[r]);
}

#define Q8_CHAIN(type, R)                                                                          \
    static void q8_##type##_##R(const struct q8_tile *t) {                                         \
        q8_chain(type, R, t);                                                                      \
    }
#define Q8_CHAINS(type)                                                                            \
    Q8_CHAIN(type, 1)                                                                              \
    Q8_CHAIN(type, 2)                                                                              \
    Q8_CHAIN(type, 3)                                                                              \
    Q8_CHAIN(type, 4)                                                                              \
    Q8_CHAIN(type, 5)                                                                              \
    Q8_CHAIN(type, 6)                                                                              \
    Q8_CHAIN(type, 7)                                                                              \
    Q8_CHAIN(type, 8)
Q8_CHAINS(KRN_Q8_0)
Q8_CHAINS(KRN_Q4_0)
Q8_CHAINS(KRN_Q4_1)
Q8_CHAINS(KRN_Q5_0)
Q8_CHAINS(KRN_Q5_1)
Q8_CHAINS(KRN_Q4_K)
Q8_CHAINS(KRN_Q5_K)
Q8_CHAINS(KRN_Q6_K)
Q8_CHAINS(KRN_IQ4_NL)

typedef void (*q8_chain_fn)(const struct q8_tile *t);
#define Q8_ENTRY(type)                                                                             \
    [type] = {NULL,          q8_##type##_1, q8_##type##_2, q8_##type##_3, q8_##type##_4,           \
              q8_##type##_5, q8_##type##_6, q8_##type##_7, q8_##type##_8}
static const q8_chain_fn q8_chains[KRN_TYPES][Q8_ROWS + 1] = {
    Q8_ENTRY(KRN_Q8_0), Q8_ENTRY(KRN_Q4_0), Q8_ENTRY(KRN_Q4_1),
    Q8_ENTRY(KRN_Q5_0), Q8_ENTRY(KRN_Q5_1), Q8_ENTRY(KRN_Q4_K),
    Q8_ENTRY(KRN_Q5_K), Q8_ENTRY(KRN_Q6_K), Q8_ENTRY(KRN_IQ4_NL)};

static inline struct q8_row q8_row_at(const struct krn_product *p, uint32_t row) {
    return q8_row_of(p->w->k, (const uint8_t *)p->q + row * p->ldq);
}

/* Rows [r0, r0 + nr) of at most Q8_ROWS by block b. */
static void q8_rows(const struct krn_product *p, uint32_t b, uint32_t r0, uint32_t nr) {
    const struct krn_packed *w = p->w;
    const uint32_t bytes = krn_cell_bytes(krn_cell(w->dtype)), cells = w->k / KRN_CELL;
    const uint32_t n = cells / p->segments;
    float acc[KRN_V_MAX * Q8_ROWS * 16] __attribute__((aligned(64)));
    struct q8_tile t = {.n = n};
    for (uint32_t r = 0; r < nr; r++)
        t.row[r] = q8_row_at(p, r0 + r);
    for (uint32_t s = 0; s < p->segments; s++) {
        t.first = s * n;
        t.cells = (const uint8_t *)w->data + ((size_t)b * cells + t.first) * bytes;
        t.acc = acc + s * nr * 16;
        q8_chains[w->dtype][nr](&t);
    }
    product_finish(p, acc, r0, nr, b, 1);
}

/* All rows of blocks [block0, block1): a block's cells stay near for its row groups. */
static void q8_blocks(const struct krn_product *p, uint32_t block0, uint32_t block1) {
    const struct krn_packed *w = p->w;
    CHECK(block1 <= w->n_blocks && w->k % (KRN_CELL * p->segments) == 0);
    CHECK(p->segments >= 1 && p->segments <= KRN_V_MAX && (p->segments & (p->segments - 1)) == 0);
    uint32_t groups = (p->rows + Q8_ROWS - 1) / Q8_ROWS;
    for (uint32_t b = block0; b < block1; b++)
        for (uint32_t i = 0; i < groups; i++) {
            uint32_t r0 = (uint32_t)((uint64_t)p->rows * i / groups);
            uint32_t r1 = (uint32_t)((uint64_t)p->rows * (i + 1) / groups);
            q8_rows(p, b, r0, r1 - r0);
        }
}

/* Weights of plain types keep the products of the row functions. */
static bool q8_is_plain(const struct krn_product *p, uint32_t block0, uint32_t block1,
                        void *scratch) {
    if (p->w->dtype < KRN_DTYPES)
        VEC_TABLE.product(p, block0, block1, scratch);
    return p->w->dtype < KRN_DTYPES;
}

#endif
