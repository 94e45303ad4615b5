/* SPDX-License-Identifier: Apache-2.0
 * Prompt lookup over two hash indexes, of the last three and the last two ids; a candidate is
 * verified by tokens.
 */
#include "lanes/draft.h"

static uint32_t draft_hash(const uint32_t *ids, uint32_t n) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ ids[i]) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> (64 - LANE_NGRAM_BITS));
}

static uint32_t *draft_table(struct lane_slot *s, uint32_t gram) {
    return s->ngram + (gram == LANE_NGRAM_LONG ? 0 : (size_t)1 << LANE_NGRAM_BITS);
}

static uint32_t draft_lookup(struct lane_slot *s, uint32_t gram) {
    if (s->n < gram + 1)
        return 0;
    const uint32_t *tail = s->ids + s->n - gram;
    uint32_t at = draft_table(s, gram)[draft_hash(tail, gram)]; /* position after the gram */
    if (at < gram || at >= s->n)
        return 0;
    for (uint32_t i = 0; i < gram; i++)
        if (s->ids[at - gram + i] != tail[i])
            return 0;
    return at;
}

uint32_t lane_draft_propose(struct lane_slot *s, uint32_t max) {
    /* The tail itself is indexed only afterwards, so that it does not find itself. */
    for (uint32_t end = s->n_ngram; end < s->n; end++) {
        if (end >= LANE_NGRAM_LONG)
            draft_table(
                s, LANE_NGRAM_LONG)[draft_hash(s->ids + end - LANE_NGRAM_LONG, LANE_NGRAM_LONG)] =
                end;
        if (end >= LANE_NGRAM_SHORT)
            draft_table(
                s,
                LANE_NGRAM_SHORT)[draft_hash(s->ids + end - LANE_NGRAM_SHORT, LANE_NGRAM_SHORT)] =
                end;
    }
    s->n_ngram = s->n;
    uint32_t at = draft_lookup(s, LANE_NGRAM_LONG);
    if (at == 0)
        at = draft_lookup(s, LANE_NGRAM_SHORT);
    if (at == 0)
        return 0;
    uint32_t n = 0;
    /* Reading may run into the drafts themselves: a repeating tail repeats on. */
    while (n < max) {
        s->ids[s->n + n] = s->ids[at + n];
        n++;
    }
    return n;
}
