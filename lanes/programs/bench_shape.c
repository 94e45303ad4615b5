/* SPDX-License-Identifier: Apache-2.0
 * roundhouse bench --shape NAME: prompts and decodes of a known model's dimensions with seeded
 * random weights, with graphs and without, each beside its floor: the bytes that must be read over
 * what a copy reaches, the operations over what the matrix units reach, both measured in the run.
 */
#include "lanes/programs/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gpu/rates.h"
#include "lanes/programs/loading.h"

enum {
    SHAPE_PROMPT = 1024, /* that decodes stand behind, and how many tokens they make */
    SHAPE_NEW = 96,
    SHAPE_CONTEXT = 32768 + 128,
    SHAPE_LANES_CPU = 8
};

struct shape_bench {
    struct bench *b;
    struct lane_engine_config config;
    struct gpu_rates rates;
    uint64_t digest[2]; /* of all tokens, by mode */
    uint32_t modes;
};

/* ---- floors ---- */

/* Bytes of weights that every step reads, and multiply-adds of a row in them; the logits' apart. */
struct shape_work {
    double weights, row_macs, logits_macs, kv_token, heads_macs;
};

static struct shape_work shape_work(const struct bench *b) {
    const struct krn_net *net = lane_engine_net(b->engine);
    const struct krn_config *m = &lane_engine_model(b->engine)->config;
    struct shape_work w = {.kv_token = (double)lane_engine_page_bytes(b->engine) /
                                       lane_engine_counters(b->engine)->page_tokens,
                           .heads_macs =
                               2.0 * m->heads * m->head_dim * m->layers}; /* a row and key */
    for (uint32_t i = 0; i < net->n_ops; i++) {
        const struct krn_op *op = &net->ops[i];
        if (op->kind != KRN_OP_PRODUCT)
            continue;
        double macs = (double)op->n * op->k;
        w.weights += (double)op->w->bytes;
        *(op->dst == KRN_BUF_L ? &w.logits_macs : &w.row_macs) += macs;
    }
    return w;
}

/* Tokens a second at best; 0: not known. */
static double shape_floor(const struct shape_bench *s, const struct bench_experiment *x) {
    struct shape_work w = shape_work(s->b);
    if (x->kind == BENCH_COLD && s->rates.matrix_ops_s > 0) {
        double n = x->size;
        double macs = n * w.row_macs + w.logits_macs + n * (n + 1) / 2 * w.heads_macs;
        return n / (2 * macs / s->rates.matrix_ops_s);
    }
    if (x->kind == BENCH_DECODE && s->rates.copy_bytes_s > 0) {
        double bytes = w.weights + x->size * (x->prompt + x->n_new / 2.0) * w.kv_token;
        return x->size / (bytes / s->rates.copy_bytes_s);
    }
    return 0;
}

/* ---- the plan ---- */

static void shape_plan(struct bench *b, uint32_t lanes_max) {
    static const uint32_t cold[] = {2048, 8192, 32768}, lanes[] = {1, 8, 32, 64, 128};
    uint32_t most = lane_engine_context(b->engine) - 1;
    uint32_t prompt = SHAPE_PROMPT < most / 2 ? SHAPE_PROMPT : most / 2;
    b->n = 0;
    b->list[b->n++] =
        (struct bench_experiment){.kind = BENCH_WARM, .size = most < 2048 ? most : 2048};
    for (uint32_t i = 0; i < sizeof cold / sizeof *cold; i++)
        if (cold[i] <= most || i == 0)
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_COLD,
                                                        .size = cold[i] <= most ? cold[i] : most};
    b->list[b->n++] = (struct bench_experiment){
        .kind = BENCH_KEEP, .size = lanes_max, .prompt = prompt, .n_new = 1};
    for (uint32_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        if (lanes[i] <= lanes_max) {
            /* The first lanes decode while the last ones are admitted. */
            uint32_t n_new = SHAPE_NEW + lanes[i];
            b->list[b->n++] =
                (struct bench_experiment){.kind = BENCH_DECODE,
                                          .size = lanes[i],
                                          .prompt = prompt,
                                          .n_new = n_new < most - prompt ? n_new : most - prompt,
                                          .resumes = true};
        }
}

/* ---- one mode ---- */

static json_t *shape_row(struct shape_bench *s, struct bench_experiment *x) {
    double v = bench_median(x->value, x->n), floor = shape_floor(s, x), p50, p99;
    json_t *row = json_object();
    if (x->kind == BENCH_COLD) {
        json_object_set_new(row, "tokens", json_integer(x->size));
    } else {
        json_object_set_new(row, "lanes", json_integer(x->size));
        json_object_set_new(row, "context", json_integer(x->prompt));
        json_object_set_new(row, "step_ms", json_real(x->size / v * 1e3));
        json_object_set_new(row, "idle_share", json_real(bench_median(x->idle, x->n)));
        if (bench_host_us(s->b, x->size, &p50, &p99)) {
            json_object_set_new(row, "host_us", json_real(p50));
            json_object_set_new(row, "host_us_p99", json_real(p99));
        }
    }
    json_object_set_new(row, "tok_s", json_real(v));
    if (floor > 0)
        json_object_set_new(row, "floor_tok_s", json_real(floor));
    return row;
}

static json_t *shape_result(struct shape_bench *s, const char *graphs) {
    struct bench *b = s->b;
    json_t *cold = json_array(), *decode = json_array();
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->list[i].kind == BENCH_COLD)
            json_array_append_new(cold, shape_row(s, &b->list[i]));
        if (b->list[i].kind == BENCH_DECODE)
            json_array_append_new(decode, shape_row(s, &b->list[i]));
    }
    return json_pack("{s:s, s:f, s:I, s:s, s:I, s:I, s:o, s:o}", "graphs", graphs, "load_s",
                     b->load_s, "device_bytes", (json_int_t)lane_engine_bytes(b->engine), "weights",
                     lane_engine_weights(b->engine), "weights_bytes",
                     (json_int_t)lane_engine_weights_bytes(b->engine), "kv_tokens",
                     (json_int_t)lane_engine_kv_tokens(b->engine), "cold", cold, "decode", decode);
}

static enum status shape_open(struct shape_bench *s) {
    struct bench *b = s->b;
    uint64_t begun = loading_now_ns();
    lane_engine_close(b->engine);
    b->engine = NULL;
    TRY(loading_engine(&s->config, options_has(&b->o, OPT_quiet), &b->engine, &b->note));
    b->load_s = (double)(loading_now_ns() - begun) / 1e9;
    return STATUS_OK;
}

/* Runs the plan on the engine that is open; all tokens count. */
static enum status shape_mode(struct shape_bench *s, const char *graphs, json_t *modes) {
    struct bench *b = s->b;
    float seconds = 20.0f;
    TRY(options_float(&b->o, OPT_seconds, 0.1f, 1e6f, &seconds, &b->note));
    b->repeats = seconds >= 10 ? 3 : 1;
    b->fixed = true;
    shape_plan(b, s->config.lanes_max);
    TRY(bench_alloc(b, s->config.lanes_max));
    TRY(bench_run(b));
    uint64_t digest = 0;
    for (uint32_t i = 0; i < b->n; i++)
        digest = XXH3_64bits_withSeed(&b->list[i].digest, sizeof digest, digest);
    s->digest[s->modes++] = digest;
    json_array_append_new(modes, shape_result(s, graphs));
    if (s->modes == 2 && s->digest[0] != s->digest[1])
        return status_say(&b->note, STATUS_DESYNC, "tokens differ with graphs on and off");
    return STATUS_OK;
}

/* ---- words ---- */

static double shape_real(const json_t *row, const char *key) {
    return json_real_value(json_object_get(row, key));
}

static void shape_print_row(const char *what, const char *of, const json_t *row, json_int_t n) {
    double v = shape_real(row, "tok_s"), floor = shape_real(row, "floor_tok_s");
    printf("%s %6" JSON_INTEGER_FORMAT " %s  %9.0f tok/s", what, n, of, v);
    if (floor > 0)
        printf("  %5.1f %% of %.0f", 100 * v / floor, floor);
    if (json_object_get(row, "step_ms") != NULL)
        printf("  %.3f ms a step, device idle %.1f %%", shape_real(row, "step_ms"),
               100 * shape_real(row, "idle_share"));
    if (json_object_get(row, "host_us") != NULL)
        printf(", host %.1f us a round (p99 %.1f)", shape_real(row, "host_us"),
               shape_real(row, "host_us_p99"));
    printf("\n");
}

static void shape_print(const json_t *j) {
    size_t m, i;
    json_t *mode, *row;
    printf("bench: shape %s, profile %s, %s: %s\n", json_string_value(json_object_get(j, "shape")),
           json_string_value(json_object_get(j, "profile")),
           json_string_value(json_object_get(j, "device")),
           json_string_value(json_object_get(j, "device_words")));
    if (shape_real(j, "copy_tb_s") > 0)
        printf("floors from a copy at %.2f TB/s and matrix units at %.0f TFLOP/s\n",
               shape_real(j, "copy_tb_s"), shape_real(j, "matrix_tflop_s"));
    json_array_foreach(json_object_get(j, "modes"), m, mode) {
        printf("\ngraphs %s: made in %.1f s, %.1f GB of the device's memory, %.1f of it weights\n",
               json_string_value(json_object_get(mode, "graphs")), shape_real(mode, "load_s"),
               (double)json_integer_value(json_object_get(mode, "device_bytes")) / 1e9,
               (double)json_integer_value(json_object_get(mode, "weights_bytes")) / 1e9);
        json_array_foreach(json_object_get(mode, "cold"), i, row) shape_print_row(
            "cold prompt", "tokens", row, json_integer_value(json_object_get(row, "tokens")));
        json_array_foreach(json_object_get(mode, "decode"), i, row) shape_print_row(
            "decode     ", "lanes ", row, json_integer_value(json_object_get(row, "lanes")));
    }
    printf("\npeak memory of the process %.1f MB; tokens %s%s\n",
           (double)json_integer_value(json_object_get(j, "peak_bytes")) / 1e6,
           json_string_value(json_object_get(j, "tokens")),
           json_array_size(json_object_get(j, "modes")) == 2 ? ", the same in both modes" : "");
}

static enum status shape_report(struct shape_bench *s, json_t *modes) {
    struct bench *b = s->b;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, s->digest[0]);
    json_t *j =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:I, s:I, s:b, s:f, s:f, s:O, s:s, s:I}", "shape",
                  s->config.shape, "profile", lane_engine_profile(b->engine)->name, "virtual_ranks",
                  (int)lane_engine_profile(b->engine)->virtual_ranks, "device",
                  lane_engine_device_name(b->engine), "device_words",
                  lane_engine_device_words(b->engine), "seed", (json_int_t)b->seed, "parameters",
                  (json_int_t)lane_engine_model(b->engine)->parameters, "plan_ahead",
                  (int)lane_engine_ahead(b->engine), "copy_tb_s", s->rates.copy_bytes_s / 1e12,
                  "matrix_tflop_s", s->rates.matrix_ops_s / 1e12, "modes", modes, "tokens", digest,
                  "peak_bytes", (json_int_t)bench_peak_bytes());
    enum status status = bench_write(b, j, shape_print);
    json_decref(j);
    return status;
}

/* What a shape needs that a model's defaults would not give. */
static enum status shape_configure(struct shape_bench *s) {
    struct bench *b = s->b;
    struct krn_model *m = NULL;
    if (options_has(&b->o, OPT_model))
        return status_say(&b->note, STATUS_BAD_REQUEST,
                          "--shape takes the place of --model: leave one out");
    TRY(options_u64(&b->o, OPT_seed, 0, UINT64_MAX, false, &b->seed, &b->note));
    s->config.model_path = NULL;
    s->config.shape = options_text(&b->o, OPT_shape, "");
    s->config.seed = b->seed;
    TRY(krn_model_shape(s->config.shape, b->seed, &m, &b->note));
    if (!options_has(&b->o, OPT_context))
        s->config.context = m->config.context < SHAPE_CONTEXT ? m->config.context : SHAPE_CONTEXT;
    krn_model_close(m);
    if (!options_has(&b->o, OPT_lanes))
        s->config.lanes_max =
            s->config.device == LANE_DEVICE_CPU ? SHAPE_LANES_CPU : BENCH_LANES_MAX;
    if (s->config.lanes_max > BENCH_LANES_MAX)
        s->config.lanes_max = BENCH_LANES_MAX;
    return STATUS_OK;
}

enum status bench_shape(struct bench *b) {
    struct shape_bench s = {.b = b};
    TRY(options_engine(&b->o, &s.config, &b->note));
    TRY(shape_configure(&s));
    if (s.config.device != LANE_DEVICE_CPU) {
        enum status found = gpu_rates_measure(&s.rates, &b->note);
        if (found != STATUS_OK && s.config.device == LANE_DEVICE_CUDA)
            return found;
        if (found != STATUS_OK && !options_has(&b->o, OPT_lanes))
            s.config.lanes_max = SHAPE_LANES_CPU;
    }
    TRY(shape_open(&s));
    bool both = !s.config.graphs_asked && lane_engine_device(b->engine, 0)->graphs.max > 0;
    bool on = lane_engine_device(b->engine, 0)->graphs.max > 0;
    json_t *modes = json_array();
    enum status status = shape_mode(&s, on ? "on" : "off", modes);
    if (status == STATUS_OK && both) {
        s.config.graphs = 0;
        status = shape_open(&s);
        if (status == STATUS_OK)
            status = shape_mode(&s, "off", modes);
    }
    if (status == STATUS_OK)
        status = shape_report(&s, modes);
    json_decref(modes);
    return status;
}
