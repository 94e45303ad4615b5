/* SPDX-License-Identifier: Apache-2.0
 * Children of a node in order of (space, tokens), a shorter sequence before its extensions: a treap
 * whose priorities come from a count of insertions, so that equal histories give equal trees. In
 * such an order the sequences that share the longest beginning with any given one stand right
 * beside it.
 */
#include "sessions/private.h"

#include "actors/check.h"

static int space_compare(const struct ses_space *a, const struct ses_space *b) {
    const uint64_t x[3] = {a->key[0], a->key[1], a->tenant};
    const uint64_t y[3] = {b->key[0], b->key[1], b->tenant};
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Order of the sequence against a node; *shared: length of their common beginning, 0 across spaces.
 * */
static int compare(struct ses_trie *t, const struct ses_space *space, const uint32_t *tokens,
                   uint32_t n, uint32_t node, uint32_t *shared) {
    const struct ses_node *other = &t->node[node];
    t->compares++;
    *shared = 0;
    int spaces = space_compare(space, &other->space);
    if (spaces != 0)
        return spaces;
    const uint32_t *with = ses_node_tokens(t, node);
    uint32_t both = n < other->n_tokens ? n : other->n_tokens;
    uint32_t i = 0;
    while (i < both && tokens[i] == with[i])
        i++;
    *shared = i;
    if (i < both)
        return tokens[i] < with[i] ? -1 : 1;
    return n == other->n_tokens ? 0 : n < other->n_tokens ? -1 : 1;
}

static int compare_nodes(struct ses_trie *t, uint32_t a, uint32_t b) {
    uint32_t shared;
    return compare(t, &t->node[a].space, ses_node_tokens(t, a), t->node[a].n_tokens, b, &shared);
}

struct ses_neighbours ses_order_find(struct ses_trie *t, uint32_t parent,
                                     const struct ses_space *space, const uint32_t *tokens,
                                     uint32_t n) {
    struct ses_neighbours found = {0};
    uint32_t node = t->node[parent].kids;
    while (node != 0) {
        uint32_t shared;
        int c = compare(t, space, tokens, n, node, &shared);
        if (c == 0) {
            found.equal = node;
            return found;
        }
        if (c < 0) {
            found.after = node;
            found.after_tokens = shared;
            node = t->node[node].left;
        } else {
            found.before = node;
            found.before_tokens = shared;
            node = t->node[node].right;
        }
    }
    return found;
}

static uint32_t next_priority(struct ses_trie *t) {
    uint64_t x = ++t->serial * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (uint32_t)(x ^ x >> 32);
}

void ses_order_insert(struct ses_trie *t, uint32_t parent, uint32_t node) {
    struct ses_node *nodes = t->node, *new = &nodes[node];
    new->priority = next_priority(t);
    uint32_t *link = &nodes[parent].kids;
    while (*link != 0 && nodes[*link].priority >= new->priority) {
        int c = compare_nodes(t, node, *link);
        CHECK(c != 0);
        link = c < 0 ? &nodes[*link].left : &nodes[*link].right;
    }
    /* Cut what hangs there into what stands before the new node and what stands after it. */
    uint32_t *before = &new->left, *after = &new->right;
    for (uint32_t rest = *link; rest != 0;) {
        int c = compare_nodes(t, node, rest);
        CHECK(c != 0);
        if (c > 0) {
            *before = rest;
            before = &nodes[rest].right;
        } else {
            *after = rest;
            after = &nodes[rest].left;
        }
        rest = c > 0 ? *before : *after;
    }
    *before = *after = 0;
    *link = node;
}

void ses_order_remove(struct ses_trie *t, uint32_t parent, uint32_t node) {
    struct ses_node *nodes = t->node;
    uint32_t *link = &nodes[parent].kids;
    while (*link != node) {
        CHECK(*link != 0);
        link = compare_nodes(t, node, *link) < 0 ? &nodes[*link].left : &nodes[*link].right;
    }
    uint32_t a = nodes[node].left, b = nodes[node].right;
    while (a != 0 && b != 0) {
        if (nodes[a].priority >= nodes[b].priority) {
            *link = a;
            link = &nodes[a].right;
            a = *link;
        } else {
            *link = b;
            link = &nodes[b].left;
            b = *link;
        }
    }
    *link = a != 0 ? a : b;
    nodes[node].left = nodes[node].right = 0;
}

/* In order; as deep as the treap, which is about twice its logarithm. */
static bool walk(struct ses_trie *t, uint32_t parent, uint32_t node, uint32_t *last, uint32_t *n) {
    if (node == 0)
        return true;
    const struct ses_node *at = &t->node[node];
    if (!walk(t, parent, at->left, last, n))
        return false;
    if (!at->live || at->parent != parent || ++*n > t->n_live ||
        (at->left != 0 && t->node[at->left].priority > at->priority) ||
        (at->right != 0 && t->node[at->right].priority > at->priority))
        return false;
    if (*last != 0) {
        uint32_t shared;
        const struct ses_node *before = &t->node[*last];
        if (compare(t, &at->space, ses_node_tokens(t, node), at->n_tokens, *last, &shared) <= 0 ||
            shared == before->n_tokens)
            return false;
    }
    *last = node;
    return walk(t, parent, at->right, last, n);
}

bool ses_order_audit(const struct ses_trie *t, uint32_t parent, uint32_t *n) {
    struct ses_trie view = *t; /* comparisons are counted in the copy */
    uint32_t last = 0;
    *n = 0;
    return walk(&view, parent, t->node[parent].kids, &last, n);
}
