/* SPDX-License-Identifier: Apache-2.0
 * Our own elementary functions. Plain multiplications and additions in a written order (contraction
 * is off), so every compiler and CPU gives the same bits.
 */
#include "kernels/approx.h"

static double double64(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

double krn_exp64(double x) {
    double n = x * 0x1.71547652b82fep+0;
    n = (n + 0x1.8p+52) - 0x1.8p+52;
    double r = (x - n * KRN_LN2_HI) - n * KRN_LN2_LO;
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
