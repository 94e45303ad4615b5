/* SPDX-License-Identifier: Apache-2.0
 * The scenario's client actor and its judgement.
 */
#include "tests/sim/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/engine.h"
#include "tests/sessions/fake_disk.h"
#include "tests/sim/visitor.h"

enum {
    SC_REQUESTS_MAX = 40,
    SC_LEAVING_MAX = 6,
    SC_CONTEXT_MAX = 160,
    SC_TIMER_SUBMIT = 1 << 16,
    SC_TIMER_CANCEL = 2 << 16,
    SC_TIMER_DRAIN = 3 << 16,
    SC_TIMER_FLUSH = 4 << 16
};

enum sc_state { SC_NEW, SC_SUBMITTED, SC_ACCEPTED, SC_OVER };

struct sc_request {
    enum sc_state state;
    struct lane_request r;
    uint32_t prompt[SC_CONTEXT_MAX];
    uint32_t mask[8];
    uint32_t out[SC_CONTEXT_MAX], n_out;
    uint64_t lane;
    bool refused, started, cancel_sent;
    enum lane_end end;
    enum status status;
    uint32_t resumed, rows, base; /* base: request whose conversation it goes on with, or none */
};

/* A client that submits and leaves: what it asked for must end all the same. */
struct sc_leaver {
    struct scenario *s;
    uint32_t n;
    struct lane_request r[SC_LEAVING_MAX];
    uint32_t prompt[SC_LEAVING_MAX][SC_CONTEXT_MAX];
};

struct scenario {
    uint64_t rng, seed;
    struct lane_engine *engine;
    struct act_rt *rt;
    act_id_t planner, memory, self;
    uint32_t vocab, context, n;
    struct sc_request req[SC_REQUESTS_MAX];
    uint32_t over;
    bool draining, drained, forgotten, counted;
    struct sc_leaver leaver;
    struct visitor visitor;
    struct ses_counted books;
    bool failed;
    struct scenario_result *result;
    uint64_t policy_seed;
    bool disk;
    uint32_t life; /* with a disk there are two: the second finds what the first left */
    bool faults;
};

static uint64_t sc_next(struct scenario *s) {
    s->rng += 0x9e3779b97f4a7c15u;
    uint64_t z = s->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t sc_below(struct scenario *s, uint32_t n) {
    return (uint32_t)(sc_next(s) % n);
}

static void sc_fail(struct scenario *s, const char *what, uint64_t request, uint64_t a,
                    uint64_t b) {
    if (!s->failed)
        status_say(&s->result->note, STATUS_BAD_REQUEST, "request %llu: %s (%llu, %llu)",
                   (unsigned long long)request, what, (unsigned long long)a, (unsigned long long)b);
    s->failed = true;
}

/* What the tokens alone say comes next. */
static uint32_t sc_expected(const struct scenario *s, const struct sc_request *q,
                            const uint32_t *ids, uint32_t n) {
    uint32_t token = gpu_fake_draw(ids, n, q->r.sampling.seed, s->vocab);
    if (q->r.mask != NULL)
        while ((q->mask[token / 32] >> (token % 32) & 1) == 0)
            token = (token + 1) % s->vocab;
    return token;
}

/* ---- making requests ---- */

static void sc_make_prompt(struct scenario *s, uint32_t i) {
    struct sc_request *q = &s->req[i];
    uint32_t n = 0;
    if (i > 0 && sc_below(s, 4) != 0 &&
        s->req[i - 1].r.n_prompt > 0) { /* go on with, edit or cut an earlier conversation */
        const struct sc_request *b = &s->req[sc_below(s, i)];
        b = b->r.n_prompt > 0 ? b : &s->req[i - 1];
        n = b->r.n_prompt;
        memcpy(q->prompt, b->prompt, n * sizeof(uint32_t));
        for (uint32_t k = 0; k < b->n_out && n < s->context - 2; k++)
            q->prompt[n++] = b->out[k];
        for (uint32_t k = 0; k < n; k++)
            if (q->prompt[k] >= s->vocab) /* an earlier one was to be refused */
                q->prompt[k] = 2;
        uint32_t how = sc_below(s, 4);
        if (how == 0)
            n = 1 + sc_below(s, n);
        else if (how == 1)
            q->prompt[sc_below(s, n)] = 2 + sc_below(s, s->vocab - 2);
        if (n > s->context - 2)
            n = s->context - 2;
    }
    uint32_t more = (n == 0 ? 1u : 0u) + sc_below(s, s->context / 3);
    for (uint32_t k = 0; k < more && n < s->context - 1; k++)
        q->prompt[n++] = sc_below(s, 8) == 0 ? 2 + sc_below(s, s->vocab - 2) : 2 + (k % 5);
    q->r.n_prompt = n;
}

static void sc_make(struct scenario *s, uint32_t i) {
    struct sc_request *q = &s->req[i];
    sc_make_prompt(s, i);
    struct lane_request *r = &q->r;
    r->id = i + 1;
    r->client = s->self;
    r->tenant = sc_below(s, 8) == 0;
    r->prompt = q->prompt;
    r->max_tokens = sc_below(s, 16) == 0 ? UINT64_MAX : 1 + sc_below(s, s->context / 2);
    r->flags = LANE_NO_TEXT;
    if (sc_below(s, 3) == 0)
        r->flags |= LANE_IGNORE_EOS;
    if (sc_below(s, 10) == 0)
        r->flags |= LANE_NO_REUSE;
    if (sc_below(s, 10) == 0)
        r->flags |= LANE_NO_KEEP;
    r->priority = sc_below(s, 3);
    r->draft_max = sc_below(s, 2) ? 0 : sc_below(s, LANE_DRAFT_MAX + 1);
    r->draft_fixed = sc_below(s, 2);
    if (sc_below(s, 12) == 0)
        r->deadline_ns = 1 + sc_below(s, 3000000);
    r->sampling = (struct krn_sampling){
        .temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f, .seed = sc_below(s, 3)};
    if (sc_below(s, 4) == 0)
        r->sampling.repetition =
            1.5f; /* counts travel in the plan; the fake device draws without them */
    if (sc_below(s, 8) == 0) {
        for (uint32_t w = 0; w < 8; w++)
            q->mask[w] = (uint32_t)sc_next(s) | 4u;
        r->mask = q->mask;
    }
    switch (sc_below(s, 40)) { /* what must be refused */
    case 0:
        r->n_prompt = 0;
        break;
    case 1:
        q->prompt[0] = s->vocab;
        break;
    case 2:
        r->max_tokens = 0;
        break;
    case 3:
        r->n_prompt = s->context;
        break;
    default:
        break;
    }
}

/* ---- the client actor ---- */

static void sc_over(struct act_ctx *ctx, struct scenario *s, struct sc_request *q) {
    q->state = SC_OVER;
    if (++s->over == s->n)
        ACT_SEND(ctx, s->planner, lane, drain, .deadline_ns = 1000000000);
}

static void sc_submit(struct act_ctx *ctx, struct scenario *s, uint32_t i) {
    struct sc_request *q = &s->req[i];
    sc_make(s, i);
    q->state = SC_SUBMITTED;
    ACT_SEND(ctx, s->planner, lane, submit, .request = &q->r);
    if (sc_below(s, 5) == 0)
        act_timer_arm(ctx, sc_below(s, 2000000), SC_TIMER_CANCEL + i);
}

/* The last words, when nobody asks for anything any more. */
static void sc_flush(struct act_ctx *ctx, struct scenario *s) {
    s->visitor.leave = true;
    if (s->visitor.asking)
        act_timer_arm(ctx, 1000, SC_TIMER_FLUSH);
    else
        ACT_SEND(ctx, s->memory, ses, flush, .token = 3);
}

static void sc_on_timer(struct act_ctx *ctx, struct scenario *s, uint64_t cookie) {
    uint32_t i = cookie & 0xffff;
    if (cookie >= SC_TIMER_FLUSH) {
        sc_flush(ctx, s);
    } else if (cookie >= SC_TIMER_DRAIN) {
        s->draining = true;
        ACT_SEND(ctx, s->planner, lane, drain, .deadline_ns = sc_below(s, 2000000));
    } else if (cookie >= SC_TIMER_CANCEL) {
        s->req[i].cancel_sent = true;
        if (s->req[i].lane != 0)
            ACT_SEND(ctx, s->planner, lane, cancel, .lane = s->req[i].lane);
    } else {
        sc_submit(ctx, s, i);
    }
}

static struct sc_request *sc_find(struct scenario *s, uint64_t id, enum sc_state state,
                                  const char *what) {
    struct sc_request *q = &s->req[id - 1];
    if (id == 0 || id > s->n || q->state != state) {
        sc_fail(s, what, id, id <= s->n ? (uint64_t)q->state : 99, state);
        return NULL;
    }
    return q;
}

static void sc_on_token(struct scenario *s, const struct lane_token *m) {
    struct sc_request *q = sc_find(s, m->request, SC_ACCEPTED, "token in the wrong state");
    if (q == NULL)
        return;
    if (m->index != q->n_out || !q->started) {
        sc_fail(s, "tokens out of order", m->request, m->index, q->n_out);
        return;
    }
    uint32_t ids[SC_CONTEXT_MAX * 2];
    memcpy(ids, q->prompt, q->r.n_prompt * sizeof(uint32_t));
    memcpy(ids + q->r.n_prompt, q->out, q->n_out * sizeof(uint32_t));
    uint32_t want = sc_expected(s, q, ids, q->r.n_prompt + q->n_out);
    if (m->id != want)
        sc_fail(s, "a token differs from the solo run", m->request, m->id, want);
    q->out[q->n_out++] = m->id;
    s->result->tokens++;
}

static void sc_on_ended(struct act_ctx *ctx, struct scenario *s, const struct lane_ended *m) {
    struct sc_request *q = sc_find(s, m->request, SC_ACCEPTED, "ended in the wrong state");
    if (q == NULL)
        return;
    q->end = (enum lane_end)m->end;
    q->status = (enum status)m->status;
    if (m->n_new != q->n_out)
        sc_fail(s, "ended counts other tokens than were sent", m->request, m->n_new, q->n_out);
    uint32_t room = s->context - q->r.n_prompt;
    bool eos = q->n_out > 0 && q->out[q->n_out - 1] == 1 && (q->r.flags & LANE_IGNORE_EOS) == 0;
    uint64_t limit = q->r.max_tokens < room ? q->r.max_tokens : room;
    switch (q->end) {
    case LANE_END_EOS:
        if (!eos)
            sc_fail(s, "ended by EOS without one", m->request, q->n_out, 0);
        break;
    case LANE_END_LENGTH:
        if (q->n_out != q->r.max_tokens || eos)
            sc_fail(s, "ended by length too soon", m->request, q->n_out, q->r.max_tokens);
        break;
    case LANE_END_CONTEXT:
        if (q->n_out != room || eos)
            sc_fail(s, "ended by context too soon", m->request, q->n_out, room);
        break;
    case LANE_END_CANCELLED:
        if (!q->cancel_sent && q->r.deadline_ns == 0 && !s->draining)
            sc_fail(s, "cancelled without being asked", m->request, q->status, 0);
        s->result->cancelled++;
        break;
    case LANE_END_FAILED:
        if (!s->faults)
            sc_fail(s, "failed without a fault", m->request, q->status, 0);
        s->result->failed++;
        break;
    default:
        sc_fail(s, "unknown end", m->request, q->end, 0);
    }
    if (q->n_out > limit)
        sc_fail(s, "more tokens than asked for", m->request, q->n_out, limit);
    for (uint32_t k = 0; k + 1 < q->n_out; k++)
        if (q->out[k] == 1 && (q->r.flags & LANE_IGNORE_EOS) == 0)
            sc_fail(s, "tokens after EOS", m->request, k, q->n_out);
    /* Rows: prompt less what memory gave, and every reply token but the last; drafts may add
     * rows. */
    if (q->end == LANE_END_LENGTH || q->end == LANE_END_CONTEXT || q->end == LANE_END_EOS) {
        uint32_t need = q->r.n_prompt - q->resumed + q->n_out - 1;
        uint32_t wasted = m->drafted - m->accepted;
        if (m->rows < need || m->rows > need + wasted + 1)
            sc_fail(s, "rows computed are not prompt less prefix plus reply", m->request, m->rows,
                    need);
    }
    s->result->drafted += m->drafted;
    s->result->accepted += m->accepted;
    sc_over(ctx, s, q);
}

static void sc_on_refused(struct act_ctx *ctx, struct scenario *s, const struct lane_refused *m) {
    struct sc_request *q = sc_find(s, m->request, SC_SUBMITTED, "refused in the wrong state");
    if (q == NULL)
        return;
    q->refused = true;
    s->result->refused++;
    if (m->status == STATUS_QUEUE_FULL && m->retry_ms == 0)
        sc_fail(s, "queue full must say when to retry", m->request, 0, 0);
    if (m->status == STATUS_DRAINING && !s->draining)
        sc_fail(s, "draining without being asked", m->request, 0, 0);
    sc_over(ctx, s, q);
}

static void sc_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct scenario *s = state;
    const void *b = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        s->self = act_self(ctx);
        for (uint32_t i = 0; i < s->n; i++)
            act_timer_arm(ctx, sc_below(s, 8000000), SC_TIMER_SUBMIT + i);
        if (sc_below(s, 8) == 0)
            act_timer_arm(ctx, sc_below(s, 8000000), SC_TIMER_DRAIN);
        break;
    case ACT_KIND_timer:
        sc_on_timer(ctx, s, ((const struct act_timer_msg *)b)->cookie);
        break;
    case lane_KIND_accepted: {
        const struct lane_accepted *m = b;
        struct sc_request *q = sc_find(s, m->request, SC_SUBMITTED, "accepted in the wrong state");
        if (q == NULL)
            return;
        q->state = SC_ACCEPTED;
        q->lane = m->lane;
        s->result->requests++;
        if (q->cancel_sent)
            ACT_SEND(ctx, s->planner, lane, cancel, .lane = q->lane);
        break;
    }
    case lane_KIND_started: {
        const struct lane_started *m = b;
        struct sc_request *q = sc_find(s, m->request, SC_ACCEPTED, "started in the wrong state");
        if (q == NULL)
            return;
        if (q->started || m->n_resumed >= q->r.n_prompt ||
            ((q->r.flags & LANE_NO_REUSE) != 0 && m->n_resumed > 0))
            sc_fail(s, "resumed more than can be", m->request, m->n_resumed, q->r.n_prompt);
        q->started = true;
        q->resumed = m->n_resumed;
        s->result->resumed += m->n_resumed;
        s->result->from_ram += m->from_ram;
        s->result->from_disk += m->from_disk;
        if (m->from_ram + m->from_disk > m->n_resumed)
            sc_fail(s, "more came from tiers than was resumed", m->request, m->from_ram,
                    m->from_disk);
        break;
    }
    case lane_KIND_token:
        sc_on_token(s, b);
        break;
    case lane_KIND_ended:
        sc_on_ended(ctx, s, b);
        break;
    case lane_KIND_refused:
        sc_on_refused(ctx, s, b);
        break;
    case lane_KIND_drained:
        if (s->drained || s->over < s->n) /* the answer to an early drain; the last one counts */
            break;
        s->drained = true;
        sc_flush(ctx, s);
        break;
    case ses_KIND_flushed: /* what is on its way to a tier can be forgotten only then */
        if (s->disk && s->life == 0) {
            s->forgotten = true;
            ACT_SEND(ctx, s->memory, ses, count, .token = 2);
            break;
        }
        ACT_SEND(ctx, s->memory, ses, forget, .token = 1);
        break;
    case ses_KIND_forgotten:
        s->forgotten = true;
        ACT_SEND(ctx, s->memory, ses, count, .token = 2);
        break;
    case ses_KIND_counted:
        s->counted = true;
        s->books = *(const struct ses_counted *)b;
        act_rt_stop(act_rt_of(ctx));
        break;
    case ACT_KIND_gone:
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        sc_fail(s, "unexpected message", 0, msg->kind, 0);
    }
}

static const struct act_kind sc_kind = {.name = "client", .receive = sc_receive};

/* ---- the client that leaves ---- */

static void sc_leaver_submit(struct act_ctx *ctx, struct sc_leaver *l) {
    struct scenario *s = l->s;
    struct lane_request *r = &l->r[l->n];
    uint32_t n = 1 + sc_below(s, s->context / 2);
    for (uint32_t k = 0; k < n; k++)
        l->prompt[l->n][k] = 2 + k % 5 % (s->vocab - 2);
    *r = (struct lane_request){.id = ++l->n,
                               .client = act_self(ctx),
                               .prompt = l->prompt[l->n - 1],
                               .n_prompt = n,
                               .max_tokens = UINT64_MAX,
                               .flags = LANE_NO_TEXT | LANE_IGNORE_EOS,
                               .draft_max = sc_below(s, LANE_DRAFT_MAX + 1),
                               .sampling = {.top_p = 1.0f, .repetition = 1.0f}};
    ACT_SEND(ctx, s->planner, lane, submit, .request = r);
}

static void sc_leaver_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct sc_leaver *l = state;
    if (msg->kind != ACT_KIND_start && msg->kind != ACT_KIND_timer && msg->kind != ACT_KIND_stop)
        return;
    if (msg->kind == ACT_KIND_stop || l->n == SC_LEAVING_MAX || sc_below(l->s, 4) == 0) {
        act_exit(ctx);
        return;
    }
    sc_leaver_submit(ctx, l);
    act_timer_arm(ctx, sc_below(l->s, 2) == 0 ? 0 : sc_below(l->s, 1500000), 0);
}

static const struct act_kind sc_leaver_kind = {.name = "leaver", .receive = sc_leaver_receive};

/* ---- one life ---- */

/* Votes on graphs that get lost, late, doubled or are refused, by the seed's own bits. */
static void sc_set_graph_faults(struct scenario *s) {
    static const char *const points[] = {"gpu.vote_lost", "gpu.vote_late", "gpu.vote_twice",
                                         "gpu.graph_fails"};
    for (uint32_t i = 0; i < 4; i++)
        if ((s->seed >> i & 1) != 0)
            act_sim_fault_set(s->rt, points[i], 50000, 500000, 300000);
}

static void sc_set_faults(struct scenario *s) {
    static const char *const points[] = {"gpu.step_fails", "gpu.nan_row", "gpu.slow", "gpu.void",
                                         "gpu.move_fails"};
    for (uint32_t i = 0; i < 5; i++)
        if (sc_below(s, 2) == 0)
            act_sim_fault_set(s->rt, points[i], 50000, 500000, 300000);
    sc_set_graph_faults(s);
    if (s->disk && (s->seed >> 4 & 1) != 0)
        act_sim_fault_set(s->rt, "ses.disk_slow", 200000, 2000000, 500000);
    act_sim_faults_until(s->rt, 6000000);
}

static char folder[64];

static const char *sc_folder(void) {
    if (folder[0] == '\0') {
        strcpy(folder,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-sim-XXXXXX" : "/tmp/rh-sim-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
    }
    return folder;
}

static void sc_folder_end(void) {
    fake_disk_clear(sc_folder());
    rmdir(folder);
    folder[0] = '\0';
}

/* A disk that may fail, and in the first of two lives may lose its power at any point of its
 * work. */
static void sc_set_disk(struct scenario *s, struct lane_engine_config *c) {
    struct fake_disk_faults f = {.seed = s->seed};
    if (s->life == 0 && sc_below(s, 2) == 0)
        f.cut_at = 1 + sc_below(s, 120);
    if (sc_below(s, 4) == 0)
        f.io_error = 100;
    if (sc_below(s, 4) == 0)
        f.shorter = 300;
    fake_disk_set(&f);
    if (sc_below(s, 2) == 0) { /* little above the disk: it gives pages back in the same life too */
        c->ram_cache = (2 + sc_below(s, 2)) * c->page_tokens;
        c->kv_bytes = s->context + c->page_tokens;
    }
    c->disk = fake_disk_open();
    c->disk_cache = sc_folder();
    c->disk_segment = (1 + sc_below(s, 6)) * 8192;
    c->disk_budget = c->disk_segment * (5 + sc_below(s, 12));
}

static bool sc_open(struct scenario *s, struct status_note *note) {
    struct act_rt_config rc = {.port = ACT_PORT_SIM,
                               .workers = 1,
                               .actors_max = 256,
                               .messages_max = 8192,
                               .timers_max = 512,
                               .seed = sc_next(s),
                               .sim_priority = sc_below(s, 2)};
    if (act_rt_open(&rc, &s->rt, note) != STATUS_OK)
        return false;
    uint32_t page = 4u << sc_below(s, 3);
    s->vocab = sc_below(s, 3) == 0 ? 4 + sc_below(s, 4) : 8 + sc_below(s, 200);
    s->context = 24 + sc_below(s, SC_CONTEXT_MAX - 24);
    struct lane_policy random = lane_policy_random(&s->policy_seed);
    s->policy_seed = sc_next(s);
    uint32_t tokens = 16 + sc_below(s, 64);
    struct lane_engine_config c = {
        .fake = true,
        .fake_vocab = s->vocab,
        .fake_context = s->context,
        .fake_step_ns = 1000 + sc_below(s, 50000),
        .fake_copy_ns = s->seed % 2 == 0 ? 0 : 1000 * (s->seed % 50),
        .rt = s->rt,
        .seed = s->seed,
        .world = 1u << (s->disk ? 0 : sc_below(s, 2)),
        .kv_bytes = (uint64_t)(s->context + page) * (1 + sc_below(s, 6)),
        .page_tokens = page,
        .ram_cache = sc_below(s, 2) == 0 ? 0 : (uint64_t)page * (1 + sc_below(s, 60)),
        .lanes_max = 1 + sc_below(s, 12),
        .queue_max = 1 + sc_below(s, 40),
        .round_tokens = tokens,
        .piece_tokens = 1 + sc_below(s, tokens),
        .prefill_share = 1 + sc_below(s, 100),
        .ahead = sc_below(s, 2),
        .graphs = (uint32_t)(s->seed % 7),
        .policy = sc_below(s, 2) ? &random : NULL};
    if (s->disk)
        sc_set_disk(s, &c);
    if (lane_engine_open(&c, &s->engine, note) != STATUS_OK)
        return false;
    s->planner = lane_engine_planner(s->engine);
    s->memory = lane_engine_memory(s->engine);
    s->faults = sc_below(s, 3) == 0;
    if (s->faults)
        sc_set_faults(s);
    return true;
}

/* A live key is captured on all ranks, and no rank holds more slots than are known of. */
static void sc_judge_graphs(struct scenario *s) {
    const struct fab_votes *v = lane_engine_votes(s->engine);
    for (uint32_t r = 0; r < v->world; r++) {
        const struct gpu_device *d = lane_engine_device(s->engine, r);
        for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
            if (v->keys[i].state == FAB_VOTE_LIVE && !gpu_device_fake_captured(d, v->keys[i].key))
                sc_fail(s, "a live graph is not captured", 0, r, v->keys[i].key);
        if (gpu_device_fake_graphs(d) > fab_votes_held(v))
            sc_fail(s, "a rank holds slots that nobody knows of", 0, r, gpu_device_fake_graphs(d));
        s->result->replays += gpu_device_fake_replays(d);
    }
}

static void sc_judge(struct scenario *s) {
    sc_judge_graphs(s);
    if (s->visitor.wrong != NULL)
        sc_fail(s, s->visitor.wrong, 0, s->visitor.steps, 0);
    s->result->exported += s->visitor.exported;
    s->result->imported += s->visitor.imported;
    s->result->forgotten += s->visitor.forgotten;
    s->result->pinned += s->visitor.pinned;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->req[i].state != SC_OVER)
            sc_fail(s, "never ended", i + 1, s->req[i].state, 0);
    if (!s->drained || !s->forgotten || !s->counted)
        sc_fail(s, "drain, forget and count were not all answered", 0, s->drained, s->forgotten);
    else if (s->books.pages_held != 0 ||
             ((!s->disk || s->life > 0) &&
              (s->books.pages_cached != 0 || s->books.pages_free != s->books.pages_total)))
        sc_fail(s, "pages are left over", 0, s->books.pages_held, s->books.pages_cached);
    struct status_note note;
    if (!lane_engine_audit(s->engine, &note)) {
        sc_fail(s, "the books do not balance", 0, 0, 0);
        s->result->note = note;
    }
    struct act_rt_stats stats;
    act_rt_stats(s->rt, &stats);
    if (stats.allocations_after_start != 0)
        sc_fail(s, "the runtime allocated after its start", 0, stats.allocations_after_start, 0);
}

static bool sc_life(uint64_t seed, bool disk, uint32_t life, struct scenario_result *result) {
    struct scenario *s = calloc(1, sizeof *s);
    s->seed = s->rng = seed;
    s->result = result;
    s->disk = disk;
    s->life = life;
    bool ok = sc_open(s, &result->note);
    if (ok) {
        s->n = 3 + sc_below(s, SC_REQUESTS_MAX - 3);
        act_spawn(s->rt, &sc_kind, s, 0);
        s->leaver.s = s;
        if (sc_below(s, 4) == 0)
            act_spawn(s->rt, &sc_leaver_kind, &s->leaver, 0);
        s->visitor.rng = seed;
        s->visitor.memory = s->memory;
        if (seed % 4 == 3) /* among them all with a disk */
            act_spawn(s->rt, &visitor_kind, &s->visitor, 0);
        act_rt_run(s->rt);
        sc_judge(s);
        result->trace = result->trace * 31 + act_sim_trace(s->rt);
        result->rounds += lane_engine_counters(s->engine)->rounds;
        result->retried += lane_engine_counters(s->engine)->rounds_failed;
        ok = !s->failed;
    } else if (disk && fake_disk_dead()) {
        ok = true; /* the power went while it opened: the next life finds what there is */
    }
    if (s->rt != NULL)
        act_rt_close(s->rt);
    lane_engine_close(s->engine);
    free(s);
    return ok;
}

bool scenario_run(uint64_t seed, struct scenario_result *result) {
    *result = (struct scenario_result){0};
    bool disk = seed % 16 == 3;
    bool ok = sc_life(seed, disk, 0, result);
    if (disk && ok) {
        uint64_t first = result->from_disk;
        ok = sc_life(seed, disk, 1, result);
        result->from_restart = result->from_disk - first;
    }
    if (disk)
        sc_folder_end();
    return ok;
}
