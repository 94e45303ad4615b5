/* SPDX-License-Identifier: Apache-2.0
 * cells_plain.h in NEON.
 */
#ifndef KERNELS_CPU_CELLS_NEON_H
#define KERNELS_CPU_CELLS_NEON_H

#include "kernels/cpu/vec.h"
#include "kernels/quant/cell.h"

/* Of 16 elements: a byte 1 << (4 + p) where the bit is set. */
VEC_FN uint8x16_t cell_plane(const uint8_t *at, const int p) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t v = vcombine_u8(vdup_n_u8(at[0]), vdup_n_u8(at[1]));
    return vandq_u8(vtstq_u8(v, bit), vdupq_n_u8((uint8_t)(16 << p)));
}

VEC_FN void cell_codes(const struct krn_cell c, const uint8_t *cell, uint8_t *out) {
    if (c.wide) {
        memcpy(out, cell, KRN_CELL_CODES);
        return;
    }
    const uint8x16_t mask = vdupq_n_u8(15), steps = vld1q_u8(krn_cell_steps);
    const uint8_t *plane = cell + KRN_CELL_CODES / 2;
    for (int i = 0; i < 16; i++) {
        uint8x16_t v = vld1q_u8(cell + 16 * i);
        uint8x16_t q[2] = {vandq_u8(v, mask), vshrq_n_u8(v, 4)};
        for (int h = 0; h < 2; h++) {
            if (c.uneven)
                q[h] = vqtbl1q_u8(steps, q[h]);
            for (uint32_t p = 0; p < c.planes; p++)
                q[h] = vorrq_u8(q[h], cell_plane(plane + 64 * p + 32 * h + 2 * i, (int)p));
            vst1q_u8(out + 256 * h + 16 * i, q[h]);
        }
    }
}

/* Byte j of four times four. */
VEC_FN float32x4_t cell_quarter_byte(const uint8_t *at, const int j) {
    uint32x4_t v = vreinterpretq_u32_u8(vld1q_u8(at));
    v = vandq_u32(vshlq_u32(v, vdupq_n_s32(-8 * j)), vdupq_n_u32(255));
    return vcvtq_f32_u32(v);
}
VEC_FN v16 cell_byte(const uint8_t *group, const int j) {
    return (v16){cell_quarter_byte(group, j), cell_quarter_byte(group + 16, j),
                 cell_quarter_byte(group + 32, j), cell_quarter_byte(group + 48, j)};
}

VEC_FN v16 cell_u8(const uint8_t *at) {
    uint8x16_t v = vld1q_u8(at);
    uint16x8_t lo = vmovl_u8(vget_low_u8(v)), hi = vmovl_high_u8(v);
    return (v16){vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_high_u16(lo)),
                 vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_high_u16(hi))};
}
VEC_FN v16 cell_s8(const uint8_t *at) {
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(at));
    int16x8_t lo = vmovl_s8(vget_low_s8(v)), hi = vmovl_high_s8(v);
    return (v16){vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_high_s16(lo)),
                 vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_high_s16(hi))};
}

#endif
