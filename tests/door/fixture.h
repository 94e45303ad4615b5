/* SPDX-License-Identifier: Apache-2.0
 * A door with the fake planner behind it, running on threads, and clients that talk JSON to it.
 */
#ifndef TESTS_DOOR_FIXTURE_H
#define TESTS_DOOR_FIXTURE_H

#include <jansson.h>
#include <pthread.h>

#include "lanes/door/client.h"
#include "lanes/door/door.h"
#include "tests/door/fake_planner.h"

enum { FIXTURE_TIMEOUT_MS = 20000 };

struct fixture {
    char folder[64], url[96];
    struct act_rt *rt;
    struct fake_planner *planner;
    struct door *door;
    pthread_t thread;
    uint32_t closed_status, closed_cancelled, closed; /* written by the runtime's thread */
};

/* config: what differs from the defaults; NULL: nothing. urls NULL: one ipc address in a new
 * folder. */
void fixture_open(struct fixture *f, const struct door_config *config);
/* Waits until the runtime has ended by itself (after a drain). */
void fixture_join(struct fixture *f);
/* Stops what still runs, checks the desk's books, frees. */
void fixture_close(struct fixture *f);

struct door_client *client_open(const char *url);
/* Sends a printf'd message with ' for ", returns the answer (json_decref). */
json_t *client_call(struct door_client *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same bytes as they are. */
json_t *client_raw(struct door_client *c, const void *bytes, size_t n);

/* Reads `name` from cursor 0 to its end; text into text[cap]. Returns the ended event
 * (json_decref). */
json_t *client_finish(struct door_client *c, const char *name, char *text, size_t cap,
                      uint32_t *ids, uint32_t *n_ids);
bool reply_ok(const json_t *reply);
const char *reply_code(const json_t *reply);
const char *reply_field(const json_t *reply);

#endif
