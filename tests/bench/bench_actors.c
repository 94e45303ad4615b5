/* SPDX-License-Identifier: Apache-2.0
 * What the actors cost, each row beside a bare C loop of the same run.
 *
 * The bare loop: two structs that call each other by function pointer. A call takes an envelope (64
 * bytes), fills it with the same body and puts it on one queue of envelopes; the loop takes it off,
 * calls, and frees it. The envelope comes from malloc ("malloc": what a C program does that has
 * messages and nothing else), or from a free list ("pooled": as little as can be done at all). No
 * handles, no checks, no other threads. Create: calloc 256 bytes, queue one message, run it.
 * Each row is the median of several runs, each beside a run of its bare loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "actors/actor.h"
#include "actors/protocol.h"

enum { RUNS = 7, K_BALL = TEST_KIND_FIRST, K_CREATE };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of RUNS calls; each returns ns an operation. */
static double median(double (*run)(void *), void *arg) {
    double v[RUNS];
    for (int i = 0; i < RUNS; i++)
        v[i] = run(arg);
    qsort(v, RUNS, sizeof v[0], compare);
    return v[RUNS / 2];
}

struct ball {
    uint64_t count;
    uint64_t left;
};

/* ---- the bare loop ---- */

struct bare_msg {
    struct bare_msg *next;
    struct bare *to;
    struct ball body;
    unsigned char rest[ACT_BODY_BYTES - sizeof(struct ball) + 8];
};
struct bare {
    void (*receive)(struct bare *me, const struct ball *ball);
    struct bare *peer;
    uint64_t got;
};
static struct bare_msg *bare_head, **bare_tail = &bare_head, *bare_free;

static void bare_send(struct bare *to, uint64_t count, uint64_t left) {
    struct bare_msg *m = bare_free;
    bare_free = m->next;
    m->to = to;
    m->body.count = count;
    m->body.left = left;
    m->next = NULL;
    *bare_tail = m;
    bare_tail = &m->next;
}

static void bare_receive(struct bare *me, const struct ball *ball) {
    me->got++;
    if (ball->left > 0)
        bare_send(me->peer, ball->count + 1, ball->left - 1);
}

static void bare_loop(void) {
    while (bare_head != NULL) {
        struct bare_msg *m = bare_head;
        bare_head = m->next;
        if (bare_head == NULL)
            bare_tail = &bare_head;
        m->to->receive(m->to, &m->body);
        m->next = bare_free;
        bare_free = m;
    }
}

static double bare_pingpong(void *arg) {
    uint64_t n = *(uint64_t *)arg;
    static struct bare_msg nodes[16];
    bare_free = NULL;
    for (int i = 0; i < 16; i++) {
        nodes[i].next = bare_free;
        bare_free = &nodes[i];
    }
    struct bare a = {bare_receive, NULL, 0}, b = {bare_receive, &a, 0};
    a.peer = &b;
    uint64_t start = now_ns();
    bare_send(&a, 0, n);
    bare_loop();
    return (double)(now_ns() - start) / (double)n;
}

/* The same with malloc and free of each message. */
static void bare_send_malloc(struct bare *to, uint64_t count, uint64_t left) {
    struct bare_msg *m = malloc(sizeof *m);
    if (m == NULL)
        abort();
    m->next = bare_free;
    bare_free = m;
    bare_send(to, count, left);
}

static void bare_receive_malloc(struct bare *me, const struct ball *ball) {
    me->got++;
    if (ball->left > 0)
        bare_send_malloc(me->peer, ball->count + 1, ball->left - 1);
}

static double bare_pingpong_malloc(void *arg) {
    uint64_t n = *(uint64_t *)arg;
    struct bare a = {bare_receive_malloc, NULL, 0}, b = {bare_receive_malloc, &a, 0};
    a.peer = &b;
    bare_free = NULL;
    uint64_t start = now_ns();
    bare_send_malloc(&a, 0, n);
    while (bare_head != NULL) {
        struct bare_msg *m = bare_head;
        bare_head = m->next;
        if (bare_head == NULL)
            bare_tail = &bare_head;
        m->to->receive(m->to, &m->body);
        free(m);
    }
    return (double)(now_ns() - start) / (double)n;
}

static double bare_create(void *arg) {
    uint64_t n = *(uint64_t *)arg;
    static struct bare_msg nodes[16];
    bare_free = NULL;
    for (int i = 0; i < 16; i++) {
        nodes[i].next = bare_free;
        bare_free = &nodes[i];
    }
    struct bare **all = malloc(n * sizeof *all);
    if (all == NULL)
        abort();
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        all[i] = calloc(1, 256); /* what a small actor's struct takes elsewhere */
        if (all[i] == NULL)
            abort();
        all[i]->receive = bare_receive;
        bare_send(all[i], 0, 0);
        bare_loop();
    }
    double ns = (double)(now_ns() - start) / (double)n;
    for (uint64_t i = 0; i < n; i++)
        free(all[i]);
    free(all);
    return ns;
}

/* ---- ping-pong ---- */

struct player {
    act_id_t peer;
    uint64_t got, left, start, end;
    bool serves, expects, stops;
};

static void player_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct player *me = state;
    if (msg->kind == K_BALL) {
        struct ball ball;
        memcpy(&ball, msg->body, sizeof ball);
        me->got++;
        if (ball.left > 0) {
            ball.count++;
            ball.left--;
            act_send(ctx, me->peer, K_BALL, &ball, sizeof ball);
        } else {
            me->end = now_ns();
            act_rt_stop(act_rt_of(ctx));
        }
    } else if (msg->kind == ACT_KIND_start) {
        if (me->expects)
            act_expect(ctx, 1);
        if (!me->serves)
            return;
        struct ball ball = {0, me->left};
        me->start = now_ns();
        act_send(ctx, me->peer, K_BALL, &ball, sizeof ball);
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}
static const struct act_kind player_kind = {.name = "player", .receive = player_receive};

struct pingpong {
    uint64_t n;
    int second;
    bool expects;
    enum act_port port;
    uint32_t workers;
};

static struct act_rt *open_rt(enum act_port port, uint32_t workers, uint32_t actors) {
    struct act_rt_config config = {.port = port,
                                   .workers = workers,
                                   .actors_max = actors,
                                   .messages_max = 1000000,
                                   .timers_max = 16};
    struct act_rt *rt;
    struct status_note note;
    if (act_rt_open(&config, &rt, &note) != STATUS_OK) {
        fprintf(stderr, "%s\n", note.text);
        exit(1);
    }
    return rt;
}

static double actor_pingpong(void *arg) {
    const struct pingpong *p = arg;
    struct act_rt *rt = open_rt(p->port, p->workers, 16);
    /* a serves: it runs only in act_rt_run, when both know each other */
    struct player a = {.expects = p->expects, .serves = true, .left = p->n};
    struct player b = {.expects = p->expects};
    b.peer = act_spawn(rt, &player_kind, &a, 0);
    a.peer = act_spawn(rt, &player_kind, &b, p->second);
    act_rt_run(rt);
    act_rt_close(rt);
    return (double)((a.end > b.end ? a.end : b.end) - a.start) / (double)p->n;
}

/* ---- many to one: a producer keeps WINDOWS bursts under way, the receiver pays for each ---- */

enum { BURST = 128, WINDOWS = 8, K_PAY = K_CREATE + 1, K_MAIL };

struct producer {
    act_id_t to;
    uint64_t left;
    uint32_t index;
};
struct receiver {
    uint64_t got, wanted, start, end;
    uint32_t since[4];
};
struct mail {
    uint32_t producer;
};

static void producer_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct producer *me = state;
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
    if (msg->kind != ACT_KIND_start && msg->kind != K_PAY)
        return;
    struct mail mail = {me->index};
    int bursts = msg->kind == ACT_KIND_start ? WINDOWS : 1;
    for (int i = 0; i < bursts * BURST && me->left > 0; i++, me->left--)
        act_send(ctx, me->to, K_MAIL, &mail, sizeof mail);
}

static void receiver_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct receiver *me = state;
    if (msg->kind == ACT_KIND_stop)
        act_exit(ctx);
    if (msg->kind != K_MAIL)
        return;
    if (me->got++ == 0)
        me->start = act_now_ns(ctx);
    struct mail mail;
    memcpy(&mail, msg->body, sizeof mail);
    if (++me->since[mail.producer] == BURST) {
        me->since[mail.producer] = 0;
        act_send(ctx, msg->from, K_PAY, &mail, sizeof mail);
    }
    if (me->got == me->wanted) {
        me->end = act_now_ns(ctx);
        act_rt_stop(act_rt_of(ctx));
    }
}

struct many {
    uint64_t n;
    uint32_t producers;
};

static double actor_many(void *arg) {
    static const struct act_kind producer_kind = {.name = "producer", .receive = producer_receive};
    static const struct act_kind receiver_kind = {.name = "receiver", .receive = receiver_receive};
    const struct many *m = arg;
    struct act_rt *rt = open_rt(ACT_PORT_THREADS, 1, 16);
    struct producer from[4];
    struct receiver to = {.wanted = m->n / m->producers * m->producers};
    act_id_t id = act_spawn(rt, &receiver_kind, &to, 0);
    for (uint32_t i = 0; i < m->producers; i++) {
        from[i] = (struct producer){.to = id, .left = m->n / m->producers, .index = i};
        act_spawn(rt, &producer_kind, &from[i], ACT_OWN_THREAD);
    }
    act_rt_run(rt);
    act_rt_close(rt);
    return (double)(to.end - to.start) / (double)to.got;
}

/* ---- create and first message; 100,000 idle ---- */

struct small {
    uint64_t got;
};
struct maker {
    uint64_t n, made, start, end;
    act_id_t *ids;
    struct small *states;
};

static void small_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct small *me = state;
    (void)ctx;
    me->got += msg->kind == K_CREATE;
}

static void maker_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const struct act_kind small_kind = {.name = "small", .receive = small_receive};
    struct maker *me = state;
    if (msg->kind == ACT_KIND_start)
        me->start = act_now_ns(ctx);
    if (msg->kind == ACT_KIND_stop)
        return;
    struct ball ball = {0, 0};
    for (int i = 0; i < 32 && me->made < me->n; i++) {
        act_id_t id = act_spawn_here(ctx, &small_kind, &me->states[me->made++]);
        act_send(ctx, id, K_CREATE, &ball, sizeof ball);
    }
    if (me->made < me->n) {
        act_send(ctx, act_self(ctx), K_CREATE, &ball, sizeof ball);
    } else {
        me->end = act_now_ns(ctx);
        act_rt_stop(act_rt_of(ctx));
    }
}

static double actor_create(void *arg) {
    static const struct act_kind maker_kind = {.name = "maker", .receive = maker_receive};
    uint64_t n = *(uint64_t *)arg;
    struct act_rt *rt = open_rt(ACT_PORT_THREADS, 1, (uint32_t)n + 16);
    struct maker maker = {.n = n, .states = calloc(n, sizeof(struct small))};
    if (maker.states == NULL)
        abort();
    act_spawn(rt, &maker_kind, &maker, 0);
    act_rt_run(rt);
    act_rt_close(rt);
    for (uint64_t i = 0; i < n; i++)
        if (maker.states[i].got != 1)
            abort();
    free(maker.states);
    return (double)(maker.end - maker.start) / (double)n;
}

static uint64_t resident_bytes(void) {
    unsigned long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    if (f != NULL)
        fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A crowd that waits, a timer of half a second, and the processor time that passes meanwhile. */
struct crowd {
    uint64_t n;
    uint64_t bytes, cpu_ns, real_ns;
    struct small *states;
};

static uint64_t cpu_ns(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

static void crowd_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const struct act_kind small_kind = {.name = "small", .receive = small_receive};
    struct crowd *me = state;
    if (msg->kind == ACT_KIND_start) {
        me->bytes = resident_bytes();
        for (uint64_t i = 0; i < me->n; i++)
            act_spawn_here(ctx, &small_kind, &me->states[i]);
        act_timer_arm(ctx, 100000000, 1);
    } else if (msg->kind == ACT_KIND_timer) {
        struct act_timer_msg t;
        memcpy(&t, msg->body, sizeof t);
        if (t.cookie == 1) {
            me->bytes = resident_bytes() - me->bytes;
            me->cpu_ns = cpu_ns();
            me->real_ns = act_now_ns(ctx);
            act_timer_arm(ctx, 500000000, 2);
        } else {
            me->cpu_ns = cpu_ns() - me->cpu_ns;
            me->real_ns = act_now_ns(ctx) - me->real_ns;
            act_rt_stop(act_rt_of(ctx));
        }
    }
}

static void crowd_run(struct crowd *me) {
    static const struct act_kind crowd_kind = {.name = "crowd", .receive = crowd_receive};
    struct act_rt *rt = open_rt(ACT_PORT_THREADS, 2, (uint32_t)me->n + 16);
    me->states = calloc(me->n, sizeof(struct small));
    if (me->states == NULL)
        abort();
    act_spawn(rt, &crowd_kind, me, 0);
    act_rt_run(rt);
    act_rt_close(rt);
    free(me->states);
}

/* Opening and closing a small simulation, as seeds do. */
static double sim_open(void *arg) {
    uint64_t n = *(uint64_t *)arg;
    struct act_rt_config config = {
        .port = ACT_PORT_SIM, .actors_max = 300, .messages_max = 4096, .timers_max = 600};
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        struct act_rt *rt;
        config.seed = i;
        if (act_rt_open(&config, &rt, NULL) != STATUS_OK)
            abort();
        struct player a = {.stops = true};
        act_spawn(rt, &player_kind, &a, 0);
        act_rt_run(rt);
        act_rt_close(rt);
    }
    return (double)(now_ns() - start) / (double)n;
}

/* One row: actors and the bare loop in turn, RUNS times; the medians of both and of the ratio. */
static void row(const char *name, double (*run)(void *), void *arg, double (*bare)(void *),
                void *bare_arg, const char *beside, double goal) {
    double ns[RUNS], ratio[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double b = bare(bare_arg);
        ns[i] = run(arg);
        ratio[i] = ns[i] / b;
    }
    qsort(ns, RUNS, sizeof ns[0], compare);
    qsort(ratio, RUNS, sizeof ratio[0], compare);
    double r = ratio[RUNS / 2];
    printf("%-44s %9.1f ns %8.2fx %-12s", name, ns[RUNS / 2], r, beside);
    if (goal > 0)
        printf(" goal %.1fx: %s", goal, r <= goal ? "met" : "MISSED");
    printf("\n");
    fflush(stdout);
}

int main(void) {
    uint64_t n = 1000000, few = 100000, crowd_n = 100000, opens = 5000;
    /* First, while the heap holds no freed pages that would hide what it takes. */
    struct crowd crowd = {.n = crowd_n};
    crowd_run(&crowd);
    printf("bare loop, ns a message: %.1f with malloc and free of each (malloc), %.1f with a free "
           "list (pooled)\nbare create + first message: %.1f ns (create)\n",
           median(bare_pingpong_malloc, &n), median(bare_pingpong, &n), median(bare_create, &few));
    struct pingpong p = {.n = n, .port = ACT_PORT_THREADS, .workers = 1};
    row("ping-pong, one thread", actor_pingpong, &p, bare_pingpong_malloc, &n, "malloc", 2.2);
    row("ping-pong, one thread", actor_pingpong, &p, bare_pingpong, &n, "pooled", 0);
    p.port = ACT_PORT_SIM;
    row("ping-pong, simulation (a delivery)", actor_pingpong, &p, bare_pingpong_malloc, &n,
        "malloc", 0);
    p = (struct pingpong){.n = 200000, .workers = 2, .second = 1, .expects = true};
    row("ping-pong, two threads, spinning (one way)", actor_pingpong, &p, bare_pingpong_malloc, &n,
        "malloc", 0);
    p.expects = false;
    p.n = 20000;
    row("ping-pong, two threads, parking (one way)", actor_pingpong, &p, bare_pingpong_malloc, &n,
        "malloc", 0);
    struct many m = {.n = n, .producers = 1};
    row("1 producer to one", actor_many, &m, bare_pingpong_malloc, &n, "malloc", 0);
    m.producers = 3;
    row("3 producers to one", actor_many, &m, bare_pingpong_malloc, &n, "malloc", 0);
    row("create + first message", actor_create, &few, bare_create, &few, "create", 1.5);
    row("simulation: open, one actor, close", sim_open, &opens, bare_create, &few, "create", 0);
    double each = (double)crowd.bytes / (double)crowd_n;
    printf("memory an actor: %.0f bytes (goal 846: %s)\n", each, each < 846 ? "met" : "MISSED");
    printf("100,000 idle actors, two workers: %.3f %% of one core\n",
           100.0 * (double)crowd.cpu_ns / (double)crowd.real_ns);
    return 0;
}
