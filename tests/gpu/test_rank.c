/* SPDX-License-Identifier: Apache-2.0
 * The rank actor over a device whose streams run by themselves: work of one stream keeps its order,
 * work of two has none but what events give. So a page that is copied before its step wrote it, or
 * read before it was copied back, is a wrong number (I5 of gpu/protocol.h).
 */
#include <string.h>

#include "gpu/protocol.h"
#include "gpu/rank.h"
#include "tests/harness.h"

enum { PAGES = 8, SLOTS = 4, OPS = 64, STEPS = 3, SEEDS = 300 };

enum op_kind { OP_WRITE, OP_READ, OP_OUT, OP_IN, OP_RECORD, OP_WAIT };

struct op {
    enum op_kind kind;
    uint64_t value, *host; /* of a step: the plan; of an event: which */
    uint32_t page;
};

struct slow {
    struct gpu_device device;
    struct op queue[GPU_STREAMS][OPS];
    uint32_t begun[GPU_STREAMS], done[GPU_STREAMS];
    bool reached[OPS * GPU_STREAMS];
    gpu_event_t events, step_done[STEPS + 1];
    uint64_t page[PAGES], read[STEPS + 1], random;
    uint32_t steps, answered;
    struct gpu_result *result[STEPS + 1];
};

static uint64_t next(struct slow *s) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return s->random >> 33;
}

static void push(struct slow *s, enum gpu_stream stream, struct op op) {
    ck_assert_uint_lt(s->begun[stream], OPS);
    s->queue[stream][s->begun[stream]++] = op;
}

static void run_op(struct slow *s, const struct op *op) {
    switch (op->kind) {
    case OP_WRITE:
        s->page[op->page] = op->value;
        break;
    case OP_READ:
        s->read[op->value] = s->page[op->page];
        break;
    case OP_OUT:
        *op->host = s->page[op->page];
        break;
    case OP_IN:
        s->page[op->page] = *op->host;
        break;
    case OP_RECORD:
        s->reached[op->value] = true;
        break;
    case OP_WAIT:
        break;
    }
}

/* Up to n pieces of work of any streams. */
static void go_on(struct slow *s, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint32_t stream = (uint32_t)(next(s) % GPU_STREAMS);
        if (s->done[stream] == s->begun[stream])
            continue;
        const struct op *op = &s->queue[stream][s->done[stream]];
        if (op->kind == OP_WAIT && !s->reached[op->value])
            continue;
        run_op(s, op);
        s->done[stream]++;
    }
}

static gpu_event_t slow_record(struct gpu_device *d, enum gpu_stream stream) {
    struct slow *s = (struct slow *)d;
    push(s, stream, (struct op){.kind = OP_RECORD, .value = ++s->events});
    return s->events;
}

static void slow_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event) {
    push((struct slow *)d, stream, (struct op){.kind = OP_WAIT, .value = event});
}

static bool slow_reached(struct gpu_device *d, gpu_event_t event) {
    struct slow *s = (struct slow *)d;
    go_on(s, next(s) % 3);
    return s->reached[event];
}

/* Plan n writes page n, and plan 3 reads page 4. */
static void slow_step(struct gpu_device *d, const struct gpu_plan *plan, struct gpu_result *r) {
    struct slow *s = (struct slow *)d;
    uint32_t n = (uint32_t)plan->number;
    gpu_result_begin(r, plan);
    if (n == 3)
        push(s, GPU_STREAM_COMPUTE, (struct op){.kind = OP_READ, .value = n, .page = 4});
    push(s, GPU_STREAM_COMPUTE, (struct op){.kind = OP_WRITE, .value = n, .page = n});
    s->step_done[++s->steps] = slow_record(d, GPU_STREAM_COMPUTE);
}

static enum gpu_poll slow_poll(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns) {
    struct slow *s = (struct slow *)d;
    (void)now_ns;
    *again_ns = 1000;
    if (!slow_reached(d, s->step_done[s->answered + 1]))
        return GPU_BUSY;
    s->answered++;
    return GPU_DONE;
}

static enum status slow_page_read(struct gpu_device *d, uint32_t page, void *host) {
    if (page >= PAGES)
        return STATUS_DEVICE;
    push((struct slow *)d, GPU_STREAM_OUT, (struct op){.kind = OP_OUT, .host = host, .page = page});
    return STATUS_OK;
}

static enum status slow_page_write(struct gpu_device *d, uint32_t page, const void *host) {
    push((struct slow *)d, GPU_STREAM_IN,
         (struct op){.kind = OP_IN, .host = (uint64_t *)(uintptr_t)host, .page = page});
    return STATUS_OK;
}

static const struct gpu_device_ops slow_ops = {.name = "slow",
                                               .step = slow_step,
                                               .poll = slow_poll,
                                               .page_read = slow_page_read,
                                               .page_write = slow_page_write,
                                               .record = slow_record,
                                               .wait = slow_wait,
                                               .reached = slow_reached};

/* ---- who asks ---- */

struct asker {
    act_id_t rank;
    struct gpu_round *round[STEPS];
    uint64_t host[SLOTS], digest;
    uint32_t n_sent, n_stepped, n_moved;
};

static void ask_step(struct act_ctx *ctx, struct asker *a) {
    struct gpu_round *round = a->round[a->n_sent];
    gpu_plan_begin(round->plan, 0, 0, 0, 0, 0, 0, 0, 0);
    round->plan->world = 1;
    gpu_plan_seal(round->plan, ++a->n_sent, a->digest);
    a->digest = round->plan->digest;
    ACT_SEND(ctx, a->rank, gpu, step, .round = round);
}

static void ask_move(struct act_ctx *ctx, struct asker *a, uint32_t page, uint32_t slot, bool in) {
    ACT_SEND(ctx, a->rank, gpu, move, .asker = act_self(ctx), .page = page, .slot = slot,
             .to_device = in);
}

/* Page 1 goes out behind the step that writes it, comes back as page 4 before the step that reads
 * it is asked for, and then another goes out while all ends. */
static void asker_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct asker *a = state;
    struct gpu_moved moved;
    switch (msg->kind) {
    case ACT_KIND_start:
        ask_step(ctx, a);
        ask_move(ctx, a, 1, 2, false);
        ask_step(ctx, a);
        break;
    case gpu_KIND_moved:
        memcpy(&moved, msg->body, sizeof moved);
        ck_assert_int_eq((int)moved.status, STATUS_OK);
        if (++a->n_moved > 1)
            break;
        ck_assert_uint_eq(moved.slot, 2);
        ck_assert_uint_eq(a->host[2], 1);
        ask_move(ctx, a, 4, 2, true);
        break;
    case gpu_KIND_stepped:
        a->n_stepped++;
        if (a->n_stepped == STEPS) {
            ask_move(ctx, a, 3, 3, false);
            act_timer_arm(ctx, 1000, 0); /* the rank has heard of it by then */
        }
        break;
    case ACT_KIND_timer:
        act_rt_stop(act_rt_of(ctx));
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
    if (a->n_sent == 2 && a->n_stepped > 0 && a->n_moved > 1) /* page 4 is there */
        ask_step(ctx, a);
}

static const struct act_kind asker_kind = {.name = "asker", .receive = asker_receive};

START_TEST(test_moves_keep_their_order) {
    const struct act_rt_config rt_config = {.port = ACT_PORT_SIM,
                                            .workers = 1,
                                            .actors_max = 8,
                                            .messages_max = 64,
                                            .timers_max = 16,
                                            .seed = (uint64_t)_i};
    const struct gpu_limits limits = {.rows = 1, .seqs = 1, .draws = 1, .vocab = 16};
    struct slow s = {.device = {.ops = &slow_ops, .page_bytes = sizeof(uint64_t)},
                     .random = (uint64_t)_i};
    struct asker a = {.n_sent = 0};
    struct act_rt *rt;
    struct gpu_rank *rank;
    ck_assert_int_eq(act_rt_open(&rt_config, &rt, NULL), STATUS_OK);
    for (uint32_t i = 0; i < STEPS; i++)
        ck_assert_int_eq(gpu_round_new(&limits, 1, &a.round[i]), STATUS_OK);
    const struct gpu_rank_config config = {.device = &s.device,
                                           .host = (unsigned char *)a.host,
                                           .host_bytes = sizeof(uint64_t),
                                           .n_host = SLOTS,
                                           .world = 1};
    ck_assert_int_eq(gpu_rank_open(&config, &rank), STATUS_OK);
    a.rank = act_spawn(rt, &gpu_rank_kind, rank, 0);
    gpu_rank_wire(rank, act_spawn(rt, &asker_kind, &a, 0));
    act_rt_run(rt);
    ck_assert_uint_eq(a.n_stepped, STEPS);
    ck_assert_uint_eq(s.read[3], 1);
    ck_assert_uint_eq(a.host[3], 3); /* it ended when its copy had */
    for (uint32_t i = 0; i < GPU_STREAMS; i++)
        ck_assert_uint_eq(s.done[i], s.begun[i]);
    act_rt_close(rt);
    gpu_rank_close(rank);
    for (uint32_t i = 0; i < STEPS; i++)
        gpu_round_free(a.round[i]);
}
END_TEST

/* ---- copies that cannot begin ---- */

struct failing {
    act_id_t rank;
    uint32_t n_ok, n_failed, n_said;
    uint64_t host[SLOTS];
};

static void failing_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    static const uint32_t pages[] = {PAGES, PAGES + 1, 1, PAGES}; /* two fail, one does not, one */
    struct failing *f = state;
    if (msg->kind == ACT_KIND_start) {
        for (uint32_t i = 0; i < sizeof pages / sizeof *pages; i++)
            ACT_SEND(ctx, f->rank, gpu, move, .asker = act_self(ctx), .page = pages[i], .slot = i);
    } else if (msg->kind == gpu_KIND_moved) {
        struct gpu_moved moved;
        memcpy(&moved, msg->body, sizeof moved);
        f->n_ok += moved.status == STATUS_OK;
        f->n_failed += moved.status == STATUS_DEVICE;
        if (f->n_ok + f->n_failed == sizeof pages / sizeof *pages)
            act_rt_stop(act_rt_of(ctx));
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}

static const struct act_kind failing_kind = {.name = "failing", .receive = failing_receive};

static void failing_say(void *self, const char *text) {
    struct failing *f = self;
    f->n_said += strstr(text, "page 8 could not be copied to host memory") != NULL;
}

/* Each is answered, and the first of those that fail in a row is told of. */
START_TEST(test_failed_moves_are_said) {
    const struct act_rt_config rt_config = {.port = ACT_PORT_SIM,
                                            .workers = 1,
                                            .actors_max = 8,
                                            .messages_max = 64,
                                            .timers_max = 16,
                                            .seed = 1};
    struct slow s = {.device = {.ops = &slow_ops, .page_bytes = sizeof(uint64_t)}, .random = 1};
    struct failing f = {.n_ok = 0};
    struct act_rt *rt;
    struct gpu_rank *rank;
    ck_assert_int_eq(act_rt_open(&rt_config, &rt, NULL), STATUS_OK);
    const struct gpu_rank_config config = {.device = &s.device,
                                           .host = (unsigned char *)f.host,
                                           .host_bytes = sizeof(uint64_t),
                                           .n_host = SLOTS,
                                           .world = 1,
                                           .say = failing_say,
                                           .say_self = &f};
    ck_assert_int_eq(gpu_rank_open(&config, &rank), STATUS_OK);
    f.rank = act_spawn(rt, &gpu_rank_kind, rank, 0);
    gpu_rank_wire(rank, act_spawn(rt, &failing_kind, &f, 0));
    act_rt_run(rt);
    ck_assert_uint_eq(f.n_ok, 1);
    ck_assert_uint_eq(f.n_failed, 3);
    ck_assert_uint_eq(f.n_said, 2);
    act_rt_close(rt);
    gpu_rank_close(rank);
}
END_TEST

/* ---- copies beside steps ---- */

START_TEST(test_pace) {
    struct gpu_pace p = gpu_pace_begin(10, 400, 1000), free = gpu_pace_begin(0, 0, 0);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1000), 0);
    gpu_pace_took(&p, 390);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1000), 0); /* some is left */
    gpu_pace_took(&p, 100);                        /* 90 too much */
    ck_assert_uint_eq(gpu_pace_wait(&p, 1000), 910);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1905), 5);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1909), 1); /* looking often loses nothing */
    ck_assert_uint_eq(gpu_pace_wait(&p, 1910), 0);
    gpu_pace_took(&p, 1);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1910), 10);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1000000), 0); /* no more is saved up than may be */
    gpu_pace_took(&p, 400);
    ck_assert_uint_eq(gpu_pace_wait(&p, 1000000), 10);
    gpu_pace_took(&free, 1u << 30);
    ck_assert_uint_eq(gpu_pace_wait(&free, 1), 0);
}
END_TEST

enum { PACED_PAGES = 1 + GPU_MOVES_MAX, PACED_STEPS = 400 };
static const uint64_t PACED_STEP_NS = 100000, PACED_COPY_NS = 1000000;

/* A device whose copies are made at once, and a client that always has a step under way. */
struct paced {
    struct gpu_device device;
    uint64_t page[PACED_PAGES], host[GPU_MOVES_MAX], end_ns, last_ns, digest;
    struct gpu_round *round;
    act_id_t rank;
    uint32_t n_sent, n_moves, n_moved[2], n_beside[2]; /* moved, and before the last step ended */
    bool in, out, stop_early;
};

static void paced_step(struct gpu_device *d, const struct gpu_plan *plan, struct gpu_result *r) {
    (void)d;
    gpu_result_begin(r, plan);
}

static enum gpu_poll paced_poll(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns) {
    const struct paced *p = (struct paced *)d;
    *again_ns = p->end_ns > now_ns ? p->end_ns - now_ns : 0;
    return now_ns < p->end_ns ? GPU_BUSY : GPU_DONE;
}

static enum status paced_read(struct gpu_device *d, uint32_t page, void *host) {
    memcpy(host, &((struct paced *)d)->page[page], sizeof(uint64_t));
    return STATUS_OK;
}

static enum status paced_write(struct gpu_device *d, uint32_t page, const void *host) {
    memcpy(&((struct paced *)d)->page[page], host, sizeof(uint64_t));
    return STATUS_OK;
}

static gpu_event_t paced_record(struct gpu_device *d, enum gpu_stream stream) {
    (void)d;
    (void)stream;
    return 1;
}

static void paced_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event) {
    (void)d;
    (void)stream;
    (void)event;
}

static bool paced_reached(struct gpu_device *d, gpu_event_t event) {
    (void)d;
    return event == 1;
}

static const struct gpu_device_ops paced_ops = {.name = "paced",
                                                .step = paced_step,
                                                .poll = paced_poll,
                                                .page_read = paced_read,
                                                .page_write = paced_write,
                                                .record = paced_record,
                                                .wait = paced_wait,
                                                .reached = paced_reached};

static void paced_next(struct act_ctx *ctx, struct paced *p) {
    gpu_plan_begin(p->round->plan, 0, 0, 0, 0, 0, 0, 0, 0);
    p->round->plan->world = 1;
    gpu_plan_seal(p->round->plan, ++p->n_sent, p->digest);
    p->digest = p->round->plan->digest;
    p->end_ns = act_now_ns(ctx) + PACED_STEP_NS;
    ACT_SEND(ctx, p->rank, gpu, step, .round = p->round);
}

/* The host's slots hold 100, 101, ... and so do the pages. */
static void paced_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct paced *p = state;
    struct gpu_moved moved;
    switch (msg->kind) {
    case ACT_KIND_start:
        paced_next(ctx, p);
        for (uint32_t i = 0; i < GPU_MOVES_MAX; i++) {
            bool in = p->in && (!p->out || i % 2 == 0);
            if (in)
                p->host[i] = 100 + i;
            else
                p->page[1 + i] = 100 + i;
            p->n_moves++;
            ACT_SEND(ctx, p->rank, gpu, move, .asker = act_self(ctx), .page = 1 + i, .slot = i,
                     .to_device = in);
        }
        if (p->stop_early)
            act_rt_stop(act_rt_of(ctx));
        break;
    case gpu_KIND_moved:
        memcpy(&moved, msg->body, sizeof moved);
        ck_assert_int_eq((int)moved.status, STATUS_OK);
        ck_assert_uint_eq(p->host[moved.slot], 100 + moved.slot);
        ck_assert_uint_eq(p->page[1 + moved.slot], 100 + moved.slot);
        bool in = p->in && (!p->out || moved.slot % 2 == 0);
        p->n_moved[in]++;
        p->n_beside[in] += p->n_sent < PACED_STEPS;
        p->last_ns = act_now_ns(ctx);
        break;
    case gpu_KIND_stepped:
        if (p->n_sent < PACED_STEPS && !p->stop_early)
            paced_next(ctx, p);
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
    if (p->n_moved[0] + p->n_moved[1] == GPU_MOVES_MAX && p->n_sent == PACED_STEPS)
        act_rt_stop(act_rt_of(ctx));
}

static const struct act_kind paced_kind = {.name = "paced", .receive = paced_receive};

static void run_paced(struct paced *p, uint32_t share) {
    const struct act_rt_config rt_config = {.port = ACT_PORT_SIM,
                                            .workers = 1,
                                            .actors_max = 8,
                                            .messages_max = 256,
                                            .timers_max = 16,
                                            .seed = 1};
    const struct gpu_limits limits = {.rows = 1, .seqs = 1, .draws = 1, .vocab = 16};
    struct act_rt *rt;
    struct gpu_rank *rank;
    p->device = (struct gpu_device){.ops = &paced_ops, .page_bytes = sizeof(uint64_t)};
    ck_assert_int_eq(act_rt_open(&rt_config, &rt, NULL), STATUS_OK);
    ck_assert_int_eq(gpu_round_new(&limits, 1, &p->round), STATUS_OK);
    const struct gpu_rank_config config = {.device = &p->device,
                                           .host = (unsigned char *)p->host,
                                           .host_bytes = sizeof(uint64_t),
                                           .n_host = GPU_MOVES_MAX,
                                           .copy_share = share,
                                           .copy_ns = PACED_COPY_NS,
                                           .world = 1};
    ck_assert_int_eq(gpu_rank_open(&config, &rank), STATUS_OK);
    p->rank = act_spawn(rt, &gpu_rank_kind, rank, 0);
    gpu_rank_wire(rank, act_spawn(rt, &paced_kind, p, 0));
    act_rt_run(rt);
    act_rt_close(rt);
    gpu_rank_close(rank);
    gpu_round_free(p->round);
}

/* 400 steps are 40 ms: 4 copies of a millisecond were saved up, and one in ten is earned. Then
 * nothing steps, and the rest comes at once. */
START_TEST(test_copies_keep_to_their_share) {
    struct paced in = {.in = true}, out = {.out = true}, both = {.in = true, .out = true};
    struct paced all = {.in = true};
    run_paced(&in, 10);
    ck_assert_uint_ge(in.n_beside[1], 7);
    ck_assert_uint_le(in.n_beside[1], 9);
    ck_assert_uint_eq(in.n_moved[1], GPU_MOVES_MAX);
    ck_assert_uint_lt(in.last_ns, PACED_STEPS * PACED_STEP_NS + 2000000);
    run_paced(&out, 10); /* one in three */
    ck_assert_uint_ge(out.n_beside[0], 16);
    ck_assert_uint_le(out.n_beside[0], 18);
    ck_assert_uint_eq(out.n_moved[0], GPU_MOVES_MAX);
    run_paced(&both, 10); /* neither takes of the other's */
    ck_assert_uint_ge(both.n_beside[0], 16);
    ck_assert_uint_ge(both.n_beside[1], 7);
    ck_assert_uint_le(both.n_beside[1], 9);
    run_paced(&all, 0);
    ck_assert_uint_eq(all.n_beside[1], GPU_MOVES_MAX);
    ck_assert_uint_lt(all.last_ns, PACED_STEP_NS);
}
END_TEST

/* Copies that wait when the runtime stops are made before the rank ends. */
START_TEST(test_waiting_copies_are_made_before_the_end) {
    struct paced p = {.out = true, .stop_early = true};
    run_paced(&p, 10);
    for (uint32_t i = 0; i < GPU_MOVES_MAX; i++)
        ck_assert_uint_eq(p.host[i], 100 + i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/rank");
    TCase *tc = tcase_create("rank");
    tcase_add_loop_test(tc, test_moves_keep_their_order, 1, SEEDS);
    tcase_add_test(tc, test_failed_moves_are_said);
    tcase_add_test(tc, test_pace);
    tcase_add_test(tc, test_copies_keep_to_their_share);
    tcase_add_test(tc, test_waiting_copies_are_made_before_the_end);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
