/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 on any tensor core (numerics.md 16.3): a block computes 64 outputs of up to
 * 64 rows by mma.sync, its tiles copied ahead into a ring of shared memory.
 */
#include "kernels/cuda/finish_bf16.cuh"
#include "kernels/cuda/generic_bf16.cuh"

KRN_CUDA_KERNEL(krn_product_bf16, 128)(const __grid_constant__ struct krn_cuda_product_bf16 a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t ring = tensor_shared(shared), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t a_tile_row = (size_t)a.k_blocks * KRN_BF16_TILE_BYTES;
    const unsigned char *w = KRN_CUDA_AT(const unsigned char, a.w) + blockIdx.x * a_tile_row;
    const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.x) + blockIdx.y * a_tile_row;
    uint32_t row0 = blockIdx.y * KRN_BF16_SIDE, rows = min(a.rows - row0, KRN_BF16_SIDE);
    uint32_t fragments = (rows + 7) / 8, a_segment = a.k_blocks / a.segments;
    float acc[GENERIC_FRAGMENTS * 4] = {};
    finish_tree<GENERIC_FRAGMENTS * 4, 3> tree;
    for (uint32_t b = 0; b < GENERIC_STAGES - 1; b++) {
        if (b < a.k_blocks)
            generic_fetch(w, x, ring, b, fragments * KRN_BF16_ATOM_BYTES);
        tensor_copies_end();
    }
    for (uint32_t b = 0, segment = 0, left = a_segment; b < a.k_blocks; b++) {
        tensor_copies_wait<GENERIC_STAGES - 2>();
        __syncthreads();
        if (b + GENERIC_STAGES - 1 < a.k_blocks)
            generic_fetch(w, x, ring, b + GENERIC_STAGES - 1, fragments * KRN_BF16_ATOM_BYTES);
        tensor_copies_end();
        generic_block(acc, ring + b % GENERIC_STAGES * 2 * KRN_BF16_TILE_BYTES, warp, lane,
                      fragments);
        if (--left == 0) {
            tree.add(acc, segment++, a.segments);
            left = a_segment;
        }
    }
    tensor_copies_wait<0>();
    __syncthreads(); /* the ring is free */
    float *sums = (float *)shared + warp * FINISH_WARP_FLOATS(GENERIC_FRAGMENTS);
    finish_warp<GENERIC_FRAGMENTS>(a, sums, blockIdx.x * KRN_BF16_SIDE + warp * 16, row0, acc,
                                   lane);
}
