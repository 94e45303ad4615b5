/* SPDX-License-Identifier: Apache-2.0
 * Counted credit of a sender: how many messages of a kind may be under way. A full mailbox is a
 * bug, so the sender takes a credit before it sends and gives it back when the answer has come.
 * Owned by one actor; plain numbers.
 */
#ifndef ACTORS_CREDIT_H
#define ACTORS_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/check.h"

struct act_credit {
    uint32_t max, used;
    uint32_t most; /* the largest use ever, for sizing */
    uint64_t refused;
};

static inline void act_credit_init(struct act_credit *c, uint32_t max) {
    *c = (struct act_credit){.max = max};
}

static inline uint32_t act_credit_left(const struct act_credit *c) {
    return c->max - c->used;
}

/* All n or none. False is an answer, counted: the caller waits, refuses or sheds. */
static inline bool act_credit_take(struct act_credit *c, uint32_t n) {
    CHECK(c->used <= c->max);
    if (n > c->max - c->used) {
        c->refused++;
        return false;
    }
    c->used += n;
    if (c->used > c->most)
        c->most = c->used;
    return true;
}

/* For a sender whose design leaves no room for a refusal: being out of credit is our bug. */
static inline void act_credit_must_take(struct act_credit *c, uint32_t n) {
    CHECK(n <= c->max - c->used);
    act_credit_take(c, n);
}

/* Giving back more than was taken is our bug: some answer was counted twice. */
static inline void act_credit_give(struct act_credit *c, uint32_t n) {
    CHECK(n <= c->used);
    c->used -= n;
}

#endif
