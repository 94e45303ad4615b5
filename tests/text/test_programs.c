/* SPDX-License-Identifier: Apache-2.0
 * roundhouse tokenize and detokenize as a person runs them: every reference vector there and back,
 * and what is refused.
 */
#include <unistd.h>

#include "tests/programs/command.h"
#include "tests/text/support.h"

static struct command_result result;

static json_t *line_of(const char **at) {
    const char *end = strchr(*at, '\n');
    ck_assert_ptr_nonnull(end);
    json_t *value = json_loadb(*at, (size_t)(end - *at), JSON_DECODE_ANY, NULL);
    *at = end + 1;
    return value;
}

/* Tokenizes all texts in one run; expects ids (or ids_special), then their bytes from a second run.
 */
static void there_and_back(const json_t *vectors, const char *in, bool special) {
    const json_t *v;
    size_t i;
    char out[] = "/tmp/roundhouse-ids-XXXXXX", hex[8];
    close(mkstemp(out));
    command_run(&result, "tokenize --json %s <%s | tee %s", special ? "--special" : "", in, out);
    ck_assert_int_eq(result.code, 0);
    const char *at = result.text;
    json_array_foreach(vectors, i, v) {
        json_t *ids = line_of(&at);
        const json_t *parsed = json_object_get(v, "ids_special");
        ck_assert_msg(
            json_equal(ids, special && parsed != NULL ? parsed : json_object_get(v, "ids")),
            "vector %zu", i);
        json_decref(ids);
    }
    ck_assert_int_eq(*at, '\0');
    command_run(&result, "detokenize --json <%s", out);
    ck_assert_int_eq(result.code, 0);
    at = result.text;
    json_array_foreach(vectors, i, v) {
        json_t *bytes = line_of(&at);
        const json_t *text = json_object_get(v, "text");
        ck_assert_uint_eq(json_string_length(bytes), 2 * json_string_length(text));
        for (size_t k = 0; k < json_string_length(text); k++) {
            snprintf(hex, sizeof hex, "%02x", json_string_value(text)[k] & 0xFFu);
            ck_assert_msg(memcmp(hex, json_string_value(bytes) + 2 * k, 2) == 0, "vector %zu", i);
        }
        json_decref(bytes);
    }
    unlink(out);
}

START_TEST(every_vector) {
    json_t *vectors = text_json("tests/reference/fable-5m/tokenizer_vectors.json"), *v;
    char in[] = "/tmp/roundhouse-texts-XXXXXX";
    size_t i;
    FILE *f = fdopen(mkstemp(in), "w");
    ck_assert_ptr_nonnull(f);
    json_array_foreach(vectors, i, v) {
        char *line = json_dumps(json_object_get(v, "text"), JSON_ENCODE_ANY);
        fprintf(f, "%s\n", line);
        free(line);
    }
    ck_assert_int_eq(fclose(f), 0);
    there_and_back(vectors, in, false);
    there_and_back(vectors, in, true);
    unlink(in);
    json_decref(vectors);
}
END_TEST

START_TEST(words_and_pipes) {
    command_run(&result, "tokenize 'Once upon a time' '<|end|>'");
    ck_assert_str_eq(result.text, "1231 623 263 523\n32 96 573 96 34\n");
    command_run(&result, "tokenize --special '<|end|>'");
    ck_assert_str_eq(result.text, "4\n");
    command_run(&result, "detokenize 1231 '623, 263' 523");
    ck_assert_str_eq(result.text, "Once upon a time");
}
END_TEST

START_TEST(refusals) {
    static const struct {
        const char *args, *named;
        int code;
    } cases[] = {{"detokenize 4096", "4096 is not a token id", 64},
                 {"detokenize -- -1", "-1 is not a token id", 64},
                 {"detokenize 1x", "'1x'", 64},
                 {"detokenize 99999999999999999999", "is not a token id", 64},
                 {"tokenize --json text", "standard input", 64},
                 {"tokenize --json <<'END'\n\"a\"\n7\nEND", "line 2: not a JSON string", 64},
                 {"detokenize --json <<'END'\n[1,\"a\"]\nEND", "line 1: element 1", 64},
                 {"tokenize --bogus", "--bogus", 64},
                 {"tokenize --model /nonexistent a", "/nonexistent/tokenizer.json", 66}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* The redirection first: a here-document ends the line. */
        command_run(&result, "2>&1 %s", cases[i].args);
        ck_assert_msg(result.code == cases[i].code && strstr(result.text, cases[i].named) != NULL,
                      "%s: %d, %s", cases[i].args, result.code, result.text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text programs");
    TCase *tests = tcase_create("programs");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_vector);
    tcase_add_test(tests, words_and_pipes);
    tcase_add_test(tests, refusals);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
