/* SPDX-License-Identifier: Apache-2.0
 * The conductor actor: numbers, chain, comparison, order.
 */
#include "fabric/conductor.h"

#include <stdlib.h>

#include "gpu/protocol.h"

enum { CONDUCTOR_RUNS = 2, CONDUCTOR_AWAY_MAX = 3 };
/* A timer's cookie is the number of the run that it is about, or this one for votes. */
static const uint64_t CONDUCTOR_VOTES = UINT64_MAX;
static const uint64_t CONDUCTOR_VOTE_NS = 10000000000u;

struct conductor_run {
    struct gpu_round *round;
    act_id_t planner;
    uint32_t answered; /* bit a rank */
    uint64_t number;
};

struct fab_conductor {
    struct fab_conductor_config config;
    act_id_t ranks[GPU_WORLD_MAX];
    uint64_t number, digest;                   /* of the last plan sent */
    struct conductor_run runs[CONDUCTOR_RUNS]; /* oldest first */
    uint32_t n;
    uint64_t timer, due_ns; /* deadline of the oldest run; timer 0: none */
    uint32_t away;          /* times that its timer came much too late */
    uint64_t failed_number; /* the last plan that was not OK */
    bool broken;            /* a rank went silent; silent_rank says which */
    uint32_t silent_rank;
    bool stopping; /* ends when nothing is under way */
    struct fab_votes votes;
    uint64_t votes_timer, votes_due_ns; /* timer 0: none */
};

ACT_HANDLER(conductor, fab_conductor, fab, run);
ACT_HANDLER(conductor, fab_conductor, fab, page_freed);
ACT_HANDLER(conductor, fab_conductor, fab, move);
ACT_HANDLER(conductor, fab_conductor, gpu, stepped);
ACT_HANDLER(conductor, fab_conductor, gpu, graph_vote);

static int severity(enum status s) {
    switch (s) {
    case STATUS_OK:
        return 0;
    case STATUS_AGAIN:
        return 1;
    case STATUS_TIMEOUT:
        return 3;
    case STATUS_DEVICE:
        return 4;
    case STATUS_DESYNC:
        return 5;
    default:
        return 2;
    }
}

enum status fab_results_compare(const struct gpu_round *round, uint32_t *rank,
                                struct status_note *note) {
    const struct gpu_plan *plan = round->plan;
    unsigned long long number = plan->number;
    enum status worst = STATUS_OK;
    *rank = 0;
    for (uint32_t i = 0; i < round->world; i++) {
        const struct gpu_result *r = round->results[i];
        if (r->number != plan->number || r->digest != plan->digest) {
            *rank = i;
            return status_say(note, STATUS_DESYNC,
                              "plan %llu: rank %u executed another plan (%llu)", number, i,
                              (unsigned long long)r->number);
        }
        if (severity(r->status) > severity(worst)) {
            worst = r->status;
            *rank = i;
            status_say(note, worst, "rank %u: %s", i,
                       r->note.text[0] != '\0' ? r->note.text : status_text(worst));
        }
    }
    if (worst != STATUS_OK)
        return worst;
    for (uint32_t i = 1; i < round->world; i++)
        if (round->results[i]->drawn_digest != round->results[0]->drawn_digest) {
            *rank = i;
            return status_say(note, STATUS_DESYNC,
                              "plan %llu: rank %u drew other tokens than rank 0", number, i);
        }
    return STATUS_OK;
}

/* After each change of the votes: what has ended is dropped on all ranks, before any later plan
 * (keeps I6 of gpu/protocol.h), and a timer stands for the first open question. */
static void conductor_voted(struct act_ctx *ctx, struct fab_conductor *c) {
    uint64_t key, now = act_now_ns(ctx), due = fab_votes_due_ns(&c->votes);
    while (fab_votes_drop(&c->votes, &key))
        for (uint32_t i = 0; i < c->config.world; i++)
            ACT_SEND(ctx, c->ranks[i], gpu, graph_drop, .key = key);
    if (c->votes_timer != 0 && due != c->votes_due_ns) {
        act_timer_cancel(ctx, c->votes_timer);
        c->votes_timer = 0;
    }
    if (c->votes_timer == 0 && due != UINT64_MAX && !c->stopping) {
        c->votes_due_ns = due;
        c->votes_timer = act_timer_arm(ctx, due > now ? due - now : 0, CONDUCTOR_VOTES);
    }
}

static void conductor_arm(struct act_ctx *ctx, struct fab_conductor *c) {
    if (c->config.deadline_ns == 0 || c->n == 0)
        return;
    c->due_ns = act_now_ns(ctx) + c->config.deadline_ns;
    c->timer = act_timer_arm(ctx, c->config.deadline_ns, c->runs[0].number);
}

static void conductor_disarm(struct act_ctx *ctx, struct fab_conductor *c) {
    if (c->timer != 0)
        act_timer_cancel(ctx, c->timer);
    c->timer = 0;
    c->away = 0;
}

/* Ends the oldest run. Its result carries the status of the whole. */
static void conductor_report(struct act_ctx *ctx, struct fab_conductor *c, enum status status,
                             uint32_t rank) {
    struct conductor_run run = c->runs[0];
    c->runs[0] = c->runs[1];
    c->n--;
    if (status != STATUS_OK)
        c->failed_number = run.number;
    act_expect(ctx, -1);
    ACT_SEND(ctx, run.planner, fab, ran, .round = run.round, .status = status, .rank = rank);
    if (c->stopping && c->n == 0)
        act_exit(ctx);
}

static void conductor_say(const struct fab_conductor *c, const char *text) {
    if (c->config.say != NULL)
        c->config.say(c->config.self, text);
}

/* Clients get a code alone, so what ends all work, or a lane whose retry failed, is said here. */
static void conductor_tell(const struct fab_conductor *c, const struct gpu_plan *plan,
                           enum status status, const char *text) {
    bool lane_ends = (plan->flags & GPU_PLAN_ALONE) != 0 &&
                     (status == STATUS_ROUND_FAILED || status == STATUS_NO_MEMORY);
    if (lane_ends || status == STATUS_TIMEOUT || status == STATUS_DEVICE || status == STATUS_DESYNC)
        conductor_say(c, text);
}

static void conductor_finish(struct act_ctx *ctx, struct fab_conductor *c) {
    uint32_t all = (1u << c->config.world) - 1;
    while (c->n > 0 && c->runs[0].answered == all) {
        struct gpu_round *round = c->runs[0].round;
        struct status_note note = {{0}};
        uint32_t rank;
        conductor_disarm(ctx, c);
        enum status status = fab_results_compare(round, &rank, &note);
        /* A plan ahead of one that failed on some rank is void even where every rank could run it.
         */
        if (status == STATUS_OK && (round->plan->flags & GPU_PLAN_AHEAD) &&
            c->failed_number + 1 == c->runs[0].number)
            status = status_say(&note, STATUS_AGAIN, "plan %llu is void: the plan before failed",
                                (unsigned long long)c->runs[0].number);
        if (status != STATUS_OK) {
            round->results[0]->status = status;
            round->results[0]->note = note;
            conductor_tell(c, round->plan, status, note.text);
            fab_votes_failed(&c->votes, c->runs[0].number);
            conductor_voted(ctx, c);
        }
        conductor_report(ctx, c, status, rank);
        conductor_arm(ctx, c);
    }
}

/* The plan's key and what is done with it, the same on all ranks (keeps V1). */
static void conductor_graph(struct act_ctx *ctx, struct fab_conductor *c, struct gpu_plan *plan) {
    const struct gpu_device *d = c->config.shapes;
    plan->graph_key = 0;
    plan->graph_order = GPU_GRAPH_NONE;
    if (d == NULL || d->ops->graph_key == NULL || c->config.graphs.max == 0)
        return;
    plan->graph_key = d->ops->graph_key(d, plan);
    plan->graph_order = fab_votes_order(&c->votes, plan->graph_key, c->number + 1, act_now_ns(ctx));
    conductor_voted(ctx, c);
}

void conductor_on_graph_vote(struct act_ctx *ctx, struct fab_conductor *c, act_id_t from,
                             const struct gpu_graph_vote *m) {
    CHECK(m->rank < c->config.world && c->ranks[m->rank] == from);
    fab_votes_word(&c->votes, m->rank, m->key, m->plan, (enum gpu_graph_word)m->word);
    conductor_voted(ctx, c);
}

static void conductor_votes_late(struct act_ctx *ctx, struct fab_conductor *c) {
    struct status_note note = {{0}};
    c->votes_timer = 0;
    while (fab_votes_late(&c->votes, act_now_ns(ctx), &note))
        conductor_say(c, note.text);
    conductor_voted(ctx, c);
}

void conductor_on_run(struct act_ctx *ctx, struct fab_conductor *c, act_id_t from,
                      const struct fab_run *m) {
    struct gpu_round *round = m->round;
    CHECK(c->n < CONDUCTOR_RUNS);
    CHECK(round->world == c->config.world);
    if (c->broken) {
        ACT_SEND(ctx, from, fab, ran, .round = round, .status = STATUS_TIMEOUT,
                 .rank = c->silent_rank);
        return;
    }
    round->plan->world = c->config.world;
    conductor_graph(ctx, c, round->plan);
    gpu_plan_seal(round->plan, ++c->number, c->digest);
    c->digest = round->plan->digest;
    check_context_plan(c->number);
    c->runs[c->n++] = (struct conductor_run){round, from, 0, c->number};
    act_expect(ctx, +1);
    for (uint32_t i = 0; i < c->config.world; i++)
        ACT_SEND(ctx, c->ranks[i], gpu, step, .round = round);
    if (c->timer == 0)
        conductor_arm(ctx, c);
}

void conductor_on_stepped(struct act_ctx *ctx, struct fab_conductor *c, act_id_t from,
                          const struct gpu_stepped *m) {
    CHECK(m->rank < c->config.world && c->ranks[m->rank] == from);
    if (c->broken)
        return; /* its run was answered TIMEOUT */
    uint32_t bit = 1u << m->rank;
    uint32_t i = c->n > 1 && (c->runs[0].answered & bit) != 0;
    CHECK(c->n > 0 && c->runs[i].round == m->round);
    CHECK((c->runs[i].answered & bit) == 0);
    c->runs[i].answered |= bit;
    conductor_finish(ctx, c);
}

void conductor_on_page_freed(struct act_ctx *ctx, struct fab_conductor *c, act_id_t from,
                             const struct fab_page_freed *m) {
    (void)from;
    struct gpu_page_freed freed = {.n = m->n};
    _Static_assert(sizeof freed.page == sizeof m->page, "the same pages go on");
    for (uint32_t i = 0; i < m->n; i++)
        freed.page[i] = m->page[i];
    for (uint32_t i = 0; i < c->config.world; i++)
        act_send(ctx, c->ranks[i], gpu_KIND_page_freed, &freed, sizeof freed);
}

/* Every rank answers the asker itself. */
void conductor_on_move(struct act_ctx *ctx, struct fab_conductor *c, act_id_t from,
                       const struct fab_move *m) {
    (void)from;
    for (uint32_t i = 0; i < c->config.world; i++)
        ACT_SEND(ctx, c->ranks[i], gpu, move, .asker = m->asker, .page = m->page, .slot = m->slot,
                 .to_device = m->to_device);
}

/* The oldest run's deadline: silence names the first silent rank and ends everything under way. The
 * ranks may still hold the rounds, so nobody may use them again. */
static void conductor_late(struct act_ctx *ctx, struct fab_conductor *c, uint64_t number) {
    c->timer = 0;
    if (c->n == 0 || c->runs[0].number != number)
        return;
    /* A timer that comes much too late says that we were away, with the ranks of this process: it
     * was stopped, or its machine. Their time begins again. */
    if (act_now_ns(ctx) - c->due_ns > c->config.deadline_ns / 4 && c->away++ < CONDUCTOR_AWAY_MAX) {
        conductor_arm(ctx, c);
        return;
    }
    c->broken = true;
    c->silent_rank = (uint32_t)__builtin_ctz(~c->runs[0].answered);
    struct status_note note;
    status_say(&note, STATUS_TIMEOUT,
               "plan %llu: rank %u has not answered within %llu ms; all work here ends",
               (unsigned long long)number, c->silent_rank,
               (unsigned long long)(c->config.deadline_ns / 1000000));
    conductor_say(c, note.text);
    while (c->n > 0)
        conductor_report(ctx, c, STATUS_TIMEOUT, c->silent_rank);
}

static void conductor_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct fab_conductor *state = self;
    switch (msg->kind) {
        ACT_CASE(conductor, fab, run)
        ACT_CASE(conductor, fab, page_freed)
        ACT_CASE(conductor, fab, move)
        ACT_CASE(conductor, gpu, stepped)
        ACT_CASE(conductor, gpu, graph_vote)
    case ACT_KIND_timer:
        if (((const struct act_timer_msg *)msg->body)->cookie == CONDUCTOR_VOTES)
            conductor_votes_late(ctx, state);
        else
            conductor_late(ctx, state, ((const struct act_timer_msg *)msg->body)->cookie);
        break;
    case ACT_KIND_stop:
        state->stopping = true;
        if (state->n == 0)
            act_exit(ctx);
        break;
    default: /* start, gone */
        break;
    }
}

const struct act_kind fab_conductor_kind = {.name = "conductor", .receive = conductor_receive};

enum status fab_conductor_open(const struct fab_conductor_config *config,
                               struct fab_conductor **out) {
    CHECK(config->world >= 1 && config->world <= GPU_WORLD_MAX);
    struct fab_conductor *c = calloc(1, sizeof *c);
    if (c == NULL)
        return STATUS_NO_MEMORY;
    c->config = *config;
    c->digest = config->chain_start;
    c->failed_number = UINT64_MAX - 1; /* no plan follows it */
    fab_votes_open(&c->votes, config->world, config->graphs,
                   config->vote_deadline_ns != 0 ? config->vote_deadline_ns : CONDUCTOR_VOTE_NS);
    *out = c;
    return STATUS_OK;
}

void fab_conductor_close(struct fab_conductor *c) {
    free(c);
}

const struct fab_votes *fab_conductor_votes(const struct fab_conductor *c) {
    return &c->votes;
}

void fab_conductor_wire(struct fab_conductor *c, const act_id_t *ranks) {
    CHECK(c->ranks[0] == 0);
    for (uint32_t i = 0; i < c->config.world; i++)
        c->ranks[i] = ranks[i];
}
