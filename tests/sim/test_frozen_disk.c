/* SPDX-License-Identifier: Apache-2.0
 * A disk that does not answer any more: the request that waits for it computes its session anew,
 * and the next ones do so at once; no pin is taken that it should keep; when it answers again its
 * sessions resume; a drain meanwhile ends in bounded time and says what was not saved. Every token
 * is right throughout.
 */
#include <string.h>
#include <unistd.h>

#include "gpu/device.h"
#include "lanes/engine.h"
#include "lanes/protocol.h"
#include "sessions/protocol.h"
#include "sessions/query.h"
#include "tests/harness.h"
#include "tests/sim/life.h"

enum { PAGE = 8, CONTEXT = 512, VOCAB = 200, LONG = 401, SHORT = 61, REQUESTS = 8 };
static const uint64_t SECOND = 1000000000;

/* What is asked, by name. In the first life the first three are stored. */
enum { ASK_FIRST = 1, ASK_SECOND, ASK_THIRD, ASK_NEW, ASK_BEGINNING /* of the third */ };

struct ask {
    struct lane_request r;
    uint32_t prompt[CONTEXT];
    uint64_t asked_ns, started_ns;
    uint32_t from_disk, reason, n_out;
    enum lane_end end;
};

static struct frozen {
    struct lane_engine *engine;
    bool second, drains;
    struct ask ask[REQUESTS];
    uint32_t over, unsaved, said;
    struct ses_query list, pin;
    enum status pinned[2]; /* while the disk is silent, and later */
    uint64_t drain_ns, drained_ns;
} w;

static void submit(struct act_ctx *ctx, uint32_t name, uint32_t n) {
    struct ask *a = &w.ask[name];
    uint32_t like = name == ASK_BEGINNING ? ASK_THIRD : name;
    for (uint32_t i = 0; i < n; i++)
        a->prompt[i] = 2 + (like * 31 + i * i) % (VOCAB - 2);
    a->r =
        (struct lane_request){.id = name,
                              .client = act_self(ctx),
                              .prompt = a->prompt,
                              .n_prompt = n,
                              .max_tokens = 3,
                              .flags = LANE_NO_TEXT | LANE_IGNORE_EOS,
                              .sampling = {.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f}};
    a->asked_ns = act_now_ns(ctx);
    ACT_SEND(ctx, lane_engine_planner(w.engine), lane, submit, .request = &a->r);
}

static void freeze(struct act_ctx *ctx, uint32_t of_a_million) {
    act_sim_fault_set(act_rt_of(ctx), "ses.disk_frozen", 1000000, of_a_million, of_a_million);
}

static void drain(struct act_ctx *ctx) {
    w.drain_ns = act_now_ns(ctx);
    for (int i = 0; i < 2; i++) /* whoever asks again does not begin it again */
        ACT_SEND(ctx, lane_engine_planner(w.engine), lane, drain, .deadline_ns = SECOND);
}

static void ask_pin(struct act_ctx *ctx) {
    w.pin.kind = SES_QUERY_PIN;
    ACT_SEND(ctx, lane_engine_memory(w.engine), ses, look, .query = &w.pin);
}

/* One that only the disk has is to be pinned. */
static void looked(struct act_ctx *ctx, const struct ses_query *q) {
    if (q->kind == SES_QUERY_PIN) {
        w.pinned[w.over > 4] = q->status;
        return;
    }
    ck_assert_int_eq(q->status, STATUS_OK);
    for (uint32_t i = 0; i < q->n; i++)
        if (q->row[i].on_disk == q->row[i].pages && q->row[i].on_device < q->row[i].pages)
            w.pin.name = q->row[i].name;
    ask_pin(ctx);
}

static void go_on(struct act_ctx *ctx, uint32_t ended) {
    w.over++;
    if (!w.second && ended < ASK_THIRD)
        submit(ctx, ended + 1, SHORT);
    else if (!w.second)
        drain(ctx);
    else if (ended == ASK_FIRST)
        submit(ctx, ASK_SECOND, SHORT);
    else if (ended == ASK_SECOND)
        submit(ctx, ASK_BEGINNING, 2 * PAGE + 1);
    else if (ended == ASK_BEGINNING)
        submit(ctx, ASK_NEW, SHORT);
    else if (ended == ASK_NEW && w.drains)
        drain(ctx);
    else if (ended == ASK_NEW) { /* all that it owes comes in time */
        freeze(ctx, 0);
        w.list.kind = SES_QUERY_LIST;
        ACT_SEND(ctx, lane_engine_memory(w.engine), ses, look, .query = &w.list);
        act_timer_arm(ctx, 400 * SECOND, 0);
    } else {
        ask_pin(ctx);
        drain(ctx);
    }
}

static void client_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    const void *b = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        if (w.second)
            freeze(ctx, 1000000);
        submit(ctx, ASK_FIRST, LONG);
        break;
    case ACT_KIND_timer:
        if (w.drained_ns != 0)
            act_rt_stop(act_rt_of(ctx));
        else
            submit(ctx, ASK_THIRD, SHORT);
        break;
    case lane_KIND_started: {
        const struct lane_started *m = b;
        struct ask *a = &w.ask[m->request];
        a->started_ns = act_now_ns(ctx);
        a->from_disk = m->from_disk;
        a->reason = m->reason;
        break;
    }
    case lane_KIND_token: {
        const struct lane_token *m = b;
        struct ask *a = &w.ask[m->request];
        uint32_t n = a->r.n_prompt + a->n_out++;
        ck_assert_uint_eq(m->id, gpu_fake_draw(a->prompt, n, a->r.sampling.seed, VOCAB));
        a->prompt[n] = m->id;
        break;
    }
    case lane_KIND_ended: {
        const struct lane_ended *m = b;
        w.ask[m->request].end = (enum lane_end)m->end;
        go_on(ctx, (uint32_t)m->request);
        break;
    }
    case ses_KIND_looked:
        looked(ctx, ((const struct ses_looked *)b)->query);
        break;
    case lane_KIND_drained:
        w.unsaved = ((const struct lane_drained *)b)->unsaved;
        w.drained_ns = act_now_ns(ctx);
        act_timer_arm(ctx, 40 * SECOND, 0); /* nothing is said of it any more */
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
}

static const struct act_kind client_kind = {.name = "client", .receive = client_receive};

static void said(void *self, const char *sentence) {
    (void)self;
    if (strstr(sentence, "has not answered for") != NULL)
        w.said += 1;
    if (strstr(sentence, "answers again") != NULL)
        w.said += 16;
    if (strstr(sentence, "not all sessions were saved") != NULL)
        w.said += 256;
}

static void life(uint64_t seed, const char *folder, bool second, bool drains) {
    memset(&w, 0, sizeof w);
    w.second = second;
    w.drains = drains;
    struct act_rt *rt;
    struct status_note note;
    if (life_runtime(seed, 8192, &rt, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    struct lane_engine_config c = {.fake = true,
                                   .fake_vocab = VOCAB,
                                   .fake_context = CONTEXT,
                                   .fake_step_ns = 20000,
                                   .rt = rt,
                                   .seed = 1,
                                   .world = seed % 3 == 0 ? 2 : 1,
                                   .kv_bytes = (uint64_t)PAGE * 80,
                                   .page_tokens = PAGE,
                                   .ram_cache = (uint64_t)PAGE * 300,
                                   .disk_cache = folder,
                                   .disk_budget = 32u << 20,
                                   .lanes_max = 8,
                                   .queue_max = 8,
                                   .say = said,
                                   .ahead = seed % 3 == 1};
    if (lane_engine_open(&c, &w.engine, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    act_spawn(rt, &client_kind, NULL, 0);
    act_rt_run(rt);
    if (!lane_engine_audit(w.engine, &note))
        ck_abort_msg("%s", note.text);
    act_rt_close(rt);
    lane_engine_close(w.engine);
}

static void check(bool drains) {
    char folder[64], command[96];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-frozen-XXXXXX"
                                                     : "/tmp/rh-frozen-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
        life(seed, folder, false, false);
        ck_assert_uint_eq(w.over, 3);
        ck_assert_uint_eq(w.unsaved + w.said, 0);
        life(seed, folder, true, drains);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        ck_assert_int_eq(system(command), 0);
        ck_assert_uint_eq(w.over, drains ? 4 : 5);
        for (uint32_t i = ASK_FIRST; i <= ASK_NEW; i++)
            ck_assert_uint_eq(w.ask[i].end, drains && i == ASK_THIRD ? 0 : LANE_END_LENGTH);
        const struct ask *first = &w.ask[ASK_FIRST], *next = &w.ask[ASK_SECOND];
        ck_assert_uint_eq(first->reason, SES_MISS_SILENT);
        ck_assert_uint_ge(first->started_ns, first->asked_ns + 30 * SECOND);
        ck_assert_uint_le(first->started_ns, first->asked_ns + 45 * SECOND);
        ck_assert_uint_eq(next->reason, SES_MISS_SILENT); /* nobody waits a second time */
        ck_assert_uint_lt(next->started_ns, next->asked_ns + SECOND);
        ck_assert_uint_eq(w.ask[ASK_BEGINNING].reason, SES_MISS_SILENT);
        ck_assert_uint_eq(w.ask[ASK_NEW].reason, SES_MISS_NEW);
        ck_assert_uint_eq(w.said & ~16u, drains ? 257 : 1);
        ck_assert_uint_le(w.drained_ns, w.drain_ns + 60 * SECOND);
        if (drains) {
            ck_assert_uint_gt(w.unsaved, 0);
            continue;
        }
        ck_assert_uint_eq(w.said, 17);
        ck_assert_int_eq(w.pinned[0], STATUS_TIMEOUT); /* it could not be kept */
        ck_assert_int_eq(w.pinned[1], STATUS_OK);
        /* What could not be had was not forgotten, nor what goes on from it. */
        ck_assert_uint_eq(w.ask[ASK_THIRD].from_disk, SHORT - 1 - 2 * PAGE);
        ck_assert_uint_eq(w.unsaved, 0);
    }
}

START_TEST(sessions_are_computed_anew_while_a_disk_hangs) {
    check(false);
}
END_TEST

START_TEST(a_drain_ends_while_a_disk_hangs) {
    check(true);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim/frozen_disk");
    TCase *tc = tcase_create("frozen_disk");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, sessions_are_computed_anew_while_a_disk_hangs);
    tcase_add_test(tc, a_drain_ends_while_a_disk_hangs);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
