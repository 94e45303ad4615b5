/* SPDX-License-Identifier: Apache-2.0
 * Timers: order, cancel at every moment, ends, the limit; the heap alone, then through actors.
 */
#include <string.h>

#include "actors/clock.h"
#include "tests/actors/rig.h"

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Random arming, cancelling and firing against a plain list. */
START_TEST(heap_matches_a_list) {
    enum { MAX = 64, STEPS = 200000 };
    struct act_clock c;
    ck_assert_int_eq(act_clock_open(&c, MAX), STATUS_OK);
    uint32_t list = 0;
    struct {
        uint64_t name, deadline, order;
    } model[MAX];
    uint32_t n = 0;
    uint64_t rng = 1, now = 0, order = 0, stale = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t what = next_random(&rng) % 4;
        if (what < 2) {
            uint64_t deadline = now + next_random(&rng) % 50;
            uint64_t name = act_clock_arm(&c, 9, &list, deadline, order);
            ck_assert_int_eq(name != 0, n < MAX);
            if (name != 0) {
                model[n].name = name;
                model[n].deadline = deadline;
                model[n++].order = order++;
            }
        } else if (what == 2 && n > 0) {
            uint32_t i = (uint32_t)(next_random(&rng) % n);
            stale = model[i].name;
            ck_assert(act_clock_cancel(&c, 9, &list, stale));
            ck_assert(!act_clock_cancel(&c, 9, &list, stale));
            model[i] = model[--n];
        } else {
            now += next_random(&rng) % 20;
            const struct act_clock_timer *t;
            uint64_t name;
            while ((name = act_clock_fire(&c, now, &t)) != 0) {
                uint32_t best = 0;
                for (uint32_t i = 1; i < n; i++) {
                    if (model[i].deadline < model[best].deadline ||
                        (model[i].deadline == model[best].deadline &&
                         model[i].order < model[best].order))
                        best = i;
                }
                ck_assert_uint_gt(n, 0);
                ck_assert_uint_eq(name, model[best].name);
                ck_assert_uint_eq(t->cookie, model[best].order);
                ck_assert_uint_le(t->deadline_ns, now);
                ck_assert(act_clock_settle(&c, &list, name));
                ck_assert(!act_clock_settle(&c, &list, name));
                model[best] = model[--n];
            }
            for (uint32_t i = 0; i < n; i++)
                ck_assert_uint_gt(model[i].deadline, now);
        }
    }
    act_clock_cancel_all(&c, &list);
    ck_assert_uint_eq(act_clock_next(&c), UINT64_MAX);
    ck_assert_uint_eq(list, 0);
    act_clock_close(&c);
}
END_TEST

struct ticks {
    uint64_t cookies[32], times[32];
    uint64_t cancel;
    uint32_t n, stop_at, late;
};

static void ticks_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct ticks *me = state;
    if (msg->kind == ACT_KIND_start) {
        static const uint64_t after[] = {5000000, 1000000, 3000000, 3000000, 2000000};
        for (uint64_t i = 0; i < 5; i++)
            act_timer_arm(ctx, after[i], i);
        uint64_t dead = act_timer_arm(ctx, 1500000, 100);
        act_timer_cancel(ctx, dead);
        act_timer_cancel(ctx, dead);
        act_timer_cancel(ctx, 0);
        act_timer_cancel(ctx, 12345678);
        return;
    }
    if (msg->kind != ACT_KIND_timer)
        return;
    struct act_timer_msg t;
    memcpy(&t, msg->body, sizeof t);
    if (act_now_ns(ctx) < t.deadline_ns)
        me->late++; /* early, in fact */
    me->cookies[me->n] = t.cookie;
    me->times[me->n++] = t.deadline_ns;
    if (me->n == me->stop_at)
        act_rt_stop(act_rt_of(ctx));
}

START_TEST(timers_fire_in_order) {
    static const struct act_kind kind = {.name = "ticks", .receive = ticks_receive};
    static const uint64_t expected[] = {1, 4, 2, 3, 0};
    for (int sim = 0; sim < 2; sim++) {
        struct act_rt *rt = rig_open(sim ? ACT_PORT_SIM : ACT_PORT_THREADS, 1, 11);
        struct ticks me = {.stop_at = 5};
        act_spawn(rt, &kind, &me, 0);
        act_rt_run(rt);
        uint64_t end = act_rt_now_ns(rt);
        act_rt_close(rt);
        ck_assert_uint_eq(me.n, 5);
        ck_assert_uint_eq(me.late, 0);
        if (sim) /* virtual: the clock jumped, it did not run */
            ck_assert_uint_lt(end, 5010000);
        /* In simulation two messages of equal deadline wait together and may come in any order. */
        for (uint32_t i = 0; i < 5; i++) {
            if (!sim || (expected[i] != 2 && expected[i] != 3))
                ck_assert_uint_eq(me.cookies[i], expected[i]);
        }
    }
}
END_TEST

/* Two timers due together: the first message cancels the second, which waits in the mailbox. */
struct rivals {
    uint64_t names[2];
    uint32_t got;
    uint64_t next;
};

static void rivals_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct rivals *me = state;
    if (msg->kind == ACT_KIND_start) {
        me->names[0] = act_timer_arm(ctx, 1000, 0);
        me->names[1] = act_timer_arm(ctx, 1000, 1);
    }
    if (msg->kind != ACT_KIND_timer)
        return;
    struct act_timer_msg t;
    memcpy(&t, msg->body, sizeof t);
    me->got++;
    if (t.cookie == 99) {
        act_rt_stop(act_rt_of(ctx));
        return;
    }
    act_timer_cancel(ctx, me->names[1 - t.cookie]);
    act_timer_arm(ctx, 100000, 99);
}

START_TEST(cancel_wins_until_received) {
    static const struct act_kind kind = {.name = "rivals", .receive = rivals_receive};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct act_rt *rt = rig_open(seed % 2 ? ACT_PORT_SIM : ACT_PORT_THREADS, 1, seed);
        struct rivals me = {.got = 0};
        act_spawn(rt, &kind, &me, 0);
        act_rt_run(rt);
        act_rt_close(rt);
        ck_assert_uint_eq(me.got, 2);
    }
}
END_TEST

/* Timers end with their actor and free their places. */
struct brood {
    uint32_t left;
};

static void armed_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    ck_assert_uint_ne(msg->kind, ACT_KIND_timer);
    if (msg->kind != ACT_KIND_start)
        return;
    for (int i = 0; i < 8; i++)
        act_timer_arm(ctx, 3600000000000u, 0);
    act_exit(ctx);
}

static void brood_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const struct act_kind armed = {.name = "armed", .receive = armed_receive};
    struct brood *me = state;
    if (msg->kind == ACT_KIND_stop)
        return;
    if (me->left-- == 0) {
        act_rt_stop(act_rt_of(ctx));
        return;
    }
    ck_assert_uint_ne(act_spawn_here(ctx, &armed, NULL), 0);
    act_timer_arm(ctx, 1, 0); /* after the child */
}

START_TEST(timers_end_with_their_actor) {
    static const struct act_kind kind = {.name = "brood", .receive = brood_receive};
    for (int sim = 0; sim < 2; sim++) {
        struct act_rt_config config = {.port = sim ? ACT_PORT_SIM : ACT_PORT_THREADS,
                                       .actors_max = 20,
                                       .messages_max = 100,
                                       .timers_max = 40};
        struct act_rt *rt;
        ck_assert_int_eq(act_rt_open(&config, &rt, NULL), STATUS_OK);
        struct brood me = {.left = 500};
        act_spawn(rt, &kind, &me, 0);
        act_rt_run(rt);
        if (sim)
            ck_assert_uint_lt(act_rt_now_ns(rt), 1000000000);
        act_rt_close(rt);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("clock");
    TCase *c = tcase_create("clock");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, heap_matches_a_list);
    tcase_add_test(c, timers_fire_in_order);
    tcase_add_test(c, cancel_wins_until_received);
    tcase_add_test(c, timers_end_with_their_actor);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
