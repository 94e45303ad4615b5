/* SPDX-License-Identifier: Apache-2.0
 * The orderly stop. Each worker sends ACT_KIND_stop to its actors and goes on; all leave when no
 * actor lives, or when nothing is left that could happen: no message under way, nothing expected,
 * no timer armed since the stop. An actor that needs time to end arms a timer or holds an
 * expectation; all together have stop_grace_ns.
 */
#include "actors/message.h"

void act_drain_begin(struct act_ctx *ctx) {
    struct act_rt *rt = ctx->rt;
    ctx->draining = true;
    uint64_t none = 0, by = act_clock_now(rt) + rt->config.stop_grace_ns;
    atomic_compare_exchange_strong_explicit(&rt->stop_by_ns, &none, by, memory_order_relaxed,
                                            memory_order_relaxed);
    uint32_t fresh = atomic_load_explicit(&rt->slots.fresh, memory_order_relaxed);
    for (uint32_t slot = 1; slot < fresh && slot <= rt->config.actors_max; slot++) {
        /* acquire: pairs with the release in act_actor_begin */
        uint64_t tag = atomic_load_explicit(&rt->tags[slot], memory_order_acquire);
        struct act_actor *actor = &rt->actors[slot];
        if ((uint32_t)tag != ctx->index || tag >> 32 == 0 || actor->told)
            continue;
        actor->told = true;
        act_send_own(ctx, actor, ACT_KIND_stop, NULL, 0);
    }
    /* release: pairs with the acquire in act_drain_over; the stops are counted as sent */
    atomic_fetch_add_explicit(&rt->draining, 1, memory_order_release);
}

/* Reads what is done before what was sent: sums that are equal were equal at the moment between the
 * two, since neither ever falls and nothing is done before it was sent. */
bool act_drain_over(struct act_rt *rt, uint64_t now_ns) {
    uint64_t by = atomic_load_explicit(&rt->stop_by_ns, memory_order_relaxed);
    if (by != 0 && now_ns >= by)
        return true;
    /* acquire, here and below: pairs with the releases of the counters' writers */
    uint32_t n = atomic_load_explicit(&rt->n_workers, memory_order_acquire);
    if (atomic_load_explicit(&rt->draining, memory_order_acquire) < n)
        return false;
    if (atomic_load_explicit(&rt->live, memory_order_acquire) == 0)
        return true;
    uint64_t done = atomic_load_explicit(&rt->posted_done, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        done += atomic_load_explicit(&rt->workers[i]->done, memory_order_acquire);
    int64_t held = 0;
    for (uint32_t i = 0; i < n; i++)
        held += atomic_load_explicit(&rt->workers[i]->expected, memory_order_acquire) +
                (int64_t)atomic_load_explicit(&rt->workers[i]->late_timers, memory_order_acquire);
    uint64_t sent = atomic_load_explicit(&rt->posted, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        sent += atomic_load_explicit(&rt->workers[i]->sent, memory_order_acquire);
    return held == 0 && sent == done;
}
