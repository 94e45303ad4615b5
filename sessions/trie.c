/* SPDX-License-Identifier: Apache-2.0
 * Nodes, the hash of full pages, busy and idle counts, candidates for eviction.
 */
#include "sessions/trie.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/private.h"

/* A longer bucket is left to the ordered children, so that chosen collisions cannot make lookups
 * slow. */
enum { CHAIN_MAX = 8 };

struct ses_space ses_space_of(const struct ses_key *key, uint64_t tenant) {
    /* Field by field: a digest must not see padding. */
    const uint64_t words[] = {key->fingerprint[0], key->fingerprint[1], key->profile, key->rope,
                              (uint64_t)key->layout_version << 32 | key->world};
    XXH128_hash_t digest = XXH3_128bits(words, sizeof words);
    return (struct ses_space){.key = {digest.low64, digest.high64}, .tenant = tenant};
}

enum status ses_trie_open(uint32_t n_nodes, uint32_t page_tokens, struct ses_trie **out,
                          struct status_note *note) {
    *out = NULL;
    if (n_nodes == 0 || n_nodes >= 1u << 30 || page_tokens == 0 ||
        (page_tokens & (page_tokens - 1)) != 0 || page_tokens > 1u << 16)
        return status_say(note, STATUS_BAD_REQUEST,
                          "a trie of %u pages of %u tokens is not possible: tokens of a page are a "
                          "power of two up to 65536",
                          n_nodes, page_tokens);
    uint32_t buckets = 64;
    while (buckets < 2 * n_nodes)
        buckets *= 2;
    size_t all = (size_t)n_nodes + 1;
    struct ses_trie *t = calloc(1, sizeof *t);
    struct ses_node *node = calloc(all, sizeof *node);
    uint32_t *tokens = calloc(all, page_tokens * sizeof *tokens);
    uint32_t *bucket = calloc(buckets, sizeof *bucket);
    struct ses_evict *order = NULL, *places = NULL;
    if (t == NULL || node == NULL || tokens == NULL || bucket == NULL ||
        ses_evict_open(n_nodes, &order, NULL) != STATUS_OK ||
        ses_evict_open(n_nodes, &places, NULL) != STATUS_OK) {
        ses_evict_close(order);
        free(t);
        free(node);
        free(tokens);
        free(bucket);
        return status_say(note, STATUS_NO_MEMORY, "no memory to remember %u KV pages of %u tokens",
                          n_nodes, page_tokens);
    }
    *t = (struct ses_trie){.n_nodes_max = n_nodes,
                           .page_tokens = page_tokens,
                           .node = node,
                           .tokens = tokens,
                           .bucket = bucket,
                           .bucket_mask = buckets - 1,
                           .order = order,
                           .places = places};
    for (uint32_t id = n_nodes; id > 0; id--) {
        node[id].chain = t->first_free;
        t->first_free = id;
    }
    *out = t;
    return STATUS_OK;
}

void ses_trie_close(struct ses_trie *t) {
    if (t == NULL)
        return;
    ses_evict_close(t->places);
    ses_evict_close(t->order);
    free(t->bucket);
    free(t->tokens);
    free(t->node);
    free(t);
}

static struct ses_node *node_of(const struct ses_trie *t, uint32_t node) {
    CHECK(node > 0 && node <= t->n_nodes_max);
    CHECK(t->node[node].live);
    return &t->node[node];
}

struct ses_name ses_trie_name_of(const struct ses_trie *t, const struct ses_space *space,
                                 uint32_t parent, const uint32_t *tokens, uint32_t n) {
    XXH128_hash_t own = XXH3_128bits(tokens, n * sizeof *tokens);
    const struct ses_name *before = &t->node[parent].name;
    const uint64_t words[] = {space->key[0],
                              space->key[1],
                              space->tenant,
                              parent != 0 ? before->word[0] : 0,
                              parent != 0 ? before->word[1] : 0,
                              n,
                              own.low64,
                              own.high64};
    XXH128_hash_t all = XXH3_128bits(words, sizeof words);
    return (struct ses_name){{all.low64, all.high64}};
}

static bool same_name(const struct ses_name *a, const struct ses_name *b) {
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static bool same_space(const struct ses_space *a, const struct ses_space *b) {
    return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->tenant == b->tenant;
}

/* The child of parent with exactly this full page; 0: none. */
static uint32_t find_full(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                          const uint32_t *tokens) {
    struct ses_name name = ses_trie_name_of(t, space, parent, tokens, t->page_tokens);
    uint32_t id = t->bucket[name.word[0] & t->bucket_mask];
    for (int i = 0; i < CHAIN_MAX; i++, id = t->node[id].chain) {
        if (id == 0)
            return 0;
        const struct ses_node *node = &t->node[id];
        if (!same_name(&node->name, &name) || node->parent != parent ||
            !same_space(&node->space, space))
            continue;
        t->compares++;
        if (memcmp(ses_node_tokens(t, id), tokens, t->page_tokens * sizeof *tokens) == 0)
            return id;
    }
    return ses_order_find(t, parent, space, tokens, t->page_tokens).equal;
}

struct ses_match ses_trie_find(struct ses_trie *t, const struct ses_space *space,
                               const uint32_t *ids, uint32_t n, uint32_t *path) {
    struct ses_match match = {0};
    uint32_t parent = 0;
    for (; n >= t->page_tokens; n -= t->page_tokens, ids += t->page_tokens) {
        uint32_t node = find_full(t, space, parent, ids);
        if (node == 0)
            break;
        path[match.n_full++] = parent = node;
    }
    uint32_t rest = n < t->page_tokens ? n : t->page_tokens;
    if (rest == 0)
        return match;
    struct ses_neighbours beside = ses_order_find(t, parent, space, ids, rest);
    if (beside.equal != 0) {
        CHECK(rest < t->page_tokens); /* a full page would have been found above */
        beside.before = beside.equal;
        beside.before_tokens = rest;
    }
    bool before = beside.before_tokens >= beside.after_tokens;
    match.tokens = before ? beside.before_tokens : beside.after_tokens;
    if (match.tokens > 0)
        match.partial = before ? beside.before : beside.after;
    return match;
}

/* It has a place in the tier. */
static bool kept(const struct ses_node *node) {
    return node->away || node->copy != 0;
}

/* Keeps the heaps of candidates what they are defined as, after anything about the node changed. */
static void settle(struct ses_trie *t, uint32_t id) {
    const struct ses_node *node = &t->node[id];
    bool may_go = id != 0 && node->live && node->busy == 0 && !node->away && node->n_kids_here == 0;
    if (may_go && !ses_evict_has(t->order, id))
        ses_evict_put(t->order, id, node->use, node->depth);
    if (!may_go && id != 0)
        ses_evict_remove(t->order, id);
    bool may_give = id != 0 && node->live && node->busy == 0 && kept(node) &&
                    node->n_kids_kept == 0 && node->keeps == 0;
    if (may_give && !ses_evict_has(t->places, id))
        ses_evict_put(t->places, id, node->use, node->depth);
    if (!may_give && id != 0)
        ses_evict_remove(t->places, id);
}

static void busy_add(struct ses_trie *t, uint32_t id) {
    for (; id != 0; id = t->node[id].parent) {
        struct ses_node *node = &t->node[id];
        if (node->busy++ > 0)
            return;
        if (!node->away)
            t->n_idle--;
        settle(t, id);
    }
}

static void busy_drop(struct ses_trie *t, uint32_t id) {
    for (; id != 0; id = t->node[id].parent) {
        struct ses_node *node = &t->node[id];
        CHECK(node->busy > 0);
        if (--node->busy > 0)
            return;
        if (!node->away)
            t->n_idle++;
        settle(t, id);
    }
}

void ses_trie_pin(struct ses_trie *t, uint32_t id) {
    struct ses_node *node = node_of(t, id);
    CHECK(!node->pinned);
    node->pinned = true;
    busy_add(t, id);
}

void ses_trie_unpin(struct ses_trie *t, uint32_t id) {
    struct ses_node *node = node_of(t, id);
    CHECK(node->pinned);
    node->pinned = false;
    busy_drop(t, id);
}

void ses_trie_touch(struct ses_trie *t, uint32_t id) {
    t->clock++;
    for (; id != 0; id = t->node[id].parent) {
        node_of(t, id)->use = t->clock;
        ses_evict_remove(t->order, id);
        ses_evict_remove(t->places, id);
        settle(t, id);
    }
}

void ses_trie_move(struct ses_trie *t, uint32_t id, ses_page_t page, bool away) {
    struct ses_node *node = node_of(t, id);
    node->page = page;
    if (node->away == away)
        return;
    CHECK(away ? node->n_kids_here == 0 : !t->node[node->parent].away);
    node->away = away;
    if (node->busy == 0)
        t->n_idle += away ? -1 : 1;
    t->node[node->parent].n_kids_here += away ? -1 : 1;
    if (node->copy == 0)
        t->node[node->parent].n_kids_kept += away ? 1 : -1;
    settle(t, id);
    settle(t, node->parent);
}

void ses_trie_set_copy(struct ses_trie *t, uint32_t id, ses_page_t copy) {
    struct ses_node *node = node_of(t, id);
    bool before = kept(node);
    CHECK((node->copy == 0) != (copy == 0));
    node->copy = copy;
    t->node[node->parent].n_kids_kept += (uint32_t)kept(node) - (uint32_t)before;
    settle(t, id);
    settle(t, node->parent);
}

ses_page_t ses_trie_copy(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->copy;
}

void ses_trie_want(struct ses_trie *t, uint32_t id) {
    struct ses_node *node = node_of(t, id);
    if (node->wanted)
        return;
    node->wanted = true;
    t->n_wanted++;
    node->want_after = 0;
    node->want_before = t->last_wanted;
    if (t->last_wanted != 0)
        t->node[t->last_wanted].want_after = id;
    else
        t->first_wanted = id;
    t->last_wanted = id;
}

void ses_trie_unwant(struct ses_trie *t, uint32_t id) {
    struct ses_node *node = node_of(t, id);
    if (!node->wanted)
        return;
    node->wanted = false;
    t->n_wanted--;
    if (node->want_before != 0)
        t->node[node->want_before].want_after = node->want_after;
    else
        t->first_wanted = node->want_after;
    if (node->want_after != 0)
        t->node[node->want_after].want_before = node->want_before;
    else
        t->last_wanted = node->want_before;
}

uint32_t ses_trie_wanted(const struct ses_trie *t) {
    return t->first_wanted;
}

/* The first of two lists, each in order, becomes the first of both. */
static uint32_t merge(struct ses_trie *t, uint32_t a, uint32_t b) {
    uint32_t first = 0, *link = &first;
    while (a != 0 && b != 0) {
        const struct ses_node *x = &t->node[a], *y = &t->node[b];
        bool left = x->use > y->use || (x->use == y->use && x->depth <= y->depth);
        uint32_t *next = left ? &a : &b;
        *link = *next;
        link = &t->node[*next].want_after;
        *next = *link;
    }
    *link = a != 0 ? a : b;
    return first;
}

/* n of the list from *rest on, in order; *rest is what follows them. */
static uint32_t sort_some(struct ses_trie *t, uint32_t *rest, uint32_t n) {
    if (n == 1) {
        uint32_t one = *rest;
        *rest = t->node[one].want_after;
        t->node[one].want_after = 0;
        return one;
    }
    uint32_t a = sort_some(t, rest, n / 2), b = sort_some(t, rest, n - n / 2);
    return merge(t, a, b);
}

void ses_trie_sort_wanted(struct ses_trie *t) {
    uint32_t n = 0, before = 0, rest = t->first_wanted;
    for (uint32_t id = rest; id != 0; id = t->node[id].want_after)
        n++;
    if (n == 0)
        return;
    t->first_wanted = sort_some(t, &rest, n);
    for (uint32_t id = t->first_wanted; id != 0; id = t->node[id].want_after) {
        t->node[id].want_before = before;
        before = id;
    }
    t->last_wanted = before;
}

void ses_trie_keep(struct ses_trie *t, uint32_t id, bool on) {
    struct ses_node *node = node_of(t, id);
    if (node->keep == on)
        return;
    node->keep = on;
    for (; id != 0; id = t->node[id].parent) {
        t->n_kept -= t->node[id].keeps > 0;
        t->node[id].keeps += on ? 1 : -1;
        t->n_kept += t->node[id].keeps > 0;
        settle(t, id);
    }
}

bool ses_trie_keeps(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->keep;
}

bool ses_trie_kept(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->keeps > 0;
}

uint32_t ses_trie_n_kept(const struct ses_trie *t) {
    return t->n_kept;
}

static uint32_t new_node(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                         const uint32_t *tokens, uint32_t n, ses_page_t page) {
    uint32_t id = t->first_free;
    CHECK(id != 0); /* a node for each page of the pool and the tier */
    struct ses_node *node = &t->node[id];
    t->first_free = node->chain;
    *node = (struct ses_node){.space = *space,
                              .use = t->clock,
                              .page = page,
                              .name = ses_trie_name_of(t, space, parent, tokens, n),
                              .parent = parent,
                              .n_tokens = n,
                              .depth = parent == 0 ? 0 : t->node[parent].depth + 1,
                              .live = true};
    memcpy(ses_node_tokens(t, id), tokens, n * sizeof *tokens);
    t->n_live++;
    t->n_idle++;
    t->tokens_held += n;
    return id;
}

/* A new node takes its place among its siblings. */
static void link_node(struct ses_trie *t, uint32_t parent, uint32_t id) {
    struct ses_node *node = &t->node[id];
    ses_order_insert(t, parent, id);
    uint32_t *bucket = &t->bucket[node->name.word[0] & t->bucket_mask];
    node->chain = *bucket;
    *bucket = id;
    t->node[parent].n_kids++;
    t->node[parent].n_kids_here += !node->away;
    t->node[parent].n_kids_kept += kept(node);
    settle(t, parent);
    settle(t, id);
}

struct ses_added ses_trie_add(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                              const uint32_t *tokens, uint32_t n, ses_page_t page) {
    CHECK(n > 0 && n <= t->page_tokens);
    CHECK(parent == 0 || node_of(t, parent)->n_tokens == t->page_tokens);
    CHECK(parent == 0 || !node_of(t, parent)->away);
    struct ses_neighbours beside = ses_order_find(t, parent, space, tokens, n);
    uint32_t there = beside.equal != 0          ? beside.equal
                     : beside.after_tokens == n ? beside.after /* it goes on longer */
                                                : 0;
    if (there != 0)
        return (struct ses_added){.node = there};
    struct ses_added added = {.added = true};
    bool keep = false;
    if (beside.before != 0 && beside.before_tokens == t->node[beside.before].n_tokens) {
        added.dropped_copy = t->node[beside.before].copy;
        if (added.dropped_copy != 0)
            ses_trie_set_copy(t, beside.before, 0);
        keep = t->node[beside.before].keep;
        added.dropped = ses_trie_remove(t, beside.before);
    }
    added.node = new_node(t, space, parent, tokens, n, page);
    link_node(t, parent, added.node);
    ses_trie_keep(t, added.node, keep);
    return added;
}

uint32_t ses_trie_named(const struct ses_trie *t, const struct ses_name *name) {
    uint32_t id = t->bucket[name->word[0] & t->bucket_mask];
    while (id != 0 && !same_name(&t->node[id].name, name))
        id = t->node[id].chain;
    return id;
}

static const uint64_t USE_MOST = UINT64_MAX / 2;

uint32_t ses_trie_load(struct ses_trie *t, const struct ses_space *space, uint32_t parent,
                       const uint32_t *tokens, uint32_t n, uint64_t use,
                       const struct ses_name *name, ses_page_t place) {
    CHECK(n > 0 && n <= t->page_tokens);
    CHECK(parent == 0 || node_of(t, parent)->n_tokens == t->page_tokens);
    struct ses_name own = ses_trie_name_of(t, space, parent, tokens, n);
    if (!same_name(&own, name))
        return 0;
    struct ses_neighbours beside = ses_order_find(t, parent, space, tokens, n);
    if (beside.equal != 0 || (beside.after != 0 && beside.after_tokens == n) ||
        (beside.before != 0 && beside.before_tokens == t->node[beside.before].n_tokens))
        return 0;
    uint32_t id = new_node(t, space, parent, tokens, n, place);
    struct ses_node *node = &t->node[id];
    node->away = true;
    node->use = use < USE_MOST ? use : USE_MOST; /* what is used from now on is newer */
    t->n_idle--;
    if (node->use > t->clock)
        t->clock = node->use;
    link_node(t, parent, id);
    return id;
}

ses_page_t ses_trie_remove(struct ses_trie *t, uint32_t id) {
    struct ses_node *node = node_of(t, id);
    CHECK(node->n_kids == 0 && node->copy == 0);
    uint32_t parent = node->parent;
    ses_trie_unwant(t, id);
    ses_trie_keep(t, id, false);
    ses_order_remove(t, parent, id);
    uint32_t *link = &t->bucket[node->name.word[0] & t->bucket_mask];
    while (*link != id) {
        CHECK(*link != 0);
        link = &t->node[*link].chain;
    }
    *link = node->chain;
    if (node->pinned)
        ses_trie_unpin(t, id);
    CHECK(node->busy == 0);
    t->node[parent].n_kids--;
    if (!node->away) {
        t->node[parent].n_kids_here--;
        t->n_idle--;
    } else {
        t->node[parent].n_kids_kept--;
    }
    t->n_live--;
    t->tokens_held -= node->n_tokens;
    node->live = false;
    settle(t, id);
    settle(t, parent);
    node->chain = t->first_free;
    t->first_free = id;
    return node->page;
}

ses_page_t ses_trie_page(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->page;
}

uint32_t ses_trie_parent(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->parent;
}

uint32_t ses_trie_child(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->kids;
}

uint32_t ses_trie_depth(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->depth;
}

const uint32_t *ses_trie_tokens(const struct ses_trie *t, uint32_t node, uint32_t *n) {
    *n = node_of(t, node)->n_tokens;
    return ses_node_tokens(t, node);
}

const struct ses_space *ses_trie_space(const struct ses_trie *t, uint32_t node) {
    return &node_of(t, node)->space;
}

bool ses_trie_live(const struct ses_trie *t, uint32_t node) {
    return node > 0 && node <= t->n_nodes_max && t->node[node].live;
}

bool ses_trie_idle(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->busy == 0;
}

bool ses_trie_may_go(const struct ses_trie *t, uint32_t node) {
    return ses_evict_has(t->order, node);
}

bool ses_trie_away(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->away;
}

uint32_t ses_trie_least(const struct ses_trie *t) {
    return ses_evict_least(t->order);
}

uint32_t ses_trie_least_kept(const struct ses_trie *t) {
    return ses_evict_least(t->places);
}

struct ses_name ses_trie_name(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->name;
}

uint64_t ses_trie_use(const struct ses_trie *t, uint32_t node) {
    return node_of(t, node)->use;
}

uint32_t ses_trie_n_idle(const struct ses_trie *t) {
    return t->n_idle;
}

uint32_t ses_trie_n_nodes(const struct ses_trie *t) {
    return t->n_live;
}

uint64_t ses_trie_tokens_held(const struct ses_trie *t) {
    return t->tokens_held;
}

uint64_t ses_trie_compares(const struct ses_trie *t) {
    return t->compares;
}

uint64_t ses_trie_bytes(const struct ses_trie *t) {
    uint64_t all = (uint64_t)t->n_nodes_max + 1;
    return all * (sizeof *t->node + t->page_tokens * sizeof *t->tokens) +
           ((uint64_t)t->bucket_mask + 1) * sizeof *t->bucket;
}

/* Loaded nodes have lower numbers than what was loaded behind them. */
void ses_trie_loaded(struct ses_trie *t) {
    for (uint32_t id = t->n_nodes_max; id > 0; id--) {
        const struct ses_node *node = &t->node[id];
        if (!node->live)
            continue;
        CHECK(node->parent < id);
        ses_evict_remove(t->order, id);
        ses_evict_remove(t->places, id);
        settle(t, id);
        if (node->parent != 0 && t->node[node->parent].use < node->use)
            t->node[node->parent].use = node->use;
    }
}

static bool in_bucket(const struct ses_trie *t, uint32_t id) {
    uint32_t steps = 0, at = t->bucket[t->node[id].name.word[0] & t->bucket_mask];
    while (at != 0 && at != id && steps++ <= t->n_live)
        at = t->node[at].chain;
    return at == id;
}

/* What a node says of itself, against what its children and its parent are. */
static bool node_audit(const struct ses_trie *t, uint32_t id, const uint32_t *busy_kids,
                       const uint32_t *kids_here, const uint32_t *kids_kept) {
    const struct ses_node *node = &t->node[id], *parent = &t->node[node->parent];
    bool full = node->n_tokens == t->page_tokens;
    bool placed = node->parent == 0
                      ? node->depth == 0
                      : parent->live && parent->n_tokens == t->page_tokens &&
                            node->depth == parent->depth + 1 && (node->away || !parent->away) &&
                            same_space(&node->space, &parent->space);
    bool leaf = full || node->n_kids == 0;
    bool counted = node->busy == (node->pinned ? 1 : 0) + busy_kids[id] &&
                   node->n_kids_here == kids_here[id] && node->n_kids_kept == kids_kept[id] &&
                   (node->copy == 0 || !node->away);
    bool listed =
        ses_evict_has(t->order, id) == (node->busy == 0 && !node->away && node->n_kids_here == 0) &&
        ses_evict_has(t->places, id) ==
            (node->busy == 0 && kept(node) && node->n_kids_kept == 0 && node->keeps == 0);
    return placed && leaf && counted && listed && in_bucket(t, id);
}

bool ses_trie_audit(const struct ses_trie *t, struct status_note *note) {
    size_t all = (size_t)t->n_nodes_max + 1;
    uint32_t *busy_kids = calloc(all, sizeof *busy_kids),
             *kids_here = calloc(all, sizeof *kids_here),
             *kids_kept = calloc(all, sizeof *kids_kept);
    uint32_t bad = 0, n_live = 0, n_idle = 0, n_listed = 0, n_kids = 0;
    uint64_t tokens = 0;
    bool fine = busy_kids != NULL && kids_here != NULL && kids_kept != NULL;
    for (uint32_t id = 1; fine && id < all; id++)
        if (t->node[id].live) {
            busy_kids[t->node[id].parent] += t->node[id].busy > 0;
            kids_here[t->node[id].parent] += !t->node[id].away;
            kids_kept[t->node[id].parent] += kept(&t->node[id]);
        }
    for (uint32_t id = 0; fine && id < all; id++) {
        const struct ses_node *node = &t->node[id];
        if (id != 0 && !node->live)
            continue;
        fine = ses_order_audit(t, id, &n_kids) && n_kids == node->n_kids &&
               (id == 0 || node_audit(t, id, busy_kids, kids_here, kids_kept));
        bad = fine ? 0 : id;
        n_listed += n_kids;
        if (id == 0)
            continue;
        n_live++;
        n_idle += node->busy == 0 && !node->away;
        tokens += node->n_tokens;
    }
    free(busy_kids);
    free(kids_here);
    free(kids_kept);
    fine = fine && n_live == t->n_live && n_listed == n_live && n_idle == t->n_idle &&
           tokens == t->tokens_held;
    if (!fine)
        status_say(note, STATUS_BAD_REQUEST,
                   "the trie does not balance at node %u: %u nodes of %u, %u idle of %u", bad,
                   n_live, t->n_live, n_idle, t->n_idle);
    return fine;
}
