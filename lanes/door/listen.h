/* SPDX-License-Identifier: Apache-2.0
 * Where a door may listen: addresses that are open without keys (ipc, and tcp on loopback), and the
 * lock that keeps a second server off an ipc path. Not for worker threads: it opens files.
 */
#ifndef LANES_DOOR_LISTEN_H
#define LANES_DOOR_LISTEN_H

#include <stdbool.h>

#include "actors/status.h"

enum { DOOR_URL_MAX = 128 };

struct door_address {
    char url[DOOR_URL_MAX];
    char path[DOOR_URL_MAX]; /* ipc: the socket's file; tcp: "" */
    int lock;                /* fd of the lock file, -1: none */
};

/* Checks the URL; UNSUPPORTED or BAD_REQUEST says which addresses are possible. */
enum status door_address_parse(const char *url, struct door_address *out, struct status_note *note);
/* ipc: takes path.lock and removes a socket file that a dead server left. DUPLICATE names the
 * pid that holds it. */
enum status door_address_lock(struct door_address *a, struct status_note *note);
/* Removes the lock file and lets go. */
void door_address_unlock(struct door_address *a);

#endif
