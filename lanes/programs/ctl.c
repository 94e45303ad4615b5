/* SPDX-License-Identifier: Apache-2.0
 * roundhouse ctl: one command to a server, or a whole reply streamed to standard output.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "lanes/door/wire.h"
#include "lanes/programs/ctl.h"
#include "lanes/programs/input.h"

enum { CTL_WAIT_MS = 1000, CTL_TIMEOUT_S = 10, CTL_DRAIN_MS = 86400000, CTL_GONE_MS = 2000 };

static volatile sig_atomic_t ctl_interrupted;

static void ctl_on_interrupt(int signal) {
    (void)signal;
    ctl_interrupted = 1;
}

/* ---- talking ---- */

enum program_exit ctl_fail(const struct status_note *note, enum program_exit code) {
    fprintf(stderr, "roundhouse: %s\n", note->text);
    return code;
}

/* Sends the object (taken over) and returns the reply, or NULL and a code. */
json_t *ctl_call(struct ctl *c, json_t *message, uint32_t wait_ms, enum program_exit *code) {
    struct status_note note = {{0}};
    char *text = json_dumps(message, JSON_COMPACT), *reply = NULL;
    size_t n = 0;
    json_decref(message);
    if (text == NULL) {
        *code = EXIT_NO_RESOURCES;
        return NULL;
    }
    enum status s =
        door_client_call(c->client, text, strlen(text), c->timeout_ms + wait_ms, &reply, &n, &note);
    free(text);
    if (s != STATUS_OK) {
        *code = ctl_fail(&note, EXIT_UNAVAILABLE);
        return NULL;
    }
    json_error_t error;
    json_t *v = json_loadb(reply, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(reply);
    if (v == NULL || !json_is_object(v)) {
        json_decref(v);
        status_say(&note, STATUS_IO, "the answer is not what a roundhouse server says");
        *code = ctl_fail(&note, EXIT_UNAVAILABLE);
        return NULL;
    }
    *code = json_is_true(json_object_get(v, "ok")) ? EXIT_DONE : EXIT_DIFFERS;
    return v;
}

json_t *ctl_call_patiently(struct ctl *c, const json_t *message, enum program_exit *code) {
    uint32_t waited = 0;
    for (;;) {
        json_t *reply = ctl_call(c, json_copy((json_t *)message), 0, code);
        const json_t *error = reply != NULL ? json_object_get(reply, "error") : NULL;
        const char *text = json_string_value(json_object_get(error, "code"));
        json_int_t retry = json_integer_value(json_object_get(error, "retry_ms"));
        bool busy = text != NULL && strcmp(text, "busy") == 0;
        if (!busy || retry <= 0 || retry > 60000 || waited >= c->timeout_ms)
            return reply;
        json_decref(reply);
        struct timespec pause = {.tv_sec = retry / 1000, .tv_nsec = retry % 1000 * 1000000};
        nanosleep(&pause, NULL);
        waited += (uint32_t)retry;
    }
}

void ctl_print_json(const json_t *v) {
    char *text = json_dumps(v, JSON_COMPACT);
    if (text != NULL)
        printf("%s\n", text);
    free(text);
    fflush(stdout);
}

/* What was refused, for a person. */
void ctl_print_error(const json_t *error) {
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    json_int_t retry = json_integer_value(json_object_get(error, "retry_ms"));
    fprintf(stderr, "roundhouse: %s (%s)", message != NULL ? message : "refused",
            code != NULL ? code : "unknown");
    if (retry > 0)
        fprintf(stderr, "; try again in %lld ms", (long long)retry);
    fputc('\n', stderr);
}

static void ctl_print_plain(const json_t *v, const char *prefix) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)v, key, value) {
        char name[128];
        snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != 0 ? "." : "", key);
        if (prefix[0] == 0 && strcmp(key, "ok") == 0)
            continue;
        if (json_is_object(value)) {
            ctl_print_plain(value, name);
            continue;
        }
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
        printf("%-32s %s\n", name,
               json_is_string(value) ? json_string_value(value)
               : text != NULL        ? text
                                     : "?");
        free(text);
    }
}

static void ctl_print_requests(const json_t *list) {
    size_t i;
    json_t *s;
    json_array_foreach((json_t *)list, i, s) {
        const char *name = json_string_value(json_object_get(s, "name"));
        const char *state = json_string_value(json_object_get(s, "state"));
        printf("%-32s %-8s %8lld %8lld %8lld %10lld\n", name != NULL ? name : "?",
               state != NULL ? state : "?",
               (long long)json_integer_value(json_object_get(s, "prompt_tokens")),
               (long long)json_integer_value(json_object_get(s, "resumed_tokens")),
               (long long)json_integer_value(json_object_get(s, "new_tokens")),
               (long long)json_integer_value(json_object_get(s, "age_ms")));
    }
}

/* One command, one answer, printed. */
static enum program_exit ctl_simple(struct ctl *c, json_t *message, uint32_t wait_ms) {
    enum program_exit code;
    json_t *reply = ctl_call(c, message, wait_ms, &code);
    if (reply == NULL)
        return code;
    if (c->json)
        ctl_print_json(reply);
    else if (code != EXIT_DONE)
        ctl_print_error(json_object_get(reply, "error"));
    else
        ctl_print_plain(reply, "");
    json_decref(reply);
    return code;
}

/* ---- commands ---- */

static enum program_exit ctl_requests(struct ctl *c) {
    enum program_exit code = EXIT_DONE;
    json_int_t from = 0;
    if (!c->json)
        printf("%-32s %-8s %8s %8s %8s %10s\n", "name", "state", "prompt", "resumed", "new",
               "age ms");
    while (code == EXIT_DONE) {
        json_t *reply =
            ctl_call(c, json_pack("{s:s, s:I}", "cmd", "sessions", "from", from), 0, &code);
        if (reply == NULL)
            break;
        const json_t *next = json_object_get(reply, "next");
        if (c->json)
            ctl_print_json(reply);
        else if (code == EXIT_DONE)
            ctl_print_requests(json_object_get(reply, "sessions"));
        else
            ctl_print_error(json_object_get(reply, "error"));
        from = json_integer_value(next);
        bool more = next != NULL;
        json_decref(reply);
        if (!more)
            break;
    }
    return code;
}

/* The fields of a submit as an object: from a word, or from standard input. */
static enum program_exit ctl_submit(struct ctl *c, const char *word) {
    struct status_note note = {{0}};
    char *text = NULL;
    size_t n = strlen(word);
    json_error_t error;
    if (strcmp(word, "-") == 0) {
        enum status s = input_read("-", &text, &n, &note);
        if (s != STATUS_OK)
            return ctl_fail(&note, program_exit_of(s));
        word = text;
    }
    json_t *fields = json_loadb(word, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    free(text);
    if (!json_is_object(fields)) {
        json_decref(fields);
        status_say(&note, STATUS_BAD_REQUEST, "submit takes one JSON object: %.200s", error.text);
        return ctl_fail(&note, EXIT_USAGE);
    }
    json_object_set_new(fields, "cmd", json_string("submit"));
    return ctl_simple(c, fields, 0);
}

static void ctl_set_float(json_t *to, const char *key, const struct options *o, enum option_id id,
                          float v) {
    if (options_has(o, id))
        json_object_set_new(to, key, json_real((double)v));
}

/* The options of `generate` as fields of a submit. */
static enum status ctl_generate_fields(struct ctl *c, const char *text, json_t *m,
                                       struct status_note *note) {
    const struct options *o = &c->o;
    struct krn_sampling s;
    uint64_t max_tokens = DOOR_MAX_TOKENS_DEFAULT;
    uint32_t draft = DOOR_DRAFT_DEFAULT;
    char name[64];
    uint64_t random = 0;
    TRY(options_sampling(o, NULL, &s, note));
    TRY(options_u64(o, OPT_max_tokens, 1, KRN_CONTEXT_MAX, false, &max_tokens, note));
    TRY(options_u32(o, OPT_draft, 0, LANE_DRAFT_MAX, &draft, note));
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return status_say(note, STATUS_IO, "no random numbers from the system");
    snprintf(name, sizeof name, "ctl-%ld-%016" PRIx64, (long)getpid(), random);
    json_object_set_new(m, "cmd", json_string("submit"));
    json_object_set_new(m, "name", json_string(options_text(o, OPT_name, name)));
    json_object_set_new(m, "max_tokens", json_integer((json_int_t)max_tokens));
    json_object_set_new(m, "draft", json_integer(draft));
    struct lane_template_options template;
    TRY(options_template(o, options_has(o, OPT_chat_prompt), &template, note));
    if (template.date != NULL)
        json_object_set_new(m, "template_date", json_string(template.date));
    if (template.thinking != LANE_THINKING_AS_IS)
        json_object_set_new(m, "thinking", json_boolean(template.thinking == LANE_THINKING_ON));
    json_t *prompt = json_string(text);
    if (prompt == NULL)
        return status_say(note, STATUS_BAD_REQUEST, "the prompt is not valid UTF-8");
    if (options_has(o, OPT_chat_prompt))
        json_object_set_new(m, "messages",
                            json_pack("[{s:s, s:o}]", "role", "user", "content", prompt));
    else
        json_object_set_new(m, "prompt", prompt);
    if (options_has(o, OPT_tenant))
        json_object_set_new(m, "tenant", json_string(options_text(o, OPT_tenant, "")));
    if (options_has(o, OPT_greedy))
        json_object_set_new(m, "temperature", json_integer(0));
    ctl_set_float(m, "temperature", o, OPT_temperature, s.temperature);
    ctl_set_float(m, "top_p", o, OPT_top_p, s.top_p);
    ctl_set_float(m, "min_p", o, OPT_min_p, s.min_p);
    ctl_set_float(m, "repetition_penalty", o, OPT_repetition, s.repetition);
    ctl_set_float(m, "presence_penalty", o, OPT_presence, s.presence);
    ctl_set_float(m, "frequency_penalty", o, OPT_frequency, s.frequency);
    if (options_has(o, OPT_top_k))
        json_object_set_new(m, "top_k", json_integer(s.top_k));
    if (options_has(o, OPT_seed))
        json_object_set_new(m, "seed", json_integer((json_int_t)(s.seed & INT64_MAX)));
    if (options_has(o, OPT_ignore_eos))
        json_object_set_new(m, "ignore_eos", json_true());
    if (options_has(o, OPT_stop)) {
        json_t *stops = json_array();
        for (uint32_t i = 0; i < o->n[OPT_stop]; i++)
            json_array_append_new(stops, json_string(o->value[OPT_stop][i]));
        json_object_set_new(m, "stop", stops);
    }
    return STATUS_OK;
}

/* Prints what one read gave; the ended event's code, or -1 while there is none. */
static int ctl_print_events(const struct ctl *c, const json_t *events) {
    int code = -1;
    size_t i;
    json_t *e;
    json_array_foreach((json_t *)events, i, e) {
        const json_t *text = json_object_get(e, "text");
        const char *reason = json_string_value(json_object_get(e, "reason"));
        if (c->json)
            ctl_print_json(e);
        else if (json_is_string(text))
            fwrite(json_string_value(text), 1, json_string_length(text), stdout);
        if (reason == NULL)
            continue;
        code = strcmp(reason, "failed") == 0 || strcmp(reason, "cancelled") == 0 ? EXIT_DIFFERS
                                                                                 : EXIT_DONE;
        if (!c->json) {
            printf("\n");
            if (code != EXIT_DONE)
                ctl_print_error(json_object_get(e, "error"));
        }
    }
    fflush(stdout);
    return code;
}

/* Reads from a cursor to the request's end, printing as it comes. */
static enum program_exit ctl_follow(struct ctl *c, const char *name, json_int_t cursor) {
    bool cancelled = false;
    for (;;) {
        enum program_exit code;
        if (ctl_interrupted && !cancelled) {
            json_t *gone =
                ctl_call(c, json_pack("{s:s, s:s}", "cmd", "cancel", "name", name), 0, &code);
            json_decref(gone);
            cancelled = true;
        }
        json_t *reply = ctl_call(c,
                                 json_pack("{s:s, s:s, s:I, s:i}", "cmd", "read", "name", name,
                                           "cursor", cursor, "wait_ms", CTL_WAIT_MS),
                                 CTL_WAIT_MS, &code);
        if (reply == NULL)
            return code;
        if (code != EXIT_DONE) {
            ctl_print_error(json_object_get(reply, "error"));
            json_decref(reply);
            return code;
        }
        cursor = json_integer_value(json_object_get(reply, "cursor"));
        int ended = ctl_print_events(c, json_object_get(reply, "events"));
        json_decref(reply);
        if (ended >= 0)
            return (enum program_exit)ended;
    }
}

static enum program_exit ctl_generate(struct ctl *c, const char *text) {
    struct status_note note = {{0}};
    struct sigaction act = {.sa_handler = ctl_on_interrupt};
    enum program_exit code;
    json_t *m = json_object();
    if (ctl_generate_fields(c, text, m, &note) != STATUS_OK) {
        json_decref(m);
        return ctl_fail(&note, EXIT_USAGE);
    }
    char name[DOOR_NAME_MAX + 1];
    snprintf(name, sizeof name, "%s", json_string_value(json_object_get(m, "name")));
    sigaction(SIGINT, &act, NULL);
    json_t *reply = ctl_call(c, m, 0, &code);
    if (reply == NULL)
        return code;
    if (code != EXIT_DONE)
        ctl_print_error(json_object_get(reply, "error"));
    json_decref(reply);
    return code == EXIT_DONE ? ctl_follow(c, name, 0) : code;
}

static enum program_exit ctl_usage(void) {
    fprintf(stderr,
            "roundhouse: usage: roundhouse ctl [--connect URL] [--json] COMMAND, one of\n"
            "  ping, info, stats, requests     what the server is and does\n"
            "  sessions [...]                  what it remembers; sessions --help says more\n"
            "  generate TEXT                   submit a prompt and print the reply as it comes\n"
            "  submit JSON | -                 submit one request (doc/protocol.md)\n"
            "  read NAME [CURSOR]              print a reply from an event on, to its end\n"
            "  cancel NAME                     end a request\n"
            "  drain [SECONDS]                 let the server finish and end, and wait for that\n");
    return EXIT_USAGE;
}

static enum program_exit ctl_command(struct ctl *c) {
    const struct options *o = &c->o;
    const char *cmd = o->args[0], *word = o->n_args > 1 ? o->args[1] : NULL;
    const char *last = o->n_args > 2 ? o->args[2] : NULL;
    char *end = NULL;
    const char *digits = strcmp(cmd, "read") == 0 ? last : strcmp(cmd, "drain") == 0 ? word : NULL;
    long long number = digits != NULL ? strtoll(digits, &end, 10) : 0;
    if (digits != NULL && (digits[0] < '0' || digits[0] > '9' || *end != 0))
        return ctl_usage();
    if (o->n_args == 1 &&
        (strcmp(cmd, "ping") == 0 || strcmp(cmd, "info") == 0 || strcmp(cmd, "stats") == 0))
        return ctl_simple(c, json_pack("{s:s}", "cmd", cmd), 0);
    if (o->n_args == 1 && strcmp(cmd, "requests") == 0)
        return ctl_requests(c);
    if (strcmp(cmd, "sessions") == 0)
        return ctl_sessions(c, o->args + 1, o->n_args - 1);
    if (o->n_args == 2 && strcmp(cmd, "submit") == 0)
        return ctl_submit(c, word);
    if (o->n_args == 2 && strcmp(cmd, "generate") == 0)
        return ctl_generate(c, word);
    if (o->n_args == 2 && strcmp(cmd, "cancel") == 0)
        return ctl_simple(c, json_pack("{s:s, s:s}", "cmd", "cancel", "name", word), 0);
    if (o->n_args >= 2 && o->n_args <= 3 && strcmp(cmd, "read") == 0)
        return ctl_follow(c, word, number);
    if (o->n_args <= 2 && strcmp(cmd, "drain") == 0) {
        json_t *m = json_pack("{s:s, s:b}", "cmd", "drain", "wait", 1);
        if (word != NULL)
            json_object_set_new(m, "deadline_ms", json_integer(number * 1000));
        door_client_gone_after(c->client, CTL_GONE_MS); /* it is long to wait for nobody */
        return ctl_simple(c, m, CTL_DRAIN_MS);
    }
    return ctl_usage();
}

int program_ctl(int argc, char **argv) {
    static struct ctl c;
    struct status_note note = {{0}};
    char usual[128];
    uint32_t timeout_s = CTL_TIMEOUT_S;
    enum status s = options_parse(P_CTL, argc, argv, &c.o, &note);
    if (s == STATUS_OK)
        s = options_u32(&c.o, OPT_timeout, 1, 86400, &timeout_s, &note);
    if (s != STATUS_OK)
        return ctl_fail(&note, EXIT_USAGE);
    if (c.o.n_args == 0)
        return ctl_usage();
    c.timeout_ms = timeout_s * 1000;
    c.json = options_has(&c.o, OPT_json_lines);
    if (options_has(&c.o, OPT_disk_cache))
        return ctl_sessions_offline(&c);
    const char *url = options_text(&c.o, OPT_connect, NULL);
    if (url == NULL) {
        if (options_usual_url(usual, sizeof usual, &note) != STATUS_OK)
            return ctl_fail(&note, EXIT_USAGE);
        url = usual;
    }
    s = door_client_open(url, 0, &c.client, &note);
    if (s != STATUS_OK)
        return ctl_fail(&note, s == STATUS_BAD_REQUEST ? EXIT_USAGE : EXIT_UNAVAILABLE);
    enum program_exit code = ctl_command(&c);
    door_client_close(c.client);
    return code;
}
