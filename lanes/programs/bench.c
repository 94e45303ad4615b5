/* SPDX-License-Identifier: Apache-2.0
 * roundhouse bench: what this machine does with this model. A list of experiments, one after the
 * other on one engine; each is some calls submitted at once. Medians of several runs.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lanes/programs/client.h"
#include "lanes/programs/input.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/options.h"

enum {
    BENCH_LANES_MAX = 8,
    BENCH_DECODE_NEW = 160,
    BENCH_DECODE_PROMPT = 64,
    BENCH_EXPERIMENTS_MAX = 64,
    BENCH_REPEATS_MAX = 9,
    BENCH_SAMPLES = 8192
};

enum bench_kind { BENCH_WARM, BENCH_COLD, BENCH_DECODE, BENCH_TTFT_COLD, BENCH_TTFT_RESUMED };

struct bench_experiment {
    enum bench_kind kind;
    uint32_t size; /* prompt tokens, or lanes */
    uint32_t n;
    double value[BENCH_REPEATS_MAX]; /* tokens/s or seconds */
};

struct bench {
    struct options o;
    struct lane_engine *engine;
    struct client client;
    struct client_call call[BENCH_LANES_MAX];
    uint32_t *prompt[BENCH_LANES_MAX];
    struct bench_experiment list[BENCH_EXPERIMENTS_MAX];
    uint32_t n, at, over, live, repeats;
    /* Decode: tokens made while all lanes were decoding. */
    uint64_t all_ns, end_ns, tokens_all;
    uint64_t rng;
    double load_s; /* to open the engine: read, check, pack, self-test */
    bool progress;
    enum status status;
    struct status_note note;
};

static uint32_t bench_id(struct bench *b) {
    b->rng += 0x9e3779b97f4a7c15u;
    uint64_t z = b->rng;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % lane_engine_vocab(b->engine));
}

static void bench_call(struct bench *b, uint32_t lane, uint32_t n_prompt, uint32_t n_new,
                       bool reuse, bool fresh) {
    struct client_call *c = &b->call[lane];
    if (fresh)
        for (uint32_t i = 0; i < n_prompt; i++)
            b->prompt[lane][i] = bench_id(b);
    c->request.prompt = b->prompt[lane];
    c->request.n_prompt = n_prompt;
    c->request.max_tokens = n_new;
    c->request.flags =
        LANE_NO_TEXT | LANE_IGNORE_EOS | (reuse ? 0u : (uint32_t)(LANE_NO_REUSE | LANE_NO_KEEP));
}

static void bench_begin(struct act_ctx *ctx, struct bench *b) {
    struct bench_experiment *x = &b->list[b->at];
    b->over = 0;
    b->live = x->kind == BENCH_DECODE ? x->size : 1;
    b->all_ns = b->end_ns = b->tokens_all = 0;
    if (b->progress)
        fprintf(stderr, "\r\033[Kbench %u of %u", b->at + 1, b->n);
    for (uint32_t i = 0; i < b->live; i++) {
        switch (x->kind) {
        case BENCH_DECODE:
            bench_call(b, i, BENCH_DECODE_PROMPT, BENCH_DECODE_NEW, false, true);
            break;
        case BENCH_TTFT_COLD:
            bench_call(b, i, x->size, 1, true, true);
            break;
        case BENCH_TTFT_RESUMED: /* the prompt that TTFT_COLD just left in memory */
            bench_call(b, i, x->size, 1, true, false);
            break;
        default:
            bench_call(b, i, x->size, 1, false, true);
        }
        client_submit(ctx, &b->client, &b->call[i]);
    }
}

static void bench_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                        uint32_t id) {
    (void)call;
    (void)id;
    struct bench *b = c->driver.user;
    if (b->list[b->at].kind != BENCH_DECODE || b->end_ns != 0)
        return;
    uint64_t now = act_now_ns(ctx);
    bool all = true, one_done = false;
    for (uint32_t i = 0; i < b->live; i++) {
        all = all && b->call[i].n_new >= 2;
        one_done = one_done || b->call[i].n_new == BENCH_DECODE_NEW;
    }
    if (!all)
        return;
    if (b->all_ns == 0)
        b->all_ns = now;
    else
        b->tokens_all++;
    if (one_done)
        b->end_ns = now;
}

static void bench_record(struct bench *b) {
    struct bench_experiment *x = &b->list[b->at];
    const struct client_call *c = &b->call[0];
    double first = (double)(c->first_ns - c->submit_ns) * 1e-9;
    double value = first;
    if (x->kind == BENCH_COLD || x->kind == BENCH_WARM)
        value = x->size / first;
    if (x->kind == BENCH_DECODE)
        value = (double)b->tokens_all / ((double)(b->end_ns - b->all_ns) * 1e-9);
    x->value[x->n++] = value;
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
    bench_record(b);
    /* The whole list, then again: repeats of one thing lie apart, so that drift meets all alike. A
     * resumed run follows its cold one. */
    if (++b->at == b->n) {
        b->at = 0;
        if (--b->repeats == 0) {
            client_stop(ctx);
            return;
        }
    }
    bench_begin(ctx, b);
}

static void bench_start(struct act_ctx *ctx, struct client *c, void *user) {
    (void)c;
    bench_begin(ctx, user);
}

static void bench_plan(struct bench *b) {
    static const uint32_t cold[] = {512, 2048, 4096};
    static const uint32_t ttft[] = {512, 3000};
    uint32_t most = lane_engine_context(b->engine) - 1;
    b->list[b->n++] =
        (struct bench_experiment){.kind = BENCH_WARM, .size = most < 256 ? most : 256};
    for (uint32_t i = 0; i < 3; i++)
        if (cold[i] <= most || (i > 0 && cold[i - 1] < most))
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_COLD,
                                                        .size = cold[i] <= most ? cold[i] : most};
    if (most > BENCH_DECODE_PROMPT + BENCH_DECODE_NEW)
        for (uint32_t lanes = 1; lanes <= BENCH_LANES_MAX; lanes *= 2)
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_DECODE, .size = lanes};
    for (uint32_t i = 0; i < 2; i++)
        if (ttft[i] <= most) {
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_TTFT_COLD, .size = ttft[i]};
            b->list[b->n++] =
                (struct bench_experiment){.kind = BENCH_TTFT_RESUMED, .size = ttft[i]};
        }
}

static int bench_less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(struct bench_experiment *x) {
    qsort(x->value, x->n, sizeof x->value[0], bench_less);
    return x->value[x->n / 2];
}

static int bench_less_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static json_t *bench_result(struct bench *b) {
    json_t *cold = json_array(), *decode = json_array(), *ttft = json_array(), *host = json_array();
    double cold_s = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        struct bench_experiment *x = &b->list[i];
        double v = bench_median(x);
        if (x->kind == BENCH_COLD)
            json_array_append_new(cold,
                                  json_pack("{s:i, s:f}", "tokens", (int)x->size, "tok_s", v));
        if (x->kind == BENCH_DECODE)
            json_array_append_new(decode,
                                  json_pack("{s:i, s:f}", "lanes", (int)x->size, "tok_s", v));
        if (x->kind == BENCH_TTFT_COLD)
            cold_s = v;
        if (x->kind == BENCH_TTFT_RESUMED)
            json_array_append_new(ttft, json_pack("{s:i, s:f, s:f}", "tokens", (int)x->size,
                                                  "cold_s", cold_s, "resumed_s", v));
    }
    static uint64_t ns[BENCH_SAMPLES];
    for (uint32_t lanes = 1; lanes <= BENCH_LANES_MAX; lanes *= 2) {
        uint32_t n = lane_engine_host_samples(b->engine, lanes, ns, BENCH_SAMPLES);
        qsort(ns, n, sizeof ns[0], bench_less_u64);
        if (n >= 20)
            json_array_append_new(host, json_pack("{s:i, s:f, s:f}", "lanes", (int)lanes, "p50",
                                                  (double)ns[n / 2] / 1e3, "p99",
                                                  (double)ns[n * 99 / 100] / 1e3));
    }
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = cores > 0 ? (uint32_t)cores : 1;
    struct status_note note;
    options_u32(&b->o, OPT_threads, 1, 256, &threads, &note);
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:I, s:s, s:i, s:s, s:I, s:s, s:s}", "load_s", b->load_s, "cold",
        cold, "decode", decode, "ttft", ttft, "host_us", host, "peak_bytes",
        (json_int_t)ru.ru_maxrss * 1024, "profile", lane_engine_profile(b->engine)->name, "threads",
        (int)threads, "isa", krn_rowfn_pick(options_text(&b->o, OPT_isa, NULL))->isa, "kv_tokens",
        (json_int_t)lane_engine_kv_tokens(b->engine), "device", lane_engine_device_name(b->engine),
        "device_words", lane_engine_device_words(b->engine));
}

static void bench_print(const json_t *j) {
    size_t i;
    json_t *row;
    double one = 0;
    printf("bench: profile %s, %s: %s\n\n", json_string_value(json_object_get(j, "profile")),
           json_string_value(json_object_get(j, "device")),
           json_string_value(json_object_get(j, "device_words")));
    printf("model loaded  in %.0f ms\n", json_real_value(json_object_get(j, "load_s")) * 1e3);
    json_array_foreach(json_object_get(j, "cold"), i, row)
        printf("cold prompt   %5lld tokens  %9.0f tok/s\n",
               (long long)json_integer_value(json_object_get(row, "tokens")),
               json_real_value(json_object_get(row, "tok_s")));
    json_array_foreach(json_object_get(j, "decode"), i, row) {
        double v = json_real_value(json_object_get(row, "tok_s"));
        one = i == 0 ? v : one;
        printf("decode        %5lld lanes   %9.0f tok/s  %.2fx one lane\n",
               (long long)json_integer_value(json_object_get(row, "lanes")), v, v / one);
    }
    json_array_foreach(json_object_get(j, "ttft"), i, row) {
        double cold = json_real_value(json_object_get(row, "cold_s"));
        double resumed = json_real_value(json_object_get(row, "resumed_s"));
        printf("first token   %5lld tokens  %9.2f ms cold, %.2f ms resumed, %.0fx sooner\n",
               (long long)json_integer_value(json_object_get(row, "tokens")), cold * 1e3,
               resumed * 1e3, cold / resumed);
    }
    json_array_foreach(json_object_get(j, "host_us"), i, row) printf(
        "host a round  %5lld lanes   %9.1f us median, %.1f us p99\n",
        (long long)json_integer_value(json_object_get(row, "lanes")),
        json_real_value(json_object_get(row, "p50")), json_real_value(json_object_get(row, "p99")));
    printf("peak memory   %.1f MB\n",
           (double)json_integer_value(json_object_get(j, "peak_bytes")) / 1e6);
}

static enum status bench_all(struct bench *b, int argc, char **argv) {
    struct lane_engine_config config;
    float seconds = 20.0f;
    TRY(options_parse(P_BENCH, argc, argv, &b->o, &b->note));
    TRY(input_writable(options_text(&b->o, OPT_json, NULL), &b->note));
    TRY(options_engine(&b->o, &config, &b->note));
    TRY(options_float(&b->o, OPT_seconds, 0.1f, 1e6f, &seconds, &b->note));
    uint64_t begun = loading_now_ns();
    TRY(loading_engine(&config, options_has(&b->o, OPT_quiet), &b->engine, &b->note));
    b->load_s = (double)(loading_now_ns() - begun) / 1e9;
    b->repeats = seconds >= 10 ? 5 : seconds >= 5 ? 3 : 1;
    b->progress = isatty(2) && !options_has(&b->o, OPT_quiet);
    bench_plan(b);
    for (uint32_t i = 0; i < BENCH_LANES_MAX; i++) {
        client_call_init(&b->call[i]);
        b->prompt[i] = malloc(lane_engine_context(b->engine) * sizeof(uint32_t));
        if (b->prompt[i] == NULL)
            return status_say(&b->note, STATUS_NO_MEMORY, "no memory for prompts");
    }
    struct client_driver driver = {
        .start = bench_start, .token = bench_token, .over = bench_over, .user = b};
    client_open(&b->client, b->engine, &driver);
    client_run(&b->client);
    if (b->progress)
        fprintf(stderr, "\r\033[K");
    TRY(b->status);
    json_t *j = bench_result(b);
    const char *path = options_text(&b->o, OPT_json, NULL);
    enum status s = STATUS_OK;
    if (path == NULL || strcmp(path, "-") != 0)
        bench_print(j);
    if (path != NULL) {
        FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
        if (f == NULL || json_dumpf(j, f, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0 ||
            fputc('\n', f) == EOF || (f != stdout && fclose(f) != 0))
            s = status_say(&b->note, STATUS_IO, "%s could not be written", path);
    }
    json_decref(j);
    return s;
}

int program_bench(int argc, char **argv) {
    struct bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return EXIT_NO_RESOURCES;
    enum status s = bench_all(b, argc, argv);
    if (s != STATUS_OK)
        fprintf(stderr, "roundhouse bench: %s\n",
                b->note.text[0] != '\0' ? b->note.text : status_text(s));
    lane_engine_close(b->engine);
    for (uint32_t i = 0; i < BENCH_LANES_MAX; i++)
        free(b->prompt[i]);
    free(b);
    return (int)program_exit_of(s);
}
