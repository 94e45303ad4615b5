/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 3.3 behind the ranks' tree: each element alone.
 */
#include "kernels/cuda/sum.h"

#include "kernels/cuda/device.h"

enum { SUM_THREADS = 256 };

KRN_CUDA_KERNEL(krn_cuda_sum, SUM_THREADS)(const __grid_constant__ struct krn_cuda_sum a) {
    if (blockIdx.x >= KRN_CUDA_STEP(a)->n_rows)
        return;
    const float *part = KRN_CUDA_AT(const float, a.part) + (size_t)blockIdx.x * a.ldp;
    const float *bias = KRN_CUDA_AT(const float, a.bias);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)blockIdx.x * a.ldy;
    for (uint32_t i = threadIdx.x; i < a.n; i += SUM_THREADS) {
        float v = part[i];
        if (a.bias != 0)
            v = v + bias[i];
        y[i] = a.add != 0 ? y[i] + v : v;
    }
}
