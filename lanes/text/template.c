/* SPDX-License-Identifier: Apache-2.0
 * Conversations to token ids. A template is recognised when its reduced text equals that of a shape
 * of template_shapes.def, or has the length and digest of one that is too long to be told there;
 * each shape has one function here that writes what the template writes for messages without tools.
 * Special tokens come from the template's own text only: what a message contains is encoded as
 * plain text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lanes/text/encode.h"
#include "lanes/text/jinja.h"
#include "lanes/text/utf8.h"

enum shape_flags {
    SHAPE_BOS = 1,          /* begins with the bos */
    SHAPE_ALWAYS_REPLY = 2, /* opens the reply whether asked to or not */
    SHAPE_EOS_SPACE = 4,    /* a space after each eos */
    SHAPE_DATE = 8,         /* takes today's date */
    SHAPE_THINKING = 16     /* takes whether to think */
};

/* A special token within the rendered text. */
struct mark {
    size_t begin, end;
    uint32_t id;
};

struct render {
    const struct lane_tokenizer *t;
    const struct lane_message *messages;
    uint32_t n_messages;
    bool reply; /* add_generation_prompt */
    uint32_t flags;
    const struct lane_template_options *options;
    char *text;
    size_t n, capacity;
    struct mark *marks;
    size_t n_marks, marks_capacity;
    enum status status; /* the first failure; nothing is added after it */
    struct status_note *note;
};

struct text_shape {
    const char *name;
    void (*render)(struct render *r);
    uint32_t flags;
    const char *text;   /* of the template; or, when it is known by its reduced form alone: */
    const char *system; /* its default system prompt, or NULL */
    size_t reduced;     /* bytes */
    uint64_t digest;    /* XXH3-64 */
};

/* ---- writing ---- */

static void *grown(struct render *r, void *memory, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity)
        return memory;
    size_t room = 2 * need + 64;
    void *bigger = realloc(memory, room * size);
    if (bigger == NULL)
        r->status = status_say(r->note, STATUS_NO_MEMORY, "no memory for the conversation");
    else
        *capacity = room;
    return bigger == NULL ? memory : bigger;
}

static void put(struct render *r, const char *text, size_t n) {
    if (r->status != STATUS_OK || n == 0)
        return;
    if (n > TEXT_INPUT_BYTES_MAX || r->n > TEXT_INPUT_BYTES_MAX - n) {
        r->status =
            status_say(r->note, STATUS_TOO_LARGE, "the conversation is over the limit of %d bytes",
                       TEXT_INPUT_BYTES_MAX);
        return;
    }
    r->text = grown(r, r->text, &r->capacity, r->n + n, 1);
    if (r->status != STATUS_OK)
        return;
    memcpy(r->text + r->n, text, n);
    r->n += n;
}

static void put_special(struct render *r, uint32_t id, const char *text, size_t n) {
    if (r->status == STATUS_OK)
        r->marks = grown(r, r->marks, &r->marks_capacity, r->n_marks + 1, sizeof *r->marks);
    if (r->status != STATUS_OK)
        return;
    r->marks[r->n_marks++] = (struct mark){r->n, r->n + n, id};
    put(r, text, n);
}

/* Text of the template: what spells a special token of this vocabulary is that token. */
static void put_literal(struct render *r, const char *text) {
    size_t n = strlen(text), plain = 0;
    for (size_t at = 0; at < n;) {
        const struct text_added *a = lane_text_added_longest(&r->t->raw, text + at, n - at);
        if (a == NULL || (a->flags & TEXT_SPECIAL) == 0)
            a = lane_text_added_longest(&r->t->normalized, text + at, n - at);
        if (a == NULL || (a->flags & TEXT_SPECIAL) == 0) {
            at++;
            continue;
        }
        put(r, text + plain, at - plain);
        put_special(r, a->id, a->text, a->bytes);
        at += a->bytes;
        plain = at;
    }
    put(r, text + plain, n - plain);
}

static void put_token(struct render *r, int64_t id, const char *name) {
    uint32_t n;
    if (r->status != STATUS_OK)
        return;
    if (id < 0) {
        r->status =
            status_say(r->note, STATUS_UNSUPPORTED,
                       "the chat template writes %s, which this tokenizer does not have", name);
        return;
    }
    const char *text = lane_tokenizer_bytes(r->t, (uint32_t)id, &n);
    put_special(r, (uint32_t)id, text, n);
}

static void put_bos(struct render *r) {
    put_token(r, r->t->bos, "bos_token");
}

static void put_eos(struct render *r) {
    put_token(r, r->t->eos, "eos_token");
}

static void put_content(struct render *r, const struct lane_message *m) {
    put(r, m->content, m->content_bytes);
}

/* What str.strip() strips: white space and the four separators U+001C to U+001F. */
static size_t strip_after(const char *text, size_t n) {
    size_t at = 0, more;
    do {
        more = lane_text_space_after(text + at, n - at);
        while (at + more < n && text[at + more] >= 0x1C && text[at + more] <= 0x1F)
            more++;
        at += more;
    } while (more != 0);
    return at;
}

static size_t strip_before(const char *text, size_t n) {
    size_t left = n, more;
    do {
        more = lane_text_space_before(text, left);
        while (more < left && text[left - more - 1] >= 0x1C && text[left - more - 1] <= 0x1F)
            more++;
        left -= more;
    } while (more != 0);
    return n - left;
}

static void put_stripped(struct render *r, const char *text, size_t n) {
    size_t after = strip_after(text, n);
    put(r, text + after, n - after - strip_before(text + after, n - after));
}

static bool role_is(const struct lane_message *m, const char *role) {
    return strcmp(m->role, role) == 0;
}

/* The exception of templates whose turns must alternate; index counts from the first turn that is
 * not the system's. */
static bool alternates(struct render *r, const struct lane_message *m, uint32_t index) {
    if (role_is(m, "user") == (index % 2 == 0))
        return true;
    if (r->status == STATUS_OK)
        r->status =
            status_say(r->note, STATUS_BAD_REQUEST,
                       "conversation roles must alternate user/assistant/user/assistant/... "
                       "in this model's chat template");
    return false;
}

/* ---- the shapes ---- */

static void render_fable(struct render *r) {
    put_bos(r);
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        put_literal(r, role_is(m, "assistant") ? "<|assistant|>" : "<|user|>");
        put_stripped(r, m->content, m->content_bytes);
        put_literal(r, "<|end|>");
    }
    if (r->reply)
        put_literal(r, "<|assistant|>");
}

static void render_chatml(struct render *r) {
    if ((r->flags & SHAPE_BOS) != 0)
        put_bos(r);
    if (r->t->template_system != NULL && !role_is(&r->messages[0], "system")) {
        put_literal(r, "<|im_start|>system\n");
        put_literal(r, r->t->template_system);
        put_literal(r, "<|im_end|>\n");
    }
    for (uint32_t i = 0; i < r->n_messages; i++) {
        put_literal(r, "<|im_start|>");
        put_literal(r, r->messages[i].role);
        put_literal(r, "\n");
        put_content(r, &r->messages[i]);
        put_literal(r, "<|im_end|>\n");
    }
    if (r->reply)
        put_literal(r, "<|im_start|>assistant\n");
}

/* The system prompt goes into the first turn, and that turn is stripped as a whole. */
static void llama2_user(struct render *r, const struct lane_message *system,
                        const struct lane_message *m) {
    put_bos(r);
    put_literal(r, "[INST] ");
    if (system == NULL) {
        put_stripped(r, m->content, m->content_bytes);
    } else {
        put_literal(r, "<<SYS>>\n");
        put_content(r, system);
        put_literal(r, "\n<</SYS>>\n\n");
        put(r, m->content, m->content_bytes - strip_before(m->content, m->content_bytes));
        /* A turn of white space only: the strip reaches what stands before it. */
        r->n -= strip_before(r->text, r->n);
    }
    put_literal(r, " [/INST]");
}

static void render_llama2(struct render *r) {
    bool has_system = role_is(&r->messages[0], "system");
    for (uint32_t i = has_system; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        if (!alternates(r, m, i - has_system))
            return;
        if (role_is(m, "user")) {
            llama2_user(r, has_system && i == 1 ? r->messages : NULL, m);
        } else if (role_is(m, "assistant")) {
            put_literal(r, " ");
            put_stripped(r, m->content, m->content_bytes);
            put_literal(r, " ");
            put_eos(r);
        }
    }
}

static void render_llama3(struct render *r) {
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        if (i == 0)
            put_bos(r);
        put_literal(r, "<|start_header_id|>");
        put_literal(r, m->role);
        put_literal(r, "<|end_header_id|>\n\n");
        put_stripped(r, m->content, m->content_bytes);
        put_literal(r, "<|eot_id|>");
    }
    if (r->reply || (r->flags & SHAPE_ALWAYS_REPLY) != 0)
        put_literal(r, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

static void render_gemma(struct render *r) {
    if ((r->flags & SHAPE_BOS) != 0)
        put_bos(r);
    if (role_is(&r->messages[0], "system")) {
        r->status = status_say(r->note, STATUS_BAD_REQUEST,
                               "this model's chat template does not support a system message");
        return;
    }
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        if (!alternates(r, m, i))
            return;
        put_literal(r, "<start_of_turn>");
        put_literal(r, role_is(m, "assistant") ? "model" : m->role);
        put_literal(r, "\n");
        put_stripped(r, m->content, m->content_bytes);
        put_literal(r, "<end_of_turn>\n");
    }
    if (r->reply)
        put_literal(r, "<start_of_turn>model\n");
}

/* The system's message goes before the first turn's text, which alone is stripped. */
static void render_gemma3(struct render *r) {
    bool has_system = role_is(&r->messages[0], "system");
    put_bos(r);
    for (uint32_t i = has_system; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        if (!alternates(r, m, i - has_system))
            return;
        put_literal(r, "<start_of_turn>");
        put_literal(r, role_is(m, "assistant") ? "model" : m->role);
        put_literal(r, "\n");
        if (has_system && i == 1) {
            put_content(r, r->messages);
            put_literal(r, "\n\n");
        }
        put_stripped(r, m->content, m->content_bytes);
        put_literal(r, "<end_of_turn>\n");
    }
    if (r->reply)
        put_literal(r, "<start_of_turn>model\n");
}

/* "2024-07-26" as "26 Jul 2024"; false for what is no day. */
static bool date_words(const char *date, char out[16]) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const unsigned char days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const char form[] = "0000-00-00";
    if (strlen(date) != sizeof form - 1 || date[0] == '0')
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? date[i] != '-' : date[i] < '0' || date[i] > '9')
            return false;
    unsigned year = (unsigned)strtoul(date, NULL, 10),
             month = (unsigned)strtoul(date + 5, NULL, 10);
    unsigned day = (unsigned)strtoul(date + 8, NULL, 10);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month < 1 || month > 12 || day < 1 || day > days[month - 1] ||
        (month == 2 && day == 29 && !leap))
        return false;
    snprintf(out, 16, "%02u %.3s %04u", day, months + 3 * (month - 1), year % 10000);
    return true;
}

/* The template asks its host for today's date and has one of its own where there is none. Here is
 * none unless the caller says one: what a prompt is never depends on the day. */
static void render_llama3_dated(struct render *r) {
    bool has_system = role_is(&r->messages[0], "system");
    put_bos(r);
    put_literal(r, "<|start_header_id|>system<|end_header_id|>\n\n"
                   "Cutting Knowledge Date: December 2023\nToday Date: ");
    char words[16] = "26 Jul 2024";
    if (r->options->date != NULL)
        date_words(r->options->date, words); /* a day: lane_template_check saw it */
    put(r, words, strlen(words));
    put(r, "\n\n", 2);
    if (has_system)
        put_stripped(r, r->messages[0].content, r->messages[0].content_bytes);
    put_literal(r, "<|eot_id|>");
    for (uint32_t i = has_system; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        put_literal(r, "<|start_header_id|>");
        put_literal(r, m->role);
        put_literal(r, "<|end_header_id|>\n\n");
        put_stripped(r, m->content, m->content_bytes);
        put_literal(r, "<|eot_id|>");
    }
    if (r->reply)
        put_literal(r, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* Bytes of a message. */
struct part {
    const char *at;
    size_t n;
};

static struct part after_newlines(struct part p) {
    while (p.n > 0 && p.at[0] == '\n')
        p = (struct part){p.at + 1, p.n - 1};
    return p;
}

static struct part before_newlines(struct part p) {
    while (p.n > 0 && p.at[p.n - 1] == '\n')
        p.n--;
    return p;
}

/* What stands before the first (last false) or behind the last `mark`; all when there is none. */
static struct part cut_at(struct part p, const char *mark, bool last) {
    size_t n = strlen(mark);
    for (size_t i = 0; i + n <= p.n; i++) {
        size_t at = last ? p.n - n - i : i;
        if (memcmp(p.at + at, mark, n) == 0)
            return last ? (struct part){p.at + at + n, p.n - at - n} : (struct part){p.at, at};
    }
    return p;
}

static bool begins_and_ends(const struct lane_message *m, const char *begin, const char *end) {
    size_t n_begin = strlen(begin), n_end = strlen(end);
    return m->content_bytes >= n_begin && m->content_bytes >= n_end &&
           memcmp(m->content, begin, n_begin) == 0 &&
           memcmp(m->content + m->content_bytes - n_end, end, n_end) == 0;
}

/* An assistant's turn: what it thought is told only behind the last question. */
static void qwen3_assistant(struct render *r, uint32_t i, uint32_t last_query) {
    const struct lane_message *m = &r->messages[i];
    struct part content = {m->content, m->content_bytes}, thought = {NULL, 0};
    struct part head = cut_at(content, "</think>", false);
    if (head.n != content.n) {
        thought = after_newlines(cut_at(before_newlines(head), "<think>", true));
        content = after_newlines(cut_at(content, "</think>", true));
    }
    bool told = i > last_query && (i + 1 == r->n_messages || thought.n > 0);
    if (told) {
        thought = before_newlines(after_newlines(thought));
        content = after_newlines(content);
        put_literal(r, "<think>\n");
        put(r, thought.at, thought.n);
        put_literal(r, "\n</think>\n\n");
    }
    put(r, content.at, content.n);
}

static void render_qwen3(struct render *r) {
    uint32_t last_query = r->n_messages - 1;
    for (uint32_t i = r->n_messages; i > 0; i--) {
        const struct lane_message *m = &r->messages[i - 1];
        if (role_is(m, "user") && !begins_and_ends(m, "<tool_response>", "</tool_response>")) {
            last_query = i - 1;
            break;
        }
    }
    for (uint32_t i = 0; i < r->n_messages; i++) {
        put_literal(r, "<|im_start|>");
        put_literal(r, r->messages[i].role);
        put_literal(r, "\n");
        if (role_is(&r->messages[i], "assistant"))
            qwen3_assistant(r, i, last_query);
        else
            put_content(r, &r->messages[i]);
        put_literal(r, "<|im_end|>\n");
    }
    if (r->reply)
        put_literal(r, "<|im_start|>assistant\n");
    if (r->reply && r->options->thinking == LANE_THINKING_OFF)
        put_literal(r, "<think>\n\n</think>\n\n");
}

static void render_mistral(struct render *r) {
    put_bos(r);
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        if (!alternates(r, m, i))
            return;
        if (role_is(m, "user")) {
            put_literal(r, "[INST] ");
            put_content(r, m);
            put_literal(r, " [/INST]");
        } else if (role_is(m, "assistant")) {
            put_content(r, m);
            put_eos(r);
            if ((r->flags & SHAPE_EOS_SPACE) != 0)
                put_literal(r, " ");
        } else {
            r->status = status_say(r->note, STATUS_BAD_REQUEST,
                                   "this model's chat template supports user and assistant only");
            return;
        }
    }
}

static void render_zephyr(struct render *r) {
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct lane_message *m = &r->messages[i];
        put_literal(r, role_is(m, "user")     ? "<|user|>\n"
                       : role_is(m, "system") ? "<|system|>\n"
                                              : "<|assistant|>\n");
        put_content(r, m);
        put_eos(r);
        put_literal(r, "\n");
    }
    if (r->reply)
        put_literal(r, "<|assistant|>\n");
}

static const struct text_shape shapes[] = {
#define SHAPE(name, render, flags, text) {name, render, flags, text, NULL, 0, 0},
#define PUBLISHED(name, render, flags, system, reduced, digest)                                    \
    {name, render, flags, NULL, system, reduced, digest},
#include "lanes/text/template_shapes.def"
#undef SHAPE
#undef PUBLISHED
};

/* ---- recognising ---- */

static void recognise(struct lane_tokenizer *t, const struct text_shape *shape, const char *reduced,
                      size_t n_reduced) {
    char *pattern;
    const char *any;
    size_t n, n_any;
    if (shape->text == NULL) {
        if (n_reduced != shape->reduced || XXH3_64bits(reduced, n_reduced) != shape->digest)
            return;
        t->template_system = shape->system == NULL ? NULL : strdup(shape->system);
        if (shape->system == NULL || t->template_system != NULL)
            t->shape = shape;
        return;
    }
    if (!lane_jinja_reduce(shape->text, strlen(shape->text), &pattern, &n))
        return;
    if (lane_jinja_matches(pattern, n, reduced, n_reduced, &any, &n_any)) {
        t->template_system = any == NULL ? NULL : strndup(any, n_any);
        if (any == NULL || t->template_system != NULL)
            t->shape = shape;
    }
    free(pattern);
}

void lane_text_template_open(struct lane_tokenizer *t) {
    char *reduced;
    size_t n;
    t->shape = NULL;
    free(t->template_system);
    t->template_system = NULL;
    if (t->template_text == NULL || strlen(t->template_text) > TEXT_TEMPLATE_BYTES_MAX ||
        !lane_jinja_reduce(t->template_text, strlen(t->template_text), &reduced, &n))
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && t->shape == NULL; i++)
        recognise(t, &shapes[i], reduced, n);
    free(reduced);
}

const char *lane_template_name(const struct lane_tokenizer *t, bool *unknown) {
    *unknown = t->template_text != NULL && t->shape == NULL;
    return t->shape == NULL ? NULL : t->shape->name;
}

/* For the refusal of an unknown template: whose markers it uses. */
static const char *relative(const char *text) {
    static const struct {
        const char *marker, *name;
    } known[] = {{"Cutting Knowledge Date", "Llama 3.1's, with dates and tools,"},
                 {"first_user_prefix", "Gemma 3's"},
                 {"<think>", "Qwen3's, or of another model that thinks,"},
                 {"tool_calls", "one with tools"},
                 {"<|start_header_id|>", "Llama 3's"},
                 {"<|im_start|>", "ChatML's"},
                 {"<start_of_turn>", "Gemma's"},
                 {"[INST]", "Mistral's or Llama 2's"},
                 {"<|assistant|>", "Zephyr's"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(text, known[i].marker) != NULL)
            return known[i].name;
    return NULL;
}

static enum status refuse(const struct lane_tokenizer *t, struct status_note *note) {
    if (t->template_text == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "the model has no chat template; a raw prompt works");
    const char *name = relative(t->template_text);
    if (name != NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "the model's chat template is a form of %s that this build does not "
                          "know; a raw prompt works",
                          name);
    status_say(note, STATUS_UNSUPPORTED,
               "the model's chat template, beginning \"%.40s\", is not one that this build "
               "knows; a raw prompt works",
               t->template_text);
    lane_text_note_clean(note);
    return STATUS_UNSUPPORTED;
}

/* ---- encoding ---- */

/* The text between two special tokens, less the white space that they take. */
static enum status encode_between(const struct render *r, size_t begin, size_t end,
                                  const struct mark *before, const struct mark *after,
                                  uint32_t limit, uint32_t **ids, uint32_t *n, uint32_t *capacity) {
    const struct text_token *tokens = r->t->tokens;
    if (before != NULL && (tokens[before->id].flags & TEXT_RSTRIP) != 0)
        begin += lane_text_space_after(r->text + begin, end - begin);
    if (after != NULL && (tokens[after->id].flags & TEXT_LSTRIP) != 0)
        end -= lane_text_space_before(r->text + begin, end - begin);
    if (begin == end)
        return STATUS_OK;
    return lane_tokenizer_encode(r->t, r->text + begin, end - begin,
                                 begin == 0 ? 0 : TEXT_ENCODE_GOES_ON, limit, ids, n, capacity,
                                 r->note);
}

static enum status encode_rendered(const struct render *r, uint32_t limit, uint32_t **ids,
                                   uint32_t *n, uint32_t *capacity) {
    struct text_encode one = {
        .t = r->t, .limit = limit, .ids = ids, .n = n, .capacity = capacity, .note = r->note};
    const struct mark *before = NULL;
    size_t done = 0;
    for (size_t i = 0; i < r->n_marks; i++) {
        const struct mark *mark = &r->marks[i];
        TRY(encode_between(r, done, mark->begin, before, mark, limit, ids, n, capacity));
        TRY(lane_text_emit(&one, mark->id));
        done = mark->end;
        before = mark;
    }
    return encode_between(r, done, r->n, before, NULL, limit, ids, n, capacity);
}

static enum status check_messages(const struct lane_message *messages, uint32_t n,
                                  struct status_note *note) {
    if (n == 0)
        return status_say(note, STATUS_BAD_REQUEST, "a conversation needs a message");
    for (uint32_t i = 0; i < n; i++)
        if (role_is(&messages[i], "tool") || role_is(&messages[i], "ipython") ||
            role_is(&messages[i], "function")) {
            return status_say(note, STATUS_BAD_REQUEST,
                              "message %u has the role \"%s\": this build renders no tools", i,
                              messages[i].role);
        } else if (!role_is(&messages[i], "system") && !role_is(&messages[i], "user") &&
                   !role_is(&messages[i], "assistant")) {
            status_say(note, STATUS_BAD_REQUEST,
                       "message %u has the role \"%.40s\", not system, user or assistant", i,
                       messages[i].role);
            lane_text_note_clean(note);
            return STATUS_BAD_REQUEST;
        }
    return STATUS_OK;
}

enum status lane_template_check(const struct lane_tokenizer *t,
                                const struct lane_template_options *options,
                                struct status_note *note) {
    char words[16];
    if (t->shape == NULL)
        return refuse(t, note);
    if (options->date != NULL && !date_words(options->date, words)) {
        status_say(note, STATUS_BAD_REQUEST, "the date \"%.40s\" is not a day as 2024-07-26",
                   options->date);
        lane_text_note_clean(note);
        return STATUS_BAD_REQUEST;
    }
    if (options->date != NULL && (t->shape->flags & SHAPE_DATE) == 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this model's chat template (%s) has no place for a date",
                          t->shape->name);
    if (options->thinking != LANE_THINKING_AS_IS && (t->shape->flags & SHAPE_THINKING) == 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this model's chat template (%s) has no switch for thinking",
                          t->shape->name);
    return STATUS_OK;
}

enum status lane_template_encode(const struct lane_tokenizer *t,
                                 const struct lane_message *messages, uint32_t n_messages,
                                 const struct lane_template_options *options,
                                 bool add_generation_prompt, uint32_t limit, uint32_t **ids,
                                 uint32_t *n, uint32_t *capacity, struct status_note *note) {
    struct render r = {.t = t, .messages = messages, .n_messages = n_messages, .note = note};
    uint32_t before = *n;
    static const struct lane_template_options none;
    r.options = options != NULL ? options : &none;
    TRY(lane_template_check(t, r.options, note));
    TRY(check_messages(messages, n_messages, note));
    r.reply = add_generation_prompt;
    r.flags = t->shape->flags;
    t->shape->render(&r);
    enum status status = r.status;
    if (status == STATUS_OK)
        status = encode_rendered(&r, limit, ids, n, capacity);
    if (status != STATUS_OK)
        *n = before;
    free(r.text);
    free(r.marks);
    return status;
}
