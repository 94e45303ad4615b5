/* SPDX-License-Identifier: Apache-2.0
 * Sessions as paths of the trie: what stands before a leaf.
 */
#include "sessions/catalog.h"

#include <string.h>

#include "sessions/private.h"

enum { LOOK_MAX = 4096, STEPS_MAX = 65536 }; /* nodes, and steps from leaves up, of one answer */

static uint32_t where_is(const struct ses_book *b, uint32_t node) {
    const struct ses_tier *tier = b->config.tier;
    ses_page_t place = ses_book_place_of(b, node);
    if (place == 0 || ses_pages_state(b->pages, place) != SES_PAGE_PARKED)
        return 0;
    return tier->where != NULL ? tier->where(tier->self, ses_book_place(b, place)) : SES_AT_RAM;
}

static struct ses_row row_of(const struct ses_book *b, uint32_t leaf) {
    const struct ses_node *node = &b->trie->node[leaf];
    struct ses_row row = {.name = node->name,
                          .use = node->use,
                          .tokens = node->depth * b->config.page_tokens + node->n_tokens,
                          .pages = node->depth + 1,
                          .pinned = node->keep,
                          .in_use = node->busy > 0};
    for (uint32_t id = leaf; id != 0; id = b->trie->node[id].parent) {
        uint32_t at = where_is(b, id);
        row.on_device += !b->trie->node[id].away;
        row.in_ram += (at & SES_AT_RAM) != 0;
        row.on_disk += (at & SES_AT_DISK) != 0;
    }
    return row;
}

static bool is_of(const struct ses_node *node, const struct ses_space *space) {
    return node->live && memcmp(&node->space, space, sizeof *space) == 0;
}

static void list(const struct ses_book *b, struct ses_query *q) {
    struct ses_space space = ses_space_of(&b->config.key, q->tenant);
    uint64_t id = q->from > 0 ? q->from : 1, steps = 0, last = b->trie->n_nodes_max;
    for (uint32_t looked = 0; id <= last; id++, looked++) {
        const struct ses_node *node = &b->trie->node[id];
        if (looked >= LOOK_MAX || q->n == SES_QUERY_ROWS || steps >= STEPS_MAX) {
            q->next = id;
            return;
        }
        if (!is_of(node, &space) || node->n_kids > 0)
            continue;
        q->row[q->n++] = row_of(b, (uint32_t)id);
        steps += node->depth + 1;
    }
}

uint32_t ses_book_session(const struct ses_book *b, struct ses_query *q) {
    struct ses_space space = ses_space_of(&b->config.key, q->tenant);
    uint32_t node = ses_trie_named(b->trie, &q->name);
    if (node != 0 && is_of(&b->trie->node[node], &space))
        return node;
    q->status = status_say(&q->note, STATUS_NOT_FOUND,
                           "no session of that name is remembered; it may have gone on, then it "
                           "has another");
    return 0;
}

static void tokens(const struct ses_book *b, struct ses_query *q) {
    uint32_t node = ses_book_session(b, q), page_tokens = b->config.page_tokens;
    if (node == 0)
        return;
    uint64_t all = (uint64_t)b->trie->node[node].depth * page_tokens + b->trie->node[node].n_tokens;
    if (q->from > all) {
        q->status = status_say(&q->note, STATUS_BAD_REQUEST, "from: %llu, the session has %llu",
                               (unsigned long long)q->from, (unsigned long long)all);
        return;
    }
    uint64_t end = all - q->from < SES_QUERY_TOKENS_MAX ? all : q->from + SES_QUERY_TOKENS_MAX;
    q->n = (uint32_t)(end - q->from);
    q->next = end < all ? end : 0;
    for (; node != 0; node = b->trie->node[node].parent) {
        const struct ses_node *own = &b->trie->node[node];
        uint64_t first = (uint64_t)own->depth * page_tokens;
        for (uint32_t i = 0; i < own->n_tokens; i++)
            if (first + i >= q->from && first + i < end)
                q->token[first + i - q->from] = ses_node_tokens(b->trie, node)[i];
    }
}

static void forget(struct ses_book *b, struct ses_query *q) {
    uint32_t node = ses_book_session(b, q);
    if (node == 0)
        return;
    if (b->trie->node[node].n_kids > 0) {
        q->status = status_say(&q->note, STATUS_NOT_FOUND,
                               "the session went on, or others go on from it: forget those");
        return;
    }
    if (!ses_trie_idle(b->trie, node)) {
        q->status = status_say(&q->note, STATUS_AGAIN,
                               "the session is in use or on its way to a tier; try again");
        return;
    }
    /* Up to the page where another session, or a lane, goes on. */
    while (node != 0 && ses_trie_idle(b->trie, node) && b->trie->node[node].n_kids == 0) {
        uint32_t parent = ses_trie_parent(b->trie, node);
        ses_book_forget_node(b, node);
        q->n++;
        node = parent;
    }
}

/* Every page of the session is where the last tier keeps it; else how many are not. */
static uint32_t unsaved(const struct ses_book *b, uint32_t node) {
    uint32_t n = 0, last = b->config.early ? SES_AT_DISK : SES_AT_RAM;
    for (; node != 0; node = ses_trie_parent(b->trie, node))
        n += (where_is(b, node) & last) == 0;
    return n;
}

static void mark(struct ses_book *b, uint32_t node) {
    const struct ses_tier *tier = b->config.tier;
    ses_page_t place = ses_book_place_of(b, node);
    if (place != 0 && tier->mark != NULL)
        tier->mark(tier->self, ses_book_place(b, place), ses_trie_use(b->trie, node),
                   ses_trie_keeps(b->trie, node));
}

static bool pin_fits(const struct ses_book *b, struct ses_query *q, uint32_t leaf) {
    uint64_t more = 0, room = b->config.n_places / SES_PIN_SHARE;
    for (uint32_t id = leaf; id != 0; id = ses_trie_parent(b->trie, id))
        more += !ses_trie_kept(b->trie, id);
    q->value = ses_trie_n_kept(b->trie) + more;
    q->limit = room;
    if (q->value <= room)
        return true;
    q->status =
        status_say(&q->note, STATUS_TOO_LARGE,
                   "%llu pages would be pinned, at most %llu of the tier's %u can be",
                   (unsigned long long)q->value, (unsigned long long)room, b->config.n_places);
    return false;
}

static void pin(struct ses_book *b, struct ses_query *q) {
    uint32_t leaf = ses_book_session(b, q), left;
    if (leaf == 0)
        return;
    if (b->config.tier == NULL) {
        q->status = status_say(&q->note, STATUS_UNSUPPORTED,
                               "a pinned session needs a place below the device: start with "
                               "--ram-cache or --disk-cache");
        return;
    }
    if (!pin_fits(b, q, leaf))
        return;
    left = unsaved(b, leaf);
    if (left == 0 || !b->config.early)
        ses_trie_keep(b->trie, leaf, true);
    if (left > 0)
        ses_book_save(b, leaf);
    q->n = b->trie->node[leaf].depth + 1;
    if (left == 0) {
        mark(b, leaf);
        return;
    }
    q->value = left;
    q->limit = q->n;
    q->status =
        status_say(&q->note, STATUS_AGAIN, "%u of the session's %u pages are not %s yet; try again",
                   left, q->n, b->config.early ? "on the disk" : "in the RAM cache");
}

static void unpin(struct ses_book *b, struct ses_query *q) {
    uint32_t leaf = ses_book_session(b, q);
    if (leaf == 0)
        return;
    ses_trie_keep(b->trie, leaf, false);
    if (b->config.tier != NULL)
        mark(b, leaf);
    for (uint32_t id = leaf; !b->config.early && id != 0; id = ses_trie_parent(b->trie, id))
        if (!ses_trie_kept(b->trie, id) && !ses_trie_away(b->trie, id))
            ses_book_detach(b, id);
    q->n = b->trie->node[leaf].depth + 1;
}

void ses_book_query(struct ses_book *b, struct ses_query *q) {
    q->status = STATUS_OK;
    q->value = q->limit = q->next = 0;
    q->n = 0;
    switch (q->kind) {
    case SES_QUERY_LIST:
        list(b, q);
        break;
    case SES_QUERY_TOKENS:
        tokens(b, q);
        break;
    case SES_QUERY_FORGET:
        forget(b, q);
        break;
    case SES_QUERY_PIN:
        pin(b, q);
        break;
    case SES_QUERY_UNPIN:
        unpin(b, q);
        break;
    default:
        q->status = status_say(&q->note, STATUS_UNSUPPORTED, "the books do not answer that");
        break;
    }
    if (q->status == STATUS_OK)
        q->value = q->limit = 0;
}
