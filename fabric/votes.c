/* SPDX-License-Identifier: Apache-2.0
 * Two votes a rank, one decision for all.
 */
#include "fabric/votes.h"

#include <stdio.h>
#include <string.h>

#include "actors/check.h"

void fab_votes_open(struct fab_votes *v, uint32_t world, struct gpu_graph_settings settings,
                    uint64_t deadline_ns) {
    CHECK(world >= 1 && world <= GPU_WORLD_MAX);
    CHECK(settings.max <= GPU_GRAPHS_MAX && settings.floor <= settings.max);
    memset(v, 0, sizeof *v);
    v->world = world;
    v->settings = settings;
    v->deadline_ns = deadline_ns;
    v->limit = settings.max;
}

static struct fab_vote_key *votes_find(struct fab_votes *v, uint64_t key) {
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        if (v->keys[i].state != FAB_VOTE_FREE && v->keys[i].key == key)
            return &v->keys[i];
    return NULL;
}

uint32_t fab_votes_held(const struct fab_votes *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        n += v->keys[i].state != FAB_VOTE_FREE;
    return n;
}

uint32_t fab_votes_live(const struct fab_votes *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        n += v->keys[i].state == FAB_VOTE_LIVE;
    return n;
}

static bool asking(const struct fab_vote_key *k) {
    return k->state == FAB_VOTE_ROOM || k->state == FAB_VOTE_CAPTURE;
}

/* Ends a key: all ranks drop it (keeps V3). Drops are fetched after every call, and one call ends
 * each key at most once, so there is room. */
static void votes_end(struct fab_votes *v, struct fab_vote_key *k) {
    CHECK(v->n_drops < FAB_VOTES_DROPS);
    v->drops[v->n_drops++] = k->key;
    *k = (struct fab_vote_key){0};
}

static void votes_refuse(struct fab_votes *v, struct fab_vote_key *k, uint64_t until) {
    v->refused[v->n_refused++ % FAB_VOTES_REFUSED] = (struct fab_vote_refused){k->key, until};
    v->count.refused++;
    votes_end(v, k);
}

static bool votes_refused(const struct fab_votes *v, uint64_t key, uint64_t number) {
    uint32_t n = v->n_refused < FAB_VOTES_REFUSED ? v->n_refused : FAB_VOTES_REFUSED;
    for (uint32_t i = 0; i < n; i++)
        if (v->refused[i].key == key && v->refused[i].until > number)
            return true;
    return false;
}

/* Whether a key came before; remembers it. A shape that comes once is not worth a capture. */
static bool votes_seen(struct fab_votes *v, uint64_t key) {
    uint32_t n = v->n_seen < FAB_VOTES_SEEN ? v->n_seen : FAB_VOTES_SEEN;
    for (uint32_t i = 0; i < n; i++)
        if (v->seen[i] == key)
            return true;
    v->seen[v->n_seen++ % FAB_VOTES_SEEN] = key;
    return false;
}

/* Ends the live key (any: of whatever state) that was used longest ago, before plan `before`; false
 * when there is none. */
static bool votes_evict(struct fab_votes *v, uint64_t before, bool any) {
    struct fab_vote_key *oldest = NULL;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++) {
        struct fab_vote_key *k = &v->keys[i];
        if ((k->state == FAB_VOTE_LIVE || (any && k->state != FAB_VOTE_FREE)) && k->used < before &&
            (oldest == NULL || k->used < oldest->used))
            oldest = k;
    }
    if (oldest == NULL)
        return false;
    v->count.evicted++;
    votes_end(v, oldest);
    return true;
}

enum gpu_graph_order fab_votes_order(struct fab_votes *v, uint64_t key, uint64_t number,
                                     uint64_t now_ns) {
    if (key == 0 || v->settings.max == 0)
        return GPU_GRAPH_NONE;
    struct fab_vote_key *k = votes_find(v, key);
    if (k != NULL) {
        k->used = number;
        if (k->state == FAB_VOTE_LIVE) {
            v->count.hits++;
            return GPU_GRAPH_LIVE;
        }
        if (k->state != FAB_VOTE_DUE)
            return GPU_GRAPH_NONE;
        k->state = FAB_VOTE_CAPTURE;
        k->yes = 0;
        k->asked = number;
        k->due_ns = now_ns + v->deadline_ns;
        return GPU_GRAPH_CAPTURE;
    }
    if (!votes_seen(v, key) || v->tight != 0 || votes_refused(v, key, number))
        return GPU_GRAPH_NONE;
    /* A key that is as busy as the new one is not thrown out for it. */
    uint64_t idle = number > v->settings.max ? number - v->settings.max : 0;
    if (fab_votes_held(v) >= v->limit && !votes_evict(v, idle, false))
        return GPU_GRAPH_NONE;
    uint32_t i = 0;
    while (v->keys[i].state != FAB_VOTE_FREE)
        i++;
    v->keys[i] = (struct fab_vote_key){.key = key,
                                       .state = FAB_VOTE_ROOM,
                                       .asked = number,
                                       .due_ns = now_ns + v->deadline_ns,
                                       .used = number};
    return GPU_GRAPH_ASK;
}

/* Fewer slots while memory is short: half of what is held, down to the floor (keeps V4). */
static void votes_tight(struct fab_votes *v, uint32_t rank) {
    v->tight |= 1u << rank;
    uint32_t held = fab_votes_held(v);
    v->limit = held / 2 > v->settings.floor ? held / 2 : v->settings.floor;
    while (fab_votes_held(v) > v->limit && votes_evict(v, UINT64_MAX, true))
        ;
}

static void votes_yes(struct fab_votes *v, struct fab_vote_key *k, uint32_t rank) {
    k->yes |= 1u << rank;
    if (k->yes != (1u << v->world) - 1)
        return;
    if (k->state == FAB_VOTE_ROOM) {
        k->state = FAB_VOTE_DUE;
        return;
    }
    k->state = FAB_VOTE_LIVE;
    v->count.live++;
}

void fab_votes_word(struct fab_votes *v, uint32_t rank, uint64_t key, uint64_t number,
                    enum gpu_graph_word word) {
    CHECK(rank < v->world);
    if (word == GPU_GRAPH_TIGHT) {
        votes_tight(v, rank);
        return;
    }
    if (word == GPU_GRAPH_EASY) {
        v->tight &= ~(1u << rank);
        if (v->tight == 0)
            v->limit = v->settings.max;
        return;
    }
    struct fab_vote_key *k = votes_find(v, key);
    /* What answers another question than the open one is of no state. */
    enum fab_vote_state state = k == NULL ? FAB_VOTE_FREE : k->state;
    if (state == FAB_VOTE_LIVE ? number <= k->asked : k != NULL && number != k->asked)
        state = FAB_VOTE_FREE;
    if (word == GPU_GRAPH_ROOM && state == FAB_VOTE_ROOM) {
        votes_yes(v, k, rank);
    } else if (word == GPU_GRAPH_CAPTURED && state == FAB_VOTE_CAPTURE) {
        votes_yes(v, k, rank);
    } else if (word == GPU_GRAPH_NO_ROOM && state == FAB_VOTE_ROOM) {
        votes_refuse(v, k, k->used + FAB_VOTES_RETRY);
    } else if (word == GPU_GRAPH_NOT_CAPTURED && state == FAB_VOTE_CAPTURE) {
        votes_refuse(v, k, UINT64_MAX);
    } else if (word == GPU_GRAPH_LOST && state == FAB_VOTE_LIVE) {
        v->count.lost++;
        votes_end(v, k);
    } else {
        v->count.stray++; /* doubled, late, or of a key that has ended */
    }
}

void fab_votes_failed(struct fab_votes *v, uint64_t number) {
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        if (asking(&v->keys[i]) && v->keys[i].asked == number)
            votes_end(v, &v->keys[i]);
}

uint64_t fab_votes_due_ns(const struct fab_votes *v) {
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        if (asking(&v->keys[i]) && v->keys[i].due_ns < due)
            due = v->keys[i].due_ns;
    return due;
}

bool fab_votes_late(struct fab_votes *v, uint64_t now_ns, struct status_note *note) {
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++) {
        struct fab_vote_key *k = &v->keys[i];
        if (!asking(k) || k->due_ns > now_ns)
            continue;
        char ranks[32] = "";
        size_t n = 0;
        for (uint32_t r = 0; r < v->world; r++)
            if ((k->yes >> r & 1) == 0)
                n += (size_t)snprintf(ranks + n, sizeof ranks - n, " %u", r);
        status_say(note, STATUS_TIMEOUT,
                   "graph %016llx stays eager: no vote on %s from rank%s within %llu ms",
                   (unsigned long long)k->key, k->state == FAB_VOTE_ROOM ? "room" : "its capture",
                   ranks, (unsigned long long)(v->deadline_ns / 1000000));
        v->count.silent++;
        votes_refuse(v, k, k->used + FAB_VOTES_RETRY);
        return true;
    }
    return false;
}

bool fab_votes_drop(struct fab_votes *v, uint64_t *key) {
    if (v->n_drops == 0)
        return false;
    *key = v->drops[0];
    v->n_drops--;
    memmove(&v->drops[0], &v->drops[1], v->n_drops * sizeof v->drops[0]);
    return true;
}

enum status fab_votes_agree(const struct gpu_graph_settings *of, uint32_t world,
                            struct status_note *note) {
    for (uint32_t r = 1; r < world; r++)
        if (of[r].max != of[0].max || of[r].floor != of[0].floor)
            return status_say(note, STATUS_DESYNC,
                              "ranks must have the same graph settings: rank 0 has --graphs %u "
                              "(floor %u), rank %u has %u (floor %u)",
                              of[0].max, of[0].floor, r, of[r].max, of[r].floor);
    return STATUS_OK;
}
