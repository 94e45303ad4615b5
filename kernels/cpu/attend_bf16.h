/* SPDX-License-Identifier: Apache-2.0
 * Attention over bf16 keys and values (numerics.md 15.6). A tile of a head lies as two packed
 * weights: keys are 64 outputs over head_dim inputs, values head_dim outputs over 64 inputs. The
 * including file defines the two products:
 *   bf16_scores(t, k, d, i0, i1): t->s of lines [i0, i1) and all 64 keys, from their queries
 *   bf16_values(t, v, d, i0, i1): t->o of lines [i0, i1) continues over all 64 keys
 */
#ifndef KERNELS_CPU_ATTEND_BF16_H
#define KERNELS_CPU_ATTEND_BF16_H

#include "kernels/cpu/attend.h"
#include "kernels/cpu/bf16.h"

static void attend_query_bf16(struct attend_scratch *t, uint32_t line, uint32_t d) {
    float *q = t->q + line * ATTEND_DS;
    uint16_t *half = t->q_half + line * ATTEND_QS;
    uint32_t padded = krn_bf16_padded(d);
    for (uint32_t i = 0; i < padded; i += 16) {
        v_store_bf16(half + i, i < d ? v_load(q + i) : v_zero());
        v_store(q + i, v_load_bf16(half + i));
    }
}

/* Copies the tile's values; those of keys outside [first, last) become zero. True when all others
 * are finite: then times zero is zero. */
static bool attend_copy_values(struct attend_scratch *t, const void *v, uint32_t d, uint32_t first,
                               uint32_t last) {
    uint32_t bad = 0, pairs[KRN_BLOCK];
    for (uint32_t at = 0; at < d / 16 * (KRN_TILE / 2); at++) {
        uint32_t j = at % (KRN_TILE / 2) * 2;
        uint32_t keep = (j >= first && j < last ? 0x0000ffffu : 0) |
                        (j + 1 >= first && j + 1 < last ? 0xffff0000u : 0);
        memcpy(pairs, (const char *)v + at * sizeof pairs, sizeof pairs);
        for (uint32_t c = 0; c < KRN_BLOCK; c++) {
            pairs[c] &= keep;
            /* an exponent of all ones carries into the sign's place */
            bad |= ((pairs[c] & 0x7f807f80u) + 0x00800080u) & 0x80008000u;
        }
        memcpy((char *)t->v_half + at * sizeof pairs, pairs, sizeof pairs);
    }
    return bad == 0;
}

static void attend_tile_bf16(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                             uint32_t i0, uint32_t i1, float scale) {
    uint32_t first = KRN_TILE, last = 0, all0 = 0, all1 = KRN_TILE, j0, j1;
    for (uint32_t i = i0; i < i1; i++) {
        attend_visible(t, i, tile->base, &j0, &j1);
        first = j0 < first ? j0 : first;
        last = j1 > last ? j1 : last;
        all0 = j0 > all0 ? j0 : all0;
        all1 = j1 < all1 ? j1 : all1;
    }
    bf16_scores(t, tile->k, d, i0, i1);
    for (uint32_t i = i0; i < i1; i += 16)
        attend_softmax(t, tile->base, i, i1 - i < 16 ? i1 : i + 16, d, scale, true);
    if (all0 == 0 && all1 == KRN_TILE) {
        bf16_values(t, tile->v, d, i0, i1);
    } else if (attend_copy_values(t, tile->v, d, first, last)) {
        bf16_values(t, t->v_half, d, i0, i1);
    } else { /* a line must not meet what only others see */
        for (uint32_t i = i0; i < i1; i++) {
            attend_visible(t, i, tile->base, &j0, &j1);
            attend_copy_values(t, tile->v, d, j0, j1);
            bf16_values(t, t->v_half, d, i, i + 1);
        }
    }
}

static void attend_units_bf16(const struct krn_attend *a, uint32_t unit0, uint32_t unit1,
                              struct attend_scratch *t) {
    const struct attend_kind kind = {.tile_bytes = krn_bf16_tile_bytes(a->kv.head_dim),
                                     .v_off = krn_bf16_keys_bytes(a->kv.head_dim),
                                     .query = attend_query_bf16,
                                     .tile = attend_tile_bf16,
                                     .plus_zero = true};
    t->tile_rows = 0;
    attend_units(&kind, a, unit0, unit1, t);
}

#endif
