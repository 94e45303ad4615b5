/* SPDX-License-Identifier: Apache-2.0
 * The requests that a door knows, live and recently ended, found by name; and the names that it has
 * forgotten. Fixed size, pure; owned by one door. A slot is named by (generation, index), so that a
 * late message cannot hit its successor.
 */
#ifndef LANES_DOOR_TABLE_H
#define LANES_DOOR_TABLE_H

#include "lanes/door/events.h"
#include "lanes/door/wire.h"

enum door_state { DOOR_FREE, DOOR_SUBMITTED, DOOR_QUEUED, DOOR_RUNNING, DOOR_ENDED };
enum { DOOR_NONE = 0xffffffffu, DOOR_GONE_SETS = 1 << 14, DOOR_GONE_WAYS = 8 };

struct door_digest {
    uint64_t low, high;
};

struct door_request {
    char name[DOOR_NAME_MAX + 1];
    uint8_t state; /* enum door_state */
    bool cancel_wanted, cancel_sent, read_out, wants_logprob;
    uint8_t n_top, has_hash; /* of the token to come */
    uint32_t generation;
    uint32_t next, prev; /* in the live list, or in the ended list by age */
    uint32_t waits;      /* first wait on it, DOOR_NONE: none */
    uint32_t n_waits;
    uint32_t stage; /* while DOOR_SUBMITTED */
    uint64_t name_hash;
    struct door_digest content;
    struct door_log log;
    uint64_t chunks; /* reserved while live, held when ended */
    uint64_t lane;
    uint64_t submitted_ns, read_ns, ended_ns, idle_ns;
    uint64_t max_tokens, seed, hash;
    uint32_t n_prompt, n_resumed, n_new;
    uint32_t flags; /* enum lane_request_flags */
    struct krn_top top[KRN_TOP_MAX];
};

struct door_list {
    uint32_t head, tail, n;
};

struct door_table {
    struct door_request *slots;
    uint32_t n_slots, n_free, free; /* free: first of the free list, by next */
    uint32_t *index;                /* name -> slot + 1, linear probing */
    uint32_t index_mask;
    uint64_t seed;
    struct door_list live, ended;
    struct door_digest *gone; /* [DOOR_GONE_SETS][DOOR_GONE_WAYS] */
    uint8_t *gone_at;         /* [DOOR_GONE_SETS]: the way to overwrite next */
};

bool door_table_open(struct door_table *t, uint32_t n_slots, uint64_t seed);
void door_table_close(struct door_table *t);

/* The slot of that name, or NULL. */
struct door_request *door_table_find(struct door_table *t, const char *name);
/* A new live slot in state DOOR_SUBMITTED; NULL when all are taken. The name must be new. */
struct door_request *door_table_add(struct door_table *t, const char *name);
/* Live to ended: the youngest of the ended list. */
void door_table_end(struct door_table *t, struct door_request *r);
/* Frees the slot; with `remember` its name is known as gone. Its log must be empty. */
void door_table_remove(struct door_table *t, struct door_request *r, bool remember);
/* True when this name was used and is forgotten (thousands of the newest names). */
bool door_table_gone(const struct door_table *t, const char *name);

uint32_t door_table_index(const struct door_table *t, const struct door_request *r);
/* The request's number in lane messages. */
uint64_t door_table_id(const struct door_table *t, const struct door_request *r);
/* And back; NULL when that request is no more. */
struct door_request *door_table_by_id(struct door_table *t, uint64_t id);

#endif
