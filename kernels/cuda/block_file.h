/* SPDX-License-Identifier: Apache-2.0
 * One element or scale of a block as its file has it (numerics.md 12), for packing into units.
 */
#ifndef KERNELS_CUDA_BLOCK_FILE_H
#define KERNELS_CUDA_BLOCK_FILE_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/profile.h"

/* Elements and bytes of a block of the file. */
KRN_BF16_FN uint32_t krn_unit_block(uint32_t type) {
    return type == KRN_Q4_K || type == KRN_Q5_K || type == KRN_Q6_K ? 256 : 32;
}

KRN_BF16_FN uint32_t krn_unit_block_bytes(uint32_t type) {
    switch (type) {
    case KRN_Q8_0:
        return 34;
    case KRN_Q4_1:
        return 20;
    case KRN_Q5_0:
        return 22;
    case KRN_Q5_1:
        return 24;
    case KRN_Q4_K:
        return 144;
    case KRN_Q5_K:
        return 176;
    case KRN_Q6_K:
        return 210;
    default: /* Q4_0, IQ4_NL */
        return 18;
    }
}

/* The code of element i of a block: what a unit's codes and planes say of it. */
KRN_BF16_FN uint32_t krn_unit_code_of(uint32_t type, const unsigned char *b, uint32_t i) {
    uint32_t r = i / 32, j = i % 32, bytes = krn_unit_block_bytes(type), code;
    if (type == KRN_Q8_0)
        return b[2 + i] ^ 0x80u;
    if (type == KRN_Q4_K || type == KRN_Q5_K) {
        code = b[bytes - 128 + r / 2 * 32 + j] >> 4 * (r % 2) & 15u;
        return type == KRN_Q5_K ? code | (b[16 + j] >> r & 1u) << 4 : code;
    }
    if (type == KRN_Q6_K) {
        uint32_t h = r / 4, run = r % 4;
        return (b[64 * h + 32 * (run % 2) + j] >> 4 * (run / 2) & 15u) |
               (b[128 + 32 * h + j] >> 2 * run & 3u) << 4;
    }
    code = b[bytes - 16 + i % 16] >> i / 16 * 4 & 15u;
    if (type == KRN_Q5_0 || type == KRN_Q5_1)
        code |= (b[bytes - 20 + i / 8] >> i % 8 & 1u) << 4;
    return code;
}

/* Scale (0) or minimum (1) of run r of Q4_K and Q5_K: six bits (numerics.md 12). */
KRN_BF16_FN uint32_t krn_unit_six(const unsigned char *s, uint32_t r, uint32_t minimum) {
    if (r < 4)
        return s[r + 4 * minimum] & 63u;
    return (s[r + 4] >> 4 * minimum & 15u) | (uint32_t)(s[r - 4 + 4 * minimum] >> 6) << 4;
}

#endif
