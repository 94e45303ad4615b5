/* SPDX-License-Identifier: Apache-2.0
 * The visitor: one question at a time, chosen by its own random numbers.
 */
#include "tests/sim/visitor.h"

#include <string.h>

enum { STEPS_MAX = 400, PAUSE_NS = 60000, PIECE_MAX = 700 };

static uint32_t pick(struct visitor *v, uint32_t n) {
    v->rng = v->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(v->rng >> 33) % n;
}

/* A file that was read whole is what it says: every checksum fits. */
static void check_file(struct visitor *v) {
    struct ses_export_head h;
    struct ses_import *im;
    struct status_note note;
    memcpy(&h, v->file, sizeof h);
    struct ses_export_kind kind = {.key = {.fingerprint = {h.fingerprint[0], h.fingerprint[1]},
                                           .profile = h.profile,
                                           .rope = h.rope,
                                           .layout_version = h.layout_version,
                                           .world = h.world},
                                   .page_tokens = h.page_tokens,
                                   .pages_max = h.n_pages,
                                   .page_bytes = h.page_bytes};
    size_t at = 0, taken;
    if (ses_import_open(&kind, h.tenant, &im, &note) != STATUS_OK)
        return;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && at < v->size) {
        if (ses_import_ready(im))
            ses_import_next(im);
        status = ses_import_feed(im, v->file + at, v->size - at, &taken, &note);
        at += taken;
    }
    if (status != STATUS_OK || !ses_import_done(im))
        v->wrong = "a session's file is not whole";
    ses_import_close(im);
}

static void send_piece(struct visitor *v, struct ses_query *q) {
    uint32_t n = 1 + pick(v, PIECE_MAX);
    q->kind = SES_QUERY_IMPORT;
    q->name = (struct ses_name){{v->import, 7}};
    q->from = v->at - (v->at > 0 && pick(v, 8) == 0 ? pick(v, (uint32_t)v->at) % 100 : 0);
    q->n_in = v->size - q->from < n ? (uint32_t)(v->size - q->from) : n;
    memcpy(q->bytes, v->file + q->from, q->n_in);
}

static void ask(struct act_ctx *ctx, struct visitor *v) {
    static const enum ses_query_kind kinds[] = {SES_QUERY_LIST,  SES_QUERY_TOKENS, SES_QUERY_PIN,
                                                SES_QUERY_UNPIN, SES_QUERY_FORGET, SES_QUERY_COUNT,
                                                SES_QUERY_OTHERS};
    struct ses_query *q = &v->query;
    q->tenant = 0;
    q->from = 0;
    q->name = v->name;
    if (v->reading && pick(v, 8) > 0) {
        q->kind = SES_QUERY_EXPORT;
        if (pick(v, 16) == 0)
            v->at = 0; /* from the beginning again, whatever became of the session meanwhile */
        q->from = v->at;
    } else if (v->sending && pick(v, 8) > 0) {
        send_piece(v, q);
    } else if (v->whole && !v->sending && pick(v, 3) == 0) {
        v->sending = true;
        v->at = 0;
        v->import++;
        send_piece(v, q);
    } else if (!v->reading && !v->sending && pick(v, 4) == 0) {
        v->reading = true;
        v->whole = false;
        v->at = 0;
        q->kind = SES_QUERY_EXPORT;
    } else {
        q->kind = kinds[pick(v, sizeof kinds / sizeof *kinds)];
    }
    v->asking = true;
    ACT_SEND(ctx, v->memory, ses, look, .query = q);
}

static void on_exported(struct visitor *v, const struct ses_query *q) {
    if (q->status != STATUS_OK || q->size > sizeof v->file) {
        v->reading = v->reading && q->status == STATUS_AGAIN;
        return;
    }
    if (!v->reading || q->from != v->at)
        return;
    memcpy(v->file + v->at, q->bytes, q->n);
    v->at += q->n;
    v->size = q->size;
    if (v->at < v->size)
        return;
    v->reading = false;
    v->whole = true;
    v->exported++;
    check_file(v);
}

static void on_imported(struct visitor *v, const struct ses_query *q) {
    if (q->status == STATUS_AGAIN)
        return;
    if (q->status == STATUS_OK && !q->done) {
        v->at = q->next;
        return;
    }
    if (q->status != STATUS_OK && q->status != STATUS_NO_PAGES)
        v->wrong = q->note.text;
    v->sending = false;
    v->imported += q->done;
}

static void on_looked(struct visitor *v, const struct ses_query *q) {
    v->asking = false;
    switch (q->kind) {
    case SES_QUERY_LIST:
        if (q->n > 0 && !v->reading)
            v->name = q->row[pick(v, q->n)].name;
        break;
    case SES_QUERY_EXPORT:
        on_exported(v, q);
        break;
    case SES_QUERY_IMPORT:
        on_imported(v, q);
        break;
    case SES_QUERY_FORGET:
        v->forgotten += q->status == STATUS_OK;
        break;
    case SES_QUERY_PIN:
        v->pinned += q->status == STATUS_OK;
        break;
    default:
        break;
    }
}

static void visitor_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct visitor *v = state;
    switch (msg->kind) {
    case ACT_KIND_start:
        act_timer_arm(ctx, PAUSE_NS, 0);
        break;
    case ses_KIND_looked:
        on_looked(v, ((const struct ses_looked *)msg->body)->query);
        break;
    case ACT_KIND_timer:
        if (v->leave)
            break;
        if (!v->asking)
            ask(ctx, v);
        if (++v->steps < STEPS_MAX)
            act_timer_arm(ctx, 1 + pick(v, PAUSE_NS), 0);
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
}

const struct act_kind visitor_kind = {.name = "visitor", .receive = visitor_receive};
