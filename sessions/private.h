/* SPDX-License-Identifier: Apache-2.0
 * The trie's inside, shared by trie.c (tree and hash) and order.c (children in order of their
 * tokens).
 */
#ifndef SESSIONS_PRIVATE_H
#define SESSIONS_PRIVATE_H

#include "sessions/evict.h"
#include "sessions/trie.h"

struct ses_node {
    struct ses_space space;
    uint64_t use;
    uint64_t hash; /* of (space, parent, tokens); full nodes only */
    ses_page_t page;
    uint32_t parent;
    uint32_t chain;                 /* next node of the hash bucket, or of the free list */
    uint32_t left, right, priority; /* among its siblings: a treap */
    uint32_t kids;                  /* root of the children's treap */
    uint32_t n_kids, n_kids_here;   /* all, and those on the device */
    uint32_t n_tokens, depth;
    uint32_t busy; /* 1 when pinned, plus one for each busy child */
    bool live, pinned, away;
};

struct ses_trie {
    uint32_t n_nodes_max, page_tokens;
    struct ses_node *node; /* [1 + n_nodes_max]; 0 stands before all beginnings and has no page */
    uint32_t *tokens;      /* [1 + n_nodes_max][page_tokens] */
    uint32_t *bucket;      /* [bucket_mask + 1] */
    uint32_t bucket_mask;
    uint32_t first_free;
    uint32_t n_live, n_idle;
    uint64_t tokens_held, clock, serial, compares;
    struct ses_evict *order;
};

/* What stands on both sides of a sequence among the children of a node, and how much of it they
 * share. */
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
/* Children of parent are in strict order and prefix-free, priorities fall; *n: how many there are.
 * */
bool ses_order_audit(const struct ses_trie *t, uint32_t parent, uint32_t *n);

#endif
