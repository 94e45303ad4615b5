/* SPDX-License-Identifier: Apache-2.0
 * The page pool: which pages exist, what state each is in and who holds it. Pages of the device
 * have the ids 1 .. n_device that plans name; places of a tier follow behind them. Owned by the
 * memory actor; nothing here allocates after open. A page without holders is free at once and its
 * handle is dead: a stale handle is never taken for the next one.
 */
#ifndef SESSIONS_PAGES_H
#define SESSIONS_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

/* Index in the low half, generation in the high half; 0 names no page. */
typedef uint64_t ses_page_t;

enum { SES_GROUPS = 1 }; /* page groups of a model; windowed layers will add a second */

enum ses_place { SES_PLACE_DEVICE, SES_PLACE_TIER, SES_PLACES };

enum ses_page_state {
    SES_PAGE_FREE,
    SES_PAGE_FILLING,   /* one writer: a lane, or the tier's copy out */
    SES_PAGE_FULL,      /* its shared rows are fixed; nobody writes them */
    SES_PAGE_PARKING,   /* full, and being copied to a place in the tier */
    SES_PAGE_PARKED,    /* a place in the tier that holds the bytes */
    SES_PAGE_RESTORING, /* a page of the device that the tier is writing */
    SES_PAGE_STATES
};

enum ses_holder { SES_HOLD_LANE, SES_HOLD_TRIE, SES_HOLD_JOB, SES_HOLDERS };

struct ses_pages;

enum status ses_pages_open(uint32_t n_device, uint32_t n_tier, struct ses_pages **out,
                           struct status_note *note);
void ses_pages_close(struct ses_pages *p);

/* Takes a free page for its first holder, state filling; 0 when the place has none. O(1). */
ses_page_t ses_pages_take(struct ses_pages *p, uint32_t group, enum ses_place place,
                          enum ses_holder holder);
void ses_pages_hold(struct ses_pages *p, ses_page_t page, enum ses_holder holder);
/* Gives one hold back; true when it was the last one and the page is free now. */
bool ses_pages_drop(struct ses_pages *p, ses_page_t page, enum ses_holder holder);
/* Moves a held page to another state; a move that the state table does not know is our bug. */
void ses_pages_move(struct ses_pages *p, ses_page_t page, enum ses_page_state to);
bool ses_pages_may_move(enum ses_page_state from, enum ses_page_state to);

bool ses_pages_live(const struct ses_pages *p, ses_page_t page);
enum ses_page_state ses_pages_state(const struct ses_pages *p, ses_page_t page);
uint32_t ses_pages_holds(const struct ses_pages *p, ses_page_t page, enum ses_holder holder);
/* What plans call it. */
static inline uint32_t ses_page_id(ses_page_t page) {
    return (uint32_t)page;
}
static inline enum ses_place ses_pages_place(uint32_t n_device, ses_page_t page) {
    return ses_page_id(page) <= n_device ? SES_PLACE_DEVICE : SES_PLACE_TIER;
}
/* The trie node whose tokens the page holds; 0: none. */
uint32_t ses_pages_node(const struct ses_pages *p, ses_page_t page);
void ses_pages_set_node(struct ses_pages *p, ses_page_t page, uint32_t node);

uint32_t ses_pages_total(const struct ses_pages *p, enum ses_place place);
uint32_t ses_pages_free(const struct ses_pages *p, enum ses_place place);
/* Sum of all holds of one kind, kept by counting; ses_pages_audit compares it with the pages. */
uint64_t ses_pages_holders(const struct ses_pages *p, enum ses_holder holder);
/* The page with this id, live or not; for audits. 0 when it is free. */
ses_page_t ses_pages_at(const struct ses_pages *p, uint32_t id);

/* Device pages freed since the last call and still free: fills at most n ids, returns how many. */
uint32_t ses_pages_freed(struct ses_pages *p, uint32_t *ids, uint32_t n);

/* free + held = total, free list whole, sums of holds right, no free page held. */
bool ses_pages_audit(const struct ses_pages *p, struct status_note *note);

const char *ses_page_state_name(enum ses_page_state state);

#endif
