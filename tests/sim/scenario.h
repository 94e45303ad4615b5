/* SPDX-License-Identifier: Apache-2.0
 * One seed, one whole life of an engine in the simulation: requests, resumed prompts, cancels,
 * drafts, deadlines, faults, drain. Everything that may vary is drawn from the seed; every reply
 * is compared with what the tokens alone say.
 */
#ifndef TESTS_SIM_SCENARIO_H
#define TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct scenario_result {
    uint64_t trace; /* digest of all deliveries */
    uint64_t rounds, requests, tokens, resumed, cancelled, failed, refused, drafted, accepted;
    uint64_t from_ram, from_disk; /* of resumed */
    uint64_t from_restart;        /* of from_disk, by an engine that was opened anew */
    uint64_t retried;             /* rounds that failed */
    uint64_t exported, imported, forgotten, pinned; /* sessions, by a visitor */
    uint64_t replays;                               /* steps of ranks that were replays of graphs */
    struct status_note note;
};

/* false and a sentence in result->note when anything is wrong. */
bool scenario_run(uint64_t seed, struct scenario_result *result);

#endif
