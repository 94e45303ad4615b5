/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 1: the stored element, widened exactly, times the family's scale.
 */
#include "kernels/cuda/embed.h"

#include "kernels/cuda/device.h"

KRN_CUDA_KERNEL(krn_cuda_embed, 128)(const __grid_constant__ struct krn_cuda_embed a) {
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x;
    if (row >= step->n_rows)
        return;
    const struct krn_cuda_row *r = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows) + row;
    uint32_t token = r->token;
    if (token == KRN_CUDA_NONE)
        token = KRN_CUDA_AT(const uint32_t, a.last)[r->slot];
    if (threadIdx.x == 0)
        KRN_CUDA_AT(uint32_t, a.tokens)[row] = token;
    const void *w = KRN_CUDA_AT(const void, a.w);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)row * a.ldy;
    size_t at = (size_t)(token / KRN_BLOCK) * a.k * KRN_BLOCK + token % KRN_BLOCK;
    for (uint32_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        float x = krn_cuda_widen((int)a.dtype, w, at + (size_t)i * KRN_BLOCK);
        if (a.scale != 1.0f)
            x = x * a.scale;
        y[i] = row == step->nan_row ? krn_float(0xffffffffu) : x;
    }
}
