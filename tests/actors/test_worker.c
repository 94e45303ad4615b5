/* SPDX-License-Identifier: Apache-2.0
 * Workers: posts from foreign threads, sleep and wake, what idling costs, threads of their own,
 * the limit of envelopes, liveness.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/port.h"
#include "actors/trace.h"
#include "tests/actors/rig.h"

/* ---- foreign posts: every one arrives, each thread's in order ---- */

enum { POSTERS = 4, POSTS = 4000 };

struct postbox {
    struct act_rt *rt;
    act_id_t to;
    uint32_t next[POSTERS];
    uint32_t got, bad;
    /* The posters' credit: acquire and release pair between receiver and posters. */
    _Atomic uint32_t seen[POSTERS];
};
struct poster {
    struct postbox *box;
    uint32_t index;
};
struct post {
    uint32_t poster, number;
};

static void postbox_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct postbox *me = state;
    if (msg->kind != K_ONE)
        return;
    struct post p;
    memcpy(&p, msg->body, sizeof p);
    me->bad += p.number != me->next[p.poster] || msg->from != 0;
    me->next[p.poster] = p.number + 1;
    atomic_store_explicit(&me->seen[p.poster], p.number + 1, memory_order_release);
    if (++me->got == POSTERS * POSTS)
        act_rt_stop(act_rt_of(ctx));
}

static void *poster_run(void *arg) {
    struct poster *me = arg;
    for (uint32_t i = 0; i < POSTS; i++) {
        while (i - atomic_load_explicit(&me->box->seen[me->index], memory_order_acquire) > 100)
            sched_yield();
        struct post p = {me->index, i};
        act_post(me->box->rt, me->box->to, K_ONE, &p, sizeof p);
    }
    return NULL;
}

START_TEST(foreign_posts_arrive) {
    static const struct act_kind kind = {.name = "postbox", .receive = postbox_receive};
    for (int own = 0; own < 2; own++) {
        struct postbox box = {.got = 0};
        box.rt = rig_open(ACT_PORT_THREADS, 1, 0);
        box.to = act_spawn(box.rt, &kind, &box, own ? ACT_OWN_THREAD : 0);
        struct poster posters[POSTERS];
        pthread_t threads[POSTERS];
        for (uint32_t i = 0; i < POSTERS; i++) {
            posters[i] = (struct poster){&box, i};
            ck_assert_int_eq(pthread_create(&threads[i], NULL, poster_run, &posters[i]), 0);
        }
        act_rt_run(box.rt);
        for (uint32_t i = 0; i < POSTERS; i++)
            pthread_join(threads[i], NULL);
        act_rt_close(box.rt);
        ck_assert_uint_eq(box.got, POSTERS * POSTS);
        ck_assert_uint_eq(box.bad, 0);
    }
}
END_TEST

/* ---- two workers in turn: every pass is a wake when both may sleep ---- */

struct player {
    act_id_t peer;
    uint32_t got, left;
    bool serves, expects;
};

static void player_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct player *me = state;
    if (msg->kind == ACT_KIND_start && me->expects)
        act_expect(ctx, 1);
    if (msg->kind == ACT_KIND_stop) {
        if (me->expects)
            act_expect(ctx, -1);
        act_exit(ctx);
    }
    if (msg->kind != K_ONE && !(msg->kind == ACT_KIND_start && me->serves))
        return;
    uint32_t left = me->left;
    if (msg->kind == K_ONE)
        memcpy(&left, msg->body, sizeof left);
    me->got++;
    if (left == 0) {
        act_rt_stop(act_rt_of(ctx));
        return;
    }
    left--;
    act_send(ctx, me->peer, K_ONE, &left, sizeof left);
}

START_TEST(no_wake_is_lost) {
    static const struct act_kind kind = {.name = "player", .receive = player_receive};
    for (int expects = 0; expects < 2; expects++) {
        struct act_rt *rt = rig_open(ACT_PORT_THREADS, 2, 0);
        struct player a = {.serves = true, .left = 6000, .expects = expects},
                      b = {.expects = expects};
        b.peer = act_spawn(rt, &kind, &a, 0);
        a.peer = act_spawn(rt, &kind, &b, 1);
        act_rt_run(rt);
        struct act_rt_stats stats;
        act_rt_stats(rt, &stats);
        act_rt_close(rt);
        ck_assert_uint_eq(a.got + b.got, 6001);
        ck_assert_uint_le(stats.wakes, stats.parks);
        if (!expects)
            ck_assert_uint_gt(stats.parks, 0);
        ck_assert_uint_eq(stats.allocations_after_start, 0);
        ck_assert_uint_eq(stats.actors_live, 0);
        ck_assert_uint_eq(stats.messages_in_flight, 0);
    }
}
END_TEST

/* ---- traffic among many actors, some of which end: nothing is lost or doubled ---- */

enum { CITY = 24, BALLS = 64, HOPS = 3000 };

struct city {
    act_id_t ids[CITY];
    struct dweller {
        struct city *city;
        uint64_t rng;
        uint32_t index, received;
    } dwellers[CITY];
    /* acquire and release pair between all dwellers: the last one stops the runtime */
    _Atomic uint32_t balls_ended, letters;
};
struct hop {
    uint32_t ball, left;
};

static void dweller_pass(struct act_ctx *ctx, struct dweller *me, struct hop hop) {
    me->rng = me->rng * 6364136223846793005u + 1442695040888963407u;
    uint32_t pick = (uint32_t)(me->rng >> 33) % CITY;
    /* Who may end passes to those who stay: a letter home would not find it any more. */
    if (me->index % 6 == 5 && pick % 6 == 5)
        pick--;
    act_id_t to = me->city->ids[pick];
    if ((me->rng >> 60) == 0)
        act_send_urgent(ctx, to, K_ONE, &hop, sizeof hop);
    else
        act_send(ctx, to, K_ONE, &hop, sizeof hop);
}

static void dweller_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct dweller *me = state;
    struct city *city = me->city;
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
    if (msg->kind == ACT_KIND_gone)
        atomic_fetch_add_explicit(&city->letters, 1, memory_order_relaxed);
    if (msg->kind != ACT_KIND_gone && msg->kind != K_ONE)
        return;
    struct hop hop = {0, 0};
    if (msg->kind == K_ONE)
        memcpy(&hop, msg->body, sizeof hop);
    me->received++;
    if (hop.left > 0) {
        hop.left--;
        dweller_pass(ctx, me, hop);
    } else if (atomic_fetch_add_explicit(&city->balls_ended, 1, memory_order_acq_rel) + 1 ==
               BALLS) {
        act_rt_stop(act_rt_of(ctx));
    }
    if (me->index % 6 == 5 && me->received == 300) /* a few end in the middle of it */
        act_exit(ctx);
}

START_TEST(traffic_is_conserved) {
    static const struct act_kind kind = {.name = "dweller", .receive = dweller_receive};
    static struct city city;
    /* So few envelopes that each serves many times, and comes home from other workers. */
    struct act_rt_config config = rig_config(ACT_PORT_THREADS, 3, 0);
    config.actors_max = CITY;
    config.messages_max = BALLS;
    config.timers_max = 0;
    struct act_rt *rt = rig_open_with(&config);
    for (uint32_t i = 0; i < CITY; i++) {
        city.dwellers[i] = (struct dweller){.city = &city, .rng = i, .index = i};
        int worker = i % 8 == 7 ? ACT_OWN_THREAD : (int)(i % 3);
        city.ids[i] = act_spawn(rt, &kind, &city.dwellers[i], worker);
    }
    for (uint32_t b = 0; b < BALLS; b++) {
        struct hop hop = {b, HOPS};
        act_post(rt, city.ids[b % 5], K_ONE, &hop, sizeof hop);
    }
    act_rt_run(rt);
    struct act_rt_stats stats;
    act_rt_stats(rt, &stats);
    act_rt_close(rt);
    ck_assert_uint_eq(city.balls_ended, BALLS);
    ck_assert_uint_gt(city.letters, 0);
    ck_assert_uint_eq(stats.messages_in_flight, 0);
    ck_assert_uint_eq(stats.actors_live, 0);
    ck_assert_uint_eq(stats.allocations_after_start, 0);
}
END_TEST

/* ---- idle ---- */

enum { IDLE_TICK_NS = 20000000, IDLE_QUIET = 10, IDLE_TICKS_MAX = 150 };

struct idle {
    uint64_t looks, parks;
    uint32_t ticks, quiet; /* ticks in a row between which only this worker woke, once */
    uint64_t awake;        /* looks that no message is the reason for */
};

static void idle_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct idle *me = state;
    struct act_rt_stats stats;
    if (msg->kind != ACT_KIND_start && msg->kind != ACT_KIND_timer)
        return;
    act_rt_stats(act_rt_of(ctx), &stats);
    bool quiet = stats.looks - me->looks <= 1 && stats.parks - me->parks <= 1;
    me->quiet = quiet ? me->quiet + 1 : 0;
    me->looks = stats.looks;
    me->parks = stats.parks;
    me->awake = stats.looks > stats.messages ? stats.looks - stats.messages : 0;
    if (me->quiet == IDLE_QUIET || me->ticks++ == IDLE_TICKS_MAX)
        act_rt_stop(act_rt_of(ctx));
    else
        act_timer_arm(ctx, IDLE_TICK_NS, 0);
}

/* However late a busy machine lets them settle: then four threads sleep, and who spins looks. */
START_TEST(idling_costs_nothing) {
    static const struct act_kind kind = {.name = "idle", .receive = idle_receive};
    static const struct act_kind player = {.name = "player", .receive = player_receive};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 3, 0);
    struct idle me = {.ticks = 0};
    struct player others[100] = {{.got = 0}};
    /* Half of them wait for what never comes, but every core has other work: no spinning. */
    act_rt_cores_reserve(rt, 1000);
    for (int i = 0; i < 100; i++) {
        others[i].expects = i % 2;
        act_spawn(rt, &player, &others[i], i % 3);
    }
    act_spawn(rt, &player, &others[0], ACT_OWN_THREAD);
    act_spawn(rt, &kind, &me, 0);
    act_rt_run(rt);
    act_rt_close(rt);
    ck_assert_uint_eq(me.quiet, IDLE_QUIET);
    ck_assert_uint_le(me.awake, 8); /* the first sleep of each, and who was woken by two at once */
}
END_TEST

/* ---- threads of their own are used again ---- */

struct mayfly {
    act_id_t nest;
    pthread_t thread;
};
struct nest {
    struct mayfly flies[200];
    uint32_t hatched, ended;
    uint64_t allocations; /* by the first fly's thread */
};

static void mayfly_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct mayfly *me = state;
    if (msg->kind != ACT_KIND_start)
        return;
    me->thread = pthread_self();
    act_send(ctx, me->nest, K_DONE, NULL, 0);
    act_exit(ctx);
}

static void nest_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const struct act_kind mayfly = {.name = "mayfly", .receive = mayfly_receive};
    struct nest *me = state;
    if (msg->kind == ACT_KIND_stop)
        return;
    me->ended += msg->kind == K_DONE;
    struct act_rt_stats stats;
    do { /* the one before is still on its way out */
        act_rt_stats(act_rt_of(ctx), &stats);
        sched_yield();
    } while (stats.actors_live > 1);
    if (me->ended == 1)
        me->allocations = stats.allocations_after_start;
    if (me->hatched == 200) {
        act_rt_stop(act_rt_of(ctx));
        return;
    }
    struct mayfly *fly = &me->flies[me->hatched++];
    fly->nest = act_self(ctx);
    ck_assert_uint_ne(act_spawn(act_rt_of(ctx), &mayfly, fly, ACT_OWN_THREAD), 0);
}

START_TEST(own_threads_are_used_again) {
    static const struct act_kind kind = {.name = "nest", .receive = nest_receive};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 0);
    static struct nest nest;
    act_spawn(rt, &kind, &nest, 0);
    act_rt_run(rt);
    struct act_rt_stats stats;
    act_rt_stats(rt, &stats);
    act_rt_close(rt);
    ck_assert_uint_eq(nest.ended, 200);
    for (int i = 0; i < 200; i++)
        ck_assert(!pthread_equal(nest.flies[i].thread, pthread_self()));
    ck_assert_uint_ge(nest.allocations, 1);
    ck_assert_uint_eq(stats.allocations_after_start, nest.allocations);
}
END_TEST

START_TEST(own_threads_have_a_limit) {
    static const struct act_kind player = {.name = "player", .receive = player_receive};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 0);
    struct player players[66] = {{.got = 0}};
    for (int i = 0; i < 64; i++)
        ck_assert_uint_ne(act_spawn(rt, &player, &players[i], ACT_OWN_THREAD), 0);
    ck_assert_uint_eq(act_spawn(rt, &player, &players[64], ACT_OWN_THREAD), 0);
    ck_assert_uint_ne(act_spawn(rt, &player, &players[65], 0), 0);
    act_rt_stop(rt);
    act_rt_run(rt);
    /* Nothing is under way any more, but a thread may not have counted its actor yet. */
    struct act_rt_stats stats;
    do {
        act_rt_stats(rt, &stats);
        sched_yield();
    } while (stats.actors_live > 0);
    act_rt_close(rt);
}
END_TEST

/* ---- our own bugs end the process, with a sentence that says where ---- */

static void flood_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    if (msg->kind == ACT_KIND_start)
        for (int i = 0; i < 10000; i++) /* beyond what the pool has for others */
            act_send(ctx, act_self(ctx), K_ONE, NULL, 0);
}
static void giant_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const unsigned char big[64];
    (void)state;
    (void)msg;
    act_send(ctx, act_self(ctx), K_ONE, big, ACT_BODY_BYTES + 1);
}

/* Runs kind in a child process; its standard error into text. Returns the signal that ended it. */
static int last_words(const struct act_kind *kind, enum act_port port, char *text, size_t max) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        struct act_rt_config config = {.port = port, .actors_max = 4, .messages_max = 50};
        struct act_rt *rt;
        if (act_rt_open(&config, &rt, NULL) == STATUS_OK) {
            act_spawn(rt, kind, NULL, 0);
            act_rt_run(rt);
        }
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < max && (got = read(ends[0], text + n, max - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(bugs_end_the_process) {
    static const struct act_kind flood = {.name = "flood", .receive = flood_receive};
    static const struct act_kind giant = {.name = "giant", .receive = giant_receive};
    char text[2000];
    for (int port = 0; port < 2; port++) {
        ck_assert_int_eq(last_words(&flood, (enum act_port)port, text, sizeof text), SIGABRT);
        ck_assert_msg(strstr(text, "messages_max_is_enough") != NULL, "%s", text);
        ck_assert_msg(strstr(text, "actor flood, message start") != NULL, "%s", text);
        ck_assert_int_eq(last_words(&giant, (enum act_port)port, text, sizeof text), SIGABRT);
        ck_assert_msg(strstr(text, "ACT_BODY_BYTES") != NULL, "%s", text);
    }
}
END_TEST

/* ---- liveness: a receive call that does not come back is named, with its age ---- */

struct stuck {
    _Atomic uint32_t in, let_go; /* acquire and release pair between the two threads */
};

static void stuck_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct stuck *me = state;
    (void)ctx;
    if (msg->kind != K_ONE)
        return;
    atomic_store_explicit(&me->in, 1, memory_order_release);
    while (atomic_load_explicit(&me->let_go, memory_order_acquire) == 0)
        sched_yield();
}

START_TEST(who_is_stuck_is_named) {
    static const struct act_kind kind = {.name = "stuck", .receive = stuck_receive};
    struct act_rt *rt = rig_open(ACT_PORT_THREADS, 1, 0);
    struct stuck me = {0};
    act_id_t id = act_spawn(rt, &kind, &me, ACT_OWN_THREAD);
    act_post(rt, id, K_ONE, NULL, 0);
    while (atomic_load_explicit(&me.in, memory_order_acquire) == 0)
        sched_yield();
    uint64_t since = act_rt_now_ns(rt);
    struct act_rt_stats stats;
    do {
        act_rt_stats(rt, &stats);
        sched_yield();
    } while (act_rt_now_ns(rt) - since < 20000000);
    act_rt_stats(rt, &stats);
    ck_assert_uint_ge(stats.oldest_batch_ns, 20000000);
    ck_assert_str_eq(stats.oldest_actor, "stuck");
    ck_assert_uint_eq(stats.messages_in_flight, 1);
    atomic_store_explicit(&me.let_go, 1, memory_order_release);
    do {
        act_rt_stats(rt, &stats);
        sched_yield();
    } while (stats.oldest_actor != NULL);
    ck_assert_uint_eq(stats.messages_in_flight, 0);
    act_rt_close(rt);
}
END_TEST

START_TEST(the_port_measures) {
    ck_assert_uint_ge(act_port_cores(), 1);
    uint64_t cost = act_port_wake_cost_ns();
    ck_assert_uint_gt(cost, 0);
    ck_assert_uint_eq(act_port_wake_cost_ns(), cost);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("worker");
    TCase *c = tcase_create("worker");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, bugs_end_the_process); /* forks: before any thread was started */
    tcase_add_test(c, foreign_posts_arrive);
    tcase_add_test(c, no_wake_is_lost);
    tcase_add_test(c, traffic_is_conserved);
    tcase_add_test(c, idling_costs_nothing);
    tcase_add_test(c, own_threads_are_used_again);
    tcase_add_test(c, own_threads_have_a_limit);
    tcase_add_test(c, who_is_stuck_is_named);
    tcase_add_test(c, the_port_measures);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
