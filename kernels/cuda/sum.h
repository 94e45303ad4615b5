/* SPDX-License-Identifier: Apache-2.0
 * What follows when ranks' partial sums have been added (numerics.md 3.4): bias and residual.
 */
#ifndef KERNELS_CUDA_SUM_H
#define KERNELS_CUDA_SUM_H

#include "kernels/cuda/step.h"

struct krn_cuda_sum {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t part; /* f32, ldp a row */
    krn_cuda_ptr_t bias; /* f32 [n], or 0 */
    krn_cuda_ptr_t y;    /* f32, ldy a row */
    uint32_t n, ldp, ldy;
    uint32_t add; /* y = y + result */
};

void krn_cuda_sum_call(const struct krn_cuda_sum *args, uint32_t rows, struct krn_cuda_call *call);

#endif
