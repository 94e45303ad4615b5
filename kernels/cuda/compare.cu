/* SPDX-License-Identifier: Apache-2.0
 * Counts words that differ: each thread walks the buffers in strides of the grid.
 */
#include "kernels/cuda/compare.h"

KRN_CUDA_KERNEL(krn_cuda_compare, 256)(const __grid_constant__ struct krn_cuda_compare a) {
    const uint32_t *x = KRN_CUDA_AT(const uint32_t, a.a);
    const uint32_t *y = KRN_CUDA_AT(const uint32_t, a.b);
    struct krn_cuda_compared *out = KRN_CUDA_AT(struct krn_cuda_compared, a.out);
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x, differ = 0, first = UINT64_MAX;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += stride)
        if (x[i] != y[i]) {
            differ++;
            first = first < i ? first : i;
        }
    if (differ == 0)
        return;
    atomicAdd((unsigned long long *)&out->differ, (unsigned long long)differ);
    atomicMin((unsigned long long *)&out->first, (unsigned long long)first);
}
