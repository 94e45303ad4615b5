/* SPDX-License-Identifier: Apache-2.0
 * Q8_0: f16 d, 32 signed bytes.
 */
#include "kernels/quant/quant.h"

void krn_unpack_q8_0(const uint8_t *block, float *out) {
    float d = krn_quant_f16(block);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)block[2 + i];
}
