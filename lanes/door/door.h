/* SPDX-License-Identifier: Apache-2.0
 * The front door for programs in any language: doc/protocol.md over nng. In the order of life: open
 * the runtime and the engine, door_open, act_rt_run, door_stop, close the engine and the runtime,
 * door_close.
 */
#ifndef LANES_DOOR_DOOR_H
#define LANES_DOOR_DOOR_H

#include "lanes/door/desk.h"
#include "lanes/door/listen.h"
#include "lanes/door/protocol.h"

enum { DOOR_LISTENERS_MAX = 8 };

struct door;

struct door_config {
    struct door_desk_config desk;
    struct act_rt *rt;
    int worker;     /* that of the planner */
    act_id_t owner; /* receives door_closed; 0: nobody */
    const char *const *urls;
    uint32_t n_urls;
    uint64_t probe_ns;          /* between two self-probes; 0: 2 s */
    uint32_t probe_deadline_ms; /* 0: 2000 */
    uint64_t linger_ns;         /* after a drain, for clients to read the rest; 0: 2 s */
};

/* Locks, listens and spawns its actors. On failure nothing stays, and note says which address
 * and why. */
enum status door_open(const struct door_config *config, struct door **out,
                      struct status_note *note);
/* The address as it was bound (tcp port 0 becomes the port). */
const char *door_url(const struct door *d, uint32_t i);
/* The desk, for tests of a stopped door. */
const struct door_desk *door_desk_of(const struct door *d);
/* From any thread: admit nothing more, let the rest finish until the deadline. door_closed
 * follows. */
void door_drain(struct door *d, uint64_t deadline_ns);
/* From any thread: end everything now. door_closed follows. */
void door_halt(struct door *d);
/* After act_rt_run returned and before act_rt_close: no thread of nng's posts from here on. */
void door_stop(struct door *d);
/* After act_rt_close (the probe's thread has ended): frees everything. */
void door_close(struct door *d);

#endif
