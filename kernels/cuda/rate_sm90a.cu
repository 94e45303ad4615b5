/* SPDX-License-Identifier: Apache-2.0
 * Matrix multiplications back to back, from random operands in shared memory: zeros would draw less
 * power and run at a higher clock than any model's weights do.
 */
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/rate.h"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/fill.h"

KRN_CUDA_KERNEL(krn_cuda_rate, 128 * KRN_RATE_GROUPS)
(const __grid_constant__ struct krn_cuda_rate a) {
    extern __shared__ __align__(1024) unsigned char memory[];
    enum { TILES = KRN_RATE_GROUPS + KRN_RATE_OUTPUTS / 64, WORDS = TILES * 64 * 32 };
    uint32_t base = ((uint32_t)__cvta_generic_to_shared(memory) + 1023) / 1024 * 1024;
    uint32_t *words = (uint32_t *)(memory + (base - (uint32_t)__cvta_generic_to_shared(memory)));
    for (uint32_t i = threadIdx.x; i < WORDS; i += blockDim.x) {
        float x = krn_fill_value(blockIdx.x, 0.0f, 1.0f, 2 * (uint64_t)i);
        float y = krn_fill_value(blockIdx.x, 0.0f, 1.0f, 2 * (uint64_t)i + 1);
        words[i] = tensor_bf16x2(x, y);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    uint32_t group = threadIdx.x / 128;
    uint64_t left = hopper_matrix(base + group * KRN_BF16_TILE_BYTES);
    uint64_t right = hopper_matrix(base + KRN_RATE_GROUPS * KRN_BF16_TILE_BYTES);
    float c[KRN_RATE_OUTPUTS / 2] = {0};
    for (uint32_t t = 0; t < a.turns; t++) {
        hopper_multiply_begin();
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++)
            wgmma_step<KRN_RATE_OUTPUTS>(c, left + 2 * ks, right + 2 * ks);
        hopper_multiply_end();
        hopper_multiply_wait<0>();
    }
    float sum = 0;
    for (uint32_t i = 0; i < KRN_RATE_OUTPUTS / 2; i++)
        sum = __fadd_rn(sum, c[i]);
    KRN_CUDA_AT(float, a.out)[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
