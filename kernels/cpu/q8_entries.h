/* SPDX-License-Identifier: Apache-2.0
 * The forms of profile `q8` (numerics.md 14). Weights are packed in cells (krn_pack). Private to
 * kernels/ and its tests; others call krn_matmul_open.
 */
#ifndef KERNELS_CPU_Q8_ENTRIES_H
#define KERNELS_CPU_Q8_ENTRIES_H

#include "kernels/rowfn.h"

struct krn_q8 {
    const char *isa;
    void (*round)(const float *x, uint32_t k, void *out); /* numerics.md 14.1 */
    /* numerics.md 14.2 to 14.4; of weights of plain types, section 3 */
    void (*product)(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch);
};

extern const struct krn_q8 krn_q8_plain, krn_q8_avx2, krn_q8_vnni, krn_q8_amx;

/* The best form beside the row functions fn. */
const struct krn_q8 *krn_q8_pick(const struct krn_rowfn *fn);
/* The i-th form that this machine runs, best first; NULL past the last. */
const struct krn_q8 *krn_q8_at(unsigned i);

/* Bytes of a rounded row. */
size_t krn_q8_row_bytes(uint32_t k);

/* What every form gives on fixed inputs, and the check of one form. memory: krn_q8_golden_bytes()
 * bytes, 64-byte aligned. */
#define KRN_Q8_GOLDEN 0xa25dd097456deaa2ull
uint64_t krn_q8_golden_run(const struct krn_q8 *q8, void *memory);
size_t krn_q8_golden_bytes(void);
enum status krn_q8_selftest(const struct krn_q8 *q8, struct status_note *note);

#endif
