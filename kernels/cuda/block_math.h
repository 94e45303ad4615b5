/* SPDX-License-Identifier: Apache-2.0
 * The few instructions by which blocked weights become bf16 (block_value.h), each with its meaning
 * in C, by which a host computes the same bits.
 */
#ifndef KERNELS_CUDA_BLOCK_MATH_H
#define KERNELS_CUDA_BLOCK_MATH_H

#include <math.h>
#include <string.h>

#include "kernels/approx.h"
#include "kernels/cuda/bf16_tile.h"

/* Byte i of the result is byte (select >> 4i) % 8 of b:a. */
KRN_BF16_FN uint32_t krn_unit_choose(uint32_t a, uint32_t b, uint32_t select) {
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, select);
#else
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t i = 0; i < 4; i++)
        out |= (uint32_t)(both >> 8 * (select >> 4 * i & 7) & 255) << 8 * i;
    return out;
#endif
}

/* (word & mask) | bits */
KRN_BF16_FN uint32_t krn_unit_mask(uint32_t word, uint32_t mask, uint32_t bits) {
#ifdef __CUDA_ARCH__
    uint32_t r; /* one instruction, which the compiler does not make of two constants */
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(word), "r"(mask), "r"(bits));
    return r;
#else
    return (word & mask) | bits;
#endif
}

KRN_BF16_FN float krn_unit_f16(uint32_t bits) {
#ifdef __CUDA_ARCH__
    float x;
    asm("{.reg .b16 h;\n\tcvt.u16.u32 h, %1;\n\tcvt.f32.f16 %0, h;\n\t}" : "=f"(x) : "r"(bits));
    return x;
#else
    return krn_widen_f16((uint16_t)bits);
#endif
}

#ifndef __CUDA_ARCH__
/* numerics.md 16.1 */
KRN_BF16_FN uint32_t krn_unit_round(float x) {
    uint32_t u = krn_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return u >> 16 | 0x40u;
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
#endif

/* bf16 of both, the first in the low half. */
KRN_BF16_FN uint32_t krn_unit_pair(float low, float high) {
#ifdef __CUDA_ARCH__
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#else
    return krn_unit_round(low) | krn_unit_round(high) << 16;
#endif
}

/* A pair of f16 as fp32. */
KRN_BF16_FN void krn_unit_halves(uint32_t pair, float *low, float *high) {
#ifdef __CUDA_ARCH__
    asm("{.reg .b16 l, h;\n\t"
        "mov.b32 {l, h}, %2;\n\t"
        "cvt.f32.f16 %0, l;\n\t"
        "cvt.f32.f16 %1, h;\n\t}"
        : "=f"(*low), "=f"(*high)
        : "r"(pair));
#else
    *low = krn_unit_f16(pair & 0xffff);
    *high = krn_unit_f16(pair >> 16);
#endif
}

/* The difference of two pairs of f16, exact for what is asked here, as fp32. */
KRN_BF16_FN void krn_unit_less(uint32_t pair, uint32_t less, float *low, float *high) {
#ifdef __CUDA_ARCH__
    asm("{.reg .b32 d;\n\t.reg .b16 l, h;\n\t"
        "sub.f16x2 d, %2, %3;\n\t"
        "mov.b32 {l, h}, d;\n\t"
        "cvt.f32.f16 %0, l;\n\t"
        "cvt.f32.f16 %1, h;\n\t}"
        : "=f"(*low), "=f"(*high)
        : "r"(pair), "r"(less));
#else
    *low = krn_unit_f16(pair & 0xffff) - krn_unit_f16(less & 0xffff);
    *high = krn_unit_f16(pair >> 16) - krn_unit_f16(less >> 16);
#endif
}

KRN_BF16_FN float krn_unit_fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

#endif
