/* SPDX-License-Identifier: Apache-2.0
 * The sixteen lanes of vec_scalar.h in four NEON registers (aarch64, where every processor has
 * them with fused multiply-add).
 */
#ifndef KERNELS_CPU_VEC_NEON_H
#define KERNELS_CPU_VEC_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/approx.h"

#define VEC_ISA         "neon"
#define VEC_TABLE       krn_rowfn_neon
#define VEC_PANEL_R     6
#define VEC_PANEL_B     1
#define VEC_ROWS        6
#define VEC_DIRECT_ROWS 24 /* up to here two-byte weights are not worth widening first */
/* enough chains to hide the latency of a fused multiply-add, as far as 32 registers go */
#define VEC_BLOCKS(R)      ((R) == 1 ? 4 : (R) == 2 ? 2 : 1)
#define VEC_PANEL_TILES(M) M(1, 1) M(2, 1) M(3, 1) M(4, 1) M(5, 1) M(6, 1)
#define VEC_DIRECT_TILES(M, D)                                                                     \
    M(D, 1, 1)                                                                                     \
    M(D, 2, 1) M(D, 3, 1) M(D, 4, 1) M(D, 5, 1) M(D, 6, 1) M(D, 1, 2) M(D, 2, 2) M(D, 1, 4)

#define VEC_FN static inline __attribute__((always_inline, unused))

typedef struct {
    float32x4_t a, b, c, d; /* lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15 */
} v16;
typedef struct {
    uint32x4_t a, b, c, d; /* all ones where true */
} m16;

/* The same of each quarter. */
#define QUARTERS_1(type, f, x) ((type){f((x).a), f((x).b), f((x).c), f((x).d)})
#define QUARTERS_2(type, f, x, y)                                                                  \
    ((type){f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)})
#define QUARTERS_3(type, f, x, y, z)                                                               \
    ((type){f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),                \
            f((x).d, (y).d, (z).d)})

VEC_FN v16 v_set1(float x) {
    float32x4_t v = vdupq_n_f32(x);
    return (v16){v, v, v, v};
}
VEC_FN v16 v_zero(void) {
    return v_set1(0.0f);
}
VEC_FN v16 v_load(const float *p) {
    return (v16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
VEC_FN void v_store(float *p, v16 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
VEC_FN v16 v_load_n(const float *p, uint32_t n) {
    float part[16] = {0};
    memcpy(part, p, n * sizeof(float));
    return v_load(part);
}
VEC_FN void v_store_n(float *p, v16 x, uint32_t n) {
    float part[16];
    v_store(part, x);
    memcpy(p, part, n * sizeof(float));
}
VEC_FN v16 v_load_bf16(const uint16_t *p) {
    uint16x8_t lo = vld1q_u16(p), hi = vld1q_u16(p + 8);
    return (v16){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(lo), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(lo, 16)),
                 vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(hi), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(hi, 16))};
}
/* The even and the odd elements of 32. */
VEC_FN float32x4_t v_quarter_even(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(vld1q_u16(p)), 16));
}
VEC_FN float32x4_t v_quarter_odd(const uint16_t *p) {
    uint32x4_t w = vreinterpretq_u32_u16(vld1q_u16(p));
    return vreinterpretq_f32_u32(vandq_u32(w, vdupq_n_u32(0xffff0000u)));
}
VEC_FN v16 v_load_even(const uint16_t *p) {
    return (v16){v_quarter_even(p), v_quarter_even(p + 8), v_quarter_even(p + 16),
                 v_quarter_even(p + 24)};
}
VEC_FN v16 v_load_odd(const uint16_t *p) {
    return (v16){v_quarter_odd(p), v_quarter_odd(p + 8), v_quarter_odd(p + 16),
                 v_quarter_odd(p + 24)};
}
/* Rounded to bf16 (numerics.md 15.1). */
VEC_FN void v_quarter_store_bf16(uint16_t *p, float32x4_t x) {
    uint32x4_t u = vreinterpretq_u32_f32(x), h = vshrq_n_u32(u, 16);
    uint32x4_t size = vandq_u32(u, vdupq_n_u32(0x7fffffffu));
    uint32x4_t up = vaddq_u32(vandq_u32(h, vdupq_n_u32(1)), vdupq_n_u32(0x7fffu));
    uint32x4_t r = vshrq_n_u32(vaddq_u32(u, up), 16);
    r = vbslq_u32(vcltq_u32(size, vdupq_n_u32(0x00800000u)), vandq_u32(h, vdupq_n_u32(0x8000u)), r);
    r = vbslq_u32(vcgtq_u32(size, vdupq_n_u32(0x7f800000u)), vorrq_u32(h, vdupq_n_u32(0x40u)), r);
    vst1_u16(p, vmovn_u32(r));
}
VEC_FN void v_store_bf16(uint16_t *p, v16 x) {
    v_quarter_store_bf16(p, x.a);
    v_quarter_store_bf16(p + 4, x.b);
    v_quarter_store_bf16(p + 8, x.c);
    v_quarter_store_bf16(p + 12, x.d);
}
VEC_FN v16 v_load_f16(const uint16_t *p) {
    float16x8_t lo = vreinterpretq_f16_u16(vld1q_u16(p));
    float16x8_t hi = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return (v16){vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo),
                 vcvt_f32_f16(vget_low_f16(hi)), vcvt_high_f32_f16(hi)};
}
VEC_FN v16 v_add(v16 x, v16 y) {
    return QUARTERS_2(v16, vaddq_f32, x, y);
}
VEC_FN v16 v_sub(v16 x, v16 y) {
    return QUARTERS_2(v16, vsubq_f32, x, y);
}
VEC_FN v16 v_mul(v16 x, v16 y) {
    return QUARTERS_2(v16, vmulq_f32, x, y);
}
VEC_FN v16 v_div(v16 x, v16 y) {
    return QUARTERS_2(v16, vdivq_f32, x, y);
}
/* The instruction's order: addend first. */
VEC_FN v16 v_fma(v16 x, v16 y, v16 z) {
    return QUARTERS_3(v16, vfmaq_f32, z, x, y);
}
VEC_FN v16 v_fnma(v16 x, v16 y, v16 z) {
    return QUARTERS_3(v16, vfmsq_f32, z, x, y);
}
/* Not vmaxq and vminq, which differ on NaN and on zeros of both signs. */
VEC_FN float32x4_t v_quarter_max(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
VEC_FN float32x4_t v_quarter_min(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
VEC_FN v16 v_max(v16 x, v16 y) {
    return QUARTERS_2(v16, v_quarter_max, x, y);
}
VEC_FN v16 v_min(v16 x, v16 y) {
    return QUARTERS_2(v16, v_quarter_min, x, y);
}
VEC_FN v16 v_neg(v16 x) {
    return QUARTERS_1(v16, vnegq_f32, x);
}
VEC_FN m16 v_lt(v16 x, v16 y) {
    return QUARTERS_2(m16, vcltq_f32, x, y);
}
VEC_FN uint32x4_t v_quarter_finite(float32x4_t x) {
    uint32x4_t u = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7fffffffu));
    return vcltq_u32(u, vdupq_n_u32(0x7f800000u));
}
VEC_FN m16 v_is_finite(v16 x) {
    return QUARTERS_1(m16, v_quarter_finite, x);
}
VEC_FN uint32x4_t v_quarter_nan(float32x4_t x) {
    return vmvnq_u32(vceqq_f32(x, x));
}
VEC_FN m16 v_is_nan(v16 x) {
    return QUARTERS_1(m16, v_quarter_nan, x);
}
VEC_FN m16 m_or(m16 x, m16 y) {
    return QUARTERS_2(m16, vorrq_u32, x, y);
}
VEC_FN m16 m_bits(uint32_t bits) {
    static const uint32_t bit[16] = {1u,       1u << 1,  1u << 2,  1u << 3, 1u << 4,  1u << 5,
                                     1u << 6,  1u << 7,  1u << 8,  1u << 9, 1u << 10, 1u << 11,
                                     1u << 12, 1u << 13, 1u << 14, 1u << 15};
    uint32x4_t v = vdupq_n_u32(bits);
    return (m16){vtstq_u32(v, vld1q_u32(bit)), vtstq_u32(v, vld1q_u32(bit + 4)),
                 vtstq_u32(v, vld1q_u32(bit + 8)), vtstq_u32(v, vld1q_u32(bit + 12))};
}
/* Lanes [lo, hi) */
VEC_FN m16 m_range(uint32_t lo, uint32_t hi) {
    return m_bits((0xffffu >> (16 - hi)) & (0xffffu << lo));
}
VEC_FN uint32_t m_to_bits(m16 m) {
    const uint16x8_t weight = {1, 2, 4, 8, 16, 32, 64, 128};
    uint16x8_t lo = vcombine_u16(vmovn_u32(m.a), vmovn_u32(m.b));
    uint16x8_t hi = vcombine_u16(vmovn_u32(m.c), vmovn_u32(m.d));
    return (uint32_t)vaddvq_u16(vandq_u16(lo, weight)) | (uint32_t)vaddvq_u16(vandq_u16(hi, weight))
                                                             << 8;
}
VEC_FN v16 v_select(m16 m, v16 x, v16 y) {
    return QUARTERS_3(v16, vbslq_f32, m, x, y);
}
VEC_FN float32x4_t v_quarter_scale(float32x4_t p, float32x4_t t) {
    return vreinterpretq_f32_u32(
        vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
}
VEC_FN v16 v_scale_exp(v16 p, v16 t) {
    return QUARTERS_2(v16, v_quarter_scale, p, t);
}
VEC_FN float v_sum(v16 x) {
    float32x4_t q = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
VEC_FN float v_hmax(v16 x) {
    float32x4_t q = v_quarter_max(v_quarter_max(x.a, x.c), v_quarter_max(x.b, x.d));
    float32x2_t lo = vget_low_f32(q), hi = vget_high_f32(q);
    float32x2_t h = vbsl_f32(vcgt_f32(lo, hi), lo, hi);
    float f = vget_lane_f32(h, 0), g = vget_lane_f32(h, 1);
    return f > g ? f : g;
}
VEC_FN float v_first(v16 x) {
    return vgetq_lane_f32(x.a, 0);
}
/* Four lanes of v_fixed; the power of two and the wider type round nothing. */
VEC_FN uint64x2_t v_quarter_fixed(uint64_t *out, float32x4_t x) {
    float32x4_t s = vmulq_n_f32(x, 0x1p40f);
    uint64x2_t lo = vcvtq_u64_f64(vcvt_f64_f32(vget_low_f32(s)));
    uint64x2_t hi = vcvtq_u64_f64(vcvt_high_f64_f32(s));
    vst1q_u64(out, lo);
    vst1q_u64(out + 2, hi);
    return vaddq_u64(lo, hi);
}
VEC_FN uint64_t v_fixed(uint64_t *out, v16 x) {
    uint64x2_t lo = vaddq_u64(v_quarter_fixed(out, x.a), v_quarter_fixed(out + 4, x.b));
    uint64x2_t hi = vaddq_u64(v_quarter_fixed(out + 8, x.c), v_quarter_fixed(out + 12, x.d));
    return vaddvq_u64(vaddq_u64(lo, hi));
}

#endif
