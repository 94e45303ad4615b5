/* SPDX-License-Identifier: Apache-2.0
 * The planner's side of the desk: its messages become events, and the clock ends what waits too
 * long.
 */
#include <string.h>

#include "lanes/door/desk_private.h"

enum { SCAN_NS = 20000000 }; /* scans at most so often */
enum { ENDED_BYTES = 64 };

ACT_HANDLER(desk, door_desk, lane, accepted);
ACT_HANDLER(desk, door_desk, lane, refused);
ACT_HANDLER(desk, door_desk, lane, started);
ACT_HANDLER(desk, door_desk, lane, token);
ACT_HANDLER(desk, door_desk, lane, text);
ACT_HANDLER(desk, door_desk, lane, top);
ACT_HANDLER(desk, door_desk, lane, hash);
ACT_HANDLER(desk, door_desk, lane, ended);
ACT_HANDLER(desk, door_desk, lane, drained);
ACT_HANDLER(desk, door_desk, lane, stats_are);
ACT_HANDLER(desk, door_desk, ses, looked);

static void wake_all(struct door_desk *d, struct door_request *r) {
    while (r->waits != DOOR_NONE)
        door_waits_ready(&d->waits, &d->table, &d->waits.slots[r->waits]);
}

void door_desk_send_cancel(struct door_desk *d, struct act_ctx *ctx, struct door_request *r) {
    if (!r->cancel_wanted || r->cancel_sent)
        return;
    if (r->state != DOOR_QUEUED && r->state != DOOR_RUNNING)
        return;
    r->cancel_sent = true;
    ACT_SEND(ctx, d->config.planner, lane, cancel, .lane = r->lane);
}

/* Writes the event down and wakes who waits for it. More than was reserved is more than was
 * promised: the request is cancelled and its log stays as it is. */
static void desk_event(struct door_desk *d, struct act_ctx *ctx, struct door_request *r,
                       const struct door_event *e) {
    size_t spare = e->kind == DOOR_EVENT_ENDED ? 0 : ENDED_BYTES; /* the end always fits */
    if (!door_log_fits(&d->pool, &r->log, e, spare) && r->log.n_chunks >= r->chunks &&
        d->reserved + d->kept >= d->pool.n_chunks) {
        r->cancel_wanted = true;
        door_desk_send_cancel(d, ctx, r);
        return;
    }
    CHECK(door_log_append(&d->pool, &r->log, e));
    if (r->log.n_chunks > r->chunks) {
        d->reserved += r->log.n_chunks - r->chunks;
        r->chunks = r->log.n_chunks;
    }
    r->read_out = false;
    wake_all(d, r);
}

/* ---- messages ---- */

static void desk_unstage(struct door_desk *d, struct door_request *r) {
    CHECK(r->state == DOOR_SUBMITTED);
    door_desk_stage_give(d, &d->stages[r->stage]);
}

void desk_on_accepted(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                      const struct lane_accepted *m) {
    struct door_request *r = door_table_by_id(&d->table, m->request);
    (void)from;
    if (r == NULL || r->state != DOOR_SUBMITTED)
        return;
    desk_unstage(d, r);
    r->state = DOOR_QUEUED;
    r->lane = m->lane;
    wake_all(d, r);
    door_desk_send_cancel(d, ctx, r);
    if (r->idle_ns > 0)
        door_desk_arm(d, ctx, r->read_ns + r->idle_ns);
}

void desk_on_refused(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                     const struct lane_refused *m) {
    struct door_request *r = door_table_by_id(&d->table, m->request);
    (void)ctx;
    (void)from;
    if (r == NULL || r->state != DOOR_SUBMITTED)
        return;
    desk_unstage(d, r);
    for (uint32_t i = r->waits; i != DOOR_NONE; i = d->waits.slots[i].next_same) {
        struct door_wait *w = &d->waits.slots[i];
        w->status = m->status != STATUS_OK ? m->status : STATUS_BAD_REQUEST;
        w->retry_ms = m->retry_ms;
        w->value = m->value;
        w->limit = m->limit;
    }
    if (m->status == STATUS_DEVICE || m->status == STATUS_DESYNC)
        d->fatal = (enum status)m->status;
    d->counts.refused++;
    wake_all(d, r);
    /* Nothing ran: the name is free for another try. */
    d->reserved -= r->chunks;
    door_table_remove(&d->table, r, false);
}

static struct door_request *desk_running(struct door_desk *d, uint64_t id) {
    struct door_request *r = door_table_by_id(&d->table, id);
    return r != NULL && (r->state == DOOR_QUEUED || r->state == DOOR_RUNNING) ? r : NULL;
}

void desk_on_started(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                     const struct lane_started *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)from;
    /* A lane that went back to the queue starts again; its client is told once. */
    if (r == NULL || r->state == DOOR_RUNNING)
        return;
    r->state = DOOR_RUNNING;
    r->n_prompt = m->n_prompt;
    r->n_resumed = m->n_resumed;
    struct door_event e = {.kind = DOOR_EVENT_STARTED,
                           .value = {m->n_prompt, m->n_resumed, m->reason, m->queued_us},
                           .more = {m->from_ram, m->from_disk}};
    desk_event(d, ctx, r, &e);
}

void desk_on_top(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                 const struct lane_top *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)ctx;
    (void)from;
    if (r == NULL || m->rank >= KRN_TOP_MAX)
        return;
    r->top[m->rank] = (struct krn_top){.id = m->id, .logprob = m->logprob};
    if (m->rank >= r->n_top)
        r->n_top = (uint8_t)(m->rank + 1);
}

void desk_on_hash(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                  const struct lane_hash *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)ctx;
    (void)from;
    if (r == NULL)
        return;
    r->hash = m->hash;
    r->has_hash = 1;
}

void desk_on_token(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                   const struct lane_token *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)from;
    if (r == NULL)
        return;
    CHECK(m->index == r->n_new); /* keeps I2 */
    CHECK(m->n_bytes <= sizeof m->bytes);
    struct door_event e = {.kind = DOOR_EVENT_TOKEN,
                           .flags = r->has_hash ? DOOR_HAS_HASH : 0,
                           .n_bytes = m->n_bytes,
                           .n_top = r->n_top,
                           .index = m->index,
                           .id = m->id,
                           .logprob = m->logprob,
                           .hash = r->hash};
    if (r->wants_logprob)
        e.flags |= DOOR_HAS_LOGPROB;
    memcpy(e.top, r->top, r->n_top * sizeof e.top[0]);
    memcpy(e.bytes, m->bytes, m->n_bytes);
    r->n_top = r->has_hash = 0;
    r->n_new++;
    desk_event(d, ctx, r, &e);
}

void desk_on_text(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                  const struct lane_text *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)from;
    if (r == NULL || m->n_bytes == 0)
        return;
    CHECK(m->n_bytes <= sizeof m->bytes);
    struct door_event e = {.kind = DOOR_EVENT_TEXT, .n_bytes = m->n_bytes};
    memcpy(e.bytes, m->bytes, m->n_bytes);
    desk_event(d, ctx, r, &e);
}

static void desk_end(struct door_desk *d, struct act_ctx *ctx, struct door_request *r,
                     const struct door_event *e) {
    desk_event(d, ctx, r, e);
    d->reserved -= r->chunks;
    r->chunks = r->log.n_chunks;
    d->kept += r->chunks;
    r->ended_ns = act_now_ns(ctx);
    door_table_end(&d->table, r);
    while (d->table.ended.n > d->config.ended_max)
        door_desk_forget_oldest(d);
    door_desk_arm(d, ctx, r->ended_ns + d->config.keep_ns);
}

void desk_on_ended(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                   const struct lane_ended *m) {
    struct door_request *r = desk_running(d, m->request);
    (void)from;
    if (r == NULL)
        return;
    struct door_event e = {.kind = DOOR_EVENT_ENDED,
                           .value = {m->end, m->status, m->n_new, m->rows},
                           .more = {m->drafted, m->accepted}};
    if (m->status == STATUS_DEVICE || m->status == STATUS_DESYNC)
        d->fatal = (enum status)m->status;
    desk_end(d, ctx, r, &e);
}

void desk_on_drained(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                     const struct lane_drained *m) {
    (void)ctx;
    (void)from;
    d->drained = true;
    d->drain_cancelled = m->cancelled;
    d->drain_unsaved = m->unsaved;
    d->drain_status = (enum status)m->status;
    door_desk_wake_kind(d, DOOR_WAIT_DRAIN);
}

void desk_on_stats_are(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                       const struct lane_stats_are *m) {
    (void)ctx;
    (void)from;
    d->counters = *m->counters;
    door_desk_counted(d, DOOR_ASKED_PLANNER);
}

/* ---- drain ---- */

void door_desk_drain(struct door_desk *d, struct act_ctx *ctx, uint64_t deadline_ns) {
    if (d->drained)
        return;
    d->draining = true;
    ACT_SEND(ctx, d->config.planner, lane, drain, .deadline_ns = deadline_ns);
}

void door_desk_abandon(struct door_desk *d, struct act_ctx *ctx) {
    d->draining = true;
    while (d->table.live.n > 0) {
        /* A stage that the planner may still read stays taken. */
        struct door_request *r = &d->table.slots[d->table.live.head];
        struct door_event e = {.kind = DOOR_EVENT_ENDED,
                               .value = {LANE_END_FAILED, STATUS_SHUTDOWN, r->n_new, 0}};
        desk_end(d, ctx, r, &e);
    }
    door_desk_wake_kind(d, DOOR_WAIT_STATS);
    door_desk_wake_kind(d, DOOR_WAIT_QUERY);
    door_desk_wake_kind(d, DOOR_WAIT_DRAIN);
}

bool door_desk_all_read(const struct door_desk *d) {
    if (d->table.live.n > 0 || d->waits.n > 0)
        return false;
    for (uint32_t i = d->table.ended.head; i != DOOR_NONE; i = d->table.slots[i].next)
        if (!d->table.slots[i].read_out)
            return false;
    return true;
}

/* ---- the clock ---- */

void door_desk_arm(struct door_desk *d, struct act_ctx *ctx, uint64_t at_ns) {
    uint64_t now = act_now_ns(ctx);
    if (at_ns < now)
        at_ns = now;
    if (d->timer != 0 && d->timer_ns <= at_ns)
        return;
    if (d->timer != 0)
        act_timer_cancel(ctx, d->timer);
    d->timer_ns = at_ns;
    d->timer = act_timer_arm(ctx, at_ns - now, DOOR_COOKIE_DESK);
}

/* Nobody reads and nobody waits: the client is taken to be gone. */
static uint64_t scan_idle(struct door_desk *d, struct act_ctx *ctx, uint64_t now) {
    uint64_t next = UINT64_MAX;
    for (uint32_t i = d->table.live.head; i != DOOR_NONE; i = d->table.slots[i].next) {
        struct door_request *r = &d->table.slots[i];
        if (r->idle_ns == 0 || r->cancel_sent || r->state == DOOR_SUBMITTED)
            continue;
        uint64_t at = (r->n_waits > 0 ? now : r->read_ns) + r->idle_ns;
        if (at > now) {
            next = at < next ? at : next;
            continue;
        }
        d->counts.idle_cancels++;
        r->cancel_wanted = true;
        door_desk_send_cancel(d, ctx, r);
    }
    return next;
}

static uint64_t scan_waits(struct door_desk *d, uint64_t now) {
    uint64_t next = UINT64_MAX;
    for (uint32_t i = d->waits.waiting.head; i != DOOR_NONE;) {
        struct door_wait *w = &d->waits.slots[i];
        i = w->next;
        if (w->deadline_ns <= now) {
            bool query =
                w->kind == DOOR_WAIT_QUERY; /* its buffer stays taken until it is answered */
            w->status = query ? STATUS_TIMEOUT : w->status;
            door_waits_ready(&d->waits, &d->table, w);
            d->counts.unanswered += query;
            d->counts.empty_reads += !query;
        } else if (w->deadline_ns < next) {
            next = w->deadline_ns;
        }
    }
    return next;
}

static void desk_clock(struct door_desk *d, struct act_ctx *ctx) {
    uint64_t now = act_now_ns(ctx);
    d->timer = 0;
    while (d->table.ended.n > 0 &&
           d->table.slots[d->table.ended.head].ended_ns + d->config.keep_ns <= now)
        door_desk_forget_oldest(d);
    uint64_t next = scan_waits(d, now), idle = scan_idle(d, ctx, now);
    next = idle < next ? idle : next;
    if (d->table.ended.n > 0) {
        uint64_t at = d->table.slots[d->table.ended.head].ended_ns + d->config.keep_ns;
        next = at < next ? at : next;
    }
    if (next != UINT64_MAX)
        door_desk_arm(d, ctx, next > now + SCAN_NS ? next : now + SCAN_NS);
}

bool door_desk_message(struct door_desk *d, struct act_ctx *ctx, const struct act_msg *msg) {
    struct door_desk *state = d;
    switch (msg->kind) {
        ACT_CASE(desk, lane, accepted)
        ACT_CASE(desk, lane, refused)
        ACT_CASE(desk, lane, started)
        ACT_CASE(desk, lane, token)
        ACT_CASE(desk, lane, text)
        ACT_CASE(desk, lane, top)
        ACT_CASE(desk, lane, hash)
        ACT_CASE(desk, lane, ended)
        ACT_CASE(desk, lane, drained)
        ACT_CASE(desk, lane, stats_are)
        ACT_CASE(desk, ses, looked)
    case ACT_KIND_timer: {
        struct act_timer_msg t;
        memcpy(&t, msg->body, sizeof t);
        if (t.cookie != DOOR_COOKIE_DESK)
            return false;
        desk_clock(d, ctx);
        break;
    }
    default:
        return false;
    }
    return true;
}

bool door_desk_audit(const struct door_desk *d, struct status_note *note) {
    uint64_t reserved = 0, kept = 0, chunks = 0;
    uint32_t live = 0, ended = 0, more = 0;
    for (uint32_t i = 0; i < d->table.n_slots; i++) {
        const struct door_request *r = &d->table.slots[i];
        if (r->state == DOOR_FREE)
            continue;
        *(r->state == DOOR_ENDED ? &ended : &live) += 1;
        *(r->state == DOOR_ENDED ? &kept : &reserved) += r->chunks;
        chunks += r->log.n_chunks;
        more += r->state == DOOR_ENDED && r->chunks != r->log.n_chunks;
    }
    const char *wrong = more > 0                             ? "chunks of ended requests"
                        : reserved != d->reserved            ? "reserved chunks"
                        : kept != d->kept                    ? "kept chunks"
                        : chunks != d->pool.used             ? "chunks in use"
                        : reserved + kept > d->pool.n_chunks ? "chunks promised"
                        : live != d->table.live.n            ? "live requests"
                        : ended != d->table.ended.n          ? "ended requests"
                        : live + ended + d->table.n_free != d->table.n_slots  ? "free slots"
                        : d->waits.waiting.n + d->waits.ready.n != d->waits.n ? "waits"
                                                                              : NULL;
    if (wrong == NULL)
        return true;
    status_say(note, STATUS_BAD_REQUEST, "the door's books do not balance: %s", wrong);
    return false;
}
