/* SPDX-License-Identifier: Apache-2.0
 * What of a reply may be shown. Bytes are held for two reasons only: they are the beginning of a
 * character, or they are the beginning of a stop string. Both are decided from the held bytes
 * alone, so cuts between tokens cannot matter.
 */
#include "lanes/text/stream.h"

#include <string.h>

#include "actors/check.h"
#include "lanes/text/utf8.h"

enum { STREAM_TOKEN_MAX = 1024 };
/* The caller takes what it may show, so what stays is less than a stop string and less than a
 * character. */
_Static_assert(LANE_STREAM_HOLD >= STREAM_TOKEN_MAX + LANE_STREAM_STOP_BYTES + 4,
               "a longest token fits beside what may be held");

void lane_stream_init(struct lane_stream *s) {
    memset(s, 0, sizeof *s);
}

bool lane_stream_add_stop(struct lane_stream *s, const char *stop, size_t bytes) {
    if (bytes == 0 || bytes >= LANE_STREAM_STOP_BYTES || s->n_stops == LANE_STREAM_STOPS)
        return false;
    memcpy(s->stop[s->n_stops], stop, bytes);
    s->stop_bytes[s->n_stops] = (uint16_t)bytes;
    s->n_stops++;
    return true;
}

/* The stop string that completes with byte end - 1, the one that begins first; -1: none. */
static int stop_ending(const struct lane_stream *s, size_t end) {
    int best = -1;
    for (uint32_t i = 0; i < s->n_stops; i++) {
        size_t n = s->stop_bytes[i];
        if (n > end || s->hold[end - 1] != s->stop[i][n - 1] ||
            memcmp(s->hold + end - n, s->stop[i], n) != 0)
            continue;
        if (best < 0 || n > s->stop_bytes[best])
            best = (int)i;
    }
    return best;
}

/* The first held byte from which on everything held is a proper beginning of some stop string. */
static size_t stop_begins(const struct lane_stream *s) {
    size_t from = s->held > LANE_STREAM_STOP_BYTES ? s->held - LANE_STREAM_STOP_BYTES : 0;
    for (size_t at = from; at < s->held; at++) {
        size_t n = s->held - at;
        for (uint32_t i = 0; i < s->n_stops; i++)
            if (n < s->stop_bytes[i] && memcmp(s->hold + at, s->stop[i], n) == 0)
                return at;
    }
    return s->held;
}

/* The whole characters within the first limit held bytes. */
static size_t whole_characters(const struct lane_stream *s, size_t limit) {
    size_t at = 0;
    while (at < limit) {
        size_t n;
        enum utf8_kind kind = lane_utf8_next(s->hold + at, s->held - at, &n);
        if (kind == UTF8_CUT || at + n > limit)
            break;
        at += n;
    }
    return at;
}

size_t lane_stream_push(struct lane_stream *s, const char *bytes, size_t n, int *stop_hit) {
    *stop_hit = -1;
    if (s->stopped)
        return s->held;
    CHECK(n <= STREAM_TOKEN_MAX);
    CHECK(s->held + n <= LANE_STREAM_HOLD);
    size_t old = s->held;
    if (n != 0)
        memcpy(s->hold + old, bytes, n);
    s->held += (uint32_t)n;
    for (size_t end = old + 1; end <= s->held; end++) {
        int hit = stop_ending(s, end);
        if (hit < 0)
            continue;
        s->stopped = true;
        s->held = (uint32_t)(end - s->stop_bytes[hit]);
        *stop_hit = hit;
        return s->held;
    }
    return whole_characters(s, stop_begins(s));
}

size_t lane_stream_finish(struct lane_stream *s) {
    return s->held;
}

void lane_stream_take(struct lane_stream *s, size_t n) {
    CHECK(n <= s->held);
    s->held -= (uint32_t)n;
    memmove(s->hold, s->hold + n, s->held);
}
