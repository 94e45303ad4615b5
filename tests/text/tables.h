/* SPDX-License-Identifier: Apache-2.0
 * Tables for tests, with every array of exactly its size, so that a sanitizer sees one too many.
 */
#ifndef TESTS_TEXT_TABLES_H
#define TESTS_TEXT_TABLES_H

#include "lanes/text/tables.h"
#include "tests/text/support.h"

struct text_tables {
    struct lane_tables in;
    struct lane_text_slice *tokens, *merges;
    int32_t *types;
    float *scores;
};

static inline struct lane_text_slice text_slice(const char *text) {
    return (struct lane_text_slice){text, strlen(text)};
}

/* An array of strings as slices of them; NULL without elements. */
static inline struct lane_text_slice *text_slices(const json_t *list) {
    size_t n = json_array_size(list);
    struct lane_text_slice *out = n == 0 ? NULL : malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        out[i] = (struct lane_text_slice){json_string_value(one), json_string_length(one)};
    }
    return out;
}

/* tokens, types, scores, merges; a llama vocabulary unless there are merges. Points into one. */
static inline struct text_tables text_tables_json(const json_t *one) {
    const json_t *types = json_object_get(one, "types"), *scores = json_object_get(one, "scores");
    const json_t *tokens = json_object_get(one, "tokens"), *merges = json_object_get(one, "merges");
    size_t n = json_array_size(tokens);
    struct text_tables x = {.tokens = text_slices(tokens), .merges = text_slices(merges)};
    x.in = (struct lane_tables){.tokens = x.tokens, .n_tokens = (uint32_t)n};
    x.in.merges = x.merges;
    x.in.n_merges = (uint32_t)json_array_size(merges);
    x.in.model = text_slice(x.in.n_merges != 0 ? "gpt2" : "llama");
    x.in.bos = x.in.eos = x.in.eot = x.in.unk = -1;
    if (types != NULL) {
        ck_assert_uint_eq(json_array_size(types), n);
        x.types = malloc(n * sizeof *x.types);
        for (size_t i = 0; i < n; i++)
            x.types[i] = (int32_t)json_integer_value(json_array_get(types, i));
    }
    if (scores != NULL) {
        ck_assert_uint_eq(json_array_size(scores), n);
        x.scores = malloc(n * sizeof *x.scores);
        for (size_t i = 0; i < n; i++)
            x.scores[i] = (float)json_number_value(json_array_get(scores, i));
    }
    x.in.types = x.types;
    x.in.scores = x.scores;
    return x;
}

static inline void text_tables_free(struct text_tables *x) {
    free(x->tokens);
    free(x->merges);
    free(x->types);
    free(x->scores);
}

static inline struct lane_tokenizer *text_tables_open(const struct text_tables *x) {
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    enum status status = lane_tokenizer_from_tables("tables", &x->in, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    return t;
}

#endif
