/* SPDX-License-Identifier: Apache-2.0
 * What each message does to pages, trie and reservations.
 */
#include "sessions/book.h"

#include <stdlib.h>

#include "actors/check.h"
#include "sessions/private.h"
#include "sessions/reserve.h"

enum status ses_book_open(const struct ses_book_config *config, struct ses_book **out,
                          struct status_note *note) {
    *out = NULL;
    CHECK((config->tier != NULL) == (config->n_places > 0));
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
    b->job = calloc((size_t)config->n_pages + 1, sizeof *b->job);
    enum status status = STATUS_OK;
    if (b->slot == NULL || b->tables == NULL || b->path == NULL || b->job == NULL)
        status = status_say(note, STATUS_NO_MEMORY, "no memory for the books of %u lanes",
                            config->slots_max);
    if (status == STATUS_OK)
        status = ses_pages_open(config->n_pages, config->n_places, &b->pages, note);
    if (status == STATUS_OK)
        status =
            ses_trie_open(config->n_pages + config->n_places, config->page_tokens, &b->trie, note);
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
    free(b->job);
    free(b->path);
    free(b->tables);
    free(b->slot);
    free(b);
}

static struct ses_slot *slot_of(const struct ses_book *b, uint32_t slot) {
    CHECK(slot < b->config.slots_max);
    CHECK(b->slot[slot].live && !b->slot[slot].restoring);
    return &b->slot[slot];
}

/* Somebody besides the trie holds the page. */
bool ses_book_in_use(const struct ses_book *b, ses_page_t page) {
    return ses_pages_holds(b->pages, page, SES_HOLD_LANE) > 0 ||
           ses_pages_holds(b->pages, page, SES_HOLD_JOB) > 0;
}

/* The same of the node's page or of its place in the tier, so the node may not go. */
static bool node_in_use(const struct ses_book *b, uint32_t node) {
    ses_page_t copy = ses_trie_copy(b->trie, node);
    return ses_book_in_use(b, ses_trie_page(b->trie, node)) ||
           (copy != 0 && ses_book_in_use(b, copy));
}

void ses_book_hold(struct ses_book *b, ses_page_t page, enum ses_holder holder) {
    uint32_t node = ses_pages_node(b->pages, page);
    bool first = node != 0 && !node_in_use(b, node);
    ses_pages_hold(b->pages, page, holder);
    if (first)
        ses_trie_pin(b->trie, node);
}

/* Gives a hold back; a place that nobody holds any more is the tier's to reuse. */
static bool let_go(struct ses_book *b, ses_page_t page, enum ses_holder holder) {
    bool freed = ses_pages_drop(b->pages, page, holder);
    uint32_t id = ses_page_id(page);
    if (freed && id > b->config.n_pages)
        b->config.tier->forget(b->config.tier->self, ses_book_place(b, page));
    return freed;
}

void ses_book_drop(struct ses_book *b, ses_page_t page, enum ses_holder holder) {
    uint32_t node = ses_pages_node(b->pages, page);
    if (let_go(b, page, holder))
        return;
    if (node != 0 && !node_in_use(b, node))
        ses_trie_unpin(b->trie, node);
}

void ses_book_drop_cached(struct ses_book *b, ses_page_t page) {
    ses_pages_set_node(b->pages, page, 0);
    let_go(b, page, SES_HOLD_TRIE);
}

void ses_book_detach(struct ses_book *b, uint32_t node) {
    ses_page_t copy = ses_trie_copy(b->trie, node);
    if (copy == 0)
        return;
    bool held = node_in_use(b, node);
    ses_trie_set_copy(b->trie, node, 0);
    ses_book_drop_cached(b, copy);
    if (held && !node_in_use(b, node)) /* somebody still reads the place */
        ses_trie_unpin(b->trie, node);
}

void ses_book_attach(struct ses_book *b, uint32_t node, ses_page_t place) {
    ses_pages_hold(b->pages, place, SES_HOLD_TRIE);
    ses_pages_set_node(b->pages, place, node);
    ses_trie_set_copy(b->trie, node, place);
}

void ses_book_send_away(struct ses_book *b, uint32_t node) {
    ses_page_t page = ses_trie_page(b->trie, node), copy = ses_trie_copy(b->trie, node);
    ses_trie_set_copy(b->trie, node, 0);
    ses_trie_move(b->trie, node, copy, true);
    ses_book_drop_cached(b, page);
}

void ses_book_forget_node(struct ses_book *b, uint32_t node) {
    ses_book_detach(b, node);
    ses_book_drop_cached(b, ses_trie_remove(b->trie, node));
}

uint32_t ses_book_forget_behind(struct ses_book *b, uint32_t root) {
    uint32_t n = 0;
    for (;;) {
        uint32_t node = root, child;
        while ((child = ses_trie_child(b->trie, node)) != 0)
            node = child;
        if (node == root)
            return n;
        ses_book_forget_node(b, node);
        n++;
    }
}

uint64_t ses_book_space_digest(const struct ses_space *space) {
    return (space->key[0] ^ space->key[1]) * 0x9e3779b97f4a7c15u ^
           (space->tenant + 1) * 0xd6e8feb86659fd93u;
}

/* Takes node and all behind it out of the trie for want of room; returns its page, which the trie
 * still holds. */
static ses_page_t take_out(struct ses_book *b, uint32_t node) {
    uint32_t n;
    const uint32_t *tokens = ses_trie_tokens(b->trie, node, &n);
    if (ses_trie_depth(b->trie, node) == 0)
        ses_heads_evicted(b->heads, ses_trie_space(b->trie, node)->tenant,
                          ses_book_space_digest(ses_trie_space(b->trie, node)), tokens, n);
    b->evicted += 1 + ses_book_forget_behind(b, node);
    ses_book_detach(b, node);
    return ses_trie_remove(b->trie, node);
}

void ses_book_forget_place(struct ses_book *b, uint32_t node) {
    if (ses_trie_away(b->trie, node))
        ses_book_drop_cached(b, take_out(b, node));
    else
        ses_book_detach(b, node);
}

ses_page_t ses_book_place_of(const struct ses_book *b, uint32_t node) {
    return ses_trie_away(b->trie, node) ? ses_trie_page(b->trie, node)
                                        : ses_trie_copy(b->trie, node);
}

void ses_book_touch(struct ses_book *b, uint32_t node) {
    const struct ses_tier *tier = b->config.tier;
    ses_trie_touch(b->trie, node);
    ses_page_t place = ses_book_place_of(b, node);
    if (place != 0 && tier->mark != NULL)
        tier->mark(tier->self, ses_book_place(b, place), ses_trie_use(b->trie, node),
                   ses_trie_keeps(b->trie, node));
}

static void evict_one(struct ses_book *b) {
    uint32_t node = ses_trie_least(b->trie);
    CHECK(node != 0); /* keeps I3: what was reserved is free or idle */
    if (ses_trie_copy(b->trie, node) != 0)
        ses_book_send_away(b, node);
    else
        ses_book_drop_cached(b, take_out(b, node));
}

ses_page_t ses_book_take(struct ses_book *b) {
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
        found.reason = ses_heads_reason(b->heads, space->tenant, ses_book_space_digest(space),
                                        ask->ids, ask->n_ids);
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

/* The shared pages that are on the device, which come before all others, and how many are idle. */
static void count_shared(const struct ses_book *b, const struct ses_match *match,
                         struct ses_ask *want) {
    for (uint32_t i = 0; i < match->n_full && !ses_trie_away(b->trie, b->path[i]); i++) {
        want->shared++;
        want->shared_idle += ses_trie_idle(b->trie, b->path[i]);
    }
    /* What is away is restored into a page of the lane's own: nothing to hold on the device. */
    want->source = match->partial != 0 && !ses_trie_away(b->trie, match->partial);
    want->source_idle = want->source && ses_trie_idle(b->trie, match->partial);
}

/* The trie's page becomes the lane's own, with the rows that matched in it; what stands behind it
 * is forgotten. */
static void move_source(struct ses_book *b, struct ses_slot *s, uint32_t node) {
    ses_page_t page = ses_trie_page(b->trie, node);
    /* What is pinned is in the tier and stays there: pages behind it leave the device first. */
    while (ses_trie_kept(b->trie, node) && ses_trie_copy(b->trie, node) != 0 &&
           !ses_trie_may_go(b->trie, node))
        evict_one(b);
    if (ses_trie_copy(b->trie, node) != 0 && ses_trie_may_go(b->trie, node)) {
        ses_pages_hold(b->pages, page, SES_HOLD_LANE);
        ses_book_send_away(b, node);
        ses_pages_move(b->pages, page, SES_PAGE_FILLING);
        s->page[s->n_pages++] = page;
        return;
    }
    page = take_out(b, node);
    ses_pages_hold(b->pages, page, SES_HOLD_LANE);
    ses_book_drop_cached(b, page);
    ses_pages_move(b->pages, page, SES_PAGE_FILLING);
    s->page[s->n_pages++] = page;
}

/* Maps what is on the device, and begins to restore what is away. */
static void map_shared(struct ses_book *b, struct ses_slot *s, const struct lookup *found,
                       const struct ses_ask *want, bool move) {
    const struct ses_match *match = &found->match;
    for (uint32_t i = 0; i < want->shared; i++) {
        s->page[i] = ses_trie_page(b->trie, b->path[i]);
        ses_book_hold(b, s->page[i], SES_HOLD_LANE);
    }
    s->n_pages = s->sealed = want->shared;
    uint32_t last = match->partial != 0 ? match->partial
                    : match->n_full > 0 ? b->path[match->n_full - 1]
                                        : 0;
    if (last != 0)
        ses_book_touch(b, last);
    if (want->source && move) {
        move_source(b, s, match->partial);
    } else if (want->source) {
        s->source = ses_trie_page(b->trie, match->partial);
        s->source_at = match->n_full;
        ses_book_hold(b, s->source, SES_HOLD_JOB);
    }
    bool partial_away = match->partial != 0 && !want->source;
    if (partial_away)
        b->path[match->n_full] = match->partial;
    uint32_t n = match->n_full + (partial_away ? 1 : 0);
    for (uint32_t i = want->shared; i < n; i++) /* all, before a page is taken for one of them */
        ses_book_hold(b, ses_trie_page(b->trie, b->path[i]), SES_HOLD_JOB);
    s->n_full = s->n_good = match->n_full;
    s->first_restored = want->shared;
    s->n_restored = n - want->shared;
    for (uint32_t i = want->shared; i < n; i++) {
        s->page[s->n_pages++] = ses_book_take(b);
        ses_book_restore(b, (uint32_t)(s - b->slot), i, b->path[i]);
    }
}

static enum ses_verdict deny(struct ses_book *b, const struct ses_admit *ask,
                             const struct ses_ask *want, const struct ses_grant *grant,
                             struct ses_answer *answer) {
    answer->verdict = grant->status == STATUS_AGAIN && b->n_parking > 0 ? SES_LATER : SES_DENIED;
    answer->denied = (struct ses_denied){.slot = ask->slot,
                                         .status = grant->status,
                                         .pages_needed = want->pages,
                                         .pages_free = grant->available};
    return answer->verdict;
}

enum { SOON_PAGES = 2 };

/* Rather than forget what stands in the way of n more pages, it is parked first; what was copied
 * early goes at once, and copies that are being made early free nothing and are not waited for.
 * What the request itself hits goes last. True when that changed what is on the device, or soon
 * will. */
static bool make_room(struct ses_book *b, const struct ses_match *match, uint32_t n) {
    uint32_t last = match->partial != 0 ? match->partial
                    : match->n_full > 0 ? b->path[match->n_full - 1]
                                        : 0;
    uint32_t free_pages = ses_pages_free(b->pages, SES_PLACE_DEVICE);
    if (free_pages >= n || b->held_back)
        return false;
    if (last != 0)
        ses_trie_touch(b->trie, last);
    uint32_t soon = free_pages + b->n_leaving;
    return (soon < n && ses_book_park(b, n - soon) > 0) || b->n_leaving > 0;
}

enum ses_verdict ses_book_decide(struct ses_book *b, const struct ses_admit *ask,
                                 struct ses_answer *answer) {
    struct ses_slot *s = &b->slot[ask->slot];
    uint32_t page_tokens = b->config.page_tokens;
    struct ses_space space = ses_space_of(&b->config.key, ask->tenant);
    struct ses_ask want = {.pages = ses_pages_for(ask->max_tokens, page_tokens),
                           .pages_max = b->config.pages_per_slot_max};
    struct lookup found = {.reason = SES_MISS_NEW};
    if (want.pages <= want.pages_max && want.pages <= b->config.n_pages) {
        found = look_up(b, &space, ask);
        count_shared(b, &found.match, &want);
    }
    struct ses_funds funds = {.total = b->config.n_pages,
                              .free = ses_pages_free(b->pages, SES_PLACE_DEVICE),
                              .idle = ses_trie_n_idle(b->trie),
                              .reserved = b->reserved};
    struct ses_grant grant = ses_reserve_decide(&funds, &want);
    if (grant.status != STATUS_OK)
        return deny(b, ask, &want, &grant, answer);
    uint32_t now = ses_pages_for(ask->n_ids, page_tokens);
    /* Pages that it will soon be extended by count too: an extend cannot wait. */
    uint32_t soon = want.pages - now < SOON_PAGES ? want.pages - now : SOON_PAGES;
    if (b->config.tier != NULL && make_room(b, &found.match, now + soon - want.shared)) {
        if (b->n_leaving == 0) /* some gave up their pages at once */
            return ses_book_decide(b, ask, answer);
        answer->verdict = SES_LATER;
        return SES_LATER;
    }
    *s = (struct ses_slot){.live = true, .space = space, .page = s->page};
    b->n_live++;
    map_shared(b, s, &found, &want, grant.move);
    while (s->n_pages < now)
        s->page[s->n_pages++] = ses_book_take(b);
    s->reserved = want.pages - now;
    b->reserved += s->reserved;
    answer->verdict = s->n_restores > 0 ? SES_RESTORING : SES_ADMITTED;
    answer->admitted = (struct ses_admitted){
        .slot = ask->slot, .matched = found.matched, .n_pages = now, .reason = found.reason};
    if (s->source != 0) {
        answer->admitted.copy_src = ses_page_id(s->source);
        answer->admitted.copy_dst = ses_page_id(s->page[s->source_at]);
        answer->admitted.copy_tokens = found.match.tokens;
    }
    s->restoring = s->n_restores > 0;
    if (s->restoring) {
        s->ask = *ask;
        s->answer = answer->admitted;
    }
    return answer->verdict;
}

enum ses_verdict ses_book_admit(struct ses_book *b, const struct ses_admit *ask,
                                struct ses_answer *answer) {
    CHECK(ask->slot < b->config.slots_max);
    struct ses_slot *s = &b->slot[ask->slot];
    CHECK(!s->live && !s->asked);
    CHECK(ask->n_ids > 0 && ask->n_ids <= ask->max_tokens);
    if (ses_book_decide(b, ask, answer) == SES_LATER) {
        s->asked = true;
        b->n_asked++;
        s->ask = *ask;
        s->ticket = ++b->tickets;
    }
    return answer->verdict;
}

void ses_book_extend(struct ses_book *b, const struct ses_extend *ask, struct ses_extended *out) {
    struct ses_slot *s = slot_of(b, ask->slot);
    CHECK(ask->n_pages > 0 && ask->n_pages <= sizeof out->page / sizeof *out->page);
    CHECK(ask->n_pages <= s->reserved);
    *out = (struct ses_extended){.slot = ask->slot, .n_pages = ask->n_pages};
    for (uint32_t i = 0; i < ask->n_pages; i++) {
        s->reserved--;
        b->reserved--;
        ses_page_t page = s->page[s->n_pages++] = ses_book_take(b);
        out->page[i] = ses_page_id(page);
    }
}

static void end_copy(struct ses_book *b, struct ses_slot *s) {
    ses_page_t source = s->source;
    s->source = 0;
    if (source != 0)
        ses_book_drop(b, source, SES_HOLD_JOB);
}

void ses_book_copied(struct ses_book *b, const struct ses_copied *told) {
    struct ses_slot *s = slot_of(b, told->slot);
    CHECK(s->source != 0);
    end_copy(b, s);
}

/* The trie holds the lane's page as the page of node. */
static void join(struct ses_book *b, ses_page_t page, uint32_t node) {
    ses_pages_hold(b->pages, page, SES_HOLD_TRIE);
    ses_pages_set_node(b->pages, page, node);
    ses_pages_move(b->pages, page, SES_PAGE_FULL);
    ses_trie_pin(b->trie, node); /* the lane still maps it */
    bool wanted = b->config.early || (b->config.tier != NULL && ses_trie_kept(b->trie, node));
    if (wanted && ses_trie_copy(b->trie, node) == 0)
        ses_trie_want(b->trie, node);
}

/* Gives the lane's page i to the trie as well; returns the node that stands for its tokens. Where
 * an equal node was there, a page of it that others hold stays, and the lane's page remains
 * private; one that nobody holds is freed for the lane's. So a lane never makes a page busy that it
 * does not map, which keeps I3. */
static uint32_t share_page(struct ses_book *b, struct ses_slot *s, uint32_t parent,
                           const uint32_t *ids, uint32_t i, uint32_t n_tokens) {
    struct ses_added added = ses_trie_add(
        b->trie, &s->space, parent, ids + (size_t)i * b->config.page_tokens, n_tokens, s->page[i]);
    ses_page_t there = ses_trie_page(b->trie, added.node);
    bool away = ses_trie_away(b->trie, added.node);
    if (added.dropped_copy != 0)
        ses_book_drop_cached(b, added.dropped_copy);
    if (added.dropped != 0)
        ses_book_drop_cached(b, added.dropped);
    if (added.added) {
        join(b, s->page[i], added.node);
        if (parent == 0)
            ses_heads_known(b->heads, s->space.tenant, ses_book_space_digest(&s->space), ids,
                            n_tokens);
    } else if (there != s->page[i] && n_tokens == b->config.page_tokens &&
               (away || !node_in_use(b, added.node))) { /* its place may still be read */
        if (ses_book_in_use(b, there))                  /* others may still read the tier's place */
            ses_trie_unpin(b->trie, added.node);
        ses_trie_move(b->trie, added.node, s->page[i], false);
        if (away && (b->config.early || ses_trie_kept(b->trie, added.node)))
            ses_trie_set_copy(b->trie, added.node, there);
        else
            ses_book_drop_cached(b, there);
        join(b, s->page[i], added.node);
    }
    return added.node;
}

/* Tells the trie of rows [0, n_rows): whole pages, and with `tail` the rest. Returns the last node.
 * */
uint32_t ses_book_share(struct ses_book *b, struct ses_slot *s, const uint32_t *ids,
                        uint32_t n_rows, bool tail) {
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
    struct ses_slot *s = slot_of(b, told->slot);
    ses_book_go_on(b);
    ses_book_share(b, s, told->ids, told->n_rows, false);
    *out = (struct ses_sealed){.slot = told->slot, .n_rows = told->n_rows};
}

void ses_book_release(struct ses_book *b, const struct ses_release *told,
                      struct ses_released *out) {
    struct ses_slot *s = slot_of(b, told->slot);
    ses_book_go_on(b);
    uint32_t last = told->keep != 0 ? ses_book_share(b, s, told->ids, told->n_rows, true) : 0;
    for (uint32_t i = s->sealed; last == 0 && i > 0; i--)
        last = ses_pages_node(b->pages, s->page[i - 1]);
    if (last != 0) {
        ses_book_touch(b, last);
        ses_book_served(b, last);
    }
    end_copy(b, s);
    for (uint32_t i = s->n_pages; i > 0;
         i--) /* from the end: a parent turns idle after its children */
        ses_book_drop(b, s->page[i - 1], SES_HOLD_LANE);
    b->reserved -= s->reserved;
    b->n_live--;
    *s = (struct ses_slot){.page = s->page};
    *out = (struct ses_released){.slot = told->slot,
                                 .pages_free = ses_pages_free(b->pages, SES_PLACE_DEVICE) +
                                               ses_trie_n_idle(b->trie) - b->reserved};
}

uint32_t ses_book_forget(struct ses_book *b) {
    uint32_t n = 0, all = b->config.n_pages + b->config.n_places;
    for (uint32_t node = 1; node <= all; node++) {
        if (!ses_trie_live(b->trie, node) || !ses_trie_idle(b->trie, node))
            continue;
        n += 1 + ses_book_forget_behind(b, node);
        ses_book_forget_node(b, node);
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
        held += ses_book_in_use(b, page);
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
    const struct ses_slot *s = &b->slot[slot];
    *n = s->live ? s->n_pages : 0;
    return s->live ? s->page : NULL;
}

uint32_t ses_book_lanes(const struct ses_book *b) {
    return b->n_live;
}

const struct ses_trie *ses_book_trie(const struct ses_book *b) {
    return b->trie;
}

uint32_t ses_book_freed(struct ses_book *b, uint32_t *ids, uint32_t n) {
    return ses_pages_freed(b->pages, ids, n);
}
