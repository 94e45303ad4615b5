/* SPDX-License-Identifier: Apache-2.0
 * The tensor core's step.
 */
#include "kernels/step16.h"

#include <math.h>
#include <string.h>

#include "kernels/approx.h"

enum {
    FRACTION = 25,     /* bits behind the point of the greatest term's exponent that stay */
    PRODUCT_BITS = 14, /* fraction bits of a product of two significands */
    SUM_BITS = 23,     /* of the accumulator */
    BIAS = 127,
    SPECIAL = 255, /* exponent of what is infinite or NaN */
    LEAST = -6     /* of the greatest term at least, with bias: 2^-133, the least bf16 */
};

uint16_t krn_step16_bf16(float x) {
    uint32_t u = krn_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* A value's exponent field, 1 for subnormals and zeros, and its significand with the hidden bit. */
static inline int32_t exponent(uint32_t field) {
    return field == 0 ? 1 : (int32_t)field;
}

/* With an infinite or NaN operand: what the exact sum is. */
static float special(float c, const uint16_t *a, const uint16_t *b) {
    double sum = (double)c;
    for (int i = 0; i < KRN_STEP16; i++)
        sum += (double)krn_widen_bf16(a[i]) * (double)krn_widen_bf16(b[i]);
    return (float)sum;
}

/* sum * 2^(e - BIAS - FRACTION), cut to fp32 towards zero, which is +0; beyond fp32, infinite. */
static float cut(int64_t sum, int32_t e) {
    uint32_t sign = sum < 0 ? 0x80000000u : 0;
    uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
    if (size == 0)
        return 0.0f;
    int32_t top = 63 - __builtin_clzll(size), field = top + e - FRACTION;
    if (field >= SPECIAL)
        return krn_float(sign | 0x7f800000u);
    if (field >= 1) {
        uint64_t kept = top > SUM_BITS ? size >> (top - SUM_BITS) : size << (SUM_BITS - top);
        return krn_float(sign | (uint32_t)field << SUM_BITS | ((uint32_t)kept & 0x7fffffu));
    }
    int32_t down = FRACTION - SUM_BITS + 1 - e;
    uint32_t kept = down > 63 ? 0 : (uint32_t)(down >= 0 ? size >> down : size << -down);
    return kept == 0 ? 0.0f : krn_float(sign | kept);
}

/* size * 2^-down, down at least 0, cut. */
static inline int64_t shifted(uint32_t size, int32_t down) {
    return (int64_t)(size >> (down < 31 ? down : 31));
}

float krn_step16(float c, const uint16_t *a, const uint16_t *b) {
    int32_t e[KRN_STEP16], hostile = 0;
    uint32_t p[KRN_STEP16], u = krn_bits(c), field = u >> SUM_BITS & 255u;
    for (int i = 0; i < KRN_STEP16; i++) {
        uint32_t ea = a[i] >> 7 & 255u, eb = b[i] >> 7 & 255u;
        hostile |= (ea == SPECIAL) | (eb == SPECIAL);
        e[i] = exponent(ea) + exponent(eb) - BIAS;
        p[i] = ((a[i] & 127u) | (ea != 0 ? 128u : 0)) * ((b[i] & 127u) | (eb != 0 ? 128u : 0));
    }
    if (hostile || field == SPECIAL)
        return special(c, a, b);
    int32_t ec = exponent(field), most = u << 1 != 0 ? ec : LEAST;
    for (int i = 0; i < KRN_STEP16; i++)
        most = p[i] != 0 && e[i] > most ? e[i] : most;
    uint32_t size = (u & 0x7fffffu) | (field != 0 ? 0x800000u : 0);
    int64_t sum = shifted(size << (FRACTION - SUM_BITS), most > ec ? most - ec : 0);
    sum = u >> 31 ? -sum : sum;
    for (int i = 0; i < KRN_STEP16; i++) {
        /* a product with a zero may stand above the others: it is 0 at any place */
        int32_t down = most > e[i] ? most - e[i] : 0;
        int64_t term = shifted(p[i] << (FRACTION - PRODUCT_BITS), down);
        sum += (a[i] ^ b[i]) >> 15 ? -term : term;
    }
    return cut(sum, most);
}

float krn_step16_chain(float c, const uint16_t *a, const uint16_t *b, uint32_t n) {
    uint32_t at = 0;
    for (; at + KRN_STEP16 <= n; at += KRN_STEP16)
        c = krn_step16(c, a + at, b + at);
    if (at < n) {
        uint16_t last[2][KRN_STEP16] = {{0}};
        memcpy(last[0], a + at, (n - at) * sizeof *a);
        memcpy(last[1], b + at, (n - at) * sizeof *b);
        c = krn_step16(c, last[0], last[1]);
    }
    return c;
}
