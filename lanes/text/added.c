/* SPDX-License-Identifier: Apache-2.0
 * Finds added tokens in text: from left to right, the longest at a place. A special token that the
 * caller does not allow is still found and then left as the text it is, so that it hides what lies
 * inside it.
 */
#include <string.h>

#include "lanes/text/encode.h"
#include "lanes/text/utf8.h"

static bool white_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* The length of the character that ends at n, 0 when none does. */
static size_t character_before(const char *text, size_t n) {
    for (size_t back = 1; back <= 4 && back <= n; back++) {
        size_t length;
        if (((unsigned char)text[n - back] & 0xC0) == 0x80)
            continue;
        enum utf8_kind kind = lane_utf8_next(text + n - back, back, &length);
        return kind == UTF8_WHOLE && length == back ? back : 0;
    }
    return 0;
}

size_t lane_text_space_before(const char *text, size_t n) {
    size_t at = n;
    for (;;) {
        size_t length = character_before(text, at);
        if (length == 0 || !white_space(lane_utf8_point(text + at - length, length)))
            return n - at;
        at -= length;
    }
}

size_t lane_text_space_after(const char *text, size_t n) {
    size_t at = 0, length;
    while (at < n && lane_utf8_next(text + at, n - at, &length) == UTF8_WHOLE &&
           white_space(lane_utf8_point(text + at, length)))
        at += length;
    return at;
}

/* Whether the character at text is part of a word. */
static bool word_character(const struct text_encode *e, const char *text, size_t n) {
    size_t length;
    if (n == 0 || lane_utf8_next(text, n, &length) != UTF8_WHOLE)
        return false;
    return pcre2_match(e->t->word_character, (PCRE2_SPTR)text, length, 0, PCRE2_ANCHORED, e->match,
                       NULL) > 0;
}

const struct text_added *lane_text_added_longest(const struct text_added_set *set, const char *text,
                                                 size_t n) {
    const struct text_added *found = NULL;
    uint32_t lo = 0, hi = set->n;
    /* items[lo .. hi) are the tokens that begin with text[0 .. depth). */
    for (size_t depth = 0; lo < hi; depth++) {
        while (lo < hi && set->items[lo].bytes == depth)
            found = &set->items[lo++];
        if (depth == n)
            break;
        unsigned char c = (unsigned char)text[depth];
        uint32_t a = lo, b = hi;
        while (a < b) {
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->items[mid].text[depth] < c)
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        for (b = hi; a < b;) {
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->items[mid].text[depth] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
    }
    return found;
}

static bool stands_alone(const struct text_encode *e, const char *text, size_t n, size_t start,
                         size_t end) {
    size_t before = character_before(text, start);
    return !(before != 0 && word_character(e, text + start - before, before)) &&
           !word_character(e, text + end, n - end);
}

enum status lane_text_added_split(struct text_encode *e, const struct text_added_set *set,
                                  const char *text, size_t n,
                                  enum status (*next)(struct text_encode *, const char *, size_t)) {
    size_t done = 0, at = 0;
    while (set->n != 0 && at < n) {
        const struct text_added *a = NULL;
        if (set->first[(unsigned char)text[at]])
            a = lane_text_added_longest(set, text + at, n - at);
        if (a == NULL) {
            at++;
            continue;
        }
        size_t start = at, end = at + a->bytes;
        at = end;
        if ((a->flags & TEXT_SPECIAL) != 0 && (e->flags & LANE_ENCODE_SPECIAL) == 0)
            continue;
        if ((a->flags & TEXT_SINGLE_WORD) != 0 && !stands_alone(e, text, n, start, end))
            continue;
        if ((a->flags & TEXT_LSTRIP) != 0)
            start -= lane_text_space_before(text + done, start - done);
        if ((a->flags & TEXT_RSTRIP) != 0)
            end += lane_text_space_after(text + end, n - end);
        if (start > done)
            TRY(next(e, text + done, start - done));
        TRY(lane_text_emit(e, a->id));
        done = at = end;
    }
    return done < n ? next(e, text + done, n - done) : STATUS_OK;
}
