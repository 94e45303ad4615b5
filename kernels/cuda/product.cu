/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 3. A thread holds two neighbouring outputs of R rows over one segment: chains over
 * ascending k, from +0. R and the place of a chain are free; the order within it is not.
 */
#include "kernels/cuda/product.h"

#include "kernels/cuda/chain.h"

enum { PRODUCT_OUTPUTS = 64 };

/* Neighbours first, left operand first; sums lie `step` apart. */
CUDA_FN float product_tree(const float *sums, uint32_t step, uint32_t segments) {
    if (segments == 2)
        return sums[0] + sums[step];
    float a = (sums[0] + sums[step]) + (sums[2 * step] + sums[3 * step]);
    if (segments == 4)
        return a;
    const float *t = sums + 4 * step;
    return a + ((t[0] + t[step]) + (t[2 * step] + t[3 * step]));
}

CUDA_FN void product_close(const struct krn_cuda_product *a, uint32_t row, uint32_t n, float v) {
    if (n >= a->n)
        return;
    float *y = KRN_CUDA_AT(float, a->y) + (size_t)row * a->ldy + n;
    if (a->bias != 0)
        v = v + KRN_CUDA_AT(const float, a->bias)[n];
    *y = a->add != 0 ? *y + v : v;
}

/* part: [segments][R][64], used when there are several. */
CUDA_FN void product_body(const struct krn_cuda_product *a, const int R, const int dtype,
                          float *part) {
    uint32_t count = *KRN_CUDA_AT(const uint32_t, a->count);
    uint32_t live = count > a->first_row ? count - a->first_row : 0;
    uint32_t row0 = blockIdx.y * (uint32_t)R;
    live = live < a->rows ? live : a->rows;
    if (row0 >= live)
        return;
    bool split = a->segments > 1;
    uint32_t segment = split ? threadIdx.y : 0;
    uint32_t group = split ? blockIdx.x : blockIdx.x * blockDim.y + threadIdx.y;
    uint32_t n = group * PRODUCT_OUTPUTS + 2 * threadIdx.x;
    uint32_t last = (a->n + KRN_BLOCK - 1) / KRN_BLOCK - 1;
    uint32_t block = n / KRN_BLOCK < last ? n / KRN_BLOCK : last; /* past the end: any, not kept */
    size_t at = (size_t)block * a->k * KRN_BLOCK + n % KRN_BLOCK;
    const void *w = dtype == KRN_F32 ? (const void *)(KRN_CUDA_AT(const float, a->w) + at)
                                     : (const void *)(KRN_CUDA_AT(const uint16_t, a->w) + at);
    const float *x[16];
    float acc0[16], acc1[16];
    UNROLL for (int r = 0; r < R; r++) {
        uint32_t row = row0 + (uint32_t)r < live ? row0 + (uint32_t)r : live - 1;
        x[r] = KRN_CUDA_AT(const float, a->x) + (size_t)row * a->ldx;
        acc0[r] = acc1[r] = 0.0f;
    }
    uint32_t len = a->k / a->segments;
    int four = (a->ldx % 4 == 0 && len % 4 == 0 && a->x % 16 == 0);
    krn_cuda_chain(R, dtype, x, w, segment * len, (segment + 1) * len, four, acc0, acc1);
    const unsigned char *only = KRN_CUDA_AT(const unsigned char, a->only);
    if (!split) {
        UNROLL for (int r = 0; r < R; r++) {
            uint32_t row = row0 + (uint32_t)r;
            if (row >= live || (a->only != 0 && only[row] == 0))
                continue;
            product_close(a, row, n, acc0[r]);
            product_close(a, row, n + 1, acc1[r]);
        }
        return;
    }
    const uint32_t stride = (uint32_t)R * PRODUCT_OUTPUTS;
    UNROLL for (int r = 0; r < R; r++) {
        part[segment * stride + (uint32_t)r * PRODUCT_OUTPUTS + 2 * threadIdx.x] = acc0[r];
        part[segment * stride + (uint32_t)r * PRODUCT_OUTPUTS + 2 * threadIdx.x + 1] = acc1[r];
    }
    __syncthreads();
    uint32_t threads = 32 * a->segments, thread = threadIdx.y * 32 + threadIdx.x;
    for (uint32_t i = thread; i < stride; i += threads) {
        uint32_t row = row0 + i / PRODUCT_OUTPUTS;
        if (row < live && (a->only == 0 || only[row] != 0))
            product_close(a, row, group * PRODUCT_OUTPUTS + i % PRODUCT_OUTPUTS,
                          product_tree(part + i, stride, a->segments));
    }
}

#define PRODUCT(name, dtype, R)                                                                    \
    KRN_CUDA_KERNEL(name, 256)(const __grid_constant__ struct krn_cuda_product a) {                \
        __shared__ float part[KRN_V_MAX * R * PRODUCT_OUTPUTS];                                    \
        product_body(&a, R, dtype, part);                                                          \
    }
PRODUCT(krn_cuda_product_f32_1, KRN_F32, 1)
PRODUCT(krn_cuda_product_f32_2, KRN_F32, 2)
PRODUCT(krn_cuda_product_f32_4, KRN_F32, 4)
PRODUCT(krn_cuda_product_f32_8, KRN_F32, 8)
PRODUCT(krn_cuda_product_f32_16, KRN_F32, 16)
PRODUCT(krn_cuda_product_f16_1, KRN_F16, 1)
PRODUCT(krn_cuda_product_f16_2, KRN_F16, 2)
PRODUCT(krn_cuda_product_f16_4, KRN_F16, 4)
PRODUCT(krn_cuda_product_f16_8, KRN_F16, 8)
PRODUCT(krn_cuda_product_f16_16, KRN_F16, 16)
PRODUCT(krn_cuda_product_bf16_1, KRN_BF16, 1)
PRODUCT(krn_cuda_product_bf16_2, KRN_BF16, 2)
PRODUCT(krn_cuda_product_bf16_4, KRN_BF16, 4)
PRODUCT(krn_cuda_product_bf16_8, KRN_BF16, 8)
PRODUCT(krn_cuda_product_bf16_16, KRN_BF16, 16)
