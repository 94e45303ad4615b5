/* SPDX-License-Identifier: Apache-2.0
 * A disk that takes its time: while one long session comes back from it, requests that need no disk
 * are let in, resume from host memory and answer; a session that is cancelled meanwhile ends at
 * once, and no page is lost.
 */
#include <string.h>
#include <unistd.h>

#include "gpu/device.h"
#include "lanes/engine.h"
#include "lanes/protocol.h"
#include "tests/harness.h"
#include "tests/sim/life.h"

enum { PAGE = 8, CONTEXT = 512, VOCAB = 200, LONG = 401, SHORT = 61, FILLER = 500, REQUESTS = 8 };
static const uint64_t DISK_NS = 5000000, ASKED_NS = 3000000; /* the first: the store's own */

/* What is asked, by name; AGAIN is the prompt of SHORT once more. */
enum { ASK_LONG = 1, ASK_SHORT, ASK_FILLER, ASK_FILLER_2, ASK_FRESH, ASK_AGAIN };

struct ask {
    struct lane_request r;
    uint32_t prompt[CONTEXT];
    uint64_t lane, asked_ns, started_ns, first_ns, ended_ns;
    uint32_t resumed, from_ram, from_disk, n_out;
    enum lane_end end;
};

static struct slow {
    struct lane_engine *engine;
    bool second, cancels;
    struct ask ask[REQUESTS];
    uint32_t over;
} w;

static void submit(struct act_ctx *ctx, uint32_t name, uint32_t n, uint32_t word) {
    struct ask *a = &w.ask[name];
    for (uint32_t i = 0; i < n; i++)
        a->prompt[i] = 2 + (word * 31 + i * i) % (VOCAB - 2);
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

static void go_on(struct act_ctx *ctx, uint32_t ended) {
    w.over++;
    if (!w.second && ended == ASK_LONG) {
        submit(ctx, ASK_SHORT, SHORT, 2);
    } else if (w.second && ended == ASK_SHORT) { /* it comes to host memory, and off the device */
        submit(ctx, ASK_FILLER, FILLER, 3);
    } else if (w.second && ended == ASK_FILLER) {
        submit(ctx, ASK_FILLER_2, FILLER, 4);
    } else if (w.second && ended == ASK_FILLER_2) {
        act_sim_fault_set(act_rt_of(ctx), "ses.disk_slow", 1000000, 1000000, 1000000);
        submit(ctx, ASK_LONG, LONG, 1);
        act_timer_arm(ctx, ASKED_NS, 0);
    } else if (w.over == (w.second ? 6 : 2)) {
        ACT_SEND(ctx, lane_engine_planner(w.engine), lane, drain, .deadline_ns = 1000000000);
    }
}

static void check_token(const struct lane_token *m) {
    struct ask *a = &w.ask[m->request];
    uint32_t n = a->r.n_prompt + a->n_out++;
    ck_assert_uint_eq(m->id, gpu_fake_draw(a->prompt, n, a->r.sampling.seed, VOCAB));
    a->prompt[n] = m->id;
}

static void client_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    const void *b = msg->body;
    switch (msg->kind) {
    case ACT_KIND_start:
        submit(ctx, w.second ? ASK_SHORT : ASK_LONG, w.second ? SHORT : LONG, w.second ? 2 : 1);
        break;
    case ACT_KIND_timer:
        submit(ctx, ASK_FRESH, SHORT, 5);
        submit(ctx, ASK_AGAIN, SHORT, 2);
        if (w.cancels)
            ACT_SEND(ctx, lane_engine_planner(w.engine), lane, cancel,
                     .lane = w.ask[ASK_LONG].lane);
        break;
    case lane_KIND_accepted:
        w.ask[((const struct lane_accepted *)b)->request].lane =
            ((const struct lane_accepted *)b)->lane;
        break;
    case lane_KIND_started: {
        const struct lane_started *m = b;
        struct ask *a = &w.ask[m->request];
        a->started_ns = act_now_ns(ctx);
        a->resumed = m->n_resumed;
        a->from_ram = m->from_ram;
        a->from_disk = m->from_disk;
        break;
    }
    case lane_KIND_token: {
        const struct lane_token *m = b;
        if (w.ask[m->request].n_out == 0)
            w.ask[m->request].first_ns = act_now_ns(ctx);
        check_token(m);
        break;
    }
    case lane_KIND_ended: {
        const struct lane_ended *m = b;
        w.ask[m->request].end = (enum lane_end)m->end;
        w.ask[m->request].ended_ns = act_now_ns(ctx);
        go_on(ctx, (uint32_t)m->request);
        break;
    }
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

static void life(uint64_t seed, const char *folder, bool second, bool cancels) {
    memset(&w, 0, sizeof w);
    w.second = second;
    w.cancels = cancels;
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
                                   .world = 1,
                                   .kv_bytes = (uint64_t)PAGE * 80,
                                   .page_tokens = PAGE,
                                   .ram_cache = (uint64_t)PAGE * 300,
                                   .disk_cache = folder,
                                   .disk_budget = 32u << 20,
                                   .lanes_max = 8,
                                   .queue_max = 8,
                                   .ahead = seed % 3 == 0};
    if (lane_engine_open(&c, &w.engine, &note) != STATUS_OK)
        ck_abort_msg("%s", note.text);
    act_spawn(rt, &client_kind, NULL, 0);
    act_rt_run(rt);
    if (!lane_engine_audit(w.engine, &note))
        ck_abort_msg("%s", note.text);
    act_rt_close(rt);
    lane_engine_close(w.engine);
}

static void check(bool cancels) {
    char folder[64], command[96];
    for (uint64_t seed = 1; seed <= 12; seed++) {
        strcpy(folder,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-slow-XXXXXX" : "/tmp/rh-slow-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
        life(seed, folder, false, false);
        ck_assert_uint_eq(w.over, 2);
        life(seed, folder, true, cancels);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        ck_assert_int_eq(system(command), 0);
        ck_assert_uint_eq(w.over, 6);
        const struct ask *slow = &w.ask[ASK_LONG], *fresh = &w.ask[ASK_FRESH],
                         *again = &w.ask[ASK_AGAIN];
        ck_assert_uint_eq(fresh->end, LANE_END_LENGTH);
        ck_assert_uint_eq(again->end, LANE_END_LENGTH);
        ck_assert_uint_eq(again->from_ram, SHORT - 1); /* it was off the device */
        if (cancels) {
            ck_assert_uint_eq(slow->end, LANE_END_CANCELLED);
            ck_assert_uint_eq(slow->started_ns, 0); /* it did not come back first */
            continue;
        }
        ck_assert_uint_eq(slow->end, LANE_END_LENGTH);
        ck_assert_uint_eq(slow->from_disk, LONG - 1);
        ck_assert_uint_gt(slow->started_ns, fresh->ended_ns);
        ck_assert_uint_gt(slow->started_ns, again->ended_ns);
        ck_assert_uint_gt(fresh->first_ns, 0);
        /* The disk gives nothing at all for DISK_NS: they were through by then. */
        ck_assert_uint_lt(fresh->ended_ns, slow->asked_ns + DISK_NS);
        ck_assert_uint_lt(again->ended_ns, slow->asked_ns + DISK_NS);
    }
}

START_TEST(others_are_let_in_while_a_disk_is_slow) {
    check(false);
}
END_TEST

START_TEST(a_session_that_comes_back_can_be_cancelled) {
    check(true);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim/slow_disk");
    TCase *tc = tcase_create("slow_disk");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, others_are_let_in_while_a_disk_is_slow);
    tcase_add_test(tc, a_session_that_comes_back_can_be_cancelled);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
