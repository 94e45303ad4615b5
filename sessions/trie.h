/* SPDX-License-Identifier: Apache-2.0
 * The prefix trie: which beginnings are remembered, in which page. A node is one page of tokens
 * behind its parent's; full nodes may have children, a partial node is a leaf. Owned by the memory
 * actor; nothing allocates after open.
 *
 *   space A  [64 tokens] -- [64 tokens] -- [64 tokens]
 *                        \- [64 tokens] -- [17 tokens]
 *   space B  [ 9 tokens]
 *
 * Lookups are exact to the token: full pages are found by hash and verified by their tokens; where
 * the chain ends, the children stand in order of their tokens, and the neighbours of what is looked
 * for share the longest beginning with it. Sequences of different spaces never match, not even in
 * part. No sibling is a prefix of another. A node is busy while its own page is pinned or a child
 * is busy; else it is idle and may be evicted, children first.
 */
#ifndef SESSIONS_TRIE_H
#define SESSIONS_TRIE_H

#include <stdbool.h>
#include <stdint.h>

#include "sessions/memory.h"
#include "sessions/pages.h"

/* A key space: sequences are compared only within one. */
struct ses_space {
    uint64_t key[2]; /* XXH3-128 of struct ses_key */
    uint64_t tenant;
};

struct ses_name {
    uint64_t word[2];
};

struct ses_trie;

struct ses_match {
    uint32_t n_full;  /* whole pages, path[0 .. n_full) */
    uint32_t partial; /* the node that goes on longest behind them; 0: none */
    uint32_t tokens;  /* how many of its tokens match, at least 1 then */
};

struct ses_added {
    uint32_t node;
    bool added;              /* false: an equal or longer node was there, the page was not taken */
    ses_page_t dropped;      /* page of a shorter partial node that the new one replaced; 0: none */
    ses_page_t dropped_copy; /* and its place in the tier */
};

struct ses_space ses_space_of(const struct ses_key *key, uint64_t tenant);

/* Nodes are named 1 .. n_nodes. */
enum status ses_trie_open(uint32_t n_nodes, uint32_t page_tokens, struct ses_trie **out,
                          struct status_note *note);
void ses_trie_close(struct ses_trie *t);

/* The longest common beginning of ids[0 .. n) with anything in the space. path: room for n /
 * page_tokens nodes. */
struct ses_match ses_trie_find(struct ses_trie *t, const struct ses_space *space,
                               const uint32_t *ids, uint32_t n, uint32_t *path);
/* Remembers n tokens (1 .. page_tokens) behind parent (0: at the beginning) in page. The caller
 * holds the page for the trie when `added`, and stops holding `dropped`. The new node is idle. */
struct ses_added ses_trie_add(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                              const uint32_t *tokens, uint32_t n, ses_page_t page);
/* What a node of these tokens behind parent is called. */
struct ses_name ses_trie_name_of(const struct ses_trie *t, const struct ses_space *space,
                                 uint32_t parent, const uint32_t *tokens, uint32_t n);
/* At start: a node whose bytes are in the tier at place, behind a parent that was loaded before. 0
 * when the name is not that of the tokens, or a sibling says the same, more or fewer tokens: the
 * place is not taken then. */
uint32_t ses_trie_load(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                       const uint32_t *tokens, uint32_t n, uint64_t use,
                       const struct ses_name *name, ses_page_t place);
/* At start, when all were loaded: what stands before a node was used when it was. */
void ses_trie_loaded(struct ses_trie *t);
/* The node with that name; 0: none. */
uint32_t ses_trie_named(const struct ses_trie *t, const struct ses_name *name);
/* Forgets a node without children and without a copy; returns its page. */
ses_page_t ses_trie_remove(struct ses_trie *t, uint32_t node);

/* The node's own page has a first holder besides the trie, or lost its last one. */
void ses_trie_pin(struct ses_trie *t, uint32_t node);
void ses_trie_unpin(struct ses_trie *t, uint32_t node);
/* The node and all before it were used now. */
void ses_trie_touch(struct ses_trie *t, uint32_t node);
/* The node's bytes moved: to page, which lies in the tier (away) or on the device. Children go away
 * before their parent. */
void ses_trie_move(struct ses_trie *t, uint32_t node, ses_page_t page, bool away);

/* A place in the tier that holds the bytes of a node that is on the device too; 0: none. */
void ses_trie_set_copy(struct ses_trie *t, uint32_t node, ses_page_t copy);
ses_page_t ses_trie_copy(const struct ses_trie *t, uint32_t node);
/* A list of nodes whose bytes should be copied to the tier, first come first served; a node that is
 * forgotten leaves it. */
void ses_trie_want(struct ses_trie *t, uint32_t node);
void ses_trie_unwant(struct ses_trie *t, uint32_t node);
uint32_t ses_trie_wanted(const struct ses_trie *t); /* the first; 0: none */
/* The list in order of last use, newest first, parents before their children. */
void ses_trie_sort_wanted(struct ses_trie *t);
/* The operator's pin: the node and all before it keep their places in the tier. A longer node that
 * replaces it is pinned as well. */
void ses_trie_keep(struct ses_trie *t, uint32_t node, bool on);
bool ses_trie_keeps(const struct ses_trie *t, uint32_t node);
bool ses_trie_kept(const struct ses_trie *t, uint32_t node); /* it, or something behind it, is */
uint32_t ses_trie_n_kept(const struct ses_trie *t);

ses_page_t ses_trie_page(const struct ses_trie *t, uint32_t node);
uint32_t ses_trie_parent(const struct ses_trie *t, uint32_t node);
/* Any child; 0: none. */
uint32_t ses_trie_child(const struct ses_trie *t, uint32_t node);
uint32_t ses_trie_depth(const struct ses_trie *t, uint32_t node); /* pages before it */
/* Digest of space, parent's digest and tokens: a name that lasts. */
struct ses_name ses_trie_name(const struct ses_trie *t, uint32_t node);
uint64_t ses_trie_use(const struct ses_trie *t, uint32_t node);
const uint32_t *ses_trie_tokens(const struct ses_trie *t, uint32_t node, uint32_t *n);
const struct ses_space *ses_trie_space(const struct ses_trie *t, uint32_t node);
bool ses_trie_live(const struct ses_trie *t, uint32_t node);
bool ses_trie_idle(const struct ses_trie *t, uint32_t node);
bool ses_trie_may_go(const struct ses_trie *t, uint32_t node); /* it is among the candidates */
bool ses_trie_away(const struct ses_trie *t, uint32_t node);

/* The idle node on the device that goes first (least recently used, no child on the device); 0:
 * none. */
uint32_t ses_trie_least(const struct ses_trie *t);
/* The idle node with a place in the tier that gives it up first (no child has one); 0: none. */
uint32_t ses_trie_least_kept(const struct ses_trie *t);
uint32_t ses_trie_n_idle(const struct ses_trie *t); /* idle nodes on the device */
uint32_t ses_trie_n_nodes(const struct ses_trie *t);
uint64_t
ses_trie_tokens_held(const struct ses_trie *t); /* tokens remembered, and compared on lookups */
uint64_t
ses_trie_bytes(const struct ses_trie *t); /* memory of the trie itself, all taken at open */
/* Comparisons of a token sequence with a node since open, for tests of cost. */
uint64_t ses_trie_compares(const struct ses_trie *t);

/* Parents valid, order and hash complete, busy and idle counts right, siblings prefix-free. */
bool ses_trie_audit(const struct ses_trie *t, struct status_note *note);

#endif
