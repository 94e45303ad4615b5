/* SPDX-License-Identifier: Apache-2.0
 * What follows when ranks' partial sums are there (numerics.md 3.4): their tree, bias and residual;
 * and what comes out of an exchange put where it belongs.
 */
#ifndef KERNELS_CUDA_SUM_H
#define KERNELS_CUDA_SUM_H

#include "kernels/cuda/step.h"

struct krn_cuda_sum {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t part; /* f32, ldp a row: the sum, or the partial sums of `ranks` */
    krn_cuda_ptr_t bias; /* f32 [n], or 0 */
    krn_cuda_ptr_t y;    /* f32, ldy a row */
    uint32_t n, ldp, ldy;
    uint32_t add;   /* y = y + result */
    uint32_t ranks; /* 0 and 1: part is the sum; 2, 4, 8: part r lies r * apart floats behind */
    uint64_t apart;
};

/* out[i] = the tree over parts[r * n + i], i < n. */
struct krn_cuda_tree {
    krn_cuda_ptr_t parts, out;
    uint64_t n;
    uint32_t ranks, reserved;
};

/* out[row][r * n + i] = parts[r][row][i]: what ranks gathered, side by side; ld floats a row of
 * out. */
struct krn_cuda_beside {
    krn_cuda_ptr_t parts, out;
    uint32_t rows, n, ranks, ld;
};

void krn_cuda_sum_call(const struct krn_cuda_sum *args, uint32_t rows, struct krn_cuda_call *call);
void krn_cuda_tree_call(const struct krn_cuda_tree *args, struct krn_cuda_call *call);
void krn_cuda_beside_call(const struct krn_cuda_beside *args, struct krn_cuda_call *call);

#endif
