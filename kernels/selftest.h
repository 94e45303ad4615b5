/* SPDX-License-Identifier: Apache-2.0
 * The golden digests of the row functions: what each must give on fixed inputs, whatever compiler
 * and instruction set. tests/golden/rowfn.txt holds the same values. Private to kernels/ and its
 * tests.
 */
#ifndef KERNELS_SELFTEST_H
#define KERNELS_SELFTEST_H

#include "kernels/rowfn.h"

struct krn_golden {
    const char *name;
    uint64_t digest;
};

/* All golden values, in the order of the file. */
const struct krn_golden *krn_golden_all(unsigned *n);

/* What this table gives for golden value i. memory: krn_golden_bytes() bytes, 64-byte aligned. */
uint64_t krn_golden_run(const struct krn_rowfn *fn, unsigned i, void *memory);
size_t krn_golden_bytes(void);

#endif
