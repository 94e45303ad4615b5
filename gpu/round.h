/* SPDX-License-Identifier: Apache-2.0
 * What a device answers to a plan, and the round that carries both between planner, conductor and
 * ranks. All memory is taken when a round is made.
 */
#ifndef GPU_ROUND_H
#define GPU_ROUND_H

#include <stdint.h>

#include "actors/status.h"
#include "kernels/rowfn.h"

struct gpu_plan; /* gpu/plan.h */

enum { GPU_WORLD_MAX = 8 };

/* What a device answers. One allocation of `capacity` bytes made at start: header, drawn[], tops[],
 * bad rows, logits rows. */
enum { GPU_ROW_FINE = 0xffffffffu };
struct gpu_result {
    uint64_t number, digest; /* of the plan */
    uint64_t drawn_digest;   /* XXH3-64 over token and finite of all draws and the seqs' bad rows;
                                equal on all ranks */
    enum status status;      /* OK; ROUND_FAILED, NO_MEMORY (may be retried), DEVICE (sticky), AGAIN
                                (void: plan-ahead of a failed plan) */
    uint32_t n_draws, n_seqs, n_logits;
    uint64_t step_ns;        /* device time of the step */
    uint64_t kernel_ns;      /* part of it inside row functions */
    uint64_t host_ns;        /* what the rank did to begin and to end it; 0: all of it is step_ns */
    struct krn_drawn *drawn; /* [n_draws] in the result's own memory */
    struct krn_top *top;     /* [n_draws][KRN_TOP_MAX] */
    uint32_t *bad_row; /* [n_seqs]: first row (of the plan) of the seq whose final hidden state is
                          not finite, or GPU_ROW_FINE; draws from it on have finite 0 */
    uint32_t *logits_draw; /* [n_logits]: which draw the row belongs to */
    float *logits;         /* [n_logits][vocab] of draws with KRN_DRAW_KEEP_LOGITS */
    struct status_note note;
};

struct gpu_limits {
    uint32_t rows, seqs, draws, copies, pages, counts, bias, mask_words, kept_logits, vocab;
    uint32_t page_tokens; /* 0: gpu_plan_check cannot say whether a page table covers its rows */
};

/* One round under way: moves planner -> conductor -> ranks -> conductor -> planner, one owner at a
 * time. While ranks run, the plan is read by all of them and written by none. */
struct gpu_round {
    struct gpu_plan *plan;
    void *plan_memory; /* plan lies in it */
    uint32_t plan_capacity;
    uint32_t world;
    struct gpu_result *results[GPU_WORLD_MAX];
};

enum status gpu_round_new(const struct gpu_limits *limits, uint32_t world, struct gpu_round **out);
void gpu_round_free(struct gpu_round *round);

/* A device's first and last step with a result: header and bad rows of an empty answer; the digest
 * over what it holds. */
void gpu_result_begin(struct gpu_result *r, const struct gpu_plan *p);
uint64_t gpu_result_drawn_digest(const struct gpu_result *r);

#endif
