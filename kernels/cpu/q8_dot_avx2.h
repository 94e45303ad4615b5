/* SPDX-License-Identifier: Apache-2.0
 * q8_dot_plain.h in AVX2. Pairs of byte products are added in 16 bits: codes below 64 cannot
 * overflow there; codes of eight bits are made signed and their sign moved to the other factor.
 */
#ifndef KERNELS_CPU_Q8_DOT_AVX2_H
#define KERNELS_CPU_Q8_DOT_AVX2_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/q8_row.h"

struct q8_codes {
    uint8_t b[KRN_CELL_CODES] __attribute__((aligned(32))); /* [8][16][4] */
};

VEC_FN struct q8_codes q8_read(const struct krn_cell c, const uint8_t *cell) {
    struct q8_codes codes;
    cell_codes(c, cell, codes.b);
    return codes;
}

VEC_FN __m256i q8_pairs(const struct krn_cell c, const uint8_t *code, __m256i x) {
    __m256i w = _mm256_load_si256((const __m256i *)(const void *)code);
    if (c.offset == 128) {
        w = _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
        x = _mm256_sign_epi8(x, w);
        w = _mm256_abs_epi8(w);
    }
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
}

VEC_FN v16 q8_dot(const struct krn_cell c, const struct q8_codes *codes, const int8_t *x,
                  const int g0, const int g1, int32_t sum) {
    __m256i start = _mm256_set1_epi32(c.offset == 128 ? 0 : -c.offset * sum);
    __m256i a = start, b = start;
    for (int g = g0; g < g1; g++) {
        int32_t four;
        memcpy(&four, x + 4 * g, sizeof four);
        __m256i v = _mm256_set1_epi32(four);
        a = _mm256_add_epi32(a, q8_pairs(c, codes->b + 64 * g, v));
        b = _mm256_add_epi32(b, q8_pairs(c, codes->b + 64 * g + 32, v));
    }
    return PAIR(v16, _mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
}

#endif
