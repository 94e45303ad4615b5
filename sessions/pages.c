/* SPDX-License-Identifier: Apache-2.0
 * Free lists threaded through the page records, holder counts, and the table of legal moves between
 * states.
 */
#include "sessions/pages.h"

#include <stdlib.h>

#include "actors/check.h"

struct page {
    uint32_t generation;
    uint32_t next; /* free list */
    uint32_t holds[SES_HOLDERS];
    uint32_t node;
    uint8_t state;
    uint8_t group;
    bool reported; /* stands in freed[] */
};

struct ses_pages {
    uint32_t n_device, n_tier;
    struct page *page; /* [1 + n_device + n_tier]; 0 is the sink and never handed out */
    uint32_t first_free[SES_PLACES];
    uint32_t n_free[SES_PLACES];
    uint64_t holders[SES_HOLDERS];
    uint32_t *freed; /* [n_device]: ids freed and not yet told; each at most once */
    uint32_t n_freed;
};

/* Row: from; bit: to. */
static const uint8_t moves[SES_PAGE_STATES] = {
    [SES_PAGE_FREE] = 1 << SES_PAGE_FILLING,
    [SES_PAGE_FILLING] =
        1 << SES_PAGE_FREE | 1 << SES_PAGE_FULL | 1 << SES_PAGE_PARKED | 1 << SES_PAGE_RESTORING,
    [SES_PAGE_FULL] = 1 << SES_PAGE_FREE | 1 << SES_PAGE_PARKING | 1 << SES_PAGE_FILLING,
    [SES_PAGE_PARKING] = 1 << SES_PAGE_FULL,
    [SES_PAGE_PARKED] = 1 << SES_PAGE_FREE,
    [SES_PAGE_RESTORING] = 1 << SES_PAGE_FILLING,
};

bool ses_pages_may_move(enum ses_page_state from, enum ses_page_state to) {
    return (moves[from] >> to & 1) != 0;
}

const char *ses_page_state_name(enum ses_page_state state) {
    static const char *const names[SES_PAGE_STATES] = {"free",    "filling", "full",
                                                       "parking", "parked",  "restoring"};
    CHECK((uint32_t)state < SES_PAGE_STATES);
    return names[state];
}

static enum ses_place place_of(const struct ses_pages *p, uint32_t id) {
    return ses_pages_place(p->n_device, id);
}

enum status ses_pages_open(uint32_t n_device, uint32_t n_tier, struct ses_pages **out,
                           struct status_note *note) {
    *out = NULL;
    if (n_device == 0 || (uint64_t)n_device + n_tier >= UINT32_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "a page pool of %u + %u pages is not possible",
                          n_device, n_tier);
    size_t all = 1 + (size_t)n_device + n_tier;
    struct ses_pages *p = calloc(1, sizeof *p);
    struct page *page = calloc(all, sizeof *page);
    uint32_t *freed = calloc(n_device, sizeof *freed);
    if (p == NULL || page == NULL || freed == NULL) {
        free(p);
        free(page);
        free(freed);
        return status_say(note, STATUS_NO_MEMORY, "no memory for the books of %zu KV pages", all);
    }
    *p = (struct ses_pages){.n_device = n_device, .n_tier = n_tier, .page = page, .freed = freed};
    for (uint32_t id = (uint32_t)all - 1; id > 0; id--) { /* lowest ids are handed out first */
        enum ses_place place = place_of(p, id);
        page[id].generation = 1;
        page[id].next = p->first_free[place];
        p->first_free[place] = id;
        p->n_free[place]++;
    }
    *out = p;
    return STATUS_OK;
}

void ses_pages_close(struct ses_pages *p) {
    if (p == NULL)
        return;
    free(p->freed);
    free(p->page);
    free(p);
}

static ses_page_t handle(const struct ses_pages *p, uint32_t id) {
    return (uint64_t)p->page[id].generation << 32 | id;
}

static struct page *page_of(const struct ses_pages *p, ses_page_t page) {
    CHECK(ses_pages_live(p, page));
    return &p->page[ses_page_id(page)];
}

bool ses_pages_live(const struct ses_pages *p, ses_page_t page) {
    uint32_t id = ses_page_id(page);
    return id != 0 && id <= p->n_device + p->n_tier &&
           p->page[id].generation == (uint32_t)(page >> 32) && p->page[id].state != SES_PAGE_FREE;
}

ses_page_t ses_pages_take(struct ses_pages *p, uint32_t group, enum ses_place place,
                          enum ses_holder holder) {
    CHECK(group < SES_GROUPS);
    uint32_t id = p->first_free[place];
    if (id == 0)
        return 0;
    struct page *page = &p->page[id];
    CHECK(page->state == SES_PAGE_FREE);
    p->first_free[place] = page->next;
    p->n_free[place]--;
    page->next = 0;
    page->state = SES_PAGE_FILLING;
    page->group = (uint8_t)group;
    page->holds[holder] = 1;
    p->holders[holder]++;
    return handle(p, id);
}

void ses_pages_hold(struct ses_pages *p, ses_page_t handle_, enum ses_holder holder) {
    struct page *page = page_of(p, handle_);
    CHECK(page->holds[holder] < UINT32_MAX);
    CHECK(holder != SES_HOLD_TRIE || page->holds[SES_HOLD_TRIE] == 0);
    page->holds[holder]++;
    p->holders[holder]++;
}

bool ses_pages_drop(struct ses_pages *p, ses_page_t handle_, enum ses_holder holder) {
    struct page *page = page_of(p, handle_);
    CHECK(page->holds[holder] > 0);
    page->holds[holder]--;
    p->holders[holder]--;
    for (int h = 0; h < SES_HOLDERS; h++)
        if (page->holds[h] > 0)
            return false;
    CHECK(page->node == 0);
    CHECK(ses_pages_may_move(page->state, SES_PAGE_FREE));
    uint32_t id = ses_page_id(handle_);
    enum ses_place place = place_of(p, id);
    page->state = SES_PAGE_FREE;
    if (++page->generation == 0) /* 0 would make page 0's handle look like nobody */
        page->generation = 1;
    page->next = p->first_free[place];
    p->first_free[place] = id;
    p->n_free[place]++;
    if (place == SES_PLACE_DEVICE && !page->reported) {
        CHECK(p->n_freed < p->n_device);
        page->reported = true;
        p->freed[p->n_freed++] = id;
    }
    return true;
}

void ses_pages_move(struct ses_pages *p, ses_page_t handle_, enum ses_page_state to) {
    struct page *page = page_of(p, handle_);
    CHECK(to != SES_PAGE_FREE);
    CHECK(ses_pages_may_move(page->state, to));
    page->state = (uint8_t)to;
}

enum ses_page_state ses_pages_state(const struct ses_pages *p, ses_page_t page) {
    return page_of(p, page)->state;
}

uint32_t ses_pages_holds(const struct ses_pages *p, ses_page_t page, enum ses_holder holder) {
    return page_of(p, page)->holds[holder];
}

uint32_t ses_pages_node(const struct ses_pages *p, ses_page_t page) {
    return page_of(p, page)->node;
}

void ses_pages_set_node(struct ses_pages *p, ses_page_t page, uint32_t node) {
    page_of(p, page)->node = node;
}

uint32_t ses_pages_total(const struct ses_pages *p, enum ses_place place) {
    return place == SES_PLACE_DEVICE ? p->n_device : p->n_tier;
}

uint32_t ses_pages_free(const struct ses_pages *p, enum ses_place place) {
    return p->n_free[place];
}

uint64_t ses_pages_holders(const struct ses_pages *p, enum ses_holder holder) {
    return p->holders[holder];
}

ses_page_t ses_pages_at(const struct ses_pages *p, uint32_t id) {
    CHECK(id > 0 && id <= p->n_device + p->n_tier);
    return p->page[id].state == SES_PAGE_FREE ? 0 : handle(p, id);
}

uint32_t ses_pages_freed(struct ses_pages *p, uint32_t *ids, uint32_t n) {
    uint32_t filled = 0;
    while (filled < n && p->n_freed > 0) {
        uint32_t id = p->freed[--p->n_freed];
        p->page[id].reported = false;
        if (p->page[id].state == SES_PAGE_FREE)
            ids[filled++] = id;
    }
    return filled;
}

bool ses_pages_audit(const struct ses_pages *p, struct status_note *note) {
    uint64_t sums[SES_HOLDERS] = {0};
    uint32_t n_free[SES_PLACES] = {0};
    for (uint32_t id = 1; id <= p->n_device + p->n_tier; id++) {
        const struct page *page = &p->page[id];
        uint64_t holds = 0;
        for (int h = 0; h < SES_HOLDERS; h++) {
            sums[h] += page->holds[h];
            holds += page->holds[h];
        }
        bool is_free = page->state == SES_PAGE_FREE;
        if (is_free)
            n_free[place_of(p, id)]++;
        if (is_free != (holds == 0) || page->holds[SES_HOLD_TRIE] > 1 ||
            (page->node != 0) != (page->holds[SES_HOLD_TRIE] == 1)) {
            status_say(note, STATUS_BAD_REQUEST, "page %u (%s) has %llu holders and node %u", id,
                       ses_page_state_name(page->state), (unsigned long long)holds, page->node);
            return false;
        }
    }
    for (int place = 0; place < SES_PLACES; place++) {
        uint32_t listed = 0;
        for (uint32_t id = p->first_free[place]; id != 0 && listed <= p->n_free[place];
             id = p->page[id].next)
            listed++;
        if (listed != p->n_free[place] || n_free[place] != p->n_free[place]) {
            status_say(note, STATUS_BAD_REQUEST, "%u pages are free, %u listed, %u counted",
                       n_free[place], listed, p->n_free[place]);
            return false;
        }
    }
    for (int h = 0; h < SES_HOLDERS; h++)
        if (sums[h] != p->holders[h]) {
            status_say(note, STATUS_BAD_REQUEST, "holds of kind %d: %llu on pages, %llu counted", h,
                       (unsigned long long)sums[h], (unsigned long long)p->holders[h]);
            return false;
        }
    return true;
}
