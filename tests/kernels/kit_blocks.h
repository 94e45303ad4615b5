/* SPDX-License-Identifier: Apache-2.0
 * Matrices of blocked formats made of random bytes: every code, every scale.
 */
#ifndef TESTS_KERNELS_KIT_BLOCKS_H
#define TESTS_KERNELS_KIT_BLOCKS_H

#include "kernels/quant/quant.h"
#include "tests/kernels/kit.h"

/* The f16 scales are tame (kind 0), tiny (1), finite (2), or anything (3). */
static inline void kit_block(struct kit_rand *r, enum krn_dtype type, uint32_t kind,
                             unsigned char *block) {
    static const int where[KRN_TYPES][2] = {[KRN_Q4_1] = {0, 2},
                                            [KRN_Q5_1] = {0, 2},
                                            [KRN_Q4_K] = {0, 2},
                                            [KRN_Q5_K] = {0, 2},
                                            [KRN_Q6_K] = {208, 208}};
    for (uint32_t i = 0; i < krn_format_of(type)->bytes; i++)
        block[i] = (unsigned char)kit_u32(r);
    for (int i = 0; i < 2 && kind < 3; i++) {
        unsigned char *high = block + where[type][i] + 1;
        *high = (unsigned char)(kind == 0   ? (*high & 0x83) | 0x38
                                : kind == 1 ? *high & 0x83
                                            : *high & 0xbf);
    }
}

/* n by k elements, k a multiple of the type's block; owns its data. */
static inline struct krn_tensor kit_blocked(struct kit_rand *r, enum krn_dtype type, uint32_t n,
                                            uint32_t k, uint32_t kind) {
    const struct krn_format *f = krn_format_of(type);
    uint64_t blocks = (uint64_t)n * k / f->block;
    unsigned char *data = kit_alloc(blocks * f->bytes);
    for (uint64_t b = 0; b < blocks; b++)
        kit_block(r, type, kind, data + b * f->bytes);
    return (struct krn_tensor){.name = "blocked",
                               .dtype = type,
                               .n_dims = 2,
                               .dims = {n, k},
                               .data = data,
                               .bytes = blocks * f->bytes};
}

#endif
