/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 1: the stored element, widened exactly, times the family's scale.
 */
#include "kernels/cuda/embed.h"

#include "kernels/cuda/device.h"

enum { EMBED_THREADS = 128, EMBED_EACH = 8 };

KRN_CUDA_KERNEL(krn_cuda_embed, EMBED_THREADS)(const __grid_constant__ struct krn_cuda_embed a) {
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x;
    if (row >= step->n_rows)
        return;
    const struct krn_cuda_row *r = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows) + row;
    uint32_t token = r->token;
    if (token == KRN_CUDA_NONE)
        token = KRN_CUDA_AT(const uint32_t, a.last)[r->slot];
    if (threadIdx.x == 0 && blockIdx.y == 0 && row == 0 && a.begun != 0)
        *KRN_CUDA_AT(uint64_t, a.begun) = krn_cuda_clock();
    if (threadIdx.x == 0 && blockIdx.y == 0)
        KRN_CUDA_AT(uint32_t, a.tokens)[row] = token;
    const void *w = KRN_CUDA_AT(const void, a.w);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)row * a.ldy;
    size_t at = (size_t)(token / KRN_BLOCK) * a.k * KRN_BLOCK + token % KRN_BLOCK;
    uint32_t first = blockIdx.y * EMBED_THREADS * EMBED_EACH + threadIdx.x;
    float v[EMBED_EACH];
    UNROLL for (uint32_t j = 0; j < EMBED_EACH; j++) { /* all reads under way at one time */
        uint32_t i = first + j * EMBED_THREADS;
        v[j] = i < a.k ? krn_cuda_widen((int)a.dtype, w, at + (size_t)i * KRN_BLOCK) : 0.0f;
    }
    UNROLL for (uint32_t j = 0; j < EMBED_EACH; j++) {
        uint32_t i = first + j * EMBED_THREADS;
        float x = v[j];
        if (a.scale != 1.0f)
            x = x * a.scale;
        if (i < a.k)
            y[i] = row == step->nan_row ? krn_float(0xffffffffu) : x;
    }
}
