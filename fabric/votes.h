/* SPDX-License-Identifier: Apache-2.0
 * Which graph keys are live: the conductor's part of the graph cache, a pure state machine. A key
 * that comes again is asked for (vote 1: is there room; every rank reserves a slot), captured in a
 * later plan (vote 2), and is live, from the next plan on, when all ranks said yes twice. A hit
 * costs no vote. Anything else - a no, silence, memory pressure, a graph that was lost - ends the
 * key on all ranks, which drop what they hold; the plans run eagerly and the bits are the same.
 *
 * (tests/model/votes.pml searches all runs of one key.)
 *
 * Invariants: V1 The order of a plan is one for all ranks. V2 A key is live only after ROOM and
 * CAPTURED of every rank, each for the plan that asked. V3 Whatever is not live has no slot
 * anywhere: every key that ends is dropped on all ranks, before any plan that asks for it anew.
 * V4 Keys that hold slots are at most limit, floor <= limit <= max; limit falls under pressure and
 * rises when it is over. V5 A question ends: by the votes or at its deadline, which names who was
 * silent.
 */
#ifndef FABRIC_VOTES_H
#define FABRIC_VOTES_H

#include "gpu/graph.h"
#include "gpu/round.h"

enum {
    FAB_VOTES_SEEN = 128,    /* keys that came once */
    FAB_VOTES_REFUSED = 128, /* keys that stay eager */
    FAB_VOTES_RETRY = 1024,  /* plans until a key is asked for again that found no room */
    FAB_VOTES_DROPS = 2 * GPU_GRAPHS_MAX
};

enum fab_vote_state {
    FAB_VOTE_FREE,
    FAB_VOTE_ROOM,    /* vote 1 is open */
    FAB_VOTE_DUE,     /* the next plan with the key captures */
    FAB_VOTE_CAPTURE, /* vote 2 is open */
    FAB_VOTE_LIVE
};

struct fab_vote_key {
    uint64_t key;
    enum fab_vote_state state;
    uint32_t yes;    /* ranks, one bit each, for the open question */
    uint64_t asked;  /* number of the plan that asked it */
    uint64_t due_ns; /* its end */
    uint64_t used;   /* number of the last plan with it */
};

struct fab_votes {
    uint32_t world;
    struct gpu_graph_settings settings;
    uint64_t deadline_ns;
    uint32_t limit; /* keys that may hold slots now */
    uint32_t tight; /* ranks under pressure */
    struct fab_vote_key keys[GPU_GRAPHS_MAX];
    uint64_t seen[FAB_VOTES_SEEN];
    uint32_t n_seen;
    struct fab_vote_refused {
        uint64_t key, until; /* plan number; UINT64_MAX: for good */
    } refused[FAB_VOTES_REFUSED];
    uint32_t n_refused;
    uint64_t drops[FAB_VOTES_DROPS]; /* for all ranks, oldest first */
    uint32_t n_drops;
    struct {
        uint64_t hits, live, refused, silent, evicted, lost, stray;
    } count;
};

void fab_votes_open(struct fab_votes *v, uint32_t world, struct gpu_graph_settings settings,
                    uint64_t deadline_ns);
/* The order for the plan of this number with this key. Fetch the drops before the plan is sent. */
enum gpu_graph_order fab_votes_order(struct fab_votes *v, uint64_t key, uint64_t number,
                                     uint64_t now_ns);
/* A word of a rank's about plan `number`. Doubled, late and foreign words change nothing. */
void fab_votes_word(struct fab_votes *v, uint32_t rank, uint64_t key, uint64_t number,
                    enum gpu_graph_word word);
/* The plan of this number was not executed: what it asked is open no more and may be asked anew. */
void fab_votes_failed(struct fab_votes *v, uint64_t number);
/* The first deadline of an open question; UINT64_MAX: none. */
uint64_t fab_votes_due_ns(const struct fab_votes *v);
/* Ends the first question whose deadline has passed, and note names who was silent; false when
 * there is none: to be called until then. */
bool fab_votes_late(struct fab_votes *v, uint64_t now_ns, struct status_note *note);
/* The next key that all ranks drop; false: none. */
bool fab_votes_drop(struct fab_votes *v, uint64_t *key);
/* How many keys are live, and hold slots. */
uint32_t fab_votes_live(const struct fab_votes *v);
uint32_t fab_votes_held(const struct fab_votes *v);

/* OK when all ranks have the same settings; else DESYNC names the first that differs, with both
 * values. */
enum status fab_votes_agree(const struct gpu_graph_settings *of, uint32_t world,
                            struct status_note *note);

#endif
