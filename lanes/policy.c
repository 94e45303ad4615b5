/* SPDX-License-Identifier: Apache-2.0
 * The built-in policy and the adversarial one. Pure: they see wants and answer sizes and an order.
 */
#include "lanes/planner_policy.h"

#include "lanes/protocol.h"

enum {
    POLICY_AGE_ROUNDS = 8, /* a want left out this often goes first */
    POLICY_AGED_ROWS = 16  /* and gets at least this many prompt rows beside decodes */
};

/* Aged wants first, then priority, then arrival. */
static bool policy_before(const struct lane_policy_want *a, const struct lane_policy_want *b) {
    bool old_a = a->rounds_waited >= POLICY_AGE_ROUNDS;
    bool old_b = b->rounds_waited >= POLICY_AGE_ROUNDS;
    if (old_a != old_b)
        return old_a;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->arrived < b->arrived;
}

static void policy_sort(const struct lane_policy_view *view, uint32_t *order) {
    for (uint32_t i = 0; i < view->n; i++) {
        uint32_t at = i;
        while (at > 0 && policy_before(&view->want[i], &view->want[order[at - 1]])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static uint32_t policy_min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Decode rows and windows first, each at least one row; prompts share what is left of the budget,
 * and no more than prefill_share of it while something decodes, so that a decode's gap stays
 * bounded. */
static void policy_default_decide(void *self, const struct lane_policy_view *view, uint32_t *rows,
                                  uint32_t *order) {
    (void)self;
    policy_sort(view, order);
    uint32_t budget = view->round_tokens, decoding = 0;
    for (uint32_t k = 0; k < view->n; k++) {
        uint32_t i = order[k];
        rows[i] = 0;
        if (view->want[i].kind == LANE_WANT_PROMPT)
            continue;
        decoding++;
        rows[i] = view->want[i].rows <= budget ? view->want[i].rows : 1;
        budget -= policy_min(rows[i], budget);
    }
    if (decoding > 0)
        budget = policy_min(budget,
                            (uint32_t)((uint64_t)view->round_tokens * view->prefill_share / 100));
    for (uint32_t k = 0; k < view->n; k++) {
        uint32_t i = order[k];
        const struct lane_policy_want *w = &view->want[i];
        if (w->kind != LANE_WANT_PROMPT)
            continue;
        uint32_t give = policy_min(policy_min(w->rows, view->piece_tokens), budget);
        if (give == 0 && w->rounds_waited >= POLICY_AGE_ROUNDS)
            give = policy_min(w->rows, POLICY_AGED_ROWS);
        rows[i] = give;
        budget -= policy_min(give, budget);
    }
}

const struct lane_policy lane_policy_default = {
    .name = "default", .self = NULL, .decide = policy_default_decide};

static uint64_t policy_next(uint64_t *x) {
    *x += 0x9e3779b97f4a7c15u;
    uint64_t z = *x;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void policy_random_decide(void *self, const struct lane_policy_view *view, uint32_t *rows,
                                 uint32_t *order) {
    uint64_t *x = self;
    for (uint32_t i = 0; i < view->n; i++) {
        uint64_t r = policy_next(x);
        order[i] = i;
        rows[i] = r % 4 == 0 ? 0 : 1 + (uint32_t)((r >> 8) % view->want[i].rows);
        if (r % 16 == 1)
            rows[i] = UINT32_MAX; /* nonsense: cut to what is valid */
    }
    for (uint32_t i = view->n; i > 1; i--) {
        uint32_t j = (uint32_t)(policy_next(x) % i);
        uint32_t t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

struct lane_policy lane_policy_random(uint64_t *seed) {
    return (struct lane_policy){.name = "random", .self = seed, .decide = policy_random_decide};
}
