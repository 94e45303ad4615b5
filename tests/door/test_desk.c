/* SPDX-License-Identifier: Apache-2.0
 * The desk in the deterministic simulation, without sockets: random commands from many clients over
 * small limits and virtual time. Every call is answered exactly once, every token is the right one,
 * the books balance after every step, and after a drain nothing lives.
 */
#include <stdio.h>
#include <string.h>

#include "tests/door/fixture.h"
#include "tests/harness.h"

enum { NAMES = 24, STEPS = 400, SEEDS = 150, HEADERS = 4096 };
enum { COOKIE_STEP = 7 };

struct booth {
    struct door_desk desk;
    uint64_t random;
    uint32_t steps, calls, answers, ended[NAMES], gone[NAMES];
    bool waiting[HEADERS]; /* by the number in the return address */
    uint32_t last_header;
    bool draining;
};

static uint32_t pick(struct booth *b, uint32_t n) {
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->random >> 33) % n;
}

/* The prompt of a name: its script, then its number. */
static uint32_t script_of(uint32_t k) {
    static const uint32_t scripts[] = {FAKE_REFUSE, FAKE_HOLD, FAKE_FAIL, FAKE_QUEUED,
                                       FAKE_LATE,   FAKE_SLOW, 20,        30};
    return scripts[k % 8];
}

static struct door_header header_of(uint32_t number) {
    struct door_header h = {.n = 8};
    memcpy(h.bytes, &number, sizeof number);
    return h;
}

/* One answer: valid, about a call that waited for it, with the right tokens. */
static void check_answer(struct booth *b, const struct door_header *to) {
    uint32_t number, k = 0;
    json_error_t error;
    memcpy(&number, to->bytes, sizeof number);
    ck_assert(b->waiting[number]);
    b->waiting[number] = false;
    b->answers++;
    json_t *reply = json_loadb(b->desk.out.buf, b->desk.out.n, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(reply != NULL, "%s", error.text);
    ck_assert_int_eq(reply_ok(reply), json_object_get(reply, "error") == NULL);
    const char *name = json_string_value(json_object_get(reply, "name"));
    const json_t *events = json_object_get(reply, "events"), *e;
    if (name != NULL && events != NULL) {
        ck_assert_int_eq(sscanf(name, "n%u", &k), 1);
        size_t i, n = json_array_size(events);
        json_array_foreach((json_t *)events, i, e) {
            const char *type = json_string_value(json_object_get(e, "type"));
            if (strcmp(type, "token") == 0)
                ck_assert_int_eq(json_integer_value(json_object_get(e, "id")),
                                 fake_token(script_of(k) + k, (uint32_t)json_integer_value(
                                                                  json_object_get(e, "index"))));
            if (strcmp(type, "ended") == 0)
                ck_assert(i == n - 1 && json_is_false(json_object_get(reply, "more")));
        }
    }
    json_decref(reply);
}

static void call(struct booth *b, struct act_ctx *ctx, const char *text, uint32_t number) {
    struct door_header to = header_of(number);
    bool repeat = b->waiting[number];
    b->calls += !repeat;
    b->waiting[number] = true;
    if (door_desk_receive(&b->desk, ctx, &to, text, strlen(text))) {
        ck_assert(!repeat); /* an answer that is under way is not given twice */
        check_answer(b, &to);
    }
}

static void one_step(struct booth *b, struct act_ctx *ctx) {
    char text[256];
    uint32_t k = pick(b, NAMES), number = b->last_header;
    if (pick(b, 10) != 0 || number == 0)
        number = ++b->last_header;
    ck_assert_uint_lt(number, HEADERS);
    switch (pick(b, 9)) {
    case 0:
    case 1:
    case 2:
        snprintf(text, sizeof text,
                 "{\"cmd\":\"submit\",\"name\":\"n%u\",\"prompt_ids\":[%u,%u],\"max_tokens\":%u,"
                 "\"idle_cancel_ms\":%u}",
                 k, script_of(k), k, 5 + 15 * k + (pick(b, 20) == 0), 40 * (k % 3));
        break;
    case 3:
        snprintf(text, sizeof text, "{\"cmd\":\"cancel\",\"name\":\"n%u\"}", k);
        break;
    case 4:
        snprintf(text, sizeof text, "{\"cmd\":\"stats\"}");
        break;
    case 5:
        snprintf(text, sizeof text, "{\"cmd\":\"sessions\",\"from\":%u}", pick(b, 8));
        break;
    default:
        snprintf(
            text, sizeof text,
            "{\"cmd\":\"read\",\"name\":\"n%u\",\"cursor\":%u,\"wait_ms\":%u,\"max_events\":%u}", k,
            pick(b, 5), pick(b, 300), 1 + pick(b, 40));
        break;
    }
    if (door_desk_may_receive(&b->desk))
        call(b, ctx, text, number);
}

/* Sends some of the answers that are ready, in turn or out of it. */
static void send_some(struct booth *b, struct act_ctx *ctx, uint32_t n) {
    for (; n > 0 && door_desk_ready(&b->desk) != NULL; n--) {
        if (pick(b, 4) == 0)
            door_desk_later(&b->desk);
        struct door_header to = *door_desk_ready(&b->desk);
        door_desk_answer(&b->desk, ctx);
        check_answer(b, &to);
    }
}

static void booth_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct booth *b = state;
    struct status_note note;
    if (msg->kind == ACT_KIND_start) {
        act_timer_arm(ctx, 1000000, COOKIE_STEP);
    } else if (!door_desk_message(&b->desk, ctx, msg) && msg->kind == ACT_KIND_timer) {
        for (uint32_t i = pick(b, 4); i > 0; i--)
            one_step(b, ctx);
        send_some(b, ctx, pick(b, 4));
        if (++b->steps == STEPS) {
            b->draining = true;
            door_desk_drain(&b->desk, ctx, 50000000);
        }
        /* A submit that waits for its planner is let go by the next question for stats. */
        if (b->draining)
            call(b, ctx, "{\"cmd\":\"stats\"}", HEADERS - 1 - b->steps % 256);
        if (!b->draining || !b->desk.drained)
            act_timer_arm(ctx, 1000000 + pick(b, 9000000), COOKIE_STEP);
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
    if (b->draining)
        send_some(b, ctx, UINT32_MAX);
    ck_assert_msg(door_desk_audit(&b->desk, &note), "%s", note.text);
}

static const struct act_kind booth_kind = {.name = "booth", .receive = booth_receive};

static struct booth booth;
static struct fake_planner planner;
static struct door_desk_counts counts; /* of the last run */

static uint64_t run_seed(uint64_t seed) {
    struct act_rt_config rc = {.port = ACT_PORT_SIM,
                               .workers = 1,
                               .actors_max = 8,
                               .messages_max = 4096,
                               .timers_max = 4096,
                               .seed = seed,
                               .sim_priority = seed % 2 == 1};
    struct act_rt *rt;
    struct status_note note;
    memset(&booth, 0, sizeof booth);
    memset(&planner, 0, sizeof planner);
    ck_assert_int_eq(act_rt_open(&rc, &rt, &note), STATUS_OK);
    struct door_desk_config c = {.context = FAKE_CONTEXT,
                                 .vocab = FAKE_VOCAB,
                                 .live_max = 6,
                                 .ended_max = 4,
                                 .waits_max = 1,
                                 .keep_ns = 300000000,
                                 .log_bytes = 40 * DOOR_CHUNK_BYTES,
                                 .sampling = {.top_p = 1, .repetition = 1}};
    c.planner = act_spawn(rt, &fake_planner_kind, &planner, 0);
    ck_assert_int_eq(door_desk_open(&booth.desk, &c, &note), STATUS_OK);
    booth.random = seed;
    ck_assert_uint_ne(act_spawn(rt, &booth_kind, &booth, 0), 0);
    act_rt_run(rt);
    ck_assert_msg(booth.desk.drained, "seed %llu: not drained", (unsigned long long)seed);
    ck_assert_uint_eq(booth.desk.table.live.n, 0);
    ck_assert_uint_eq(booth.desk.waits.n, 0);
    ck_assert_uint_eq(booth.desk.stages_used, 0);
    ck_assert_uint_eq(booth.calls, booth.answers);
    ck_assert_uint_gt(booth.desk.counts.submits, 10);
    uint64_t trace = act_sim_trace(rt);
    act_rt_close(rt);
    counts = booth.desk.counts;
    door_desk_close(&booth.desk);
    return trace;
}

START_TEST(test_seeds) {
    uint64_t resends = 0, repeated = 0, idle = 0, expired = 0, keepalives = 0, refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
        const struct door_desk_counts *c = &counts;
        resends += c->resends;
        repeated += c->repeated;
        idle += c->idle_cancels;
        expired += c->expired;
        keepalives += c->empty_reads;
        refused += c->waits_refused;
    }
    /* What the scenario is for did happen. */
    ck_assert(resends > 0 && repeated > 0 && idle > 0);
    ck_assert_uint_gt(expired, 0);
    ck_assert_uint_gt(keepalives, 0);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(test_same_trace) {
    for (uint64_t seed = 1; seed <= 5; seed++)
        ck_assert_uint_eq(run_seed(seed), run_seed(seed));
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("desk");
    TCase *t = tcase_create("desk");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_seeds);
    tcase_add_test(t, test_same_trace);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
