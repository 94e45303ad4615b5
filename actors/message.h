/* SPDX-License-Identifier: Apache-2.0
 * The few steps of every message, inline: take an envelope, fill it, queue it, free it. For the
 * files of this folder only; on the worker that ctx belongs to.
 */
#ifndef ACTORS_MESSAGE_H
#define ACTORS_MESSAGE_H

#include <string.h>

#include "actors/private.h"

static inline uint64_t act_clock_now(const struct act_rt *rt) {
    return rt->sim != NULL ? act_sim_now(rt) : act_port_now_ns();
}

/* The counters have one writer, so a plain add is enough; release: pairs with the acquire reads in
 * drain.c. */
static inline void act_count(_Atomic uint64_t *counter, memory_order order) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, order);
}

static inline struct act_msg *act_node_take(struct act_ctx *ctx) {
    struct act_msg *msg = ctx->pool.free;
    if (__builtin_expect(msg != NULL, 1))
        ctx->pool.free = msg->link;
    else
        msg = act_pool_refill(ctx);
    act_count(&ctx->sent, memory_order_release);
    return msg;
}

static inline void act_node_free(struct act_ctx *ctx, struct act_msg *msg) {
    uint32_t home = msg->worker >> 24;
    if (__builtin_expect(home == ctx->index, 1)) {
        msg->link = ctx->pool.free;
        ctx->pool.free = msg;
    } else {
        act_node_return_later(ctx, msg, home);
    }
    act_count(&ctx->done, memory_order_release);
}

static inline uint32_t act_node_ref(struct act_rt *rt, const struct act_msg *msg) {
    uint32_t home = msg->worker >> 24;
    const struct act_msg *base =
        home == ACT_HOME_FOREIGN ? rt->foreign_nodes : rt->workers[home]->pool.nodes;
    return home << 24 | (uint32_t)(msg - base);
}

/* Up to 40 bytes in a few moves; a call to memcpy would cost more than the rest of a send. */
static inline void act_body_copy(unsigned char *to, const void *from, size_t bytes) {
    if (bytes > 16) {
        memcpy(to, from, 16);
        if (bytes > 32)
            memcpy(to + 16, (const unsigned char *)from + 16, 16);
        memcpy(to + bytes - 16, (const unsigned char *)from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, (const unsigned char *)from + bytes - 8, 8);
    } else {
        for (size_t i = 0; i < bytes; i++)
            to[i] = ((const unsigned char *)from)[i];
    }
}

/* Last in the run queue. */
static inline void act_make_ready(struct act_ctx *ctx, struct act_actor *actor) {
    actor->queued = true;
    actor->run_next = NULL;
    if (ctx->run_head == NULL)
        ctx->run_head = actor;
    else
        ctx->run_tail->run_next = actor;
    ctx->run_tail = actor;
}

/* Puts a message into the private queue of an actor of this worker. */
static inline void act_enqueue(struct act_ctx *ctx, struct act_actor *actor, struct act_msg *msg) {
    if (__builtin_expect(ctx->sim != NULL, 0)) {
        act_sim_put(ctx, actor, msg);
        return;
    }
    unsigned urgent = msg->flags & ACT_URGENT;
    msg->link = NULL;
    if (actor->head[urgent] == NULL)
        actor->head[urgent] = msg;
    else
        actor->tail[urgent]->link = msg;
    actor->tail[urgent] = msg;
    if (!actor->queued)
        act_make_ready(ctx, actor);
}

/* An actor's turn: one or more deliveries, perhaps a batch end. */
static inline void act_turn_begin(struct act_ctx *ctx, struct act_actor *actor) {
    ctx->current = actor;
    ctx->self = actor->id;
    check_context(actor->kind->name, NULL);
}

static inline void act_turn_end(struct act_ctx *ctx) {
    ctx->current = NULL;
    ctx->self = 0;
}

/* After receive or batch_end: false when the actor ended; then its slot may serve another already.
 */
static inline bool act_lives_on(struct act_ctx *ctx, struct act_actor *actor) {
    if (__builtin_expect(!actor->exiting, 1))
        return true;
    act_actor_end(ctx, actor);
    return false;
}

/* One message; frees the envelope. False when the actor ended by it. */
static inline bool act_deliver(struct act_ctx *ctx, struct act_actor *actor, struct act_msg *msg) {
    check_here.kind = msg->kind;
    if (__builtin_expect(msg->kind > ACT_KIND_timer, 1) || act_runtime_message(ctx, actor, msg))
        actor->kind->receive(ctx, actor->state, msg);
    act_node_free(ctx, msg);
    return act_lives_on(ctx, actor);
}

/* Its mailbox ran empty. False when the actor ended by it. */
static inline bool act_batch_end(struct act_ctx *ctx, struct act_actor *actor) {
    check_here.message = "batch end";
    actor->kind->batch_end(ctx, actor->state);
    return act_lives_on(ctx, actor);
}

#endif
