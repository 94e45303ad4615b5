/* SPDX-License-Identifier: Apache-2.0
 * Messages between clients, planner and lanes. A client is any actor that submits: the door, a
 * program's console, prove.
 */
#ifndef LANES_PROTOCOL_H
#define LANES_PROTOCOL_H

#include "actors/protocol.h"
#include "gpu/plan.h"

struct lane_request;  /* lanes/request.h */
struct lane_counters; /* lanes/engine.h */

/* What a lane wants next. */
enum { LANE_NO_BAD = 0xffffffff };

enum lane_want_kind { LANE_WANT_PROMPT, LANE_WANT_DECODE, LANE_WANT_VERIFY };

/* How a request ended. STOP_* are successes. */
enum lane_end {
    LANE_END_EOS,     /* an end-of-sequence token, not part of the text */
    LANE_END_STOP,    /* a stop string; the text ends before it */
    LANE_END_LENGTH,  /* max_tokens */
    LANE_END_CONTEXT, /* the context is full */
    LANE_END_CANCELLED,
    LANE_END_FAILED, /* status says why */
    LANE_ENDS
};

/* clang-format off */
/*           name      from     to       answered_by  late means    credit   fields */
#define LANE_PROTOCOL(M)                                                                                                     \
    M(lane, submit,    client,  planner, accepted,    none,         request, const struct lane_request *request;)            \
    /* From here on the request is promised: it ends with exactly one `ended`. cancel names lane, never a recycled id. */     \
    M(lane, accepted,  lane,    client,  none,        none,         request, uint64_t request; uint64_t lane;)               \
    /* Nothing was begun and nothing follows. retry_ms > 0: worth trying again then. */                                       \
    M(lane, refused,   planner, client,  none,        none,         request, uint64_t request; uint32_t status;              \
                                                                             uint32_t retry_ms; uint64_t value;              \
                                                                             uint64_t limit;)                                \
    M(lane, cancel,    client,  planner, none,        none,         none,    uint64_t lane;)                                 \
    /* The lane left the queue: what memory gave, how much of it from which tier. reason: enum ses_reason. */                                                 \
    M(lane, started,   lane,    client,  none,        none,         request, uint64_t request; uint32_t n_prompt;            \
                                                                             uint32_t n_resumed; uint32_t reason;            \
                                                                             uint32_t queued_us; uint32_t from_ram;          \
                                                                             uint32_t from_disk;)                            \
    /* One new token of the reply; index counts from 0. bytes: the next whole characters of the text, as many as fit; they are  \
     * held back while they may belong to a stop string or a cut character, so they may lag behind the token. */              \
    M(lane, token,     lane,    client,  none,        none,         request, uint64_t request; uint32_t index;               \
                                                                             uint32_t id; float logprob;                     \
                                                                             uint8_t n_bytes; uint8_t bytes[19];)            \
    /* More text, without a token. */                                                                                          \
    M(lane, text,      lane,    client,  none,        none,         request, uint64_t request; uint8_t n_bytes;              \
                                                                             uint8_t bytes[31];)                             \
    /* One of the n_top best of token index, best first; sent before `token` of that index. */                                \
    M(lane, top,       lane,    client,  none,        none,         request, uint64_t request; uint32_t index;               \
                                                                             uint32_t id; float logprob; uint32_t rank;)     \
    /* Only when asked for. XXH3-64 of the raw fp32 logits that drew token index; before `token` of that index. */            \
    M(lane, hash,      lane,    client,  none,        none,         request, uint64_t request; uint64_t hash;                \
                                                                             uint32_t index;)                                \
    /* Only when asked for: the request's first_logits (vocab floats) is filled; before `token` of index 0. */                \
    M(lane, logits,    lane,    client,  none,        none,         request, uint64_t request; uint32_t vocab;)              \
    /* The one terminal message of an accepted request. end: enum lane_end; status: enum status. */                          \
    M(lane, ended,     lane,    client,  none,        none,         request, uint64_t request; uint16_t end;                 \
                                                                             uint16_t status; uint32_t n_prompt;             \
                                                                             uint32_t n_resumed; uint32_t n_new;             \
                                                                             uint32_t drafted; uint32_t accepted;            \
                                                                             uint32_t rows;)                                 \
    /* Memory admitted the lane: rows [0, matched) need no work. */                                                           \
    M(lane, begin,     planner, lane,    want,        none,         lane,    uint32_t matched; uint32_t reason;              \
                                                                             uint32_t queued_us; uint32_t from_ram;          \
                                                                             uint32_t from_disk;)                            \
    /* The want's rows [first_pos, first_pos + n_rows) are computed; the last n_draws of them drew. bad_pos: the first        \
     * position whose row is not finite, or LANE_NO_BAD. Valid until the lane answers with want or done. */                   \
    M(lane, drawn,     planner, lane,    want,        none,         plan,    const struct gpu_result *result;                \
                                                                             uint32_t first_draw; uint32_t n_draws;          \
                                                                             uint32_t first_pos; uint32_t n_rows;            \
                                                                             uint32_t bad_pos;)                              \
    M(lane, want,      lane,    planner, drawn,       none,         lane,    uint32_t slot; uint32_t kind;                   \
                                                                             uint32_t first_pos; uint32_t n_rows;            \
                                                                             uint32_t may_ahead;)                            \
    /* The lane is finished by itself (EOS, stop, length, context, bad row, client gone) or told to. n_rows: how many of the  \
     * slot's ids have keys and values worth keeping. The slot goes back to the planner; `ended` was sent. */                 \
    M(lane, done,      lane,    planner, none,        none,         lane,    uint32_t slot; uint32_t end;                    \
                                                                             uint32_t status; uint32_t n_rows;)              \
    M(lane, finish,    planner, lane,    done,        none,         lane,    uint32_t end; uint32_t status;)                 \
    /* Control: drain stops admitting; queued and running requests go on until the deadline (relative). */                    \
    M(lane, drain,     client,  planner, drained,     drain_halt,   none,    uint64_t deadline_ns;)                          \
    /* unsaved: pages of sessions that no disk took, and why; status TIMEOUT: how many is not known. */                       \
    M(lane, drained,   planner, client,  none,        none,         none,    uint32_t cancelled; uint32_t unsaved;           \
                                                                             uint32_t status;)                               \
    M(lane, stats,     client,  planner, stats_are,   none,         request, uint64_t token;)                                \
    /* counters belong to the planner; to be read on its worker only. */                                                      \
    M(lane, stats_are, planner, client,  none,        none,         request, uint64_t token;                                 \
                                                                             const struct lane_counters *counters;)
/* clang-format on */

enum { lane_KIND_first = LANE_KIND_FIRST - 1, LANE_PROTOCOL(ACT_GEN_ENUM) lane_KIND_end };
LANE_PROTOCOL(ACT_GEN_STRUCT)

/* Invariants.
 * I1  Every submit has exactly one of accepted, refused; every accepted exactly one ended, its last
 *     message. All messages of one request come from its lane, so they keep their order. (sim:
 *     terminal)
 * I2  A client gets token messages in the order of index without gap or repeat, whatever is retried
 *     or cancelled.
 * I3  A slot has one owner: the planner (free, releasing) or its lane (from spawn to done). The
 *     planner reads the prompt ids of a queued lane and, between want and drawn, the ids that the
 *     want names.
 * I4  Between want and drawn the slot's ids [0, first_pos + n_rows) and its draw settings do not
 *     change.
 * I5  A slot is released to memory only when no plan under way names it. (sim: poison)
 * I6  A result belongs to the planner and stays until every lane that it named has answered want or
 *     done.
 * I7  Results are delivered in plan order, the next only when every lane has answered the one
 *     before.
 * I8  A cancelled lane is in no plan that is closed after the planner got the cancel.
 */

#endif
