/* SPDX-License-Identifier: Apache-2.0
 * What a lane keeps of the draws of a window: pure functions of plain data.
 */
#ifndef LANES_ACCEPT_H
#define LANES_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/rowfn.h"

struct lane_accept_in {
    const uint32_t *drafts; /* n_draws - 1 proposed tokens */
    const struct krn_drawn
        *draws;        /* draw i stands after the pending token and the first i drafts */
    uint32_t n_draws;  /* at least 1 */
    uint32_t new_left; /* tokens that may still be made, at least 1 */
    const uint32_t *eos;
    uint32_t n_eos; /* 0: EOS is ignored */
};

struct lane_accept_out {
    uint32_t n_new; /* draws taken, in order; the last may be an EOS */
    /* drafts that equal the draw before them and were taken: n_new - 1, or n_new when the window
     * ended so */
    uint32_t accepted;
    bool eos;  /* the last taken token ends the sequence */
    bool full; /* new_left is used up */
    bool bad;  /* the draw after those taken is not finite */
};

/* Takes draws while each equals the next draft, until EOS, new_left, a bad draw or a difference. */
void lane_accept(const struct lane_accept_in *in, struct lane_accept_out *out);

/* The next adaptive draft length from what the last window gave: grows on full acceptance, shrinks
 * else; 1..max. */
uint32_t lane_draft_adapt(uint32_t now, uint32_t proposed, uint32_t accepted, uint32_t max);

#endif
