/* SPDX-License-Identifier: Apache-2.0
 * Attention of one KV head for the rows of a span (numerics.md 6): keys in absolute tiles of 64,
 * tiles in absolute segments. All rows of the span and all query heads of the KV head read a tile
 * together; a "line" is one (row, query head). Each line does exactly what it would do alone.
 * What a tile holds and how it is multiplied is the including file's: attend_f32.h, attend_bf16.h.
 */
#ifndef KERNELS_CPU_ATTEND_H
#define KERNELS_CPU_ATTEND_H

#include <string.h>

#include "actors/check.h"
#include "kernels/cpu/vec.h"
#include "kernels/rowfn.h"

enum {
    ATTEND_LINES = 64,             /* lines that share the reading of a tile */
    ATTEND_DS = KRN_HEAD_MAX + 16, /* strides that are no power of two */
    ATTEND_SS = KRN_TILE + 16,
    ATTEND_QS = KRN_HEAD_MAX + 32, /* the same of bf16: odd numbers of cache lines */
    ATTEND_PS = KRN_TILE + 32
};

struct attend_scratch {
    float q[ATTEND_LINES * ATTEND_DS];
    float o[ATTEND_LINES * ATTEND_DS];   /* of the current segment */
    float out[ATTEND_LINES * ATTEND_DS]; /* merged segments */
    float s[ATTEND_LINES * ATTEND_SS];   /* scores, then probabilities, of the current tile */
    float max[ATTEND_LINES], sum[ATTEND_LINES];         /* of the current segment */
    float out_max[ATTEND_LINES], out_sum[ATTEND_LINES]; /* merged segments */
    bool seen[ATTEND_LINES];                     /* a key of the current segment was visible */
    bool out_seen[ATTEND_LINES];                 /* some segment has been merged */
    uint32_t lo[ATTEND_LINES], hi[ATTEND_LINES]; /* visible keys [lo, hi) of the sequence */
    /* Of bf16 alone: queries, probabilities, values with what nobody sees set to zero; rows of a
     * matrix tile as they are configured. */
    _Alignas(64) uint16_t q_half[ATTEND_LINES * ATTEND_QS];
    _Alignas(64) uint16_t p_half[ATTEND_LINES * ATTEND_PS];
    _Alignas(64) uint16_t v_half[KRN_TILE * KRN_HEAD_MAX];
    uint32_t tile_rows;
};
_Static_assert(sizeof(struct attend_scratch) <= KRN_SCRATCH_BYTES, "fits in a thread's scratch");

/* First key of a tile and where it lies. */
struct attend_tile {
    uint32_t base;
    const void *k, *v;
};

/* Where a kind of tile keeps its keys and values, and what it does for lines [i0, i1). */
struct attend_kind {
    size_t tile_bytes, v_off;
    void (*query)(struct attend_scratch *t, uint32_t line,
                  uint32_t d); /* t->q is filled; or NULL */
    void (*tile)(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d, uint32_t i0,
                 uint32_t i1, float scale);
    bool plus_zero; /* a result of -0 becomes +0 */
};

static struct attend_tile attend_tile_at(const struct attend_kind *kind, const struct krn_kv *kv,
                                         const uint32_t *pages, uint32_t head, uint32_t tile) {
    uint32_t tiles = kv->page_tokens / KRN_TILE;
    const unsigned char *at = kv->pool + pages[tile / tiles] * kv->page_bytes + kv->layer_off +
                              (size_t)(head * tiles + tile % tiles) * kind->tile_bytes;
    return (struct attend_tile){tile * KRN_TILE, at, at + kind->v_off};
}

/* Keys of the tile that line i sees: [*j0, *j1) within the tile. The line must see one. */
static void attend_visible(const struct attend_scratch *t, uint32_t i, uint32_t base, uint32_t *j0,
                           uint32_t *j1) {
    *j0 = t->lo[i] > base ? t->lo[i] - base : 0;
    *j1 = t->hi[i] - base < KRN_TILE ? t->hi[i] - base : KRN_TILE;
}

/* Lanes of block b that lie in keys [j0, j1). */
VEC_FN m16 attend_mask(uint32_t j0, uint32_t j1, uint32_t b) {
    return m_range(j0 > b * 16 ? j0 - b * 16 : 0, j1 < b * 16 + 16 ? j1 - b * 16 : 16);
}

/* Scales the scores of line i, selects the masked ones away, and returns the running maximum with
 * them. With full, all 64 keys are visible and nothing is selected. */
VEC_FN float attend_max(struct attend_scratch *t, uint32_t i, const uint32_t j0, const uint32_t j1,
                        float scale, const bool full) {
    const v16 none = v_set1(-INFINITY), sc = v_set1(scale);
    float *s = t->s + i * ATTEND_SS;
    const uint32_t b0 = full ? 0 : j0 / 16, b1 = full ? KRN_TILE / 16 : (j1 + 15) / 16;
    v16 top = none;
    UNROLL for (uint32_t b = b0; b < b1; b++) {
        v16 v = v_mul(v_load(s + b * 16), sc);
        if (!full)
            v = v_select(attend_mask(j0, j1, b), v, none);
        v_store(s + b * 16, v);
        top = v_max(v, top);
    }
    float tile_max = v_hmax(top);
    return tile_max > t->max[i] ? tile_max : t->max[i];
}

/* Turns the scaled scores of line i into probabilities against its maximum; returns their sum. */
VEC_FN float attend_exp(struct attend_scratch *t, uint32_t i, const uint32_t j0, const uint32_t j1,
                        const bool full) {
    float *s = t->s + i * ATTEND_SS;
    const uint32_t b0 = full ? 0 : j0 / 16, b1 = full ? KRN_TILE / 16 : (j1 + 15) / 16;
    v16 mv = v_set1(t->max[i]), sum = v_zero();
    UNROLL for (uint32_t b = b0; b < b1; b++) {
        v16 p = v_exp_down(v_sub(v_load(s + b * 16), mv));
        if (!full)
            p = v_select(attend_mask(j0, j1, b), p, v_zero());
        v_store(s + b * 16, p);
        sum = v_add(sum, p);
    }
    return v_sum(sum);
}

/* The same with probabilities rounded to bf16, of all 64 keys: masked ones are +0. */
VEC_FN float attend_exp_half(struct attend_scratch *t, uint32_t i, const uint32_t j0,
                             const uint32_t j1) {
    float *s = t->s + i * ATTEND_SS;
    uint16_t *half = t->p_half + i * ATTEND_PS;
    v16 mv = v_set1(t->max[i]), sum = v_zero();
    UNROLL for (uint32_t b = 0; b < KRN_TILE / 16; b++) {
        v16 p = v_zero();
        if (j0 < b * 16 + 16 && j1 > b * 16)
            p = v_select(attend_mask(j0, j1, b), v_exp_down(v_sub(v_load(s + b * 16), mv)), p);
        v_store_bf16(half + b * 16, p);
        p = v_load_bf16(half + b * 16);
        v_store(s + b * 16, p);
        sum = v_add(sum, p);
    }
    return v_sum(sum);
}

/* Scores of lines [i0, i1), at most 16, become probabilities; what came before is scaled to the new
 * maximum. The steps run over all lines one after the other, so that no line waits for its own long
 * chain. */
VEC_FN void attend_softmax(struct attend_scratch *t, uint32_t base, uint32_t i0, uint32_t i1,
                           uint32_t d, float scale, const bool half) {
    uint32_t j0[16], j1[16];
    float alpha[16] = {0};
    for (uint32_t i = i0; i < i1; i++) {
        attend_visible(t, i, base, &j0[i - i0], &j1[i - i0]);
        bool full = j1[i - i0] - j0[i - i0] == KRN_TILE;
        float max = full ? attend_max(t, i, 0, KRN_TILE, scale, true)
                         : attend_max(t, i, j0[i - i0], j1[i - i0], scale, false);
        alpha[i - i0] = t->max[i] - max;
        t->max[i] = max;
        t->seen[i] = true;
    }
    v_store(alpha, v_exp_down(v_load(alpha)));
    for (uint32_t i = i0; i < i1; i++) {
        bool full = j1[i - i0] - j0[i - i0] == KRN_TILE;
        float sum = half   ? attend_exp_half(t, i, j0[i - i0], j1[i - i0])
                    : full ? attend_exp(t, i, 0, KRN_TILE, true)
                           : attend_exp(t, i, j0[i - i0], j1[i - i0], false);
        t->sum[i] = fmaf(t->sum[i], alpha[i - i0], sum);
        if (alpha[i - i0] == 1.0f) /* times 1 moves no bit */
            continue;
        v16 av = v_set1(alpha[i - i0]);
        for (uint32_t c = 0; c < d; c += 16)
            v_store(t->o + i * ATTEND_DS + c, v_mul(v_load(t->o + i * ATTEND_DS + c), av));
    }
}

static void attend_segment_begin(struct attend_scratch *t, uint32_t lines, uint32_t d) {
    for (uint32_t i = 0; i < lines; i++) {
        t->max[i] = -INFINITY;
        t->sum[i] = 0.0f;
        t->seen[i] = false;
        memset(t->o + i * ATTEND_DS, 0, d * sizeof(float));
    }
}

/* Merges the segment into what earlier segments left; a segment that a line did not see leaves it
 * untouched. */
static void attend_segment_end(struct attend_scratch *t, uint32_t lines, uint32_t d) {
    for (uint32_t i = 0; i < lines; i++) {
        float *o = t->o + i * ATTEND_DS, *out = t->out + i * ATTEND_DS;
        if (!t->seen[i])
            continue;
        if (!t->out_seen[i]) {
            memcpy(out, o, d * sizeof(float));
            t->out_max[i] = t->max[i];
            t->out_sum[i] = t->sum[i];
            t->out_seen[i] = true;
            continue;
        }
        float max = t->max[i] > t->out_max[i] ? t->max[i] : t->out_max[i];
        float a = v_exp1(t->out_max[i] - max), b = v_exp1(t->max[i] - max);
        for (uint32_t c = 0; c < d; c += 16)
            v_store(out + c, v_fma(v_load(o + c), v_set1(b), v_mul(v_load(out + c), v_set1(a))));
        t->out_sum[i] = fmaf(t->sum[i], b, t->out_sum[i] * a);
        t->out_max[i] = max;
    }
}

/* Lines [l0, l0 + lines) of the unit. */
static void attend_lines(const struct attend_kind *kind, const struct krn_attend *a,
                         const struct krn_span *span, uint32_t head, uint32_t l0, uint32_t lines,
                         struct attend_scratch *t) {
    uint32_t g = a->heads / a->kv.kv_heads, d = a->kv.head_dim;
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t row = (l0 + i) / g, h = head * g + (l0 + i) % g;
        memcpy(t->q + i * ATTEND_DS, a->q + (span->first_row + row) * a->ldq + (size_t)h * d,
               d * sizeof(float));
        if (kind->query != NULL)
            kind->query(t, i, d);
        t->hi[i] = span->first_pos + row + 1;
        t->lo[i] = a->window != 0 && t->hi[i] > a->window ? t->hi[i] - a->window : 0;
        t->out_seen[i] = false;
    }
    uint32_t tile0 = t->lo[0] / KRN_TILE, tile1 = (t->hi[lines - 1] - 1) / KRN_TILE + 1;
    for (uint32_t n = tile0; n < tile1; n++) {
        if (n == tile0 || n * KRN_TILE % a->segment == 0)
            attend_segment_begin(t, lines, d);
        struct attend_tile tile = attend_tile_at(kind, &a->kv, span->pages, head, n);
        uint32_t i0 = 0, i1 = lines;
        while (i0 < lines && t->hi[i0] <= tile.base)
            i0++;
        while (i1 > i0 && t->lo[i1 - 1] >= tile.base + KRN_TILE)
            i1--;
        if (i0 < i1)
            kind->tile(t, &tile, d, i0, i1, a->scale);
        if (n + 1 == tile1 || (n + 1) * KRN_TILE % a->segment == 0)
            attend_segment_end(t, lines, d);
    }
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t row = (l0 + i) / g, h = head * g + (l0 + i) % g;
        float *out = a->out + (span->first_row + row) * a->ldo + (size_t)h * d;
        v16 sum = v_set1(t->out_sum[i]);
        for (uint32_t c = 0; c < d; c += 16) {
            v16 v = v_div(v_load(t->out + i * ATTEND_DS + c), sum);
            v_store(out + c, kind->plus_zero ? v_add(v, v_zero()) : v);
        }
    }
}

static void attend_units(const struct attend_kind *kind, const struct krn_attend *a, uint32_t unit0,
                         uint32_t unit1, struct attend_scratch *t) {
    CHECK(a->heads % a->kv.kv_heads == 0);
    CHECK(a->kv.head_dim % 16 == 0 && a->kv.head_dim <= KRN_HEAD_MAX);
    CHECK(a->segment % KRN_TILE == 0 && a->segment > 0);
    for (uint32_t u = unit0; u < unit1; u++) {
        const struct krn_span *span = a->spans + u / a->kv.kv_heads;
        uint32_t lines = span->rows * (a->heads / a->kv.kv_heads);
        for (uint32_t l = 0; l < lines; l += ATTEND_LINES)
            attend_lines(kind, a, span, u % a->kv.kv_heads, l,
                         lines - l < ATTEND_LINES ? lines - l : ATTEND_LINES, t);
    }
}

#endif
