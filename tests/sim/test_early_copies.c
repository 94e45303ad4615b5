/* SPDX-License-Identifier: Apache-2.0
 * Pages are copied early at nobody's cost: while a request computes, copies come one in a while;
 * when it has ended they are all made; and a chat that comes back the moment its answer ended does
 * not wait for those that are under way. Parts of sessions' files are read at nobody's cost either.
 */
#include <string.h>
#include <unistd.h>

#include "gpu/device.h"
#include "lanes/engine.h"
#include "lanes/protocol.h"
#include "sessions/query.h"
#include "sessions/tiers.h"
#include "tests/harness.h"
#include "tests/sim/life.h"

enum { PAGE = 8, CONTEXT = 512, VOCAB = 200, PROMPT = 240, TOKENS = 160 };
enum { PAGES = (PROMPT + TOKENS - 1) / PAGE, IDLE_NS = 20000000 };
static const uint64_t STEP_NS = 20000, COPY_NS = 50000, GAP_NS = 8 * 50000, SLICE_NS = 200000;
static const uint64_t CARRY_GAP_NS = 10 * 50000; /* the engine's, by COPY_NS */
enum { IDLE_PARTS = 20 };

static struct early {
    struct lane_engine *engine;
    struct lane_request r;
    struct ses_query query;
    uint32_t prompt[CONTEXT], n, n_turns, n_counts;
    uint64_t asked_ns, began_ns, first_ns[2], took_ns;
    uint64_t copied[2]; /* when the first answer ended, and after a rest */
    uint32_t resumed;
    /* Sessions are read all the time. */
    bool carries;
    uint32_t n_parts[2];             /* while the first request computes; after a rest */
    uint64_t rest_ns, parts_took_ns; /* when that began; how long IDLE_PARTS took then */
} e;

static void fill(uint32_t word) {
    for (e.n = 0; e.n < PROMPT; e.n++)
        e.prompt[e.n] = 2 + (e.n * e.n * word) % (VOCAB - 2);
}

static void submit(struct act_ctx *ctx, uint32_t n_new) {
    e.r = (struct lane_request){.id = 1 + e.n_turns,
                                .client = act_self(ctx),
                                .prompt = e.prompt,
                                .n_prompt = e.n,
                                .max_tokens = n_new,
                                .flags = LANE_NO_TEXT | LANE_IGNORE_EOS,
                                .sampling = {.top_p = 1.0f, .repetition = 1.0f}};
    e.asked_ns = act_now_ns(ctx);
    e.first_ns[e.n_turns] = 0;
    ACT_SEND(ctx, lane_engine_planner(e.engine), lane, submit, .request = &e.r);
}

static void count(struct act_ctx *ctx) {
    e.query = (struct ses_query){.kind = SES_QUERY_COUNT};
    ACT_SEND(ctx, lane_engine_memory(e.engine), ses, look, .query = &e.query);
}

static void list(struct act_ctx *ctx) {
    e.query = (struct ses_query){.kind = SES_QUERY_LIST};
    ACT_SEND(ctx, lane_engine_memory(e.engine), ses, look, .query = &e.query);
}

static void read_part(struct act_ctx *ctx) {
    e.query.kind = SES_QUERY_EXPORT;
    e.query.from = 0;
    ACT_SEND(ctx, lane_engine_memory(e.engine), ses, look, .query = &e.query);
}

/* The session that was named is read from its beginning, again and again. */
static void part_came(struct act_ctx *ctx) {
    if (e.query.kind == SES_QUERY_LIST && e.query.n == 0) { /* it was not given back yet */
        list(ctx);
        return;
    }
    if (e.query.kind == SES_QUERY_LIST) {
        e.query.name = e.query.row[0].name;
        fill(11); /* another one */
        submit(ctx, TOKENS);
    } else {
        ck_assert_int_eq((int)e.query.status, STATUS_OK);
        ck_assert_uint_gt(e.query.n, 0);
        e.n_parts[e.rest_ns != 0]++;
    }
    if (e.n_turns == 2 && e.rest_ns == 0)
        return; /* the timer goes on */
    if (e.n_parts[1] < IDLE_PARTS) {
        read_part(ctx);
        return;
    }
    e.parts_took_ns = act_now_ns(ctx) - e.rest_ns;
    ACT_SEND(ctx, lane_engine_planner(e.engine), lane, drain, .deadline_ns = 1000000000);
}

static void carry_ended(struct act_ctx *ctx) {
    e.n_turns++;
    if (e.n_turns == 1) { /* there is something to read now */
        list(ctx);
        return;
    }
    e.took_ns = act_now_ns(ctx) - e.asked_ns;
    act_timer_arm(ctx, IDLE_NS, 0);
}

static void ended(struct act_ctx *ctx) {
    if (e.carries) {
        carry_ended(ctx);
        return;
    }
    if (e.n_turns++ == 0) {
        e.took_ns = act_now_ns(ctx) - e.asked_ns;
        count(ctx);
        submit(ctx, 2);
    } else {
        act_timer_arm(ctx, IDLE_NS, 0);
    }
}

static void client_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    const void *b = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        fill(7);
        submit(ctx, TOKENS);
        break;
    case ACT_KIND_timer:
        if (!e.carries) {
            count(ctx);
            break;
        }
        e.rest_ns = act_now_ns(ctx);
        read_part(ctx);
        break;
    case lane_KIND_started:
        e.resumed = ((const struct lane_started *)b)->n_resumed;
        break;
    case lane_KIND_token: {
        uint32_t id = ((const struct lane_token *)b)->id;
        ck_assert_uint_eq(id, gpu_fake_draw(e.prompt, e.n, 0, VOCAB));
        e.prompt[e.n++] = id;
        if (e.first_ns[e.n_turns] == 0)
            e.first_ns[e.n_turns] = act_now_ns(ctx) - e.asked_ns;
        break;
    }
    case lane_KIND_ended:
        ended(ctx);
        break;
    case ses_KIND_looked:
        if (e.carries) {
            part_came(ctx);
            break;
        }
        e.copied[e.n_counts++] = e.query.counts.tiers.moved_out;
        if (e.n_counts == 2)
            ACT_SEND(ctx, lane_engine_planner(e.engine), lane, drain, .deadline_ns = 1000000000);
        break;
    case lane_KIND_drained:
        act_rt_stop(act_rt_of(ctx));
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
}

static const struct act_kind client_kind = {.name = "client", .receive = client_receive};

static void life(uint64_t seed, const char *folder, uint64_t copy_ns, bool carries) {
    memset(&e, 0, sizeof e);
    e.carries = carries;
    struct act_rt *rt;
    struct status_note note;
    if (life_runtime(seed, 8192, &rt, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    struct lane_engine_config c = {.fake = true,
                                   .fake_vocab = VOCAB,
                                   .fake_context = CONTEXT,
                                   .fake_step_ns = STEP_NS,
                                   .fake_copy_ns = copy_ns,
                                   .rt = rt,
                                   .seed = 1,
                                   .world = 1,
                                   .kv_bytes = (uint64_t)PAGE * 200,
                                   .page_tokens = PAGE,
                                   .ram_cache = (uint64_t)PAGE * 300,
                                   .disk_cache = folder,
                                   .disk_budget = 32u << 20,
                                   .lanes_max = 8,
                                   .queue_max = 8,
                                   .ahead = seed % 3 == 0};
    if (lane_engine_open(&c, &e.engine, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    act_spawn(rt, &client_kind, NULL, 0);
    act_rt_run(rt);
    if (!lane_engine_audit(e.engine, &note))
        ck_abort_msg("%s", note.text);
    act_rt_close(rt);
    lane_engine_close(e.engine);
}

static void life_in_folder(uint64_t seed, uint64_t copy_ns, bool carries) {
    char folder[64], command[96];
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-early-XXXXXX" : "/tmp/rh-early-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    life(seed, folder, copy_ns, carries);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_uint_eq(e.n_turns, 2);
}

START_TEST(copies_wait_until_nobody_computes) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        life_in_folder(seed, seed % 4 == 0 ? 0 : COPY_NS, false);
        /* It may ask before the last page of the answer was given back. */
        ck_assert_uint_ge(e.resumed, PROMPT + TOKENS - PAGE);
        if (seed % 4 == 0) { /* copies that cost nothing are made as pages fill */
            ck_assert_uint_ge(e.copied[0], PAGES - 9);
        } else {
            ck_assert_uint_ge(e.copied[0], 1);
            /* Between the two requests nobody computes, and some may begin. */
            ck_assert_uint_le(e.copied[0], e.took_ns / GAP_NS + 2 + SES_TIERS_PARKS_MAX);
            ck_assert_uint_lt(e.copied[0], PAGES / 2);
        }
        ck_assert_uint_ge(e.copied[1], PAGES);
        /* A page is copied on write, the row computed; a step ahead may be under way. */
        ck_assert_uint_lt(e.first_ns[1], 3 * STEP_NS + SLICE_NS);
    }
}
END_TEST

START_TEST(files_of_sessions_wait_too) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        life_in_folder(seed, seed % 4 == 0 ? 0 : COPY_NS, true);
        ck_assert_uint_ge(e.n_parts[0], 2);
        /* A few come before it is let in, or behind its end. */
        uint64_t most = e.took_ns / CARRY_GAP_NS + 10;
        if (seed % 4 == 0)
            ck_assert_uint_gt(e.n_parts[0], 10 * most);
        else
            ck_assert_uint_le(e.n_parts[0], most);
        ck_assert_uint_lt(e.parts_took_ns, 2 * CARRY_GAP_NS);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim/early_copies");
    TCase *tc = tcase_create("early_copies");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, copies_wait_until_nobody_computes);
    tcase_add_test(tc, files_of_sessions_wait_too);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
