/* SPDX-License-Identifier: Apache-2.0
 * The books of the memory actor without the actor: pool, trie, reservations and slots together, one
 * function a message. Single-threaded; nothing allocates after open. Answers are left in the
 * messages' own structs.
 */
#ifndef SESSIONS_BOOK_H
#define SESSIONS_BOOK_H

#include "sessions/memory.h"
#include "sessions/pages.h"
#include "sessions/protocol.h"
#include "sessions/record.h"
#include "sessions/tier.h"

struct ses_book;
struct ses_trie;

struct ses_book_config {
    struct ses_key key;
    uint32_t n_pages, page_tokens;
    uint32_t slots_max, pages_per_slot_max;
    const struct ses_tier *tier; /* NULL: pages are cached on the device only */
    uint32_t n_places;           /* pages that the tier has room for; 0 without one */
    /* Pages are copied to the tier as they fill, and keep their place when they come back: for a
     * tier that outlives the process. */
    bool early;
};

/* RESTORING: let in, its pages wait for a tier. LATER: not decided, pages are being parked. */
enum ses_verdict { SES_ADMITTED, SES_DENIED, SES_RESTORING, SES_LATER };

struct ses_answer {
    enum ses_verdict verdict;
    /* when SES_ADMITTED; of SES_RESTORING slot and n_pages; ses_book_pages has the slot's table */
    struct ses_admitted admitted;
    struct ses_denied denied; /* when SES_DENIED; nothing changed */
};

enum status ses_book_open(const struct ses_book_config *config, struct ses_book **out,
                          struct status_note *note);
void ses_book_close(struct ses_book *b);

/* SES_RESTORING, SES_LATER: the (next) answer comes by ses_book_ready; ask->ids stay till then. */
enum ses_verdict ses_book_admit(struct ses_book *b, const struct ses_admit *ask,
                                struct ses_answer *answer);
void ses_book_extend(struct ses_book *b, const struct ses_extend *ask, struct ses_extended *out);
void ses_book_copied(struct ses_book *b, const struct ses_copied *told);
void ses_book_seal(struct ses_book *b, const struct ses_seal *told, struct ses_sealed *out);
void ses_book_release(struct ses_book *b, const struct ses_release *told, struct ses_released *out);
/* Drops every cached page that nobody holds; returns how many. */
uint32_t ses_book_forget(struct ses_book *b);
void ses_book_count(const struct ses_book *b, struct ses_counted *out);

/* Begins to park up to n cached pages, those that would be evicted first; returns how many. */
uint32_t ses_book_park(struct ses_book *b, uint32_t n);
/* Begins to copy pages that filled to the tier, until n are under way; they stay where they are.
 * Returns how many it began. */
uint32_t ses_book_copy_out(struct ses_book *b, uint32_t n);
/* Before the end: what is on the device alone is to be copied, what was used last first, where it
 * is worth more than what has a place. */
void ses_book_save_all(struct ses_book *b);
/* How many pages are on their way to the tier. */
uint32_t ses_book_parking(const struct ses_book *b);
/* Pages wait to be copied, and may be. */
bool ses_book_wants(const struct ses_book *b);
/* They had better wait: lanes are let in, and all that was promised to them can be had without
 * giving up a page that waits. */
bool ses_book_may_wait(const struct ses_book *b);
/* How many requests are let in. */
uint32_t ses_book_lanes(const struct ses_book *b);
/* How many pages still have to be copied, those under way included. */
uint32_t ses_book_unsaved(const struct ses_book *b);
/* When a copy failed none is begun until something is released or shared, or go_on. */
void ses_book_go_on(struct ses_book *b);
/* Parks as many as it takes that low pages are free, or will be when those under way are done. */
void ses_book_keep_free(struct ses_book *b, uint32_t low);
/* The tier is done with a page that it was told to park or restore; fine: the bytes are right. */
void ses_book_parked(struct ses_book *b, uint32_t page, bool fine);
/* The disk does not answer (any more): the reason of what cannot be restored. */
void ses_book_disk_silent(struct ses_book *b, bool silent);
void ses_book_restored(struct ses_book *b, uint32_t page, bool fine);
/* What the device page holds that is being parked. tokens: the trie's, until the next message. */
void ses_book_describe(const struct ses_book *b, uint32_t page, struct ses_record *out);
/* At start: the place holds this record; false when nothing can be made of it, then it is free. */
bool ses_book_load(struct ses_book *b, const struct ses_record *record, uint32_t *place);
/* A page of a session that comes from outside gets a node and a place, parent's first; place
 * SES_TIERS_NONE: it, or one that goes on longer, is there already. */
enum status ses_book_bring(struct ses_book *b, const struct ses_record *r, uint32_t *node,
                           uint32_t *place, struct status_note *note);
void ses_book_describe_node(const struct ses_book *b, uint32_t node, struct ses_record *out);
/* At start: that was all. */
void ses_book_loaded(struct ses_book *b);
/* At start: a session of the tenant begins so, under another key. */
void ses_book_load_other(struct ses_book *b, const struct ses_record *record);
/* An admit that can be answered after those, or was let in; to be called until false. */
bool ses_book_ready(struct ses_book *b, struct ses_answer *answer);

/* The slot's pages in order; NULL and 0 for a slot that is not admitted. */
const ses_page_t *ses_book_pages(const struct ses_book *b, uint32_t slot, uint32_t *n);
/* What is remembered; for audits and counts. */
const struct ses_trie *ses_book_trie(const struct ses_book *b);
/* Device pages freed and not taken again; fills at most n, returns how many. To be called until 0.
 * */
uint32_t ses_book_freed(struct ses_book *b, uint32_t *ids, uint32_t n);

/* Holders = lanes + trie + jobs, free + held = total, free + idle >= reserved, every node has the
 * page that names it. */
bool ses_book_audit(const struct ses_book *b, struct status_note *note);

#endif
