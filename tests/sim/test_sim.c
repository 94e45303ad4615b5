/* SPDX-License-Identifier: Apache-2.0
 * Many seeds of the whole engine in simulation. A failing seed is printed; "test_sim SEED" replays
 * it alone.
 */
#include <string.h>
#include <time.h>

#include "tests/harness.h"
#include "tests/sim/scenario.h"

static uint64_t sim_seed_only;
static bool sim_replay;

static uint64_t sim_seeds(void) {
    const char *n = getenv("RH_SIM_SEEDS");
    const char *scale = getenv("RH_TEST_SCALE");
    if (n != NULL)
        return strtoull(n, NULL, 10);
    return scale != NULL && strcmp(scale, "small") == 0 ? 300 : 10000;
}

static double sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

START_TEST(sim_many_seeds) {
    struct scenario_result sum = {0}, r;
    uint64_t n = sim_replay ? 1 : sim_seeds(), bad = 0;
    double start = sim_now();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t seed = sim_replay ? sim_seed_only : i;
        if (!scenario_run(seed, &r)) {
            printf("seed %llu: %s\n", (unsigned long long)seed, r.note.text);
            if (++bad == 10)
                break;
        }
        sum.rounds += r.rounds;
        sum.requests += r.requests;
        sum.tokens += r.tokens;
        sum.resumed += r.resumed;
        sum.from_ram += r.from_ram;
        sum.from_disk += r.from_disk;
        sum.from_restart += r.from_restart;
        sum.cancelled += r.cancelled;
        sum.failed += r.failed;
        sum.refused += r.refused;
        sum.retried += r.retried;
        sum.replays += r.replays;
        sum.exported += r.exported;
        sum.imported += r.imported;
        sum.forgotten += r.forgotten;
        sum.pinned += r.pinned;
        sum.drafted += r.drafted;
        sum.accepted += r.accepted;
    }
    double seconds = sim_now() - start;
    printf("simulation: %llu seeds, %llu rounds (%.0f rounds/s), %llu requests, %llu tokens, %llu "
           "resumed, "
           "%llu from RAM, %llu from disk (%llu after a restart), "
           "%llu drafted, %llu accepted, %llu cancelled, %llu failed, %llu refused, %llu rounds "
           "failed, %llu replays\n",
           (unsigned long long)n, (unsigned long long)sum.rounds, (double)sum.rounds / seconds,
           (unsigned long long)sum.requests, (unsigned long long)sum.tokens,
           (unsigned long long)sum.resumed, (unsigned long long)sum.from_ram,
           (unsigned long long)sum.from_disk, (unsigned long long)sum.from_restart,
           (unsigned long long)sum.drafted, (unsigned long long)sum.accepted,
           (unsigned long long)sum.cancelled, (unsigned long long)sum.failed,
           (unsigned long long)sum.refused, (unsigned long long)sum.retried,
           (unsigned long long)sum.replays);
    printf("by a visitor: %llu exported, %llu imported, %llu forgotten, %llu pinned\n",
           (unsigned long long)sum.exported, (unsigned long long)sum.imported,
           (unsigned long long)sum.forgotten, (unsigned long long)sum.pinned);
    ck_assert_uint_eq(bad, 0);
    if (!sim_replay) { /* the scenarios reach what they are for */
        ck_assert_uint_gt(sum.resumed, 0);
        ck_assert_uint_gt(sum.from_ram, 0);
        ck_assert_uint_gt(sum.from_disk, sum.from_restart); /* some without a restart */
        ck_assert_uint_gt(sum.from_restart, 0);
        ck_assert_uint_gt(sum.accepted, 0);
        ck_assert_uint_gt(sum.cancelled, 0);
        ck_assert_uint_gt(sum.retried, 0);
        ck_assert_uint_gt(sum.failed, 0);
        ck_assert_uint_gt(sum.replays, 0);
        ck_assert_uint_gt(sum.exported, 0);
        ck_assert_uint_gt(sum.imported, 0);
        ck_assert_uint_gt(sum.forgotten, 0);
        ck_assert_uint_gt(sum.pinned, 0);
    }
}
END_TEST

START_TEST(sim_same_seed_same_trace) {
    struct scenario_result a, b;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        ck_assert_msg(scenario_run(seed, &a), "seed %llu: %s", (unsigned long long)seed,
                      a.note.text);
        ck_assert(scenario_run(seed, &b));
        ck_assert_uint_eq(a.trace, b.trace);
        ck_assert_uint_eq(a.tokens, b.tokens);
    }
}
END_TEST

int main(int argc, char **argv) {
    if (argc > 1) {
        sim_replay = true;
        sim_seed_only = strtoull(argv[1], NULL, 10);
    }
    Suite *suite = suite_create("simulation");
    TCase *tc = tcase_create("sim");
    tcase_set_timeout(tc, 900);
    tcase_add_test(tc, sim_many_seeds);
    if (!sim_replay)
        tcase_add_test(tc, sim_same_seed_same_trace);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
