/* SPDX-License-Identifier: Apache-2.0
 * CPU ranks of one process over the shared-memory collective: every world gives the oracle's bits;
 * a step that fails on one rank fails on all.
 */
#include "fabric/coll_mailbox.h"
#include "fabric/conductor.h"
#include "gpu/rank.h"
#include "tests/gpu/truth.h"
#include "tests/harness.h"

enum { ROWS = 64, SESSIONS = 3 };

struct ranks {
    const struct rig_model *m;
    uint32_t world;
    struct gpu_device *device[GPU_WORLD_MAX];
    struct fab_mailbox *box;
    struct gpu_limits limits;
    uint32_t n_pages;
};

static void ranks_open(struct ranks *k, const struct rig_model *m, uint32_t world,
                       uint32_t threads) {
    struct status_note note = {{0}};
    struct fab_mailbox_config config = {
        .world = world, .slot_floats = 1024, .deadline_ns = 60000000000u};
    k->m = m;
    k->world = world;
    k->n_pages = 1 + SESSIONS * 4;
    rig_ok(fab_mailbox_open(&config, &k->box, &note), &note);
    for (uint32_t i = 0; i < world; i++) {
        struct gpu_device_config dc = rig_config(m, ROWS, 64, k->n_pages, threads, NULL);
        dc.rank = i;
        dc.world = world;
        dc.collective = fab_mailbox_rank(k->box, i);
        k->limits = dc.limits;
        rig_ok(gpu_device_cpu_open(&dc, &k->device[i], &note), &note);
        ck_assert_uint_eq(k->device[i]->page_bytes,
                          gpu_page_bytes(&m->model->config, &m->profile, 64, i, world));
    }
}

static void ranks_close(struct ranks *k) {
    for (uint32_t i = 0; i < k->world; i++)
        k->device[i]->ops->close(k->device[i]);
    fab_mailbox_close(k->box);
}

/* The planner of these tests: sessions in random pieces, one answer at a time, through conductor
 * and rank actors. */
struct driver {
    struct act_rt *rt;
    act_id_t conductor;
    struct gpu_round *round;
    struct truth truth[SESSIONS];
    uint32_t done[SESSIONS], pages[SESSIONS][4], rows[SESSIONS], who[SESSIONS], n;
    uint64_t seed, plans, failed;
    uint32_t fail_plan, retry;
    const char *wrong;
};

static void driver_send(struct act_ctx *ctx, struct driver *d) {
    struct test_seq seqs[SESSIONS];
    if (d->retry == 0)
        for (d->n = 0; d->n == 0;) {
            uint32_t left = 0, budget = ROWS;
            for (uint32_t i = 0; i < SESSIONS; i++) {
                uint32_t rest = TRUTH_LENGTH - d->done[i],
                         rows = 1 + (uint32_t)(test_random(&d->seed) % 40);
                left += rest;
                rows = rows < rest ? rows : rest;
                rows = rows < budget ? rows : budget;
                if (rows == 0 || test_random(&d->seed) % 3 == 0)
                    continue;
                d->who[d->n] = i;
                d->rows[d->n++] = rows;
                budget -= rows;
            }
            if (left == 0) {
                act_rt_stop(d->rt);
                return;
            }
        }
    for (uint32_t q = 0; q < d->n; q++) {
        uint32_t i = d->who[q];
        seqs[q] = (struct test_seq){.slot = i,
                                    .first_pos = d->done[i],
                                    .n_rows = d->rows[q],
                                    .request = i,
                                    .tokens = d->truth[i].ids + d->done[i],
                                    .pages = d->pages[i],
                                    .n_pages = 4,
                                    .n_draws = d->rows[q],
                                    .sampling = test_greedy};
        seqs[q].sampling.flags = KRN_DRAW_HASH_LOGITS;
    }
    test_plan_make(d->round->plan, NULL, 0, seqs, d->n);
    d->plans++;
    ACT_SEND(ctx, d->conductor, fab, run, .round = d->round);
}

static void driver_ran(struct act_ctx *ctx, struct driver *d, const struct fab_ran *m) {
    const struct gpu_result *r = m->round->results[0];
    if (m->status != STATUS_OK) {
        d->failed++;
        if (m->status != STATUS_ROUND_FAILED)
            d->wrong = "a status that was not asked for";
        d->retry = 1;
        driver_send(ctx, d);
        return;
    }
    d->retry = 0;
    for (uint32_t q = 0, k = 0; q < d->n; q++) {
        struct truth *t = &d->truth[d->who[q]];
        for (uint32_t i = 0; i < d->rows[q]; i++, k++) {
            uint32_t at = d->done[d->who[q]] + i;
            if (r->drawn[k].logits_hash != t->hashes[at] || r->drawn[k].token != t->greedy[at])
                d->wrong = "other bits than one token at a time";
        }
        d->done[d->who[q]] += d->rows[q];
    }
    driver_send(ctx, d);
}

static void driver_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    if (msg->kind == ACT_KIND_start)
        driver_send(ctx, self);
    else if (msg->kind == fab_KIND_ran)
        driver_ran(ctx, self, (const struct fab_ran *)msg->body);
    else if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
}
static const struct act_kind driver_kind = {.name = "driver", .receive = driver_receive};

/* The last rank fails plan 3 after its work. */
static void fail_last(void *self, const struct gpu_plan *plan, struct gpu_faults *f) {
    f->step_fails = self != NULL && plan->number == 3;
}

static void run_world(const struct rig_model *m, const struct truth *truth, uint32_t world,
                      uint32_t threads, uint64_t seed, bool fail, const char *name) {
    static struct driver d;
    struct ranks k;
    struct gpu_rank *rank[GPU_WORLD_MAX];
    act_id_t id[GPU_WORLD_MAX];
    struct fab_conductor *conductor;
    memset(&d, 0, sizeof d);
    ranks_open(&k, m, world, threads);
    struct act_rt_config rc = {.port = ACT_PORT_THREADS,
                               .workers = 1,
                               .actors_max = 32,
                               .messages_max = 1024,
                               .timers_max = 64};
    ck_assert_int_eq(act_rt_open(&rc, &d.rt, NULL), STATUS_OK);
    struct fab_conductor_config fc = {.world = world, .deadline_ns = 60000000000u};
    ck_assert_int_eq(fab_conductor_open(&fc, &conductor), STATUS_OK);
    d.conductor = act_spawn(d.rt, &fab_conductor_kind, conductor, 0);
    for (uint32_t i = 0; i < world; i++) {
        struct gpu_rank_config gc = {.device = k.device[i],
                                     .rank = i,
                                     .world = world,
                                     .before_step = fail ? fail_last : NULL,
                                     .self = i + 1 == world ? &d : NULL};
        ck_assert_int_eq(gpu_rank_open(&gc, &rank[i]), STATUS_OK);
        id[i] = act_spawn(d.rt, &gpu_rank_kind, rank[i], ACT_OWN_THREAD);
        gpu_rank_wire(rank[i], d.conductor);
    }
    fab_conductor_wire(conductor, id);
    ck_assert_int_eq(gpu_round_new(&k.limits, world, &d.round), STATUS_OK);
    memcpy(d.truth, truth, sizeof d.truth);
    d.seed = seed;
    for (uint32_t i = 0; i < SESSIONS; i++)
        for (uint32_t p = 0; p < 4; p++)
            d.pages[i][p] = 1 + i + SESSIONS * p;
    act_spawn(d.rt, &driver_kind, &d, 0);
    act_rt_run(d.rt);
    act_rt_close(d.rt);
    ck_assert_msg(d.wrong == NULL, "%s, %u ranks: %s", name, world, d.wrong);
    ck_assert_uint_eq(d.failed, fail ? 1 : 0);
    for (uint32_t i = 0; i < SESSIONS; i++)
        ck_assert_uint_eq(d.done[i], TRUTH_LENGTH);
    gpu_round_free(d.round);
    for (uint32_t i = 0; i < world; i++)
        gpu_rank_close(rank[i]);
    fab_conductor_close(conductor);
    ranks_close(&k);
}

START_TEST(test_worlds) {
    static struct truth truth[SESSIONS];
    uint32_t worlds = 0;
    for (int i = 0; i < TRUTH_SHAPES; i++) {
        struct rig_model m;
        rig_model_synthetic(&m, &truth_shapes[i].config, truth_shapes[i].dtype, 40 + (uint64_t)i,
                            0);
        for (uint32_t s = 0; s < SESSIONS; s++)
            truth_make(&truth[s], &m, 60 + s);
        for (uint32_t world = 1; world <= m.profile.virtual_ranks; world *= 2, worlds++)
            run_world(&m, truth, world, world <= 2 ? 2 : 1, world, world == 2,
                      truth_shapes[i].name);
        rig_model_close(&m);
    }
    ck_assert_uint_ge(worlds, 18);
}
END_TEST

START_TEST(test_refused) {
    struct rig_model m;
    struct status_note note = {{0}};
    struct gpu_device *d;
    rig_model_synthetic(&m, &truth_shapes[0].config, KRN_F32, 1, 2);
    struct gpu_device_config config = rig_config(&m, ROWS, 64, 4, 1, NULL);
    static const uint32_t worlds[] = {0, 3, 4, 8};
    for (int i = 0; i < 4; i++) {
        config.world = worlds[i];
        ck_assert_int_eq(gpu_device_cpu_open(&config, &d, &note), STATUS_BAD_REQUEST);
        ck_assert_ptr_nonnull(strstr(note.text, "V = 2"));
    }
    rig_model_close(&m);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fabric/cpu_ranks");
    TCase *tc = tcase_create("ranks");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test_worlds);
    tcase_add_test(tc, test_refused);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
