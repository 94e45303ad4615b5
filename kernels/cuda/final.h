/* SPDX-License-Identifier: Apache-2.0
 * The finite check of a step's rows (numerics.md 8), and what follows from it when the draws are
 * done: the first bad row of each seq, draws behind it that mean nothing, and what each slot drew
 * last, which the next plan may read.
 */
#ifndef KERNELS_CUDA_FINAL_H
#define KERNELS_CUDA_FINAL_H

#include "kernels/cuda/step.h"

struct krn_cuda_finite {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t x;   /* f32, ldx a row */
    krn_cuda_ptr_t bad; /* u32 a row: 1 when a value is not finite */
    uint32_t n, ldx;
};

void krn_cuda_finite_call(const struct krn_cuda_finite *args, uint32_t rows,
                          struct krn_cuda_call *call);

struct krn_cuda_finish {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t bad;     /* u32 a row */
    krn_cuda_ptr_t bad_row; /* u32 a seq, written: row of the step or KRN_CUDA_NONE */
    krn_cuda_ptr_t drawn;   /* struct krn_drawn a draw */
    krn_cuda_ptr_t last;    /* u32 a slot, written */
    krn_cuda_ptr_t ended;   /* u64, written: when; 0: not asked */
};

void krn_cuda_finish_call(const struct krn_cuda_finish *args, uint32_t seqs,
                          struct krn_cuda_call *call);

#endif
