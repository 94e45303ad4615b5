/* SPDX-License-Identifier: Apache-2.0
 * The draw (numerics.md 9). Passes over the vocabulary that are worth vectors come from the table's
 * instruction set; all decisions are integers and common to every table. Private to kernels/.
 */
#ifndef KERNELS_DRAW_H
#define KERNELS_DRAW_H

#include "kernels/approx.h"
#include "kernels/philox.h"
#include "kernels/rowfn.h"

enum { KRN_DRAW_CHUNK = 1024 /* ids whose weights are summed together */ };

struct krn_draw_passes {
    /* The lowest id among the greatest of n values and that value; *id = n when all are -inf or
     * NaN. Returns whether all are finite. */
    bool (*argmax)(const float *z, uint32_t n, uint32_t *id, float *max);
    /* w[i] = exp((z[i] - max) / temperature) in 2^-40 units, up to n rounded up to 16 (the rest 0);
     * sums[c] of each chunk. Returns the sum. */
    uint64_t (*weights)(const float *z, uint32_t n, float max, float temperature, uint64_t *w,
                        uint64_t *sums);
};

void krn_draw_run(const struct krn_draw_passes *passes, const struct krn_draw *d,
                  struct krn_drawn *out);

/* Shared with the oracle and with devices: fixed-point thresholds and the log-probability,
 * numerics.md 9. */
KRN_INLINE uint64_t krn_mul_high(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return (uint64_t)((unsigned __int128)a * b >> 64);
#endif
}

KRN_INLINE uint64_t krn_draw_top_p_limit(float top_p, uint64_t sum) {
    uint64_t q = top_p >= 1.0f ? (uint64_t)1 << 32 : top_p > 0.0f ? (uint64_t)(top_p * 0x1p32f) : 0;
    uint64_t limit = krn_mul_high(sum, q) << 32 | sum * q >> 32;
    return limit != 0 ? limit : 1;
}

KRN_INLINE uint64_t krn_draw_min_p_limit(float min_p) {
    return min_p >= 1.0f ? (uint64_t)1 << 40 : min_p > 0.0f ? (uint64_t)(min_p * 0x1p40f) : 0;
}

KRN_INLINE float krn_draw_logprob(float z, float max, uint64_t sum) {
    return (float)(((double)z - (double)max) - krn_log64((double)sum * 0x1p-40));
}

/* Keeps a penalised value inside what the rest of the draw can order. */
KRN_INLINE float krn_draw_tame(float z) {
    if (z != z)
        return krn_float(0xff800000u);
    return z > 0x1.fffffep+127f ? 0x1.fffffep+127f : z;
}

KRN_INLINE float krn_draw_penalise(float z, const struct krn_sampling *s, uint32_t in_prompt,
                                   uint32_t in_reply) {
    if (s->repetition != 1.0f && (in_prompt != 0 || in_reply != 0))
        z = z > 0.0f ? z / s->repetition : z * s->repetition;
    if (in_reply != 0) {
        z = z - s->presence;
        z = z - s->frequency * (float)in_reply;
    }
    return krn_draw_tame(z);
}

KRN_INLINE float krn_draw_bias(float z, float bias) {
    return krn_draw_tame(z + bias);
}

/* Monotone in z; -0 and +0 have one key. */
KRN_INLINE uint32_t krn_draw_key(float z) {
    uint32_t b = krn_bits(z + 0.0f);
    return (b & 0x80000000u) != 0 ? ~b : b | 0x80000000u;
}

/* The target that the running sum of what is kept has to pass. */
KRN_INLINE uint64_t krn_draw_target(uint64_t seed, uint64_t pos, uint64_t sum) {
    return krn_mul_high(krn_philox_u64(seed, pos), sum);
}

#endif
