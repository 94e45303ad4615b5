/* SPDX-License-Identifier: Apache-2.0
 * What the two attention kernels of cuda-bf16 share (numerics.md 16.5): which keys a line sees,
 * tiles from pages, masked values, the softmax of a tile, results.
 *
 * A warp holds sixteen lines as fragments: thread `lane` has lines lane / 4 and lane / 4 + 8, and
 * of every eight columns 2 * (lane % 4) and the next.
 */
#ifndef KERNELS_CUDA_ATTEND_BF16_CUH
#define KERNELS_CUDA_ATTEND_BF16_CUH

#include "kernels/cuda/attend_bf16.h"
#include "kernels/cuda/tensor.cuh"

enum { ATTEND_TILE = 64, ATTEND_STAGES = 3 };

/* One span and some heads of one KV head. */
struct attend_item {
    uint32_t first_row, rows, first_pos, first_page;
    uint32_t kv_head, head0, heads; /* query heads of the item */
    uint32_t window;

    __device__ __forceinline__ uint32_t lines(void) const {
        return rows * heads;
    }
    /* Lines that are not there are the last row's. */
    __device__ __forceinline__ uint32_t row(uint32_t line) const {
        return min(line / heads, rows - 1);
    }
    /* Visible keys of a line: [lo, hi). */
    __device__ __forceinline__ uint32_t hi(uint32_t line) const {
        return first_pos + row(line) + 1;
    }
    __device__ __forceinline__ uint32_t lo(uint32_t line) const {
        uint32_t end = hi(line);
        return window != 0 && end > window ? end - window : 0;
    }
    __device__ __forceinline__ uint32_t lo_least(void) const {
        return lo(0);
    }
    __device__ __forceinline__ uint32_t lo_most(void) const {
        return window != 0 && hi_most() > window ? hi_most() - window : 0;
    }
    __device__ __forceinline__ uint32_t hi_least(void) const {
        return first_pos + 1;
    }
    __device__ __forceinline__ uint32_t hi_most(void) const {
        return first_pos + rows;
    }
};

/* Tile n of the sequence into a stage, by all THREADS. */
template <uint32_t THREADS>
static __device__ __forceinline__ void attend_fetch(const struct krn_cuda_attend_bf16 &a,
                                                    const struct attend_item &t, uint32_t n,
                                                    uint32_t stage) {
    uint32_t a_page = a.page_tokens / ATTEND_TILE, bytes = krn_bf16_kv_bytes(a.head_dim);
    uint32_t page = KRN_CUDA_AT(const uint32_t, a.pages)[t.first_page + n / a_page];
    const unsigned char *from = KRN_CUDA_AT(const unsigned char, a.pool) + page * a.page_bytes +
                                a.layer_off + (size_t)(t.kv_head * a_page + n % a_page) * bytes;
    for (uint32_t at = threadIdx.x * 16; at < bytes; at += THREADS * 16)
        tensor_copy16(stage + at, from + at);
}

/* Query fragments of 16 lines from line0 on. */
template <int KS>
static __device__ __forceinline__ void attend_queries(const struct krn_cuda_attend_bf16 &a,
                                                      const struct attend_item &t, uint32_t line0,
                                                      uint32_t lane, uint32_t (&q)[KS][4]) {
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t line = min(line0 + lane / 4 + 8 * half, t.lines() - 1);
        const float *x = KRN_CUDA_AT(const float, a.q) +
                         (size_t)(t.first_row + line / t.heads) * a.ldq +
                         (size_t)(t.head0 + line % t.heads) * a.head_dim + lane % 4 * 2;
#pragma unroll
        for (uint32_t ks = 0; ks < KS; ks++)
            for (uint32_t right = 0; right < 2; right++) {
                uint32_t v = 0;
                if (ks * 16 < a.head_dim)
                    v = tensor_bf16x2(x[ks * 16 + right * 8], x[ks * 16 + right * 8 + 1]);
                q[ks][half + 2 * right] = v;
            }
    }
}

/* Scores of BLOCKS times eight keys from `key` of the tile on: s = q * k over all of d. Chains of
 * different keys go side by side. */
template <int KS, int BLOCKS>
static __device__ __forceinline__ void attend_scores(float (&s)[BLOCKS * 4],
                                                     const uint32_t (&q)[KS][4], uint32_t stage,
                                                     uint32_t key, uint32_t d, uint32_t lane) {
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS * 4; i++)
        s[i] = 0.0f;
#pragma unroll
    for (uint32_t ks = 0; ks < KS; ks += 2) {
        if (ks * 16 >= d)
            break;
        uint32_t k[BLOCKS][4];
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++)
            tensor_rows8(k[i], stage + ks / 4 * KRN_BF16_TILE_BYTES, key + i * 8, ks % 4 / 2, lane);
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++)
            tensor_step(s + 4 * i, q[ks], k[i]);
        if (ks * 16 + 16 >= d)
            break;
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++)
            tensor_step(s + 4 * i, q[ks + 1], k[i] + 2);
    }
}

/* Fragments of values: sixteen keys from `key` on, columns column ... column + 15: b of the first
 * eight columns, then of the others. */
static __device__ __forceinline__ void attend_value(uint32_t (&v)[4], uint32_t values, uint32_t key,
                                                    uint32_t column, uint32_t lane) {
    uint32_t r = key + lane % 16, chunk = column % KRN_BF16_SIDE / 8 + lane / 16;
    tensor_load_across(v, values + column / KRN_BF16_SIDE * KRN_BF16_TILE_BYTES +
                              r * KRN_BF16_ROW_BYTES + ((chunk ^ r % 8) * 16));
}

/* A pair of values whose keys are j and j + 1, without those outside [lo, hi). */
static __device__ __forceinline__ uint32_t attend_seen(uint32_t pair, uint32_t j, uint32_t lo,
                                                       uint32_t hi) {
    uint32_t low = j >= lo && j < hi ? 0xffffu : 0, high = j + 1 >= lo && j + 1 < hi ? 0xffffu : 0;
    return pair & (low | high << 16);
}

/* What no line of the item sees of a tile's values becomes +0, by THREADS threads, which meet
 * before they read. */
template <uint32_t THREADS>
static __device__ __forceinline__ void attend_zero(const struct attend_item &t, uint32_t values,
                                                   uint32_t base, uint32_t panels) {
    uint32_t lo = t.lo_least(), hi = t.hi_most();
#pragma unroll 1
    for (uint32_t i = threadIdx.x % THREADS; i < panels * ATTEND_TILE * 8; i += THREADS) {
        uint32_t j = base + i / 8 % ATTEND_TILE;
        if (j < lo || j >= hi)
            asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(values + i * 16), "r"(0)
                         : "memory");
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* wgmma reads them too */
#endif
}

/* True when a value that some lines of THREADS threads, all of barrier `barrier`, do not see, but
 * others of the item do (keys outside [lo_most, hi_least)), is not finite: it must not meet their
 * zero probabilities. */
template <uint32_t THREADS>
static __device__ __forceinline__ bool
attend_check(const struct attend_item &t, uint32_t values, uint32_t base, uint32_t panels,
             uint32_t lo_most, uint32_t hi_least, uint32_t barrier) {
    uint32_t lo = t.lo_least(), hi = t.hi_most(), bad = 0;
#pragma unroll 1
    for (uint32_t i = threadIdx.x % THREADS; i < panels * ATTEND_TILE * 8; i += THREADS) {
        uint32_t j = base + i / 8 % ATTEND_TILE, v[4], at = values + i * 16;
        if ((j >= lo_most && j < hi_least) || j < lo || j >= hi)
            continue;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "r"(at)
                     : "memory");
        for (uint32_t k = 0; k < 4; k++)
            bad |= (v[k] & 0x7f80u) == 0x7f80u || (v[k] & 0x7f800000u) == 0x7f800000u;
    }
    uint32_t any;
    asm volatile("{\n\t.reg .pred mine, some;\n\t"
                 "setp.ne.u32 mine, %1, 0;\n\t"
                 "bar.red.or.pred some, %2, %3, mine;\n\t"
                 "selp.u32 %0, 1, 0, some;\n\t}"
                 : "=r"(any)
                 : "r"(bad), "r"(barrier), "n"(THREADS)
                 : "memory");
    return any != 0;
}

/* Both, where all threads that read the tile do it. */
template <uint32_t THREADS>
static __device__ __forceinline__ bool
attend_prepare(const struct attend_item &t, uint32_t values, uint32_t base, uint32_t panels,
               uint32_t lo_most, uint32_t hi_least, uint32_t barrier) {
    attend_zero<THREADS>(t, values, base, panels);
    return attend_check<THREADS>(t, values, base, panels, lo_most, hi_least, barrier);
}

/* c = step16(c; p, v) line by line, each without the values that it does not see; j is the thread's
 * first key. */
static __device__ __noinline__ float4 attend_step_alone(const struct attend_item t, uint32_t line0,
                                                        float4 c, uint4 p, uint2 v, uint32_t j) {
    uint32_t lane = threadIdx.x % 32, a[4] = {p.x, p.y, p.z, p.w};
#pragma unroll 1
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t lo = t.lo(line0 + i), hi = t.hi(line0 + i);
        uint32_t b[2] = {attend_seen(v.x, j, lo, hi), attend_seen(v.y, j + 8, lo, hi)};
        float e[4] = {c.x, c.y, c.z, c.w};
        tensor_step(e, a, b);
        if (lane / 4 == i % 8)
            c = i < 8 ? make_float4(e[0], e[1], c.z, c.w) : make_float4(c.x, c.y, e[2], e[3]);
    }
    return c;
}

static __device__ __forceinline__ void attend_alone(const struct attend_item &t, uint32_t line0,
                                                    float *c, const uint32_t (&p)[4], uint32_t b0,
                                                    uint32_t b1, uint32_t key0) {
    float4 e = attend_step_alone(t, line0, make_float4(c[0], c[1], c[2], c[3]),
                                 make_uint4(p[0], p[1], p[2], p[3]), make_uint2(b0, b1),
                                 key0 + threadIdx.x % 4 * 2);
    c[0] = e.x;
    c[1] = e.y;
    c[2] = e.z;
    c[3] = e.w;
}

/* What a thread keeps of its two lines while it walks a segment: the maximum and its own one of the
 * four sums. */
struct attend_lines {
    float max[2], sum[2];
    __device__ __forceinline__ void begin(void) {
        max[0] = max[1] = -INFINITY;
        sum[0] = sum[1] = 0.0f;
    }
    /* The whole sum of line i, in every thread of the four. */
    __device__ __forceinline__ float total(uint32_t i) const {
        float l = __fadd_rn(sum[i], __shfl_xor_sync(0xffffffffu, sum[i], 1));
        return __fadd_rn(l, __shfl_xor_sync(0xffffffffu, l, 2));
    }
};

/* The factors of a merge: of what is there and of what comes. */
struct attend_merge {
    float there, comes;
    __device__ __forceinline__ void of(float &max, float comes_max, float c2) {
        float m = fmaxf(max, comes_max), b = __fmul_rn(m, c2);
        there = tensor_exp2(__fsub_rn(__fmul_rn(max, c2), b));
        comes = tensor_exp2(__fsub_rn(__fmul_rn(comes_max, c2), b));
        max = m;
    }
    __device__ __forceinline__ float operator()(float x, float y) const {
        return __fmaf_rn(y, comes, __fmul_rn(x, there));
    }
};

/* Two neighbouring results of a line at column d. */
static __device__ __forceinline__ void attend_store(const struct krn_cuda_attend_bf16 &a,
                                                    const struct attend_item &t, uint32_t line,
                                                    uint32_t d, float x, float y) {
    if (line >= t.lines())
        return;
    uint32_t row = t.first_row + line / t.heads;
    uint32_t column = (t.head0 + line % t.heads) * a.head_dim + d;
    if (a.out != 0)
        *(float2 *)(KRN_CUDA_AT(float, a.out) + (size_t)row * a.ldo + column) = make_float2(x, y);
    if (a.packed != 0)
        *(uint32_t *)(KRN_CUDA_AT(unsigned char, a.packed) +
                      krn_bf16_place(row, column, a.packed_segment, a.packed_blocks)) =
            tensor_bf16x2(x, y);
}

#endif
