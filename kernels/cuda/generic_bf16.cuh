/* SPDX-License-Identifier: Apache-2.0
 * Products by mma.sync on any tensor core: a block of four warps takes 64 outputs by up to 64 rows,
 * its tiles copied ahead into a ring of shared memory.
 */
#ifndef KERNELS_CUDA_GENERIC_BF16_CUH
#define KERNELS_CUDA_GENERIC_BF16_CUH

#include "kernels/cuda/tensor.cuh"

enum { GENERIC_STAGES = 3, GENERIC_WARPS = 4, GENERIC_FRAGMENTS = 8 };

static __device__ __forceinline__ void generic_fetch(const unsigned char *w, const unsigned char *x,
                                                     uint32_t ring, uint32_t block,
                                                     uint32_t x_bytes) {
    uint32_t to = ring + block % GENERIC_STAGES * 2 * KRN_BF16_TILE_BYTES;
    w += (size_t)block * KRN_BF16_TILE_BYTES;
    x += (size_t)block * KRN_BF16_TILE_BYTES;
    for (uint32_t at = threadIdx.x * 16; at < KRN_BF16_TILE_BYTES; at += GENERIC_WARPS * 512)
        tensor_copy16(to + at, w + at);
    for (uint32_t at = threadIdx.x * 16; at < x_bytes; at += GENERIC_WARPS * 512)
        tensor_copy16(to + KRN_BF16_TILE_BYTES + at, x + at);
}

/* One block of 64 columns for this warp's 16 outputs. */
static __device__ __forceinline__ void generic_block(float acc[GENERIC_FRAGMENTS * 4], uint32_t at,
                                                     uint32_t warp, uint32_t lane,
                                                     uint32_t fragments) {
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t low[4], high[4];
        tensor_rows16(low, at, warp * 16, 2 * half, lane);
        tensor_rows16(high, at, warp * 16, 2 * half + 1, lane);
#pragma unroll
        for (uint32_t i = 0; i < GENERIC_FRAGMENTS; i++) {
            if (i >= fragments)
                break;
            uint32_t b[4];
            tensor_rows8(b, at + KRN_BF16_TILE_BYTES, i * 8, half, lane);
            tensor_step(acc + 4 * i, low, b);
            tensor_step(acc + 4 * i, high, b + 2);
        }
    }
}

#endif
