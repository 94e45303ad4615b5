/* SPDX-License-Identifier: Apache-2.0
 * Sixteen fp32 lanes in plain C: the form that every machine has, and the model for the other
 * vec_*.h. Each function is defined lane by lane; a vec_*.h of another instruction set must give
 * the same bits in every lane.
 */
#ifndef KERNELS_CPU_VEC_SCALAR_H
#define KERNELS_CPU_VEC_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/approx.h"

#define VEC_ISA         "scalar"
#define VEC_TABLE       krn_rowfn_scalar
#define VEC_PANEL_R     4 /* rows of a tile over a widened panel, VEC_PANEL_B blocks wide */
#define VEC_PANEL_B     1
#define VEC_ROWS        4 /* rows of a tile over the packed form */
#define VEC_DIRECT_ROWS 4 /* up to here two-byte weights are not worth widening first */
#define VEC_BLOCKS(R)   1
/* Every (rows, blocks) that the two tiles above can ask for. */
#define VEC_PANEL_TILES(M)     M(1, 1) M(2, 1) M(3, 1) M(4, 1)
#define VEC_DIRECT_TILES(M, D) M(D, 1, 1) M(D, 2, 1) M(D, 3, 1) M(D, 4, 1)

#define VEC_FN static inline __attribute__((always_inline, unused))
#define EACH   for (int i_ = 0; i_ < 16; i_++)

typedef struct {
    float f[16];
} v16;
typedef uint32_t m16; /* bit l: lane l */

VEC_FN v16 v_set1(float x) {
    v16 r;
    EACH r.f[i_] = x;
    return r;
}
VEC_FN v16 v_zero(void) {
    return v_set1(0.0f);
}
VEC_FN v16 v_load(const float *p) {
    v16 r;
    memcpy(&r, p, sizeof r);
    return r;
}
VEC_FN void v_store(float *p, v16 a) {
    memcpy(p, &a, sizeof a);
}
/* The first n of 16 lanes; the others read as +0 and are not touched in memory. */
VEC_FN v16 v_load_n(const float *p, uint32_t n) {
    v16 r = v_zero();
    memcpy(&r, p, n * sizeof(float));
    return r;
}
VEC_FN void v_store_n(float *p, v16 a, uint32_t n) {
    memcpy(p, &a, n * sizeof(float));
}
VEC_FN v16 v_load_bf16(const uint16_t *p) {
    v16 r;
    EACH r.f[i_] = krn_widen_bf16(p[i_]);
    return r;
}
/* The even and the odd elements of 32. */
VEC_FN v16 v_load_even(const uint16_t *p) {
    v16 r;
    EACH r.f[i_] = krn_widen_bf16(p[2 * i_]);
    return r;
}
VEC_FN v16 v_load_odd(const uint16_t *p) {
    v16 r;
    EACH r.f[i_] = krn_widen_bf16(p[2 * i_ + 1]);
    return r;
}
/* Rounded to bf16 (numerics.md 15.1). */
VEC_FN void v_store_bf16(uint16_t *p, v16 a) {
    EACH p[i_] = krn_round_bf16(a.f[i_]);
}
VEC_FN v16 v_load_f16(const uint16_t *p) {
    v16 r;
    EACH r.f[i_] = krn_widen_f16(p[i_]);
    return r;
}
VEC_FN v16 v_add(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] + b.f[i_];
    return a;
}
VEC_FN v16 v_sub(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] - b.f[i_];
    return a;
}
VEC_FN v16 v_mul(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] * b.f[i_];
    return a;
}
VEC_FN v16 v_div(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] / b.f[i_];
    return a;
}
/* a * b + c, rounded once */
VEC_FN v16 v_fma(v16 a, v16 b, v16 c) {
    EACH c.f[i_] = fmaf(a.f[i_], b.f[i_], c.f[i_]);
    return c;
}
/* c - a * b, rounded once */
VEC_FN v16 v_fnma(v16 a, v16 b, v16 c) {
    EACH c.f[i_] = fmaf(-a.f[i_], b.f[i_], c.f[i_]);
    return c;
}
/* a > b ? a : b, so b where either is NaN or both are zeros */
VEC_FN v16 v_max(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] > b.f[i_] ? a.f[i_] : b.f[i_];
    return a;
}
/* a < b ? a : b */
VEC_FN v16 v_min(v16 a, v16 b) {
    EACH a.f[i_] = a.f[i_] < b.f[i_] ? a.f[i_] : b.f[i_];
    return a;
}
VEC_FN v16 v_neg(v16 a) {
    EACH a.f[i_] = -a.f[i_];
    return a;
}
/* Comparisons are false on NaN. */
VEC_FN m16 v_lt(v16 a, v16 b) {
    m16 m = 0;
    EACH m |= (uint32_t)(a.f[i_] < b.f[i_]) << i_;
    return m;
}
VEC_FN m16 v_is_finite(v16 a) {
    m16 m = 0;
    EACH m |= (uint32_t)((krn_bits(a.f[i_]) & 0x7fffffffu) < 0x7f800000u) << i_;
    return m;
}
VEC_FN m16 v_is_nan(v16 a) {
    m16 m = 0;
    EACH m |= (uint32_t)((krn_bits(a.f[i_]) & 0x7fffffffu) > 0x7f800000u) << i_;
    return m;
}
VEC_FN m16 m_or(m16 a, m16 b) {
    return a | b;
}
/* Lanes [lo, hi) */
VEC_FN m16 m_range(uint32_t lo, uint32_t hi) {
    return (0xffffu >> (16 - hi)) & (0xffffu << lo);
}
VEC_FN m16 m_bits(uint32_t bits) {
    return bits;
}
VEC_FN uint32_t m_to_bits(m16 m) {
    return m & 0xffffu;
}
/* m ? a : b */
VEC_FN v16 v_select(m16 m, v16 a, v16 b) {
    EACH b.f[i_] = (m >> i_ & 1) != 0 ? a.f[i_] : b.f[i_];
    return b;
}
/* p with the integer in the low bits of t added to its exponent */
VEC_FN v16 v_scale_exp(v16 p, v16 t) {
    EACH p.f[i_] = krn_float(krn_bits(p.f[i_]) + (krn_bits(t.f[i_]) << 23));
    return p;
}
/* The tree 8, 4, 2, 1: lane l takes lane l + 8, then l + 4, ... */
VEC_FN float v_sum(v16 a) {
    for (int h = 8; h >= 1; h /= 2)
        for (int i = 0; i < h; i++)
            a.f[i] = a.f[i] + a.f[i + h];
    return a.f[0];
}
VEC_FN float v_hmax(v16 a) {
    for (int h = 8; h >= 1; h /= 2)
        for (int i = 0; i < h; i++)
            a.f[i] = a.f[i] > a.f[i + h] ? a.f[i] : a.f[i + h];
    return a.f[0];
}
VEC_FN float v_first(v16 a) {
    return a.f[0];
}
/* out[l] = a[l] * 2^40, cut to an integer, for a in [0, 1]; returns the sum */
VEC_FN uint64_t v_fixed(uint64_t *out, v16 a) {
    uint64_t sum = 0;
    EACH {
        out[i_] = (uint64_t)(a.f[i_] * 0x1p40f);
        sum += out[i_];
    }
    return sum;
}

#endif
