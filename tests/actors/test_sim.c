/* SPDX-License-Identifier: Apache-2.0
 * The simulation: equal seeds give equal traces, different seeds differ, one sender's order is
 * kept while everything else is shuffled, time jumps, faults come in bursts and end, a stop ends
 * it.
 */
#include <string.h>

#include "tests/actors/rig.h"

/* A little town: each citizen passes rumours on, arms timers, has children, and some end. */
enum { TOWN = 12, TALK = 400 };

struct town;
struct citizen {
    struct town *town;
    uint32_t index, heard;
    uint32_t last[TOWN + 1]; /* of each sender */
    uint32_t sent[TOWN + 1];
};
struct rumour {
    uint32_t sender, number;
    const void *pointer; /* traces must not depend on it */
};
struct town {
    struct citizen citizens[TOWN];
    act_id_t ids[TOWN];
    uint32_t talk_left, out_of_order, children, children_ended, batch_ends;
    uint64_t overtakes; /* a later message of another sender came first */
    uint64_t order_digest;
};

static void town_child(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    if (msg->kind == ACT_KIND_timer)
        act_exit(ctx);
    if (msg->kind == ACT_KIND_start)
        act_timer_arm(ctx, 1000 * (1 + act_choose(ctx, 50)), 0);
}
static void town_child_ended(struct act_rt *rt, void *state) {
    (void)rt;
    struct town *town = state;
    town->children_ended++;
}
static const struct act_kind child_kind = {
    .name = "child", .receive = town_child, .ended = town_child_ended};

static void town_tell(struct act_ctx *ctx, struct citizen *me) {
    struct town *town = me->town;
    if (town->talk_left == 0)
        return;
    town->talk_left--;
    uint32_t to = (uint32_t)act_choose(ctx, TOWN);
    struct rumour r = {me->index, ++me->sent[to], malloc(1)};
    free((void *)(uintptr_t)r.pointer);
    act_send(ctx, town->ids[to], K_ONE, &r, sizeof r);
}

static void town_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct citizen *me = state;
    struct town *town = me->town;
    if (msg->kind == ACT_KIND_stop)
        return;
    if (msg->kind == K_ONE) {
        struct rumour r;
        memcpy(&r, msg->body, sizeof r);
        if (r.number != me->last[r.sender] + 1)
            town->out_of_order++;
        me->last[r.sender] = r.number;
        me->heard++;
        town->order_digest = town->order_digest * 31 + r.sender * 7 + me->index;
        if (me->heard % 8 == 0 && act_spawn_here(ctx, &child_kind, town) != 0)
            town->children++;
    }
    town_tell(ctx, me);
    if (act_choose(ctx, 3) == 0)
        town_tell(ctx, me);
    if (act_choose(ctx, 10) == 0)
        act_timer_arm(ctx, 10000, 1);
}

static void town_batch_end(struct act_ctx *ctx, void *state) {
    (void)ctx;
    struct citizen *me = state;
    me->town->batch_ends++;
}

static uint64_t town_run(uint64_t seed, bool priority, struct town *town, uint64_t step) {
    static const struct act_kind kind = {
        .name = "citizen", .receive = town_receive, .batch_end = town_batch_end};
    struct act_rt_config config = {.port = ACT_PORT_SIM,
                                   .actors_max = 200,
                                   .messages_max = 5000,
                                   .timers_max = 5000,
                                   .seed = seed,
                                   .sim_priority = priority};
    struct act_rt *rt;
    ck_assert_int_eq(act_rt_open(&config, &rt, NULL), STATUS_OK);
    memset(town, 0, sizeof *town);
    town->talk_left = TALK;
    for (uint32_t i = 0; i < TOWN; i++) {
        town->citizens[i] = (struct citizen){.town = town, .index = i};
        town->ids[i] = act_spawn(rt, &kind, &town->citizens[i], 0);
    }
    if (step == 0) {
        act_rt_run(rt);
    } else {
        while (act_sim_step(rt, step))
            ;
    }
    uint64_t trace = act_sim_trace(rt);
    struct act_rt_stats stats;
    act_rt_stats(rt, &stats);
    ck_assert_uint_eq(stats.messages_in_flight, 0);
    ck_assert_uint_eq(stats.actors_live, TOWN);
    ck_assert_uint_eq(stats.allocations_after_start, 0);
    ck_assert_uint_eq(town->talk_left, 0);
    ck_assert_uint_eq(town->out_of_order, 0);
    ck_assert_uint_gt(town->children, 0);
    ck_assert_uint_eq(town->children, town->children_ended);
    ck_assert_uint_gt(town->batch_ends, 0);
    act_rt_close(rt);
    return trace;
}

START_TEST(seed_decides_everything) {
    static struct town a, b;
    uint64_t before[2] = {0, 0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        for (int priority = 0; priority < 2; priority++) {
            uint64_t x = town_run(seed, priority, &a, 0);
            void *move = malloc(100 + (seed % 50) * 64); /* so that addresses differ */
            uint64_t y = town_run(seed, priority, &b, 1 + seed % 7);
            free(move);
            ck_assert_uint_eq(x, y);
            ck_assert_uint_eq(a.order_digest, b.order_digest);
            ck_assert_uint_ne(x, before[priority]);
            before[priority] = x;
        }
        ck_assert_uint_ne(before[0], before[1]);
    }
}
END_TEST

/* Two senders, one receiver: over the seeds every merge of their messages is seen. */
struct merge {
    act_id_t to;
    uint32_t index, bits, n;
};

static void merge_sender(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct merge *me = state;
    if (msg->kind != ACT_KIND_start)
        return;
    for (int i = 0; i < 3; i++)
        act_send(ctx, me->to, K_ONE, &me->index, sizeof me->index);
}
static void merge_receiver(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)ctx;
    struct merge *me = state;
    if (msg->kind != K_ONE)
        return;
    me->bits = me->bits << 1 | msg->body[0];
    me->n++;
}

START_TEST(every_merge_is_seen) {
    static const struct act_kind sender = {.name = "sender", .receive = merge_sender};
    static const struct act_kind receiver = {.name = "receiver", .receive = merge_receiver};
    bool seen[64] = {false};
    int merges = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct act_rt_config config = {.port = ACT_PORT_SIM,
                                       .actors_max = 3,
                                       .messages_max = 10,
                                       .seed = seed,
                                       .sim_priority = seed % 2};
        struct act_rt *rt;
        ck_assert_int_eq(act_rt_open(&config, &rt, NULL), STATUS_OK);
        struct merge to = {.n = 0}, from[2] = {{.index = 0}, {.index = 1}};
        act_id_t id = act_spawn(rt, &receiver, &to, 0);
        for (int i = 0; i < 2; i++) {
            from[i].to = id;
            act_spawn(rt, &sender, &from[i], 0);
        }
        act_rt_run(rt);
        act_rt_close(rt);
        ck_assert_uint_eq(to.n, 6);
        ck_assert_int_eq(__builtin_popcount(to.bits), 3);
        merges += !seen[to.bits];
        seen[to.bits] = true;
    }
    ck_assert_int_eq(merges, 20); /* 6 over 3 */
}
END_TEST

/* ---- faults ---- */

struct faulty {
    uint64_t visits, fired, fired_late, bursts, last;
    uint64_t until;
};

static void faulty_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct faulty *me = state;
    (void)msg;
    if (act_now_ns(ctx) > me->until + 2000000)
        return;
    me->visits++;
    ck_assert(!act_fault(ctx, "never set"));
    if (act_fault(ctx, "disk")) {
        me->fired++;
        if (me->visits - me->last > 200)
            me->bursts++;
        me->last = me->visits;
        if (act_now_ns(ctx) > me->until)
            me->fired_late++;
    }
    act_timer_arm(ctx, 1000, 0);
}

START_TEST(faults_come_in_bursts_and_end) {
    static const struct act_kind kind = {.name = "faulty", .receive = faulty_receive};
    uint64_t fired = 0, bursts = 0, visits = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct act_rt *rt = rig_open(ACT_PORT_SIM, 1, seed);
        struct faulty me = {.until = 10000000};
        act_sim_fault_set(rt, "disk", 1000, 50000, 500000);
        act_sim_faults_until(rt, me.until);
        act_spawn(rt, &kind, &me, 0);
        act_rt_run(rt);
        act_rt_close(rt);
        ck_assert_uint_eq(me.fired_late, 0);
        ck_assert_uint_gt(me.visits, 5000);
        fired += me.fired;
        bursts += me.bursts;
        visits += me.visits;
    }
    /* About 10 bursts a seed of about 25 faults each. */
    ck_assert_uint_gt(bursts, 50);
    ck_assert_uint_gt(fired, 8 * bursts);
    ck_assert_uint_lt(fired, visits / 10);
}
END_TEST

static void outside_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    uint64_t *wrong = state;
    if (msg->kind != ACT_KIND_start)
        return;
    *wrong += act_fault(ctx, "disk") || act_choose(ctx, 1000) != 0;
    act_rt_stop(act_rt_of(ctx));
}

START_TEST(no_faults_on_threads) {
    static const struct act_kind kind = {.name = "outside", .receive = outside_receive};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 1);
    uint64_t wrong = 0;
    act_sim_fault_set(rt, "disk", 1000000, 1000000000, 1000000);
    act_spawn(rt, &kind, &wrong, 0);
    act_rt_run(rt);
    ck_assert_uint_eq(act_sim_trace(rt), 0);
    act_rt_close(rt);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* ---- more to do after a run; posts; stop ---- */

static void count_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    uint32_t *n = state;
    (void)ctx;
    *n += msg->kind == K_ONE;
}

START_TEST(runs_go_on_until_stopped) {
    static const struct act_kind kind = {.name = "count", .receive = count_receive};
    struct act_rt *rt = rig_open(ACT_PORT_SIM, 1, 1);
    uint32_t n = 0;
    act_id_t id = act_spawn(rt, &kind, &n, ACT_OWN_THREAD);
    act_rt_run(rt);
    act_post(rt, id, K_ONE, NULL, 0);
    act_post(rt, id, K_ONE, NULL, 0);
    ck_assert(act_sim_step(rt, 1));
    ck_assert_uint_eq(n, 1);
    ck_assert(!act_sim_step(rt, 1));
    act_post(rt, id, K_ONE, NULL, 0);
    act_rt_run(rt);
    ck_assert_uint_eq(n, 3);
    act_rt_stop(rt);
    act_rt_run(rt);
    act_post(rt, id, K_ONE, NULL, 0);
    act_rt_run(rt);
    ck_assert_uint_eq(n, 3);
    act_rt_close(rt);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim");
    TCase *c = tcase_create("sim");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, seed_decides_everything);
    tcase_add_test(c, every_merge_is_seen);
    tcase_add_test(c, faults_come_in_bursts_and_end);
    tcase_add_test(c, no_faults_on_threads);
    tcase_add_test(c, runs_go_on_until_stopped);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
