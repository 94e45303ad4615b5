/* SPDX-License-Identifier: Apache-2.0
 * Our own elementary functions. Plain multiplications and additions in a written order (contraction
 * is off), so every compiler and CPU gives the same bits.
 */
#include "kernels/approx.h"

#include <math.h>

static uint64_t bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double double64(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float krn_expf(float x) {
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
    return x > KRN_EXP_HI ? INFINITY : y;
}

/* ln 2 in two parts; the first has 21 low zero bits, so its product with a small integer is exact.
 */
static const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;

double krn_exp64(double x) {
    double n = x * 0x1.71547652b82fep+0;
    n = (n + 0x1.8p+52) - 0x1.8p+52;
    double r = (x - n * ln2_hi) - n * ln2_lo;
    /* Taylor to degree 14 on |r| <= 0.35 */
    double y = 1.0 / 87178291200.0;
    static const double c[] = {1.0 / 6227020800.0,
                               1.0 / 479001600.0,
                               1.0 / 39916800.0,
                               1.0 / 3628800.0,
                               1.0 / 362880.0,
                               1.0 / 40320.0,
                               1.0 / 5040.0,
                               1.0 / 720.0,
                               1.0 / 120.0,
                               1.0 / 24.0,
                               1.0 / 6.0,
                               0.5,
                               1.0,
                               1.0};
    for (unsigned i = 0; i < sizeof c / sizeof c[0]; i++)
        y = y * r + c[i];
    return y * double64((uint64_t)(1023 + (int64_t)n) << 52);
}

double krn_log64(double x) {
    uint64_t u = bits64(x);
    int64_t e = (int64_t)(u >> 52) - 1023;
    double m = double64((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
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
    return (double)e * ln2_hi + ((double)e * ln2_lo + tail + 2.0 * s);
}

double krn_pow64(double base, double e) {
    return krn_exp64(e * krn_log64(base));
}

/* sin and cos on |r| <= pi/4 by their Taylor series. */
static double sin_kernel(double r) {
    static const double c[] = {
        1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
        1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
    double z = r * r, y = c[0];
    for (unsigned i = 1; i < sizeof c / sizeof c[0]; i++)
        y = y * z + c[i];
    return r + r * (z * y);
}

static double cos_kernel(double r) {
    static const double c[] = {
        1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
        1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0};
    double z = r * r, y = c[0];
    for (unsigned i = 1; i < sizeof c / sizeof c[0]; i++)
        y = y * z + c[i];
    return (1.0 - 0.5 * z) + z * (z * y);
}

void krn_sincos64(double x, double *s, double *c) {
    /* pi/2 in parts of 33, 33 and 53 bits: |n| < 2^20, so the first two products are exact. */
    static const double p1 = 0x1.921fb544p+0, p2 = 0x1.0b4611a6p-34, p3 = 0x1.3198a2e037073p-69;
    double n = x * 0x1.45f306dc9c883p-1;
    n = (n + 0x1.8p+52) - 0x1.8p+52;
    double r = ((x - n * p1) - n * p2) - n * p3;
    double sr = sin_kernel(r), cr = cos_kernel(r);
    switch ((int64_t)n & 3) {
    case 0:
        *s = sr;
        *c = cr;
        break;
    case 1:
        *s = cr;
        *c = -sr;
        break;
    case 2:
        *s = -sr;
        *c = -cr;
        break;
    default:
        *s = -cr;
        *c = sr;
        break;
    }
}

float krn_widen_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    if (e == 31)
        return krn_float(sign | 0x7f800000u | m << 13);
    if (e != 0)
        return krn_float(sign | (e + 112) << 23 | m << 13);
    /* subnormal: m * 2^-24, exact in fp32 */
    float x = (float)m * 0x1p-24f;
    return sign != 0 ? -x : x;
}
