/* SPDX-License-Identifier: Apache-2.0
 * A runtime from open to close. Everything is allocated here, untouched until it is used, so that
 * large limits and short lives both cost little.
 */
#include <stdlib.h>

#include "actors/message.h"

enum { RT_NODES_MAX = ACT_INDEX_MAX - MAILBOX_REF_MIN - ACT_BACK_BATCH * ACT_WORKERS_MAX };
enum { RT_SPIN_MIN_NS = 1000000, RT_SPIN_MAX_NS = 50000000, RT_SPIN_WAKES = 512 };

void *act_alloc(struct act_rt *rt, size_t bytes) {
    if (atomic_load_explicit(&rt->started, memory_order_relaxed) != 0)
        atomic_fetch_add_explicit(&rt->allocations, 1, memory_order_relaxed);
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static enum status rt_check(const struct act_rt_config *config, struct status_note *note) {
    if (config->workers > ACT_WORKERS_SHARED_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "runtime: %u workers, at most %d",
                          config->workers, ACT_WORKERS_SHARED_MAX);
    if (config->actors_max == 0 || config->actors_max > ACT_INDEX_MAX / 4)
        return status_say(note, STATUS_BAD_REQUEST, "runtime: actors_max is %u, must be 1 to %d",
                          config->actors_max, ACT_INDEX_MAX / 4);
    uint64_t nodes = (uint64_t)config->messages_max + 2 * (uint64_t)config->actors_max +
                     (uint64_t)config->timers_max;
    if (nodes > RT_NODES_MAX)
        return status_say(note, STATUS_BAD_REQUEST,
                          "runtime: messages_max %u, timers_max %u and twice actors_max %u are "
                          "together more than %d",
                          config->messages_max, config->timers_max, config->actors_max,
                          RT_NODES_MAX);
    return STATUS_OK;
}

static enum status rt_fill(struct act_rt *rt) {
    const struct act_rt_config *config = &rt->config;
    uint32_t actors = config->actors_max, nodes = config->messages_max + 2 * actors;
    rt->tags = calloc((size_t)actors + 1, sizeof *rt->tags);
    rt->actors = act_alloc(rt, ((size_t)actors + 1) * sizeof *rt->actors);
    _Atomic uint32_t *next = act_alloc(rt, ((size_t)actors + 1) * sizeof *next);
    act_slots_init(&rt->slots, next, actors);
    _Atomic uint32_t *next_node = NULL;
    if (config->port == ACT_PORT_THREADS) {
        next_node = act_alloc(rt, ((size_t)nodes + 1) * sizeof *next_node);
        rt->foreign_nodes =
            act_alloc(rt, ((size_t)nodes + MAILBOX_REF_MIN) * sizeof(struct act_msg));
        if (next_node == NULL || rt->foreign_nodes == NULL)
            nodes = 0;
    }
    act_slots_init(&rt->foreign, next_node, nodes);
    if (rt->tags == NULL || rt->actors == NULL || next == NULL || nodes == 0)
        return STATUS_NO_MEMORY;
    atomic_init(&rt->tags[0], UINT64_MAX); /* nobody: equal to no handle */
    if (config->port == ACT_PORT_SIM)
        TRY(act_sim_open(rt));
    for (uint32_t i = 0; i < config->workers; i++) {
        rt->workers[i] = act_worker_open(rt, i, false);
        if (rt->workers[i] == NULL)
            return STATUS_NO_MEMORY;
        /* release: pairs with the acquire in watch.c and drain.c */
        atomic_store_explicit(&rt->n_workers, i + 1, memory_order_release);
    }
    return STATUS_OK;
}

enum status act_rt_open(const struct act_rt_config *config, struct act_rt **out,
                        struct status_note *note) {
    TRY(rt_check(config, note));
    struct act_rt *rt = calloc(1, sizeof *rt);
    if (rt == NULL)
        return status_say(note, STATUS_NO_MEMORY, "runtime: no memory for %zu bytes", sizeof *rt);
    rt->config = *config;
    if (rt->config.workers == 0 || config->port == ACT_PORT_SIM)
        rt->config.workers = 1;
    enum status s = rt_fill(rt);
    if (s != STATUS_OK) {
        act_rt_close(rt);
        return status_say(note, s, "runtime: no memory for %u actors and %u messages",
                          config->actors_max, config->messages_max);
    }
    if (rt->config.stop_grace_ns == 0)
        rt->config.stop_grace_ns = ACT_STOP_GRACE_NS;
    *out = rt;
    if (config->port == ACT_PORT_SIM)
        return STATUS_OK;
    rt->cores = act_port_cores();
    rt->spin_ns = config->spin_ns;
    if (rt->spin_ns == 0) {
        rt->spin_ns = RT_SPIN_WAKES * act_port_wake_cost_ns();
        rt->spin_ns = rt->spin_ns < RT_SPIN_MIN_NS ? RT_SPIN_MIN_NS : rt->spin_ns;
        rt->spin_ns = rt->spin_ns > RT_SPIN_MAX_NS ? RT_SPIN_MAX_NS : rt->spin_ns;
    }
    atomic_store_explicit(&rt->awake, (int32_t)rt->config.workers, memory_order_relaxed);
    for (uint32_t i = 1; i < rt->config.workers; i++) {
        struct act_ctx *ctx = rt->workers[i];
        ctx->threaded = act_port_thread_start(&ctx->thread, act_worker_thread, ctx);
        if (!ctx->threaded) {
            act_rt_close(rt);
            *out = NULL;
            return status_say(note, STATUS_NO_MEMORY, "runtime: worker thread %u did not start", i);
        }
    }
    return STATUS_OK;
}

void act_rt_run(struct act_rt *rt) {
    atomic_store_explicit(&rt->started, 1, memory_order_relaxed);
    if (rt->sim != NULL)
        act_sim_step(rt, 0);
    else
        act_worker_thread(rt->workers[0]);
}

static void rt_stop(struct act_rt *rt, uint32_t how) {
    /* The release pairs with the acquire in worker.c; before the wakes, see worker_park. seq_cst,
     * also below: see act_own_worker. A stop never gets milder. */
    uint32_t now = atomic_load_explicit(&rt->stopping, memory_order_relaxed);
    while (now < how && !atomic_compare_exchange_weak_explicit(
                            &rt->stopping, &now, how, memory_order_seq_cst, memory_order_relaxed))
        ;
    if (rt->sim != NULL)
        return;
    uint32_t n = atomic_load_explicit(&rt->n_workers, memory_order_seq_cst);
    for (uint32_t i = 0; i < n; i++)
        act_worker_wake(rt->workers[i]);
}

void act_rt_stop(struct act_rt *rt) {
    rt_stop(rt, ACT_STOP_ASKED);
}

void act_rt_cores_reserve(struct act_rt *rt, int delta) {
    /* relaxed: a hint, see worker_spin */
    atomic_fetch_add_explicit(&rt->awake, delta, memory_order_relaxed);
}

/* Actors that live to the end are ended here, in the order of their slots. */
static void rt_end_actors(struct act_rt *rt) {
    uint32_t fresh = atomic_load_explicit(&rt->slots.fresh, memory_order_relaxed);
    for (uint32_t slot = 1; slot < fresh; slot++) {
        struct act_actor *actor = &rt->actors[slot];
        if (!actor->alive)
            continue;
        actor->alive = false;
        if (actor->kind->ended != NULL)
            actor->kind->ended(rt, actor->state);
    }
}

void act_rt_close(struct act_rt *rt) {
    if (rt == NULL)
        return;
    rt_stop(rt, ACT_STOP_NOW);
    uint32_t n = atomic_load_explicit(&rt->n_workers, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        if (rt->workers[i]->threaded)
            act_port_thread_join(rt->workers[i]->thread);
    }
    if (rt->actors != NULL)
        rt_end_actors(rt);
    for (uint32_t i = 0; i < n; i++)
        act_worker_close(rt->workers[i]);
    act_sim_close(rt);
    free(rt->tags);
    free(rt->actors);
    free(rt->slots.next);
    free(rt->foreign.next);
    free(rt->foreign_nodes);
    free(rt);
}
