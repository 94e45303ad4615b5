/* SPDX-License-Identifier: Apache-2.0
 * The memory actor between a planner and a client that want many things at once: in the simulation
 * with any order of delivery and an audit after every message, and on two threads.
 */
#include "fabric/protocol.h"
#include "sessions/memory.h"
#include "sessions/query.h"
#include "tests/sessions/lanes_model.h"

enum {
    KIND_TICK = TEST_KIND_FIRST,
    PER_SLOT = 6,
    PAGE_TOKENS = 8,
    PAGES = 20,
    PLACES = 24,
    JOBS_MAX = PAGES
};

/* A copy that the tier was told to make and has not finished. */
struct job {
    bool restores;
    uint32_t page, place;
};

/* What is under way for a slot, and the planner that drives all slots of the model. */
struct scene {
    struct model model;
    uint32_t tables[MODEL_SLOTS * PER_SLOT];
    bool admitting[MODEL_SLOTS], restoring[MODEL_SLOTS], extending[MODEL_SLOTS],
        sealing[MODEL_SLOTS], releasing[MODEL_SLOTS];
    act_id_t memory;
    uint32_t requests, releases, counts, forgets, forgotten, drains;
    bool told[PAGES + 1];        /* freed, and not given out again as far as is known */
    bool shares[MODEL_SLOTS];    /* some page of the slot may be in the trie */
    uint32_t ended[MODEL_SLOTS]; /* pages that nobody else can hold, of a slot that ends */
    uint32_t ended_page[MODEL_SLOTS][PER_SLOT];
    bool draining, with_tier;
    struct job job[JOBS_MAX];
    uint32_t n_jobs, parked, restored, lost, waits;
    bool used[PLACES];
    bool tiers[PAGES + 1]; /* the tier wrote, or will write, the page for a lane that waits */
    struct model_cell place[PLACES][PAGE_TOKENS];
    struct ses_counted last;
    /* Somebody lists, reads, pins and forgets sessions meanwhile. */
    struct ses_query query;
    bool asking;
    struct ses_row row;
    uint32_t answers[SES_QUERY_COUNT + 1], refusals[SES_QUERY_COUNT + 1];
};

static bool busy(const struct scene *s, uint32_t slot) {
    return s->admitting[slot] || s->extending[slot] || s->releasing[slot];
}

static void end_lane(struct act_ctx *ctx, struct scene *s, struct model_lane *lane, uint32_t keep) {
    lane->live = false;
    s->releasing[lane->slot] = true;
    s->ended[lane->slot] = keep == 0 && !s->shares[lane->slot] ? lane->n_pages : 0;
    memcpy(s->ended_page[lane->slot], lane->page, PER_SLOT * sizeof *lane->page);
    ACT_SEND(ctx, s->memory, ses, release, .ids = lane->ids, .slot = lane->slot,
             .n_rows = lane->n_rows, .keep = keep);
    model_remember(s->model.past, &s->model.n_past, lane->tenant, lane->ids, lane->n_ids);
}

static void begin_lane(struct act_ctx *ctx, struct scene *s, uint32_t slot) {
    struct model_lane *lane = &s->model.lane[slot];
    model_prompt(&s->model, lane, PER_SLOT * PAGE_TOKENS + 1);
    lane->slot = slot;
    s->admitting[slot] = true;
    ACT_SEND(ctx, s->memory, ses, admit, .ids = lane->ids, .tenant = lane->tenant, .slot = slot,
             .n_ids = lane->n_ids, .max_tokens = lane->max_tokens,
             .reuse = model_choose(&s->model, 16) > 0);
}

static void lane_goes_on(struct act_ctx *ctx, struct scene *s, struct model_lane *lane) {
    struct model *m = &s->model;
    uint32_t what = model_choose(m, 16);
    bool sealing = s->sealing[lane->slot];
    if (what == 0 && !sealing) {
        end_lane(ctx, s, lane, model_choose(m, 2));
    } else if (lane->copy_waits) {
        model_copy(m, lane);
        ACT_SEND(ctx, s->memory, ses, copied, .slot = lane->slot);
    } else if (lane->n_rows < lane->n_ids) {
        model_compute(m, lane);
    } else if (what < 3 && !sealing) {
        s->sealing[lane->slot] = s->shares[lane->slot] = true;
        ACT_SEND(ctx, s->memory, ses, seal, .ids = lane->ids, .slot = lane->slot,
                 .n_rows = lane->n_rows);
    } else if (lane->n_ids == lane->max_tokens) {
        if (!sealing)
            end_lane(ctx, s, lane, 1);
    } else if (lane->n_ids == lane->n_pages * PAGE_TOKENS) {
        s->extending[lane->slot] = true;
        ACT_SEND(ctx, s->memory, ses, extend, .slot = lane->slot, .n_pages = 1);
    } else {
        lane->ids[lane->n_ids++] = model_choose(m, m->alphabet);
    }
}

static void ask(struct act_ctx *ctx, struct scene *s) {
    s->asking = true;
    s->query.kind = (enum ses_query_kind)model_choose(&s->model, SES_QUERY_COUNT + 1);
    s->query.tenant = model_choose(&s->model, 2);
    s->query.from = 0;
    s->query.name = s->row.name;
    ACT_SEND(ctx, s->memory, ses, look, .query = &s->query);
}

static void on_looked(struct scene *s, const struct ses_looked *m) {
    const struct ses_query *q = m->query;
    EXPECT(s->asking && q == &s->query);
    s->asking = false;
    s->answers[q->kind] += q->status == STATUS_OK;
    s->refusals[q->kind] += q->status != STATUS_OK;
    if (q->kind == SES_QUERY_LIST && q->n > 0)
        s->row = q->row[model_choose(&s->model, q->n)];
    for (uint32_t i = 0; q->kind == SES_QUERY_LIST && i < q->n; i++) {
        const struct ses_row *r = &q->row[i];
        EXPECT(r->pages == (r->tokens + PAGE_TOKENS - 1) / PAGE_TOKENS);
        EXPECT(r->on_device + (r->in_ram > r->on_disk ? r->in_ram : r->on_disk) >= r->pages);
    }
}

static void drain(struct act_ctx *ctx, struct scene *s) {
    ACT_SEND(ctx, s->memory, ses, forget, .token = ++s->forgets);
    ACT_SEND(ctx, s->memory, ses, count, .token = ++s->counts);
}

static void tick(struct act_ctx *ctx, struct scene *s) {
    uint32_t slot = model_choose(&s->model, MODEL_SLOTS);
    struct model_lane *lane = &s->model.lane[slot];
    bool begins = s->model.admitted < s->requests;
    if (busy(s, slot))
        ;
    else if (lane->live)
        lane_goes_on(ctx, s, lane);
    else if (begins)
        begin_lane(ctx, s, slot);
    uint32_t chance = model_choose(&s->model, 64);
    if (chance == 0 && begins && s->last.token == s->counts)
        ACT_SEND(ctx, s->memory, ses, count, .token = ++s->counts);
    if (chance == 1 && begins && s->forgotten == s->forgets && model_choose(&s->model, 8) == 0)
        ACT_SEND(ctx, s->memory, ses, forget, .token = ++s->forgets);
    if (chance >= 2 && chance < 8 && begins && !s->asking)
        ask(ctx, s);
    bool live = begins || s->asking;
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        live = live || s->model.lane[i].live || busy(s, i);
    if (live) {
        act_send(ctx, act_self(ctx), KIND_TICK, NULL, 0);
    } else if (!s->draining) {
        s->draining = true;
        drain(ctx, s);
    }
}

static void on_admitted(struct scene *s, const struct ses_admitted *a) {
    EXPECT(s->admitting[a->slot]); /* I4: one answer */
    s->admitting[a->slot] = s->restoring[a->slot] = false;
    const uint32_t *table = &s->tables[a->slot * PER_SLOT];
    model_admitted(&s->model, &s->model.lane[a->slot], a, table);
    s->shares[a->slot] = a->matched > 0;
    for (uint32_t i = 0; i < a->n_pages; i++)
        s->tiers[table[i]] = s->told[table[i]] = false;
}

static void on_restoring(struct scene *s, const struct ses_restoring *r) {
    EXPECT(s->admitting[r->slot] && !s->restoring[r->slot] && r->n_pages > 0);
    s->restoring[r->slot] = true;
    s->waits++;
}

static void on_denied(struct scene *s, const struct ses_denied *d) {
    EXPECT(s->admitting[d->slot] && !s->restoring[d->slot]);
    EXPECT((d->status == STATUS_NO_PAGES) == (d->pages_needed > PER_SLOT));
    s->admitting[d->slot] = false;
    s->model.denied++;
}

static void on_extended(struct scene *s, const struct ses_extended *e) {
    EXPECT(s->extending[e->slot]);
    EXPECT_EQ(e->n_pages, 1);
    s->extending[e->slot] = false;
    struct model_lane *lane = &s->model.lane[e->slot];
    lane->page[lane->n_pages++] = e->page[0];
    s->told[e->page[0]] = false;
}

static void on_released(struct scene *s, const struct ses_released *r) {
    EXPECT(s->releasing[r->slot]);
    s->releasing[r->slot] = false;
    s->releases++;
    for (uint32_t i = 0; i < s->ended[r->slot]; i++) /* the news comes first */
        EXPECT(s->told[s->ended_page[r->slot][i]]);
}

static void on_freed(struct scene *s, const struct fab_page_freed *f) {
    EXPECT(f->n > 0 && f->n <= 8);
    for (uint32_t i = 0; i < f->n; i++) {
        s->told[f->page[i]] = true;
        if (!s->tiers[f->page[i]]) /* this news is older than what the tier was told */
            model_freed(&s->model, &f->page[i], 1);
    }
}

static void on_counted(struct act_ctx *ctx, struct scene *s, const struct ses_counted *c) {
    s->last = *c;
    if (!s->draining || c->token != s->counts)
        return;
    /* What is on its way to the tier can be forgotten only when it has come there. */
    bool empty = c->nodes == 0 && c->pages_free == PAGES;
    if (s->with_tier && !empty && ++s->drains < 1000)
        drain(ctx, s);
    else
        act_rt_stop(act_rt_of(ctx));
}

static void planner_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct scene *s = state;
    const void *body = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        act_send(ctx, act_self(ctx), KIND_TICK, NULL, 0);
        break;
    case KIND_TICK:
        tick(ctx, s);
        break;
    case ses_KIND_admitted:
        on_admitted(s, body);
        break;
    case ses_KIND_restoring:
        on_restoring(s, body);
        break;
    case ses_KIND_denied:
        on_denied(s, body);
        break;
    case ses_KIND_extended:
        on_extended(s, body);
        break;
    case ses_KIND_sealed:
        EXPECT(s->sealing[((const struct ses_sealed *)body)->slot]);
        s->sealing[((const struct ses_sealed *)body)->slot] = false;
        break;
    case ses_KIND_released:
        on_released(s, body);
        break;
    case ses_KIND_forgotten:
        s->forgotten++;
        break;
    case ses_KIND_counted:
        on_counted(ctx, s, body);
        break;
    case ses_KIND_looked:
        on_looked(s, body);
        break;
    case fab_KIND_page_freed:
        on_freed(s, body);
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        ck_abort_msg("message %u", msg->kind);
    }
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        model_check_lane(&s->model, &s->model.lane[i]);
}

/* ---- a tier: copies finish late, in any order, and some records turn out bad ---- */

static void begin_job(struct scene *s, bool restores, uint32_t page, uint32_t place) {
    EXPECT(s->n_jobs < JOBS_MAX && place < PLACES);
    for (uint32_t i = 0; i < s->n_jobs; i++)
        EXPECT(s->job[i].page != page);
    s->job[s->n_jobs++] = (struct job){.restores = restores, .page = page, .place = place};
}

static void tier_park(void *self, uint32_t page, uint32_t place) {
    struct scene *s = self;
    EXPECT(!s->used[place]);
    s->used[place] = true;
    begin_job(s, false, page, place);
}

static void tier_restore(void *self, uint32_t place, uint32_t page) {
    struct scene *s = self;
    EXPECT(s->used[place]);
    memset(s->model.cell[page], 0xff, sizeof s->model.cell[page]);
    s->tiers[page] = true;
    begin_job(s, true, page, place);
}

static void tier_forget(void *self, uint32_t place) {
    struct scene *s = self;
    EXPECT(s->used[place]);
    for (uint32_t i = 0; i < s->n_jobs; i++) /* never under a copy */
        EXPECT(s->job[i].place != place);
    s->used[place] = false;
    memset(s->place[place], 0xff, sizeof s->place[place]);
}

static uint32_t tier_where(void *self, uint32_t place) {
    const struct scene *s = self;
    EXPECT(s->used[place]);
    return SES_AT_RAM | SES_AT_DISK;
}

static void tier_mark(void *self, uint32_t place, uint64_t use, bool pinned) {
    const struct scene *s = self;
    EXPECT(s->used[place] && use > 0);
    (void)pinned;
}

static void finish_job(struct act_ctx *ctx, struct scene *s) {
    uint32_t at = model_choose(&s->model, s->n_jobs);
    struct job job = s->job[at];
    s->job[at] = s->job[--s->n_jobs];
    bool fine = model_choose(&s->model, 8) > 0;
    struct model_cell *page = s->model.cell[job.page], *place = s->place[job.place];
    size_t bytes = sizeof s->place[0];
    if (job.restores && fine)
        memcpy(page, place, bytes);
    else if (fine)
        memcpy(place, page, bytes);
    s->parked += !job.restores && fine;
    s->restored += job.restores && fine;
    s->lost += job.restores && !fine;
    uint32_t status = fine ? STATUS_OK : STATUS_BAD_FILE;
    if (job.restores)
        ACT_SEND(ctx, s->memory, ses, restored, .page = job.page, .status = status);
    else
        ACT_SEND(ctx, s->memory, ses, parked, .page = job.page, .status = status);
}

static void tier_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct scene *s = state;
    if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
        return;
    }
    if (s->n_jobs > 0 && model_choose(&s->model, 3) == 0)
        finish_job(ctx, s);
    act_send(ctx, act_self(ctx), KIND_TICK, NULL, 0);
}

static const struct act_kind tier_kind = {.name = "tier", .receive = tier_receive};

static const struct act_kind planner_kind = {.name = "planner", .receive = planner_receive};
static struct scene scene;
static const struct ses_tier tier = {.name = "test",
                                     .self = &scene,
                                     .park = tier_park,
                                     .restore = tier_restore,
                                     .where = tier_where,
                                     .mark = tier_mark,
                                     .forget = tier_forget};

static struct ses_memory *open_memory(uint64_t seed, uint32_t requests, bool with_tier) {
    memset(&scene, 0, sizeof scene);
    scene.with_tier = with_tier;
    model_open(&scene.model, seed, PAGES, PAGE_TOKENS, PER_SLOT);
    scene.requests = requests;
    struct ses_memory_config config = {.key = {.world = 1},
                                       .n_pages = PAGES,
                                       .page_tokens = PAGE_TOKENS,
                                       .page_bytes = 4096,
                                       .slots_max = MODEL_SLOTS,
                                       .pages_per_slot_max = PER_SLOT,
                                       .tables = scene.tables,
                                       .tier = with_tier ? &tier : NULL,
                                       .n_places = with_tier ? PLACES : 0,
                                       .early = with_tier && seed % 2 == 0,
                                       .free_low = 4 + seed % 8};
    struct ses_memory *memory;
    struct status_note note;
    if (ses_memory_open(&config, &memory, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    return memory;
}

static void check_drained(struct ses_memory *memory) {
    struct status_note note;
    if (!ses_memory_audit(memory, &note))
        ck_abort_msg("%s", note.text);
    EXPECT(scene.draining);
    EXPECT_EQ(scene.last.token, scene.counts);
    EXPECT_EQ(scene.last.pages_free, PAGES);
    EXPECT_EQ(scene.last.pages_held + scene.last.pages_cached + scene.last.nodes, 0);
    EXPECT_EQ(scene.releases, scene.model.admitted);
    EXPECT(scene.model.rows_saved > 0);
    for (uint32_t i = 0; i < PLACES; i++)
        EXPECT(!scene.used[i]);
    ses_memory_close(memory);
}

static uint64_t simulate(uint64_t seed, uint32_t requests, bool with_tier) {
    struct ses_memory *memory = open_memory(seed, requests, with_tier);
    struct act_rt_config rc = {.port = ACT_PORT_SIM,
                               .workers = 1,
                               .actors_max = 8,
                               .messages_max = 256,
                               .timers_max = 8,
                               .seed = seed,
                               .sim_priority = seed % 3 == 0};
    struct act_rt *rt;
    struct status_note note;
    if (act_rt_open(&rc, &rt, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    scene.memory = act_spawn(rt, &ses_memory_kind, memory, 0);
    ses_memory_wire(memory, act_spawn(rt, &planner_kind, &scene, 0));
    if (with_tier)
        act_spawn(rt, &tier_kind, &scene, 0);
    while (act_sim_step(rt, 1))
        if (!ses_memory_audit(memory, &note)) /* I1 at every message */
            ck_abort_msg("seed %llu: %s", (unsigned long long)seed, note.text);
    uint64_t trace = act_sim_trace(rt);
    struct act_rt_stats stats;
    act_rt_stats(rt, &stats);
    EXPECT_EQ(stats.allocations_after_start, 0);
    act_rt_close(rt);
    check_drained(memory);
    return trace;
}

START_TEST(test_simulated) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t trace = simulate(seed, 150, false);
        if (seed <= 4)
            EXPECT_EQ(trace, simulate(seed, 150, false));
    }
}
END_TEST

/* Pages leave for a tier and come back while lanes wait; some records are lost on the way. */
START_TEST(test_simulated_with_tier) {
    uint32_t parked = 0, restored = 0, lost = 0, waits = 0;
    uint32_t answers[SES_QUERY_COUNT + 1] = {0}, refused = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t trace = simulate(seed, 150, true);
        parked += scene.parked;
        restored += scene.restored;
        lost += scene.lost;
        waits += scene.waits;
        for (int k = 0; k <= SES_QUERY_COUNT; k++)
            answers[k] += scene.answers[k];
        refused += scene.refusals[SES_QUERY_FORGET] + scene.refusals[SES_QUERY_PIN];
        if (seed <= 2)
            EXPECT_EQ(trace, simulate(seed, 150, true));
    }
    EXPECT(parked > 300 && restored > 150 && lost > 15 && waits > 100);
    for (int k = 0; k <= SES_QUERY_COUNT; k++)
        EXPECT(answers[k] > 50);
    EXPECT(refused > 50);
}
END_TEST

START_TEST(test_two_thousand_requests) {
    simulate(99, 2000, false);
    EXPECT(scene.model.admitted >= 2000 && scene.model.denied > 0);
}
END_TEST

START_TEST(test_on_threads) {
    struct ses_memory *memory = open_memory(5, 1000, false);
    struct act_rt_config rc = {.port = ACT_PORT_THREADS,
                               .workers = 1,
                               .actors_max = 8,
                               .messages_max = 1024,
                               .timers_max = 8};
    struct act_rt *rt;
    struct status_note note;
    if (act_rt_open(&rc, &rt, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    scene.memory = act_spawn(rt, &ses_memory_kind, memory, ACT_OWN_THREAD);
    ses_memory_wire(memory, act_spawn(rt, &planner_kind, &scene, 0));
    act_rt_run(rt);
    act_rt_close(rt);
    check_drained(memory);
}
END_TEST

START_TEST(test_refuses_nonsense) {
    struct ses_memory *memory;
    struct status_note note = {.text = ""};
    struct ses_memory_config good = {
        .n_pages = 4, .page_tokens = 16, .slots_max = 2, .pages_per_slot_max = 4};
    struct ses_memory_config bad[] = {good, good, good, good, good};
    bad[0].n_pages = 0;
    bad[1].page_tokens = 48;
    bad[2].slots_max = 0;
    bad[3].pages_per_slot_max = 0;
    bad[4].page_tokens = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        note.text[0] = '\0';
        ck_assert_int_eq(ses_memory_open(&bad[i], &memory, &note), STATUS_BAD_REQUEST);
        ck_assert_ptr_null(memory);
        ck_assert_str_ne(note.text, "");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, test_simulated);
    tcase_add_test(tcase, test_simulated_with_tier);
    tcase_add_test(tcase, test_two_thousand_requests);
    tcase_add_test(tcase, test_on_threads);
    tcase_add_test(tcase, test_refuses_nonsense);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
