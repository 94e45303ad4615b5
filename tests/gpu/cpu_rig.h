/* SPDX-License-Identifier: Apache-2.0
 * A CPU device of one rank on a model, and sessions that are computed on it plan by plan.
 */
#ifndef TESTS_GPU_CPU_RIG_H
#define TESTS_GPU_CPU_RIG_H

#include "gpu/device_cpu.h"
#include "tests/gpu/plan_make.h"
#include "tests/harness.h"

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
};

/* A session: its tokens, its pages, how many rows were computed. */
struct rig_session {
    uint32_t slot, n_ids, done;
    uint32_t ids[RIG_IDS];
    uint32_t pages[RIG_PAGES_MAX];
    uint64_t request;
    struct krn_sampling sampling;
};

static inline void rig_ok(enum status s, const struct status_note *note) {
    ck_assert_msg(s == STATUS_OK, "%s: %s", status_name(s), note->text);
}

/* virtual_ranks 0: the default. */
static inline void rig_model_wrap(struct rig_model *m, struct krn_model *model,
                                  uint32_t virtual_ranks) {
    struct status_note note = {{0}};
    m->model = model;
    rig_ok(krn_net_build(model, &m->net, &note), &note);
    rig_ok(krn_profile_portable(&model->config, virtual_ranks, &m->profile, &note), &note);
}

static inline void rig_model_synthetic(struct rig_model *m, const struct krn_config *config,
                                       enum krn_dtype dtype, uint64_t seed,
                                       uint32_t virtual_ranks) {
    struct status_note note = {{0}};
    struct krn_model *model;
    rig_ok(krn_model_synthetic(config, dtype, seed, &model, &note), &note);
    rig_model_wrap(m, model, virtual_ranks);
}

static inline void rig_model_close(struct rig_model *m) {
    krn_net_free(&m->net);
    krn_model_close(m->model);
}

static inline struct gpu_device_config rig_config(const struct rig_model *m, uint32_t rows,
                                                  uint32_t page_tokens, uint32_t n_pages,
                                                  uint32_t threads, const char *isa) {
    struct gpu_limits limits = {.rows = rows,
                                .seqs = RIG_SEQS,
                                .draws = rows,
                                .copies = 4,
                                .pages = RIG_SEQS * RIG_PAGES_MAX,
                                .counts = 64,
                                .bias = 8,
                                .mask_words = RIG_SEQS * ((m->model->config.vocab + 31) / 32),
                                .kept_logits = 20,
                                .vocab = m->model->config.vocab,
                                .page_tokens = page_tokens};
    return (struct gpu_device_config){.net = &m->net,
                                      .profile = m->profile,
                                      .limits = limits,
                                      .page_tokens = page_tokens,
                                      .n_pages = n_pages,
                                      .threads = threads,
                                      .world = 1,
                                      .isa = isa};
}

static inline void rig_open(struct rig *r, const struct rig_model *m, uint32_t rows,
                            uint32_t threads, const char *isa) {
    struct status_note note = {{0}};
    uint32_t pt = 64;
    memset(r, 0, sizeof *r);
    r->m = m;
    r->page_tokens = pt;
    r->n_pages = 1 + RIG_SEQS * ((m->model->config.context + pt - 1) / pt + 1);
    r->next_page = 1;
    struct gpu_device_config config = rig_config(m, rows, pt, r->n_pages, threads, isa);
    r->limits = config.limits;
    rig_ok(gpu_device_cpu_open(&config, &r->d, &note), &note);
    ck_assert_int_eq(gpu_round_new(&r->limits, 1, &r->round), STATUS_OK);
}

static inline void rig_close(struct rig *r) {
    r->d->ops->close(r->d);
    gpu_round_free(r->round);
}

static inline void rig_session_begin(struct rig *r, struct rig_session *s, uint32_t slot,
                                     const uint32_t *ids, uint32_t n) {
    memset(s, 0, sizeof *s);
    s->slot = slot;
    s->request = 1 + r->number * 100 + slot;
    s->sampling = test_greedy;
    s->sampling.flags = KRN_DRAW_HASH_LOGITS;
    uint32_t pages = (r->m->model->config.context + r->page_tokens - 1) / r->page_tokens;
    ck_assert_uint_le(pages, RIG_PAGES_MAX);
    ck_assert_uint_le(r->next_page + pages, r->n_pages);
    for (uint32_t i = 0; i < pages;
         i++) /* neighbours in the session are not neighbours in the pool */
        s->pages[i] = r->next_page + (i * 7 + 3) % pages;
    if (pages % 7 == 0)
        for (uint32_t i = 0; i < pages; i++)
            s->pages[i] = r->next_page + pages - 1 - i;
    r->next_page += pages;
    memcpy(s->ids, ids, n * sizeof *ids);
    s->n_ids = n;
}

/* The next `rows` rows of a session as a seq, the last n_draws drawn. */
static inline struct test_seq rig_seq(const struct rig *r, const struct rig_session *s,
                                      uint32_t rows, uint32_t n_draws) {
    return (struct test_seq){.slot = s->slot,
                             .request = s->request,
                             .first_pos = s->done,
                             .n_rows = rows,
                             .tokens = s->ids + s->done,
                             .pages = s->pages,
                             .n_pages = (s->done + rows + r->page_tokens - 1) / r->page_tokens,
                             .n_draws = n_draws,
                             .sampling = s->sampling};
}

static inline struct gpu_result *rig_step(struct rig *r, uint32_t flags,
                                          const struct gpu_copy *copies, uint32_t n_copies,
                                          const struct test_seq *seqs, uint32_t n) {
    struct status_note note = {{0}};
    struct gpu_plan *p = r->round->plan;
    uint64_t again;
    test_plan_make(p, copies, n_copies, seqs, n);
    p->flags = flags;
    gpu_plan_seal(p, r->number + 1, r->digest);
    rig_ok(gpu_plan_check(p, p->bytes, r->number + 1, r->digest, &r->limits, r->n_pages, &note),
           &note);
    r->number++;
    r->digest = p->digest;
    r->d->ops->step(r->d, p, r->round->results[0]);
    ck_assert_int_eq(r->d->ops->poll(r->d, 0, &again), GPU_DONE);
    return r->round->results[0];
}

/* The logits hashes of all rows of ids[0..n), computed in one session in pieces that `pieces` draws
 * (NULL: one piece as large as the limits). */
static inline void rig_hashes(struct rig *r, uint32_t slot, const uint32_t *ids, uint32_t n,
                              uint64_t *pieces, uint64_t *hashes, uint32_t *tokens) {
    static struct rig_session s;
    uint32_t next_page = r->next_page;
    rig_session_begin(r, &s, slot, ids, n);
    while (s.done < n) {
        uint32_t rows =
            pieces == NULL ? r->limits.rows : 1 + (uint32_t)(test_random(pieces) % r->limits.rows);
        if (pieces != NULL && test_random(pieces) % 2 == 0)
            rows = 1 + rows % 20;
        rows = rows < n - s.done ? rows : n - s.done;
        struct test_seq seq = rig_seq(r, &s, rows, rows);
        struct gpu_result *result = rig_step(r, 0, NULL, 0, &seq, 1);
        rig_ok(result->status, &result->note);
        for (uint32_t i = 0; i < rows; i++) {
            ck_assert_uint_eq(result->drawn[i].finite, 1);
            hashes[s.done + i] = result->drawn[i].logits_hash;
            if (tokens != NULL)
                tokens[s.done + i] = result->drawn[i].token;
        }
        s.done += rows;
    }
    r->next_page = next_page; /* its pages are free again, with what it left there */
}

#endif
