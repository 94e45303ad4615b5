/* SPDX-License-Identifier: Apache-2.0
 * Encoding at its edges: any bytes come back, words of any length, limits, many threads on one
 * tokenizer, work in proportion to the text, patterns and texts that ask for too much.
 */
#include <pthread.h>

#include "tests/text/support.h"

/* A tokenizer with all bytes, a few merges and this pre_tokenizer; *note is the refusal when there
 * is one. */
static struct lane_tokenizer *open_small(const char *pretokenizer, struct status_note *note) {
    static const char *const letters = "abcdefghijklmnopqrstuvwxyz";
    json_t *root =
        json_pack("{s:{s:s,s:{},s:[[s,s],[s,s],[s,s]]},s:{s:s}}", "model", "type", "BPE", "vocab",
                  "merges", "a", "a", "aa", "aa", "a", "b", "decoder", "type", "ByteLevel");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_error_t error;
    int id = 0;
    for (unsigned c = 0x21; c < 0x144; c++) {
        char utf8[3] = {(char)c, 0, 0};
        if ((c >= 0x7F && c <= 0xA0) || c == 0xAD)
            continue;
        if (c >= 0x80) {
            utf8[0] = (char)(0xC0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 0x3F));
        }
        json_object_set_new(vocab, utf8, json_integer(id++));
    }
    ck_assert_int_eq(id, 256);
    ck_assert_ptr_nonnull(json_object_get(vocab, letters + 25));
    json_object_set_new(vocab, "aa", json_integer(256));
    json_object_set_new(vocab, "aaaa", json_integer(257));
    json_object_set_new(vocab, "ab", json_integer(258));
    json_object_set_new(root, "pre_tokenizer", json_loads(pretokenizer, 0, &error));
    char *text = json_dumps(root, 0);
    struct lane_tokenizer *t;
    enum status status = lane_tokenizer_parse("small", text, strlen(text), NULL, 0, &t, note);
    ck_assert((status == STATUS_OK) == (t != NULL));
    free(text);
    json_decref(root);
    return t;
}

static void expect_back(const struct lane_tokenizer *t, const char *text, size_t n) {
    struct text_ids got = text_encode_flags(t, text, n, 0);
    size_t n_back;
    char *back = text_decode(t, got.ids, got.n, &n_back);
    ck_assert_uint_eq(n, n_back);
    ck_assert_int_eq(memcmp(text, back, n), 0);
    free(back);
    free(got.ids);
}

START_TEST(any_bytes_come_back) {
    struct lane_tokenizer *t = text_fable();
    uint64_t state = 88172645463325252u;
    char text[512];
    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)(i % (int)sizeof text);
        for (size_t k = 0; k < n; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            /* Mostly letters and UTF-8's own bytes, so that valid and broken characters stand side
             * by side. */
            static const char often[] = "ab \n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
            text[k] =
                (state & 3) == 0 ? (char)(state >> 40) : often[(state >> 32) % (sizeof often - 1)];
        }
        expect_back(t, text, n);
    }
    lane_tokenizer_close(t);
}
END_TEST

/* Invalid bytes are words of their own: what is beside them is encoded as if it stood alone. */
START_TEST(invalid_bytes_stand_apart) {
    struct lane_tokenizer *t = text_fable();
    struct text_ids whole = text_encode_flags(t, "the bear\xFF\xC3 the bear", 19, 0);
    struct text_ids left = text_encode_flags(t, "the bear", 8, 0);
    struct text_ids bytes = text_encode_flags(t, "\xFF\xC3", 2, 0);
    struct text_ids right = text_encode_flags(t, " the bear", 9, 0);
    ck_assert_uint_eq(whole.n, left.n + bytes.n + right.n);
    ck_assert_int_eq(memcmp(whole.ids, left.ids, left.n * 4), 0);
    ck_assert_int_eq(memcmp(whole.ids + left.n, bytes.ids, bytes.n * 4), 0);
    ck_assert_int_eq(memcmp(whole.ids + left.n + bytes.n, right.ids, right.n * 4), 0);
    free(whole.ids);
    free(left.ids);
    free(bytes.ids);
    free(right.ids);
    lane_tokenizer_close(t);
}
END_TEST

/* The merges read slowly: the lowest rank, its leftmost place, one at a time. */
static uint32_t slow_merges(uint32_t *ids, uint32_t n, const uint32_t (*merges)[3],
                            uint32_t n_merges) {
    for (uint32_t m = 0; m < n_merges;) {
        uint32_t at = 0;
        while (at + 1 < n && (ids[at] != merges[m][0] || ids[at + 1] != merges[m][1]))
            at++;
        if (at + 1 >= n) {
            m++;
            continue;
        }
        ids[at] = merges[m][2];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
        m = 0;
    }
    return n;
}

START_TEST(words_of_every_length) {
    struct status_note note = {""};
    struct lane_tokenizer *t = open_small(
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", &note);
    ck_assert_msg(t != NULL, "%s", note.text);
    struct text_ids one = text_encode_flags(t, "ab c", 4, 0);
    ck_assert_uint_eq(one.ids[0], 258);
    const uint32_t a = 'a' - 0x21, b = 'b' - 0x21;
    const uint32_t merges[][3] = {{a, a, 256}, {256, 256, 257}, {a, b, 258}};
    uint64_t state = 1;
    for (uint32_t n = 0; n < 400; n++) {
        char text[400];
        uint32_t slow[400];
        for (uint32_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[i] = (state >> 60) < 4 ? 'b' : 'a';
            slow[i] = text[i] == 'a' ? a : b;
        }
        uint32_t n_slow = slow_merges(slow, n, merges, 3);
        struct text_ids got = text_encode_flags(t, text, n, 0);
        ck_assert_uint_eq(got.n, n_slow);
        ck_assert(n_slow == 0 || memcmp(got.ids, slow, n_slow * sizeof *slow) == 0);
        free(got.ids);
    }
    free(one.ids);
    lane_tokenizer_close(t);
}
END_TEST

/* A word of a megabyte, of many kinds; quadratic work would not end within the suite's time. */
START_TEST(a_megabyte_without_a_space) {
    struct lane_tokenizer *t = text_fable();
    enum { N = 1 << 20 };
    char *text = malloc(N);
    static const char *const kinds[] = {"a", "ab", " ", "\n", "the", "\xC3\xA9", "\xFF", ".", "7"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t n = strlen(kinds[k]), whole = N / n * n;
        for (size_t i = 0; i < whole; i++)
            text[i] = kinds[k][i % n];
        expect_back(t, text, whole);
    }
    free(text);
    lane_tokenizer_close(t);
}
END_TEST

START_TEST(limits_hold) {
    struct lane_tokenizer *t = text_fable();
    struct text_ids got = {NULL, 0, 0};
    struct status_note note = {""};
    static const char text[] = "Once upon a time there was a bear.";
    enum status s = lane_tokenizer_encode(t, text, sizeof text - 1, LANE_ENCODE_BOS, 4, &got.ids,
                                          &got.n, &got.capacity, &note);
    ck_assert_int_eq(s, STATUS_TOO_LARGE);
    ck_assert_uint_eq(got.n, 0);
    ck_assert_ptr_nonnull(strstr(note.text, "4 tokens"));
    s = lane_tokenizer_encode(t, "Once", 4, LANE_ENCODE_BOS, 0, &got.ids, &got.n, &got.capacity,
                              &note);
    ck_assert_int_eq(s, STATUS_OK);
    ck_assert_uint_eq(got.ids[0], 0);
    uint32_t n = got.n;
    s = lane_tokenizer_encode(t, " upon", 5, 0, 0, &got.ids, &got.n, &got.capacity, &note);
    ck_assert_int_eq(s, STATUS_OK);
    ck_assert_uint_gt(got.n, n); /* appended */
    ck_assert_uint_eq(got.ids[0], 0);
    s = lane_tokenizer_encode(t, text, (size_t)1 << 40, 0, 0, &got.ids, &got.n, &got.capacity,
                              &note);
    ck_assert_int_eq(s, STATUS_TOO_LARGE);
    free(got.ids);
    lane_tokenizer_close(t);
}
END_TEST

/* Patterns that backtrack without bound end in a sentence, in time that the text's length bounds.
 */
START_TEST(hostile_patterns_end) {
    static const char *const patterns[] = {"(a+)+$",
                                           "(a+)+z",
                                           "(a|aa)+z",
                                           "(a*)*z",
                                           "(?:a?){30}a{30}z",
                                           "a*a*a*a*a*a*z",
                                           "(?=(a+)+z)a",
                                           "((a{1,20}){1,20}){1,20}z",
                                           "[^b]*[^c]*[^d]*[^e]*z",
                                           "(?:(?:a|b)*)*c"};
    enum { N = 20000 };
    char *text = malloc(N);
    uint32_t opened = 0;
    memset(text, 'a', N);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct status_note note = {""};
        char *stage = NULL;
        ck_assert_int_gt(
            asprintf(&stage,
                     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
                     "\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
                     "\"use_regex\":false}]}",
                     patterns[i]),
            0);
        struct lane_tokenizer *t = open_small(stage, &note);
        free(stage);
        if (t == NULL) {
            ck_assert_ptr_nonnull(strstr(note.text, "small: "));
            continue;
        }
        struct text_ids got = {NULL, 0, 0};
        enum status s =
            lane_tokenizer_encode(t, text, N, 0, 0, &got.ids, &got.n, &got.capacity, &note);
        ck_assert_msg(s == STATUS_OK || (s == STATUS_BAD_REQUEST && got.n == 0), "%s", note.text);
        opened++;
        free(got.ids);
        lane_tokenizer_close(t);
    }
    ck_assert_uint_ge(opened, 5);
    free(text);
}
END_TEST

struct worker {
    const struct lane_tokenizer *t;
    const char *text;
    size_t n;
    const struct text_ids *expected;
    bool same;
};

static void *encode_often(void *argument) {
    struct worker *w = argument;
    w->same = true;
    for (int i = 0; i < 20; i++) {
        struct text_ids got = {NULL, 0, 0};
        enum status s = lane_tokenizer_encode(w->t, w->text, w->n, LANE_ENCODE_SPECIAL, 0, &got.ids,
                                              &got.n, &got.capacity, NULL);
        w->same &= s == STATUS_OK && got.n == w->expected->n &&
                   memcmp(got.ids, w->expected->ids, got.n * sizeof *got.ids) == 0;
        free(got.ids);
    }
    return NULL;
}

START_TEST(threads_share_a_tokenizer) {
    struct lane_tokenizer *t = text_fable();
    json_t *prompts = text_json("tests/reference/fable-5m/prompts.json");
    struct worker workers[4];
    struct text_ids expected[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        const json_t *text = json_object_get(json_array_get(prompts, 8 + (size_t)i % 2), "text");
        workers[i] = (struct worker){.t = t,
                                     .text = json_string_value(text),
                                     .n = json_string_length(text),
                                     .expected = &expected[i]};
        expected[i] = text_encode_flags(t, workers[i].text, workers[i].n, LANE_ENCODE_SPECIAL);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_often, &workers[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(workers[i].same);
        free(expected[i].ids);
    }
    json_decref(prompts);
    lane_tokenizer_close(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text encode");
    TCase *tests = tcase_create("encode");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, any_bytes_come_back);
    tcase_add_test(tests, invalid_bytes_stand_apart);
    tcase_add_test(tests, words_of_every_length);
    tcase_add_test(tests, a_megabyte_without_a_space);
    tcase_add_test(tests, limits_hold);
    tcase_add_test(tests, hostile_patterns_end);
    tcase_add_test(tests, threads_share_a_tokenizer);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
