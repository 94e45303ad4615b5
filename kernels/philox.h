/* SPDX-License-Identifier: Apache-2.0
 * Philox4x32-10: a counter-based generator. A random number is a pure function of (seed, position),
 * so that no order of draws, retries or neighbours can move it. numerics.md 9.
 */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#include "kernels/inline.h"

/* out = Philox4x32-10(counter, key). */
KRN_INLINE void krn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The draw's 64 random bits at absolute position pos; never 0. */
KRN_INLINE uint64_t krn_philox_u64(uint64_t seed, uint64_t pos) {
    const uint32_t counter[4] = {(uint32_t)pos, (uint32_t)(pos >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    krn_philox(counter, key, out);
    uint64_t u = (uint64_t)out[1] << 32 | out[0];
    return u != 0 ? u : 1;
}

#endif
