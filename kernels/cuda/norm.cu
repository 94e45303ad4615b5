/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 2. Sixteen threads hold the sixteen lanes; all others only carry what they read.
 */
#include "kernels/cuda/norm.h"

#include "kernels/cuda/device.h"

enum { NORM_THREADS = 128, NORM_CHUNK = 2048 /* floats carried at a time */ };

/* 1 / sqrt(mean of squares + eps) of x[0..n), by all threads of the block. */
CUDA_FN float norm_factor(const float *x, uint32_t n, float eps, float *chunk, float *lanes,
                          float *factor) {
    float acc = 0.0f;
    for (uint32_t from = 0; from < n; from += NORM_CHUNK) {
        uint32_t len = n - from < NORM_CHUNK ? n - from : NORM_CHUNK;
        for (uint32_t i = threadIdx.x; i < len; i += NORM_THREADS)
            chunk[i] = x[from + i];
        __syncthreads();
        if (threadIdx.x < KRN_LANES)
            for (uint32_t i = threadIdx.x; i < len; i += KRN_LANES)
                acc = fmaf(chunk[i], chunk[i], acc);
        __syncthreads();
    }
    if (threadIdx.x < KRN_LANES)
        lanes[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x == 0)
        *factor = 1.0f / sqrtf(krn_cuda_tree16(lanes) / (float)n + eps);
    __syncthreads();
    return *factor;
}

KRN_CUDA_KERNEL(krn_cuda_norm, NORM_THREADS)(const __grid_constant__ struct krn_cuda_norm a) {
    __shared__ float chunk[NORM_CHUNK], lanes[KRN_LANES], factor;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x, from = row;
    if (row >= (a.drawn != 0 ? step->n_draws : step->n_rows))
        return;
    if (a.drawn != 0)
        from = KRN_CUDA_OF(struct krn_cuda_drawing, step, off_draws)[row].row;
    const float *x = KRN_CUDA_AT(const float, a.x) + (size_t)from * a.ldx;
    const float *w = KRN_CUDA_AT(const float, a.w);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)row * a.ldy;
    float r = norm_factor(x, a.n, a.eps, chunk, lanes, &factor);
    for (uint32_t i = threadIdx.x; i < a.n; i += NORM_THREADS) {
        float v = (x[i] * r) * w[i];
        y[i] = a.add != 0 ? y[i] + v : v;
    }
}
