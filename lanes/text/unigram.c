/* SPDX-License-Identifier: Apache-2.0
 * Words of a unigram vocabulary: of all ways to spell the word in tokens the one with the highest
 * sum of scores, found from left to right; of equal ways the one found first.
 */
#include <string.h>

#include "actors/check.h"
#include "lanes/text/encode.h"

/* The best way to spell the word up to here: its sum, and its last token. */
struct way {
    double score;
    uint32_t start, id; /* start UINT32_MAX: none yet; id UINT32_MAX: an unknown character */
};

enum { UNTIMED = 1024 }; /* characters between two looks at the clock */

static void way_offer(struct way *to, double score, uint32_t start, uint32_t id) {
    if (to->start == UINT32_MAX || score > to->score)
        *to = (struct way){score, start, id};
}

static unsigned char byte_at(const struct lane_tokenizer *t, uint32_t i, size_t depth) {
    return (unsigned char)t->pool[t->tokens[t->sorted[i]].offset + depth];
}

/* The first of sorted[lo .. hi) whose byte at depth is not below `byte`. */
static uint32_t bound(const struct lane_tokenizer *t, uint32_t lo, uint32_t hi, size_t depth,
                      unsigned byte) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_at(t, mid, depth) < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Offers every token that text begins with; whether one is just its first character. */
static bool offer_tokens(const struct lane_tokenizer *t, const char *text, size_t n,
                         size_t character, struct way *ways, uint32_t start) {
    bool single = false;
    uint32_t lo = t->first[(unsigned char)text[0]], hi = t->first[(unsigned char)text[0] + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        /* All of sorted[lo .. hi) begin with text[0 .. depth). */
        if (t->tokens[t->sorted[lo]].bytes == depth) {
            uint32_t id = t->sorted[lo++];
            way_offer(&ways[depth], t->scores[id] + ways[0].score, start, id);
            single |= depth == character;
        }
        if (depth == n)
            break;
        unsigned byte = (unsigned char)text[depth];
        lo = bound(t, lo, hi, depth, byte);
        hi = bound(t, lo, hi, depth, byte + 1);
    }
    return single;
}

/* The ways that end at n, reversed in place into a list by `start`. */
static enum status emit_ways(struct text_encode *e, const char *word, struct way *ways, size_t n) {
    uint32_t after = UINT32_MAX;
    for (uint32_t end = (uint32_t)n; end > 0;) {
        uint32_t start = ways[end].start;
        CHECK(start < end);
        ways[end].start = after;
        after = end;
        end = start;
    }
    bool unknown = false;
    uint32_t start = 0;
    for (uint32_t end = after; end != UINT32_MAX; start = end, end = ways[end].start) {
        if (ways[end].id != UINT32_MAX)
            TRY(lane_text_emit(e, ways[end].id));
        else
            TRY(lane_text_emit_bytes(e, word + start, end - start, unknown));
        unknown = ways[end].id == UINT32_MAX;
    }
    return STATUS_OK;
}

enum status lane_text_word_unigram(struct text_encode *e, const char *word, size_t n) {
    const struct lane_tokenizer *t = e->t;
    TRY(lane_text_work(e, (n + 1) * sizeof(struct way)));
    struct way *ways = e->work;
    uint32_t seen = 0;
    for (size_t i = 0; i <= n; i++)
        ways[i] = (struct way){0, UINT32_MAX, 0};
    for (size_t at = 0; at < n;) {
        size_t character = lane_text_character(word + at, n - at);
        if (++seen % UNTIMED == 0)
            TRY(lane_text_time_left(e));
        if (!offer_tokens(t, word + at, n - at, character, ways + at, (uint32_t)at))
            way_offer(&ways[at + character], t->unk_score + ways[at].score, (uint32_t)at,
                      UINT32_MAX);
        at += character;
    }
    return emit_ways(e, word, ways, n);
}
