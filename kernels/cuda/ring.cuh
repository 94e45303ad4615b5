/* SPDX-License-Identifier: Apache-2.0
 * A ring of stages in shared memory between a loading warp and its readers on Hopper: barriers in
 * the first KiB, stages behind. A stage is full when its bytes have come, empty when every reader
 * has said so.
 */
#ifndef KERNELS_CUDA_RING_CUH
#define KERNELS_CUDA_RING_CUH

#include "kernels/cuda/hopper.cuh"

enum { RING_BARRIERS_BYTES = 1024 /* of 64 stages */ };

struct ring {
    uint32_t full, empty, data, stage_bytes, stages;
    /* Threads (of as many warps) that load, each every so many blocks: one alone cannot issue
     * copies as fast as memory answers. */
    uint32_t loaders;
    uint32_t stage, parity;
    __device__ __forceinline__ void next(void) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    /* To the next block of the same loader; stages >= loaders. */
    __device__ __forceinline__ void stride(void) {
        skip(loaders);
    }
    /* n stages on; n <= stages. */
    __device__ __forceinline__ void skip(uint32_t n) {
        stage += n;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ uint32_t at(void) const {
        return data + stage * stage_bytes;
    }
};

static __device__ __forceinline__ struct ring ring_at(unsigned char *shared, uint32_t stages,
                                                      uint32_t stage_bytes, uint32_t loaders) {
    uint32_t base = tensor_shared(shared);
    struct ring r = {base, base + RING_BARRIERS_BYTES / 2, base + RING_BARRIERS_BYTES, stage_bytes};
    r.stages = stages;
    r.loaders = loaders;
    r.stage = r.parity = 0;
    return r;
}

static __device__ __forceinline__ void ring_open(const struct ring &r, uint32_t readers) {
    for (uint32_t s = 0; s < r.stages; s++) {
        hopper_barrier_open(r.full + 8 * s, 1);
        hopper_barrier_open(r.empty + 8 * s, readers);
    }
    hopper_barriers_opened();
}

/* Neighbouring packed rows of one block of 64 columns as copies: each tile of 64 rows is one. */
enum { RING_PIECES = 3 };
struct ring_pieces {
    const unsigned char *from[RING_PIECES]; /* of block 0 */
    uint32_t at[RING_PIECES], bytes[RING_PIECES];

    /* Rows [row, row + rows) of a matrix; tiles behind last_tile are read as that one. */
    __device__ __forceinline__ void cut(const unsigned char *matrix, uint32_t k_blocks,
                                        uint32_t last_tile, uint32_t row, uint32_t rows,
                                        uint32_t at0) {
        uint32_t done = 0;
#pragma unroll
        for (uint32_t i = 0; i < RING_PIECES; i++) {
            uint32_t in = (row + done) % KRN_BF16_SIDE;
            uint32_t n = min(KRN_BF16_SIDE - in, rows - done);
            size_t tile = (size_t)min((row + done) / KRN_BF16_SIDE, last_tile) * k_blocks;
            from[i] = matrix + tile * KRN_BF16_TILE_BYTES + in * KRN_BF16_ROW_BYTES;
            at[i] = at0 + done * KRN_BF16_ROW_BYTES;
            bytes[i] = n * KRN_BF16_ROW_BYTES;
            done += n;
        }
    }
    __device__ __forceinline__ void copy(uint32_t stage, uint32_t block, uint32_t barrier) const {
#pragma unroll
        for (uint32_t i = 0; i < RING_PIECES; i++)
            if (bytes[i] != 0)
                hopper_copy(stage + at[i], from[i] + (size_t)block * KRN_BF16_TILE_BYTES, bytes[i],
                            barrier);
    }
    /* To all of a cluster of `blocks`. */
    __device__ __forceinline__ void copy_to(uint32_t stage, uint32_t block, uint32_t barrier,
                                            uint16_t mask) const {
#pragma unroll
        for (uint32_t i = 0; i < RING_PIECES; i++)
            if (bytes[i] != 0)
                hopper_copy_to(stage + at[i], from[i] + (size_t)block * KRN_BF16_TILE_BYTES,
                               bytes[i], barrier, mask);
    }
};

/* What a loader of `few` and `stream` brings: weights of `outputs` packed rows from o0 on, pass
 * after pass, and rows beside them. A stage is a block of 64 columns, or one of each of `parts` of
 * K, part_bytes apart. */
struct ring_weights {
    const unsigned char *w;
    uint32_t last_tile, k_blocks; /* of the matrix */
    uint32_t o0, outputs, passes;
    uint32_t parts, part_bytes;
};

/* The first stages' weights come before the kernel before this one has ended: it does not write
 * them. copy_rows(to, block, barrier). */
template <class Rows>
static __device__ __forceinline__ void ring_load(struct ring r, uint32_t loader,
                                                 const struct ring_weights &of, uint32_t expect,
                                                 Rows copy_rows) {
    struct ring_pieces weights;
    uint32_t a_part = of.k_blocks / of.parts, blocks = of.passes * a_part;
    uint32_t early = min(blocks, r.stages), pass = 0, kb = loader, b = loader;
    weights.cut(of.w, of.k_blocks, of.last_tile, of.o0, of.outputs, 0);
    r.stage = loader;
    for (; b < early; b += r.loaders, kb += r.loaders, r.stage += r.loaders) {
        for (; kb >= a_part; kb -= a_part)
            weights.cut(of.w, of.k_blocks, of.last_tile, of.o0 + ++pass * of.outputs, of.outputs,
                        0);
        hopper_expect(r.full + 8 * r.stage, expect);
        for (uint32_t p = 0; p < of.parts; p++)
            weights.copy(r.at() + p * of.part_bytes, p * a_part + kb, r.full + 8 * r.stage);
    }
    hopper_wait_before();
    r.stage = loader;
    for (uint32_t e = loader; e < early; e += r.loaders, r.stage += r.loaders) {
        uint32_t first_kb = e % a_part;
        for (uint32_t p = 0; p < of.parts; p++)
            copy_rows(r.at() + p * of.part_bytes, p * a_part + first_kb, r.full + 8 * r.stage);
    }
    if (r.stage >= r.stages)
        r.stage -= r.stages;
    for (; b < blocks; b += r.loaders, kb += r.loaders, r.stride()) {
        for (; kb >= a_part; kb -= a_part)
            weights.cut(of.w, of.k_blocks, of.last_tile, of.o0 + ++pass * of.outputs, of.outputs,
                        0);
        hopper_wait(r.empty + 8 * r.stage, r.parity);
        hopper_expect(r.full + 8 * r.stage, expect);
        for (uint32_t p = 0; p < of.parts; p++) {
            weights.copy(r.at() + p * of.part_bytes, p * a_part + kb, r.full + 8 * r.stage);
            copy_rows(r.at() + p * of.part_bytes, p * a_part + kb, r.full + 8 * r.stage);
        }
    }
}

#endif
