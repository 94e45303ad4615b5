/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 for spans of many rows (numerics.md 16.5): eight warps of sixteen lines
 * each walk all tiles of the span together; merged segments wait in shared memory.
 */
#include "kernels/cuda/attend_bf16.cuh"

enum { WIDE_THREADS = 256, WIDE_WARPS = 8 };

/* Items in descending order of their number: later spans of a prompt are longer. */
static __device__ struct attend_item wide_find(const struct krn_cuda_attend_bf16 &a,
                                               const struct krn_cuda_attend_table *table,
                                               uint32_t item) {
    const struct krn_cuda_attend_span *s = (const struct krn_cuda_attend_span *)(table + 1);
    uint32_t group = a.heads / a.kv_heads, each = min(group, (uint32_t)KRN_ATTEND_LINES_WIDE);
    uint32_t chunks = (group + each - 1) / each, a_span = a.kv_heads * chunks;
    uint32_t place = item % a_span, chunk = place % chunks, kv_head = place / chunks;
    s += table->n_wide - 1 - item / a_span;
    return {s->first_row,
            s->rows,
            s->first_pos,
            s->first_page,
            kv_head,
            kv_head * group + chunk * each,
            min(each, group - chunk * each),
            a.window};
}

/* The sixteen lines of a warp against one tile. */
template <int PANELS> struct wide_warp {
    uint32_t q[PANELS * 4][4];
    float o[PANELS * 8][4]; /* eight columns each */
    struct attend_lines l;

    /* Scores to probabilities; returns the factors of what was there. */
    __device__ __forceinline__ void softmax(const struct attend_item &t, uint32_t line0,
                                            float (&s)[8][4], float (&alpha)[2], uint32_t base,
                                            float c2, bool edge, uint32_t lane) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t line = line0 + lane / 4 + 8 * h, q2 = lane % 4 * 2;
            uint32_t lo = edge ? t.lo(line) : 0, hi = edge ? t.hi(line) : base + ATTEND_TILE;
            float m = -INFINITY;
#pragma unroll
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t j = base + i / 2 * 8 + q2 + i % 2;
                if (!edge || (j >= lo && j < hi))
                    m = fmaxf(m, s[i / 2][2 * h + i % 2]);
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            m = fmaxf(l.max[h], m);
            float b = __fmul_rn(m, c2);
            bool any = !edge || (lo < base + ATTEND_TILE && hi > base);
            alpha[h] = any ? tensor_exp2(__fsub_rn(__fmul_rn(l.max[h], c2), b)) : 1.0f;
            l.max[h] = m;
            l.sum[h] = __fmul_rn(l.sum[h], alpha[h]);
#pragma unroll
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t j = base + i / 2 * 8 + q2 + i % 2;
                float p = tensor_exp2(__fmaf_rn(s[i / 2][2 * h + i % 2], c2, -b));
                p = !edge || (j >= lo && j < hi) ? p : 0.0f;
                l.sum[h] = __fadd_rn(l.sum[h], p);
                s[i / 2][2 * h + i % 2] = p;
            }
        }
    }

    template <bool EDGE>
    __device__ __forceinline__ void tile(const struct attend_item &t, uint32_t line0, uint32_t at,
                                         uint32_t values, uint32_t base, uint32_t d, float c2,
                                         uint32_t lane) {
        float s[8][4], alpha[2];
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            attend_scores<PANELS * 4>(s[i], q, at, i * 8, d, lane);
        softmax(t, line0, s, alpha, base, c2, EDGE, lane);
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 8; i++)
            for (uint32_t e = 0; e < 4; e++)
                o[i][e] = __fmul_rn(o[i][e], alpha[e / 2]);
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++) {
            uint32_t p[4] = {tensor_bf16x2(s[2 * ks][0], s[2 * ks][1]),
                             tensor_bf16x2(s[2 * ks][2], s[2 * ks][3]),
                             tensor_bf16x2(s[2 * ks + 1][0], s[2 * ks + 1][1]),
                             tensor_bf16x2(s[2 * ks + 1][2], s[2 * ks + 1][3])};
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 4; i++) {
                if (i * 16 >= d)
                    break;
                uint32_t v[4];
                attend_value(v, values, ks * 16, i * 16, lane);
                if (EDGE) {
                    attend_step_masked(t, line0, o[2 * i], p, v[0], v[1], base + ks * 16, lane);
                    attend_step_masked(t, line0, o[2 * i + 1], p, v[2], v[3], base + ks * 16, lane);
                } else {
                    tensor_step(o[2 * i], p, v);
                    tensor_step(o[2 * i + 1], p, v + 2);
                }
            }
        }
    }
};

/* Merged segments: [value][thread], so that a warp's accesses lie side by side. */
template <int PANELS> struct wide_merged {
    float *at; /* this thread's first */
    float max[2], sum[2];

    __device__ __forceinline__ void take(const struct attend_item &t, uint32_t line0,
                                         const struct wide_warp<PANELS> &w, uint32_t segment,
                                         uint32_t keys, float c2, uint32_t lane) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t line = line0 + lane / 4 + 8 * h, first = t.lo(line) / keys;
            float total = w.l.total(h);
            bool begins = segment == first;
            struct attend_merge merge = {0.0f, 1.0f};
            if (segment > first && segment * keys < t.hi(line))
                merge.of(max[h], w.l.max[h], c2);
            else if (begins)
                max[h] = w.l.max[h];
            else
                continue;
            sum[h] = begins ? total : merge(sum[h], total);
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 16; i++) {
                float *to = at + ((i / 2) * 4 + 2 * h + i % 2) * WIDE_THREADS;
                float y = w.o[i / 2][2 * h + i % 2];
                *to = begins ? y : merge(*to, y);
            }
        }
    }
};

template <int PANELS>
static __device__ void wide_item(const struct krn_cuda_attend_bf16 &a, const struct attend_item &t,
                                 uint32_t ring, float *merged) {
    uint32_t lane = threadIdx.x % 32, line0 = threadIdx.x / 32 * 16, stage = 0;
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim);
    float c2 = __fmul_rn(a.scale, KRN_LOG2E);
    struct wide_warp<PANELS> w;
    struct wide_merged<PANELS> m = {
        merged + threadIdx.x, {-INFINITY, -INFINITY}, {
            0.0f, 0.0f
        }
    };
    bool here = line0 < t.lines(); /* warps without lines only help to fetch */
    uint32_t from = min(line0, t.lines() - 1), last = min(line0 + 15, t.lines() - 1);
    uint32_t lo = t.lo(from), lo_most = t.lo(last), hi_least = t.hi(from), hi = t.hi(last);
    uint32_t n = t.lo_least() / ATTEND_TILE, end = (t.hi_most() + ATTEND_TILE - 1) / ATTEND_TILE;
    uint32_t next = n;
    attend_queries<PANELS * 4>(a, t, line0, lane, w.q);
    for (uint32_t i = 0; i < ATTEND_STAGES - 1; i++) {
        if (next < end)
            attend_fetch<WIDE_THREADS>(a, t, next++, ring + i * stage_bytes);
        tensor_copies_end();
    }
    for (bool begins = true; n < end; n++) {
        uint32_t base = n * ATTEND_TILE;
        if (begins) {
            w.l.begin();
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 32; i++)
                w.o[i / 4][i % 4] = 0.0f;
        }
        tensor_copies_wait<ATTEND_STAGES - 2>();
        __syncthreads();
        uint32_t at = ring + stage * stage_bytes;
        if (next < end)
            attend_fetch<WIDE_THREADS>(
                a, t, next++, ring + (stage == 0 ? ATTEND_STAGES - 1 : stage - 1) * stage_bytes);
        tensor_copies_end();
        if (here && base < hi && base + ATTEND_TILE > lo) {
            if (base < lo_most || base + ATTEND_TILE > hi_least)
                w.template tile<true>(t, line0, at, at + stage_bytes / 2, base, a.head_dim, c2,
                                      lane);
            else
                w.template tile<false>(t, line0, at, at + stage_bytes / 2, base, a.head_dim, c2,
                                       lane);
        }
        stage = stage + 1 == ATTEND_STAGES ? 0 : stage + 1;
        begins = (base + ATTEND_TILE) % a.segment == 0 || n + 1 == end;
        if (begins)
            m.take(t, line0, w, base / a.segment, a.segment, c2, lane);
    }
    tensor_copies_wait<0>();
    __syncthreads(); /* the ring is free */
#pragma unroll
    for (uint32_t i = 0; i < PANELS * 16; i++) {
        uint32_t h = i % 2, block = i / 2;
        if (block * 8 < a.head_dim)
            attend_store(a, t, line0 + lane / 4 + 8 * h, block * 8 + lane % 4 * 2,
                         __fdiv_rn(m.at[(block * 4 + 2 * h) * WIDE_THREADS], m.sum[h]),
                         __fdiv_rn(m.at[(block * 4 + 2 * h + 1) * WIDE_THREADS], m.sum[h]));
    }
}

template <int PANELS> static __device__ __forceinline__ void wide(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const struct krn_cuda_attend_table *table =
        KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table);
    float *merged = (float *)(shared + ATTEND_STAGES * krn_bf16_kv_bytes(a.head_dim));
    uint32_t group = a.heads / a.kv_heads;
    uint32_t chunks = (group + KRN_ATTEND_LINES_WIDE - 1) / KRN_ATTEND_LINES_WIDE;
    uint32_t items = table->n_wide * a.kv_heads * chunks;
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x)
        wide_item<PANELS>(a, wide_find(a, table, i), tensor_shared(shared), merged);
}

#define WIDE(columns)                                                                              \
    KRN_CUDA_KERNEL(krn_attend_bf16_wide_##columns, 256)                                           \
    (const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                      \
        wide<columns / 64>(a);                                                                     \
    }
WIDE(64)
WIDE(128)
