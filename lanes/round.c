/* SPDX-License-Identifier: Apache-2.0
 * Plans are written once, front to back, from the entries.
 */
#include "lanes/round.h"

#include <string.h>

static uint32_t round_pages(const struct lane_round_entry *e, uint32_t page_tokens) {
    return (e->first_pos + e->n_rows + page_tokens - 1) / page_tokens;
}

static uint32_t round_mask_words(const struct lane_round_entry *e) {
    return e->slot->masked && e->n_draws > 0 ? (e->slot->shared->vocab + 31) / 32 : 0;
}

static uint32_t round_counts(const struct lane_round_entry *e) {
    return e->slot->penalised && e->n_draws > 0 ? e->slot->n_counts : 0;
}

static uint32_t round_bias(const struct lane_round_entry *e) {
    return e->n_draws > 0 ? e->slot->n_bias : 0;
}

struct round_sum {
    uint64_t copies, rows, draws, pages, counts, bias, mask_words, kept;
};

static struct round_sum round_sum(const struct lane_round_entry *entries, uint32_t n,
                                  uint32_t page_tokens) {
    struct round_sum t = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct lane_round_entry *e = &entries[i];
        t.copies += e->copy.tokens > 0;
        t.rows += e->n_rows;
        t.draws += e->n_draws;
        t.pages += round_pages(e, page_tokens);
        t.counts += round_counts(e);
        t.bias += round_bias(e);
        t.mask_words += round_mask_words(e);
        t.kept += (e->slot->flags & LANE_FIRST_LOGITS) != 0 && e->n_draws > 0 &&
                  e->slot->n == e->slot->n_prompt;
    }
    return t;
}

bool lane_round_fits(const struct lane_round_entry *entries, uint32_t n,
                     const struct gpu_limits *limits) {
    uint32_t page_tokens = n > 0 ? entries[0].slot->shared->page_tokens : 1;
    struct round_sum t = round_sum(entries, n, page_tokens);
    return n <= limits->seqs && t.copies <= limits->copies && t.rows <= limits->rows &&
           t.draws <= limits->draws && t.pages <= limits->pages && t.counts <= limits->counts &&
           t.bias <= limits->bias && t.mask_words <= limits->mask_words &&
           t.kept <= limits->kept_logits;
}

/* Where the next element of each array goes. */
struct round_at {
    uint32_t copies, rows, draws, pages, counts, bias, mask_words;
};

static void round_put_draws(struct gpu_plan *plan, const struct lane_round_entry *e, uint32_t seq,
                            uint32_t first_row, struct round_at *at) {
    const struct lane_slot *s = e->slot;
    struct gpu_draw d = {.seq = seq,
                         .first_count = at->counts,
                         .n_counts = round_counts(e),
                         .first_bias = at->bias,
                         .n_bias = round_bias(e),
                         .mask = GPU_NO_MASK,
                         .sampling = s->sampling};
    memcpy(gpu_plan_counts(plan) + at->counts, s->counts, d.n_counts * sizeof(struct krn_count));
    memcpy(gpu_plan_bias(plan) + at->bias, s->bias, d.n_bias * sizeof(struct krn_bias));
    uint32_t words = round_mask_words(e);
    if (words > 0) {
        d.mask = at->mask_words;
        memcpy(gpu_plan_masks(plan) + at->mask_words, s->mask, words * sizeof(uint32_t));
    }
    at->counts += d.n_counts;
    at->bias += d.n_bias;
    at->mask_words += words;
    uint32_t drawing = first_row + e->n_rows - e->n_draws;
    for (uint32_t i = 0; i < e->n_draws; i++) {
        d.row = drawing + i;
        /* counts cover the slot's ids; drafts left of the row, or a token not yet known here, count
         * on the device. */
        d.extra_row = e->from_draw ? drawing : drawing + 1;
        if ((s->flags & LANE_FIRST_LOGITS) != 0 && i == 0 && s->n == s->n_prompt && !e->from_draw)
            d.sampling.flags |= KRN_DRAW_KEEP_LOGITS;
        else
            d.sampling.flags &= ~(uint32_t)KRN_DRAW_KEEP_LOGITS;
        gpu_plan_draws(plan)[at->draws++] = d;
    }
}

void lane_round_build(struct gpu_plan *plan, const struct lane_round_entry *entries, uint32_t n,
                      uint32_t page_tokens, uint32_t flags) {
    struct round_sum t = round_sum(entries, n, page_tokens);
    gpu_plan_begin(plan, (uint32_t)t.copies, n, (uint32_t)t.rows, (uint32_t)t.draws,
                   (uint32_t)t.pages, (uint32_t)t.counts, (uint32_t)t.bias, (uint32_t)t.mask_words);
    plan->flags = flags;
    plan->graph_key = 0;
    plan->graph_order = GPU_GRAPH_NONE;
    struct round_at at = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct lane_round_entry *e = &entries[i];
        if (e->copy.tokens > 0)
            gpu_plan_copies(plan)[at.copies++] = e->copy;
        struct gpu_seq *seq = &gpu_plan_seqs(plan)[i];
        *seq = (struct gpu_seq){.request = e->slot->request,
                                .slot = e->slot->index,
                                .first_row = at.rows,
                                .n_rows = e->n_rows,
                                .first_pos = e->first_pos,
                                .first_page = at.pages,
                                .n_pages = round_pages(e, page_tokens),
                                .first_draw = at.draws,
                                .n_draws = e->n_draws};
        memcpy(gpu_plan_pages(plan) + at.pages, e->pages, seq->n_pages * sizeof(uint32_t));
        struct gpu_row *rows = gpu_plan_rows(plan) + at.rows;
        for (uint32_t r = 0; r < e->n_rows; r++)
            rows[r] = (struct gpu_row){.token = e->slot->ids[e->first_pos + r]};
        if (e->from_draw)
            rows[0] = (struct gpu_row){.flags = GPU_ROW_FROM_DRAW};
        at.rows += e->n_rows;
        at.pages += seq->n_pages;
        if (e->n_draws > 0)
            round_put_draws(plan, e, i, seq->first_row, &at);
    }
}
