/* SPDX-License-Identifier: Apache-2.0
 * Blocked weights as the kernels read them: a packed block of sixteen outputs is a row of cells,
 * one for every 32 inputs, and a cell holds what the file's blocks say of these 16 x 32 elements,
 * bit for bit, in about as many bytes. Any thread may call; nothing allocates.
 *
 * A cell: codes, then planes, then scales.
 *   codes   one byte an element, [8][16][4]: inputs 4g to 4g + 3 of each output; or nibbles,
 *           [4][16][4] bytes: the low one of byte j in group g is input 4g + j, the high one
 *           16 + 4g + j
 *   planes  a further bit of nibble codes each (bit 4, then bit 5), 8 x 64 bits: bit 4n + j of
 *           word g is that of input 4g + j of output n
 *   scales  f16 d[16]; then nothing, f16 m[16], or u8 s[16] after f16 dmin[16] and u8 u[16] behind,
 *           or s8 s[2][16], one for each half of the inputs
 */
#ifndef KERNELS_QUANT_CELL_H
#define KERNELS_QUANT_CELL_H

#include "kernels/quant/quant.h"
#include "kernels/rowfn.h"

enum { KRN_CELL = 32, KRN_CELL_CODES = KRN_CELL * KRN_BLOCK };

enum krn_cell_scales {
    KRN_CELL_D,  /* d * (code - offset) */
    KRN_CELL_DM, /* d * code + m */
    KRN_CELL_K,  /* (d * s) * code - dmin * u */
    KRN_CELL_K6  /* (d * s of the half) * (code - offset) */
};

struct krn_cell {
    bool wide;   /* codes are bytes */
    bool uneven; /* a nibble chooses one of krn_cell_steps */
    uint32_t planes;
    int offset; /* what the byte of a code is above the signed value */
    enum krn_cell_scales scales;
};

/* Of a blocked type; folds to constants where the type is one. */
static inline __attribute__((always_inline)) struct krn_cell krn_cell(const enum krn_dtype type) {
    switch (type) {
    case KRN_Q8_0:
        return (struct krn_cell){.wide = true, .offset = 128};
    case KRN_Q4_0:
        return (struct krn_cell){.offset = 8};
    case KRN_Q4_1:
        return (struct krn_cell){.scales = KRN_CELL_DM};
    case KRN_Q5_0:
        return (struct krn_cell){.planes = 1, .offset = 16};
    case KRN_Q5_1:
        return (struct krn_cell){.planes = 1, .scales = KRN_CELL_DM};
    case KRN_Q4_K:
        return (struct krn_cell){.scales = KRN_CELL_K};
    case KRN_Q5_K:
        return (struct krn_cell){.planes = 1, .scales = KRN_CELL_K};
    case KRN_Q6_K:
        return (struct krn_cell){.planes = 2, .offset = 32, .scales = KRN_CELL_K6};
    default: /* IQ4_NL */
        return (struct krn_cell){.uneven = true, .offset = 128};
    }
}

/* Where the scales of a cell begin, and its bytes. */
static inline __attribute__((always_inline)) uint32_t krn_cell_scales_at(const struct krn_cell c) {
    return c.wide ? KRN_CELL_CODES : KRN_CELL_CODES / 2 + c.planes * (KRN_CELL_CODES / 8);
}
static inline __attribute__((always_inline)) uint32_t krn_cell_bytes(const struct krn_cell c) {
    static const uint8_t scales[] = {2, 4, 6, 4};
    return krn_cell_scales_at(c) + (uint32_t)scales[c.scales] * KRN_BLOCK;
}

/* The signed steps of IQ4_NL, 128 above their values. */
extern const uint8_t krn_cell_steps[16];

/* Whether k inputs of this type are packed in cells: a blocked type, and whole cells. */
bool krn_cell_fits(enum krn_dtype type, uint32_t k);

/* Outputs [row0, row0 + n) of at most 16 and inputs [col0, col0 + k), whole cells, of a matrix as
 * one packed block: k / 32 cells; outputs that are not there are zeros. */
void krn_cell_pack(const struct krn_tensor *w, uint64_t row0, uint32_t n, uint32_t col0, uint32_t k,
                   uint8_t *out);

/* Output `row` of a packed weight as exact fp32 values (numerics.md 12). */
void krn_cell_row(const struct krn_packed *w, uint32_t row, float *y);

#endif
