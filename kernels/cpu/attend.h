/* SPDX-License-Identifier: Apache-2.0
 * Attention of one KV head for the rows of a span (numerics.md 6): keys in absolute tiles of 64,
 * tiles in absolute segments. All rows of the span and all query heads of the KV head read a tile
 * together; a "line" is one (row, query head). Each line does exactly what it would do alone.
 */
#ifndef KERNELS_CPU_ATTEND_H
#define KERNELS_CPU_ATTEND_H

#include "kernels/cpu/micro.h"
#include "kernels/rowfn.h"

enum {
    ATTEND_LINES = 64,             /* lines that share the reading of a tile */
    ATTEND_DS = KRN_HEAD_MAX + 16, /* strides that are no power of two */
    ATTEND_SS = KRN_TILE + 16
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
};
_Static_assert(sizeof(struct attend_scratch) <= KRN_SCRATCH_BYTES, "fits in a thread's scratch");

/* First key of a tile and where it lies. */
struct attend_tile {
    uint32_t base;
    const float *k; /* [head_dim][64] */
    const float *v; /* [64][head_dim] */
};

static struct attend_tile attend_tile_at(const struct krn_kv *kv, const uint32_t *pages,
                                         uint32_t head, uint32_t tile) {
    uint32_t tiles = kv->page_tokens / KRN_TILE, d = kv->head_dim;
    const unsigned char *page = kv->pool + pages[tile / tiles] * kv->page_bytes + kv->layer_off;
    const float *k = (const float *)(const void *)page +
                     (size_t)(head * tiles + tile % tiles) * 2 * d * KRN_TILE;
    return (struct attend_tile){tile * KRN_TILE, k, k + (size_t)d * KRN_TILE};
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

/* Raw scores of lines [i0, i1), 16 keys at a time from block b0 to b1. */
static void attend_scores(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                          uint32_t i0, uint32_t i1, uint32_t b0, uint32_t b1) {
    struct micro m = {.x = t->q + i0 * ATTEND_DS,
                      .xs = ATTEND_DS,
                      .w = tile->k + b0 * 16,
                      .wk = KRN_TILE,
                      .wb = 16,
                      .k = d,
                      .acc = t->s + i0 * ATTEND_SS + b0 * 16,
                      .as = ATTEND_SS,
                      .fresh = 1};
    micro_f32(m, i1 - i0, b1 - b0);
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

/* Scores of lines [i0, i1), at most 16, become probabilities; what came before is scaled to the new
 * maximum. The steps run over all lines one after the other, so that no line waits for its own long
 * chain. */
static void attend_softmax(struct attend_scratch *t, uint32_t base, uint32_t i0, uint32_t i1,
                           uint32_t d, float scale) {
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
        float sum = full ? attend_exp(t, i, 0, KRN_TILE, true)
                         : attend_exp(t, i, j0[i - i0], j1[i - i0], false);
        t->sum[i] = fmaf(t->sum[i], alpha[i - i0], sum);
        if (alpha[i - i0] == 1.0f) /* times 1 moves no bit */
            continue;
        v16 av = v_set1(alpha[i - i0]);
        for (uint32_t c = 0; c < d; c += 16)
            v_store(t->o + i * ATTEND_DS + c, v_mul(v_load(t->o + i * ATTEND_DS + c), av));
    }
}

/* o[line] continues with p[line][j] * V[j] for j in [j0, j1), lines [i0, i1). */
static void attend_values(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
                          uint32_t i0, uint32_t i1, uint32_t j0, uint32_t j1) {
    if (j0 >= j1)
        return;
    struct micro m = {.x = t->s + i0 * ATTEND_SS + j0,
                      .xs = ATTEND_SS,
                      .w = tile->v + (size_t)j0 * d,
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
static void attend_tile(struct attend_scratch *t, const struct attend_tile *tile, uint32_t d,
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
        attend_softmax(t, tile->base, i, i1 - i < 16 ? i1 : i + 16, d, scale);
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
static void attend_lines(const struct krn_attend *a, const struct krn_span *span, uint32_t head,
                         uint32_t l0, uint32_t lines, struct attend_scratch *t) {
    uint32_t g = a->heads / a->kv.kv_heads, d = a->kv.head_dim;
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t row = (l0 + i) / g, h = head * g + (l0 + i) % g;
        memcpy(t->q + i * ATTEND_DS, a->q + (span->first_row + row) * a->ldq + (size_t)h * d,
               d * sizeof(float));
        t->hi[i] = span->first_pos + row + 1;
        t->lo[i] = a->window != 0 && t->hi[i] > a->window ? t->hi[i] - a->window : 0;
        t->out_seen[i] = false;
    }
    uint32_t tile0 = t->lo[0] / KRN_TILE, tile1 = (t->hi[lines - 1] - 1) / KRN_TILE + 1;
    for (uint32_t n = tile0; n < tile1; n++) {
        if (n == tile0 || n * KRN_TILE % a->segment == 0)
            attend_segment_begin(t, lines, d);
        struct attend_tile tile = attend_tile_at(&a->kv, span->pages, head, n);
        uint32_t i0 = 0, i1 = lines;
        while (i0 < lines && t->hi[i0] <= tile.base)
            i0++;
        while (i1 > i0 && t->lo[i1 - 1] >= tile.base + KRN_TILE)
            i1--;
        if (i0 < i1)
            attend_tile(t, &tile, d, i0, i1, a->scale);
        if (n + 1 == tile1 || (n + 1) * KRN_TILE % a->segment == 0)
            attend_segment_end(t, lines, d);
    }
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t row = (l0 + i) / g, h = head * g + (l0 + i) % g;
        float *out = a->out + (span->first_row + row) * a->ldo + (size_t)h * d;
        v16 sum = v_set1(t->out_sum[i]);
        for (uint32_t c = 0; c < d; c += 16)
            v_store(out + c, v_div(v_load(t->out + i * ATTEND_DS + c), sum));
    }
}

static void rowfn_attend(const struct krn_attend *a, uint32_t unit0, uint32_t unit1,
                         void *scratch) {
    CHECK(a->heads % a->kv.kv_heads == 0);
    CHECK(a->kv.head_dim % 16 == 0 && a->kv.head_dim <= KRN_HEAD_MAX);
    CHECK(a->segment % KRN_TILE == 0 && a->segment > 0);
    for (uint32_t u = unit0; u < unit1; u++) {
        const struct krn_span *span = a->spans + u / a->kv.kv_heads;
        uint32_t lines = span->rows * (a->heads / a->kv.kv_heads);
        for (uint32_t l = 0; l < lines; l += ATTEND_LINES)
            attend_lines(a, span, u % a->kv.kv_heads, l,
                         lines - l < ATTEND_LINES ? lines - l : ATTEND_LINES, scratch);
    }
}

#endif
