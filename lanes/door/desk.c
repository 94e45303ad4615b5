/* SPDX-License-Identifier: Apache-2.0
 * Clients' commands: what is answered at once, what waits, what goes to the planner.
 */
#include "lanes/door/desk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/sha.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "lanes/door/desk_private.h"

enum { NS_PER_MS = 1000000 };
static const uint64_t log_bytes_default = 512ull << 20;

/* ---- life ---- */

enum status door_desk_open(struct door_desk *d, const struct door_desk_config *config,
                           struct status_note *note) {
    memset(d, 0, sizeof *d);
    d->config = *config;
    struct door_desk_config *c = &d->config;
    c->live_max = c->live_max != 0 ? c->live_max : DOOR_LIVE_DEFAULT;
    c->ended_max = c->ended_max != 0 ? c->ended_max : DOOR_ENDED_DEFAULT;
    c->waits_max = c->waits_max != 0 ? c->waits_max : DOOR_WAITS_DEFAULT;
    c->log_bytes = c->log_bytes != 0 ? c->log_bytes : log_bytes_default;
    c->keep_ns = c->keep_ns != 0 ? c->keep_ns : (uint64_t)DOOR_KEEP_MS_DEFAULT * NS_PER_MS;
    c->query_ns = c->query_ns != 0 ? c->query_ns : (uint64_t)DOOR_QUERY_MS_DEFAULT * NS_PER_MS;
    CHECK(c->vocab > 0 && c->context > 0);
    d->limits = (struct door_limits){.context = c->context,
                                     .vocab = c->vocab,
                                     .has_text = c->tokenizer != NULL,
                                     .has_chat = c->template_name != NULL,
                                     .sampling = c->sampling,
                                     .drain_ms = c->drain_ns / NS_PER_MS};
    d->token_bytes = c->tokenizer != NULL ? lane_tokenizer_bytes_max(c->tokenizer) : 0;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return status_say(note, STATUS_IO, "no random numbers from the system for the door");
    door_json_setup();
    d->reply = malloc(DOOR_REPLY_MAX);
    d->queries = calloc(DOOR_QUERIES + 1, sizeof *d->queries);
    if (d->reply == NULL || d->queries == NULL || !door_arena_open(&d->arena, DOOR_ARENA_BYTES) ||
        !door_pool_open(&d->pool, c->log_bytes) ||
        !door_table_open(&d->table, c->live_max + c->ended_max, seed) ||
        !door_waits_open(&d->waits, c->waits_max + DOOR_STAGES + 1)) {
        door_desk_close(d);
        return status_say(note, STATUS_NO_MEMORY, "no memory for the door's tables");
    }
    return STATUS_OK;
}

void door_desk_close(struct door_desk *d) {
    for (uint32_t i = 0; i < DOOR_STAGES; i++)
        free(d->stages[i].ids);
    free(d->queries);
    free(d->reply);
    door_arena_close(&d->arena);
    door_pool_close(&d->pool);
    door_table_close(&d->table);
    door_waits_close(&d->waits);
    memset(d, 0, sizeof *d);
}

bool door_desk_may_receive(const struct door_desk *d) {
    return d->stages_used < DOOR_STAGES && d->waits.n < d->waits.n_slots;
}

/* ---- making room ---- */

static void desk_forget(struct door_desk *d, struct door_request *r) {
    CHECK(r->state == DOOR_ENDED && r->n_waits == 0);
    CHECK(d->kept >= r->chunks);
    d->kept -= r->chunks;
    door_log_clear(&d->pool, &r->log);
    door_table_remove(&d->table, r, true);
    d->counts.expired++;
}

void door_desk_forget_oldest(struct door_desk *d) {
    desk_forget(d, &d->table.slots[d->table.ended.head]);
}

static bool desk_make_room(struct door_desk *d, uint64_t chunks) {
    while (d->reserved + d->kept + chunks > d->pool.n_chunks && d->table.ended.n > 0)
        door_desk_forget_oldest(d);
    while (d->table.n_free == 0 && d->table.ended.n > 0)
        door_desk_forget_oldest(d);
    return d->reserved + d->kept + chunks <= d->pool.n_chunks && d->table.n_free > 0;
}

/* ---- submit ---- */

static struct door_stage *stage_take(struct door_desk *d) {
    for (uint32_t i = 0; i < DOOR_STAGES; i++) {
        if (!d->stages[i].used) {
            d->stages[i].used = true;
            d->stages_used++;
            return &d->stages[i];
        }
    }
    CHECK(!"a message was received with all stages taken");
    return NULL;
}

void door_desk_stage_give(struct door_desk *d, struct door_stage *s) {
    CHECK(s->used && d->stages_used > 0);
    s->used = false;
    s->n = 0;
    d->stages_used--;
}

static bool refuse_prompt_long(struct door_desk *d, const char *field, uint64_t n,
                               struct door_error *error) {
    door_refuse(error, STATUS_PROMPT_TOO_LONG, field,
                "%s: %llu tokens or more, the context holds %u with at least one to come", field,
                (unsigned long long)n, d->config.context);
    error->numbers = true;
    error->value = n;
    error->limit = d->config.context - 1;
    return false;
}

/* The prompt's ids into the stage, whatever form the prompt had. */
static bool stage_prompt(struct door_desk *d, struct door_stage *s, const struct door_submit *in,
                         struct door_error *error) {
    static const char *const fields[] = {"prompt", "prompt_ids", "messages"};
    const struct lane_tokenizer *t = d->config.tokenizer;
    const char *field = fields[in->kind];
    struct status_note note = {{0}};
    enum status status = STATUS_OK;
    s->n = 0;
    if (in->kind == DOOR_PROMPT_IDS) {
        if (in->n_ids > s->capacity) {
            uint32_t *ids = realloc(s->ids, in->n_ids * sizeof *ids);
            if (ids == NULL)
                return door_refuse(error, STATUS_NO_MEMORY, field, "%s: no memory", field);
            s->ids = ids;
            s->capacity = in->n_ids;
        }
        memcpy(s->ids, in->ids, in->n_ids * sizeof *s->ids);
        s->n = in->n_ids;
    } else if (in->kind == DOOR_PROMPT_TEXT) {
        /* A token stands for at least one byte and at most token_bytes. */
        if (in->text_bytes / (d->token_bytes + 1) > d->config.context)
            return refuse_prompt_long(d, field, in->text_bytes / (d->token_bytes + 1), error);
        uint32_t flags = (in->bos && lane_tokenizer_adds_bos(t) ? LANE_ENCODE_BOS : 0) |
                         (in->parse_special ? LANE_ENCODE_SPECIAL : 0);
        status = lane_tokenizer_encode(t, in->text, in->text_bytes, flags, d->config.context,
                                       &s->ids, &s->n, &s->capacity, &note);
    } else {
        const struct lane_template_options date = {.date = in->template.date};
        if (lane_template_check(t, &in->template, &note) != STATUS_OK)
            field =
                lane_template_check(t, &date, &note) != STATUS_OK ? "template_date" : "thinking";
        status = lane_template_encode(t, in->messages, in->n_messages, &in->template, true,
                                      d->config.context, &s->ids, &s->n, &s->capacity, &note);
    }
    if (status == STATUS_TOO_LARGE || s->n >= d->config.context)
        return refuse_prompt_long(d, field, d->config.context, error);
    if (status != STATUS_OK)
        return door_refuse(error, status, field, "%s: %.200s", field,
                           note.text[0] != 0 ? note.text : status_text(status));
    if (s->n == 0)
        return door_refuse(error, STATUS_EMPTY_PROMPT, field, "%s: has no tokens", field);
    return true;
}

/* An unseeded request draws from a seed that its name gives, so that a repeat of it can be asked
 * for. */
static uint64_t seed_of_name(const char *name) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    uint64_t seed;
    SHA256((const unsigned char *)name, strlen(name), digest);
    memcpy(&seed, digest, sizeof seed);
    return seed & INT64_MAX;
}

/* Everything that decides what the client gets, field by field: padding must not count. */
static struct door_digest content_digest(const struct door_stage *s, uint32_t idle_cancel_ms) {
    const struct lane_request *r = &s->request;
    const struct krn_sampling *p = &r->sampling;
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
#define ADD(v) XXH3_128bits_update(&state, &(v), sizeof(v))
    ADD(s->n);
    XXH3_128bits_update(&state, s->ids, s->n * sizeof *s->ids);
    ADD(r->tenant);
    ADD(r->max_tokens);
    ADD(r->deadline_ns);
    ADD(r->flags);
    ADD(r->priority);
    ADD(r->draft_max);
    ADD(r->draft_fixed);
    ADD(p->temperature);
    ADD(p->top_k);
    ADD(p->top_p);
    ADD(p->min_p);
    ADD(p->repetition);
    ADD(p->presence);
    ADD(p->frequency);
    ADD(p->n_top);
    ADD(p->seed);
    ADD(p->flags);
    ADD(r->n_bias);
    for (uint32_t i = 0; i < r->n_bias; i++) {
        ADD(s->bias[i].id);
        ADD(s->bias[i].bias);
    }
    ADD(r->n_stops);
    for (uint32_t i = 0; i < r->n_stops; i++) {
        ADD(s->stops[i].bytes);
        XXH3_128bits_update(&state, s->stops[i].text, s->stops[i].bytes);
    }
    ADD(idle_cancel_ms);
#undef ADD
    XXH128_hash_t h = XXH3_128bits_digest(&state);
    return (struct door_digest){h.low64, h.high64};
}

static bool stage_fill(struct door_desk *d, struct door_stage *s, const struct door_call *call,
                       struct door_error *error) {
    const struct door_submit *in = &call->submit;
    if (!stage_prompt(d, s, in, error))
        return false;
    s->request = in->request;
    memcpy(s->bias, in->bias, in->request.n_bias * sizeof s->bias[0]);
    memcpy(s->stops, in->stops, in->request.n_stops * sizeof s->stops[0]);
    s->request.bias = s->bias;
    s->request.stops = s->stops;
    s->request.prompt = s->ids;
    s->request.n_prompt = s->n;
    if (!in->seeded)
        s->request.sampling.seed = seed_of_name(call->name);
    return true;
}

/* Room for one more: what this door may hold, and the reply's worst case in the log. */
static bool desk_admit(struct door_desk *d, const struct lane_request *r, uint64_t *chunks,
                       struct door_error *error) {
    if (d->fatal != STATUS_OK || d->draining) {
        enum status s = d->fatal != STATUS_OK ? d->fatal : STATUS_DRAINING;
        door_refuse(error, s, "", "%s", status_text(s));
        error->retry_ms = d->draining ? DOOR_RETRY_MS : 0;
        return false;
    }
    if (d->table.live.n >= d->config.live_max) {
        door_refuse(error, STATUS_QUEUE_FULL, "", "the door holds %u requests, its limit",
                    d->table.live.n);
        error->numbers = true;
        error->value = d->table.live.n;
        error->limit = d->config.live_max;
        error->retry_ms = DOOR_RETRY_MS;
        return false;
    }
    uint64_t room = d->config.context - r->n_prompt;
    uint64_t tokens = r->max_tokens < room ? r->max_tokens : room;
    *chunks = door_log_chunks(tokens, (r->flags & LANE_NO_TEXT) != 0 ? 0 : d->token_bytes,
                              r->sampling.n_top, (r->sampling.flags & KRN_DRAW_HASH_LOGITS) != 0);
    if (*chunks > d->pool.n_chunks) {
        door_refuse(error, STATUS_TOO_LARGE, "max_tokens",
                    "max_tokens: a reply of that size does not fit in the reply log");
        return false;
    }
    if (desk_make_room(d, *chunks))
        return true;
    door_refuse(error, STATUS_QUEUE_FULL, "", "the reply log is full of running requests");
    error->retry_ms = DOOR_RETRY_MS;
    return false;
}

/* A name that is known: the same content gets the same reply, other content is refused. */
static bool desk_resent(struct door_desk *d, struct door_request *r, struct door_digest content,
                        const struct door_header *from, uint64_t now) {
    struct door_error error;
    if (r->content.low != content.low || r->content.high != content.high) {
        door_refuse(&error, STATUS_DUPLICATE, "name",
                    "name: is in use for a request with other content");
        d->counts.refused++;
        door_reply_error(d, &error);
        return true;
    }
    d->counts.resends++;
    r->read_ns = now;
    if (r->state != DOOR_SUBMITTED) {
        door_reply_accepted(d, r);
        return true;
    }
    door_waits_add(&d->waits, from, DOOR_WAIT_SUBMIT, &d->table, r, UINT64_MAX);
    return false;
}

static bool desk_submit(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from) {
    struct door_error error;
    struct door_call *call = &d->call;
    uint64_t now = act_now_ns(ctx), chunks = 0;
    struct door_stage *s = stage_take(d);
    if (!stage_fill(d, s, call, &error))
        goto refused;
    struct door_digest content = content_digest(s, call->submit.idle_cancel_ms);
    struct door_request *r = door_table_find(&d->table, call->name);
    if (r != NULL) {
        door_desk_stage_give(d, s);
        return desk_resent(d, r, content, from, now);
    }
    if (door_table_gone(&d->table, call->name)) {
        door_refuse(&error, STATUS_GONE, "name",
                    "name: was used before and its reply is no longer kept; choose another");
        goto refused;
    }
    if (!desk_admit(d, &s->request, &chunks, &error))
        goto refused;
    r = door_table_add(&d->table, call->name);
    CHECK(r != NULL);
    d->reserved += chunks;
    r->chunks = chunks;
    r->content = content;
    r->stage = (uint32_t)(s - d->stages);
    r->submitted_ns = r->read_ns = now;
    r->idle_ns = (uint64_t)call->submit.idle_cancel_ms * NS_PER_MS;
    r->max_tokens = s->request.max_tokens;
    r->seed = s->request.sampling.seed;
    r->flags = s->request.flags;
    r->wants_logprob = (s->request.sampling.flags & KRN_DRAW_LOGPROB) != 0;
    r->n_prompt = s->n;
    s->request.id = door_table_id(&d->table, r);
    s->request.client = act_self(ctx);
    struct door_wait *w =
        door_waits_add(&d->waits, from, DOOR_WAIT_SUBMIT, &d->table, r, UINT64_MAX);
    CHECK(w != NULL); /* nothing is received when all are taken */
    d->counts.submits++;
    ACT_SEND(ctx, d->config.planner, lane, submit, .request = &s->request);
    return false;
refused:
    d->counts.refused++;
    door_desk_stage_give(d, s);
    door_reply_error(d, &error);
    return true;
}

/* ---- read, cancel and the rest ---- */

/* The request of this name, or NULL and the answer is made. */
static struct door_request *desk_find(struct door_desk *d, const char *name) {
    struct door_request *r = door_table_find(&d->table, name);
    struct door_error error;
    if (r != NULL)
        return r;
    if (door_table_gone(&d->table, name))
        door_refuse(&error, STATUS_GONE, "name", "name: its reply is no longer kept");
    else
        door_refuse(&error, STATUS_NOT_FOUND, "name", "name: no such request");
    door_reply_error(d, &error);
    return NULL;
}

static bool refuse_wait(struct door_desk *d) {
    struct door_error error;
    door_refuse(&error, STATUS_QUEUE_FULL, "wait_ms",
                "wait_ms: %u answers are waited for already, the limit", d->config.waits_max);
    error.numbers = true;
    error.value = d->reading;
    error.limit = d->config.waits_max;
    error.retry_ms = DOOR_RETRY_MS;
    d->counts.waits_refused++;
    door_reply_error(d, &error);
    return true;
}

static bool desk_read(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from) {
    const struct door_call *call = &d->call;
    struct door_request *r = desk_find(d, call->name);
    uint64_t now = act_now_ns(ctx);
    if (r == NULL)
        return true;
    if (call->cursor > r->log.n_events) {
        struct door_error error;
        door_refuse(&error, STATUS_BAD_REQUEST, "cursor", "cursor: %llu, the last event is %llu",
                    (unsigned long long)call->cursor, (unsigned long long)r->log.n_events);
        error.numbers = true;
        error.value = call->cursor;
        error.limit = r->log.n_events;
        door_reply_error(d, &error);
        return true;
    }
    d->counts.reads++;
    r->read_ns = now;
    if (call->cursor < r->log.n_events || r->state == DOOR_ENDED || call->wait_ms == 0) {
        door_reply_events(d, r, call->cursor, call->max_events);
        return true;
    }
    if (d->reading >= d->config.waits_max)
        return refuse_wait(d);
    uint64_t deadline = now + (uint64_t)call->wait_ms * NS_PER_MS;
    struct door_wait *w = door_waits_add(&d->waits, from, DOOR_WAIT_READ, &d->table, r, deadline);
    CHECK(w != NULL);
    d->reading++;
    w->cursor = call->cursor;
    w->max_events = call->max_events;
    door_desk_arm(d, ctx, deadline);
    return false;
}

static bool desk_cancel(struct door_desk *d, struct act_ctx *ctx) {
    struct door_request *r = desk_find(d, d->call.name);
    if (r == NULL)
        return true;
    d->counts.cancels++;
    r->cancel_wanted = true;
    door_desk_send_cancel(d, ctx, r);
    door_reply_cancel(d, r);
    return true;
}

static bool desk_stats(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from) {
    /* Not counted against waits_max: the planner answers at once, and one wants to see a full
     * door. */
    CHECK(door_waits_add(&d->waits, from, DOOR_WAIT_STATS, &d->table, NULL, UINT64_MAX) != NULL);
    /* One question to each serves everybody who asks meanwhile. */
    if (d->stats_asked == 0) {
        d->stats_asked = DOOR_ASKED_PLANNER;
        ACT_SEND(ctx, d->config.planner, lane, stats, .token = 1);
        door_desk_ask_counts(d, ctx);
    }
    return false;
}

static bool desk_drain(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from) {
    door_desk_drain(d, ctx, d->call.deadline_ms * NS_PER_MS);
    if (!d->call.wait || d->drained || d->fatal != STATUS_OK) {
        door_reply_drain(d, d->call.deadline_ms);
        return true;
    }
    struct door_wait *w =
        door_waits_add(&d->waits, from, DOOR_WAIT_DRAIN, &d->table, NULL, UINT64_MAX);
    CHECK(w != NULL); /* nothing is received when all are taken */
    w->value = d->call.deadline_ms;
    return false;
}

bool door_desk_receive(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from,
                       const void *bytes, size_t n) {
    struct door_error error;
    d->counts.messages++;
    if (door_waits_find(&d->waits, from) != NULL) {
        d->counts.repeated++; /* the same call sent again; its answer is on the way */
        return false;
    }
    if (!door_decode(&d->arena, &d->limits, bytes, n, &d->call, &error)) {
        d->counts.refused++;
        door_reply_error(d, &error);
        return true;
    }
    switch (d->call.cmd) {
    case DOOR_SUBMIT:
        return desk_submit(d, ctx, from);
    case DOOR_READ:
        return desk_read(d, ctx, from);
    case DOOR_CANCEL:
        return desk_cancel(d, ctx);
    case DOOR_SESSIONS:
        door_reply_sessions(d, d->call.cursor, act_now_ns(ctx));
        return true;
    case DOOR_STORED:
    case DOOR_TOKENS:
    case DOOR_FORGET:
    case DOOR_PIN:
    case DOOR_EXPORT:
    case DOOR_IMPORT:
        return door_desk_query(d, ctx, from);
    case DOOR_STATS:
        return desk_stats(d, ctx, from);
    case DOOR_DRAIN:
        return desk_drain(d, ctx, from);
    case DOOR_INFO:
        door_reply_info(d);
        return true;
    default:
        door_reply_ping(d);
        return true;
    }
}

/* ---- answers that waited ---- */

const struct door_header *door_desk_ready(struct door_desk *d) {
    struct door_wait *w = door_waits_first(&d->waits);
    return w != NULL ? &w->to : NULL;
}

void door_desk_later(struct door_desk *d) {
    door_waits_rotate(&d->waits);
}

static void answer_submit(struct door_desk *d, const struct door_wait *w) {
    struct door_request *r = door_table_by_id(&d->table, w->request);
    struct door_error error;
    if (w->status == STATUS_OK && r != NULL) {
        door_reply_accepted(d, r);
        return;
    }
    enum status s = w->status != STATUS_OK ? (enum status)w->status : STATUS_GONE;
    door_refuse(&error, s, "", "%s", status_text(s));
    error.numbers = w->value != 0 || w->limit != 0;
    error.value = w->value;
    error.limit = w->limit;
    error.retry_ms = w->retry_ms;
    door_reply_error(d, &error);
}

void door_desk_answer(struct door_desk *d, struct act_ctx *ctx) {
    struct door_wait *w = door_waits_first(&d->waits);
    CHECK(w != NULL);
    struct door_request *r = door_table_by_id(&d->table, w->request);
    if (w->kind == DOOR_WAIT_SUBMIT) {
        answer_submit(d, w);
    } else if (w->kind == DOOR_WAIT_STATS) {
        door_reply_stats(d);
    } else if (w->kind == DOOR_WAIT_DRAIN) {
        door_reply_drain(d, w->value);
    } else if (w->kind == DOOR_WAIT_QUERY) {
        door_desk_answer_query(d, w);
    } else if (r != NULL) {
        r->read_ns = act_now_ns(ctx);
        door_reply_events(d, r, w->cursor, w->max_events);
    } else {
        struct door_error error;
        door_refuse(&error, STATUS_GONE, "name", "name: its reply is no longer kept");
        door_reply_error(d, &error);
    }
    d->reading -= w->kind == DOOR_WAIT_READ;
    door_waits_done(&d->waits, w);
}
