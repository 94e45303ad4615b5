/* SPDX-License-Identifier: Apache-2.0
 * Q5_0: f16 d, 32 fifth bits, 16 bytes. Q5_1: f16 d, f16 m, 32 fifth bits, 16 bytes. Byte j holds
 * element j low, 16 + j high; fifth bit i belongs to element i.
 */
#include "kernels/quant/quant.h"

static uint32_t fifth_bits(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int low(const uint8_t *q, uint32_t high, int j) {
    return (int)(q[j] & 15u) | (int)(high >> j & 1u) << 4;
}

static int upper(const uint8_t *q, uint32_t high, int j) {
    return q[j] >> 4 | (int)(high >> (16 + j) & 1u) << 4;
}

void krn_unpack_q5_0(const uint8_t *block, float *out) {
    uint32_t high = fifth_bits(block + 2);
    const uint8_t *q = block + 6;
    float d = krn_quant_f16(block);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)(low(q, high, j) - 16);
        out[16 + j] = d * (float)(upper(q, high, j) - 16);
    }
}

void krn_unpack_q5_1(const uint8_t *block, float *out) {
    uint32_t high = fifth_bits(block + 4);
    const uint8_t *q = block + 8;
    float d = krn_quant_f16(block), m = krn_quant_f16(block + 2);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)low(q, high, j) + m;
        out[16 + j] = d * (float)upper(q, high, j) + m;
    }
}
