/* SPDX-License-Identifier: Apache-2.0
 * The tensor core of sm_80 and later by mma.sync, and what surrounds it: step16 of numerics.md
 * 16.2, fragments from tiles of bf16_tile.h, copies into shared memory, exp2.
 */
#ifndef KERNELS_CUDA_TENSOR_CUH
#define KERNELS_CUDA_TENSOR_CUH

#include "kernels/cuda/bf16_tile.h"

/* bf16(x) as bits, numerics.md 16.1. */
static __device__ __forceinline__ uint32_t tensor_bf16(float x) {
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

/* Two of them, the first in the low half. */
static __device__ __forceinline__ uint32_t tensor_bf16x2(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

static __device__ __forceinline__ uint32_t tensor_shared(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* c = step16(c; a, b): 16 rows of a, 8 rows of b. */
static __device__ __forceinline__ void tensor_step(float c[4], const uint32_t a[4],
                                                   const uint32_t b[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void tensor_load(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

static __device__ __forceinline__ void tensor_load_across(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* Fragment a of 16 rows from row (a multiple of 8) on, K-step ks of the tile's four. */
static __device__ __forceinline__ void tensor_rows16(uint32_t a[4], uint32_t tile, uint32_t row,
                                                     uint32_t ks, uint32_t lane) {
    uint32_t r = row + lane % 16, chunk = 2 * ks + lane / 16;
    tensor_load(a, tile + r * KRN_BF16_ROW_BYTES + ((chunk ^ r % 8) * 16));
}

/* Fragments b of eight rows, K-steps 2 * half and 2 * half + 1. */
static __device__ __forceinline__ void tensor_rows8(uint32_t b[4], uint32_t tile, uint32_t row,
                                                    uint32_t half, uint32_t lane) {
    uint32_t r = row + lane % 8, chunk = 4 * half + lane / 8;
    tensor_load(b, tile + r * KRN_BF16_ROW_BYTES + ((chunk ^ r % 8) * 16));
}

/* 16 bytes from device to shared memory, asynchronously. */
static __device__ __forceinline__ void tensor_copy16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}

static __device__ __forceinline__ void tensor_copies_end(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the newest N groups have arrived for this thread. */
template <int N> static __device__ __forceinline__ void tensor_copies_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* exp2 of numerics.md 16.6. */
static __device__ __forceinline__ float tensor_exp2(float x) {
    float t;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(x), "f"(KRN_EXP2_LO));
    float n = __fadd_rn(t, KRN_EXP2_ROUND);
    float f = __fsub_rn(t, __fsub_rn(n, KRN_EXP2_ROUND));
    float p = __fmaf_rn(f, KRN_EXP2_C5, KRN_EXP2_C4);
    p = __fmaf_rn(f, p, KRN_EXP2_C3);
    p = __fmaf_rn(f, p, KRN_EXP2_C2);
    p = __fmaf_rn(f, p, KRN_EXP2_C1);
    p = __fmaf_rn(f, p, 1.0f);
    return __fmul_rn(p, __uint_as_float(__float_as_uint(n) << 23));
}

#endif
