/* SPDX-License-Identifier: Apache-2.0
 * The sixteen lanes of vec_scalar.h in two AVX2 registers (with FMA and F16C).
 */
#ifndef KERNELS_CPU_VEC_AVX2_H
#define KERNELS_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "kernels/approx.h"

#define VEC_ISA         "avx2"
#define VEC_TABLE       krn_rowfn_avx2
#define VEC_PANEL_R     6
#define VEC_PANEL_B     1
#define VEC_ROWS        6
#define VEC_DIRECT_ROWS 48 /* up to here two-byte weights are not worth widening first */
/* enough chains to hide the latency of a fused multiply-add, as far as 16 registers go */
#define VEC_BLOCKS(R)      ((R) == 1 ? 4 : (R) <= 3 ? 2 : 1)
#define VEC_PANEL_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#define VEC_DIRECT_TILES(M, D)                                                                     \
    M(D, 1, 1)                                                                                     \
    M(D, 2, 1)                                                                                     \
    M(D, 3, 1) M(D, 4, 1) M(D, 5, 1) M(D, 6, 1) M(D, 1, 2) M(D, 2, 2) M(D, 3, 2) M(D, 1, 4)

#define VEC_FN static inline __attribute__((always_inline, unused))

typedef struct {
    __m256 a, b; /* lanes 0 to 7, 8 to 15 */
} v16;
typedef struct {
    __m256 a, b; /* all ones where true */
} m16;

#define PAIR(type, x, y) ((type){(x), (y)})

VEC_FN v16 v_set1(float x) {
    __m256 v = _mm256_set1_ps(x);
    return PAIR(v16, v, v);
}
VEC_FN v16 v_zero(void) {
    return v_set1(0.0f);
}
VEC_FN v16 v_load(const float *p) {
    return PAIR(v16, _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
VEC_FN void v_store(float *p, v16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
/* Lanes [lo, hi) */
VEC_FN m16 m_range(uint32_t lo, uint32_t hi) {
    const __m256i i0 = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i i1 = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    __m256i l = _mm256_set1_epi32((int)lo - 1), h = _mm256_set1_epi32((int)hi);
    return PAIR(
        m16,
        _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(i0, l), _mm256_cmpgt_epi32(h, i0))),
        _mm256_castsi256_ps(
            _mm256_and_si256(_mm256_cmpgt_epi32(i1, l), _mm256_cmpgt_epi32(h, i1))));
}
VEC_FN v16 v_load_n(const float *p, uint32_t n) {
    m16 m = m_range(0, n);
    return PAIR(v16, _mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
                _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b)));
}
VEC_FN void v_store_n(float *p, v16 v, uint32_t n) {
    m16 m = m_range(0, n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), v.a);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), v.b);
}
VEC_FN __m256 v_half_bf16(const uint16_t *p) {
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}
VEC_FN v16 v_load_bf16(const uint16_t *p) {
    return PAIR(v16, v_half_bf16(p), v_half_bf16(p + 8));
}
VEC_FN __m256i v_half_load(const uint16_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
VEC_FN v16 v_load_even(const uint16_t *p) {
    return PAIR(v16, _mm256_castsi256_ps(_mm256_slli_epi32(v_half_load(p), 16)),
                _mm256_castsi256_ps(_mm256_slli_epi32(v_half_load(p + 16), 16)));
}
VEC_FN v16 v_load_odd(const uint16_t *p) {
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    return PAIR(v16, _mm256_castsi256_ps(_mm256_and_si256(v_half_load(p), high)),
                _mm256_castsi256_ps(_mm256_and_si256(v_half_load(p + 16), high)));
}
VEC_FN __m256i v_half_round_bf16(__m256 x) {
    __m256i u = _mm256_castps_si256(x), h = _mm256_srli_epi32(u, 16);
    __m256i size = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    __m256i odd = _mm256_and_si256(h, _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    r = _mm256_srli_epi32(r, 16);
    __m256i zero = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), size);
    r = _mm256_blendv_epi8(r, _mm256_and_si256(h, _mm256_set1_epi32(0x8000)), zero);
    __m256i nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(r, _mm256_or_si256(h, _mm256_set1_epi32(0x40)), nan);
}
VEC_FN void v_store_bf16(uint16_t *p, v16 x) {
    __m256i r = _mm256_packus_epi32(v_half_round_bf16(x.a), v_half_round_bf16(x.b));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(r, 0xd8));
}
VEC_FN v16 v_load_f16(const uint16_t *p) {
    return PAIR(v16, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8))));
}
VEC_FN v16 v_add(v16 x, v16 y) {
    return PAIR(v16, _mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
VEC_FN v16 v_sub(v16 x, v16 y) {
    return PAIR(v16, _mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}
VEC_FN v16 v_mul(v16 x, v16 y) {
    return PAIR(v16, _mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
VEC_FN v16 v_div(v16 x, v16 y) {
    return PAIR(v16, _mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
VEC_FN v16 v_fma(v16 x, v16 y, v16 z) {
    return PAIR(v16, _mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
VEC_FN v16 v_fnma(v16 x, v16 y, v16 z) {
    return PAIR(v16, _mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}
VEC_FN v16 v_max(v16 x, v16 y) {
    return PAIR(v16, _mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}
VEC_FN v16 v_min(v16 x, v16 y) {
    return PAIR(v16, _mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}
VEC_FN v16 v_neg(v16 x) {
    __m256 s = _mm256_set1_ps(-0.0f);
    return PAIR(v16, _mm256_xor_ps(x.a, s), _mm256_xor_ps(x.b, s));
}
VEC_FN m16 v_lt(v16 x, v16 y) {
    return PAIR(m16, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ));
}
VEC_FN __m256 v_half_finite(__m256 x) {
    __m256i u = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), u));
}
VEC_FN m16 v_is_finite(v16 x) {
    return PAIR(m16, v_half_finite(x.a), v_half_finite(x.b));
}
VEC_FN m16 v_is_nan(v16 x) {
    return PAIR(m16, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q));
}
VEC_FN m16 m_or(m16 x, m16 y) {
    return PAIR(m16, _mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b));
}
VEC_FN m16 m_bits(uint32_t bits) {
    const __m256i b0 = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i b1 = _mm256_slli_epi32(b0, 8);
    __m256i v = _mm256_set1_epi32((int)bits);
    return PAIR(m16, _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(v, b0), b0)),
                _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(v, b1), b1)));
}
VEC_FN uint32_t m_to_bits(m16 m) {
    return (uint32_t)_mm256_movemask_ps(m.a) | (uint32_t)_mm256_movemask_ps(m.b) << 8;
}
VEC_FN v16 v_select(m16 m, v16 x, v16 y) {
    return PAIR(v16, _mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b));
}
VEC_FN __m256 v_half_scale(__m256 p, __m256 t) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
VEC_FN v16 v_scale_exp(v16 p, v16 t) {
    return PAIR(v16, v_half_scale(p.a, t.a), v_half_scale(p.b, t.b));
}
VEC_FN float v_sum(v16 x) {
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VEC_FN float v_hmax(v16 x) {
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
VEC_FN float v_first(v16 x) {
    return _mm256_cvtss_f32(x.a);
}
/* Four lanes of v_fixed: the significand shifted by the exponent; a count of 64 or more gives 0. */
VEC_FN __m256i v_quarter_fixed(__m128i u) {
    __m256i w = _mm256_cvtepu32_epi64(u);
    __m256i e = _mm256_srli_epi64(w, 23);
    __m256i m = _mm256_or_si256(_mm256_and_si256(w, _mm256_set1_epi64x(0x7fffff)),
                                _mm256_set1_epi64x(0x800000));
    __m256i up = _mm256_sub_epi64(e, _mm256_set1_epi64x(110));
    __m256i down = _mm256_sub_epi64(_mm256_set1_epi64x(110), e);
    return _mm256_or_si256(_mm256_sllv_epi64(m, up), _mm256_srlv_epi64(m, down));
}
VEC_FN uint64_t v_fixed(uint64_t *out, v16 x) {
    __m256i a = _mm256_castps_si256(x.a), b = _mm256_castps_si256(x.b);
    __m256i q[4] = {v_quarter_fixed(_mm256_castsi256_si128(a)),
                    v_quarter_fixed(_mm256_extracti128_si256(a, 1)),
                    v_quarter_fixed(_mm256_castsi256_si128(b)),
                    v_quarter_fixed(_mm256_extracti128_si256(b, 1))};
    __m256i s = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((__m256i *)(void *)(out + 4 * i), q[i]);
        s = _mm256_add_epi64(s, q[i]);
    }
    uint64_t t[4];
    _mm256_storeu_si256((__m256i *)(void *)t, s);
    return t[0] + t[1] + t[2] + t[3];
}

#endif
