/* SPDX-License-Identifier: Apache-2.0
 * The cases of prove: how sessions are made, and the situation of each axis.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "actors/port.h"
#include "kernels/oracle.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/prove.h"

const char *const prove_axis_names[PROVE_AXES] = {
    "none", "company", "memory", "drafts", "pieces", "threads", "trouble", "ranks", "graphs"};

enum {
    CASES_JOBS = 256, /* calls at once at most */
    CASES_LANES = 16,
    CASES_SMALL_VOCAB = 1 << 15, /* up to here 256 lanes' logits are no burden */
    CASES_PROMPT = 66,           /* tokens: a page and a little */
    CASES_FIRST = 20,            /* of the first session */
    CASES_FIRST_NEW = 4,
    CASES_MIN = 3,
    CASES_PAGE_TOKENS = 64,
    CASES_PAGES_MORE = 4
};
static const uint64_t CASES_WORK = 35000000000; /* a prompt's tokens times parameters */

/* One call under way in a phase. */
struct cases_job {
    struct client_call call;
    const struct prove_session *ref; /* NULL: only makes company or memory */
    uint32_t session;
    uint32_t cancel_at; /* tokens after which it is cancelled; 0: never */
    uint32_t ids[PROVE_NEW_MAX];
    uint64_t hashes[PROVE_NEW_MAX];
};

/* A run of an engine over sessions: next fills a job or says that there is no more. */
struct cases_phase {
    struct prove *p;
    enum prove_axis axis;
    struct lane_engine *engine;
    struct client client;
    struct cases_job jobs[CASES_JOBS];
    uint32_t live, live_max;
    uint32_t at, end; /* next session, last session */
    uint32_t step;    /* memory: which part of the session's story comes next */
    uint32_t repeat;
    double until;
    bool (*next)(struct cases_phase *ph, struct cases_job *job);
    uint64_t fail_rng;
    enum status status;
};

double prove_now(void) {
    return (double)act_port_now_ns() * 1e-9;
}

static uint64_t cases_next(uint64_t *x) {
    *x += 0x9e3779b97f4a7c15u;
    uint64_t z = *x;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t cases_below(struct prove *p, uint32_t n) {
    return (uint32_t)(cases_next(&p->rng) % n);
}

/* ---- sessions ---- */

static void cases_sampling(struct prove *p, struct krn_sampling *s) {
    *s = (struct krn_sampling){.temperature = 0.0f,
                               .top_p = 1.0f,
                               .repetition = 1.0f,
                               .seed = cases_next(&p->rng),
                               .flags = KRN_DRAW_HASH_LOGITS};
    if (cases_below(p, 2) == 0)
        return;
    s->temperature = 0.3f + 0.1f * (float)cases_below(p, 12);
    if (cases_below(p, 3) == 0)
        s->top_k = 1 + cases_below(p, 100);
    if (cases_below(p, 3) == 0)
        s->top_p = 0.5f + 0.05f * (float)cases_below(p, 10);
    if (cases_below(p, 4) == 0)
        s->min_p = 0.01f * (float)cases_below(p, 20);
    if (cases_below(p, 3) == 0)
        s->repetition = 1.0f + 0.1f * (float)cases_below(p, 5);
    if (cases_below(p, 4) == 0)
        s->presence = 0.1f * (float)cases_below(p, 10);
    if (cases_below(p, 4) == 0)
        s->frequency = 0.1f * (float)cases_below(p, 10);
}

/* Prompt lengths around page and tile borders are as likely as all others. A larger model gets
 * shorter ones, never too short for a second page; the first session is shorter still, for the
 * oracle and the plainest instruction set, which are slow. */
static uint32_t cases_length(struct prove *p) {
    uint64_t most = CASES_WORK / (p->parameters + 1);
    most = most < CASES_PROMPT ? CASES_PROMPT : most > 700 ? 700 : most;
    most = p->context / 4 < most ? p->context / 4 : most;
    if (p->n_sessions == 0)
        return most < CASES_FIRST ? (uint32_t)most : CASES_FIRST;
    uint32_t n = 1 + cases_below(p, (uint32_t)most);
    switch (cases_below(p, 4)) {
    case 0:
        n = 64 * (1 + cases_below(p, 4)) + cases_below(p, 5) - 2;
        break;
    case 1:
        n = 1 + cases_below(p, 40);
        break;
    default:
        break;
    }
    return n > most ? (uint32_t)most : n;
}

static bool cases_make(struct prove *p, struct prove_session *s) {
    *s = (struct prove_session){.base = PROVE_NO_BASE};
    uint32_t more = cases_length(p), kept = 0;
    const struct prove_session *b = NULL;
    if (p->n_sessions > 0 && cases_below(p, 3) == 0) {
        s->base = cases_below(p, p->n_sessions);
        b = &p->sessions[s->base];
        kept = b->n_prompt + b->n_out;
        more = 1 + cases_below(p, 60);
        if (kept + more + PROVE_NEW_MAX > p->context) {
            s->base = PROVE_NO_BASE;
            b = NULL;
            kept = 0;
        }
    }
    if (kept + more + 2 > p->context)
        more = p->context / 2;
    s->prompt = malloc((kept + more) * sizeof(uint32_t));
    if (s->prompt == NULL)
        return false;
    if (b != NULL) {
        memcpy(s->prompt, b->prompt, b->n_prompt * sizeof(uint32_t));
        memcpy(s->prompt + b->n_prompt, b->out, b->n_out * sizeof(uint32_t));
    }
    /* Runs of random ids that come again, so that drafts find something. */
    uint32_t run[24], n_run = 1 + cases_below(p, 24);
    for (uint32_t i = 0; i < n_run; i++)
        run[i] = cases_below(p, p->vocab);
    for (uint32_t i = 0; i < more; i++)
        s->prompt[kept + i] = cases_below(p, 4) == 0 ? cases_below(p, p->vocab) : run[i % n_run];
    s->n_prompt = kept + more;
    s->n_new = p->n_sessions == 0 ? CASES_FIRST_NEW : 2 + cases_below(p, PROVE_NEW_MAX - 2);
    if (s->n_new > p->context - s->n_prompt)
        s->n_new = p->context - s->n_prompt;
    s->flags = LANE_NO_TEXT | (cases_below(p, 4) != 0 ? LANE_IGNORE_EOS : 0u);
    cases_sampling(p, &s->sampling);
    return true;
}

static void cases_fill(struct cases_job *job, const struct prove_session *s, uint32_t session) {
    struct lane_request *r = &job->call.request;
    r->prompt = s->prompt;
    r->n_prompt = s->n_prompt;
    r->max_tokens = s->n_new;
    r->sampling = s->sampling;
    r->flags = s->flags | LANE_NO_REUSE | LANE_NO_KEEP;
    r->draft_max = 0;
    r->draft_fixed = false;
    job->ref = s;
    job->session = session;
    job->cancel_at = 0;
}

/* ---- running a phase ---- */

static void cases_compare(struct cases_phase *ph, const struct cases_job *job) {
    struct prove_count *c = &ph->p->count[ph->axis];
    const struct prove_session *s = job->ref;
    const struct client_call *call = &job->call;
    c->cases++;
    c->resumed += call->n_resumed;
    c->from_ram += call->from_ram;
    c->from_disk += call->from_disk;
    c->drafted += call->drafted;
    c->accepted += call->accepted;
    bool whole = call->end != LANE_END_CANCELLED && call->end != LANE_END_FAILED;
    if (call->end == LANE_END_CANCELLED && call->cancel_sent)
        c->cancelled++;
    uint32_t n = call->n_new < s->n_out ? call->n_new : s->n_out;
    for (uint32_t i = 0; i < n; i++) {
        c->rows++;
        if (job->ids[i] == s->out[i] && job->hashes[i] == s->hash[i])
            continue;
        if (c->differ++ == 0) {
            c->first_session = job->session;
            c->first_row = i;
        }
        return; /* what follows has another history */
    }
    bool expected =
        whole ? call->n_new == s->n_out : call->end == LANE_END_CANCELLED && call->cancel_sent;
    if (!expected && c->differ++ == 0) {
        c->first_session = job->session;
        c->first_row = n;
    }
}

static void cases_start(struct act_ctx *ctx, struct client *c, void *user) {
    struct cases_phase *ph = user;
    for (uint32_t i = 0; i < ph->live_max; i++) {
        if (!ph->next(ph, &ph->jobs[i]))
            break;
        ph->live++;
        client_submit(ctx, c, &ph->jobs[i].call);
    }
    if (ph->live == 0)
        client_stop(ctx);
}

static void cases_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                        uint32_t id) {
    (void)id;
    struct cases_job *job = call->user;
    if (job->cancel_at > 0 && call->n_new >= job->cancel_at)
        client_cancel(ctx, c, call);
}

static void cases_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct cases_phase *ph = c->driver.user;
    struct cases_job *job = call->user;
    if (call->refused && ph->status == STATUS_OK)
        ph->status = call->status;
    if (ph->axis == PROVE_NONE) {
        struct prove_session *s = &ph->p->sessions[job->session];
        s->n_out = call->n_new;
        memcpy(s->out, job->ids, sizeof s->out);
        memcpy(s->hash, job->hashes, sizeof s->hash);
        if (call->end == LANE_END_FAILED)
            ph->status = call->status;
        else
            ph->p->n_sessions++;
    } else if (job->ref != NULL) {
        cases_compare(ph, job);
    }
    if (ph->p->progress != NULL)
        ph->p->progress(ph->p, prove_axis_names[ph->axis], ph->p->count[ph->axis].rows);
    if (ph->status == STATUS_OK && ph->next(ph, job)) {
        client_submit(ctx, c, call);
        return;
    }
    if (--ph->live == 0)
        client_stop(ctx);
}

/* Time is up, and enough was compared: of the axis threads, whose parts say one thing each, the
 * first session, which is short. */
static bool cases_enough(const struct cases_phase *ph) {
    uint32_t least = ph->axis == PROVE_THREADS ? 1 : CASES_MIN;
    return prove_now() >= ph->until && ph->p->count[ph->axis].cases >= least;
}

static enum status cases_run(struct prove *p, struct cases_phase *ph,
                             const struct lane_engine_config *config, double seconds,
                             struct status_note *note) {
    ph->p = p;
    TRY(loading_engine(config, p->progress == NULL, &ph->engine, note));
    if (ph->axis == PROVE_NONE) {
        const struct krn_model *m = lane_engine_model(ph->engine);
        memcpy(p->fingerprint, m->fingerprint, sizeof p->fingerprint);
        p->parameters = m->parameters;
        p->profile = *lane_engine_profile(ph->engine);
        snprintf(p->device, sizeof p->device, "%s", lane_engine_device_name(ph->engine));
        snprintf(p->device_words, sizeof p->device_words, "%s",
                 lane_engine_device_words(ph->engine));
        p->context = lane_engine_context(ph->engine);
        p->vocab = lane_engine_vocab(ph->engine);
        p->has_graphs = lane_engine_device(ph->engine, 0)->ops->graph_key != NULL;
        p->page_bytes = lane_engine_page_bytes(ph->engine);
    }
    for (uint32_t i = 0; i < CASES_JOBS; i++) {
        client_call_init(&ph->jobs[i].call);
        ph->jobs[i].call.user = &ph->jobs[i];
        ph->jobs[i].call.ids = ph->jobs[i].ids;
        ph->jobs[i].call.hashes = ph->jobs[i].hashes;
    }
    ph->until = prove_now() + seconds;
    struct client_driver driver = {
        .start = cases_start, .token = cases_token, .over = cases_over, .user = ph};
    client_open(&ph->client, ph->engine, &driver);
    client_run(&ph->client);
    enum status s = ph->status != STATUS_OK ? ph->status : lane_engine_dead(ph->engine);
    if (s != STATUS_OK)
        status_say(note, s, "a session of prove could not run: %s", status_text(s));
    if (ph->axis != PROVE_NONE)
        p->count[ph->axis].failed_rounds += lane_engine_counters(ph->engine)->rounds_failed;
    p->count[ph->axis].replays += lane_engine_votes(ph->engine)->count.hits;
    p->count[ph->axis].refused_graphs += lane_engine_votes(ph->engine)->count.refused;
    lane_engine_close(ph->engine);
    ph->engine = NULL;
    return s;
}

/* The user's settings, with nothing that an axis varies. */
static struct lane_engine_config cases_config(const struct prove *p) {
    struct lane_engine_config c = p->config;
    c.policy = NULL;
    c.ahead = c.ahead_auto = false;
    c.rank_thread = false;
    c.world = 1;
    c.threads = p->threads;
    c.no_reuse = false;
    c.ram_cache = 0; /* tiers are the memory axis's */
    c.disk_cache = NULL;
    c.lanes_max = CASES_LANES;
    c.round_tokens = c.piece_tokens = 2048; /* prompts of the cases go in one piece */
    c.piece_ns = UINT64_MAX;
    return c;
}

/* ---- the axes ---- */

static bool next_reference(struct cases_phase *ph, struct cases_job *job) {
    struct prove *p = ph->p;
    if (p->n_sessions == PROVE_SESSIONS_MAX ||
        (prove_now() >= ph->until && p->n_sessions >= CASES_MIN))
        return false;
    struct prove_session *s = &p->sessions[p->n_sessions];
    if (!cases_make(p, s)) {
        ph->status = STATUS_NO_MEMORY;
        return false;
    }
    cases_fill(job, s, p->n_sessions);
    return true;
}

/* The sessions in turn, again from the front while there is time. */
static struct prove_session *cases_turn(struct cases_phase *ph, uint32_t *index) {
    if (cases_enough(ph))
        return NULL;
    *index = ph->at;
    ph->at = (ph->at + 1) % ph->p->n_sessions;
    return &ph->p->sessions[*index];
}

static bool next_plain(struct cases_phase *ph, struct cases_job *job) {
    uint32_t i;
    struct prove_session *s = cases_turn(ph, &i);
    if (s == NULL)
        return false;
    cases_fill(job, s, i);
    return true;
}

static bool next_drafts(struct cases_phase *ph, struct cases_job *job) {
    if (!next_plain(ph, job))
        return false;
    job->call.request.draft_max = 1 + cases_below(ph->p, LANE_DRAFT_MAX);
    job->call.request.draft_fixed = cases_below(ph->p, 2);
    return true;
}

/* A story: the base as it was (its rows are kept), then the prompt cut at a random offset, then the
 * session itself, which resumes what it finds: reply rows of the base, prompt rows of the cut, at
 * any offset. */
static bool next_memory(struct cases_phase *ph, struct cases_job *job) {
    struct prove *p = ph->p;
    if (ph->step == 0) {
        uint32_t i;
        if (cases_turn(ph, &i) == NULL)
            return false;
        ph->end = i;
        ph->step = p->sessions[i].base != PROVE_NO_BASE ? 1 : 2;
    }
    const struct prove_session *s = &p->sessions[ph->end];
    if (ph->step == 1) {
        cases_fill(job, &p->sessions[s->base], s->base);
        ph->step = 3; /* nothing between: the reply's rows are what is resumed */
    } else if (ph->step == 2) {
        cases_fill(job, s, ph->end);
        job->ref = NULL;
        job->call.request.n_prompt = 1 + cases_below(p, s->n_prompt);
        job->call.request.max_tokens = 1;
        ph->step = 3;
    } else {
        cases_fill(job, s, ph->end);
        ph->step = 0;
    }
    job->call.request.flags &= ~(uint32_t)(LANE_NO_REUSE | LANE_NO_KEEP);
    return true;
}

static bool next_trouble(struct cases_phase *ph, struct cases_job *job) {
    if (!next_plain(ph, job))
        return false;
    if (cases_below(ph->p, 3) == 0)
        job->cancel_at = 1 + cases_below(ph->p, PROVE_NEW_MAX);
    return true;
}

static void trouble_before_step(void *self, const struct gpu_plan *plan,
                                struct gpu_faults *faults) {
    struct cases_phase *ph = self;
    /* A retry alone is let through, so that sessions go on. */
    if ((plan->flags & GPU_PLAN_ALONE) == 0 && cases_next(&ph->fail_rng) % 8 == 0)
        faults->step_fails = true;
}

static struct cases_phase *cases_phase_new(enum prove_axis axis, uint32_t live,
                                           bool (*next)(struct cases_phase *, struct cases_job *)) {
    struct cases_phase *ph = calloc(1, sizeof *ph);
    if (ph != NULL) {
        ph->axis = axis;
        ph->live_max = live;
        ph->next = next;
    }
    return ph;
}

static enum status cases_simple(struct prove *p, enum prove_axis axis, uint32_t live,
                                bool (*next)(struct cases_phase *, struct cases_job *),
                                const struct lane_engine_config *config, double seconds,
                                struct status_note *note) {
    struct cases_phase *ph = cases_phase_new(axis, live, next);
    if (ph == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for prove");
    enum status s = cases_run(p, ph, config, seconds, note);
    free(ph);
    return s;
}

/* One part of the axis threads, in an even share of the time that is left; noted as left out where
 * none is, or not what the part will take at least. The first is always done. */
static enum status cases_part(struct prove *p, const struct lane_engine_config *config,
                              const char *name, double takes, double until, uint32_t parts,
                              struct status_note *note) {
    CHECK(p->n_parts < PROVE_PARTS_MAX);
    struct prove_part *part = &p->parts[p->n_parts++];
    double left = until - prove_now();
    snprintf(part->name, sizeof part->name, "%s", name);
    if (p->n_parts > 1 && left <= takes)
        return STATUS_OK;
    part->done = true;
    return cases_simple(p, PROVE_THREADS, 1, next_plain, config, left / (parts - p->n_parts + 1),
                        note);
}

/* Other team sizes than the reference's, and every instruction set that the machine has: of the
 * CPU, whatever the reference ran on. What says most comes first, the slowest last. */
static enum status cases_threads(struct prove *p, double seconds, struct status_note *note) {
    static const struct {
        uint32_t threads;
        const char *isa;
    } all[PROVE_PARTS_MAX] = {{1, NULL}, {0, "avx2"}, {3, NULL}, {0, "avx512"},
                              {2, NULL}, {0, "neon"}, {5, NULL}, {0, "scalar"}};
    struct lane_engine_config c = cases_config(p);
    double until = prove_now() + seconds;
    bool here[PROVE_PARTS_MAX];
    uint32_t n = 0;
    c.device = LANE_DEVICE_CPU;
    for (uint32_t i = 0; i < PROVE_PARTS_MAX; i++) {
        here[i] = all[i].isa == NULL ? all[i].threads != p->threads
                                     : p->config.isa == NULL && krn_rowfn_pick(all[i].isa) != NULL;
        n += here[i];
    }
    p->n_parts = 0;
    for (uint32_t i = 0; i < PROVE_PARTS_MAX; i++) {
        char name[16];
        double takes = 0;
        if (!here[i])
            continue;
        snprintf(name, sizeof name, "%u thread%s", all[i].threads, all[i].threads == 1 ? "" : "s");
        c.threads = all[i].isa == NULL ? all[i].threads : p->threads;
        c.isa = all[i].isa != NULL ? all[i].isa : p->config.isa;
        if (all[i].isa != NULL && strcmp(all[i].isa, "scalar") == 0)
            takes = p->oracle_token_s * (CASES_FIRST + CASES_FIRST_NEW) / p->threads;
        TRY(cases_part(p, &c, all[i].isa != NULL ? all[i].isa : name, takes, until, n, note));
    }
    return STATUS_OK;
}

/* The random policy, alone and in company, planned ahead and not. */
static enum status cases_pieces(struct prove *p, double seconds, struct status_note *note) {
    struct lane_engine_config c = cases_config(p);
    uint64_t seed = cases_next(&p->rng);
    struct lane_policy random = lane_policy_random(&seed);
    c.policy = &random;
    TRY(cases_simple(p, PROVE_PIECES, 1, next_plain, &c, seconds / 3, note));
    TRY(cases_simple(p, PROVE_PIECES, 5, next_plain, &c, seconds / 3, note));
    c.ahead = c.rank_thread = true;
    return cases_simple(p, PROVE_PIECES, 3, next_plain, &c, seconds / 3, note);
}

static enum status cases_trouble(struct prove *p, double seconds, struct status_note *note) {
    struct cases_phase *ph = cases_phase_new(PROVE_TROUBLE, 4, next_trouble);
    if (ph == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for prove");
    struct lane_engine_config c = cases_config(p);
    ph->fail_rng = cases_next(&p->rng);
    c.before_step = trouble_before_step;
    c.before_step_self = ph;
    enum status s = cases_run(p, ph, &c, seconds, note);
    free(ph);
    return s;
}

/* A few at once, then as many as may run (256) and as the time allows. */
static enum status cases_company(struct prove *p, double seconds, struct status_note *note) {
    struct lane_engine_config c = cases_config(p);
    double begin = prove_now();
    TRY(cases_simple(p, PROVE_COMPANY, 5, next_plain, &c, seconds / 2, note));
    /* As many as the time that is left can end, going by the first half. */
    double ends = (double)p->count[PROVE_COMPANY].cases * seconds / 2 / (prove_now() - begin);
    uint32_t most = p->vocab <= CASES_SMALL_VOCAB ? CASES_JOBS : CASES_LANES;
    c.lanes_max = ends < 8 ? 8 : ends < most ? (uint32_t)ends : most;
    return cases_simple(p, PROVE_COMPANY, c.lanes_max, next_plain, &c, seconds / 2, note);
}

static enum status cases_ranks(struct prove *p, double seconds, struct status_note *note) {
    struct lane_engine_config c = cases_config(p);
    uint32_t n = 0;
    for (uint32_t w = 2; w <= p->profile.virtual_ranks; w *= 2)
        n++;
    for (uint32_t w = 2; w <= p->profile.virtual_ranks; w *= 2) {
        c.world = w;
        c.graphs_asked = false; /* steps of several ranks are eager */
        c.threads = 1;
        TRY(cases_simple(p, PROVE_RANKS, 2, next_plain, &c, seconds / n, note));
    }
    return STATUS_OK;
}

/* Every fourth order on a graph cannot be followed: no capture, or no graph where one is live. */
static void graphs_before_step(void *self, const struct gpu_plan *plan, struct gpu_faults *faults) {
    struct cases_phase *ph = self;
    if (plan->graph_order != GPU_GRAPH_NONE && cases_next(&ph->fail_rng) % 4 == 0)
        faults->graph_fails = true;
}

/* The reference ran eagerly: here with the cache off, on, thrashing, and failing. */
static enum status cases_graphs(struct prove *p, double seconds, struct status_note *note) {
    static const uint32_t max[] = {0, GPU_GRAPHS_MAX, 2, GPU_GRAPHS_MAX};
    for (uint32_t i = 0; i < 4; i++) {
        struct cases_phase *ph = cases_phase_new(PROVE_GRAPHS, 3, next_plain);
        if (ph == NULL)
            return status_say(note, STATUS_NO_MEMORY, "no memory for prove");
        struct lane_engine_config c = cases_config(p);
        ph->fail_rng = cases_next(&p->rng);
        c.graphs = max[i];
        if (i == 3) {
            c.before_step = graphs_before_step;
            c.before_step_self = ph;
        }
        enum status s = cases_run(p, ph, &c, seconds / 4, note);
        free(ph);
        TRY(s);
    }
    return STATUS_OK;
}

/* With tiers below the device: one that holds little more than a session, so that the others come
 * back from memory and disk; then a new engine, which finds what is on disk. */
static enum status cases_memory(struct prove *p, double seconds, struct status_note *note) {
    struct lane_engine_config c = cases_config(p);
    c.ram_cache = p->config.ram_cache;
    c.disk_cache = p->config.disk_cache;
    if (c.ram_cache == 0 && c.disk_cache == NULL)
        return cases_simple(p, PROVE_MEMORY, 1, next_memory, &c, seconds, note);
    uint32_t page_tokens = c.page_tokens != 0 ? c.page_tokens : CASES_PAGE_TOKENS;
    uint64_t pages = p->context / page_tokens + CASES_PAGES_MORE;
    c.lanes_max = 2;
    c.kv_bytes = pages * p->page_bytes;
    TRY(cases_simple(p, PROVE_MEMORY, 1, next_memory, &c, seconds / 2, note));
    return cases_simple(p, PROVE_MEMORY, 1, next_memory, &c, seconds / 2, note);
}

enum status prove_run_axis(struct prove *p, enum prove_axis axis, double seconds,
                           struct status_note *note) {
    struct lane_engine_config c = cases_config(p);
    switch (axis) {
    case PROVE_COMPANY:
        return cases_company(p, seconds, note);
    case PROVE_MEMORY:
        return cases_memory(p, seconds, note);
    case PROVE_DRAFTS:
        return cases_simple(p, axis, 1, next_drafts, &c, seconds, note);
    case PROVE_PIECES:
        return cases_pieces(p, seconds, note);
    case PROVE_THREADS:
        return cases_threads(p, seconds, note);
    case PROVE_TROUBLE:
        return cases_trouble(p, seconds, note);
    case PROVE_RANKS:
        return cases_ranks(p, seconds, note);
    case PROVE_GRAPHS:
        return cases_graphs(p, seconds, note);
    default:
        return status_say(note, STATUS_BAD_REQUEST, "there is no such axis");
    }
}

enum status prove_reference(struct prove *p, double seconds, struct status_note *note) {
    p->sessions = calloc(PROVE_SESSIONS_MAX, sizeof *p->sessions);
    if (p->sessions == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for prove");
    p->rng = p->seed;
    struct lane_engine_config c = cases_config(p);
    c.graphs = 0;
    c.graphs_asked = false;
    return cases_simple(p, PROVE_NONE, 1, next_reference, &c, seconds, note);
}

enum status prove_run_oracle(struct prove *p, double seconds, struct status_note *note) {
    struct lane_engine *e;
    struct lane_engine_config c = cases_config(p);
    c.lanes_max = 1;
    TRY(lane_engine_open(&c, &e, note));
    struct krn_oracle *o = NULL;
    enum status s = krn_oracle_open(lane_engine_net(e), &p->profile, p->context, &o, note);
    float *logits = malloc(p->vocab * sizeof(float));
    uint32_t *ids = malloc((p->context + 1) * sizeof(uint32_t));
    double begin = prove_now(), until = begin + seconds;
    uint64_t fed = 0;
    for (uint32_t i = 0; s == STATUS_OK && logits != NULL && ids != NULL && i < p->n_sessions &&
                         (i < 1 || prove_now() < until);
         i++) {
        const struct prove_session *q = &p->sessions[i];
        memcpy(ids, q->prompt, q->n_prompt * sizeof(uint32_t));
        krn_oracle_reset(o);
        bool finite = true;
        p->oracle.cases++;
        uint32_t n = q->n_prompt;
        fed += q->n_prompt + q->n_out;
        for (uint32_t k = 0; k < n && finite; k++)
            finite = krn_oracle_feed(o, ids[k], k + 1 == n ? logits : NULL);
        for (uint32_t k = 0; k < q->n_out; k++) {
            struct krn_drawn drawn;
            uint64_t hash = XXH3_64bits(logits, p->vocab * sizeof(float));
            krn_oracle_draw(logits, p->vocab, &q->sampling, ids, n, q->n_prompt, NULL, 0, NULL,
                            &drawn);
            p->oracle.rows++;
            if (!finite || drawn.token != q->out[k] || hash != q->hash[k]) {
                if (p->oracle.differ++ == 0) {
                    p->oracle.first_session = i;
                    p->oracle.first_row = k;
                }
                break;
            }
            ids[n++] = drawn.token;
            if (k + 1 < q->n_out)
                finite = krn_oracle_feed(o, drawn.token, logits);
        }
    }
    p->oracle_token_s = (prove_now() - begin) / (double)(fed + 1);
    free(logits);
    free(ids);
    if (o != NULL)
        krn_oracle_close(o);
    lane_engine_close(e);
    return s;
}

void prove_free(struct prove *p) {
    for (uint32_t i = 0; p->sessions != NULL && i < PROVE_SESSIONS_MAX; i++)
        free(p->sessions[i].prompt);
    free(p->sessions);
    p->sessions = NULL;
}
