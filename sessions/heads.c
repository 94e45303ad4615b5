/* SPDX-License-Identifier: Apache-2.0
 * Two direct-mapped tables of 64-bit digests; a lookup probes each length up to SES_HEAD_TOKENS,
 * because a remembered session may have been shorter than the prompt that continues it.
 */
#include "sessions/heads.h"

#include <stdlib.h>

struct known {
    uint64_t head, space;
};

struct ses_heads {
    uint64_t mask;
    uint64_t *evicted; /* digest of head and space; 0: empty */
    struct known *known;
};

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t head_next(uint64_t head, uint32_t token) {
    return mix(head ^ ((uint64_t)token + 1) * 0x9e3779b97f4a7c15u);
}

static uint64_t head_of(uint64_t tenant, const uint32_t *tokens, uint32_t n) {
    uint64_t head = mix(tenant);
    for (uint32_t i = 0; i < n && i < SES_HEAD_TOKENS; i++)
        head = head_next(head, tokens[i]);
    return head;
}

enum status ses_heads_open(uint32_t n, struct ses_heads **out, struct status_note *note) {
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    struct ses_heads *h = calloc(1, sizeof *h);
    uint64_t *evicted = calloc(slots, sizeof *evicted);
    struct known *known = calloc(slots, sizeof *known);
    *out = NULL;
    if (h == NULL || evicted == NULL || known == NULL) {
        free(h);
        free(evicted);
        free(known);
        return status_say(note, STATUS_NO_MEMORY, "no memory to remember %u evictions", n);
    }
    *h = (struct ses_heads){.mask = slots - 1, .evicted = evicted, .known = known};
    *out = h;
    return STATUS_OK;
}

void ses_heads_close(struct ses_heads *h) {
    if (h == NULL)
        return;
    free(h->evicted);
    free(h->known);
    free(h);
}

void ses_heads_clear(struct ses_heads *h) {
    for (uint64_t i = 0; i <= h->mask; i++) {
        h->evicted[i] = 0;
        h->known[i] = (struct known){0};
    }
}

void ses_heads_known(struct ses_heads *h, uint64_t tenant, uint64_t space, const uint32_t *tokens,
                     uint32_t n) {
    uint64_t head = head_of(tenant, tokens, n);
    h->known[head & h->mask] = (struct known){.head = head, .space = space};
}

void ses_heads_evicted(struct ses_heads *h, uint64_t tenant, uint64_t space, const uint32_t *tokens,
                       uint32_t n) {
    uint64_t digest = mix(head_of(tenant, tokens, n) ^ space);
    h->evicted[digest & h->mask] = digest;
}

enum ses_reason ses_heads_reason(const struct ses_heads *h, uint64_t tenant, uint64_t space,
                                 const uint32_t *tokens, uint32_t n) {
    enum ses_reason reason = SES_MISS_NEW;
    uint64_t head = mix(tenant);
    for (uint32_t i = 0; i < n && i < SES_HEAD_TOKENS; i++) {
        head = head_next(head, tokens[i]);
        uint64_t digest = mix(head ^ space);
        if (h->evicted[digest & h->mask] == digest)
            return SES_MISS_EVICTED;
        const struct known *known = &h->known[head & h->mask];
        if (known->head == head && known->space != space && head != 0)
            reason = SES_MISS_KEY;
    }
    return reason;
}
