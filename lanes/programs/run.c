/* SPDX-License-Identifier: Apache-2.0
 * roundhouse run: one or many prompts at once, as text, files, standard input or token ids.
 */
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/programs/client.h"
#include "lanes/programs/input.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/options.h"
#include "lanes/programs/output.h"
#include "sessions/reason.h"

enum { RUN_SESSIONS_MAX = 1024 };

struct run_session {
    struct client_call call;
    uint32_t *prompt;
    uint32_t n_prompt, capacity;
    float *first_logits;
    size_t printed; /* bytes of the text already on the terminal */
};

struct run {
    struct options o;
    struct lane_engine *engine;
    struct client client;
    struct run_session *sessions;
    uint32_t n, over, failed;
    bool json, stream, quiet;
    struct lane_template_options template; /* with --as-chat */
};

/* ---- gathering prompts ---- */

static enum status run_add(struct run *r, struct run_session **out, struct status_note *note) {
    if (r->n == RUN_SESSIONS_MAX)
        return status_say(note, STATUS_TOO_LARGE, "more than %d prompts; run them in parts",
                          RUN_SESSIONS_MAX);
    *out = &r->sessions[r->n++];
    client_call_init(&(*out)->call);
    return STATUS_OK;
}

static enum status run_add_text(struct run *r, const char *text, size_t bytes,
                                struct status_note *note) {
    const struct lane_tokenizer *t = lane_engine_tokenizer(r->engine);
    if (t == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "the model has no tokenizer; give token ids with --tokens");
    if (bytes == 0)
        return status_say(note, STATUS_EMPTY_PROMPT, "prompt %u is empty", r->n + 1);
    struct run_session *s = NULL;
    TRY(run_add(r, &s, note));
    if (options_has(&r->o, OPT_chat_prompt)) {
        struct lane_message m = {.role = "user", .content = text, .content_bytes = bytes};
        return lane_template_encode(t, &m, 1, &r->template, true, 0, &s->prompt, &s->n_prompt,
                                    &s->capacity, note);
    }
    return lane_tokenizer_encode(t, text, bytes, LANE_ENCODE_BOS, 0, &s->prompt, &s->n_prompt,
                                 &s->capacity, note);
}

static enum status run_add_ids(struct run *r, const char *line, size_t bytes, const char *file,
                               uint32_t number, struct status_note *note) {
    json_error_t error;
    json_t *array = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_array(array)) {
        json_decref(array);
        return status_say(note, STATUS_BAD_REQUEST, "%s, line %u: not a JSON array of token ids",
                          file, number);
    }
    struct run_session *s = NULL;
    enum status st = run_add(r, &s, note);
    size_t n = json_array_size(array);
    if (st == STATUS_OK) {
        s->prompt = malloc((n + 1) * sizeof(uint32_t));
        st = s->prompt != NULL ? STATUS_OK
                               : status_say(note, STATUS_NO_MEMORY, "no memory for %zu ids", n);
    }
    for (size_t i = 0; i < n && st == STATUS_OK; i++) {
        json_t *id = json_array_get(array, i);
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v > UINT32_MAX)
            st = status_say(note, STATUS_BAD_REQUEST, "%s, line %u: element %zu is not a token id",
                            file, number, i);
        else
            s->prompt[s->n_prompt++] = (uint32_t)v;
    }
    json_decref(array);
    return st;
}

static enum status run_add_lines(struct run *r, const char *file, struct status_note *note) {
    char *text;
    size_t bytes;
    TRY(input_read(file, &text, &bytes, note));
    enum status st = STATUS_OK;
    uint32_t number = 0;
    for (size_t at = 0; at < bytes && st == STATUS_OK;) {
        char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : bytes - at;
        number++;
        if (strspn(text + at, " \t\r") < n)
            st = run_add_ids(r, text + at, n, file, number, note);
        at += n + 1;
    }
    free(text);
    return st;
}

static enum status run_gather(struct run *r, struct status_note *note) {
    const struct options *o = &r->o;
    for (uint32_t i = 0; i < o->n[OPT_prompt]; i++)
        TRY(run_add_text(r, o->value[OPT_prompt][i], strlen(o->value[OPT_prompt][i]), note));
    for (uint32_t i = 0; i < o->n_args; i++)
        TRY(run_add_text(r, o->args[i], strlen(o->args[i]), note));
    bool only_stdin = r->n == 0 && !options_has(o, OPT_tokens) && !options_has(o, OPT_file);
    for (uint32_t i = 0; i < o->n[OPT_file] + (only_stdin ? 1u : 0u); i++) {
        char *text;
        size_t bytes;
        if (only_stdin && isatty(STDIN_FILENO))
            fprintf(stderr,
                    "roundhouse run: reading a prompt from standard input; Ctrl-D ends it\n");
        TRY(input_read(only_stdin ? "-" : o->value[OPT_file][i], &text, &bytes, note));
        enum status st = run_add_text(r, text, bytes, note);
        free(text);
        TRY(st);
    }
    for (uint32_t i = 0; i < o->n[OPT_tokens]; i++)
        TRY(run_add_lines(r, o->value[OPT_tokens][i], note));
    return r->n > 0 ? STATUS_OK : status_say(note, STATUS_EMPTY_PROMPT, "no prompt was given");
}

/* ---- running ---- */

static enum status run_prepare(struct run *r, struct status_note *note) {
    const struct options *o = &r->o;
    uint64_t max_tokens = 256;
    uint32_t draft = 8;
    struct krn_sampling sampling;
    TRY(options_u64(o, OPT_max_tokens, 1, UINT64_MAX, false, &max_tokens, note));
    TRY(options_u32(o, OPT_draft, 0, LANE_DRAFT_MAX, &draft, note));
    TRY(options_sampling(o, &lane_engine_model(r->engine)->config, &sampling, note));
    struct lane_stop *stops = NULL;
    TRY(input_stops(o, &stops, note));
    bool text = lane_engine_tokenizer(r->engine) != NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        struct run_session *s = &r->sessions[i];
        struct lane_request *q = &s->call.request;
        q->prompt = s->prompt;
        q->n_prompt = s->n_prompt;
        q->max_tokens = max_tokens;
        q->draft_max = draft;
        q->sampling = sampling;
        q->stops = stops;
        q->n_stops = o->n[OPT_stop];
        q->flags = (text ? 0u : (uint32_t)LANE_NO_TEXT) |
                   (options_has(o, OPT_ignore_eos) ? (uint32_t)LANE_IGNORE_EOS : 0u);
        uint64_t room = lane_engine_context(r->engine);
        s->call.ids = malloc((max_tokens < room ? max_tokens : room) * sizeof(uint32_t));
        if (s->call.ids == NULL)
            return status_say(note, STATUS_NO_MEMORY, "no memory for the reply");
        s->call.user = s;
        if (options_has(o, OPT_logits_first)) {
            q->flags |= LANE_FIRST_LOGITS;
            q->first_logits = s->first_logits = calloc(lane_engine_vocab(r->engine), sizeof(float));
            if (s->first_logits == NULL)
                return status_say(note, STATUS_NO_MEMORY, "no memory for a logits row");
        }
    }
    return STATUS_OK;
}

static void run_start(struct act_ctx *ctx, struct client *c, void *user) {
    struct run *r = user;
    for (uint32_t i = 0; i < r->n; i++)
        client_submit(ctx, c, &r->sessions[i].call);
}

static void run_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                      uint32_t id) {
    (void)ctx;
    (void)id;
    struct run *r = c->driver.user;
    struct run_session *s = call->user;
    if (!r->stream || call->text_bytes == s->printed)
        return;
    fwrite(call->text + s->printed, 1, call->text_bytes - s->printed, stdout);
    fflush(stdout);
    s->printed = call->text_bytes;
}

static void run_sha256(const uint32_t *ids, uint32_t n, char hex[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CHECK(ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    for (uint32_t i = 0; i < n; i++) {
        unsigned char le[4] = {(unsigned char)ids[i], (unsigned char)(ids[i] >> 8),
                               (unsigned char)(ids[i] >> 16), (unsigned char)(ids[i] >> 24)};
        EVP_DigestUpdate(ctx, le, 4);
    }
    EVP_DigestFinal_ex(ctx, digest, &bytes);
    EVP_MD_CTX_free(ctx);
    for (unsigned i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void run_print_json(const struct run *r, const struct run_session *s) {
    const struct client_call *c = &s->call;
    json_t *ids = json_array();
    for (uint32_t i = 0; i < c->n_new; i++)
        json_array_append_new(ids, json_integer(c->ids[i]));
    char hex[65];
    run_sha256(c->ids, c->n_new, hex);
    json_t *line = json_pack("{s:i, s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:i, s:i}", "session",
                             (int)(s - r->sessions), "ids", ids, "stop",
                             c->refused ? "refused" : client_end_name(c->end), "sha256", hex,
                             "prompt_tokens", (int)s->n_prompt, "resumed", (int)c->n_resumed,
                             "drafted", (int)c->drafted, "accepted", (int)c->accepted, "memory",
                             ses_reason_name((enum ses_reason)c->reason), "from_ram",
                             (int)c->from_ram, "from_disk", (int)c->from_disk);
    if (c->text_bytes > 0)
        json_object_set_new(line, "text", input_json_text(c->text, c->text_bytes));
    if (c->status != STATUS_OK) {
        struct status_note why;
        client_call_say(c, &why);
        json_object_set_new(line, "error", json_string(status_code(c->status)));
        json_object_set_new(line, "message", json_string(why.text));
    }
    char *text = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER);
    puts(text);
    free(text);
    json_decref(line);
}

static void run_print(const struct run *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        const struct run_session *s = &r->sessions[i];
        if (r->json) {
            run_print_json(r, s);
            continue;
        }
        if (r->n > 1)
            printf("--- %u of %u, %u prompt tokens and %u new, ended by %s\n", i + 1, r->n,
                   s->n_prompt, s->call.n_new, client_end_name(s->call.end));
        if (!r->stream)
            fwrite(s->call.text, 1, s->call.text_bytes, stdout);
        putchar('\n');
        if (s->call.status != STATUS_OK) {
            struct status_note why;
            client_call_say(&s->call, &why);
            fprintf(stderr, "roundhouse run: session %u: %s\n", i, why.text);
        }
    }
}

static void run_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct run *r = c->driver.user;
    r->failed += call->end == LANE_END_FAILED;
    if (++r->over == r->n)
        client_stop(ctx);
}

static enum status run_write_logits(const struct run *r, struct status_note *note) {
    const char *path = options_text(&r->o, OPT_logits_first, NULL);
    if (path == NULL)
        return STATUS_OK;
    struct output file;
    bool ok = true;
    TRY(output_open(&file, path, note));
    for (uint32_t i = 0; i < r->n; i++)
        ok = ok && fwrite(r->sessions[i].first_logits, sizeof(float), lane_engine_vocab(r->engine),
                          file.f) == lane_engine_vocab(r->engine);
    enum status s = output_close(&file, ok, note);
    return s == STATUS_OK && !ok
               ? status_say(note, STATUS_IO, "%s could not be written whole", path)
               : s;
}

static enum status run_all(struct run *r, int argc, char **argv, struct status_note *note) {
    TRY(options_parse(P_RUN, argc, argv, &r->o, note));
    r->json = options_has(&r->o, OPT_json_lines);
    r->quiet = options_has(&r->o, OPT_quiet) || r->json;
    r->sessions = calloc(RUN_SESSIONS_MAX, sizeof *r->sessions);
    if (r->sessions == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the sessions");
    struct lane_engine_config config;
    TRY(options_engine(&r->o, &config, note));
    TRY(options_template(&r->o, options_has(&r->o, OPT_chat_prompt), &r->template, note));
    TRY(loading_engine(&config, r->quiet, &r->engine, note));
    TRY(run_gather(r, note));
    TRY(run_prepare(r, note));
    r->stream = r->n == 1 && !r->json;
    char weights[64];
    lane_engine_weights_text(r->engine, weights, sizeof weights);
    if (!r->quiet)
        fprintf(stderr,
                "roundhouse: %s: %s; profile %s; %s; context %u tokens, session memory for %llu\n",
                lane_engine_device_name(r->engine), lane_engine_device_words(r->engine),
                lane_engine_profile(r->engine)->name, weights, lane_engine_context(r->engine),
                (unsigned long long)lane_engine_kv_tokens(r->engine));
    struct client_driver driver = {
        .start = run_start, .token = run_token, .over = run_over, .user = r};
    client_open(&r->client, r->engine, &driver);
    client_run(&r->client);
    run_print(r);
    TRY(lane_engine_dead(r->engine));
    return run_write_logits(r, note);
}

int program_run(int argc, char **argv) {
    struct run *r = calloc(1, sizeof *r);
    struct status_note note = {{0}};
    enum status s = r != NULL ? run_all(r, argc, argv, &note) : STATUS_NO_MEMORY;
    if (s != STATUS_OK)
        fprintf(stderr, "roundhouse run: %s\n", note.text[0] != '\0' ? note.text : status_text(s));
    int code = s != STATUS_OK ? (int)program_exit_of(s) : 0;
    if (r != NULL) {
        if (s == STATUS_OK && r->failed > 0)
            code = EXIT_DIFFERS;
        lane_engine_close(r->engine);
        for (uint32_t i = 0; i < r->n; i++) {
            struct run_session *q = &r->sessions[i];
            if (i == 0)
                free((void *)(uintptr_t)q->call.request.stops);
            free(q->prompt);
            free(q->first_logits);
            free(q->call.ids);
            client_call_free(&q->call);
        }
        free(r->sessions);
        free(r);
    }
    return code;
}
