/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary of a published model, SmolLM2-135M-Instruct, from its GGUF file, against what the
 * package tokenizers answered for the same tables (make_character_vectors.py). Without the file (in
 * build-models, or where ROUNDHOUSE_SMOLLM2 says) this is skipped.
 */
#include "tests/text/tables.h"

/* ---- the metadata of a GGUF file, as far as this needs it ---- */

struct gguf {
    char *bytes;
    size_t n, at;
};

static const char *take(struct gguf *g, size_t n) {
    ck_assert_uint_le(n, g->n - g->at);
    const char *bytes = g->bytes + g->at;
    g->at += n;
    return bytes;
}

static uint64_t take_number(struct gguf *g, size_t n) {
    uint64_t value = 0;
    memcpy(&value, take(g, n), n); /* little-endian, as is every machine that runs this */
    return value;
}

static struct lane_text_slice take_text(struct gguf *g) {
    size_t n = take_number(g, 8);
    return (struct lane_text_slice){take(g, n), n};
}

enum { TYPE_BOOL = 7, TYPE_TEXT = 8, TYPE_LIST = 9 };

static void skip_value(struct gguf *g, uint64_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    ck_assert_uint_lt(type, sizeof bytes);
    if (type == TYPE_TEXT) {
        take_text(g);
    } else if (type == TYPE_LIST) {
        uint64_t element = take_number(g, 4), n = take_number(g, 8);
        for (uint64_t i = 0; i < n; i++)
            skip_value(g, element);
    } else {
        take(g, bytes[type]);
    }
}

static struct lane_text_slice *take_texts(struct gguf *g, uint32_t *n) {
    ck_assert_uint_eq(take_number(g, 4), TYPE_TEXT);
    *n = (uint32_t)take_number(g, 8);
    struct lane_text_slice *out = malloc(*n * sizeof *out);
    for (uint32_t i = 0; i < *n; i++)
        out[i] = take_text(g);
    return out;
}

static bool is_key(struct lane_text_slice key, const char *name) {
    return key.n == strlen(name) && memcmp(key.bytes, name, key.n) == 0;
}

static void take_key(struct gguf *g, struct text_tables *x) {
    struct lane_text_slice key = take_text(g);
    uint64_t type = take_number(g, 4);
    if (is_key(key, "tokenizer.ggml.model")) {
        x->in.model = take_text(g);
    } else if (is_key(key, "tokenizer.ggml.pre")) {
        x->in.pre = take_text(g);
    } else if (is_key(key, "tokenizer.chat_template")) {
        x->in.chat_template = take_text(g);
    } else if (is_key(key, "tokenizer.ggml.tokens")) {
        x->in.tokens = x->tokens = take_texts(g, &x->in.n_tokens);
    } else if (is_key(key, "tokenizer.ggml.merges")) {
        x->in.merges = x->merges = take_texts(g, &x->in.n_merges);
    } else if (is_key(key, "tokenizer.ggml.token_type")) {
        ck_assert_uint_eq(take_number(g, 4), 5);
        size_t n = take_number(g, 8);
        x->in.types = x->types = malloc(n * sizeof *x->types);
        memcpy(x->types, take(g, n * sizeof *x->types), n * sizeof *x->types);
    } else if (is_key(key, "tokenizer.ggml.bos_token_id")) {
        x->in.bos = (int64_t)take_number(g, 4);
    } else if (is_key(key, "tokenizer.ggml.eos_token_id")) {
        x->in.eos = (int64_t)take_number(g, 4);
    } else if (is_key(key, "tokenizer.ggml.unknown_token_id")) {
        x->in.unk = (int64_t)take_number(g, 4);
    } else if (is_key(key, "tokenizer.ggml.add_bos_token")) {
        x->in.add_bos = take_number(g, 1) != 0 ? LANE_YES : LANE_NO;
    } else {
        skip_value(g, type);
    }
}

/* The first `most` bytes of the file: all of its metadata. */
static bool read_gguf(const char *path, struct gguf *g) {
    enum { MOST = 8 << 20 };
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    g->bytes = malloc(MOST);
    g->n = fread(g->bytes, 1, MOST, f);
    g->at = 0;
    fclose(f);
    return true;
}

START_TEST(smollm2) {
    struct gguf g;
    const char *given = getenv("ROUNDHOUSE_SMOLLM2");
    if (given == NULL)
        given = text_path("build-models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if (!read_gguf(given, &g))
        TEST_SKIP("no SmolLM2-135M-Instruct.Q4_1.gguf here; tests/fetch_smollm2 fetches it");
    struct text_tables x = {.in = {.bos = -1, .eos = -1, .eot = -1, .unk = -1}};
    ck_assert_mem_eq(take(&g, 4), "GGUF", 4);
    take(&g, 4 + 8);
    for (uint64_t n = take_number(&g, 8); n > 0; n--)
        take_key(&g, &x);
    ck_assert_uint_eq(x.in.n_tokens, 49152);
    struct lane_tokenizer *t = text_tables_open(&x);
    text_tables_free(&x);
    free(g.bytes);
    bool unknown;
    ck_assert_str_eq(lane_template_name(t, &unknown), "chatml");
    ck_assert_int_eq(lane_tokenizer_bos(t), 1);
    ck_assert(!lane_tokenizer_adds_bos(t));

    json_t *root = text_json("tests/text/tables.json"), *row;
    const json_t *published = json_object_get(root, "smollm2");
    size_t i;
    ck_assert_uint_gt(json_array_size(json_object_get(published, "ids")), 60);
    json_array_foreach(json_object_get(published, "ids"), i, row) {
        const json_t *text = json_array_get(json_object_get(published, "texts"), i);
        for (uint32_t flags = 0; flags <= LANE_ENCODE_SPECIAL; flags++) {
            size_t n;
            struct text_ids got =
                text_encode_flags(t, json_string_value(text), json_string_length(text), flags);
            text_expect_ids(json_string_value(text), json_array_get(row, flags), &got);
            char *back = text_decode(t, got.ids, got.n, &n);
            ck_assert_uint_eq(n, json_string_length(text));
            ck_assert(memcmp(back, json_string_value(text), n) == 0);
            free(back);
            free(got.ids);
        }
    }
    struct text_ids chat = text_encode_chat(t, json_object_get(published, "messages"));
    text_expect_ids("chat", json_object_get(published, "chat"), &chat);
    free(chat.ids);
    json_decref(root);
    lane_tokenizer_close(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text published");
    TCase *tests = tcase_create("published");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, smollm2);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
