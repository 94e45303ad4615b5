/* SPDX-License-Identifier: Apache-2.0
 * Cells of blocked weights (kernels/quant/cell.h) in plain C: what the vector forms must equal.
 */
#ifndef KERNELS_CPU_CELLS_PLAIN_H
#define KERNELS_CPU_CELLS_PLAIN_H

#include "kernels/cpu/vec.h"
#include "kernels/quant/cell.h"

/* The codes of a cell as bytes, [8][16][4]. */
VEC_FN void cell_codes(const struct krn_cell c, const uint8_t *cell, uint8_t *out) {
    if (c.wide) {
        memcpy(out, cell, KRN_CELL_CODES);
        return;
    }
    for (uint32_t i = 0; i < KRN_CELL_CODES / 2; i++) {
        uint32_t low = cell[i] & 15, high = cell[i] >> 4;
        out[i] = c.uneven ? krn_cell_steps[low] : (uint8_t)low;
        out[KRN_CELL_CODES / 2 + i] = c.uneven ? krn_cell_steps[high] : (uint8_t)high;
    }
    for (uint32_t p = 0; p < c.planes; p++) {
        const uint8_t *plane = cell + KRN_CELL_CODES / 2 + p * (KRN_CELL_CODES / 8);
        for (uint32_t i = 0; i < KRN_CELL_CODES; i++)
            out[i] |= (uint8_t)((plane[i / 8] >> i % 8 & 1) << (4 + p));
    }
}

/* Byte j of each output's four, as it is. */
VEC_FN v16 cell_byte(const uint8_t *group, const int j) {
    float f[16];
    for (int n = 0; n < 16; n++)
        f[n] = (float)group[4 * n + j];
    return v_load(f);
}

/* Sixteen bytes, unsigned and signed. */
VEC_FN v16 cell_u8(const uint8_t *at) {
    float f[16];
    for (int n = 0; n < 16; n++)
        f[n] = (float)at[n];
    return v_load(f);
}
VEC_FN v16 cell_s8(const uint8_t *at) {
    float f[16];
    for (int n = 0; n < 16; n++)
        f[n] = (float)(int8_t)at[n];
    return v_load(f);
}

#endif
