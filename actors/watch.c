/* SPDX-License-Identifier: Apache-2.0
 * What anybody may read of a runtime while it runs. The age of a receive call is exact to
 * ACT_CLOCK_EVERY turns: the worker looks at the clock that often, and whenever it was idle.
 */
#include "actors/message.h"

void act_rt_stats(const struct act_rt *rt, struct act_rt_stats *out) {
    *out = (struct act_rt_stats){0};
    /* acquire: pairs with the release that published the worker */
    uint32_t n = atomic_load_explicit(&rt->n_workers, memory_order_acquire);
    /* relaxed from here on: numbers for people; each is right by itself */
    uint64_t done = atomic_load_explicit(&rt->posted_done, memory_order_relaxed);
    uint64_t now = act_clock_now(rt);
    for (uint32_t i = 0; i < n; i++) {
        struct act_ctx *ctx = rt->workers[i];
        out->messages += atomic_load_explicit(&ctx->done, memory_order_relaxed);
        out->parks += atomic_load_explicit(&ctx->parks, memory_order_relaxed);
        out->wakes += atomic_load_explicit(&ctx->wakes, memory_order_relaxed);
        out->looks += atomic_load_explicit(&ctx->looks, memory_order_relaxed);
        const struct act_kind *kind = atomic_load_explicit(&ctx->running, memory_order_relaxed);
        uint64_t stamp = atomic_load_explicit(&ctx->stamp_ns, memory_order_relaxed);
        if (kind != NULL && now > stamp && now - stamp > out->oldest_batch_ns) {
            out->oldest_batch_ns = now - stamp;
            out->oldest_actor = kind->name;
        }
    }
    done += out->messages;
    uint64_t sent = atomic_load_explicit(&rt->posted, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        sent += atomic_load_explicit(&rt->workers[i]->sent, memory_order_relaxed);
    out->messages_in_flight = sent > done ? (uint32_t)(sent - done) : 0;
    out->actors_live = atomic_load_explicit(&rt->live, memory_order_relaxed);
    out->allocations_after_start = atomic_load_explicit(&rt->allocations, memory_order_relaxed);
}
