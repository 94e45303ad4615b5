/* SPDX-License-Identifier: Apache-2.0
 * What tests/gpu/cpu_rig.h says.
 */
#include "tests/gpu/cpu_rig.h"

#include <sched.h>
#include <stdio.h>

enum status (*rig_open_device)(const struct gpu_device_config *, struct gpu_device **,
                               struct status_note *) = gpu_device_cpu_open;

void rig_ok(enum status s, const struct status_note *note) {
    if (s != STATUS_OK)
        fprintf(stderr, "%s: %s\n", status_name(s), note->text);
    CHECK(s == STATUS_OK);
}

void rig_model_wrap(struct rig_model *m, struct krn_model *model, uint32_t virtual_ranks) {
    struct status_note note = {{0}};
    m->model = model;
    rig_ok(krn_net_build(model, &m->net, &note), &note);
    rig_ok(krn_profile_portable(&model->config, virtual_ranks, &m->profile, &note), &note);
}

void rig_model_synthetic(struct rig_model *m, const struct krn_config *config, enum krn_dtype dtype,
                         uint64_t seed, uint32_t virtual_ranks) {
    struct status_note note = {{0}};
    struct krn_model *model;
    rig_ok(krn_model_synthetic(config, dtype, seed, &model, &note), &note);
    rig_model_wrap(m, model, virtual_ranks);
}

void rig_model_close(struct rig_model *m) {
    krn_net_free(&m->net);
    krn_model_close(m->model);
}

struct gpu_device_config rig_config(const struct rig_model *m, uint32_t rows, uint32_t page_tokens,
                                    uint32_t n_pages, uint32_t threads, const char *isa) {
    struct gpu_limits limits = {.rows = rows,
                                .seqs = RIG_SEQS,
                                .draws = rows,
                                .copies = 4,
                                .pages = RIG_SEQS * RIG_PAGES_MAX,
                                .counts = 256,
                                .bias = 32,
                                .mask_words = RIG_SEQS * ((m->model->config.vocab + 31) / 32),
                                .kept_logits = rows,
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

void rig_open(struct rig *r, const struct rig_model *m, uint32_t rows, uint32_t threads,
              const char *isa) {
    struct status_note note = {{0}};
    uint32_t pt = 64;
    memset(r, 0, sizeof *r);
    r->m = m;
    r->page_tokens = pt;
    r->n_pages = 1 + RIG_SEQS * ((m->model->config.context + pt - 1) / pt + 1);
    r->next_page = 1;
    struct gpu_device_config config = rig_config(m, rows, pt, r->n_pages, threads, isa);
    r->limits = config.limits;
    rig_ok(rig_open_device(&config, &r->d, &note), &note);
    CHECK(gpu_round_new(&r->limits, 1, &r->round) == STATUS_OK);
}

void rig_close(struct rig *r) {
    r->d->ops->close(r->d);
    gpu_round_free(r->round);
}

void rig_session_begin(struct rig *r, struct rig_session *s, uint32_t slot, const uint32_t *ids,
                       uint32_t n) {
    memset(s, 0, sizeof *s);
    s->slot = slot;
    s->request = 1 + r->number * 100 + slot;
    s->sampling = test_greedy;
    s->sampling.flags = KRN_DRAW_HASH_LOGITS;
    uint32_t pages = (r->m->model->config.context + r->page_tokens - 1) / r->page_tokens;
    CHECK(pages <= RIG_PAGES_MAX);
    CHECK(r->next_page + pages <= r->n_pages);
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

struct test_seq rig_seq(const struct rig *r, const struct rig_session *s, uint32_t rows,
                        uint32_t n_draws) {
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

struct gpu_result *rig_step(struct rig *r, uint32_t flags, const struct gpu_copy *copies,
                            uint32_t n_copies, const struct test_seq *seqs, uint32_t n) {
    struct status_note note = {{0}};
    struct gpu_plan *p = r->round->plan;
    uint64_t again;
    test_plan_make(p, copies, n_copies, seqs, n);
    p->flags = flags;
    if (r->before != NULL)
        r->before(r);
    gpu_plan_seal(p, r->number + 1, r->digest);
    rig_ok(gpu_plan_check(p, p->bytes, r->number + 1, r->digest, &r->limits, r->n_pages, &note),
           &note);
    r->number++;
    r->digest = p->digest;
    r->d->ops->step(r->d, p, r->round->results[0]);
    while (r->d->ops->poll(r->d, 0, &again) != GPU_DONE)
        sched_yield();
    if (r->after != NULL)
        r->after(r);
    return r->round->results[0];
}

void rig_hashes(struct rig *r, uint32_t slot, const uint32_t *ids, uint32_t n, uint64_t *pieces,
                uint64_t *hashes, uint32_t *tokens) {
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
            CHECK(result->drawn[i].finite == 1);
            hashes[s.done + i] = result->drawn[i].logits_hash;
            if (tokens != NULL)
                tokens[s.done + i] = result->drawn[i].token;
        }
        s.done += rows;
    }
    r->next_page = next_page; /* its pages are free again, with what it left there */
}
