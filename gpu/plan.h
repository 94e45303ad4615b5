/* SPDX-License-Identifier: Apache-2.0
 * A plan: one round's work for every rank, as bytes without pointers. Built by lanes/round.c,
 * numbered and chained by the conductor, executed by devices; the same bytes cross a wire. All
 * offsets count from the plan's first byte.
 *
 * Order of execution: copies, then for every row embed ... attention ... final norm, then the
 * draws. Rows of one seq are consecutive positions; rows after the last seq are padding for devices
 * that launch fixed shapes. Rows of a plan see keys and values of earlier rows of the same plan
 * only through pages.
 */
#ifndef GPU_PLAN_H
#define GPU_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"
#include "gpu/graph.h"
#include "gpu/round.h"
#include "kernels/rowfn.h"

enum {
    GPU_PLAN_MAGIC = 0x314e4c50, /* "PLN1" */
    GPU_PLAN_VERSION = 1,
    GPU_PAGE_SINK = 0,    /* page that padded rows write to; never handed out */
    GPU_WINDOW_MAX = 17,  /* pending token + 16 drafts */
    GPU_SLOTS_MAX = 1024, /* lane slots a device keeps last draws for */
    GPU_NO_MASK = 0xffffffffu
};

enum {
    GPU_PLAN_AHEAD = 1, /* closed while plan number-1 runs: void when that one fails */
    GPU_PLAN_ALONE = 2  /* a retry of one lane */
};

struct gpu_plan {
    uint32_t magic, version;
    uint32_t bytes, flags;
    uint64_t number; /* 1, 2, 3, ... without gaps */
    uint64_t
        digest; /* XXH3-64 of all bytes but this field, chained to the digest of plan number-1 */
    uint32_t world;       /* ranks that execute it */
    uint32_t graph_order; /* enum gpu_graph_order, the conductor's */
    uint64_t graph_key;   /* shape class of the plan, or 0; the CPU device ignores it */
    uint32_t n_copies, n_seqs, n_rows, n_draws, n_pages, n_counts, n_bias, n_mask_words;
    uint32_t off_copies, off_seqs, off_rows, off_draws, off_pages, off_counts, off_bias, off_masks;
};

struct gpu_copy {
    uint32_t src, dst, tokens,
        reserved; /* the first `tokens` tokens of page src into page dst (more may be copied) */
};

struct gpu_seq {
    uint64_t request; /* for messages and traces only */
    uint32_t slot;    /* lane slot, < GPU_SLOTS_MAX */
    uint32_t first_row, n_rows;
    uint32_t first_pos;
    uint32_t first_page, n_pages; /* in pages[]: the page table from position 0 on; covers first_pos
                                     + n_rows tokens */
    uint32_t first_draw, n_draws;
    uint32_t reserved;
};

enum {
    GPU_ROW_FROM_DRAW =
        1 /* token: what this seq's slot drew in plan number-1, read on the device */
};
struct gpu_row {
    uint32_t token, flags;
};

struct gpu_draw {
    uint32_t row, seq;  /* row of this plan, seq of this plan */
    uint32_t extra_row; /* tokens of rows [extra_row, row] are counted on top of counts[]; row + 1:
                           none */
    uint32_t first_count, n_counts, first_bias, n_bias;
    uint32_t mask; /* word offset in masks[], or GPU_NO_MASK */
    struct krn_sampling sampling;
};

/* Bytes of the largest plan within the limits. */
uint32_t gpu_plan_bytes_max(const struct gpu_limits *limits);

/* Typed views; valid for a plan that gpu_plan_check accepted. */
static inline struct gpu_copy *gpu_plan_copies(const struct gpu_plan *p) {
    return (struct gpu_copy *)((uintptr_t)p + p->off_copies);
}
static inline struct gpu_seq *gpu_plan_seqs(const struct gpu_plan *p) {
    return (struct gpu_seq *)((uintptr_t)p + p->off_seqs);
}
static inline struct gpu_row *gpu_plan_rows(const struct gpu_plan *p) {
    return (struct gpu_row *)((uintptr_t)p + p->off_rows);
}
static inline struct gpu_draw *gpu_plan_draws(const struct gpu_plan *p) {
    return (struct gpu_draw *)((uintptr_t)p + p->off_draws);
}
static inline uint32_t *gpu_plan_pages(const struct gpu_plan *p) {
    return (uint32_t *)((uintptr_t)p + p->off_pages);
}
static inline struct krn_count *gpu_plan_counts(const struct gpu_plan *p) {
    return (struct krn_count *)((uintptr_t)p + p->off_counts);
}
static inline struct krn_bias *gpu_plan_bias(const struct gpu_plan *p) {
    return (struct krn_bias *)((uintptr_t)p + p->off_bias);
}
static inline uint32_t *gpu_plan_masks(const struct gpu_plan *p) {
    return (uint32_t *)((uintptr_t)p + p->off_masks);
}

/* Lays out an empty plan for exactly these array lengths (offsets, bytes); arrays are then filled
 * through the views. */
void gpu_plan_begin(struct gpu_plan *p, uint32_t copies, uint32_t seqs, uint32_t rows,
                    uint32_t draws, uint32_t pages, uint32_t counts, uint32_t bias,
                    uint32_t mask_words);
/* Sets number and digest; the last step. before: digest of the plan before (0 for the first). */
void gpu_plan_seal(struct gpu_plan *p, uint64_t number, uint64_t before);
/* True while the plan is as it was sealed. */
bool gpu_plan_sealed(const struct gpu_plan *p, uint64_t before);
/* Full validation of bytes from anywhere: magic, offsets, ranges, every index, digest. DESYNC names
 * what is wrong. */
enum status gpu_plan_check(const void *bytes, size_t n, uint64_t number, uint64_t before,
                           const struct gpu_limits *limits, uint32_t n_device_pages,
                           struct status_note *note);

#endif
