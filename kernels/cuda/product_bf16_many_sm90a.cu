/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 for many rows on Hopper (numerics.md 16.3): a persistent block of two
 * multiplying warpgroups owns 128 outputs by N rows at a time; the two blocks of a cluster share
 * the rows.
 */
#include "kernels/cuda/finish_bf16.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    MANY_OUTPUTS = 128,
    MANY_CLUSTER = 2,
    MANY_LOADERS = 4,
    MANY_PITCH = 68 /* floats of a row of sums that leave */
};

/* many: where the cluster's turn `t` lies. Sixteen pairs of output tiles pass over all row tiles
 * before the next sixteen, so that what runs at one time shares its operands in L2. */
struct many_place {
    uint32_t rows_at, outputs_at; /* tiles of N rows, of MANY_OUTPUTS */
};

static __device__ __forceinline__ struct many_place many_at(const struct krn_cuda_product_bf16 &a,
                                                            uint32_t t, uint32_t rank) {
    enum { BAND = 8 };
    uint32_t pairs = a.n_tiles / MANY_CLUSTER, band = t / (BAND * a.row_tiles);
    uint32_t in = t - band * BAND * a.row_tiles;
    uint32_t width = pairs - band * BAND < BAND ? pairs - band * BAND : BAND;
    return {in / width, (band * BAND + in % width) * MANY_CLUSTER + rank};
}

/* One of the loading threads: every fourth block of 64 columns of all turns. */
template <int N>
static __device__ void many_load(const struct krn_cuda_product_bf16 &a, struct ring r,
                                 uint32_t rank, uint32_t loader) {
    enum {
        PIECE = N % 128 == 0 ? KRN_BF16_TILE_BYTES : KRN_BF16_TILE_BYTES / 2,
        PIECES = N * KRN_BF16_ROW_BYTES / PIECE / MANY_CLUSTER
    };
    const unsigned char *w = KRN_CUDA_AT(const unsigned char, a.w);
    const unsigned char *x = KRN_CUDA_AT(const unsigned char, a.x);
    size_t a_tile_row = (size_t)a.k_blocks * KRN_BF16_TILE_BYTES;
    uint32_t w_last = krn_bf16_row_tiles(a.n) - 1, x_last = krn_bf16_row_tiles(a.rows) - 1;
    uint32_t turns = a.row_tiles * a.n_tiles / MANY_CLUSTER, kb = loader;
    hopper_wait_before();
    r.parity = 1; /* an empty ring is free */
    r.stage = loader;
    for (uint32_t t = blockIdx.x / MANY_CLUSTER; t < turns; t += gridDim.x / MANY_CLUSTER) {
        struct many_place place = many_at(a, t, rank);
        uint32_t w0 = place.outputs_at * 2;
        const unsigned char *from_w[2] = {w + min(w0, w_last) * a_tile_row,
                                          w + min(w0 + 1, w_last) * a_tile_row};
        const unsigned char *from_x[PIECES];
#pragma unroll
        for (uint32_t i = 0; i < PIECES; i++) {
            uint32_t byte = (rank * PIECES + i) * PIECE;
            uint32_t tile = place.rows_at * (N / KRN_BF16_SIDE) + byte / KRN_BF16_TILE_BYTES;
            from_x[i] = x + min(tile, x_last) * a_tile_row + byte % KRN_BF16_TILE_BYTES;
        }
        for (; kb < a.k_blocks; kb += MANY_LOADERS, r.stride()) {
            uint32_t full = r.full + 8 * r.stage, at = r.at();
            size_t k = (size_t)kb * KRN_BF16_TILE_BYTES;
            hopper_wait(r.empty + 8 * r.stage, r.parity);
            hopper_expect(full, r.stage_bytes);
            hopper_copy(at, from_w[0] + k, KRN_BF16_TILE_BYTES, full);
            hopper_copy(at + KRN_BF16_TILE_BYTES, from_w[1] + k, KRN_BF16_TILE_BYTES, full);
#pragma unroll
            for (uint32_t i = 0; i < PIECES; i++)
                hopper_copy_to(at + 2 * KRN_BF16_TILE_BYTES + (rank * PIECES + i) * PIECE,
                               from_x[i] + k, PIECE, full, (1 << MANY_CLUSTER) - 1);
        }
        kb -= a.k_blocks;
    }
}

/* The tree over segments through the workspace: level by level as finish_tree. */
template <int R>
static __device__ void many_tree(const struct krn_cuda_product_bf16 &a, float (&acc)[R],
                                 uint32_t segment, uint32_t thread) {
    enum { THREADS = 256 };
    float4 *work = KRN_CUDA_AT(float4, a.work) + (size_t)blockIdx.x * 3 * (R / 4) * THREADS;
    uint32_t level = 0;
    for (; segment >> level & 1; level++) {
        float4 *from = work + (size_t)level * (R / 4) * THREADS + thread;
#pragma unroll
        for (uint32_t i = 0; i < R / 4; i++) {
            float4 v = __ldcg(from + i * THREADS);
            acc[4 * i] = __fadd_rn(v.x, acc[4 * i]);
            acc[4 * i + 1] = __fadd_rn(v.y, acc[4 * i + 1]);
            acc[4 * i + 2] = __fadd_rn(v.z, acc[4 * i + 2]);
            acc[4 * i + 3] = __fadd_rn(v.w, acc[4 * i + 3]);
        }
    }
    if (segment + 1 == a.segments)
        return;
    float4 *to = work + (size_t)level * (R / 4) * THREADS + thread;
#pragma unroll
    for (uint32_t i = 0; i < R / 4; i++) {
        __stcg(to + i * THREADS,
               make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
        acc[4 * i] = acc[4 * i + 1] = acc[4 * i + 2] = acc[4 * i + 3] = 0.0f;
    }
}

/* This group has read the stage before the current one: both blocks may fill it. */
static __device__ __forceinline__ void many_release(const struct ring &r, uint32_t thread) {
    uint32_t stage = r.stage == 0 ? r.stages - 1 : r.stage - 1;
    if (thread % 128 < MANY_CLUSTER)
        hopper_arrive_at(r.empty + 8 * stage, thread % 128);
}

/* fp32 results leave from registers, whole sectors of eight outputs at a time; nothing waits for
 * them. */
template <int N>
static __device__ __forceinline__ void many_store(const struct krn_cuda_product_bf16 &a,
                                                  const float (&acc)[N / 2], uint32_t o64,
                                                  uint32_t row0, uint32_t thread) {
    uint32_t o = o64 + thread % 128 / 32 * 16 + thread % 32 / 4, row = row0 + thread % 4 * 2;
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)row * a.ldy + o;
#pragma unroll
    for (uint32_t k = 0; k < N / 2; k++) {
        uint32_t down = k / 4 * 8 + k % 2, right = k % 4 / 2 * 8;
        if (row + down < a.rows && o + right < a.n)
            y[(size_t)down * a.ldy + right] = acc[k];
    }
}

/* Gated results as packed rows, from registers: the matrix of eight outputs by eight rows that a
 * warp holds is turned, so that each row's eight outputs lie side by side. */
template <int N>
static __device__ __forceinline__ void many_gate(const struct krn_cuda_product_bf16 &a,
                                                 const float (&acc)[N / 2], uint32_t o64,
                                                 uint32_t row0, uint32_t thread) {
    bool gelu = (a.flags & KRN_BF16_GATE_GELU) != 0;
    uint32_t o8 = (o64 + thread % 128 / 32 * 16) / 2, row = row0 + thread % 32 / 4;
    uint64_t place = krn_bf16_place(row, o8, a.packed_segment, a.packed_blocks);
    unsigned char *to = KRN_CUDA_AT(unsigned char, a.packed) + place + thread % 4 * 4;
#pragma unroll
    for (uint32_t i = 0; i < N / 8; i += 4) {
        float g[8], u[8], v[8];
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            g[j] = acc[4 * i + j / 2 * 4 + j % 2];
            u[j] = acc[4 * i + j / 2 * 4 + j % 2 + 2];
        }
        finish_gates<8>(v, g, u, gelu);
        size_t down = (size_t)(i / 8) * a.packed_blocks * KRN_BF16_TILE_BYTES;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t turned, two = tensor_bf16x2(v[2 * j], v[2 * j + 1]);
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
            if (row + (i + j) * 8 < a.rows && o8 < a.n / 2)
                *(uint32_t *)(to + down + (i + j) % 8 * KRN_BF16_ATOM_BYTES) = turned;
        }
    }
}

/* The group's 64 outputs by N rows leave through its part of shared memory, 64 rows at a time. */
template <int N>
static __device__ __forceinline__ void many_finish(const struct krn_cuda_product_bf16 &a,
                                                   float *sums, const float (&acc)[N / 2],
                                                   uint32_t o64, uint32_t row0, uint32_t thread) {
    uint32_t warp = thread % 128 / 32, lane = thread % 32;
    float *at = sums + lane % 4 * 2 * MANY_PITCH + warp * 16 + lane / 4;
#pragma unroll
    for (uint32_t rows = 0; rows < N; rows += 64) {
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            const float *c = acc + 4 * (rows / 8 + i);
            float *to = at + i * 8 * MANY_PITCH;
            to[0] = c[0];
            to[MANY_PITCH] = c[1];
            to[8] = c[2];
            to[MANY_PITCH + 8] = c[3];
        }
        asm volatile("bar.sync %0, 128;" ::"r"(1 + thread / 128) : "memory");
        finish_rows<128, 64>(a, sums, MANY_PITCH, row0 + rows, 64, o64, thread % 128);
        asm volatile("bar.sync %0, 128;" ::"r"(1 + thread / 128) : "memory");
    }
}

/* Levels of the tree over segments that fit into registers; 0: they go through the workspace. */
template <int N> struct many_levels {
    static const int n = N == 64 ? 3 : N == 128 ? 2 : N == 192 ? 1 : 0;
};

template <int N>
static __device__ void many_multiply(const struct krn_cuda_product_bf16 &a, struct ring r,
                                     float *sums, uint32_t rank, uint32_t thread) {
    uint32_t group = thread / 128, a_segment = a.k_blocks / a.segments;
    uint32_t turns = a.row_tiles * a.n_tiles / MANY_CLUSTER;
    for (uint32_t t = blockIdx.x / MANY_CLUSTER; t < turns; t += gridDim.x / MANY_CLUSTER) {
        float acc[N / 2];
        finish_tree<N / 2, many_levels<N>::n> tree;
#pragma unroll
        for (uint32_t i = 0; i < N / 2; i++)
            acc[i] = 0.0f;
        for (uint32_t segment = 0; segment < a.segments; segment++) {
            for (uint32_t kb = 0; kb < a_segment; kb++) {
                hopper_wait(r.full + 8 * r.stage, r.parity);
                uint64_t w = hopper_matrix(r.at() + group * KRN_BF16_TILE_BYTES);
                uint64_t x = hopper_matrix(r.at() + 2 * KRN_BF16_TILE_BYTES);
                hopper_multiply_begin();
#pragma unroll
                for (uint32_t ks = 0; ks < 4; ks++)
                    wgmma_step<N>(acc, w + 2 * ks, x + 2 * ks);
                hopper_multiply_end();
                if (kb > 0) {
                    hopper_multiply_wait<1>();
                    many_release(r, thread);
                }
                r.next();
            }
            hopper_multiply_wait<0>();
            many_release(r, thread);
            if (many_levels<N>::n > 0)
                tree.add(acc, segment, a.segments);
            else if (a.segments > 1)
                many_tree<N / 2>(a, acc, segment, thread);
        }
        struct many_place place = many_at(a, t, rank);
        uint32_t o64 = place.outputs_at * MANY_OUTPUTS + group * 64;
        uint32_t row0 = place.rows_at * N;
        if (o64 >= a.n)
            continue;
        if (N == 256 && a.bias == 0 && a.packed == 0 && a.flags == 0)
            many_store<N>(a, acc, o64, row0, thread);
        else if (N == 256 && a.bias == 0 && a.y == 0 && a.flags & KRN_BF16_GATE)
            many_gate<N>(a, acc, o64, row0, thread);
        else
            many_finish<N>(a, sums + group * 64 * MANY_PITCH, acc, o64, row0, thread);
    }
}

template <int N> static __device__ __forceinline__ void many(const krn_cuda_product_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t rank = hopper_cluster_rank();
    uint32_t stage_bytes = 2 * KRN_BF16_TILE_BYTES + N * KRN_BF16_ROW_BYTES;
    struct ring r = ring_at(shared, a.stages, stage_bytes, MANY_LOADERS);
    if (threadIdx.x == 0)
        ring_open(r, 2 * MANY_CLUSTER);
    hopper_cluster_sync();
    hopper_let_next();
    if (threadIdx.x < 128) {
        hopper_registers_less<40>();
        if (threadIdx.x % 32 == 0)
            many_load<N>(a, r, rank, threadIdx.x / 32);
        __syncwarp();
    } else {
        hopper_registers_more<232>();
        hopper_wait_before();
        float *sums = (float *)(shared + RING_BARRIERS_BYTES + a.stages * stage_bytes);
        many_multiply<N>(a, r, sums, rank, threadIdx.x - 128);
    }
    hopper_cluster_sync(); /* a block's memory stays until the other has no more copies into it */
}

#define MANY(rows)                                                                                 \
    extern "C" __global__ void __launch_bounds__(384, 1)                                           \
        krn_product_bf16_many_##rows(const __grid_constant__ struct krn_cuda_product_bf16 a) {     \
        many<rows>(a);                                                                             \
    }
MANY(64)
MANY(128)
MANY(192)
MANY(256)
