/* SPDX-License-Identifier: Apache-2.0
 * Messages around a door: from nng's threads, to and from its self-probe, from and to the program
 * that opened it.
 */
#ifndef LANES_DOOR_PROTOCOL_H
#define LANES_DOOR_PROTOCOL_H

#include "actors/protocol.h"

/* Inside the range of lanes/, behind lanes/protocol.h. */
enum { DOOR_KIND_FIRST = 0x600 };

/*        name      from   to     answered  late    credit  fields */
#define DOOR_PROTOCOL(M)                                                                           \
    /* An aio of the socket completed: one receive and one send are under way at most. */          \
    M(door, received, nng, door, none, none, none, int32_t error;)                                 \
    M(door, sent, nng, door, none, none, none, int32_t error;)                                     \
    M(door, probed, probe, door, none, none, none, uint32_t listener; uint32_t healed;)            \
    /* The program asks: nothing new, the rest until the deadline; or everything ends now. */      \
    M(door, leave, owner, door, closed, halt, none, uint64_t deadline_ns;)                         \
    M(door, halt, owner, door, closed, none, none, uint32_t reserved;)                             \
    /* The door's last word. status: OK, SHUTDOWN (halted), DEVICE, DESYNC. */                     \
    M(door, closed, door, owner, none, none, none, uint32_t status; uint32_t cancelled;)

enum { door_KIND_first = DOOR_KIND_FIRST - 1, DOOR_PROTOCOL(ACT_GEN_ENUM) door_KIND_end };
DOOR_PROTOCOL(ACT_GEN_STRUCT)
_Static_assert((int)door_KIND_end <= (int)TEST_KIND_FIRST, "the door's kinds stay in their range");

/* Invariants.
 * I1  Every message received has exactly one answer, except a repeat of a call whose answer is
 *     under way.
 * I2  A name runs at most once while the door remembers it.
 * I3  Reading from a cursor gives the same events every time, until the request is gone.
 * I4  closed is sent once.
 */

#endif
