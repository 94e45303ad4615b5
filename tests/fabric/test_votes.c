/* SPDX-License-Identifier: Apache-2.0
 * The votes on graphs: the pure rules one by one, then conductor and ranks in simulation with votes
 * that are lost, late, doubled and refused.
 */
#include "fabric/votes.h"
#include "tests/fabric/ranks.h"

enum { DEADLINE = 1000000 };

struct bench {
    struct fab_votes v;
    uint64_t number, now;
};

static void begin(struct bench *b, uint32_t world, uint32_t max) {
    memset(b, 0, sizeof *b);
    fab_votes_open(&b->v, world, gpu_graph_settings(max), DEADLINE);
}

/* The order of the next plan with this key. */
static enum gpu_graph_order plan(struct bench *b, uint64_t key) {
    return fab_votes_order(&b->v, key, ++b->number, b->now);
}

static void word(struct bench *b, uint32_t rank, uint64_t key, enum gpu_graph_word w) {
    fab_votes_word(&b->v, rank, key, b->number, w);
}

static void all(struct bench *b, uint64_t key, enum gpu_graph_word w) {
    for (uint32_t r = 0; r < b->v.world; r++)
        word(b, r, key, w);
}

static uint32_t drops(struct bench *b, uint64_t *last) {
    uint32_t n = 0;
    while (fab_votes_drop(&b->v, last))
        n++;
    return n;
}

/* Makes a key live. */
static void live(struct bench *b, uint64_t key) {
    ck_assert_int_eq(plan(b, key), GPU_GRAPH_NONE); /* seen once */
    ck_assert_int_eq(plan(b, key), GPU_GRAPH_ASK);
    all(b, key, GPU_GRAPH_ROOM);
    ck_assert_int_eq(plan(b, key), GPU_GRAPH_CAPTURE);
    all(b, key, GPU_GRAPH_CAPTURED);
    ck_assert_int_eq(plan(b, key), GPU_GRAPH_LIVE);
}

START_TEST(test_two_votes) {
    struct bench b;
    begin(&b, 3, 48);
    ck_assert_int_eq(plan(&b, 0), GPU_GRAPH_NONE);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_ASK);
    uint64_t asked = b.number;
    word(&b, 0, 7, GPU_GRAPH_ROOM);
    word(&b, 2, 7, GPU_GRAPH_ROOM);
    word(&b, 2, 7, GPU_GRAPH_ROOM); /* doubled */
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    word(&b, 1, 7, GPU_GRAPH_ROOM); /* about a plan that asked nothing */
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    fab_votes_word(&b.v, 1, 7, asked, GPU_GRAPH_CAPTURED); /* not what was asked */
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    fab_votes_word(&b.v, 1, 7, asked, GPU_GRAPH_ROOM);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_CAPTURE);
    asked = b.number;
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    for (uint32_t r = 0; r < 3; r++) {
        ck_assert_uint_eq(fab_votes_live(&b.v), 0);
        fab_votes_word(&b.v, r, 7, asked, GPU_GRAPH_CAPTURED);
    }
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_LIVE);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_LIVE);
    ck_assert_uint_eq(fab_votes_due_ns(&b.v), UINT64_MAX);
    uint64_t key;
    ck_assert_uint_eq(drops(&b, &key), 0);
}
END_TEST

START_TEST(test_a_no_is_for_all) {
    static const enum gpu_graph_word no[] = {GPU_GRAPH_NO_ROOM, GPU_GRAPH_NOT_CAPTURED};
    for (int w = 0; w < 2; w++)
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct bench b;
            uint64_t key = 0;
            begin(&b, 3, 48);
            plan(&b, 7);
            plan(&b, 7);
            if (w == 1) {
                all(&b, 7, GPU_GRAPH_ROOM);
                plan(&b, 7);
            }
            for (uint32_t r = 0; r < 3; r++)
                if (r != rank)
                    word(&b, r, 7, w == 0 ? GPU_GRAPH_ROOM : GPU_GRAPH_CAPTURED);
            word(&b, rank, 7, no[w]);
            ck_assert_uint_eq(drops(&b, &key), 1);
            ck_assert_uint_eq(key, 7);
            ck_assert_uint_eq(fab_votes_held(&b.v), 0);
            ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
            b.number += FAB_VOTES_RETRY;
            /* Room may come; a sequence that could not be captured never will be. */
            ck_assert_int_eq(plan(&b, 7), w == 0 ? GPU_GRAPH_ASK : GPU_GRAPH_NONE);
        }
}
END_TEST

START_TEST(test_silence) {
    struct bench b;
    struct status_note note = {""};
    uint64_t key = 0;
    begin(&b, 4, 48);
    b.now = 500;
    plan(&b, 0xab);
    plan(&b, 0xab);
    word(&b, 0, 0xab, GPU_GRAPH_ROOM);
    word(&b, 2, 0xab, GPU_GRAPH_ROOM);
    ck_assert_uint_eq(fab_votes_due_ns(&b.v), 500 + DEADLINE);
    ck_assert(!fab_votes_late(&b.v, 499 + DEADLINE, &note));
    ck_assert(fab_votes_late(&b.v, 500 + DEADLINE, &note));
    ck_assert_str_eq(note.text, "graph 00000000000000ab stays eager: no vote on room from rank 1 "
                                "3 within 1 ms");
    ck_assert(!fab_votes_late(&b.v, 500 + DEADLINE, &note));
    ck_assert_uint_eq(drops(&b, &key), 1);
    word(&b, 1, 0xab, GPU_GRAPH_ROOM); /* too late */
    ck_assert_int_eq(plan(&b, 0xab), GPU_GRAPH_NONE);
    ck_assert_uint_eq(b.v.count.stray, 1);
    ck_assert_uint_eq(fab_votes_due_ns(&b.v), UINT64_MAX);
    /* A vote of the first time does not count the second time. */
    uint64_t first = b.number;
    b.number += FAB_VOTES_RETRY;
    ck_assert_int_eq(plan(&b, 0xab), GPU_GRAPH_ASK);
    for (uint32_t r = 0; r < 4; r++)
        fab_votes_word(&b.v, r, 0xab, first - 1, GPU_GRAPH_ROOM);
    ck_assert_int_eq(plan(&b, 0xab), GPU_GRAPH_NONE);
}
END_TEST

/* Questions that end at one time are each told of, whatever they asked. */
START_TEST(test_silences) {
    struct bench b;
    struct status_note note = {""};
    uint64_t key = 0;
    begin(&b, 2, 48);
    plan(&b, 0xa);
    plan(&b, 0xb);
    plan(&b, 0xb);
    all(&b, 0xb, GPU_GRAPH_ROOM);
    plan(&b, 0xb);
    word(&b, 0, 0xb, GPU_GRAPH_CAPTURED);
    plan(&b, 0xa);
    ck_assert(fab_votes_late(&b.v, DEADLINE, &note));
    ck_assert_str_eq(note.text, "graph 000000000000000b stays eager: no vote on its capture from "
                                "rank 1 within 1 ms");
    ck_assert_uint_eq(fab_votes_due_ns(&b.v), DEADLINE);
    ck_assert(fab_votes_late(&b.v, DEADLINE, &note));
    ck_assert_str_eq(note.text, "graph 000000000000000a stays eager: no vote on room from rank 0 "
                                "1 within 1 ms");
    ck_assert(!fab_votes_late(&b.v, DEADLINE, &note));
    ck_assert_uint_eq(drops(&b, &key), 2);
}
END_TEST

START_TEST(test_failed_plan) {
    /* A plan that was not executed asked nobody: its key may be asked for again. */
    struct bench b;
    uint64_t key = 0;
    begin(&b, 2, 48);
    plan(&b, 7);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_ASK);
    word(&b, 0, 7, GPU_GRAPH_ROOM);
    fab_votes_failed(&b.v, b.number - 1);
    ck_assert_uint_eq(drops(&b, &key), 0);
    fab_votes_failed(&b.v, b.number);
    ck_assert_uint_eq(drops(&b, &key), 1);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_ASK);
}
END_TEST

START_TEST(test_lost) {
    struct bench b;
    uint64_t key = 0;
    begin(&b, 2, 48);
    live(&b, 7);
    uint64_t before = b.number - 1; /* the plan that captured */
    fab_votes_word(&b.v, 1, 7, before, GPU_GRAPH_LOST);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_LIVE); /* of an earlier life */
    word(&b, 1, 7, GPU_GRAPH_LOST);
    word(&b, 0, 7, GPU_GRAPH_LOST);
    ck_assert_uint_eq(drops(&b, &key), 1);
    ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_ASK); /* not refused */
}
END_TEST

START_TEST(test_evict) {
    /* With all slots taken, a new key takes the place of the one that was used longest ago, but not
     * of one that is as busy. */
    struct bench b;
    uint64_t key = 0;
    begin(&b, 1, 4);
    for (uint64_t k = 1; k <= 4; k++)
        live(&b, k);
    plan(&b, 9);
    ck_assert_int_eq(plan(&b, 2), GPU_GRAPH_LIVE);
    ck_assert_int_eq(plan(&b, 1), GPU_GRAPH_LIVE);
    ck_assert_int_eq(plan(&b, 4), GPU_GRAPH_LIVE);
    ck_assert_int_eq(plan(&b, 9), GPU_GRAPH_ASK);
    ck_assert_uint_eq(drops(&b, &key), 1);
    ck_assert_uint_eq(key, 3);
    all(&b, 9, GPU_GRAPH_ROOM);
    plan(&b, 9);
    all(&b, 9, GPU_GRAPH_CAPTURED);
    for (int i = 0; i < 50; i++)
        for (uint64_t k = 1; k <= 9; k++) /* 5 keys in turn, 4 slots: nobody is thrown out */
            if (k <= 4 || k == 9)
                plan(&b, k);
    ck_assert_uint_le(b.v.count.evicted, 2);
    ck_assert_uint_eq(fab_votes_held(&b.v), 4);
}
END_TEST

START_TEST(test_pressure) {
    /* Half at a time down to the floor, new keys wait, and the limit comes back to max when the
     * last rank is well again. */
    struct bench b;
    uint64_t key;
    begin(&b, 2, 40);
    for (uint64_t k = 1; k <= 40; k++)
        live(&b, k);
    word(&b, 1, 0, GPU_GRAPH_TIGHT);
    ck_assert_uint_eq(fab_votes_held(&b.v), 20);
    ck_assert_uint_eq(drops(&b, &key), 20);
    ck_assert_uint_eq(key, 20); /* the oldest went */
    word(&b, 1, 0, GPU_GRAPH_TIGHT);
    word(&b, 0, 0, GPU_GRAPH_TIGHT);
    ck_assert_uint_eq(fab_votes_held(&b.v), GPU_GRAPHS_FLOOR);
    for (int i = 0; i < 5; i++)
        word(&b, 1, 0, GPU_GRAPH_TIGHT);
    ck_assert_uint_eq(fab_votes_held(&b.v), GPU_GRAPHS_FLOOR);
    ck_assert_int_eq(plan(&b, 40), GPU_GRAPH_LIVE); /* hits go on */
    ck_assert_int_eq(plan(&b, 1), GPU_GRAPH_NONE);
    word(&b, 0, 40, GPU_GRAPH_LOST); /* a slot is free, and still no new key is asked for */
    ck_assert_int_eq(plan(&b, 1), GPU_GRAPH_NONE);
    word(&b, 1, 0, GPU_GRAPH_EASY);
    ck_assert_int_eq(plan(&b, 1), GPU_GRAPH_NONE); /* rank 0 is not well yet */
    ck_assert_uint_lt(b.v.limit, 40);
    word(&b, 0, 0, GPU_GRAPH_EASY);
    ck_assert_uint_eq(b.v.limit, 40);
    drops(&b, &key);
    ck_assert_int_eq(plan(&b, 1), GPU_GRAPH_ASK);
    /* Keys that are being voted on go too, when there are too many. */
    struct bench c;
    begin(&c, 1, 2);
    live(&c, 1);
    plan(&c, 2);
    ck_assert_int_eq(plan(&c, 2), GPU_GRAPH_ASK);
    word(&c, 0, 0, GPU_GRAPH_TIGHT); /* floor 2 */
    ck_assert_uint_eq(fab_votes_held(&c.v), 2);
}
END_TEST

START_TEST(test_settings) {
    struct status_note note = {""};
    struct gpu_graph_settings of[3] = {gpu_graph_settings(48), gpu_graph_settings(48),
                                       gpu_graph_settings(48)};
    ck_assert_int_eq(fab_votes_agree(of, 3, &note), STATUS_OK);
    of[2] = gpu_graph_settings(0);
    ck_assert_int_eq(fab_votes_agree(of, 3, &note), STATUS_DESYNC);
    ck_assert_str_eq(note.text, "ranks must have the same graph settings: rank 0 has --graphs 48 "
                                "(floor 8), rank 2 has 0 (floor 0)");
    struct bench b;
    begin(&b, 2, 0); /* off: no order, no vote */
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(plan(&b, 7), GPU_GRAPH_NONE);
    ck_assert_uint_eq(b.v.n_seen, 0);
}
END_TEST

/* ---- with actors ---- */

/* At any moment: a live key is captured on all ranks (V2). */
static void live_everywhere(const struct ranks *rig) {
    const struct fab_votes *v = fab_conductor_votes(rig->conductor);
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        for (uint32_t r = 0; r < rig->world && v->keys[i].state == FAB_VOTE_LIVE; r++)
            ck_assert(gpu_device_fake_captured(rig->device[r], v->keys[i].key));
}

static const struct rig_graphs graphs = {.max = 4, .vote_deadline_ns = 50000};

START_TEST(test_in_step) {
    /* Without faults every rank replays the same plans, nothing is lost, and the tokens are right
     * (the planner compares them). */
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct ranks rig;
        rig_set_up_graphs(&rig, ACT_PORT_SIM, 1 + seed % 4, seed, 0, NULL, &graphs);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        ck_assert_uint_eq(rig.planner.failed, 0);
        const struct fab_votes *v = fab_conductor_votes(rig.conductor);
        ck_assert_uint_gt(v->count.live, 0);
        ck_assert_uint_eq(v->count.lost + v->count.silent + v->count.refused, 0);
        uint64_t replays = gpu_device_fake_replays(rig.device[0]);
        ck_assert_uint_gt(replays, 10);
        for (uint32_t r = 1; r < rig.world; r++)
            ck_assert_uint_eq(gpu_device_fake_replays(rig.device[r]), replays);
        live_everywhere(&rig);
        rig_tear_down(&rig);
    }
}
END_TEST

START_TEST(test_faults) {
    static const char *const points[] = {"gpu.vote_lost",   "gpu.vote_late",  "gpu.vote_twice",
                                         "gpu.graph_fails", "gpu.step_fails", "gpu.void",
                                         "gpu.slow"};
    uint64_t silent = 0, refused = 0, lost = 0, stray = 0, replays = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct ranks rig;
        rig_set_up_graphs(&rig, ACT_PORT_SIM, 1 + seed % 4, seed, 0, NULL, &graphs);
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            if ((seed >> i & 1) != 0 || i == seed % 4)
                act_sim_fault_set(rig.rt, points[i], 200000, 30000, 300000);
        act_sim_faults_until(rig.rt, act_rt_now_ns(rig.rt) + 300000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        live_everywhere(&rig);
        const struct fab_votes *v = fab_conductor_votes(rig.conductor);
        for (uint32_t r = 0; r < rig.world; r++) {
            ck_assert_uint_le(gpu_device_fake_graphs(rig.device[r]), fab_votes_held(v));
            replays += gpu_device_fake_replays(rig.device[r]);
        }
        silent += v->count.silent;
        refused += v->count.refused;
        lost += v->count.lost;
        stray += v->count.stray;
        rig_tear_down(&rig);
    }
    ck_assert_uint_gt(silent, 10);
    ck_assert_uint_gt(refused, 50);
    ck_assert_uint_gt(lost, 10);
    ck_assert_uint_gt(stray, 50);
    ck_assert_uint_gt(replays, 1000);
}
END_TEST

/* Nobody waits for votes on what a void plan asked, and nobody is said to be silent: it is asked
 * anew. */
START_TEST(test_void_plans) {
    uint64_t voided = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct ranks rig;
        rig_set_up_graphs(&rig, ACT_PORT_SIM, 1 + seed % 4, seed, 0, NULL, &graphs);
        act_sim_fault_set(rig.rt, "gpu.void", 200000, 30000, 300000);
        act_sim_faults_until(rig.rt, act_rt_now_ns(rig.rt) + 300000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        const struct fab_votes *v = fab_conductor_votes(rig.conductor);
        ck_assert_uint_eq(v->count.silent + v->count.refused, 0);
        ck_assert_uint_eq(rig.n_said, 0);
        live_everywhere(&rig);
        voided += rig.planner.voided;
        rig_tear_down(&rig);
    }
    ck_assert_uint_gt(voided, 50);
}
END_TEST

START_TEST(test_silence_is_named) {
    struct ranks rig;
    rig_set_up_graphs(&rig, ACT_PORT_SIM, 2, 5, 0, NULL, &graphs);
    act_sim_fault_set(rig.rt, "gpu.vote_lost", 1000000, 1000000000, 1000000);
    rig_start(&rig);
    act_rt_run(rig.rt);
    ck_assert(planner_done(&rig.planner));
    ck_assert_ptr_nonnull(strstr(rig.said, "no vote on room from rank 0 1"));
    ck_assert_uint_eq(gpu_device_fake_replays(rig.device[0]), 0);
    rig_tear_down(&rig);
}
END_TEST

START_TEST(test_same_seed_same_trace) {
    uint64_t trace[2];
    for (int i = 0; i < 2; i++) {
        struct ranks rig;
        rig_set_up_graphs(&rig, ACT_PORT_SIM, 3, 6, 0, NULL, &graphs);
        act_sim_fault_set(rig.rt, "gpu.vote_late", 200000, 30000, 300000);
        act_sim_faults_until(rig.rt, 1000000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        trace[i] = act_sim_trace(rig.rt);
        rig_tear_down(&rig);
    }
    ck_assert_uint_eq(trace[0], trace[1]);
}
END_TEST

START_TEST(test_threads) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct ranks rig;
        rig_set_up_graphs(&rig, ACT_PORT_THREADS, 1 + seed % 3, seed, 0, NULL, &graphs);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert(planner_done(&rig.planner));
        live_everywhere(&rig);
        rig_tear_down(&rig);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fabric/votes");
    TCase *tc = tcase_create("votes");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_two_votes);
    tcase_add_test(tc, test_a_no_is_for_all);
    tcase_add_test(tc, test_silence);
    tcase_add_test(tc, test_silences);
    tcase_add_test(tc, test_failed_plan);
    tcase_add_test(tc, test_lost);
    tcase_add_test(tc, test_evict);
    tcase_add_test(tc, test_pressure);
    tcase_add_test(tc, test_settings);
    tcase_add_test(tc, test_in_step);
    tcase_add_test(tc, test_faults);
    tcase_add_test(tc, test_void_plans);
    tcase_add_test(tc, test_silence_is_named);
    tcase_add_test(tc, test_same_seed_same_trace);
    tcase_add_test(tc, test_threads);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
