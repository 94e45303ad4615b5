/* SPDX-License-Identifier: Apache-2.0
 * kernels/fill.h: a thread makes elements in the order in which they are stored.
 */
#include "kernels/cuda/fill.h"

#include "kernels/cuda/device.h"
#include "kernels/fill.h"

enum { FILL_THREADS = 256 };

KRN_CUDA_KERNEL(krn_cuda_fill, FILL_THREADS)(const __grid_constant__ struct krn_cuda_fill a) {
    uint64_t rows =
        a.blocked != 0 ? ((uint64_t)a.rows + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK : a.rows;
    uint64_t n = rows * a.k, stride = (uint64_t)gridDim.x * FILL_THREADS;
    for (uint64_t at = (uint64_t)blockIdx.x * FILL_THREADS + threadIdx.x; at < n; at += stride) {
        uint64_t row = at / a.k, column = at % a.k;
        if (a.blocked != 0) {
            row = at / ((uint64_t)a.k * KRN_BLOCK) * KRN_BLOCK + at % KRN_BLOCK;
            column = at / KRN_BLOCK % a.k;
        }
        float x = 0.0f;
        if (row < a.rows)
            x = krn_fill_value(a.stream, a.offset, a.reach, a.first + row * a.ld + column);
        if (a.dtype == KRN_F32)
            KRN_CUDA_AT(float, a.out)[at] = x;
        else
            KRN_CUDA_AT(uint16_t, a.out)[at] = krn_cuda_bf16(x);
    }
}
