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

#endif
