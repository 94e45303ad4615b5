/* SPDX-License-Identifier: Apache-2.0
 * A planner for tests of the door: speaks lanes/protocol.h, computes nothing. The first id of a
 * prompt chooses what happens to it.
 */
#ifndef TESTS_DOOR_FAKE_PLANNER_H
#define TESTS_DOOR_FAKE_PLANNER_H

#include "lanes/engine.h"

enum fake_script {
    FAKE_REFUSE = 1, /* refused: queue_full, retry 250, 7 of 7 */
    FAKE_HOLD = 2,   /* three tokens, then silence until it is cancelled */
    FAKE_FAIL = 3,   /* one token, then round_failed */
    FAKE_BYTES = 4,  /* text that is not valid UTF-8, and text messages */
    FAKE_QUEUED = 5, /* accepted and never started */
    FAKE_LATE = 6,   /* accepted when the next stats question comes */
    FAKE_DEVICE = 7, /* one token, then the device fails */
    FAKE_SLOW = 8,   /* one token a millisecond */
    FAKE_FIRST = 16  /* and above: max_tokens tokens at once */
};
enum { FAKE_VOCAB = 1000, FAKE_CONTEXT = 512, FAKE_LANES = 4096 };

struct fake_lane {
    bool used, started;
    uint64_t request, name;
    act_id_t client;
    uint32_t script, n_prompt, sum, sent, max_tokens, n_top, flags;
    bool held; /* FAKE_LATE: not accepted yet */
};

struct fake_planner {
    struct fake_lane lanes[FAKE_LANES];
    struct lane_counters counters;
    act_id_t drain_client;
    uint32_t generation, cancelled;
    uint64_t drain_timer;
    bool draining;
    uint32_t unsaved; /* what a drain says, and that the disk failed */
};

extern const struct act_kind fake_planner_kind;

/* What token i of a prompt with this sum of ids is; its text is "w<id> ". */
static inline uint32_t fake_token(uint32_t sum, uint32_t i) {
    return (sum * 7u + i * 13u) % FAKE_VOCAB;
}

#endif
