/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 for spans of up to sixteen lines (numerics.md 16.5): four warps share a
 * tile, each the scores of sixteen keys, then all probabilities against its own columns of V.
 */
#ifndef KERNELS_CUDA_ATTEND_NARROW_CUH
#define KERNELS_CUDA_ATTEND_NARROW_CUH

#include "kernels/cuda/attend_bf16.cuh"

enum { NARROW_THREADS = 128, NARROW_PITCH = 68 };

/* All threads that multiply. */
static __device__ __forceinline__ void narrow_sync(void) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

/* An item, its segments, and where it lies among the items of its span. */
struct narrow_work {
    struct attend_item t;
    uint32_t segment0, segments; /* this item's */
    uint32_t split;              /* of so many items, which are a_segment items apart */
    uint32_t item, item0, a_segment;
};

static __device__ void narrow_find(const struct krn_cuda_attend_bf16 &a, uint32_t item,
                                   struct narrow_work *w) {
    const struct krn_cuda_attend_table *table =
        KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table);
    const struct krn_cuda_attend_span *s =
        (const struct krn_cuda_attend_span *)(table + 1) + table->n_wide;
    uint32_t low = 0, high = table->n_narrow; /* the last span whose first item is not behind */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (s[middle].first_item <= item)
            low = middle;
        else
            high = middle;
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

/* Probabilities of this warp's sixteen keys into shared memory; the lines' maxima move on. */
static __device__ __forceinline__ void narrow_softmax(const struct attend_item &t, float *p,
                                                      float *maxima, float (&s)[8],
                                                      struct attend_lines &l, float (&alpha)[2],
                                                      uint32_t base, float c2, bool edge,
                                                      uint32_t warp, uint32_t lane) {
    uint32_t q = lane % 4 * 2, line = lane / 4;
    bool seen[2][2][2], any[2] = {true, true};
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t lo = edge ? t.lo(line + 8 * h) : 0,
                 hi = edge ? t.hi(line + 8 * h) : base + ATTEND_TILE;
        any[h] = lo < base + ATTEND_TILE && hi > base;
        float m = -INFINITY;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t j = base + warp * 16 + i / 2 * 8 + q + i % 2;
            seen[h][i / 2][i % 2] = j >= lo && j < hi;
            if (seen[h][i / 2][i % 2])
                m = fmaxf(m, s[i / 2 * 4 + 2 * h + i % 2]);
        }
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        if (q == 0)
            maxima[warp * 16 + line + 8 * h] = m;
    }
    narrow_sync();
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        float m = l.max[h];
        for (uint32_t w = 0; w < 4; w++)
            m = fmaxf(m, maxima[w * 16 + line + 8 * h]);
        float b = __fmul_rn(m, c2);
        alpha[h] = any[h] ? tensor_exp2(__fsub_rn(__fmul_rn(l.max[h], c2), b)) : 1.0f;
        l.max[h] = m;
        for (uint32_t i = 0; i < 2; i++) {
            float x = tensor_exp2(__fmaf_rn(s[4 * i + 2 * h], c2, -b));
            float y = tensor_exp2(__fmaf_rn(s[4 * i + 2 * h + 1], c2, -b));
            *(float2 *)(p + (line + 8 * h) * NARROW_PITCH + warp * 16 + i * 8 + q) =
                make_float2(seen[h][i][0] ? x : 0.0f, seen[h][i][1] ? y : 0.0f);
        }
    }
    narrow_sync();
}

/* All probabilities: their sums, and fragments of them. */
static __device__ __forceinline__ void narrow_probabilities(const float *p, struct attend_lines &l,
                                                            const float (&alpha)[2],
                                                            uint32_t (&f)[4][4], uint32_t lane) {
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        l.sum[h] = __fmul_rn(l.sum[h], alpha[h]);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            float2 v =
                *(const float2 *)(p + (lane / 4 + 8 * h) * NARROW_PITCH + i * 8 + lane % 4 * 2);
            l.sum[h] = __fadd_rn(__fadd_rn(l.sum[h], v.x), v.y);
            f[i / 2][h + i % 2 * 2] = tensor_bf16x2(v.x, v.y);
        }
    }
}

/* The item's values of this warp: pairs of eight columns, warp, warp + 4, ... */
template <int PANELS> struct narrow_values {
    float c[PANELS][2][4];
    __device__ __forceinline__ void begin(void) {
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 8; i++)
            c[i / 8][i / 4 % 2][i % 4] = 0.0f;
    }
    __device__ __forceinline__ void step(const struct attend_item &t, const uint32_t (&p)[4][4],
                                         const float (&alpha)[2], uint32_t values, uint32_t base,
                                         uint32_t d, bool alone, uint32_t warp, uint32_t lane) {
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 8; i++)
            c[i / 8][i / 4 % 2][i % 4] = __fmul_rn(c[i / 8][i / 4 % 2][i % 4], alpha[i % 4 / 2]);
        if (alone) {
            step_alone(t, p, values, base, d, warp, lane);
            return;
        }
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++)
#pragma unroll
            for (uint32_t i = 0; i < PANELS; i++) {
                uint32_t v[4], column = (i * 4 + warp) * 16;
                if (column >= d)
                    break;
                attend_value(v, values, ks * 16, column, lane);
                tensor_step(c[i][0], p[ks], v);
                tensor_step(c[i][1], p[ks], v + 2);
            }
    }
    __device__ __forceinline__ void step_alone(const struct attend_item &t,
                                               const uint32_t (&p)[4][4], uint32_t values,
                                               uint32_t base, uint32_t d, uint32_t warp,
                                               uint32_t lane) {
#pragma unroll
        for (uint32_t ks = 0; ks < 4; ks++)
#pragma unroll
            for (uint32_t i = 0; i < PANELS; i++) {
                uint32_t v[4], column = (i * 4 + warp) * 16;
                if (column >= d)
                    break;
                attend_value(v, values, ks * 16, column, lane);
                attend_alone(t, 0, c[i][0], p[ks], v[0], v[1], base + ks * 16);
                attend_alone(t, 0, c[i][1], p[ks], v[2], v[3], base + ks * 16);
            }
    }
};

/* A segment's part of a split item goes to the workspace. */
static __device__ __forceinline__ float *narrow_values_at(const struct krn_cuda_attend_bf16 &a,
                                                          uint32_t item) {
    return KRN_CUDA_AT(float, a.work) + a.items_max + (size_t)item * KRN_ATTEND_LINES * a.head_dim;
}

static __device__ __forceinline__ float2 *narrow_lines_at(const struct krn_cuda_attend_bf16 &a,
                                                          uint32_t item) {
    return (float2 *)narrow_values_at(a, a.items_max) + (size_t)item * KRN_ATTEND_LINES;
}

template <int PANELS>
static __device__ void narrow_leave(const struct krn_cuda_attend_bf16 &a,
                                    const struct narrow_work &w, const struct attend_lines &l,
                                    const struct narrow_values<PANELS> &o, uint32_t warp,
                                    uint32_t lane) {
    float *values = narrow_values_at(a, w.item);
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t line = lane / 4 + 8 * h;
        float total = l.total(h);
        if (warp == 0 && lane % 4 == 0)
            narrow_lines_at(a, w.item)[line] = make_float2(l.max[h], total);
#pragma unroll
        for (uint32_t i = 0; i < PANELS * 2; i++) {
            uint32_t d = (i / 2 * 4 + warp) * 16 + i % 2 * 8 + lane % 4 * 2;
            const float *c = o.c[i / 2][i % 2];
            if (d < a.head_dim && line < w.t.lines())
                *(float2 *)(values + line * a.head_dim + d) =
                    make_float2(h == 0 ? c[0] : c[2], h == 0 ? c[1] : c[3]);
        }
    }
}

/* The block that comes last merges all segments in ascending order. */
static __device__ void narrow_merge(const struct krn_cuda_attend_bf16 &a,
                                    const struct narrow_work &w, float c2) {
    enum { AHEAD = 8 };
    __shared__ uint32_t came;
    uint32_t *count = KRN_CUDA_AT(uint32_t, a.work) + w.item0;
    __threadfence();
    narrow_sync();
    if (threadIdx.x == 0)
        came = atomicAdd(count, 1);
    narrow_sync();
    if (came + 1 != w.split)
        return;
    __threadfence();
    uint32_t segment0 = w.t.lo_least() / a.segment, pairs = a.head_dim / 2;
    for (uint32_t i = threadIdx.x; i < w.t.lines() * pairs; i += NARROW_THREADS) {
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
    if (threadIdx.x == 0)
        *count = 0;
}

/* All of an item's work but the way of its tiles into shared memory. */
template <int PANELS> struct narrow_walk {
    struct narrow_work w;
    uint32_t q[PANELS * 4][4];
    struct attend_lines l;
    struct narrow_values<PANELS> o, all; /* of the segment, merged */
    float all_max[2], all_sum[2], c2;

    __device__ __forceinline__ void begin(const struct krn_cuda_attend_bf16 &a, uint32_t item) {
        c2 = __fmul_rn(a.scale, KRN_LOG2E);
        narrow_find(a, item, &w);
        attend_queries<PANELS * 4>(a, w.t, 0, threadIdx.x % 32, q);
        all.begin();
        all_max[0] = all_max[1] = -INFINITY;
        all_sum[0] = all_sum[1] = 0.0f;
    }
    __device__ __forceinline__ uint32_t first_tile(const struct krn_cuda_attend_bf16 &a) const {
        return max(w.segment0 * a.segment, w.t.lo_least()) / ATTEND_TILE;
    }
    __device__ __forceinline__ uint32_t end_tile(const struct krn_cuda_attend_bf16 &a) const {
        uint32_t end = min((w.segment0 + w.segments) * a.segment, w.t.hi_most());
        return (end + ATTEND_TILE - 1) / ATTEND_TILE;
    }
    __device__ __forceinline__ void begin_segment(void) {
        l.begin();
        o.begin();
    }
    __device__ __forceinline__ void tile(const struct krn_cuda_attend_bf16 &a, uint32_t n,
                                         uint32_t at, float *p) {
        uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, base = n * ATTEND_TILE;
        bool edge = base < w.t.lo_most() || base + ATTEND_TILE > w.t.hi_least();
        uint32_t values = at + krn_bf16_kv_bytes(a.head_dim) / 2;
        bool alone =
            edge && attend_prepare<NARROW_THREADS>(w.t, values, base, krn_bf16_panels(a.head_dim),
                                                   w.t.lo_most(), w.t.hi_least(), 1);
        float s[8], alpha[2];
        attend_scores<PANELS * 4, 2>(s, q, at, warp * 16, a.head_dim, lane);
        narrow_softmax(w.t, p, p + 16 * NARROW_PITCH, s, l, alpha, base, c2, edge, warp, lane);
        uint32_t f[4][4];
        narrow_probabilities(p, l, alpha, f, lane);
        o.step(w.t, f, alpha, values, base, a.head_dim, alone, warp, lane);
    }
    /* The segment's last tile is done: into what is merged, unless blocks share the segments. */
    __device__ __forceinline__ void end_segment(const struct krn_cuda_attend_bf16 &a, uint32_t s) {
        if (w.split)
            return;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t line = threadIdx.x % 32 / 4 + 8 * h, first = w.t.lo(line) / a.segment;
            float total = l.total(h);
            struct attend_merge merge = {0.0f, 1.0f};
            if (s > first && s * a.segment < w.t.hi(line))
                merge.of(all_max[h], l.max[h], c2);
            else if (s == first)
                all_max[h] = l.max[h];
            else
                continue;
            all_sum[h] = s == first ? total : merge(all_sum[h], total);
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 4; i++) {
                float &x = all.c[i / 4][i / 2 % 2][2 * h + i % 2];
                float y = o.c[i / 4][i / 2 % 2][2 * h + i % 2];
                x = s == first ? y : merge(x, y);
            }
        }
    }
    __device__ __forceinline__ void end(const struct krn_cuda_attend_bf16 &a) const {
        uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (w.split) {
            narrow_leave<PANELS>(a, w, l, o, warp, lane);
            narrow_merge(a, w, c2);
            return;
        }
#pragma unroll
        for (uint32_t h = 0; h < 2; h++)
#pragma unroll
            for (uint32_t i = 0; i < PANELS * 2; i++) {
                uint32_t d = (i / 2 * 4 + warp) * 16 + i % 2 * 8 + lane % 4 * 2;
                const float *c = all.c[i / 2][i % 2] + 2 * h;
                if (d < a.head_dim)
                    attend_store(a, w.t, lane / 4 + 8 * h, d, __fdiv_rn(c[0], all_sum[h]),
                                 __fdiv_rn(c[1], all_sum[h]));
            }
    }
};

#endif
