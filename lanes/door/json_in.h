/* SPDX-License-Identifier: Apache-2.0
 * JSON from strangers, parsed inside a fixed arena: what a message can make us allocate is bounded
 * by the arena, and nothing of it survives door_json_reset. One reader belongs to one actor;
 * door_json_setup runs before threads start.
 */
#ifndef LANES_DOOR_JSON_IN_H
#define LANES_DOOR_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DOOR_JSON_DEPTH_MAX = 8, /* arrays and objects inside each other */
    DOOR_JSON_KEY_MAX = 64,  /* bytes of a key that a refusal shows */
    DOOR_JSON_ARENA_MIN = 1 << 16
};

struct door_arena {
    unsigned char *base;
    size_t bytes, used;
    bool ran_out; /* since the last reset */
};

/* Makes jansson allocate from the arena of the thread that is parsing, and by malloc elsewhere.
 * Idempotent. */
void door_json_setup(void);

/* Reserves address space; memory is taken as it is touched. False when there is none. */
bool door_arena_open(struct door_arena *a, size_t bytes);
void door_arena_close(struct door_arena *a);
/* 16-byte aligned, or NULL when the arena is full. */
void *door_arena_take(struct door_arena *a, size_t bytes);
/* Forgets everything; gives pages back when much was used. */
void door_arena_reset(struct door_arena *a);

enum door_json_fault {
    DOOR_JSON_FINE,
    DOOR_JSON_SYNTAX,
    DOOR_JSON_UTF8,
    DOOR_JSON_DEPTH,
    DOOR_JSON_DUPLICATE, /* a key twice in one object */
    DOOR_JSON_NUMBER,    /* a number outside 64-bit integers and doubles */
    DOOR_JSON_MEMORY
};

/* Where and what; key: the last object key before the fault, "" when there is none. */
struct door_json_error {
    enum door_json_fault fault;
    size_t position;
    char key[DOOR_JSON_KEY_MAX];
    char what[120];
};

/* Parses exactly one value of any kind. The result lives in the arena until its reset and is
 * never decref'd. */
json_t *door_json_load(struct door_arena *a, const char *text, size_t bytes,
                       struct door_json_error *error);

#endif
