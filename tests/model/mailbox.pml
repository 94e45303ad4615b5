/* SPDX-License-Identifier: Apache-2.0
 * The inbox and the park protocol of actors/mailbox.h, with two senders and one owner.
 *
 * The word: 0 empty, 1 parked, otherwise 2 + the envelope that is the newest of the chain. next[e]: the envelope
 * before it in the chain (0: none). A sender's push is a load, then a compare-exchange that is tried again when the
 * word has moved. The owner takes all at once, or parks: sample, mark, sleep while the counter is the sample. A futex
 * looks at the counter and falls asleep in one step; a wake reaches only who sleeps already.
 *
 * Claims: every envelope is taken exactly once; one sender's envelopes in the order of sending; no run ends (spin's
 * invalid end state) with the owner asleep for good.
 *
 * STOP adds one that stops the owner: it sets a flag, adds 1 to the counter, wakes. The owner looks at the flag after
 * the mark; it leaves by closing the inbox, and what is pushed later is refused. Then every envelope is taken or
 * refused, once, and the owner ends although mail may never come.
 *
 * LOOK_FIRST plants a bug there: the flag is looked at before the sample.
 * MARK_FIRST plants the other bug: the counter is sampled after the mark. spin must find the lost wake then.
 */
#define SENDERS 2
#ifndef EACH
#define EACH 2
#endif
#define ALL (SENDERS * EACH) /* envelopes are 1..ALL */

byte word = 0;
byte next[ALL + 1];
byte taken[ALL + 1];
byte last[SENDERS];
byte parks = 0;
bool asleep = false;
byte n_taken = 0;
#ifdef STOP
#define CLOSED 255
bool stopping = false;
byte refused[ALL + 1];
byte n_refused = 0;
#endif

proctype sender(byte me) {
    byte i, old, envelope;
    for (i : 1 .. EACH) {
        envelope = me * EACH + i;
        old = word;
    again:
#ifdef STOP
        if
        :: old == CLOSED -> refused[envelope] = 1; n_refused++; goto next_one
        :: else
        fi;
#endif
        if
        :: old >= 2 -> next[envelope] = old - 2
        :: else -> next[envelope] = 0
        fi;
        atomic {
            if
            :: word == old -> word = 2 + envelope
            :: else -> old = word; goto again
            fi
        }
        if
        :: old == 1 ->
            parks = parks + 1;   /* the note */
            asleep = false       /* the futex wake: nothing happens when nobody sleeps */
        :: else
        fi;
    next_one:
        skip
    }
}

#ifdef STOP
proctype stopper() {
    stopping = true;
    parks = parks + 1;
    asleep = false
}
#endif

/* turn the chain around, then hand out */
inline hand_out(newest) {
    e = newest;
    turned = 0;
    do
    :: e != 0 -> before = next[e]; next[e] = turned; turned = e; e = before
    :: else -> break
    od;
    e = turned;
    do
    :: e != 0 ->
        assert(taken[e] == 0);
        taken[e] = 1;
        n_taken++;
        assert(last[(e - 1) / EACH] < e);
        last[(e - 1) / EACH] = e;
        e = next[e]
    :: else -> break
    od
}

proctype owner() {
    byte chain, sample, e, before, turned;
#ifdef STOP
    bool seen;
#endif
    do
#ifndef STOP
    :: n_taken == ALL -> break
    :: n_taken < ALL ->
#else
    :: true ->
#endif
        /* take */
        atomic { chain = word; if :: chain >= 2 -> word = 0 :: else fi }
        if
        :: chain >= 2 ->
            hand_out(chain - 2)
#ifdef STOP
        :: chain < 2 && stopping ->
            atomic { chain = word; word = CLOSED }
            if
            :: chain >= 2 -> hand_out(chain - 2)
            :: else
            fi;
            break
        :: chain < 2 && !stopping ->
#else
        :: else ->
#endif
            /* park */
#ifdef LOOK_FIRST
            seen = stopping;
#endif
#ifndef MARK_FIRST
            sample = parks;
#endif
            atomic { chain = word; if :: chain == 0 -> word = 1 :: else fi }
            if
            :: chain == 0 ->
#ifdef MARK_FIRST
                sample = parks;
#endif
#ifdef STOP
#ifndef LOOK_FIRST
                seen = stopping;
#endif
                if
                :: !seen ->
#endif
                atomic { if :: parks == sample -> asleep = true :: else fi }
                !asleep /* blocks until woken: an end here is a lost wake */
#ifdef STOP
                :: seen
                fi
#endif
                ;
                /* awake for another reason: the mark goes, unless mail has replaced it */
                atomic { if :: word == 1 -> word = 0 :: else fi }
            :: else
            fi
        fi
    od
}

init {
    atomic {
        run owner();
        run sender(0);
        run sender(1)
#ifdef STOP
        ;
        run stopper()
#endif
    }
#ifdef STOP
    (_nr_pr == 1);
    assert(n_taken + n_refused == ALL)
#endif
}
