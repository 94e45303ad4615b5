/* SPDX-License-Identifier: Apache-2.0
 * Attention of the `portable` profile (numerics.md 6): each row and query head walks absolute tiles
 * inside absolute segments.
 */
#ifndef KERNELS_CUDA_ATTEND_H
#define KERNELS_CUDA_ATTEND_H

#include "kernels/cuda/pages.h"

struct krn_cuda_attend {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t q, out; /* f32 rows */
    struct krn_cuda_kv kv;
    uint32_t heads; /* a multiple of kv.kv_heads */
    uint32_t ldq, ldo;
    float scale;
    uint32_t window;  /* keys visible to a row, itself included; 0: all */
    uint32_t segment; /* keys in an absolute segment */
};

void krn_cuda_attend_call(const struct krn_cuda_attend *args, uint32_t rows,
                          struct krn_cuda_call *call);

#endif
