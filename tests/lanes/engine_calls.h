/* SPDX-License-Identifier: Apache-2.0
 * Calls to a whole engine on the model that ships, and their comparison: tokens and logits rows.
 */
#ifndef TESTS_LANES_ENGINE_CALLS_H
#define TESTS_LANES_ENGINE_CALLS_H

#include "lanes/programs/client.h"
#include "tests/harness.h"

enum { ENGINE_CALLS = 320, ENGINE_NEW = 48 };

struct engine_test {
    struct lane_engine *engine;
    struct client client;
    struct client_call call[ENGINE_CALLS];
    uint32_t ids[ENGINE_CALLS][ENGINE_NEW + 16];
    uint64_t hash[ENGINE_CALLS][ENGINE_NEW + 16];
    uint32_t n, at, live, live_max;
    uint32_t cancel_every; /* 0: never */
    bool settle;           /* between calls all that they left is saved (one at a time) */
};

/* The model that ships, 16 lanes. */
struct lane_engine_config engine_config(void);
struct engine_test *engine_open(const struct lane_engine_config *config);
/* The next call: prompt stays the caller's; logits rows are hashed. */
struct client_call *engine_add(struct engine_test *t, const uint32_t *prompt, uint32_t n,
                               uint32_t max);
/* Runs the calls, live_max at a time, and closes the engine after its books were checked. */
void engine_run(struct engine_test *t, uint32_t live_max);
void engine_free(struct engine_test *t);
/* n token ids of the model that follow from the seed. */
void engine_fill(uint32_t *ids, uint32_t n, uint64_t seed);
/* Tokens and logits rows of call i of a equal those of call j of b. */
void engine_same(const struct engine_test *a, uint32_t i, const struct engine_test *b, uint32_t j);
const char *engine_path(void);

#endif
