/* SPDX-License-Identifier: Apache-2.0
 * Products over blocked weights on Hopper (product_blocks.h): a block owns rows of units, one a
 * warp, and streams them and all rows of x once. A warp makes operand A of mma.sync in registers.
 * Where K is cut in segments, several warps share a unit, each with a part of K that is a subtree.
 */
#ifndef KERNELS_CUDA_PRODUCT_BLOCKS_SM90A_CUH
#define KERNELS_CUDA_PRODUCT_BLOCKS_SM90A_CUH

#include "kernels/cuda/block_value.h"
#include "kernels/cuda/finish_bf16.cuh"
#include "kernels/cuda/product_blocks.h"
#include "kernels/cuda/ring.cuh"

enum { BLOCKS_LOADERS = 4 };

/* What a stage brings: for each part the units of `warps` rows of units, then rows of x. */
struct blocks_stage {
    uint32_t units_bytes, part_bytes; /* of a part: one row of units; all */
    uint32_t a_part, stages;          /* blocks of 64 columns; stages of a pass */
};

/* The lanes of a loading warp share the copies of a stage. */
static __device__ __forceinline__ void blocks_copy_units(const struct krn_cuda_product_blocks &a,
                                                         const struct blocks_stage &s,
                                                         const struct ring &r, uint32_t n,
                                                         uint32_t lane) {
    uint32_t pass = n / s.stages, block = n % s.stages * a.span;
    uint32_t unit0 = blockIdx.x * a.units + pass * a.warps, last = krn_unit_rows(a.p.n) - 1;
    for (uint32_t i = lane; i < a.parts * a.warps; i += 32) {
        uint32_t part = i / a.warps, unit = i % a.warps;
        size_t from = (size_t)min(unit0 + unit, last) * a.p.k_blocks + part * s.a_part + block;
        hopper_copy(r.at() + part * s.part_bytes + unit * s.units_bytes,
                    KRN_CUDA_AT(const unsigned char, a.p.w) + from * a.unit_bytes, s.units_bytes,
                    r.full + 8 * r.stage);
    }
}

static __device__ __forceinline__ void blocks_copy_rows(const struct krn_cuda_product_blocks &a,
                                                        const struct blocks_stage &s,
                                                        const struct ring &r, uint32_t n,
                                                        uint32_t atoms, uint32_t lane) {
    uint32_t block = n % s.stages * a.span;
    const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.p.x) +
                             (size_t)blockIdx.y * a.p.k_blocks * KRN_BF16_TILE_BYTES;
    for (uint32_t i = lane; i < a.parts * a.span; i += 32) {
        uint32_t part = i / a.span, in = i % a.span;
        hopper_copy(r.at() + part * s.part_bytes + a.warps * s.units_bytes +
                        in * atoms * KRN_BF16_ATOM_BYTES,
                    x + (size_t)(part * s.a_part + block + in) * KRN_BF16_TILE_BYTES,
                    atoms * KRN_BF16_ATOM_BYTES, r.full + 8 * r.stage);
    }
}

static __device__ __forceinline__ void blocks_load(const struct krn_cuda_product_blocks &a,
                                                   const struct blocks_stage &s, struct ring r,
                                                   uint32_t loader, uint32_t atoms, uint32_t lane) {
    uint32_t all = a.units / a.warps * s.stages, early = min(all, r.stages), n = loader;
    uint32_t expect = a.parts * s.part_bytes;
    r.stage = loader;
    for (; n < early; n += BLOCKS_LOADERS, r.stage += BLOCKS_LOADERS) {
        if (lane == 0)
            hopper_expect(r.full + 8 * r.stage, expect);
        __syncwarp();
        blocks_copy_units(a, s, r, n, lane); /* nobody before writes weights */
    }
    hopper_wait_before();
    r.stage = loader;
    for (n = loader; n < early; n += BLOCKS_LOADERS, r.stage += BLOCKS_LOADERS)
        blocks_copy_rows(a, s, r, n, atoms, lane);
    if (r.stage >= r.stages)
        r.stage -= r.stages;
    for (; n < all; n += BLOCKS_LOADERS, r.stride()) {
        hopper_wait(r.empty + 8 * r.stage, r.parity);
        if (lane == 0)
            hopper_expect(r.full + 8 * r.stage, expect);
        __syncwarp();
        blocks_copy_units(a, s, r, n, lane);
        blocks_copy_rows(a, s, r, n, atoms, lane);
    }
}

/* Which rows of a unit a warp multiplies: the first eight, the second eight, or all. */
enum { BLOCKS_BOTH = 2 };

template <int F, int ROWS> struct blocks_sums {
    static const int n = ROWS == BLOCKS_BOTH ? 4 * F : F > 1 ? 2 * F : 4;
};

/* Two K-steps with a unit's sixteen outputs as M, rows of x as N. */
template <int F>
static __device__ __forceinline__ void blocks_step(const uint32_t low[4], const uint32_t high[4],
                                                   uint32_t x_at, uint32_t half, float *acc,
                                                   uint32_t lane) {
#pragma unroll
    for (uint32_t i = 0; i < F; i++) {
        uint32_t x[4];
        tensor_rows8(x, x_at, i * 8, half, lane);
        tensor_step(acc + 4 * i, low, x);
        tensor_step(acc + 4 * i, high, x + 2);
    }
}

/* The same with rows of x as M, eight outputs as N. */
template <int F, int ROWS>
static __device__ __forceinline__ void blocks_step_half(const uint32_t low[4],
                                                        const uint32_t high[4], uint32_t x_at,
                                                        uint32_t half, float *acc, uint32_t lane) {
    const uint32_t w[4] = {low[ROWS % 2], low[ROWS % 2 + 2], high[ROWS % 2], high[ROWS % 2 + 2]};
    if constexpr (F == 1) {
        uint32_t x[4];
        tensor_rows8(x, x_at, 0, half, lane);
        const uint32_t first[4] = {x[0], 0, x[1], 0}, second[4] = {x[2], 0, x[3], 0};
        tensor_step(acc, first, w);
        tensor_step(acc, second, w + 2);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < F / 2; i++) {
            uint32_t first[4], second[4];
            tensor_rows16(first, x_at, i * 16, 2 * half, lane);
            tensor_rows16(second, x_at, i * 16, 2 * half + 1, lane);
            tensor_step(acc + 4 * i, first, w);
            tensor_step(acc + 4 * i, second, w + 2);
        }
    }
}

/* One block of 64 columns: F * 8 rows of x lie at `x_at`. */
template <uint32_t TYPE, int F, int ROWS>
static __device__ __forceinline__ void blocks_multiply(const struct krn_unit_lane &l, uint32_t x_at,
                                                       float *acc, uint32_t lane) {
    struct krn_unit_form f = krn_unit_form(TYPE);
    float factor[2], added[2];
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t low[4], high[4];
#pragma unroll
        for (uint32_t row = 0; row < 2; row++)
            krn_unit_scale(f, &l, row, 2 * half, &factor[row], &added[row]);
        krn_unit_step(TYPE, &l, 2 * half, factor, added, low);
        if (f.scales == KRN_UNIT_K6)
#pragma unroll
            for (uint32_t row = 0; row < 2; row++)
                krn_unit_scale(f, &l, row, 2 * half + 1, &factor[row], &added[row]);
        krn_unit_step(TYPE, &l, 2 * half + 1, factor, added, high);
        if (ROWS == BLOCKS_BOTH)
            blocks_step<F>(low, high, x_at, half, acc, lane);
        else
            blocks_step_half<F, ROWS>(low, high, x_at, half, acc, lane);
    }
}

/* Neighbouring blocks of 64 columns, all read before the first is multiplied. */
template <uint32_t TYPE, int F, int ROWS, int SPAN>
static __device__ __forceinline__ void blocks_several(const unsigned char *units, uint32_t x_at,
                                                      float *acc, uint32_t lane) {
    struct krn_unit_lane l[SPAN];
#pragma unroll
    for (uint32_t i = 0; i < SPAN; i++)
        krn_unit_load(TYPE, units + i * krn_unit_bytes(TYPE), lane, &l[i]);
#pragma unroll
    for (uint32_t i = 0; i < SPAN; i++)
        blocks_multiply<TYPE, F, ROWS>(l[i], x_at + i * F * KRN_BF16_ATOM_BYTES, acc, lane);
}

/* All warps that multiply. */
static __device__ __forceinline__ void blocks_sync(uint32_t warps) {
    asm volatile("bar.sync 1, %0;" ::"r"(warps * 32) : "memory");
}

/* A warp's sums into shared memory as finish_rows reads them. */
template <int F, int ROWS>
static __device__ __forceinline__ void blocks_leave(float *sums, const float *acc, uint32_t lane) {
    enum { PITCH = FINISH_WARP_PITCH };
    if (ROWS == BLOCKS_BOTH) {
        float *at = sums + lane % 4 * 2 * PITCH + lane / 4;
#pragma unroll
        for (uint32_t i = 0; i < F; i++)
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                at[(i * 8 + k % 2) * PITCH + k / 2 * 8] = acc[4 * i + k];
        return;
    }
    float *at = sums + lane / 4 * PITCH + ROWS * 8 + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < (F + 1) / 2; i++)
#pragma unroll
        for (uint32_t k = 0; k < 2 && 2 * i + k < F; k++)
            *(float2 *)(at + (i * 16 + k * 8) * PITCH) =
                make_float2(acc[4 * i + 2 * k], acc[4 * i + 2 * k + 1]);
}

/* The parts' sums in the tree's order: parts are whole subtrees, `a_part` floats apart. */
template <int F>
static __device__ __forceinline__ void blocks_parts(float *sums, uint32_t a_part, uint32_t parts,
                                                    uint32_t lane) {
    for (uint32_t i = lane; i < 8 * F * 16; i += 32) {
        float *at = sums + i / 16 * FINISH_WARP_PITCH + i % 16;
        float v[8];
#pragma unroll
        for (uint32_t p = 0; p < 8; p++)
            v[p] = p < parts ? at[p * a_part] : 0.0f;
#pragma unroll
        for (uint32_t step = 1; step < 8; step *= 2)
#pragma unroll
            for (uint32_t p = 0; p < 8; p += 2 * step)
                if (step < parts)
                    v[p] = __fadd_rn(v[p], v[p + step]);
        at[0] = v[0];
    }
    __syncwarp();
}

/* A warp's place: part of K, row of units among those of a pass. */
struct blocks_place {
    uint32_t part, unit, warps; /* warps: all that multiply */
};

template <uint32_t TYPE, int F, int ROWS, int LEVELS>
static __device__ void
blocks_work(const struct krn_cuda_product_blocks &a, const struct blocks_stage &s, struct ring r,
            unsigned char *stages, float *sums, struct blocks_place place, uint32_t lane) {
    /* As many blocks at once as registers hold. */
    enum { SUMS = blocks_sums<F, ROWS>::n, FLOATS = FINISH_WARP_FLOATS(F), SPAN = F < 8 ? 4 : 1 };
    uint32_t segments = a.p.segments / a.parts;
    uint32_t a_segment = a.p.k_blocks / a.p.segments / a.span;
    float *own = sums + (place.part * a.warps + place.unit) * FLOATS;
    const unsigned char *units = stages + place.part * s.part_bytes + place.unit * s.units_bytes;
    uint32_t rows = r.data + place.part * s.part_bytes + a.warps * s.units_bytes;
    bool apart = a.parts > 1 || ROWS != BLOCKS_BOTH;
    for (uint32_t pass = 0; pass < a.units / a.warps; pass++) {
        float acc[SUMS] = {};
        finish_tree<SUMS, LEVELS> tree;
        for (uint32_t n = 0, segment = 0, left = a_segment; n < s.stages; n++) {
            uint32_t at = r.stage * r.stage_bytes;
            hopper_wait(r.full + 8 * r.stage, r.parity);
            if (a.span == SPAN)
                blocks_several<TYPE, F, ROWS, SPAN>(units + at, rows + at, acc, lane);
            else
                for (uint32_t i = 0; i < a.span; i++)
                    blocks_several<TYPE, F, ROWS, 1>(units + at + i * krn_unit_bytes(TYPE),
                                                     rows + at + i * F * KRN_BF16_ATOM_BYTES, acc,
                                                     lane);
            __syncwarp();
            if (lane == 0)
                hopper_arrive(r.empty + 8 * r.stage);
            r.next();
            if (LEVELS > 0 && --left == 0) {
                tree.add(acc, segment++, segments);
                left = a_segment;
            }
        }
        blocks_leave<F, ROWS>(own, acc, lane);
        if (apart)
            blocks_sync(place.warps);
        else
            __syncwarp();
        if (place.part == 0 && ROWS != 1) {
            if (a.parts > 1)
                blocks_parts<F>(own, a.warps * FLOATS, a.parts, lane);
            uint32_t o16 = (blockIdx.x * a.units + pass * a.warps + place.unit) * 16;
            finish_rows<32, 16>(a.p, own, FINISH_WARP_PITCH, blockIdx.y * 64, 8 * F, o16, lane);
        }
        if (apart)
            blocks_sync(place.warps); /* the sums have been read */
        else
            __syncwarp();
    }
}

template <uint32_t TYPE, int F, int LEVELS, int HALVES>
static __device__ __forceinline__ void blocks(const krn_cuda_product_blocks &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct blocks_place place = {warp / HALVES / a.warps, warp / HALVES % a.warps,
                                       a.warps * a.parts * HALVES};
    struct blocks_stage s;
    s.units_bytes = a.span * krn_unit_bytes(TYPE);
    s.part_bytes = a.warps * s.units_bytes + a.span * F * KRN_BF16_ATOM_BYTES;
    s.a_part = a.p.k_blocks / a.parts;
    s.stages = s.a_part / a.span;
    struct ring r = ring_at(shared, a.stages, a.parts * s.part_bytes, BLOCKS_LOADERS);
    if (threadIdx.x == 0)
        ring_open(r, place.warps);
    __syncthreads();
    hopper_let_next();
    if (warp >= place.warps) {
        blocks_load(a, s, r, warp - place.warps, F, lane);
        return;
    }
    hopper_wait_before(); /* what the end reads and writes */
    unsigned char *stages = shared + RING_BARRIERS_BYTES;
    float *sums = (float *)(stages + a.stages * r.stage_bytes);
    if (HALVES == 1)
        blocks_work<TYPE, F, BLOCKS_BOTH, LEVELS>(a, s, r, stages, sums, place, lane);
    else if (warp % 2 == 0)
        blocks_work<TYPE, F, 0, LEVELS>(a, s, r, stages, sums, place, lane);
    else
        blocks_work<TYPE, F, 1, LEVELS>(a, s, r, stages, sums, place, lane);
}

#define BLOCKS_KERNEL(type, name, end, rows, halves, threads)                                      \
    KRN_CUDA_KERNEL(krn_product_##name##_##rows##end, threads)                                     \
    (const __grid_constant__ struct krn_cuda_product_blocks a) {                                   \
        blocks<type, rows / 8, 3, halves>(a);                                                      \
    }
#define BLOCKS_KERNELS(type, name)                                                                 \
    BLOCKS_KERNEL(type, name, _halves, 8, 2, 640)                                                  \
    BLOCKS_KERNEL(type, name, _halves, 16, 2, 640)                                                 \
    BLOCKS_KERNEL(type, name, , 8, 1, 576)                                                         \
    BLOCKS_KERNEL(type, name, , 16, 1, 576)                                                        \
    BLOCKS_KERNEL(type, name, , 32, 1, 384)                                                        \
    BLOCKS_KERNEL(type, name, , 64, 1, 384)

#endif
