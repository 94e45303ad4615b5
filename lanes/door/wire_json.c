/* SPDX-License-Identifier: Apache-2.0
 * The strict decoder: every field is known, of its type and in its range, or the message is refused
 * and the field named.
 */
#include "lanes/door/wire.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "actors/check.h"

enum { FIELDS_MAX = 40 };

static const char *const cmd_names[DOOR_CMDS] = {
    [DOOR_PING] = "ping",     [DOOR_INFO] = "info",     [DOOR_SUBMIT] = "submit",
    [DOOR_READ] = "read",     [DOOR_CANCEL] = "cancel", [DOOR_SESSIONS] = "sessions",
    [DOOR_STORED] = "stored", [DOOR_TOKENS] = "tokens", [DOOR_FORGET] = "forget",
    [DOOR_PIN] = "pin",       [DOOR_EXPORT] = "export", [DOOR_IMPORT] = "import",
    [DOOR_STATS] = "stats",   [DOOR_DRAIN] = "drain",
};

/* One object being taken apart; the keys that were asked for are the keys that may be there. */
struct take {
    const json_t *object;
    struct door_arena *arena;
    const struct door_limits *limits;
    struct door_error *error;
    uint32_t n_known;
    const char *known[FIELDS_MAX];
};

const char *door_cmd_name(enum door_cmd cmd) {
    return (unsigned)cmd < DOOR_CMDS ? cmd_names[cmd] : "unknown";
}

bool door_name_valid(const char *name, size_t bytes) {
    if (bytes == 0 || bytes > DOOR_NAME_MAX)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == 0 || strchr("._:/@+-", c) == NULL))
            return false;
    }
    return true;
}

/* A name that a stranger chose must not be able to meet another's: the hash is a cryptographic
 * one. */
uint64_t door_tenant(const char *name) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    uint64_t tenant;
    if (name[0] == 0)
        return 0;
    SHA256((const unsigned char *)name, strlen(name), digest);
    memcpy(&tenant, digest, sizeof tenant);
    return tenant;
}

bool door_refuse(struct door_error *error, enum status status, const char *field,
                 const char *format, ...) {
    va_list args;
    *error = (struct door_error){.status = status};
    size_t n = strnlen(field, sizeof error->field - 1);
    while (field[n] != 0 && n > 0 && ((unsigned char)field[n] & 0xc0) == 0x80)
        n--;
    memcpy(error->field, field, n);
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

static bool refuse_numbers(struct door_error *error, enum status status, const char *field,
                           const char *what, uint64_t value, uint64_t limit) {
    door_refuse(error, status, field, "%s%s%s: %llu, the limit is %llu", field,
                field[0] != 0 ? ": " : "", what, (unsigned long long)value,
                (unsigned long long)limit);
    error->numbers = true;
    error->value = value;
    error->limit = limit;
    return false;
}

static const char *type_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number that is not whole";
    case JSON_NULL:
        return "null";
    default:
        return "a truth value";
    }
}

static bool wrong_type(struct take *t, const char *field, const char *want, const json_t *v) {
    return door_refuse(t->error, STATUS_BAD_REQUEST, field, "%s: must be %s, is %s", field, want,
                       type_name(v));
}

/* ---- one field ---- */

static const json_t *take(struct take *t, const char *field) {
    CHECK(t->n_known < FIELDS_MAX);
    t->known[t->n_known++] = field;
    return json_object_get(t->object, field);
}

static bool take_u64(struct take *t, const char *field, uint64_t min, uint64_t max, uint64_t absent,
                     uint64_t *out) {
    const json_t *v = take(t, field);
    *out = absent;
    if (v == NULL)
        return true;
    if (!json_is_integer(v))
        return wrong_type(t, field, "a whole number", v);
    json_int_t i = json_integer_value(v);
    if (i < 0 || (uint64_t)i < min)
        return door_refuse(t->error, STATUS_BAD_REQUEST, field,
                           "%s: must be at least %llu, is %lld", field, (unsigned long long)min,
                           (long long)i);
    if ((uint64_t)i > max)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, field, "too large", (uint64_t)i, max);
    *out = (uint64_t)i;
    return true;
}

static bool take_u32(struct take *t, const char *field, uint32_t min, uint32_t max, uint32_t absent,
                     uint32_t *out) {
    uint64_t v;
    if (!take_u64(t, field, min, max, absent, &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool take_f32(struct take *t, const char *field, double min, double max, float *out) {
    const json_t *v = take(t, field);
    if (v == NULL)
        return true;
    if (!json_is_number(v))
        return wrong_type(t, field, "a number", v);
    double d = json_number_value(v);
    if (!(d >= min && d <= max))
        return door_refuse(t->error, STATUS_BAD_REQUEST, field,
                           "%s: must lie between %g and %g, is %g", field, min, max, d);
    *out = (float)d;
    return true;
}

static bool take_bool(struct take *t, const char *field, bool absent, bool *out) {
    const json_t *v = take(t, field);
    *out = absent;
    if (v == NULL)
        return true;
    if (!json_is_boolean(v))
        return wrong_type(t, field, "true or false", v);
    *out = json_is_true(v);
    return true;
}

static bool take_flag(struct take *t, const char *field, bool sets, uint32_t flag,
                      uint32_t *flags) {
    bool v;
    if (!take_bool(t, field, !sets, &v))
        return false;
    if (v == sets)
        *flags |= flag;
    return true;
}

static bool take_name(struct take *t, const char *field, bool needed, char out[DOOR_NAME_MAX + 1]) {
    const json_t *v = take(t, field);
    out[0] = 0;
    if (v == NULL && !needed)
        return true;
    if (v == NULL)
        return door_refuse(t->error, STATUS_BAD_REQUEST, field, "%s: is missing", field);
    if (!json_is_string(v))
        return wrong_type(t, field, "a string", v);
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    if (!door_name_valid(s, n))
        return door_refuse(t->error, n > DOOR_NAME_MAX ? STATUS_TOO_LARGE : STATUS_BAD_REQUEST,
                           field, "%s: must be 1 to %d of letters, digits and . _ : / @ + -", field,
                           DOOR_NAME_MAX);
    memcpy(out, s, n);
    out[n] = 0;
    return true;
}

/* Every key must have been asked for. */
static bool take_end(struct take *t, const char *where) {
    for (void *i = json_object_iter((json_t *)t->object); i != NULL;
         i = json_object_iter_next((json_t *)t->object, i)) {
        const char *key = json_object_iter_key(i);
        bool known = false;
        for (uint32_t k = 0; k < t->n_known && !known; k++)
            known = strcmp(key, t->known[k]) == 0;
        if (!known) {
            door_refuse(t->error, STATUS_BAD_REQUEST, key, "unknown field");
            snprintf(t->error->message, sizeof t->error->message, "%s: no such field in %s",
                     t->error->field, where);
            return false;
        }
    }
    return true;
}

/* ---- sessions ---- */

void door_session_text(const struct ses_name *name, char out[DOOR_SESSION_DIGITS + 1]) {
    snprintf(out, DOOR_SESSION_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, name->word[0],
             name->word[1]);
}

bool door_session_from(const char *text, size_t n, struct ses_name *out) {
    *out = (struct ses_name){{0}};
    for (size_t i = 0; i < n && n == DOOR_SESSION_DIGITS; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        uint64_t *word = &out->word[i / 16];
        *word = *word << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return n == DOOR_SESSION_DIGITS;
}

struct ses_name door_import_id(const char *name) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct ses_name id;
    SHA256((const unsigned char *)name, strlen(name), digest);
    memcpy(id.word, digest, sizeof id.word);
    return id;
}

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool door_base64_from(const char *text, size_t n, unsigned char *out, size_t *n_out) {
    *n_out = 0;
    if (n % 4 != 0)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        int pad = i + 4 < n ? 0 : (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=');
        uint32_t four = 0;
        for (int k = 0; k < 4; k++) {
            int v = k >= 4 - pad ? 0 : base64_value(text[i + (size_t)k]);
            if (v < 0)
                return false;
            four = four << 6 | (uint32_t)v;
        }
        if ((four & ((1u << 8 * pad) - 1)) != 0) /* one text for the same bytes */
            return false;
        for (int k = 0; k < 3 - pad; k++)
            out[(*n_out)++] = (unsigned char)(four >> (16 - 8 * k));
    }
    return true;
}

static bool take_data(struct take *t, struct door_call *call) {
    const json_t *v = take(t, "data");
    if (v == NULL)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "data", "data: is missing");
    if (!json_is_string(v))
        return wrong_type(t, "data", "a string", v);
    size_t n = json_string_length(v), bytes;
    if (n / 4 * 3 > DOOR_DATA_MAX + 2)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "data", "bytes", n / 4 * 3,
                              DOOR_DATA_MAX);
    unsigned char *data = door_arena_take(t->arena, n / 4 * 3 + 1);
    if (data == NULL)
        return door_refuse(t->error, STATUS_TOO_LARGE, "data", "data: too long");
    if (!door_base64_from(json_string_value(v), n, data, &bytes))
        return door_refuse(t->error, STATUS_BAD_REQUEST, "data",
                           "data: must be base64 with its padding and without blanks");
    if (bytes > DOOR_DATA_MAX)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "data", "bytes", bytes, DOOR_DATA_MAX);
    call->data = data;
    call->n_data = (uint32_t)bytes;
    return true;
}

static bool take_tenant(struct take *t, uint64_t *out) {
    char tenant[DOOR_NAME_MAX + 1];
    if (!take_name(t, "tenant", false, tenant))
        return false;
    *out = door_tenant(tenant);
    return true;
}

static bool take_session(struct take *t, struct door_call *call) {
    const json_t *v = take(t, "session");
    if (v == NULL)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "session", "session: is missing");
    if (!json_is_string(v))
        return wrong_type(t, "session", "a string", v);
    if (!door_session_from(json_string_value(v), json_string_length(v), &call->session))
        return door_refuse(t->error, STATUS_BAD_REQUEST, "session",
                           "session: must be %d hex digits, lower case, as in stored",
                           DOOR_SESSION_DIGITS);
    return take_tenant(t, &call->tenant);
}

/* ---- the prompt ---- */

static bool ids_from(struct take *t, const json_t *v, struct door_submit *s) {
    if (!json_is_array(v))
        return wrong_type(t, "prompt_ids", "an array", v);
    size_t n = json_array_size(v);
    if (n == 0)
        return door_refuse(t->error, STATUS_EMPTY_PROMPT, "prompt_ids", "prompt_ids: is empty");
    if (n > t->limits->context)
        return refuse_numbers(t->error, STATUS_PROMPT_TOO_LONG, "prompt_ids",
                              "more tokens than the context holds", n, t->limits->context);
    uint32_t *ids = door_arena_take(t->arena, n * sizeof *ids);
    if (ids == NULL)
        return door_refuse(t->error, STATUS_TOO_LARGE, "prompt_ids", "prompt_ids: too long");
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i);
        if (!json_is_integer(e))
            return door_refuse(t->error, STATUS_BAD_REQUEST, "prompt_ids",
                               "prompt_ids: element %zu must be a whole number, is %s", i,
                               type_name(e));
        json_int_t id = json_integer_value(e);
        if (id < 0 || id >= t->limits->vocab)
            return door_refuse(t->error, STATUS_BAD_TOKEN, "prompt_ids",
                               "prompt_ids: element %zu is %lld, the vocabulary has 0 to %u", i,
                               (long long)id, t->limits->vocab - 1);
        ids[i] = (uint32_t)id;
    }
    s->kind = DOOR_PROMPT_IDS;
    s->ids = ids;
    s->n_ids = (uint32_t)n;
    return true;
}

static bool message_from(struct take *t, const json_t *v, size_t i, struct lane_message *m) {
    static const char *const roles[] = {"system", "user", "assistant"};
    if (!json_is_object(v))
        return door_refuse(t->error, STATUS_BAD_REQUEST, "messages",
                           "messages: element %zu must be an object, is %s", i, type_name(v));
    struct take in = {.object = v, .arena = t->arena, .limits = t->limits, .error = t->error};
    const json_t *role = take(&in, "role"), *content = take(&in, "content");
    if (!take_end(&in, "a chat message"))
        return false;
    m->role = NULL;
    for (size_t r = 0; r < sizeof roles / sizeof roles[0] && json_is_string(role); r++)
        if (json_string_length(role) == strlen(roles[r]) &&
            strcmp(json_string_value(role), roles[r]) == 0)
            m->role = roles[r];
    if (m->role == NULL)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "role",
                           "messages: element %zu: role must be system, user or assistant", i);
    if (!json_is_string(content))
        return door_refuse(t->error, STATUS_BAD_REQUEST, "content",
                           "messages: element %zu: content must be a string", i);
    m->content = json_string_value(content);
    m->content_bytes = json_string_length(content);
    return true;
}

static bool messages_from(struct take *t, const json_t *v, struct door_submit *s) {
    if (!json_is_array(v))
        return wrong_type(t, "messages", "an array", v);
    size_t n = json_array_size(v);
    if (n == 0)
        return door_refuse(t->error, STATUS_EMPTY_PROMPT, "messages", "messages: is empty");
    if (n > DOOR_MESSAGES_MAX)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "messages", "too many", n,
                              DOOR_MESSAGES_MAX);
    if (!t->limits->has_chat)
        return door_refuse(t->error, STATUS_UNSUPPORTED, "messages",
                           "messages: this model has no known chat template; send prompt");
    struct lane_message *m = door_arena_take(t->arena, n * sizeof *m);
    if (m == NULL)
        return door_refuse(t->error, STATUS_TOO_LARGE, "messages", "messages: too many");
    for (size_t i = 0; i < n; i++)
        if (!message_from(t, json_array_get(v, i), i, &m[i]))
            return false;
    s->kind = DOOR_PROMPT_MESSAGES;
    s->messages = m;
    s->n_messages = (uint32_t)n;
    return true;
}

static bool text_from(struct take *t, const json_t *v, struct door_submit *s) {
    if (!json_is_string(v))
        return wrong_type(t, "prompt", "a string", v);
    if (json_string_length(v) == 0)
        return door_refuse(t->error, STATUS_EMPTY_PROMPT, "prompt", "prompt: is empty");
    if (!t->limits->has_text)
        return door_refuse(t->error, STATUS_UNSUPPORTED, "prompt",
                           "prompt: this model has no tokenizer; send prompt_ids");
    s->kind = DOOR_PROMPT_TEXT;
    s->text = json_string_value(v);
    s->text_bytes = json_string_length(v);
    return true;
}

/* What a chat template takes beside messages; whether this one does is the tokenizer's to say. */
static bool template_from(struct take *t, struct door_submit *s, bool messages) {
    const json_t *date = take(t, "template_date"), *thinking = take(t, "thinking");
    const char *field = date != NULL ? "template_date" : "thinking";
    s->template = (struct lane_template_options){.date = NULL};
    if (date != NULL && !json_is_string(date))
        return wrong_type(t, "template_date", "a string", date);
    if (thinking != NULL && !json_is_boolean(thinking))
        return wrong_type(t, "thinking", "true or false", thinking);
    if ((date != NULL || thinking != NULL) && !messages)
        return door_refuse(t->error, STATUS_BAD_REQUEST, field, "%s: goes with messages only",
                           field);
    if (date != NULL && strlen(json_string_value(date)) != json_string_length(date))
        return door_refuse(t->error, STATUS_BAD_REQUEST, field, "%s: holds a zero byte", field);
    s->template.date = json_string_value(date);
    if (thinking != NULL)
        s->template.thinking = json_is_true(thinking) ? LANE_THINKING_ON : LANE_THINKING_OFF;
    return true;
}

static bool prompt_from(struct take *t, struct door_submit *s) {
    const json_t *text = take(t, "prompt"), *ids = take(t, "prompt_ids"),
                 *messages = take(t, "messages");
    int given = (text != NULL) + (ids != NULL) + (messages != NULL);
    if (given != 1)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "prompt",
                           "prompt: exactly one of prompt, prompt_ids and messages is needed, "
                           "%d are there",
                           given);
    if (!take_bool(t, "bos", true, &s->bos) ||
        !take_bool(t, "parse_special", false, &s->parse_special))
        return false;
    if (!template_from(t, s, messages != NULL))
        return false;
    if (text == NULL && s->parse_special)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "parse_special",
                           "parse_special: goes with prompt only");
    return text != NULL  ? text_from(t, text, s)
           : ids != NULL ? ids_from(t, ids, s)
                         : messages_from(t, messages, s);
}

/* ---- stop strings, biases ---- */

static bool stop_from(struct take *t, const json_t *v, struct door_submit *s) {
    if (!json_is_string(v))
        return wrong_type(t, "stop", "a string or an array of strings", v);
    size_t n = json_string_length(v);
    if (n == 0)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "stop", "stop: a stop string is empty");
    if (n > LANE_STOP_BYTES_MAX - 1)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "stop", "bytes of a stop string", n,
                              LANE_STOP_BYTES_MAX - 1);
    struct lane_stop *stop = &s->stops[s->request.n_stops++];
    stop->bytes = (uint32_t)n;
    memcpy(stop->text, json_string_value(v), n);
    return true;
}

static bool stops_from(struct take *t, struct door_submit *s) {
    const json_t *v = take(t, "stop");
    memset(s->stops, 0, sizeof s->stops);
    s->request.stops = s->stops;
    if (v == NULL)
        return true;
    if (!json_is_array(v))
        return stop_from(t, v, s);
    if (json_array_size(v) > LANE_STOPS_MAX)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "stop", "too many stop strings",
                              json_array_size(v), LANE_STOPS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!stop_from(t, json_array_get(v, i), s))
            return false;
    return true;
}

static int bias_order(const void *a, const void *b) {
    uint32_t x = ((const struct krn_bias *)a)->id, y = ((const struct krn_bias *)b)->id;
    return x < y ? -1 : x > y;
}

static bool bias_from(struct take *t, struct door_submit *s) {
    const json_t *v = take(t, "logit_bias");
    s->request.bias = s->bias;
    if (v == NULL)
        return true;
    if (!json_is_object(v))
        return wrong_type(t, "logit_bias", "an object of token ids and numbers", v);
    if (json_object_size(v) > LANE_BIAS_MAX)
        return refuse_numbers(t->error, STATUS_TOO_LARGE, "logit_bias", "too many entries",
                              json_object_size(v), LANE_BIAS_MAX);
    for (void *i = json_object_iter((json_t *)v); i != NULL;
         i = json_object_iter_next((json_t *)v, i)) {
        const char *key = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        char *end;
        unsigned long id = strtoul(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || (key[0] == '0' && key[1] != 0) || *end != 0 ||
            strlen(key) > 10 || id >= t->limits->vocab)
            return door_refuse(t->error, STATUS_BAD_TOKEN, "logit_bias",
                               "logit_bias: a key is not a token id from 0 to %u",
                               t->limits->vocab - 1);
        double d = json_is_number(value) ? json_number_value(value) : NAN;
        if (!(d >= -100 && d <= 100))
            return door_refuse(t->error, STATUS_BAD_REQUEST, "logit_bias",
                               "logit_bias: token %lu: must be a number between -100 and 100", id);
        s->bias[s->request.n_bias++] = (struct krn_bias){.id = (uint32_t)id, .bias = (float)d};
    }
    /* jansson's order depends on its hash seed; the draw's must not. */
    qsort(s->bias, s->request.n_bias, sizeof s->bias[0], bias_order);
    return true;
}

/* ---- commands ---- */

static bool sampling_from(struct take *t, struct door_submit *s) {
    struct krn_sampling *p = &s->request.sampling;
    uint32_t logprobs;
    bool hash;
    *p = t->limits->sampling;
    p->flags = 0;
    p->n_top = 0;
    if (!take_f32(t, "temperature", 0, 100, &p->temperature) ||
        !take_u32(t, "top_k", 0, INT32_MAX, p->top_k, &p->top_k) ||
        !take_f32(t, "top_p", 1e-6, 1, &p->top_p) || !take_f32(t, "min_p", 0, 1, &p->min_p) ||
        !take_f32(t, "repetition_penalty", 0.01, 100, &p->repetition) ||
        !take_f32(t, "presence_penalty", -100, 100, &p->presence) ||
        !take_f32(t, "frequency_penalty", -100, 100, &p->frequency))
        return false;
    s->seeded = json_object_get(t->object, "seed") != NULL;
    if (!take_u64(t, "seed", 0, INT64_MAX, 0, &p->seed) ||
        !take_u32(t, "logprobs", 0, KRN_TOP_MAX, UINT32_MAX, &logprobs) ||
        !take_bool(t, "logits_hash", false, &hash))
        return false;
    if (logprobs != UINT32_MAX) {
        p->flags |= KRN_DRAW_LOGPROB;
        p->n_top = logprobs;
    }
    if (hash)
        p->flags |= KRN_DRAW_HASH_LOGITS;
    return true;
}

static bool submit_from(struct take *t, struct door_call *call) {
    struct door_submit *s = &call->submit;
    struct lane_request *r = &s->request;
    uint64_t deadline_ms;
    *r = (struct lane_request){0};
    if (!take_name(t, "name", true, call->name) || !prompt_from(t, s) || !sampling_from(t, s) ||
        !stops_from(t, s) || !bias_from(t, s))
        return false;
    if (!take_u64(t, "max_tokens", 1, KRN_CONTEXT_MAX, DOOR_MAX_TOKENS_DEFAULT, &r->max_tokens) ||
        !take_u32(t, "draft", 0, LANE_DRAFT_MAX, DOOR_DRAFT_DEFAULT, &r->draft_max) ||
        !take_bool(t, "draft_fixed", false, &r->draft_fixed) ||
        !take_u32(t, "priority", 0, 100, 0, &r->priority) ||
        !take_u64(t, "deadline_ms", 0, 86400000, 0, &deadline_ms) ||
        !take_u32(t, "idle_cancel_ms", 0, 86400000, DOOR_IDLE_MS_DEFAULT, &s->idle_cancel_ms) ||
        !take_tenant(t, &r->tenant))
        return false;
    if (!take_flag(t, "ignore_eos", true, LANE_IGNORE_EOS, &r->flags) ||
        !take_flag(t, "reuse", false, LANE_NO_REUSE, &r->flags) ||
        !take_flag(t, "keep", false, LANE_NO_KEEP, &r->flags) ||
        !take_flag(t, "text", false, LANE_NO_TEXT, &r->flags) ||
        !take_flag(t, "show_special", true, LANE_SHOW_SPECIAL, &r->flags))
        return false;
    if ((r->flags & LANE_NO_TEXT) != 0 && r->n_stops > 0)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "stop",
                           "stop: needs the reply's text, which text: false switches off");
    r->deadline_ns = deadline_ms * 1000000u;
    return true;
}

static bool call_from(struct take *t, struct door_call *call) {
    switch (call->cmd) {
    case DOOR_SUBMIT:
        return submit_from(t, call);
    case DOOR_READ:
        return take_name(t, "name", true, call->name) &&
               take_u64(t, "cursor", 0, INT64_MAX, 0, &call->cursor) &&
               take_u32(t, "wait_ms", 0, DOOR_WAIT_MS_MAX, 0, &call->wait_ms) &&
               take_u32(t, "max_events", 1, DOOR_EVENTS_MAX, DOOR_EVENTS_DEFAULT,
                        &call->max_events);
    case DOOR_CANCEL:
        return take_name(t, "name", true, call->name);
    case DOOR_SESSIONS:
        return take_u64(t, "from", 0, INT32_MAX, 0, &call->cursor);
    case DOOR_STORED:
        return take_u64(t, "from", 0, INT32_MAX, 0, &call->cursor) &&
               take_bool(t, "others", false, &call->others) && take_tenant(t, &call->tenant);
    case DOOR_TOKENS:
        return take_session(t, call) && take_bool(t, "others", false, &call->others) &&
               take_u64(t, "from", 0, INT32_MAX, 0, &call->cursor);
    case DOOR_FORGET:
        return take_session(t, call) && take_bool(t, "others", false, &call->others);
    case DOOR_PIN:
        return take_session(t, call) && take_bool(t, "on", true, &call->on);
    case DOOR_EXPORT:
        return take_session(t, call) && take_u64(t, "offset", 0, INT64_MAX, 0, &call->cursor);
    case DOOR_IMPORT:
        if (!take_name(t, "name", true, call->name) ||
            !take_u64(t, "offset", 0, INT64_MAX, 0, &call->cursor) || !take_data(t, call))
            return false;
        call->session = door_import_id(call->name);
        return take_tenant(t, &call->tenant);
    case DOOR_DRAIN:
        return take_u64(t, "deadline_ms", 0, 86400000, t->limits->drain_ms, &call->deadline_ms) &&
               take_bool(t, "wait", false, &call->wait);
    default:
        return true;
    }
}

static bool cmd_from(struct take *t, struct door_call *call) {
    const json_t *v = take(t, "cmd");
    if (v == NULL)
        return door_refuse(t->error, STATUS_BAD_REQUEST, "cmd", "cmd: is missing");
    if (!json_is_string(v))
        return wrong_type(t, "cmd", "a string", v);
    for (int c = 0; c < DOOR_CMDS; c++) {
        if (json_string_length(v) == strlen(cmd_names[c]) &&
            strcmp(json_string_value(v), cmd_names[c]) == 0) {
            call->cmd = (enum door_cmd)c;
            return true;
        }
    }
    return door_refuse(t->error, STATUS_BAD_REQUEST, "cmd",
                       "cmd: must be one of ping, info, submit, read, cancel, sessions, stored, "
                       "tokens, forget, pin, export, import, stats, drain");
}

static bool refuse_json(const struct door_json_error *e, struct door_error *error) {
    switch (e->fault) {
    case DOOR_JSON_DUPLICATE:
        return door_refuse(error, STATUS_BAD_REQUEST, e->key, "%s: is there twice", e->key);
    case DOOR_JSON_NUMBER:
        return door_refuse(error, STATUS_TOO_LARGE, e->key,
                           "%s: the number at byte %zu is too large", e->key, e->position);
    case DOOR_JSON_DEPTH:
        return door_refuse(error, STATUS_TOO_LARGE, e->key, "nested deeper than %d at byte %zu",
                           DOOR_JSON_DEPTH_MAX, e->position);
    case DOOR_JSON_MEMORY:
        return door_refuse(error, STATUS_TOO_LARGE, "",
                           "the message would take more than %d MiB to read",
                           DOOR_ARENA_BYTES >> 20);
    case DOOR_JSON_UTF8:
        return door_refuse(error, STATUS_BAD_REQUEST, e->key, "not valid UTF-8 near byte %zu",
                           e->position);
    default:
        return door_refuse(error, STATUS_BAD_REQUEST, e->key, "not valid JSON near byte %zu: %s",
                           e->position, e->what);
    }
}

bool door_decode(struct door_arena *arena, const struct door_limits *limits, const void *bytes,
                 size_t n, struct door_call *call, struct door_error *error) {
    CHECK(limits->vocab > 0 && limits->context > 0);
    door_arena_reset(arena);
    if (n > DOOR_MESSAGE_MAX)
        return refuse_numbers(error, STATUS_TOO_LARGE, "", "bytes of a message", n,
                              DOOR_MESSAGE_MAX);
    struct door_json_error fault;
    json_t *root = door_json_load(arena, bytes, n, &fault);
    if (root == NULL)
        return refuse_json(&fault, error);
    if (!json_is_object(root))
        return door_refuse(error, STATUS_BAD_REQUEST, "", "a message must be an object, is %s",
                           type_name(root));
    struct take t = {.object = root, .arena = arena, .limits = limits, .error = error};
    if (!cmd_from(&t, call) || !call_from(&t, call))
        return false;
    return take_end(&t, cmd_names[call->cmd]);
}

void door_out_error(struct door_out *o, const struct door_error *error) {
    door_out_object(o, NULL);
    door_out_bool(o, "ok", false);
    door_out_object(o, "error");
    door_out_str(o, "code", status_code(error->status));
    door_out_str(o, "message", error->message);
    if (error->field[0] != 0)
        door_out_str(o, "field", error->field);
    if (error->numbers) {
        door_out_u64(o, "value", error->value);
        door_out_u64(o, "limit", error->limit);
    }
    if (error->retry_ms > 0)
        door_out_u64(o, "retry_ms", error->retry_ms);
    door_out_end(o, '}');
    door_out_end(o, '}');
}
