/* SPDX-License-Identifier: Apache-2.0
 * The planner's side of requests: submit, queue, admission, pages, wants, ends, drain.
 */
#include "lanes/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lanes/lane.h"
#include "lanes/private.h"

ACT_HANDLER(planner, lane_planner, lane, submit);
ACT_HANDLER(planner, lane_planner, lane, cancel);
ACT_HANDLER(planner, lane_planner, lane, want);
ACT_HANDLER(planner, lane_planner, lane, done);
ACT_HANDLER(planner, lane_planner, lane, drain);
ACT_HANDLER(planner, lane_planner, lane, stats);
ACT_HANDLER(planner, lane_planner, ses, admitted);
ACT_HANDLER(planner, lane_planner, ses, restoring);
ACT_HANDLER(planner, lane_planner, ses, denied);
ACT_HANDLER(planner, lane_planner, ses, extended);
ACT_HANDLER(planner, lane_planner, ses, sealed);
ACT_HANDLER(planner, lane_planner, ses, released);
ACT_HANDLER(planner, lane_planner, ses, flushed);
ACT_HANDLER(planner, lane_planner, fab, ran);
ACT_HANDLER(planner, lane_planner, fab, page_freed);
ACT_HANDLER(planner, lane_planner, fab, move);

static void planner_check_drained(struct act_ctx *ctx, struct lane_planner *p);

static const uint64_t PLANNER_FLUSH_NS = 30000000000;
enum { PLANNER_RETRY_MS = 250, PLANNER_EXTEND_MAX = 8 };

/* ---- slots ---- */

static void planner_free_slot(struct lane_planner *p, uint32_t slot) {
    struct planner_lane *l = &p->lanes[slot];
    lane_slot_clear(l->slot);
    l->phase = PLANNER_FREE;
    l->next_free = p->free_head;
    p->free_head = slot + 1;
    p->used--;
}

static void planner_list_remove(uint32_t *list, uint32_t *n, uint32_t slot) {
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == slot) {
            memmove(list + i, list + i + 1, (*n - i - 1) * sizeof list[0]);
            (*n)--;
            return;
        }
    CHECK(!"a slot is missing from its list");
}

/* The lane of a public name, or NULL. */
static struct planner_lane *planner_named(struct lane_planner *p, uint64_t name) {
    uint64_t index = (name & 0xffffffffu) - 1u;
    if (index >= p->config.slots_max)
        return NULL;
    struct planner_lane *l = &p->lanes[index];
    if (l->phase == PLANNER_FREE || lane_slot_name(l->slot) != name)
        return NULL;
    return l;
}

void planner_finish_lane(struct act_ctx *ctx, struct lane_planner *p, uint32_t slot,
                         enum lane_end end, enum status status) {
    struct planner_lane *l = &p->lanes[slot];
    if (l->finishing || l->phase == PLANNER_FREE || l->phase >= PLANNER_DONE)
        return;
    l->finishing = true;
    if (end == LANE_END_CANCELLED)
        p->counters.cancelled++;
    ACT_SEND(ctx, l->actor, lane, finish, .end = end, .status = status);
}

void planner_finish_all(struct act_ctx *ctx, struct lane_planner *p, enum lane_end end,
                        enum status status) {
    for (uint32_t i = 0; i < p->config.slots_max; i++)
        planner_finish_lane(ctx, p, i, end, status);
}

/* ---- submit, queue, admission ---- */

static void planner_refuse(struct act_ctx *ctx, struct lane_planner *p,
                           const struct lane_request *r, struct lane_refusal refusal,
                           uint32_t retry_ms) {
    p->counters.refused++;
    ACT_SEND(ctx, r->client, lane, refused, .request = r->id, .status = refusal.status,
             .retry_ms = retry_ms, .value = refusal.value, .limit = refusal.limit);
}

/* The next request to ask memory for: priority, then arrival; those that memory had no room for
 * wait for a release, and others may pass them only a bounded number of times. */
static uint32_t planner_next_queued(const struct lane_planner *p) {
    uint32_t best = UINT32_MAX;
    for (uint32_t k = 0; k < p->n_queue; k++) {
        const struct planner_lane *l = &p->lanes[p->queue[k]];
        if (l->finishing)
            continue;
        if (l->denied_epoch == p->release_epoch) {
            if (l->bypassed >= PLANNER_BYPASS_MAX)
                return UINT32_MAX;
            continue;
        }
        /* One that was passed too often goes before any priority. */
        if (l->bypassed >= PLANNER_BYPASS_MAX)
            return p->queue[k];
        if (best == UINT32_MAX || l->slot->priority > p->lanes[best].slot->priority)
            best = p->queue[k];
    }
    return best;
}

static void planner_admit_next(struct act_ctx *ctx, struct lane_planner *p) {
    if (p->admitting || p->running >= p->config.lanes_max || p->dead != STATUS_OK)
        return;
    uint32_t slot = planner_next_queued(p);
    if (slot == UINT32_MAX)
        return;
    struct planner_lane *l = &p->lanes[slot];
    for (uint32_t k = 0; p->queue[k] != slot; k++)
        p->lanes[p->queue[k]].bypassed++;
    planner_list_remove(p->queue, &p->n_queue, slot);
    l->phase = PLANNER_ADMITTING;
    p->admitting = true;
    p->running++;
    bool reuse = (l->slot->flags & LANE_NO_REUSE) == 0 && !p->config.no_reuse;
    ACT_SEND(ctx, p->memory, ses, admit, .ids = l->slot->ids, .tenant = l->slot->tenant,
             .slot = slot, .n_ids = l->slot->n_prompt, .max_tokens = l->total_max, .reuse = reuse);
}

void planner_on_submit(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                       const struct lane_submit *m) {
    (void)from;
    const struct lane_request *r = m->request;
    struct lane_refusal refusal = lane_admit_check(r, &p->config.limits);
    if (refusal.status != STATUS_OK) {
        planner_refuse(ctx, p, r, refusal, 0);
        return;
    }
    if (p->dead != STATUS_OK || p->draining) {
        refusal.status = p->dead != STATUS_OK ? p->dead : STATUS_DRAINING;
        planner_refuse(ctx, p, r, refusal, p->draining ? 1000 : 0);
        return;
    }
    if (p->free_head == 0) {
        refusal = (struct lane_refusal){STATUS_QUEUE_FULL, p->used, p->config.slots_max};
        planner_refuse(ctx, p, r, refusal, PLANNER_RETRY_MS);
        return;
    }
    uint32_t slot = p->free_head - 1;
    struct planner_lane *l = &p->lanes[slot];
    p->free_head = l->next_free;
    p->used++;
    struct lane_slot *s = l->slot;
    *l = (struct planner_lane){.phase = PLANNER_QUEUED,
                               .slot = s,
                               .arrived = ++p->arrivals,
                               .arrived_ns = act_now_ns(ctx)};
    lane_slot_fill(s, r);
    l->total_max = s->n_prompt + s->new_max;
    l->denied_epoch = UINT64_MAX;
    l->actor = act_spawn_here(ctx, &lane_kind, s);
    CHECK(l->actor != 0); /* the runtime was opened with room for all slots */
    if (r->deadline_ns > 0)
        l->timer = act_timer_arm(ctx, r->deadline_ns, lane_slot_name(s));
    p->counters.requests++;
    lane_journal_request(p->config.journal, l->arrived_ns, s);
    p->queue[p->n_queue++] = slot;
    planner_admit_next(ctx, p);
}

/* Memory has decided; what it restores for this one holds up no other. */
void planner_on_restoring(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                          const struct ses_restoring *m) {
    (void)from;
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(p->admitting && !l->restoring && !l->has_pages);
    p->admitting = false;
    l->restoring = true;
    planner_admit_next(ctx, p);
}

void planner_on_admitted(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                         const struct ses_admitted *m) {
    (void)from;
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK((p->admitting || l->restoring) && m->matched < l->slot->n_prompt);
    if (!l->restoring)
        p->admitting = false;
    l->restoring = false;
    l->has_pages = true;
    l->n_pages = m->n_pages;
    l->copy = (struct gpu_copy){.src = m->copy_src, .dst = m->copy_dst, .tokens = m->copy_tokens};
    l->next_pos = l->sealed_rows = m->matched;
    if (l->phase == PLANNER_DONE) { /* cancelled meanwhile */
        planner_maybe_release(ctx, p, m->slot);
        return;
    }
    l->phase = PLANNER_RUNNING;
    p->active[p->n_active++] = m->slot;
    p->counters.resumed += m->matched;
    p->counters.resumed_ram += m->from_ram;
    p->counters.resumed_disk += m->from_disk;
    p->counters.reasons[m->reason < SES_REASONS ? m->reason : SES_MISS_NEW]++;
    struct lane_record_begin begun = {lane_slot_name(l->slot), m->matched, m->reason};
    lane_journal_put(p->config.journal, act_now_ns(ctx), LANE_RECORD_begin, &begun, sizeof begun);
    uint64_t queued_us = (act_now_ns(ctx) - l->arrived_ns) / 1000;
    ACT_SEND(ctx, l->actor, lane, begin, .matched = m->matched, .reason = m->reason,
             .queued_us = queued_us > UINT32_MAX ? UINT32_MAX : (uint32_t)queued_us,
             .from_ram = m->from_ram, .from_disk = m->from_disk);
    planner_admit_next(ctx, p);
}

void planner_on_denied(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                       const struct ses_denied *m) {
    (void)from;
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(p->admitting && !l->restoring);
    p->admitting = false;
    if (l->phase == PLANNER_DONE) {
        planner_maybe_release(ctx, p, m->slot);
        planner_check_drained(ctx, p);
        return;
    }
    p->running--;
    l->phase = PLANNER_QUEUED;
    l->denied_epoch = p->release_epoch;
    uint32_t k = p->n_queue++; /* back to its place: the queue is in order of arrival */
    while (k > 0 && p->lanes[p->queue[k - 1]].arrived > l->arrived) {
        p->queue[k] = p->queue[k - 1];
        k--;
    }
    p->queue[k] = m->slot;
    /* With nothing running no release will come: it can never be admitted. */
    if (m->status != STATUS_AGAIN || p->running == 0)
        planner_finish_lane(ctx, p, m->slot, LANE_END_FAILED, STATUS_NO_PAGES);
    planner_admit_next(ctx, p);
}

/* ---- wants and pages ---- */

static void planner_extend(struct act_ctx *ctx, struct lane_planner *p, struct planner_lane *l) {
    uint32_t page = p->config.shared->page_tokens;
    uint32_t need = l->end_pos + GPU_WINDOW_MAX;
    if (need > l->total_max)
        need = l->total_max;
    uint32_t pages = (need + page - 1) / page;
    if (l->extending || pages <= l->n_pages)
        return;
    uint32_t n = pages - l->n_pages;
    l->extending = true;
    ACT_SEND(ctx, p->memory, ses, extend, .slot = l->slot->index,
             .n_pages = n < PLANNER_EXTEND_MAX ? n : PLANNER_EXTEND_MAX);
}

void planner_on_extended(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                         const struct ses_extended *m) {
    (void)from;
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(l->extending && m->n_pages > 0 && l->n_pages + m->n_pages <= p->config.pages_per_slot);
    l->extending = false;
    uint32_t *table = p->tables + (size_t)m->slot * p->config.pages_per_slot;
    for (uint32_t i = 0; i < m->n_pages; i++)
        table[l->n_pages++] = m->page[i];
    if (l->phase == PLANNER_RUNNING)
        planner_extend(ctx, p, l);
    else
        planner_maybe_release(ctx, p, m->slot);
}

/* Shares the full pages that are complete since the last time. */
static void planner_seal(struct act_ctx *ctx, struct lane_planner *p, struct planner_lane *l,
                         uint32_t rows) {
    uint32_t page = p->config.shared->page_tokens;
    if (l->sealing || (l->slot->flags & LANE_NO_KEEP) != 0 || rows / page <= l->sealed_rows / page)
        return;
    l->sealing = true;
    l->sealed_rows = rows;
    ACT_SEND(ctx, p->memory, ses, seal, .ids = l->slot->ids, .slot = l->slot->index,
             .n_rows = rows);
}

void planner_on_sealed(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                       const struct ses_sealed *m) {
    (void)from;
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(l->sealing);
    l->sealing = false;
    planner_maybe_release(ctx, p, m->slot);
}

static void planner_count_new(struct act_ctx *ctx, struct lane_planner *p, struct planner_lane *l) {
    uint32_t n = l->slot->n - l->slot->n_prompt;
    if (p->config.journal != NULL)
        lane_journal_ids(p->config.journal, act_now_ns(ctx), LANE_RECORD_tokens, l->slot,
                         l->slot->n_prompt + l->n_new, n - l->n_new);
    p->counters.tokens_out += n - l->n_new;
    l->n_new = n;
}

void planner_on_want(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                     const struct lane_want *m) {
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(l->actor == from && l->phase == PLANNER_RUNNING && !l->wanting);
    CHECK(m->n_rows >= 1 && m->first_pos + m->n_rows <= l->total_max);
    l->wanting = true;
    l->may_ahead = m->may_ahead != 0;
    l->first_pos = m->first_pos;
    l->kind = m->kind;
    l->end_pos = m->first_pos + m->n_rows;
    if (l->ahead) {
        l->ahead = false;
        l->kind = LANE_WANT_DECODE;
        l->end_pos = m->first_pos + 1;
        l->next_pos = l->end_pos; /* its row is in the plan under way */
    } else {
        l->next_pos = m->first_pos;
    }
    planner_count_new(ctx, p, l);
    if (m->kind != LANE_WANT_PROMPT)
        planner_seal(ctx, p, l, m->first_pos);
    planner_extend(ctx, p, l);
    planner_answered(ctx, p, l);
}

/* ---- ends ---- */

void planner_maybe_release(struct act_ctx *ctx, struct lane_planner *p, uint32_t slot) {
    struct planner_lane *l = &p->lanes[slot];
    if (l->phase != PLANNER_DONE || l->in_plans > 0 || l->extending || l->sealing)
        return; /* keeps I5 */
    if (!l->has_pages) {
        p->running--;
        planner_free_slot(p, slot);
        planner_admit_next(ctx, p);
        return;
    }
    if (l->copy.tokens > 0) {
        /* The shared part of the last page was never copied: those rows do not exist. */
        uint32_t whole = l->slot->matched - l->slot->matched % p->config.shared->page_tokens;
        if (l->keep_rows > whole)
            l->keep_rows = whole;
        l->copy.tokens = 0;
        ACT_SEND(ctx, p->memory, ses, copied, .slot = slot);
    }
    l->phase = PLANNER_RELEASING;
    bool keep = (l->slot->flags & LANE_NO_KEEP) == 0 && p->dead == STATUS_OK;
    ACT_SEND(ctx, p->memory, ses, release, .ids = l->slot->ids, .slot = slot,
             .n_rows = keep ? l->keep_rows : 0, .keep = keep);
}

/* The last word of a drain, and to the operator whether sessions were lost by it. */
static void planner_drained(struct act_ctx *ctx, struct lane_planner *p, uint32_t unsaved,
                            enum status status) {
    char text[160];
    if (status == STATUS_TIMEOUT)
        snprintf(text, sizeof text,
                 "drain: not all sessions were saved: the disk did not take them within %u s",
                 (unsigned)(PLANNER_FLUSH_NS / 1000000000));
    else
        snprintf(text, sizeof text, "drain: %u pages of sessions were not saved: %s", unsaved,
                 status_text(status));
    if ((unsaved > 0 || status == STATUS_TIMEOUT) && p->config.say != NULL)
        p->config.say(p->config.say_self, text);
    if (p->drain_client != 0)
        ACT_SEND(ctx, p->drain_client, lane, drained, .cancelled = p->drain_cancelled,
                 .unsaved = unsaved, .status = (uint32_t)status);
    p->drain_client = 0;
}

/* Nothing is left: memory saves what it can, and then it is said. */
static void planner_check_drained(struct act_ctx *ctx, struct lane_planner *p) {
    if (!p->draining || p->used > 0 || p->drain_client == 0)
        return;
    if (p->drain_timer != 0)
        act_timer_cancel(ctx, p->drain_timer);
    p->drain_timer = 0;
    if (p->flushing)
        return;
    if (p->dead != STATUS_OK) {
        planner_drained(ctx, p, 0, p->dead);
        return;
    }
    p->flushing = true;
    p->flush_timer = act_timer_arm(ctx, PLANNER_FLUSH_NS, PLANNER_COOKIE_FLUSH);
    ACT_SEND(ctx, p->memory, ses, flush, .token = 0);
}

void planner_on_flushed(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                        const struct ses_flushed *m) {
    (void)from;
    if (!p->flushing)
        return;
    act_timer_cancel(ctx, p->flush_timer);
    p->flushing = false;
    planner_drained(ctx, p, m->unsaved, m->unsaved > 0 ? (enum status)m->status : STATUS_OK);
}

void planner_on_done(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                     const struct lane_done *m) {
    struct planner_lane *l = &p->lanes[m->slot];
    CHECK(l->actor == from && l->phase != PLANNER_FREE && l->phase < PLANNER_DONE);
    if (l->timer != 0)
        act_timer_cancel(ctx, l->timer);
    l->timer = 0;
    if (m->end == LANE_END_FAILED)
        p->counters.failed++;
    planner_count_new(ctx, p, l);
    p->counters.drafted += l->slot->drafted;
    p->counters.accepted += l->slot->accepted;
    struct lane_record_end ended = {lane_slot_name(l->slot), m->end, m->status, l->n_new,
                                    m->n_rows};
    lane_journal_put(p->config.journal, act_now_ns(ctx), LANE_RECORD_end, &ended, sizeof ended);
    l->keep_rows = m->n_rows;
    l->wanting = false;
    enum planner_phase phase = l->phase;
    l->phase = PLANNER_DONE;
    if (phase == PLANNER_QUEUED) {
        planner_list_remove(p->queue, &p->n_queue, m->slot);
        planner_free_slot(p, m->slot);
        planner_admit_next(ctx, p);
    } else if (phase == PLANNER_RUNNING) {
        planner_list_remove(p->active, &p->n_active, m->slot);
        planner_answered(ctx, p, l);
        planner_maybe_release(ctx, p, m->slot);
    }
    planner_check_drained(ctx, p);
}

void planner_on_released(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                         const struct ses_released *m) {
    (void)from;
    CHECK(p->lanes[m->slot].phase == PLANNER_RELEASING);
    p->running--;
    p->release_epoch++;
    p->counters.pages_free = m->pages_free;
    planner_free_slot(p, m->slot);
    planner_admit_next(ctx, p);
    planner_check_drained(ctx, p);
}

void planner_on_cancel(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                       const struct lane_cancel *m) {
    (void)from;
    struct planner_lane *l = planner_named(p, m->lane);
    if (l != NULL)
        planner_finish_lane(ctx, p, l->slot->index, LANE_END_CANCELLED, STATUS_CANCELLED);
}

/* ---- control ---- */

void planner_on_drain(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                      const struct lane_drain *m) {
    p->draining = true;
    p->drain_client = from;
    if (p->drain_timer != 0)
        act_timer_cancel(ctx, p->drain_timer);
    p->drain_timer = act_timer_arm(ctx, m->deadline_ns, PLANNER_COOKIE_DRAIN);
    planner_check_drained(ctx, p);
}

void planner_on_stats(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                      const struct lane_stats *m) {
    p->counters.running = p->running;
    p->counters.queued = p->n_queue;
    p->counters.draining = p->draining;
    ACT_SEND(ctx, from, lane, stats_are, .token = m->token, .counters = &p->counters);
}

static void planner_on_timer(struct act_ctx *ctx, struct lane_planner *p, uint64_t cookie) {
    if (cookie == PLANNER_COOKIE_DRAIN) {
        p->drain_timer = 0;
        p->drain_cancelled += p->n_queue + p->running;
        planner_finish_all(ctx, p, LANE_END_CANCELLED, STATUS_SHUTDOWN);
        return;
    }
    if (cookie == PLANNER_COOKIE_FLUSH) { /* a disk that hangs holds nobody up for ever */
        p->flushing = false;
        planner_drained(ctx, p, 0, STATUS_TIMEOUT);
        return;
    }
    struct planner_lane *l = planner_named(p, cookie);
    if (l == NULL)
        return;
    l->timer = 0;
    planner_finish_lane(ctx, p, l->slot->index, LANE_END_CANCELLED, STATUS_TIMEOUT);
}

void planner_on_ran(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                    const struct fab_ran *m) {
    (void)from;
    if (p->config.journal != NULL) {
        const struct gpu_result *r = m->round->results[0];
        struct lane_record_ran ran = {r->number, r->digest, r->drawn_digest, m->status, 0};
        lane_journal_put(p->config.journal, act_now_ns(ctx), LANE_RECORD_ran, &ran, sizeof ran);
    }
    planner_round_returned(ctx, p, m->round, (enum status)m->status);
}

/* Memory's word travels in the order of its grants, and ours in the order of the plans: passed on
 * here, it can not come after a plan that uses the page again. */
void planner_on_page_freed(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                           const struct fab_page_freed *m) {
    (void)from;
    lane_journal_put(p->config.journal, act_now_ns(ctx), LANE_RECORD_freed, m->page,
                     m->n * sizeof m->page[0]);
    act_send(ctx, p->conductor, fab_KIND_page_freed, m, sizeof *m);
}

void planner_on_move(struct act_ctx *ctx, struct lane_planner *p, act_id_t from,
                     const struct fab_move *m) {
    (void)from;
    act_send(ctx, p->conductor, fab_KIND_move, m, sizeof *m);
}

static void planner_receive(struct act_ctx *ctx, void *state_, const struct act_msg *msg) {
    struct lane_planner *state = state_;
    switch (msg->kind) {
    case ACT_KIND_start:
        break;
    case ACT_KIND_timer: {
        struct act_timer_msg t;
        memcpy(&t, msg->body, sizeof t);
        planner_on_timer(ctx, state, t.cookie);
        break;
    }
    /* a lane that ended by itself while it was told something, or a client that left */
    case ACT_KIND_gone:
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
        ACT_CASE(planner, fab, ran)
        ACT_CASE(planner, fab, page_freed)
        ACT_CASE(planner, fab, move)
        ACT_CASE(planner, lane, want)
        ACT_CASE(planner, lane, done)
        ACT_CASE(planner, lane, submit)
        ACT_CASE(planner, lane, cancel)
        ACT_CASE(planner, lane, drain)
        ACT_CASE(planner, lane, stats)
        ACT_CASE(planner, ses, admitted)
        ACT_CASE(planner, ses, restoring)
        ACT_CASE(planner, ses, denied)
        ACT_CASE(planner, ses, extended)
        ACT_CASE(planner, ses, sealed)
        ACT_CASE(planner, ses, released)
        ACT_CASE(planner, ses, flushed)
    default:
        CHECK(!"the planner got a message that is not for it");
    }
}

static void planner_batch_end(struct act_ctx *ctx, void *state) {
    struct lane_planner *p = state;
    planner_close_plans(ctx, p);
    if (p->config.journal != NULL && p->under_way.n == 0)
        (void)journal_flush(p->config.journal); /* idle: what is known is handed to the system */
}

const struct act_kind lane_planner_kind = {
    .name = "planner", .receive = planner_receive, .batch_end = planner_batch_end};

/* ---- life ---- */

static void *planner_zeroed(size_t n, size_t size) {
    return calloc(n > 0 ? n : 1, size);
}

static bool planner_allocate(struct lane_planner *p) {
    const struct lane_planner_config *c = &p->config;
    size_t n = c->slots_max;
    p->lanes = planner_zeroed(n, sizeof *p->lanes);
    p->active = planner_zeroed(n, sizeof *p->active);
    p->queue = planner_zeroed(n, sizeof *p->queue);
    p->wants = planner_zeroed(n, sizeof *p->wants);
    p->rows = planner_zeroed(n, sizeof *p->rows);
    p->order = planner_zeroed(n, sizeof *p->order);
    p->want_slot = planner_zeroed(n, sizeof *p->want_slot);
    p->want_ahead = planner_zeroed(n, sizeof *p->want_ahead);
    p->seen = planner_zeroed(n, sizeof *p->seen);
    p->entries = planner_zeroed(n, sizeof *p->entries);
    p->tables = planner_zeroed(n * c->pages_per_slot, sizeof *p->tables);
    p->record = planner_zeroed(n + 1, sizeof *p->record);
    p->samples = planner_zeroed(PLANNER_SAMPLES, sizeof *p->samples);
    p->rounds = planner_zeroed(PLANNER_ROUNDS, sizeof *p->rounds);
    if (p->lanes == NULL || p->active == NULL || p->queue == NULL || p->wants == NULL ||
        p->rows == NULL || p->order == NULL || p->want_slot == NULL || p->want_ahead == NULL ||
        p->seen == NULL || p->entries == NULL || p->tables == NULL || p->record == NULL ||
        p->samples == NULL || p->rounds == NULL)
        return false;
    for (uint32_t i = 0; i < PLANNER_ROUNDS; i++) {
        struct planner_round *r = &p->rounds[i];
        r->seqs = planner_zeroed(c->plan_limits.seqs, sizeof *r->seqs);
        if (r->seqs == NULL || gpu_round_new(&c->plan_limits, c->world, &r->g) != STATUS_OK)
            return false;
        planner_put(&p->idle, r);
    }
    return true;
}

enum status lane_planner_open(const struct lane_planner_config *config, struct lane_planner **out,
                              struct status_note *note) {
    struct lane_planner *p = planner_zeroed(1, sizeof *p);
    if (p == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the planner");
    p->config = *config;
    if (!planner_allocate(p)) {
        lane_planner_close(p);
        return status_say(
            note, STATUS_NO_MEMORY,
            "no memory for the planner's tables (%u slots of %u pages, %u rows a round)",
            config->slots_max, config->pages_per_slot, config->plan_limits.rows);
    }
    enum status s = lane_slots_open(config->shared, config->slots_max, &p->slots, note);
    if (s != STATUS_OK) {
        lane_planner_close(p);
        return s;
    }
    for (uint32_t i = config->slots_max; i-- > 0;) {
        p->lanes[i].slot = &p->slots[i];
        p->lanes[i].next_free = p->free_head;
        p->free_head = i + 1;
    }
    p->counters.lanes_max = config->lanes_max;
    p->counters.pages_total = p->counters.pages_free = config->limits.pages_total;
    p->counters.page_tokens = config->shared->page_tokens;
    p->counters.kv_capacity_tokens =
        (uint64_t)config->limits.pages_total * config->shared->page_tokens;
    *out = p;
    return STATUS_OK;
}

void lane_planner_close(struct lane_planner *p) {
    if (p == NULL)
        return;
    for (uint32_t i = 0; p->rounds != NULL && i < PLANNER_ROUNDS; i++) {
        free(p->rounds[i].seqs);
        gpu_round_free(p->rounds[i].g);
    }
    lane_slots_close(p->slots, p->config.slots_max);
    free(p->rounds);
    free(p->samples);
    free(p->record);
    free(p->tables);
    free(p->entries);
    free(p->seen);
    free(p->want_ahead);
    free(p->want_slot);
    free(p->order);
    free(p->rows);
    free(p->wants);
    free(p->queue);
    free(p->active);
    free(p->lanes);
    free(p);
}

uint32_t *lane_planner_tables(struct lane_planner *p) {
    return p->tables;
}

void lane_planner_wire(struct lane_planner *p, act_id_t self, act_id_t memory, act_id_t conductor) {
    p->self = self;
    p->memory = memory;
    p->conductor = conductor;
    p->config.shared->planner = self;
}

const struct lane_counters *lane_planner_counters(const struct lane_planner *p) {
    return &p->counters;
}

uint32_t lane_planner_host_samples(const struct lane_planner *p, uint32_t lanes, uint64_t *ns,
                                   uint32_t n) {
    uint32_t found = 0;
    uint64_t have = p->n_samples < PLANNER_SAMPLES ? p->n_samples : PLANNER_SAMPLES;
    for (uint64_t i = 0; i < have && found < n; i++)
        if (p->samples[i].lanes == lanes)
            ns[found++] = p->samples[i].ns;
    return found;
}

enum status lane_planner_dead(const struct lane_planner *p) {
    return p->dead;
}
