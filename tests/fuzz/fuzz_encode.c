/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: a byte that picks a tokenizer of tests/text/tokenizers.json or characters.json, a
 * byte of flags, and any text. Ids are of the vocabulary, no special token but the unknown one
 * comes from text that may not have one, a limit holds, and where nothing is dropped or normalized
 * the ids give the text back; streamed in tokens, the same bytes are shown.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "lanes/text/stream.h"
#include "lanes/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENIZERS_MAX = 64 };

static struct {
    struct lane_tokenizer *t;
    bool exact; /* nothing is dropped, added or normalized */
} tokenizers[TOKENIZERS_MAX];
static uint32_t n_tokenizers;

static void open_one(const json_t *root, const json_t *one) {
    static const char *const exact[] = {"gpt2",   "digits",   "llama3",
                                        "cl100k", "deepseek", "scripts"};
    json_t *tokenizer = json_deep_copy(json_object_get(one, "tokenizer"));
    json_t *model = json_object_get(tokenizer, "model");
    static const char *const keys[] = {"vocab", "merges"};
    for (size_t i = 0; i < 2; i++) {
        json_t *own = json_object_get(model, keys[i]);
        if (own == NULL) /* that of all, or one of a list of them */
            json_object_set(model, keys[i], json_object_get(root, keys[i]));
        else if (json_is_integer(own))
            json_object_set(
                model, keys[i],
                json_array_get(json_object_get(root, "shared"), (size_t)json_integer_value(own)));
    }
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    CHECK(n_tokenizers < TOKENIZERS_MAX);
    CHECK(lane_tokenizer_parse("t", text, strlen(text), NULL, 0, &tokenizers[n_tokenizers].t,
                               NULL) == STATUS_OK);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (strcmp(json_string_value(json_object_get(one, "name")), exact[i]) == 0)
            tokenizers[n_tokenizers].exact = true;
    n_tokenizers++;
    free(text);
    json_decref(tokenizer);
}

static void open_all(const char *file) {
    const char *dir = getenv("RH_SRCDIR");
    char path[4096];
    json_t *one;
    size_t i;
    snprintf(path, sizeof path, "%s/tests/text/%s", dir != NULL ? dir : ".", file);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL);
    CHECK(root != NULL);
    json_array_foreach(json_object_get(root, "cases"), i, one) open_one(root, one);
    json_decref(root);
}

/* The ids' bytes through a stream without stops must be the text. */
static void check_back(const struct lane_tokenizer *t, const uint32_t *ids, uint32_t n,
                       const char *text, size_t bytes) {
    struct lane_stream stream;
    size_t at = 0;
    int stop;
    lane_stream_init(&stream);
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t n_token = 0;
        const char *token = i < n ? lane_tokenizer_bytes(t, ids[i], &n_token) : "";
        size_t may =
            i < n ? lane_stream_push(&stream, token, n_token, &stop) : lane_stream_finish(&stream);
        CHECK(may <= bytes - at);
        CHECK(memcmp(stream.hold, text + at, may) == 0);
        lane_stream_take(&stream, may);
        at += may;
    }
    CHECK(at == bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (n_tokenizers == 0) {
        open_all("tokenizers.json");
        open_all("characters.json");
    }
    if (size < 2)
        return 0;
    const struct lane_tokenizer *t = tokenizers[data[0] % n_tokenizers].t;
    const char *text = (const char *)data + 2;
    uint32_t flags = data[1] & LANE_ENCODE_SPECIAL, *ids = NULL, n = 0, capacity = 0;
    struct status_note note = {""};
    enum status s = lane_tokenizer_encode(t, text, size - 2, flags, 0, &ids, &n, &capacity, &note);
    CHECK(s == STATUS_OK || note.text[0] != '\0');
    for (uint32_t i = 0; i < n; i++) {
        CHECK(ids[i] < lane_tokenizer_vocab(t));
        CHECK(flags != 0 || !lane_tokenizer_is_special(t, ids[i]) ||
              ids[i] == lane_tokenizer_id(t, "<unk>"));
    }
    if (tokenizers[data[0] % n_tokenizers].exact) {
        CHECK(s == STATUS_OK);
        check_back(t, ids, n, text, size - 2);
    }
    if (s == STATUS_OK && n > 1) {
        uint32_t full = n;
        n = 0;
        CHECK(lane_tokenizer_encode(t, text, size - 2, flags, full - 1, &ids, &n, &capacity,
                                    &note) == STATUS_TOO_LARGE);
        CHECK(n == 0);
        CHECK(lane_tokenizer_encode(t, text, size - 2, flags, full, &ids, &n, &capacity, &note) ==
              STATUS_OK);
        CHECK(n == full);
    }
    free(ids);
    return 0;
}
