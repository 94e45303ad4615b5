/* SPDX-License-Identifier: Apache-2.0
 * What tests/text/layouts.h says. The file of the Hugging Face layout is built first; the other is
 * made of it, as its converter does: from the tokens by id, the added tokens' own types, and the
 * SentencePiece model's scores.
 */
#include "tests/text/layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness.h"

#define MARK "\xE2\x96\x81"
#define LETTERS                                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}%s| "            \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORDS                                                                                      \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|"                 \
    "\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                                        \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTES(regex)                                                                               \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"                    \
    "\"use_regex\":" regex "}"
#define PARTS(list) "{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"

static json_t *parsed(const char *text) {
    json_error_t error;
    json_t *out = json_loads(text, JSON_DECODE_ANY, &error);
    ck_assert_msg(out != NULL, "%s in %s", error.text, text);
    return out;
}

/* ---- the Hugging Face layout ---- */

/* How the models whose files name a pre-tokenizer cut words. No published file has default's four
 * cuts in a form that stands before ByteLevel; this is what they mean. */
static json_t *pre_tokenizer(const char *pre) {
    char text[1024];
    const char *digits = strcmp(pre, "qwen2") == 0 ? "" : "{1,3}";
    if (strcmp(pre, "gpt-2") == 0)
        return parsed(BYTES("true"));
    if (strcmp(pre, "smollm") == 0)
        return parsed(PARTS("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true")));
    if (pre[0] == '\0' || strcmp(pre, "default") == 0)
        return parsed(PARTS(SPLIT("[\\\\p{P}$+<=>^~|]+") "," SPLIT(WORDS) "," SPLIT(
            "\\\\p{N}+") "," SPLIT("[0-9][0-9][0-9]") "," BYTES("false")));
    snprintf(text, sizeof text, PARTS(SPLIT(LETTERS) "," BYTES("false")), digits);
    return parsed(text);
}

uint32_t text_layouts_add(struct text_layouts *x, const char *content, bool special) {
    json_t *list = json_object_get(x->tokenizer, "added_tokens");
    const json_t *vocab = json_object_get(json_object_get(x->tokenizer, "model"), "vocab");
    const json_t *known = json_object_get(vocab, content);
    json_int_t id = known != NULL ? json_integer_value(known) : (json_int_t)json_object_size(vocab);
    for (size_t i = 0; known == NULL && i < json_array_size(list); i++)
        if (json_integer_value(json_object_get(json_array_get(list, i), "id")) >= id)
            id = json_integer_value(json_object_get(json_array_get(list, i), "id")) + 1;
    json_t *token =
        json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content,
                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special);
    json_t *decoder = json_object_get(x->config, "added_tokens_decoder"), *copy = json_copy(token);
    char key[16];
    snprintf(key, sizeof key, "%u", (uint32_t)id);
    json_object_del(copy, "id");
    ck_assert_int_eq(json_object_set_new(decoder, key, copy), 0);
    ck_assert_int_eq(json_array_append_new(list, token), 0);
    if (id >= (json_int_t)x->vocab)
        x->vocab = (uint32_t)id + 1;
    return (uint32_t)id;
}

static json_t *configuration(const char *bos, const char *eos, const char *unk) {
    return json_pack("{s:{}, s:s, s:s, s:s?, s:s}", "added_tokens_decoder", "bos_token", bos,
                     "eos_token", eos, "unk_token", unk, "chat_template",
                     "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                     "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
                     "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
}

struct text_layouts text_layouts_bytes(const json_t *words, const char *pre) {
    static const char *const more[] = {"\u0120zebra", "zebra", "\u0120Thequick"};
    struct text_layouts x = {.pre = pre};
    bool llama = strncmp(pre, "llama", 5) == 0, qwen = strcmp(pre, "qwen2") == 0;
    json_t *vocab = json_deep_copy(json_object_get(words, "vocab"));
    for (size_t i = 0; i < 3; i++) /* tokens that no merge makes */
        json_object_set_new(vocab, more[i], json_integer((json_int_t)json_object_size(vocab)));
    x.vocab = (uint32_t)json_object_size(vocab);
    json_t *model = json_pack("{s:s, s:n, s:n, s:b, s:b, s:b, s:o, s:O}", "type", "BPE", "dropout",
                              "unk_token", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                              llama, "vocab", vocab, "merges", json_object_get(words, "merges"));
    x.tokenizer = json_pack("{s:[], s:o, s:o, s:n, s:o, s:o}", "added_tokens", "normalizer",
                            qwen ? parsed("{\"type\":\"NFC\"}") : json_null(), "pre_tokenizer",
                            pre_tokenizer(pre), "post_processor", "decoder", parsed(BYTES("true")),
                            "model", model);
    x.config = configuration("<|im_start|>", "<|im_end|>", NULL);
    ck_assert(x.tokenizer != NULL && x.config != NULL);
    uint32_t bos = text_layouts_add(&x, "<|im_start|>", true);
    text_layouts_add(&x, "<|im_end|>", true);
    if (llama) { /* which says so in no other way */
        json_t *single = json_pack(
            "{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:{s:{s:s, s:[I], s:[s]}}}", "type",
            "TemplateProcessing", "single", "SpecialToken", "id", "<|im_start|>", "type_id", 0,
            "Sequence", "id", "A", "type_id", 0, "special_tokens", "<|im_start|>", "id",
            "<|im_start|>", "ids", (json_int_t)bos, "tokens", "<|im_start|>");
        ck_assert(single != NULL);
        json_object_set_new(x.tokenizer, "post_processor", single);
    }
    return x;
}

/* ---- SentencePiece's scores as merges ---- */

struct merge {
    const char *piece;
    size_t bytes, left, right; /* of the first part in bytes; characters of both */
    json_int_t ids[2];
    double score;
    size_t order;
};

static size_t characters(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static int by_ids(const void *a, const void *b) {
    const struct merge *x = a, *y = b;
    for (size_t i = 0; i < 2; i++)
        if (x->ids[i] != y->ids[i])
            return x->ids[i] < y->ids[i] ? -1 : 1;
    return 0;
}

/* The higher score first, then the longer first part, the longer second, and as listed. */
static int by_score(const void *a, const void *b) {
    const struct merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left > y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right > y->right ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Every way to put a piece together of two. */
static size_t merges_of(const char *piece, double score, const json_t *parts, struct merge *out) {
    size_t n = 0, bytes = strlen(piece);
    for (size_t at = 1; at < bytes; at++) {
        const json_t *left = json_object_getn(parts, piece, at);
        const json_t *right = json_object_get(parts, piece + at);
        if (((unsigned char)piece[at] & 0xC0) == 0x80 || left == NULL || right == NULL)
            continue;
        out[n++] = (struct merge){.piece = piece,
                                  .bytes = at,
                                  .left = characters(piece, at),
                                  .right = characters(piece + at, bytes - at),
                                  .ids = {json_integer_value(left), json_integer_value(right)},
                                  .score = score};
    }
    qsort(out, n, sizeof *out, by_ids);
    return n;
}

static json_t *merges(const json_t *pieces, const json_t *parts) {
    const json_t *tokens = json_object_get(pieces, "tokens");
    const json_t *scores = json_object_get(pieces, "scores");
    size_t n = 0, most = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++)
        most += json_string_length(json_array_get(tokens, i));
    struct merge *list = malloc(most * sizeof *list);
    ck_assert_ptr_nonnull(list);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const char *piece = json_string_value(json_array_get(tokens, i));
        if (json_object_get(parts, piece) != NULL)
            n += merges_of(piece, json_number_value(json_array_get(scores, i)), parts, list + n);
    }
    for (size_t i = 0; i < n; i++)
        list[i].order = i;
    qsort(list, n, sizeof *list, by_score);
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct merge *m = &list[i];
        json_array_append_new(out,
                              json_pack("[s#, s]", m->piece, (int)m->bytes, m->piece + m->bytes));
    }
    free(list);
    return out;
}

struct text_layouts text_layouts_pieces(const json_t *pieces, bool gemma) {
    enum { NORMAL = 1, CONTROL = 3 };
    const json_t *tokens = json_object_get(pieces, "tokens"),
                 *types = json_object_get(pieces, "types");
    struct text_layouts x = {.pieces = pieces, .vocab = (uint32_t)json_array_size(tokens)};
    json_t *vocab = json_object(), *parts = json_object();
    for (uint32_t i = 0; i < x.vocab; i++) {
        const char *piece = json_string_value(json_array_get(tokens, i));
        json_object_set_new(vocab, piece, json_integer(i));
        if (json_integer_value(json_array_get(types, i)) == NORMAL)
            json_object_set_new(parts, piece, json_integer(i));
    }
    json_t *model = json_pack("{s:s, s:n, s:s, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", "<unk>", "fuse_unk", 1, "byte_fallback", 1,
                              "ignore_merges", 0, "vocab", vocab, "merges", merges(pieces, parts));
    json_decref(parts);
#define REPLACE(from, to)                                                                          \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define DECODERS                                                                                   \
    "{\"type\":\"Sequence\",\"decoders\":[" REPLACE(                                               \
        MARK, " ") ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}"
    x.tokenizer = json_pack(
        "{s:[], s:o, s:o, s:n, s:o, s:o}", "added_tokens", "normalizer",
        parsed(gemma ? REPLACE(" ", MARK)
                     : "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                       "\"prepend\":\"" MARK "\"}," REPLACE(" ", MARK) "]}"),
        "pre_tokenizer",
        parsed(gemma ? "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":"
                       "\"MergedWithPrevious\",\"invert\":false}"
                     : "null"),
        "post_processor", "decoder",
        parsed(gemma ? DECODERS "]}"
                     : DECODERS ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"),
        "model", model);
    x.config = configuration("<s>", "</s>", "<unk>");
    ck_assert(x.tokenizer != NULL && x.config != NULL);
    json_object_set_new(x.config, "add_bos_token", json_true());
    for (uint32_t i = 0; i < json_array_size(tokens); i++) {
        json_int_t type = json_integer_value(json_array_get(types, i));
        if (type > NORMAL && type <= CONTROL) /* the unknown one too */
            text_layouts_add(&x, json_string_value(json_array_get(tokens, i)), true);
    }
    return x;
}

void text_layouts_free(struct text_layouts *x) {
    json_decref(x->tokenizer);
    json_decref(x->config);
}

/* ---- GGUF ---- */

struct row {
    char text[512];
    int32_t type;
    float score;
};

static bool looks_special(const char *text) {
    size_t n = strlen(text);
    return strcmp(text, "<pad>") == 0 || strcmp(text, "<mask>") == 0 ||
           (n > 3 && strncmp(text, "<|", 2) == 0 && strcmp(text + n - 2, "|>") == 0) ||
           (strncmp(text, "<unused", 7) == 0 && text[n - 1] == '>');
}

/* Special, or a token of its own with plain spaces. */
static void put_added(const json_t *token, struct row *row) {
    enum { CONTROL = 3, USER_DEFINED = 4 };
    const char *text = json_string_value(json_object_get(token, "content"));
    bool special = json_is_true(json_object_get(token, "special")) || looks_special(text);
    size_t n = 0;
    row->type = special ? CONTROL : USER_DEFINED;
    row->score = -1000;
    for (size_t at = 0; text[at] != '\0' && n < sizeof row->text - 1; n++) {
        bool mark = !special && strncmp(text + at, MARK, 3) == 0;
        row->text[n] = mark ? ' ' : text[at];
        at += mark ? 3 : 1;
    }
    row->text[n] = '\0';
}

/* All ids of the model, in order. */
static struct row *rows_of(const struct text_layouts *x) {
    enum { NORMAL = 1, UNUSED = 5 };
    struct row *rows = calloc(x->vocab, sizeof *rows);
    json_t *vocab = json_object_get(json_object_get(x->tokenizer, "model"), "vocab"), *id, *token;
    const char *piece, *key;
    ck_assert_ptr_nonnull(rows);
    for (uint32_t i = 0; i < x->vocab; i++) {
        snprintf(rows[i].text, sizeof rows[i].text, "[PAD%u]", i);
        rows[i].type = UNUSED;
        rows[i].score = -10000;
    }
    json_object_foreach(vocab, piece, id) {
        struct row *row = &rows[json_integer_value(id)];
        snprintf(row->text, sizeof row->text, "%s", piece);
        row->type = NORMAL;
    }
    for (size_t i = 0; i < json_array_size(json_object_get(x->pieces, "tokens")); i++) {
        const json_t *types = json_object_get(x->pieces, "types");
        const json_t *scores = json_object_get(x->pieces, "scores");
        rows[i].type = (int32_t)json_integer_value(json_array_get(types, i));
        rows[i].score = (float)json_number_value(json_array_get(scores, i));
    }
    json_object_foreach(json_object_get(x->config, "added_tokens_decoder"), key, token)
        put_added(token, &rows[atoi(key)]);
    return rows;
}

static void put_text(struct gguf_bytes *b, const char *text) {
    gguf_put_number(b, strlen(text), 8);
    gguf_put(b, text, strlen(text));
}

/* A list of n elements of a type, whose bytes are in b. */
static void key_list(struct gguf_make *m, const char *key, uint32_t type, uint64_t n,
                     struct gguf_bytes *b) {
    struct gguf_bytes whole = {0};
    gguf_put_number(&whole, type, 4);
    gguf_put_number(&whole, n, 8);
    gguf_put(&whole, b->at, b->n);
    gguf_key(m, key, 9, whole.at, whole.n);
    free(whole.at);
    free(b->at);
    *b = (struct gguf_bytes){0};
}

static void put_tokens(struct gguf_make *m, const struct text_layouts *x) {
    enum { I32 = 5, F32 = 6, TEXT = 8 };
    struct row *rows = rows_of(x);
    struct gguf_bytes b = {0};
    for (uint32_t i = 0; i < x->vocab; i++)
        put_text(&b, rows[i].text);
    key_list(m, "tokenizer.ggml.tokens", TEXT, x->vocab, &b);
    for (uint32_t i = 0; i < x->vocab; i++)
        gguf_put(&b, &rows[i].type, sizeof rows[i].type);
    key_list(m, "tokenizer.ggml.token_type", I32, x->vocab, &b);
    for (uint32_t i = 0; x->pre == NULL && i < x->vocab; i++)
        gguf_put(&b, &rows[i].score, sizeof rows[i].score);
    if (x->pre == NULL)
        key_list(m, "tokenizer.ggml.scores", F32, x->vocab, &b);
    free(rows);
}

static void put_merges(struct gguf_make *m, const struct text_layouts *x) {
    const json_t *list = json_object_get(json_object_get(x->tokenizer, "model"), "merges");
    struct gguf_bytes b = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        char text[1024];
        snprintf(text, sizeof text, "%s %s", json_string_value(json_array_get(one, 0)),
                 json_string_value(json_array_get(one, 1)));
        put_text(&b, json_is_string(one) ? json_string_value(one) : text);
    }
    key_list(m, "tokenizer.ggml.merges", 8, json_array_size(list), &b);
}

static void put_roles(struct gguf_make *m, const struct text_layouts *x) {
    static const char *const roles[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"unk_token", "tokenizer.ggml.unknown_token_id"}};
    const json_t *list = json_object_get(x->tokenizer, "added_tokens");
    for (size_t r = 0; r < 3; r++) {
        const char *role = json_string_value(json_object_get(x->config, roles[r][0]));
        for (size_t i = 0; role != NULL && i < json_array_size(list); i++) {
            const json_t *token = json_array_get(list, i);
            if (strcmp(json_string_value(json_object_get(token, "content")), role) == 0)
                gguf_key_u32(m, roles[r][1],
                             (uint32_t)json_integer_value(json_object_get(token, "id")));
        }
    }
}

static void put_bool(struct gguf_make *m, const char *key, bool value) {
    const unsigned char byte = value;
    gguf_key(m, key, 7, &byte, 1);
}

static void put_keys(struct gguf_make *m, const struct text_layouts *x) {
    const json_t *add_bos = json_object_get(x->config, "add_bos_token");
    gguf_key_text(m, "general.architecture", "llama");
    gguf_key_text(m, "tokenizer.ggml.model", x->pre != NULL ? "gpt2" : "llama");
    if (x->pre == NULL || x->pre[0] != '\0')
        gguf_key_text(m, "tokenizer.ggml.pre", x->pre != NULL ? x->pre : "default");
    put_tokens(m, x);
    if (x->pre != NULL)
        put_merges(m, x);
    put_roles(m, x);
    if (add_bos != NULL)
        put_bool(m, "tokenizer.ggml.add_bos_token", json_is_true(add_bos));
    else if (!json_is_null(json_object_get(x->tokenizer, "post_processor")))
        put_bool(m, "tokenizer.ggml.add_bos_token", true);
    bool prepends =
        json_object_get(json_object_get(x->tokenizer, "normalizer"), "normalizers") != NULL;
    if (x->pre == NULL && !prepends)
        put_bool(m, "tokenizer.ggml.add_space_prefix", false);
    const json_t *template_ = json_object_get(x->config, "chat_template");
    if (template_ != NULL)
        gguf_key_text(m, "tokenizer.chat_template", json_string_value(template_));
}

void text_layouts_write(const struct text_layouts *x, const char *dir) {
    char path[512];
    snprintf(path, sizeof path, "%s/hf", dir);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/hf/tokenizer.json", dir);
    ck_assert_int_eq(json_dump_file(x->tokenizer, path, JSON_COMPACT), 0);
    snprintf(path, sizeof path, "%s/hf/tokenizer_config.json", dir);
    ck_assert_int_eq(json_dump_file(x->config, path, JSON_COMPACT), 0);
    struct gguf_make m;
    size_t n;
    gguf_begin(&m, 3, 32);
    put_keys(&m, x);
    unsigned char *bytes = gguf_end(&m, &n);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    free(bytes);
}
