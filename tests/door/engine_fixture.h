/* SPDX-License-Identifier: Apache-2.0
 * A door with the real engine and the model that ships behind it, running on threads.
 */
#ifndef TESTS_DOOR_ENGINE_FIXTURE_H
#define TESTS_DOOR_ENGINE_FIXTURE_H

#include <pthread.h>

#include "lanes/door/door.h"
#include "lanes/engine.h"

struct engine_fixture {
    char folder[64], url[96];
    struct lane_engine *engine;
    struct door *door;
    pthread_t thread;
    uint32_t closed, closed_status;
};

/* With a disk cache in a folder of its own. */
void engine_fixture_open(struct engine_fixture *f);
/* As the caller wants it, but for the model. */
void engine_fixture_open_as(struct engine_fixture *f, const struct lane_engine_config *config);
void engine_fixture_join(struct engine_fixture *f);
void engine_fixture_close(struct engine_fixture *f);

#endif
