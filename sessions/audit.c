/* SPDX-License-Identifier: Apache-2.0
 * The books checked from outside: what slots and jobs account for, page by page. It allocates, and
 * is called by tests and between messages only.
 */
#include <stdlib.h>

#include "sessions/private.h"

struct tally {
    uint32_t lanes, jobs;
};

/* Holds as slots and jobs account for them. */
static void tally_up(const struct ses_book *b, struct tally *tally, uint64_t *reserved,
                     uint32_t *n_parking) {
    for (uint32_t i = 0; i < b->config.slots_max; i++) {
        const struct ses_slot *s = &b->slot[i];
        for (uint32_t k = 0; s->live && k < s->n_pages; k++)
            tally[ses_page_id(s->page[k])].lanes++;
        if (s->live && s->source != 0)
            tally[ses_page_id(s->source)].jobs++;
        *reserved += s->reserved;
    }
    for (uint32_t id = 1; id <= b->config.n_pages; id++) {
        ses_page_t page = ses_pages_at(b->pages, id);
        enum ses_page_state state = page != 0 ? ses_pages_state(b->pages, page) : SES_PAGE_FREE;
        if (state != SES_PAGE_PARKING && state != SES_PAGE_RESTORING)
            continue;
        *n_parking += state == SES_PAGE_PARKING;
        tally[id].jobs++;
        tally[ses_page_id(b->job[id].place)].jobs++;
    }
}

static bool state_fits(const struct ses_book *b, ses_page_t page, uint32_t node) {
    enum ses_page_state state = ses_pages_state(b->pages, page);
    bool away = ses_page_id(page) > b->config.n_pages;
    if (node == 0)
        return away ? state == SES_PAGE_FILLING || state == SES_PAGE_PARKED
                    : state != SES_PAGE_PARKED;
    if (ses_trie_live(b->trie, node) && ses_trie_copy(b->trie, node) == page)
        return away && state == SES_PAGE_PARKED;
    return ses_trie_live(b->trie, node) && ses_trie_page(b->trie, node) == page &&
           ses_trie_away(b->trie, node) == away &&
           (away ? state == SES_PAGE_PARKED : state == SES_PAGE_FULL || state == SES_PAGE_PARKING);
}

static bool page_audit(const struct ses_book *b, uint32_t id, const struct tally *tally,
                       uint32_t *nodes, struct status_note *note) {
    ses_page_t page = ses_pages_at(b->pages, id);
    bool fine = page != 0 || (tally->lanes == 0 && tally->jobs == 0);
    uint32_t node = page != 0 ? ses_pages_node(b->pages, page) : 0;
    if (page != 0)
        fine = ses_pages_holds(b->pages, page, SES_HOLD_LANE) == tally->lanes &&
               ses_pages_holds(b->pages, page, SES_HOLD_JOB) == tally->jobs &&
               state_fits(b, page, node) && (node != 0 || tally->lanes <= 1);
    *nodes += node != 0 && ses_trie_live(b->trie, node) && ses_trie_page(b->trie, node) == page;
    if (!fine)
        status_say(note, STATUS_BAD_REQUEST, "page %u, %s, node %u: %u lanes and %u jobs expected",
                   id, page != 0 ? ses_page_state_name(ses_pages_state(b->pages, page)) : "free",
                   node, tally->lanes, tally->jobs);
    return fine;
}

bool ses_book_audit(const struct ses_book *b, struct status_note *note) {
    if (!ses_pages_audit(b->pages, note) || !ses_trie_audit(b->trie, note))
        return false;
    uint32_t all = b->config.n_pages + b->config.n_places, nodes = 0, n_parking = 0;
    uint32_t n_live = 0;
    uint64_t reserved = 0;
    struct tally *tally = calloc((size_t)all + 1, sizeof *tally);
    bool fine = tally != NULL;
    if (fine)
        tally_up(b, tally, &reserved, &n_parking);
    for (uint32_t id = 1; fine && id <= all; id++)
        fine = page_audit(b, id, &tally[id], &nodes, note);
    free(tally);
    for (uint32_t i = 0; i < b->config.slots_max; i++)
        n_live += b->slot[i].live;
    uint64_t funds =
        (uint64_t)ses_pages_free(b->pages, SES_PLACE_DEVICE) + ses_trie_n_idle(b->trie);
    if (fine && (nodes != ses_trie_n_nodes(b->trie) || reserved != b->reserved ||
                 funds < reserved || n_parking != b->n_parking || n_live != b->n_live)) {
        status_say(note, STATUS_BAD_REQUEST,
                   "%u nodes of %u, %u pages promised of %llu, %llu to be had, %u parking of %u, "
                   "%u lanes of %u",
                   nodes, ses_trie_n_nodes(b->trie), b->reserved, (unsigned long long)reserved,
                   (unsigned long long)funds, n_parking, b->n_parking, n_live, b->n_live);
        fine = false;
    }
    return fine;
}
