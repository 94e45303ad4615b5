/* SPDX-License-Identifier: Apache-2.0
 * The planner's rounds: choosing rows, closing plans, delivering what came back, retrying what
 * failed.
 */
#include <string.h>

#include "lanes/private.h"

static const uint64_t PLANNER_FOLLOWS_NS = 2000000;

static uint32_t planner_min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t planner_covered(const struct lane_planner *p, const struct planner_lane *l) {
    return l->n_pages * p->config.shared->page_tokens;
}

/* The lane of a seq when it is still the one that the plan named and still runs. */
static struct planner_lane *planner_seq_lane(struct lane_planner *p, const struct planner_seq *s) {
    struct planner_lane *l = &p->lanes[s->slot];
    CHECK(l->slot->generation == s->generation); /* keeps I5: the slot can not have been recycled */
    return l->phase == PLANNER_RUNNING ? l : NULL;
}

/* ---- closing ---- */

/* Gathers what may be planned now. */
static uint32_t planner_gather(struct lane_planner *p) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_active; k++) {
        struct planner_lane *l = &p->lanes[p->active[k]];
        if (!l->wanting || l->finishing || l->alone)
            continue;
        uint32_t covered = planner_covered(p, l);
        bool ahead = false;
        uint32_t rows = l->end_pos - l->next_pos;
        if (rows == 0) {
            if (p->under_way.n != 1 || !l->may_ahead || l->ahead || l->in_plans != 1)
                continue;
            ahead = true;
            rows = 1;
        }
        if (covered <= l->next_pos)
            continue; /* waits for a page */
        rows = planner_min(rows, covered - l->next_pos);
        p->want_slot[n] = p->active[k];
        p->want_ahead[n] = ahead;
        p->wants[n] = (struct lane_policy_want){.lane = lane_slot_name(l->slot),
                                                .slot = p->active[k],
                                                .kind = ahead ? LANE_WANT_DECODE : l->kind,
                                                .rows = rows,
                                                .priority = l->slot->priority,
                                                .rounds_waited = l->rounds_waited,
                                                .arrived = l->arrived};
        n++;
    }
    return n;
}

static uint32_t planner_piece(const struct lane_planner *p) {
    uint32_t piece = p->config.piece_tokens;
    if (p->row_ns > 0 && p->config.piece_ns > 0) {
        uint64_t cap = p->config.piece_ns / p->row_ns;
        if (cap < 16)
            cap = 16;
        piece = cap < piece ? (uint32_t)cap : piece;
    }
    return piece;
}

/* Asks the policy and cuts its answer to what is valid: a policy may be wrong, a plan may not. */
static void planner_decide(struct lane_planner *p, uint32_t n) {
    struct lane_policy_view view = {.plan = p->plans_closed,
                                    .round_tokens = p->config.round_tokens,
                                    .piece_tokens = planner_piece(p),
                                    .prefill_share = p->config.prefill_share,
                                    .n = n,
                                    .want = p->wants};
    memset(p->rows, 0, n * sizeof p->rows[0]);
    p->config.policy.decide(p->config.policy.self, &view, p->rows, p->order);
    memset(p->seen, 0, n * sizeof p->seen[0]);
    bool permutation = true;
    for (uint32_t k = 0; k < n && permutation; k++) {
        permutation = p->order[k] < n && !p->seen[p->order[k]];
        if (permutation)
            p->seen[p->order[k]] = true;
    }
    if (!permutation)
        for (uint32_t k = 0; k < n; k++)
            p->order[k] = k;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        p->rows[i] = planner_min(p->rows[i], p->wants[i].rows);
        if (p->rows[i] == 0 && p->wants[i].rounds_waited >= PLANNER_WAIT_MAX)
            p->rows[i] = 1; /* no policy can starve a lane */
        total += p->rows[i];
    }
    if (total == 0)
        p->rows[p->order[0]] = planner_min(p->wants[p->order[0]].rows, view.piece_tokens);
}

static void planner_entry(struct lane_planner *p, uint32_t slot, uint32_t rows, bool ahead,
                          struct lane_round_entry *e) {
    const struct planner_lane *l = &p->lanes[slot];
    bool draws_all = ahead || l->kind != LANE_WANT_PROMPT;
    bool last = l->next_pos + rows == l->end_pos;
    *e = (struct lane_round_entry){.slot = l->slot,
                                   .pages = p->tables + (size_t)slot * p->config.pages_per_slot,
                                   .first_pos = l->next_pos,
                                   .n_rows = rows,
                                   .n_draws = draws_all ? rows
                                              : last    ? 1
                                                        : 0,
                                   .from_draw = ahead,
                                   .copy = l->in_plans > 0 ? (struct gpu_copy){0} : l->copy};
}

static void planner_record_plan(struct act_ctx *ctx, struct lane_planner *p,
                                const struct planner_round *r) {
    _Static_assert(sizeof(struct lane_record_plan) <= sizeof(struct lane_record_seq),
                   "the head of the record takes the place of one seq");
    if (p->config.journal == NULL)
        return;
    unsigned char *bytes = (unsigned char *)p->record;
    struct lane_record_plan head = {p->plans_closed, r->flags, r->n_seqs};
    memcpy(bytes, &head, sizeof head);
    for (uint32_t i = 0; i < r->n_seqs; i++) {
        const struct planner_seq *s = &r->seqs[i];
        struct lane_record_seq seq = {lane_slot_name(p->lanes[s->slot].slot), s->first_pos,
                                      s->n_rows, s->n_draws, 0};
        memcpy(bytes + sizeof head + i * sizeof seq, &seq, sizeof seq);
    }
    lane_journal_put(p->config.journal, act_now_ns(ctx), LANE_RECORD_plan, bytes,
                     sizeof head + r->n_seqs * sizeof(struct lane_record_seq));
}

/* Turns entries into a sealed-off round and sends it. */
static void planner_send_round(struct act_ctx *ctx, struct lane_planner *p, uint32_t n,
                               uint32_t flags) {
    struct planner_round *r = planner_get(&p->idle);
    r->n_seqs = n;
    r->waiting = 0;
    r->prompt_rows = 0;
    r->lanes = n;
    r->flags = flags | (p->under_way.n > 0 ? (uint32_t)GPU_PLAN_AHEAD : 0u);
    uint32_t draw = 0, row = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct lane_round_entry *e = &p->entries[i];
        struct planner_lane *l = &p->lanes[e->slot->index];
        r->seqs[i] = (struct planner_seq){.slot = e->slot->index,
                                          .generation = e->slot->generation,
                                          .first_pos = e->first_pos,
                                          .n_rows = e->n_rows,
                                          .n_draws = e->n_draws,
                                          .first_draw = draw,
                                          .first_row = row,
                                          .copied = e->copy.tokens > 0};
        draw += e->n_draws;
        row += e->n_rows;
        l->in_plans++;
        l->next_pos += e->n_rows;
        l->rounds_waited = 0;
        if (e->from_draw) {
            l->ahead = true;
            p->counters.rows_decode++;
        } else if (l->kind == LANE_WANT_PROMPT) {
            r->prompt_rows += e->n_rows;
            p->counters.rows_prompt += e->n_rows;
        } else if (l->kind == LANE_WANT_VERIFY) {
            p->counters.rows_verify += e->n_rows;
            l->end_pos =
                l->next_pos; /* a window that was cut short lets the rest of its drafts go */
        } else {
            p->counters.rows_decode++;
        }
    }
    lane_round_build(r->g->plan, p->entries, n, p->config.shared->page_tokens, r->flags);
    planner_record_plan(ctx, p, r);
    p->plans_closed++;
    p->counters.rounds++;
    r->closed_ns = act_now_ns(ctx);
    bool follows = p->last_ran_ns > 0 && r->closed_ns - p->last_ran_ns < PLANNER_FOLLOWS_NS;
    r->plan_ns = follows ? r->closed_ns - p->last_ran_ns : 0;
    planner_put(&p->under_way, r);
    act_expect(ctx, 1);
    ACT_SEND(ctx, p->conductor, fab, run, .round = r->g);
}

/* A lane of a failed round goes alone, when nothing is under way. */
static bool planner_close_alone(struct act_ctx *ctx, struct lane_planner *p) {
    for (uint32_t k = 0; k < p->n_active; k++) {
        struct planner_lane *l = &p->lanes[p->active[k]];
        if (!l->alone)
            continue;
        if (p->under_way.n > 0)
            return true; /* wait */
        if (!l->wanting || l->finishing || l->next_pos == l->end_pos) {
            l->alone = false;
            continue;
        }
        uint32_t rows = planner_min(l->end_pos - l->next_pos, planner_covered(p, l) - l->next_pos);
        if (l->kind == LANE_WANT_PROMPT)
            rows = planner_min(rows, planner_piece(p));
        l->alone = false;
        planner_entry(p, p->active[k], planner_min(rows, p->config.plan_limits.rows), false,
                      &p->entries[0]);
        planner_send_round(ctx, p, 1, GPU_PLAN_ALONE);
        return true;
    }
    return false;
}

static bool planner_close_one(struct act_ctx *ctx, struct lane_planner *p) {
    if (p->dead != STATUS_OK || p->delivering != NULL || p->returned.n > 0 || p->idle.n == 0 ||
        p->under_way.n >= (p->config.ahead ? 2u : 1u))
        return false;
    if (p->hold && p->under_way.n > 0)
        return false; /* what follows a failed plan is void: plan on when it has come back */
    p->hold = false;
    if (p->n_active == 0)
        return false;
    if (planner_close_alone(ctx, p))
        return false;
    if (p->under_way.n == 1 && (p->under_way.first->flags & GPU_PLAN_ALONE) != 0)
        return false;
    uint32_t n = planner_gather(p);
    if (n == 0)
        return false;
    planner_decide(p, n);
    uint32_t m = 0;
    uint64_t total = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = p->order[k];
        uint32_t slot = p->want_slot[i];
        uint32_t rows = planner_min(p->rows[i], p->config.plan_limits.rows - (uint32_t)total);
        p->lanes[slot].rounds_waited++;
        if (rows == 0 || m == p->config.plan_limits.seqs)
            continue;
        planner_entry(p, slot, rows, p->want_ahead[i], &p->entries[m]);
        total += rows;
        m++;
    }
    while (m > 1 && !lane_round_fits(p->entries, m, &p->config.plan_limits))
        m--;
    CHECK(m >= 1 && lane_round_fits(p->entries, m, &p->config.plan_limits));
    planner_send_round(ctx, p, m, 0);
    return true;
}

void planner_close_plans(struct act_ctx *ctx, struct lane_planner *p) {
    while (planner_close_one(ctx, p))
        ;
}

/* ---- delivering ---- */

static void planner_host(struct lane_planner *p, const struct planner_round *r, uint64_t ns) {
    p->counters.host_ns_total += ns;
    if (r->prompt_rows == 0 && ns <= UINT32_MAX)
        p->samples[p->n_samples++ % PLANNER_SAMPLES] =
            (struct planner_sample){.lanes = r->lanes, .ns = (uint32_t)ns};
}

static void planner_sample(struct lane_planner *p, const struct planner_round *r, uint64_t now) {
    const struct gpu_result *result = r->g->results[0];
    if (r->prompt_rows > 0 && result->step_ns > 0) {
        uint64_t row = result->step_ns / (r->prompt_rows + (r->lanes > 0 ? r->lanes - 1 : 0));
        p->row_ns = p->row_ns == 0 ? row : (p->row_ns * 7 + row) / 8;
    }
    p->counters.kernel_ns_total += result->kernel_ns;
    /* Beside a running step: what worker and rank did for this one, which the device did not wait
     * for. */
    if ((r->flags & GPU_PLAN_AHEAD) != 0 && r->plan_ns > 0 && result->host_ns > 0) {
        planner_host(p, r, r->plan_ns + result->host_ns);
        p->last_ran_ns = now;
        return;
    }
    /* Host time: from the answer of the round before to this answer, less the row functions; only
     * between rounds that follow at once. */
    if (p->last_ran_ns > 0 && r->closed_ns >= p->last_ran_ns &&
        now - p->last_ran_ns < 1000000000u && r->closed_ns - p->last_ran_ns < PLANNER_FOLLOWS_NS) {
        uint64_t cycle = now - p->last_ran_ns;
        planner_host(p, r, cycle > result->kernel_ns ? cycle - result->kernel_ns : 0);
    }
    p->last_ran_ns = now;
}

void planner_round_returned(struct act_ctx *ctx, struct lane_planner *p, struct gpu_round *g,
                            enum status status) {
    CHECK(p->under_way.n > 0);
    struct planner_round *r = planner_get(&p->under_way);
    CHECK(r->g == g); /* fabric I2: answers come in the order of the plans */
    act_expect(ctx, -1);
    r->status = status;
    if (status == STATUS_OK)
        planner_sample(p, r, act_now_ns(ctx));
    else
        p->last_ran_ns = 0;
    planner_put(&p->returned, r);
    planner_deliver(ctx, p);
}

static void planner_deliver_seq(struct act_ctx *ctx, struct lane_planner *p,
                                struct planner_round *r, uint32_t i) {
    struct planner_seq *s = &r->seqs[i];
    struct planner_lane *l = &p->lanes[s->slot];
    const struct gpu_result *result = r->g->results[0];
    CHECK(l->in_plans > 0);
    l->in_plans--;
    if (s->copied && l->copy.tokens > 0) {
        l->copy.tokens = 0;
        ACT_SEND(ctx, p->memory, ses, copied, .slot = s->slot);
    }
    if (planner_seq_lane(p, s) == NULL) {
        planner_maybe_release(ctx, p, s->slot);
        return;
    }
    uint32_t bad = result->bad_row[i];
    if (s->n_draws == 0 && bad == GPU_ROW_FINE)
        return; /* a piece in the middle of a prompt */
    CHECK(l->wanting && !l->told);
    l->wanting = false;
    l->told = true;
    r->waiting++;
    ACT_SEND(ctx, l->actor, lane, drawn, .result = result, .first_draw = s->first_draw,
             .n_draws = s->n_draws, .first_pos = l->first_pos,
             .n_rows = s->first_pos + s->n_rows - l->first_pos,
             .bad_pos = bad == GPU_ROW_FINE ? LANE_NO_BAD : s->first_pos + (bad - s->first_row));
}

static void planner_return_seq(struct act_ctx *ctx, struct lane_planner *p, struct planner_round *r,
                               uint32_t i, bool failed) {
    struct planner_seq *s = &r->seqs[i];
    struct planner_lane *l = &p->lanes[s->slot];
    CHECK(l->in_plans > 0);
    l->in_plans--;
    if (planner_seq_lane(p, s) == NULL) {
        planner_maybe_release(ctx, p, s->slot);
        return;
    }
    l->ahead = false; /* a row planned ahead of it is void as well */
    if (l->next_pos > s->first_pos)
        l->next_pos = s->first_pos;
    if (l->next_pos > l->end_pos)
        l->next_pos = l->end_pos;
    if (!failed)
        return;
    if ((r->flags & GPU_PLAN_ALONE) != 0)
        planner_finish_lane(ctx, p, s->slot, LANE_END_FAILED,
                            r->status == STATUS_NO_MEMORY ? STATUS_NO_MEMORY : STATUS_ROUND_FAILED);
    else
        l->alone = true;
}

static void planner_deliver_round(struct act_ctx *ctx, struct lane_planner *p,
                                  struct planner_round *r) {
    bool retry = r->status == STATUS_ROUND_FAILED || r->status == STATUS_NO_MEMORY;
    if (r->status == STATUS_OK) {
        for (uint32_t i = 0; i < r->n_seqs; i++)
            planner_deliver_seq(ctx, p, r, i);
        return;
    }
    p->hold = true;
    if (r->status != STATUS_AGAIN) {
        p->counters.rounds_failed++;
        /* Whatever ends the engine is told as one of two: a rank that fell silent is a lost device
         * to a client, whose own deadline is another thing. */
        if (!retry && p->dead == STATUS_OK)
            p->dead = r->status == STATUS_DESYNC ? STATUS_DESYNC : STATUS_DEVICE;
    }
    for (uint32_t i = 0; i < r->n_seqs; i++)
        planner_return_seq(ctx, p, r, i, retry);
    if (p->dead != STATUS_OK)
        planner_finish_all(ctx, p, LANE_END_FAILED, p->dead);
}

void planner_deliver(struct act_ctx *ctx, struct lane_planner *p) {
    while (p->delivering == NULL && p->returned.n > 0) {
        struct planner_round *r = planner_get(&p->returned);
        p->delivering = r;
        planner_deliver_round(ctx, p, r);
        if (r->waiting > 0)
            return; /* keeps I6 and I7 */
        p->delivering = NULL;
        planner_put(&p->idle, r);
    }
}

void planner_answered(struct act_ctx *ctx, struct lane_planner *p, struct planner_lane *l) {
    if (!l->told)
        return;
    l->told = false;
    CHECK(p->delivering != NULL && p->delivering->waiting > 0);
    if (--p->delivering->waiting > 0)
        return;
    planner_put(&p->idle, p->delivering);
    p->delivering = NULL;
    planner_deliver(ctx, p);
}
