/* SPDX-License-Identifier: Apache-2.0
 * q8_dot_plain.h in NEON as every aarch64 has it, without dot products of bytes. Codes are made
 * signed; products of two groups are added in 16 bits, which hold them: 2 * 128 * 127.
 */
#ifndef KERNELS_CPU_Q8_DOT_NEON_H
#define KERNELS_CPU_Q8_DOT_NEON_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/q8_row.h"

struct q8_codes {
    uint8_t b[KRN_CELL_CODES] __attribute__((aligned(16))); /* [8][16][4], signed bytes */
};

VEC_FN struct q8_codes q8_read(const struct krn_cell c, const uint8_t *cell) {
    struct q8_codes codes;
    cell_codes(c, cell, codes.b);
    for (int i = 0; c.offset == 128 && i < KRN_CELL_CODES; i += 16)
        vst1q_u8(codes.b + i, veorq_u8(vld1q_u8(codes.b + i), vdupq_n_u8(0x80)));
    return codes;
}

VEC_FN int8x16_t q8_four(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* Four outputs over the groups at code and 64 bytes behind it. */
VEC_FN void q8_pairs(const uint8_t *code, int8x16_t x0, int8x16_t x1, int32x4_t sum[2]) {
    int8x16_t w0 = vreinterpretq_s8_u8(vld1q_u8(code));
    int8x16_t w1 = vreinterpretq_s8_u8(vld1q_u8(code + 64));
    int16x8_t lo = vmull_s8(vget_low_s8(w0), vget_low_s8(x0)), hi = vmull_high_s8(w0, x0);
    lo = vmlal_s8(lo, vget_low_s8(w1), vget_low_s8(x1));
    hi = vmlal_high_s8(hi, w1, x1);
    sum[0] = vpadalq_s16(sum[0], lo);
    sum[1] = vpadalq_s16(sum[1], hi);
}

VEC_FN float32x4_t q8_quarter(const int32x4_t sum[2], int32x4_t start) {
    return vcvtq_f32_s32(vaddq_s32(vpaddq_s32(sum[0], sum[1]), start));
}

VEC_FN v16 q8_dot(const struct krn_cell c, const struct q8_codes *codes, const int8_t *x,
                  const int g0, const int g1, int32_t sum) {
    int32x4_t s[4][2];
    UNROLL for (int i = 0; i < 4; i++) s[i][0] = s[i][1] = vdupq_n_s32(0);
    for (int g = g0; g < g1; g += 2) { /* groups come in fours */
        int8x16_t x0 = q8_four(x + 4 * g), x1 = q8_four(x + 4 * g + 4);
        UNROLL for (int i = 0; i < 4; i++) q8_pairs(codes->b + 64 * g + 16 * i, x0, x1, s[i]);
    }
    int32x4_t start = vdupq_n_s32(c.offset == 128 ? 0 : -c.offset * sum);
    return (v16){q8_quarter(s[0], start), q8_quarter(s[1], start), q8_quarter(s[2], start),
                 q8_quarter(s[3], start)};
}

#endif
