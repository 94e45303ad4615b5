/* SPDX-License-Identifier: Apache-2.0
 * Added tokens of tokenizer.json and tokenizer_config.json, and the indices of the opened
 * vocabulary. A special token can be the outcome of nothing but its own spelling where the caller
 * allows it; a file that says otherwise is refused.
 */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>
#include <xxhash.h>

#include "lanes/text/load.h"

struct added_source {
    const char *name;
    const json_t *vocab;
    struct status_note *note;
};

static struct text_added *added_find(const struct lane_tokenizer *t, const char *text, size_t n) {
    const struct text_added_set *sets[] = {&t->raw, &t->normalized};
    for (size_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < sets[s]->n; i++)
            if (sets[s]->items[i].bytes == n && memcmp(sets[s]->items[i].text, text, n) == 0)
                return &sets[s]->items[i];
    return NULL;
}

int64_t lane_text_added_id(const struct lane_tokenizer *t, const char *text, size_t bytes) {
    const struct text_added *a = added_find(t, text, bytes);
    return a == NULL ? -1 : (int64_t)a->id;
}

static enum status added_grow(struct text_added_set *set, struct status_note *note) {
    if (set->n != 0 && (set->n & (set->n - 1)) != 0)
        return STATUS_OK;
    size_t room = set->n == 0 ? 1 : 2 * (size_t)set->n;
    struct text_added *items = realloc(set->items, room * sizeof *items);
    if (items == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for added tokens");
    set->items = items;
    return STATUS_OK;
}

/* Until text_index parts them, all added tokens are in the set `raw`. */
enum status lane_text_added_new(struct lane_tokenizer *t, const char *name, const char *text,
                                size_t n, uint32_t id, uint8_t flags, struct status_note *note) {
    char bytes[TEXT_TOKEN_BYTES_MAX];
    if (n == 0 || n > TEXT_TOKEN_BYTES_MAX)
        return status_say(note, STATUS_BAD_FILE, "%s: added token %u has %zu bytes, not 1 to %d",
                          name, id, n, TEXT_TOKEN_BYTES_MAX);
    if (t->raw.n == TEXT_ADDED_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%s: more than %d added tokens", name,
                          TEXT_ADDED_MAX);
    TRY(added_grow(&t->raw, note));
    char *copy = malloc(n + 1);
    if (copy == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for added tokens");
    memcpy(copy, text, n);
    copy[n] = '\0';
    t->raw.items[t->raw.n++] = (struct text_added){copy, (uint32_t)n, id, flags};
    /* A special token is written as it is spelled; any other has its spaces as all tokens do. */
    size_t n_bytes = n;
    if (t->kind != TEXT_BYTES && (flags & TEXT_SPECIAL) == 0)
        n_bytes = lane_text_spaces(text, n, bytes);
    else
        memcpy(bytes, text, n);
    return lane_text_token_put(t, id, bytes, n_bytes, flags, note);
}

static enum status added_put(struct lane_tokenizer *t, const struct added_source *from,
                             const char *text, size_t n, uint32_t id, uint8_t flags) {
    bool known = id < t->vocab && (t->tokens[id].flags & TEXT_KNOWN) != 0;
    const json_t *listed = json_object_getn(from->vocab, text, n);
    struct text_added *same = added_find(t, text, n);
    if (same != NULL     ? same->id != id
        : listed != NULL ? json_integer_value(listed) != (json_int_t)id
                         : known)
        return status_say(from->note, STATUS_BAD_FILE,
                          "%s: added token \"%.60s\" or its id %u is given twice and differently",
                          from->name, text, id);
    if (same != NULL) {
        same->flags = flags;
        t->tokens[id].flags =
            (flags & TEXT_SPECIAL) != 0 ? flags : flags | (t->tokens[id].flags & TEXT_MADE);
        return STATUS_OK;
    }
    if (t->kind != TEXT_BYTES && listed != NULL && (flags & TEXT_SPECIAL) == 0)
        flags |= t->tokens[id].flags & TEXT_MADE;
    return lane_text_added_new(t, from->name, text, n, id, flags, from->note);
}

/* An object of "added_tokens" or of "added_tokens_decoder". */
static enum status added_object(struct lane_tokenizer *t, const struct added_source *from,
                                const json_t *object, const json_t *id) {
    static const struct {
        const char *key;
        uint8_t flag;
    } options[] = {{"special", TEXT_SPECIAL},
                   {"lstrip", TEXT_LSTRIP},
                   {"rstrip", TEXT_RSTRIP},
                   {"single_word", TEXT_SINGLE_WORD},
                   {"normalized", TEXT_NORMALIZED}};
    const json_t *content = json_object_get(object, "content");
    uint8_t flags = TEXT_KNOWN | TEXT_ADDED;
    if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= TEXT_VOCAB_MAX)
        return status_say(from->note, STATUS_BAD_FILE,
                          "%s: an added token has no content or no id from 0 to %d", from->name,
                          TEXT_VOCAB_MAX - 1);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (json_is_true(json_object_get(object, options[i].key)))
            flags |= options[i].flag;
    return added_put(t, from, json_string_value(content), json_string_length(content),
                     (uint32_t)json_integer_value(id), flags);
}

/* A role such as eos_token makes its token a special one. Names that are no token here are left
 * alone. */
static enum status added_role(struct lane_tokenizer *t, const struct added_source *from,
                              const json_t *role, bool makes) {
    const json_t *content = json_is_object(role) ? json_object_get(role, "content") : role;
    if (!json_is_string(content) || json_string_length(content) == 0)
        return STATUS_OK;
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    struct text_added *a = added_find(t, text, n);
    if (a != NULL) {
        a->flags |= TEXT_SPECIAL;
        t->tokens[a->id].flags |= TEXT_SPECIAL;
        return STATUS_OK;
    }
    const json_t *id = json_object_getn(from->vocab, text, n);
    if (id == NULL || !makes)
        return STATUS_OK;
    return added_put(t, from, text, n, (uint32_t)json_integer_value(id),
                     TEXT_KNOWN | TEXT_ADDED | TEXT_SPECIAL);
}

enum status lane_text_load_added(struct lane_tokenizer *t, const char *name, const json_t *root,
                                 json_t *config, struct status_note *note) {
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "cls_token", "sep_token", "mask_token"};
    enum { MAKING_ROLES = 3 }; /* padding and masks never stand in a prompt: often any token */
    struct added_source from = {name, json_object_get(json_object_get(root, "model"), "vocab"),
                                note};
    const json_t *list = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        TRY(added_object(t, &from, object, json_object_get(object, "id")));
    }
    json_t *decoder = json_object_get(config, "added_tokens_decoder"), *object;
    const char *key;
    json_object_foreach(decoder, key, object) {
        char *end;
        unsigned long long value = strtoull(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || value >= TEXT_VOCAB_MAX)
            return status_say(note, STATUS_BAD_FILE,
                              "%s: added_tokens_decoder has the id \"%.40s\", not one from 0 to %d",
                              name, key, TEXT_VOCAB_MAX - 1);
        json_t *id = json_integer((json_int_t)value);
        enum status status = added_object(t, &from, object, id);
        json_decref(id);
        TRY(status);
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        TRY(added_role(t, &from, json_object_get(config, roles[i]), i < MAKING_ROLES));
    const json_t *more = json_object_get(config, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(more); i++)
        TRY(added_role(t, &from, json_array_get(more, i), true));
    return STATUS_OK;
}

/* The tokens that text may become, by their bytes. */
static enum status index_words(struct lane_tokenizer *t, struct status_note *note) {
    uint32_t bits = 4;
    while (((uint32_t)1 << bits) < 2 * t->vocab)
        bits++;
    t->word_mask = ((uint32_t)1 << bits) - 1;
    t->words = calloc((size_t)t->word_mask + 1, sizeof *t->words);
    if (t->words == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u tokens", t->vocab);
    for (uint32_t id = 0; id < t->vocab; id++) {
        if ((t->tokens[id].flags & (TEXT_MADE | TEXT_SPECIAL)) != TEXT_MADE)
            continue;
        uint32_t slot = (uint32_t)XXH3_64bits(t->pool + t->tokens[id].offset, t->tokens[id].bytes);
        for (slot &= t->word_mask; t->words[slot] != 0;)
            slot = (slot + 1) & t->word_mask;
        t->words[slot] = id + 1;
    }
    return STATUS_OK;
}

static int added_compare(const void *left, const void *right) {
    const struct text_added *a = left, *b = right;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = memcmp(a->text, b->text, n);
    if (order != 0)
        return order;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1) : (a->id < b->id ? -1 : 1);
}

static void set_sort(struct text_added_set *set) {
    if (set->n != 0)
        qsort(set->items, set->n, sizeof *set->items, added_compare);
    for (uint32_t i = 0; i < set->n; i++)
        set->first[(unsigned char)set->items[i].text[0]] = true;
}

/* A normalized token is looked for in normalized text, so in its own normal form. */
static enum status added_normalize(struct text_added *a, struct status_note *note) {
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)a->text, a->bytes, &form,
                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n <= 0) {
        free(form);
        return status_say(note, STATUS_BAD_FILE, "added token %u cannot be normalized", a->id);
    }
    free(a->text);
    a->text = (char *)form; /* utf8proc ends it with a NUL */
    a->bytes = (uint32_t)n;
    return STATUS_OK;
}

/* On characters the normal form has spaces for U+2581, and perhaps one before it. */
static enum status added_spaces(struct text_added *a, bool prefix, struct status_note *note) {
    char *form = malloc((size_t)a->bytes + 2);
    if (form == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for added tokens");
    form[0] = ' ';
    size_t n = prefix + lane_text_spaces(a->text, a->bytes, form + prefix);
    form[n] = '\0';
    free(a->text);
    a->text = form;
    a->bytes = (uint32_t)n;
    return STATUS_OK;
}

static enum status special_is_apart(const struct lane_tokenizer *t, const char *name,
                                    struct status_note *note) {
    for (uint32_t slot = 0; t->merges != NULL && slot <= t->merge_mask; slot++) {
        const struct text_merge *m = &t->merges[slot];
        if (m->rank != UINT32_MAX && (t->tokens[m->id].flags & TEXT_SPECIAL) != 0)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: merge %u makes the special token %u out of ordinary text", name,
                              m->rank, m->id);
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (t->byte_id[byte] >= 0 && (t->tokens[t->byte_id[byte]].flags & TEXT_SPECIAL) != 0)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: the special token %u is the token of the byte 0x%02x", name,
                              (unsigned)t->byte_id[byte], byte);
    return STATUS_OK;
}

enum status lane_text_index(struct lane_tokenizer *t, const char *name, struct status_note *note) {
    uint32_t kept = 0;
    TRY(special_is_apart(t, name, note));
    for (uint32_t i = 0; i < t->raw.n; i++) {
        struct text_added a = t->raw.items[i];
        if ((a.flags & TEXT_NORMALIZED) == 0) {
            t->raw.items[kept++] = a;
            continue;
        }
        enum status status = added_grow(&t->normalized, note);
        if (status == STATUS_OK && t->nfc)
            status = added_normalize(&a, note);
        if (status == STATUS_OK && t->kind != TEXT_BYTES)
            status = added_spaces(&a, t->prepends, note);
        t->raw.items[i] = a;
        if (status != STATUS_OK) { /* every token stays in exactly one set, to be freed once */
            memmove(t->raw.items + kept, t->raw.items + i, (t->raw.n - i) * sizeof a);
            t->raw.n = kept + t->raw.n - i;
            return status;
        }
        t->normalized.items[t->normalized.n++] = a;
    }
    t->raw.n = kept;
    set_sort(&t->raw);
    set_sort(&t->normalized);
    for (uint32_t id = 0; id < t->vocab; id++)
        if (t->tokens[id].bytes > t->bytes_max)
            t->bytes_max = t->tokens[id].bytes;
    if (t->ignore_merges || t->kind != TEXT_BYTES)
        TRY(index_words(t, note));
    return t->kind == TEXT_BYTES ? STATUS_OK : lane_text_index_chars(t, name, note);
}
