/* SPDX-License-Identifier: Apache-2.0
 * Integer sums of profile `q8` in plain C: what the vector forms must equal.
 */
#ifndef KERNELS_CPU_Q8_DOT_PLAIN_H
#define KERNELS_CPU_Q8_DOT_PLAIN_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/q8_row.h"

struct q8_codes {
    uint8_t b[KRN_CELL_CODES]; /* [8][16][4] */
};

VEC_FN struct q8_codes q8_read(const struct krn_cell c, const uint8_t *cell) {
    struct q8_codes codes;
    cell_codes(c, cell, codes.b);
    return codes;
}

/* The sums over inputs of groups [g0, g1) of (code - offset) * x, x the cell's 32 codes of a row
 * and sum what they add up to there. */
VEC_FN v16 q8_dot(const struct krn_cell c, const struct q8_codes *codes, const int8_t *x,
                  const int g0, const int g1, int32_t sum) {
    float out[16];
    for (int n = 0; n < 16; n++) {
        int32_t s = -c.offset * sum;
        for (int g = g0; g < g1; g++)
            for (int j = 0; j < 4; j++)
                s += (int32_t)codes->b[64 * g + 4 * n + j] * x[4 * g + j];
        out[n] = (float)s;
    }
    return v_load(out);
}

#endif
