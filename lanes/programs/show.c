/* SPDX-License-Identifier: Apache-2.0
 * roundhouse show: several sessions at once, streaming side by side, each then resumed with a
 * follow-up; then every one of them alone and fresh, and a table that says whether the tokens are
 * equal.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/programs/client.h"
#include "lanes/programs/input.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/options.h"
#include "lanes/programs/show.h"
#include "sessions/reason.h"

enum {
    SHOW_SESSIONS = 6,
    SHOW_TURNS = 2,
    SHOW_NEW = 200,
    SHOW_FRAME_NS = 40000000,
    SHOW_PACE = 3 /* bytes revealed a frame: reading pace; the engine is far ahead */
};

static const struct {
    const char *title;
    bool chat; /* a user's message; else text to go on with */
    const char *first, *then;
} show_stories[SHOW_SESSIONS] = {
    {"the little bear", false, "Once upon a time there was a little bear who",
     "\n\nThe next morning the little bear"},
    {"three daughters", false, "There was once a king who had three daughters.",
     "\n\nBut the youngest daughter"},
    {"asked for a story", true, "Tell me a short story.", "What happened next?"},
    {"Tim in the park", false, "One day, a boy named Tim",
     "\n\nThat night Tim told his mother that"},
    {"a fox and a hen", true, "Tell me a story about a fox and a hen.",
     "Tell me more about the hen."},
    {"the old goat", false, "\"Oh dear!\" said the old goat.", "\n\n\"Come with me,\" said the"},
};

struct show_turn {
    struct client_call call, solo;
    uint32_t *prompt;
    uint32_t n_prompt, capacity;
    uint32_t ids[SHOW_NEW], solo_ids[SHOW_NEW];
    bool equal;
};

struct show_session {
    struct show_turn turn[SHOW_TURNS];
    char *story; /* what the pane shows */
    size_t bytes, capacity, revealed, taken;
    uint32_t now; /* turn under way */
    char status[160];
};

struct show {
    struct options o;
    struct lane_engine *engine;
    struct client client;
    struct show_screen screen;
    struct show_session session[SHOW_SESSIONS];
    struct krn_sampling sampling;
    uint32_t draft;
    uint32_t turns_over, solo_next;
    uint64_t begun_ns, done_ns;
    bool json, quiet, solo_running;
    enum status status;
    struct status_note note;
};

static void show_story_add(struct show_session *s, const char *text, size_t n) {
    if (s->bytes + n + 1 > s->capacity) {
        s->capacity = s->capacity * 2 + n + 1024;
        s->story = realloc(s->story, s->capacity);
        CHECK(s->story != NULL);
    }
    memcpy(s->story + s->bytes, text, n);
    s->bytes += n;
    s->story[s->bytes] = '\0';
}

/* The ids of turn t of session i: the first prompt, or all that was said so far and the
 * follow-up. */
static enum status show_prompt(struct show *w, uint32_t i, uint32_t t, struct status_note *note) {
    const struct lane_tokenizer *tok = lane_engine_tokenizer(w->engine);
    struct show_session *s = &w->session[i];
    struct show_turn *q = &s->turn[t];
    const char *first = show_stories[i].first, *then = show_stories[i].then;
    if (show_stories[i].chat) {
        const struct client_call *reply = &s->turn[0].call;
        struct lane_message m[3] = {
            {.role = "user", .content = first, .content_bytes = strlen(first)},
            {.role = "assistant", .content = reply->text, .content_bytes = reply->text_bytes},
            {.role = "user", .content = then, .content_bytes = strlen(then)}};
        return lane_template_encode(tok, m, t == 0 ? 1 : 3, NULL, true, 0, &q->prompt, &q->n_prompt,
                                    &q->capacity, note);
    }
    if (t == 0)
        return lane_tokenizer_encode(tok, first, strlen(first), LANE_ENCODE_BOS, 0, &q->prompt,
                                     &q->n_prompt, &q->capacity, note);
    const struct show_turn *b = &s->turn[0];
    uint32_t n = b->call.n_new;
    if (n > 0 && lane_tokenizer_is_special(tok, b->ids[n - 1]))
        n--; /* the end that the model drew is not part of what goes on */
    q->capacity = b->n_prompt + n + 64;
    q->prompt = malloc(q->capacity * sizeof(uint32_t));
    if (q->prompt == NULL)
        return STATUS_NO_MEMORY;
    memcpy(q->prompt, b->prompt, b->n_prompt * sizeof(uint32_t));
    memcpy(q->prompt + b->n_prompt, b->ids, n * sizeof(uint32_t));
    q->n_prompt = b->n_prompt + n;
    return lane_tokenizer_encode(tok, then, strlen(then), 0, 0, &q->prompt, &q->n_prompt,
                                 &q->capacity, note);
}

static void show_call(const struct show *w, struct client_call *call, struct show_turn *q,
                      uint32_t *ids, bool solo, struct show_session *s, uint32_t i, uint32_t t) {
    client_call_init(call);
    call->user = s;
    call->ids = ids;
    struct lane_request *r = &call->request;
    r->prompt = q->prompt;
    r->n_prompt = q->n_prompt;
    r->max_tokens = SHOW_NEW;
    r->sampling = w->sampling;
    r->sampling.seed = w->sampling.seed + i * SHOW_TURNS + t;
    r->flags = solo ? LANE_NO_REUSE | LANE_NO_KEEP | LANE_NO_TEXT : 0;
    r->draft_max = solo ? 0 : w->draft;
}

static void show_fail(struct act_ctx *ctx, struct show *w, enum status s) {
    w->status = s;
    client_stop(ctx);
}

static void show_submit(struct act_ctx *ctx, struct show *w, uint32_t i, uint32_t t) {
    struct show_session *s = &w->session[i];
    struct show_turn *q = &s->turn[t];
    enum status st = show_prompt(w, i, t, &w->note);
    if (st != STATUS_OK) {
        show_fail(ctx, w, st);
        return;
    }
    const char *said = t == 0 ? show_stories[i].first : show_stories[i].then;
    if (show_stories[i].chat && t > 0)
        show_story_add(s, "\n\n", 2);
    if (show_stories[i].chat)
        show_story_add(s, "> ", 2);
    show_story_add(s, said, strlen(said));
    if (show_stories[i].chat)
        show_story_add(s, "\n\n", 2);
    s->now = t;
    s->taken = 0;
    show_call(w, &q->call, q, q->ids, false, s, i, t);
    client_submit(ctx, &w->client, &q->call);
}

static void show_solo(struct act_ctx *ctx, struct show *w) {
    uint32_t i = w->solo_next / SHOW_TURNS, t = w->solo_next % SHOW_TURNS;
    struct show_turn *q = &w->session[i].turn[t];
    w->solo_running = true;
    show_call(w, &q->solo, q, q->solo_ids, true, &w->session[i], i, t);
    client_submit(ctx, &w->client, &q->solo);
}

static void show_draw(struct show *w) {
    struct show_pane panes[SHOW_SESSIONS];
    uint32_t new = 0;
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++) {
        struct show_session *s = &w->session[i];
        const struct client_call *c = &s->turn[s->now].call;
        const char *state = c->state == CLIENT_OVER ? client_end_name(c->end) : "streaming";
        snprintf(s->status, sizeof s->status, "turn %u  %u+%u tokens, %u resumed  %s", s->now + 1,
                 c->n_prompt, c->n_new, c->n_resumed, state);
        new += s->turn[0].call.n_new + s->turn[1].call.n_new;
        panes[i] = (struct show_pane){.title = show_stories[i].title,
                                      .text = s->story,
                                      .bytes = s->bytes,
                                      .shown = s->revealed,
                                      .status = s->status};
    }
    char footer[160];
    snprintf(footer, sizeof footer,
             "%u tokens made by %d sessions side by side%s; shown at reading pace. Ctrl-C ends.",
             new, SHOW_SESSIONS,
             w->turns_over < SHOW_SESSIONS * SHOW_TURNS ? "" : ", all turns done");
    show_screen_draw(&w->screen, panes, SHOW_SESSIONS, footer);
}

/* Reveals a little more of every pane; true when all is shown. */
static bool show_reveal(struct show *w) {
    bool all = true;
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++) {
        struct show_session *s = &w->session[i];
        size_t to = s->revealed + SHOW_PACE + s->bytes / 1200;
        to = w->screen.terminal && to < s->bytes ? to : s->bytes;
        while (to < s->bytes && ((unsigned char)s->story[to] & 0xc0) == 0x80)
            to++;
        s->revealed = to;
        all = all && to == s->bytes;
    }
    return all;
}

static void show_maybe_solo(struct act_ctx *ctx, struct show *w) {
    if (w->turns_over == SHOW_SESSIONS * SHOW_TURNS && !w->solo_running &&
        w->solo_next < SHOW_SESSIONS * SHOW_TURNS)
        show_solo(ctx, w);
}

static void show_timer(struct act_ctx *ctx, struct client *c, uint64_t cookie) {
    struct show *w = c->driver.user;
    bool all = show_reveal(w);
    show_draw(w);
    if (all && w->solo_next == SHOW_SESSIONS * SHOW_TURNS)
        client_stop(ctx);
    else
        act_timer_arm(ctx, SHOW_FRAME_NS, cookie);
}

static void show_start(struct act_ctx *ctx, struct client *c, void *user) {
    struct show *w = user;
    (void)c;
    w->begun_ns = act_now_ns(ctx);
    for (uint32_t i = 0; i < SHOW_SESSIONS && w->status == STATUS_OK; i++)
        show_submit(ctx, w, i, 0);
    act_timer_arm(ctx, SHOW_FRAME_NS, 1);
}

static void show_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                       uint32_t id) {
    (void)ctx;
    (void)c;
    (void)id;
    struct show_session *s = call->user;
    if (call->text_bytes > s->taken)
        show_story_add(s, call->text + s->taken, call->text_bytes - s->taken);
    s->taken = call->text_bytes;
}

static void show_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct show *w = c->driver.user;
    struct show_session *s = call->user;
    if (call->end == LANE_END_FAILED) {
        client_call_say(call, &w->note);
        show_fail(ctx, w, call->status);
        return;
    }
    uint32_t i = (uint32_t)(s - w->session);
    if (w->solo_running) {
        struct show_turn *q = &s->turn[w->solo_next % SHOW_TURNS];
        q->equal = q->solo.n_new == q->call.n_new && q->solo.end == q->call.end &&
                   memcmp(q->solo_ids, q->ids, q->call.n_new * sizeof(uint32_t)) == 0;
        w->solo_running = false;
        w->solo_next++;
    } else {
        w->turns_over++;
        w->done_ns = act_now_ns(ctx);
        if (s->now + 1 < SHOW_TURNS)
            show_submit(ctx, w, i, s->now + 1);
    }
    show_maybe_solo(ctx, w);
}

/* ---- the closing table ---- */

static double show_ms(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) / 1e6 : 0.0;
}

static double show_rate(const struct client_call *c) {
    double s = show_ms(c->first_ns, c->end_ns) / 1e3;
    return c->n_new > 1 && s > 0 ? (c->n_new - 1) / s : 0.0;
}

static bool show_table(const struct show *w) {
    bool all = true;
    uint32_t tokens = 0;
    printf("\n%-18s %4s %7s %8s %8s %9s %6s %10s %8s  %s\n", "session", "turn", "prompt", "resumed",
           "drafted", "accepted", "new", "first ms", "tok/s", "equals its solo run");
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++)
        for (uint32_t t = 0; t < SHOW_TURNS; t++) {
            const struct show_turn *q = &w->session[i].turn[t];
            const struct client_call *c = &q->call;
            all = all && q->equal;
            tokens += c->n_new;
            printf("%-18s %4u %7u %8u %8u %9u %6u %10.2f %8.0f  %s\n",
                   t == 0 ? show_stories[i].title : "", t + 1, c->n_prompt, c->n_resumed,
                   c->drafted, c->accepted, c->n_new, show_ms(c->submit_ns, c->first_ns),
                   show_rate(c), q->equal ? "yes, every token" : "NO");
        }
    double seconds = show_ms(w->begun_ns, w->done_ns) / 1e3;
    printf(
        "\n%u tokens in %.2f s, %.0f tokens/s together. %s\n", tokens, seconds,
        seconds > 0 ? tokens / seconds : 0.0,
        all ? "Each session answered what it answers alone, fresh and without drafts, bit for bit."
            : "A session answered otherwise than alone: that must never be.");
    printf("resumed: prompt tokens taken from memory; drafted, accepted: tokens guessed ahead, "
           "guesses "
           "that came true.\n");
    printf("Prove it for logits, too, and for every axis: roundhouse prove\n");
    return all;
}

static void show_json(const struct show *w) {
    json_t *rows = json_array();
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++)
        for (uint32_t t = 0; t < SHOW_TURNS; t++) {
            const struct show_turn *q = &w->session[i].turn[t];
            const struct client_call *c = &q->call;
            json_array_append_new(
                rows, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b}", "session",
                                show_stories[i].title, "turn", (int)t + 1, "prompt_tokens",
                                (int)c->n_prompt, "resumed", (int)c->n_resumed, "drafted",
                                (int)c->drafted, "accepted", (int)c->accepted, "new_tokens",
                                (int)c->n_new, "ttft_s", show_ms(c->submit_ns, c->first_ns) / 1e3,
                                "tok_s", show_rate(c), "equal", q->equal));
        }
    char *text = json_dumps(rows, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    puts(text);
    free(text);
    json_decref(rows);
}

static void show_stories_print(const struct show *w) {
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++)
        printf("--- %s\n%s\n\n", show_stories[i].title, w->session[i].story);
}

/* Ctrl-C gives the terminal back. */
static void show_interrupted(int sig) {
    static const char back[] = SHOW_LEAVE;
    ssize_t n = write(STDOUT_FILENO, back, sizeof back - 1);
    (void)n;
    _exit(128 + sig);
}

static enum status show_all(struct show *w, int argc, char **argv) {
    struct lane_engine_config config;
    TRY(options_parse(P_SHOW, argc, argv, &w->o, &w->note));
    TRY(options_engine(&w->o, &config, &w->note));
    w->draft = 8;
    TRY(options_u32(&w->o, OPT_draft, 0, LANE_DRAFT_MAX, &w->draft, &w->note));
    w->json = options_has(&w->o, OPT_json_lines);
    TRY(loading_engine(&config, options_has(&w->o, OPT_quiet), &w->engine, &w->note));
    if (lane_engine_tokenizer(w->engine) == NULL)
        return status_say(&w->note, STATUS_UNSUPPORTED, "%s has no tokenizer; show needs one",
                          config.model_path);
    TRY(options_sampling(&w->o, &lane_engine_model(w->engine)->config, &w->sampling, &w->note));
    printf("roundhouse: profile %s, context %u tokens, session memory for %llu\n",
           lane_engine_profile(w->engine)->name, lane_engine_context(w->engine),
           (unsigned long long)lane_engine_kv_tokens(w->engine));
    if (w->json)
        w->screen = (struct show_screen){0};
    else
        show_screen_open(&w->screen, SHOW_SESSIONS);
    if (w->screen.terminal) {
        signal(SIGINT, show_interrupted);
        signal(SIGTERM, show_interrupted);
        signal(SIGHUP, show_interrupted);
    }
    struct client_driver driver = {.start = show_start,
                                   .token = show_token,
                                   .over = show_over,
                                   .timer = show_timer,
                                   .user = w};
    client_open(&w->client, w->engine, &driver);
    client_run(&w->client);
    show_screen_close(&w->screen);
    return w->status;
}

int program_show(int argc, char **argv) {
    struct show *w = calloc(1, sizeof *w);
    if (w == NULL)
        return EXIT_NO_RESOURCES;
    enum status s = show_all(w, argc, argv);
    int code = 0;
    if (s != STATUS_OK) {
        fprintf(stderr, "roundhouse show: %s\n",
                w->note.text[0] != '\0' ? w->note.text : status_text(s));
        code = (int)program_exit_of(s);
    } else if (w->json) {
        show_json(w);
    } else {
        show_stories_print(w);
        code = show_table(w) ? 0 : EXIT_DIFFERS;
    }
    lane_engine_close(w->engine);
    for (uint32_t i = 0; i < SHOW_SESSIONS; i++) {
        for (uint32_t t = 0; t < SHOW_TURNS; t++) {
            free(w->session[i].turn[t].prompt);
            client_call_free(&w->session[i].turn[t].call);
            client_call_free(&w->session[i].turn[t].solo);
        }
        free(w->session[i].story);
    }
    free(w);
    return code;
}
