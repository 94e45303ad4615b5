/* SPDX-License-Identifier: Apache-2.0
 * The shipped tokenizer against its published vectors: every id and every byte.
 */
#include "tests/text/support.h"

START_TEST(encodes_every_vector) {
    struct lane_tokenizer *t = text_fable();
    json_t *vectors = text_json("tests/reference/fable-5m/tokenizer_vectors.json"), *v;
    size_t i, specials = 0;
    ck_assert_uint_eq(json_array_size(vectors), 100);
    json_array_foreach(vectors, i, v) {
        const json_t *text = json_object_get(v, "text");
        const char *s = json_string_value(text);
        size_t n = json_string_length(text), n_back;
        const json_t *special = json_object_get(v, "ids_special");
        struct text_ids plain = text_encode_flags(t, s, n, 0);
        struct text_ids parsed = text_encode_flags(t, s, n, LANE_ENCODE_SPECIAL);
        text_expect_ids(s, json_object_get(v, "ids"), &plain);
        text_expect_ids(s, special != NULL ? special : json_object_get(v, "ids"), &parsed);
        specials += special != NULL;
        char *back = text_decode(t, plain.ids, plain.n, &n_back);
        ck_assert_uint_eq(n, n_back);
        ck_assert_int_eq(memcmp(s, back, n), 0);
        free(back);
        free(plain.ids);
        free(parsed.ids);
    }
    ck_assert_uint_gt(specials, 0);
    json_decref(vectors);
    lane_tokenizer_close(t);
}
END_TEST

START_TEST(decodes_every_vector) {
    struct lane_tokenizer *t = text_fable();
    json_t *vectors = text_json("tests/reference/fable-5m/decode_vectors.json"), *v;
    size_t i;
    ck_assert_uint_eq(json_array_size(vectors), 20);
    json_array_foreach(vectors, i, v) {
        const json_t *ids = json_object_get(v, "ids");
        const char *hex = json_string_value(json_object_get(v, "bytes_hex"));
        uint32_t list[256], n_ids = (uint32_t)json_array_size(ids);
        size_t n;
        ck_assert_uint_le(n_ids, 256);
        for (uint32_t k = 0; k < n_ids; k++)
            list[k] = (uint32_t)json_integer_value(json_array_get(ids, k));
        char *bytes = text_decode(t, list, n_ids, &n);
        ck_assert_uint_eq(strlen(hex), 2 * n);
        for (size_t k = 0; k < n; k++) {
            char two[3];
            snprintf(two, sizeof two, "%02x", (unsigned)(unsigned char)bytes[k]);
            ck_assert_msg(memcmp(two, hex + 2 * k, 2) == 0, "vector %zu, byte %zu", i, k);
        }
        free(bytes);
    }
    json_decref(vectors);
    lane_tokenizer_close(t);
}
END_TEST

START_TEST(encodes_every_prompt) {
    struct lane_tokenizer *t = text_fable();
    json_t *prompts = text_json("tests/reference/fable-5m/prompts.json"), *p;
    size_t i;
    ck_assert_uint_eq(json_array_size(prompts), 12);
    json_array_foreach(prompts, i, p) {
        const json_t *text = json_object_get(p, "text");
        uint32_t flags =
            (json_is_true(json_object_get(p, "add_bos")) ? LANE_ENCODE_BOS : 0) |
            (json_is_true(json_object_get(p, "parse_special")) ? LANE_ENCODE_SPECIAL : 0);
        struct text_ids got =
            text_encode_flags(t, json_string_value(text), json_string_length(text), flags);
        text_expect_ids(json_string_value(json_object_get(p, "name")), json_object_get(p, "ids"),
                        &got);
        free(got.ids);
    }
    json_decref(prompts);
    lane_tokenizer_close(t);
}
END_TEST

START_TEST(knows_its_tokens) {
    struct lane_tokenizer *t = text_fable();
    uint32_t n;
    ck_assert_uint_eq(lane_tokenizer_vocab(t), 4096);
    ck_assert_int_eq(lane_tokenizer_bos(t), 0);
    ck_assert(lane_tokenizer_adds_bos(t));
    ck_assert_int_eq(lane_tokenizer_id(t, "<|end|>"), 4);
    ck_assert_int_eq(lane_tokenizer_id(t, "the"), -1);
    for (uint32_t id = 0; id < 5; id++)
        ck_assert(lane_tokenizer_is_special(t, id));
    ck_assert(!lane_tokenizer_is_special(t, 5));
    ck_assert(!lane_tokenizer_is_special(t, 4096));
    ck_assert_int_eq(memcmp(lane_tokenizer_bytes(t, 4, &n), "<|end|>", 7), 0);
    ck_assert_uint_eq(n, 7);
    lane_tokenizer_bytes(t, 4096, &n);
    ck_assert_uint_eq(n, 0);
    lane_tokenizer_close(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text reference");
    TCase *tests = tcase_create("fable-5m");
    tcase_add_test(tests, encodes_every_vector);
    tcase_add_test(tests, decodes_every_vector);
    tcase_add_test(tests, encodes_every_prompt);
    tcase_add_test(tests, knows_its_tokens);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
