/* SPDX-License-Identifier: Apache-2.0
 * Timers of one worker: a heap by deadline, then by the order of arming. Names carry a generation,
 * so a late cancel touches nobody. A timer that fired stays known until its message is received, so
 * a cancel in between still wins. Used by its worker only. No time is read here; the caller passes
 * it in.
 */
#ifndef ACTORS_CLOCK_H
#define ACTORS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct act_clock_timer {
    uint64_t owner; /* act_id_t */
    uint64_t cookie, deadline_ns;
    uint32_t generation;
    uint32_t place;      /* in the heap, 0: fired or free */
    uint32_t next, prev; /* of the same owner; next also links free timers */
    bool fired, used;
};

struct act_clock_entry {
    uint64_t deadline_ns, order;
    uint32_t timer;
};

struct act_clock {
    struct act_clock_timer *timers; /* 1..max */
    struct act_clock_entry *heap;   /* 1..n */
    uint64_t order;
    uint32_t n, max, free, fresh;
};

enum status act_clock_open(struct act_clock *c, uint32_t timers_max);
void act_clock_close(struct act_clock *c);

/* Arms a timer and links it into the owner's list (*list: its first timer). Returns its name, 0
 * when max are armed. */
uint64_t act_clock_arm(struct act_clock *c, uint64_t owner, uint32_t *list, uint64_t deadline_ns,
                       uint64_t cookie);
/* False when the name is stale. */
bool act_clock_cancel(struct act_clock *c, uint64_t owner, uint32_t *list, uint64_t name);
void act_clock_cancel_all(struct act_clock *c, uint32_t *list);

/* The earliest deadline, UINT64_MAX when none is armed. */
static inline uint64_t act_clock_next(const struct act_clock *c) {
    return c->n == 0 ? UINT64_MAX : c->heap[1].deadline_ns;
}
/* Takes the earliest timer that is due; it waits for act_clock_settle. Returns its name, 0 when
 * none is due. */
uint64_t act_clock_fire(struct act_clock *c, uint64_t now_ns, const struct act_clock_timer **out);
/* The message of a fired timer is about to be received: false when it was cancelled meanwhile.
 * Frees the timer. */
bool act_clock_settle(struct act_clock *c, uint32_t *list, uint64_t name);

#endif
