/* SPDX-License-Identifier: Apache-2.0
 * A conductor with ranks on fake devices in a runtime, and a planner that sends scripted runs: one
 * lane a slot, each decoding over its own pages, two plans under way. What is drawn is compared
 * with what the tokens alone say.
 */
#ifndef TESTS_FABRIC_RANKS_H
#define TESTS_FABRIC_RANKS_H

#include "fabric/conductor.h"
#include "gpu/rank.h"
#include "tests/gpu/plan_make.h"
#include "tests/harness.h"

enum {
    VOCAB = 1000,
    PT = 4,
    LANES = 3,
    LANE_PAGES = 16,
    PAGES = 1 + LANES * LANE_PAGES,
    PROMPT = 6,
    GOAL = 50
};

struct ranks;

struct test_lane {
    uint32_t ids[PROMPT + GOAL + 2], n; /* known tokens */
    uint32_t pages[LANE_PAGES];
};

struct test_sent {
    uint32_t which, n_lanes;
    uint32_t lane[LANES], known[LANES]; /* tokens of the lane when the plan runs */
};

struct test_planner {
    struct ranks *rig;
    struct test_lane lane[LANES];
    struct gpu_round *rounds[2], *spare;
    bool busy[2];
    struct test_sent sent[2]; /* oldest first */
    uint32_t n_sent;
    uint64_t ran, failed, voided, aheads, timeouts, bad;
    uint64_t number, digest; /* of the last answer */
    enum status last_status;
    uint32_t last_rank;
    bool alone_next, halt;
    uint64_t seed;
    bool never_ahead;
    struct fab_page_freed freed; /* sent first when n is not 0 */
};

struct ranks {
    struct act_rt *rt;
    uint32_t world;
    struct gpu_device *device[GPU_WORLD_MAX];
    struct gpu_rank *rank[GPU_WORLD_MAX];
    act_id_t rank_id[GPU_WORLD_MAX];
    struct fab_conductor *conductor;
    act_id_t conductor_id, planner_id;
    struct test_planner planner;
    char said[320]; /* the conductor's last sentence */
    uint32_t n_said;
};

extern const struct gpu_limits rig_limits;

struct rig_graphs {
    uint32_t max;
    uint64_t vote_deadline_ns;
};

/* before_step: the ranks' test hook; its self is the rank's number. deadline_ns 0: none. */
void rig_set_up_graphs(struct ranks *rig, enum act_port port, uint32_t world, uint64_t seed,
                       uint64_t deadline_ns,
                       void (*before_step)(void *, const struct gpu_plan *, struct gpu_faults *),
                       const struct rig_graphs *graphs);
/* The same without graphs. */
void rig_set_up(struct ranks *rig, enum act_port port, uint32_t world, uint64_t seed,
                uint64_t deadline_ns,
                void (*before_step)(void *, const struct gpu_plan *, struct gpu_faults *));
/* Spawns the planner; act_rt_run then runs until it is done or has no more to do. */
void rig_start(struct ranks *rig);
void rig_tear_down(struct ranks *rig);
/* Every lane reached the goal with tokens that were compared one by one. */
bool planner_done(const struct test_planner *p);

#endif
