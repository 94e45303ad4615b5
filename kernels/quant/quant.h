/* SPDX-License-Identifier: Apache-2.0
 * Stored weight formats: the size of a block and its exact values as fp32 (numerics.md 12). One
 * file a format family; the table here is the only place that lists them. Any thread may call.
 */
#ifndef KERNELS_QUANT_QUANT_H
#define KERNELS_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/approx.h"
#include "kernels/profile.h"

enum {
    KRN_QUANT_BLOCK_MAX = 256, /* elements; every format's block divides it */
    KRN_QUANT_BYTES_MAX = 210
};

struct krn_format {
    const char *word; /* as published: "Q4_0" */
    uint32_t block;   /* neighbouring elements of a row that are stored together */
    uint32_t bytes;   /* of one block */
    uint32_t align;   /* of the data in memory; blocks are read by bytes */
    void (*unpack)(const uint8_t *block, float *out); /* block floats */
};

const struct krn_format *krn_format_of(enum krn_dtype type);

/* Elements [first, first + n) of the blocks at data; both are multiples of the format's block. */
void krn_unpack(enum krn_dtype type, const void *data, uint64_t first, uint64_t n, float *out);

/* The words of the formats from first on, "F32, F16, ..."; cut to fit. */
void krn_format_words(enum krn_dtype first, char *out, size_t bytes);

/* A little-endian f16 of a block, widened exactly. */
static inline float krn_quant_f16(const uint8_t *at) {
    return krn_widen_f16((uint16_t)(at[0] | at[1] << 8));
}

void krn_unpack_q8_0(const uint8_t *block, float *out);
void krn_unpack_q4_0(const uint8_t *block, float *out);
void krn_unpack_q4_1(const uint8_t *block, float *out);
void krn_unpack_q5_0(const uint8_t *block, float *out);
void krn_unpack_q5_1(const uint8_t *block, float *out);
void krn_unpack_q4_k(const uint8_t *block, float *out);
void krn_unpack_q5_k(const uint8_t *block, float *out);
void krn_unpack_q6_k(const uint8_t *block, float *out);
void krn_unpack_iq4_nl(const uint8_t *block, float *out);

#endif
