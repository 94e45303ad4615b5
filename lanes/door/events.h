/* SPDX-License-Identifier: Apache-2.0
 * What happened to a request, kept so that any reader can read it again by number: logs of events
 * in chunks from one pool of fixed size. Pure; owned by one door.
 *   pool:  [chunk 1][chunk 2] ... [chunk n]      free chunks in a list; untouched ones behind
 *     `fresh`
 *   log:   head -> chunk -> chunk -> tail        a chunk says the number of its first event;
 *     records never cross chunks
 * A log may take what door_log_chunks() said for its request; the desk reserves that much before it
 * submits, so append fails only when more arrives than was announced.
 */
#ifndef LANES_DOOR_EVENTS_H
#define LANES_DOOR_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/rowfn.h"

enum { DOOR_CHUNK_BYTES = 4096, DOOR_EVENT_BYTES_MAX = 32 };

enum door_event_kind {
    DOOR_EVENT_STARTED,
    DOOR_EVENT_TOKEN,
    DOOR_EVENT_TEXT,
    DOOR_EVENT_ENDED,
    DOOR_EVENTS
};
enum { DOOR_HAS_LOGPROB = 1, DOOR_HAS_HASH = 2 };

struct door_event {
    uint8_t kind, flags;
    uint8_t n_bytes; /* of text */
    uint8_t n_top;
    uint32_t index, id; /* token */
    float logprob;
    uint64_t hash;
    uint32_t value
        [4]; /* started: n_prompt, n_resumed, reason, queued_us; ended: end, status, n_new, rows */
    uint32_t more[2]; /* started: from_ram, from_disk; ended: drafted, accepted */
    struct krn_top top[KRN_TOP_MAX];
    uint8_t bytes[DOOR_EVENT_BYTES_MAX];
};

struct door_pool {
    unsigned char *base;
    uint32_t n_chunks, fresh; /* chunks 1 .. n_chunks; those from fresh on were never used */
    uint32_t free;            /* first of the free list, 0: none */
    uint32_t used;
};

struct door_log {
    uint32_t head, tail; /* 0: empty */
    uint32_t hint;       /* the chunk that the last reader was in */
    uint32_t n_chunks;
    uint64_t n_events;
};

/* A reader's place. */
struct door_place {
    uint32_t chunk, offset;
    uint64_t event;
};

/* bytes of address space, touched as it is used; false when there is none. */
bool door_pool_open(struct door_pool *p, uint64_t bytes);
void door_pool_close(struct door_pool *p);

/* Chunks that a reply of n_tokens tokens of at most token_bytes bytes of text can take. */
uint64_t door_log_chunks(uint64_t n_tokens, uint32_t token_bytes, uint32_t n_top, bool hash);

/* Would this event, and `spare` bytes more, fit in the log's last chunk? */
bool door_log_fits(const struct door_pool *p, const struct door_log *log,
                   const struct door_event *e, size_t spare);
/* Appends; false and nothing changed when the pool is empty. */
bool door_log_append(struct door_pool *p, struct door_log *log, const struct door_event *e);
/* Gives the log's chunks back; the log is empty after it. */
void door_log_clear(struct door_pool *p, struct door_log *log);

/* Finds event number `cursor` (0 <= cursor <= n_events). */
void door_log_seek(struct door_pool *p, struct door_log *log, uint64_t cursor,
                   struct door_place *place);
/* Reads the event at place and steps on; false at the end. */
bool door_log_next(const struct door_pool *p, const struct door_log *log, struct door_place *place,
                   struct door_event *e);

#endif
