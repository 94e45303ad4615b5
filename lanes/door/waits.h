/* SPDX-License-Identifier: Apache-2.0
 * Clients that wait for an answer: where to send it, and what it is about. A fixed number of
 * entries, none of them a thread or a context; an answer is encoded only when it can be sent. Pure;
 * owned by one door.
 *   free -> waiting (for an event, with a deadline) -> ready (in order) -> free
 */
#ifndef LANES_DOOR_WAITS_H
#define LANES_DOOR_WAITS_H

#include "lanes/door/table.h"

enum { DOOR_HEADER_MAX = 68 };

/* The return address, as the transport gave it; equal bytes are the same call sent again. */
struct door_header {
    uint32_t n;
    unsigned char bytes[DOOR_HEADER_MAX];
};

enum door_wait_kind {
    DOOR_WAIT_READ,
    DOOR_WAIT_SUBMIT,
    DOOR_WAIT_STATS,
    DOOR_WAIT_QUERY,
    DOOR_WAIT_DRAIN
};
enum door_wait_state { DOOR_WAIT_FREE, DOOR_WAIT_WAITING, DOOR_WAIT_READY };

struct door_wait {
    uint8_t kind, state;
    uint32_t max_events;
    uint64_t request; /* door_table_id, 0 for stats */
    uint64_t cursor;  /* DOOR_WAIT_QUERY: which query */
    uint64_t deadline_ns;
    uint32_t status, retry_ms; /* DOOR_WAIT_SUBMIT: what the planner said */
    uint64_t value, limit;
    uint32_t next, prev;           /* free list, waiting list or ready list */
    uint32_t next_same, prev_same; /* waits of one request */
    uint32_t next_hash;
    struct door_header to;
};

struct door_waits {
    struct door_wait *slots;
    uint32_t *hash;
    uint32_t n_slots, hash_mask, free, n;
    struct door_list waiting, ready;
};

bool door_waits_open(struct door_waits *w, uint32_t n_slots);
void door_waits_close(struct door_waits *w);

/* The entry with this return address, or NULL. */
struct door_wait *door_waits_find(struct door_waits *w, const struct door_header *to);
/* A new waiting entry; NULL when all are taken. r NULL: about no request. */
struct door_wait *door_waits_add(struct door_waits *w, const struct door_header *to,
                                 enum door_wait_kind kind, struct door_table *t,
                                 struct door_request *r, uint64_t deadline_ns);
/* Waiting to ready, behind those that are ready already; leaves its request. */
void door_waits_ready(struct door_waits *w, struct door_table *t, struct door_wait *e);
/* Ready to free. */
void door_waits_done(struct door_waits *w, struct door_wait *e);
/* The entry that became ready first, or NULL. */
struct door_wait *door_waits_first(struct door_waits *w);
/* Puts the first behind all others that are ready. */
void door_waits_rotate(struct door_waits *w);

#endif
