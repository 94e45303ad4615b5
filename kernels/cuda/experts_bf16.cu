/* SPDX-License-Identifier: Apache-2.0
 * Products of experts on any tensor core (numerics.md 13, 16.3): 64 outputs of a tile's slots over
 * one segment.
 */
#include "kernels/cuda/experts.h"
#include "kernels/cuda/generic_bf16.cuh"

KRN_CUDA_KERNEL(krn_experts_bf16, 128)(const __grid_constant__ struct krn_cuda_experts_bf16 a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    if (blockIdx.y >= *KRN_CUDA_AT(const uint32_t, a.n_tiles))
        return;
    const struct krn_cuda_tile tile = KRN_CUDA_AT(const struct krn_cuda_tile, a.tiles)[blockIdx.y];
    uint32_t ring = tensor_shared(shared), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t blocks = a.k_blocks / a.segments, fragments = (tile.slots + 7) / 8;
    size_t a_tile_row = (size_t)a.k_blocks * KRN_BF16_TILE_BYTES;
    size_t from = (size_t)blockIdx.z * blocks * KRN_BF16_TILE_BYTES;
    const unsigned char *w = KRN_CUDA_AT(const unsigned char, a.w) + tile.expert * a.w_stride +
                             blockIdx.x * a_tile_row + from;
    const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.x) + blockIdx.y * a_tile_row + from;
    float acc[GENERIC_FRAGMENTS * 4] = {};
    for (uint32_t b = 0; b < GENERIC_STAGES - 1; b++) {
        if (b < blocks)
            generic_fetch(w, x, ring, b, fragments * KRN_BF16_ATOM_BYTES);
        tensor_copies_end();
    }
    for (uint32_t b = 0; b < blocks; b++) {
        tensor_copies_wait<GENERIC_STAGES - 2>();
        __syncthreads();
        if (b + GENERIC_STAGES - 1 < blocks)
            generic_fetch(w, x, ring, b + GENERIC_STAGES - 1, fragments * KRN_BF16_ATOM_BYTES);
        tensor_copies_end();
        generic_block(acc, ring + b % GENERIC_STAGES * 2 * KRN_BF16_TILE_BYTES, warp, lane,
                      fragments);
    }
    tensor_copies_wait<0>();
    uint32_t o = blockIdx.x * KRN_BF16_SIDE + warp * 16 + lane / 4;
    float *y = KRN_CUDA_AT(float, a.y);
#pragma unroll
    for (uint32_t i = 0; i < GENERIC_FRAGMENTS * 4; i++) {
        uint32_t r = i / 4 * 8 + lane % 4 * 2 + i % 2, n = o + i % 4 / 2 * 8;
        if (r < tile.slots && n < a.n)
            y[((size_t)(tile.first + r) * a.segments + blockIdx.z) * a.ldy + n] = acc[i];
    }
}
