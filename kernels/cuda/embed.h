/* SPDX-License-Identifier: Apache-2.0
 * Embedding of a step's rows (numerics.md 1): resolves each row's token, notes it for the draws,
 * and widens its row of the packed table.
 */
#ifndef KERNELS_CUDA_EMBED_H
#define KERNELS_CUDA_EMBED_H

#include "kernels/cuda/step.h"

struct krn_cuda_embed {
    krn_cuda_ptr_t step;   /* struct krn_cuda_step */
    krn_cuda_ptr_t last;   /* u32 a slot: what it drew last */
    krn_cuda_ptr_t tokens; /* u32 a row, written */
    krn_cuda_ptr_t w;      /* packed [block][k][16] */
    krn_cuda_ptr_t y;      /* f32, ldy a row */
    krn_cuda_ptr_t begun;  /* u64, written: when; 0: not asked */
    uint32_t dtype;        /* enum krn_dtype of w */
    uint32_t k, ldy;
    float scale; /* 1: none */
};

/* rows: of the launch's shape, at least the step's. */
void krn_cuda_embed_call(const struct krn_cuda_embed *args, uint32_t rows,
                         struct krn_cuda_call *call);

#endif
