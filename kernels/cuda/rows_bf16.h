/* SPDX-License-Identifier: Apache-2.0
 * Rows and weights into the tiles of bf16_tile.h: the rounding at a product's input (numerics.md
 * 16.1). Columns that fill a segment and rows that fill a tile become zeros.
 */
#ifndef KERNELS_CUDA_ROWS_BF16_H
#define KERNELS_CUDA_ROWS_BF16_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/call.h"

enum { KRN_ROWS_F32, KRN_ROWS_BF16 };

struct krn_cuda_rows_bf16 {
    krn_cuda_ptr_t x; /* [rows][ldx] */
    krn_cuda_ptr_t out;
    uint32_t type; /* KRN_ROWS_* of x */
    uint32_t rows, ldx;
    uint32_t k, segments;
    /* Row r goes to row out_row + r, or, with spread 8 (gate and up in one product), to
     * 16 * (r / 8) + r % 8 + out_row. */
    uint32_t out_row, spread;
    uint32_t out_rows; /* rows that get written at least: the fill is done when spread is 0 */
};

#ifdef __cplusplus
extern "C"
#endif
    void
    krn_cuda_rows_bf16_call(const struct krn_cuda_rows_bf16 *args, struct krn_cuda_call *call);

#endif
