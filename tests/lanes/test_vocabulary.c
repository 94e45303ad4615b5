/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of a GGUF file: that of the same model in the other layout, id for id; keys of the
 * wrong type or size by name; a file without one.
 */
#include "lanes/vocabulary.h"

#include "tests/kernels/gguf_make.h"
#include "tests/kernels/scratch_dir.h"
#include "tests/text/support.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, LIST = 9 };

static void put_text(struct gguf_bytes *b, const char *text, size_t n) {
    gguf_put_number(b, n, 8);
    gguf_put(b, text, n);
}

static void key_list(struct gguf_make *m, const char *key, uint32_t element, uint64_t n,
                     const struct gguf_bytes *items) {
    struct gguf_bytes value = {NULL, 0, 0};
    gguf_put_number(&value, element, 4);
    gguf_put_number(&value, n, 8);
    gguf_put(&value, items->at, items->n);
    gguf_key(m, key, LIST, value.at, value.n);
    free(value.at);
}

/* One key of the other kind for the case that asks for it. */
static const char *spoiled;

static bool spoil(struct gguf_make *m, const char *key) {
    if (spoiled == NULL || strcmp(spoiled, key) != 0)
        return false;
    gguf_key_f32(m, key, 1.0f);
    return true;
}

/* The tables of share/fable-5m, as a converter writes them. */
static void fable_keys(struct gguf_make *m, uint64_t types_short) {
    json_t *root = text_json("share/fable-5m/tokenizer.json");
    json_t *config = text_json("share/fable-5m/tokenizer_config.json");
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    json_t *id, *one, *list = json_array();
    struct gguf_bytes tokens = {NULL, 0, 0}, types = {NULL, 0, 0}, merges = {NULL, 0, 0};
    const char *piece;
    size_t i, n;
    for (i = 0; i < json_object_size(vocab); i++)
        json_array_append_new(list, json_null());
    json_object_foreach(vocab, piece, id)
        json_array_set_new(list, (size_t)json_integer_value(id), json_string(piece));
    json_array_foreach(json_object_get(root, "added_tokens"), i, one)
        json_array_set(list, (size_t)json_integer_value(json_object_get(one, "id")),
                       json_object_get(one, "content"));
    n = json_array_size(list);
    json_array_foreach(list, i, one) {
        put_text(&tokens, json_string_value(one), json_string_length(one));
        gguf_put_number(&types, i < json_array_size(json_object_get(root, "added_tokens")) ? 3 : 1,
                        4);
    }
    types.n -= 4 * types_short;
    json_array_foreach(json_object_get(model, "merges"), i, one) {
        char merge[512];
        snprintf(merge, sizeof merge, "%s %s", json_string_value(json_array_get(one, 0)),
                 json_string_value(json_array_get(one, 1)));
        put_text(&merges, merge, strlen(merge));
    }
    if (!spoil(m, "tokenizer.ggml.model"))
        gguf_key_text(m, "tokenizer.ggml.model", "gpt2");
    if (!spoil(m, "tokenizer.ggml.pre"))
        gguf_key_text(m, "tokenizer.ggml.pre", "llama-bpe");
    if (!spoil(m, "tokenizer.ggml.tokens"))
        key_list(m, "tokenizer.ggml.tokens", TEXT, n, &tokens);
    if (!spoil(m, "tokenizer.ggml.token_type"))
        key_list(m, "tokenizer.ggml.token_type", I32, n - types_short, &types);
    if (!spoil(m, "tokenizer.ggml.merges"))
        key_list(m, "tokenizer.ggml.merges", TEXT,
                 json_array_size(json_object_get(model, "merges")), &merges);
    if (!spoil(m, "tokenizer.ggml.bos_token_id"))
        gguf_key_u32(m, "tokenizer.ggml.bos_token_id", 0);
    gguf_key_u32(m, "tokenizer.ggml.eos_token_id", 1);
    if (!spoil(m, "tokenizer.ggml.add_bos_token"))
        gguf_key(m, "tokenizer.ggml.add_bos_token", BOOL, "\1", 1);
    if (!spoil(m, "tokenizer.chat_template"))
        gguf_key_text(m, "tokenizer.chat_template",
                      json_string_value(json_object_get(config, "chat_template")));
    spoil(m, "tokenizer.ggml.scores");
    free(tokens.at);
    free(types.at);
    free(merges.at);
    json_decref(list);
    json_decref(root);
    json_decref(config);
}

static enum status open_made(struct gguf_make *m, const char *dir, struct lane_tokenizer **t,
                             struct status_note *note) {
    char path[512];
    size_t n;
    unsigned char *bytes = gguf_end(m, &n);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
    free(bytes);
    enum status status = lane_vocabulary_open(path, t, note);
    ck_assert((status == STATUS_OK) == (*t != NULL));
    return status;
}

START_TEST(same_as_in_a_directory) {
    static struct gguf_make m;
    char dir[64];
    struct lane_tokenizer *t = NULL, *fable = text_fable();
    struct status_note note = {""};
    bool unknown;
    scratch_make(dir);
    gguf_begin(&m, 3, 32);
    fable_keys(&m, 0);
    enum status status = open_made(&m, dir, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    ck_assert_uint_eq(lane_tokenizer_vocab(t), lane_tokenizer_vocab(fable));
    ck_assert_int_eq(lane_tokenizer_bos(t), lane_tokenizer_bos(fable));
    ck_assert(lane_tokenizer_adds_bos(t));
    ck_assert_str_eq(lane_template_name(t, &unknown), "fable");
    json_t *root = text_json("tests/text/tokenizers.json"), *text;
    size_t i;
    json_array_foreach(json_object_get(root, "texts"), i, text) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            const char *bytes = json_string_value(text);
            struct text_ids a = text_encode_flags(t, bytes, json_string_length(text), flags);
            struct text_ids b = text_encode_flags(fable, bytes, json_string_length(text), flags);
            ck_assert_uint_eq(a.n, b.n);
            for (uint32_t k = 0; k < a.n; k++)
                ck_assert_uint_eq(a.ids[k], b.ids[k]);
            free(a.ids);
            free(b.ids);
        }
    }
    for (uint32_t id = 0; id < lane_tokenizer_vocab(t); id++) {
        uint32_t n_a, n_b;
        const char *a = lane_tokenizer_bytes(t, id, &n_a),
                   *b = lane_tokenizer_bytes(fable, id, &n_b);
        ck_assert(n_a == n_b && memcmp(a, b, n_a) == 0);
        ck_assert(lane_tokenizer_is_special(t, id) == lane_tokenizer_is_special(fable, id));
    }
    json_decref(root);
    lane_tokenizer_close(t);
    /* The folder with the one file means that file. */
    status = lane_vocabulary_open(dir, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    lane_tokenizer_close(t);
    lane_tokenizer_close(fable);
    scratch_remove(dir);
}
END_TEST

START_TEST(wrong_keys_are_named) {
    static const char *const keys[] = {
        "tokenizer.ggml.model",        "tokenizer.ggml.pre",           "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",   "tokenizer.ggml.merges",        "tokenizer.ggml.scores",
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.chat_template"};
    char dir[64];
    scratch_make(dir);
    for (size_t i = 0; i <= sizeof keys / sizeof *keys; i++) {
        static struct gguf_make m;
        struct lane_tokenizer *t = NULL;
        struct status_note note = {""};
        bool all_types = i < sizeof keys / sizeof *keys;
        gguf_begin(&m, 3, 32);
        spoiled = all_types ? keys[i] : NULL;
        fable_keys(&m, all_types ? 0 : 1);
        const char *named = all_types ? keys[i] : "tokenizer.ggml.token_type";
        ck_assert_int_eq(open_made(&m, dir, &t, &note), STATUS_BAD_FILE);
        ck_assert_msg(strstr(note.text, named) != NULL, "%s is not in: %s", named, note.text);
        ck_assert_msg(strstr(note.text, "model.gguf") != NULL, "no file in: %s", note.text);
    }
    spoiled = NULL;
    scratch_remove(dir);
}
END_TEST

START_TEST(a_model_without_one) {
    static struct gguf_make m;
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    char dir[64];
    scratch_make(dir);
    gguf_begin(&m, 3, 32);
    gguf_key_text(&m, "general.architecture", "llama");
    ck_assert_int_eq(open_made(&m, dir, &t, &note), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(note.text, "no tokenizer"));
    scratch_remove(dir);
    ck_assert_int_eq(lane_vocabulary_open(dir, &t, &note), STATUS_NOT_FOUND);
    ck_assert_int_eq(lane_vocabulary_open(text_path("share/fable-5m"), &t, &note), STATUS_OK);
    lane_tokenizer_close(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vocabulary");
    TCase *tests = tcase_create("gguf");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, same_as_in_a_directory);
    tcase_add_test(tests, wrong_keys_are_named);
    tcase_add_test(tests, a_model_without_one);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
