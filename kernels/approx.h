/* SPDX-License-Identifier: Apache-2.0
 * exp, log, sin, cos and pow of our own, so that no library and no CPU can move a bit (numerics.md
 * 0.4). The fp64 functions serve tables and log-probabilities; krn_expf is the scalar form of the
 * row functions' exp.
 */
#ifndef KERNELS_APPROX_H
#define KERNELS_APPROX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/inline.h"

/* fp32 exp: constants and order of operations of numerics.md 0.5; vec.h has the same in vectors. */
#define KRN_EXP_HI     0x1.62e42ep+6f  /* above: +inf */
#define KRN_EXP_LO     -0x1.5d589ep+6f /* below: +0 */
#define KRN_EXP_LOG2E  0x1.715476p+0f
#define KRN_EXP_ROUND  0x1.8p+23f
#define KRN_EXP_LN2_HI 0x1.62e4p-1f
#define KRN_EXP_LN2_LO 0x1.7f7d1cp-20f
#define KRN_EXP_C2     0x1.000000p-1f
#define KRN_EXP_C3     0x1.555464p-3f
#define KRN_EXP_C4     0x1.5552fap-5f
#define KRN_EXP_C5     0x1.12593cp-7f
#define KRN_EXP_C6     0x1.6ff33ep-10f

KRN_INLINE uint32_t krn_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

KRN_INLINE float krn_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* exp(x), at most 1 ulp off; exactly 1 at 0; +0 where the result would be below 2^-126; NaN stays
 * NaN. */
KRN_INLINE float krn_expf(float x) {
    if (x != x)
        return x;
    float c = x > KRN_EXP_LO ? x : KRN_EXP_LO;
    c = c > KRN_EXP_HI ? KRN_EXP_HI : c;
    float t = fmaf(c, KRN_EXP_LOG2E, KRN_EXP_ROUND);
    float n = t - KRN_EXP_ROUND;
    float r = fmaf(n, -KRN_EXP_LN2_HI, c);
    r = fmaf(n, -KRN_EXP_LN2_LO, r);
    float q = fmaf(KRN_EXP_C6, r, KRN_EXP_C5);
    q = fmaf(q, r, KRN_EXP_C4);
    q = fmaf(q, r, KRN_EXP_C3);
    q = fmaf(q, r, KRN_EXP_C2);
    float p = fmaf(q, r * r, r);
    p = p + 1.0f;
    /* t's low mantissa bits are n: shifted into the exponent they multiply by 2^n */
    float y = krn_float(krn_bits(p) + (krn_bits(t) << 23));
    if (x < KRN_EXP_LO)
        return 0.0f;
    return x > KRN_EXP_HI ? krn_float(0x7f800000u) : y;
}

/* Relative error below 2^-50 for |x| <= 700, |x| < 2^40 and theta^e in range; not correctly
 * rounded, but the same everywhere. */
double krn_exp64(double x);
/* ln 2 in two parts; the first has 21 low zero bits, so its product with a small integer is exact.
 */
#define KRN_LN2_HI 0x1.62e42feep-1
#define KRN_LN2_LO 0x1.a39ef35793c76p-33

/* x > 0 and normal. */
KRN_INLINE double krn_log64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int64_t e = (int64_t)(u >> 52) - 1023;
    u = (u & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &u, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2 */
        m = m * 0.5;
        e++;
    }
    /* log m = 2 (s + s^3/3 + ...), s = (m-1)/(m+1), |s| <= 0.172 */
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double y = 1.0 / 23.0;
    for (int k = 21; k >= 3; k -= 2)
        y = y * z + 1.0 / (double)k;
    double tail = 2.0 * (s * (z * y));
    return (double)e * KRN_LN2_HI + ((double)e * KRN_LN2_LO + tail + 2.0 * s);
}
/* base > 0. */
double krn_pow64(double base, double e);
/* |x| <= 2^20, the longest context. */
void krn_sincos64(double x, double *s, double *c);

/* Exact widening of a stored element. */
KRN_INLINE float krn_widen_bf16(uint16_t h) {
    return krn_float((uint32_t)h << 16);
}
KRN_INLINE float krn_widen_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    if (e == 31)
        return krn_float(sign | 0x7f800000u | m << 13);
    if (e != 0)
        return krn_float(sign | (e + 112) << 23 | m << 13);
    /* subnormal: m * 2^-24, exact in fp32 */
    float x = (float)m * 0x1p-24f;
    return sign != 0 ? -x : x;
}
/* To bf16 by numerics.md 15.1. */
KRN_INLINE uint16_t krn_round_bf16(float x) {
    uint32_t u = krn_bits(x), size = u & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u); /* NaN stays NaN */
    if (size < 0x00800000u)
        return (uint16_t)(u >> 16 & 0x8000u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* gelu's tanh form is g / (1 + exp(-t)), t = g * (KRN_GELU_1 + KRN_GELU_3 * g^2): 2 * sqrt(2 / pi),
 * and that times 0.044715. */
#define KRN_GELU_1 1.5957691216057308f
#define KRN_GELU_3 0.07135481282553747f

#endif
