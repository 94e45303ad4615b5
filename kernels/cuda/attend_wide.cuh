/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 for spans of many rows (numerics.md 16.5): eight warps of sixteen lines
 * each walk all tiles of the span; merged segments wait in shared memory.
 */
#ifndef KERNELS_CUDA_ATTEND_WIDE_CUH
#define KERNELS_CUDA_ATTEND_WIDE_CUH

#include "kernels/cuda/attend_bf16.cuh"

enum { WIDE_THREADS = 256 };

/* Items in descending order of their number: later spans of a prompt are longer. */
static __device__ struct attend_item wide_find(const struct krn_cuda_attend_bf16 &a,
                                               uint32_t item) {
    const struct krn_cuda_attend_table *table =
        KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table);
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
    float o[PANELS * 32]; /* four of every eight columns */
    struct attend_lines l;

    /* Scores to probabilities; returns the factors of what was there. */
    __device__ __forceinline__ void softmax(const struct attend_item &t, uint32_t line0,
                                            float (&s)[32], float (&alpha)[2], uint32_t base,
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
                    m = fmaxf(m, s[i / 2 * 4 + 2 * h + i % 2]);
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
                float p = tensor_exp2(__fmaf_rn(s[i / 2 * 4 + 2 * h + i % 2], c2, -b));
                p = !edge || (j >= lo && j < hi) ? p : 0.0f;
                l.sum[h] = __fadd_rn(l.sum[h], p);
                s[i / 2 * 4 + 2 * h + i % 2] = p;
            }
        }
    }

    __device__ __forceinline__ void begin(void) {
        l.begin();
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 32; i++)
            o[i] = 0.0f;
    }

    /* The probabilities of K-step ks as a fragment. */
    static __device__ __forceinline__ void fragment(const float (&s)[32], uint32_t ks,
                                                    uint32_t (&p)[4]) {
        for (uint32_t i = 0; i < 4; i++)
            p[i] = tensor_bf16x2(s[8 * ks + 2 * i], s[8 * ks + 2 * i + 1]);
    }

    __device__ __forceinline__ void shrink(const float (&alpha)[2]) {
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 32; i++)
            o[i] = __fmul_rn(o[i], alpha[i % 4 / 2]);
    }

    /* o = o + p * v by mma.sync; alone: line by line. */
    __device__ __forceinline__ void values(const struct attend_item &t, uint32_t line0,
                                           const float (&s)[32], uint32_t at, uint32_t base,
                                           uint32_t d, bool alone, uint32_t lane) {
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++) {
            uint32_t p[4];
            fragment(s, ks, p);
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 4; i++) {
                if (i * 16 >= d)
                    break;
                uint32_t v[4];
                attend_value(v, at, ks * 16, i * 16, lane);
                if (alone) {
                    attend_alone(t, line0, o + 8 * i, p, v[0], v[1], base + ks * 16);
                    attend_alone(t, line0, o + 8 * i + 4, p, v[2], v[3], base + ks * 16);
                } else {
                    tensor_step(o + 8 * i, p, v);
                    tensor_step(o + 8 * i + 4, p, v + 2);
                }
            }
        }
    }

    template <bool EDGE>
    __device__ __forceinline__ void tile(const struct attend_item &t, uint32_t line0, uint32_t at,
                                         uint32_t values_at, uint32_t base, uint32_t d, float c2,
                                         bool alone, uint32_t lane) {
        float s[32], alpha[2];
        attend_scores<PANELS * 4, 8>(s, q, at, 0, d, lane);
        softmax(t, line0, s, alpha, base, c2, EDGE, lane);
        shrink(alpha);
        if (EDGE && alone)
            values(t, line0, s, values_at, base, d, true, lane);
        else
            values(t, line0, s, values_at, base, d, false, lane);
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
                float y = w.o[i / 2 * 4 + 2 * h + i % 2];
                *to = begins ? y : merge(*to, y);
            }
        }
    }

    __device__ __forceinline__ void end(const struct krn_cuda_attend_bf16 &a,
                                        const struct attend_item &t, uint32_t line0,
                                        uint32_t lane) const {
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 16; i++) {
            uint32_t h = i % 2, block = i / 2;
            if (block * 8 < a.head_dim)
                attend_store(a, t, line0 + lane / 4 + 8 * h, block * 8 + lane % 4 * 2,
                             __fdiv_rn(at[(block * 4 + 2 * h) * WIDE_THREADS], sum[h]),
                             __fdiv_rn(at[(block * 4 + 2 * h + 1) * WIDE_THREADS], sum[h]));
        }
    }
};

static __device__ __forceinline__ uint32_t wide_items(const struct krn_cuda_attend_bf16 &a) {
    uint32_t group = a.heads / a.kv_heads;
    uint32_t chunks = (group + KRN_ATTEND_LINES_WIDE - 1) / KRN_ATTEND_LINES_WIDE;
    return KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table)->n_wide * a.kv_heads * chunks;
}

/* What LINES neighbouring lines see: keys that one of them does, and those that all do. */
struct wide_keys {
    uint32_t lo, hi, lo_most, hi_least;
    __device__ __forceinline__ wide_keys(const struct attend_item &t, uint32_t line,
                                         uint32_t lines) {
        uint32_t from = min(line, t.lines() - 1), last = min(line + lines - 1, t.lines() - 1);
        lo = t.lo(from);
        lo_most = t.lo(last);
        hi_least = t.hi(from);
        hi = t.hi(last);
    }
    __device__ __forceinline__ bool some(uint32_t base) const {
        return base < hi && base + ATTEND_TILE > lo;
    }
    __device__ __forceinline__ bool edge(uint32_t base) const {
        return base < lo_most || base + ATTEND_TILE > hi_least;
    }
};

#endif
