/* SPDX-License-Identifier: Apache-2.0
 * Reservations as arithmetic: may this request begin, so that every later page that it was promised
 * is there? Pure functions of counts. The rule that they keep: free + idle >= reserved, where idle
 * pages are cached ones that can be evicted because nobody holds them or anything behind them.
 */
#ifndef SESSIONS_RESERVE_H
#define SESSIONS_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct ses_funds {
    uint32_t total; /* pages of the pool */
    uint32_t free;
    uint32_t idle;
    uint32_t reserved; /* promised to running lanes and not yet given */
};

struct ses_ask {
    uint32_t pages;       /* worst case of the request */
    uint32_t pages_max;   /* rows of a page table */
    uint32_t shared;      /* full pages that it takes from the trie */
    uint32_t shared_idle; /* how many of them are idle now */
    bool source;          /* a further page is copied from the trie */
    bool source_idle;
};

struct ses_grant {
    enum status status; /* OK; AGAIN: after a release; NO_PAGES: never */
    bool
        move; /* no page is left for the source beside its copy: the lane takes the source itself */
    uint32_t fresh;     /* pages of its own, given now or later, a moved one included */
    uint32_t available; /* what a request without any hit could get now */
};

/* Whole pages of n tokens; page_tokens is a power of two. */
static inline uint32_t ses_pages_for(uint32_t tokens, uint32_t page_tokens) {
    return tokens / page_tokens + (tokens % page_tokens != 0);
}

struct ses_grant ses_reserve_decide(const struct ses_funds *funds, const struct ses_ask *ask);

#endif
