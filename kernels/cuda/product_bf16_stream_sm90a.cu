/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 for up to 256 rows on Hopper (numerics.md 16.3): every block streams the
 * weights of its own O outputs once, a warpgroup for each 64 rows multiplies them by wgmma with the
 * rows as M, and the two blocks of a cluster fetch half of the rows each for both.
 */
#include "kernels/cuda/finish_bf16.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    STREAM_CLUSTER = 2,
    STREAM_PITCH = 40, /* floats of a row of sums that leave */
    STREAM_WARP_FLOATS = 16 * STREAM_PITCH
};

/* A loading thread: weights of its own block, and the atoms (eight rows) that fall to this block,
 * for the whole cluster. */
static __device__ void stream_load(const struct krn_cuda_product_bf16 &a, const struct ring &r,
                                   uint32_t outputs, uint32_t loader) {
    uint32_t atoms = (a.rows + 7) / 8, rank = hopper_cluster_rank();
    uint32_t first = atoms * rank / STREAM_CLUSTER, end = atoms * (rank + 1) / STREAM_CLUSTER;
    struct ring_pieces rows;
    rows.cut(KRN_CUDA_AT(const unsigned char, a.x), a.k_blocks, krn_bf16_row_tiles(a.rows) - 1,
             first * 8, (end - first) * 8,
             outputs * KRN_BF16_ROW_BYTES + first * KRN_BF16_ATOM_BYTES);
    const struct ring_weights weights = {KRN_CUDA_AT(const unsigned char, a.w),
                                         krn_bf16_row_tiles(a.n) - 1,
                                         a.k_blocks,
                                         blockIdx.x * a.units * 16,
                                         outputs,
                                         a.units * 16 / outputs,
                                         1,
                                         0};
    ring_load(r, loader, weights, outputs * KRN_BF16_ROW_BYTES + atoms * KRN_BF16_ATOM_BYTES,
              [=](uint32_t stage, uint32_t block, uint32_t full) {
                  rows.copy_to(stage, block, full, (1 << STREAM_CLUSTER) - 1);
              });
}

/* Sixteen rows of a warp leave, 32 outputs at a time. */
template <int O>
static __device__ __forceinline__ void stream_finish(const struct krn_cuda_product_bf16 &a,
                                                     float *sums, const float (&acc)[O / 2],
                                                     uint32_t o0, uint32_t row0, uint32_t lane) {
    if (row0 >= a.rows)
        return;
    float *at = sums + lane / 4 * STREAM_PITCH + lane % 4 * 2;
#pragma unroll
    for (uint32_t o = 0; o < O; o += 32) {
#pragma unroll
        for (uint32_t i = 0; i < 4 && o + 8 * i < O; i++) {
            const float *c = acc + o / 2 + 4 * i;
            *(float2 *)(at + 8 * i) = make_float2(c[0], c[1]);
            *(float2 *)(at + 8 * STREAM_PITCH + 8 * i) = make_float2(c[2], c[3]);
        }
        __syncwarp();
        if (o + 32 <= O)
            finish_rows<32, 32>(a, sums, STREAM_PITCH, row0, 16, o0 + o, lane);
        else
            finish_rows<32, 16>(a, sums, STREAM_PITCH, row0, 16, o0 + o, lane);
        __syncwarp();
    }
}

static __device__ __forceinline__ void stream_release(const struct ring &r, uint32_t thread) {
    uint32_t stage = r.stage == 0 ? r.stages - 1 : r.stage - 1;
    if (thread % 128 < STREAM_CLUSTER)
        hopper_arrive_at(r.empty + 8 * stage, thread % 128);
}

template <int O, int LEVELS>
static __device__ void stream_multiply(const struct krn_cuda_product_bf16 &a, struct ring r,
                                       float *sums, uint32_t thread) {
    uint32_t a_segment = a.k_blocks / a.segments, group = thread / 128;
    for (uint32_t pass = 0; pass < a.units * 16 / O; pass++) {
        float acc[O / 2];
        finish_tree<O / 2, LEVELS> tree;
#pragma unroll
        for (uint32_t i = 0; i < O / 2; i++)
            acc[i] = 0.0f;
        for (uint32_t segment = 0; segment < a.segments; segment++) {
            for (uint32_t kb = 0; kb < a_segment; kb++) {
                hopper_wait(r.full + 8 * r.stage, r.parity);
                uint64_t w = hopper_matrix(r.at());
                uint64_t x =
                    hopper_matrix(r.at() + O * KRN_BF16_ROW_BYTES + group * KRN_BF16_TILE_BYTES);
                hopper_multiply_begin();
#pragma unroll
                for (uint32_t ks = 0; ks < 4; ks++)
                    wgmma_step<O>(acc, x + 2 * ks, w + 2 * ks);
                hopper_multiply_end();
                if (kb > 0) {
                    hopper_multiply_wait<1>();
                    stream_release(r, thread);
                }
                r.next();
            }
            hopper_multiply_wait<0>();
            stream_release(r, thread);
            tree.add(acc, segment, a.segments);
        }
        uint32_t o0 = blockIdx.x * a.units * 16 + pass * O;
        stream_finish<O>(a, sums, acc, o0, thread / 32 * 16, thread % 32);
    }
}

template <int O, int LEVELS>
static __device__ __forceinline__ void stream(const krn_cuda_product_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t groups = (a.rows + 63) / 64, warp = threadIdx.x / 32;
    uint32_t stage_bytes = O * KRN_BF16_ROW_BYTES + groups * KRN_BF16_TILE_BYTES;
    struct ring r = ring_at(shared, a.stages, stage_bytes, blockDim.x / 32 - groups * 4);
    if (threadIdx.x == 0)
        ring_open(r, STREAM_CLUSTER * groups);
    hopper_cluster_sync();
    hopper_let_next();
    if (warp >= groups * 4) {
        if (threadIdx.x % 32 == 0)
            stream_load(a, r, O, warp - groups * 4);
        __syncwarp();
    } else {
        hopper_wait_before(); /* what the end reads and writes */
        float *sums = (float *)(shared + RING_BARRIERS_BYTES + a.stages * stage_bytes);
        stream_multiply<O, LEVELS>(a, r, sums + warp * STREAM_WARP_FLOATS, threadIdx.x);
    }
    hopper_cluster_sync(); /* a block's memory stays until the others have no more copies into it */
}

#define STREAM(outputs, levels)                                                                    \
    KRN_CUDA_KERNEL(krn_product_bf16_stream_##outputs, 640)                                        \
    (const __grid_constant__ struct krn_cuda_product_bf16 a) {                                     \
        stream<outputs, levels>(a);                                                                \
    }
STREAM(16, 3)
STREAM(32, 3)
STREAM(48, 0)
STREAM(64, 0)
STREAM(80, 0)
STREAM(96, 0)
STREAM(112, 0)
