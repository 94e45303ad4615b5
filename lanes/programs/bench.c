/* SPDX-License-Identifier: Apache-2.0
 * roundhouse bench: what this machine does with this model. Medians of several runs.
 */
#include "lanes/programs/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/programs/loading.h"
#include "lanes/programs/output.h"

enum { BENCH_DECODE_NEW = 160, BENCH_DECODE_PROMPT = 64, BENCH_MODEL_LANES = 8 };

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
        for (uint32_t lanes = 1; lanes <= BENCH_MODEL_LANES; lanes *= 2)
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_DECODE,
                                                        .size = lanes,
                                                        .prompt = BENCH_DECODE_PROMPT,
                                                        .n_new = BENCH_DECODE_NEW};
    for (uint32_t i = 0; i < 2; i++)
        if (ttft[i] <= most) {
            b->list[b->n++] = (struct bench_experiment){.kind = BENCH_TTFT_COLD, .size = ttft[i]};
            b->list[b->n++] =
                (struct bench_experiment){.kind = BENCH_TTFT_RESUMED, .size = ttft[i]};
        }
}

static json_t *bench_result(struct bench *b) {
    json_t *cold = json_array(), *decode = json_array(), *ttft = json_array(), *host = json_array();
    double cold_s = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        struct bench_experiment *x = &b->list[i];
        double v = bench_median(x->value, x->n);
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
    for (uint32_t lanes = 1; lanes <= BENCH_MODEL_LANES; lanes *= 2) {
        double p50, p99;
        if (bench_host_us(b, lanes, &p50, &p99))
            json_array_append_new(
                host, json_pack("{s:i, s:f, s:f}", "lanes", (int)lanes, "p50", p50, "p99", p99));
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = cores > 0 ? (uint32_t)cores : 1;
    struct status_note note;
    options_u32(&b->o, OPT_threads, 1, 256, &threads, &note);
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:I, s:s, s:i, s:s, s:I, s:s, s:s, s:s, s:I}",
                     "load_s", b->load_s, "cold", cold, "decode", decode, "ttft", ttft, "host_us",
                     host, "peak_bytes", (json_int_t)bench_peak_bytes(), "profile",
                     lane_engine_profile(b->engine)->name, "threads", (int)threads, "isa",
                     krn_rowfn_pick(options_text(&b->o, OPT_isa, NULL))->isa, "kv_tokens",
                     (json_int_t)lane_engine_kv_tokens(b->engine), "device",
                     lane_engine_device_name(b->engine), "device_words",
                     lane_engine_device_words(b->engine), "weights", lane_engine_weights(b->engine),
                     "weights_bytes", (json_int_t)lane_engine_weights_bytes(b->engine));
}

static void bench_print(const json_t *j) {
    size_t i;
    json_t *row;
    double one = 0;
    printf("bench: profile %s, %s: %s\n\n", json_string_value(json_object_get(j, "profile")),
           json_string_value(json_object_get(j, "device")),
           json_string_value(json_object_get(j, "device_words")));
    const char *weights = json_string_value(json_object_get(j, "weights"));
    printf("model loaded  in %.0f ms, weights %.1f MB%s%s\n",
           json_real_value(json_object_get(j, "load_s")) * 1e3,
           (double)json_integer_value(json_object_get(j, "weights_bytes")) / 1e6,
           weights[0] != '\0' ? ", " : "", weights);
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

static enum status bench_model(struct bench *b) {
    struct lane_engine_config config;
    float seconds = 20.0f;
    TRY(options_engine(&b->o, &config, &b->note));
    TRY(options_float(&b->o, OPT_seconds, 0.1f, 1e6f, &seconds, &b->note));
    uint64_t begun = loading_now_ns();
    TRY(loading_engine(&config, options_has(&b->o, OPT_quiet), &b->engine, &b->note));
    b->load_s = (double)(loading_now_ns() - begun) / 1e9;
    b->repeats = seconds >= 10 ? 5 : seconds >= 5 ? 3 : 1;
    bench_plan(b);
    TRY(bench_alloc(b, BENCH_MODEL_LANES));
    TRY(bench_run(b));
    json_t *j = bench_result(b);
    enum status s = bench_write(b, j, bench_print);
    json_decref(j);
    return s;
}

static enum status bench_all(struct bench *b, int argc, char **argv) {
    TRY(options_parse(P_BENCH, argc, argv, &b->o, &b->note));
    TRY(output_writable(options_text(&b->o, OPT_json, NULL), &b->note));
    b->progress = isatty(2) && !options_has(&b->o, OPT_quiet);
    if (options_has(&b->o, OPT_tiers))
        return bench_tiers(b);
    if (options_has(&b->o, OPT_shape))
        return bench_shape(b);
    if (options_has(&b->o, OPT_seed))
        return status_say(&b->note, STATUS_BAD_REQUEST,
                          "--seed makes the weights and prompts of --shape: give both or neither");
    if (options_has(&b->o, OPT_svg))
        return status_say(&b->note, STATUS_BAD_REQUEST,
                          "--svg draws what --tiers measures: give both");
    return bench_model(b);
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
    bench_free(b);
    free(b);
    return (int)program_exit_of(s);
}
