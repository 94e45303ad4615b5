/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer from tables in memory. Token types say which tokens are special or added, the name of
 * the pre-tokenizer says how text is cut; both have the meaning that the writers of such files give
 * them.
 */
#include "lanes/text/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "lanes/text/load.h"

struct tables {
    const struct lane_tables *in;
    struct lane_tokenizer *t;
    const char *name;
    struct status_note *note;
    uint32_t *slots; /* id + 1 by hash of a spelling; 0 is a free slot */
    uint32_t mask;
};

static bool slice_is(struct lane_text_slice s, const char *text) {
    return s.bytes != NULL && s.n == strlen(text) && memcmp(s.bytes, text, s.n) == 0;
}

/* At most 40 bytes of a slice, for a message. */
static int shown(struct lane_text_slice s) {
    return s.bytes == NULL ? 0 : s.n < 40 ? (int)s.n : 40;
}

/* ---- pre-tokenizers ---- */

#define GPT2_WORDS                                                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LATER_WORDS(digits)                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* One name and what it stands for: the patterns in order, each of which cuts what the one before it
 * left. */
static const struct pre {
    const char *name;
    const char *patterns[4];
    bool nfc; /* the models of this name normalize */
    bool ignore_merges;
    bool adds_bos;
} pres[] = {
    {.name = "default",
     .patterns = {"[\\p{P}$+<=>^~|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.name = "gpt-2", .patterns = {GPT2_WORDS}},
    {.name = "smollm", .patterns = {"\\p{N}", GPT2_WORDS}},
    {.name = "qwen2", .patterns = {LATER_WORDS("\\p{N}")}, .nfc = true},
    {.name = "llama-bpe",
     .patterns = {LATER_WORDS("\\p{N}{1,3}")},
     .ignore_merges = true,
     .adds_bos = true},
    {.name = "llama3",
     .patterns = {LATER_WORDS("\\p{N}{1,3}")},
     .ignore_merges = true,
     .adds_bos = true},
    {.name = "llama-v3",
     .patterns = {LATER_WORDS("\\p{N}{1,3}")},
     .ignore_merges = true,
     .adds_bos = true},
};

static enum status load_pre(struct tables *s) {
    struct lane_text_slice name = s->in->pre;
    const struct pre *pre = name.bytes == NULL ? &pres[0] : NULL;
    for (size_t i = 0; i < sizeof pres / sizeof *pres && pre == NULL; i++)
        if (slice_is(name, pres[i].name))
            pre = &pres[i];
    if (pre == NULL)
        return status_say(s->note, STATUS_UNSUPPORTED,
                          "%s: the pre-tokenizer \"%.*s\" is not supported", s->name, shown(name),
                          name.bytes);
    s->t->nfc = pre->nfc;
    s->t->ignore_merges = pre->ignore_merges;
    s->t->adds_bos = pre->adds_bos;
    for (size_t i = 0; i < 4 && pre->patterns[i] != NULL; i++) {
        struct text_stage *stage = &s->t->stages[s->t->n_stages++];
        TRY(lane_text_pattern_compile(s->name, pre->patterns[i], strlen(pre->patterns[i]), false,
                                      &stage->pattern, s->note));
    }
    return STATUS_OK;
}

/* ---- tokens ---- */

static int32_t type_of(const struct tables *s, uint32_t id) {
    return s->in->types == NULL ? LANE_TOKEN_NORMAL : s->in->types[id];
}

/* The slot of a spelling: its own, or the free one where it would stand. */
static uint32_t *slot_of(const struct tables *s, const char *bytes, size_t n) {
    uint32_t slot = (uint32_t)XXH3_64bits(bytes, n) & s->mask;
    for (; s->slots[slot] != 0; slot = (slot + 1) & s->mask) {
        const struct lane_text_slice *token = &s->in->tokens[s->slots[slot] - 1];
        if (token->n == n && memcmp(token->bytes, bytes, n) == 0)
            break;
    }
    return &s->slots[slot];
}

static enum status load_slots(struct tables *s) {
    uint32_t bits = 4;
    while (((uint32_t)1 << bits) < 2 * s->in->n_tokens)
        bits++;
    s->mask = ((uint32_t)1 << bits) - 1;
    s->slots = calloc((size_t)s->mask + 1, sizeof *s->slots);
    if (s->slots == NULL)
        return status_say(s->note, STATUS_NO_MEMORY, "%s: no memory for %u tokens", s->name,
                          s->in->n_tokens);
    for (uint32_t id = 0; id < s->in->n_tokens; id++) {
        const struct lane_text_slice *token = &s->in->tokens[id];
        if (token->n == 0)
            continue; /* stands for no text */
        uint32_t *slot = slot_of(s, token->bytes, token->n);
        if (*slot != 0)
            return status_say(s->note, STATUS_BAD_FILE, "%s: the tokens %u and %u are the same",
                              s->name, *slot - 1, id);
        *slot = id + 1;
    }
    return STATUS_OK;
}

static bool is_role(const struct lane_tables *in, uint32_t id) {
    return id == in->bos || id == in->eos || id == in->eot;
}

/* A vocabulary's own roles are special whatever their type is; padding may be any token. */
static uint8_t added_flags(const struct tables *s, uint32_t id) {
    int32_t type = type_of(s, id);
    if (type == LANE_TOKEN_CONTROL || type == LANE_TOKEN_UNKNOWN || is_role(s->in, id))
        return TEXT_KNOWN | TEXT_ADDED | TEXT_SPECIAL;
    return type == LANE_TOKEN_USER_DEFINED ? TEXT_KNOWN | TEXT_ADDED : 0;
}

/* What writers put where the model has a row and the tokenizer no token: it stands for no text. */
static bool is_filler(const struct tables *s, uint32_t id) {
    char filler[24];
    snprintf(filler, sizeof filler, "[PAD%u]", id);
    return type_of(s, id) == LANE_TOKEN_UNUSED && slice_is(s->in->tokens[id], filler);
}

static enum status load_token(struct tables *s, const struct text_alphabet *alphabet, uint32_t id) {
    struct lane_tokenizer *t = s->t;
    const struct lane_text_slice *token = &s->in->tokens[id];
    uint8_t flags = added_flags(s, id);
    if (token->n == 0 || is_filler(s, id))
        return lane_text_token_put(t, id, "", 0, flags & TEXT_SPECIAL, s->note);
    if (flags != 0) {
        /* Between other tokens it may be made of text as well, unless it is special. */
        if (t->kind != TEXT_BYTES && (flags & TEXT_SPECIAL) == 0 &&
            memchr(token->bytes, ' ', token->n) == NULL)
            flags |= TEXT_MADE;
        return lane_text_added_new(t, s->name, token->bytes, token->n, id, flags, s->note);
    }
    TRY(lane_text_piece_put(t, s->name, alphabet, id, token->bytes, token->n, s->note));
    const struct text_token *put = &t->tokens[id];
    if (t->kind != TEXT_BYTES && type_of(s, id) == LANE_TOKEN_BYTE &&
        (put->bytes != 1 || t->byte_id[(unsigned char)t->pool[put->offset]] != id))
        return status_say(s->note, STATUS_BAD_FILE, "%s: the byte token %u is not spelled <0x..>",
                          s->name, id);
    if (type_of(s, id) == LANE_TOKEN_UNUSED)
        t->tokens[id].flags &= (uint8_t)~TEXT_MADE;
    return STATUS_OK;
}

static enum status load_tokens(struct tables *s) {
    struct text_alphabet alphabet;
    lane_text_alphabet_fill(&alphabet);
    memset(s->t->byte_id, 0xFF, sizeof s->t->byte_id);
    /* The last one first, so that the table of tokens is made once. */
    TRY(lane_text_token_put(s->t, s->in->n_tokens - 1, "", 0, 0, s->note));
    for (uint32_t id = 0; id < s->in->n_tokens; id++)
        TRY(load_token(s, &alphabet, id));
    return STATUS_OK;
}

/* A merge is two tokens with a space between; a token may begin with a space. */
static enum status load_merge(struct tables *s, uint32_t rank) {
    const struct lane_text_slice *merge = &s->in->merges[rank];
    char both[4 * TEXT_TOKEN_BYTES_MAX];
    const char *space = merge->n < 3 ? NULL : memchr(merge->bytes + 1, ' ', merge->n - 2);
    if (space == NULL || merge->n > sizeof both)
        return status_say(s->note, STATUS_BAD_FILE, "%s: merge %u is not a pair of tokens", s->name,
                          rank);
    size_t n_left = (size_t)(space - merge->bytes), n_right = merge->n - n_left - 1;
    memcpy(both, merge->bytes, n_left);
    memcpy(both + n_left, space + 1, n_right);
    uint32_t left = *slot_of(s, both, n_left), right = *slot_of(s, both + n_left, n_right);
    uint32_t made = *slot_of(s, both, n_left + n_right);
    if (left == 0 || right == 0 || made == 0)
        return status_say(s->note, STATUS_BAD_FILE,
                          "%s: merge %u has a token that is not in the vocabulary", s->name, rank);
    lane_text_merge_put(s->t, (struct text_merge){left - 1, right - 1, rank, made - 1});
    return STATUS_OK;
}

/* ---- the two models ---- */

static enum status load_gpt2(struct tables *s) {
    if (s->in->n_merges == 0)
        return status_say(s->note, STATUS_BAD_FILE, "%s: tokenizer.ggml.merges is missing",
                          s->name);
    TRY(load_pre(s));
    TRY(load_slots(s));
    TRY(load_tokens(s));
    TRY(lane_text_merges_reserve(s->t, s->in->n_merges, s->note));
    for (uint32_t i = 0; i < s->in->n_merges; i++)
        TRY(load_merge(s, i));
    return STATUS_OK;
}

static enum status load_llama(struct tables *s) {
    struct lane_tokenizer *t = s->t;
    t->kind = TEXT_SCORES;
    t->fuse_unk = true;
    t->adds_bos = true;
    t->prepends = s->in->add_space_prefix != LANE_NO;
    if (s->in->scores == NULL)
        return status_say(s->note, STATUS_BAD_FILE, "%s: tokenizer.ggml.scores is missing",
                          s->name);
    if (s->in->remove_extra_whitespaces == LANE_YES)
        return status_say(s->note, STATUS_UNSUPPORTED,
                          "%s: tokenizer.ggml.remove_extra_whitespaces is not supported", s->name);
    t->scores = malloc(s->in->n_tokens * sizeof *t->scores);
    if (t->scores == NULL)
        return status_say(s->note, STATUS_NO_MEMORY, "%s: no memory for %u scores", s->name,
                          s->in->n_tokens);
    for (uint32_t id = 0; id < s->in->n_tokens; id++) {
        t->scores[id] = (double)s->in->scores[id];
        if (isnan(t->scores[id]))
            return status_say(s->note, STATUS_BAD_FILE, "%s: the score of token %u is not a number",
                              s->name, id);
    }
    TRY(load_slots(s));
    return load_tokens(s);
}

/* ---- roles ---- */

/* What llama vocabularies have at these ids counts only where the file does not say otherwise. */
static int64_t role(const struct tables *s, int64_t said, uint32_t usual, int32_t type) {
    bool there = s->t->kind != TEXT_BYTES && usual < s->in->n_tokens && type_of(s, usual) == type;
    return said < 0 && there ? usual : said;
}

static enum status load_roles(struct tables *s) {
    const struct lane_tables *in = s->in;
    struct lane_tokenizer *t = s->t;
    t->bos = role(s, in->bos, 1, LANE_TOKEN_CONTROL);
    t->eos = role(s, in->eos, 2, LANE_TOKEN_CONTROL);
    /* Bytes that a byte-level vocabulary lacks are an error; what their token was is not told. */
    t->unk = t->kind == TEXT_BYTES ? -1 : role(s, in->unk, 0, LANE_TOKEN_UNKNOWN);
    if (t->unk == t->bos || t->unk == t->eos || t->unk == in->eot)
        t->unk = -1;
    if (in->add_eos == LANE_YES)
        return status_say(s->note, STATUS_UNSUPPORTED,
                          "%s: tokenizer.ggml.add_eos_token is not supported", s->name);
    if (in->add_bos != LANE_UNSAID)
        t->adds_bos = in->add_bos == LANE_YES;
    if (t->adds_bos && t->bos < 0 && in->add_bos == LANE_YES)
        return status_say(s->note, STATUS_BAD_FILE,
                          "%s: tokenizer.ggml.add_bos_token is set, but there is no bos_token_id",
                          s->name);
    t->adds_bos = t->adds_bos && t->bos >= 0;
    return STATUS_OK;
}

static enum status check(const struct tables *s) {
    const struct lane_tables *in = s->in;
    const struct {
        const char *key;
        int64_t id;
    } roles[] = {{"bos", in->bos}, {"eos", in->eos}, {"eot", in->eot}, {"unknown", in->unk}};
    if (in->n_tokens == 0 || in->n_tokens > TEXT_VOCAB_MAX)
        return status_say(s->note, STATUS_BAD_FILE,
                          "%s: tokenizer.ggml.tokens has %u tokens, not 1 to %d", s->name,
                          in->n_tokens, TEXT_VOCAB_MAX);
    if (in->n_merges > TEXT_MERGES_MAX)
        return status_say(s->note, STATUS_BAD_FILE,
                          "%s: tokenizer.ggml.merges has %u merges, more than %d", s->name,
                          in->n_merges, TEXT_MERGES_MAX);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id >= (int64_t)in->n_tokens)
            return status_say(s->note, STATUS_BAD_FILE,
                              "%s: tokenizer.ggml.%s_token_id is %lld of %u tokens", s->name,
                              roles[i].key, (long long)roles[i].id, in->n_tokens);
    return STATUS_OK;
}

static enum status load_template(struct tables *s) {
    struct lane_text_slice text = s->in->chat_template;
    if (text.bytes == NULL || text.n == 0)
        return STATUS_OK;
    if (memchr(text.bytes, '\0', text.n) != NULL)
        return status_say(s->note, STATUS_BAD_FILE, "%s: a zero byte in tokenizer.chat_template",
                          s->name);
    s->t->template_text = malloc(text.n + 1);
    if (s->t->template_text == NULL)
        return status_say(s->note, STATUS_NO_MEMORY, "%s: no memory for the chat template",
                          s->name);
    memcpy(s->t->template_text, text.bytes, text.n);
    s->t->template_text[text.n] = '\0';
    lane_text_template_open(s->t);
    return STATUS_OK;
}

static enum status load(struct tables *s) {
    struct lane_text_slice model = s->in->model;
    TRY(check(s));
    if (slice_is(model, "gpt2"))
        TRY(load_gpt2(s));
    else if (slice_is(model, "llama"))
        TRY(load_llama(s));
    else
        return status_say(s->note, STATUS_UNSUPPORTED,
                          "%s: the tokenizer model \"%.*s\" is not supported, only gpt2 and llama",
                          s->name, shown(model), model.bytes == NULL ? "" : model.bytes);
    TRY(load_roles(s));
    TRY(lane_text_index(s->t, s->name, s->note));
    return load_template(s);
}

enum status lane_tokenizer_from_tables(const char *name, const struct lane_tables *tables,
                                       struct lane_tokenizer **out, struct status_note *note) {
    struct tables s = {.in = tables, .name = name, .note = note};
    *out = NULL;
    s.t = calloc(1, sizeof *s.t);
    if (s.t == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for a tokenizer", name);
    s.t->bos = s.t->eos = s.t->unk = -1;
    enum status status = load(&s);
    free(s.slots);
    if (status == STATUS_OK) {
        *out = s.t;
        return STATUS_OK;
    }
    lane_tokenizer_close(s.t);
    lane_text_note_clean(note);
    return status;
}
