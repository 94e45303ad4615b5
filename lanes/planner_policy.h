/* SPDX-License-Identifier: Apache-2.0
 * The replaceable part of the planner: a pure function that orders and sizes work. It can never
 * change tokens: what it answers is cut to what is valid, and any answer, even an empty one, is
 * followed by a fallback that makes progress.
 */
#ifndef LANES_PLANNER_POLICY_H
#define LANES_PLANNER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct lane_policy_want {
    uint64_t lane; /* name of the request */
    uint32_t slot;
    uint32_t kind; /* enum lane_want_kind */
    uint32_t rows; /* wanted: prompt rows left, 1, or window length */
    uint32_t priority;
    uint32_t rounds_waited; /* plans closed since it last got a row */
    uint64_t arrived;       /* order of arrival */
};

struct lane_policy_view {
    uint64_t plan; /* number of the plan being made (relative; seeds the random policy) */
    uint32_t round_tokens, piece_tokens, prefill_share;
    uint32_t n;
    const struct lane_policy_want *want;
};

/* rows[i] of want i: 0 leaves it out; a prompt may get fewer than wanted, a verify window fewer (at
 * least 1), a decode 1. order: permutation of 0..n-1, the order of the seqs in the plan. */
struct lane_policy {
    const char *name;
    void *self;
    void (*decide)(void *self, const struct lane_policy_view *view, uint32_t *rows,
                   uint32_t *order);
};

extern const struct lane_policy lane_policy_default;
/* Adversarial: random order, sizes and omissions from a seed. self: uint64_t seed, owned by the
 * caller. */
struct lane_policy lane_policy_random(uint64_t *seed);

#endif
