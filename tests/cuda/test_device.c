/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device beside the CPU device: the same random plans, faults and copies on both, and
 * every answer and every page compared bit for bit. On the emulated device, or with RH_CUDA=gpu on
 * this machine's GPU.
 */
#include "tests/harness.h"

#include <math.h>

#include "fabric/votes.h"
#include "gpu/device_cuda.h"
#include "gpu/driver_fake.h"
#include "kernels/approx.h"
#include "tests/cuda/emulate.h"
#include "tests/cuda/where.h"
#include "tests/gpu/truth.h"

enum { SESSIONS = 5, ROWS = 72, STEPS = 16, COUNTS = 40, BIASES = 3 };

static const struct gpu_device_cuda_over emulated = {.images = emulate_images, .n_images = 1};

/* Graphs that devices are opened with; over the fake driver then, which has them. */
static uint32_t test_graphs;
static bool test_deferred;    /* the fake driver's work waits until it is let run */
static bool test_graphs_fail; /* some orders cannot be followed */
static uint64_t test_close_ns;

static enum status open_cuda(const struct gpu_device_config *config, struct gpu_device **out,
                             struct status_note *note) {
    struct gpu_device_config with = *config;
    with.graphs = gpu_graph_settings(test_graphs);
    if (where_gpu())
        return gpu_device_cuda_open(&with, out, note);
    struct gpu_device_cuda_over over = emulated;
    over.driver = emulate_driver();
    over.close_ns = test_close_ns;
    if (test_graphs > 0 || test_deferred) {
        over.driver = gpu_fake_driver(&(struct gpu_fake_config){.deferred = test_deferred});
        emulate_on_fake();
    }
    return gpu_device_cuda_open_over(&with, &over, out, note);
}

/* Both devices over one model, and sessions that live on both with the same pages. */
struct pair {
    struct rig_model m;
    struct rig cpu, cuda;
    struct rig_session a[SESSIONS], b[SESSIONS];
    uint32_t ids[RIG_IDS];
    uint64_t seed;
    bool drew[SESSIONS]; /* in the last plan */
    uint32_t drawn[SESSIONS];
};

static uint32_t below(struct pair *p, uint32_t n) {
    return (uint32_t)(test_random(&p->seed) % n);
}

static void pair_open(struct pair *p, const struct krn_config *config, enum krn_dtype dtype,
                      uint64_t seed, uint32_t v) {
    memset(p, 0, sizeof *p);
    p->seed = seed;
    rig_model_synthetic(&p->m, config, dtype, seed, v);
    rig_open_device = gpu_device_cpu_open;
    rig_open(&p->cpu, &p->m, ROWS, 1, NULL);
    rig_open_device = open_cuda;
    rig_open(&p->cuda, &p->m, ROWS, 1, NULL);
    rig_open_device = gpu_device_cpu_open;
    ck_assert_str_eq(p->cuda.d->ops->name, "cuda");
    ck_assert_uint_eq(p->cuda.d->page_bytes, p->cpu.d->page_bytes);
    for (uint32_t i = 0; i < RIG_IDS; i++)
        p->ids[i] = below(p, i % 3 != 0 ? 20 : config->vocab);
}

static void pair_close(struct pair *p) {
    rig_close(&p->cpu);
    rig_close(&p->cuda);
    rig_model_close(&p->m);
}

static void begin(struct pair *p, uint32_t i) {
    uint32_t from = below(p, RIG_IDS - TRUTH_CONTEXT);
    rig_session_begin(&p->cpu, &p->a[i], 7 * i, p->ids + from, TRUTH_CONTEXT);
    rig_session_begin(&p->cuda, &p->b[i], 7 * i, p->ids + from, TRUTH_CONTEXT);
}

static bool same_float(float a, float b) {
    return krn_bits(a) == krn_bits(b) || (a != a && b != b);
}

static void compare_floats(const float *a, const float *b, size_t n, const char *what,
                           uint32_t step) {
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(same_float(a[i], b[i]), "%s, step %u: value %zu is %a on the CPU, %a here",
                      what, step, i, (double)a[i], (double)b[i]);
}

static void compare_results(const struct gpu_result *a, const struct gpu_result *b, uint32_t vocab,
                            const char *what, uint32_t step) {
    ck_assert_msg(a->status == b->status, "%s, step %u: %s and %s %s", what, step,
                  status_name(a->status), status_name(b->status), b->note.text);
    ck_assert_uint_eq(a->n_draws, b->n_draws);
    ck_assert_uint_eq(a->n_logits, b->n_logits);
    for (uint32_t i = 0; i < a->n_draws; i++) {
        const struct krn_drawn *x = &a->drawn[i], *y = &b->drawn[i];
        ck_assert_msg(x->token == y->token && x->finite == y->finite,
                      "%s, step %u, draw %u: token %u (%u), not %u (%u)", what, step, i, y->token,
                      y->finite, x->token, x->finite);
        ck_assert_msg(x->logits_hash == y->logits_hash, "%s, step %u, draw %u: hash", what, step,
                      i);
        ck_assert_msg(same_float(x->logprob, y->logprob), "%s, step %u, draw %u: logprob", what,
                      step, i);
        ck_assert_uint_eq(x->n_top, y->n_top);
        for (uint32_t k = 0; k < x->n_top; k++) {
            const struct krn_top *s = &a->top[i * KRN_TOP_MAX + k];
            const struct krn_top *t = &b->top[i * KRN_TOP_MAX + k];
            ck_assert_uint_eq(s->id, t->id);
            ck_assert(same_float(s->logprob, t->logprob));
        }
    }
    for (uint32_t q = 0; q < a->n_seqs; q++)
        ck_assert_uint_eq(a->bad_row[q], b->bad_row[q]);
    for (uint32_t i = 0; i < a->n_logits; i++)
        ck_assert_uint_eq(a->logits_draw[i], b->logits_draw[i]);
    compare_floats(a->logits, b->logits, (size_t)a->n_logits * vocab, what, step);
    ck_assert_uint_eq(a->drawn_digest, b->drawn_digest);
}

static void compare_pages(struct pair *p, const char *what) {
    size_t n = p->cpu.d->page_bytes;
    float *a = malloc(n), *b = malloc(n);
    ck_assert(a != NULL && b != NULL);
    for (uint32_t page = 1; page < p->cpu.n_pages; page++) {
        ck_assert_int_eq(p->cpu.d->ops->page_read(p->cpu.d, page, a), STATUS_OK);
        ck_assert_int_eq(p->cuda.d->ops->page_read(p->cuda.d, page, b), STATUS_OK);
        compare_floats(a, b, n / sizeof *a, what, page);
    }
    free(a);
    free(b);
}

static struct krn_sampling any_sampling(struct pair *p) {
    struct krn_sampling s = test_greedy;
    static const uint32_t flags[] = {0, KRN_DRAW_LOGPROB, KRN_DRAW_KEEP_LOGITS};
    s.flags = KRN_DRAW_HASH_LOGITS | flags[below(p, 3)];
    s.seed = test_random(&p->seed);
    s.n_top = s.flags & KRN_DRAW_LOGPROB ? below(p, KRN_TOP_MAX + 1) : 0;
    if (below(p, 3) == 0)
        return s;
    s.temperature = 0.2F + 0.3F * (float)below(p, 6);
    s.top_k = below(p, 3) == 0 ? 1 + below(p, 30) : 0;
    s.top_p = below(p, 3) == 0 ? 0.1F * (float)below(p, 11) : 1;
    s.min_p = below(p, 4) == 0 ? 0.05F * (float)below(p, 12) : 0;
    s.repetition = below(p, 2) == 0 ? 1.25F : 1;
    s.presence = below(p, 3) == 0 ? 0.5F : 0;
    s.frequency = below(p, 3) == 0 ? 0.25F : 0;
    return s;
}

/* Arrays of one seq's draws. */
struct extras {
    struct krn_count counts[COUNTS];
    struct krn_bias bias[BIASES];
    uint32_t mask[64];
};

/* Each id of ids[0..n) once, as far as there is room. */
static uint32_t count_ids(const uint32_t *ids, uint32_t n, struct krn_count *out) {
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < n_out && out[j].id != ids[i])
            j++;
        if (j == n_out && n_out == COUNTS)
            continue;
        if (j == n_out)
            out[n_out++] = (struct krn_count){.id = ids[i]};
        if (i % 2 == 0)
            out[j].in_prompt++;
        else
            out[j].in_reply++;
    }
    return n_out;
}

/* The next rows of session i for both devices; false when it is at its end. */
static bool next_seq(struct pair *p, uint32_t i, struct extras *e, uint32_t room,
                     struct test_seq *a, struct test_seq *b) {
    static const uint32_t most[] = {1, 1, 5, 17, 60};
    uint32_t vocab = p->m.model->config.vocab, words = (vocab + 31) / 32;
    uint32_t rest = TRUTH_CONTEXT - p->a[i].done, rows = 1 + below(p, most[below(p, 5)]);
    rows = rows < rest ? rows : rest;
    rows = rows < room ? rows : room;
    if (rows == 0)
        return false;
    bool from_draw = p->drew[i] && below(p, 2) == 0;
    if (from_draw) {
        rows = rows < 4 ? rows : 4;
        p->a[i].ids[p->a[i].done] = p->b[i].ids[p->b[i].done] = p->drawn[i];
    }
    uint32_t widest = rows < GPU_WINDOW_MAX - 1 ? rows : GPU_WINDOW_MAX - 1;
    uint32_t draws = below(p, 3) == 0 ? below(p, widest + 1) : 1;
    *a = rig_seq(&p->cpu, &p->a[i], rows, draws);
    a->sampling = any_sampling(p);
    a->from_draw = from_draw && draws == rows;
    if (below(p, 2) == 0) {
        a->counts = e->counts;
        a->n_counts =
            count_ids(p->a[i].ids, a->first_pos + rows - draws + 1 - a->from_draw, e->counts);
    }
    if (below(p, 4) == 0) {
        uint32_t id = below(p, vocab);
        e->bias[0] = (struct krn_bias){id, 3.5F};
        e->bias[1] = (struct krn_bias){below(p, vocab), below(p, 2) == 0 ? -INFINITY : 2.0F};
        e->bias[2] = (struct krn_bias){id, -1.25F};
        a->bias = e->bias;
        a->n_bias = BIASES;
    }
    if (below(p, 4) == 0) {
        for (uint32_t w = 0; w < words; w++)
            e->mask[w] = below(p, 8) == 0 ? 0 : (uint32_t)test_random(&p->seed);
        a->mask = e->mask;
        a->mask_words = words;
    }
    *b = *a;
    b->tokens = p->b[i].ids + p->b[i].done;
    b->pages = p->b[i].pages;
    return true;
}

static void any_fault(struct pair *p, uint32_t n_seqs, const struct test_seq *seqs) {
    struct gpu_faults f = {0};
    uint32_t kind = below(p, 12);
    f.step_fails = kind == 0;
    f.voided = kind == 1;
    f.graph_fails = test_graphs_fail && kind >= 5 && kind < 8;
    f.nan_row = kind >= 2 && kind <= 4 && n_seqs > 0;
    if (f.nan_row) {
        const struct test_seq *s = &seqs[below(p, n_seqs)];
        f.nan_slot = s->slot;
        f.nan_at = below(p, s->n_rows + 1);
    }
    p->cpu.d->faults = p->cuda.d->faults = f;
}

/* Session i begins anew; sometimes on another's pages, the partial last one copied. */
static uint32_t begin_again(struct pair *p, uint32_t i, struct gpu_copy *copy) {
    uint32_t from = below(p, SESSIONS), at = p->a[from].done, full;
    uint32_t *pages = p->a[i].pages, *other = p->a[from].pages;
    p->a[i].done = p->b[i].done = 0;
    p->drew[i] = false;
    p->a[i].request = p->b[i].request = test_random(&p->seed);
    if (from == i || below(p, 2) == 0 || at < 2)
        return 0;
    at = 1 + below(p, at - 1);
    full = at / 64;
    memcpy(p->a[i].ids, p->a[from].ids, sizeof p->a[i].ids);
    memcpy(p->b[i].ids, p->b[from].ids, sizeof p->b[i].ids);
    p->a[i].done = p->b[i].done = at % 64 != 0 ? at : 0;
    if (at % 64 == 0)
        return 0;
    /* Whole pages are copied too here: the other session may write to its own. */
    for (uint32_t k = 0; k <= full; k++)
        copy[k] = (struct gpu_copy){other[k], pages[k], k < full ? 64 : at % 64, 0};
    return full + 1;
}

static void one_step(struct pair *p, const char *what, uint32_t step) {
    static struct extras extras[SESSIONS];
    struct test_seq a[SESSIONS], b[SESSIONS];
    struct gpu_copy copies[8];
    uint32_t n = 0, room = ROWS, who[SESSIONS], n_copies = 0;
    for (uint32_t j = 0, first = below(p, SESSIONS); j < SESSIONS; j++) {
        uint32_t i = (first + j) % SESSIONS;
        if (below(p, 3) == 0)
            continue;
        if (n_copies == 0 && (below(p, 8) == 0 || p->a[i].done == TRUTH_CONTEXT))
            n_copies = begin_again(p, i, copies);
        if (!next_seq(p, i, &extras[i], room, &a[n], &b[n]))
            continue;
        room -= a[n].n_rows;
        who[n++] = i;
    }
    any_fault(p, n, a);
    uint32_t flags = below(p, 6) == 0 ? GPU_PLAN_ALONE : below(p, 6) == 0 ? GPU_PLAN_AHEAD : 0;
    if (n_copies > 4)
        n_copies = 0;
    struct gpu_result *x = rig_step(&p->cpu, flags, copies, n_copies, a, n);
    struct gpu_result *y = rig_step(&p->cuda, flags, copies, n_copies, b, n);
    compare_results(x, y, p->m.model->config.vocab, what, step);
    memset(p->drew, 0, sizeof p->drew);
    for (uint32_t q = 0, d = 0; q < n; d += a[q].n_draws, q++) {
        uint32_t i = who[q];
        if (x->status != STATUS_OK) /* its rows are computed again */
            continue;
        p->a[i].done += a[q].n_rows;
        p->b[i].done += a[q].n_rows;
        p->drew[i] = a[q].n_draws > 0;
        if (p->drew[i])
            p->drawn[i] = x->drawn[d + a[q].n_draws - 1].token;
    }
}

static void all_steps(struct pair *p, const char *what) {
    p->cpu.d->ops->poison(p->cpu.d, true);
    p->cuda.d->ops->poison(p->cuda.d, true);
    for (uint32_t page = 1; page < p->cpu.n_pages; page++) {
        p->cpu.d->ops->page_freed(p->cpu.d, page);
        p->cuda.d->ops->page_freed(p->cuda.d, page);
    }
    for (uint32_t i = 0; i < SESSIONS; i++)
        begin(p, i);
    uint32_t steps = p->m.model->config.experts != 0 ? STEPS / 2 : STEPS; /* more launches each */
    for (uint32_t step = 0; step < steps; step++)
        one_step(p, what, step);
    compare_pages(p, what);
}

START_TEST(same_bits_for_every_family) {
    static struct pair p;
    for (uint32_t i = 0; i < TRUTH_SHAPES; i++) {
        struct krn_config config = truth_shapes[i].config;
        if (config.vocab < 64)
            config.vocab += 64; /* shorter rows are refused */
        pair_open(&p, &config, truth_shapes[i].dtype, 300 + i, 0);
        all_steps(&p, truth_shapes[i].name);
        pair_close(&p);
    }
}
END_TEST

START_TEST(same_bits_for_every_v) {
    static struct pair p;
    for (uint32_t v = 1; v <= 8; v *= 2) {
        pair_open(&p, &truth_shapes[2].config, KRN_BF16, 40 + v, v);
        all_steps(&p, "virtual ranks");
        pair_close(&p);
    }
}
END_TEST

/* Weights without bytes, which the device makes itself, against the same made on the host. */
START_TEST(same_bits_from_fills) {
    static struct pair p;
    static const void *data[256];
    for (uint32_t i = 0; i < 2; i++) {
        memset(&p, 0, sizeof p);
        p.seed = 70 + i;
        rig_model_synthetic(&p.m, &truth_shapes[2].config, i == 0 ? KRN_BF16 : KRN_F32, 50, 0);
        struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)p.m.model->tensors;
        uint32_t n = p.m.model->n_tensors, without = 0;
        ck_assert_uint_le(n, 256);
        for (uint32_t k = 0; k < n; k++) {
            data[k] = t[k].data;
            t[k].data = t[k].n_dims == 2 ? NULL : t[k].data;
            without += t[k].data == NULL;
        }
        ck_assert_uint_gt(without, 3);
        rig_open_device = open_cuda;
        rig_open(&p.cuda, &p.m, ROWS, 1, NULL);
        rig_open_device = gpu_device_cpu_open;
        for (uint32_t k = 0; k < n; k++)
            t[k].data = data[k];
        rig_open(&p.cpu, &p.m, ROWS, 1, NULL);
        for (uint32_t k = 0; k < RIG_IDS; k++)
            p.ids[k] = below(&p, p.m.model->config.vocab);
        all_steps(&p, "fills");
        pair_close(&p);
    }
}
END_TEST

/* The hook changes the same draws on both devices, to the same bits. */
START_TEST(perturbed_alike) {
    static struct pair p;
    for (uint32_t kind = GPU_PERTURB_COMPANY; kind <= GPU_PERTURB_TROUBLE; kind++) {
        if (kind == GPU_PERTURB_THREADS)
            continue; /* a GPU always works with many */
        pair_open(&p, &truth_shapes[1].config, KRN_F32, 60 + kind, 0);
        p.cpu.d->ops->perturb(p.cpu.d, kind);
        p.cuda.d->ops->perturb(p.cuda.d, kind);
        all_steps(&p, "perturbed");
        pair_close(&p);
    }
}
END_TEST

/* What it cannot run is refused by name, and nothing stays behind. */
START_TEST(refusals) {
    struct rig_model m;
    struct gpu_device *d = NULL;
    struct status_note note;
    uint64_t live = emulate_memory_live();
    struct krn_config small = truth_shapes[0].config;
    small.vocab = 40;
    rig_model_synthetic(&m, &small, KRN_F32, 1, 0);
    struct gpu_device_config config = rig_config(&m, 8, 64, 4, 1, NULL);
    ck_assert_int_eq(open_cuda(&config, &d, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "vocabulary of 40"));
    rig_model_close(&m);
    rig_model_synthetic(&m, &truth_shapes[0].config, KRN_F32, 1, 0);
    config = rig_config(&m, 8, 64, 4, 1, NULL);
    snprintf(config.profile.name, sizeof config.profile.name, "other");
    ck_assert_int_eq(open_cuda(&config, &d, &note), STATUS_UNSUPPORTED);
    config = rig_config(&m, 8, 48, 4, 1, NULL);
    ck_assert_int_eq(open_cuda(&config, &d, &note), STATUS_BAD_REQUEST);
    if (!where_gpu()) {
        emulate_memory(1 << 20);
        config = rig_config(&m, 8, 64, 4000, 1, NULL);
        ck_assert_int_eq(open_cuda(&config, &d, &note), STATUS_NO_MEMORY);
        ck_assert_msg(strstr(note.text, "are free") != NULL, "%s", note.text);
        emulate_memory(UINT64_MAX);
    }
    ck_assert_uint_eq(emulate_memory_live(), live);
    rig_model_close(&m);
}
END_TEST

/* Two steps under way: the second's token is what the first draws. A failed first makes it void. */
START_TEST(two_under_way) {
    static struct rig_session s, t;
    struct rig_model m;
    struct rig r;
    struct gpu_round *ahead;
    uint64_t again;
    rig_model_synthetic(&m, &truth_shapes[1].config, KRN_BF16, 9, 0);
    rig_open_device = open_cuda;
    rig_open(&r, &m, ROWS, 1, NULL);
    rig_open_device = gpu_device_cpu_open;
    ck_assert_int_eq(gpu_round_new(&r.limits, 1, &ahead), STATUS_OK);
    uint32_t ids[20] = {5, 6, 7, 8, 9};
    rig_session_begin(&r, &s, 1, ids, 20);
    rig_session_begin(&r, &t, 2, ids, 20);
    for (uint32_t fails = 0; fails < 2; fails++) {
        struct test_seq seq = rig_seq(&r, &s, 20, 1);
        r.d->faults.step_fails = fails != 0;
        test_plan_make(r.round->plan, NULL, 0, &seq, 1);
        gpu_plan_seal(r.round->plan, ++r.number, r.digest);
        r.d->ops->step(r.d, r.round->plan, r.round->results[0]);
        s.done = 20;
        seq = rig_seq(&r, &s, 1, 1);
        seq.from_draw = true;
        test_plan_make(ahead->plan, NULL, 0, &seq, 1);
        ahead->plan->flags = GPU_PLAN_AHEAD;
        gpu_plan_seal(ahead->plan, ++r.number, r.round->plan->digest);
        r.d->ops->step(r.d, ahead->plan, ahead->results[0]);
        r.digest = ahead->plan->digest;
        while (r.d->ops->poll(r.d, 0, &again) != GPU_DONE)
            ;
        while (r.d->ops->poll(r.d, 0, &again) != GPU_DONE)
            ;
        s.done = 0;
        if (fails != 0) {
            ck_assert_int_eq(r.round->results[0]->status, STATUS_ROUND_FAILED);
            ck_assert_int_eq(ahead->results[0]->status, STATUS_AGAIN);
            continue;
        }
        rig_ok(r.round->results[0]->status, &r.round->results[0]->note);
        rig_ok(ahead->results[0]->status, &ahead->results[0]->note);
        uint64_t hash = ahead->results[0]->drawn[0].logits_hash;
        t.ids[20] = r.round->results[0]->drawn[0].token;
        seq = rig_seq(&r, &t, 21, 1);
        ck_assert_uint_eq(rig_step(&r, 0, NULL, 0, &seq, 1)->drawn[0].logits_hash, hash);
    }
    gpu_round_free(ahead);
    rig_close(&r);
    rig_model_close(&m);
}
END_TEST

/* The conductor's part, for one rank. */
struct orders {
    struct fab_votes votes;
    uint64_t given[GPU_GRAPH_CAPTURE + 1];
};

static void drop_ended(struct rig *r, struct orders *o) {
    uint64_t key;
    while (fab_votes_drop(&o->votes, &key))
        r->d->ops->graph_drop(r->d, key);
}

static void give_order(struct rig *r) {
    struct orders *o = r->self;
    struct gpu_plan *p = r->round->plan;
    p->graph_key = r->d->ops->graph_key(r->d, p);
    p->graph_order = fab_votes_order(&o->votes, p->graph_key, r->number + 1, 0);
    o->given[p->graph_order]++;
    drop_ended(r, o);
}

static void hear_votes(struct rig *r) {
    struct orders *o = r->self;
    struct gpu_graph_said said;
    while (r->d->ops->graph_vote(r->d, &said))
        fab_votes_word(&o->votes, 0, said.key, r->number, said.word);
    if (r->round->results[0]->status != STATUS_OK)
        fab_votes_failed(&o->votes, r->number);
    drop_ended(r, o);
}

enum { GRAPHS_ON, GRAPHS_THRASH, GRAPHS_FAIL, GRAPHS_HOWS };

/* Replayed is launched: the cache on, thrashing, and failing; against the CPU as everywhere. */
START_TEST(same_bits_with_graphs) {
    static struct pair p;
    static struct orders o;
    for (int how = GRAPHS_ON; how < GRAPHS_HOWS; how++) {
        test_graphs = how == GRAPHS_THRASH ? 2 : GPU_GRAPHS_MAX;
        test_graphs_fail = how == GRAPHS_FAIL;
        memset(&o, 0, sizeof o);
        fab_votes_open(&o.votes, 1, gpu_graph_settings(test_graphs), UINT64_MAX / 2);
        pair_open(&p, &truth_shapes[1].config, KRN_BF16, 80 + (uint64_t)how, 0);
        p.cuda.before = give_order;
        p.cuda.after = hear_votes;
        p.cuda.self = &o;
        if (how == GRAPHS_FAIL && !where_gpu()) {
            gpu_fake_fail("graph_instantiate", 1, 2, GPU_CUDA_ERROR_OUT_OF_MEMORY);
            gpu_fake_fail("capture_begin", 5, 2, GPU_CUDA_ERROR_INVALID_VALUE);
            gpu_fake_fail("capture_end", 8, 1, GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            gpu_fake_fail("graph_launch", 6, 2, GPU_CUDA_ERROR_OUT_OF_MEMORY);
        }
        for (int i = 0; i < 6; i++) {
            p.cpu.next_page = p.cuda.next_page = 1;
            memset(p.drew, 0, sizeof p.drew);
            all_steps(&p, "graphs");
        }
        ck_assert_uint_gt(o.given[GPU_GRAPH_CAPTURE], 3);
        ck_assert_uint_gt(o.given[GPU_GRAPH_LIVE], 3);
        if (how == GRAPHS_THRASH)
            ck_assert_uint_gt(o.votes.count.evicted, 3);
        if (how == GRAPHS_FAIL)
            ck_assert_uint_gt(o.votes.count.refused, where_gpu() ? 0 : 3);
        else
            ck_assert_uint_eq(o.votes.count.lost + o.votes.count.refused, 0);
        pair_close(&p);
        test_graphs = 0;
        test_graphs_fail = false;
        if (where_gpu())
            continue;
        struct gpu_fake_alive left = gpu_fake_alive(), none;
        memset(&none, 0, sizeof none);
        ck_assert_mem_eq(&left, &none, sizeof none);
    }
}
END_TEST

/* Another rank that says what this one says, and an exchange that brings nothing, until it is made
 * to fail. */
static struct {
    enum status status;
    uint32_t left, execs; /* times; graphs that existed then */
} other;

static enum status other_joins(void *self, struct status_note *note) {
    (void)self, (void)note;
    return STATUS_OK;
}

static enum status other_says(void *self, const float *part, float *all, size_t rows, size_t n) {
    (void)self;
    for (size_t i = 0; i < 2 * rows * n; i++)
        all[i] = part[i % (rows * n)];
    return STATUS_OK;
}

static enum status other_moves(void *self, uint64_t from, uint64_t to, size_t n, void *stream,
                               struct status_note *note) {
    (void)self, (void)from, (void)to, (void)n, (void)stream;
    return other.left > 0 ? status_say(note, STATUS_DESYNC, "the rank has left") : STATUS_OK;
}

static enum status other_state(void *self, struct status_note *note) {
    (void)self;
    return other.status == STATUS_OK ? STATUS_OK : status_say(note, other.status, "it is gone");
}

static void other_leaves(void *self) {
    (void)self;
    other.left++;
    other.execs += gpu_fake_alive().execs;
}

static enum status open_exchanged(const struct gpu_device_config *config, struct gpu_device **out,
                                  struct status_note *note) {
    static const struct gpu_collective says = {.world = 2, .gather = other_says};
    static const struct gpu_exchange moves = {.world = 2,
                                              .whole_floats = 4096,
                                              .join = other_joins,
                                              .gather = other_moves,
                                              .scatter = other_moves,
                                              .state = other_state,
                                              .leave = other_leaves};
    struct gpu_device_config with = *config;
    with.world = 2;
    with.collective = &says;
    with.exchange = &moves;
    return open_cuda(&with, out, note);
}

/* Graphs that hold an exchange are gone before it is left, which else would wait for them. A step
 * that was under way has failed then, though its event is reached. */
START_TEST(leaves_without_graphs) {
    static struct rig_session s;
    static struct orders o;
    static const uint32_t ids[20] = {5, 6, 7, 8, 9};
    struct status_note note;
    struct rig_model m;
    struct rig r;
    if (where_gpu())
        TEST_SKIP("an exchange needs another rank");
    rig_model_synthetic(&m, &truth_shapes[2].config, KRN_BF16, 9, 2);
    for (int how = 0; how <= 2; how++) {
        memset(&other, 0, sizeof other);
        memset(&o, 0, sizeof o);
        test_graphs = GPU_GRAPHS_MAX;
        fab_votes_open(&o.votes, 1, gpu_graph_settings(test_graphs), UINT64_MAX / 2);
        rig_open_device = open_exchanged;
        rig_open(&r, &m, ROWS, 1, NULL);
        rig_open_device = gpu_device_cpu_open;
        r.before = give_order;
        r.after = hear_votes;
        r.self = &o;
        rig_session_begin(&r, &s, 1, ids, 20);
        struct test_seq seq = rig_seq(&r, &s, 20, 1);
        for (int i = 0; i < 6; i++)
            ck_assert_int_eq(rig_step(&r, 0, NULL, 0, &seq, 1)->status, STATUS_OK);
        ck_assert_uint_gt(o.given[GPU_GRAPH_LIVE], 0);
        ck_assert_uint_eq(gpu_fake_alive().execs, 1);
        if (how == 1) /* it brings nothing */
            ck_assert_int_eq(r.d->ops->meet(r.d, &note), STATUS_DESYNC);
        if (how == 2) {
            other.status = STATUS_DESYNC;
            struct gpu_result *result = rig_step(&r, 0, NULL, 0, &seq, 1);
            ck_assert_int_eq(result->status, STATUS_DESYNC);
            ck_assert_str_eq(result->note.text, "it is gone");
            ck_assert_uint_eq(other.left, 1);
            ck_assert_int_eq(rig_step(&r, 0, NULL, 0, &seq, 1)->status, STATUS_DESYNC);
        }
        rig_close(&r);
        ck_assert_uint_gt(other.left, how > 0 ? 1 : 0);
        ck_assert_uint_eq(other.execs, 0);
        struct gpu_fake_alive left = gpu_fake_alive(), none;
        memset(&none, 0, sizeof none);
        ck_assert_mem_eq(&left, &none, sizeof none);
        test_graphs = 0;
    }
    rig_model_close(&m);
}
END_TEST

enum { BESIDE = 5 };

/* Pages to and from memory that the driver knows: no call waits, what is there when the event is
 * reached is right, and copies behind a step come after it. */
static void copy_beside(struct rig *r, unsigned char *host, uint64_t slot,
                        const unsigned char *was) {
    const struct gpu_device_ops *ops = r->d->ops;
    uint64_t bytes = r->d->page_bytes, waits = gpu_fake_calls("stream_synchronize");
    memset(host, 0xee, BESIDE * slot);
    ops->wait(r->d, GPU_STREAM_OUT, ops->record(r->d, GPU_STREAM_COMPUTE));
    for (uint32_t i = 0; i < BESIDE; i++)
        ck_assert_int_eq(ops->page_read(r->d, 1 + i, host + i * slot), STATUS_OK);
    gpu_event_t out = ops->record(r->d, GPU_STREAM_OUT);
    ck_assert(!ops->reached(r->d, out) && host[0] == 0xee);
    while (!ops->reached(r->d, out))
        ck_assert_uint_gt(gpu_fake_run(1), 0);
    for (uint32_t i = 0; i < BESIDE; i++)
        ck_assert_mem_eq(host + i * slot, was + i * bytes, bytes);
    for (uint32_t i = 0; i < BESIDE; i++) /* to the pages behind, in turn */
        ck_assert_int_eq(ops->page_write(r->d, 1 + BESIDE + i, host + i * slot), STATUS_OK);
    gpu_event_t in = ops->record(r->d, GPU_STREAM_IN);
    ck_assert(!ops->reached(r->d, in));
    while (!ops->reached(r->d, in))
        ck_assert_uint_gt(gpu_fake_run(1), 0);
    ck_assert_uint_eq(gpu_fake_calls("stream_synchronize"), waits);
}

START_TEST(pages_beside_the_host) {
    struct rig_model m;
    struct rig r;
    if (where_gpu())
        TEST_SKIP("a GPU's copies run when they like");
    rig_model_synthetic(&m, &truth_shapes[1].config, KRN_BF16, 9, 0);
    for (int known = 1; known >= 0; known--) {
        test_deferred = true;
        rig_open_device = open_cuda;
        rig_open(&r, &m, ROWS, 1, NULL);
        rig_open_device = gpu_device_cpu_open;
        uint64_t bytes = r.d->page_bytes, slot = (bytes + 4095) / 4096 * 4096;
        unsigned char *was = malloc(BESIDE * bytes), *now = malloc(bytes);
        void *host = NULL;
        ck_assert(was != NULL && now != NULL);
        ck_assert_int_eq(posix_memalign(&host, 4096, BESIDE * slot), 0);
        for (uint64_t i = 0; i < BESIDE * bytes; i++)
            was[i] = (unsigned char)(i * 167 + i / bytes);
        for (uint32_t i = 0; i < BESIDE; i++)
            ck_assert_int_eq(r.d->ops->page_write(r.d, 1 + i, was + i * bytes), STATUS_OK);
        if (!known)
            gpu_fake_fail("host_register", 0, 1, GPU_CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_int_eq(r.d->ops->host_use(r.d, host, BESIDE * slot), known);
        if (known)
            copy_beside(&r, host, slot, was);
        for (uint32_t i = 0; i < BESIDE; i++) { /* refused, or others' memory: each call waits */
            ck_assert_int_eq(r.d->ops->page_read(r.d, 1 + i + (known ? BESIDE : 0), now),
                             STATUS_OK);
            ck_assert_mem_eq(now, was + i * bytes, bytes);
        }
        rig_close(&r);
        ck_assert_uint_eq(gpu_fake_calls("host_unregister"), known ? 1 : 0);
        test_deferred = false;
        free(host);
        free(now);
        free(was);
    }
    rig_model_close(&m);
}
END_TEST

/* A launch that fails is named; a round that failed so is computed again; a dead device says so. */
START_TEST(failed_launches) {
    static struct rig_session s;
    struct rig_model m;
    struct rig r;
    if (where_gpu())
        TEST_SKIP("a GPU's launches do not fail on demand");
    rig_model_synthetic(&m, &truth_shapes[1].config, KRN_BF16, 9, 0);
    rig_open_device = open_cuda;
    rig_open(&r, &m, ROWS, 1, NULL);
    rig_open_device = gpu_device_cpu_open;
    uint32_t ids[20] = {5, 6, 7, 8, 9};
    rig_session_begin(&r, &s, 1, ids, 20);
    struct test_seq seq = rig_seq(&r, &s, 20, 1);
    uint64_t hash = rig_step(&r, 0, NULL, 0, &seq, 1)->drawn[0].logits_hash;
    emulate_fail_launch(5, GPU_CUDA_ERROR_INVALID_VALUE);
    struct gpu_result *result = rig_step(&r, 0, NULL, 0, &seq, 1);
    ck_assert_int_eq(result->status, STATUS_ROUND_FAILED);
    ck_assert_msg(strstr(result->note.text, "krn_cuda_") != NULL, "%s", result->note.text);
    ck_assert_uint_eq(rig_step(&r, 0, NULL, 0, &seq, 1)->drawn[0].logits_hash, hash);
    emulate_fail_launch(3, GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(rig_step(&r, 0, NULL, 0, &seq, 1)->status, STATUS_DEVICE);
    rig_close(&r);
    rig_model_close(&m);
}
END_TEST

/* A GPU that never ends what it was given: close comes back, and gives back nothing that the GPU
 * may still write to. */
START_TEST(closes_though_it_hangs) {
    struct rig_model m;
    struct rig r;
    if (where_gpu())
        TEST_SKIP("a GPU does not hang on demand");
    rig_model_synthetic(&m, &truth_shapes[1].config, KRN_BF16, 9, 0);
    for (int hangs = 0; hangs <= 1; hangs++) {
        test_deferred = true;
        test_close_ns = 1000000;
        rig_open_device = open_cuda;
        rig_open(&r, &m, ROWS, 1, NULL);
        rig_open_device = gpu_device_cpu_open;
        r.d->ops->poison(r.d, true);
        r.d->ops->page_freed(r.d, 1);
        if (!hangs)
            ck_assert_uint_gt(gpu_fake_run(1), 0);
        rig_close(&r);
        ck_assert_uint_eq(gpu_fake_calls("host_free"), hangs ? 0 : 1);
        ck_assert_uint_eq(gpu_fake_calls("stream_destroy") > 0, !hangs);
        ck_assert_uint_eq(gpu_fake_calls("context_release"), hangs ? 0 : 1);
        test_deferred = false;
        test_close_ns = 0;
    }
    rig_model_close(&m);
}
END_TEST

int main(void) {
    if (where_no_gpu() || where_sanitized())
        return 0;
    Suite *suite = suite_create("cuda/device");
    TCase *tc = tcase_create("device");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, same_bits_for_every_family);
    tcase_add_test(tc, same_bits_for_every_v);
    tcase_add_test(tc, same_bits_from_fills);
    tcase_add_test(tc, perturbed_alike);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, two_under_way);
    tcase_add_test(tc, pages_beside_the_host);
    tcase_add_test(tc, failed_launches);
    tcase_add_test(tc, closes_though_it_hangs);
    suite_add_tcase(suite, tc);
    tc = tcase_create("graphs");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, same_bits_with_graphs);
    suite_add_tcase(suite, tc);
    tc = tcase_create("exchange");
    tcase_add_test(tc, leaves_without_graphs);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
