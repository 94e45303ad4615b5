/* SPDX-License-Identifier: Apache-2.0
 * A worker: takes its inbox, gives its actors their turns, fires its timers, sleeps. One thread
 * runs it from open to the end of the stop.
 */
#include <stdlib.h>

#include "actors/message.h"

enum {
    WORKER_SPIN_LOOKS = 64,      /* looks at the inbox between two looks at the clock */
    WORKER_SPIN_GAP_NS = 200000, /* a longer gap while spinning: somebody else needs this core, */
    WORKER_SPIN_REST_NS = 50000000, /* so no spinning for as long as this */
    WORKER_FIRES = 64               /* timers fired at one look at the clock */
};

struct act_ctx *act_worker_open(struct act_rt *rt, uint32_t index, bool own) {
    struct act_ctx *ctx = act_alloc(rt, sizeof *ctx);
    if (ctx == NULL)
        return NULL;
    memset(ctx, 0, sizeof *ctx);
    ctx->rt = rt;
    ctx->sim = rt->sim;
    ctx->index = index;
    ctx->own = own;
    ctx->since_clock = ACT_CLOCK_EVERY;
    act_mailbox_init(&ctx->box);
    const struct act_rt_config *config = &rt->config;
    /* The runtime's own messages need room beside the user's: a start and a stop an actor, one a
     * timer. */
    uint32_t nodes = config->messages_max + 2 * config->actors_max + config->timers_max;
    if (rt->sim == NULL) /* what the other workers keep back */
        nodes += ACT_BACK_BATCH * ACT_WORKERS_MAX;
    if (act_pool_open(&ctx->pool, nodes) != STATUS_OK ||
        act_clock_open(&ctx->clock, config->timers_max) != STATUS_OK) {
        act_worker_close(ctx);
        return NULL;
    }
    return ctx;
}

void act_worker_close(struct act_ctx *ctx) {
    act_pool_close(&ctx->pool);
    act_clock_close(&ctx->clock);
    free(ctx);
}

/* ---- inbox ---- */

/* Slot and generation travel beside the envelope: slot in worker, generation in the link's high
 * half. */
static inline void act_link(void *envelope, uint32_t before) {
    struct act_msg *msg = envelope;
    msg->link = (void *)(((uintptr_t)msg->link & ACT_GENERATION_MASK) | before);
}

void act_worker_wake(struct act_ctx *ctx) {
    act_mailbox_wake_note(&ctx->box);
    act_port_wake(&ctx->box.parks);
}

void act_push(struct act_rt *rt, uint32_t worker, act_id_t to, struct act_msg *msg) {
    struct act_ctx *ctx = rt->workers[worker];
    uint32_t home = msg->worker >> 24;
    uint32_t ref = act_node_ref(rt, msg);
    msg->worker = home << 24 | (uint32_t)to;
    msg->link = (void *)(uintptr_t)(to & ACT_GENERATION_MASK);
    switch (act_mailbox_push(&ctx->box, ref, msg, act_link)) {
    case MAILBOX_PUSHED:
        break;
    case MAILBOX_PUSHED_WAKE:
        atomic_fetch_add_explicit(&ctx->wakes, 1, memory_order_relaxed);
        act_worker_wake(ctx);
        break;
    case MAILBOX_REFUSED: /* that worker has left: the runtime stops */
        act_node_return(rt, msg, home);
        atomic_fetch_add_explicit(&rt->posted_done, 1, memory_order_release);
        break;
    }
}

/* Turns a chain, newest first, around; links stay references, as the high halves hold generations.
 */
static uint32_t worker_reverse(struct act_rt *rt, uint32_t ref) {
    uint32_t before = 0;
    while (ref != 0) {
        struct act_msg *msg = act_node_of(rt, ref);
        uint32_t next = (uint32_t)(uintptr_t)msg->link;
        act_link(msg, before);
        before = ref;
        ref = next;
    }
    return before;
}

static void worker_take(struct act_ctx *ctx) {
    struct act_rt *rt = ctx->rt;
    uint32_t ref = worker_reverse(rt, act_mailbox_take(&ctx->box));
    while (ref != 0) {
        struct act_msg *msg = act_node_of(rt, ref);
        uintptr_t link = (uintptr_t)msg->link;
        uint32_t slot = msg->worker & 0xffffff;
        ref = (uint32_t)link;
        /* acquire: pairs with act_actor_begin, for a slot that an outside thread filled */
        uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_acquire);
        if (tag == ((link & ACT_GENERATION_MASK) | ctx->index))
            act_enqueue(ctx, &rt->actors[slot], msg);
        else
            act_letter_home(ctx, (link & ACT_GENERATION_MASK) | slot, msg);
    }
}

/* ---- turns ---- */

static inline struct act_msg *worker_next(struct act_actor *actor) {
    unsigned urgent = actor->head[1] != NULL;
    struct act_msg *msg = actor->head[urgent];
    if (msg != NULL)
        actor->head[urgent] = msg->link;
    return msg;
}

/* The actor's messages, at most ACT_BATCH. False when it ended. */
static inline bool worker_batch(struct act_ctx *ctx, struct act_actor *actor) {
    for (int i = 0; i < ACT_BATCH; i++) {
        struct act_msg *msg = worker_next(actor);
        if (msg == NULL)
            break;
        if (!act_deliver(ctx, actor, msg))
            return false;
    }
    return actor->kind->batch_end == NULL || actor->head[0] != NULL || actor->head[1] != NULL ||
           act_batch_end(ctx, actor);
}

static void worker_turn(struct act_ctx *ctx) {
    struct act_actor *actor = ctx->run_head;
    ctx->run_head = actor->run_next;
    /* relaxed: a name for watch.c */
    atomic_store_explicit(&ctx->running, actor->kind, memory_order_relaxed);
    act_turn_begin(ctx, actor);
    bool lives = worker_batch(ctx, actor);
    act_turn_end(ctx);
    if (!lives)
        return;
    actor->queued = false;
    if (actor->head[0] != NULL || actor->head[1] != NULL)
        act_make_ready(ctx, actor);
}

/* ---- time ---- */

static void worker_fire(struct act_ctx *ctx, uint64_t now_ns) {
    const struct act_clock_timer *timer;
    uint64_t name;
    for (int i = 0; i < WORKER_FIRES; i++) {
        if ((name = act_clock_fire(&ctx->clock, now_ns, &timer)) == 0)
            break;
        act_send_timer(ctx, timer, name);
    }
}

/* Every so many turns, and when there are none. True when it is time to leave. */
static bool worker_look(struct act_ctx *ctx) {
    ctx->since_clock = ACT_CLOCK_EVERY;
    uint64_t now = act_port_now_ns();
    atomic_store_explicit(&ctx->stamp_ns, now, memory_order_relaxed);
    act_back_flush(ctx);
    worker_fire(ctx, now);
    /* acquire: pairs with the release in act_rt_stop */
    uint32_t stopping = atomic_load_explicit(&ctx->rt->stopping, memory_order_acquire);
    if (__builtin_expect(stopping == ACT_STOP_NOT, 1))
        return false;
    if (stopping == ACT_STOP_NOW)
        return true;
    if (!ctx->draining)
        act_drain_begin(ctx);
    return act_drain_over(ctx->rt, now);
}

/* ---- sleep ---- */

/* Waits awake for what is expected; true when there is mail. */
static bool worker_spin(struct act_ctx *ctx) {
    struct act_rt *rt = ctx->rt;
    uint64_t last = act_port_now_ns(), end = last + rt->spin_ns;
    if (last < ctx->spin_after_ns)
        return false;
    uint64_t next = act_clock_next(&ctx->clock);
    for (;;) {
        /* relaxed: a hint; who is wrong about it sleeps or spins a little too long */
        int32_t awake = atomic_load_explicit(&rt->awake, memory_order_relaxed);
        if (awake > (int32_t)rt->cores ||
            atomic_load_explicit(&rt->stopping, memory_order_relaxed) != ACT_STOP_NOT)
            return false;
        for (int i = 0; i < WORKER_SPIN_LOOKS; i++) {
            if (act_mailbox_has(&ctx->box))
                return true;
            act_stall();
        }
        act_count(&ctx->looks, memory_order_relaxed);
        act_port_yield();
        uint64_t now = act_port_now_ns();
        if (now - last > WORKER_SPIN_GAP_NS) {
            ctx->spin_after_ns = now + WORKER_SPIN_REST_NS;
            return false;
        }
        if (now >= end || now >= next)
            return false;
        last = now;
    }
}

static void worker_park(struct act_ctx *ctx) {
    struct act_rt *rt = ctx->rt;
    uint32_t sample;
    if (!act_mailbox_park(&ctx->box, &sample))
        return;
    /* After the sample: a stop that came before it is seen here, one that comes later moves the
     * counter. acquire: pairs with the release in act_rt_stop. */
    uint32_t stopping = atomic_load_explicit(&rt->stopping, memory_order_acquire);
    uint64_t deadline = act_clock_next(&ctx->clock);
    if (stopping != ACT_STOP_NOT) {
        uint64_t poll = act_port_now_ns() + ACT_STOP_POLL_NS;
        deadline = deadline < poll ? deadline : poll;
    }
    if (stopping == ACT_STOP_NOT || (stopping == ACT_STOP_ASKED && ctx->draining)) {
        act_count(&ctx->parks, memory_order_relaxed);
        /* relaxed: see worker_spin */
        atomic_fetch_sub_explicit(&rt->awake, 1, memory_order_relaxed);
        act_port_wait(&ctx->box.parks, sample, deadline);
        atomic_fetch_add_explicit(&rt->awake, 1, memory_order_relaxed);
    }
    act_mailbox_park_unmark(&ctx->box);
}

static void worker_idle(struct act_ctx *ctx) {
    check_context(NULL, "none");
    atomic_store_explicit(&ctx->running, NULL, memory_order_relaxed);
    act_count(&ctx->looks, memory_order_relaxed);
    if (ctx->expected_here == 0 || !worker_spin(ctx))
        worker_park(ctx);
    atomic_store_explicit(&ctx->stamp_ns, act_port_now_ns(), memory_order_relaxed);
}

/* Counts what is dropped, so that the others see the end too. */
static void worker_leave(struct act_ctx *ctx) {
    uint32_t ref = act_mailbox_close(&ctx->box);
    while (ref != 0) {
        struct act_msg *msg = act_node_of(ctx->rt, ref);
        ref = (uint32_t)(uintptr_t)msg->link;
        act_node_free(ctx, msg);
    }
    act_back_flush(ctx);
    atomic_store_explicit(&ctx->running, NULL, memory_order_relaxed);
    check_context(NULL, "none");
}

void *act_worker_thread(void *arg) {
    struct act_ctx *ctx = arg;
    for (;;) {
        if (act_mailbox_has(&ctx->box))
            worker_take(ctx);
        if (ctx->run_head != NULL) {
            if (--ctx->since_clock == 0 && worker_look(ctx))
                break;
            worker_turn(ctx);
        } else {
            if (worker_look(ctx))
                break;
            if (ctx->run_head == NULL)
                worker_idle(ctx);
        }
    }
    worker_leave(ctx);
    return NULL;
}
