/* SPDX-License-Identifier: Apache-2.0
 * Everything in tokenizer.json around the model: normalizer, pre-tokenizers, post-processor,
 * decoder. Each becomes a stage with the published meaning or is refused by its name; nothing is
 * skipped in silence.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/text/load.h"

struct pipeline {
    struct lane_tokenizer *t;
    const char *name;
    struct status_note *note;
    bool marks;      /* spaces are U+2581 for the model */
    bool byte_level; /* the stage that maps to bytes was seen; nothing may follow it */
};

/* How GPT-2 cut text; what ByteLevel does unless told otherwise. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const char *type_of(const json_t *object) {
    const json_t *type = json_object_get(object, "type");
    return json_is_string(type) ? json_string_value(type) : "without a type";
}

static bool absent(const json_t *value) {
    return value == NULL || json_is_null(value);
}

static bool is_type(const json_t *object, const char *type) {
    return strcmp(type_of(object), type) == 0;
}

/* An option that is true unless the file says false. */
static bool unless_false(const json_t *object, const char *key) {
    return !json_is_false(json_object_get(object, key));
}

static enum status refused(const struct pipeline *p, const char *part, const json_t *object) {
    return status_say(p->note, STATUS_UNSUPPORTED, "%s: the %s %.40s is not supported", p->name,
                      part, type_of(object));
}

/* The parts of a Sequence, or the object alone. NULL past the last. */
static const json_t *part(const json_t *object, const char *key, size_t i) {
    if (!is_type(object, "Sequence"))
        return i == 0 ? object : NULL;
    return json_array_get(json_object_get(object, key), i);
}

/* Whether object[key] is this text. */
static bool says(const json_t *object, const char *key, const char *text) {
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static const char mark[] = "\xE2\x96\x81";

/* A Replace of the text `from` by `to`. */
static bool replaces(const json_t *one, const char *from, const char *to) {
    return is_type(one, "Replace") && says(json_object_get(one, "pattern"), "String", from) &&
           says(one, "content", to);
}

/* On characters: a space before the text and U+2581 for spaces, in either order. */
static enum status load_normalizer(struct pipeline *p, const json_t *normalizer) {
    bool characters = p->t->kind != TEXT_BYTES;
    const json_t *one;
    if (absent(normalizer))
        return STATUS_OK;
    for (size_t i = 0; (one = part(normalizer, "normalizers", i)) != NULL; i++) {
        if (is_type(one, "NFC") && !p->marks && !p->t->prepends)
            p->t->nfc = true;
        else if (characters && is_type(one, "Prepend") && !p->t->prepends &&
                 (says(one, "prepend", mark) || (!p->marks && says(one, "prepend", " "))))
            p->t->prepends = true;
        else if (characters && replaces(one, " ", mark))
            p->marks = true;
        else
            return refused(p, "normalizer", one);
    }
    return STATUS_OK;
}

/* NULL when there are too many. */
static struct text_stage *stage_add(struct pipeline *p) {
    if (p->t->n_stages < TEXT_STAGES_MAX)
        return &p->t->stages[p->t->n_stages++];
    status_say(p->note, STATUS_TOO_LARGE, "%s: more than %d pre-tokenizers", p->name,
               TEXT_STAGES_MAX);
    return NULL;
}

static enum status load_split(struct pipeline *p, const json_t *split) {
    const json_t *pattern = json_object_get(split, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *behavior = json_object_get(split, "behavior");
    const json_t *text = regex != NULL ? regex : literal;
    const char *how = json_is_string(behavior) ? json_string_value(behavior) : "?";
    if (!json_is_string(text))
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: a Split pre-tokenizer has no pattern Regex or String", p->name);
    if (strcmp(how, "Isolated") != 0 && strcmp(how, "Removed") != 0)
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: the behavior %.40s of a Split pre-tokenizer is not supported",
                          p->name, how);
    struct text_stage *stage = stage_add(p);
    if (stage == NULL)
        return STATUS_TOO_LARGE;
    stage->removed = how[0] == 'R';
    stage->invert = json_is_true(json_object_get(split, "invert"));
    return lane_text_pattern_compile(p->name, json_string_value(text), json_string_length(text),
                                     regex == NULL, &stage->pattern, p->note);
}

static enum status load_byte_level(struct pipeline *p, const json_t *byte_level) {
    struct text_stage *stage = stage_add(p);
    if (stage == NULL)
        return STATUS_TOO_LARGE;
    stage->prefix_space = unless_false(byte_level, "add_prefix_space");
    p->byte_level = true;
    if (!unless_false(byte_level, "use_regex"))
        return STATUS_OK;
    return lane_text_pattern_compile(p->name, gpt2_pattern, sizeof gpt2_pattern - 1, false,
                                     &stage->pattern, p->note);
}

/* Digits stand apart from the rest, each alone or in runs. */
static enum status load_digits(struct pipeline *p, const json_t *digits) {
    bool alone = json_is_true(json_object_get(digits, "individual_digits"));
    struct text_stage *stage = stage_add(p);
    if (stage == NULL)
        return STATUS_TOO_LARGE;
    return lane_text_pattern_compile(p->name, alone ? "\\p{N}" : "\\p{N}+", alone ? 5 : 6, false,
                                     &stage->pattern, p->note);
}

static enum status load_metaspace(struct pipeline *p, const json_t *metaspace) {
    const json_t *scheme = json_object_get(metaspace, "prepend_scheme");
    struct text_stage *stage = stage_add(p);
    if (stage == NULL)
        return STATUS_TOO_LARGE;
    stage->spaces = unless_false(metaspace, "split");
    stage->prefix = TEXT_PREFIX_EACH;
    if (says(metaspace, "prepend_scheme", "first"))
        stage->prefix = TEXT_PREFIX_FIRST;
    else if (says(metaspace, "prepend_scheme", "never") ||
             (scheme == NULL && !unless_false(metaspace, "add_prefix_space")))
        stage->prefix = TEXT_PREFIX_NONE;
    else if (scheme != NULL && !says(metaspace, "prepend_scheme", "always"))
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: the prepend_scheme of Metaspace is not supported", p->name);
    if (p->marks || !says(metaspace, "replacement", mark))
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: Metaspace with other marks than U+2581, or twice, is not supported",
                          p->name);
    p->marks = true;
    return STATUS_OK;
}

/* On characters. A cut at spaces where none are left cuts nothing. */
static enum status load_character_stages(struct pipeline *p, const json_t *pretokenizer) {
    const json_t *one;
    for (size_t i = 0;
         !absent(pretokenizer) && (one = part(pretokenizer, "pretokenizers", i)) != NULL; i++) {
        if (is_type(one, "Metaspace"))
            TRY(load_metaspace(p, one));
        else if (!(p->marks && is_type(one, "Split") &&
                   says(json_object_get(one, "pattern"), "String", " ") &&
                   json_is_false(json_object_get(one, "invert"))))
            return refused(p, "pre-tokenizer", one);
    }
    if (!p->marks)
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: a tokenizer that is neither byte-level nor has U+2581 for spaces is "
                          "not supported",
                          p->name);
    return STATUS_OK;
}

static enum status load_pretokenizers(struct pipeline *p, const json_t *pretokenizer) {
    const json_t *one;
    if (p->t->kind != TEXT_BYTES)
        return load_character_stages(p, pretokenizer);
    if (absent(pretokenizer))
        return status_say(
            p->note, STATUS_UNSUPPORTED,
            "%s: a tokenizer that is not byte-level (no pre_tokenizer) is not supported", p->name);
    for (size_t i = 0; (one = part(pretokenizer, "pretokenizers", i)) != NULL; i++) {
        if (p->byte_level)
            return status_say(p->note, STATUS_UNSUPPORTED,
                              "%s: the pre-tokenizer %.40s after ByteLevel is not supported",
                              p->name, type_of(one));
        if (is_type(one, "Split"))
            TRY(load_split(p, one));
        else if (is_type(one, "Digits"))
            TRY(load_digits(p, one));
        else if (is_type(one, "ByteLevel"))
            TRY(load_byte_level(p, one));
        else
            return refused(p, "pre-tokenizer", one);
    }
    if (!p->byte_level)
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: a tokenizer that is not byte-level (no ByteLevel pre-tokenizer) is "
                          "not supported",
                          p->name);
    return STATUS_OK;
}

/* A template that puts one token before the text makes that token the bos; anything more is
 * refused. */
static enum status load_template(struct pipeline *p, const json_t *template_) {
    const json_t *single = json_object_get(template_, "single");
    size_t n = json_array_size(single);
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    if (n == 0 || n > 2 || json_object_get(json_array_get(single, n - 1), "Sequence") == NULL ||
        (n == 2 && first == NULL))
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: a post_processor that adds more than one token before the text is "
                          "not supported",
                          p->name);
    if (n == 1)
        return STATUS_OK;
    const json_t *token = json_object_get(first, "id");
    const json_t *entry = json_object_get(json_object_get(template_, "special_tokens"),
                                          json_is_string(token) ? json_string_value(token) : "");
    const json_t *ids = json_object_get(entry, "ids"), *id = json_array_get(ids, 0);
    if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= p->t->vocab)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: the post_processor's token before the text is not in the vocabulary",
                          p->name);
    p->t->bos = json_integer_value(id);
    p->t->adds_bos = true;
    return STATUS_OK;
}

static enum status load_post_processor(struct pipeline *p, const json_t *processor) {
    const json_t *one;
    if (absent(processor))
        return STATUS_OK;
    for (size_t i = 0; (one = part(processor, "processors", i)) != NULL; i++) {
        if (is_type(one, "TemplateProcessing"))
            TRY(load_template(p, one));
        else if (!is_type(one, "ByteLevel")) /* ByteLevel here moves offsets only */
            return refused(p, "post_processor", one);
    }
    return STATUS_OK;
}

/* Tokens here have spaces for U+2581 and the bytes of byte tokens: what the parts known here do. A
 * Strip takes the first space of a whole text, which a stream of tokens has no place for. */
static enum status load_character_decoder(struct pipeline *p, const json_t *decoder) {
    bool spaces = false, bytes = p->t->byte_id[0] < 0;
    const json_t *one;
    for (size_t i = 0; !absent(decoder) && (one = part(decoder, "decoders", i)) != NULL; i++) {
        if (replaces(one, mark, " ") ||
            (is_type(one, "Metaspace") && says(one, "replacement", mark)))
            spaces = true;
        else if (is_type(one, "ByteFallback"))
            bytes = true;
        else if (!is_type(one, "Fuse") && !(is_type(one, "Strip") && says(one, "content", " ")))
            return refused(p, "decoder", one);
    }
    if (spaces && bytes)
        return STATUS_OK;
    return status_say(p->note, STATUS_UNSUPPORTED,
                      "%s: a tokenizer without the decoder %s is not "
                      "supported",
                      p->name, spaces ? "ByteFallback" : "Replace or Metaspace");
}

static enum status load_decoder(struct pipeline *p, const json_t *decoder) {
    const json_t *one;
    bool byte_level = false;
    if (p->t->kind != TEXT_BYTES)
        return load_character_decoder(p, decoder);
    for (size_t i = 0; !absent(decoder) && (one = part(decoder, "decoders", i)) != NULL; i++) {
        if (!is_type(one, "ByteLevel") && !is_type(one, "Fuse"))
            return refused(p, "decoder", one);
        byte_level |= is_type(one, "ByteLevel");
    }
    if (!byte_level)
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: a tokenizer without the decoder ByteLevel is not supported",
                          p->name);
    return STATUS_OK;
}

static int64_t role_id(const struct lane_tokenizer *t, const json_t *config, const char *key) {
    const json_t *role = json_object_get(config, key);
    const json_t *content = json_is_object(role) ? json_object_get(role, "content") : role;
    if (!json_is_string(content))
        return -1;
    return lane_text_added_id(t, json_string_value(content), json_string_length(content));
}

/* tokenizer_config.json has the last word on the bos, as in the library that writes these files. */
static enum status load_config(struct pipeline *p, const json_t *config) {
    const json_t *add_bos = json_object_get(config, "add_bos_token");
    int64_t bos = role_id(p->t, config, "bos_token");
    if (bos >= 0)
        p->t->bos = bos;
    p->t->eos = role_id(p->t, config, "eos_token");
    /* Text that a vocabulary cannot spell must not begin or end a reply: there is no unknown token
     * then. */
    if (p->t->unk == p->t->bos || p->t->unk == p->t->eos)
        p->t->unk = -1;
    if (json_is_true(json_object_get(config, "add_eos_token")))
        return status_say(p->note, STATUS_UNSUPPORTED,
                          "%s: add_eos_token in tokenizer_config.json is not supported", p->name);
    if (json_is_boolean(add_bos))
        p->t->adds_bos = json_is_true(add_bos);
    if (p->t->adds_bos && p->t->bos < 0)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: add_bos_token is set, but bos_token is not in the vocabulary",
                          p->name);
    return STATUS_OK;
}

/* For the tokens that must be words of their own. */
static enum status load_word_character(struct lane_tokenizer *t, const char *name,
                                       struct status_note *note) {
    for (uint32_t i = 0; i < t->raw.n; i++) {
        if ((t->raw.items[i].flags & TEXT_SINGLE_WORD) == 0)
            continue;
        static const char word[] = "[\\w\\x{200c}\\x{200d}]"; /* and the joiners */
        return lane_text_pattern_compile(name, word, sizeof word - 1, false, &t->word_character,
                                         note);
    }
    return STATUS_OK;
}

enum status lane_text_load_pipeline(struct lane_tokenizer *t, const char *name, const json_t *root,
                                    const json_t *config, struct status_note *note) {
    struct pipeline p = {.t = t, .name = name, .note = note};
    TRY(load_normalizer(&p, json_object_get(root, "normalizer")));
    TRY(load_pretokenizers(&p, json_object_get(root, "pre_tokenizer")));
    TRY(load_post_processor(&p, json_object_get(root, "post_processor")));
    TRY(load_decoder(&p, json_object_get(root, "decoder")));
    TRY(load_config(&p, config));
    return load_word_character(t, name, note);
}
