/* SPDX-License-Identifier: Apache-2.0
 * What the tests of actors/ share: small runtimes of both ports.
 */
#ifndef TESTS_ACTORS_RIG_H
#define TESTS_ACTORS_RIG_H

#include "tests/harness.h"

#include "actors/actor.h"
#include "actors/protocol.h"

enum { K_ONE = TEST_KIND_FIRST, K_TWO, K_THREE, K_GO, K_DONE };

/* A stop has all the time that a busy machine needs, unless a test is about that. */
static inline struct act_rt_config rig_config(enum act_port port, uint32_t workers, uint64_t seed) {
    return (struct act_rt_config){.port = port,
                                  .workers = workers,
                                  .actors_max = 1024,
                                  .messages_max = 100000,
                                  .timers_max = 1024,
                                  .stop_grace_ns = 600000000000u,
                                  .seed = seed};
}

static inline struct act_rt *rig_open_with(const struct act_rt_config *config) {
    struct act_rt *rt = NULL;
    struct status_note note = {{0}};
    enum status s = act_rt_open(config, &rt, &note);
    ck_assert_msg(s == STATUS_OK, "%s", note.text);
    return rt;
}

static inline struct act_rt *rig_open(enum act_port port, uint32_t workers, uint64_t seed) {
    struct act_rt_config config = rig_config(port, workers, seed);
    return rig_open_with(&config);
}

#endif
