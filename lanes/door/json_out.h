/* SPDX-License-Identifier: Apache-2.0
 * Writes one JSON value into a buffer of fixed size. Running out of room sets `full` and writes
 * nothing more; what is written is always valid UTF-8, whatever bytes are given.
 */
#ifndef LANES_DOOR_JSON_OUT_H
#define LANES_DOOR_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct door_out {
    char *buf;
    size_t cap, n;
    bool full;
    bool comma; /* the next member or element needs one */
};

void door_out_begin(struct door_out *o, char *buf, size_t cap);
/* key NULL: an element of an array. */
void door_out_object(struct door_out *o, const char *key);
void door_out_array(struct door_out *o, const char *key);
void door_out_end(struct door_out *o, char bracket);
void door_out_bool(struct door_out *o, const char *key, bool v);
void door_out_u64(struct door_out *o, const char *key, uint64_t v);
/* Shortest form that gives the same float back; a value that is not finite is null. */
void door_out_f32(struct door_out *o, const char *key, float v);
void door_out_str(struct door_out *o, const char *key, const char *s);
/* Bytes as text; each byte that is not part of a valid character becomes U+FFFD. Returns false
 * when there was one. */
bool door_out_text(struct door_out *o, const char *key, const void *bytes, size_t n);
void door_out_base64(struct door_out *o, const char *key, const void *bytes, size_t n);
void door_out_hex(struct door_out *o, const char *key, const void *bytes, size_t n);

/* Length of the valid UTF-8 character at p (n bytes left), or 0. */
size_t door_utf8_char(const unsigned char *p, size_t n);

#endif
