/* SPDX-License-Identifier: Apache-2.0
 * Actors: spawn, send, receive, end. What a message passes on its way is here in this order.
 */
#include "actors/actor.h"

#include <string.h>

#include "actors/message.h"
#include "actors/trace.h"

/* ---- send ---- */

static inline void act_send_flags(struct act_ctx *ctx, act_id_t to, uint16_t kind, uint16_t flags,
                                  const void *body, size_t bytes) {
    struct act_rt *rt = ctx->rt;
    uint32_t slot = (uint32_t)to;
    CHECK(bytes <= ACT_BODY_BYTES);
    CHECK(slot <= rt->config.actors_max);
    CHECK(kind >= ACT_KIND_stop);
    struct act_msg *msg = act_node_take(ctx);
    msg->from = ctx->self;
    msg->kind = kind;
    msg->flags = flags;
    act_body_copy(msg->body, body, bytes);
    /* acquire: pairs with the release in act_actor_begin; the slot's fields are written */
    uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_acquire);
    if (__builtin_expect(tag == ((to & ACT_GENERATION_MASK) | ctx->index), 1))
        act_enqueue(ctx, &rt->actors[slot], msg);
    else if ((tag ^ to) >> 32 == 0 && slot != 0)
        act_push(rt, (uint32_t)tag, to, msg);
    else
        act_letter_home(ctx, to, msg);
}

void act_send(struct act_ctx *ctx, act_id_t to, uint16_t kind, const void *body, size_t bytes) {
    act_send_flags(ctx, to, kind, 0, body, bytes);
}

void act_send_urgent(struct act_ctx *ctx, act_id_t to, uint16_t kind, const void *body,
                     size_t bytes) {
    act_send_flags(ctx, to, kind, ACT_URGENT, body, bytes);
}

void act_send_own(struct act_ctx *ctx, struct act_actor *actor, uint16_t kind, const void *body,
                  size_t bytes) {
    struct act_msg *msg = act_node_take(ctx);
    msg->from = ctx->self;
    msg->kind = kind;
    msg->flags = 0;
    act_body_copy(msg->body, body, bytes);
    act_enqueue(ctx, actor, msg);
}

void act_send_timer(struct act_ctx *ctx, const struct act_clock_timer *timer, uint64_t name) {
    struct {
        struct act_timer_msg msg;
        uint64_t name; /* for act_clock_settle; beyond what the receiver knows */
    } body = {{.cookie = timer->cookie, .deadline_ns = timer->deadline_ns}, name};
    act_send_own(ctx, &ctx->rt->actors[(uint32_t)timer->owner], ACT_KIND_timer, &body, sizeof body);
}

/* The receiver has ended: the envelope goes back to its sender as ACT_KIND_gone, or is dropped. */
void act_letter_home(struct act_ctx *ctx, act_id_t to, struct act_msg *msg) {
    act_id_t home = msg->from;
    if (to == 0 || home == 0 || msg->kind <= ACT_KIND_stop) {
        act_node_free(ctx, msg);
        return;
    }
    struct act_gone gone = {.to = to, .kind = msg->kind};
    msg->from = to;
    msg->kind = ACT_KIND_gone;
    msg->flags &= ACT_URGENT;
    memcpy(msg->body, &gone, sizeof gone);
    struct act_rt *rt = ctx->rt;
    uint32_t slot = (uint32_t)home;
    /* acquire: as in act_send_flags */
    uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_acquire);
    if (tag == ((home & ACT_GENERATION_MASK) | ctx->index))
        act_enqueue(ctx, &rt->actors[slot], msg);
    else if ((tag ^ home) >> 32 == 0)
        act_push(rt, (uint32_t)tag, home, msg);
    else
        act_node_free(ctx, msg); /* the sender has ended too */
}

/* An envelope for act_post and act_spawn; the caller is no worker. */
static struct act_msg *act_foreign_take(struct act_rt *rt, uint16_t kind, const void *body,
                                        size_t bytes) {
    CHECK(bytes <= ACT_BODY_BYTES);
    uint32_t index = act_slots_take(&rt->foreign);
    bool messages_max_is_enough = index != 0;
    CHECK(messages_max_is_enough); /* else a sender has no credit */
    /* release: pairs with the acquire in act_drain_over */
    atomic_fetch_add_explicit(&rt->posted, 1, memory_order_release);
    index += MAILBOX_REF_MIN - 1;
    struct act_msg *msg = &rt->foreign_nodes[index];
    msg->worker = (uint32_t)ACT_HOME_FOREIGN << 24;
    msg->from = 0;
    msg->kind = kind;
    msg->flags = 0;
    act_body_copy(msg->body, body, bytes);
    return msg;
}

void act_post(struct act_rt *rt, act_id_t to, uint16_t kind, const void *body, size_t bytes) {
    uint32_t slot = (uint32_t)to;
    CHECK(slot <= rt->config.actors_max);
    CHECK(kind >= ACT_KIND_stop);
    if (slot == 0)
        return;
    /* acquire: as in act_send_flags */
    uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_acquire);
    if ((tag ^ to) >> 32 != 0)
        return; /* ended, and nobody to tell */
    if (rt->sim == NULL) {
        act_push(rt, (uint32_t)tag, to, act_foreign_take(rt, kind, body, bytes));
        return;
    }
    /* One thread only: the one worker's envelopes serve, from nobody. */
    struct act_ctx *ctx = rt->workers[0];
    act_id_t self = ctx->self;
    ctx->self = 0;
    act_send_own(ctx, &rt->actors[slot], kind, body, bytes);
    ctx->self = self;
}

/* ---- receive ---- */

/* Timers may have been cancelled since they fired; who starts while the runtime stops is told at
 * once. */
bool act_runtime_message(struct act_ctx *ctx, struct act_actor *actor, const struct act_msg *msg) {
    if (msg->kind == ACT_KIND_timer) {
        uint64_t name;
        memcpy(&name, msg->body + sizeof(struct act_timer_msg), sizeof name);
        return act_clock_settle(&ctx->clock, &actor->timers, name);
    }
    if (ctx->draining && !actor->told) {
        actor->told = true;
        act_send_own(ctx, actor, ACT_KIND_stop, NULL, 0);
    }
    return true;
}

/* ---- life ---- */

/* Fills a slot that the caller took, and makes it known. Returns its handle. */
static act_id_t act_actor_begin(struct act_rt *rt, uint32_t slot, const struct act_kind *kind,
                                void *state, uint32_t worker) {
    CHECK(kind->receive != NULL);
    struct act_actor *actor = &rt->actors[slot];
    memset(actor, 0, sizeof *actor);
    actor->kind = kind;
    actor->state = state;
    actor->slot = slot;
    actor->alive = true;
    uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_relaxed);
    uint64_t generation = tag >> 32;
    if (generation == 0)
        generation = 1;
    actor->id = generation << 32 | slot;
    /* release: pairs with the acquire in act_send_flags */
    atomic_store_explicit(&rt->tags[slot], generation << 32 | worker, memory_order_release);
    atomic_fetch_add_explicit(&rt->live, 1, memory_order_relaxed);
    return actor->id;
}

act_id_t act_spawn_here(struct act_ctx *ctx, const struct act_kind *kind, void *state) {
    struct act_rt *rt = ctx->rt;
    uint32_t slot = act_slots_take(&rt->slots);
    if (slot == 0)
        return 0;
    act_id_t id = act_actor_begin(rt, slot, kind, state, ctx->index);
    struct act_actor *actor = &rt->actors[slot];
    if (ctx->sim != NULL)
        act_sim_spawned(ctx, actor);
    if (ctx->own)
        /* relaxed: only the fall to 0 is waited for, see act_actor_end */
        atomic_fetch_add_explicit(&ctx->occupied, 1, memory_order_relaxed);
    act_send_own(ctx, actor, ACT_KIND_start, NULL, 0);
    return id;
}

/* A worker without an actor for one that wants a thread; opens one when all are taken. NULL: no
 * more threads. */
static struct act_ctx *act_own_worker(struct act_rt *rt) {
    /* A short spin is all the lock that starting a thread needs. acquire/release: pair with each
     * other. */
    while (atomic_exchange_explicit(&rt->growing, 1, memory_order_acquire) != 0)
        act_stall();
    struct act_ctx *found = NULL;
    /* relaxed: nobody starts a thread while another closes; `ended` may try */
    bool closing = atomic_load_explicit(&rt->stopping, memory_order_relaxed) == ACT_STOP_NOW;
    uint32_t n = closing ? 0 : atomic_load_explicit(&rt->n_workers, memory_order_relaxed);
    for (uint32_t i = rt->config.workers; i < n && found == NULL; i++) {
        /* acquire: pairs with the release in act_actor_end; its last actor is done with the worker
         */
        if (atomic_load_explicit(&rt->workers[i]->occupied, memory_order_acquire) == 0)
            found = rt->workers[i];
    }
    if (found == NULL && !closing && n < rt->config.workers + ACT_WORKERS_OWN_MAX &&
        (found = act_worker_open(rt, n, true)) != NULL) {
        rt->workers[n] = found;
        found->threaded = act_port_thread_start(&found->thread, act_worker_thread, found);
        if (found->threaded) {
            atomic_fetch_add_explicit(&rt->awake, 1, memory_order_relaxed);
            /* The release pairs with the acquire in watch.c and drain.c. seq_cst, here and in
             * rt_stop: a stop that did not count this worker yet is seen here, and it is woken. */
            atomic_store_explicit(&rt->n_workers, n + 1, memory_order_seq_cst);
            if (atomic_load_explicit(&rt->stopping, memory_order_seq_cst) != ACT_STOP_NOT)
                act_worker_wake(found);
        } else {
            act_worker_close(found);
            rt->workers[n] = found = NULL;
        }
    }
    if (found != NULL)
        atomic_store_explicit(&found->occupied, 1, memory_order_relaxed);
    atomic_store_explicit(&rt->growing, 0, memory_order_release);
    return found;
}

act_id_t act_spawn(struct act_rt *rt, const struct act_kind *kind, void *state, int worker) {
    CHECK(worker == ACT_OWN_THREAD || (worker >= 0 && (uint32_t)worker < rt->config.workers));
    uint32_t slot = act_slots_take(&rt->slots);
    if (slot == 0)
        return 0;
    struct act_ctx *ctx = rt->workers[0];
    if (rt->sim == NULL) {
        ctx = worker == ACT_OWN_THREAD ? act_own_worker(rt) : rt->workers[worker];
        if (ctx == NULL) {
            rt->actors[slot].alive = false;
            act_slots_put(&rt->slots, slot);
            return 0;
        }
    }
    act_id_t id = act_actor_begin(rt, slot, kind, state, ctx->index);
    if (rt->sim != NULL) {
        act_sim_spawned(ctx, &rt->actors[slot]);
        act_send_own(ctx, &rt->actors[slot], ACT_KIND_start, NULL, 0);
    } else {
        act_push(rt, ctx->index, id, act_foreign_take(rt, ACT_KIND_start, NULL, 0));
    }
    return id;
}

void act_exit(struct act_ctx *ctx) {
    CHECK(ctx->current != NULL);
    ctx->current->exiting = true;
}

void act_actor_end(struct act_ctx *ctx, struct act_actor *actor) {
    struct act_rt *rt = ctx->rt;
    const struct act_kind *kind = actor->kind;
    void *state = actor->state;
    act_id_t id = actor->id;
    CHECK(actor->alive);
    actor->alive = false;
    /* release: a sender that still sees the old generation is answered by its letter coming home */
    uint64_t generation = (id >> 32) + 1;
    if (generation > UINT32_MAX)
        generation = 1;
    atomic_store_explicit(&rt->tags[actor->slot], generation << 32 | ACT_WORKER_NONE,
                          memory_order_release);
    if (ctx->sim != NULL)
        act_sim_ended(ctx, actor);
    act_clock_cancel_all(&ctx->clock, &actor->timers);
    for (int urgent = 1; urgent >= 0; urgent--) {
        struct act_msg *msg = actor->head[urgent];
        actor->head[urgent] = NULL;
        while (msg != NULL) {
            struct act_msg *next = msg->link;
            act_letter_home(ctx, id, msg);
            msg = next;
        }
    }
    if (kind->ended != NULL)
        kind->ended(rt, state);
    act_slots_put(&rt->slots, actor->slot);
    if (ctx->own)
        /* release: pairs with the acquire in act_own_worker */
        atomic_fetch_sub_explicit(&ctx->occupied, 1, memory_order_release);
    /* release: pairs with the acquire in act_drain_over */
    atomic_fetch_sub_explicit(&rt->live, 1, memory_order_release);
}

/* ---- what an actor may ask ---- */

act_id_t act_self(const struct act_ctx *ctx) {
    return ctx->self;
}

struct act_rt *act_rt_of(const struct act_ctx *ctx) {
    return ctx->rt;
}

uint64_t act_now_ns(const struct act_ctx *ctx) {
    return act_clock_now(ctx->rt);
}

uint64_t act_rt_now_ns(const struct act_rt *rt) {
    return act_clock_now(rt);
}

uint64_t act_timer_arm(struct act_ctx *ctx, uint64_t after_ns, uint64_t cookie) {
    CHECK(ctx->current != NULL);
    uint64_t now = act_clock_now(ctx->rt);
    uint64_t deadline = after_ns < UINT64_MAX - 1 - now ? now + after_ns : UINT64_MAX - 1;
    uint64_t timer = act_clock_arm(&ctx->clock, ctx->self, &ctx->current->timers, deadline, cookie);
    bool timers_max_is_enough = timer != 0;
    CHECK(timers_max_is_enough);
    if (ctx->draining)
        /* relaxed: one writer; read with the counters of act_drain_over */
        atomic_fetch_add_explicit(&ctx->late_timers, 1, memory_order_relaxed);
    return timer;
}

void act_timer_cancel(struct act_ctx *ctx, uint64_t timer) {
    CHECK(ctx->current != NULL);
    act_clock_cancel(&ctx->clock, ctx->self, &ctx->current->timers, timer);
}

void act_expect(struct act_ctx *ctx, int delta) {
    ctx->expected_here += delta;
    CHECK(ctx->expected_here >= 0);
    /* relaxed: read by act_drain_over together with the counters that order it */
    atomic_store_explicit(&ctx->expected, ctx->expected_here, memory_order_relaxed);
}
