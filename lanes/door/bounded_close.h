/* SPDX-License-Identifier: Apache-2.0
 * Closing a socket in bounded time. The packaged nng's nng_close can wait for ever for a pipe that
 * its reaper never takes; then the socket is left to a thread of its own, which ends with the
 * process.
 */
#ifndef LANES_DOOR_BOUNDED_CLOSE_H
#define LANES_DOOR_BOUNDED_CLOSE_H

#include <nng/nng.h>
#include <stdbool.h>

/* True when the socket is closed, false when it was left behind after two seconds. The socket must
 * not be used again. */
bool door_socket_close(nng_socket socket);

#endif
