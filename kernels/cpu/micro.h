/* SPDX-License-Identifier: Apache-2.0
 * The one inner loop of products and attention: R rows by NB blocks of 16 outputs, each output one
 * chain of fused multiply-adds over k ascending (numerics.md 3.1). R and NB only choose which
 * chains run side by side, so no tile shape can move a bit. Included once by each isa_*.c after its
 * vec_*.h.
 */
#ifndef KERNELS_CPU_MICRO_H
#define KERNELS_CPU_MICRO_H

#include <stddef.h>

#include "actors/check.h"
#include "kernels/cpu/vec.h"
#include "kernels/profile.h"

enum {
    MICRO_KC = 512, /* inputs of a row tile that are copied at a time */
    MICRO_XS =
        MICRO_KC +
        16, /* row stride of that copy: no power of two, so rows spread over the cache's sets */
    MICRO_TILE = 32 /* accumulators of the largest tile */
};

/* acc[r][b][16] continues (or, when fresh, starts at +0) with x[r][0..k) times w[k][b][16].
 * xs: floats from row to row; wk, wb: elements from input to input and from block to block. */
struct micro {
    const float *x;
    size_t xs;
    const void *w;
    size_t wk, wb;
    uint32_t k;
    float *acc;
    size_t as; /* floats from row to row of acc; blocks lie 16 apart */
    int fresh;
};

VEC_FN v16 micro_load(const int dtype, const void *w, size_t at) {
    if (dtype == KRN_F32)
        return v_load((const float *)w + at);
    if (dtype == KRN_BF16)
        return v_load_bf16((const uint16_t *)w + at);
    return v_load_f16((const uint16_t *)w + at);
}

VEC_FN void micro_body(const int R, const int NB, const int dtype, const float *x, const size_t xs,
                       const void *w, const size_t wk, const struct micro *m) {
    v16 a[MICRO_TILE];
    const size_t wb = m->wb;
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int b = 0; b < NB; b++) a[r * NB + b] =
            m->fresh != 0 ? v_zero() : v_load(m->acc + r * m->as + b * 16);
    }
    size_t at = 0;
    for (uint32_t k = 0; k < m->k; k++, at += wk) {
        v16 wv[8];
        UNROLL for (int b = 0; b < NB; b++) wv[b] = micro_load(dtype, w, at + (size_t)b * wb);
        UNROLL for (int r = 0; r < R; r++) {
            v16 xv = v_set1(x[r * xs + k]);
            UNROLL for (int b = 0; b < NB; b++) a[r * NB + b] = v_fma(xv, wv[b], a[r * NB + b]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int b = 0; b < NB; b++) v_store(m->acc + r * m->as + b * 16, a[r * NB + b]);
    }
}

typedef void (*micro_fn)(const struct micro *m);

/* Tiles over a widened panel: the strides are constants, so one pointer serves all rows. */
#define MICRO_PANEL(R, NB)                                                                         \
    static void micro_panel_##R##_##NB(const struct micro *m) {                                    \
        micro_body(R, NB, KRN_F32, m->x, MICRO_XS, m->w, 16, m);                                   \
    }
VEC_PANEL_TILES(MICRO_PANEL)
#define MICRO_PANEL_ENTRY(R, NB) [NB][R] = micro_panel_##R##_##NB,
static const micro_fn micro_panel[VEC_PANEL_B + 1][VEC_PANEL_R + 1] = {
    VEC_PANEL_TILES(MICRO_PANEL_ENTRY)};

/* Tiles straight over the stored form, for few rows; also over K and V tiles. */
#define MICRO_DIRECT(D, R, NB)                                                                     \
    static void micro_##D##_##R##_##NB(const struct micro *m) {                                    \
        micro_body(R, NB, D, m->x, m->xs, m->w, m->wk, m);                                         \
    }
VEC_DIRECT_TILES(MICRO_DIRECT, KRN_F32)
VEC_DIRECT_TILES(MICRO_DIRECT, KRN_BF16)
VEC_DIRECT_TILES(MICRO_DIRECT, KRN_F16)
#define MICRO_DIRECT_ENTRY(D, R, NB) [D][NB][R] = micro_##D##_##R##_##NB,
static const micro_fn micro_direct[KRN_DTYPES][9][VEC_ROWS + 1] = {
    VEC_DIRECT_TILES(MICRO_DIRECT_ENTRY, KRN_F32) VEC_DIRECT_TILES(MICRO_DIRECT_ENTRY, KRN_BF16)
        VEC_DIRECT_TILES(MICRO_DIRECT_ENTRY, KRN_F16)};

/* The widest tile for R rows that fits in the blocks left. */
VEC_FN uint32_t micro_blocks(uint32_t rows, uint32_t left) {
    uint32_t nb = VEC_BLOCKS(rows);
    (void)rows;
    while (nb > left)
        nb /= 2;
    return nb;
}

/* rows by blocks of fp32 tiles of any size (attention); m describes the first tile. */
VEC_FN void micro_f32(struct micro m, uint32_t rows, uint32_t blocks) {
    const float *x = m.x, *w = m.w;
    float *acc = m.acc;
    for (uint32_t r = 0; r < rows;) {
        uint32_t tiles = (rows - r + VEC_ROWS - 1) / VEC_ROWS;
        uint32_t nr = (rows - r + tiles - 1) / tiles;
        for (uint32_t b = 0; b < blocks;) {
            uint32_t nb = micro_blocks(nr, blocks - b);
            m.x = x + r * m.xs;
            m.w = w + b * m.wb;
            m.acc = acc + r * m.as + b * 16;
            micro_direct[KRN_F32][nb][nr](&m);
            b += nb;
        }
        r += nr;
    }
}

#endif
