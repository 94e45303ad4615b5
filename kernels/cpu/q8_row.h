/* SPDX-License-Identifier: Apache-2.0
 * A row as profile `q8` reads it (numerics.md 14.1): codes of all inputs, then for each 32 of them
 * scale, edge (scale times the codes' sum), the sum, and the sum of the first half.
 */
#ifndef KERNELS_CPU_Q8_ROW_H
#define KERNELS_CPU_Q8_ROW_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/quant/cell.h"

#define Q8_LEAST 0x1p-100f /* a block whose greatest magnitude is below has scale +0 and codes 0 */

struct q8_row {
    const int8_t *code;
    const float *scale, *edge;
    const int32_t *sum, *half;
};

static inline size_t q8_codes_bytes(uint32_t k) {
    return ((size_t)k + 63) / 64 * 64;
}

static inline struct q8_row q8_row_of(uint32_t k, const void *row) {
    const unsigned char *tail = (const unsigned char *)row + q8_codes_bytes(k);
    uint32_t n = k / KRN_CELL;
    const float *scale = (const float *)(const void *)tail;
    const int32_t *sum = (const int32_t *)(const void *)(scale + 2 * (size_t)n);
    return (struct q8_row){
        .code = row, .scale = scale, .edge = scale + n, .sum = sum, .half = sum + n};
}

/* Of a row of k inputs. */
static inline size_t q8_row_bytes(uint32_t k) {
    /* an odd number of cache lines: rows spread over the sets of the first cache */
    return (q8_codes_bytes(k) + (size_t)k / KRN_CELL * 16 + 63) / 64 / 2 * 128 + 64;
}

/* Scale and its inverse of a block by the bits of its greatest magnitude. */
static inline void q8_scale(uint32_t bits, float *scale, float *inverse) {
    float most = krn_float(bits);
    *scale = most / 127.0f;
    *inverse = 127.0f / most;
    if (bits >= 0x7f800000u) {
        *scale = krn_float(0x7fc00000u);
        *inverse = 0.0f;
    } else if (most < Q8_LEAST) {
        *scale = 0.0f;
        *inverse = 0.0f;
    }
}

#endif
