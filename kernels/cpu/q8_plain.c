/* SPDX-License-Identifier: Apache-2.0
 * Profile `q8` for any processor; vectors of NEON where those are always there.
 */
#if defined(__aarch64__)
#define KRN_ISA_NEON
#else
#define KRN_ISA_SCALAR
#endif
#include "kernels/cpu/q8.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/cpu/q8_round.h"

static void product(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch) {
    if (!q8_is_plain(p, block0, block1, scratch))
        q8_blocks(p, block0, block1);
}

const struct krn_q8 krn_q8_plain = {VEC_ISA, q8_round, product};
