/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 for few rows on Hopper (numerics.md 16.3): a block owns units of 16
 * outputs, one a warp, and streams their weights and all rows once, by mma.sync.
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

/* Operands are read half a block ahead of their multiplication. */
template <int F>
static __device__ void few_multiply(const struct krn_cuda_product_bf16 &a, struct ring r,
                                    float *sums, uint32_t unit0, uint32_t warp, uint32_t lane) {
    uint32_t a_segment = a.k_blocks / a.segments, passes = a.units / a.warps;
    uint32_t weights = r.data + warp * UNIT_BYTES, rows = r.data + a.warps * UNIT_BYTES;
    struct few_half<F> even, odd;
    hopper_wait(r.full, 0);
    even.load(weights, rows, 0, lane);
    for (uint32_t pass = 0; pass < passes; pass++) {
        float acc[F * 4] = {};
        finish_tree<F * 4, 3> tree;
        for (uint32_t b = 0, segment = 0, left = a_segment; b < a.k_blocks; b++) {
            uint32_t at = r.stage * r.stage_bytes, empty = r.empty + 8 * r.stage;
            odd.load(weights + at, rows + at, 1, lane);
            even.multiply(acc);
            r.next();
            if (b + 1 < a.k_blocks || pass + 1 < passes) {
                hopper_wait(r.full + 8 * r.stage, r.parity);
                at = r.stage * r.stage_bytes;
                even.load(weights + at, rows + at, 0, lane);
            }
            odd.multiply(acc);
            __syncwarp();
            if (lane == 0)
                hopper_arrive(empty);
            if (--left == 0) {
                tree.add(acc, segment++, a.segments);
                left = a_segment;
            }
        }
        uint32_t unit = unit0 + pass * a.warps + warp;
        finish_warp<F>(a, sums, unit * 16, 0, acc, lane);
    }
}

template <int F> static __device__ __forceinline__ void few(const krn_cuda_product_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t stage_bytes = a.warps * UNIT_BYTES + F * KRN_BF16_ATOM_BYTES;
    struct ring r = ring_at(shared, a.stages, stage_bytes);
    if (threadIdx.x == 0)
        ring_open(r, a.warps);
    __syncthreads();
    hopper_let_next();
    uint32_t unit0 = blockIdx.x * a.units;
    if (warp >= a.warps) {
        const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.x);
        uint32_t rows_at = a.warps * UNIT_BYTES;
        if (lane == 0)
            ring_load(r, warp - a.warps, KRN_CUDA_AT(const unsigned char, a.w),
                      krn_bf16_row_tiles(a.n) - 1, a.k_blocks, unit0 * 16, a.warps * 16,
                      a.units / a.warps, stage_bytes,
                      [=](uint32_t stage, uint32_t block, uint32_t full) {
                          hopper_copy(stage + rows_at, x + (size_t)block * KRN_BF16_TILE_BYTES,
                                      F * KRN_BF16_ATOM_BYTES, full);
                      });
        return;
    }
    hopper_wait_before(); /* what the end reads and writes */
    float *sums = (float *)(shared + RING_BARRIERS_BYTES + a.stages * stage_bytes);
    few_multiply<F>(a, r, sums + warp * FINISH_WARP_FLOATS(F), unit0, warp, lane);
}

#define FEW(rows)                                                                                  \
    KRN_CUDA_KERNEL(krn_product_bf16_few_##rows, 352)                                              \
    (const __grid_constant__ struct krn_cuda_product_bf16 a) {                                     \
        few<rows / 8>(a);                                                                          \
    }
FEW(8)
FEW(16)
FEW(32)
