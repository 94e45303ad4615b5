/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary, the merges and the added tokens of a tokenizer.json. Tokens of a byte-level
 * vocabulary are spelled in an alphabet of 256 characters that stand for bytes; here they become
 * the bytes themselves.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/text/private.h"
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

struct alphabet {
    int16_t byte[0x200]; /* by code point; -1: not of the alphabet */
};

static void alphabet_fill(struct alphabet *a) {
    memset(a->byte, 0xFF, sizeof a->byte);
    for (uint32_t b = 0; b < 256; b++)
        a->byte[alphabet_point(b)] = (int16_t)b;
}

/* The bytes that a spelling stands for, in out (at least n bytes); false when a character is not of
 * the alphabet. */
static bool alphabet_bytes(const struct alphabet *a, const char *text, size_t n, char *out,
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

static bool id_ok(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) < TEXT_VOCAB_MAX;
}

static enum status load_vocab(struct lane_tokenizer *t, const char *name, json_t *vocab,
                              struct status_note *note) {
    struct alphabet alphabet;
    const char *key;
    json_t *value;
    json_int_t last = -1;
    alphabet_fill(&alphabet);
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
        uint32_t id = (uint32_t)json_integer_value(value), flags = TEXT_BYTE_LEVEL;
        size_t n = strlen(key), n_bytes;
        char bytes[2 * TEXT_TOKEN_BYTES_MAX];
        if (n > sizeof bytes)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: token %u is longer than the limit of %d bytes", name, id,
                              TEXT_TOKEN_BYTES_MAX);
        if (!alphabet_bytes(&alphabet, key, n, bytes, &n_bytes)) {
            memcpy(bytes, key, n);
            n_bytes = n;
            flags = 0;
        }
        if (n_bytes > TEXT_TOKEN_BYTES_MAX)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: token %u is longer than the limit of %d bytes", name, id,
                              TEXT_TOKEN_BYTES_MAX);
        if ((t->tokens[id].flags & TEXT_KNOWN) != 0)
            return status_say(note, STATUS_BAD_FILE, "%s: two tokens have the id %u", name, id);
        TRY(lane_text_token_put(t, id, bytes, n_bytes, flags, note));
        if (flags != 0 && n_bytes == 1)
            t->byte_id[(unsigned char)bytes[0]] = id;
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
static void merge_put(struct lane_tokenizer *t, struct text_merge m) {
    uint64_t key = (uint64_t)m.left << 32 | m.right;
    uint32_t slot = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> t->merge_shift);
    while (t->merges[slot].rank != UINT32_MAX &&
           (t->merges[slot].left != m.left || t->merges[slot].right != m.right))
        slot = (slot + 1) & t->merge_mask;
    t->merges[slot] = m;
}

static enum status load_merges(struct lane_tokenizer *t, const char *name, const json_t *vocab,
                               const json_t *merges, struct status_note *note) {
    size_t n = json_array_size(merges);
    uint32_t bits = 4;
    if (!json_is_array(merges) || n > TEXT_MERGES_MAX)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: model.merges is not a list of at most %d merges", name,
                          TEXT_MERGES_MAX);
    while (((size_t)1 << bits) < 2 * n)
        bits++;
    t->merge_shift = 64 - bits;
    t->merge_mask = (uint32_t)(((size_t)1 << bits) - 1);
    t->merges = malloc(((size_t)1 << bits) * sizeof *t->merges);
    if (t->merges == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %zu merges", n);
    memset(t->merges, 0xFF, ((size_t)1 << bits) * sizeof *t->merges);
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
        merge_put(t,
                  (struct text_merge){(uint32_t)left, (uint32_t)right, (uint32_t)i, (uint32_t)id});
    }
    return STATUS_OK;
}

/* Options of BPE that change its output and that this build does not have. */
static enum status model_refusals(const char *name, const json_t *model, struct status_note *note) {
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model))
        return status_say(note, STATUS_BAD_FILE, "%s: there is no object \"model\"", name);
    /* Old files have no type; theirs is told by the merges. */
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: model type %.40s is not supported, only BPE", name,
                          json_is_string(type) ? json_string_value(type) : "?");
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (affix != NULL && !json_is_null(affix) &&
            !(json_is_string(affix) && json_string_length(affix) == 0))
            return status_say(note, STATUS_UNSUPPORTED, "%s: model.%s is not supported", name,
                              affixes[i]);
    }
    if (json_is_true(json_object_get(model, "byte_fallback")))
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

enum status lane_text_load_model(struct lane_tokenizer *t, const char *name, const json_t *root,
                                 struct status_note *note) {
    const json_t *model = json_object_get(root, "model");
    TRY(model_refusals(name, model, note));
    json_t *vocab = json_object_get(model, "vocab");
    memset(t->byte_id, 0xFF, sizeof t->byte_id);
    TRY(load_vocab(t, name, vocab, note));
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
