/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 7: each element alone.
 */
#include "kernels/cuda/gate.h"

#include "kernels/cuda/device.h"

enum { GATE_THREADS = 256 };

KRN_CUDA_KERNEL(krn_cuda_gate, GATE_THREADS)(const __grid_constant__ struct krn_cuda_gate a) {
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    if (blockIdx.x >= step->n_rows)
        return;
    float *g = KRN_CUDA_AT(float, a.g) + (size_t)blockIdx.x * a.ld;
    const float *u = KRN_CUDA_AT(const float, a.u) + (size_t)blockIdx.x * a.ld;
    uint32_t step_n = gridDim.y * GATE_THREADS;
    for (uint32_t i = blockIdx.y * GATE_THREADS + threadIdx.x; i < a.n; i += step_n) {
        float x = g[i];
        float t = a.gelu != 0 ? x * fmaf(x * x, KRN_GELU_3, KRN_GELU_1) : x;
        g[i] = (x / (1.0f + krn_expf(-t))) * u[i];
    }
}
