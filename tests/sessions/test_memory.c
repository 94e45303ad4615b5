/* SPDX-License-Identifier: Apache-2.0
 * The memory actor between a planner and a client that want many things at once: in the simulation
 * with any order of delivery and an audit after every message, and on two threads.
 */
#include "fabric/protocol.h"
#include "sessions/memory.h"
#include "tests/sessions/lanes_model.h"

enum { KIND_TICK = TEST_KIND_FIRST, PER_SLOT = 6, PAGE_TOKENS = 8, PAGES = 20 };

/* What is under way for a slot, and the planner that drives all slots of the model. */
struct scene {
    struct model model;
    uint32_t tables[MODEL_SLOTS * PER_SLOT];
    bool admitting[MODEL_SLOTS], extending[MODEL_SLOTS], sealing[MODEL_SLOTS],
        releasing[MODEL_SLOTS];
    act_id_t memory;
    uint32_t requests, releases, counts, forgets, forgotten;
    bool draining;
    struct ses_counted last;
};

static bool busy(const struct scene *s, uint32_t slot) {
    return s->admitting[slot] || s->extending[slot] || s->releasing[slot];
}

static void end_lane(struct act_ctx *ctx, struct scene *s, struct model_lane *lane, uint32_t keep) {
    lane->live = false;
    s->releasing[lane->slot] = true;
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
        s->sealing[lane->slot] = true;
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
    bool live = begins;
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        live = live || s->model.lane[i].live || busy(s, i);
    if (live) {
        act_send(ctx, act_self(ctx), KIND_TICK, NULL, 0);
    } else if (!s->draining) {
        s->draining = true;
        ACT_SEND(ctx, s->memory, ses, forget, .token = ++s->forgets);
        ACT_SEND(ctx, s->memory, ses, count, .token = ++s->counts);
    }
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
    case ses_KIND_admitted: {
        const struct ses_admitted *a = body;
        EXPECT(s->admitting[a->slot]); /* I4: one answer */
        s->admitting[a->slot] = false;
        model_admitted(&s->model, &s->model.lane[a->slot], a, &s->tables[a->slot * PER_SLOT]);
        break;
    }
    case ses_KIND_denied: {
        const struct ses_denied *d = body;
        EXPECT(s->admitting[d->slot]);
        EXPECT((d->status == STATUS_NO_PAGES) == (d->pages_needed > PER_SLOT));
        s->admitting[d->slot] = false;
        s->model.denied++;
        break;
    }
    case ses_KIND_extended: {
        const struct ses_extended *e = body;
        EXPECT(s->extending[e->slot]);
        EXPECT_EQ(e->n_pages, 1);
        s->extending[e->slot] = false;
        struct model_lane *lane = &s->model.lane[e->slot];
        lane->page[lane->n_pages++] = e->page[0];
        break;
    }
    case ses_KIND_sealed:
        EXPECT(s->sealing[((const struct ses_sealed *)body)->slot]);
        s->sealing[((const struct ses_sealed *)body)->slot] = false;
        break;
    case ses_KIND_released:
        EXPECT(s->releasing[((const struct ses_released *)body)->slot]);
        s->releasing[((const struct ses_released *)body)->slot] = false;
        s->releases++;
        break;
    case ses_KIND_forgotten:
        s->forgotten++;
        break;
    case ses_KIND_counted:
        s->last = *(const struct ses_counted *)body;
        if (s->draining && s->last.token == s->counts)
            act_rt_stop(act_rt_of(ctx));
        break;
    case fab_KIND_page_freed: {
        const struct fab_page_freed *f = body;
        EXPECT(f->n > 0 && f->n <= 8);
        model_freed(&s->model, f->page, f->n);
        break;
    }
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        ck_abort_msg("message %u", msg->kind);
    }
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        model_check_lane(&s->model, &s->model.lane[i]);
}

static const struct act_kind planner_kind = {.name = "planner", .receive = planner_receive};
static struct scene scene;

static struct ses_memory *open_memory(uint64_t seed, uint32_t requests) {
    memset(&scene, 0, sizeof scene);
    model_open(&scene.model, seed, PAGES, PAGE_TOKENS, PER_SLOT);
    scene.requests = requests;
    struct ses_memory_config config = {.key = {.world = 1},
                                       .n_pages = PAGES,
                                       .page_tokens = PAGE_TOKENS,
                                       .page_bytes = 4096,
                                       .slots_max = MODEL_SLOTS,
                                       .pages_per_slot_max = PER_SLOT,
                                       .tables = scene.tables};
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
    ses_memory_close(memory);
}

static uint64_t simulate(uint64_t seed, uint32_t requests) {
    struct ses_memory *memory = open_memory(seed, requests);
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
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t trace = simulate(seed, 150);
        if (seed <= 4)
            EXPECT_EQ(trace, simulate(seed, 150));
    }
}
END_TEST

START_TEST(test_two_thousand_requests) {
    simulate(99, 2000);
    EXPECT(scene.model.admitted >= 2000 && scene.model.denied > 0);
}
END_TEST

START_TEST(test_on_threads) {
    struct ses_memory *memory = open_memory(5, 1000);
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
    tcase_add_test(tcase, test_two_thousand_requests);
    tcase_add_test(tcase, test_on_threads);
    tcase_add_test(tcase, test_refuses_nonsense);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
