/* SPDX-License-Identifier: Apache-2.0
 * The inbox of a worker: many senders, one owner. One word says empty, parked, closed, or names the
 * newest of a chain of envelopes; the owner takes the whole chain at once and hands it out in the
 * order of sending to the actors' private queues. Parking is part of the same word, so a sender
 * learns from its own push whether the owner sleeps.
 *
 * The owner parks in this order (tests/model/mailbox.pml):
 *   1. sample the park counter
 *   2. empty -> parked; when that fails there is mail
 *   3. look at what else may end the sleep
 *   4. sleep while the counter still is the sample
 * A sender whose push replaced "parked" adds 1 to the counter, then wakes. Sampling after step 2
 * would lose the wake of a sender that came between.
 *
 * I1  An envelope is taken exactly once. (model, test_mailbox_yield)
 * I2  One sender's envelopes are handed out in the order of sending. (model, test_mailbox_yield)
 * I3  An owner that sleeps for good sleeps on an empty inbox. (model, test_mailbox_yield)
 * I4  A closed inbox stays closed; a push then is refused and the sender keeps the envelope.
 */
#ifndef ACTORS_MAILBOX_H
#define ACTORS_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The systematic test defines this to hand control to its scheduler between any two shared
 * accesses. */
#ifndef MAILBOX_YIELD
#define MAILBOX_YIELD(site) ((void)0)
#endif

enum { MAILBOX_EMPTY = 0, MAILBOX_PARKED = 1, MAILBOX_CLOSED = 2, MAILBOX_REF_MIN = 16 };

struct act_mailbox {
    _Atomic uint32_t word;  /* one of the above, or the reference of the newest envelope */
    _Atomic uint32_t parks; /* the park counter: the futex word */
};

/* Where an envelope keeps the reference of the one before it (0: none). */
typedef void (*act_mailbox_link_fn)(void *envelope, uint32_t before);

static inline void act_mailbox_init(struct act_mailbox *box) {
    atomic_init(&box->word, MAILBOX_EMPTY);
    atomic_init(&box->parks, 0);
}

enum act_mailbox_push { MAILBOX_PUSHED, MAILBOX_PUSHED_WAKE, MAILBOX_REFUSED };

/* Adds one envelope, known to the owner as ref; link stores its predecessor. WAKE: call
 * act_mailbox_wake_note and wake the owner's futex. Any thread. */
static inline enum act_mailbox_push act_mailbox_push(struct act_mailbox *box, uint32_t ref,
                                                     void *envelope, act_mailbox_link_fn link) {
    MAILBOX_YIELD("push load");
    uint32_t old = atomic_load_explicit(&box->word, memory_order_relaxed);
    do {
        if (old == MAILBOX_CLOSED)
            return MAILBOX_REFUSED;
        link(envelope, old >= MAILBOX_REF_MIN ? old : 0);
        MAILBOX_YIELD("push exchange");
        /* release: pairs with the acquire in act_mailbox_take; weaker, and the owner could read an
         * unwritten envelope */
    } while (!atomic_compare_exchange_weak_explicit(&box->word, &old, ref, memory_order_release,
                                                    memory_order_relaxed));
    return old == MAILBOX_PARKED ? MAILBOX_PUSHED_WAKE : MAILBOX_PUSHED;
}

/* After a push that replaced "parked", before the futex wake. Any thread. */
static inline void act_mailbox_wake_note(struct act_mailbox *box) {
    MAILBOX_YIELD("wake note");
    /* release: pairs with the acquire in act_mailbox_park_sample; an owner that samples the new
     * value sees why */
    atomic_fetch_add_explicit(&box->parks, 1, memory_order_release);
}

/* Owner: true when there is something to take (a hint; take is what decides). */
static inline bool act_mailbox_has(struct act_mailbox *box) {
    return atomic_load_explicit(&box->word, memory_order_relaxed) >= MAILBOX_REF_MIN;
}

/* Owner: takes the chain, newest first; 0 when there is none. Leaves the inbox empty, or closed if
 * it was. */
static inline uint32_t act_mailbox_take(struct act_mailbox *box) {
    MAILBOX_YIELD("take load");
    uint32_t word = atomic_load_explicit(&box->word, memory_order_relaxed);
    if (word == MAILBOX_EMPTY || word == MAILBOX_CLOSED)
        return 0;
    MAILBOX_YIELD("take exchange");
    /* acquire: pairs with the release in act_mailbox_push, of every envelope in the chain (a
     * release sequence) */
    word = atomic_exchange_explicit(&box->word, MAILBOX_EMPTY, memory_order_acquire);
    return word >= MAILBOX_REF_MIN ? word : 0;
}

/* Owner, step 1 of parking. */
static inline uint32_t act_mailbox_park_sample(struct act_mailbox *box) {
    MAILBOX_YIELD("park sample");
    /* acquire: pairs with the release in act_mailbox_wake_note */
    return atomic_load_explicit(&box->parks, memory_order_acquire);
}

/* Owner, step 2: false when there is mail. */
static inline bool act_mailbox_park_mark(struct act_mailbox *box) {
    MAILBOX_YIELD("park mark");
    uint32_t empty = MAILBOX_EMPTY;
    /* relaxed: nothing is published; the mark is read by the exchange in push, which orders by
     * itself */
    return atomic_compare_exchange_strong_explicit(&box->word, &empty, MAILBOX_PARKED,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Owner, steps 1 and 2. True: look at what else may end the sleep, then sleep while parks is
 * still *sample. */
static inline bool act_mailbox_park(struct act_mailbox *box, uint32_t *sample) {
    *sample = act_mailbox_park_sample(box);
    return act_mailbox_park_mark(box);
}

/* Owner, awake again for another reason than mail. */
static inline void act_mailbox_park_unmark(struct act_mailbox *box) {
    MAILBOX_YIELD("park unmark");
    uint32_t parked = MAILBOX_PARKED;
    atomic_compare_exchange_strong_explicit(&box->word, &parked, MAILBOX_EMPTY,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Owner: refuses everything from now on; returns what was waiting, newest first. */
static inline uint32_t act_mailbox_close(struct act_mailbox *box) {
    MAILBOX_YIELD("close");
    /* acquire: as in act_mailbox_take */
    uint32_t word = atomic_exchange_explicit(&box->word, MAILBOX_CLOSED, memory_order_acquire);
    return word >= MAILBOX_REF_MIN ? word : 0;
}

#endif
