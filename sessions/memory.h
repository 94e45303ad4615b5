/* SPDX-License-Identifier: Apache-2.0
 * The memory actor: page pool, prefix trie, reservations, eviction. Its state is owned by the
 * actor; everything it does is in sessions/protocol.h. The decisions are pure functions over
 * sessions/pages.h and sessions/trie.h.
 */
#ifndef SESSIONS_MEMORY_H
#define SESSIONS_MEMORY_H

#include "sessions/protocol.h"
#include "sessions/tier.h"

struct ses_key { /* DESIGN.md section 5: a different key is a miss, never a guess */
    uint64_t fingerprint[2];
    uint64_t profile; /* krn_profile_digest: name, version, V, KV type, ... */
    uint64_t rope;    /* digest of RoPE settings and table */
    uint32_t layout_version;
    uint32_t world;
};

struct ses_memory_config {
    struct ses_key key;
    uint32_t n_pages;     /* ids 1 .. n_pages; 0 is the sink */
    uint32_t page_tokens; /* a power of two */
    uint64_t page_bytes;
    uint32_t slots_max; /* lane slots */
    uint32_t pages_per_slot_max;
    /* [slots_max][pages_per_slot_max]: the planner's page tables; memory writes row `slot` only
     * between admit and admitted. NULL: extend and admitted are tested without them */
    uint32_t *tables;
    /* A tier below the device, or NULL: room for n_places pages. Whenever fewer than free_low pages
     * are free, those that would be evicted first are parked. */
    const struct ses_tier *tier;
    uint32_t n_places, free_low;
    bool early; /* with tier: pages are copied as they fill (sessions/book.h) */
    /* While lanes are let in and there is room for them, one early copy begins in so much time; 0:
     * as many as may be under way. What leaves the device to make room does not wait for this. */
    uint64_t early_gap_ns;
    uint64_t carry_gap_ns; /* the same of parts of sessions that are exported or imported */
    /* Instead of tier, tiers of the memory's own (sessions/tiers.h): slots of host memory on every
     * rank, and with n_records > 0 a store of so many records on every rank. */
    uint32_t n_slots, n_records;
    /* With those: where the ranks' slots are, and what the sessions are, for files of sessions.
     * NULL: sessions cannot be carried. */
    unsigned char *const *host; /* [world], until close */
    uint64_t host_bytes;
    const char *text;
    /* Called on the memory's thread when the disk does not answer any more, and when it does again.
     * May be NULL. */
    void (*say)(void *self, const char *sentence);
    void *say_self;
};

struct ses_memory;
struct ses_record;
extern const struct act_kind ses_memory_kind;

enum status ses_memory_open(const struct ses_memory_config *config, struct ses_memory **out,
                            struct status_note *note);
void ses_memory_close(struct ses_memory *m);
/* The planner's handle, told once both are spawned; before any message. Freed pages are told to it
 * (fab page_freed) before the answer that may give them out again, and it passes them on to the
 * conductor: so no plan that uses a page again overtakes the news that it was freed. 0: nobody is
 * told. */
void ses_memory_wire(struct ses_memory *m, act_id_t planner);

/* The stores' handles, one a rank, where there are records; once, before any message. */
void ses_memory_wire_stores(struct ses_memory *m, const act_id_t *stores, uint32_t world);
/* At start, before any message: a record of the key, its parent's first, that all stores have by
 * this number. False: nothing can be made of it. */
bool ses_memory_found(struct ses_memory *m, const struct ses_record *record, uint32_t number);
/* At start, when all were told. */
void ses_memory_found_all(struct ses_memory *m);
/* At start: a record of another key, of which misses may tell its tenant. */
void ses_memory_found_other(struct ses_memory *m, const struct ses_record *record);

/* Invariant I1, checked from outside in tests: false and a sentence when the books do not
 * balance. */
bool ses_memory_audit(const struct ses_memory *m, struct status_note *note);

#endif
