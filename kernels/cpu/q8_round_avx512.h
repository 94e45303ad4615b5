/* SPDX-License-Identifier: Apache-2.0
 * q8_round.h in AVX-512.
 */
#ifndef KERNELS_CPU_Q8_ROUND_AVX512_H
#define KERNELS_CPU_Q8_ROUND_AVX512_H

#include <immintrin.h>

#include "kernels/cpu/q8_row.h"

static void q8_round(const float *x, uint32_t k, void *out) {
    CHECK(k % KRN_CELL == 0);
    const __m512i sign = _mm512_set1_epi32(0x7fffffff);
    struct q8_row row = q8_row_of(k, out);
    int8_t *code = out;
    float *scale = (float *)(uintptr_t)row.scale, *edge = (float *)(uintptr_t)row.edge;
    int32_t *sum = (int32_t *)(uintptr_t)row.sum, *half = (int32_t *)(uintptr_t)row.half;
    for (uint32_t b = 0; b < k / KRN_CELL; b++, x += KRN_CELL, code += KRN_CELL) {
        __m512 v0 = _mm512_loadu_ps(x), v1 = _mm512_loadu_ps(x + 16);
        __m512i m0 = _mm512_and_si512(_mm512_castps_si512(v0), sign);
        __m512i m1 = _mm512_and_si512(_mm512_castps_si512(v1), sign);
        uint32_t most = (uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
        float inverse;
        q8_scale(most, &scale[b], &inverse);
        /* zeros where a value is not finite, whatever times 0 would give */
        __mmask16 fine = most < 0x7f800000u ? 0xffff : 0;
        __m512 by = _mm512_set1_ps(inverse);
        __m512i q0 = _mm512_maskz_cvtps_epi32(fine, _mm512_mul_ps(v0, by));
        __m512i q1 = _mm512_maskz_cvtps_epi32(fine, _mm512_mul_ps(v1, by));
        _mm_storeu_si128((__m128i *)(void *)code, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((__m128i *)(void *)(code + 16), _mm512_cvtepi32_epi8(q1));
        half[b] = _mm512_reduce_add_epi32(q0);
        sum[b] = half[b] + _mm512_reduce_add_epi32(q1);
        edge[b] = scale[b] * (float)sum[b];
    }
}

#endif
