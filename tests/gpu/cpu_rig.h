/* SPDX-License-Identifier: Apache-2.0
 * A CPU device of one rank on a model, and sessions that are computed on it plan by plan. What goes
 * wrong here ends the program, so that benchmarks can use it too.
 */
#ifndef TESTS_GPU_CPU_RIG_H
#define TESTS_GPU_CPU_RIG_H

#include "actors/check.h"
#include "gpu/device_cpu.h"
#include "tests/gpu/plan_make.h"

enum { RIG_SEQS = 8, RIG_IDS = 4096, RIG_PAGES_MAX = 80 };

struct rig_model {
    struct krn_model *model;
    struct krn_net net;
    struct krn_profile profile;
};

struct rig {
    const struct rig_model *m;
    struct gpu_device *d;
    struct gpu_limits limits;
    struct gpu_round *round;
    uint64_t number, digest;
    uint32_t page_tokens, n_pages, next_page;
    void (*before)(struct rig *r); /* NULL, or asked before the round's plan is sealed ... */
    void (*after)(struct rig *r);  /* ... and after its step */
    void *self;                    /* theirs */
};

/* A session: its tokens, its pages, how many rows were computed. */
struct rig_session {
    uint32_t slot, n_ids, done;
    uint32_t ids[RIG_IDS];
    uint32_t pages[RIG_PAGES_MAX];
    uint64_t request;
    struct krn_sampling sampling;
};

/* What rig_open opens; gpu_device_cpu_open unless a test says otherwise. */
extern enum status (*rig_open_device)(const struct gpu_device_config *config,
                                      struct gpu_device **out, struct status_note *note);

void rig_ok(enum status s, const struct status_note *note);
/* virtual_ranks 0: the default. */
void rig_model_wrap(struct rig_model *m, struct krn_model *model, uint32_t virtual_ranks);
void rig_model_synthetic(struct rig_model *m, const struct krn_config *config, enum krn_dtype dtype,
                         uint64_t seed, uint32_t virtual_ranks);
void rig_model_close(struct rig_model *m);
struct gpu_device_config rig_config(const struct rig_model *m, uint32_t rows, uint32_t page_tokens,
                                    uint32_t n_pages, uint32_t threads, const char *isa);
void rig_open(struct rig *r, const struct rig_model *m, uint32_t rows, uint32_t threads,
              const char *isa);
void rig_close(struct rig *r);
void rig_session_begin(struct rig *r, struct rig_session *s, uint32_t slot, const uint32_t *ids,
                       uint32_t n);
/* The next `rows` rows of a session as a seq, the last n_draws drawn. */
struct test_seq rig_seq(const struct rig *r, const struct rig_session *s, uint32_t rows,
                        uint32_t n_draws);
struct gpu_result *rig_step(struct rig *r, uint32_t flags, const struct gpu_copy *copies,
                            uint32_t n_copies, const struct test_seq *seqs, uint32_t n);
/* The logits hashes of all rows of ids[0..n), computed in one session in pieces that `pieces` draws
 * (NULL: one piece as large as the limits). */
void rig_hashes(struct rig *r, uint32_t slot, const uint32_t *ids, uint32_t n, uint64_t *pieces,
                uint64_t *hashes, uint32_t *tokens);

#endif
