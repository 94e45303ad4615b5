/* SPDX-License-Identifier: Apache-2.0
 * Requests by name.
 */
#include "lanes/door/table.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"

static struct door_digest name_digest(const struct door_table *t, const char *name) {
    XXH128_hash_t h = XXH3_128bits_withSeed(name, strlen(name), t->seed);
    return (struct door_digest){h.low64, h.high64 | 1}; /* never all zero: zero is an empty way */
}

bool door_table_open(struct door_table *t, uint32_t n_slots, uint64_t seed) {
    CHECK(n_slots > 0 && n_slots < 1u << 24);
    uint32_t n_index = 4;
    while (n_index < n_slots * 2)
        n_index *= 2;
    *t = (struct door_table){.n_slots = n_slots, .n_free = n_slots, .seed = seed};
    t->index_mask = n_index - 1;
    t->slots = calloc(n_slots, sizeof *t->slots);
    t->index = calloc(n_index, sizeof *t->index);
    t->gone = calloc((size_t)DOOR_GONE_SETS * DOOR_GONE_WAYS, sizeof *t->gone);
    t->gone_at = calloc(DOOR_GONE_SETS, 1);
    t->live = t->ended = (struct door_list){DOOR_NONE, DOOR_NONE, 0};
    if (t->slots == NULL || t->index == NULL || t->gone == NULL || t->gone_at == NULL) {
        door_table_close(t);
        return false;
    }
    for (uint32_t i = 0; i < n_slots; i++)
        t->slots[i].next = i + 1 < n_slots ? i + 1 : DOOR_NONE;
    return true;
}

void door_table_close(struct door_table *t) {
    free(t->slots);
    free(t->index);
    free(t->gone);
    free(t->gone_at);
    *t = (struct door_table){0};
}

uint32_t door_table_index(const struct door_table *t, const struct door_request *r) {
    CHECK(r >= t->slots && r < t->slots + t->n_slots);
    return (uint32_t)(r - t->slots);
}

uint64_t door_table_id(const struct door_table *t, const struct door_request *r) {
    return (uint64_t)r->generation << 32 | door_table_index(t, r);
}

struct door_request *door_table_by_id(struct door_table *t, uint64_t id) {
    uint32_t i = (uint32_t)id;
    if (i >= t->n_slots || t->slots[i].state == DOOR_FREE || t->slots[i].generation != id >> 32)
        return NULL;
    return &t->slots[i];
}

/* ---- lists ---- */

static void list_append(struct door_table *t, struct door_list *l, struct door_request *r) {
    uint32_t i = door_table_index(t, r);
    r->prev = l->tail;
    r->next = DOOR_NONE;
    if (l->tail != DOOR_NONE)
        t->slots[l->tail].next = i;
    else
        l->head = i;
    l->tail = i;
    l->n++;
}

static void list_remove(struct door_table *t, struct door_list *l, struct door_request *r) {
    CHECK(l->n > 0);
    if (r->prev != DOOR_NONE)
        t->slots[r->prev].next = r->next;
    else
        l->head = r->next;
    if (r->next != DOOR_NONE)
        t->slots[r->next].prev = r->prev;
    else
        l->tail = r->prev;
    l->n--;
}

/* ---- the index ---- */

static uint32_t index_at(const struct door_table *t, uint64_t hash, const char *name) {
    uint32_t at = (uint32_t)hash & t->index_mask;
    while (t->index[at] != 0) {
        const struct door_request *r = &t->slots[t->index[at] - 1];
        if (r->name_hash == hash && strcmp(r->name, name) == 0)
            break;
        at = (at + 1) & t->index_mask;
    }
    return at;
}

struct door_request *door_table_find(struct door_table *t, const char *name) {
    uint32_t at = index_at(t, name_digest(t, name).low, name);
    return t->index[at] != 0 ? &t->slots[t->index[at] - 1] : NULL;
}

/* Linear probing without tombstones: what stands behind the hole moves up when its own place is
 * not past the hole. */
static void index_delete(struct door_table *t, uint32_t hole) {
    for (uint32_t at = (hole + 1) & t->index_mask; t->index[at] != 0;
         at = (at + 1) & t->index_mask) {
        uint32_t home = (uint32_t)t->slots[t->index[at] - 1].name_hash & t->index_mask;
        if (((at - home) & t->index_mask) >= ((at - hole) & t->index_mask)) {
            t->index[hole] = t->index[at];
            hole = at;
        }
    }
    t->index[hole] = 0;
}

struct door_request *door_table_add(struct door_table *t, const char *name) {
    if (t->n_free == 0)
        return NULL;
    uint64_t hash = name_digest(t, name).low;
    uint32_t at = index_at(t, hash, name);
    CHECK(t->index[at] == 0);
    uint32_t i = t->free;
    struct door_request *r = &t->slots[i];
    CHECK(r->state == DOOR_FREE);
    t->free = r->next;
    t->n_free--;
    uint32_t generation = r->generation + 1;
    memset(r, 0, sizeof *r);
    memcpy(r->name, name, strlen(name) + 1);
    r->generation = generation;
    r->state = DOOR_SUBMITTED;
    r->name_hash = hash;
    r->waits = DOOR_NONE;
    t->index[at] = i + 1;
    list_append(t, &t->live, r);
    return r;
}

void door_table_end(struct door_table *t, struct door_request *r) {
    CHECK(r->state != DOOR_FREE && r->state != DOOR_ENDED);
    list_remove(t, &t->live, r);
    r->state = DOOR_ENDED;
    list_append(t, &t->ended, r);
}

void door_table_remove(struct door_table *t, struct door_request *r, bool remember) {
    CHECK(r->state != DOOR_FREE && r->log.head == 0 && r->n_waits == 0);
    list_remove(t, r->state == DOOR_ENDED ? &t->ended : &t->live, r);
    index_delete(t, index_at(t, r->name_hash, r->name));
    if (remember) {
        struct door_digest d = name_digest(t, r->name);
        uint32_t set = (uint32_t)(d.high >> 32) % DOOR_GONE_SETS;
        t->gone[set * DOOR_GONE_WAYS + t->gone_at[set]] = d;
        t->gone_at[set] = (uint8_t)((t->gone_at[set] + 1) % DOOR_GONE_WAYS);
    }
    r->state = DOOR_FREE;
    r->next = t->free;
    t->free = door_table_index(t, r);
    t->n_free++;
}

bool door_table_gone(const struct door_table *t, const char *name) {
    struct door_digest d = name_digest(t, name);
    uint32_t set = (uint32_t)(d.high >> 32) % DOOR_GONE_SETS;
    for (uint32_t w = 0; w < DOOR_GONE_WAYS; w++) {
        const struct door_digest *g = &t->gone[set * DOOR_GONE_WAYS + w];
        if (g->low == d.low && g->high == d.high)
            return true;
    }
    return false;
}
