/* SPDX-License-Identifier: Apache-2.0
 * cells_plain.h in AVX2.
 */
#ifndef KERNELS_CPU_CELLS_AVX2_H
#define KERNELS_CPU_CELLS_AVX2_H

#include "kernels/cpu/vec.h"
#include "kernels/quant/cell.h"

/* Of 32 elements: a byte 1 << (4 + p) where the bit is set. */
VEC_FN __m256i cell_plane(const uint8_t *at, const int p) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                            2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    uint32_t word;
    memcpy(&word, at, sizeof word);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), spread);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)(16 << p)));
}

VEC_FN void cell_codes(const struct krn_cell c, const uint8_t *cell, uint8_t *out) {
    if (c.wide) {
        memcpy(out, cell, KRN_CELL_CODES);
        return;
    }
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i steps =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)krn_cell_steps));
    const uint8_t *plane = cell + KRN_CELL_CODES / 2;
    for (int i = 0; i < 8; i++) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(cell + 32 * i));
        __m256i q[2] = {_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi16(v, 4), mask)};
        for (int h = 0; h < 2; h++) {
            if (c.uneven)
                q[h] = _mm256_shuffle_epi8(steps, q[h]);
            for (uint32_t p = 0; p < c.planes; p++)
                q[h] = _mm256_or_si256(q[h], cell_plane(plane + 64 * p + 32 * h + 4 * i, (int)p));
            _mm256_storeu_si256((__m256i *)(void *)(out + 256 * h + 32 * i), q[h]);
        }
    }
}

VEC_FN __m256 cell_half_byte(const uint8_t *at, const int j) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)at);
    v = _mm256_and_si256(_mm256_srli_epi32(v, 8 * j), _mm256_set1_epi32(255));
    return _mm256_cvtepi32_ps(v);
}
VEC_FN v16 cell_byte(const uint8_t *group, const int j) {
    return PAIR(v16, cell_half_byte(group, j), cell_half_byte(group + 32, j));
}

VEC_FN __m128i cell_eight(const uint8_t *at) {
    return _mm_loadl_epi64((const __m128i *)(const void *)at);
}
VEC_FN v16 cell_u8(const uint8_t *at) {
    return PAIR(v16, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(cell_eight(at))),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(cell_eight(at + 8))));
}
VEC_FN v16 cell_s8(const uint8_t *at) {
    return PAIR(v16, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(cell_eight(at))),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(cell_eight(at + 8))));
}

#endif
