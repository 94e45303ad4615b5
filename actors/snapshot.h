/* SPDX-License-Identifier: Apache-2.0
 * A snapshot: one writer publishes a few words, any reader copies a set that was written together.
 * Readers never hold the writer up. Wraps Concurrency Kit's sequence; see ck.h for the substitutes.
 */
#ifndef ACTORS_SNAPSHOT_H
#define ACTORS_SNAPSHOT_H

#include "actors/ck.h"

#ifndef ACT_CK_C11
#include <ck_sequence.h>
#endif

enum { ACT_SNAPSHOT_WORDS = 8 };

struct act_snapshot {
#ifdef ACT_CK_C11
    _Atomic uint32_t sequence;
#else
    struct ck_sequence sequence;
#endif
    _Atomic uint64_t words[ACT_SNAPSHOT_WORDS];
};
static inline void act_snapshot_write(struct act_snapshot *s, const uint64_t *words, size_t n) {
#ifdef ACT_CK_C11
    uint32_t seq = atomic_load_explicit(&s->sequence, memory_order_relaxed);
    atomic_store_explicit(&s->sequence, seq + 1, memory_order_relaxed);
    /* release on each word: a reader that sees it also sees the odd sequence; pairs with the reads
     * below */
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&s->words[i], words[i], memory_order_release);
    /* release: pairs with the first acquire in read */
    atomic_store_explicit(&s->sequence, seq + 2, memory_order_release);
#else
    ck_sequence_write_begin(&s->sequence);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&s->words[i], words[i], memory_order_relaxed);
    ck_sequence_write_end(&s->sequence);
#endif
}
static inline void act_snapshot_read(const struct act_snapshot *s, uint64_t *words, size_t n) {
    struct act_snapshot *own = (struct act_snapshot *)(uintptr_t)s; /* C11 loads want no const */
#ifdef ACT_CK_C11
    for (;;) {
        /* acquire: pairs with the release of the even sequence in write */
        uint32_t before = atomic_load_explicit(&own->sequence, memory_order_acquire);
        /* acquire: pairs with the release of each word in write, so that the second look at
         * sequence comes later */
        for (size_t i = 0; i < n; i++)
            words[i] = atomic_load_explicit(&own->words[i], memory_order_acquire);
        if ((before & 1) == 0 &&
            atomic_load_explicit(&own->sequence, memory_order_relaxed) == before)
            return;
        act_stall();
    }
#else
    unsigned version;
    do {
        version = ck_sequence_read_begin(&own->sequence);
        for (size_t i = 0; i < n; i++)
            words[i] = atomic_load_explicit(&own->words[i], memory_order_relaxed);
    } while (ck_sequence_read_retry(&own->sequence, version));
#endif
}

#endif
