/* SPDX-License-Identifier: Apache-2.0
 * The deterministic simulation: one thread, virtual time, and a seeded scheduler that decides which
 * actor receives which of its waiting messages next. Everything else (send, receive, timers, end,
 * stop) is the code that threads run.
 *
 * S1  Messages of one sender to one receiver keep their order within a priority; all others may
 *     come in any order.
 * S2  Equal seeds and equal programs give equal traces: no decision reads a pointer, an address or
 *     the real clock.
 * S3  Virtual time moves SIM_STEP_NS a delivery, and jumps to the next timer when no message is
 *     left.
 */
#include <stdio.h>
#include <stdlib.h>

#include "actors/message.h"
#include "actors/trace.h"

enum {
    SIM_START_NS = 1000,
    SIM_STEP_NS = 50,
    SIM_WINDOW = 32, /* how far a message may overtake others of the same receiver at one pick */
    SIM_POINTS_MAX = 64,
    SIM_POINT_NAME = 48,
    SIM_URGENT_LATE = 8 /* one in so many picks an urgent message comes after a normal one */
};

struct sim_point {
    char name[SIM_POINT_NAME];
    uint32_t arm, fire; /* per million */
    uint64_t burst_ns, until_ns;
};

struct sim_ready {
    uint64_t priority; /* of priority-change scheduling */
    uint32_t slot;
};

struct act_sim {
    uint64_t order_rng, choice_rng, fault_rng;
    uint64_t now_ns, digest, deliveries;
    uint64_t faults_until_ns;
    uint64_t change_at, change_mean, lowest; /* priority-change scheduler */
    struct sim_ready *ready;                 /* actors with mail */
    uint32_t n_ready, n_points;
    bool priority, over;
    FILE *print;
    struct sim_point points[SIM_POINTS_MAX];
};

/* splitmix64: three streams, so that one more choice does not reshuffle the rest of a run. */
static inline uint64_t sim_draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t sim_below(uint64_t *state, uint64_t n) {
    return (uint64_t)(((unsigned __int128)sim_draw(state) * n) >> 64);
}

static inline void sim_digest(struct act_sim *sim, uint64_t value) {
    uint64_t h = (sim->digest ^ value) * 0x9fb21c651e98df25u;
    sim->digest = h ^ (h >> 35);
}

enum status act_sim_open(struct act_rt *rt) {
    struct act_sim *sim = act_alloc(rt, sizeof *sim);
    if (sim == NULL)
        return STATUS_NO_MEMORY;
    memset(sim, 0, offsetof(struct act_sim, points));
    rt->sim = sim;
    sim->ready = act_alloc(rt, rt->config.actors_max * sizeof *sim->ready);
    if (sim->ready == NULL)
        return STATUS_NO_MEMORY;
    uint64_t seed = rt->config.seed;
    sim->order_rng = sim_draw(&seed);
    sim->choice_rng = sim_draw(&seed);
    sim->fault_rng = sim_draw(&seed);
    sim->now_ns = SIM_START_NS;
    sim->faults_until_ns = UINT64_MAX;
    sim->priority = rt->config.sim_priority;
    static const uint16_t means[] = {4, 16, 64, 256};
    sim->change_mean = means[sim_below(&sim->order_rng, 4)];
    sim->change_at = 1 + sim_below(&sim->order_rng, 2 * sim->change_mean);
    sim->lowest = UINT64_C(1) << 62;
    return STATUS_OK;
}

void act_sim_close(struct act_rt *rt) {
    if (rt->sim == NULL)
        return;
    free(rt->sim->ready);
    free(rt->sim);
    rt->sim = NULL;
}

uint64_t act_sim_now(const struct act_rt *rt) {
    return rt->sim->now_ns;
}

void act_sim_spawned(struct act_ctx *ctx, struct act_actor *actor) {
    if (ctx->sim->priority) /* above all that was ever lowered */
        actor->priority = sim_draw(&ctx->sim->order_rng) | UINT64_C(1) << 63;
}

/* ---- waiting messages ---- */

static void sim_unready(struct act_ctx *ctx, struct act_actor *actor) {
    struct act_sim *sim = ctx->sim;
    struct sim_ready last = sim->ready[--sim->n_ready];
    sim->ready[actor->ready_at] = last;
    ctx->rt->actors[last.slot].ready_at = actor->ready_at;
}

void act_sim_ended(struct act_ctx *ctx, struct act_actor *actor) {
    if (actor->waiting[0] + actor->waiting[1] > 0)
        sim_unready(ctx, actor);
    actor->waiting[0] = actor->waiting[1] = 0;
}

void act_sim_put(struct act_ctx *ctx, struct act_actor *actor, struct act_msg *msg) {
    struct act_sim *sim = ctx->sim;
    unsigned urgent = msg->flags & ACT_URGENT;
    msg->link = NULL;
    if (actor->head[urgent] == NULL)
        actor->head[urgent] = msg;
    else
        actor->tail[urgent]->link = msg;
    actor->tail[urgent] = msg;
    if (actor->waiting[0] + actor->waiting[1] == 0) {
        actor->ready_at = sim->n_ready;
        sim->ready[sim->n_ready++] = (struct sim_ready){actor->priority, actor->slot};
    }
    actor->waiting[urgent]++;
}

/* Takes one message of the actor: any of the first few, but of its sender the oldest (S1). */
static struct act_msg *sim_take(struct act_ctx *ctx, struct act_actor *actor) {
    struct act_sim *sim = ctx->sim;
    unsigned urgent = actor->waiting[1] > 0;
    if (urgent && actor->waiting[0] > 0 && sim_below(&sim->order_rng, SIM_URGENT_LATE) == 0)
        urgent = 0;
    uint32_t n = actor->waiting[urgent] < SIM_WINDOW ? actor->waiting[urgent] : SIM_WINDOW;
    uint64_t skip = n > 1 ? sim_below(&sim->order_rng, n) : 0;
    struct act_msg *pick = actor->head[urgent], *before = NULL;
    if (skip > 0) {
        struct act_msg *far = pick;
        for (uint64_t i = 0; i < skip; i++)
            far = far->link;
        for (; pick->from != far->from; pick = pick->link)
            before = pick;
    }
    if (before == NULL)
        actor->head[urgent] = pick->link;
    else
        before->link = pick->link;
    if (actor->tail[urgent] == pick)
        actor->tail[urgent] = before;
    actor->waiting[urgent]--;
    if (actor->waiting[0] + actor->waiting[1] == 0)
        sim_unready(ctx, actor);
    return pick;
}

/* ---- the scheduler ---- */

static struct act_actor *sim_pick(struct act_ctx *ctx) {
    struct act_sim *sim = ctx->sim;
    struct act_actor *actors = ctx->rt->actors;
    if (!sim->priority) {
        uint64_t at = sim->n_ready > 1 ? sim_below(&sim->order_rng, sim->n_ready) : 0;
        return &actors[sim->ready[at].slot];
    }
    uint32_t at = 0;
    for (uint32_t i = 1; i < sim->n_ready; i++)
        at = sim->ready[i].priority > sim->ready[at].priority ? i : at;
    struct act_actor *best = &actors[sim->ready[at].slot];
    if (sim->deliveries >= sim->change_at) { /* from now on it comes after all others */
        best->priority = sim->ready[at].priority = --sim->lowest;
        sim->change_at = sim->deliveries + 1 + sim_below(&sim->order_rng, 2 * sim->change_mean);
    }
    return best;
}

static void sim_fire(struct act_ctx *ctx) {
    const struct act_clock_timer *timer;
    uint64_t name;
    while ((name = act_clock_fire(&ctx->clock, ctx->sim->now_ns, &timer)) != 0)
        act_send_timer(ctx, timer, name);
}

static void sim_print(struct act_sim *sim, const struct act_actor *actor,
                      const struct act_msg *msg) {
    fprintf(sim->print, "%llu %s#%u %s from #%u\n", (unsigned long long)sim->now_ns,
            actor->kind->name, actor->slot, act_trace_name(msg->kind), (uint32_t)msg->from);
}

/* One delivery; false when nothing is left to do. */
static bool sim_deliver(struct act_ctx *ctx) {
    struct act_sim *sim = ctx->sim;
    uint64_t next = act_clock_next(&ctx->clock);
    if (sim->n_ready == 0) {
        if (next == UINT64_MAX)
            return false;
        if (next > sim->now_ns)
            sim->now_ns = next;
    }
    if (next <= sim->now_ns)
        sim_fire(ctx);
    struct act_actor *actor = sim_pick(ctx);
    struct act_msg *msg = sim_take(ctx, actor);
    sim->deliveries++;
    sim->now_ns += SIM_STEP_NS;
    sim_digest(sim, (uint64_t)actor->slot << 32 | (uint32_t)msg->from);
    sim_digest(sim, (uint64_t)msg->kind << 48 ^ sim->now_ns);
    if (sim->print != NULL)
        sim_print(sim, actor, msg);
    act_turn_begin(ctx, actor);
    if (act_deliver(ctx, actor, msg) && actor->kind->batch_end != NULL &&
        actor->waiting[0] + actor->waiting[1] == 0)
        act_batch_end(ctx, actor);
    act_turn_end(ctx);
    return true;
}

bool act_sim_step(struct act_rt *rt, uint64_t max_messages) {
    struct act_sim *sim = rt->sim;
    CHECK(sim != NULL);
    struct act_ctx *ctx = rt->workers[0];
    for (uint64_t i = 0; max_messages == 0 || i < max_messages; i++) {
        if (sim->over)
            return false;
        if (atomic_load_explicit(&rt->stopping, memory_order_relaxed) != ACT_STOP_NOT) {
            if (!ctx->draining)
                act_drain_begin(ctx);
            sim->over = act_drain_over(rt, sim->now_ns);
            if (sim->over)
                return false;
        }
        if (!sim_deliver(ctx)) {
            check_context(NULL, "none");
            return false;
        }
    }
    return !sim->over && (sim->n_ready > 0 || act_clock_next(&ctx->clock) != UINT64_MAX);
}

/* ---- choices and faults ---- */

uint64_t act_choose(struct act_ctx *ctx, uint64_t n) {
    if (ctx->sim == NULL || n < 2)
        return 0;
    uint64_t choice = sim_below(&ctx->sim->choice_rng, n);
    sim_digest(ctx->sim, choice);
    return choice;
}

static struct sim_point *sim_point_find(struct act_sim *sim, const char *point) {
    for (uint32_t i = 0; i < sim->n_points; i++) {
        if (strcmp(sim->points[i].name, point) == 0)
            return &sim->points[i];
    }
    return NULL;
}

static bool sim_per_million(struct act_sim *sim, uint32_t chance) {
    return chance > 0 && sim_below(&sim->fault_rng, 1000000) < chance;
}

bool act_fault(struct act_ctx *ctx, const char *point) {
    struct act_sim *sim = ctx->sim;
    if (sim == NULL || sim->n_points == 0 || sim->now_ns > sim->faults_until_ns)
        return false;
    struct sim_point *p = sim_point_find(sim, point);
    if (p == NULL)
        return false;
    if (sim->now_ns >= p->until_ns) {
        if (!sim_per_million(sim, p->arm))
            return false;
        p->until_ns = sim->now_ns + p->burst_ns;
    }
    bool fires = sim_per_million(sim, p->fire);
    sim_digest(sim, fires);
    return fires;
}

void act_sim_fault_set(struct act_rt *rt, const char *point, uint32_t per_million_arm,
                       uint64_t burst_ns, uint32_t per_million_fire) {
    struct act_sim *sim = rt->sim;
    if (sim == NULL)
        return;
    struct sim_point *p = sim_point_find(sim, point);
    if (p == NULL) {
        CHECK(sim->n_points < SIM_POINTS_MAX);
        CHECK(strlen(point) < SIM_POINT_NAME);
        p = &sim->points[sim->n_points++];
        memcpy(p->name, point, strlen(point) + 1);
        p->until_ns = 0;
    }
    p->arm = per_million_arm;
    p->burst_ns = burst_ns;
    p->fire = per_million_fire;
}

void act_sim_faults_until(struct act_rt *rt, uint64_t virtual_ns) {
    if (rt->sim != NULL)
        rt->sim->faults_until_ns = virtual_ns;
}

uint64_t act_sim_trace(const struct act_rt *rt) {
    return rt->sim != NULL ? rt->sim->digest : 0;
}

void act_sim_trace_print(struct act_rt *rt, FILE *out) {
    if (rt->sim != NULL)
        rt->sim->print = out;
}
