/* SPDX-License-Identifier: Apache-2.0
 * The sixteen lanes of vec_scalar.h in one AVX-512 register (F, BW, DQ, VL).
 */
#ifndef KERNELS_CPU_VEC_AVX512_H
#define KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "kernels/approx.h"

#define VEC_ISA         "avx512"
#define VEC_TABLE       krn_rowfn_avx512
#define VEC_PANEL_R     14
#define VEC_PANEL_B     2
#define VEC_ROWS        8
#define VEC_DIRECT_ROWS 40 /* up to here two-byte weights are not worth widening first */
/* enough chains to hide the latency of a fused multiply-add, as far as 32 registers go */
#define VEC_BLOCKS(R) ((R) == 1 ? 8 : (R) <= 6 ? 4 : 2)
/* clang-format off */
#define VEC_PANEL_TILES(M)                                                                         \
    M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1) M(7, 1) M(8, 1) M(9, 1) M(10, 1) M(11, 1)      \
    M(12, 1) M(13, 1) M(14, 1) M(1, 2) M(2, 2) M(3, 2) M(4, 2) M(5, 2) M(6, 2) M(7, 2) M(8, 2)     \
    M(9, 2) M(10, 2) M(11, 2) M(12, 2) M(13, 2) M(14, 2)
#define VEC_DIRECT_TILES(M, D)                                                                     \
    M(D, 1, 1) M(D, 2, 1) M(D, 3, 1) M(D, 4, 1) M(D, 5, 1) M(D, 6, 1) M(D, 7, 1) M(D, 8, 1)        \
    M(D, 1, 2) M(D, 2, 2) M(D, 3, 2) M(D, 4, 2) M(D, 5, 2) M(D, 6, 2) M(D, 7, 2) M(D, 8, 2)        \
    M(D, 1, 4) M(D, 2, 4) M(D, 3, 4) M(D, 4, 4) M(D, 5, 4) M(D, 6, 4) M(D, 1, 8)
/* clang-format on */

#define VEC_FN static inline __attribute__((always_inline, unused))

typedef __m512 v16;
typedef __mmask16 m16;

VEC_FN v16 v_set1(float x) {
    return _mm512_set1_ps(x);
}
VEC_FN v16 v_zero(void) {
    return _mm512_setzero_ps();
}
VEC_FN v16 v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
VEC_FN void v_store(float *p, v16 a) {
    _mm512_storeu_ps(p, a);
}
VEC_FN v16 v_load_n(const float *p, uint32_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (16 - n)), p);
}
VEC_FN void v_store_n(float *p, v16 a, uint32_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (16 - n)), a);
}
VEC_FN v16 v_load_bf16(const uint16_t *p) {
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}
/* The even and the odd elements of 32. */
VEC_FN v16 v_load_even(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
VEC_FN v16 v_load_odd(const uint16_t *p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000u)));
}
/* Rounded to bf16 (numerics.md 15.1). */
VEC_FN void v_store_bf16(uint16_t *p, v16 a) {
    __m512i u = _mm512_castps_si512(a), h = _mm512_srli_epi32(u, 16);
    __m512i size = _mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff));
    __m512i odd = _mm512_and_si512(h, _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    r = _mm512_srli_epi32(r, 16);
    r = _mm512_mask_and_epi32(r, _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(0x00800000)), h,
                              _mm512_set1_epi32(0x8000));
    r = _mm512_mask_or_epi32(r, _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32(0x7f800000)), h,
                             _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(r));
}
VEC_FN v16 v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
VEC_FN v16 v_add(v16 a, v16 b) {
    return _mm512_add_ps(a, b);
}
VEC_FN v16 v_sub(v16 a, v16 b) {
    return _mm512_sub_ps(a, b);
}
VEC_FN v16 v_mul(v16 a, v16 b) {
    return _mm512_mul_ps(a, b);
}
VEC_FN v16 v_div(v16 a, v16 b) {
    return _mm512_div_ps(a, b);
}
VEC_FN v16 v_fma(v16 a, v16 b, v16 c) {
    return _mm512_fmadd_ps(a, b, c);
}
VEC_FN v16 v_fnma(v16 a, v16 b, v16 c) {
    return _mm512_fnmadd_ps(a, b, c);
}
VEC_FN v16 v_max(v16 a, v16 b) {
    return _mm512_max_ps(a, b);
}
VEC_FN v16 v_min(v16 a, v16 b) {
    return _mm512_min_ps(a, b);
}
VEC_FN v16 v_neg(v16 a) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)0x80000000u)));
}
VEC_FN m16 v_lt(v16 a, v16 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
VEC_FN m16 v_is_finite(v16 a) {
    __m512i u = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
    return _mm512_cmplt_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
}
VEC_FN m16 v_is_nan(v16 a) {
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
VEC_FN m16 m_or(m16 a, m16 b) {
    return (m16)(a | b);
}
VEC_FN m16 m_range(uint32_t lo, uint32_t hi) {
    return (m16)((0xffffu >> (16 - hi)) & (0xffffu << lo));
}
VEC_FN m16 m_bits(uint32_t bits) {
    return (m16)bits;
}
VEC_FN uint32_t m_to_bits(m16 m) {
    return m;
}
VEC_FN v16 v_select(m16 m, v16 a, v16 b) {
    return _mm512_mask_blend_ps(m, b, a);
}
VEC_FN v16 v_scale_exp(v16 p, v16 t) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
VEC_FN float v_sum(v16 a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VEC_FN float v_hmax(v16 a) {
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
VEC_FN float v_first(v16 a) {
    return _mm512_cvtss_f32(a);
}
VEC_FN uint64_t v_fixed(uint64_t *out, v16 a) {
    v16 s = _mm512_mul_ps(a, _mm512_set1_ps(0x1p40f));
    __m512i lo = _mm512_cvttps_epu64(_mm512_castps512_ps256(s));
    __m512i hi = _mm512_cvttps_epu64(_mm512_extractf32x8_ps(s, 1));
    _mm512_storeu_si512(out, lo);
    _mm512_storeu_si512(out + 8, hi);
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(lo, hi));
}

#endif
