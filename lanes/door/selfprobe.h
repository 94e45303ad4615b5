/* SPDX-License-Identifier: Apache-2.0
 * A client of our own: asks an ipc listener for a ping as a stranger would, with a deadline. A
 * listener of the packaged nng can die silently while its socket still connects and shakes hands,
 * so only an answered request proves it alive. Blocks up to the deadline: for a thread of its own.
 */
#ifndef LANES_DOOR_SELFPROBE_H
#define LANES_DOOR_SELFPROBE_H

#include <stdbool.h>
#include <stdint.h>

/* True when a ping over the socket at path was answered within deadline_ms. */
bool door_probe_ipc(const char *path, uint32_t deadline_ms);

/* Ends every connection that this process accepted at path, by shutdown: their owner closes
 * them, and their clients connect again. A listener that died leaves connections that nobody
 * serves; those must not hang. */
void door_probe_hang_up(const char *path);

#endif
