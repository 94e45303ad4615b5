/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 3.3 behind the ranks' tree (3.4): each element alone.
 */
#include "kernels/cuda/sum.h"

#include "kernels/cuda/device.h"

enum { SUM_THREADS = 256 };

/* The upper part of the tree over ranks' partial sums, p[r * apart]. */
CUDA_FN float sum_ranks(const float *p, const uint32_t ranks, const uint64_t apart) {
    if (ranks <= 1)
        return p[0];
    float a = p[0] + p[apart];
    if (ranks == 2)
        return a;
    a = a + (p[2 * apart] + p[3 * apart]);
    if (ranks == 4)
        return a;
    p += 4 * apart;
    return a + ((p[0] + p[apart]) + (p[2 * apart] + p[3 * apart]));
}

KRN_CUDA_KERNEL(krn_cuda_sum, SUM_THREADS)(const __grid_constant__ struct krn_cuda_sum a) {
    if (blockIdx.x >= KRN_CUDA_STEP(a)->n_rows)
        return;
    const float *part = KRN_CUDA_AT(const float, a.part) + (size_t)blockIdx.x * a.ldp;
    const float *bias = KRN_CUDA_AT(const float, a.bias);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)blockIdx.x * a.ldy;
    for (uint32_t i = threadIdx.x; i < a.n; i += SUM_THREADS) {
        float v = sum_ranks(part + i, a.ranks, a.apart);
        if (a.bias != 0)
            v = v + bias[i];
        y[i] = a.add != 0 ? y[i] + v : v;
    }
}

KRN_CUDA_KERNEL(krn_cuda_tree, SUM_THREADS)(const __grid_constant__ struct krn_cuda_tree a) {
    const float *parts = KRN_CUDA_AT(const float, a.parts);
    float *out = KRN_CUDA_AT(float, a.out);
    for (uint64_t i = (uint64_t)blockIdx.x * SUM_THREADS + threadIdx.x; i < a.n;
         i += (uint64_t)gridDim.x * SUM_THREADS)
        out[i] = sum_ranks(parts + i, a.ranks, a.n);
}

KRN_CUDA_KERNEL(krn_cuda_beside, SUM_THREADS)(const __grid_constant__ struct krn_cuda_beside a) {
    const float *from =
        KRN_CUDA_AT(const float, a.parts) + ((uint64_t)blockIdx.y * a.rows + blockIdx.x) * a.n;
    float *to =
        KRN_CUDA_AT(float, a.out) + (uint64_t)blockIdx.x * a.ld + (uint64_t)blockIdx.y * a.n;
    for (uint32_t i = threadIdx.x; i < a.n; i += SUM_THREADS)
        to[i] = from[i];
}
