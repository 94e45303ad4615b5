/* SPDX-License-Identifier: Apache-2.0
 * Q4_0: f16 d, 16 bytes. Q4_1: f16 d, f16 m, 16 bytes. Byte j holds element j low, 16 + j high.
 */
#include "kernels/quant/quant.h"

void krn_unpack_q4_0(const uint8_t *block, float *out) {
    const uint8_t *q = block + 2;
    float d = krn_quant_f16(block);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)((q[j] & 15) - 8);
        out[16 + j] = d * (float)((q[j] >> 4) - 8);
    }
}

void krn_unpack_q4_1(const uint8_t *block, float *out) {
    const uint8_t *q = block + 4;
    float d = krn_quant_f16(block), m = krn_quant_f16(block + 2);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)(q[j] & 15) + m;
        out[16 + j] = d * (float)(q[j] >> 4) + m;
    }
}
