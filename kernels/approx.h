/* SPDX-License-Identifier: Apache-2.0
 * exp, log, sin, cos and pow of our own, so that no library and no CPU can move a bit (numerics.md
 * 0.4). The fp64 functions serve tables and log-probabilities; krn_expf is the scalar form of the
 * row functions' exp.
 */
#ifndef KERNELS_APPROX_H
#define KERNELS_APPROX_H

#include <stdint.h>
#include <string.h>

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

static inline uint32_t krn_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float krn_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* exp(x), at most 1 ulp off; exactly 1 at 0; +0 where the result would be below 2^-126; NaN stays
 * NaN. */
float krn_expf(float x);

/* Relative error below 2^-50 for |x| <= 700, |x| < 2^40 and theta^e in range; not correctly
 * rounded, but the same everywhere. */
double krn_exp64(double x);
/* x > 0 and normal. */
double krn_log64(double x);
/* base > 0. */
double krn_pow64(double base, double e);
/* |x| <= 2^20, the longest context. */
void krn_sincos64(double x, double *s, double *c);

/* Exact widening of a stored element. */
static inline float krn_widen_bf16(uint16_t h) {
    return krn_float((uint32_t)h << 16);
}
float krn_widen_f16(uint16_t h);

/* gelu's tanh form is g / (1 + exp(-t)), t = g * (KRN_GELU_1 + KRN_GELU_3 * g^2): 2 * sqrt(2 / pi),
 * and that times 0.044715. */
#define KRN_GELU_1 1.5957691216057308f
#define KRN_GELU_3 0.07135481282553747f

#endif
