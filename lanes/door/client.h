/* SPDX-License-Identifier: Apache-2.0
 * The other side of the door, for the command line and tests: one request at a time over nng's req,
 * which sends a request again when its connection breaks or the answer stays away. Blocks; not for
 * workers.
 */
#ifndef LANES_DOOR_CLIENT_H
#define LANES_DOOR_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

struct door_client;

/* NOT_FOUND: nobody listens there. resend_ms 0: 2000. */
enum status door_client_open(const char *url, uint32_t resend_ms, struct door_client **out,
                             struct status_note *note);
void door_client_close(struct door_client *c);

/* From now on a call ends with GONE when nobody has been connected for so long (the server was
 * killed, say); 0, as after open: it waits for a new server until its time is over. */
void door_client_gone_after(struct door_client *c, uint32_t ms);

/* Sends n bytes and waits for the answer: malloc'd, terminated, freed by the caller. TIMEOUT
 * after timeout_ms. */
enum status door_client_call(struct door_client *c, const void *message, size_t n,
                             uint32_t timeout_ms, char **reply, size_t *reply_bytes,
                             struct status_note *note);

#endif
