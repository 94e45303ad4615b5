/* SPDX-License-Identifier: Apache-2.0
 * Actors on both ports: order, priorities, letters home, generations, ends, limits.
 */
#include <string.h>

#include "tests/actors/rig.h"

static const enum act_port ports[] = {ACT_PORT_THREADS, ACT_PORT_SIM};
enum { N_PORTS = 2 };

/* ---- order: senders number their messages, the receiver checks each sender's count ---- */

enum { SENDERS = 4, EACH = 3000 };

struct order {
    act_id_t to;
    uint32_t next[SENDERS], urgent_next[SENDERS];
    uint32_t got, bad;
    uint32_t index; /* of a sender */
};
struct numbered {
    uint32_t sender, number;
};

static void order_sender(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct order *me = state;
    if (msg->kind != ACT_KIND_start && msg->kind != K_GO)
        return;
    uint32_t from = msg->kind == ACT_KIND_start ? 0 : EACH / 2;
    for (uint32_t i = from; i < from + EACH / 2; i++) {
        struct numbered n = {me->index, i};
        if (i % 3 == 0)
            act_send_urgent(ctx, me->to, K_TWO, &n, sizeof n);
        else
            act_send(ctx, me->to, K_ONE, &n, sizeof n);
    }
    if (msg->kind == ACT_KIND_start)
        act_send(ctx, act_self(ctx), K_GO, NULL, 0);
}

static void order_receiver(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct order *me = state;
    if (msg->kind != K_ONE && msg->kind != K_TWO)
        return;
    struct numbered n;
    memcpy(&n, msg->body, sizeof n);
    uint32_t *next = msg->kind == K_TWO ? me->urgent_next : me->next;
    bool first = next[n.sender] == 0;
    if (!first && n.number < next[n.sender])
        me->bad++;
    next[n.sender] = n.number + 1;
    if (++me->got == SENDERS * EACH)
        act_rt_stop(act_rt_of(ctx));
}

START_TEST(order_is_kept) {
    static const struct act_kind sender = {.name = "sender", .receive = order_sender};
    static const struct act_kind receiver = {.name = "receiver", .receive = order_receiver};
    for (int p = 0; p < N_PORTS; p++) {
        struct act_rt *rt = rig_open(ports[p], 2, 7);
        struct order to = {0}, from[SENDERS] = {{0}};
        act_id_t id = act_spawn(rt, &receiver, &to, 0);
        for (uint32_t i = 0; i < SENDERS; i++) {
            from[i].to = id;
            from[i].index = i;
            int worker = ports[p] == ACT_PORT_SIM ? 0 : (int)i % 2;
            if (i == SENDERS - 1)
                worker = ACT_OWN_THREAD;
            ck_assert_uint_ne(act_spawn(rt, &sender, &from[i], worker), 0);
        }
        act_rt_run(rt);
        ck_assert_uint_eq(to.got, SENDERS * EACH);
        ck_assert_uint_eq(to.bad, 0);
        struct act_rt_stats stats;
        act_rt_stats(rt, &stats);
        ck_assert_uint_ge(stats.messages, SENDERS * EACH);
        act_rt_close(rt);
    }
}
END_TEST

/* ---- priorities: urgent mail that waits is received first ---- */

struct letters {
    uint16_t kinds[16];
    act_id_t froms[16];
    struct act_gone gone[16];
    uint32_t n;
    act_id_t peer;
    uint32_t ended;
    uint32_t batch_ends, batch_end_at;
};

static void note_letter(struct letters *me, const struct act_msg *msg) {
    ck_assert_uint_lt(me->n, 16);
    memcpy(&me->gone[me->n], msg->body, sizeof me->gone[0]);
    me->froms[me->n] = msg->from;
    me->kinds[me->n++] = msg->kind;
}

static void priority_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct letters *me = state;
    if (msg->kind == ACT_KIND_start) {
        act_send(ctx, act_self(ctx), K_ONE, NULL, 0);
        act_send(ctx, act_self(ctx), K_TWO, NULL, 0);
        act_send_urgent(ctx, act_self(ctx), K_THREE, NULL, 0);
        return;
    }
    note_letter(me, msg);
    if (me->n == 3)
        act_rt_stop(act_rt_of(ctx));
}

static void priority_batch_end(struct act_ctx *ctx, void *state) {
    (void)ctx;
    struct letters *me = state;
    me->batch_ends++;
    me->batch_end_at = me->n;
}

START_TEST(urgent_overtakes) {
    static const struct act_kind kind = {
        .name = "priority", .receive = priority_receive, .batch_end = priority_batch_end};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 0);
    struct letters me = {.n = 0};
    act_spawn(rt, &kind, &me, 0);
    act_rt_run(rt);
    act_rt_close(rt);
    ck_assert_uint_eq(me.kinds[0], K_THREE);
    ck_assert_uint_eq(me.kinds[1], K_ONE);
    ck_assert_uint_eq(me.kinds[2], K_TWO);
    ck_assert_uint_ge(me.batch_ends, 1);
    ck_assert_uint_ge(me.batch_end_at, 3);
}
END_TEST

/* ---- ends: letters to an ended actor come home ---- */

static void mortal_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    if (msg->kind == K_GO)
        act_exit(ctx);
}
static void mortal_ended(struct act_rt *rt, void *state) {
    (void)rt;
    struct letters *owner = state;
    owner->ended++;
}
static const struct act_kind mortal = {
    .name = "mortal", .receive = mortal_receive, .ended = mortal_ended};

static void griever_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct letters *me = state;
    switch (msg->kind) {
    case ACT_KIND_start:
        if (me->peer == 0)
            me->peer = act_spawn_here(ctx, &mortal, me);
        act_send(ctx, me->peer, K_GO, NULL, 0);
        act_send(ctx, me->peer, K_ONE, NULL, 0);
        act_send(ctx, act_self(ctx), K_DONE, NULL, 0);
        act_timer_arm(ctx, 10000000000u, 0); /* so that a lost letter fails and does not hang */
        break;
    case ACT_KIND_timer:
        act_rt_stop(act_rt_of(ctx));
        break;
    case ACT_KIND_gone:
        note_letter(me, msg);
        if (me->n == 1) { /* and once more, long after */
            act_send(ctx, me->peer, K_TWO, NULL, 0);
            break;
        }
        act_rt_stop(act_rt_of(ctx));
        break;
    default:
        break;
    }
}

START_TEST(letters_come_home) {
    static const struct act_kind griever = {.name = "griever", .receive = griever_receive};
    /* the ended one on the same worker, on another, on a thread of its own, and in simulation */
    for (int where = 0; where < 4; where++) {
        struct act_rt *rt = rig_open(where == 3 ? ACT_PORT_SIM : ACT_PORT_THREADS, 2, 3);
        struct letters me = {.n = 0};
        if (where == 1)
            me.peer = act_spawn(rt, &mortal, &me, 1);
        if (where == 2)
            me.peer = act_spawn(rt, &mortal, &me, ACT_OWN_THREAD);
        act_spawn(rt, &griever, &me, 0);
        act_rt_run(rt);
        struct act_rt_stats stats;
        act_rt_stats(rt, &stats);
        act_rt_close(rt);
        ck_assert_uint_eq(me.n, 2);
        ck_assert_uint_eq(me.ended, 1);
        ck_assert_uint_eq(me.gone[0].kind, K_ONE);
        ck_assert_uint_eq(me.gone[1].kind, K_TWO);
        ck_assert_uint_eq(me.gone[0].to, me.peer);
        ck_assert_uint_eq(me.froms[0], me.peer);
        ck_assert_uint_eq(stats.allocations_after_start, 0);
    }
}
END_TEST

/* ---- generations: a handle of the past never reaches the slot's next actor ---- */

struct reborn {
    act_id_t old, now;
    uint32_t rounds, wrong, gone, alive_got;
    int is_child;
};

static void child_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct reborn *me = state;
    if (msg->kind == K_ONE)
        me->wrong++; /* K_ONE goes to dead ones only */
    if (msg->kind == K_TWO) {
        me->alive_got++;
        act_exit(ctx);
    }
}
static const struct act_kind child = {.name = "child", .receive = child_receive};

static void reborn_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct reborn *me = state;
    if (msg->kind == ACT_KIND_gone)
        me->gone++;
    if (msg->kind != ACT_KIND_start && msg->kind != K_GO)
        return;
    if (me->old != 0)
        act_send(ctx, me->old, K_ONE, NULL, 0);
    if (me->rounds++ == 200) {
        act_send(ctx, act_self(ctx), K_DONE, NULL, 0);
        act_rt_stop(act_rt_of(ctx));
        return;
    }
    me->now = act_spawn_here(ctx, &child, me);
    ck_assert_uint_ne(me->now, 0);
    ck_assert_uint_ne(me->now, me->old);
    if (me->old != 0)
        ck_assert_uint_eq((uint32_t)me->now, (uint32_t)me->old);
    act_send(ctx, me->now, K_TWO, NULL, 0);
    me->old = me->now;
    act_timer_arm(ctx, 1, 0);
}

static void reborn_or_timer(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    if (msg->kind == ACT_KIND_timer) /* by now the child has ended */
        act_send(ctx, act_self(ctx), K_GO, NULL, 0);
    else
        reborn_receive(ctx, state, msg);
}

START_TEST(generations_differ) {
    static const struct act_kind kind = {.name = "reborn", .receive = reborn_or_timer};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 5);
    struct reborn me = {0};
    act_spawn(rt, &kind, &me, 0);
    act_rt_run(rt);
    act_rt_close(rt);
    ck_assert_uint_eq(me.wrong, 0);
    ck_assert_uint_eq(me.alive_got, 200);
    ck_assert_uint_eq(me.gone, 200);
}
END_TEST

/* ---- limits ---- */

static void idle_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
}
static const struct act_kind idler = {.name = "idler", .receive = idle_receive};

START_TEST(actors_max_refuses) {
    for (int p = 0; p < N_PORTS; p++) {
        struct act_rt_config config = {
            .port = ports[p], .actors_max = 5, .messages_max = 10, .timers_max = 1};
        struct act_rt *rt;
        ck_assert_int_eq(act_rt_open(&config, &rt, NULL), STATUS_OK);
        for (int i = 0; i < 5; i++)
            ck_assert_uint_ne(act_spawn(rt, &idler, NULL, 0), 0);
        ck_assert_uint_eq(act_spawn(rt, &idler, NULL, 0), 0);
        struct act_rt_stats stats;
        act_rt_stats(rt, &stats);
        ck_assert_uint_eq(stats.actors_live, 5);
        act_rt_stop(rt);
        act_rt_run(rt);
        act_rt_stats(rt, &stats);
        ck_assert_uint_eq(stats.actors_live, 0);
        ck_assert_uint_eq(stats.messages_in_flight, 0);
        act_rt_close(rt);
    }
}
END_TEST

START_TEST(open_refuses_bad_limits) {
    struct act_rt *rt = NULL;
    struct status_note note = {{0}};
    struct act_rt_config none = {.port = ACT_PORT_SIM};
    ck_assert_int_eq(act_rt_open(&none, &rt, &note), STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(note.text, "actors_max"));
    struct act_rt_config many = {.actors_max = 10, .messages_max = 1u << 24};
    ck_assert_int_eq(act_rt_open(&many, &rt, &note), STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(note.text, "messages_max"));
    struct act_rt_config crowd = {.actors_max = 10, .workers = 1000};
    ck_assert_int_eq(act_rt_open(&crowd, &rt, &note), STATUS_BAD_REQUEST);
    ck_assert_ptr_null(rt);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("actor");
    TCase *c = tcase_create("actor");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, order_is_kept);
    tcase_add_test(c, urgent_overtakes);
    tcase_add_test(c, letters_come_home);
    tcase_add_test(c, generations_differ);
    tcase_add_test(c, actors_max_refuses);
    tcase_add_test(c, open_refuses_bad_limits);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
