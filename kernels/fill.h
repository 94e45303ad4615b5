/* SPDX-License-Identifier: Apache-2.0
 * Seeded random values: element i of a tensor is a pure function of (fill, i), in integer
 * arithmetic with one exact scaling and one rounding, so that every machine and device makes the
 * same.
 */
#ifndef KERNELS_FILL_H
#define KERNELS_FILL_H

#include <stdint.h>

#include "kernels/inline.h"

/* Uniform in offset +- reach. */
struct krn_fill {
    uint64_t stream;
    float offset, reach;
};

KRN_INLINE uint64_t krn_fill_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* reach is a float and the unit has 24 bits, so that their product is exact in double. */
KRN_INLINE float krn_fill_value(uint64_t stream, float offset, float reach, uint64_t i) {
    int32_t unit = (int32_t)(krn_fill_mix(stream + i) >> 40) - (1 << 23);
    return (float)((double)offset + (double)unit * 0x1p-23 * (double)reach);
}

#endif
