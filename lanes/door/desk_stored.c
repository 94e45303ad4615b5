/* SPDX-License-Identifier: Apache-2.0
 * Stored sessions at the desk: questions to the memory, and its answers as JSON.
 */
#include <string.h>

#include "lanes/door/desk_private.h"

enum { RETRY_SOON_MS = 100 };

ACT_HANDLER(desk, door_desk, ses, looked);

void door_desk_wake_kind(struct door_desk *d, enum door_wait_kind kind) {
    for (uint32_t i = d->waits.waiting.head; i != DOOR_NONE;) {
        struct door_wait *w = &d->waits.slots[i];
        i = w->next;
        if (w->kind == kind)
            door_waits_ready(&d->waits, &d->table, w);
    }
}

void door_desk_counted(struct door_desk *d, uint32_t who) {
    d->stats_asked &= ~who;
    if (d->stats_asked == 0)
        door_desk_wake_kind(d, DOOR_WAIT_STATS);
}

void door_desk_ask_counts(struct door_desk *d, struct act_ctx *ctx) {
    struct door_query *q = &d->queries[DOOR_QUERIES];
    if (d->config.memory == 0)
        return;
    d->stats_asked |= DOOR_ASKED_MEMORY;
    q->query.kind = SES_QUERY_COUNT;
    ACT_SEND(ctx, d->config.memory, ses, look, .query = &q->query);
}

static enum ses_query_kind kind_of(const struct door_call *call) {
    switch (call->cmd) {
    case DOOR_TOKENS:
        return call->others ? SES_QUERY_OTHER_TOKENS : SES_QUERY_TOKENS;
    case DOOR_FORGET:
        return call->others ? SES_QUERY_OTHER_FORGET : SES_QUERY_FORGET;
    case DOOR_EXPORT:
        return SES_QUERY_EXPORT;
    case DOOR_IMPORT:
        return SES_QUERY_IMPORT;
    case DOOR_PIN:
        return call->on ? SES_QUERY_PIN : SES_QUERY_UNPIN;
    default:
        return call->others ? SES_QUERY_OTHERS : SES_QUERY_LIST;
    }
}

static bool refuse(struct door_desk *d, enum status status, const char *text, uint32_t retry_ms) {
    struct door_error error;
    door_refuse(&error, status, "", "%s", text);
    error.retry_ms = retry_ms;
    d->counts.refused++;
    door_reply_error(d, &error);
    return true;
}

bool door_desk_query(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from) {
    const struct door_call *call = &d->call;
    uint32_t i = 0;
    if (d->config.memory == 0)
        return refuse(d, STATUS_UNSUPPORTED, "this server has no session memory", 0);
    while (i < DOOR_QUERIES && d->queries[i].used)
        i++;
    if (i == DOOR_QUERIES)
        return refuse(d, STATUS_QUEUE_FULL,
                      "as many questions about stored sessions are under way as can be",
                      RETRY_SOON_MS);
    struct door_query *q = &d->queries[i];
    uint64_t deadline = act_now_ns(ctx) + d->config.query_ns;
    struct door_wait *w =
        door_waits_add(&d->waits, from, DOOR_WAIT_QUERY, &d->table, NULL, deadline);
    CHECK(w != NULL); /* nothing is received when all are taken */
    door_desk_arm(d, ctx, deadline);
    w->cursor = i;
    w->status = STATUS_SHUTDOWN; /* until the memory has answered, or its time is over */
    q->used = true;
    q->cmd = call->cmd;
    q->query.kind = kind_of(call);
    q->query.tenant = call->tenant;
    q->query.name = call->session;
    q->query.from = call->cursor;
    if (call->cmd == DOOR_IMPORT) {
        q->query.n_in = call->n_data;
        memcpy(q->query.bytes, call->data, call->n_data);
    }
    ACT_SEND(ctx, d->config.memory, ses, look, .query = &q->query);
    return false;
}

void desk_on_looked(struct act_ctx *ctx, struct door_desk *d, act_id_t from,
                    const struct ses_looked *m) {
    (void)ctx;
    (void)from;
    uint64_t i = 0;
    while (&d->queries[i].query != m->query)
        CHECK(++i <= DOOR_QUERIES);
    if (i == DOOR_QUERIES) {
        door_desk_counted(d, DOOR_ASKED_MEMORY);
        return;
    }
    for (uint32_t k = d->waits.waiting.head; k != DOOR_NONE; k = d->waits.slots[k].next) {
        struct door_wait *w = &d->waits.slots[k];
        if (w->kind != DOOR_WAIT_QUERY || w->cursor != i)
            continue;
        w->status = STATUS_OK;
        door_waits_ready(&d->waits, &d->table, w);
        return;
    }
    d->queries[i].used = false; /* nobody waits any more */
}

static const char *field_of(const struct door_query *q) {
    bool import = q->query.kind == SES_QUERY_IMPORT;
    switch (q->query.status) {
    case STATUS_NOT_FOUND:
        return import ? "offset" : "session";
    case STATUS_BAD_REQUEST:
        return q->cmd == DOOR_TOKENS   ? "from"
               : q->cmd == DOOR_EXPORT ? "offset"
               : q->query.limit > 0    ? "offset"
                                       : "data";
    default:
        return import && q->query.status != STATUS_AGAIN ? "data" : "";
    }
}

void door_desk_answer_query(struct door_desk *d, const struct door_wait *w) {
    struct door_query *q = &d->queries[w->cursor];
    struct door_error error;
    if (w->status != STATUS_OK) { /* given up before the memory answered */
        door_refuse(&error, (enum status)w->status, "", "%s",
                    w->status == STATUS_TIMEOUT ? "the session memory, or its disk, did not answer "
                                                  "in time; try again later"
                                                : status_text((enum status)w->status));
        door_reply_error(d, &error);
        return;
    }
    q->used = false;
    if (q->query.status == STATUS_OK) {
        door_reply_query(d, q);
        return;
    }
    door_refuse(&error, q->query.status, field_of(q), "%s", q->query.note.text);
    error.numbers = q->query.value != 0 || q->query.limit != 0;
    error.value = q->query.value;
    error.limit = q->query.limit;
    error.retry_ms = q->query.status == STATUS_AGAIN ? RETRY_SOON_MS : 0;
    door_reply_error(d, &error);
}

/* ---- answers ---- */

static void out_name(struct door_out *o, const struct ses_name *name) {
    char text[DOOR_SESSION_DIGITS + 1];
    if (name == NULL)
        return;
    door_session_text(name, text);
    door_out_str(o, "session", text);
}

static void out_row(struct door_out *o, const struct ses_query *q, const struct ses_row *row) {
    door_out_object(o, NULL);
    out_name(o, &row->name);
    door_out_u64(o, "tokens", row->tokens);
    door_out_u64(o, "pages", row->pages);
    door_out_u64(o, "bytes", row->pages * q->page_bytes);
    door_out_u64(o, "device", row->on_device);
    door_out_u64(o, "ram", row->in_ram);
    door_out_u64(o, "disk", row->on_disk);
    door_out_bool(o, "pinned", row->pinned);
    door_out_bool(o, "in_use", row->in_use);
    door_out_u64(o, "used", row->use);
    door_out_end(o, '}');
}

static void out_other(struct door_out *o, const struct ses_other_row *row) {
    door_out_object(o, NULL);
    out_name(o, &row->name);
    door_out_u64(o, "tokens", row->tokens);
    door_out_u64(o, "pages", row->pages);
    door_out_u64(o, "bytes", row->bytes);
    door_out_bool(o, "pinned", row->pinned);
    door_out_u64(o, "used", row->use);
    door_out_str(o, "why", ses_why_name(row->why));
    door_out_str(o, "made_by", row->text);
    door_out_end(o, '}');
}

void door_reply_query(struct door_desk *d, const struct door_query *asked) {
    const struct ses_query *q = &asked->query;
    struct door_out *o = &d->out;
    door_out_begin(o, d->reply, DOOR_REPLY_MAX);
    door_out_object(o, NULL);
    door_out_bool(o, "ok", true);
    if (q->kind == SES_QUERY_LIST) {
        door_out_array(o, "stored");
        for (uint32_t i = 0; i < q->n; i++)
            out_row(o, q, &q->row[i]);
        door_out_end(o, ']');
    } else if (q->kind == SES_QUERY_OTHERS) {
        door_out_array(o, "stored");
        for (uint32_t i = 0; i < q->n; i++)
            out_other(o, &q->other[i]);
        door_out_end(o, ']');
    } else if (q->kind == SES_QUERY_TOKENS || q->kind == SES_QUERY_OTHER_TOKENS) {
        door_out_array(o, "tokens");
        for (uint32_t i = 0; i < q->n; i++)
            door_out_u64(o, NULL, q->token[i]);
        door_out_end(o, ']');
    } else if (q->kind == SES_QUERY_EXPORT) {
        door_out_u64(o, "size", q->size);
        door_out_base64(o, "data", q->bytes, q->n);
    } else if (q->kind == SES_QUERY_IMPORT) {
        door_out_u64(o, "size", q->size);
        out_name(o, q->done ? &q->made : NULL);
    } else {
        door_out_u64(o, "pages", q->n);
    }
    if (q->kind == SES_QUERY_PIN || q->kind == SES_QUERY_UNPIN)
        door_out_bool(o, "pinned", q->kind == SES_QUERY_PIN);
    if (q->next > 0)
        door_out_u64(o, "next", q->next);
    door_out_end(o, '}');
    CHECK(!o->full);
}

static void out_tiers(struct door_out *o, const struct ses_counts *c) {
    const struct ses_tiers_counts *t = &c->tiers;
    door_out_object(o, "ram");
    door_out_u64(o, "pages", t->slots);
    door_out_u64(o, "used", t->slots_used);
    door_out_u64(o, "bytes", t->slots_used * c->page_bytes);
    door_out_u64(o, "parked", t->moved_out);
    door_out_u64(o, "restored", t->moved_in);
    door_out_u64(o, "failed", t->move_failed);
    door_out_u64(o, "no_room", t->no_slot);
    door_out_u64(o, "imported", t->brought);
    door_out_end(o, '}');
}

static void out_disk(struct door_out *o, const struct ses_counts *c) {
    const struct ses_tiers_counts *t = &c->tiers;
    const struct ses_store_counts *s = &c->stores;
    door_out_object(o, "disk");
    door_out_u64(o, "pages", t->records);
    door_out_u64(o, "bytes", t->records * c->page_bytes);
    door_out_u64(o, "unsaved", t->unsaved);
    door_out_u64(o, "stored", t->stored);
    door_out_u64(o, "loaded", t->loaded);
    door_out_u64(o, "store_failed", t->store_failed);
    door_out_u64(o, "load_failed", t->load_failed);
    door_out_u64(o, "silences", t->silences);
    door_out_str(o, "state", t->store_status == STATUS_OK ? "ok" : status_code(t->store_status));
    door_out_u64(o, "file_bytes", s->bytes);
    door_out_u64(o, "index_bytes", s->index_bytes);
    door_out_u64(o, "commits", s->commits);
    door_out_u64(o, "marks", s->marks);
    door_out_u64(o, "erased", s->erased);
    door_out_u64(o, "compactions", s->compactions);
    door_out_u64(o, "moved", s->moved);
    door_out_u64(o, "dropped", s->dropped);
    door_out_u64(o, "others_dropped", s->others_dropped);
    door_out_u64(o, "refused", s->refused);
    door_out_object(o, "errors");
    door_out_u64(o, "io", s->io_errors);
    door_out_u64(o, "bad_header", s->bad_header);
    door_out_u64(o, "bad_sum", s->bad_sum);
    door_out_u64(o, "short_reads", s->short_reads);
    door_out_u64(o, "lost_segments", s->lost_segments);
    door_out_u64(o, "bad_entries", s->bad_entries);
    door_out_u64(o, "bad_index", s->rebuilt);
    door_out_end(o, '}');
    door_out_u64(o, "found", s->found);
    door_out_u64(o, "found_other", s->found_other);
    door_out_u64(o, "orphans", s->orphans);
    door_out_end(o, '}');
}

void door_out_counts(struct door_out *o, const struct ses_counts *c) {
    door_out_object(o, "sessions");
    door_out_u64(o, "page_bytes", c->page_bytes);
    door_out_u64(o, "cached", c->pages.nodes);
    door_out_u64(o, "pinned", c->pinned);
    door_out_u64(o, "evicted", c->pages.evicted);
    door_out_object(o, "device");
    door_out_u64(o, "pages", c->pages.pages_total);
    door_out_u64(o, "free", c->pages.pages_free);
    door_out_u64(o, "held", c->pages.pages_held);
    door_out_u64(o, "cached", c->pages.pages_cached);
    door_out_end(o, '}');
    if (c->has_tiers)
        out_tiers(o, c);
    if (c->has_disk)
        out_disk(o, c);
    door_out_end(o, '}');
}
