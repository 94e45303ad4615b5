/* SPDX-License-Identifier: Apache-2.0
 * The runtime of one simulated server's life, as the tests of single troubles open it.
 */
#ifndef TESTS_SIM_LIFE_H
#define TESTS_SIM_LIFE_H

#include "actors/actor.h"

/* Deliveries in an order of this seed: uniform, or by changing priorities. */
static inline enum status life_runtime(uint64_t seed, uint32_t messages_max, struct act_rt **rt,
                                       struct status_note *note) {
    struct act_rt_config config = {.port = ACT_PORT_SIM,
                                   .workers = 1,
                                   .actors_max = 64,
                                   .messages_max = messages_max,
                                   .timers_max = 64,
                                   .seed = seed,
                                   .sim_priority = seed % 2 == 0};
    return act_rt_open(&config, rt, note);
}

#endif
