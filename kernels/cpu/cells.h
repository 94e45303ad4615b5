/* SPDX-License-Identifier: Apache-2.0
 * Cells of blocked weights widened to fp32 (numerics.md 12), in the vector form of the including
 * file.
 */
#ifndef KERNELS_CPU_CELLS_H
#define KERNELS_CPU_CELLS_H

#if defined(KRN_ISA_AVX512)
#include "kernels/cpu/cells_avx512.h"
#elif defined(KRN_ISA_AVX2)
#include "kernels/cpu/cells_avx2.h"
#elif defined(KRN_ISA_NEON)
#include "kernels/cpu/cells_neon.h"
#else
#include "kernels/cpu/cells_plain.h"
#endif

/* What a cell's codes are multiplied with, for each half of its inputs, and what is added. */
struct cell_scales {
    v16 step[2], min;
};

VEC_FN struct cell_scales cell_scales_of(const struct krn_cell c, const uint8_t *cell) {
    const uint8_t *s = cell + krn_cell_scales_at(c);
    v16 d = v_load_f16((const uint16_t *)(const void *)s);
    struct cell_scales out = {{d, d}, v_zero()};
    if (c.scales == KRN_CELL_DM)
        out.min = v_load_f16((const uint16_t *)(const void *)(s + 32));
    if (c.scales == KRN_CELL_K) {
        out.step[0] = out.step[1] = v_mul(d, cell_u8(s + 64));
        v16 m = v_load_f16((const uint16_t *)(const void *)(s + 32));
        out.min = v_neg(v_mul(m, cell_u8(s + 80)));
    }
    if (c.scales == KRN_CELL_K6) {
        out.step[0] = v_mul(d, cell_s8(s + 32));
        out.step[1] = v_mul(d, cell_s8(s + 48));
    }
    return out;
}

/* A cell as fp32, [32][16]. */
VEC_FN void cell_widen(const struct krn_cell c, const uint8_t *cell, float *out) {
    uint8_t codes[KRN_CELL_CODES] __attribute__((aligned(64)));
    cell_codes(c, cell, codes);
    struct cell_scales s = cell_scales_of(c, cell);
    const v16 offset = v_set1((float)c.offset);
    const bool min = c.scales == KRN_CELL_DM || c.scales == KRN_CELL_K;
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 4; j++) {
            v16 q = cell_byte(codes + 64 * g, j);
            if (c.offset != 0)
                q = v_sub(q, offset);
            v16 w = min ? v_fma(s.step[g / 4], q, s.min) : v_mul(s.step[g / 4], q);
            v_store(out + (4 * g + j) * 16, w);
        }
}

/* n cells of a packed block of that type. */
#define CELLS_WIDEN(type)                                                                          \
    static void cells_widen_##type(const uint8_t *cell, uint32_t n, float *out) {                  \
        for (uint32_t i = 0; i < n; i++, cell += krn_cell_bytes(krn_cell(type)))                   \
            cell_widen(krn_cell(type), cell, out + (size_t)i * KRN_CELL_CODES);                    \
    }
CELLS_WIDEN(KRN_Q8_0)
CELLS_WIDEN(KRN_Q4_0)
CELLS_WIDEN(KRN_Q4_1)
CELLS_WIDEN(KRN_Q5_0)
CELLS_WIDEN(KRN_Q5_1)
CELLS_WIDEN(KRN_Q4_K)
CELLS_WIDEN(KRN_Q5_K)
CELLS_WIDEN(KRN_Q6_K)
CELLS_WIDEN(KRN_IQ4_NL)
#define CELLS_ENTRY(type) [type] = cells_widen_##type
static void (*const cells_widen[KRN_TYPES])(const uint8_t *cell, uint32_t n, float *out) = {
    CELLS_ENTRY(KRN_Q8_0), CELLS_ENTRY(KRN_Q4_0), CELLS_ENTRY(KRN_Q4_1),
    CELLS_ENTRY(KRN_Q5_0), CELLS_ENTRY(KRN_Q5_1), CELLS_ENTRY(KRN_Q4_K),
    CELLS_ENTRY(KRN_Q5_K), CELLS_ENTRY(KRN_Q6_K), CELLS_ENTRY(KRN_IQ4_NL)};

#endif
