/* SPDX-License-Identifier: Apache-2.0
 * Vocabularies on characters, against what the packages tokenizers and sentencepiece answered
 * (make_character_vectors.py): from tokenizer.json, and from tables as GGUF has them.
 */
#include "tests/text/tables.h"

static struct lane_tokenizer *open_case(const json_t *root, const json_t *one) {
    json_t *tokenizer = json_deep_copy(json_object_get(one, "tokenizer"));
    json_t *model = json_object_get(tokenizer, "model");
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    const char *const keys[] = {"vocab", "merges"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *shared = json_object_get(model, keys[i]);
        if (shared != NULL)
            json_object_set(model, keys[i],
                            json_array_get(json_object_get(root, "shared"),
                                           (size_t)json_integer_value(shared)));
    }
    char *text = json_dumps(tokenizer, JSON_COMPACT);
    enum status status = lane_tokenizer_parse("case", text, strlen(text), NULL, 0, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s: %s", json_string_value(json_object_get(one, "name")),
                  note.text);
    free(text);
    json_decref(tokenizer);
    return t;
}

/* Whether the bytes of the ids are the text's, but for spaces put before it. */
static bool spells(const struct lane_tokenizer *t, const struct text_ids *ids, const json_t *text) {
    size_t n, n_text = json_string_length(text);
    char *bytes = text_decode(t, ids->ids, ids->n, &n);
    bool same = n >= n_text && memcmp(bytes + n - n_text, json_string_value(text), n_text) == 0;
    for (size_t i = 0; same && i < n - n_text; i++)
        same = bytes[i] == ' ';
    free(bytes);
    return same;
}

START_TEST(answers_as_published) {
    json_t *root = text_json("tests/text/characters.json"), *one, *row;
    const json_t *texts = json_object_get(root, "texts");
    size_t i, k, specials = 0, spelled = 0;
    ck_assert_uint_ge(json_array_size(json_object_get(root, "cases")), 17);
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        struct lane_tokenizer *t = open_case(root, one);
        const json_t *rows = json_object_get(one, "ids");
        ck_assert_uint_eq(json_array_size(rows), json_array_size(texts));
        json_array_foreach(rows, k, row) {
            const json_t *text = json_array_get(texts, k);
            char what[256];
            snprintf(what, sizeof what, "%s, text %zu", name, k);
            for (uint32_t flags = 0; flags <= LANE_ENCODE_SPECIAL; flags++) {
                struct text_ids got =
                    text_encode_flags(t, json_string_value(text), json_string_length(text), flags);
                text_expect_ids(
                    what, json_array_get(row, flags == 0 ? 0 : json_array_size(row) - 1), &got);
                spelled += flags == 0 && spells(t, &got, text);
                free(got.ids);
            }
            specials += json_array_size(row) == 2;
        }
        lane_tokenizer_close(t);
    }
    ck_assert_uint_gt(specials, 100);
    ck_assert_uint_gt(spelled, 500);
    json_decref(root);
}
END_TEST

START_TEST(scores_as_published) {
    json_t *root = text_json("tests/text/characters.json"), *one, *row;
    size_t i, k;
    ck_assert_uint_ge(json_array_size(json_object_get(root, "tables")), 4);
    json_array_foreach(json_object_get(root, "tables"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        struct text_tables tables = text_tables_json(one);
        tables.in.add_space_prefix =
            json_is_true(json_object_get(one, "prefix")) ? LANE_YES : LANE_NO;
        struct lane_tokenizer *t = text_tables_open(&tables);
        ck_assert_int_eq(lane_tokenizer_bos(t), 1);
        ck_assert(lane_tokenizer_adds_bos(t));
        json_array_foreach(json_object_get(one, "ids"), k, row) {
            json_int_t index = json_integer_value(json_array_get(json_object_get(one, "texts"), k));
            const json_t *text = json_array_get(json_object_get(root, "texts"), (size_t)index);
            char what[256];
            snprintf(what, sizeof what, "%s, text %lld", name, (long long)index);
            struct text_ids got =
                text_encode_flags(t, json_string_value(text), json_string_length(text), 0);
            text_expect_ids(what, row, &got);
            free(got.ids);
        }
        lane_tokenizer_close(t);
        text_tables_free(&tables);
    }
    json_decref(root);
}
END_TEST

/* ---- refusals ---- */

#define MARK    "\\u2581"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define BACK    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"}"
#define BPE                                                                                        \
    "{\"type\":\"BPE\",\"vocab\":{\"" MARK "\":0,\"a\":1,\"" MARK "a\":2},\"merges\":[\"" MARK     \
    " a\"]"
#define UNIGRAM    "{\"type\":\"Unigram\",\"unk_id\":null,\"vocab\":[[\"" MARK "\",-1],[\"a\",-2"
#define META(more) "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"" more "}"

enum part { NORMALIZER, PRETOKENIZER, DECODER, ADDED, MODEL, PARTS };

static const struct {
    enum part part;
    const char *text;
    enum status status;
    const char *named;
} cases[] = {
    {MODEL, BPE "}", STATUS_OK, ""},
    {MODEL, UNIGRAM "]]}", STATUS_OK, ""},
    {NORMALIZER, "{\"type\":\"Sequence\",\"normalizers\":[" REPLACE ",{\"type\":\"NFKC\"}]}",
     STATUS_UNSUPPORTED, "NFKC"},
    {NORMALIZER, "{\"type\":\"Precompiled\"}", STATUS_UNSUPPORTED, "Precompiled"},
    {NORMALIZER, "{\"type\":\"Prepend\",\"prepend\":\"_\"}", STATUS_UNSUPPORTED, "Prepend"},
    {NORMALIZER, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}",
     STATUS_UNSUPPORTED, "Replace"},
    {NORMALIZER, "null", STATUS_UNSUPPORTED, "neither byte-level nor has U+2581"},
    {PRETOKENIZER, "{\"type\":\"Digits\"}", STATUS_UNSUPPORTED, "Digits"},
    {PRETOKENIZER, META(""), STATUS_UNSUPPORTED, "Metaspace"},
    {DECODER, "{\"type\":\"Sequence\",\"decoders\":[" BACK ",{\"type\":\"CTC\"}]}",
     STATUS_UNSUPPORTED, "CTC"},
    {ADDED, "{\"id\":1,\"content\":\"a\",\"special\":true}", STATUS_UNSUPPORTED, "special token 1"},
    {ADDED, "{\"id\":2,\"content\":\"b\"}", STATUS_BAD_FILE, "given twice"},
    {MODEL,
     "{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"<0x01>\":0,\"" MARK
     "\":1},\"merges\":[]}",
     STATUS_UNSUPPORTED, "<0x00> is missing"},
    {MODEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[]}", STATUS_UNSUPPORTED, "U+2581"},
    {MODEL,
     "{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"<0x00>\":0,\"" MARK
     "\":1},\"merges\":[]}",
     STATUS_UNSUPPORTED, "ByteFallback"},
    {MODEL, "{\"type\":\"Unigram\",\"vocab\":{}}", STATUS_BAD_FILE, "model.vocab"},
    {MODEL, "{\"type\":\"Unigram\",\"vocab\":[]}", STATUS_BAD_FILE, "model.vocab"},
    {MODEL, UNIGRAM "],[\"a\",-3]]}", STATUS_BAD_FILE, "token 2"},
    {MODEL, UNIGRAM ",1],[7,-3]]}", STATUS_BAD_FILE, "token 2"},
    {MODEL, UNIGRAM "],[\"b\"]]}", STATUS_BAD_FILE, "token 2"},
    {MODEL, "{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"" MARK "\",0]]}", STATUS_BAD_FILE,
     "unk_id"},
    {MODEL, "{\"type\":\"WordPiece\"}", STATUS_UNSUPPORTED, "WordPiece"}};

START_TEST(each_is_named) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *p[PARTS] = {REPLACE, "null", BACK, "", BPE "}"};
        struct lane_tokenizer *t;
        struct status_note note = {""};
        char json[2048];
        p[cases[i].part] = cases[i].text;
        int n = snprintf(json, sizeof json,
                         "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,"
                         "\"added_tokens\":[%s],\"model\":%s}",
                         p[0], p[1], p[2], p[3], p[4]);
        enum status s = lane_tokenizer_parse("file", json, (size_t)n, NULL, 0, &t, &note);
        ck_assert((s == STATUS_OK) == (t != NULL));
        ck_assert_msg(s == cases[i].status && strstr(note.text, cases[i].named) != NULL,
                      "%s: %s: %s", cases[i].text, status_name(s), note.text);
        lane_tokenizer_close(t);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text characters");
    TCase *tests = tcase_create("vectors");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, answers_as_published);
    tcase_add_test(tests, scores_as_published);
    tcase_add_test(tests, each_is_named);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
