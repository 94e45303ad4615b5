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

struct clock_timer {
    uint64_t owner; /* act_id_t */
    uint64_t cookie, deadline_ns;
    uint32_t generation;
    uint32_t place;      /* in the heap, 0: fired or free */
    uint32_t next, prev; /* of the same owner; next also links free timers */
    bool fired, used;
};

struct clock_entry {
    uint64_t deadline_ns, order;
    uint32_t timer;
};

struct clock {
    struct clock_timer *timers; /* 1..max */
    struct clock_entry *heap;   /* 1..n */
    uint64_t order;
    uint32_t n, max, free, fresh;
};

enum status clock_open(struct clock *c, uint32_t timers_max);
void clock_close(struct clock *c);

/* Arms a timer and links it into the owner's list (*list: its first timer). Returns its name, 0
 * when max are armed. */
uint64_t clock_arm(struct clock *c, uint64_t owner, uint32_t *list, uint64_t deadline_ns,
                   uint64_t cookie);
/* False when the name is stale. */
bool clock_cancel(struct clock *c, uint64_t owner, uint32_t *list, uint64_t name);
void clock_cancel_all(struct clock *c, uint32_t *list);

/* The earliest deadline, UINT64_MAX when none is armed. */
static inline uint64_t clock_next(const struct clock *c) {
    return c->n == 0 ? UINT64_MAX : c->heap[1].deadline_ns;
}
/* Takes the earliest timer that is due; it waits for clock_settle. Returns its name, 0 when none is
 * due. */
uint64_t clock_fire(struct clock *c, uint64_t now_ns, const struct clock_timer **out);
/* The message of a fired timer is about to be received: false when it was cancelled meanwhile.
 * Frees the timer. */
bool clock_settle(struct clock *c, uint32_t *list, uint64_t name);

#endif
