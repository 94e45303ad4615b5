/* SPDX-License-Identifier: Apache-2.0
 * The one layout of every bf16 operand of the profile cuda-bf16 (numerics.md 16): tiles of 64 rows
 * by 64 columns, 8 KiB each, whole tiles one behind the other, so that any kernel fetches a tile or
 * eight rows of it by one copy of neighbouring bytes and reads it without bank conflicts.
 *
 *     tile t of a matrix [rows][k]:  t = (row / 64) * k_blocks + k_block(k)
 *     in it:                         (row % 64) * 128 bytes, 16-byte chunk (k / 8) ^ (row % 8)
 *
 * K is cut in segments (numerics.md 16.3); each begins a block of its own and is filled with zeros
 * up to 64 columns. Pages use the same tile for 64 keys by 64 columns of a head.
 */
#ifndef KERNELS_CUDA_BF16_TILE_H
#define KERNELS_CUDA_BF16_TILE_H

#include <stdint.h>

#ifdef __CUDACC__
#define KRN_BF16_FN static __host__ __device__ __forceinline__
#else
#define KRN_BF16_FN static inline
#endif

enum {
    KRN_BF16_SIDE = 64,         /* rows and columns of a tile */
    KRN_BF16_ROW_BYTES = 128,   /* of a tile's row */
    KRN_BF16_ATOM_BYTES = 1024, /* eight rows: the smallest piece that is copied */
    KRN_BF16_TILE_BYTES = 8192
};

/* exp2 of numerics.md 16.6. */
#define KRN_EXP2_ROUND 0x1.8000fep+23f /* 1.5 * 2^23 + 127 */
#define KRN_EXP2_LO    -126.0f
#define KRN_EXP2_C1    0x1.62e42ap-1f
#define KRN_EXP2_C2    0x1.ebf9bcp-3f
#define KRN_EXP2_C3    0x1.c6b752p-5f
#define KRN_EXP2_C4    0x1.3cea88p-7f
#define KRN_EXP2_C5    0x1.5bba14p-10f
#define KRN_LOG2E      0x1.715476p+0f

/* Byte of (row, column) within its tile; both below 64. */
KRN_BF16_FN uint32_t krn_bf16_at(uint32_t row, uint32_t column) {
    return row * KRN_BF16_ROW_BYTES + ((column / 8 ^ row % 8) * 16) + column % 8 * 2;
}

/* Blocks of 64 columns that K takes in `segments` equal parts. */
KRN_BF16_FN uint32_t krn_bf16_blocks(uint32_t k, uint32_t segments) {
    return (k / segments + KRN_BF16_SIDE - 1) / KRN_BF16_SIDE * segments;
}

/* Tiles of 64 rows. */
KRN_BF16_FN uint32_t krn_bf16_row_tiles(uint32_t rows) {
    return (rows + KRN_BF16_SIDE - 1) / KRN_BF16_SIDE;
}

/* Bytes of a packed matrix. */
KRN_BF16_FN uint64_t krn_bf16_bytes(uint32_t rows, uint32_t k, uint32_t segments) {
    return (uint64_t)krn_bf16_row_tiles(rows) * krn_bf16_blocks(k, segments) * KRN_BF16_TILE_BYTES;
}

/* Byte of (row, k) in a packed matrix; segment_k = K / segments. */
KRN_BF16_FN uint64_t krn_bf16_place(uint32_t row, uint32_t k, uint32_t segment_k,
                                    uint32_t k_blocks) {
    uint32_t segment = k / segment_k, in = k - segment * segment_k;
    uint32_t a_segment = (segment_k + KRN_BF16_SIDE - 1) / KRN_BF16_SIDE;
    uint32_t block = segment * a_segment + in / KRN_BF16_SIDE;
    uint64_t tile = (uint64_t)(row / KRN_BF16_SIDE) * k_blocks + block;
    return tile * KRN_BF16_TILE_BYTES + krn_bf16_at(row % KRN_BF16_SIDE, in % KRN_BF16_SIDE);
}

/* Panels of 64 columns in a head. */
KRN_BF16_FN uint32_t krn_bf16_panels(uint32_t head_dim) {
    return (head_dim + KRN_BF16_SIDE - 1) / KRN_BF16_SIDE;
}

/* Bytes of the K and V panels of one tile of 64 keys of one KV head (numerics.md 16.4). */
KRN_BF16_FN uint32_t krn_bf16_kv_bytes(uint32_t head_dim) {
    return 2 * krn_bf16_panels(head_dim) * KRN_BF16_TILE_BYTES;
}

/* Byte of column d of key j (below 64) in them; value: of V. */
KRN_BF16_FN uint32_t krn_bf16_kv_at(uint32_t head_dim, uint32_t value, uint32_t j, uint32_t d) {
    return (value * krn_bf16_panels(head_dim) + d / KRN_BF16_SIDE) * KRN_BF16_TILE_BYTES +
           krn_bf16_at(j, d % KRN_BF16_SIDE);
}

#endif
