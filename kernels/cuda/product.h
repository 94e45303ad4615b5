/* SPDX-License-Identifier: Apache-2.0
 * Products of the `portable` profile (numerics.md 3): every output one chain of fused multiply-adds
 * a segment, the segments' sums in one tree, then bias and residual.
 */
#ifndef KERNELS_CUDA_PRODUCT_H
#define KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/step.h"

struct krn_cuda_product {
    krn_cuda_ptr_t count; /* u32: rows that exist, counted from row -first_row on */
    uint32_t first_row;   /* x and y begin at this row of them */
    uint32_t rows;        /* of the launch's shape */
    krn_cuda_ptr_t x;     /* f32, ldx a row */
    krn_cuda_ptr_t w;     /* packed [block][k][16] */
    krn_cuda_ptr_t bias;  /* f32 [n], or 0 */
    krn_cuda_ptr_t y;     /* f32, ldy a row; columns up to n are written */
    krn_cuda_ptr_t only;  /* a byte a row from first_row on: rows with 0 are left alone; 0: all */
    uint32_t ldx, ldy;
    uint32_t n, k, segments;
    uint32_t dtype; /* enum krn_dtype of w */
    uint32_t add;   /* y = y + result */
};

void krn_cuda_product_call(const struct krn_cuda_product *args, struct krn_cuda_call *call);

#endif
