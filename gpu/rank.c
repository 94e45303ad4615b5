/* SPDX-License-Identifier: Apache-2.0
 * The rank actor: keeps the order of plans, hands them to the device and reports what it answers.
 */
#include "gpu/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_STEPS = 2, RANK_WAYS = 2 };
static const uint64_t RANK_MOVE_AGAIN_NS = 20000;
/* Of copies that this thread makes itself, while steps come: what may be saved up at least (else as
 * much as a step takes), what is made at once, and how long after a step none counts as coming. */
static const uint64_t RANK_SAVED_NS = 4000000, RANK_SLICE_NS = 200000, RANK_REST_NS = 300000;
/* Pages leave no faster than others are computed, and requests wait for their room: they may take
 * more of the time. */
enum { RANK_LEAVE_FASTER = 4 };
enum { RANK_COOKIE_POLL, RANK_COOKIE_COPIES };

/* A copy that the device has begun. */
struct rank_move {
    struct gpu_move what;
    gpu_event_t done;
};

/* Copies of one direction that wait for their turn, oldest first. */
struct rank_way {
    struct gpu_move move[GPU_MOVES_MAX];
    uint32_t first, n;
    struct gpu_pace pace;
};

struct gpu_rank {
    struct gpu_rank_config config;
    act_id_t conductor;
    uint64_t number;                      /* of the last plan taken */
    uint64_t digest;                      /* its digest */
    struct gpu_round *rounds[RANK_STEPS]; /* under way, oldest first */
    uint64_t before[RANK_STEPS]; /* digest before each, to check that nobody wrote the plan */
    uint32_t n;
    uint64_t timer;                        /* armed: ask the device again; 0: none */
    struct rank_move moves[GPU_MOVES_MAX]; /* under way, oldest first */
    uint32_t n_moves;
    struct rank_way way[RANK_WAYS];    /* from the device, to it; used with copy_share */
    uint32_t n_waiting;                /* of both */
    uint64_t copies_timer, stepped_ns; /* when the last step ended */
    bool stopping;                     /* ends when nothing is under way */
    bool move_fails;                   /* the last copy could not begin, which was said */
    struct gpu_graph_said held;        /* a vote that a fault keeps back (simulation) */
    uint64_t held_plan;                /* 0: none */
};

ACT_HANDLER(rank, gpu_rank, gpu, step);
ACT_HANDLER(rank, gpu_rank, gpu, page_freed);
ACT_HANDLER(rank, gpu_rank, gpu, move);
ACT_HANDLER(rank, gpu_rank, gpu, graph_drop);

/* The device finished its oldest step. */
static void rank_answer(struct act_ctx *ctx, struct gpu_rank *r) {
    struct gpu_round *round = r->rounds[0];
    const struct gpu_result *result = round->results[r->config.rank];
    CHECK(result->number == round->plan->number && result->digest == round->plan->digest);
    CHECK(gpu_plan_sealed(round->plan, r->before[0])); /* keeps I4 */
    r->rounds[0] = r->rounds[1];
    r->before[0] = r->before[1];
    r->n--;
    r->stepped_ns = act_now_ns(ctx);
    ACT_SEND(ctx, r->conductor, gpu, stepped, .round = round, .rank = r->config.rank);
}

static void rank_tell(struct act_ctx *ctx, struct gpu_rank *r, const struct gpu_graph_said *v,
                      uint64_t plan) {
    ACT_SEND(ctx, r->conductor, gpu, graph_vote, .key = v->key, .plan = plan,
             .rank = r->config.rank, .word = v->word);
}

/* Passes on what the device has to say of its graphs. */
static void rank_votes(struct act_ctx *ctx, struct gpu_rank *r) {
    struct gpu_device *d = r->config.device;
    struct gpu_graph_said v;
    if (d->ops->graph_vote == NULL)
        return;
    if (r->held_plan != 0 && r->held_plan < r->number) {
        rank_tell(ctx, r, &r->held, r->held_plan);
        r->held_plan = 0;
    }
    while (d->ops->graph_vote(d, &v)) {
        if (act_fault(ctx, "gpu.vote_lost"))
            continue;
        if (r->held_plan == 0 && act_fault(ctx, "gpu.vote_late")) {
            r->held_plan = r->number;
            r->held = v;
            continue;
        }
        rank_tell(ctx, r, &v, r->number);
        if (act_fault(ctx, "gpu.vote_twice"))
            rank_tell(ctx, r, &v, r->number);
    }
}

static void rank_poll(struct act_ctx *ctx, struct gpu_rank *r) {
    rank_votes(ctx, r);
    while (r->n > 0) {
        uint64_t again_ns = 0;
        const struct gpu_device_ops *ops = r->config.device->ops;
        if (ops->poll(r->config.device, act_now_ns(ctx), &again_ns) == GPU_DONE) {
            rank_answer(ctx, r);
            continue;
        }
        if (r->timer == 0)
            r->timer = act_timer_arm(ctx, again_ns, RANK_COOKIE_POLL);
        return;
    }
    if (r->stopping && r->n_moves + r->n_waiting == 0)
        act_exit(ctx);
}

static void rank_moved(struct act_ctx *ctx, struct gpu_rank *r, const struct gpu_move *m,
                       enum status status) {
    ACT_SEND(ctx, m->asker, gpu, moved, .slot = m->slot, .rank = r->config.rank,
             .status = (uint32_t)status);
}

/* Copies end in the order in which they began. */
static void rank_moves_poll(struct act_ctx *ctx, struct gpu_rank *r) {
    uint32_t n = 0;
    while (n < r->n_moves && r->config.device->ops->reached(r->config.device, r->moves[n].done)) {
        rank_moved(ctx, r, &r->moves[n].what, STATUS_OK);
        n++;
    }
    r->n_moves -= n;
    memmove(r->moves, r->moves + n, r->n_moves * sizeof r->moves[0]);
    if (r->n_moves > 0 && r->timer == 0)
        r->timer = act_timer_arm(ctx, RANK_MOVE_AGAIN_NS, RANK_COOKIE_POLL);
}

static void rank_move_fails(struct gpu_rank *r, const struct gpu_move *m, enum status status) {
    char text[160];
    if (r->config.say == NULL || r->move_fails)
        return;
    snprintf(text, sizeof text, "rank %u: page %u could not be copied %s host memory: %s",
             r->config.rank, m->page, m->to_device != 0 ? "from" : "to", status_text(status));
    r->config.say(r->config.say_self, text);
}

static void rank_copy(struct act_ctx *ctx, struct gpu_rank *r, const struct gpu_move *m) {
    struct gpu_device *d = r->config.device;
    const struct gpu_device_ops *ops = d->ops;
    enum gpu_stream stream = m->to_device != 0 ? GPU_STREAM_IN : GPU_STREAM_OUT;
    unsigned char *host = r->config.host + m->slot * r->config.host_bytes;
    /* keeps I5: steps that were begun may read the page, or have just written it */
    ops->wait(d, stream, ops->record(d, GPU_STREAM_COMPUTE));
    enum status status = act_fault(ctx, "gpu.move_fails") ? STATUS_DEVICE
                         : m->to_device != 0              ? ops->page_write(d, m->page, host)
                                                          : ops->page_read(d, m->page, host);
    if (status != STATUS_OK)
        rank_move_fails(r, m, status);
    r->move_fails = status != STATUS_OK;
    if (status != STATUS_OK) {
        rank_moved(ctx, r, m, status);
        return;
    }
    gpu_event_t done = ops->record(d, stream);
    r->moves[r->n_moves++] = (struct rank_move){*m, done};
    rank_moves_poll(ctx, r);
}

/* How long until a copy may be made, to the device first: a lane waits for that. 0: *way has one
 * now. */
static uint64_t rank_copies_wait(struct gpu_rank *r, bool busy, uint64_t now, uint32_t *way) {
    uint64_t least = UINT64_MAX;
    for (uint32_t w = RANK_WAYS; w-- > 0;) {
        if (r->way[w].n == 0)
            continue;
        uint64_t wait = busy ? gpu_pace_wait(&r->way[w].pace, now) : 0;
        *way = wait == 0 ? w : *way;
        if (wait == 0)
            return 0;
        least = wait < least ? wait : least;
    }
    return least;
}

/* Makes copies that wait: a few between two steps, and while steps come no more than their share.
 */
static void rank_copies_go_on(struct act_ctx *ctx, struct gpu_rank *r) {
    uint64_t begun = act_now_ns(ctx), now = begun, wait = 0;
    if (r->copies_timer != 0)
        act_timer_cancel(ctx, r->copies_timer);
    r->copies_timer = 0;
    while (r->n_waiting > 0) {
        bool busy = !r->stopping && (r->n > 0 || now - r->stepped_ns < RANK_REST_NS);
        uint32_t way = 0;
        wait = rank_copies_wait(r, busy, now, &way);
        if (wait > 0 || (now - begun >= RANK_SLICE_NS && !r->stopping))
            break;
        struct rank_way *w = &r->way[way];
        struct gpu_move m = w->move[w->first];
        w->first = (w->first + 1) % GPU_MOVES_MAX;
        w->n--;
        r->n_waiting--;
        rank_copy(ctx, r, &m);
        uint64_t then = now;
        now = act_now_ns(ctx);
        if (busy)
            gpu_pace_took(&w->pace,
                          now - then > r->config.copy_ns ? now - then : r->config.copy_ns);
    }
    wait = wait < RANK_REST_NS ? wait : RANK_REST_NS; /* it may have turned idle by then */
    if (r->n_waiting > 0)
        r->copies_timer = act_timer_arm(ctx, wait, RANK_COOKIE_COPIES);
}

void rank_on_move(struct act_ctx *ctx, struct gpu_rank *r, act_id_t from,
                  const struct gpu_move *m) {
    CHECK(from == r->conductor && m->slot < r->config.n_host);
    CHECK(r->config.device->page_bytes <= r->config.host_bytes);
    CHECK(r->n_moves + r->n_waiting < GPU_MOVES_MAX);
    if (r->config.copy_share == 0) {
        rank_copy(ctx, r, m);
        return;
    }
    struct rank_way *w = &r->way[m->to_device != 0];
    w->move[(w->first + w->n++) % GPU_MOVES_MAX] = *m;
    r->n_waiting++;
    if (r->copies_timer == 0)
        rank_copies_go_on(ctx, r);
}

static void rank_faults(struct act_ctx *ctx, struct gpu_rank *r, const struct gpu_plan *plan) {
    struct gpu_faults *f = &r->config.device->faults;
    if (act_fault(ctx, "gpu.step_fails"))
        f->step_fails = true;
    if (act_fault(ctx, "gpu.void") && (plan->flags & GPU_PLAN_AHEAD))
        f->voided = true;
    if (plan->graph_order != GPU_GRAPH_NONE && act_fault(ctx, "gpu.graph_fails"))
        f->graph_fails = true;
    if (act_fault(ctx, "gpu.slow"))
        f->slow_ns = r->config.slow_ns;
    /* Ranks compute equal rows, so a bad row on one alone would be a desync. */
    if (r->config.world == 1 && plan->n_seqs > 0 && act_fault(ctx, "gpu.nan_row")) {
        f->nan_row = true;
        const struct gpu_seq *s = &gpu_plan_seqs(plan)[act_choose(ctx, plan->n_seqs)];
        f->nan_slot = s->slot;
        f->nan_at = (uint32_t)act_choose(ctx, s->n_rows);
    }
    if (r->config.before_step != NULL)
        r->config.before_step(r->config.self, plan, f);
}

void rank_on_step(struct act_ctx *ctx, struct gpu_rank *r, act_id_t from,
                  const struct gpu_step *m) {
    const struct gpu_plan *plan = m->round->plan;
    CHECK(from == r->conductor);
    CHECK(r->n < RANK_STEPS);
    CHECK(r->config.rank < m->round->world && plan->world == r->config.world);
    CHECK(plan->number == r->number + 1); /* keeps I1 */
    CHECK(gpu_plan_sealed(plan, r->digest));
    check_context_plan(plan->number);
    r->rounds[r->n] = m->round;
    r->before[r->n] = r->digest;
    r->n++;
    r->number = plan->number;
    r->digest = plan->digest;
    rank_faults(ctx, r, plan);
    uint64_t begun = act_now_ns(ctx);
    r->config.device->ops->step(r->config.device, plan, m->round->results[r->config.rank]);
    rank_poll(ctx, r);
    uint64_t took = act_now_ns(ctx) - begun;
    for (uint32_t w = 0; w < RANK_WAYS; w++)
        r->way[w].pace.saved_max = took > RANK_SAVED_NS ? took : RANK_SAVED_NS;
    if (r->n_waiting > 0) /* timers are looked at less often than steps end */
        rank_copies_go_on(ctx, r);
}

void rank_on_page_freed(struct act_ctx *ctx, struct gpu_rank *r, act_id_t from,
                        const struct gpu_page_freed *m) {
    (void)ctx;
    CHECK(from == r->conductor);
    CHECK(m->n <= sizeof m->page / sizeof m->page[0]);
    for (uint32_t i = 0; i < m->n; i++)
        r->config.device->ops->page_freed(r->config.device, m->page[i]);
}

void rank_on_graph_drop(struct act_ctx *ctx, struct gpu_rank *r, act_id_t from,
                        const struct gpu_graph_drop *m) {
    (void)ctx;
    CHECK(from == r->conductor && r->config.device->ops->graph_drop != NULL);
    r->config.device->ops->graph_drop(r->config.device, m->key);
}

static void rank_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct gpu_rank *state = self;
    switch (msg->kind) {
        ACT_CASE(rank, gpu, step)
        ACT_CASE(rank, gpu, page_freed)
        ACT_CASE(rank, gpu, move)
        ACT_CASE(rank, gpu, graph_drop)
    case ACT_KIND_timer:
        if (((const struct act_timer_msg *)(const void *)msg->body)->cookie == RANK_COOKIE_COPIES) {
            state->copies_timer = 0;
            rank_copies_go_on(ctx, state);
            break;
        }
        state->timer = 0;
        rank_moves_poll(ctx, state);
        rank_poll(ctx, state);
        break;
    case ACT_KIND_stop:
        state->stopping = true;
        /* Only a timer that is armed from now on holds the runtime: copies still write to memory
         * that is given back behind its end. */
        if (state->timer != 0)
            act_timer_cancel(ctx, state->timer);
        state->timer = 0;
        rank_copies_go_on(ctx, state);
        rank_moves_poll(ctx, state);
        rank_poll(ctx, state);
        break;
    default: /* start, gone */
        break;
    }
}

const struct act_kind gpu_rank_kind = {.name = "rank", .receive = rank_receive};

enum status gpu_rank_open(const struct gpu_rank_config *config, struct gpu_rank **out) {
    CHECK(config->world >= 1 && config->rank < config->world);
    struct gpu_rank *r = calloc(1, sizeof *r);
    if (r == NULL)
        return STATUS_NO_MEMORY;
    r->config = *config;
    uint32_t in = config->copy_share, leave = (in + RANK_LEAVE_FASTER - 1) / RANK_LEAVE_FASTER;
    r->way[0].pace = gpu_pace_begin(leave, RANK_SAVED_NS, 0);
    r->way[1].pace = gpu_pace_begin(in, RANK_SAVED_NS, 0);
    *out = r;
    return STATUS_OK;
}

void gpu_rank_close(struct gpu_rank *r) {
    free(r);
}

void gpu_rank_wire(struct gpu_rank *r, act_id_t conductor) {
    CHECK(r->conductor == 0);
    r->conductor = conductor;
}
