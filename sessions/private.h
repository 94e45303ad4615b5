/* SPDX-License-Identifier: Apache-2.0
 * What files of this folder share: the trie's inside (trie.c has tree and hash, order.c the order
 * of children) and the books' (book.c has the messages, parking.c what waits for a tier).
 */
#ifndef SESSIONS_PRIVATE_H
#define SESSIONS_PRIVATE_H

#include "sessions/book.h"
#include "sessions/evict.h"
#include "sessions/heads.h"
#include "sessions/trie.h"

struct ses_node {
    struct ses_space space;
    uint64_t use;
    uint64_t served; /* what its use was when a lane last left it; 0: none did */
    ses_page_t page;
    ses_page_t copy; /* place in the tier beside a page on the device; 0: none */
    struct ses_name name;
    uint32_t parent;
    uint32_t chain;                 /* next node of the bucket of its name, or of the free list */
    uint32_t left, right, priority; /* among its siblings: a treap */
    uint32_t kids;                  /* root of the children's treap */
    uint32_t n_kids, n_kids_here;   /* all, and those on the device */
    uint32_t n_kids_kept;           /* those with a place in the tier */
    uint32_t want_before, want_after;
    uint32_t n_tokens, depth;
    uint32_t busy;  /* 1 when pinned, plus one for each busy child */
    uint32_t keeps; /* operator's pins on it and behind it */
    bool live, pinned, away, wanted, keep;
};

struct ses_trie {
    uint32_t n_nodes_max, page_tokens;
    struct ses_node *node; /* [1 + n_nodes_max]; 0 stands before all beginnings and has no page */
    uint32_t *tokens;      /* [1 + n_nodes_max][page_tokens] */
    uint32_t *bucket;      /* [bucket_mask + 1] */
    uint32_t bucket_mask, first_free, n_live, n_idle, n_kept;
    uint64_t tokens_held, clock, serial, compares;
    struct ses_evict *order;  /* who gives up a device page first */
    struct ses_evict *places; /* who gives up a place in the tier first */
    uint32_t first_wanted, last_wanted, n_wanted;
};

/* What stands on both sides of a sequence among a node's children, and how much they share. */
struct ses_neighbours {
    uint32_t equal;
    uint32_t before, after; /* 0: none */
    uint32_t before_tokens, after_tokens;
};

static inline uint32_t *ses_node_tokens(const struct ses_trie *t, uint32_t node) {
    return t->tokens + (size_t)node * t->page_tokens;
}

/* n: at most page_tokens. O(log children) comparisons, expected over the priorities. */
struct ses_neighbours ses_order_find(struct ses_trie *t, uint32_t parent,
                                     const struct ses_space *space, const uint32_t *tokens,
                                     uint32_t n);
/* The node is filled and among no siblings yet; none is equal to it. */
void ses_order_insert(struct ses_trie *t, uint32_t parent, uint32_t node);
void ses_order_remove(struct ses_trie *t, uint32_t parent, uint32_t node);
/* Children of parent are in strict order and prefix-free, priorities fall; *n: how many. */
bool ses_order_audit(const struct ses_trie *t, uint32_t parent, uint32_t *n);

struct ses_slot {
    bool live;
    struct ses_space space;
    uint32_t n_pages;
    uint32_t reserved;  /* pages promised and not yet given */
    uint32_t sealed;    /* full pages that the trie was told of */
    ses_page_t source;  /* held for the copy until copied; 0: none */
    uint32_t source_at; /* the page that the copy fills */
    ses_page_t *page;   /* [pages_per_slot_max] */
    /* An admit that is answered later: asked waits for pages, restoring for the tier. */
    bool asked, restoring;
    uint32_t n_restores;                 /* under way */
    uint32_t first_restored, n_restored; /* pages of the slot that a tier filled */
    uint32_t n_full, n_good; /* full pages that matched, and how many until the first bad record */
    uint64_t ticket;         /* order of those asked */
    struct ses_admit ask;
    struct ses_admitted answer;
};

/* A page under way between the device and the tier; both are held by the job. */
struct ses_job {
    ses_page_t place;
    uint32_t slot, at; /* restoring: the lane's page that is written */
    bool from_disk;    /* restoring */
    bool leaves;       /* parking: the device page is to be free then */
};

struct ses_book {
    struct ses_book_config config;
    struct ses_pages *pages;
    struct ses_trie *trie;
    struct ses_heads *heads;
    struct ses_slot *slot;                 /* [slots_max] */
    ses_page_t *tables;                    /* [slots_max][pages_per_slot_max] */
    uint32_t *path;                        /* [pages_per_slot_max]: nodes of the lookup at hand */
    struct ses_job *job;                   /* [1 + n_pages]: of the device page under way */
    uint32_t reserved, evicted;            /* over all slots; nodes since open */
    uint32_t n_live, n_parking, n_leaving; /* all; those whose device page is to be free then */
    uint32_t n_asked, n_ready;   /* slots that were asked for; that are restored and not told of */
    bool held_back, disk_silent; /* the tier could not take a page; its disk does not answer */
    uint64_t tickets;
};

/* A page's number in the tier. */
static inline uint32_t ses_book_place(const struct ses_book *b, ses_page_t place) {
    return ses_page_id(place) - b->config.n_pages - 1;
}
/* The node's place in the tier; 0: it has none. */
ses_page_t ses_book_place_of(const struct ses_book *b, uint32_t node);
/* The node and all before it were used now; a tier that outlives us is told. */
void ses_book_touch(struct ses_book *b, uint32_t node);
bool ses_book_in_use(const struct ses_book *b, ses_page_t page);
void ses_book_hold(struct ses_book *b, ses_page_t page, enum ses_holder holder);
void ses_book_drop(struct ses_book *b, ses_page_t page, enum ses_holder holder);
/* The trie lets go of a page that it does not name any more. */
void ses_book_drop_cached(struct ses_book *b, ses_page_t page);
/* A node on the device gets a place in the tier beside its page; the place has a holder already. */
void ses_book_attach(struct ses_book *b, uint32_t node, ses_page_t place);
/* It loses its place again; nothing happens when it has none. */
void ses_book_detach(struct ses_book *b, uint32_t node);
/* A node that may go and has a place gives up its page on the device. */
void ses_book_send_away(struct ses_book *b, uint32_t node);
/* A node without children is forgotten, page, place and all. */
void ses_book_forget_node(struct ses_book *b, uint32_t node);
/* The node's place is wanted for another: what is only there is forgotten. */
void ses_book_forget_place(struct ses_book *b, uint32_t node);
/* A lane leaves the session that ends in leaf: what lost its place meanwhile is wanted again. */
void ses_book_served(struct ses_book *b, uint32_t leaf);
/* What has no place of the session that ends in leaf gets one, whatever gives way. */
void ses_book_save(struct ses_book *b, uint32_t leaf);
/* Takes everything behind root out of the trie, leaves first; returns how many nodes. */
uint32_t ses_book_forget_behind(struct ses_book *b, uint32_t root);
uint64_t ses_book_space_digest(const struct ses_space *space);
/* A page of its own for a lane; whoever calls has it reserved. */
ses_page_t ses_book_take(struct ses_book *b);
/* Tells the trie of rows [0, n_rows): whole pages, with tail the rest. Returns the last node. */
uint32_t ses_book_share(struct ses_book *b, struct ses_slot *s, const uint32_t *ids,
                        uint32_t n_rows, bool tail);
/* Decides an admit. SES_RESTORING: restores have begun. SES_LATER: pages are parked first. */
enum ses_verdict ses_book_decide(struct ses_book *b, const struct ses_admit *ask,
                                 struct ses_answer *answer);
/* Begins to bring the node's bytes into page `at` of the slot. */
void ses_book_restore(struct ses_book *b, uint32_t slot, uint32_t at, uint32_t node);

#endif
