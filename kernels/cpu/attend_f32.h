/* SPDX-License-Identifier: Apache-2.0
 * Attention over fp32 keys [head_dim][64] and values [64][head_dim] of a tile (numerics.md 6).
 */
#ifndef KERNELS_CPU_ATTEND_F32_H
#define KERNELS_CPU_ATTEND_F32_H

#include "kernels/cpu/attend.h"
#include "kernels/cpu/micro.h"

/* Raw scores of lines [i0, i1), 16 keys at a time from block b0 to b1. */
static void attend_scores(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                          uint32_t i0, uint32_t i1, uint32_t b0, uint32_t b1) {
    struct micro m = {.x = t->q + i0 * ATTEND_DS,
                      .xs = ATTEND_DS,
                      .w = (const float *)tile->k + b0 * 16,
                      .wk = KRN_TILE,
                      .wb = 16,
                      .k = d,
                      .acc = t->s + i0 * ATTEND_SS + b0 * 16,
                      .as = ATTEND_SS,
                      .fresh = 1};
    micro_f32(m, i1 - i0, b1 - b0);
}

/* o[line] continues with p[line][j] * V[j] for j in [j0, j1), lines [i0, i1). */
static void attend_values(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                          uint32_t i0, uint32_t i1, uint32_t j0, uint32_t j1) {
    if (j0 >= j1)
        return;
    struct micro m = {.x = t->s + i0 * ATTEND_SS + j0,
                      .xs = ATTEND_SS,
                      .w = (const float *)tile->v + (size_t)j0 * d,
                      .wk = d,
                      .wb = 16,
                      .k = j1 - j0,
                      .acc = t->o + i0 * ATTEND_DS,
                      .as = ATTEND_DS,
                      .fresh = 0};
    micro_f32(m, i1 - i0, d / 16);
}

/* The lines that see this tile are neighbours. Keys that all of them see are read together; before
 * and after that come the keys that only some see, still in ascending order for each line. */
static void attend_tile_f32(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                            uint32_t i0, uint32_t i1, float scale) {
    uint32_t first = KRN_TILE, last = 0, all0 = 0, all1 = KRN_TILE, j0, j1;
    for (uint32_t i = i0; i < i1; i++) {
        attend_visible(t, i, tile->base, &j0, &j1);
        first = j0 < first ? j0 : first;
        last = j1 > last ? j1 : last;
        all0 = j0 > all0 ? j0 : all0;
        all1 = j1 < all1 ? j1 : all1;
    }
    attend_scores(t, tile, d, i0, i1, first / 16, (last + 15) / 16);
    for (uint32_t i = i0; i < i1; i += 16)
        attend_softmax(t, tile->base, i, i1 - i < 16 ? i1 : i + 16, d, scale, false);
    if (all0 >= all1) { /* a window shorter than the span's rows: nothing is common */
        for (uint32_t i = i0; i < i1; i++) {
            attend_visible(t, i, tile->base, &j0, &j1);
            attend_values(t, tile, d, i, i + 1, j0, j1);
        }
        return;
    }
    for (uint32_t i = i0, e; i < i1; i = e) {
        attend_visible(t, i, tile->base, &j0, &j1);
        for (e = i + 1; e < i1 && t->lo[e] == t->lo[i]; e++)
            ;
        attend_values(t, tile, d, i, e, j0, all0);
    }
    attend_values(t, tile, d, i0, i1, all0, all1);
    for (uint32_t i = i0, e; i < i1; i = e) {
        attend_visible(t, i, tile->base, &j0, &j1);
        for (e = i + 1; e < i1 && t->hi[e] == t->hi[i]; e++)
            ;
        attend_values(t, tile, d, i, e, all1, j1);
    }
}

static void rowfn_attend(const struct krn_attend *a, uint32_t unit0, uint32_t unit1,
                         void *scratch) {
    size_t k_bytes = (size_t)a->kv.head_dim * KRN_TILE * sizeof(float);
    const struct attend_kind kind = {
        .tile_bytes = 2 * k_bytes, .v_off = k_bytes, .tile = attend_tile_f32};
    attend_units(&kind, a, unit0, unit1, scratch);
}

#endif
