/* SPDX-License-Identifier: Apache-2.0
 * The orderly stop: who ends at once, who ignores it, who needs time, who never ends; from inside,
 * from a signal, before the run, and close without any run.
 */
#include <signal.h>
#include <string.h>

#include "tests/actors/rig.h"

enum manner { EXITS, IGNORES, NEEDS_TIMER, EXPECTS, NEVER, HAS_HEIR };

struct guest {
    enum manner manner;
    uint32_t stops, timers, answers, ended;
    act_id_t helper;
    struct guest *heir;
};

static void guest_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg);
static void guest_ended(struct act_rt *rt, void *state) {
    (void)rt;
    ((struct guest *)state)->ended++;
}
static const struct act_kind guest_kind = {
    .name = "guest", .receive = guest_receive, .ended = guest_ended};

static void guest_stop(struct act_ctx *ctx, struct guest *me) {
    me->stops++;
    switch (me->manner) {
    case EXITS:
        act_exit(ctx);
        break;
    case IGNORES:
        break;
    case NEEDS_TIMER:
    case NEVER:
        act_timer_arm(ctx, 2000000, 0);
        break;
    case EXPECTS:
        act_expect(ctx, 1);
        act_send(ctx, me->helper, K_GO, NULL, 0);
        break;
    case HAS_HEIR:
        act_spawn_here(ctx, &guest_kind, me->heir);
        act_exit(ctx);
        break;
    }
}

static void guest_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct guest *me = state;
    if (msg->kind == ACT_KIND_stop)
        guest_stop(ctx, me);
    if (msg->kind == ACT_KIND_timer) {
        me->timers++;
        if (me->manner == NEVER)
            act_timer_arm(ctx, 2000000, 0);
        else
            act_exit(ctx);
    }
    if (msg->kind == K_DONE) {
        me->answers++;
        act_expect(ctx, -1);
        act_exit(ctx);
    }
}

struct helper {
    bool asked; /* somebody will ask, so it stays until it has answered */
    act_id_t asker;
};

/* Answers after a while, by way of a timer armed after the stop. */
static void helper_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct helper *me = state;
    if (msg->kind == K_GO) {
        me->asker = msg->from;
        act_timer_arm(ctx, 3000000, 0);
    }
    if (msg->kind == ACT_KIND_timer)
        act_send(ctx, me->asker, K_DONE, NULL, 0);
    if (msg->kind == ACT_KIND_timer || (msg->kind == ACT_KIND_stop && !me->asked))
        act_exit(ctx);
}
static const struct act_kind helper_kind = {.name = "helper", .receive = helper_receive};

static void stopper_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    if (msg->kind == ACT_KIND_start)
        act_timer_arm(ctx, 1000000, 0);
    if (msg->kind == ACT_KIND_timer)
        act_rt_stop(act_rt_of(ctx));
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
}
static const struct act_kind stopper_kind = {.name = "stopper", .receive = stopper_receive};

/* Runs two guests of one manner, on different threads, until the stop is over. */
static void party(enum act_port port, enum manner manner, struct guest *guests, uint64_t *took_ns) {
    struct act_rt_config config = rig_config(port, 2, 0);
    if (manner == NEVER)
        config.stop_grace_ns = 0; /* the usual second */
    struct act_rt *rt = rig_open_with(&config);
    struct helper help = {.asked = manner == EXPECTS};
    memset(guests, 0, 3 * sizeof *guests);
    act_id_t helper = act_spawn(rt, &helper_kind, &help, port == ACT_PORT_SIM ? 0 : ACT_OWN_THREAD);
    for (int i = 0; i < 2; i++) {
        guests[i].manner = manner;
        guests[i].helper = helper;
        guests[i].heir = &guests[2];
        if (i == 0 || manner == IGNORES || manner == EXITS)
            act_spawn(rt, &guest_kind, &guests[i], port == ACT_PORT_SIM ? 0 : i);
    }
    act_spawn(rt, &stopper_kind, NULL, 0);
    uint64_t start = act_rt_now_ns(rt);
    act_rt_run(rt);
    *took_ns = act_rt_now_ns(rt) - start;
    struct act_rt_stats stats;
    act_rt_stats(rt, &stats);
    if (manner == EXITS || manner == IGNORES)
        ck_assert_uint_eq(stats.messages_in_flight, 0);
    act_rt_close(rt);
}

START_TEST(everybody_is_asked) {
    struct guest g[3];
    uint64_t took;
    for (int p = 0; p < 2; p++) {
        enum act_port port = (enum act_port)p;
        party(port, EXITS, g, &took);
        ck_assert_uint_eq(g[0].stops + g[1].stops, 2);
        ck_assert_uint_eq(g[0].ended + g[1].ended, 2);
        party(port, IGNORES, g, &took);
        ck_assert_uint_eq(g[0].stops + g[1].stops, 2);
        ck_assert_uint_eq(g[0].ended + g[1].ended, 2); /* by the close */
        if (port == ACT_PORT_SIM)                      /* nobody waits for who ignores it */
            ck_assert_uint_lt(took, 2000000);
        party(port, NEEDS_TIMER, g, &took);
        ck_assert_uint_eq(g[0].timers, 1);
        ck_assert_uint_eq(g[0].ended, 1);
        party(port, EXPECTS, g, &took);
        ck_assert_uint_eq(g[0].answers, 1);
        ck_assert_uint_eq(g[0].ended, 1);
        party(port, HAS_HEIR, g, &took);
        ck_assert_uint_eq(g[2].stops, 1); /* born while the runtime stops */
        ck_assert_uint_eq(g[2].ended, 1);
    }
}
END_TEST

START_TEST(nobody_holds_the_stop_for_ever) {
    struct guest g[3];
    uint64_t took;
    party(ACT_PORT_SIM, NEVER, g, &took);
    ck_assert_uint_gt(g[0].timers, 100);
    ck_assert_uint_lt(took, 2000000000);
    ck_assert_uint_eq(g[0].ended, 1);
    party(ACT_PORT_THREADS, NEVER, g, &took);
    ck_assert_uint_gt(g[0].timers, 1);
    ck_assert_uint_eq(g[0].ended, 1);
}
END_TEST

static struct act_rt *signalled;

static void on_signal(int number) {
    (void)number;
    act_rt_stop(signalled);
}

static void raiser_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)ctx;
    (void)state;
    if (msg->kind == ACT_KIND_start)
        raise(SIGUSR1);
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
}

START_TEST(a_signal_may_stop) {
    static const struct act_kind kind = {.name = "raiser", .receive = raiser_receive};
    struct sigaction act = {.sa_handler = on_signal}, before;
    ck_assert_int_eq(sigaction(SIGUSR1, &act, &before), 0);
    signalled = rig_open(ACT_PORT_THREADS, 2, 0);
    act_spawn(signalled, &kind, NULL, 0);
    act_rt_run(signalled);
    struct act_rt_stats stats;
    act_rt_stats(signalled, &stats);
    ck_assert_uint_eq(stats.actors_live, 0);
    act_rt_close(signalled);
    ck_assert_int_eq(sigaction(SIGUSR1, &before, NULL), 0);
}
END_TEST

START_TEST(stop_before_run_and_twice) {
    for (int p = 0; p < 2; p++) {
        struct act_rt *rt = rig_open((enum act_port)p, 2, 0);
        struct guest g = {.manner = EXITS};
        act_spawn(rt, &guest_kind, &g, 0);
        act_rt_stop(rt);
        act_rt_stop(rt);
        act_rt_run(rt);
        ck_assert_uint_eq(g.stops, 1);
        ck_assert_uint_eq(g.ended, 1);
        act_rt_close(rt);
        ck_assert_uint_eq(g.ended, 1);
    }
}
END_TEST

START_TEST(close_without_run) {
    for (int p = 0; p < 2; p++) {
        struct act_rt *rt = rig_open((enum act_port)p, 3, 0);
        struct guest g[3] = {{.manner = IGNORES}, {.manner = IGNORES}, {.manner = IGNORES}};
        act_id_t id = act_spawn(rt, &guest_kind, &g[0], 0);
        act_spawn(rt, &guest_kind, &g[1], p == ACT_PORT_SIM ? 0 : 1);
        act_spawn(rt, &guest_kind, &g[2], ACT_OWN_THREAD);
        act_post(rt, id, K_ONE, NULL, 0); /* never received */
        act_rt_close(rt);
        for (int i = 0; i < 3; i++)
            ck_assert_uint_eq(g[i].ended, 1);
    }
    act_rt_close(NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("drain");
    TCase *c = tcase_create("drain");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, everybody_is_asked);
    tcase_add_test(c, nobody_holds_the_stop_for_ever);
    tcase_add_test(c, a_signal_may_stop);
    tcase_add_test(c, stop_before_run_and_twice);
    tcase_add_test(c, close_without_run);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
