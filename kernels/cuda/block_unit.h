/* SPDX-License-Identifier: Apache-2.0
 * Blocked weights (numerics.md 12) as the tensor-core products of cuda-bf16 read them: the bits of
 * the file, put in another order and nothing else, and the bf16 values that are made of them in
 * registers. A unit is 16 outputs by the 64 columns of a block of bf16_tile.h; the units of a row
 * of units lie one behind the other, so that whoever owns 16 outputs reads neighbouring bytes.
 *
 * Lane l of a warp holds what mma.sync m16n8k16 wants of it as operand A: of K-step s the rows
 * l / 4 and 8 + l / 4, columns 16s + 2 * (l % 4) + {0, 1, 8, 9}. Register r of the step holds
 * row l / 4 + 8 * (r % 2), columns from 8 * (r / 2) on, `high` the second of the two.
 *
 * A unit: codes, then planes, then scales.
 *   codes   nibbles: a word a K-step, [lane][4]; the one of (r, high) at bit 4r + 16 * high, of
 *           IQ4_NL at 8r + 4 * high. Bytes: two words a K-step, (r, high) in byte
 *           2 * (r % 2) + high of word r / 2; [2 steps][lane][4]
 *   planes  bit 4, then bit 5 of nibble codes: a word a lane, [plane][lane]; the bit of
 *           (s, r, high) at s + 4r + 16 * high
 *   scales  of the rows l / 4 and 8 + l / 4, [l / 4] as struct krn_unit_lane says
 */
#ifndef KERNELS_CUDA_BLOCK_UNIT_H
#define KERNELS_CUDA_BLOCK_UNIT_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/profile.h"

enum {
    KRN_UNIT_ROWS = 16,
    KRN_UNIT_LANES = 32,
    KRN_UNIT_RUN = 32, /* neighbouring inputs that share their scales in every format */
    KRN_UNIT_BYTES_MAX = 1088
};

enum krn_unit_scales {
    KRN_UNIT_D,  /* d * (code - offset); f16 d[row][half] */
    KRN_UNIT_DM, /* d * code + m; f16 d[row][half], m[row][half] */
    KRN_UNIT_K,  /* (d * s) * code - dmin * u; f16 d, dmin [row]; u8 s[half], u[half] [row] */
    KRN_UNIT_K6  /* (d * s) * (code - offset); f16 d[row]; s + 128 [row][K-step] */
};

struct krn_unit_form {
    uint32_t wide, uneven, planes, offset, scales;
};

/* What a lane holds of a unit. */
struct krn_unit_lane {
    uint32_t code[8], plane[2], scale[4];
};

/* Of a blocked type; folds to constants where the type is one. */
KRN_BF16_FN struct krn_unit_form krn_unit_form(uint32_t type) {
    struct krn_unit_form f = {0, 0, 0, 0, KRN_UNIT_D};
    f.wide = type == KRN_Q8_0;
    f.uneven = type == KRN_IQ4_NL;
    f.planes = type == KRN_Q6_K                                           ? 2
               : type == KRN_Q5_0 || type == KRN_Q5_1 || type == KRN_Q5_K ? 1
                                                                          : 0;
    f.offset = type == KRN_Q8_0 || type == KRN_IQ4_NL ? 128
               : type == KRN_Q4_0                     ? 8
               : type == KRN_Q5_0                     ? 16
               : type == KRN_Q6_K                     ? 32
                                                      : 0;
    if (type == KRN_Q4_1 || type == KRN_Q5_1)
        f.scales = KRN_UNIT_DM;
    if (type == KRN_Q4_K || type == KRN_Q5_K)
        f.scales = KRN_UNIT_K;
    if (type == KRN_Q6_K)
        f.scales = KRN_UNIT_K6;
    return f;
}

/* Bytes of scales that the four lanes of two rows share. */
KRN_BF16_FN uint32_t krn_unit_scale_bytes(struct krn_unit_form f) {
    return f.scales == KRN_UNIT_D ? 8 : f.scales == KRN_UNIT_K6 ? 12 : 16;
}

KRN_BF16_FN uint32_t krn_unit_planes_at(struct krn_unit_form f) {
    return f.wide ? 1024 : 512;
}

KRN_BF16_FN uint32_t krn_unit_scales_at(struct krn_unit_form f) {
    return krn_unit_planes_at(f) + f.planes * 128;
}

KRN_BF16_FN uint32_t krn_unit_bytes(uint32_t type) {
    struct krn_unit_form f = krn_unit_form(type);
    return krn_unit_scales_at(f) + 8 * krn_unit_scale_bytes(f);
}

KRN_BF16_FN uint32_t krn_unit_rows(uint32_t n) {
    return (n + KRN_UNIT_ROWS - 1) / KRN_UNIT_ROWS;
}

/* Bytes of a matrix of n outputs in units. */
KRN_BF16_FN uint64_t krn_unit_matrix_bytes(uint32_t type, uint32_t n, uint32_t k,
                                           uint32_t segments) {
    return (uint64_t)krn_unit_rows(n) * krn_bf16_blocks(k, segments) * krn_unit_bytes(type);
}

/* The byte of code word `word` of a lane: its place in the codes, in words. */
KRN_BF16_FN uint32_t krn_unit_word(struct krn_unit_form f, uint32_t lane, uint32_t word) {
    return f.wide ? word / 4 * 128 + lane * 4 + word % 4 : lane * 4 + word;
}

#endif
