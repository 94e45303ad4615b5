/* SPDX-License-Identifier: Apache-2.0
 * The end of a product (numerics.md 16.3, 3.2, 3.3, 7): the tree over segments, bias, residual,
 * gate, and where results go. Accumulators go through shared memory, so that one short loop does
 * whatever is asked and device memory sees whole lines.
 */
#ifndef KERNELS_CUDA_FINISH_BF16_CUH
#define KERNELS_CUDA_FINISH_BF16_CUH

#include "kernels/approx.h"
#include "kernels/cuda/product_bf16.h"
#include "kernels/cuda/tensor.cuh"

/* exp of numerics.md 0.5 for c in [KRN_EXP_LO, KRN_EXP_HI]. */
static __device__ __forceinline__ float finish_exp_within(float c) {
    float t = __fmaf_rn(c, KRN_EXP_LOG2E, KRN_EXP_ROUND), n = __fsub_rn(t, KRN_EXP_ROUND);
    float r = __fmaf_rn(n, -KRN_EXP_LN2_HI, c);
    r = __fmaf_rn(n, -KRN_EXP_LN2_LO, r);
    float q = __fmaf_rn(KRN_EXP_C6, r, KRN_EXP_C5);
    q = __fmaf_rn(q, r, KRN_EXP_C4);
    q = __fmaf_rn(q, r, KRN_EXP_C3);
    q = __fmaf_rn(q, r, KRN_EXP_C2);
    float y = __fadd_rn(__fmaf_rn(q, __fmul_rn(r, r), r), 1.0f);
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
}

/* exp of numerics.md 0.5. */
static __device__ __forceinline__ float finish_exp(float x) {
    float c = x < KRN_EXP_HI ? x : KRN_EXP_HI;
    float y = finish_exp_within(c > KRN_EXP_LO ? c : KRN_EXP_LO);
    y = x < KRN_EXP_LO ? 0.0f : y;
    y = x > KRN_EXP_HI ? __uint_as_float(0x7f800000) : y;
    return x != x ? x : y;
}

static __device__ __forceinline__ float finish_gate(float g, float u, bool gelu) {
    float t = g;
    if (gelu)
        t = __fmul_rn(g, __fmaf_rn(__fmul_rn(g, g), KRN_GELU_3, KRN_GELU_1));
    return __fmul_rn(__fdiv_rn(g, __fadd_rn(1.0f, finish_exp(-t))), u);
}

/* Where the shortest division below rounds as IEEE's does: |g| in [2^-50, 2^50), or +0; what it is
 * divided by is 1 or more. */
static __device__ __forceinline__ bool finish_gate_plain(float g, float d) {
    uint32_t bits = __float_as_uint(g);
    return ((bits << 1) - (77U << 24) < (100U << 24) || bits == 0) && d < 0x1p50f;
}

/* v = finish_gate of B pairs, bit for bit. A division as the compiler writes it may branch, so B of
 * them follow each other; here all go side by side, and the branch is one for all that are rare.
 * 1 + exp needs neither what exp does below its range (1 swallows it) nor its NaN: g is one too. */
template <int B>
static __device__ __forceinline__ void finish_gates(float (&v)[B], const float (&g)[B],
                                                    const float (&u)[B], bool gelu) {
    bool plain = true;
    float d[B];
#pragma unroll
    for (int i = 0; i < B; i++) {
        float t = g[i];
        if (gelu)
            t = __fmul_rn(t, __fmaf_rn(__fmul_rn(t, t), KRN_GELU_3, KRN_GELU_1));
        d[i] = __fadd_rn(1.0f, finish_exp_within(fmaxf(fminf(-t, KRN_EXP_HI), KRN_EXP_LO)));
        plain = plain && finish_gate_plain(g[i], d[i]);
    }
    if (plain) {
#pragma unroll
        for (int i = 0; i < B; i++) {
            float r, q;
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d[i]));
            r = __fmaf_rn(r, __fmaf_rn(-d[i], r, 1.0f), r);
            q = __fmul_rn(g[i], r);
            q = __fmaf_rn(__fmaf_rn(-d[i], q, g[i]), r, q);
            q = __fmaf_rn(__fmaf_rn(-d[i], q, g[i]), r, q);
            v[i] = __fmul_rn(q, u[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < B; i++)
            v[i] = finish_gate(g[i], u[i], gelu);
    }
}

/* Four results of row r from output o (a multiple of 4) on; `outputs` is how many there are. */
static __device__ __forceinline__ void finish_four(const struct krn_cuda_product_bf16 &a,
                                                   uint32_t r, uint32_t o, uint32_t outputs,
                                                   float4 v) {
    if (a.y != 0) {
        float *y = KRN_CUDA_AT(float, a.y) + (size_t)r * a.ldy + o;
        if (a.ldy % 4 == 0 && o + 4 <= outputs) {
            if (a.flags & KRN_BF16_ADD) {
                float4 x = *(const float4 *)y;
                v = make_float4(__fadd_rn(x.x, v.x), __fadd_rn(x.y, v.y), __fadd_rn(x.z, v.z),
                                __fadd_rn(x.w, v.w));
            }
            *(float4 *)y = v;
        } else {
            float e[4] = {v.x, v.y, v.z, v.w};
            for (uint32_t i = 0; i < 4 && o + i < outputs; i++)
                y[i] = e[i] = a.flags & KRN_BF16_ADD ? __fadd_rn(y[i], e[i]) : e[i];
            v = make_float4(e[0], e[1], e[2], e[3]);
        }
    }
    if (a.packed != 0) { /* a chunk of eight never straddles segments: those are multiples of 16 */
        uint64_t at = krn_bf16_place(r, o, a.packed_segment, a.packed_blocks);
        uint2 h = make_uint2(tensor_bf16x2(v.x, v.y), tensor_bf16x2(v.z, v.w));
        uint16_t *to = (uint16_t *)(KRN_CUDA_AT(unsigned char, a.packed) + at);
        if (o + 4 <= outputs)
            *(uint2 *)to = h;
        else
            for (uint32_t i = 0; o + i < outputs; i++)
                to[i] = (uint16_t)((i < 2 ? h.x : h.y) >> i % 2 * 16);
    }
}

static __device__ __forceinline__ float4 finish_bias(const struct krn_cuda_product_bf16 &a,
                                                     uint32_t o, float4 v) {
    const float *bias = KRN_CUDA_AT(const float, a.bias);
    float e[4] = {v.x, v.y, v.z, v.w};
    for (uint32_t i = 0; i < 4; i++)
        if (o + i < a.n)
            e[i] = __fadd_rn(e[i], bias[o + i]);
    return make_float4(e[0], e[1], e[2], e[3]);
}

/* Sums lie in shared memory as [rows][pitch], OUT packed outputs a row from output o0 (a multiple
 * of 16) on. THREADS threads finish them; the caller has made the sums visible to them. */
template <uint32_t THREADS, uint32_t OUT>
static __device__ __forceinline__ void finish_rows(const struct krn_cuda_product_bf16 &a,
                                                   const float *sums, uint32_t pitch, uint32_t row0,
                                                   uint32_t rows, uint32_t o0, uint32_t thread) {
    if (a.flags & KRN_BF16_GATE) {
        bool gelu = (a.flags & KRN_BF16_GATE_GELU) != 0;
#pragma unroll 1
        for (uint32_t i = thread; i < rows * (OUT / 8); i += THREADS) {
            uint32_t in = i % (OUT / 8) * 4, row = i / (OUT / 8), at = in / 8 * 16 + in % 8;
            if (row0 + row >= a.rows || o0 / 2 + in >= a.n / 2)
                continue;
            float4 g = *(const float4 *)(sums + row * pitch + at);
            float4 u = *(const float4 *)(sums + row * pitch + at + 8);
            if (a.bias != 0) {
                g = finish_bias(a, o0 + at, g);
                u = finish_bias(a, o0 + at + 8, u);
            }
            g = make_float4(finish_gate(g.x, u.x, gelu), finish_gate(g.y, u.y, gelu),
                            finish_gate(g.z, u.z, gelu), finish_gate(g.w, u.w, gelu));
            finish_four(a, row0 + row, o0 / 2 + in, a.n / 2, g);
        }
        return;
    }
#pragma unroll 4
    for (uint32_t i = thread; i < rows * (OUT / 4); i += THREADS) {
        uint32_t in = i % (OUT / 4) * 4, row = i / (OUT / 4);
        if (row0 + row >= a.rows || o0 + in >= a.n)
            continue;
        float4 v = *(const float4 *)(sums + row * pitch + in);
        if (a.bias != 0)
            v = finish_bias(a, o0 + in, v);
        finish_four(a, row0 + row, o0 + in, a.n, v);
    }
}

/* Fragments of 16 outputs by 8 * F rows of one warp, through its own FINISH_WARP_FLOATS(F). */
#define FINISH_WARP_PITCH     20
#define FINISH_WARP_FLOATS(F) (8 * (F)*FINISH_WARP_PITCH)
template <int F>
static __device__ __forceinline__ void finish_warp(const struct krn_cuda_product_bf16 &a,
                                                   float *sums, uint32_t o16, uint32_t row0,
                                                   const float (&acc)[4 * F], uint32_t lane) {
    float *at = sums + lane % 4 * 2 * FINISH_WARP_PITCH + lane / 4;
#pragma unroll
    for (uint32_t i = 0; i < F; i++) {
        float *to = at + i * 8 * FINISH_WARP_PITCH;
        to[0] = acc[4 * i];
        to[FINISH_WARP_PITCH] = acc[4 * i + 1];
        to[8] = acc[4 * i + 2];
        to[FINISH_WARP_PITCH + 8] = acc[4 * i + 3];
    }
    __syncwarp();
    finish_rows<32, 16>(a, sums, FINISH_WARP_PITCH, row0, 8 * F, o16, lane);
    __syncwarp();
}

/* The tree over segments with its levels in registers: segment `s` has just ended with acc. After
 * the last one acc is the whole sum, after others it is +0. segments <= 1 << LEVELS. */
template <int N, int LEVELS> struct finish_tree {
    float kept[N];
    finish_tree<N, LEVELS - 1> above;
    __device__ __forceinline__ void add(float (&acc)[N], uint32_t s, uint32_t segments) {
        if (s % 2 == 1) {
#pragma unroll
            for (int i = 0; i < N; i++)
                acc[i] = __fadd_rn(kept[i], acc[i]);
            above.add(acc, s / 2, segments / 2);
        } else if (segments > 1) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                kept[i] = acc[i];
                acc[i] = 0.0f;
            }
        }
    }
};

template <int N> struct finish_tree<N, 0> {
    __device__ __forceinline__ void add(float (&)[N], uint32_t, uint32_t) {
    }
};

#endif
