/* SPDX-License-Identifier: Apache-2.0
 * Rows into bf16 tiles (numerics.md 16.1): a thread writes one chunk of eight columns.
 */
#include "kernels/cuda/rows_bf16.h"
#include "kernels/cuda/tensor.cuh"

KRN_CUDA_KERNEL(krn_rows_bf16, 128)(const __grid_constant__ struct krn_cuda_rows_bf16 a) {
    uint32_t blocks = krn_bf16_blocks(a.k, a.segments), segment_k = a.k / a.segments;
    uint32_t a_segment = blocks / a.segments;
    uint32_t chunk = blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= blocks * 8)
        return;
    uint32_t segment = chunk / (a_segment * 8), in = (chunk - segment * a_segment * 8) * 8;
    uint32_t left = in < segment_k ? segment_k - in : 0, column = segment * segment_k + in;
    unsigned char *out = KRN_CUDA_AT(unsigned char, a.out);
    uint32_t rows = a.rows > a.out_rows ? a.rows : a.out_rows;
    for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
        uint32_t to = a.out_row + (a.spread == 0 ? r : 16 * (r / 8) + r % 8);
        uint32_t v[4] = {0, 0, 0, 0};
        size_t from = (size_t)r * a.ldx + column;
        for (uint32_t i = 0; i < 8 && i < left && r < a.rows; i++) {
            uint32_t bits = a.type == KRN_ROWS_F32
                                ? tensor_bf16(KRN_CUDA_AT(const float, a.x)[from + i])
                                : KRN_CUDA_AT(const uint16_t, a.x)[from + i];
            v[i / 2] |= bits << (i % 2 * 16);
        }
        uint64_t tile = (uint64_t)(to / KRN_BF16_SIDE) * blocks + chunk / 8;
        uint32_t at = krn_bf16_at(to % KRN_BF16_SIDE, chunk % 8 * 8);
        *(uint4 *)(out + tile * KRN_BF16_TILE_BYTES + at) = make_uint4(v[0], v[1], v[2], v[3]);
    }
}
