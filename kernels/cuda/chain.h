/* SPDX-License-Identifier: Apache-2.0
 * The chain of a product of the `portable` profile (numerics.md 3.1), for .cu files only: two
 * neighbouring outputs of R rows. R and what the rows are is the caller's; the order is not.
 */
#ifndef KERNELS_CUDA_CHAIN_H
#define KERNELS_CUDA_CHAIN_H

#include "kernels/cuda/device.h"

/* Two neighbouring weights. */
CUDA_FN void krn_cuda_load2(const int dtype, const void *w, size_t at, float *w0, float *w1) {
    if (dtype == KRN_F32) {
        const float *p = (const float *)w + at;
        *w0 = p[0];
        *w1 = p[1];
        return;
    }
    uint32_t both = *(const uint32_t *)(const void *)((const uint16_t *)w + at);
    uint16_t lo = (uint16_t)both, hi = (uint16_t)(both >> 16);
    *w0 = dtype == KRN_BF16 ? krn_widen_bf16(lo) : krn_widen_f16(lo);
    *w1 = dtype == KRN_BF16 ? krn_widen_bf16(hi) : krn_widen_f16(hi);
}

struct krn_cuda_four {
    float v[4];
};

/* acc[r] continues with inputs [k0, k1) of rows x[r]. Four inputs at a time where rows are aligned
 * for that. */
CUDA_FN void krn_cuda_chain(const int R, const int dtype, const float *const *x, const void *w,
                            uint32_t k0, uint32_t k1, const int four, float *acc0, float *acc1) {
    uint32_t k = k0;
    if (four != 0)
        for (; k + 4 <= k1; k += 4) {
            float w0[4], w1[4];
            UNROLL for (int i = 0; i < 4; i++)
                krn_cuda_load2(dtype, w, (size_t)(k + (uint32_t)i) * KRN_BLOCK, &w0[i], &w1[i]);
            UNROLL for (int r = 0; r < R; r++) {
#ifdef __CUDACC__
                float4 f = *(const float4 *)(x[r] + k);
                struct krn_cuda_four xv = {{f.x, f.y, f.z, f.w}};
#else
                struct krn_cuda_four xv;
                memcpy(&xv, x[r] + k, sizeof xv);
#endif
                UNROLL for (int i = 0; i < 4; i++) {
                    acc0[r] = fmaf(xv.v[i], w0[i], acc0[r]);
                    acc1[r] = fmaf(xv.v[i], w1[i], acc1[r]);
                }
            }
        }
    for (; k < k1; k++) {
        float w0, w1;
        krn_cuda_load2(dtype, w, (size_t)k * KRN_BLOCK, &w0, &w1);
        UNROLL for (int r = 0; r < R; r++) {
            acc0[r] = fmaf(x[r][k], w0, acc0[r]);
            acc1[r] = fmaf(x[r][k], w1, acc1[r]);
        }
    }
}

#endif
