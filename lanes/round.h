/* SPDX-License-Identifier: Apache-2.0
 * From the chosen work of a round to the bytes of a plan: a pure function.
 */
#ifndef LANES_ROUND_H
#define LANES_ROUND_H

#include "lanes/slot.h"

/* One seq of a plan: n_rows rows of the slot from first_pos on; the last n_draws of them draw. */
struct lane_round_entry {
    const struct lane_slot *slot;
    const uint32_t *pages; /* page table of the slot from position 0 on */
    uint32_t first_pos, n_rows, n_draws;
    bool from_draw;       /* the one row's token is what the slot draws in the plan before */
    struct gpu_copy copy; /* tokens 0: none */
};

/* True when the entries fit the limits together. */
bool lane_round_fits(const struct lane_round_entry *entries, uint32_t n,
                     const struct gpu_limits *limits);
/* Lays out and fills the plan (not number and digest). page_tokens: of the device. */
void lane_round_build(struct gpu_plan *plan, const struct lane_round_entry *entries, uint32_t n,
                      uint32_t page_tokens, uint32_t flags);

#endif
