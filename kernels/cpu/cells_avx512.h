/* SPDX-License-Identifier: Apache-2.0
 * cells_plain.h in AVX-512 (F, BW).
 */
#ifndef KERNELS_CPU_CELLS_AVX512_H
#define KERNELS_CPU_CELLS_AVX512_H

#include "kernels/cpu/vec.h"
#include "kernels/quant/cell.h"

VEC_FN __m512i cell_load(const uint8_t *at) {
    return _mm512_loadu_si512((const void *)at);
}

/* Group g of 8: the codes of inputs 4g to 4g + 3 of all outputs. */
VEC_FN __m512i cell_group(const struct krn_cell c, const uint8_t *cell, const int g) {
    if (c.wide)
        return cell_load(cell + 64 * g);
    __m512i v = cell_load(cell + 64 * (g % 4));
    if (g >= 4)
        v = _mm512_srli_epi16(v, 4);
    v = _mm512_and_si512(v, _mm512_set1_epi8(15));
    if (c.uneven)
        v = _mm512_shuffle_epi8(
            _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)krn_cell_steps)),
            v);
    for (uint32_t p = 0; p < c.planes; p++) {
        __mmask64 bits;
        memcpy(&bits, cell + 256 + 64 * p + 8 * g, sizeof bits);
        v = _mm512_mask_add_epi8(v, bits, v, _mm512_set1_epi8((char)(16 << p)));
    }
    return v;
}

VEC_FN void cell_codes(const struct krn_cell c, const uint8_t *cell, uint8_t *out) {
    for (int g = 0; g < 8; g++)
        _mm512_storeu_si512((void *)(out + 64 * g), cell_group(c, cell, g));
}

VEC_FN v16 cell_byte(const uint8_t *group, const int j) {
    __m512i v = _mm512_srli_epi32(cell_load(group), (unsigned)(8 * j));
    return _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32(255)));
}
VEC_FN v16 cell_u8(const uint8_t *at) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at)));
}
VEC_FN v16 cell_s8(const uint8_t *at) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at)));
}

#endif
