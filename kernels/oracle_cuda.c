/* SPDX-License-Identifier: Apache-2.0
 * The profile cuda-bf16-sm90 in plain loops, from numerics.md 16.
 */
#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/cuda/bf16_tile.h"
#include "kernels/oracle_rows.h"
#include "kernels/step16.h"

enum { LANES = 4, LANE_PAIR = 2 };

static void round_row(const float *x, uint32_t n, uint16_t *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = krn_step16_bf16(x[i]);
}

/* Row n of w as the packed matrix has it. */
static void weight_row(const struct krn_tensor *w, uint64_t n, float *row, uint16_t *out) {
    krn_oracle_embed(w, (uint32_t)n, row);
    round_row(row, (uint32_t)w->dims[1], out);
}

void krn_oracle_round_cuda(float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        x[i] = krn_widen_bf16(krn_step16_bf16(x[i]));
}

void krn_oracle_segment_cuda(const float *x, const struct krn_tensor *w, uint32_t begin,
                             uint32_t end, float *y, float *scratch) {
    uint32_t k = (uint32_t)w->dims[1];
    uint16_t *in = (uint16_t *)(void *)(scratch + k), *row = in + k;
    round_row(x, k, in);
    for (uint64_t n = 0; n < w->dims[0]; n++) {
        weight_row(w, n, scratch, row);
        y[n] = krn_step16_chain(0.0f, in + begin, row + begin, end - begin);
    }
}

void krn_oracle_product_cuda(const float *x, const struct krn_tensor *w, uint32_t segments,
                             const struct krn_tensor *bias, bool add, float *y, float *scratch) {
    uint32_t k = (uint32_t)w->dims[1], len = k / segments;
    uint16_t *in = (uint16_t *)(void *)(scratch + k), *row = in + k;
    float part[KRN_V_MAX];
    CHECK(segments >= 1 && segments <= KRN_V_MAX && k % segments == 0);
    CHECK(segments == 1 || len % KRN_STEP16 == 0);
    round_row(x, k, in);
    for (uint64_t n = 0; n < w->dims[0]; n++) {
        weight_row(w, n, scratch, row);
        for (uint32_t s = 0; s < segments; s++)
            part[s] = krn_step16_chain(0.0f, in + s * len, row + s * len, len);
        for (uint32_t left = segments; left > 1; left /= 2)
            for (uint32_t s = 0; s < left / 2; s++)
                part[s] = part[2 * s] + part[2 * s + 1];
        float v = part[0];
        if (bias != NULL)
            v = v + krn_oracle_element(bias, n);
        y[n] = add ? y[n] + v : v;
    }
}

/* 16.6. */
static float exp2_of(float x) {
    float t = x > KRN_EXP2_LO || x != x ? x : KRN_EXP2_LO;
    float n = t + KRN_EXP2_ROUND, f = t - (n - KRN_EXP2_ROUND);
    float p = fmaf(f, KRN_EXP2_C5, KRN_EXP2_C4);
    p = fmaf(f, p, KRN_EXP2_C3);
    p = fmaf(f, p, KRN_EXP2_C2);
    p = fmaf(f, p, KRN_EXP2_C1);
    p = fmaf(f, p, 1.0f);
    return p * krn_float(krn_bits(n) << 23);
}

/* What a segment, or several merged ones, leave. */
struct soft {
    bool any;
    float max, sum[LANES], out[KRN_HEAD_MAX];
};

struct tile {
    uint32_t base, begin, end; /* keys [begin, end) of it are visible */
    const float *keys, *values;
    size_t ld;
};

/* The tile's scores become probabilities, +0 for masked keys; returns alpha. */
static float probabilities(const struct tile *t, float c2, float *p, struct soft *s) {
    float max = s->max;
    for (uint32_t j = t->begin; j < t->end; j++)
        max = p[j - t->base] > max || max != max ? p[j - t->base] : max;
    float b = max * c2, alpha = exp2_of(s->max * c2 - b);
    for (uint32_t i = 0; i < KRN_TILE; i++) {
        bool visible = t->base + i >= t->begin && t->base + i < t->end;
        p[i] = visible ? exp2_of(fmaf(p[i], c2, -b)) : 0.0f;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        s->sum[l] = s->sum[l] * alpha;
        for (uint32_t i = 0; i < KRN_TILE; i++)
            if (i % (LANES * LANE_PAIR) / LANE_PAIR == l)
                s->sum[l] = s->sum[l] + p[i];
    }
    s->max = max;
    return alpha;
}

static void attend_tile(const uint16_t *q, uint32_t d, float c2, const struct tile *t,
                        struct soft *s) {
    float p[KRN_TILE] = {0};
    uint16_t k[KRN_HEAD_MAX], rounded[KRN_TILE], v[KRN_TILE];
    for (uint32_t j = t->begin; j < t->end; j++) {
        round_row(t->keys + j * t->ld, d, k);
        p[j - t->base] = krn_step16_chain(0.0f, q, k, d);
    }
    float alpha = probabilities(t, c2, p, s);
    round_row(p, KRN_TILE, rounded);
    for (uint32_t i = 0; i < d; i++) {
        for (uint32_t j = 0; j < KRN_TILE; j++) {
            bool visible = t->base + j >= t->begin && t->base + j < t->end;
            v[j] = visible ? krn_step16_bf16(t->values[(t->base + j) * t->ld + i]) : 0;
        }
        s->out[i] = krn_step16_chain(s->out[i] * alpha, rounded, v, KRN_TILE);
    }
    s->any = true;
}

/* A segment's sum is sum[0] from here on. */
static void attend_merge(struct soft *all, struct soft *s, float c2, uint32_t d) {
    s->sum[0] = (s->sum[0] + s->sum[1]) + (s->sum[2] + s->sum[3]);
    if (!all->any) {
        *all = *s;
        return;
    }
    float max = s->max > all->max || all->max != all->max ? s->max : all->max, b = max * c2;
    float x = exp2_of(all->max * c2 - b), y = exp2_of(s->max * c2 - b);
    for (uint32_t i = 0; i < d; i++)
        all->out[i] = fmaf(s->out[i], y, all->out[i] * x);
    all->sum[0] = fmaf(s->sum[0], y, all->sum[0] * x);
    all->max = max;
}

void krn_oracle_attend_cuda(const struct krn_oracle_attend *a) {
    uint32_t end = a->pos + 1, d = a->head_dim;
    uint32_t begin = a->window != 0 && end > a->window ? end - a->window : 0;
    float c2 = a->scale * KRN_LOG2E;
    for (uint32_t h = 0; h < a->heads; h++) {
        struct soft all = {0};
        uint16_t q[KRN_HEAD_MAX];
        size_t at = (size_t)(h / (a->heads / a->kv_heads)) * d;
        round_row(a->q + (size_t)h * d, d, q);
        for (uint32_t s0 = begin / a->segment * a->segment; s0 < end; s0 += a->segment) {
            struct soft s = {.max = -INFINITY};
            for (uint32_t base = s0; base < s0 + a->segment && base < end; base += KRN_TILE) {
                struct tile t = {.base = base,
                                 .begin = base > begin ? base : begin,
                                 .end = base + KRN_TILE < end ? base + KRN_TILE : end,
                                 .keys = a->keys + at,
                                 .values = a->values + at,
                                 .ld = (size_t)a->kv_heads * d};
                if (t.begin < t.end)
                    attend_tile(q, d, c2, &t, &s);
            }
            if (s.any)
                attend_merge(&all, &s, c2, d);
        }
        for (uint32_t i = 0; i < d; i++)
            a->out[(size_t)h * d + i] = all.out[i] / all.sum[0];
    }
}
