/* SPDX-License-Identifier: Apache-2.0
 * IQ4_NL: f16 d, 16 bytes of indices into a fixed table of sixteen uneven steps. Byte j holds
 * element j low, 16 + j high.
 */
#include "kernels/quant/quant.h"

static const int8_t steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

void krn_unpack_iq4_nl(const uint8_t *block, float *out) {
    const uint8_t *q = block + 2;
    float d = krn_quant_f16(block);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)steps[q[j] & 15];
        out[16 + j] = d * (float)steps[q[j] >> 4];
    }
}
