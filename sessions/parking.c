/* SPDX-License-Identifier: Apache-2.0
 * Pages on their way to a tier and back, and admits that wait for them. A restored page is first
 * the waiting lane's own; when all of a lane's have come it shares them like pages that it
 * computed, so that two lanes that wait for the same record need not know of each other.
 */
#include <string.h>

#include "actors/check.h"
#include "sessions/private.h"
#include "sessions/tiers.h"

/* How many pages cannot be evicted while this one is under way: it and idle ones before it. */
static uint32_t parking_costs(const struct ses_book *b, uint32_t node) {
    uint32_t n = 0;
    for (; node != 0 && ses_trie_idle(b->trie, node); node = ses_trie_parent(b->trie, node))
        n++;
    return n;
}

/* A place for a page of this use; when all are taken, a node that was not used later gives up its
 * own. 0: none can be had. */
static ses_page_t take_place(struct ses_book *b, uint64_t use) {
    if (ses_pages_free(b->pages, SES_PLACE_TIER) == 0) {
        uint32_t least = ses_trie_least_kept(b->trie);
        if (least != 0 && ses_trie_use(b->trie, least) <= use)
            ses_book_forget_place(b, least);
    }
    return ses_pages_take(b->pages, 0, SES_PLACE_TIER, SES_HOLD_JOB);
}

static void begin_parking(struct ses_book *b, uint32_t node, ses_page_t place, bool leaves) {
    ses_page_t page = ses_trie_page(b->trie, node);
    ses_trie_unwant(b->trie, node);
    ses_book_hold(b, page, SES_HOLD_JOB);
    ses_pages_move(b->pages, page, SES_PAGE_PARKING);
    b->job[ses_page_id(page)] = (struct ses_job){.place = place, .leaves = leaves};
    b->n_parking++;
    b->n_leaving += leaves;
    b->config.tier->park(b->config.tier->self, ses_page_id(page), ses_book_place(b, place));
}

/* keeps I3: what is promised can still be had while the node's page is under way. */
static bool may_park(const struct ses_book *b, uint32_t node) {
    uint32_t funds =
        ses_pages_free(b->pages, SES_PLACE_DEVICE) + ses_trie_n_idle(b->trie) - b->reserved;
    return funds >= parking_costs(b, node);
}

uint32_t ses_book_park(struct ses_book *b, uint32_t n) {
    uint32_t begun = 0;
    for (; begun < n; begun++) {
        uint32_t node = ses_trie_least(b->trie);
        if (node != 0 && ses_trie_copy(b->trie, node) != 0) {
            ses_book_send_away(b, node);
            continue;
        }
        if (node == 0 || b->n_leaving >= SES_TIERS_LEAVING_MAX || !may_park(b, node))
            break; /* what ends makes whoever wants more ask again */
        ses_page_t place = take_place(b, ses_trie_use(b->trie, node));
        if (place == 0)
            break;
        begin_parking(b, node, place, true);
    }
    return begun;
}

/* The node's bytes are on the device alone, and nothing is done about it. */
static bool bare(const struct ses_book *b, uint32_t node) {
    return !ses_trie_away(b->trie, node) && ses_trie_copy(b->trie, node) == 0 &&
           ses_pages_state(b->pages, ses_trie_page(b->trie, node)) == SES_PAGE_FULL;
}

/* Nobody gives way for the node: all that could was used later, or stands before it, without which
 * its own bytes are of no use. */
static bool place_refused(const struct ses_book *b, uint32_t node) {
    uint32_t least = ses_trie_least_kept(b->trie);
    if (ses_pages_free(b->pages, SES_PLACE_TIER) > 0 || least == 0 ||
        ses_trie_use(b->trie, least) < ses_trie_use(b->trie, node))
        return false;
    bool before = false;
    for (uint32_t id = node; id != 0 && !before; id = ses_trie_parent(b->trie, id))
        before = id == least;
    return before || (ses_trie_use(b->trie, least) > ses_trie_use(b->trie, node) &&
                      !ses_trie_kept(b->trie, node));
}

uint32_t ses_book_copy_out(struct ses_book *b, uint32_t n) {
    uint32_t begun = 0, node;
    while (!b->held_back && b->n_parking < n && (node = ses_trie_wanted(b->trie)) != 0) {
        if (!bare(b, node) || place_refused(b, node)) {
            ses_trie_unwant(b->trie, node);
            continue;
        }
        if (!may_park(b, node))
            break;
        uint32_t name = ses_page_id(ses_trie_page(b->trie, node));
        bool kept = ses_trie_kept(b->trie, node);
        ses_page_t place = take_place(b, kept ? UINT64_MAX : ses_trie_use(b->trie, node));
        if (place == 0)
            break;
        if (!ses_trie_live(b->trie, node) || ses_page_id(ses_trie_page(b->trie, node)) != name) {
            ses_pages_drop(b->pages, place, SES_HOLD_JOB); /* it was behind what gave way */
            continue;
        }
        begin_parking(b, node, place, false);
        begun++;
    }
    return begun;
}

/* Parents first: a record without the one before it is of no use. */
static void want_bare(struct ses_book *b, uint32_t leaf,
                      bool (*worth)(const struct ses_book *, uint32_t)) {
    uint32_t n = 0;
    for (uint32_t id = leaf; id != 0; id = ses_trie_parent(b->trie, id))
        if (bare(b, id) && (worth == NULL || worth(b, id))) {
            CHECK(n < b->config.pages_per_slot_max); /* a lane once mapped all of them */
            b->path[n++] = id;
        }
    while (n > 0)
        ses_trie_want(b->trie, b->path[--n]);
}

/* There is room, or what would give way was not used since a lane left this node before: sessions
 * that are used in turns, more than the tier holds, do not push each other out for ever. */
static bool worth_storing(const struct ses_book *b, uint32_t node) {
    uint32_t least = ses_trie_least_kept(b->trie);
    uint64_t served = b->trie->node[node].served;
    if (served == 0) /* it is new */
        served = ses_trie_use(b->trie, node);
    return ses_pages_free(b->pages, SES_PLACE_TIER) > 0 ||
           (least != 0 && ses_trie_use(b->trie, least) < served);
}

void ses_book_served(struct ses_book *b, uint32_t leaf) {
    if (b->config.early)
        want_bare(b, leaf, worth_storing);
    for (uint32_t id = leaf; id != 0; id = ses_trie_parent(b->trie, id))
        b->trie->node[id].served = ses_trie_use(b->trie, id);
}

void ses_book_save(struct ses_book *b, uint32_t leaf) {
    ses_book_go_on(b);
    ses_book_touch(b, leaf);
    want_bare(b, leaf, NULL);
}

void ses_book_save_all(struct ses_book *b) {
    ses_book_go_on(b);
    for (uint32_t id = 1; b->config.early && id <= b->trie->n_nodes_max; id++)
        if (ses_trie_live(b->trie, id) && bare(b, id))
            ses_trie_want(b->trie, id);
    ses_trie_sort_wanted(b->trie);
}

uint32_t ses_book_parking(const struct ses_book *b) {
    return b->n_parking;
}

bool ses_book_wants(const struct ses_book *b) {
    return !b->held_back && ses_trie_wanted(b->trie) != 0;
}

bool ses_book_may_wait(const struct ses_book *b) {
    uint32_t funds = ses_pages_free(b->pages, SES_PLACE_DEVICE) + ses_trie_n_idle(b->trie);
    return b->n_live > 0 && funds >= b->reserved + b->trie->n_wanted;
}

void ses_book_go_on(struct ses_book *b) {
    b->held_back = false;
}

uint32_t ses_book_unsaved(const struct ses_book *b) {
    uint32_t n = b->n_parking;
    for (uint32_t id = ses_trie_wanted(b->trie); id != 0; id = b->trie->node[id].want_after)
        n++;
    return n;
}

void ses_book_keep_free(struct ses_book *b, uint32_t low) {
    uint32_t soon = ses_pages_free(b->pages, SES_PLACE_DEVICE) + b->n_leaving;
    if (soon < low && !b->held_back)
        ses_book_park(b, low - soon);
}

static ses_page_t page_under_way(const struct ses_book *b, uint32_t id, enum ses_page_state state) {
    CHECK(id > 0 && id <= b->config.n_pages);
    ses_page_t page = ses_pages_at(b->pages, id);
    CHECK(page != 0);
    CHECK(ses_pages_state(b->pages, page) == state);
    return page;
}

void ses_book_parked(struct ses_book *b, uint32_t id, bool fine) {
    ses_page_t page = page_under_way(b, id, SES_PAGE_PARKING);
    ses_page_t place = b->job[id].place;
    b->n_parking--;
    b->n_leaving -= b->job[id].leaves;
    ses_pages_move(b->pages, page, SES_PAGE_FULL);
    uint32_t node = ses_pages_node(b->pages, page);
    /* Another page may stand in the trie for it meanwhile: then the copy stands for nothing. */
    bool kept = fine && node != 0;
    b->held_back = !fine;
    if (!fine && node != 0 && (b->config.early || ses_trie_kept(b->trie, node)))
        ses_trie_want(b->trie, node);
    if (kept) {
        ses_pages_move(b->pages, place, SES_PAGE_PARKED);
        ses_book_attach(b, node, place);
    }
    ses_book_drop(b, page, SES_HOLD_JOB);
    ses_book_drop(b, place, SES_HOLD_JOB);
    if (!kept)
        return;
    /* A lane may have come to use it: then its page stays here. */
    if (b->job[id].leaves && ses_trie_may_go(b->trie, node))
        ses_book_send_away(b, node);
    else if (!b->config.early && !ses_trie_kept(b->trie, node))
        ses_book_detach(b, node);
}

void ses_book_restore(struct ses_book *b, uint32_t slot, uint32_t at, uint32_t node) {
    struct ses_slot *s = &b->slot[slot];
    ses_page_t page = s->page[at], place = ses_trie_page(b->trie, node);
    ses_book_hold(b, page, SES_HOLD_JOB);
    ses_pages_move(b->pages, page, SES_PAGE_RESTORING);
    b->job[ses_page_id(page)] = (struct ses_job){.place = place, .slot = slot, .at = at};
    s->n_restores++;
    const struct ses_tier *tier = b->config.tier;
    b->job[ses_page_id(page)].from_disk =
        tier->on_disk != NULL && tier->on_disk(tier->self, ses_book_place(b, place));
    tier->restore(tier->self, ses_book_place(b, place), ses_page_id(page));
}

/* The record is no good: what it stood for, and all behind it, is not known any more. */
static void lose(struct ses_book *b, ses_page_t place) {
    uint32_t node = ses_pages_node(b->pages, place);
    if (node == 0)
        return; /* forgotten, or restored by another lane, meanwhile */
    if (ses_trie_copy(b->trie, node) == place) { /* the bytes are on the device as well */
        ses_book_detach(b, node);
        if (ses_trie_kept(b->trie, node))
            ses_trie_want(b->trie, node);
        return;
    }
    b->evicted += 1 + ses_book_forget_behind(b, node);
    ses_book_forget_node(b, node);
}

/* How many of the matched tokens came from which tier. */
static void count_tiers(const struct ses_book *b, struct ses_slot *s) {
    uint32_t page_tokens = b->config.page_tokens;
    s->answer.from_ram = s->answer.from_disk = 0;
    for (uint32_t at = s->first_restored; at < s->n_pages; at++) {
        uint32_t first = at * page_tokens;
        if (first >= s->answer.matched || at >= s->first_restored + s->n_restored)
            return;
        uint32_t n = s->answer.matched - first;
        n = n < page_tokens ? n : page_tokens;
        if (b->job[ses_page_id(s->page[at])].from_disk)
            s->answer.from_disk += n;
        else
            s->answer.from_ram += n;
    }
}

void ses_book_disk_silent(struct ses_book *b, bool silent) {
    b->disk_silent = silent;
}

void ses_book_restored(struct ses_book *b, uint32_t id, bool fine) {
    ses_page_t page = page_under_way(b, id, SES_PAGE_RESTORING);
    struct ses_job job = b->job[id];
    struct ses_slot *s = &b->slot[job.slot];
    CHECK(s->live && s->restoring && s->n_restores > 0 && s->page[job.at] == page);
    ses_pages_move(b->pages, page, SES_PAGE_FILLING);
    ses_book_drop(b, page, SES_HOLD_JOB);
    s->n_restores--;
    if (!fine) {
        uint32_t rows = job.at * b->config.page_tokens;
        s->n_good = job.at < s->n_good ? job.at : s->n_good;
        s->answer.matched = rows < s->answer.matched ? rows : s->answer.matched;
        s->answer.reason = s->answer.matched > 0 ? SES_HIT_CUT
                           : b->disk_silent      ? SES_MISS_SILENT
                                                 : SES_MISS_RECORD;
        if (!b->disk_silent) /* else it is there, and will be had again */
            lose(b, job.place);
    }
    ses_book_drop(b, job.place, SES_HOLD_JOB);
    if (s->n_restores > 0)
        return;
    b->n_ready++;
    count_tiers(b, s);
    ses_book_share(b, s, s->ask.ids, s->n_good * b->config.page_tokens, false);
}

/* The longest waiting of those that pages were being parked for. */
static struct ses_slot *first_asked(const struct ses_book *b) {
    struct ses_slot *first = NULL;
    for (uint32_t i = 0; i < b->config.slots_max; i++) {
        struct ses_slot *s = &b->slot[i];
        if (s->asked && (first == NULL || s->ticket < first->ticket))
            first = s;
    }
    return first;
}

bool ses_book_ready(struct ses_book *b, struct ses_answer *answer) {
    for (uint32_t i = 0; b->n_ready > 0; i++) {
        CHECK(i < b->config.slots_max);
        struct ses_slot *s = &b->slot[i];
        if (!s->restoring || s->n_restores > 0)
            continue;
        s->restoring = false;
        b->n_ready--;
        *answer = (struct ses_answer){.verdict = SES_ADMITTED, .admitted = s->answer};
        return true;
    }
    if (b->n_asked == 0)
        return false;
    struct ses_slot *s = first_asked(b);
    CHECK(s != NULL);
    struct ses_admit ask = s->ask;
    if (ses_book_decide(b, &ask, answer) == SES_LATER)
        return false; /* it keeps its place; those behind it wait too */
    s->asked = false;
    b->n_asked--;
    return true;
}

void ses_book_describe_node(const struct ses_book *b, uint32_t node, struct ses_record *out) {
    uint32_t parent = ses_trie_parent(b->trie, node);
    *out = (struct ses_record){.space = *ses_trie_space(b->trie, node),
                               .name = ses_trie_name(b->trie, node),
                               .use = ses_trie_use(b->trie, node),
                               .depth = ses_trie_depth(b->trie, node),
                               .flags = ses_trie_keeps(b->trie, node) ? SES_RECORD_PINNED : 0};
    if (parent != 0)
        out->parent = ses_trie_name(b->trie, parent);
    out->tokens = (uint32_t *)(uintptr_t)ses_trie_tokens(b->trie, node, &out->n_tokens);
}

void ses_book_describe(const struct ses_book *b, uint32_t page, struct ses_record *out) {
    ses_page_t handle = ses_pages_at(b->pages, page);
    CHECK(handle != 0);
    ses_book_describe_node(b, ses_pages_node(b->pages, handle), out);
}

/* A full page of that name and tenant at that depth; 0: none. */
static uint32_t parent_of(const struct ses_book *b, const struct ses_record *r) {
    uint32_t parent = ses_trie_named(b->trie, &r->parent), n = 0;
    if (parent != 0)
        ses_trie_tokens(b->trie, parent, &n);
    return n == b->config.page_tokens && ses_trie_depth(b->trie, parent) + 1 == r->depth &&
                   ses_trie_space(b->trie, parent)->tenant == r->space.tenant
               ? parent
               : 0;
}

bool ses_book_load(struct ses_book *b, const struct ses_record *r, uint32_t *place) {
    struct ses_space own = ses_space_of(&b->config.key, r->space.tenant);
    uint32_t parent = 0;
    if (memcmp(own.key, r->space.key, sizeof own.key) != 0 || r->n_tokens == 0 ||
        r->n_tokens > b->config.page_tokens)
        return false;
    if (r->depth > 0) {
        parent = parent_of(b, r);
        if (parent == 0)
            return false;
    }
    ses_page_t page = ses_pages_take(b->pages, 0, SES_PLACE_TIER, SES_HOLD_TRIE);
    if (page == 0)
        return false;
    uint32_t node =
        ses_trie_load(b->trie, &own, parent, r->tokens, r->n_tokens, r->use, &r->name, page);
    if (node == 0) {
        ses_pages_drop(b->pages, page, SES_HOLD_TRIE);
        return false;
    }
    ses_pages_move(b->pages, page, SES_PAGE_PARKED);
    ses_pages_set_node(b->pages, page, node);
    ses_trie_keep(b->trie, node, (r->flags & SES_RECORD_PINNED) != 0);
    *place = ses_book_place(b, page);
    return true;
}

enum status ses_book_bring(struct ses_book *b, const struct ses_record *r, uint32_t *node,
                           uint32_t *place, struct status_note *note) {
    uint32_t parent = r->depth > 0 ? parent_of(b, r) : 0;
    *place = SES_TIERS_NONE;
    if (r->depth > 0 && parent == 0)
        return status_say(note, STATUS_NO_PAGES,
                          "what came before this page had to give way: there is no room for all");
    if (parent != 0)
        ses_trie_touch(b->trie, parent);
    struct ses_neighbours beside =
        ses_order_find(b->trie, parent, &r->space, r->tokens, r->n_tokens);
    *node = beside.equal != 0                    ? beside.equal
            : beside.after_tokens == r->n_tokens ? beside.after
                                                 : 0;
    if (*node != 0)
        return STATUS_OK;
    bool keep = false;
    uint32_t shorter = beside.before, n = 0;
    if (shorter != 0)
        ses_trie_tokens(b->trie, shorter, &n);
    if (shorter != 0 && beside.before_tokens == n) { /* it is a beginning of what comes */
        if (!ses_trie_idle(b->trie, shorter))
            return status_say(note, STATUS_AGAIN, "a shorter session is in use; try again");
        keep = ses_trie_keeps(b->trie, shorter);
        ses_book_forget_node(b, shorter);
    }
    ses_page_t page = take_place(b, UINT64_MAX);
    if (page != 0 && r->depth > 0 && parent_of(b, r) != parent) { /* it was what gave way */
        ses_pages_drop(b->pages, page, SES_HOLD_JOB);
        page = 0;
    }
    if (page == 0)
        return status_say(note, STATUS_NO_PAGES,
                          "the tier has no room for page %u of the session; pinned sessions and "
                          "those in use stay",
                          r->depth);
    struct ses_name name = ses_trie_name_of(b->trie, &r->space, parent, r->tokens, r->n_tokens);
    ses_pages_hold(b->pages, page, SES_HOLD_TRIE);
    ses_pages_drop(b->pages, page, SES_HOLD_JOB);
    *node = ses_trie_load(b->trie, &r->space, parent, r->tokens, r->n_tokens, 0, &name, page);
    CHECK(*node != 0);
    ses_pages_move(b->pages, page, SES_PAGE_PARKED);
    ses_pages_set_node(b->pages, page, *node);
    ses_trie_keep(b->trie, *node, keep);
    ses_trie_touch(b->trie, *node);
    *place = ses_book_place(b, page);
    return STATUS_OK;
}

void ses_book_loaded(struct ses_book *b) {
    ses_trie_loaded(b->trie);
}

void ses_book_load_other(struct ses_book *b, const struct ses_record *r) {
    if (r->depth == 0)
        ses_heads_known(b->heads, r->space.tenant, ses_book_space_digest(&r->space), r->tokens,
                        r->n_tokens);
}
