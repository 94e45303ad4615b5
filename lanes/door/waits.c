/* SPDX-License-Identifier: Apache-2.0
 * Waiting answers.
 */
#include "lanes/door/waits.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"

static uint32_t index_of(const struct door_waits *w, const struct door_wait *e) {
    CHECK(e >= w->slots && e < w->slots + w->n_slots);
    return (uint32_t)(e - w->slots);
}

bool door_waits_open(struct door_waits *w, uint32_t n_slots) {
    CHECK(n_slots > 0 && n_slots < 1u << 24);
    uint32_t n_hash = 4;
    while (n_hash < n_slots)
        n_hash *= 2;
    *w = (struct door_waits){.n_slots = n_slots, .hash_mask = n_hash - 1};
    w->slots = calloc(n_slots, sizeof *w->slots);
    w->hash = calloc(n_hash, sizeof *w->hash);
    w->waiting = w->ready = (struct door_list){DOOR_NONE, DOOR_NONE, 0};
    if (w->slots == NULL || w->hash == NULL) {
        door_waits_close(w);
        return false;
    }
    for (uint32_t i = 0; i < n_slots; i++)
        w->slots[i].next = i + 1 < n_slots ? i + 1 : DOOR_NONE;
    for (uint32_t i = 0; i < n_hash; i++)
        w->hash[i] = DOOR_NONE;
    return true;
}

void door_waits_close(struct door_waits *w) {
    free(w->slots);
    free(w->hash);
    *w = (struct door_waits){0};
}

/* ---- lists ---- */

static void list_append(struct door_waits *w, struct door_list *l, struct door_wait *e) {
    uint32_t i = index_of(w, e);
    e->prev = l->tail;
    e->next = DOOR_NONE;
    if (l->tail != DOOR_NONE)
        w->slots[l->tail].next = i;
    else
        l->head = i;
    l->tail = i;
    l->n++;
}

static void list_remove(struct door_waits *w, struct door_list *l, struct door_wait *e) {
    CHECK(l->n > 0);
    if (e->prev != DOOR_NONE)
        w->slots[e->prev].next = e->next;
    else
        l->head = e->next;
    if (e->next != DOOR_NONE)
        w->slots[e->next].prev = e->prev;
    else
        l->tail = e->prev;
    l->n--;
}

static void request_join(struct door_waits *w, struct door_request *r, struct door_wait *e) {
    uint32_t i = index_of(w, e);
    e->prev_same = DOOR_NONE;
    e->next_same = r->waits;
    if (r->waits != DOOR_NONE)
        w->slots[r->waits].prev_same = i;
    r->waits = i;
    r->n_waits++;
}

static void request_leave(struct door_waits *w, struct door_request *r, struct door_wait *e) {
    CHECK(r->n_waits > 0);
    if (e->prev_same != DOOR_NONE)
        w->slots[e->prev_same].next_same = e->next_same;
    else
        r->waits = e->next_same;
    if (e->next_same != DOOR_NONE)
        w->slots[e->next_same].prev_same = e->prev_same;
    r->n_waits--;
}

/* ---- by return address ---- */

static uint32_t hash_of(const struct door_waits *w, const struct door_header *to) {
    return (uint32_t)XXH3_64bits(to->bytes, to->n) & w->hash_mask;
}

struct door_wait *door_waits_find(struct door_waits *w, const struct door_header *to) {
    for (uint32_t i = w->hash[hash_of(w, to)]; i != DOOR_NONE; i = w->slots[i].next_hash) {
        struct door_wait *e = &w->slots[i];
        if (e->to.n == to->n && memcmp(e->to.bytes, to->bytes, to->n) == 0)
            return e;
    }
    return NULL;
}

struct door_wait *door_waits_add(struct door_waits *w, const struct door_header *to,
                                 enum door_wait_kind kind, struct door_table *t,
                                 struct door_request *r, uint64_t deadline_ns) {
    CHECK(to->n <= DOOR_HEADER_MAX);
    if (w->n == w->n_slots)
        return NULL;
    uint32_t i = w->free, h = hash_of(w, to);
    struct door_wait *e = &w->slots[i];
    CHECK(e->state == DOOR_WAIT_FREE);
    w->free = e->next;
    w->n++;
    *e = (struct door_wait){.kind = (uint8_t)kind,
                            .state = DOOR_WAIT_WAITING,
                            .deadline_ns = deadline_ns,
                            .next_same = DOOR_NONE,
                            .prev_same = DOOR_NONE,
                            .next_hash = w->hash[h],
                            .to = *to};
    w->hash[h] = i;
    list_append(w, &w->waiting, e);
    if (r != NULL) {
        e->request = door_table_id(t, r);
        request_join(w, r, e);
    }
    return e;
}

void door_waits_ready(struct door_waits *w, struct door_table *t, struct door_wait *e) {
    CHECK(e->state == DOOR_WAIT_WAITING);
    if (e->request != 0) {
        struct door_request *r = door_table_by_id(t, e->request);
        CHECK(r != NULL); /* a request with waits is never removed */
        request_leave(w, r, e);
    }
    list_remove(w, &w->waiting, e);
    e->state = DOOR_WAIT_READY;
    list_append(w, &w->ready, e);
}

void door_waits_done(struct door_waits *w, struct door_wait *e) {
    CHECK(e->state == DOOR_WAIT_READY);
    list_remove(w, &w->ready, e);
    uint32_t i = index_of(w, e), *at = &w->hash[hash_of(w, &e->to)];
    while (*at != i) {
        CHECK(*at != DOOR_NONE);
        at = &w->slots[*at].next_hash;
    }
    *at = e->next_hash;
    e->state = DOOR_WAIT_FREE;
    e->next = w->free;
    w->free = i;
    w->n--;
}

struct door_wait *door_waits_first(struct door_waits *w) {
    return w->ready.head != DOOR_NONE ? &w->slots[w->ready.head] : NULL;
}

void door_waits_rotate(struct door_waits *w) {
    struct door_wait *e = door_waits_first(w);
    CHECK(e != NULL);
    list_remove(w, &w->ready, e);
    list_append(w, &w->ready, e);
}
