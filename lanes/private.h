/* SPDX-License-Identifier: Apache-2.0
 * The planner's state, shared by planner.c (requests, queue, ends) and planner_round.c (closing
 * and delivering).
 */
#ifndef LANES_PRIVATE_H
#define LANES_PRIVATE_H

#include "lanes/journal.h"
#include "lanes/planner.h"
#include "lanes/round.h"
#include "lanes/slot.h"

enum planner_phase {
    PLANNER_FREE,
    PLANNER_QUEUED,    /* accepted, waits for admission */
    PLANNER_ADMITTING, /* memory was asked */
    PLANNER_RUNNING,
    PLANNER_DONE,     /* the lane has ended; a plan under way may still name the slot */
    PLANNER_RELEASING /* memory was told */
};

struct planner_lane {
    enum planner_phase phase;
    struct lane_slot *slot;
    act_id_t actor;
    uint64_t arrived; /* order of arrival */
    uint64_t arrived_ns;
    uint64_t timer;        /* 0: no deadline */
    uint32_t next_free;    /* free list */
    bool finishing;        /* told to finish: in no further plan (I8) */
    bool has_pages;        /* memory holds something for it */
    bool restoring;        /* let in, and a tier fills its pages */
    bool wanting, told;    /* between want and drawn; between drawn and the answer */
    bool may_ahead, ahead; /* ahead: the row at end_pos is in the plan under way */
    bool alone;            /* to be retried alone */
    bool extending, sealing;
    uint32_t kind, first_pos, end_pos; /* the want: rows [first_pos, end_pos) */
    uint32_t next_pos;                 /* first row in no plan yet */
    uint32_t in_plans;                 /* plans under way that name the slot */
    uint32_t rounds_waited;
    uint32_t n_pages;   /* filled entries of its page table */
    uint32_t total_max; /* positions at most */
    uint32_t sealed_rows, keep_rows, n_new;
    uint32_t bypassed; /* younger requests admitted while memory had no room for this one */
    uint64_t denied_epoch;
    struct gpu_copy copy; /* tokens 0: none or done */
};

struct planner_seq {
    uint32_t slot, generation, first_pos, n_rows, n_draws, first_draw, first_row;
    bool copied;
};

struct planner_round {
    struct gpu_round *g;
    struct planner_seq *seqs;
    uint32_t n_seqs, waiting, flags, prompt_rows, lanes;
    enum status status;
    uint64_t closed_ns, plan_ns; /* plan_ns: from an answer to its closing at once, else 0 */
    struct planner_round *next;
};

struct planner_fifo {
    struct planner_round *first, *last;
    uint32_t n;
};

enum { PLANNER_ROUNDS = 4, PLANNER_SAMPLES = 8192, PLANNER_WAIT_MAX = 64, PLANNER_BYPASS_MAX = 16 };

struct planner_sample {
    uint32_t lanes, ns;
};

struct lane_planner {
    struct lane_planner_config config;
    act_id_t self, memory, conductor;
    struct lane_slot *slots;
    struct planner_lane *lanes; /* [slots_max] */
    uint32_t *tables;
    uint32_t free_head; /* index + 1 */
    uint32_t used;      /* slots not free */
    uint32_t running;   /* phases RUNNING .. RELEASING, and ADMITTING */
    uint32_t *active;   /* slots in phase RUNNING, unordered */
    uint32_t n_active;
    uint32_t *queue; /* slots in phase QUEUED, in order of arrival */
    uint32_t n_queue;
    bool admitting; /* memory was asked and has not decided: one at a time */
    uint64_t release_epoch, arrivals;
    struct planner_fifo idle, under_way, returned;
    struct planner_round *delivering;
    struct planner_round *rounds; /* [PLANNER_ROUNDS] */
    bool hold;                    /* a round failed while another was under way */
    enum status dead;
    bool draining;
    act_id_t drain_client;
    uint64_t drain_timer;
    uint32_t drain_cancelled;
    bool flushing; /* memory saves what it can before drained is said, so long at most: */
    uint64_t flush_timer;
    /* Scratch of closing a plan, [slots_max]. */
    struct lane_policy_want *wants;
    uint32_t *rows, *order, *want_slot;
    bool *want_ahead, *seen;
    struct lane_round_entry *entries;
    uint64_t plans_closed;
    uint64_t last_ran_ns;
    uint64_t row_ns; /* time of a prompt row, smoothed */
    struct lane_counters counters;
    struct lane_record_seq *record; /* [slots_max] behind a struct lane_record_plan */
    struct planner_sample *samples;
    uint64_t n_samples;
};

/* Timer cookies: these, or a lane's name (>= 2^32). */
enum { PLANNER_COOKIE_DRAIN = 1, PLANNER_COOKIE_FLUSH = 2 };

/* planner.c */
void planner_finish_lane(struct act_ctx *ctx, struct lane_planner *p, uint32_t slot,
                         enum lane_end end, enum status status);
void planner_finish_all(struct act_ctx *ctx, struct lane_planner *p, enum lane_end end,
                        enum status status);
void planner_maybe_release(struct act_ctx *ctx, struct lane_planner *p, uint32_t slot);
/* planner_round.c */
void planner_round_returned(struct act_ctx *ctx, struct lane_planner *p, struct gpu_round *g,
                            enum status status);
void planner_deliver(struct act_ctx *ctx, struct lane_planner *p);
void planner_close_plans(struct act_ctx *ctx, struct lane_planner *p);
/* The lane answered what it was told. */
void planner_answered(struct act_ctx *ctx, struct lane_planner *p, struct planner_lane *l);

static inline void planner_put(struct planner_fifo *f, struct planner_round *r) {
    r->next = NULL;
    if (f->last != NULL)
        f->last->next = r;
    else
        f->first = r;
    f->last = r;
    f->n++;
}

static inline struct planner_round *planner_get(struct planner_fifo *f) {
    struct planner_round *r = f->first;
    f->first = r->next;
    if (f->first == NULL)
        f->last = NULL;
    f->n--;
    return r;
}

#endif
