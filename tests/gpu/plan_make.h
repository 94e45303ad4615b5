/* SPDX-License-Identifier: Apache-2.0
 * Plans for tests, from a short description of each seq.
 */
#ifndef TESTS_GPU_PLAN_MAKE_H
#define TESTS_GPU_PLAN_MAKE_H

#include <string.h>

#include "actors/check.h"
#include "gpu/plan.h"

struct test_seq {
    uint32_t slot, first_pos, n_rows;
    uint64_t request;
    const uint32_t *tokens; /* of the rows */
    const uint32_t *pages;
    uint32_t n_pages;
    uint32_t n_draws; /* the last rows */
    bool from_draw;   /* the first row's token is the slot's last draw */
    struct krn_sampling sampling;
    const struct krn_count
        *counts; /* up to the first drawn row unless from_draw; later rows count on top */
    uint32_t n_counts;
    const struct krn_bias *bias;
    uint32_t n_bias;
    const uint32_t *mask;
    uint32_t mask_words;
};

/* A small deterministic generator. */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline void test_plan_seq(struct gpu_plan *p, uint32_t i, const struct test_seq *s,
                                 uint32_t at[6]) {
    enum { ROW, DRAW, PAGE, COUNT, BIAS, MASK };
    gpu_plan_seqs(p)[i] = (struct gpu_seq){.request = s->request,
                                           .slot = s->slot,
                                           .first_row = at[ROW],
                                           .n_rows = s->n_rows,
                                           .first_pos = s->first_pos,
                                           .first_page = at[PAGE],
                                           .n_pages = s->n_pages,
                                           .first_draw = at[DRAW],
                                           .n_draws = s->n_draws};
    for (uint32_t r = 0; r < s->n_rows; r++)
        gpu_plan_rows(p)[at[ROW] + r] = (struct gpu_row){s->tokens[r], 0};
    if (s->from_draw)
        gpu_plan_rows(p)[at[ROW]] = (struct gpu_row){0, GPU_ROW_FROM_DRAW};
    memcpy(gpu_plan_pages(p) + at[PAGE], s->pages, s->n_pages * sizeof *s->pages);
    if (s->n_counts > 0)
        memcpy(gpu_plan_counts(p) + at[COUNT], s->counts, s->n_counts * sizeof *s->counts);
    if (s->n_bias > 0)
        memcpy(gpu_plan_bias(p) + at[BIAS], s->bias, s->n_bias * sizeof *s->bias);
    if (s->mask_words > 0)
        memcpy(gpu_plan_masks(p) + at[MASK], s->mask, s->mask_words * sizeof *s->mask);
    uint32_t first = at[ROW] + s->n_rows - s->n_draws;
    for (uint32_t d = 0; d < s->n_draws; d++)
        gpu_plan_draws(p)[at[DRAW] + d] =
            (struct gpu_draw){.row = first + d,
                              .seq = i,
                              .extra_row = s->n_counts > 0 ? first + !s->from_draw : first + d + 1,
                              .first_count = at[COUNT],
                              .n_counts = s->n_counts,
                              .first_bias = at[BIAS],
                              .n_bias = s->n_bias,
                              .mask = s->mask_words > 0 ? at[MASK] : GPU_NO_MASK,
                              .sampling = s->sampling};
    at[ROW] += s->n_rows;
    at[DRAW] += s->n_draws;
    at[PAGE] += s->n_pages;
    at[COUNT] += s->n_counts;
    at[BIAS] += s->n_bias;
    at[MASK] += s->mask_words;
}

/* Fills an unsealed plan. */
static inline void test_plan_make(struct gpu_plan *p, const struct gpu_copy *copies,
                                  uint32_t n_copies, const struct test_seq *seqs, uint32_t n_seqs) {
    uint32_t n[6] = {0}, at[6] = {0};
    for (uint32_t i = 0; i < n_seqs; i++) {
        n[0] += seqs[i].n_rows;
        n[1] += seqs[i].n_draws;
        n[2] += seqs[i].n_pages;
        n[3] += seqs[i].n_counts;
        n[4] += seqs[i].n_bias;
        n[5] += seqs[i].mask_words;
    }
    gpu_plan_begin(p, n_copies, n_seqs, n[0], n[1], n[2], n[3], n[4], n[5]);
    if (n_copies > 0)
        memcpy(gpu_plan_copies(p), copies, n_copies * sizeof *copies);
    for (uint32_t i = 0; i < n_seqs; i++)
        test_plan_seq(p, i, &seqs[i], at);
}

static const struct krn_sampling test_greedy = {.top_p = 1, .repetition = 1};

#endif
