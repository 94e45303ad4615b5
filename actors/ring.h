/* SPDX-License-Identifier: Apache-2.0
 * A ring of pointers with one producer and one consumer; the number of slots is a power of two, one
 * of them stays free. Wraps Concurrency Kit's ring; see ck.h for the substitutes.
 */
#ifndef ACTORS_RING_H
#define ACTORS_RING_H

#include "actors/ck.h"

#ifndef ACT_CK_C11
#include <ck_ring.h>
#endif

#ifdef ACT_CK_C11
struct act_ring {
    _Alignas(64) _Atomic uint32_t head; /* next to take, written by the consumer */
    _Alignas(64) _Atomic uint32_t tail; /* next to fill, written by the producer */
    uint32_t mask;
    void **slots;
};
static inline void act_ring_init(struct act_ring *r, void **buffer, uint32_t slots) {
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    r->mask = slots - 1;
    r->slots = buffer;
}
static inline bool act_ring_put_spsc(struct act_ring *r, void *item) {
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    /* acquire: pairs with the release of head in get, so that a slot is read before it is filled
     * again */
    if (tail - atomic_load_explicit(&r->head, memory_order_acquire) >= r->mask)
        return false;
    r->slots[tail & r->mask] = item;
    /* release: pairs with the acquire of tail in get; publishes the slot */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}
static inline bool act_ring_get_spsc(struct act_ring *r, void **item) {
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    /* acquire: pairs with the release of tail in put */
    if (atomic_load_explicit(&r->tail, memory_order_acquire) == head)
        return false;
    *item = r->slots[head & r->mask];
    /* release: pairs with the acquire of head in put */
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}
#else
struct act_ring {
    struct ck_ring ck;
    void **slots;
};
static inline void act_ring_init(struct act_ring *r, void **buffer, uint32_t slots) {
    ck_ring_init(&r->ck, slots);
    r->slots = buffer;
}
static inline bool act_ring_put_spsc(struct act_ring *r, void *item) {
    return ck_ring_enqueue_spsc(&r->ck, (ck_ring_buffer_t *)r->slots, item);
}
static inline bool act_ring_get_spsc(struct act_ring *r, void **item) {
    return ck_ring_dequeue_spsc(&r->ck, (ck_ring_buffer_t *)r->slots, item);
}
#endif

#endif
