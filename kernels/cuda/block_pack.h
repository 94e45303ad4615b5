/* SPDX-License-Identifier: Apache-2.0
 * The blocks of a file put into units (block_unit.h), bit for bit: by the device at packing, and by
 * a test on the host. Rows come as the file stores them, any number of bytes apart.
 */
#ifndef KERNELS_CUDA_BLOCK_PACK_H
#define KERNELS_CUDA_BLOCK_PACK_H

#include <stddef.h>
#include <string.h>

#include "kernels/cuda/block_file.h"
#include "kernels/cuda/block_unit.h"
#include "kernels/cuda/call.h"

struct krn_cuda_pack_blocks {
    krn_cuda_ptr_t x[2]; /* rows as stored; with spread: gate's, up's, woven by eight rows */
    krn_cuda_ptr_t out;  /* the first of the units */
    uint64_t row_bytes;
    uint32_t type, spread;
    uint32_t rows;          /* of x[0]; with spread of both */
    uint32_t units, blocks; /* rows of units, and of 64 columns in each */
    uint32_t k, segments;
    uint32_t col0; /* of the rows */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Whether this rank's part of a matrix can lie in units: k inputs from col0 on in segments. */
int krn_cuda_blocks_fit(uint32_t type, uint32_t col0, uint32_t k, uint32_t segments);
void krn_cuda_pack_blocks_call(const struct krn_cuda_pack_blocks *args, struct krn_cuda_call *call);
#ifdef __cplusplus
}
#endif

/* Scales of one row (0: l / 4, 1: 8 + l / 4) over half a unit, into the lane's words. */
KRN_BF16_FN void krn_unit_pack_scales(uint32_t type, const unsigned char *b, uint32_t run,
                                      uint32_t row, uint32_t half, uint32_t scale[4]) {
    struct krn_unit_form f = krn_unit_form(type);
    const unsigned char *d = type == KRN_Q6_K ? b + 208 : b;
    uint32_t first = d[0] | (uint32_t)d[1] << 8;
    switch (f.scales) {
    case KRN_UNIT_DM:
        scale[2 + row] |= (d[2] | (uint32_t)d[3] << 8) << 16 * half;
        scale[row] |= first << 16 * half;
        break;
    case KRN_UNIT_K:
        scale[row] |= first | (d[2] | (uint32_t)d[3] << 8) << 16;
        scale[2 + row] |= krn_unit_six(b + 4, run, 0) << 8 * half;
        scale[2 + row] |= krn_unit_six(b + 4, run, 1) << (16 + 8 * half);
        break;
    case KRN_UNIT_K6:
        scale[0] |= first << 16 * row;
        scale[1 + row] |= (b[192 + 2 * run] ^ 0x80u) << 16 * half;
        scale[1 + row] |= (b[193 + 2 * run] ^ 0x80u) << (16 * half + 8);
        break;
    default:
        scale[row] |= first << 16 * half;
    }
}

/* A lane's part of the unit whose first column is `column` of the rows; `left` columns are there
 * (a multiple of 32), the others become zeros, as does a row that is NULL. */
KRN_BF16_FN void krn_unit_pack_lane(uint32_t type, const unsigned char *const rows[2],
                                    uint32_t column, uint32_t left, uint32_t lane,
                                    struct krn_unit_lane *l) {
    struct krn_unit_form f = krn_unit_form(type);
    uint32_t block = krn_unit_block(type), bytes = krn_unit_block_bytes(type);
    *l = (struct krn_unit_lane){{0}, {0}, {0}};
    for (uint32_t i = 0; i < 32; i++) { /* K-step, register, low or high */
        uint32_t s = i / 8, r = i / 2 % 4, h = i % 2, code = f.uneven ? 8 : f.offset;
        uint32_t in = 16 * s + 2 * (lane % 4) + 8 * (r / 2) + h, at = column + in;
        const unsigned char *row = rows[r % 2];
        if (row != NULL && in < left)
            code = krn_unit_code_of(type, row + (size_t)(at / block) * bytes, at % block);
        if (f.wide)
            l->code[2 * s + r / 2] |= code << (16 * (r % 2) + 8 * h);
        else if (f.uneven)
            l->code[s] |= code << (8 * r + 4 * h);
        else
            l->code[s] |= (code & 15u) << (4 * r + 16 * h);
        for (uint32_t p = 0; p < f.planes; p++)
            l->plane[p] |= (code >> (4 + p) & 1u) << (s + 4 * r + 16 * h);
    }
    for (uint32_t i = 1; i < 3 && f.scales == KRN_UNIT_K6; i++)
        l->scale[i] = rows[i - 1] == NULL || left == 0 ? 0x80808080u : 0; /* scales of 0 */
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t row = i / 2, half = i % 2, at = column + 32 * half;
        if (rows[row] != NULL && 32 * half < left)
            krn_unit_pack_scales(type, rows[row] + (size_t)(at / block) * bytes,
                                 at % block / KRN_UNIT_RUN, row, half, l->scale);
    }
}

KRN_BF16_FN void krn_unit_store(uint32_t type, unsigned char *unit, uint32_t lane,
                                const struct krn_unit_lane *l) {
    struct krn_unit_form f = krn_unit_form(type);
    for (uint32_t w = 0; w < (f.wide ? 8u : 4u); w++)
        memcpy(unit + 4 * krn_unit_word(f, lane, w), &l->code[w], 4);
    for (uint32_t p = 0; p < f.planes; p++)
        memcpy(unit + krn_unit_planes_at(f) + 128 * p + 4 * lane, &l->plane[p], 4);
    if (lane % 4 == 0)
        memcpy(unit + krn_unit_scales_at(f) + lane / 4 * krn_unit_scale_bytes(f), l->scale,
               krn_unit_scale_bytes(f));
}

/* A lane of the unit in row of units u, block kb: what the kernel and its emulation do. */
KRN_BF16_FN void krn_unit_pack(const struct krn_cuda_pack_blocks *a, uint32_t type, uint32_t u,
                               uint32_t kb, uint32_t lane) {
    uint32_t a_segment = a->blocks / a->segments, segment_k = a->k / a->segments;
    uint32_t segment = kb / a_segment, in = kb % a_segment * KRN_BF16_SIDE;
    const unsigned char *rows[2];
    struct krn_unit_lane l;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t r = a->spread ? 8 * u + lane / 4 : 16 * u + 8 * i + lane / 4;
        const unsigned char *x = (const unsigned char *)a->x[a->spread ? i : 0];
        rows[i] = r < a->rows ? x + r * a->row_bytes : NULL;
    }
    krn_unit_pack_lane(type, rows, a->col0 + segment * segment_k + in, segment_k - in, lane, &l);
    krn_unit_store(type,
                   (unsigned char *)a->out + ((size_t)u * a->blocks + kb) * krn_unit_bytes(type),
                   lane, &l);
}

#endif
