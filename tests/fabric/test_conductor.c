/* SPDX-License-Identifier: Apache-2.0
 * Conductor and rank actors in simulation: order, chain, two plans under way, void plans, named
 * desync and silence.
 */
#include "tests/fabric/ranks.h"

START_TEST(test_order_and_tokens) {
    uint64_t aheads = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 1 + seed % 4, seed, 0, NULL);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        ck_assert_uint_eq(rig.planner.failed, 0);
        aheads += rig.planner.aheads;
        rig_tear_down(&rig);
    }
    ck_assert_uint_gt(aheads, 1000);
}
END_TEST

START_TEST(test_threads) {
    /* The same actors, each rank on a thread of its own. */
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_THREADS, 1 + seed % 3, seed, 0, NULL);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert(planner_done(&rig.planner));
        rig_tear_down(&rig);
    }
}
END_TEST

START_TEST(test_same_seed_same_trace) {
    uint64_t trace[3];
    for (int i = 0; i < 3; i++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 3, i == 2 ? 8 : 6, 0, NULL);
        act_sim_fault_set(rig.rt, "gpu.step_fails", 100000, 20000, 300000);
        act_sim_faults_until(rig.rt, 1000000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        trace[i] = act_sim_trace(rig.rt);
        rig_tear_down(&rig);
    }
    ck_assert_uint_eq(trace[0], trace[1]);
    ck_assert_uint_ne(trace[0], trace[2]);
}
END_TEST

START_TEST(test_faults) {
    /* Steps that fail on one rank or all, spurious voids and slow steps: what follows is void, what
     * is retried is right. */
    uint64_t failed = 0, voided = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 1 + seed % 3, seed, 0, NULL);
        act_sim_fault_set(rig.rt, "gpu.step_fails", 100000, 20000, 300000);
        act_sim_fault_set(rig.rt, "gpu.void", 100000, 20000, 300000);
        act_sim_fault_set(rig.rt, "gpu.slow", 100000, 20000, 300000);
        act_sim_faults_until(rig.rt, act_rt_now_ns(rig.rt) + 200000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        ck_assert_uint_eq(rig.n_said, 0); /* what is tried again is nobody's affair */
        failed += rig.planner.failed;
        voided += rig.planner.voided;
        rig_tear_down(&rig);
    }
    ck_assert_uint_gt(failed, 300);
    ck_assert_uint_gt(voided, 100);
}
END_TEST

START_TEST(test_bad_rows) {
    uint64_t bad = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 1, seed, 0, NULL);
        act_sim_fault_set(rig.rt, "gpu.nan_row", 100000, 20000, 300000);
        act_sim_faults_until(rig.rt, act_rt_now_ns(rig.rt) + 200000);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_msg(planner_done(&rig.planner), "seed %llu", (unsigned long long)seed);
        ck_assert_uint_eq(rig.planner.failed, 0);
        bad += rig.planner.bad;
        rig_tear_down(&rig);
    }
    ck_assert_uint_gt(bad, 100);
}
END_TEST

/* Rank 1 goes wrong at plan 9. */
static void slow_rank_1(void *self, const struct gpu_plan *plan, struct gpu_faults *f) {
    if ((uintptr_t)self == 1 && plan->number == 9)
        f->slow_ns = 10000000;
}
static void nan_rank_1(void *self, const struct gpu_plan *plan, struct gpu_faults *f) {
    f->nan_row = (uintptr_t)self == 1 && plan->number == 9;
    f->nan_slot = 2;
}

START_TEST(test_silence_is_named) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 3, seed, 100000, slow_rank_1);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_int_eq(rig.planner.last_status, STATUS_TIMEOUT);
        ck_assert_uint_eq(rig.planner.last_rank, 1);
        ck_assert_uint_eq(rig.planner.number, 8);
        ck_assert_uint_eq(rig.planner.ran, 8);
        ck_assert_uint_ge(rig.planner.timeouts, 2); /* later runs are answered too */
        ck_assert_str_eq(rig.said, "plan 9: rank 1 has not answered within 0 ms; all work here "
                                   "ends");
        ck_assert_uint_eq(rig.n_said, 1);
        rig_tear_down(&rig);
    }
}
END_TEST

START_TEST(test_slow_within_deadline) {
    struct ranks rig;
    rig_set_up(&rig, ACT_PORT_SIM, 3, 5, 20000000, slow_rank_1);
    rig_start(&rig);
    act_rt_run(rig.rt);
    ck_assert(planner_done(&rig.planner));
    rig_tear_down(&rig);
}
END_TEST

START_TEST(test_desync_is_named) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ranks rig;
        rig_set_up(&rig, ACT_PORT_SIM, 3, seed, 0, nan_rank_1);
        rig_start(&rig);
        act_rt_run(rig.rt);
        ck_assert_uint_ge(rig.planner.number, 9);
        ck_assert_uint_eq(rig.planner.failed > 0, 1);
        ck_assert(rig.planner.halt);
        ck_assert_ptr_nonnull(strstr(rig.planner.rounds[0]->results[0]->note.text, "rank 1") != NULL
                                  ? rig.planner.rounds[0]->results[0]->note.text
                                  : strstr(rig.planner.rounds[1]->results[0]->note.text, "rank 1"));
        ck_assert_ptr_nonnull(strstr(rig.said, "rank 1 drew other tokens than rank 0"));
        rig_tear_down(&rig);
    }
}
END_TEST

START_TEST(test_page_freed_reaches_all) {
    struct ranks rig;
    rig_set_up(&rig, ACT_PORT_SIM, 4, 3, 0, NULL);
    unsigned char before[PT * 8], after[PT * 8];
    struct fab_page_freed m = {.n = 2, .page = {PAGES - 1, PAGES - 3}};
    rig.planner.freed = m;
    rig.planner.halt = true; /* no plans */
    rig_start(&rig);
    rig.device[0]->ops->page_read(rig.device[0], PAGES - 1, before);
    act_rt_run(rig.rt);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 2; j++) {
            rig.device[i]->ops->page_read(rig.device[i], m.page[j], after);
            ck_assert_mem_ne(before, after, sizeof after);
            rig.device[i]->ops->page_read(rig.device[i], PAGES - 2, after);
            ck_assert_mem_eq(before, after, sizeof after);
        }
    rig_tear_down(&rig);
}
END_TEST

START_TEST(test_compare) {
    static const enum status order[] = {STATUS_OK,      STATUS_AGAIN,  STATUS_ROUND_FAILED,
                                        STATUS_TIMEOUT, STATUS_DEVICE, STATUS_DESYNC};
    struct gpu_round *round;
    struct status_note note;
    uint32_t rank;
    ck_assert_int_eq(gpu_round_new(&rig_limits, 3, &round), STATUS_OK);
    gpu_plan_begin(round->plan, 0, 0, 0, 0, 0, 0, 0, 0);
    gpu_plan_seal(round->plan, 4, 5);
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 6; b++) {
            for (uint32_t i = 0; i < 3; i++)
                gpu_result_begin(round->results[i], round->plan);
            round->results[1]->status = order[a];
            round->results[2]->status = order[b];
            enum status s = fab_results_compare(round, &rank, &note);
            ck_assert_int_eq(s, order[a > b ? a : b]);
            ck_assert_uint_eq(rank, a == 0 && b == 0 ? 0 : a >= b ? 1 : 2);
        }
    gpu_result_begin(round->results[2], round->plan);
    gpu_result_begin(round->results[1], round->plan);
    round->results[2]->digest ^= 1;
    ck_assert_int_eq(fab_results_compare(round, &rank, &note), STATUS_DESYNC);
    ck_assert_uint_eq(rank, 2);
    ck_assert_ptr_nonnull(strstr(note.text, "rank 2"));
    round->results[2]->digest ^= 1;
    round->results[1]->number++;
    ck_assert_int_eq(fab_results_compare(round, &rank, &note), STATUS_DESYNC);
    ck_assert_uint_eq(rank, 1);
    gpu_round_free(round);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fabric/conductor");
    TCase *tc = tcase_create("conductor");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_order_and_tokens);
    tcase_add_test(tc, test_threads);
    tcase_add_test(tc, test_same_seed_same_trace);
    tcase_add_test(tc, test_faults);
    tcase_add_test(tc, test_bad_rows);
    tcase_add_test(tc, test_silence_is_named);
    tcase_add_test(tc, test_slow_within_deadline);
    tcase_add_test(tc, test_desync_is_named);
    tcase_add_test(tc, test_page_freed_reaches_all);
    tcase_add_test(tc, test_compare);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
