/* SPDX-License-Identifier: Apache-2.0
 * The draw (numerics.md 9). Passes over the vocabulary that are worth vectors come from the table's
 * instruction set; all decisions are integers and common to every table. Private to kernels/.
 */
#ifndef KERNELS_DRAW_H
#define KERNELS_DRAW_H

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

/* Shared with the oracle: fixed-point thresholds and the log-probability, numerics.md 9. */
uint64_t krn_draw_top_p_limit(float top_p, uint64_t sum);
uint64_t krn_draw_min_p_limit(float min_p);
float krn_draw_logprob(float z, float max, uint64_t sum);
float krn_draw_penalise(float z, const struct krn_sampling *s, uint32_t in_prompt,
                        uint32_t in_reply);
float krn_draw_bias(float z, float bias);

#endif
