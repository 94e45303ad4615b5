/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 for few rows on Hopper (numerics.md 16.3): a block owns units of 16
 * outputs, one a warp, and streams their weights and all rows once, by mma.sync. Where K is cut in
 * segments, several warps share a unit, each with a part of K that is a subtree of them.
 */
#include "kernels/cuda/finish_bf16.cuh"
#include "kernels/cuda/ring.cuh"

enum { UNIT_BYTES = 16 * KRN_BF16_ROW_BYTES };

/* Half a block: two K-steps of a unit's weights and of all rows. */
template <int F> struct few_half {
    uint32_t low[4], high[4], x[F][4];
    __device__ __forceinline__ void load(uint32_t weights, uint32_t rows, uint32_t half,
                                         uint32_t lane) {
        tensor_rows16(low, weights, 0, 2 * half, lane);
        tensor_rows16(high, weights, 0, 2 * half + 1, lane);
#pragma unroll
        for (uint32_t i = 0; i < F; i++)
            tensor_rows8(x[i], rows, i * 8, half, lane);
    }
    __device__ __forceinline__ void multiply(float (&acc)[F * 4]) const {
#pragma unroll
        for (uint32_t i = 0; i < F; i++)
            tensor_step(acc + 4 * i, low, x[i]);
#pragma unroll
        for (uint32_t i = 0; i < F; i++)
            tensor_step(acc + 4 * i, high, x[i] + 2);
    }
};

/* The parts' sums in the tree's order, in the warps of part 0: parts are whole subtrees. Each other
 * warp has left its sums in its own place, `a_part` floats apart. */
template <int F>
static __device__ __forceinline__ void few_parts(float (&acc)[F * 4], const float *sums,
                                                 uint32_t a_part, uint32_t parts, uint32_t lane) {
#pragma unroll
    for (uint32_t i = 0; i < F * 4; i++) {
        const float *at = sums + i * 32 + lane;
        float v = acc[i];
        if (parts > 1)
            v = __fadd_rn(v, at[a_part]);
        if (parts > 2)
            v = __fadd_rn(v, __fadd_rn(at[2 * a_part], at[3 * a_part]));
        if (parts > 4)
            v = __fadd_rn(v, __fadd_rn(__fadd_rn(at[4 * a_part], at[5 * a_part]),
                                       __fadd_rn(at[6 * a_part], at[7 * a_part])));
        acc[i] = v;
    }
}

/* All warps that multiply. */
static __device__ __forceinline__ void few_sync(uint32_t warps) {
    asm volatile("bar.sync 1, %0;" ::"r"(warps * 32) : "memory");
}

/* Operands are read half a block ahead of their multiplication. */
template <int F, int LEVELS>
static __device__ void few_multiply(const struct krn_cuda_product_bf16 &a, struct ring r,
                                    float *sums, uint32_t unit0, uint32_t warp, uint32_t lane) {
    uint32_t blocks = a.k_blocks / a.parts, a_segment = a.k_blocks / a.segments;
    uint32_t segments = a.segments / a.parts, passes = a.units / a.warps;
    uint32_t part = warp / a.warps, unit = warp % a.warps, a_part = r.stage_bytes / a.parts;
    uint32_t weights = r.data + part * a_part + unit * UNIT_BYTES;
    uint32_t rows = r.data + part * a_part + a.warps * UNIT_BYTES;
    float *own = sums + warp * FINISH_WARP_FLOATS(F);
    struct few_half<F> even, odd;
    hopper_wait(r.full, 0);
    even.load(weights, rows, 0, lane);
    for (uint32_t pass = 0; pass < passes; pass++) {
        float acc[F * 4] = {};
        finish_tree<F * 4, LEVELS> tree;
        for (uint32_t b = 0, segment = 0, left = a_segment; b < blocks; b++) {
            uint32_t at = r.stage * r.stage_bytes, empty = r.empty + 8 * r.stage;
            odd.load(weights + at, rows + at, 1, lane);
            even.multiply(acc);
            r.next();
            if (b + 1 < blocks || pass + 1 < passes) {
                hopper_wait(r.full + 8 * r.stage, r.parity);
                at = r.stage * r.stage_bytes;
                even.load(weights + at, rows + at, 0, lane);
            }
            odd.multiply(acc);
            __syncwarp();
            if (lane == 0)
                hopper_arrive(empty);
            if (LEVELS > 0 && --left == 0) {
                tree.add(acc, segment++, segments);
                left = a_segment;
            }
        }
        if (a.parts > 1) {
            for (uint32_t i = 0; i < F * 4; i++)
                own[i * 32 + lane] = acc[i];
            few_sync(a.warps * a.parts);
            if (part == 0)
                few_parts<F>(acc, own, a.warps * FINISH_WARP_FLOATS(F), a.parts, lane);
        }
        if (part == 0)
            finish_warp<F>(a, own, (unit0 + pass * a.warps + unit) * 16, 0, acc, lane);
        if (a.parts > 1)
            few_sync(a.warps * a.parts); /* the sums have been read */
    }
}

template <int F, int LEVELS>
static __device__ __forceinline__ void few(const krn_cuda_product_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = a.warps * a.parts;
    uint32_t rows_at = a.warps * UNIT_BYTES, a_part = rows_at + F * KRN_BF16_ATOM_BYTES;
    struct ring r = ring_at(shared, a.stages, a.parts * a_part, blockDim.x / 32 - warps);
    if (threadIdx.x == 0)
        ring_open(r, warps);
    __syncthreads();
    hopper_let_next();
    uint32_t unit0 = blockIdx.x * a.units;
    if (warp >= warps) {
        const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.x);
        const struct ring_weights weights = {KRN_CUDA_AT(const unsigned char, a.w),
                                             krn_bf16_row_tiles(a.n) - 1,
                                             a.k_blocks,
                                             unit0 * 16,
                                             a.warps * 16,
                                             a.units / a.warps,
                                             a.parts,
                                             a_part};
        if (lane == 0)
            ring_load(r, warp - warps, weights, r.stage_bytes,
                      [=](uint32_t to, uint32_t block, uint32_t full) {
                          hopper_copy(to + rows_at, x + (size_t)block * KRN_BF16_TILE_BYTES,
                                      F * KRN_BF16_ATOM_BYTES, full);
                      });
        return;
    }
    hopper_wait_before(); /* what the end reads and writes */
    float *sums = (float *)(shared + RING_BARRIERS_BYTES + a.stages * r.stage_bytes);
    few_multiply<F, LEVELS>(a, r, sums, unit0, warp, lane);
}

#define FEW(rows, levels, threads)                                                                 \
    KRN_CUDA_KERNEL(krn_product_bf16_few_##rows, threads)                                          \
    (const __grid_constant__ struct krn_cuda_product_bf16 a) {                                     \
        few<rows / 8, levels>(a);                                                                  \
    }
FEW(8, 3, 512)
FEW(16, 3, 512)
FEW(32, 3, 384)
FEW(64, 0, 384) /* every segment is a part */
