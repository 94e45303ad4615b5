/* SPDX-License-Identifier: Apache-2.0
 * The insides of the runtime, for the files of this folder and its tests only.
 *
 *   struct act_rt     slots of actors, their tags, the foreign senders' pool, the workers
 *   struct act_ctx    one worker: inbox, run queue, envelopes, timers, counters; one thread's
 *   struct act_actor  one slot: kind, state, two private queues; touched by its worker only
 *   tags[slot]        generation << 32 | worker: how a sender finds the way
 *
 * A send to the own worker touches no shared word but the tag. One to another worker lies on that
 * worker's inbox with slot and generation packed beside it; the receiving worker looks again
 * whether the actor still lives: a stale tag costs a letter home, never a wrong delivery.
 */
#ifndef ACTORS_PRIVATE_H
#define ACTORS_PRIVATE_H

#include "actors/actor.h"
#include "actors/ck.h"
#include "actors/clock.h"
#include "actors/mailbox.h"
#include "actors/port.h"
#include "actors/sim.h"
#include "actors/slots.h"

enum {
    ACT_WORKERS_SHARED_MAX = 128,
    ACT_WORKERS_OWN_MAX = 64,
    ACT_WORKERS_MAX = ACT_WORKERS_SHARED_MAX + ACT_WORKERS_OWN_MAX,
    ACT_HOME_FOREIGN = 255,   /* home of envelopes taken by act_post */
    ACT_INDEX_MAX = 0xffffef, /* slots and envelopes are named by 24 bits */
    ACT_BATCH = 64,           /* messages an actor may take before others get their turn */
    ACT_BACK_BATCH = 16,      /* foreign envelopes that a worker keeps back to return together */
    ACT_CLOCK_EVERY = 32,     /* receive batches between two looks at the clock */
    ACT_STOP_GRACE_NS = 1000000000,
    ACT_STOP_POLL_NS = 500000
};
_Static_assert(sizeof(void *) == 8, "links hold a generation and a reference");

#define ACT_WORKER_NONE     0xffffffffu /* in the tag of a slot whose actor has ended */
#define ACT_GENERATION_MASK 0xffffffff00000000u

struct act_actor {
    const struct act_kind *kind;
    void *state;
    act_id_t id;
    struct act_msg *head[2], *tail[2]; /* [1] is urgent; tail is meaningless while head is NULL */
    struct act_actor *run_next;
    uint64_t priority;   /* SIM: rank in the priority-change order */
    uint32_t timers;     /* first of its timers, 0: none */
    uint32_t waiting[2]; /* SIM: lengths of the two queues */
    uint32_t ready_at;   /* SIM: place in the ready array */
    uint32_t slot;
    bool queued; /* in the run queue, or being run */
    bool exiting;
    bool alive;
    bool told; /* got ACT_KIND_stop */
};

/* Envelopes: fresh ones from nodes, used ones from free; what others freed comes by returned. */
struct act_pool {
    struct act_msg *free;
    struct act_msg *nodes;
    uint32_t fresh, max;
    _Alignas(64) struct act_stack returned;
};

struct act_ctx {
    struct act_rt *rt;
    act_id_t self;             /* the running actor, 0: none */
    struct act_actor *current; /* the same */
    struct act_sim *sim;       /* NULL on threads */
    struct act_actor *run_head, *run_tail;
    struct act_pool pool;
    struct act_clock clock;
    struct act_msg *back_first, *back_last; /* back_n envelopes on their way home */
    uint32_t index, back_home, back_n;
    int32_t expected_here; /* the owner's copy of expected */
    uint32_t since_clock;
    uint64_t spin_after_ns;
    bool own, draining;
    /* Written by the owner, read by anyone: relaxed unless said otherwise. */
    _Atomic uint64_t sent, done; /* release/acquire: see drain.c */
    _Atomic uint64_t parks, wakes, looks;
    _Atomic int32_t expected;
    _Atomic uint32_t late_timers; /* armed since the stop */
    _Atomic(const struct act_kind *) running;
    _Atomic uint64_t stamp_ns;
    _Atomic uint32_t occupied; /* own thread: living actors on it */
    pthread_t thread;
    bool threaded;
    _Alignas(64) struct act_mailbox box; /* what other threads write stands alone */
};

struct act_rt {
    struct act_rt_config config;
    _Atomic uint64_t *tags;
    struct act_actor *actors; /* actors_max + 1; slot 0 is nobody */
    struct act_slots slots;
    struct act_slots foreign; /* free envelopes of act_post */
    struct act_msg *foreign_nodes;
    struct act_ctx *workers[ACT_WORKERS_MAX];
    _Atomic uint32_t n_workers;
    _Atomic uint32_t growing; /* start of own threads, one at a time */
    struct act_sim *sim;
    uint64_t spin_ns;
    uint32_t cores;
    _Atomic int32_t awake; /* workers that do not sleep, plus cores reserved by others */
    _Atomic uint32_t live;
    _Atomic uint64_t posted, posted_done; /* as sent and done, for act_post */
    _Atomic uint64_t allocations;         /* after start */
    _Atomic uint32_t started;
    _Atomic uint32_t stopping;   /* enum act_stopping */
    _Atomic uint32_t draining;   /* workers that have told their actors */
    _Atomic uint64_t stop_by_ns; /* end of the grace, 0: not begun */
};

enum act_stopping { ACT_STOP_NOT, ACT_STOP_ASKED, ACT_STOP_NOW };

/* actor.c */
void act_actor_end(struct act_ctx *ctx, struct act_actor *actor);
/* A start or timer message: false when it is not to be received. */
bool act_runtime_message(struct act_ctx *ctx, struct act_actor *actor, const struct act_msg *msg);
void act_letter_home(struct act_ctx *ctx, act_id_t to, struct act_msg *msg);
/* A message of the runtime itself to an actor of this worker. */
void act_send_own(struct act_ctx *ctx, struct act_actor *actor, uint16_t kind, const void *body,
                  size_t bytes);
void act_send_timer(struct act_ctx *ctx, const struct act_clock_timer *timer, uint64_t name);

/* message.c */
enum status act_pool_open(struct act_pool *pool, uint32_t max);
void act_pool_close(struct act_pool *pool);
struct act_msg *act_pool_refill(struct act_ctx *ctx);
void act_node_return(struct act_rt *rt, struct act_msg *msg, uint32_t home);
void act_node_return_later(struct act_ctx *ctx, struct act_msg *msg, uint32_t home);
void act_back_flush(struct act_ctx *ctx);
struct act_msg *act_node_of(struct act_rt *rt, uint32_t ref);

/* worker.c */
struct act_ctx *act_worker_open(struct act_rt *rt, uint32_t index, bool own);
void act_worker_close(struct act_ctx *ctx);
void act_worker_wake(struct act_ctx *ctx);
void *act_worker_thread(void *ctx);
void act_push(struct act_rt *rt, uint32_t worker, act_id_t to, struct act_msg *msg);

/* drain.c */
void act_drain_begin(struct act_ctx *ctx);
bool act_drain_over(struct act_rt *rt, uint64_t now_ns);

void *act_alloc(struct act_rt *rt, size_t bytes);

#endif
