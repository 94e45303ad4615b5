/* SPDX-License-Identifier: Apache-2.0
 * A client that runs its calls some at a time.
 */
#include "tests/lanes/engine_calls.h"

#include <string.h>

static char engine_model[4096];

const char *engine_path(void) {
    snprintf(engine_model, sizeof engine_model, "%s/share/fable-5m", test_srcdir());
    return engine_model;
}

static void engine_start(struct act_ctx *ctx, struct client *c, void *user) {
    struct engine_test *t = user;
    while (t->live < t->live_max && t->at < t->n) {
        t->live++;
        client_submit(ctx, c, &t->call[t->at++]);
    }
}

static void engine_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                         uint32_t id) {
    struct engine_test *t = c->driver.user;
    (void)id;
    if (t->cancel_every > 0 && (uint32_t)(call - t->call) % t->cancel_every == 0 &&
        call->n_new == 1 + (uint32_t)(call - t->call) % 7)
        client_cancel(ctx, c, call);
}

/* A call's pages are the memory's when nothing runs, and on their way until the flush ends. */
static void engine_settles(struct act_ctx *ctx, struct client *c, const struct act_msg *msg) {
    struct engine_test *t = c->driver.user;
    if (msg->kind == ses_KIND_flushed) {
        engine_start(ctx, c, t);
    } else if (msg->kind == lane_KIND_stats_are) {
        struct lane_stats_are are;
        memcpy(&are, msg->body, sizeof are);
        if (are.counters->running > 0)
            ACT_SEND(ctx, lane_engine_planner(t->engine), lane, stats, .token = 0);
        else
            ACT_SEND(ctx, lane_engine_memory(t->engine), ses, flush, .token = 0);
    }
}

static void engine_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct engine_test *t = c->driver.user;
    (void)call;
    t->live--;
    if (t->settle && t->at < t->n)
        ACT_SEND(ctx, lane_engine_planner(t->engine), lane, stats, .token = 0);
    else
        engine_start(ctx, c, t);
    if (t->live == 0 && t->at == t->n)
        client_stop(ctx);
}

struct engine_test *engine_open(const struct lane_engine_config *config) {
    struct engine_test *t = calloc(1, sizeof *t);
    struct status_note note;
    ck_assert_msg(lane_engine_open(config, &t->engine, &note) == STATUS_OK, "%s", note.text);
    return t;
}

struct client_call *engine_add(struct engine_test *t, const uint32_t *prompt, uint32_t n,
                               uint32_t max) {
    struct client_call *c = &t->call[t->n];
    client_call_init(c);
    c->ids = t->ids[t->n];
    c->hashes = t->hash[t->n];
    t->n++;
    c->request.prompt = prompt;
    c->request.n_prompt = n;
    c->request.max_tokens = max;
    c->request.sampling.flags = KRN_DRAW_HASH_LOGITS;
    return c;
}

/* Runs the calls, live_max at a time, and closes the engine after its books were checked. */
void engine_run(struct engine_test *t, uint32_t live_max) {
    t->live_max = live_max;
    struct client_driver d = {.start = engine_start,
                              .token = engine_token,
                              .over = engine_over,
                              .other = engine_settles,
                              .user = t};
    client_open(&t->client, t->engine, &d);
    client_run(&t->client);
    struct status_note note;
    ck_assert_msg(lane_engine_audit(t->engine, &note), "%s", note.text);
    lane_engine_close(t->engine);
    t->engine = NULL;
}

void engine_free(struct engine_test *t) {
    for (uint32_t i = 0; i < t->n; i++)
        client_call_free(&t->call[i]);
    free(t);
}

void engine_fill(uint32_t *ids, uint32_t n, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = 5 + (uint32_t)(seed >> 33) % 4000;
    }
}

struct lane_engine_config engine_config(void) {
    return (struct lane_engine_config){.model_path = engine_path(), .lanes_max = 16};
}

/* Tokens and logits rows of call i of a equal those of call j of b. */
void engine_same(const struct engine_test *a, uint32_t i, const struct engine_test *b, uint32_t j) {
    const struct client_call *x = &a->call[i], *y = &b->call[j];
    ck_assert_uint_eq(x->n_new, y->n_new);
    ck_assert_int_eq(x->end, y->end);
    ck_assert_mem_eq(x->ids, y->ids, x->n_new * sizeof(uint32_t));
    ck_assert_mem_eq(x->hashes, y->hashes, x->n_new * sizeof(uint64_t));
}
