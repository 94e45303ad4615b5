/* SPDX-License-Identifier: Apache-2.0
 * Two communicators a rank. Ranks meet in one whose calls return at once, so that a rank that does
 * not come is named at the deadline; but there each call costs a thread. So once all are there they
 * split off another, whose calls enqueue on the caller's thread, and work in that.
 */
#include "fabric/coll_nccl.h"

#include <stdlib.h>
#include <time.h>

#include "actors/check.h"
#include "actors/port.h"

#define NCCL_DEADLINE_NS 30000000000u

enum { NCCL_POLL_NS = 20000, NCCL_WHOLE_FLOATS = 1 << 18 };

struct nccl_rank {
    struct gpu_exchange exchange;
    struct fab_coll_nccl *of;
    struct fab_nccl_comm *meeting, *comm; /* NULL: not joined, left or ended */
    bool joined, meets;                   /* has been asked to; has */
    enum status failed;                   /* for good */
    struct status_note why;
};

struct fab_coll_nccl {
    const struct fab_nccl *nccl;
    uint32_t world;
    uint64_t deadline_ns;
    struct fab_nccl_id id;
    uint32_t failed; /* a bit a rank: the library does not tell the others of one process */
    struct nccl_rank ranks[GPU_WORLD_MAX];
};

static void nccl_end(struct nccl_rank *r) {
    if (r->comm != NULL)
        r->of->nccl->abort(r->comm);
    if (r->meeting != NULL)
        r->of->nccl->abort(r->meeting);
    r->comm = r->meeting = NULL;
}

/* The first failure stays. A communicator that is worked in ends when the rank leaves, which the
 * device does behind its graphs: until these are destroyed an abort would not come back. */
static enum status nccl_fail(struct nccl_rank *r, enum status s, const char *what, const char *why,
                             struct status_note *note) {
    if (r->failed == STATUS_OK) {
        r->failed = status_say(&r->why, s, "rank %u: NCCL, %s: %s", r->exchange.rank, what, why);
        /* nccl_state of another rank reads it; it carries nothing else */
        __atomic_fetch_or(&r->of->failed, 1u << r->exchange.rank, __ATOMIC_RELAXED);
        if (!r->meets)
            nccl_end(r);
    }
    return status_say(note, r->failed, "%s", r->why.text);
}

/* Waits until a call that gave `result` is done. */
static enum status nccl_settle(struct nccl_rank *r, struct fab_nccl_comm *comm,
                               fab_nccl_result_t result, const char *what,
                               struct status_note *note) {
    const struct fab_nccl *n = r->of->nccl;
    uint64_t until = act_port_now_ns() + r->of->deadline_ns;
    while (result == FAB_NCCL_IN_PROGRESS) {
        fab_nccl_result_t asked = n->state(comm, &result);
        if (asked != FAB_NCCL_SUCCESS)
            result = asked;
        if (result != FAB_NCCL_IN_PROGRESS)
            break;
        if (act_port_now_ns() > until)
            return nccl_fail(r, STATUS_TIMEOUT, what, "the other ranks did not come", note);
        nanosleep(&(struct timespec){.tv_nsec = NCCL_POLL_NS}, NULL);
    }
    if (result == FAB_NCCL_SUCCESS)
        return STATUS_OK;
    const char *last = n->last_error(comm);
    return nccl_fail(r, STATUS_DESYNC, what,
                     last != NULL && last[0] != '\0' ? last : n->error_text(result), note);
}

/* OK: the rank has a communicator that works. */
static enum status nccl_here(struct nccl_rank *r, const char *what, struct status_note *note) {
    if (r->failed != STATUS_OK)
        return status_say(note, r->failed, "%s", r->why.text);
    if (r->comm == NULL)
        return nccl_fail(r, STATUS_DESYNC, what, "the rank has not joined", note);
    return STATUS_OK;
}

/* What was split off stands there when it is whole, which may be later than the call is done: a
 * thread of NCCL writes it. */
static enum status nccl_appear(struct nccl_rank *r, struct status_note *note) {
    uint64_t until = act_port_now_ns() + r->of->deadline_ns;
    while (__atomic_load_n(&r->comm, __ATOMIC_ACQUIRE) == NULL) {
        fab_nccl_result_t state = FAB_NCCL_SUCCESS;
        fab_nccl_result_t asked = r->of->nccl->state(r->meeting, &state);
        if (asked != FAB_NCCL_SUCCESS ||
            (state != FAB_NCCL_SUCCESS && state != FAB_NCCL_IN_PROGRESS))
            return nccl_settle(r, r->meeting, asked != FAB_NCCL_SUCCESS ? asked : state, "joining",
                               note);
        if (act_port_now_ns() > until)
            return nccl_fail(r, STATUS_TIMEOUT, "joining", "the other ranks did not come", note);
        nanosleep(&(struct timespec){.tv_nsec = NCCL_POLL_NS}, NULL);
    }
    return nccl_settle(r, r->comm, FAB_NCCL_IN_PROGRESS, "joining", note);
}

static enum status nccl_join(void *self, struct status_note *note) {
    struct nccl_rank *r = self;
    const struct fab_nccl *n = r->of->nccl;
    struct fab_nccl_settings returns = fab_nccl_settings_of(false),
                             blocks = fab_nccl_settings_of(true);
    CHECK(!r->joined);
    r->joined = true;
    fab_nccl_result_t result =
        n->join(&r->meeting, (int)r->of->world, r->of->id, (int)r->exchange.rank, &returns);
    if (r->meeting == NULL)
        return nccl_fail(r, STATUS_DESYNC, "joining", n->error_text(result), note);
    TRY(nccl_settle(r, r->meeting, result, "joining", note));
    result = n->split(r->meeting, 0, (int)r->exchange.rank, &r->comm, &blocks);
    TRY(nccl_settle(r, r->meeting, result, "joining", note));
    TRY(nccl_appear(r, note));
    r->meets = true;
    return STATUS_OK;
}

static enum status nccl_gather(void *self, uint64_t from, uint64_t to, size_t n, void *stream,
                               struct status_note *note) {
    struct nccl_rank *r = self;
    TRY(nccl_here(r, "gathering", note));
    return nccl_settle(r, r->comm,
                       r->of->nccl->gather((const void *)(uintptr_t)from, (void *)(uintptr_t)to, n,
                                           FAB_NCCL_FLOAT, r->comm, stream),
                       "gathering", note);
}

static enum status nccl_scatter(void *self, uint64_t from, uint64_t to, size_t n, void *stream,
                                struct status_note *note) {
    struct nccl_rank *r = self;
    const struct fab_nccl *nccl = r->of->nccl;
    TRY(nccl_here(r, "scattering", note));
    fab_nccl_result_t result = nccl->group_begin(), ended;
    if (result != FAB_NCCL_SUCCESS)
        return nccl_settle(r, r->comm, result, "scattering", note);
    for (uint32_t i = 0; i < r->of->world && result == FAB_NCCL_SUCCESS; i++) {
        uint64_t at = i * n * sizeof(float);
        result = nccl->send((const void *)(uintptr_t)(from + at), n, FAB_NCCL_FLOAT, (int)i,
                            r->comm, stream);
        if (result == FAB_NCCL_SUCCESS)
            result = nccl->receive((void *)(uintptr_t)(to + at), n, FAB_NCCL_FLOAT, (int)i, r->comm,
                                   stream);
    }
    ended = nccl->group_end();
    return nccl_settle(r, r->comm, result == FAB_NCCL_SUCCESS ? ended : result, "scattering", note);
}

static enum status nccl_state(void *self, struct status_note *note) {
    struct nccl_rank *r = self;
    fab_nccl_result_t result = FAB_NCCL_SUCCESS, asked;
    TRY(nccl_here(r, "looking", note));
    uint32_t others = __atomic_load_n(&r->of->failed, __ATOMIC_RELAXED); /* nccl_fail's */
    if (others != 0)
        return nccl_fail(r, STATUS_DESYNC, "exchanging", "another rank has failed", note);
    asked = r->of->nccl->state(r->comm, &result);
    if (asked == FAB_NCCL_SUCCESS && result == FAB_NCCL_IN_PROGRESS)
        return STATUS_OK;
    return nccl_settle(r, r->comm, asked != FAB_NCCL_SUCCESS ? asked : result, "exchanging", note);
}

/* By abort also when all is well: it waits for no other rank, and nothing is under way then. */
static void nccl_leave(void *self) {
    struct nccl_rank *r = self;
    struct status_note note;
    if (r->comm == NULL)
        return;
    nccl_fail(r, STATUS_DESYNC, "exchanging", "the rank has left", &note);
    nccl_end(r);
}

enum status fab_coll_nccl_open(const struct fab_coll_nccl_config *config,
                               struct fab_coll_nccl **out, struct status_note *note) {
    uint32_t world = config->world;
    CHECK(world > 1 && world <= GPU_WORLD_MAX && (world & (world - 1)) == 0);
    struct fab_coll_nccl *c = calloc(1, sizeof *c);
    if (c == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the exchange of %u ranks", world);
    c->nccl = config->nccl;
    c->world = world;
    c->deadline_ns = config->deadline_ns != 0 ? config->deadline_ns : NCCL_DEADLINE_NS;
    if (config->id != NULL) {
        c->id = *config->id;
    } else {
        fab_nccl_result_t result = c->nccl->unique_id(&c->id);
        if (result != FAB_NCCL_SUCCESS) {
            free(c);
            return status_say(note, STATUS_UNSUPPORTED, "NCCL cannot begin: %s",
                              config->nccl->error_text(result));
        }
    }
    for (uint32_t i = 0; i < world; i++) {
        struct nccl_rank *r = &c->ranks[i];
        r->of = c;
        r->exchange = (struct gpu_exchange){
            .self = r,
            .rank = i,
            .world = world,
            .whole_floats = config->whole_floats != 0 ? config->whole_floats : NCCL_WHOLE_FLOATS,
            .join = nccl_join,
            .gather = nccl_gather,
            .scatter = nccl_scatter,
            .state = nccl_state,
            .leave = nccl_leave};
    }
    *out = c;
    return STATUS_OK;
}

void fab_coll_nccl_close(struct fab_coll_nccl *c) {
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->world; i++)
        nccl_end(&c->ranks[i]);
    free(c);
}

const struct gpu_exchange *fab_coll_nccl_rank(struct fab_coll_nccl *c, uint32_t rank) {
    CHECK(rank < c->world);
    return &c->ranks[rank].exchange;
}
