/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary, the merges and the added tokens of a tokenizer.json. Tokens of a byte-level
 * vocabulary are spelled in an alphabet of 256 characters that stand for bytes; here they become
 * the bytes themselves.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/text/load.h"
#include "lanes/text/utf8.h"

/* The alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and up, in order.
 */
static bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static uint32_t alphabet_point(uint32_t byte) {
    uint32_t others = 0;
    if (stands_for_itself(byte))
        return byte;
    for (uint32_t b = 0; b < byte; b++)
        others += !stands_for_itself(b);
    return 0x100 + others;
}

void lane_text_alphabet_fill(struct text_alphabet *a) {
    memset(a->byte, 0xFF, sizeof a->byte);
    for (uint32_t b = 0; b < 256; b++)
        a->byte[alphabet_point(b)] = (int16_t)b;
}

/* The bytes that a spelling stands for, in out (at least n bytes); false when a character is not of
 * the alphabet. */
static bool alphabet_bytes(const struct text_alphabet *a, const char *text, size_t n, char *out,
                           size_t *n_out) {
    *n_out = 0;
    for (size_t at = 0, length; at < n; at += length) {
        if (lane_utf8_next(text + at, n - at, &length) != UTF8_WHOLE)
            return false;
        uint32_t point = lane_utf8_point(text + at, length);
        if (point >= 0x200 || a->byte[point] < 0)
            return false;
        out[(*n_out)++] = (char)a->byte[point];
    }
    return true;
}

/* Room for ids below n. */
static enum status tokens_reserve(struct lane_tokenizer *t, uint32_t n, struct status_note *note) {
    if (n <= t->vocab)
        return STATUS_OK;
    struct text_token *tokens = realloc(t->tokens, n * sizeof *tokens);
    if (tokens == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u tokens", n);
    memset(tokens + t->vocab, 0, (n - t->vocab) * sizeof *tokens);
    t->tokens = tokens;
    t->vocab = n;
    return STATUS_OK;
}

enum status lane_text_token_put(struct lane_tokenizer *t, uint32_t id, const char *bytes, size_t n,
                                uint32_t flags, struct status_note *note) {
    if (t->pool_capacity - t->pool_bytes < n) {
        size_t capacity = 2 * t->pool_capacity + n + 4096;
        char *pool = realloc(t->pool, capacity);
        if (pool == NULL)
            return status_say(note, STATUS_NO_MEMORY, "no memory for the vocabulary");
        t->pool = pool;
        t->pool_capacity = capacity;
    }
    TRY(tokens_reserve(t, id + 1, note));
    if (n != 0)
        memcpy(t->pool + t->pool_bytes, bytes, n);
    t->tokens[id] = (struct text_token){t->pool_bytes, (uint16_t)n, (uint8_t)(flags | TEXT_KNOWN)};
    t->pool_bytes += n;
    return STATUS_OK;
}

size_t lane_text_spaces(const char *text, size_t n, char *out) {
    size_t n_out = 0;
    for (size_t at = 0; at < n;) {
        bool mark = n - at >= 3 && memcmp(text + at, "\xE2\x96\x81", 3) == 0;
        out[n_out++] = mark ? ' ' : text[at];
        at += mark ? 3 : 1;
    }
    return n_out;
}

/* The byte of a piece such as <0x0A>; -1: not such a piece. */
static int byte_piece(const char *piece, size_t n) {
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    const char *high = memchr(digits, piece[3], 16), *low = memchr(digits, piece[4], 16);
    return high == NULL || low == NULL ? -1 : (int)((high - digits) << 4 | (low - digits));
}

static enum status byte_level_put(struct lane_tokenizer *t, const struct text_alphabet *a,
                                  uint32_t id, const char *piece, size_t n,
                                  struct status_note *note) {
    char bytes[2 * TEXT_TOKEN_BYTES_MAX];
    size_t n_bytes;
    if (n > sizeof bytes || !alphabet_bytes(a, piece, n, bytes, &n_bytes))
        return n > TEXT_TOKEN_BYTES_MAX ? STATUS_UNSUPPORTED
                                        : lane_text_token_put(t, id, piece, n, 0, note);
    if (n_bytes > TEXT_TOKEN_BYTES_MAX)
        return STATUS_UNSUPPORTED;
    if (n_bytes == 1)
        t->byte_id[(unsigned char)bytes[0]] = id;
    return lane_text_token_put(t, id, bytes, n_bytes, TEXT_MADE, note);
}

/* Text has no space left when pieces are looked for in it, so a piece with one is never made. */
static enum status character_put(struct lane_tokenizer *t, uint32_t id, const char *piece, size_t n,
                                 struct status_note *note) {
    char bytes[3 * TEXT_TOKEN_BYTES_MAX];
    if (n > sizeof bytes)
        return STATUS_UNSUPPORTED;
    int byte = byte_piece(piece, n);
    if (byte >= 0) {
        bytes[0] = (char)byte;
        t->byte_id[byte] = id;
        return lane_text_token_put(t, id, bytes, 1, 0, note);
    }
    size_t n_bytes = lane_text_spaces(piece, n, bytes);
    if (n_bytes > TEXT_TOKEN_BYTES_MAX)
        return STATUS_UNSUPPORTED;
    bool made = n != 0 && memchr(piece, ' ', n) == NULL;
    return lane_text_token_put(t, id, bytes, n_bytes, made ? TEXT_MADE : 0, note);
}

enum status lane_text_piece_put(struct lane_tokenizer *t, const char *name,
                                const struct text_alphabet *a, uint32_t id, const char *piece,
                                size_t n, struct status_note *note) {
    enum status status = t->kind == TEXT_BYTES ? byte_level_put(t, a, id, piece, n, note)
                                               : character_put(t, id, piece, n, note);
    if (status == STATUS_UNSUPPORTED)
        status_say(note, status, "%s: token %u is longer than the limit of %d bytes", name, id,
                   TEXT_TOKEN_BYTES_MAX);
    return status;
}

static bool id_ok(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) < TEXT_VOCAB_MAX;
}

static enum status load_vocab(struct lane_tokenizer *t, const char *name, json_t *vocab,
                              struct status_note *note) {
    struct text_alphabet alphabet;
    const char *key;
    json_t *value;
    json_int_t last = -1;
    lane_text_alphabet_fill(&alphabet);
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return status_say(note, STATUS_BAD_FILE, "%s: model.vocab is not an object with tokens",
                          name);
    json_object_foreach(vocab, key, value) {
        if (!id_ok(value))
            return status_say(note, STATUS_BAD_FILE,
                              "%s: the id of token \"%.60s\" is not a number from 0 to %d", name,
                              key, TEXT_VOCAB_MAX - 1);
        if (json_integer_value(value) > last)
            last = json_integer_value(value);
    }
    TRY(tokens_reserve(t, (uint32_t)last + 1, note));
    json_object_foreach(vocab, key, value) {
        uint32_t id = (uint32_t)json_integer_value(value);
        if ((t->tokens[id].flags & TEXT_KNOWN) != 0)
            return status_say(note, STATUS_BAD_FILE, "%s: two tokens have the id %u", name, id);
        TRY(lane_text_piece_put(t, name, &alphabet, id, key, strlen(key), note));
    }
    return STATUS_OK;
}

/* One merge as its two spellings: "a b" or ["a", "b"]. */
static bool merge_parts(const json_t *merge, const char **a, size_t *n_a, const char **b,
                        size_t *n_b) {
    if (json_is_string(merge)) {
        *a = json_string_value(merge);
        const char *space = strchr(*a, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL)
            return false;
        *n_a = (size_t)(space - *a);
        *b = space + 1;
        *n_b = strlen(*b);
        return true;
    }
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *a = json_string_value(left);
    *n_a = json_string_length(left);
    *b = json_string_value(right);
    *n_b = json_string_length(right);
    return true;
}

static int64_t vocab_id(const json_t *vocab, const char *text, size_t n) {
    const json_t *id = json_object_getn(vocab, text, n);
    return id == NULL ? -1 : json_integer_value(id);
}

/* A pair that is listed twice keeps its later rank. */
void lane_text_merge_put(struct lane_tokenizer *t, struct text_merge m) {
    uint64_t key = (uint64_t)m.left << 32 | m.right;
    uint32_t slot = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> t->merge_shift);
    while (t->merges[slot].rank != UINT32_MAX &&
           (t->merges[slot].left != m.left || t->merges[slot].right != m.right))
        slot = (slot + 1) & t->merge_mask;
    t->merges[slot] = m;
}

enum status lane_text_merges_reserve(struct lane_tokenizer *t, size_t n, struct status_note *note) {
    uint32_t bits = 4;
    while (((size_t)1 << bits) < 2 * n)
        bits++;
    t->merge_shift = 64 - bits;
    t->merge_mask = (uint32_t)(((size_t)1 << bits) - 1);
    t->merges = malloc(((size_t)1 << bits) * sizeof *t->merges);
    if (t->merges == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %zu merges", n);
    memset(t->merges, 0xFF, ((size_t)1 << bits) * sizeof *t->merges);
    return STATUS_OK;
}

static enum status load_merges(struct lane_tokenizer *t, const char *name, const json_t *vocab,
                               const json_t *merges, struct status_note *note) {
    size_t n = json_array_size(merges);
    if (!json_is_array(merges) || n > TEXT_MERGES_MAX)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: model.merges is not a list of at most %d merges", name,
                          TEXT_MERGES_MAX);
    TRY(lane_text_merges_reserve(t, n, note));
    for (size_t i = 0; i < n; i++) {
        const char *a, *b;
        size_t n_a, n_b;
        char both[4 * TEXT_TOKEN_BYTES_MAX];
        if (!merge_parts(json_array_get(merges, i), &a, &n_a, &b, &n_b) || n_a == 0 || n_b == 0 ||
            n_a + n_b > sizeof both)
            return status_say(note, STATUS_BAD_FILE, "%s: merge %zu is not a pair of tokens", name,
                              i);
        memcpy(both, a, n_a);
        memcpy(both + n_a, b, n_b);
        int64_t left = vocab_id(vocab, a, n_a), right = vocab_id(vocab, b, n_b);
        int64_t id = vocab_id(vocab, both, n_a + n_b);
        if (left < 0 || right < 0 || id < 0)
            return status_say(note, STATUS_BAD_FILE,
                              "%s: merge %zu has a token that is not in the vocabulary", name, i);
        lane_text_merge_put(
            t, (struct text_merge){(uint32_t)left, (uint32_t)right, (uint32_t)i, (uint32_t)id});
    }
    return STATUS_OK;
}

static bool is(const json_t *value, const char *text) {
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* Whether a part or one of its parts is of this type. */
static bool has_type(const json_t *object, const char *list, const char *type) {
    const json_t *parts = json_object_get(object, list);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (is(json_object_get(json_array_get(parts, i), "type"), type))
            return true;
    return is(json_object_get(object, "type"), type);
}

/* A vocabulary is on characters when something says that its tokens hold U+2581 or whole characters
 * and nothing that they are spelled in bytes. */
static enum text_kind kind_of(const json_t *root) {
    const json_t *model = json_object_get(root, "model"),
                 *decoder = json_object_get(root, "decoder");
    if (is(json_object_get(model, "type"), "Unigram"))
        return TEXT_UNIGRAM;
    if (has_type(json_object_get(root, "pre_tokenizer"), "pretokenizers", "ByteLevel"))
        return TEXT_BYTES;
    return json_is_true(json_object_get(model, "byte_fallback")) ||
                   has_type(decoder, "decoders", "Replace") ||
                   has_type(decoder, "decoders", "Metaspace")
               ? TEXT_MERGES
               : TEXT_BYTES;
}

/* Options of BPE that change its output and that this build does not have. */
static enum status model_refusals(const char *name, const json_t *model, enum text_kind kind,
                                  struct status_note *note) {
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model))
        return status_say(note, STATUS_BAD_FILE, "%s: there is no object \"model\"", name);
    /* Old files have no type; theirs is told by the merges. */
    if (type != NULL && !is(type, "BPE") && !is(type, "Unigram"))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: model type %.40s is not supported, only BPE and Unigram", name,
                          json_is_string(type) ? json_string_value(type) : "?");
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (affix != NULL && !json_is_null(affix) &&
            !(json_is_string(affix) && json_string_length(affix) == 0))
            return status_say(note, STATUS_UNSUPPORTED, "%s: model.%s is not supported", name,
                              affixes[i]);
    }
    if (kind == TEXT_BYTES && json_is_true(json_object_get(model, "byte_fallback")))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: model.byte_fallback is not supported in a byte-level vocabulary",
                          name);
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: model.dropout makes tokens a matter of chance and is not supported",
                          name);
    return STATUS_OK;
}

/* A list of [piece, score]. It becomes an object like BPE's, in which pieces are looked up. */
static enum status load_scores(struct lane_tokenizer *t, const char *name, json_t *model,
                               struct status_note *note) {
    const json_t *list = json_object_get(model, "vocab");
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > TEXT_VOCAB_MAX)
        return status_say(note, STATUS_BAD_FILE, "%s: model.vocab is not a list of 1 to %d tokens",
                          name, TEXT_VOCAB_MAX);
    json_t *object = json_object();
    t->scores = malloc(n * sizeof *t->scores);
    if (object == NULL || t->scores == NULL) {
        json_decref(object);
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for %zu tokens", name, n);
    }
    t->unk_score = HUGE_VAL;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i), *piece = json_array_get(one, 0);
        const json_t *score = json_array_get(one, 1);
        bool ok = json_is_string(piece) && json_is_number(score) &&
                  json_object_get(object, json_string_value(piece)) == NULL;
        if (!ok || json_object_setn_new(object, json_string_value(piece), json_string_length(piece),
                                        json_integer((json_int_t)i)) != 0) {
            json_decref(object);
            return status_say(note, STATUS_BAD_FILE,
                              "%s: token %zu is not a pair of a new piece and a score", name, i);
        }
        t->scores[i] = json_number_value(score);
        t->unk_score = t->scores[i] < t->unk_score ? t->scores[i] : t->unk_score;
    }
    if (json_object_set_new(model, "vocab", object) != 0)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for %zu tokens", name, n);
    return STATUS_OK;
}

static enum status load_unigram(struct lane_tokenizer *t, const char *name, json_t *model,
                                struct status_note *note) {
    const json_t *unk = json_object_get(model, "unk_id");
    TRY(load_scores(t, name, model, note));
    TRY(load_vocab(t, name, json_object_get(model, "vocab"), note));
    if (!json_is_true(json_object_get(model, "byte_fallback")))
        memset(t->byte_id, 0xFF, sizeof t->byte_id);
    t->fuse_unk = true;
    if (unk == NULL || json_is_null(unk))
        return STATUS_OK;
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 || json_integer_value(unk) >= t->vocab)
        return status_say(note, STATUS_BAD_FILE, "%s: model.unk_id is not an id of the vocabulary",
                          name);
    t->unk = json_integer_value(unk);
    return STATUS_OK;
}

enum status lane_text_load_model(struct lane_tokenizer *t, const char *name, const json_t *root,
                                 struct status_note *note) {
    json_t *model = json_object_get(root, "model");
    t->kind = kind_of(root);
    TRY(model_refusals(name, model, t->kind, note));
    memset(t->byte_id, 0xFF, sizeof t->byte_id);
    if (t->kind == TEXT_UNIGRAM)
        return load_unigram(t, name, model, note);
    json_t *vocab = json_object_get(model, "vocab");
    TRY(load_vocab(t, name, vocab, note));
    if (t->kind != TEXT_BYTES && !json_is_true(json_object_get(model, "byte_fallback")))
        memset(t->byte_id, 0xFF, sizeof t->byte_id);
    TRY(load_merges(t, name, vocab, json_object_get(model, "merges"), note));
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    t->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    t->unk = -1;
    const json_t *unk = json_object_get(model, "unk_token");
    if (json_is_string(unk)) {
        t->unk = vocab_id(vocab, json_string_value(unk), json_string_length(unk));
        if (t->unk < 0)
            return status_say(note, STATUS_BAD_FILE,
                              "%s: unk_token \"%.60s\" is not in the vocabulary", name,
                              json_string_value(unk));
    }
    return STATUS_OK;
}
