/* SPDX-License-Identifier: Apache-2.0
 * A row rounded for profile `q8` (numerics.md 14.1) in plain C.
 */
#ifndef KERNELS_CPU_Q8_ROUND_H
#define KERNELS_CPU_Q8_ROUND_H

#include "kernels/cpu/q8_row.h"

/* Nearest integer, ties to even, of a value far below 2^22. */
static inline int32_t q8_nearest(float x) {
    const float big = 0x1.8p+23f;
    return (int32_t)(krn_bits(x + big) - krn_bits(big));
}

static void q8_round(const float *x, uint32_t k, void *out) {
    CHECK(k % KRN_CELL == 0);
    struct q8_row row = q8_row_of(k, out);
    int8_t *code = out;
    float *scale = (float *)(uintptr_t)row.scale, *edge = (float *)(uintptr_t)row.edge;
    int32_t *sum = (int32_t *)(uintptr_t)row.sum, *half = (int32_t *)(uintptr_t)row.half;
    for (uint32_t b = 0; b < k / KRN_CELL; b++, x += KRN_CELL, code += KRN_CELL) {
        uint32_t most = 0;
        int32_t s[2] = {0, 0};
        for (int i = 0; i < KRN_CELL; i++) {
            uint32_t bits = krn_bits(x[i]) & 0x7fffffffu;
            most = bits > most ? bits : most;
        }
        float inverse;
        q8_scale(most, &scale[b], &inverse);
        for (int i = 0; i < KRN_CELL; i++) {
            int32_t q = most < 0x7f800000u ? q8_nearest(x[i] * inverse) : 0;
            code[i] = (int8_t)q;
            s[i / 16] += q;
        }
        sum[b] = s[0] + s[1];
        half[b] = s[0];
        edge[b] = scale[b] * (float)sum[b];
    }
}

#endif
