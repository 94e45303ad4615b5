/* SPDX-License-Identifier: Apache-2.0
 * What each message does to pages, trie and reservations.
 */
#include "sessions/book.h"

#include <stdlib.h>

#include "actors/check.h"
#include "sessions/heads.h"
#include "sessions/reserve.h"
#include "sessions/trie.h"

struct slot {
    bool live;
    struct ses_space space;
    uint32_t n_pages;
    uint32_t reserved;  /* pages promised and not yet given */
    uint32_t sealed;    /* full pages that the trie was told of */
    ses_page_t source;  /* held for the copy until copied; 0: none */
    uint32_t source_at; /* the page that the copy fills */
    ses_page_t *page;   /* [pages_per_slot_max] */
};

struct ses_book {
    struct ses_book_config config;
    struct ses_pages *pages;
    struct ses_trie *trie;
    struct ses_heads *heads;
    struct slot *slot;  /* [slots_max] */
    ses_page_t *tables; /* [slots_max][pages_per_slot_max] */
    uint32_t *path;     /* [pages_per_slot_max]: nodes of the lookup at hand */
    uint32_t reserved;  /* over all slots */
    uint32_t evicted;   /* nodes since open */
};

enum status ses_book_open(const struct ses_book_config *config, struct ses_book **out,
                          struct status_note *note) {
    *out = NULL;
    if (config->slots_max == 0 || config->pages_per_slot_max == 0)
        return status_say(note, STATUS_BAD_REQUEST,
                          "the memory needs at least one slot and one page a slot, not %u and %u",
                          config->slots_max, config->pages_per_slot_max);
    struct ses_book *b = calloc(1, sizeof *b);
    if (b == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session books");
    b->config = *config;
    size_t table = config->pages_per_slot_max;
    b->slot = calloc(config->slots_max, sizeof *b->slot);
    b->tables = calloc((size_t)config->slots_max * table, sizeof *b->tables);
    b->path = calloc(table, sizeof *b->path);
    enum status status = STATUS_OK;
    if (b->slot == NULL || b->tables == NULL || b->path == NULL)
        status = status_say(note, STATUS_NO_MEMORY, "no memory for the books of %u lanes",
                            config->slots_max);
    if (status == STATUS_OK)
        status = ses_pages_open(config->n_pages, 0, &b->pages, note);
    if (status == STATUS_OK)
        status = ses_trie_open(config->n_pages, config->page_tokens, &b->trie, note);
    if (status == STATUS_OK)
        status = ses_heads_open(config->n_pages, &b->heads, note);
    if (status != STATUS_OK) {
        ses_book_close(b);
        return status;
    }
    for (uint32_t i = 0; i < config->slots_max; i++)
        b->slot[i].page = b->tables + i * table;
    *out = b;
    return STATUS_OK;
}

void ses_book_close(struct ses_book *b) {
    if (b == NULL)
        return;
    ses_heads_close(b->heads);
    ses_trie_close(b->trie);
    ses_pages_close(b->pages);
    free(b->path);
    free(b->tables);
    free(b->slot);
    free(b);
}

static struct slot *slot_of(const struct ses_book *b, uint32_t slot) {
    CHECK(slot < b->config.slots_max);
    CHECK(b->slot[slot].live);
    return &b->slot[slot];
}

/* Somebody besides the trie holds the page, so its node may not go. */
static bool page_in_use(const struct ses_book *b, ses_page_t page) {
    return ses_pages_holds(b->pages, page, SES_HOLD_LANE) > 0 ||
           ses_pages_holds(b->pages, page, SES_HOLD_JOB) > 0;
}

static void hold(struct ses_book *b, ses_page_t page, enum ses_holder holder) {
    bool first = !page_in_use(b, page);
    uint32_t node = ses_pages_node(b->pages, page);
    ses_pages_hold(b->pages, page, holder);
    if (first && node != 0)
        ses_trie_pin(b->trie, node);
}

static void drop(struct ses_book *b, ses_page_t page, enum ses_holder holder) {
    uint32_t node = ses_pages_node(b->pages, page);
    if (ses_pages_drop(b->pages, page, holder))
        return;
    if (node != 0 && !page_in_use(b, page))
        ses_trie_unpin(b->trie, node);
}

/* The trie lets go of a page that it does not name any more. */
static void drop_cached(struct ses_book *b, ses_page_t page) {
    ses_pages_set_node(b->pages, page, 0);
    ses_pages_drop(b->pages, page, SES_HOLD_TRIE);
}

/* Takes everything behind root out of the trie, leaves first. */
static uint32_t forget_behind(struct ses_book *b, uint32_t root) {
    uint32_t n = 0;
    for (;;) {
        uint32_t node = root, child;
        while ((child = ses_trie_child(b->trie, node)) != 0)
            node = child;
        if (node == root)
            return n;
        drop_cached(b, ses_trie_remove(b->trie, node));
        n++;
    }
}

static uint64_t space_digest(const struct ses_space *space) {
    return (space->key[0] ^ space->key[1]) * 0x9e3779b97f4a7c15u ^
           (space->tenant + 1) * 0xd6e8feb86659fd93u;
}

/* Takes node and all behind it out of the trie for want of room; returns its page, which the trie
 * still holds. */
static ses_page_t take_out(struct ses_book *b, uint32_t node) {
    uint32_t n;
    const uint32_t *tokens = ses_trie_tokens(b->trie, node, &n);
    if (ses_trie_depth(b->trie, node) == 0)
        ses_heads_evicted(b->heads, space_digest(ses_trie_space(b->trie, node)), tokens, n);
    b->evicted += 1 + forget_behind(b, node);
    return ses_trie_remove(b->trie, node);
}

static void evict_one(struct ses_book *b) {
    uint32_t node = ses_trie_least(b->trie);
    CHECK(node != 0); /* keeps I3: what was reserved is free or idle */
    drop_cached(b, take_out(b, node));
}

/* A page of its own for a lane; whoever calls has it reserved. */
static ses_page_t take(struct ses_book *b) {
    if (ses_pages_free(b->pages, SES_PLACE_DEVICE) == 0)
        evict_one(b);
    ses_page_t page = ses_pages_take(b->pages, 0, SES_PLACE_DEVICE, SES_HOLD_LANE);
    CHECK(page != 0);
    return page;
}

struct lookup {
    struct ses_match match;
    uint32_t matched;
    enum ses_reason reason;
};

/* What is known of the prompt, cut so that one row is left to compute. */
static struct lookup look_up(struct ses_book *b, const struct ses_space *space,
                             const struct ses_admit *ask) {
    struct lookup found = {.reason = SES_MISS_OFF};
    uint32_t page_tokens = b->config.page_tokens;
    if (ask->reuse == 0)
        return found;
    struct ses_match *match = &found.match;
    *match = ses_trie_find(b->trie, space, ask->ids, ask->n_ids, b->path);
    found.matched = match->n_full * page_tokens + match->tokens;
    if (found.matched == 0)
        found.reason = ses_heads_reason(b->heads, space_digest(space), ask->ids, ask->n_ids);
    else
        found.reason = SES_HIT;
    if (found.matched < ask->n_ids)
        return found;
    CHECK(found.matched == ask->n_ids);
    found.reason = SES_HIT_CAPPED;
    found.matched--;
    if (match->tokens == 0) { /* the last full page becomes a page to copy from */
        match->partial = b->path[--match->n_full];
        match->tokens = page_tokens;
    }
    if (--match->tokens == 0)
        match->partial = 0;
    return found;
}

static uint32_t count_idle(const struct ses_book *b, const uint32_t *path, uint32_t n) {
    uint32_t idle = 0;
    for (uint32_t i = 0; i < n; i++)
        idle += ses_trie_idle(b->trie, path[i]);
    return idle;
}

/* The trie's page becomes the lane's own, with the rows that matched in it; what stands behind it
 * is forgotten. */
static void move_source(struct ses_book *b, struct slot *s, uint32_t node) {
    ses_page_t page = take_out(b, node);
    ses_pages_hold(b->pages, page, SES_HOLD_LANE);
    drop_cached(b, page);
    ses_pages_move(b->pages, page, SES_PAGE_FILLING);
    s->page[s->n_pages++] = page;
}

static void map_shared(struct ses_book *b, struct slot *s, const struct lookup *found, bool move) {
    const struct ses_match *match = &found->match;
    for (uint32_t i = 0; i < match->n_full; i++) {
        s->page[i] = ses_trie_page(b->trie, b->path[i]);
        hold(b, s->page[i], SES_HOLD_LANE);
    }
    s->n_pages = s->sealed = match->n_full;
    if (match->n_full > 0)
        ses_trie_touch(b->trie, b->path[match->n_full - 1]);
    if (match->partial == 0)
        return;
    if (move) {
        move_source(b, s, match->partial);
        return;
    }
    ses_trie_touch(b->trie, match->partial);
    s->source = ses_trie_page(b->trie, match->partial);
    s->source_at = match->n_full;
    hold(b, s->source, SES_HOLD_JOB);
}

enum status ses_book_admit(struct ses_book *b, const struct ses_admit *ask,
                           struct ses_admitted *admitted, struct ses_denied *denied) {
    CHECK(ask->slot < b->config.slots_max);
    struct slot *s = &b->slot[ask->slot];
    CHECK(!s->live);
    CHECK(ask->n_ids > 0 && ask->n_ids <= ask->max_tokens);
    uint32_t page_tokens = b->config.page_tokens;
    struct ses_space space = ses_space_of(&b->config.key, ask->tenant);
    struct ses_ask want = {.pages = ses_pages_for(ask->max_tokens, page_tokens),
                           .pages_max = b->config.pages_per_slot_max};
    struct lookup found = {.reason = SES_MISS_NEW};
    if (want.pages <= want.pages_max && want.pages <= b->config.n_pages) {
        found = look_up(b, &space, ask);
        want.shared = found.match.n_full;
        want.shared_idle = count_idle(b, b->path, want.shared);
        want.source = found.match.partial != 0;
        want.source_idle = want.source && ses_trie_idle(b->trie, found.match.partial);
    }
    struct ses_funds funds = {.total = b->config.n_pages,
                              .free = ses_pages_free(b->pages, SES_PLACE_DEVICE),
                              .idle = ses_trie_n_idle(b->trie),
                              .reserved = b->reserved};
    struct ses_grant grant = ses_reserve_decide(&funds, &want);
    if (grant.status != STATUS_OK) {
        *denied = (struct ses_denied){.slot = ask->slot,
                                      .status = grant.status,
                                      .pages_needed = want.pages,
                                      .pages_free = grant.available};
        return grant.status;
    }
    *s = (struct slot){.live = true, .space = space, .page = s->page};
    map_shared(b, s, &found, grant.move);
    uint32_t now = ses_pages_for(ask->n_ids, page_tokens);
    while (s->n_pages < now)
        s->page[s->n_pages++] = take(b);
    s->reserved = want.pages - now;
    b->reserved += s->reserved;
    *admitted = (struct ses_admitted){
        .slot = ask->slot, .matched = found.matched, .n_pages = now, .reason = found.reason};
    if (s->source != 0) {
        admitted->copy_src = ses_page_id(s->source);
        admitted->copy_dst = ses_page_id(s->page[s->source_at]);
        admitted->copy_tokens = found.match.tokens;
    }
    return STATUS_OK;
}

void ses_book_extend(struct ses_book *b, const struct ses_extend *ask, struct ses_extended *out) {
    struct slot *s = slot_of(b, ask->slot);
    CHECK(ask->n_pages > 0 && ask->n_pages <= sizeof out->page / sizeof *out->page);
    CHECK(ask->n_pages <= s->reserved);
    *out = (struct ses_extended){.slot = ask->slot, .n_pages = ask->n_pages};
    for (uint32_t i = 0; i < ask->n_pages; i++) {
        s->reserved--;
        b->reserved--;
        ses_page_t page = s->page[s->n_pages++] = take(b);
        out->page[i] = ses_page_id(page);
    }
}

static void end_copy(struct ses_book *b, struct slot *s) {
    ses_page_t source = s->source;
    s->source = 0;
    if (source != 0)
        drop(b, source, SES_HOLD_JOB);
}

void ses_book_copied(struct ses_book *b, const struct ses_copied *told) {
    struct slot *s = slot_of(b, told->slot);
    CHECK(s->source != 0);
    end_copy(b, s);
}

/* The trie holds the lane's page as the page of node. */
static void join(struct ses_book *b, ses_page_t page, uint32_t node) {
    ses_pages_hold(b->pages, page, SES_HOLD_TRIE);
    ses_pages_set_node(b->pages, page, node);
    ses_pages_move(b->pages, page, SES_PAGE_FULL);
    ses_trie_pin(b->trie, node); /* the lane still maps it */
}

/* Gives the lane's page i to the trie as well; returns the node that stands for its tokens. Where
 * an equal node was there, a page of it that others hold stays, and the lane's page remains
 * private; one that nobody holds is freed for the lane's. So a lane never makes a page busy that it
 * does not map, which keeps I3. */
static uint32_t share_page(struct ses_book *b, struct slot *s, uint32_t parent, const uint32_t *ids,
                           uint32_t i, uint32_t n_tokens) {
    struct ses_added added = ses_trie_add(
        b->trie, &s->space, parent, ids + (size_t)i * b->config.page_tokens, n_tokens, s->page[i]);
    ses_page_t there = ses_trie_page(b->trie, added.node);
    if (added.dropped != 0)
        drop_cached(b, added.dropped);
    if (added.added) {
        join(b, s->page[i], added.node);
        if (parent == 0)
            ses_heads_known(b->heads, space_digest(&s->space), ids, n_tokens);
    } else if (there != s->page[i] && n_tokens == b->config.page_tokens && !page_in_use(b, there)) {
        ses_trie_move(b->trie, added.node, s->page[i], false);
        drop_cached(b, there);
        join(b, s->page[i], added.node);
    }
    return added.node;
}

/* Tells the trie of rows [0, n_rows): whole pages, and with `tail` the rest. Returns the last node.
 * */
static uint32_t share_rows(struct ses_book *b, struct slot *s, const uint32_t *ids, uint32_t n_rows,
                           bool tail) {
    uint32_t page_tokens = b->config.page_tokens;
    if (s->source != 0 && n_rows > s->source_at * page_tokens)
        n_rows = s->source_at * page_tokens; /* the copy did not run: no row behind is there */
    CHECK(n_rows <= s->n_pages * page_tokens);
    uint32_t full = n_rows / page_tokens, rest = n_rows % page_tokens;
    /* Begin behind the last page that is the trie's own: where an equal one was there, it may have
     * been evicted since. */
    uint32_t i = s->sealed < full ? s->sealed : full;
    while (i > 0 && ses_pages_node(b->pages, s->page[i - 1]) == 0)
        i--;
    uint32_t node = i > 0 ? ses_pages_node(b->pages, s->page[i - 1]) : 0;
    for (; i < full; i++)
        node = share_page(b, s, node, ids, i, page_tokens);
    if (s->sealed < full)
        s->sealed = full;
    if (tail && rest > 0)
        node = share_page(b, s, node, ids, full, rest);
    return node;
}

void ses_book_seal(struct ses_book *b, const struct ses_seal *told, struct ses_sealed *out) {
    struct slot *s = slot_of(b, told->slot);
    share_rows(b, s, told->ids, told->n_rows, false);
    *out = (struct ses_sealed){.slot = told->slot, .n_rows = told->n_rows};
}

void ses_book_release(struct ses_book *b, const struct ses_release *told,
                      struct ses_released *out) {
    struct slot *s = slot_of(b, told->slot);
    uint32_t last = told->keep != 0 ? share_rows(b, s, told->ids, told->n_rows, true) : 0;
    for (uint32_t i = s->sealed; last == 0 && i > 0; i--)
        last = ses_pages_node(b->pages, s->page[i - 1]);
    if (last != 0)
        ses_trie_touch(b->trie, last);
    end_copy(b, s);
    for (uint32_t i = s->n_pages; i > 0;
         i--) /* from the end: a parent turns idle after its children */
        drop(b, s->page[i - 1], SES_HOLD_LANE);
    b->reserved -= s->reserved;
    *s = (struct slot){.page = s->page};
    *out = (struct ses_released){.slot = told->slot,
                                 .pages_free = ses_pages_free(b->pages, SES_PLACE_DEVICE) +
                                               ses_trie_n_idle(b->trie) - b->reserved};
}

uint32_t ses_book_forget(struct ses_book *b) {
    uint32_t node, n = 0;
    while ((node = ses_trie_least(b->trie)) != 0) {
        n += 1 + forget_behind(b, node);
        drop_cached(b, ses_trie_remove(b->trie, node));
    }
    ses_heads_clear(b->heads);
    return n;
}

void ses_book_count(const struct ses_book *b, struct ses_counted *out) {
    uint32_t total = ses_pages_total(b->pages, SES_PLACE_DEVICE), held = 0, cached = 0;
    for (uint32_t id = 1; id <= total; id++) {
        ses_page_t page = ses_pages_at(b->pages, id);
        if (page == 0)
            continue;
        held += page_in_use(b, page);
        cached += ses_pages_node(b->pages, page) != 0;
    }
    *out = (struct ses_counted){.pages_total = total,
                                .pages_free = ses_pages_free(b->pages, SES_PLACE_DEVICE),
                                .pages_held = held,
                                .pages_cached = cached,
                                .nodes = ses_trie_n_nodes(b->trie),
                                .evicted = b->evicted};
}

const ses_page_t *ses_book_pages(const struct ses_book *b, uint32_t slot, uint32_t *n) {
    CHECK(slot < b->config.slots_max);
    const struct slot *s = &b->slot[slot];
    *n = s->live ? s->n_pages : 0;
    return s->live ? s->page : NULL;
}

const struct ses_trie *ses_book_trie(const struct ses_book *b) {
    return b->trie;
}

uint32_t ses_book_freed(struct ses_book *b, uint32_t *ids, uint32_t n) {
    return ses_pages_freed(b->pages, ids, n);
}

/* Holds as the slots account for them, page by page. */
static bool holds_audit(const struct ses_book *b, struct status_note *note) {
    uint32_t total = ses_pages_total(b->pages, SES_PLACE_DEVICE);
    uint32_t *lanes = calloc((size_t)total + 1, sizeof *lanes);
    uint32_t *jobs = calloc((size_t)total + 1, sizeof *jobs);
    bool fine = lanes != NULL && jobs != NULL;
    uint64_t reserved = 0;
    for (uint32_t i = 0; fine && i < b->config.slots_max; i++) {
        const struct slot *s = &b->slot[i];
        for (uint32_t k = 0; s->live && k < s->n_pages; k++)
            lanes[ses_page_id(s->page[k])]++;
        if (s->live && s->source != 0)
            jobs[ses_page_id(s->source)]++;
        reserved += s->reserved;
    }
    uint32_t nodes = 0;
    for (uint32_t id = 1; fine && id <= total; id++) {
        ses_page_t page = ses_pages_at(b->pages, id);
        if (page == 0) {
            fine = lanes[id] == 0 && jobs[id] == 0;
            continue;
        }
        uint32_t node = ses_pages_node(b->pages, page);
        nodes += node != 0;
        fine =
            ses_pages_holds(b->pages, page, SES_HOLD_LANE) == lanes[id] &&
            ses_pages_holds(b->pages, page, SES_HOLD_JOB) == jobs[id] &&
            (node == 0 || (ses_trie_live(b->trie, node) && ses_trie_page(b->trie, node) == page &&
                           ses_pages_state(b->pages, page) == SES_PAGE_FULL)) &&
            (node != 0 || lanes[id] <= 1);
        if (!fine)
            status_say(note, STATUS_BAD_REQUEST, "page %u: %u lanes and %u jobs, node %u", id,
                       lanes[id], jobs[id], node);
    }
    free(lanes);
    free(jobs);
    uint64_t funds =
        (uint64_t)ses_pages_free(b->pages, SES_PLACE_DEVICE) + ses_trie_n_idle(b->trie);
    if (fine &&
        (nodes != ses_trie_n_nodes(b->trie) || reserved != b->reserved || funds < reserved)) {
        status_say(note, STATUS_BAD_REQUEST, "%u nodes, %llu pages promised, %llu to be had", nodes,
                   (unsigned long long)reserved, (unsigned long long)funds);
        fine = false;
    }
    return fine;
}

bool ses_book_audit(const struct ses_book *b, struct status_note *note) {
    return ses_pages_audit(b->pages, note) && ses_trie_audit(b->trie, note) && holds_audit(b, note);
}
