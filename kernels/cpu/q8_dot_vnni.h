/* SPDX-License-Identifier: Apache-2.0
 * q8_dot_plain.h with AVX-512 VNNI.
 */
#ifndef KERNELS_CPU_Q8_DOT_VNNI_H
#define KERNELS_CPU_Q8_DOT_VNNI_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/q8_row.h"

struct q8_codes {
    __m512i g[8];
};

VEC_FN struct q8_codes q8_read(const struct krn_cell c, const uint8_t *cell) {
    struct q8_codes codes;
    UNROLL for (int g = 0; g < 8; g++) codes.g[g] = cell_group(c, cell, g);
    return codes;
}

VEC_FN v16 q8_dot(const struct krn_cell c, const struct q8_codes *codes, const int8_t *x,
                  const int g0, const int g1, int32_t sum) {
    __m512i s = _mm512_set1_epi32(-c.offset * sum);
    UNROLL for (int g = g0; g < g1; g++) {
        int32_t four;
        memcpy(&four, x + 4 * g, sizeof four);
        s = _mm512_dpbusd_epi32(s, codes->g[g], _mm512_set1_epi32(four));
    }
    return _mm512_cvtepi32_ps(s);
}

#endif
