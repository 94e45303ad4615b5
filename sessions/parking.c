/* SPDX-License-Identifier: Apache-2.0
 * Pages on their way to a tier and back, and admits that wait for them. A restored page is first
 * the waiting lane's own; when all of a lane's have come it shares them like pages that it
 * computed, so that two lanes that wait for the same record need not know of each other.
 */
#include "actors/check.h"
#include "sessions/private.h"

static uint32_t place_number(const struct ses_book *b, ses_page_t place) {
    return ses_page_id(place) - b->config.n_pages - 1;
}

/* How many pages cannot be evicted while this one is under way: it and idle ones before it. */
static uint32_t parking_costs(const struct ses_book *b, uint32_t node) {
    uint32_t n = 0;
    for (; node != 0 && ses_trie_idle(b->trie, node); node = ses_trie_parent(b->trie, node))
        n++;
    return n;
}

uint32_t ses_book_park(struct ses_book *b, uint32_t n) {
    uint32_t begun = 0;
    for (; begun < n; begun++) {
        uint32_t node = ses_trie_least(b->trie);
        uint32_t funds =
            ses_pages_free(b->pages, SES_PLACE_DEVICE) + ses_trie_n_idle(b->trie) - b->reserved;
        if (node == 0 || funds < parking_costs(b, node)) /* keeps I3 */
            break;
        ses_page_t place = ses_pages_take(b->pages, 0, SES_PLACE_TIER, SES_HOLD_JOB);
        if (place == 0)
            break;
        ses_page_t page = ses_trie_page(b->trie, node);
        ses_book_hold(b, page, SES_HOLD_JOB);
        ses_pages_move(b->pages, page, SES_PAGE_PARKING);
        b->job[ses_page_id(page)] = (struct ses_job){.place = place};
        b->n_parking++;
        b->config.tier->park(b->config.tier->self, ses_page_id(page), place_number(b, place));
    }
    return begun;
}

void ses_book_keep_free(struct ses_book *b, uint32_t low) {
    uint32_t soon = ses_pages_free(b->pages, SES_PLACE_DEVICE) + b->n_parking;
    if (soon < low)
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
    ses_pages_move(b->pages, page, SES_PAGE_FULL);
    uint32_t node = ses_pages_node(b->pages, page);
    ses_book_drop(b, page, SES_HOLD_JOB);
    /* A lane may have come to use it, or a longer page to replace it: then the bytes stay here. */
    if (fine && node != 0 && ses_trie_may_go(b->trie, node)) {
        ses_pages_move(b->pages, place, SES_PAGE_PARKED);
        ses_pages_hold(b->pages, place, SES_HOLD_TRIE);
        ses_pages_set_node(b->pages, place, node);
        ses_trie_move(b->trie, node, place, true);
        ses_book_drop_cached(b, page);
        ses_pages_drop(b->pages, place, SES_HOLD_JOB);
    } else {
        ses_book_drop(b, place, SES_HOLD_JOB);
    }
}

void ses_book_restore(struct ses_book *b, uint32_t slot, uint32_t at, uint32_t node) {
    struct ses_slot *s = &b->slot[slot];
    ses_page_t page = s->page[at], place = ses_trie_page(b->trie, node);
    ses_book_hold(b, page, SES_HOLD_JOB);
    ses_pages_move(b->pages, page, SES_PAGE_RESTORING);
    b->job[ses_page_id(page)] = (struct ses_job){.place = place, .slot = slot, .at = at};
    s->n_restores++;
    b->config.tier->restore(b->config.tier->self, place_number(b, place), ses_page_id(page));
}

/* The record is no good: what it stood for, and all behind it, is not known any more. */
static void lose(struct ses_book *b, ses_page_t place) {
    uint32_t node = ses_pages_node(b->pages, place);
    if (node == 0)
        return; /* forgotten, or restored by another lane, meanwhile */
    b->evicted += 1 + ses_book_forget_behind(b, node);
    ses_book_drop_cached(b, ses_trie_remove(b->trie, node));
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
        s->answer.reason = s->answer.matched > 0 ? SES_HIT : SES_MISS_EVICTED;
        lose(b, job.place);
    }
    ses_book_drop(b, job.place, SES_HOLD_JOB);
    if (s->n_restores == 0)
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
    for (uint32_t i = 0; i < b->config.slots_max; i++) {
        struct ses_slot *s = &b->slot[i];
        if (!s->restoring || s->n_restores > 0)
            continue;
        s->restoring = false;
        *answer = (struct ses_answer){.verdict = SES_ADMITTED, .admitted = s->answer};
        return true;
    }
    struct ses_slot *s;
    while ((s = first_asked(b)) != NULL) {
        struct ses_admit ask = s->ask;
        if (ses_book_decide(b, &ask, answer) == SES_LATER && !s->live)
            return false; /* it keeps its place; those behind it wait too */
        s->asked = false;
        if (answer->verdict != SES_LATER)
            return true;
    }
    return false;
}
