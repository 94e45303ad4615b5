/* SPDX-License-Identifier: Apache-2.0
 * The heap keeps each candidate's position, so that any of them leaves in O(log n).
 */
#include "sessions/evict.h"

#include <stdlib.h>

#include "actors/check.h"

struct candidate {
    uint64_t use;
    uint32_t depth;
    uint32_t id;
};

struct ses_evict {
    uint32_t n_max, n;
    struct candidate *heap; /* [n_max] */
    uint32_t *at;           /* [n_max + 1]: position + 1 of each id, 0 when out */
};

enum status ses_evict_open(uint32_t n, struct ses_evict **out, struct status_note *note) {
    struct ses_evict *e = calloc(1, sizeof *e);
    struct candidate *heap = calloc((size_t)n + 1, sizeof *heap);
    uint32_t *at = calloc((size_t)n + 1, sizeof *at);
    *out = NULL;
    if (e == NULL || heap == NULL || at == NULL) {
        free(e);
        free(heap);
        free(at);
        return status_say(note, STATUS_NO_MEMORY, "no memory to order %u KV pages by use", n);
    }
    *e = (struct ses_evict){.n_max = n, .heap = heap, .at = at};
    *out = e;
    return STATUS_OK;
}

void ses_evict_close(struct ses_evict *e) {
    if (e == NULL)
        return;
    free(e->heap);
    free(e->at);
    free(e);
}

/* A child goes before its parent when one lookup touched both; ids only make the order total. */
static bool goes_before(const struct candidate *a, const struct candidate *b) {
    if (a->use != b->use)
        return a->use < b->use;
    if (a->depth != b->depth)
        return a->depth > b->depth;
    return a->id < b->id;
}

static void place(struct ses_evict *e, uint32_t i, struct candidate c) {
    e->heap[i] = c;
    e->at[c.id] = i + 1;
}

static void sift(struct ses_evict *e, uint32_t i, struct candidate c) {
    while (i > 0 && goes_before(&c, &e->heap[(i - 1) / 2])) {
        place(e, i, e->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= e->n)
            break;
        if (child + 1 < e->n && goes_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!goes_before(&e->heap[child], &c))
            break;
        place(e, i, e->heap[child]);
        i = child;
    }
    place(e, i, c);
}

void ses_evict_put(struct ses_evict *e, uint32_t id, uint64_t use, uint32_t depth) {
    CHECK(id > 0 && id <= e->n_max);
    CHECK(e->at[id] == 0);
    uint32_t i = e->n++;
    sift(e, i, (struct candidate){.use = use, .depth = depth, .id = id});
}

void ses_evict_remove(struct ses_evict *e, uint32_t id) {
    CHECK(id > 0 && id <= e->n_max);
    if (e->at[id] == 0)
        return;
    uint32_t i = e->at[id] - 1;
    e->at[id] = 0;
    e->n--;
    if (i < e->n)
        sift(e, i, e->heap[e->n]);
}

bool ses_evict_has(const struct ses_evict *e, uint32_t id) {
    return e->at[id] != 0;
}

uint32_t ses_evict_least(const struct ses_evict *e) {
    return e->n > 0 ? e->heap[0].id : 0;
}

uint32_t ses_evict_count(const struct ses_evict *e) {
    return e->n;
}
