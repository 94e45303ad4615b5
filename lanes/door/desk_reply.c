/* SPDX-License-Identifier: Apache-2.0
 * The bodies of answers, as doc/protocol.md says. Every answer fits in DOOR_REPLY_MAX: lists stop
 * before it is full and say that there is more.
 */
#include <stdio.h>

#include "lanes/door/desk_private.h"
#include "sessions/reason.h"

enum {
    EVENT_JSON_MAX =
        4096, /* one event at its longest: 20 logprobs, 31 bytes of escapes and their hex */
    SESSION_JSON_MAX = 1024
};

static const char *state_name(const struct door_request *r) {
    return r->state == DOOR_ENDED ? "ended" : r->state == DOOR_RUNNING ? "running" : "queued";
}

static const char *end_name(uint32_t end) {
    static const char *const names[LANE_ENDS] = {
        [LANE_END_EOS] = "eos",
        [LANE_END_STOP] = "stop",
        [LANE_END_LENGTH] = "length",
        [LANE_END_CONTEXT] = "context",
        [LANE_END_CANCELLED] = "cancelled",
        [LANE_END_FAILED] = "failed",
    };
    return end < LANE_ENDS ? names[end] : "failed";
}

static struct door_out *begin(struct door_desk *d) {
    door_out_begin(&d->out, d->reply, DOOR_REPLY_MAX);
    return &d->out;
}

static struct door_out *begin_ok(struct door_desk *d) {
    struct door_out *o = begin(d);
    door_out_object(o, NULL);
    door_out_bool(o, "ok", true);
    return o;
}

static void end(struct door_out *o) {
    door_out_end(o, '}');
    CHECK(!o->full);
}

void door_reply_error(struct door_desk *d, const struct door_error *error) {
    struct door_out *o = begin(d);
    door_out_error(o, error);
    CHECK(!o->full);
}

void door_reply_ping(struct door_desk *d) {
    struct door_out *o = begin_ok(d);
    door_out_u64(o, "protocol", DOOR_PROTOCOL_VERSION);
    door_out_bool(o, "draining", d->draining);
    end(o);
}

/* The same for a submit and for its repeats. */
void door_reply_accepted(struct door_desk *d, const struct door_request *r) {
    struct door_out *o = begin_ok(d);
    door_out_str(o, "name", r->name);
    door_out_u64(o, "prompt_tokens", r->n_prompt);
    door_out_u64(o, "max_tokens", r->max_tokens);
    door_out_u64(o, "seed", r->seed);
    door_out_u64(o, "cursor", 0);
    end(o);
}

void door_reply_cancel(struct door_desk *d, const struct door_request *r) {
    struct door_out *o = begin_ok(d);
    door_out_str(o, "name", r->name);
    door_out_str(o, "state", state_name(r));
    end(o);
}

/* ---- events ---- */

static void out_text(struct door_out *o, const struct door_event *e) {
    if (!door_out_text(o, "text", e->bytes, e->n_bytes))
        door_out_hex(o, "bytes_hex", e->bytes, e->n_bytes);
}

static void out_token(struct door_out *o, const struct door_event *e) {
    door_out_u64(o, "index", e->index);
    door_out_u64(o, "id", e->id);
    out_text(o, e);
    if ((e->flags & DOOR_HAS_LOGPROB) != 0)
        door_out_f32(o, "logprob", e->logprob);
    if (e->n_top > 0) {
        door_out_array(o, "top");
        for (uint32_t i = 0; i < e->n_top; i++) {
            door_out_object(o, NULL);
            door_out_u64(o, "id", e->top[i].id);
            door_out_f32(o, "logprob", e->top[i].logprob);
            door_out_end(o, '}');
        }
        door_out_end(o, ']');
    }
    if ((e->flags & DOOR_HAS_HASH) != 0) {
        char hex[17];
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)e->hash);
        door_out_str(o, "logits_hash", hex);
    }
}

static void out_ended(struct door_out *o, const struct door_event *e) {
    enum status s = (enum status)e->value[1];
    door_out_str(o, "reason", end_name(e->value[0]));
    door_out_u64(o, "new_tokens", e->value[2]);
    door_out_u64(o, "rows", e->value[3]);
    door_out_u64(o, "drafted", e->more[0]);
    door_out_u64(o, "accepted", e->more[1]);
    if (s != STATUS_OK) {
        door_out_object(o, "error");
        door_out_str(o, "code", status_code(s));
        door_out_str(o, "message", status_text(s));
        if (s == STATUS_ROUND_FAILED || s == STATUS_SHUTDOWN || s == STATUS_DRAINING)
            door_out_u64(o, "retry_ms", DOOR_RETRY_MS);
        door_out_end(o, '}');
    }
}

static void out_event(struct door_out *o, const struct door_event *e) {
    static const char *const names[DOOR_EVENTS] = {"started", "token", "text", "ended"};
    door_out_object(o, NULL);
    door_out_str(o, "type", names[e->kind]);
    switch ((enum door_event_kind)e->kind) {
    case DOOR_EVENT_STARTED:
        door_out_u64(o, "prompt_tokens", e->value[0]);
        door_out_u64(o, "resumed_tokens", e->value[1]);
        door_out_u64(o, "from_ram", e->more[0]);
        door_out_u64(o, "from_disk", e->more[1]);
        door_out_str(o, "memory", ses_reason_name((enum ses_reason)e->value[2]));
        door_out_u64(o, "queued_us", e->value[3]);
        break;
    case DOOR_EVENT_TOKEN:
        out_token(o, e);
        break;
    case DOOR_EVENT_ENDED:
        out_ended(o, e);
        break;
    default:
        out_text(o, e);
        break;
    }
    door_out_end(o, '}');
}

void door_reply_events(struct door_desk *d, struct door_request *r, uint64_t cursor,
                       uint32_t max_events) {
    struct door_out *o = begin_ok(d);
    struct door_place place;
    struct door_event e;
    uint32_t n = 0;
    door_out_str(o, "name", r->name);
    door_out_str(o, "state", state_name(r));
    door_out_array(o, "events");
    door_log_seek(&d->pool, &r->log, cursor, &place);
    while (n < max_events && o->cap - o->n > EVENT_JSON_MAX &&
           door_log_next(&d->pool, &r->log, &place, &e)) {
        out_event(o, &e);
        n++;
    }
    door_out_end(o, ']');
    door_out_u64(o, "cursor", place.event);
    door_out_bool(o, "more", place.event < r->log.n_events);
    if (r->state == DOOR_ENDED && place.event == r->log.n_events)
        r->read_out = true;
    end(o);
}

/* ---- lists and counts ---- */

void door_reply_sessions(struct door_desk *d, uint64_t from, uint64_t now_ns) {
    struct door_out *o = begin_ok(d);
    uint32_t n = 0;
    uint64_t i = from;
    door_out_array(o, "sessions");
    for (; i < d->table.n_slots && n < DOOR_LIST_MAX && o->cap - o->n > SESSION_JSON_MAX; i++) {
        const struct door_request *r = &d->table.slots[i];
        if (r->state == DOOR_FREE)
            continue;
        door_out_object(o, NULL);
        door_out_str(o, "name", r->name);
        door_out_str(o, "state", state_name(r));
        door_out_u64(o, "prompt_tokens", r->n_prompt);
        door_out_u64(o, "resumed_tokens", r->n_resumed);
        door_out_u64(o, "new_tokens", r->n_new);
        door_out_u64(o, "events", r->log.n_events);
        door_out_u64(o, "age_ms", (now_ns - r->submitted_ns) / 1000000);
        door_out_end(o, '}');
        n++;
    }
    door_out_end(o, ']');
    if (i < d->table.n_slots)
        door_out_u64(o, "next", i);
    end(o);
}

static void out_engine(struct door_out *o, const struct lane_counters *c) {
    door_out_object(o, "engine");
    door_out_u64(o, "running", c->running);
    door_out_u64(o, "queued", c->queued);
    door_out_u64(o, "lanes_max", c->lanes_max);
    door_out_u64(o, "rounds", c->rounds);
    door_out_u64(o, "rounds_failed", c->rounds_failed);
    door_out_u64(o, "rows_prompt", c->rows_prompt);
    door_out_u64(o, "rows_decode", c->rows_decode);
    door_out_u64(o, "rows_verify", c->rows_verify);
    door_out_u64(o, "tokens_out", c->tokens_out);
    door_out_u64(o, "drafted", c->drafted);
    door_out_u64(o, "accepted", c->accepted);
    door_out_u64(o, "resumed", c->resumed);
    door_out_u64(o, "resumed_ram", c->resumed_ram);
    door_out_u64(o, "resumed_disk", c->resumed_disk);
    door_out_object(o, "memory");
    for (int i = 0; i < SES_REASONS; i++)
        door_out_u64(o, ses_reason_name((enum ses_reason)i), c->reasons[i]);
    door_out_end(o, '}');
    door_out_u64(o, "requests", c->requests);
    door_out_u64(o, "refused", c->refused);
    door_out_u64(o, "cancelled", c->cancelled);
    door_out_u64(o, "failed", c->failed);
    door_out_u64(o, "host_ns", c->host_ns_total);
    door_out_u64(o, "kernel_ns", c->kernel_ns_total);
    door_out_u64(o, "pages_total", c->pages_total);
    door_out_u64(o, "pages_free", c->pages_free);
    door_out_u64(o, "page_tokens", c->page_tokens);
    door_out_u64(o, "kv_tokens", c->kv_capacity_tokens);
    door_out_end(o, '}');
}

void door_reply_stats(struct door_desk *d) {
    struct door_out *o = begin_ok(d);
    const struct door_desk_counts *c = &d->counts;
    door_out_bool(o, "draining", d->draining);
    out_engine(o, &d->counters);
    if (d->config.memory != 0)
        door_out_counts(o, &d->queries[DOOR_QUERIES].query.counts);
    door_out_object(o, "door");
    door_out_u64(o, "live", d->table.live.n);
    door_out_u64(o, "ended", d->table.ended.n);
    door_out_u64(o, "waiting", d->waits.n);
    door_out_u64(o, "messages", c->messages);
    door_out_u64(o, "repeated", c->repeated);
    door_out_u64(o, "submits", c->submits);
    door_out_u64(o, "resends", c->resends);
    door_out_u64(o, "refused", c->refused);
    door_out_u64(o, "reads", c->reads);
    door_out_u64(o, "keepalives", c->empty_reads);
    door_out_u64(o, "cancels", c->cancels);
    door_out_u64(o, "idle_cancels", c->idle_cancels);
    door_out_u64(o, "waits_refused", c->waits_refused);
    door_out_u64(o, "forgotten", c->expired);
    door_out_u64(o, "log_bytes", (uint64_t)d->pool.used * DOOR_CHUNK_BYTES);
    door_out_u64(o, "log_bytes_reserved", (d->reserved + d->kept) * DOOR_CHUNK_BYTES);
    door_out_u64(o, "probes", d->probes);
    door_out_u64(o, "healed", d->healed);
    door_out_end(o, '}');
    end(o);
}

static void out_limits(struct door_desk *d, struct door_out *o) {
    door_out_object(o, "limits");
    door_out_u64(o, "message_bytes", DOOR_MESSAGE_MAX);
    door_out_u64(o, "reply_bytes", DOOR_REPLY_MAX);
    door_out_u64(o, "live", d->config.live_max);
    door_out_u64(o, "waits", d->config.waits_max);
    door_out_u64(o, "wait_ms", DOOR_WAIT_MS_MAX);
    door_out_u64(o, "events", DOOR_EVENTS_MAX);
    door_out_u64(o, "keep_ms", d->config.keep_ns / 1000000);
    door_out_u64(o, "max_tokens", KRN_CONTEXT_MAX);
    door_out_u64(o, "stops", LANE_STOPS_MAX);
    door_out_u64(o, "stop_bytes", LANE_STOP_BYTES_MAX - 1);
    door_out_u64(o, "logit_bias", LANE_BIAS_MAX);
    door_out_u64(o, "logprobs", KRN_TOP_MAX);
    door_out_u64(o, "draft", LANE_DRAFT_MAX);
    door_out_end(o, '}');
}

void door_reply_info(struct door_desk *d) {
    struct door_out *o = begin_ok(d);
    const struct door_desk_config *c = &d->config;
    door_out_u64(o, "protocol", DOOR_PROTOCOL_VERSION);
    door_out_str(o, "version", c->version != NULL ? c->version : "");
    door_out_str(o, "model", c->model != NULL ? c->model : "");
    door_out_str(o, "profile", c->profile != NULL ? c->profile : "");
    door_out_u64(o, "context", c->context);
    door_out_u64(o, "vocab", c->vocab);
    door_out_u64(o, "kv_tokens", c->kv_tokens);
    door_out_str(o, "weights", c->weights != NULL ? c->weights : "");
    door_out_u64(o, "weights_bytes", c->weights_bytes);
    door_out_bool(o, "text", c->tokenizer != NULL);
    door_out_str(o, "chat_template", c->template_name != NULL ? c->template_name : "");
    door_out_bool(o, "draining", d->draining);
    door_out_object(o, "sampling");
    door_out_f32(o, "temperature", c->sampling.temperature);
    door_out_u64(o, "top_k", c->sampling.top_k);
    door_out_f32(o, "top_p", c->sampling.top_p);
    door_out_f32(o, "min_p", c->sampling.min_p);
    door_out_f32(o, "repetition_penalty", c->sampling.repetition);
    door_out_f32(o, "presence_penalty", c->sampling.presence);
    door_out_f32(o, "frequency_penalty", c->sampling.frequency);
    door_out_end(o, '}');
    out_limits(d, o);
    end(o);
}

void door_reply_drain(struct door_desk *d, uint64_t deadline_ms) {
    struct door_out *o = begin_ok(d);
    door_out_bool(o, "draining", d->draining);
    door_out_u64(o, "live", d->table.live.n);
    door_out_u64(o, "deadline_ms", deadline_ms);
    if (d->drained) {
        door_out_u64(o, "cancelled", d->drain_cancelled);
        door_out_u64(o, "unsaved", d->drain_unsaved);
        if (d->drain_status != STATUS_OK)
            door_out_str(o, "why", status_text(d->drain_status));
    }
    end(o);
}
