/* SPDX-License-Identifier: Apache-2.0
 * roundhouse chat: a conversation on the terminal. Each turn sends the whole conversation; memory
 * resumes it. A thread of its own reads lines, so that the worker never waits for a person.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/programs/client.h"
#include "lanes/programs/input.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/options.h"
#include "sessions/reason.h"

enum { CHAT_KIND_line = 0x600, CHAT_MESSAGES_MAX = 4096 };

struct chat_line {
    char *text; /* malloc'd, the receiver's; NULL: end of input */
};

struct chat {
    struct options o;
    struct lane_engine *engine;
    struct client client;
    struct client_call call;
    struct krn_sampling sampling;
    struct lane_template_options template;
    struct lane_message messages[CHAT_MESSAGES_MAX];
    uint32_t n_messages;
    uint32_t *prompt, n_prompt, capacity;
    uint64_t max_tokens;
    uint32_t draft;
    size_t printed;
    bool terminal, quiet, busy, ended;
    int go[2]; /* a byte tells the reader to ask for the next line */
    pthread_t reader;
    enum status status;
    struct status_note note;
};

static void *chat_reader(void *arg) {
    struct chat *h = arg;
    char byte;
    while (read(h->go[0], &byte, 1) == 1 && byte == 'r') {
        char *line = NULL;
        size_t capacity = 0;
        if (h->terminal) {
            fputs("\033[1m> \033[0m", stdout);
            fflush(stdout);
        }
        ssize_t n = getline(&line, &capacity, stdin);
        if (n < 0) {
            free(line);
            line = NULL;
        } else {
            line[strcspn(line, "\r\n")] = '\0';
        }
        struct chat_line m = {line};
        act_post(lane_engine_rt(h->engine), h->client.self, CHAT_KIND_line, &m, sizeof m);
    }
    return NULL;
}

static void chat_ask(struct chat *h) {
    ssize_t n = write(h->go[1], "r", 1);
    CHECK(n == 1);
}

static bool chat_add(struct chat *h, const char *role, const char *text, size_t bytes) {
    if (h->n_messages == CHAT_MESSAGES_MAX)
        return false;
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    h->messages[h->n_messages++] =
        (struct lane_message){.role = role, .content = copy, .content_bytes = bytes};
    return true;
}

static void chat_stop(struct act_ctx *ctx, struct chat *h, enum status s) {
    h->status = s;
    h->ended = true;
    client_stop(ctx);
}

static void chat_turn(struct act_ctx *ctx, struct chat *h, const char *line) {
    if (!chat_add(h, "user", line, strlen(line))) {
        status_say(&h->note, STATUS_TOO_LARGE, "the conversation has more than %d messages",
                   CHAT_MESSAGES_MAX);
        chat_stop(ctx, h, STATUS_TOO_LARGE);
        return;
    }
    h->n_prompt = 0;
    enum status s = lane_template_encode(lane_engine_tokenizer(h->engine), h->messages,
                                         h->n_messages, &h->template, true, 0, &h->prompt,
                                         &h->n_prompt, &h->capacity, &h->note);
    if (s != STATUS_OK) {
        chat_stop(ctx, h, s);
        return;
    }
    struct lane_request *r = &h->call.request;
    r->prompt = h->prompt;
    r->n_prompt = h->n_prompt;
    r->max_tokens = h->max_tokens;
    r->sampling = h->sampling;
    r->draft_max = h->draft;
    r->flags = options_has(&h->o, OPT_ignore_eos) ? LANE_IGNORE_EOS : 0;
    h->printed = 0;
    h->busy = true;
    client_submit(ctx, &h->client, &h->call);
}

static void chat_start(struct act_ctx *ctx, struct client *c, void *user) {
    (void)ctx;
    (void)c;
    chat_ask(user);
}

static void chat_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                       uint32_t id) {
    (void)ctx;
    (void)id;
    struct chat *h = c->driver.user;
    fwrite(call->text + h->printed, 1, call->text_bytes - h->printed, stdout);
    fflush(stdout);
    h->printed = call->text_bytes;
}

static void chat_say_turn(const struct client_call *call) {
    char tiers[80] = "";
    if (call->from_ram + call->from_disk > 0)
        snprintf(tiers, sizeof tiers, " (%u from the RAM tier, %u from disk)", call->from_ram,
                 call->from_disk);
    fprintf(stderr, "  [%u of %u prompt tokens resumed%s: %s. %u new, the first after %.1f ms.]\n",
            call->n_resumed, call->n_prompt, tiers, ses_reason_text((enum ses_reason)call->reason),
            call->n_new, (double)(call->first_ns - call->submit_ns) / 1e6);
}

static void chat_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct chat *h = c->driver.user;
    h->busy = false;
    putchar('\n');
    fflush(stdout);
    if (call->end == LANE_END_FAILED) {
        /* The turn did not happen: the conversation stays as it was. */
        struct status_note why;
        client_call_say(call, &why);
        fprintf(stderr, "roundhouse chat: %s\n", why.text);
        free((void *)(uintptr_t)h->messages[--h->n_messages].content);
        if (lane_engine_dead(h->engine) != STATUS_OK) {
            chat_stop(ctx, h, call->status);
            return;
        }
    } else {
        if (!h->quiet)
            chat_say_turn(call);
        if (!chat_add(h, "assistant", call->text != NULL ? call->text : "", call->text_bytes)) {
            chat_stop(ctx, h, STATUS_NO_MEMORY);
            return;
        }
    }
    chat_ask(h);
}

static void chat_other(struct act_ctx *ctx, struct client *c, const struct act_msg *msg) {
    struct chat *h = c->driver.user;
    if (msg->kind != CHAT_KIND_line)
        return;
    struct chat_line m;
    memcpy(&m, msg->body, sizeof m);
    if (m.text == NULL)
        chat_stop(ctx, h, STATUS_OK);
    else if (m.text[strspn(m.text, " \t")] == '\0')
        chat_ask(h);
    else
        chat_turn(ctx, h, m.text);
    free(m.text);
}

static enum status chat_all(struct chat *h, int argc, char **argv) {
    struct lane_engine_config config;
    TRY(options_parse(P_CHAT, argc, argv, &h->o, &h->note));
    TRY(options_engine(&h->o, &config, &h->note));
    h->max_tokens = 256;
    h->draft = 8;
    TRY(options_u64(&h->o, OPT_max_tokens, 1, UINT64_MAX, false, &h->max_tokens, &h->note));
    TRY(options_u32(&h->o, OPT_draft, 0, LANE_DRAFT_MAX, &h->draft, &h->note));
    h->quiet = options_has(&h->o, OPT_quiet);
    TRY(options_template(&h->o, true, &h->template, &h->note));
    TRY(loading_engine(&config, h->quiet, &h->engine, &h->note));
    TRY(options_sampling(&h->o, &lane_engine_model(h->engine)->config, &h->sampling, &h->note));
    bool unknown = false;
    if (lane_engine_tokenizer(h->engine) == NULL ||
        lane_template_name(lane_engine_tokenizer(h->engine), &unknown) == NULL)
        return status_say(&h->note, STATUS_UNSUPPORTED,
                          unknown ? "%s has a chat template that this build does not know; raw "
                                    "prompts work with roundhouse run"
                                  : "%s has no chat template; raw prompts work with roundhouse run",
                          config.model_path);
    TRY(lane_template_check(lane_engine_tokenizer(h->engine), &h->template, &h->note));
    const char *system = options_text(&h->o, OPT_system, NULL);
    if (system != NULL && !chat_add(h, "system", system, strlen(system)))
        return STATUS_NO_MEMORY;
    struct lane_stop *stops = NULL;
    TRY(input_stops(&h->o, &stops, &h->note));
    client_call_init(&h->call);
    h->call.request.stops = stops;
    h->call.request.n_stops = h->o.n[OPT_stop];
    h->terminal = isatty(0) && isatty(1);
    if (!h->quiet)
        fprintf(
            stderr,
            "roundhouse: profile %s, context %u tokens, session memory for %llu; end with Ctrl-D\n",
            lane_engine_profile(h->engine)->name, lane_engine_context(h->engine),
            (unsigned long long)lane_engine_kv_tokens(h->engine));
    if (pipe(h->go) != 0)
        return status_say(&h->note, STATUS_IO, "no pipe could be made: %s", strerror(errno));
    struct client_driver driver = {.start = chat_start,
                                   .token = chat_token,
                                   .over = chat_over,
                                   .other = chat_other,
                                   .user = h};
    client_open(&h->client, h->engine, &driver);
    if (pthread_create(&h->reader, NULL, chat_reader, h) != 0)
        return status_say(&h->note, STATUS_NO_MEMORY, "no thread could be made");
    client_run(&h->client);
    ssize_t n = write(h->go[1], "q", 1);
    CHECK(n == 1);
    pthread_join(h->reader, NULL);
    return h->status;
}

int program_chat(int argc, char **argv) {
    struct chat *h = calloc(1, sizeof *h);
    if (h == NULL)
        return EXIT_NO_RESOURCES;
    enum status s = chat_all(h, argc, argv);
    if (s != STATUS_OK)
        fprintf(stderr, "roundhouse chat: %s\n",
                h->note.text[0] != '\0' ? h->note.text : status_text(s));
    lane_engine_close(h->engine);
    for (uint32_t i = 0; i < h->n_messages; i++)
        free((void *)(uintptr_t)h->messages[i].content);
    free((void *)(uintptr_t)h->call.request.stops);
    client_call_free(&h->call);
    free(h->prompt);
    free(h);
    return (int)program_exit_of(s);
}
