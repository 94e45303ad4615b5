/* SPDX-License-Identifier: Apache-2.0
 * What tests/fabric/ranks.h says.
 */
#include "tests/fabric/ranks.h"

const struct gpu_limits rig_limits = {.rows = 64,
                                      .seqs = 8,
                                      .draws = 16,
                                      .copies = 4,
                                      .pages = 128,
                                      .counts = 4,
                                      .bias = 4,
                                      .mask_words = 64,
                                      .kept_logits = 1,
                                      .vocab = VOCAB,
                                      .page_tokens = PT};

/* The next plan of every lane that is not done: the whole prompt, or one row; ahead: its token is
 * what the plan under way draws. */
static void planner_send(struct act_ctx *ctx, struct test_planner *p, bool ahead) {
    struct test_seq seqs[LANES];
    uint32_t which = p->busy[0] ? 1 : 0, n = 0;
    ck_assert(!p->busy[which]);
    struct test_sent *sent = &p->sent[p->n_sent];
    sent->n_lanes = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        struct test_lane *lane = &p->lane[l];
        uint32_t known = lane->n + (ahead ? 1 : 0);
        if (known > PROMPT + GOAL || (ahead && lane->n < PROMPT))
            continue;
        bool first = lane->n == PROMPT && !ahead;
        uint32_t pos = first ? 0 : known - 1;
        seqs[n] = (struct test_seq){.slot = l,
                                    .first_pos = pos,
                                    .n_rows = known - pos,
                                    .tokens = lane->ids + pos,
                                    .pages = lane->pages,
                                    .n_pages = LANE_PAGES,
                                    .n_draws = 1,
                                    .from_draw = ahead,
                                    .sampling = test_greedy};
        sent->lane[n] = l;
        sent->known[n] = known;
        n++;
    }
    if (n == 0)
        return;
    sent->n_lanes = n;
    sent->which = which;
    test_plan_make(p->rounds[which]->plan, NULL, 0, seqs, n);
    p->rounds[which]->plan->flags = ahead ? GPU_PLAN_AHEAD : 0;
    p->busy[which] = true;
    p->n_sent++;
    p->aheads += ahead;
    ACT_SEND(ctx, p->rig->conductor_id, fab, run, .round = p->rounds[which]);
}

bool planner_done(const struct test_planner *p) {
    for (uint32_t l = 0; l < LANES; l++)
        if (p->lane[l].n < PROMPT + GOAL + 1)
            return false;
    return true;
}

static void planner_go(struct act_ctx *ctx, struct test_planner *p) {
    if (p->halt)
        return;
    if (planner_done(p) && p->n_sent == 0)
        act_rt_stop(p->rig->rt);
    if (p->n_sent == 0)
        planner_send(ctx, p, false);
    if (p->n_sent == 1 && !p->never_ahead && test_random(&p->seed) % 2 == 0)
        planner_send(ctx, p, true);
}

/* Silence: the ranks may still hold the rounds, so the next run is another one; it is refused the
 * same way. */
static void planner_silence(struct act_ctx *ctx, struct test_planner *p, const struct fab_ran *m) {
    p->last_status = m->status;
    p->last_rank = m->rank;
    p->timeouts++;
    p->halt = true;
    if (m->round != p->spare && p->timeouts == 1)
        ACT_SEND(ctx, p->rig->conductor_id, fab, run, .round = p->spare);
}

static void planner_ran(struct act_ctx *ctx, struct test_planner *p, const struct fab_ran *m) {
    if (m->status == STATUS_TIMEOUT) {
        planner_silence(ctx, p, m);
        return;
    }
    ck_assert_uint_gt(p->n_sent, 0);
    struct test_sent sent = p->sent[0];
    const struct gpu_result *r = m->round->results[0];
    ck_assert_ptr_eq(m->round, p->rounds[sent.which]); /* in the order of run */
    p->sent[0] = p->sent[1];
    p->n_sent--;
    p->busy[sent.which] = false;
    p->ran++;
    p->last_status = m->status;
    p->last_rank = m->rank;
    ck_assert_uint_eq(r->number, p->number + 1);
    ck_assert(gpu_plan_sealed(m->round->plan, p->digest));
    p->number = r->number;
    p->digest = m->round->plan->digest;
    ck_assert_int_eq(r->status, m->status);
    if (m->status != STATUS_OK) {
        p->failed++;
        p->voided += m->status == STATUS_AGAIN;
        ck_assert_uint_gt(r->note.text[0], 0);
        if (m->status == STATUS_DESYNC)
            p->halt = true;
    } else {
        for (uint32_t i = 0; i < sent.n_lanes; i++) {
            struct test_lane *lane = &p->lane[sent.lane[i]];
            bool fine = r->bad_row[i] == GPU_ROW_FINE;
            ck_assert_uint_eq(r->drawn[i].finite, fine);
            p->bad += !fine;
            /* A bad row is computed again; what was planned ahead of it does not count. */
            if (!fine || (p->bad > 0 && lane->n != sent.known[i]))
                continue;
            ck_assert_uint_eq(lane->n, sent.known[i]);
            ck_assert_uint_eq(r->drawn[i].token, gpu_fake_draw(lane->ids, lane->n, 0, VOCAB));
            lane->ids[lane->n++] = r->drawn[i].token;
        }
    }
    if (p->n_sent == 0 || m->status == STATUS_OK)
        planner_go(ctx, p);
}

static void planner_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct test_planner *p = self;
    if (msg->kind == ACT_KIND_start && p->freed.n != 0)
        act_send(ctx, p->rig->conductor_id, fab_KIND_page_freed, &p->freed, sizeof p->freed);
    if (msg->kind == ACT_KIND_start)
        planner_go(ctx, self);
    else if (msg->kind == fab_KIND_ran)
        planner_ran(ctx, self, (const struct fab_ran *)msg->body);
    else if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
}
static const struct act_kind planner_kind = {.name = "planner", .receive = planner_receive};

static void rig_say(void *self, const char *text) {
    struct ranks *rig = self;
    snprintf(rig->said, sizeof rig->said, "%s", text);
    rig->n_said++;
}

void rig_set_up(struct ranks *rig, enum act_port port, uint32_t world, uint64_t seed,
                uint64_t deadline_ns,
                void (*before_step)(void *, const struct gpu_plan *, struct gpu_faults *)) {
    const struct rig_graphs none = {0};
    rig_set_up_graphs(rig, port, world, seed, deadline_ns, before_step, &none);
}

void rig_set_up_graphs(struct ranks *rig, enum act_port port, uint32_t world, uint64_t seed,
                       uint64_t deadline_ns,
                       void (*before_step)(void *, const struct gpu_plan *, struct gpu_faults *),
                       const struct rig_graphs *graphs) {
    memset(rig, 0, sizeof *rig);
    struct act_rt_config config = {.port = port,
                                   .workers = 1,
                                   .actors_max = 32,
                                   .messages_max = 1024,
                                   .timers_max = 64,
                                   .seed = seed,
                                   .sim_priority = seed % 2};
    ck_assert_int_eq(act_rt_open(&config, &rig->rt, NULL), STATUS_OK);
    rig->world = world;
    for (uint32_t i = 0; i < world; i++) {
        struct gpu_device_config dc = {.limits = rig_limits,
                                       .page_tokens = PT,
                                       .n_pages = PAGES,
                                       .vocab = VOCAB,
                                       .rank = i,
                                       .world = world,
                                       .graphs = gpu_graph_settings(graphs->max),
                                       .fake_step_ns = 1000 + 10 * i};
        ck_assert_int_eq(gpu_device_fake_open(&dc, &rig->device[i], NULL), STATUS_OK);
    }
    struct fab_conductor_config fc = {.world = world,
                                      .deadline_ns = deadline_ns,
                                      .shapes = rig->device[0],
                                      .graphs = gpu_graph_settings(graphs->max),
                                      .vote_deadline_ns = graphs->vote_deadline_ns,
                                      .say = rig_say,
                                      .self = rig};
    ck_assert_int_eq(fab_conductor_open(&fc, &rig->conductor), STATUS_OK);
    rig->conductor_id = act_spawn(rig->rt, &fab_conductor_kind, rig->conductor, 0);
    for (uint32_t i = 0; i < world; i++) {
        struct gpu_rank_config rc = {.device = rig->device[i],
                                     .rank = i,
                                     .world = world,
                                     .slow_ns = 20000,
                                     .before_step = before_step,
                                     .self = (void *)(uintptr_t)i};
        ck_assert_int_eq(gpu_rank_open(&rc, &rig->rank[i]), STATUS_OK);
        rig->rank_id[i] = act_spawn(rig->rt, &gpu_rank_kind, rig->rank[i],
                                    port == ACT_PORT_THREADS ? ACT_OWN_THREAD : 0);
        gpu_rank_wire(rig->rank[i], rig->conductor_id);
    }
    fab_conductor_wire(rig->conductor, rig->rank_id);
    struct test_planner *p = &rig->planner;
    p->rig = rig;
    p->seed = seed;
    for (uint32_t l = 0; l < LANES; l++) {
        for (uint32_t i = 0; i < PROMPT; i++)
            p->lane[l].ids[i] = (uint32_t)(test_random(&p->seed) % VOCAB);
        p->lane[l].n = PROMPT;
        for (uint32_t i = 0; i < LANE_PAGES; i++)
            p->lane[l].pages[i] = 1 + l + LANES * i;
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(gpu_round_new(&rig_limits, world, &p->rounds[i]), STATUS_OK);
    ck_assert_int_eq(gpu_round_new(&rig_limits, world, &p->spare), STATUS_OK);
}

void rig_start(struct ranks *rig) {
    rig->planner_id = act_spawn(rig->rt, &planner_kind, &rig->planner, 0);
}

void rig_tear_down(struct ranks *rig) {
    act_rt_close(rig->rt);
    for (uint32_t i = 0; i < rig->world; i++) {
        gpu_rank_close(rig->rank[i]);
        rig->device[i]->ops->close(rig->device[i]);
    }
    fab_conductor_close(rig->conductor);
    gpu_round_free(rig->planner.rounds[0]);
    gpu_round_free(rig->planner.rounds[1]);
    gpu_round_free(rig->planner.spare);
}
