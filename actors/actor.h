/* SPDX-License-Identifier: Apache-2.0
 * Actors: single owners of state that exchange 64-byte envelopes.
 *
 * An actor is a state struct and one receive function. It is pinned to a worker when it is spawned
 * and never moves; its receive function is never run by two threads. Messages from one sender to
 * one receiver arrive in the order of sending (within each of the two priorities). Another actor is
 * known by its handle, never by a pointer. After act_rt_open nothing here allocates as long as the
 * configured limits hold. The same calls run on threads (port THREADS) and in the deterministic
 * simulation (port SIM).
 */
#ifndef ACTORS_ACTOR_H
#define ACTORS_ACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/check.h"
#include "actors/status.h"

/* A handle: slot index in the low half, generation in the high half; 0 names nobody. */
typedef uint64_t act_id_t;

#define ACT_BODY_BYTES 40

struct act_msg {
    void *link; /* the runtime's; a receiver must not touch it */
    act_id_t from;
    uint16_t kind;
    uint16_t flags;  /* ACT_URGENT */
    uint32_t worker; /* the runtime's: home of the node */
    unsigned char body[ACT_BODY_BYTES];
};
_Static_assert(sizeof(struct act_msg) == 64, "an envelope is one cache line");

enum { ACT_URGENT = 1 };

/* Messages of the runtime itself. */
enum {
    ACT_KIND_start = 1, /* first message of every actor; no body */
    ACT_KIND_timer,     /* struct act_timer_msg */
    ACT_KIND_gone,      /* struct act_gone: a message of ours found its receiver ended */
    ACT_KIND_stop       /* the runtime asks the actor to end in order; answer with act_exit */
};
struct act_timer_msg {
    uint64_t cookie;
    uint64_t deadline_ns;
};
struct act_gone {
    act_id_t to;
    uint16_t kind;
};

struct act_rt;  /* the runtime */
struct act_ctx; /* the worker that is running the current actor; valid only inside receive */

/* What an actor is. Static data, shared by all actors of the kind. */
struct act_kind {
    const char *name;
    void (*receive)(struct act_ctx *ctx, void *state, const struct act_msg *msg);
    /* Optional: called when the actor's mailbox ran empty after a batch, before the worker goes
     * on. */
    void (*batch_end)(struct act_ctx *ctx, void *state);
    /* Optional: called once, after act_exit took effect or in act_rt_close for who lives until
     * then; the place to free or recycle state. No ctx here: only act_post can send. */
    void (*ended)(struct act_rt *rt, void *state);
};

enum act_port { ACT_PORT_THREADS, ACT_PORT_SIM };
enum { ACT_OWN_THREAD = -1 };

struct act_rt_config {
    enum act_port port;
    uint32_t workers;      /* shared workers; worker 0 is the thread that calls act_rt_run */
    uint32_t actors_max;   /* live actors at once */
    uint32_t messages_max; /* envelopes in flight; running out is a bug of the caller's credits */
    uint32_t timers_max;
    /* how long a worker spins before parking while work is in flight; 0: measured */
    uint32_t spin_ns;
    uint64_t stop_grace_ns; /* how long a stop waits for those that need time; 0: a second */
    uint64_t seed;          /* SIM: delivery order, faults */
    bool sim_priority;      /* SIM: priority-change scheduler (PCT) instead of uniform */
};

/* Opens a runtime. On success *out is owned by the caller until act_rt_close. */
enum status act_rt_open(const struct act_rt_config *config, struct act_rt **out,
                        struct status_note *note);
/* Runs worker 0 on the calling thread (SIM: everything) until act_rt_stop, or in SIM until nothing
 * is left to do. */
void act_rt_run(struct act_rt *rt);
/* Asks the runtime to stop; async-signal-safe and callable from any thread or actor. Idempotent.
 * Every actor gets ACT_KIND_stop; the run ends when all have ended, or when no message is under
 * way, nothing is expected and no timer was armed since, at the latest after stop_grace_ns: who
 * needs time to end arms a timer or expects. Actors of a worker that got no processor for so long
 * are not told any more. */
void act_rt_stop(struct act_rt *rt);
/* Stops the threads, drops what is undelivered, frees everything. Not from inside an actor. */
void act_rt_close(struct act_rt *rt);

/* Starts an actor; state is owned by the caller until kind->ended. worker: index, or
 * ACT_OWN_THREAD. Returns 0 when actors_max live already (the caller holds a credit, so this is its
 * refusal), or when no thread can be had (64 at once). act_spawn: from anywhere; act_spawn_here:
 * from an actor, onto its own worker. */
act_id_t act_spawn(struct act_rt *rt, const struct act_kind *kind, void *state, int worker);
act_id_t act_spawn_here(struct act_ctx *ctx, const struct act_kind *kind, void *state);
/* Ends the running actor when its receive function returns; later messages to it come back as
 * ACT_KIND_gone. */
void act_exit(struct act_ctx *ctx);

/* Sends bytes (<= ACT_BODY_BYTES) of body by value. Never blocks, never fails for a live
 * receiver. */
void act_send(struct act_ctx *ctx, act_id_t to, uint16_t kind, const void *body, size_t bytes);
void act_send_urgent(struct act_ctx *ctx, act_id_t to, uint16_t kind, const void *body,
                     size_t bytes);
/* The same from a thread that is no worker (an nng callback, a signal thread). */
void act_post(struct act_rt *rt, act_id_t to, uint16_t kind, const void *body, size_t bytes);

act_id_t act_self(const struct act_ctx *ctx);
struct act_rt *act_rt_of(const struct act_ctx *ctx);
/* Monotonic nanoseconds; virtual in SIM. */
uint64_t act_now_ns(const struct act_ctx *ctx);
uint64_t act_rt_now_ns(const struct act_rt *rt);

/* Delivers ACT_KIND_timer with cookie at now + after_ns. Returns a timer name for act_timer_cancel;
 * a timer that already fired or was cancelled is ignored by cancel, and a cancelled timer is never
 * delivered later. */
uint64_t act_timer_arm(struct act_ctx *ctx, uint64_t after_ns, uint64_t cookie);
void act_timer_cancel(struct act_ctx *ctx, uint64_t timer);

/* Tells the worker that a result it must not be late for is under way (+1) or arrived (-1): it
 * spins for it. */
void act_expect(struct act_ctx *ctx, int delta);
/* Cores that other threads of this process keep busy (a CPU team): nobody spins on them. */
void act_rt_cores_reserve(struct act_rt *rt, int delta);

/* SIM: a seeded choice in [0, n); outside SIM always 0. Fault points ask act_fault: in SIM true
 * with the probability set for that point, elsewhere always false. Two-stage: the first stage arms
 * a point for a bounded virtual time, the second decides each visit, so that faults come in bursts
 * and then end. */
uint64_t act_choose(struct act_ctx *ctx, uint64_t n);
bool act_fault(struct act_ctx *ctx, const char *point);
void act_sim_fault_set(struct act_rt *rt, const char *point, uint32_t per_million_arm,
                       uint64_t burst_ns, uint32_t per_million_fire);
/* SIM: no fault fires after this virtual time. */
void act_sim_faults_until(struct act_rt *rt, uint64_t virtual_ns);
/* SIM: digest of the whole delivery trace so far; equal seeds give equal digests. */
uint64_t act_sim_trace(const struct act_rt *rt);
/* SIM: delivers at most max_messages (0: no bound); true while something is left to do. */
bool act_sim_step(struct act_rt *rt, uint64_t max_messages);

/* Liveness and counts, readable from any thread. */
struct act_rt_stats {
    uint64_t messages, parks, wakes, allocations_after_start;
    uint64_t looks; /* times that workers without work looked for some: who spins looks often */
    uint32_t actors_live, messages_in_flight;
    uint64_t oldest_batch_ns; /* age of the longest receive call now running, ns */
    const char *oldest_actor; /* its kind's name, or NULL */
};
void act_rt_stats(const struct act_rt *rt, struct act_rt_stats *out);

#endif
