/* SPDX-License-Identifier: Apache-2.0
 * The parts of Concurrency Kit that we use, behind one wrapper: a stack with many pushers and one
 * owner that takes all (UPMC), a ring with one producer and one consumer (SPSC), a snapshot with
 * one writer (sequence). Its atomics are inline assembly that ThreadSanitizer cannot see, so such
 * builds get C11 substitutes with the same contract. So do processors other than x86: the library
 * publishes with fences between stores, which there let an earlier read of a node or slot slip
 * behind the store that gives it away. Other parts of the library are not used: several are broken
 * in packaged versions.
 */
#ifndef ACTORS_CK_H
#define ACTORS_CK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define ACT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ACT_THREAD_SANITIZER 1
#endif
#endif

#if defined(ACT_THREAD_SANITIZER) || !defined(__x86_64__)
#define ACT_CK_C11 1
#endif

#ifndef ACT_CK_C11
#include <ck_pr.h>
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

/* ---- stack: any thread pushes one or a chain, one owner takes everything ---- */

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
/* Entries from first on are linked by act_stack_link up to last. */
static inline void act_stack_push_chain_upmc(struct act_stack *s, struct act_stack_entry *first,
                                             struct act_stack_entry *last) {
    struct act_stack_entry *old = atomic_load_explicit(&s->head, memory_order_relaxed);
    do {
        last->next = old;
        /* release: as in push */
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &old, first, memory_order_release,
                                                    memory_order_relaxed));
}
static inline void act_stack_link(struct act_stack_entry *e, struct act_stack_entry *next) {
    e->next = next;
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
static inline void act_stack_push_chain_upmc(struct act_stack *s, struct act_stack_entry *first,
                                             struct act_stack_entry *last) {
    struct ck_stack_entry *old = ck_pr_load_ptr(&s->ck.head);
    do {
        last->ck.next = old;
        ck_pr_fence_release(); /* the entries' last use stays before; pairs with take */
    } while (!ck_pr_cas_ptr_value(&s->ck.head, old, &first->ck, &old));
}
static inline void act_stack_link(struct act_stack_entry *e, struct act_stack_entry *next) {
    e->ck.next = (struct ck_stack_entry *)next;
}
static inline struct act_stack_entry *act_stack_take_upmc(struct act_stack *s) {
    return (struct act_stack_entry *)ck_stack_batch_pop_upmc(&s->ck);
}
static inline struct act_stack_entry *act_stack_next(struct act_stack_entry *e) {
    return (struct act_stack_entry *)e->ck.next;
}
#endif

#endif
