/* SPDX-License-Identifier: Apache-2.0
 * The in-process client actor.
 */
#include "lanes/programs/client.h"

#include <stdlib.h>
#include <string.h>

#include "lanes/admit.h"

static struct client_call *client_find(struct client *c, uint64_t request) {
    struct client_call *call = c->calls[request % CLIENT_CALLS_MAX];
    CHECK(call != NULL && call->request.id == request);
    return call;
}

void client_call_init(struct client_call *call) {
    *call = (struct client_call){0};
    call->request.max_tokens = 1;
    call->request.flags = LANE_NO_TEXT;
    call->request.sampling =
        (struct krn_sampling){.temperature = 0.0f, .top_p = 1.0f, .repetition = 1.0f};
}

void client_call_free(struct client_call *call) {
    free(call->text);
    call->text = NULL;
    call->text_bytes = call->text_capacity = 0;
}

static void client_text(struct client_call *call, const uint8_t *bytes, size_t n) {
    if (call->text_bytes + n + 1 > call->text_capacity) {
        size_t capacity = call->text_capacity * 2 + n + 256;
        char *text = realloc(call->text, capacity);
        CHECK(text != NULL);
        call->text = text;
        call->text_capacity = capacity;
    }
    memcpy(call->text + call->text_bytes, bytes, n);
    call->text_bytes += n;
    call->text[call->text_bytes] = '\0';
}

static void client_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    call->state = CLIENT_OVER;
    call->end_ns = act_now_ns(ctx);
    c->calls[call->request.id % CLIENT_CALLS_MAX] = NULL;
    c->live--;
    c->driver.over(ctx, c, call);
}

static void client_on_token(struct act_ctx *ctx, struct client *c, const struct lane_token *m) {
    struct client_call *call = client_find(c, m->request);
    CHECK(m->index == call->n_new);
    if (call->n_new == 0)
        call->first_ns = act_now_ns(ctx);
    if (call->ids != NULL)
        call->ids[call->n_new] = m->id;
    if (call->logprobs != NULL)
        call->logprobs[call->n_new] = m->logprob;
    call->n_new++;
    if (m->n_bytes > 0)
        client_text(call, m->bytes, m->n_bytes);
    if (c->driver.token != NULL)
        c->driver.token(ctx, c, call, m->id);
}

static void client_on_ended(struct act_ctx *ctx, struct client *c, const struct lane_ended *m) {
    struct client_call *call = client_find(c, m->request);
    CHECK(m->n_new == call->n_new);
    call->end = (enum lane_end)m->end;
    call->status = (enum status)m->status;
    call->drafted = m->drafted;
    call->accepted = m->accepted;
    call->rows = m->rows;
    client_over(ctx, c, call);
}

static void client_on_refused(struct act_ctx *ctx, struct client *c, const struct lane_refused *m) {
    struct client_call *call = client_find(c, m->request);
    call->refused = true;
    call->end = LANE_END_FAILED;
    call->status = (enum status)m->status;
    call->value = m->value;
    call->limit = m->limit;
    client_over(ctx, c, call);
}

static void client_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct client *c = state;
    const void *b = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        c->self = act_self(ctx);
        c->driver.start(ctx, c, c->driver.user);
        break;
    case ACT_KIND_timer:
        if (c->driver.timer != NULL)
            c->driver.timer(ctx, c, ((const struct act_timer_msg *)b)->cookie);
        break;
    case lane_KIND_accepted: {
        const struct lane_accepted *m = b;
        struct client_call *call = client_find(c, m->request);
        call->state = CLIENT_ACCEPTED;
        call->lane = m->lane;
        if (call->cancel_sent)
            ACT_SEND(ctx, lane_engine_planner(c->engine), lane, cancel, .lane = call->lane);
        break;
    }
    case lane_KIND_started: {
        const struct lane_started *m = b;
        struct client_call *call = client_find(c, m->request);
        call->n_prompt = m->n_prompt;
        call->n_resumed = m->n_resumed;
        call->from_ram = m->from_ram;
        call->from_disk = m->from_disk;
        call->reason = m->reason;
        break;
    }
    case lane_KIND_token:
        client_on_token(ctx, c, b);
        break;
    case lane_KIND_text: {
        const struct lane_text *m = b;
        struct client_call *call = client_find(c, m->request);
        client_text(call, m->bytes, m->n_bytes);
        if (c->driver.token != NULL)
            c->driver.token(ctx, c, call, UINT32_MAX);
        break;
    }
    case lane_KIND_hash: {
        const struct lane_hash *m = b;
        struct client_call *call = client_find(c, m->request);
        if (call->hashes != NULL)
            call->hashes[m->index] = m->hash;
        break;
    }
    case lane_KIND_top:
    case lane_KIND_logits:
        if (c->driver.other != NULL)
            c->driver.other(ctx, c, msg);
        break;
    case lane_KIND_ended:
        client_on_ended(ctx, c, b);
        break;
    case lane_KIND_refused:
        client_on_refused(ctx, c, b);
        break;
    case ACT_KIND_gone:
        break;
    case lane_KIND_drain: /* our own: sessions that outlive us are saved first */
        if (!lane_engine_has_disk(c->engine))
            act_rt_stop(act_rt_of(ctx));
        else
            ACT_SEND(ctx, lane_engine_planner(c->engine), lane, drain, .deadline_ns = 0);
        break;
    case lane_KIND_drained:
        act_rt_stop(act_rt_of(ctx));
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        if (c->driver.other != NULL)
            c->driver.other(ctx, c, msg);
    }
}

static const struct act_kind client_kind = {.name = "client", .receive = client_receive};

void client_open(struct client *c, struct lane_engine *engine, const struct client_driver *driver) {
    *c = (struct client){.engine = engine, .driver = *driver, .next_id = 1};
    c->self = act_spawn(lane_engine_rt(engine), &client_kind, c, 0);
    CHECK(c->self != 0);
}

void client_run(struct client *c) {
    act_rt_run(lane_engine_rt(c->engine));
}

void client_stop(struct act_ctx *ctx) {
    act_send(ctx, act_self(ctx), lane_KIND_drain, NULL, 0);
}

void client_submit(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    CHECK(call->state == CLIENT_IDLE || call->state == CLIENT_OVER);
    while (c->calls[c->next_id % CLIENT_CALLS_MAX] != NULL)
        c->next_id++;
    call->request.id = c->next_id++;
    call->request.client = c->self;
    c->calls[call->request.id % CLIENT_CALLS_MAX] = call;
    c->live++;
    call->state = CLIENT_SENT;
    call->lane = 0;
    call->refused = call->cancel_sent = false;
    call->n_new = call->n_resumed = call->from_ram = call->from_disk = call->reason =
        call->drafted = call->accepted = call->rows = 0;
    call->n_prompt = call->request.n_prompt;
    call->text_bytes = 0;
    call->first_ns = call->end_ns = 0;
    call->submit_ns = act_now_ns(ctx);
    ACT_SEND(ctx, lane_engine_planner(c->engine), lane, submit, .request = &call->request);
}

void client_cancel(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    if (call->state != CLIENT_SENT && call->state != CLIENT_ACCEPTED)
        return;
    call->cancel_sent = true;
    if (call->lane != 0)
        ACT_SEND(ctx, lane_engine_planner(c->engine), lane, cancel, .lane = call->lane);
}

const char *client_end_name(enum lane_end end) {
    static const char *const names[LANE_ENDS] = {"eos",     "stop",      "length",
                                                 "context", "cancelled", "failed"};
    return (unsigned)end < LANE_ENDS ? names[end] : "unknown";
}

void client_call_say(const struct client_call *call, struct status_note *note) {
    struct lane_refusal refusal = {call->status, call->value, call->limit};
    lane_refusal_say(&refusal, note);
}
