/* SPDX-License-Identifier: Apache-2.0
 * The parts of Concurrency Kit that we use, behind one wrapper: a stack with many pushers and one
 * owner that takes all (UPMC), a ring with one producer and one consumer (SPSC), a snapshot with
 * one writer (sequence). Its atomics are inline assembly that ThreadSanitizer cannot see, so such
 * builds get C11 substitutes with the same contract. Other parts of the library are not used:
 * several are broken in packaged versions.
 */
#ifndef ACTORS_CK_H
#define ACTORS_CK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define ACT_CK_C11 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ACT_CK_C11 1
#endif
#endif

#ifndef ACT_CK_C11
#include <ck_pr.h>
#include <ck_ring.h>
#include <ck_stack.h>
#endif

/* A hint to the core that this thread spins. */
static inline void act_stall(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- stack: any thread pushes, one owner takes everything ---- */

#ifdef ACT_CK_C11
struct act_stack_entry {
    struct act_stack_entry *next;
};
struct act_stack {
    _Atomic(struct act_stack_entry *) head;
};
static inline void act_stack_init(struct act_stack *s) {
    atomic_init(&s->head, NULL);
}
static inline void act_stack_push_upmc(struct act_stack *s, struct act_stack_entry *e) {
    struct act_stack_entry *old = atomic_load_explicit(&s->head, memory_order_relaxed);
    do {
        e->next = old;
        /* release: pairs with the acquire exchange in take; the freed entry's last use stays before
         * it */
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &old, e, memory_order_release,
                                                    memory_order_relaxed));
}
static inline struct act_stack_entry *act_stack_take_upmc(struct act_stack *s) {
    /* acquire: pairs with the release in push */
    return atomic_exchange_explicit(&s->head, NULL, memory_order_acquire);
}
static inline struct act_stack_entry *act_stack_next(struct act_stack_entry *e) {
    return e->next;
}
#else
struct act_stack_entry {
    struct ck_stack_entry ck;
};
struct act_stack {
    struct ck_stack ck;
};
static inline void act_stack_init(struct act_stack *s) {
    ck_stack_init(&s->ck);
}
static inline void act_stack_push_upmc(struct act_stack *s, struct act_stack_entry *e) {
    ck_stack_push_upmc(&s->ck, &e->ck);
}
static inline struct act_stack_entry *act_stack_take_upmc(struct act_stack *s) {
    return (struct act_stack_entry *)ck_stack_batch_pop_upmc(&s->ck);
}
static inline struct act_stack_entry *act_stack_next(struct act_stack_entry *e) {
    return (struct act_stack_entry *)e->ck.next;
}
#endif

/* ---- ring of pointers: one producer, one consumer; slots is a power of two ---- */

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
