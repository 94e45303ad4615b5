/* SPDX-License-Identifier: Apache-2.0
 * What the kernels of the `portable` profile share, for .cu files only. They are written in what C
 * and C++ have in common, so that a test can compile them for the host as they stand
 * (tests/cuda/emulate.h) and compare their bits where no GPU is.
 */
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include "kernels/approx.h"
#include "kernels/cuda/call.h"
#include "kernels/rowfn.h"

#ifdef __CUDACC__
#define CUDA_FN static __device__ __forceinline__
#define UNROLL  _Pragma("unroll")
#endif

/* What KRN_CUDA_OVERLAP (call.h) asks of a kernel: `before` returns when the kernel before has
 * ended and its writes are seen; from `next` on the kernel behind may begin as far as it needs none
 * of this one's. Every thread of every block waits, also one that has no row: else this kernel
 * could end before its predecessor, and who waits for it alone would not wait for that. */
CUDA_FN void krn_cuda_before(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

CUDA_FN void krn_cuda_next(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* The device's time in ns, the same on all of it; 0 where there is none. */
CUDA_FN uint64_t krn_cuda_clock(void) {
    uint64_t ns = 0;
#ifdef __CUDA_ARCH__
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
#endif
    return ns;
}

/* One element of a packed weight, widened exactly. */
CUDA_FN float krn_cuda_widen(const int dtype, const void *w, size_t at) {
    if (dtype == KRN_F32)
        return ((const float *)w)[at];
    uint16_t h = ((const uint16_t *)w)[at];
    return dtype == KRN_BF16 ? krn_widen_bf16(h) : krn_widen_f16(h);
}

/* bf16(x) of numerics.md 16.1 as bits. */
CUDA_FN uint16_t krn_cuda_bf16(float x) {
    uint32_t u = krn_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* tree16 of numerics.md: t[l] += t[l + 8], then 4, 2, 1. One thread. */
CUDA_FN float krn_cuda_tree16(const float *lanes) {
    float t[8];
    UNROLL for (int l = 0; l < 8; l++) t[l] = lanes[l] + lanes[l + 8];
    UNROLL for (int l = 0; l < 4; l++) t[l] = t[l] + t[l + 4];
    t[0] = t[0] + t[2];
    t[1] = t[1] + t[3];
    return t[0] + t[1];
}

/* Where the tile of a position lies in a layer's pages (struct krn_kv). */
CUDA_FN float *krn_cuda_kv_tile(unsigned char *pool, uint64_t page_bytes, uint64_t layer_off,
                                uint32_t page_tokens, uint32_t head_dim, uint32_t head,
                                uint32_t page, uint32_t tile_in_page) {
    size_t at = (size_t)(head * (page_tokens / KRN_TILE) + tile_in_page) * 2 * head_dim * KRN_TILE;
    return (float *)(void *)(pool + page * page_bytes + layer_off) + at;
}

#endif
