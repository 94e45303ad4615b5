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
 * MARK_FIRST plants the bug: the counter is sampled after the mark. spin must find the lost wake then.
 */
#define SENDERS 2
#define EACH 2
#define ALL 4 /* SENDERS * EACH; envelopes are 1..ALL */

byte word = 0;
byte next[ALL + 1];
byte taken[ALL + 1];
byte last[SENDERS];
byte parks = 0;
bool asleep = false;
byte n_taken = 0;

proctype sender(byte me) {
    byte i, old, envelope;
    for (i : 1 .. EACH) {
        envelope = me * EACH + i;
        old = word;
    again:
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
        fi
    }
}

proctype owner() {
    byte chain, sample, e, before, turned;
    do
    :: n_taken == ALL -> break
    :: else ->
        /* take */
        atomic { chain = word; if :: chain >= 2 -> word = 0 :: else fi }
        if
        :: chain >= 2 ->
            /* turn the chain around, then hand out */
            e = chain - 2;
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
        :: else ->
            /* park */
#ifndef MARK_FIRST
            sample = parks;
#endif
            atomic { chain = word; if :: chain == 0 -> word = 1 :: else fi }
            if
            :: chain == 0 ->
#ifdef MARK_FIRST
                sample = parks;
#endif
                atomic { if :: parks == sample -> asleep = true :: else fi }
                !asleep; /* blocks until woken: an end here is a lost wake */
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
    }
}
