/* SPDX-License-Identifier: Apache-2.0
 * The votes on one graph key (fabric/votes.h, gpu/graphs.h): a conductor and one rank of several. Ranks do not talk to
 * each other, so one that may do everything stands for each; the others' votes are the conductor's choice.
 *
 * The conductor sends numbered plans with orders, and drops, in one order to the rank. A rank answers an order with a
 * vote that names the plan; a vote may be lost, doubled, or stay under way for long. The conductor gives a question up
 * whenever it likes (a deadline, a plan that failed), ends the key whenever it likes (eviction), and may ask anew.
 *
 * Claim: a plan that says live finds a captured graph on the rank; no order waits for ever.
 *
 * NO_NUMBER plants a bug: a vote counts whatever plan it answers. NO_DROP plants another: a key that ended is not
 * dropped on the ranks; then a rank that thinks it has the slot captures nothing, and slots are never given back.
 */
#ifndef PLANS
#define PLANS 7
#endif

mtype = { live, ask, capture, drop, room, no_room, captured, not_captured };
mtype = { free_key, in_room, due, in_capture, is_live };

chan down = [5] of { mtype, byte };
chan up = [5] of { mtype, byte };
byte slot = 0; /* 0: none, 1: reserved, 2: captured */

inline vote(word, number) {
    if
    :: skip /* lost */
    :: nfull(up) -> up ! word, number
    :: len(up) < 4 -> up ! word, number; up ! word, number
    fi
}

proctype rank() {
    mtype order;
    byte number;
end:
    do
    :: atomic { down ? order, number ->
        if
        :: order == drop -> slot = 0
        :: order == live -> assert(slot == 2)
        :: order == ask ->
#ifdef NO_DROP
            assert(slot == 0);
#endif
            if
            :: slot == 0 -> slot = 1; vote(room, number)
            :: slot != 0 -> vote(room, number)
            :: slot == 0 -> vote(no_room, number)
            fi
        :: order == capture ->
            if
            :: slot == 1 -> slot = 2; vote(captured, number)
            :: slot == 1 -> slot = 0; vote(not_captured, number)
            :: slot != 1 -> vote(not_captured, number)
            fi
        fi;
        order = 0; number = 0 }
    od
}

mtype state = free_key;
byte asked = 0, plans = 0;
bool yes = false;

inline send_all(order, number) {
    down ! order, number
}

inline end_key() {
    state = free_key;
    yes = false;
    asked = 0;
#ifndef NO_DROP
    send_all(drop, 0)
#endif
}

inline hear() {
    up ? word, number;
    if
#ifdef NO_NUMBER
    :: word == room && state == in_room -> yes = true
    :: word == captured && state == in_capture -> yes = true
    :: word == no_room && state == in_room -> end_key()
    :: word == not_captured && state == in_capture -> end_key()
#else
    :: word == room && state == in_room && number == asked -> yes = true
    :: word == captured && state == in_capture && number == asked -> yes = true
    :: word == no_room && state == in_room && number == asked -> end_key()
    :: word == not_captured && state == in_capture && number == asked -> end_key()
#endif
    :: else
    fi;
    if
    :: yes && state == in_room -> state = due; yes = false
    :: yes && state == in_capture -> state = is_live; yes = false
    :: yes -> skip /* the other ranks have not voted yet */
    :: else
    fi;
    word = 0; number = 0
}

/* Room for an order and a drop, so that the conductor never waits. */
#define CAN_SEND (len(down) < 4)

proctype conductor() {
    mtype word;
    byte number;
end:
    do
    :: CAN_SEND && plans < PLANS ->
        atomic {
            plans++;
            if
            :: state == free_key -> state = in_room; asked = plans; send_all(ask, plans)
            :: state == due -> state = in_capture; asked = plans; send_all(capture, plans)
            :: state == is_live -> send_all(live, plans)
            :: else
            fi
        }
    :: CAN_SEND && len(up) > 0 -> atomic { hear() }
    :: yes -> atomic { /* the last of the others votes */
        if
        :: state == in_room -> state = due; yes = false
        :: state == in_capture -> state = is_live; yes = false
        fi }
    :: CAN_SEND && state != free_key -> atomic { end_key() }
    od
}

init {
    atomic {
        run conductor();
        run rank()
    }
}
