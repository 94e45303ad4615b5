/* SPDX-License-Identifier: Apache-2.0
 * The formats of 256 elements. Q4_K and Q5_K: f16 d, f16 dmin, eight pairs of 6-bit scale and
 * minimum in 12 bytes, then bits. Q6_K: 4 low bits, 2 high bits, 16 signed scales, f16 d.
 */
#include "kernels/quant/quant.h"

/* Pair j of the packed scales: four pairs lie in the low six bits of bytes 0-3 and 4-7, the other
 * four in the nibbles of bytes 8-11 with their top bits above the first ones. */
static void pair(const uint8_t *s, int j, float *scale, float *min) {
    unsigned a = j < 4 ? s[j] & 63u : (s[j + 4] & 15u) | (s[j - 4] >> 6 << 4);
    unsigned b = j < 4 ? s[j + 4] & 63u : (unsigned)(s[j + 4] >> 4) | (s[j] >> 6 << 4);
    *scale = (float)a;
    *min = (float)b;
}

void krn_unpack_q4_k(const uint8_t *block, float *out) {
    float d = krn_quant_f16(block), dmin = krn_quant_f16(block + 2);
    const uint8_t *q = block + 16;
    for (int j = 0; j < 8; j++, out += 32) { /* two runs of 32 share 32 bytes: low, then high */
        float scale, min;
        pair(block + 4, j, &scale, &min);
        float step = d * scale, under = dmin * min;
        for (int i = 0; i < 32; i++)
            out[i] = step * (float)(q[i] >> 4 * (j % 2) & 15) - under;
        q += 32 * (j % 2);
    }
}

void krn_unpack_q5_k(const uint8_t *block, float *out) {
    float d = krn_quant_f16(block), dmin = krn_quant_f16(block + 2);
    const uint8_t *high = block + 16, *q = block + 48;
    for (int j = 0; j < 8; j++, out += 32) { /* fifth bit of run j is bit j of byte i */
        float scale, min;
        pair(block + 4, j, &scale, &min);
        float step = d * scale, under = dmin * min;
        for (int i = 0; i < 32; i++) {
            int value = (q[i] >> 4 * (j % 2) & 15) | (high[i] >> j & 1) << 4;
            out[i] = step * (float)value - under;
        }
        q += 32 * (j % 2);
    }
}

void krn_unpack_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 128;
    const uint8_t *scales = block + 192;
    float d = krn_quant_f16(block + 208);
    for (int part = 0; part < 2; part++, low += 64, high += 32, scales += 8) {
        for (int run = 0; run < 4; run++, out += 32) {
            const uint8_t *q = low + 32 * (run % 2);
            for (int i = 0; i < 32; i++) {
                int value = (q[i] >> 4 * (run / 2) & 15) | (high[i] >> 2 * run & 3) << 4;
                float step = d * (float)(int8_t)scales[2 * run + i / 16];
                out[i] = step * (float)(value - 32);
            }
        }
    }
}
