/* SPDX-License-Identifier: Apache-2.0
 * UTF-8 by the Unicode standard's table of well-formed sequences: no surrogates, nothing overlong,
 * nothing past U+10FFFF. Pure functions on bytes, for any thread.
 */
#ifndef LANES_TEXT_UTF8_H
#define LANES_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum utf8_kind {
    UTF8_WHOLE,  /* a character of *n bytes */
    UTF8_CUT,    /* all n bytes are the beginning of a character */
    UTF8_INVALID /* the first byte belongs to no character; *n is 1 */
};

/* The range that the second byte of a sequence may have. */
static inline void lane_utf8_second(unsigned char lead, unsigned char *lo, unsigned char *hi) {
    *lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

/* Looks at the first of n >= 1 bytes. */
static inline enum utf8_kind lane_utf8_next(const char *text, size_t n, size_t *length) {
    const unsigned char *b = (const unsigned char *)text;
    *length = 1;
    if (b[0] < 0x80)
        return UTF8_WHOLE;
    if (b[0] < 0xC2 || b[0] > 0xF4)
        return UTF8_INVALID;
    size_t need = b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    for (size_t i = 1; i < need; i++) {
        unsigned char lo = 0x80, hi = 0xBF;
        if (i == n) {
            *length = n;
            return UTF8_CUT;
        }
        if (i == 1)
            lane_utf8_second(b[0], &lo, &hi);
        if (b[i] < lo || b[i] > hi)
            return UTF8_INVALID;
    }
    *length = need;
    return UTF8_WHOLE;
}

/* The code point of a character that utf8_next called whole. */
static inline uint32_t lane_utf8_point(const char *text, size_t length) {
    const unsigned char *b = (const unsigned char *)text;
    if (length == 1)
        return b[0];
    uint32_t point = b[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (b[i] & 0x3Fu);
    return point;
}

/* How many of the first bytes are whole characters. */
static inline size_t lane_utf8_valid(const char *text, size_t n) {
    size_t at = 0;
    while (at < n) {
        size_t length;
        if (lane_utf8_next(text + at, n - at, &length) != UTF8_WHOLE)
            break;
        at += length;
    }
    return at;
}

#endif
