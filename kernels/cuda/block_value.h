/* SPDX-License-Identifier: Apache-2.0
 * bf16(the value of numerics.md 12) of what lies in a unit (block_unit.h), as operand A of mma.sync
 * wants it: for kernels, and for the tests that compute it on a host.
 */
#ifndef KERNELS_CUDA_BLOCK_VALUE_H
#define KERNELS_CUDA_BLOCK_VALUE_H

#include "kernels/cuda/block_math.h"
#include "kernels/cuda/block_unit.h"

/* A lane's part of a unit that is aligned to 16 bytes. */
KRN_BF16_FN void krn_unit_load(uint32_t type, const unsigned char *unit, uint32_t lane,
                               struct krn_unit_lane *l) {
    struct krn_unit_form f = krn_unit_form(type);
    const unsigned char *scales = unit + krn_unit_scales_at(f) + lane / 4 * krn_unit_scale_bytes(f);
    const unsigned char *planes = unit + krn_unit_planes_at(f) + lane * 4;
#ifdef __CUDA_ARCH__
    *(uint4 *)l->code = *(const uint4 *)(unit + lane * 16);
    if (f.wide)
        *(uint4 *)(l->code + 4) = *(const uint4 *)(unit + 512 + lane * 16);
    for (uint32_t p = 0; p < f.planes; p++)
        l->plane[p] = *(const uint32_t *)(planes + 128 * p);
    if (f.scales == KRN_UNIT_D)
        *(uint2 *)l->scale = *(const uint2 *)scales;
    else if (f.scales == KRN_UNIT_K6)
        for (uint32_t i = 0; i < 3; i++)
            l->scale[i] = *(const uint32_t *)(scales + 4 * i);
    else
        *(uint4 *)l->scale = *(const uint4 *)scales;
#else
    memcpy(l->code, unit + lane * 16, 16);
    if (f.wide)
        memcpy(l->code + 4, unit + 512 + lane * 16, 16);
    for (uint32_t p = 0; p < f.planes; p++)
        memcpy(&l->plane[p], planes + 128 * p, 4);
    memcpy(l->scale, scales, krn_unit_scale_bytes(f));
#endif
}

/* Bytes i and j of a word as numbers. */
KRN_BF16_FN void krn_unit_numbers(uint32_t word, uint32_t i, uint32_t j, uint32_t less, float *x,
                                  float *y) {
    krn_unit_less(krn_unit_choose(word, 0x64646464u, 0x4040u | j << 8 | i),
                  (0x6400u + less) * 0x10001u, x, y);
}

/* Codes that nothing is taken from are not made whole: they stay f16's least numbers, so many times
 * below their value, by which the factor is greater. */
KRN_BF16_FN float krn_unit_below(struct krn_unit_form f, uint32_t row) {
    return f.scales == KRN_UNIT_D || f.scales == KRN_UNIT_K6 ? 1.0f : row ? 0x1p20f : 0x1p24f;
}

/* What multiplies the codes of row l / 4 + 8 * row in K-step `step`, and what is added. Exact. */
KRN_BF16_FN void krn_unit_scale(struct krn_unit_form f, const struct krn_unit_lane *l, uint32_t row,
                                uint32_t step, float *factor, float *added) {
    uint32_t half = step / 2;
    float s, u, d, m;
    *added = 0.0f;
    krn_unit_halves(l->scale[f.scales == KRN_UNIT_K6 ? 0 : row], &d, &m);
    switch (f.scales) {
    case KRN_UNIT_K:
        krn_unit_numbers(l->scale[2 + row], half, 2 + half, 0, &s, &u);
        *factor = d * (s * krn_unit_below(f, row));
        *added = -(m * u);
        break;
    case KRN_UNIT_K6:
        krn_unit_numbers(l->scale[1 + row], step, step, 128, &s, &u);
        *factor = (row ? m : d) * s;
        break;
    case KRN_UNIT_DM:
        *factor = (half ? m : d) * krn_unit_below(f, row);
        krn_unit_halves(l->scale[2 + row], &s, &u);
        *added = half ? u : s;
        break;
    default:
        *factor = half ? m : d;
    }
}

/* Four nibbles of word (at 0, 4, 8, 12) as bytes of IQ4_NL's steps, 128 above their values. */
KRN_BF16_FN uint32_t krn_unit_steps(uint32_t word) {
    uint32_t in = word & 0x7777u;
    uint32_t low = krn_unit_choose(0x3f2d1801u, 0x766a5d4fu, in);
    uint32_t above = krn_unit_choose(0xa6998d81u, 0xf1d9c5b5u, in);
    return krn_unit_choose(low, above, 0x3210u | (word & 0x8888u) >> 1);
}

/* Both codes of register r less the offset. They are the low bits of f16's mantissas, or with r odd
 * those from bit 4 on, under an exponent that gives these bits the weight of whole numbers, or none
 * (krn_unit_below). word: shifted so that register r's codes lie where register r % 2's do; so are
 * the planes. */
KRN_BF16_FN void krn_unit_codes(struct krn_unit_form f, uint32_t word, const uint32_t plane[2],
                                uint32_t r, float *low, float *high) {
    uint32_t odd = r % 2, less = 0x6400u + f.offset, v; /* 1024 and more: steps of 1 */
    bool whole = f.scales == KRN_UNIT_D || f.scales == KRN_UNIT_K6;
    if (f.wide || f.uneven) {
        v = krn_unit_choose(word, 0x64646464u, odd ? 0x4342u : 0x4140u);
    } else {
        less = odd ? 0x5400u + f.offset * 16 : less; /* 64 and more: steps of 1/16 */
        v = krn_unit_mask(word, 0x000f000fu << 4 * odd, odd ? 0x54005400u : 0x64006400u);
        if (!whole)
            v = word & 0x000f000fu << 4 * odd;
        for (uint32_t p = 0; p < f.planes; p++)
            v = krn_unit_mask(plane[p], 0x00100010u << (4 * odd + p), v);
    }
    if (whole) {
        krn_unit_less(v, less * 0x10001u, low, high);
    } else {
        krn_unit_halves(v, low, high);
    }
}

/* Operand A of K-step `step`; factor and added of its two rows. */
KRN_BF16_FN void krn_unit_step(uint32_t type, const struct krn_unit_lane *l, uint32_t step,
                               const float factor[2], const float added[2], uint32_t a[4]) {
    struct krn_unit_form f = krn_unit_form(type);
    uint32_t word[2] = {l->code[step], l->code[step] >> 8};
    uint32_t plane[2][2] = {{0, 0}, {0, 0}}; /* [r / 2][which] */
    if (f.wide) {
        word[0] = l->code[2 * step];
        word[1] = l->code[2 * step + 1];
    }
    if (f.uneven) {
        word[1] = krn_unit_steps(word[0] >> 16);
        word[0] = krn_unit_steps(word[0]);
    }
    for (uint32_t p = 0; p < f.planes; p++) {
        plane[0][p] = l->plane[p] << (4 + p - step);
        plane[1][p] = l->plane[p] >> (4 - p + step);
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (uint32_t r = 0; r < 4; r++) {
        float x, y;
        krn_unit_codes(f, word[r / 2], plane[r / 2], r, &x, &y);
        if (f.scales == KRN_UNIT_D || f.scales == KRN_UNIT_K6)
            a[r] = krn_unit_pair(factor[r % 2] * x, factor[r % 2] * y);
        else
            a[r] = krn_unit_pair(krn_unit_fma(factor[r % 2], x, added[r % 2]),
                                 krn_unit_fma(factor[r % 2], y, added[r % 2]));
    }
}

#endif
