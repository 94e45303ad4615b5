/* SPDX-License-Identifier: Apache-2.0
 * Profile `q8` for avx2.
 */
#define KRN_ISA_AVX2
#include "kernels/cpu/q8.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/cpu/q8_round.h"

static void product(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch) {
    if (!q8_is_plain(p, block0, block1, scratch))
        q8_blocks(p, block0, block1);
}

const struct krn_q8 krn_q8_avx2 = {"avx2", q8_round, product};
