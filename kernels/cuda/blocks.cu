/* SPDX-License-Identifier: Apache-2.0
 * The files' blocks into units, and units into bf16 tiles (numerics.md 12, 16.3): a warp a unit.
 */
#include "kernels/cuda/block_value.h"
#include "kernels/cuda/product_blocks.h"

enum { BLOCKS_WARPS = 4, UNIT_TILE_BYTES = KRN_UNIT_ROWS * KRN_BF16_ROW_BYTES };

/* One text, compiled for every type. */
#define BLOCKS_OF_TYPE(type, M)                                                                    \
    switch (type) {                                                                                \
    case KRN_Q8_0:                                                                                 \
        M(KRN_Q8_0);                                                                               \
        break;                                                                                     \
    case KRN_Q4_0:                                                                                 \
        M(KRN_Q4_0);                                                                               \
        break;                                                                                     \
    case KRN_Q4_1:                                                                                 \
        M(KRN_Q4_1);                                                                               \
        break;                                                                                     \
    case KRN_Q5_0:                                                                                 \
        M(KRN_Q5_0);                                                                               \
        break;                                                                                     \
    case KRN_Q5_1:                                                                                 \
        M(KRN_Q5_1);                                                                               \
        break;                                                                                     \
    case KRN_Q4_K:                                                                                 \
        M(KRN_Q4_K);                                                                               \
        break;                                                                                     \
    case KRN_Q5_K:                                                                                 \
        M(KRN_Q5_K);                                                                               \
        break;                                                                                     \
    case KRN_Q6_K:                                                                                 \
        M(KRN_Q6_K);                                                                               \
        break;                                                                                     \
    case KRN_IQ4_NL:                                                                               \
        M(KRN_IQ4_NL);                                                                             \
        break;                                                                                     \
    default:                                                                                       \
        break;                                                                                     \
    }

KRN_CUDA_KERNEL(krn_pack_blocks, 128)(const __grid_constant__ struct krn_cuda_pack_blocks a) {
    uint32_t kb = blockIdx.x * BLOCKS_WARPS + threadIdx.x / 32;
    if (kb >= a.blocks)
        return;
#define PACK(t) krn_unit_pack(&a, t, blockIdx.y, kb, threadIdx.x % 32)
    BLOCKS_OF_TYPE(a.type, PACK)
}

/* A warp's unit as 16 rows of its tile, in shared memory; a tile's other rows stay zeros. */
template <uint32_t TYPE>
static __device__ __forceinline__ void widen(const unsigned char *unit, unsigned char *tile,
                                             uint32_t lane) {
    struct krn_unit_form f = krn_unit_form(TYPE);
    struct krn_unit_lane l;
    krn_unit_load(TYPE, unit, lane, &l);
#pragma unroll
    for (uint32_t step = 0; step < 4; step++) {
        float factor[2], added[2];
        for (uint32_t row = 0; row < 2; row++)
            krn_unit_scale(f, &l, row, step, &factor[row], &added[row]);
        uint32_t v[4];
        krn_unit_step(TYPE, &l, step, factor, added, v);
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t row = lane / 4 + 8 * (r % 2), column = 16 * step + 8 * (r / 2) + lane % 4 * 2;
            *(uint32_t *)(tile + krn_bf16_at(row, column)) = v[r];
        }
    }
}

KRN_CUDA_KERNEL(krn_widen_blocks, 128)(const __grid_constant__ struct krn_cuda_widen_blocks a) {
    __shared__ __align__(16) unsigned char tiles[BLOCKS_WARPS][UNIT_TILE_BYTES];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, kb = blockIdx.x;
    uint32_t u = blockIdx.y * BLOCKS_WARPS + warp;
    const unsigned char *w = KRN_CUDA_AT(const unsigned char, a.w) +
                             ((size_t)u * a.blocks + kb) * krn_unit_bytes(a.type);
    unsigned char *out = KRN_CUDA_AT(unsigned char, a.out) +
                         ((size_t)blockIdx.y * a.blocks + kb) * KRN_BF16_TILE_BYTES +
                         warp * UNIT_TILE_BYTES;
    if (u < a.units) {
#define WIDEN(t) widen<t>(w, tiles[warp], lane)
        BLOCKS_OF_TYPE(a.type, WIDEN)
    }
    __syncwarp();
#pragma unroll
    for (uint32_t i = 0; i < UNIT_TILE_BYTES; i += 512)
        *(uint4 *)(out + i + lane * 16) =
            u < a.units ? *(const uint4 *)(tiles[warp] + i + lane * 16) : make_uint4(0, 0, 0, 0);
}
