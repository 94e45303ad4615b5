/* SPDX-License-Identifier: Apache-2.0
 * Tokenizers of many kinds against what the package tokenizers answered (make_vectors.py), with and
 * without special tokens in the text.
 */
#include "tests/text/support.h"

/* A case names only what differs; vocabulary and merges are shared. */
static struct lane_tokenizer *open_case(const json_t *root, const json_t *one) {
    json_t *tokenizer = json_deep_copy(json_object_get(one, "tokenizer"));
    json_t *model = json_object_get(tokenizer, "model");
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    if (json_object_get(model, "vocab") == NULL)
        json_object_set(model, "vocab", json_object_get(root, "vocab"));
    if (json_object_get(model, "merges") == NULL)
        json_object_set(model, "merges", json_object_get(root, "merges"));
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    enum status status = lane_tokenizer_parse("case", text, strlen(text), NULL, 0, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s: %s", json_string_value(json_object_get(one, "name")),
                  note.text);
    free(text);
    json_decref(tokenizer);
    return t;
}

static uint32_t expect_case(const struct lane_tokenizer *t, const char *name, const json_t *texts,
                            const json_t *rows) {
    json_t *row;
    size_t i;
    uint32_t specials = 0;
    ck_assert_uint_eq(json_array_size(texts), json_array_size(rows));
    json_array_foreach(rows, i, row) {
        const json_t *text = json_array_get(texts, i);
        const json_t *special = json_array_get(row, json_array_size(row) - 1);
        char what[256];
        snprintf(what, sizeof what, "%s, text %zu", name, i);
        for (uint32_t flags = 0; flags <= LANE_ENCODE_SPECIAL; flags++) {
            struct text_ids got =
                text_encode_flags(t, json_string_value(text), json_string_length(text), flags);
            text_expect_ids(what, flags == 0 ? json_array_get(row, 0) : special, &got);
            for (uint32_t k = 0; flags == 0 && k < got.n; k++)
                ck_assert(!lane_tokenizer_is_special(t, got.ids[k]));
            free(got.ids);
        }
        specials += json_array_size(row) == 2;
    }
    return specials;
}

START_TEST(answers_as_published) {
    json_t *root = text_json("tests/text/tokenizers.json"), *one;
    const json_t *texts = json_object_get(root, "texts");
    size_t i;
    ck_assert_uint_ge(json_array_size(json_object_get(root, "cases")), 14);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        struct lane_tokenizer *t = open_case(root, one);
        ck_assert_uint_gt(expect_case(t, name, texts, json_object_get(one, "ids")), 0);
        lane_tokenizer_close(t);
    }
    json_decref(root);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text tokenizers");
    TCase *tests = tcase_create("vectors");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, answers_as_published);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
