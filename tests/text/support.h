/* SPDX-License-Identifier: Apache-2.0
 * What the text tests share: the shipped tokenizer, files as bytes, encoding to a fresh list.
 */
#ifndef TESTS_TEXT_SUPPORT_H
#define TESTS_TEXT_SUPPORT_H

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "lanes/text/tokenizer.h"
#include "tests/harness.h"

struct text_ids {
    uint32_t *ids, n, capacity;
};

static inline const char *text_path(const char *relative) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", test_srcdir(), relative);
    return path;
}

static inline struct lane_tokenizer *text_fable(void) {
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    enum status status = lane_tokenizer_open(text_path("share/fable-5m"), &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    return t;
}

static inline json_t *text_json(const char *relative) {
    json_error_t error;
    json_t *root = json_load_file(text_path(relative), JSON_ALLOW_NUL, &error);
    ck_assert_msg(root != NULL, "%s: %s", relative, error.text);
    return root;
}

static inline struct text_ids text_encode_flags(const struct lane_tokenizer *t, const char *text,
                                                size_t n, uint32_t flags) {
    struct text_ids out = {NULL, 0, 0};
    struct status_note note = {""};
    enum status status =
        lane_tokenizer_encode(t, text, n, flags, 0, &out.ids, &out.n, &out.capacity, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    return out;
}

/* The bytes of ids, malloc'd and ended by a NUL. */
static inline char *text_decode(const struct lane_tokenizer *t, const uint32_t *ids, uint32_t n_ids,
                                size_t *n) {
    char *out = malloc((size_t)n_ids * lane_tokenizer_bytes_max(t) + 1);
    *n = 0;
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t bytes;
        const char *token = lane_tokenizer_bytes(t, ids[i], &bytes);
        memcpy(out + *n, token, bytes);
        *n += bytes;
    }
    out[*n] = '\0';
    return out;
}

static inline void text_expect_ids(const char *what, const json_t *expected,
                                   const struct text_ids *got) {
    size_t n = json_array_size(expected);
    ck_assert_msg(n == got->n, "%s: %u ids, not %zu", what, got->n, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(json_integer_value(json_array_get(expected, i)) == got->ids[i],
                      "%s: id %zu is %u, not %lld", what, i, got->ids[i],
                      (long long)json_integer_value(json_array_get(expected, i)));
}

/* A conversation of {role, content}, with the reply opened. */
static inline struct text_ids text_encode_chat(const struct lane_tokenizer *t,
                                               const json_t *messages) {
    struct lane_message list[8];
    struct text_ids ids = {NULL, 0, 0};
    struct status_note note = {""};
    size_t n = json_array_size(messages);
    ck_assert_uint_le(n, 8);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, i);
        const json_t *content = json_object_get(m, "content");
        list[i] = (struct lane_message){json_string_value(json_object_get(m, "role")),
                                        json_string_value(content), json_string_length(content)};
    }
    enum status status = lane_template_encode(t, list, (uint32_t)n, NULL, true, 0, &ids.ids, &ids.n,
                                              &ids.capacity, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    return ids;
}

#endif
