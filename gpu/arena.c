/* SPDX-License-Identifier: Apache-2.0
 * Ranges of the arena's chunks: best fit by bins of sizes, neighbours joined, freed ranges kept
 * apart until fence and leases let them go.
 */
#include "gpu/arena.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/arena_state.h"

/* ---- lists and records ---- */

static void list_add(struct gpu_arena *a, struct arena_list *list, uint32_t i) {
    struct arena_range *r = &a->ranges[i];
    r->list_prev = list->last;
    r->list_next = ARENA_NONE;
    if (list->last != ARENA_NONE)
        a->ranges[list->last].list_next = i;
    else
        list->first = i;
    list->last = i;
}

static void list_drop(struct gpu_arena *a, struct arena_list *list, uint32_t i) {
    struct arena_range *r = &a->ranges[i];
    if (r->list_prev != ARENA_NONE)
        a->ranges[r->list_prev].list_next = r->list_next;
    else
        list->first = r->list_next;
    if (r->list_next != ARENA_NONE)
        a->ranges[r->list_next].list_prev = r->list_prev;
    else
        list->last = r->list_prev;
    r->list_prev = r->list_next = ARENA_NONE;
}

static uint32_t record_take(struct gpu_arena *a) {
    uint32_t i = a->unused.first;
    CHECK(i != ARENA_NONE); /* the caller has seen that there are enough */
    list_drop(a, &a->unused, i);
    a->n_unused--;
    return i;
}

static void record_return(struct gpu_arena *a, uint32_t i) {
    uint32_t generation = a->ranges[i].generation;
    a->ranges[i] = (struct arena_range){.generation = generation};
    list_add(a, &a->unused, i);
    a->n_unused++;
}

/* Ranges of a bin have 2^bin units of 512 bytes or more, and fewer than twice as many. */
static uint32_t bin_of(uint64_t bytes) {
    uint32_t bin = 63 - (uint32_t)__builtin_clzll(bytes / GPU_ARENA_ALIGN);
    return bin < ARENA_BINS ? bin : ARENA_BINS - 1;
}

/* The list that a range of this state is in, or NULL. */
static struct arena_list *list_of(struct gpu_arena *a, const struct arena_range *r) {
    switch (r->state) {
    case ARENA_FREE:
        return &a->bins[a->chunks[r->chunk].class][bin_of(r->bytes)];
    case ARENA_TAIL:
        return &a->tails[a->chunks[r->chunk].class];
    case ARENA_FENCED:
        return &a->fenced;
    case ARENA_BORROWED:
        return &a->borrowed;
    default:
        return NULL;
    }
}

/* The sum that a range of this state is part of, or NULL. */
static uint64_t *sum_of(struct gpu_arena *a, const struct arena_range *r) {
    switch (r->state) {
    case ARENA_FREE:
        return &a->count.free;
    case ARENA_TAIL:
        return &a->count.tail;
    case ARENA_LIVE:
        return &a->count.live;
    case ARENA_FENCED:
    case ARENA_LEASED:
        return r->lent ? NULL : &a->count.quarantined;
    default:
        return NULL;
    }
}

/* Moves a range to another state, and with it list and sums. */
static void range_become(struct gpu_arena *a, uint32_t i, enum arena_state state) {
    struct arena_range *r = &a->ranges[i];
    struct arena_list *list = list_of(a, r);
    uint64_t *sum = sum_of(a, r);
    if (list != NULL)
        list_drop(a, list, i);
    if (sum != NULL)
        *sum -= r->bytes;
    a->count.n_live -= r->state == ARENA_LIVE;
    a->count.n_borrowed -= r->state == ARENA_BORROWED;
    a->count.n_quarantined -= r->state == ARENA_FENCED || r->state == ARENA_LEASED;
    a->count.leased -= r->state == ARENA_LEASED && !r->lent ? r->bytes : 0;
    r->state = state;
    list = list_of(a, r);
    sum = sum_of(a, r);
    if (list != NULL)
        list_add(a, list, i);
    if (sum != NULL)
        *sum += r->bytes;
    a->count.n_live += state == ARENA_LIVE;
    a->count.n_borrowed += state == ARENA_BORROWED;
    a->count.n_quarantined += state == ARENA_FENCED || state == ARENA_LEASED;
    a->count.leased += state == ARENA_LEASED && !r->lent ? r->bytes : 0;
}

/* Joins a free or tail range with what is free beside it. A range at the end of its chunk is a
 * tail. */
static void range_join(struct gpu_arena *a, uint32_t i) {
    range_become(a, i, ARENA_UNUSED); /* out of its list while its size changes */
    struct arena_range *r = &a->ranges[i];
    uint32_t n = r->next, p = r->prev;
    if (n != ARENA_NONE && (a->ranges[n].state == ARENA_FREE || a->ranges[n].state == ARENA_TAIL)) {
        range_become(a, n, ARENA_UNUSED);
        r->bytes += a->ranges[n].bytes;
        r->next = a->ranges[n].next;
        if (r->next != ARENA_NONE)
            a->ranges[r->next].prev = i;
        record_return(a, n);
    }
    if (p != ARENA_NONE && a->ranges[p].state == ARENA_FREE) {
        range_become(a, p, ARENA_UNUSED);
        r->at = a->ranges[p].at;
        r->bytes += a->ranges[p].bytes;
        r->prev = a->ranges[p].prev;
        if (r->prev != ARENA_NONE)
            a->ranges[r->prev].next = i;
        else
            a->chunks[r->chunk].first = i;
        record_return(a, p);
    }
    r->what = NULL;
    range_become(a, i, r->next == ARENA_NONE ? ARENA_TAIL : ARENA_FREE);
}

/* What has left quarantine is free again. */
static void range_release(struct gpu_arena *a, uint32_t i) {
    struct arena_range *r = &a->ranges[i];
    CHECK(r->leases == 0);
    if (r->lent) {
        range_become(a, i, ARENA_UNUSED);
        record_return(a, i);
        return;
    }
    if (a->config.poison) {
        /* Waits: whoever gets the range next may write it from another stream. */
        const struct gpu_driver *d = a->config.driver;
        if (d->fill32(r->at, GPU_ARENA_POISON, r->bytes / 4, a->config.s) == GPU_CUDA_SUCCESS)
            d->stream_synchronize(a->config.s);
    }
    range_become(a, i, ARENA_FREE);
    range_join(a, i);
}

/* ---- life ---- */

enum status gpu_arena_open(const struct gpu_arena_config *config, struct gpu_arena **out,
                           struct status_note *note) {
    struct gpu_arena *a = calloc(1, sizeof *a);
    if (a == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for an arena");
    a->config = *config;
    if (a->config.ranges_max == 0)
        a->config.ranges_max = 65536;
    if (a->config.chunks_max == 0)
        a->config.chunks_max = 1024;
    CHECK(!a->config.poison || a->config.s != NULL);
    uint32_t n = a->config.ranges_max;
    a->ranges = calloc((size_t)n + 1, sizeof *a->ranges);
    a->chunks = calloc(a->config.chunks_max, sizeof *a->chunks);
    a->order = calloc(a->config.chunks_max, sizeof *a->order);
    enum status status = STATUS_OK;
    if (a->ranges == NULL || a->chunks == NULL || a->order == NULL)
        status = status_say(note, STATUS_NO_MEMORY, "no memory for an arena of %u ranges", n);
    for (uint32_t i = 1; i <= n && status == STATUS_OK; i++)
        record_return(a, i);
    if (status == STATUS_OK)
        status = gpu_arena_backend_open(a, note);
    if (status != STATUS_OK) {
        gpu_arena_close(a);
        return status;
    }
    *out = a;
    return STATUS_OK;
}

void gpu_arena_close(struct gpu_arena *a) {
    if (a == NULL)
        return;
    while (a->n_chunks > 0)
        gpu_arena_chunk_return(a, a->order[a->n_chunks - 1]);
    gpu_arena_backend_close(a);
    free(a->ranges);
    free(a->chunks);
    free(a->order);
    free(a);
}

/* ---- allocation ---- */

/* The smallest range of one bin that fits, or none. */
static uint32_t bin_fit(const struct gpu_arena *a, const struct arena_list *bin, uint64_t bytes) {
    uint32_t best = ARENA_NONE;
    for (uint32_t i = bin->first; i != ARENA_NONE; i = a->ranges[i].list_next)
        if (a->ranges[i].bytes >= bytes &&
            (best == ARENA_NONE || a->ranges[i].bytes < a->ranges[best].bytes))
            best = i;
    return best;
}

static uint32_t range_fit(const struct gpu_arena *a, enum arena_class class, uint64_t bytes) {
    for (uint32_t bin = bin_of(bytes); bin < ARENA_BINS; bin++) {
        uint32_t i = bin_fit(a, &a->bins[class][bin], bytes);
        if (i != ARENA_NONE)
            return i;
    }
    return bin_fit(a, &a->tails[class], bytes);
}

static gpu_mem_t handle_of(const struct gpu_arena *a, uint32_t i) {
    return (uint64_t)a->ranges[i].generation << 32 | i;
}

/* Hands out the beginning of a free or tail range. A record for the rest was seen to be there. */
static void range_give(struct gpu_arena *a, uint32_t i, uint64_t bytes, const char *what) {
    struct arena_range *r = &a->ranges[i];
    if (r->bytes > bytes) {
        uint32_t rest = record_take(a);
        enum arena_state state = r->state;
        range_become(a, i, ARENA_UNUSED);
        struct arena_range *s = &a->ranges[rest];
        s->at = r->at + bytes;
        s->bytes = r->bytes - bytes;
        s->chunk = r->chunk;
        s->prev = i;
        s->next = r->next;
        if (s->next != ARENA_NONE)
            a->ranges[s->next].prev = rest;
        r->next = rest;
        r->bytes = bytes;
        range_become(a, rest, state);
    }
    range_become(a, i, ARENA_LIVE);
    r->what = what;
    r->generation++;
    r->leases = 0;
    r->after = 0;
}

enum status gpu_arena_alloc(struct gpu_arena *a, uint64_t bytes, const char *what, gpu_mem_t *out,
                            struct status_note *note) {
    if (bytes == 0 || bytes > UINT64_MAX / 4)
        return status_say(note, STATUS_BAD_REQUEST, "%llu bytes of device memory for %s",
                          (unsigned long long)bytes, what);
    enum arena_class class = bytes <= GPU_ARENA_SMALL_MAX ? ARENA_SMALL : ARENA_LARGE;
    uint64_t unit = class == ARENA_SMALL ? GPU_ARENA_ALIGN : GPU_ARENA_LARGE_ALIGN;
    if (class == ARENA_LARGE && a->granularity > unit)
        unit = a->granularity;
    bytes = (bytes + unit - 1) / unit * unit;
    if (a->n_unused < 2) /* one for the range, one for what is left of it */
        return status_say(note, STATUS_NO_MEMORY,
                          "no record for %s: all %u ranges of the arena are in use", what,
                          a->config.ranges_max);
    uint32_t i = range_fit(a, class, bytes);
    if (i == ARENA_NONE) {
        uint32_t chunk;
        if (a->n_chunks == a->config.chunks_max)
            return status_say(note, STATUS_NO_MEMORY,
                              "no chunk for %s: all %u chunks of the arena are in use", what,
                              a->config.chunks_max);
        TRY(gpu_arena_chunk_take(a, class == ARENA_SMALL ? GPU_ARENA_CHUNK : bytes, class, what,
                                 &chunk, note));
        i = record_take(a);
        struct arena_range *r = &a->ranges[i];
        r->at = a->chunks[chunk].at;
        r->bytes = a->chunks[chunk].bytes;
        r->chunk = chunk;
        a->chunks[chunk].first = i;
        range_become(a, i, ARENA_TAIL);
    }
    range_give(a, i, bytes, what);
    *out = handle_of(a, i);
    return STATUS_OK;
}

enum status gpu_arena_borrow(struct gpu_arena *a, gpu_cu_ptr_t p, uint64_t bytes, const char *what,
                             gpu_mem_t *out, struct status_note *note) {
    if (p == 0 || bytes == 0 || bytes > UINT64_MAX - p)
        return status_say(note, STATUS_BAD_REQUEST, "%s: no memory to borrow", what);
    bool known = gpu_arena_chunk_at(a, p) != UINT32_MAX;
    for (uint32_t c = 0; c < a->n_chunks; c++) {
        const struct arena_chunk *chunk = &a->chunks[a->order[c]];
        known = known || (chunk->at >= p && chunk->at - p < bytes);
    }
    for (uint32_t i = a->borrowed.first; i != ARENA_NONE; i = a->ranges[i].list_next)
        known = known || (p < a->ranges[i].at + a->ranges[i].bytes && a->ranges[i].at < p + bytes);
    if (known)
        return status_say(note, STATUS_DUPLICATE,
                          "%s: address %llx is the arena's own or borrowed already", what,
                          (unsigned long long)p);
    if (a->n_unused == 0)
        return status_say(note, STATUS_NO_MEMORY,
                          "no record for %s: all %u ranges of the arena are in use", what,
                          a->config.ranges_max);
    uint32_t i = record_take(a);
    struct arena_range *r = &a->ranges[i];
    r->at = p;
    r->bytes = bytes;
    r->what = what;
    r->lent = true;
    r->generation++;
    range_become(a, i, ARENA_BORROWED);
    *out = handle_of(a, i);
    return STATUS_OK;
}

/* The record of a handle in any state but unused, or none. */
static uint32_t record_of(const struct gpu_arena *a, gpu_mem_t mem) {
    uint32_t i = (uint32_t)mem;
    if (i == ARENA_NONE || i > a->config.ranges_max || a->ranges[i].generation != mem >> 32 ||
        a->ranges[i].state == ARENA_UNUSED || a->ranges[i].state == ARENA_FREE ||
        a->ranges[i].state == ARENA_TAIL)
        return ARENA_NONE;
    return i;
}

static bool range_lives(const struct arena_range *r) {
    return r->state == ARENA_LIVE || r->state == ARENA_BORROWED;
}

bool gpu_arena_lives(const struct gpu_arena *a, gpu_mem_t mem) {
    uint32_t i = record_of(a, mem);
    return i != ARENA_NONE && range_lives(&a->ranges[i]);
}

gpu_cu_ptr_t gpu_arena_at(const struct gpu_arena *a, gpu_mem_t mem) {
    CHECK(gpu_arena_lives(a, mem));
    return a->ranges[(uint32_t)mem].at;
}

uint64_t gpu_arena_bytes(const struct gpu_arena *a, gpu_mem_t mem) {
    CHECK(gpu_arena_lives(a, mem));
    return a->ranges[(uint32_t)mem].bytes;
}

gpu_mem_t gpu_arena_find(const struct gpu_arena *a, gpu_cu_ptr_t p, uint64_t bytes) {
    uint32_t chunk = gpu_arena_chunk_at(a, p);
    uint32_t i = chunk == UINT32_MAX ? a->borrowed.first : a->chunks[chunk].first;
    while (i != ARENA_NONE && !(p >= a->ranges[i].at && p - a->ranges[i].at < a->ranges[i].bytes))
        i = chunk == UINT32_MAX ? a->ranges[i].list_next : a->ranges[i].next;
    if (i == ARENA_NONE || !range_lives(&a->ranges[i]) ||
        bytes > a->ranges[i].bytes - (p - a->ranges[i].at))
        return 0;
    return handle_of(a, i);
}

/* ---- free ---- */

enum status gpu_arena_free(struct gpu_arena *a, gpu_mem_t mem, uint64_t after,
                           struct status_note *note) {
    if (!gpu_arena_lives(a, mem))
        return status_say(note, STATUS_NOT_FOUND,
                          "device memory %llx is not live: freed before, or never given out",
                          (unsigned long long)mem);
    uint32_t i = (uint32_t)mem;
    CHECK(a->fenced.last == ARENA_NONE || a->ranges[a->fenced.last].after <= after);
    a->ranges[i].after = after;
    a->count.leased_frees += a->ranges[i].leases > 0;
    range_become(a, i, ARENA_FENCED);
    return STATUS_OK;
}

void gpu_arena_reached(struct gpu_arena *a, uint64_t number) {
    for (uint32_t i = a->fenced.first; i != ARENA_NONE && a->ranges[i].after <= number;
         i = a->fenced.first) {
        range_become(a, i, ARENA_LEASED);
        if (a->ranges[i].leases == 0)
            range_release(a, i);
    }
}

void gpu_arena_hold(struct gpu_arena *a, gpu_mem_t mem) {
    CHECK(gpu_arena_lives(a, mem));
    a->ranges[(uint32_t)mem].leases++;
}

void gpu_arena_drop(struct gpu_arena *a, gpu_mem_t mem) {
    uint32_t i = record_of(a, mem);
    CHECK(i != ARENA_NONE && a->ranges[i].leases > 0);
    if (--a->ranges[i].leases == 0 && a->ranges[i].state == ARENA_LEASED)
        range_release(a, i);
}

uint64_t gpu_arena_trim(struct gpu_arena *a) {
    uint64_t before = a->count.mapped;
    for (uint32_t at = a->n_chunks; at > 0; at--) {
        uint32_t chunk = a->order[at - 1], i = a->chunks[chunk].first;
        if (a->ranges[i].state != ARENA_TAIL) /* a whole free chunk is one tail */
            continue;
        range_become(a, i, ARENA_UNUSED);
        record_return(a, i);
        gpu_arena_chunk_return(a, chunk);
    }
    return before - a->count.mapped;
}

/* ---- looking ---- */

struct gpu_arena_count gpu_arena_count(const struct gpu_arena *a) {
    return a->count;
}

/* One chunk's ranges: ordered, without gaps, no two free neighbours. Adds them up by state. */
static const char *chunk_unsound(const struct gpu_arena *a, const struct arena_chunk *c,
                                 uint64_t *sums) {
    uint64_t at = c->at;
    uint32_t before = ARENA_NONE;
    for (uint32_t i = c->first; i != ARENA_NONE; before = i, i = a->ranges[i].next) {
        const struct arena_range *r = &a->ranges[i];
        if (r->at != at || r->bytes == 0 || r->bytes % GPU_ARENA_ALIGN != 0)
            return "a gap or an overlap between ranges";
        if (r->prev != before || &a->chunks[r->chunk] != c)
            return "a range that does not know its neighbours";
        if (r->state == ARENA_UNUSED || r->state == ARENA_BORROWED || r->lent)
            return "a range of no state that a chunk can have";
        if ((r->state == ARENA_TAIL) !=
            (r->next == ARENA_NONE && (r->state == ARENA_TAIL || r->state == ARENA_FREE)))
            return "a tail that is not the end, or an end that is not a tail";
        if (r->state == ARENA_FREE && before != ARENA_NONE && a->ranges[before].state == ARENA_FREE)
            return "free neighbours that were not joined";
        sums[r->state] += r->bytes;
        at += r->bytes;
    }
    return at == c->at + c->bytes ? NULL : "a chunk that its ranges do not fill";
}

static uint32_t list_length(const struct gpu_arena *a, const struct arena_list *list,
                            enum arena_state state, bool *right) {
    uint32_t n = 0;
    for (uint32_t i = list->first; i != ARENA_NONE; i = a->ranges[i].list_next, n++)
        *right = *right && a->ranges[i].state == state;
    return n;
}

bool gpu_arena_sound(const struct gpu_arena *a, struct status_note *note) {
    uint64_t sums[ARENA_BORROWED + 1] = {0};
    uint32_t states[ARENA_BORROWED + 1] = {0};
    const char *wrong = NULL;
    for (uint32_t c = 0; c < a->n_chunks && wrong == NULL; c++)
        wrong = chunk_unsound(a, &a->chunks[a->order[c]], sums);
    for (uint32_t i = 1; i <= a->config.ranges_max; i++)
        states[a->ranges[i].state]++;
    bool right = true;
    uint32_t n_free = 0, n_tail = 0;
    for (int class = 0; class < ARENA_CLASSES; class ++) {
        n_tail += list_length(a, &a->tails[class], ARENA_TAIL, &right);
        for (int bin = 0; bin < ARENA_BINS; bin++)
            n_free += list_length(a, &a->bins[class][bin], ARENA_FREE, &right);
    }
    right = right && n_free == states[ARENA_FREE] && n_tail == states[ARENA_TAIL] &&
            list_length(a, &a->fenced, ARENA_FENCED, &right) == states[ARENA_FENCED] &&
            list_length(a, &a->borrowed, ARENA_BORROWED, &right) == states[ARENA_BORROWED] &&
            list_length(a, &a->unused, ARENA_UNUSED, &right) == states[ARENA_UNUSED] &&
            states[ARENA_UNUSED] == a->n_unused;
    const struct gpu_arena_count *c = &a->count;
    if (wrong == NULL && !right)
        wrong = "a list that does not hold what has its state";
    if (wrong == NULL && (c->live + c->free + c->tail + c->quarantined != c->mapped ||
                          c->live != sums[ARENA_LIVE] || c->free != sums[ARENA_FREE] ||
                          c->tail != sums[ARENA_TAIL] || c->leased != sums[ARENA_LEASED] ||
                          c->quarantined != sums[ARENA_FENCED] + sums[ARENA_LEASED] ||
                          c->n_live != states[ARENA_LIVE]))
        wrong = "sums that are not what there is";
    if (wrong != NULL)
        status_say(note, STATUS_DEVICE, "arena: %s", wrong);
    return wrong == NULL;
}
