/* SPDX-License-Identifier: Apache-2.0
 * Event logs in chunks.
 */
#include "lanes/door/events.h"

#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"

struct chunk {
    uint32_t next, n_events, used, reserved;
    uint64_t first;
    unsigned char data[DOOR_CHUNK_BYTES - 24];
};
_Static_assert(sizeof(struct chunk) == DOOR_CHUNK_BYTES, "a chunk is a page");

/* A record: head, then what its kind and flags say, unpadded. */
struct record {
    uint8_t kind, flags, n_bytes, n_top;
};
enum {
    RECORD_MAX =
        (int)sizeof(struct record) + 4 + 4 + 4 + 8 + KRN_TOP_MAX * 8 + DOOR_EVENT_BYTES_MAX,
    CHUNK_FILL_MIN = DOOR_CHUNK_BYTES - 24 - RECORD_MAX
};
_Static_assert(CHUNK_FILL_MIN > DOOR_CHUNK_BYTES / 2, "records are small beside a chunk");

static struct chunk *chunk_at(const struct door_pool *p, uint32_t c) {
    CHECK(c > 0 && c <= p->n_chunks);
    return (struct chunk *)(p->base + (size_t)(c - 1) * DOOR_CHUNK_BYTES);
}

bool door_pool_open(struct door_pool *p, uint64_t bytes) {
    uint64_t n = bytes / DOOR_CHUNK_BYTES;
    if (n == 0 || n >= UINT32_MAX)
        return false;
    void *base = mmap(NULL, n * DOOR_CHUNK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    *p = (struct door_pool){.base = base, .n_chunks = (uint32_t)n, .fresh = 1};
    return true;
}

void door_pool_close(struct door_pool *p) {
    if (p->base != NULL)
        munmap(p->base, (size_t)p->n_chunks * DOOR_CHUNK_BYTES);
    *p = (struct door_pool){0};
}

static uint32_t chunk_take(struct door_pool *p) {
    uint32_t c = p->free;
    if (c != 0)
        p->free = chunk_at(p, c)->next;
    else if (p->fresh <= p->n_chunks)
        c = p->fresh++;
    else
        return 0;
    p->used++;
    struct chunk *k = chunk_at(p, c);
    k->next = k->n_events = k->used = 0;
    return c;
}

uint64_t door_log_chunks(uint64_t n_tokens, uint32_t token_bytes, uint32_t n_top, bool hash) {
    /* A token's text comes in pieces of at most 19 (its own message) and 31 bytes; whole
     * characters may leave 3 unused. */
    uint64_t pieces = token_bytes / 16 + 1;
    uint64_t record = sizeof(struct record) + 8 + 4 + (hash ? 8 : 0) + n_top * 8u;
    uint64_t a_token = record + pieces * sizeof(struct record) + token_bytes;
    uint64_t bytes = n_tokens * a_token + 2 * RECORD_MAX;
    return bytes / CHUNK_FILL_MIN + 1;
}

static void put(unsigned char **at, const void *v, size_t n) {
    memcpy(*at, v, n);
    *at += n;
}

static size_t record_write(const struct door_event *e, unsigned char *out) {
    unsigned char *at = out;
    struct record r = {e->kind, e->flags, e->n_bytes, e->n_top};
    put(&at, &r, sizeof r);
    if (e->kind == DOOR_EVENT_TOKEN) {
        put(&at, &e->index, 4);
        put(&at, &e->id, 4);
        if ((e->flags & DOOR_HAS_LOGPROB) != 0)
            put(&at, &e->logprob, 4);
        if ((e->flags & DOOR_HAS_HASH) != 0)
            put(&at, &e->hash, 8);
        put(&at, e->top, e->n_top * sizeof e->top[0]);
    } else if (e->kind != DOOR_EVENT_TEXT) {
        put(&at, e->value, sizeof e->value);
        put(&at, e->more, sizeof e->more);
    }
    put(&at, e->bytes, e->n_bytes);
    return (size_t)(at - out);
}

static void get(const unsigned char **at, void *v, size_t n) {
    memcpy(v, *at, n);
    *at += n;
}

static size_t record_read(const unsigned char *in, struct door_event *e) {
    const unsigned char *at = in;
    struct record r;
    get(&at, &r, sizeof r);
    CHECK(r.kind < DOOR_EVENTS && r.n_top <= KRN_TOP_MAX && r.n_bytes <= DOOR_EVENT_BYTES_MAX);
    *e = (struct door_event){
        .kind = r.kind, .flags = r.flags, .n_bytes = r.n_bytes, .n_top = r.n_top};
    if (e->kind == DOOR_EVENT_TOKEN) {
        get(&at, &e->index, 4);
        get(&at, &e->id, 4);
        if ((e->flags & DOOR_HAS_LOGPROB) != 0)
            get(&at, &e->logprob, 4);
        if ((e->flags & DOOR_HAS_HASH) != 0)
            get(&at, &e->hash, 8);
        get(&at, e->top, e->n_top * sizeof e->top[0]);
    } else if (e->kind != DOOR_EVENT_TEXT) {
        get(&at, e->value, sizeof e->value);
        get(&at, e->more, sizeof e->more);
    }
    get(&at, e->bytes, e->n_bytes);
    return (size_t)(at - in);
}

bool door_log_fits(const struct door_pool *p, const struct door_log *log,
                   const struct door_event *e, size_t spare) {
    unsigned char bytes[RECORD_MAX];
    if (log->tail == 0)
        return false;
    const struct chunk *k = chunk_at(p, log->tail);
    return record_write(e, bytes) + spare <= sizeof k->data - k->used;
}

bool door_log_append(struct door_pool *p, struct door_log *log, const struct door_event *e) {
    CHECK(e->kind < DOOR_EVENTS);
    CHECK(e->n_top <= KRN_TOP_MAX && e->n_bytes <= DOOR_EVENT_BYTES_MAX);
    unsigned char bytes[RECORD_MAX];
    size_t n = record_write(e, bytes);
    struct chunk *k = log->tail != 0 ? chunk_at(p, log->tail) : NULL;
    if (k == NULL || n > sizeof k->data - k->used) {
        uint32_t c = chunk_take(p);
        if (c == 0)
            return false;
        if (k != NULL)
            k->next = c;
        else
            log->head = log->hint = c;
        log->tail = c;
        log->n_chunks++;
        k = chunk_at(p, c);
        k->first = log->n_events;
    }
    memcpy(k->data + k->used, bytes, n);
    k->used += (uint32_t)n;
    k->n_events++;
    log->n_events++;
    return true;
}

void door_log_clear(struct door_pool *p, struct door_log *log) {
    for (uint32_t c = log->head; c != 0;) {
        struct chunk *k = chunk_at(p, c);
        uint32_t next = k->next;
        k->next = p->free;
        p->free = c;
        p->used--;
        c = next;
    }
    *log = (struct door_log){0};
}

void door_log_seek(struct door_pool *p, struct door_log *log, uint64_t cursor,
                   struct door_place *place) {
    CHECK(cursor <= log->n_events);
    *place = (struct door_place){.event = cursor};
    if (log->head == 0)
        return;
    uint32_t c = chunk_at(p, log->hint)->first <= cursor ? log->hint : log->head;
    struct chunk *k = chunk_at(p, c);
    while (k->next != 0 && cursor >= k->first + k->n_events) {
        c = k->next;
        k = chunk_at(p, c);
    }
    log->hint = c;
    place->chunk = c;
    struct door_event skipped;
    for (uint64_t e = k->first; e < cursor; e++)
        place->offset += (uint32_t)record_read(k->data + place->offset, &skipped);
}

bool door_log_next(const struct door_pool *p, const struct door_log *log, struct door_place *place,
                   struct door_event *e) {
    if (place->event >= log->n_events)
        return false;
    uint32_t c = place->chunk != 0 ? place->chunk : log->head;
    const struct chunk *k = chunk_at(p, c);
    if (place->offset >= k->used) {
        c = k->next;
        k = chunk_at(p, c);
        place->offset = 0;
    }
    place->chunk = c;
    place->offset += (uint32_t)record_read(k->data + place->offset, e);
    place->event++;
    return true;
}
