/* SPDX-License-Identifier: Apache-2.0
 * The fake planner.
 */
#include "tests/door/fake_planner.h"

#include <stdio.h>
#include <string.h>

enum { COOKIE_SLOW = 1, COOKIE_DRAIN, SLOW_NS = 1000000 };

static void fake_end(struct act_ctx *ctx, struct fake_planner *p, struct fake_lane *l,
                     enum lane_end end, enum status status) {
    ACT_SEND(ctx, l->client, lane, ended, .request = l->request, .end = end, .status = status,
             .n_prompt = l->n_prompt, .n_new = l->sent, .rows = l->n_prompt + l->sent);
    l->used = false;
    p->counters.running--;
    if (p->draining && p->counters.running == 0 && p->drain_client != 0) {
        ACT_SEND(ctx, p->drain_client, lane, drained, .cancelled = p->cancelled,
                 .unsaved = p->unsaved, .status = p->unsaved > 0 ? STATUS_IO : STATUS_OK);
        p->drain_client = 0;
    }
}

static void fake_send_token(struct act_ctx *ctx, struct fake_planner *p, struct fake_lane *l) {
    char text[20];
    uint32_t id = fake_token(l->sum, l->sent);
    for (uint32_t r = 0; r < l->n_top; r++)
        ACT_SEND(ctx, l->client, lane, top, .request = l->request, .index = l->sent,
                 .id = (id + r) % FAKE_VOCAB, .logprob = -0.125f * (float)(r + 1), .rank = r);
    if ((l->flags & KRN_DRAW_HASH_LOGITS) != 0)
        ACT_SEND(ctx, l->client, lane, hash, .request = l->request, .hash = 0x1234u + l->sent,
                 .index = l->sent);
    struct lane_token m = {.request = l->request, .index = l->sent++, .id = id, .logprob = -0.125f};
    m.n_bytes = (uint8_t)snprintf(text, sizeof text, "w%u ", id);
    memcpy(m.bytes, text, m.n_bytes);
    p->counters.tokens_out++;
    act_send(ctx, l->client, lane_KIND_token, &m, sizeof m);
}

static void fake_bytes(struct act_ctx *ctx, struct fake_lane *l) {
    static const unsigned char bad[] = {'a', 0xff, 0xe2, 0x82, 'b', '"', '\\', 0x01, 0xc3, 0xa9};
    struct lane_token m = {
        .request = l->request, .index = l->sent++, .id = 9, .n_bytes = sizeof bad};
    memcpy(m.bytes, bad, sizeof bad);
    act_send(ctx, l->client, lane_KIND_token, &m, sizeof m);
    struct lane_text t = {.request = l->request, .n_bytes = 31};
    memset(t.bytes, 'z', sizeof t.bytes);
    act_send(ctx, l->client, lane_KIND_text, &t, sizeof t);
}

static void fake_run(struct act_ctx *ctx, struct fake_planner *p, struct fake_lane *l) {
    ACT_SEND(ctx, l->client, lane, accepted, .request = l->request, .lane = l->name);
    if (l->script == FAKE_QUEUED)
        return;
    ACT_SEND(ctx, l->client, lane, started, .request = l->request, .n_prompt = l->n_prompt,
             .n_resumed = 0, .reason = 2, .queued_us = 5);
    l->started = true;
    switch (l->script) {
    case FAKE_HOLD:
        for (int i = 0; i < 3; i++)
            fake_send_token(ctx, p, l);
        break;
    case FAKE_FAIL:
        fake_send_token(ctx, p, l);
        fake_end(ctx, p, l, LANE_END_FAILED, STATUS_ROUND_FAILED);
        break;
    case FAKE_DEVICE:
        fake_send_token(ctx, p, l);
        fake_end(ctx, p, l, LANE_END_FAILED, STATUS_DEVICE);
        break;
    case FAKE_BYTES:
        fake_bytes(ctx, l);
        fake_end(ctx, p, l, LANE_END_EOS, STATUS_OK);
        break;
    case FAKE_SLOW:
        act_timer_arm(ctx, SLOW_NS, COOKIE_SLOW | (uint64_t)(l - p->lanes) << 8);
        break;
    default:
        while (l->sent < l->max_tokens)
            fake_send_token(ctx, p, l);
        fake_end(ctx, p, l, LANE_END_LENGTH, STATUS_OK);
        break;
    }
}

static void fake_submit(struct act_ctx *ctx, struct fake_planner *p, const struct lane_request *r) {
    if (r->prompt[0] == FAKE_REFUSE) {
        p->counters.refused++;
        ACT_SEND(ctx, r->client, lane, refused, .request = r->id, .status = STATUS_QUEUE_FULL,
                 .retry_ms = 250, .value = 7, .limit = 7);
        return;
    }
    struct fake_lane *l = p->lanes;
    while (l < p->lanes + FAKE_LANES && l->used)
        l++;
    CHECK(l < p->lanes + FAKE_LANES);
    uint32_t room = FAKE_CONTEXT - r->n_prompt;
    *l = (struct fake_lane){.used = true,
                            .request = r->id,
                            .name = (uint64_t)++p->generation << 32 | (uint32_t)(l - p->lanes),
                            .client = r->client,
                            .script = r->prompt[0],
                            .n_prompt = r->n_prompt,
                            .max_tokens = r->max_tokens < room ? (uint32_t)r->max_tokens : room,
                            .n_top = r->sampling.n_top,
                            .flags = r->sampling.flags};
    for (uint32_t i = 0; i < r->n_prompt; i++)
        l->sum += r->prompt[i];
    p->counters.requests++;
    p->counters.running++;
    l->held = l->script == FAKE_LATE;
    if (!l->held)
        fake_run(ctx, p, l);
}

static void fake_cancel_all(struct act_ctx *ctx, struct fake_planner *p) {
    for (uint32_t i = 0; i < FAKE_LANES; i++) {
        if (!p->lanes[i].used || p->lanes[i].held)
            continue;
        p->cancelled++;
        fake_end(ctx, p, &p->lanes[i], LANE_END_CANCELLED, STATUS_DRAINING);
    }
}

static void fake_timer(struct act_ctx *ctx, struct fake_planner *p, const struct act_msg *msg) {
    struct act_timer_msg t;
    memcpy(&t, msg->body, sizeof t);
    if (t.cookie == COOKIE_DRAIN) {
        fake_cancel_all(ctx, p);
        return;
    }
    struct fake_lane *l = &p->lanes[t.cookie >> 8];
    if (!l->used || l->script != FAKE_SLOW)
        return;
    fake_send_token(ctx, p, l);
    if (l->sent >= l->max_tokens)
        fake_end(ctx, p, l, LANE_END_LENGTH, STATUS_OK);
    else
        act_timer_arm(ctx, SLOW_NS, t.cookie);
}

static void fake_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct fake_planner *p = state;
    if (msg->kind == lane_KIND_submit) {
        struct lane_submit m;
        memcpy(&m, msg->body, sizeof m);
        fake_submit(ctx, p, m.request);
    } else if (msg->kind == lane_KIND_cancel) {
        struct lane_cancel m;
        memcpy(&m, msg->body, sizeof m);
        struct fake_lane *l = &p->lanes[(uint32_t)m.lane % FAKE_LANES];
        if (l->used && l->name == m.lane) {
            p->counters.cancelled++;
            fake_end(ctx, p, l, LANE_END_CANCELLED, STATUS_CANCELLED);
        }
    } else if (msg->kind == lane_KIND_drain) {
        struct lane_drain m;
        memcpy(&m, msg->body, sizeof m);
        p->draining = true;
        p->drain_client = msg->from;
        act_timer_arm(ctx, m.deadline_ns, COOKIE_DRAIN);
        if (p->counters.running == 0) {
            ACT_SEND(ctx, p->drain_client, lane, drained, .cancelled = 0);
            p->drain_client = 0;
        }
    } else if (msg->kind == lane_KIND_stats) {
        for (uint32_t i = 0; i < FAKE_LANES; i++) {
            if (p->lanes[i].used && p->lanes[i].held) {
                p->lanes[i].held = false;
                fake_run(ctx, p, &p->lanes[i]);
            }
        }
        ACT_SEND(ctx, msg->from, lane, stats_are, .token = 1, .counters = &p->counters);
    } else if (msg->kind == ACT_KIND_timer) {
        fake_timer(ctx, p, msg);
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}

const struct act_kind fake_planner_kind = {.name = "fake planner", .receive = fake_receive};
