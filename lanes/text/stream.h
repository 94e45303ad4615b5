/* SPDX-License-Identifier: Apache-2.0
 * Bytes of tokens to text that may be shown: never a cut character, never a part of a stop string,
 * nothing twice. Plain state, no allocation; one per lane, used by its lane only.
 */
#ifndef LANES_TEXT_STREAM_H
#define LANES_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LANE_STREAM_HOLD = 2048, /* held-back bytes at most: longest stop + longest token + 4 */
    LANE_STREAM_STOPS = 16,
    LANE_STREAM_STOP_BYTES = 128
};

struct lane_stream {
    uint32_t n_stops;
    uint16_t stop_bytes[LANE_STREAM_STOPS];
    char stop[LANE_STREAM_STOPS][LANE_STREAM_STOP_BYTES];
    uint32_t held; /* bytes in hold not yet shown */
    char hold[LANE_STREAM_HOLD];
    bool stopped;
};

/* Empty, with no stops. */
void lane_stream_init(struct lane_stream *s);
/* Adds a stop string of 1..127 bytes; false when it is not acceptable or there is no room. */
bool lane_stream_add_stop(struct lane_stream *s, const char *stop, size_t bytes);

/* Pushes a token's bytes (n <= 1024). Returns how many bytes of s->hold may be shown now (whole
 * characters; invalid bytes count as characters of one byte); the caller takes them with
 * lane_stream_take. *stop_hit: index of the earliest completed stop string, or -1; then the bytes
 * before it are all that may still be shown. */
size_t lane_stream_push(struct lane_stream *s, const char *bytes, size_t n, int *stop_hit);
/* The end of the reply without a stop string: everything held may be shown, a cut character as the
 * bytes it is. */
size_t lane_stream_finish(struct lane_stream *s);
/* Removes the first n showable bytes after the caller copied them from s->hold. */
void lane_stream_take(struct lane_stream *s, size_t n);

#endif
