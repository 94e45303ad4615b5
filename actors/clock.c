/* SPDX-License-Identifier: Apache-2.0
 * A binary heap whose entries hold their keys, and a table that holds the rest.
 */
#include "actors/clock.h"

#include <stdlib.h>

#include "actors/check.h"

enum status act_clock_open(struct act_clock *c, uint32_t timers_max) {
    c->timers = malloc(((size_t)timers_max + 1) * sizeof *c->timers);
    c->heap = malloc(((size_t)timers_max + 1) * sizeof *c->heap);
    c->order = 0;
    c->n = 0;
    c->max = timers_max;
    c->free = 0;
    c->fresh = 1;
    if (c->timers != NULL && c->heap != NULL)
        return STATUS_OK;
    act_clock_close(c);
    return STATUS_NO_MEMORY;
}

void act_clock_close(struct act_clock *c) {
    free(c->timers);
    free(c->heap);
    c->timers = NULL;
    c->heap = NULL;
}

static bool clock_before(const struct act_clock_entry *a, const struct act_clock_entry *b) {
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->order < b->order;
}

static void clock_put(struct act_clock *c, uint32_t place, struct act_clock_entry entry) {
    c->heap[place] = entry;
    c->timers[entry.timer].place = place;
}

static void clock_rise(struct act_clock *c, uint32_t place, struct act_clock_entry entry) {
    while (place > 1 && clock_before(&entry, &c->heap[place / 2])) {
        clock_put(c, place, c->heap[place / 2]);
        place /= 2;
    }
    clock_put(c, place, entry);
}

static void clock_sink(struct act_clock *c, uint32_t place, struct act_clock_entry entry) {
    for (;;) {
        uint32_t child = place * 2;
        if (child > c->n)
            break;
        if (child < c->n && clock_before(&c->heap[child + 1], &c->heap[child]))
            child++;
        if (!clock_before(&c->heap[child], &entry))
            break;
        clock_put(c, place, c->heap[child]);
        place = child;
    }
    clock_put(c, place, entry);
}

static void clock_unheap(struct act_clock *c, uint32_t place) {
    CHECK(place >= 1 && place <= c->n);
    struct act_clock_entry last = c->heap[c->n--];
    if (place > c->n)
        return;
    if (place > 1 && clock_before(&last, &c->heap[place / 2]))
        clock_rise(c, place, last);
    else
        clock_sink(c, place, last);
}

uint64_t act_clock_arm(struct act_clock *c, uint64_t owner, uint32_t *list, uint64_t deadline_ns,
                       uint64_t cookie) {
    uint32_t index = c->free;
    if (index != 0) {
        c->free = c->timers[index].next;
    } else if (c->fresh <= c->max) {
        index = c->fresh++;
        c->timers[index].generation = 1;
    } else {
        return 0;
    }
    struct act_clock_timer *t = &c->timers[index];
    t->owner = owner;
    t->cookie = cookie;
    t->deadline_ns = deadline_ns;
    t->fired = false;
    t->used = true;
    t->prev = 0;
    t->next = *list;
    if (*list != 0)
        c->timers[*list].prev = index;
    *list = index;
    c->n++;
    clock_rise(
        c, c->n,
        (struct act_clock_entry){.deadline_ns = deadline_ns, .order = c->order++, .timer = index});
    return (uint64_t)t->generation << 32 | index;
}

/* The timer of a name, NULL when the name is stale. */
static struct act_clock_timer *clock_find(struct act_clock *c, uint64_t name) {
    uint32_t index = (uint32_t)name;
    if (index == 0 || index >= c->fresh)
        return NULL;
    struct act_clock_timer *t = &c->timers[index];
    return t->used && t->generation == (uint32_t)(name >> 32) ? t : NULL;
}

static void clock_free(struct act_clock *c, uint32_t *list, struct act_clock_timer *t) {
    if (!t->fired)
        clock_unheap(c, t->place);
    if (t->prev != 0)
        c->timers[t->prev].next = t->next;
    else
        *list = t->next;
    if (t->next != 0)
        c->timers[t->next].prev = t->prev;
    t->used = false;
    t->generation++;
    t->next = c->free;
    c->free = (uint32_t)(t - c->timers);
}

bool act_clock_cancel(struct act_clock *c, uint64_t owner, uint32_t *list, uint64_t name) {
    struct act_clock_timer *t = clock_find(c, name);
    if (t == NULL)
        return false;
    CHECK(t->owner == owner);
    clock_free(c, list, t);
    return true;
}

void act_clock_cancel_all(struct act_clock *c, uint32_t *list) {
    while (*list != 0)
        clock_free(c, list, &c->timers[*list]);
}

uint64_t act_clock_fire(struct act_clock *c, uint64_t now_ns, const struct act_clock_timer **out) {
    if (act_clock_next(c) > now_ns)
        return 0;
    struct act_clock_timer *t = &c->timers[c->heap[1].timer];
    clock_unheap(c, 1);
    t->fired = true;
    *out = t;
    return (uint64_t)t->generation << 32 | (uint32_t)(t - c->timers);
}

bool act_clock_settle(struct act_clock *c, uint32_t *list, uint64_t name) {
    struct act_clock_timer *t = clock_find(c, name);
    if (t == NULL)
        return false;
    CHECK(t->fired);
    clock_free(c, list, t);
    return true;
}
