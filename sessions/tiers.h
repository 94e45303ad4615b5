/* SPDX-License-Identifier: Apache-2.0
 * The tiers below the device as one: slots in memory and records on disk behind the places that the
 * books give out. Decides what is copied where and when; pure, owned by the memory actor, nothing
 * allocates after open. What it decides it asks of `out`, each call of which begins one thing and
 * returns at once; each rank tells by ses_tiers_moved, stored, loaded, erased what came of it.
 *
 *   park       page --move--> slot: all that the books wait for; then slot --store--> record
 *   restore    record --load--> slot --move--> page; a slot that still has the bytes skips the load
 *   a slot     is given to another place when its own is on disk, least recently used first;
 *              with no disk, or while it fails, a slot's bytes stay until their place is forgotten
 *
 * Each rank has slots and records of the same numbers. A record counts only when all ranks have it.
 *
 * Invariants, checked by ses_tiers_audit: a slot is filled by one thing at a time, and stored or
 * moved from only when that is done; a record's number is used again only when all ranks said that
 * it is erased; a place that the books forgot is never told of again; the last slots are kept for
 * restores, so a disk that fails cannot block what lanes wait for.
 */
#ifndef SESSIONS_TIERS_H
#define SESSIONS_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct ses_tiers;

enum {
    SES_TIERS_NONE = 0xffffffff,
    SES_TIERS_PARKS_MAX = 8,    /* early copies that the memory has under way */
    SES_TIERS_LEAVING_MAX = 32, /* copies of pages that leave the device */
    SES_TIERS_MOVES_MAX = 16,   /* restores to the device */
    SES_TIERS_STORES_MAX = 32,
    SES_TIERS_LOADS_MAX = 32
};

struct ses_tiers_out {
    void *self;
    /* Between a page of the device and a slot, on every rank. */
    void (*move)(void *self, uint32_t page, uint32_t slot, bool to_device);
    /* Between a slot and a record, by every store. */
    void (*store)(void *self, uint32_t record, uint32_t slot);
    void (*load)(void *self, uint32_t record, uint32_t slot);
    void (*erase)(void *self, uint32_t record);
    /* Notes in the slot's description what the page holds, before it is moved there. */
    void (*describe)(void *self, uint32_t page, uint32_t slot);
};

struct ses_tiers_config {
    uint32_t n_pages, n_places, n_slots, world;
    bool disk; /* else n_slots >= n_places */
    struct ses_tiers_out out;
};

/* What the books are to be told. */
struct ses_tiers_done {
    bool restored; /* else parked */
    bool fine;
    uint32_t page;
};

/* Where a place's bytes are. */
enum ses_tier_where { SES_TIER_RAM, SES_TIER_DISK };

struct ses_tiers_counts {
    uint32_t slots, slots_used, records, unsaved;          /* unsaved: slots that no disk has yet */
    uint64_t moved_out, moved_in, stored, loaded, brought; /* pages */
    uint64_t store_failed, load_failed, move_failed, no_slot;
    uint64_t silences;        /* times that the disk was set aside because it did not answer */
    enum status store_status; /* of the last store that failed; OK when the last one was fine */
};

enum status ses_tiers_open(const struct ses_tiers_config *config, struct ses_tiers **out,
                           struct status_note *note);
void ses_tiers_close(struct ses_tiers *t);
/* At start: the place's bytes are in this record. Record numbers below n_places only. */
void ses_tiers_found(struct ses_tiers *t, uint32_t place, uint32_t record);
static inline uint32_t ses_tiers_records(const struct ses_tiers_config *c) {
    return c->n_places + c->n_slots; /* those that are being erased keep their numbers */
}

void ses_tiers_park(struct ses_tiers *t, uint32_t page, uint32_t place);
void ses_tiers_restore(struct ses_tiers *t, uint32_t place, uint32_t page);
void ses_tiers_forget(struct ses_tiers *t, uint32_t place);
enum ses_tier_where ses_tiers_where(const struct ses_tiers *t, uint32_t place);
/* The record that has the place's bytes, and the slot that is filled with them; SES_TIERS_NONE. */
uint32_t ses_tiers_record(const struct ses_tiers *t, uint32_t place);
uint32_t ses_tiers_slot(const struct ses_tiers *t, uint32_t place);

/* A slot for a place whose bytes come from outside, SES_TIERS_NONE: there is none now; brought: the
 * bytes are in the slots of all ranks, and it is like any that was parked. */
uint32_t ses_tiers_bring(struct ses_tiers *t, uint32_t place);
void ses_tiers_brought(struct ses_tiers *t, uint32_t slot);

void ses_tiers_moved(struct ses_tiers *t, uint32_t slot, enum status status);
void ses_tiers_stored(struct ses_tiers *t, uint32_t slot, enum status status);
void ses_tiers_loaded(struct ses_tiers *t, uint32_t slot, enum status status);
void ses_tiers_erased(struct ses_tiers *t, uint32_t record);
/* Does the disk have to answer a load or a store, and how often has it? Whoever has a clock sees by
 * these that it hangs, and says so: waits for it end, what it was to read is unreadable, nothing
 * more is asked of it and nothing waits for it, until it has answered all that it was asked. */
bool ses_tiers_disk_owes(const struct ses_tiers *t);
uint64_t ses_tiers_answered(const struct ses_tiers *t);
void ses_tiers_set_silent(struct ses_tiers *t);
bool ses_tiers_is_silent(const struct ses_tiers *t);
/* A disk that failed is asked once more with every park; this asks now. */
void ses_tiers_retry(struct ses_tiers *t);

/* The next thing for the books, to be called until false after each of the above. */
bool ses_tiers_done(struct ses_tiers *t, struct ses_tiers_done *done);
/* How many pages may be being parked at once, those under way included. */
uint32_t ses_tiers_room(const struct ses_tiers *t);
/* There is more for the books. */
bool ses_tiers_pending(const struct ses_tiers *t);
/* Nothing is under way and nothing in memory waits for a disk that takes it. */
bool ses_tiers_quiet(const struct ses_tiers *t);
void ses_tiers_count(const struct ses_tiers *t, struct ses_tiers_counts *out);
bool ses_tiers_audit(const struct ses_tiers *t, struct status_note *note);

#endif
