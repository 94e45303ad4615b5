/* SPDX-License-Identifier: Apache-2.0
 * The profile `amx-bf16` in plain loops, from numerics.md 15.
 */
#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/oracle_rows.h"

enum { STEP = 32 };

/* 13.1, as the value of the bf16. */
static float rounded(float x) {
    float size = fabsf(x);
    if (size < 0x1p-126f)
        return copysignf(0.0f, x);
    if (!(size <= 3.4028234663852886e38f))
        return x; /* infinite or NaN */
    int e;
    double m = frexp((double)size, &e); /* [0.5, 1): eight bits of it stay */
    return copysignf((float)ldexp(nearbyint(m * 256.0), e - 8), x);
}

/* 13.3: a value already rounded to fp32, and the same as far as fp64 holds it. */
static inline float flushed(float r, double exact) {
    if (!(fabsf(r) <= 0x1p-126f) || r == 0.0f)
        return r;
    int e;
    double m = frexp(fabs(exact), &e);
    double free = ldexp(nearbyint(m * 0x1p24), e - 24);
    return free < 0x1p-126 ? copysignf(0.0f, r) : r;
}

static inline float flushed_fma(float a, float b, float c) {
    return flushed(fmaf(a, b, c), fma((double)a, (double)b, (double)c));
}

static inline float flushed_add(float a, float b) {
    return flushed(a + b, (double)a + (double)b);
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
