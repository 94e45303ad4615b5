/* SPDX-License-Identifier: Apache-2.0
 * Indices 1..max that any thread may take and put back: a linked stack of indices whose head
 * carries a count of takes, so that a head that was taken and put back meanwhile is recognised (no
 * ABA). Fresh indices come from a counter, so opening touches no memory. 0 means none.
 */
#ifndef ACTORS_SLOTS_H
#define ACTORS_SLOTS_H

#include <stdatomic.h>
#include <stdint.h>

struct act_slots {
    _Atomic uint64_t head;  /* takes << 32 | index */
    _Atomic uint32_t fresh; /* next index that was never taken */
    uint32_t max;
    _Atomic uint32_t *next; /* max + 1 entries, owned by the opener */
};

static inline void act_slots_init(struct act_slots *s, _Atomic uint32_t *next, uint32_t max) {
    atomic_init(&s->head, 0);
    atomic_init(&s->fresh, 1);
    s->max = max;
    s->next = next;
}

static inline uint32_t act_slots_fresh(struct act_slots *s) {
    uint32_t index = atomic_load_explicit(&s->fresh, memory_order_relaxed);
    while (index <= s->max) {
        /* relaxed: nothing was ever written to a fresh index */
        if (atomic_compare_exchange_weak_explicit(&s->fresh, &index, index + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return index;
    }
    return 0;
}

static inline uint32_t act_slots_take(struct act_slots *s) {
    /* acquire: pairs with the release in put; the last user's writes are done */
    uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
    while ((uint32_t)head != 0) {
        /* relaxed: may be stale, then the count in head has moved and the exchange fails */
        uint32_t next = atomic_load_explicit(&s->next[(uint32_t)head], memory_order_relaxed);
        uint64_t want = ((head >> 32) + 1) << 32 | next;
        if (atomic_compare_exchange_weak_explicit(&s->head, &head, want, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
    return act_slots_fresh(s);
}

static inline void act_slots_put(struct act_slots *s, uint32_t index) {
    uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    uint64_t want;
    do {
        atomic_store_explicit(&s->next[index], (uint32_t)head, memory_order_relaxed);
        want = (head & 0xffffffff00000000u) | index;
        /* release: pairs with the acquire in take */
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &head, want, memory_order_release,
                                                    memory_order_relaxed));
}

#endif
