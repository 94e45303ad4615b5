/* SPDX-License-Identifier: Apache-2.0
 * The profile `amx-bf16` in plain loops, from numerics.md 15.
 */
#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/oracle_rows.h"

enum { STEP = 32 };

/* 15.1, as the value of the bf16. */
static float rounded(float x) {
    float size = fabsf(x);
    if (size < 0x1p-126f)
        return copysignf(0.0f, x);
    if (!(size <= 3.4028234663852886e38f))
        return x; /* infinite or NaN */
    if ((krn_bits(x) & 0xffff) == 0)
        return x; /* has no more bits than a bf16 */
    int e;
    double m = frexp((double)size, &e); /* [0.5, 1): eight bits of it stay */
    return copysignf((float)ldexp(nearbyint(m * 256.0), e - 8), x);
}

/* 15.3 asks of a value rounded to fp32 what it is as far as fp64 holds it: for these alone. */
static inline bool is_tiny(float r) {
    return fabsf(r) <= 0x1p-126f && r != 0.0f;
}

static float flushed(float r, double exact) {
    int e;
    double m = frexp(fabs(exact), &e);
    double free = ldexp(nearbyint(m * 0x1p24), e - 24);
    return free < 0x1p-126 ? copysignf(0.0f, r) : r;
}

static inline float flushed_fma(float a, float b, float c) {
    float r = fmaf(a, b, c);
    return is_tiny(r) ? flushed(r, fma((double)a, (double)b, (double)c)) : r;
}

static float as_operand(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static inline float flushed_add(float a, float b) {
    a = as_operand(a);
    b = as_operand(b);
    float r = a + b;
    return is_tiny(r) ? flushed(r, (double)a + (double)b) : r;
}

/* K-steps of inputs [begin, end), the last one filled up with zeros. */
static float segment(const float *x, const float *w, uint32_t begin, uint32_t end) {
    float acc = 0.0f;
    for (uint32_t at = begin; at < end; at += STEP) {
        float even = 0.0f, odd = 0.0f;
        for (uint32_t i = at; i < at + STEP; i += 2) {
            even = flushed_fma(i < end ? x[i] : 0.0f, i < end ? w[i] : 0.0f, even);
            odd = flushed_fma(i + 1 < end ? x[i + 1] : 0.0f, i + 1 < end ? w[i + 1] : 0.0f, odd);
        }
        acc = flushed_add(acc, flushed_add(even, odd));
    }
    return acc;
}

void krn_oracle_embed_bf16(const struct krn_tensor *w, uint32_t row, float *y) {
    krn_oracle_embed(w, row, y);
    for (uint64_t i = 0; i < w->dims[1]; i++)
        y[i] = rounded(y[i]);
}

/* in = the row rounded, begin to end. */
static void round_row(const float *x, uint32_t begin, uint32_t end, float *in) {
    for (uint32_t i = begin; i < end; i++)
        in[i] = rounded(x[i]);
}

void krn_oracle_segment_bf16(const float *x, const struct krn_tensor *w, uint32_t begin,
                             uint32_t end, float *y, float *scratch) {
    float *row = scratch, *in = scratch + w->dims[1];
    round_row(x, begin, end, in);
    for (uint64_t n = 0; n < w->dims[0]; n++) {
        krn_oracle_embed_bf16(w, (uint32_t)n, row);
        y[n] = segment(in, row, begin, end);
    }
}

void krn_oracle_product_bf16(const float *x, const struct krn_tensor *w, uint32_t segments,
                             const struct krn_tensor *bias, bool add, float *y, float *scratch) {
    uint32_t k = (uint32_t)w->dims[1], len = k / segments;
    float *row = scratch, *in = scratch + k, part[KRN_V_MAX];
    CHECK(segments >= 1 && segments <= KRN_V_MAX && k % segments == 0);
    CHECK(segments == 1 || len % STEP == 0);
    round_row(x, 0, k, in);
    for (uint64_t n = 0; n < w->dims[0]; n++) {
        krn_oracle_embed_bf16(w, (uint32_t)n, row);
        for (uint32_t s = 0; s < segments; s++)
            part[s] = segment(in, row, s * len, (s + 1) * len);
        for (uint32_t left = segments; left > 1; left /= 2)
            for (uint32_t s = 0; s < left / 2; s++)
                part[s] = part[2 * s] + part[2 * s + 1];
        float v = part[0];
        if (bias != NULL)
            v = v + krn_oracle_element(bias, n);
        y[n] = add ? y[n] + v : v;
    }
}

void krn_oracle_round_bf16(float *x, uint32_t n) {
    round_row(x, 0, n, x);
}

/* 15.6: what a segment, or several merged ones, leave. */
struct soft {
    bool any;
    float max, sum, out[KRN_HEAD_MAX];
};

/* The keys of one tile, those of [j0, j1) visible. */
static void attend_tile(const struct krn_oracle_attend *a, uint32_t h, const float *q,
                        uint32_t base, uint32_t j0, uint32_t j1, struct soft *t) {
    uint32_t d = a->head_dim, kh = h / (a->heads / a->kv_heads);
    size_t ld = (size_t)a->kv_heads * d;
    float p[KRN_TILE] = {0}, lane[16] = {0}, max = t->max, v[KRN_TILE];
    for (uint32_t j = j0; j < j1; j++) {
        p[j - base] = a->scale * segment(q, a->keys + j * ld + kh * d, 0, d);
        max = p[j - base] > max ? p[j - base] : max;
    }
    float alpha = krn_expf(t->max - max);
    for (uint32_t j = j0; j < j1; j++) {
        p[j - base] = rounded(krn_expf(p[j - base] - max));
        lane[j % 16] = lane[j % 16] + p[j - base];
    }
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    t->sum = fmaf(t->sum, alpha, lane[0]);
    for (uint32_t i = 0; i < d; i++) {
        for (uint32_t j = 0; j < KRN_TILE; j++) {
            bool visible = base + j >= j0 && base + j < j1;
            v[j] = visible ? a->values[(base + j) * ld + kh * d + i] : 0.0f;
        }
        float o = t->out[i] * alpha;
        for (uint32_t at = 0; at < KRN_TILE; at += STEP)
            o = flushed_add(o, segment(p, v, at, at + STEP));
        t->out[i] = o;
    }
    t->max = max;
    t->any = true;
}

static void attend_merge(struct soft *all, const struct soft *t, uint32_t d) {
    if (!all->any) {
        *all = *t;
        return;
    }
    float max = t->max > all->max ? t->max : all->max;
    float x = krn_expf(all->max - max), y = krn_expf(t->max - max);
    for (uint32_t i = 0; i < d; i++)
        all->out[i] = fmaf(t->out[i], y, all->out[i] * x);
    all->sum = fmaf(t->sum, y, all->sum * x);
    all->max = max;
}

void krn_oracle_attend_bf16(const struct krn_oracle_attend *a) {
    uint32_t end = a->pos + 1, d = a->head_dim;
    uint32_t begin = a->window != 0 && end > a->window ? end - a->window : 0;
    for (uint32_t h = 0; h < a->heads; h++) {
        struct soft all = {0};
        float q[KRN_HEAD_MAX];
        round_row(a->q + (size_t)h * d, 0, d, q);
        for (uint32_t s0 = begin / a->segment * a->segment; s0 < end; s0 += a->segment) {
            struct soft t = {.max = -INFINITY};
            for (uint32_t base = s0; base < s0 + a->segment && base < end; base += KRN_TILE) {
                uint32_t j0 = base > begin ? base : begin;
                uint32_t j1 = base + KRN_TILE < end ? base + KRN_TILE : end;
                if (j0 < j1)
                    attend_tile(a, h, q, base, j0, j1, &t);
            }
            if (t.any)
                attend_merge(&all, &t, d);
        }
        for (uint32_t i = 0; i < d; i++)
            a->out[(size_t)h * d + i] = all.out[i] / all.sum + 0.0f;
    }
}
