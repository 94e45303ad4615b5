/* SPDX-License-Identifier: Apache-2.0
 * RMS norm of rows (numerics.md 2): of all rows of a step, of its drawn rows (compacted), or added
 * to the residual stream.
 */
#ifndef KERNELS_CUDA_NORM_H
#define KERNELS_CUDA_NORM_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/step.h"

struct krn_cuda_norm {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t x;      /* f32, ldx a row */
    krn_cuda_ptr_t w;      /* f32 [n] */
    krn_cuda_ptr_t y;      /* f32, ldy a row; may be x; 0: packed alone */
    krn_cuda_ptr_t packed; /* bf16 rows of the next product in one segment (bf16_tile.h); 0: none */
    uint32_t n, ldx, ldy;
    float eps;
    uint32_t add;   /* y = y + the normed x */
    uint32_t drawn; /* row i of y is of the row that draw i reads */
    uint32_t reserved;
};

/* rows: of the launch's shape: rows or, when drawn, draws. */
void krn_cuda_norm_call(const struct krn_cuda_norm *args, uint32_t rows,
                        struct krn_cuda_call *call);

#endif
