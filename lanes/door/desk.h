/* SPDX-License-Identifier: Apache-2.0
 * The desk behind a door: takes clients' messages, submits to the planner, keeps what comes back,
 * answers. It knows no sockets: a transport gives it bytes with a return address and asks for the
 * answers that are ready. Owned by one door actor; every call is made inside that actor's receive
 * function (or before the runtime runs).
 */
#ifndef LANES_DOOR_DESK_H
#define LANES_DOOR_DESK_H

#include "lanes/door/table.h"
#include "lanes/door/waits.h"
#include "lanes/engine.h"
#include "sessions/query.h"

enum {
    DOOR_LIVE_DEFAULT = 1088,
    DOOR_ENDED_DEFAULT = 4096,
    DOOR_WAITS_DEFAULT = 10000,
    DOOR_KEEP_MS_DEFAULT = 600000,
    DOOR_QUERY_MS_DEFAULT = 60000, /* longer than a disk that hangs is waited for */
    DOOR_STAGES = 16,              /* submits under way to the planner */
    DOOR_QUERIES = 4,              /* questions about stored sessions under way to the memory */
    DOOR_RETRY_MS = 1000
};

struct door_desk_config {
    act_id_t planner;
    act_id_t memory;                        /* 0: stored sessions cannot be asked for */
    const struct lane_tokenizer *tokenizer; /* NULL: prompt_ids only */
    uint32_t context, vocab;
    uint64_t kv_tokens, weights_bytes;
    const char *model, *profile, *version, *template_name; /* for info; NULL: none. Borrowed */
    const char *weights;                                   /* as these */
    struct krn_sampling sampling;                          /* defaults of requests */
    uint32_t live_max, ended_max, waits_max;               /* 0: the defaults above */
    uint64_t log_bytes;                                    /* 0: 512 MiB of address space */
    uint64_t keep_ns;  /* how long an ended request can be read; 0: the default */
    uint64_t drain_ns; /* default deadline of drain */
    uint64_t query_ns; /* how long a question about stored sessions may take; 0: the default */
};

struct door_desk_counts {
    uint64_t messages, submits, resends, refused, reads, empty_reads, cancels, idle_cancels;
    uint64_t waits_refused, expired, repeated, unanswered; /* unanswered: questions, in time */
};

struct door_stage {
    bool used;
    struct lane_request request;
    struct krn_bias bias[LANE_BIAS_MAX];
    struct lane_stop stops[LANE_STOPS_MAX];
    uint32_t *ids, n, capacity;
};

struct door_query {
    bool used;
    enum door_cmd cmd;
    struct ses_query query;
};

struct door_desk {
    struct door_desk_config config;
    struct door_limits limits;
    uint32_t token_bytes; /* longest text of a token */
    struct door_arena arena;
    struct door_pool pool;
    struct door_table table;
    struct door_waits waits;
    uint32_t reading; /* waits that are reads: those are limited */
    uint64_t reserved,
        kept; /* chunks of live and of ended logs; reserved + kept <= pool.n_chunks */
    struct door_stage stages[DOOR_STAGES];
    uint32_t stages_used;
    struct door_call call;
    struct door_out out; /* the answer made last */
    char *reply;         /* DOOR_REPLY_MAX bytes behind out */
    struct lane_counters counters;
    struct door_desk_counts counts;
    uint64_t timer, timer_ns;
    bool draining, drained;
    uint32_t stats_asked;       /* who has not answered: DOOR_ASKED_PLANNER, DOOR_ASKED_MEMORY */
    struct door_query *queries; /* [DOOR_QUERIES], and one more for stats */
    uint32_t drain_cancelled, drain_unsaved; /* what the planner said when it was drained */
    enum status drain_status;
    uint64_t probes, healed; /* of the transport, for stats */
    enum status fatal;       /* DEVICE or DESYNC came back: the engine is lost */
};

enum status door_desk_open(struct door_desk *d, const struct door_desk_config *config,
                           struct status_note *note);
void door_desk_close(struct door_desk *d);

/* False: no room for one more submit; the transport gives the next message only when this is
 * true again. */
bool door_desk_may_receive(const struct door_desk *d);
/* One message. True: d->out is the answer; false: it comes later through door_desk_answer, or
 * was a repeat. */
bool door_desk_receive(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from,
                       const void *bytes, size_t n);
/* Is an answer ready, and to whom does the oldest go? NULL: none. */
const struct door_header *door_desk_ready(struct door_desk *d);
/* Encodes the oldest ready answer into d->out. */
void door_desk_answer(struct door_desk *d, struct act_ctx *ctx);
/* The oldest goes behind the others (its connection has enough under way). */
void door_desk_later(struct door_desk *d);

/* A message of lanes/protocol.h or the timer; false when it was neither. */
bool door_desk_message(struct door_desk *d, struct act_ctx *ctx, const struct act_msg *msg);

/* Admits nothing from now on and tells the planner; a second call shortens the deadline. */
void door_desk_drain(struct door_desk *d, struct act_ctx *ctx, uint64_t deadline_ns);
/* Ends what lives, with the reason SHUTDOWN, without waiting for the planner. */
void door_desk_abandon(struct door_desk *d, struct act_ctx *ctx);
/* Nothing lives and every ended request was read to its end. */
bool door_desk_all_read(const struct door_desk *d);

/* Checks the books (tests): false and a sentence. */
bool door_desk_audit(const struct door_desk *d, struct status_note *note);

/* desk_reply.c: the bodies of answers, written to d->out. */
void door_reply_error(struct door_desk *d, const struct door_error *error);
void door_reply_accepted(struct door_desk *d, const struct door_request *r);
void door_reply_events(struct door_desk *d, struct door_request *r, uint64_t cursor,
                       uint32_t max_events);
void door_reply_cancel(struct door_desk *d, const struct door_request *r);
void door_reply_sessions(struct door_desk *d, uint64_t from, uint64_t now_ns);
void door_reply_stats(struct door_desk *d);
void door_reply_info(struct door_desk *d);
void door_reply_ping(struct door_desk *d);
/* Of the planner's and the memory's counts, for a reply under way. */
void door_reply_query(struct door_desk *d, const struct door_query *q);
void door_out_counts(struct door_out *o, const struct ses_counts *c);
void door_reply_drain(struct door_desk *d, uint64_t deadline_ms);

#endif
