/* SPDX-License-Identifier: Apache-2.0
 * A lane slot: everything one running request knows, in memory that is mapped once and reused.
 * Owned by the planner while free and while its pages are released, by its lane in between
 * (lanes/protocol.h, I3). Nothing here allocates after open.
 */
#ifndef LANES_SLOT_H
#define LANES_SLOT_H

#include "lanes/request.h"
#include "lanes/text/stream.h"
#include "lanes/text/tokenizer.h"

/* What all slots share; constant after open. */
struct lane_shared {
    uint32_t context, vocab, page_tokens;
    uint32_t n_eos;
    uint32_t eos[KRN_EOS_MAX];
    const struct lane_tokenizer *tokenizer; /* NULL: no text */
    act_id_t planner;
};

struct lane_slot {
    const struct lane_shared *shared;
    uint32_t index;
    uint32_t generation;
    /* The request, copied at submit. */
    uint64_t request, tenant, deadline_ns;
    act_id_t client;
    uint32_t flags, priority, n_prompt;
    uint32_t new_max; /* new tokens at most, cut to the context */
    uint32_t draft_max;
    bool draft_fixed;
    bool context_bound; /* the cut to the context is what ends it */
    bool penalised;     /* draws need counts */
    bool masked;
    struct krn_sampling sampling;
    uint32_t n_bias;
    struct krn_bias bias[LANE_BIAS_MAX];
    uint32_t *mask;      /* (vocab + 31) / 32 words */
    float *first_logits; /* the client's */
    /* The tokens: prompt, reply, then the drafts that are proposed. context + LANE_DRAFT_MAX + 1 of
     * them. */
    uint32_t *ids;
    uint32_t n;         /* prompt and reply */
    uint32_t n_drafts;  /* ids[n ..): proposed */
    uint32_t n_rows;    /* ids[0 .. n_rows) have finite keys and values */
    uint32_t draft_now; /* adaptive draft length */
    uint32_t matched, hit_reason;
    uint32_t drafted, accepted, rows;
    /* Occurrences of ids[0..n), only when penalised: unique ids, and where each stands. */
    struct krn_count *counts;
    uint32_t n_counts;
    uint32_t *count_at; /* [vocab]: index + 1 in counts, 0: none */
    /* Index of the latest position after each hash of LANE_NGRAM ids, for prompt lookup; only when
     * drafting. */
    uint32_t *ngram;
    uint32_t n_ngram; /* ids indexed so far */
    struct lane_stream stream;
};

enum { LANE_NGRAM_BITS = 13, LANE_NGRAM_LONG = 3, LANE_NGRAM_SHORT = 2 };

/* The lane's public name: slot index and generation, so that a recycled slot is another lane. */
static inline uint64_t lane_slot_name(const struct lane_slot *s) {
    return (uint64_t)s->generation << 32 | (s->index + 1u);
}

/* Maps n slots (address space only, touched as used). shared must outlive them. */
enum status lane_slots_open(const struct lane_shared *shared, uint32_t n, struct lane_slot **out,
                            struct status_note *note);
void lane_slots_close(struct lane_slot *slots, uint32_t n);

/* Copies a checked request into a free slot. */
void lane_slot_fill(struct lane_slot *s, const struct lane_request *r);
/* Clears what the request left (counts, index) so that the slot may be filled again. */
void lane_slot_clear(struct lane_slot *s);
/* Appends a token of the reply: ids, counts. */
void lane_slot_append(struct lane_slot *s, uint32_t id);

#endif
