/* SPDX-License-Identifier: Apache-2.0
 * Envelopes: where they come from and how they find home. A worker takes from its own pool without
 * atomics; an envelope that another worker freed comes back by a stack that the owner empties when
 * its own list ran dry.
 */
#include <stdlib.h>

#include "actors/message.h"

/* A freed envelope lies on the return stack by its first bytes, where the link is. */
_Static_assert(sizeof(struct act_stack_entry) == sizeof(void *),
               "the entry takes the link's place");

enum status act_pool_open(struct act_pool *pool, uint32_t max) {
    pool->free = NULL;
    pool->fresh = MAILBOX_REF_MIN;
    pool->max = max;
    act_stack_init(&pool->returned);
    pool->nodes = aligned_alloc(64, ((size_t)max + MAILBOX_REF_MIN) * sizeof(struct act_msg));
    return pool->nodes != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void act_pool_close(struct act_pool *pool) {
    free(pool->nodes);
    pool->nodes = NULL;
}

struct act_msg *act_pool_refill(struct act_ctx *ctx) {
    struct act_pool *pool = &ctx->pool;
    if (pool->fresh < pool->max + MAILBOX_REF_MIN) {
        struct act_msg *msg = &pool->nodes[pool->fresh++];
        msg->worker = ctx->index << 24;
        return msg;
    }
    struct act_stack_entry *entry = act_stack_take_upmc(&pool->returned);
    bool messages_max_is_enough = entry != NULL;
    CHECK(messages_max_is_enough); /* else a sender has no credit */
    struct act_msg *first = (struct act_msg *)(void *)entry;
    struct act_stack_entry *next;
    for (; entry != NULL; entry = next) {
        next = act_stack_next(entry);
        struct act_msg *msg = (struct act_msg *)(void *)entry;
        msg->link = next;
    }
    pool->free = first->link;
    return first;
}

void act_node_return(struct act_rt *rt, struct act_msg *msg, uint32_t home) {
    if (home == ACT_HOME_FOREIGN)
        act_slots_put(&rt->foreign, (uint32_t)(msg - rt->foreign_nodes) - (MAILBOX_REF_MIN - 1));
    else
        act_stack_push_upmc(&rt->workers[home]->pool.returned,
                            (struct act_stack_entry *)(void *)msg);
}

/* Envelopes of one home wait for each other, so that its stack is touched once for many. At most
 * ACT_BACK_BATCH - 1 wait, and none while the worker sleeps; pools have room for that. */
void act_node_return_later(struct act_ctx *ctx, struct act_msg *msg, uint32_t home) {
    if (home == ACT_HOME_FOREIGN) {
        act_node_return(ctx->rt, msg, home);
        return;
    }
    if (ctx->back_n > 0 && ctx->back_home != home)
        act_back_flush(ctx);
    if (ctx->back_n++ == 0) {
        ctx->back_last = msg;
        ctx->back_home = home;
    } else {
        act_stack_link((struct act_stack_entry *)(void *)msg,
                       (struct act_stack_entry *)(void *)ctx->back_first);
    }
    ctx->back_first = msg;
    if (ctx->back_n == ACT_BACK_BATCH)
        act_back_flush(ctx);
}

void act_back_flush(struct act_ctx *ctx) {
    if (ctx->back_n == 0)
        return;
    act_stack_push_chain_upmc(&ctx->rt->workers[ctx->back_home]->pool.returned,
                              (struct act_stack_entry *)(void *)ctx->back_first,
                              (struct act_stack_entry *)(void *)ctx->back_last);
    ctx->back_n = 0;
}

struct act_msg *act_node_of(struct act_rt *rt, uint32_t ref) {
    uint32_t home = ref >> 24;
    struct act_msg *base =
        home == ACT_HOME_FOREIGN ? rt->foreign_nodes : rt->workers[home]->pool.nodes;
    return base + (ref & 0xffffff);
}
