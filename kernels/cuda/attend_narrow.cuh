/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 for spans of up to sixteen lines (numerics.md 16.5): warps share a few
 * tiles, each the scores of its own keys, then all probabilities against its own columns of V.
 */
#ifndef KERNELS_CUDA_ATTEND_NARROW_CUH
#define KERNELS_CUDA_ATTEND_NARROW_CUH

#include "kernels/cuda/attend_bf16.cuh"

/* Probabilities of a line in a tile: pairs without bank conflicts. */
enum { NARROW_PITCH = KRN_ATTEND_PITCH };

/* All of WARPS warps. */
template <int WARPS, int BARRIER> static __device__ __forceinline__ void narrow_sync(void) {
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(32 * WARPS) : "memory");
}

/* An item, its segments, and where it lies among the items of its span. */
struct narrow_work {
    struct attend_item t;
    uint32_t segment0, segments; /* this item's */
    uint32_t split;              /* of so many items, which are a_segment items apart */
    uint32_t item, item0, a_segment;
};

/* By a whole warp: 32 spans are looked at in one go. */
static __device__ void narrow_find(const struct krn_cuda_attend_bf16 &a, uint32_t item,
                                   struct narrow_work *w) {
    const struct krn_cuda_attend_table *table =
        KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table);
    const struct krn_cuda_attend_span *s =
        (const struct krn_cuda_attend_span *)(table + 1) + table->n_wide;
    uint32_t low = 0, high = table->n_narrow; /* the last span whose first item is not behind */
    while (high - low > 1) {
        uint32_t each = (high - low + 31) / 32, at = low + threadIdx.x % 32 * each;
        bool before = at < high && s[at].first_item <= item;
        low += (31 - __clz(__ballot_sync(0xffffffffu, before))) * each;
        high = min(high, low + each);
    }
    s += low;
    uint32_t group = a.heads / a.kv_heads, each = min(group, (uint32_t)KRN_ATTEND_LINES);
    uint32_t chunks = (group + each - 1) / each, in = item - s->first_item;
    w->a_segment = a.kv_heads * chunks;
    uint32_t place = in % w->a_segment, chunk = place % chunks;
    w->t.first_row = s->first_row;
    w->t.rows = s->rows;
    w->t.first_pos = s->first_pos;
    w->t.first_page = s->first_page;
    w->t.kv_head = place / chunks;
    w->t.head0 = w->t.kv_head * group + chunk * each;
    w->t.heads = min(each, group - chunk * each);
    w->t.window = a.window;
    w->segment0 = w->t.lo_least() / a.segment;
    w->segments = (w->t.hi_most() - 1) / a.segment - w->segment0 + 1;
    w->split = 0;
    w->item = item;
    w->item0 = s->first_item + place;
    if (s->split) {
        w->split = w->segments;
        w->segment0 += in / w->a_segment;
        w->segments = 1;
    }
}

/* Whether some line does not see all of the tile that begins with key base. */
static __device__ __forceinline__ bool narrow_edge(const struct attend_item &t, uint32_t base) {
    return base < t.lo_most() || base + ATTEND_TILE > t.hi_least();
}

/* What this thread's two lines see. */
struct narrow_sees {
    uint32_t lo[2], hi[2];
    __device__ __forceinline__ void begin(const struct attend_item &t) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t line = threadIdx.x % 32 / 4 + 8 * h;
            lo[h] = t.lo(line);
            hi[h] = t.hi(line);
        }
    }
};

/* Keys of a step that one warp scores: KEYS neighbours of one tile. */
template <int WARPS, int TILES> struct narrow_keys {
    static const int KEYS = TILES * ATTEND_TILE / WARPS, A_TILE = WARPS / TILES;
    float s[KEYS / 2];  /* four of every eight keys */
    uint32_t tile, key; /* of the step; of the tile */
    uint32_t lo[2], hi[2];

    /* Of the tile's A_TILE parts, part. */
    __device__ __forceinline__ void begin(const struct narrow_sees &sees, uint32_t base, bool edge,
                                          uint32_t part) {
        key = part * KEYS;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            lo[h] = edge ? sees.lo[h] : 0;
            hi[h] = edge ? sees.hi[h] : base + ATTEND_TILE;
        }
    }
    /* Whether line h sees a key of the tile. */
    __device__ __forceinline__ bool any(uint32_t h, uint32_t base) const {
        return lo[h] < base + ATTEND_TILE && hi[h] > base;
    }
    /* The place of score 4 * i + 2 * h + k, and whether line h sees it. */
    __device__ __forceinline__ uint32_t at(uint32_t i, uint32_t k) const {
        return key + i * 8 + threadIdx.x % 4 * 2 + k;
    }
    __device__ __forceinline__ bool seen(uint32_t h, uint32_t base, uint32_t i, uint32_t k) const {
        uint32_t j = base + at(i, k);
        return j >= lo[h] && j < hi[h];
    }
    /* The greatest visible score of line h, in all four of its threads. */
    __device__ __forceinline__ float max(uint32_t h, uint32_t base) const {
        float m = -INFINITY;
#pragma unroll
        for (uint32_t i = 0; i < KEYS / 4; i++)
            if (seen(h, base, i / 2, i % 2))
                m = fmaxf(m, s[i / 2 * 4 + 2 * h + i % 2]);
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        return fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
    }
    /* Of the i-th eight keys the two of this thread. */
    __device__ __forceinline__ float2 probabilities(uint32_t h, uint32_t base, float c2, float b,
                                                    uint32_t i) const {
        float x = tensor_exp2(__fmaf_rn(s[4 * i + 2 * h], c2, -b));
        float y = tensor_exp2(__fmaf_rn(s[4 * i + 2 * h + 1], c2, -b));
        return make_float2(seen(h, base, i, 0) ? x : 0.0f, seen(h, base, i, 1) ? y : 0.0f);
    }
};

/* The item's values of this warp: pairs of eight columns, warp, warp + WARPS, ... */
template <int PANELS, int WARPS> struct narrow_values {
    static const int PAIRS = (PANELS * 4 + WARPS - 1) / WARPS;
    float c[PAIRS][2][4];
    /* First of a pair's sixteen columns. */
    static __device__ __forceinline__ uint32_t column(uint32_t pair) {
        return (pair * WARPS + threadIdx.x / 32) * 16;
    }
    __device__ __forceinline__ void begin(void) {
#pragma unroll
        for (uint32_t i = 0; i < PAIRS * 8; i++)
            c[i / 8][i / 4 % 2][i % 4] = 0.0f;
    }
    /* Fragments of a tile's values. */
    static __device__ __forceinline__ void load(uint32_t (&v)[PAIRS][4][4], uint32_t values,
                                                uint32_t d) {
#pragma unroll
        for (uint32_t i = 0; i < PAIRS; i++)
            if (column(i) < d)
#pragma unroll
                for (uint32_t ks = 0; ks < 4; ks++)
                    attend_value(v[i][ks], values, ks * 16, column(i), threadIdx.x % 32);
    }
    /* alone: base is the tile's first key. */
    __device__ __forceinline__ void step(const struct attend_item &t, const uint32_t (&p)[4][4],
                                         const uint32_t (&v)[PAIRS][4][4], const float (&alpha)[2],
                                         uint32_t d, bool alone, uint32_t base) {
#pragma unroll
        for (uint32_t i = 0; i < PAIRS * 8; i++)
            c[i / 8][i / 4 % 2][i % 4] = __fmul_rn(c[i / 8][i / 4 % 2][i % 4], alpha[i % 4 / 2]);
#pragma unroll
        for (uint32_t ks = 0; ks < 4 && !alone; ks++)
#pragma unroll
            for (uint32_t i = 0; i < PAIRS; i++)
                if (column(i) < d) {
                    tensor_step(c[i][0], p[ks], v[i][ks]);
                    tensor_step(c[i][1], p[ks], v[i][ks] + 2);
                }
        if (alone)
            step_alone(t, p, v, d, base);
    }
    __device__ __forceinline__ void step_alone(const struct attend_item &t,
                                               const uint32_t (&p)[4][4],
                                               const uint32_t (&v)[PAIRS][4][4], uint32_t d,
                                               uint32_t base) {
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++)
#pragma unroll
            for (uint32_t i = 0; i < PAIRS; i++)
                if (column(i) < d) {
                    attend_alone(t, 0, c[i][0], p[ks], v[i][ks][0], v[i][ks][1], base + ks * 16);
                    attend_alone(t, 0, c[i][1], p[ks], v[i][ks][2], v[i][ks][3], base + ks * 16);
                }
    }
};

/* A segment of values has ended for line h: its values y go into x. begins: it is the first. */
template <int PANELS, int WARPS>
static __device__ __forceinline__ void
narrow_join(struct narrow_values<PANELS, WARPS> &x, const struct narrow_values<PANELS, WARPS> &y,
            uint32_t h, const struct attend_merge &merge, bool begins) {
#pragma unroll
    for (uint32_t i = 0; i < x.PAIRS * 4; i++) {
        float &to = x.c[i / 4][i / 2 % 2][2 * h + i % 2];
        float from = y.c[i / 4][i / 2 % 2][2 * h + i % 2];
        to = begins ? from : merge(to, from);
    }
}

/* The item's results: values over the lines' sums. */
template <int PANELS, int WARPS>
static __device__ __forceinline__ void
narrow_store(const struct krn_cuda_attend_bf16 &a, const struct attend_item &t,
             const struct narrow_values<PANELS, WARPS> &o, const float (&sum)[2]) {
    uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t i = 0; i < o.PAIRS * 4; i++) {
        uint32_t d = o.column(i / 4) + i / 2 % 2 * 8 + lane % 4 * 2, h = i % 2;
        const float *c = o.c[i / 4][i / 2 % 2] + 2 * h;
        if (d < a.head_dim)
            attend_store(a, t, lane / 4 + 8 * h, d, __fdiv_rn(c[0], sum[h]),
                         __fdiv_rn(c[1], sum[h]));
    }
}

/* A segment's part of a split item goes to the workspace. */
static __device__ __forceinline__ float *narrow_values_at(const struct krn_cuda_attend_bf16 &a,
                                                          uint32_t item) {
    return KRN_CUDA_AT(float, a.work) + a.items_max + (size_t)item * KRN_ATTEND_LINES * a.head_dim;
}

static __device__ __forceinline__ float2 *narrow_lines_at(const struct krn_cuda_attend_bf16 &a,
                                                          uint32_t item) {
    return (float2 *)narrow_values_at(a, a.items_max) + (size_t)item * KRN_ATTEND_LINES;
}

template <int PANELS, int WARPS>
static __device__ void narrow_leave(const struct krn_cuda_attend_bf16 &a,
                                    const struct narrow_work &w,
                                    const struct narrow_values<PANELS, WARPS> &o) {
    float *values = narrow_values_at(a, w.item);
    uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t i = 0; i < o.PAIRS * 4; i++) {
        uint32_t d = o.column(i / 4) + i / 2 % 2 * 8 + lane % 4 * 2, line = lane / 4 + i % 2 * 8;
        const float *c = o.c[i / 4][i / 2 % 2] + i % 2 * 2;
        if (d < a.head_dim && line < w.t.lines())
            *(float2 *)(values + line * a.head_dim + d) = make_float2(c[0], c[1]);
    }
}

/* All WARPS warps, behind a barrier that all who left parts of the item came to: whether this block
 * came last. One thread's fences order what the others wrote, and will read, around barriers. */
template <int WARPS, int BARRIER>
static __device__ bool narrow_last(const struct krn_cuda_attend_bf16 &a,
                                   const struct narrow_work &w) {
    __shared__ uint32_t came;
    uint32_t *count = KRN_CUDA_AT(uint32_t, a.work) + w.item0;
    if (threadIdx.x == 0) {
        __threadfence();
        came = atomicAdd(count, 1);
        if (came + 1 == w.split) {
            *count = 0;
            __threadfence();
        }
    }
    narrow_sync<WARPS, BARRIER>();
    return came + 1 == w.split;
}

/* The block that came last merges all segments in ascending order. */
template <int WARPS>
static __device__ void narrow_merge(const struct krn_cuda_attend_bf16 &a,
                                    const struct narrow_work &w, float c2) {
    enum { AHEAD = 8 };
    uint32_t segment0 = w.t.lo_least() / a.segment, pairs = a.head_dim / 2;
    for (uint32_t i = threadIdx.x; i < w.t.lines() * pairs; i += 32 * WARPS) {
        uint32_t line = i / pairs, d = i % pairs * 2, lo = w.t.lo(line), hi = w.t.hi(line);
        uint32_t from = lo / a.segment, end = (hi - 1) / a.segment + 1;
        float max = -INFINITY, sum = 0.0f;
        float2 o = make_float2(0.0f, 0.0f);
        for (uint32_t s0 = from; s0 < end; s0 += AHEAD) {
            float2 l[AHEAD], v[AHEAD];
#pragma unroll
            for (uint32_t k = 0; k < AHEAD; k++) {
                uint32_t item = w.item0 + (min(s0 + k, end - 1) - segment0) * w.a_segment;
                l[k] = __ldcg(narrow_lines_at(a, item) + line);
                v[k] = __ldcg((const float2 *)(narrow_values_at(a, item) + line * a.head_dim + d));
            }
#pragma unroll
            for (uint32_t k = 0; k < AHEAD && s0 + k < end; k++) {
                struct attend_merge merge;
                if (s0 + k == from) {
                    max = l[k].x;
                    sum = l[k].y;
                    o = v[k];
                    continue;
                }
                merge.of(max, l[k].x, c2);
                sum = merge(sum, l[k].y);
                o = make_float2(merge(o.x, v[k].x), merge(o.y, v[k].y));
            }
        }
        attend_store(a, w.t, line, d, __fdiv_rn(o.x, sum), __fdiv_rn(o.y, sum));
    }
}

/* An item's tiles: from first to end - 1. */
static __device__ __forceinline__ uint32_t narrow_first_tile(const struct krn_cuda_attend_bf16 &a,
                                                             const struct narrow_work &w) {
    return max(w.segment0 * a.segment, w.t.lo_least()) / ATTEND_TILE;
}

static __device__ __forceinline__ uint32_t narrow_end_tile(const struct krn_cuda_attend_bf16 &a,
                                                           const struct narrow_work &w) {
    uint32_t end = min((w.segment0 + w.segments) * a.segment, w.t.hi_most());
    return (end + ATTEND_TILE - 1) / ATTEND_TILE;
}

#endif
