/* SPDX-License-Identifier: Apache-2.0
 * Runs bench's experiments: calls submitted at once, what comes back timed.
 */
#include "lanes/programs/bench.h"
#include "lanes/programs/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint32_t bench_id(struct bench *b) {
    b->rng += 0x9e3779b97f4a7c15u;
    uint64_t z = b->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % lane_engine_vocab(b->engine));
}

static void bench_call(struct bench *b, uint32_t lane, uint32_t n_prompt, uint32_t n_new,
                       uint32_t flags, bool fresh) {
    struct client_call *c = &b->call[lane];
    if (b->fixed) /* a lane's prompts begin alike, however long they are */
        b->rng = b->seed + ((uint64_t)lane + 1) * 0x2545f4914f6cdd1du;
    if (fresh)
        for (uint32_t i = 0; i < n_prompt; i++)
            b->prompt[lane][i] = bench_id(b);
    c->request.prompt = b->prompt[lane];
    c->request.n_prompt = n_prompt;
    c->request.max_tokens = n_new;
    c->request.flags = LANE_NO_TEXT | LANE_IGNORE_EOS | flags;
    c->ids = b->ids[lane];
}

static void bench_begin(struct act_ctx *ctx, struct bench *b) {
    const uint32_t alone = LANE_NO_REUSE | LANE_NO_KEEP;
    struct bench_experiment *x = &b->list[b->at];
    b->over = b->ready = b->reached = b->steps = 0;
    b->live = x->kind == BENCH_DECODE || x->kind == BENCH_KEEP ? x->size : 1;
    b->all_ns = b->end_ns = 0;
    if (b->progress)
        fprintf(stderr, "\r\033[Kbench %u of %u", b->at + 1, b->n);
    for (uint32_t i = 0; i < b->live; i++) {
        switch (x->kind) {
        case BENCH_DECODE:
            bench_call(b, i, x->prompt, x->n_new, x->resumes ? LANE_NO_KEEP : alone, true);
            break;
        case BENCH_KEEP:
            bench_call(b, i, x->prompt, x->n_new, 0, true);
            break;
        case BENCH_TTFT_COLD:
            bench_call(b, i, x->size, 1, 0, true);
            break;
        case BENCH_TTFT_RESUMED: /* the prompt that TTFT_COLD just left in memory */
            bench_call(b, i, x->size, 1, 0, false);
            break;
        default:
            bench_call(b, i, x->size, 1, alone, true);
        }
        client_submit(ctx, &b->client, &b->call[i]);
    }
}

/* All lanes have two tokens: from here on they decode together. */
static void bench_all(struct bench *b, uint32_t n_new, uint64_t now) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->live; i++) {
        b->from[i] = b->call[i].n_new;
        most = b->from[i] > most ? b->from[i] : most;
    }
    b->steps = n_new - most;
    b->all_ns = now;
    b->kernel_ns = lane_engine_counters(b->engine)->kernel_ns_total;
}

static void bench_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                        uint32_t id) {
    (void)id;
    struct bench *b = c->driver.user;
    const struct bench_experiment *x = &b->list[b->at];
    if (x->kind != BENCH_DECODE || b->end_ns != 0)
        return;
    if (b->all_ns == 0) {
        b->ready += call->n_new == 2;
        if (b->ready == b->live)
            bench_all(b, x->n_new, act_now_ns(ctx));
        return;
    }
    b->reached += call->n_new == b->from[call - b->call] + b->steps;
    if (b->reached < b->live)
        return;
    b->end_ns = act_now_ns(ctx);
    b->kernel_ns = lane_engine_counters(b->engine)->kernel_ns_total - b->kernel_ns;
}

static enum status bench_record_decode(struct bench *b, struct bench_experiment *x) {
    if (b->end_ns == 0 || b->end_ns == b->all_ns)
        return status_say(&b->note, STATUS_BAD_REQUEST,
                          "%u lanes never decoded together within %u tokens each: take fewer "
                          "--lanes or a longer --context",
                          x->size, x->n_new);
    double ns = (double)(b->end_ns - b->all_ns);
    x->value[x->n] = (double)b->live * b->steps / (ns * 1e-9);
    x->idle[x->n] = (double)b->kernel_ns < ns ? 1.0 - (double)b->kernel_ns / ns : 0.0;
    return STATUS_OK;
}

static enum status bench_record(struct bench *b) {
    struct bench_experiment *x = &b->list[b->at];
    const struct client_call *c = &b->call[0];
    double first = (double)(c->first_ns - c->submit_ns) * 1e-9;
    uint64_t digest = x->kind + 1;
    for (uint32_t i = 0; i < b->live; i++)
        digest = XXH3_64bits_withSeed(b->ids[i], b->call[i].n_new * sizeof(uint32_t), digest);
    if (b->fixed && x->n > 0 && digest != x->digest)
        return status_say(
            &b->note, STATUS_DESYNC,
            "the same prompts gave other tokens the second time (experiment %u of %u)", b->at + 1,
            b->n);
    x->digest = digest;
    if (x->kind == BENCH_DECODE)
        TRY(bench_record_decode(b, x));
    else
        x->value[x->n] = x->kind == BENCH_COLD || x->kind == BENCH_WARM ? x->size / first : first;
    x->n++;
    return STATUS_OK;
}

static void bench_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct bench *b = c->driver.user;
    if (call->end == LANE_END_FAILED) {
        client_call_say(call, &b->note);
        b->status = call->status;
        client_stop(ctx);
        return;
    }
    if (++b->over < b->live)
        return;
    b->status = bench_record(b);
    /* The whole list, then again: repeats of one thing lie apart, so that drift meets all alike. A
     * resumed run follows its cold one. */
    if (b->status == STATUS_OK && ++b->at == b->n) {
        b->at = 0;
        b->repeats--;
    }
    if (b->status != STATUS_OK || b->repeats == 0) {
        client_stop(ctx);
        return;
    }
    bench_begin(ctx, b);
}

static void bench_start(struct act_ctx *ctx, struct client *c, void *user) {
    (void)c;
    bench_begin(ctx, user);
}

enum status bench_alloc(struct bench *b, uint32_t lanes) {
    CHECK(lanes <= BENCH_LANES_MAX);
    for (; b->lanes < lanes; b->lanes++) {
        uint32_t i = b->lanes;
        client_call_init(&b->call[i]);
        b->prompt[i] = malloc(lane_engine_context(b->engine) * sizeof(uint32_t));
        b->ids[i] = malloc(lane_engine_context(b->engine) * sizeof(uint32_t));
        if (b->prompt[i] == NULL || b->ids[i] == NULL)
            return status_say(&b->note, STATUS_NO_MEMORY, "no memory for prompts");
    }
    return STATUS_OK;
}

void bench_free(struct bench *b) {
    for (uint32_t i = 0; i < BENCH_LANES_MAX; i++) {
        free(b->prompt[i]);
        free(b->ids[i]);
    }
}

enum status bench_run(struct bench *b) {
    struct client_driver driver = {
        .start = bench_start, .token = bench_token, .over = bench_over, .user = b};
    b->at = 0;
    b->status = STATUS_OK;
    client_open(&b->client, b->engine, &driver);
    client_run(&b->client);
    if (b->progress)
        fprintf(stderr, "\r\033[K");
    return b->status;
}

static int bench_less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *value, uint32_t n) {
    CHECK(n > 0);
    qsort(value, n, sizeof value[0], bench_less);
    return value[n / 2];
}

static int bench_less_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool bench_host_us(struct bench *b, uint32_t lanes, double *p50, double *p99) {
    static uint64_t ns[BENCH_SAMPLES];
    uint32_t n = lane_engine_host_samples(b->engine, lanes, ns, BENCH_SAMPLES);
    if (n < 20)
        return false;
    qsort(ns, n, sizeof ns[0], bench_less_u64);
    *p50 = (double)ns[n / 2] / 1e3;
    *p99 = (double)ns[n * 99 / 100] / 1e3;
    return true;
}

enum status bench_write(struct bench *b, const json_t *j, void (*print)(const json_t *j)) {
    const char *path = options_text(&b->o, OPT_json, NULL);
    if (path == NULL || strcmp(path, "-") != 0)
        print(j);
    if (path == NULL)
        return STATUS_OK;
    return output_json(path, j, JSON_INDENT(1) | JSON_PRESERVE_ORDER, &b->note);
}

int64_t bench_peak_bytes(void) {
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    return (int64_t)ru.ru_maxrss * 1024;
}
