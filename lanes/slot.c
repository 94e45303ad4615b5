/* SPDX-License-Identifier: Apache-2.0
 * Lane slots: one mapping holds all of them and their arrays.
 */
#include "lanes/slot.h"

#include <string.h>
#include <sys/mman.h>

static size_t slot_round_up(size_t n) {
    return (n + 63) & ~(size_t)63;
}

struct slot_layout {
    size_t ids, mask, counts, count_at, ngram, total;
};

static struct slot_layout slot_layout(const struct lane_shared *shared) {
    struct slot_layout l;
    size_t unique = shared->context < shared->vocab ? shared->context : shared->vocab;
    size_t at = 0;
    l.ids = at;
    at += slot_round_up(((size_t)shared->context + LANE_DRAFT_MAX + 1) * sizeof(uint32_t));
    l.mask = at;
    at += slot_round_up(((size_t)shared->vocab + 31) / 32 * sizeof(uint32_t));
    l.counts = at;
    at += slot_round_up(unique * sizeof(struct krn_count));
    l.count_at = at;
    at += slot_round_up((size_t)shared->vocab * sizeof(uint32_t));
    l.ngram = at;
    at += slot_round_up(2 * ((size_t)1 << LANE_NGRAM_BITS) * sizeof(uint32_t));
    l.total = at;
    return l;
}

static size_t slots_bytes(const struct lane_shared *shared, uint32_t n) {
    return slot_round_up(sizeof(struct lane_slot)) * n + slot_layout(shared).total * n;
}

enum status lane_slots_open(const struct lane_shared *shared, uint32_t n, struct lane_slot **out,
                            struct status_note *note) {
    size_t bytes = slots_bytes(shared, n);
    unsigned char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return status_say(note, STATUS_NO_MEMORY,
                          "%zu bytes of address space for %u lane slots of %u tokens could not be "
                          "had; lower --lanes, --queue or --context",
                          bytes, n, shared->context);
    struct slot_layout l = slot_layout(shared);
    struct lane_slot *slots = (struct lane_slot *)(void *)base;
    unsigned char *arrays = base + slot_round_up(sizeof(struct lane_slot) * n);
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *a = arrays + l.total * i;
        struct lane_slot *s = &slots[i];
        s->shared = shared;
        s->index = i;
        s->ids = (uint32_t *)(void *)(a + l.ids);
        s->mask = (uint32_t *)(void *)(a + l.mask);
        s->counts = (struct krn_count *)(void *)(a + l.counts);
        s->count_at = (uint32_t *)(void *)(a + l.count_at);
        s->ngram = (uint32_t *)(void *)(a + l.ngram);
    }
    *out = slots;
    return STATUS_OK;
}

void lane_slots_close(struct lane_slot *slots, uint32_t n) {
    if (slots != NULL && n > 0)
        munmap(slots, slots_bytes(slots[0].shared, n));
}

static void slot_count(struct lane_slot *s, uint32_t id, bool in_reply) {
    if (s->count_at[id] == 0) {
        s->counts[s->n_counts] = (struct krn_count){.id = id};
        s->count_at[id] = ++s->n_counts;
    }
    struct krn_count *c = &s->counts[s->count_at[id] - 1];
    if (in_reply)
        c->in_reply++;
    else
        c->in_prompt++;
}

void lane_slot_fill(struct lane_slot *s, const struct lane_request *r) {
    s->generation++;
    s->request = r->id;
    s->tenant = r->tenant;
    s->deadline_ns = r->deadline_ns;
    s->client = r->client;
    s->flags = r->flags;
    s->priority = r->priority;
    s->n_prompt = r->n_prompt;
    uint32_t room = s->shared->context - r->n_prompt;
    s->context_bound = r->max_tokens > room;
    s->new_max = s->context_bound ? room : (uint32_t)r->max_tokens;
    s->draft_max = r->draft_max;
    s->draft_fixed = r->draft_fixed;
    s->sampling = r->sampling;
    s->penalised = r->sampling.repetition != 1.0f || r->sampling.presence != 0.0f ||
                   r->sampling.frequency != 0.0f;
    s->n_bias = r->n_bias;
    memcpy(s->bias, r->bias == NULL ? s->bias : r->bias, r->n_bias * sizeof s->bias[0]);
    s->masked = r->mask != NULL;
    if (s->masked)
        memcpy(s->mask, r->mask, ((size_t)s->shared->vocab + 31) / 32 * sizeof(uint32_t));
    s->first_logits = r->first_logits;
    memcpy(s->ids, r->prompt, r->n_prompt * sizeof(uint32_t));
    s->n = r->n_prompt;
    s->n_drafts = 0;
    s->n_rows = 0;
    s->draft_now = r->draft_fixed ? r->draft_max : r->draft_max < 4 ? r->draft_max : 4;
    s->matched = 0;
    s->hit_reason = 0;
    s->drafted = s->accepted = s->rows = 0;
    s->n_counts = 0;
    s->n_ngram = 0;
    if (s->penalised)
        for (uint32_t i = 0; i < s->n; i++)
            slot_count(s, s->ids[i], false);
    lane_stream_init(&s->stream);
    for (uint32_t i = 0; i < r->n_stops; i++)
        CHECK(lane_stream_add_stop(&s->stream, r->stops[i].text, r->stops[i].bytes));
}

void lane_slot_clear(struct lane_slot *s) {
    for (uint32_t i = 0; i < s->n_counts; i++)
        s->count_at[s->counts[i].id] = 0;
    s->n_counts = 0;
    if (s->n_ngram > 0)
        memset(s->ngram, 0, 2 * ((size_t)1 << LANE_NGRAM_BITS) * sizeof(uint32_t));
    s->n_ngram = 0;
    s->n = s->n_drafts = s->n_rows = 0;
}

void lane_slot_append(struct lane_slot *s, uint32_t id) {
    CHECK(s->n < s->shared->context + LANE_DRAFT_MAX);
    s->ids[s->n++] = id;
    if (s->penalised)
        slot_count(s, id, true);
}
