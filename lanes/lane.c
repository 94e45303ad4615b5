/* SPDX-License-Identifier: Apache-2.0
 * The lane actor: takes what rounds drew, keeps what is accepted, sends text, and wants again.
 */
#include "lanes/lane.h"

#include <string.h>

#include "lanes/accept.h"
#include "lanes/draft.h"

ACT_HANDLER(lane, lane_slot, lane, begin);
ACT_HANDLER(lane, lane_slot, lane, drawn);
ACT_HANDLER(lane, lane_slot, lane, finish);

/* Bytes of buf[0..n) that fit in `room` without cutting a character of valid UTF-8. */
static uint32_t lane_text_fit(const char *buf, size_t n, uint32_t room) {
    if (n <= room)
        return (uint32_t)n;
    uint32_t fit = room;
    while (fit > room - 4 && ((unsigned char)buf[fit] & 0xc0) == 0x80)
        fit--;
    return ((unsigned char)buf[fit] & 0xc0) == 0x80 ? room : fit;
}

/* Sends `show` bytes of the stream's hold as text messages. */
static void lane_send_text(struct act_ctx *ctx, struct lane_slot *s, size_t show) {
    while (show > 0) {
        struct lane_text t = {.request = s->request};
        t.n_bytes = (uint8_t)lane_text_fit(s->stream.hold, show, sizeof t.bytes);
        memcpy(t.bytes, s->stream.hold, t.n_bytes);
        lane_stream_take(&s->stream, t.n_bytes);
        show -= t.n_bytes;
        act_send(ctx, s->client, lane_KIND_text, &t, sizeof t);
    }
}

/* Sends a token, what may be shown of the text with it, and all that was asked for beside it. */
static void lane_send_token(struct act_ctx *ctx, struct lane_slot *s,
                            const struct gpu_result *result, uint32_t draw, size_t show) {
    const struct krn_drawn *d = &result->drawn[draw];
    uint32_t index = s->n - s->n_prompt - 1;
    for (uint32_t i = 0; i < d->n_top; i++) {
        const struct krn_top *top = &result->top[(size_t)draw * KRN_TOP_MAX + i];
        ACT_SEND(ctx, s->client, lane, top, .request = s->request, .index = index, .id = top->id,
                 .logprob = top->logprob, .rank = i);
    }
    if ((s->sampling.flags & KRN_DRAW_HASH_LOGITS) != 0)
        ACT_SEND(ctx, s->client, lane, hash, .request = s->request, .hash = d->logits_hash,
                 .index = index);
    if (index == 0 && (s->flags & LANE_FIRST_LOGITS) != 0) {
        for (uint32_t i = 0; i < result->n_logits; i++)
            if (result->logits_draw[i] == draw)
                memcpy(s->first_logits, result->logits + (size_t)i * s->shared->vocab,
                       s->shared->vocab * sizeof(float));
        ACT_SEND(ctx, s->client, lane, logits, .request = s->request, .vocab = s->shared->vocab);
    }
    struct lane_token t = {
        .request = s->request, .index = index, .id = d->token, .logprob = d->logprob};
    t.n_bytes = (uint8_t)lane_text_fit(s->stream.hold, show, sizeof t.bytes);
    memcpy(t.bytes, s->stream.hold, t.n_bytes);
    lane_stream_take(&s->stream, t.n_bytes);
    act_send(ctx, s->client, lane_KIND_token, &t, sizeof t);
    lane_send_text(ctx, s, show - t.n_bytes);
}

static void lane_end(struct act_ctx *ctx, struct lane_slot *s, enum lane_end end,
                     enum status status) {
    if (end != LANE_END_STOP && s->shared->tokenizer != NULL)
        lane_send_text(ctx, s, lane_stream_finish(&s->stream));
    ACT_SEND(ctx, s->client, lane, ended, .request = s->request, .end = (uint16_t)end,
             .status = (uint16_t)status, .n_prompt = s->n_prompt, .n_resumed = s->matched,
             .n_new = s->n - s->n_prompt, .drafted = s->drafted, .accepted = s->accepted,
             .rows = s->rows);
    ACT_SEND(ctx, s->shared->planner, lane, done, .slot = s->index, .end = end, .status = status,
             .n_rows = s->n_rows);
    act_exit(ctx);
}

/* Wants the row of the pending token, with drafts when there are any. */
static void lane_want_next(struct act_ctx *ctx, struct lane_slot *s) {
    uint32_t left = s->new_max - (s->n - s->n_prompt);
    uint32_t max = s->draft_max == 0 ? 0 : s->draft_now;
    if (max > left - 1)
        max = left - 1;
    s->n_drafts = max == 0 ? 0 : lane_draft_propose(s, max);
    ACT_SEND(ctx, s->shared->planner, lane, want, .slot = s->index,
             .kind = s->n_drafts > 0 ? LANE_WANT_VERIFY : LANE_WANT_DECODE, .first_pos = s->n - 1,
             .n_rows = 1 + s->n_drafts, .may_ahead = s->draft_max == 0 && left > 1 && !s->masked);
}

void lane_on_begin(struct act_ctx *ctx, struct lane_slot *s, act_id_t from,
                   const struct lane_begin *m) {
    (void)from;
    CHECK(m->matched < s->n);
    s->matched = m->matched;
    s->hit_reason = m->reason;
    s->n_rows = m->matched;
    ACT_SEND(ctx, s->client, lane, started, .request = s->request, .n_prompt = s->n_prompt,
             .n_resumed = m->matched, .reason = m->reason, .queued_us = m->queued_us,
             .from_ram = m->from_ram, .from_disk = m->from_disk);
    uint32_t left = s->new_max;
    ACT_SEND(ctx, s->shared->planner, lane, want, .slot = s->index, .kind = LANE_WANT_PROMPT,
             .first_pos = s->n_rows, .n_rows = s->n - s->n_rows,
             .may_ahead = s->draft_max == 0 && left > 1 && !s->masked);
}

/* Appends one accepted draw and sends it; true when a stop string is complete. */
static bool lane_take(struct act_ctx *ctx, struct lane_slot *s, const struct gpu_result *result,
                      uint32_t draw, bool eos) {
    uint32_t id = result->drawn[draw].token;
    lane_slot_append(s, id);
    size_t show = 0;
    int stop = -1;
    const struct lane_tokenizer *t = s->shared->tokenizer;
    if (t != NULL && (s->flags & LANE_NO_TEXT) == 0 && !eos &&
        (!lane_tokenizer_is_special(t, id) || (s->flags & LANE_SHOW_SPECIAL) != 0)) {
        uint32_t n = 0;
        const char *bytes = lane_tokenizer_bytes(t, id, &n);
        show = lane_stream_push(&s->stream, bytes, n, &stop);
    }
    lane_send_token(ctx, s, result, draw, show);
    return stop >= 0;
}

void lane_on_drawn(struct act_ctx *ctx, struct lane_slot *s, act_id_t from,
                   const struct lane_drawn *m) {
    (void)from;
    CHECK(m->first_pos == s->n_rows);
    CHECK(m->first_pos + m->n_rows <= s->n + s->n_drafts);
    s->rows += m->n_rows;
    CHECK(m->bad_pos == LANE_NO_BAD || m->bad_pos < m->first_pos + m->n_rows);
    uint32_t drawn_pos = m->first_pos + m->n_rows - m->n_draws; /* the pending token's row */
    if (m->bad_pos != LANE_NO_BAD && m->bad_pos <= drawn_pos) {
        /* The page with the bad row is never shared: only whole pages before it are kept. */
        s->n_rows = m->bad_pos - m->bad_pos % s->shared->page_tokens;
        lane_end(ctx, s, LANE_END_FAILED, STATUS_NOT_FINITE);
        return;
    }
    CHECK(m->n_draws >= 1 && drawn_pos == s->n - 1);
    /* A bad row of a draft is nobody's row yet: what was drawn before it counts, and should its
     * token be drawn, its row comes again as the pending one. */
    struct lane_accept_in in = {.drafts = s->ids + s->n,
                                .draws = m->result->drawn + m->first_draw,
                                .n_draws =
                                    m->bad_pos == LANE_NO_BAD ? m->n_draws : m->bad_pos - drawn_pos,
                                .new_left = s->new_max - (s->n - s->n_prompt),
                                .eos = s->shared->eos,
                                .n_eos = (s->flags & LANE_IGNORE_EOS) != 0 ? 0 : s->shared->n_eos};
    struct lane_accept_out out;
    lane_accept(&in, &out);
    uint32_t proposed = m->n_draws - 1;
    s->drafted += proposed;
    s->accepted += out.accepted;
    if (!s->draft_fixed)
        s->draft_now = lane_draft_adapt(s->draft_now, proposed, out.accepted, s->draft_max);
    bool stopped = false;
    for (uint32_t i = 0; i < out.n_new && !stopped; i++)
        stopped = lane_take(ctx, s, m->result, m->first_draw + i, out.eos && i + 1 == out.n_new);
    /* Rows behind the last taken token were computed for drafts that did not come true. */
    s->n_drafts = 0;
    s->n_rows = s->n == s->n_prompt ? m->first_pos + m->n_rows : s->n - 1;
    if (stopped)
        lane_end(ctx, s, LANE_END_STOP, STATUS_OK);
    else if (out.bad)
        lane_end(ctx, s, LANE_END_FAILED, STATUS_NOT_FINITE);
    else if (out.eos)
        lane_end(ctx, s, LANE_END_EOS, STATUS_OK);
    else if (out.full)
        lane_end(ctx, s, s->context_bound ? LANE_END_CONTEXT : LANE_END_LENGTH, STATUS_OK);
    else
        lane_want_next(ctx, s);
}

void lane_on_finish(struct act_ctx *ctx, struct lane_slot *s, act_id_t from,
                    const struct lane_finish *m) {
    (void)from;
    lane_end(ctx, s, (enum lane_end)m->end, (enum status)m->status);
}

static void lane_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct lane_slot *s = state;
    switch (msg->kind) {
    case ACT_KIND_start:
        ACT_SEND(ctx, s->client, lane, accepted, .request = s->request, .lane = lane_slot_name(s));
        break;
        ACT_CASE(lane, lane, begin)
        ACT_CASE(lane, lane, drawn)
        ACT_CASE(lane, lane, finish)
    case ACT_KIND_gone: {
        struct act_gone gone;
        memcpy(&gone, msg->body, sizeof gone);
        if (gone.to == s->client) /* nobody reads on: decoding further would be waste */
            lane_end(ctx, s, LANE_END_CANCELLED, STATUS_GONE);
        break;
    }
    case ACT_KIND_stop:
        lane_end(ctx, s, LANE_END_CANCELLED, STATUS_SHUTDOWN);
        break;
    default:
        CHECK(!"a lane got a message that is not for lanes");
    }
}

const struct act_kind lane_kind = {.name = "lane", .receive = lane_receive};
