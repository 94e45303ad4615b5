/* SPDX-License-Identifier: Apache-2.0
 * What a tokenizer.json may not ask of this build: each is refused by its name, with the right
 * status; and files that are missing, no files, or damaged.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/text/support.h"

/* A whole small tokenizer; %s places are filled by each case. */
static const char whole[] =
    "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,"
    "\"added_tokens\":[%s],\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[%s]%s}}";

enum part { NORMALIZER, PRETOKENIZER, POST, DECODER, ADDED, VOCAB, MERGES, MODEL, PARTS };

static const char *const usual[PARTS] = {"null",
                                         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
                                         "{\"type\":\"ByteLevel\"}",
                                         "{\"type\":\"ByteLevel\"}",
                                         "{\"id\":3,\"content\":\"<s>\",\"special\":true}",
                                         "\"a\":0,\"b\":1,\"ab\":2",
                                         "\"a b\"",
                                         ""};

static enum status parse(enum part part, const char *text, const char *config,
                         struct status_note *note) {
    const char *p[PARTS];
    struct lane_tokenizer *t = NULL;
    char json[4096];
    memcpy(p, usual, sizeof p);
    p[part] = text;
    int n = snprintf(json, sizeof json, whole, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
    ck_assert_int_lt(n, (int)sizeof json);
    enum status s = lane_tokenizer_parse("test", json, (size_t)n, config,
                                         config == NULL ? 0 : strlen(config), &t, note);
    ck_assert((s == STATUS_OK) == (t != NULL));
    lane_tokenizer_close(t);
    return s;
}

#define SPLIT(pattern, behavior)                                                                   \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"" pattern "\"},\"behavior\":\"" behavior "\"},{\"type\":\"ByteLevel\"}]}"

static const struct {
    enum part part;
    const char *text;
    enum status status;
    const char *named;
} cases[] = {
    {NORMALIZER, "{\"type\":\"Prepend\",\"prepend\":\"x\"}", STATUS_UNSUPPORTED, "Prepend"},
    {NORMALIZER, "{\"type\":\"Replace\"}", STATUS_UNSUPPORTED, "Replace"},
    {NORMALIZER,
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}",
     STATUS_UNSUPPORTED, "Lowercase"},
    {NORMALIZER, "7", STATUS_UNSUPPORTED, "normalizer"},
    {PRETOKENIZER, "null", STATUS_UNSUPPORTED, "byte-level"},
    {PRETOKENIZER, "{\"type\":\"Metaspace\"}", STATUS_UNSUPPORTED, "Metaspace"},
    {PRETOKENIZER, "{\"type\":\"Digits\"}", STATUS_UNSUPPORTED, "no ByteLevel"},
    {PRETOKENIZER,
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
     STATUS_UNSUPPORTED, "Digits after ByteLevel"},
    {PRETOKENIZER, SPLIT("a", "MergedWithNext"), STATUS_UNSUPPORTED, "MergedWithNext"},
    {PRETOKENIZER, SPLIT("a", "Contiguous"), STATUS_UNSUPPORTED, "Contiguous"},
    {PRETOKENIZER, SPLIT("(", "Isolated"), STATUS_UNSUPPORTED, "group"},
    {PRETOKENIZER, SPLIT("\\\\bword", "Isolated"), STATUS_UNSUPPORTED, "\\b"},
    {PRETOKENIZER, SPLIT("[a&&b]", "Isolated"), STATUS_UNSUPPORTED, "intersection"},
    {PRETOKENIZER, SPLIT("[a[b]]", "Isolated"), STATUS_UNSUPPORTED, "class inside"},
    {PRETOKENIZER, SPLIT("(?i)a", "Isolated"), STATUS_UNSUPPORTED, "(?i)"},
    {PRETOKENIZER, SPLIT("a{1,2}+", "Isolated"), STATUS_UNSUPPORTED, "repetition"},
    {PRETOKENIZER, SPLIT("(?i:\\\\p{L})", "Isolated"), STATUS_UNSUPPORTED, "(?i:)"},
    {PRETOKENIZER, SPLIT("(?i:fi)", "Isolated"), STATUS_UNSUPPORTED, "(?i:)"},
    {PRETOKENIZER, SPLIT("\\\\p{Nonsense}", "Isolated"), STATUS_UNSUPPORTED, "compiled"},
    {PRETOKENIZER, SPLIT("a*", "Isolated"), STATUS_UNSUPPORTED, "empty text"},
    {PRETOKENIZER, SPLIT("", "Isolated"), STATUS_UNSUPPORTED, "0 bytes"},
    {POST, "{\"type\":\"RobertaProcessing\"}", STATUS_UNSUPPORTED, "RobertaProcessing"},
    {POST,
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},{\"SpecialToken\":{\"id\":\"<"
     "s>\"}}]}",
     STATUS_UNSUPPORTED, "post_processor"},
    {POST,
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{"
     "\"Sequence\":{}}]}",
     STATUS_BAD_FILE, "not in the vocabulary"},
    {DECODER, "null", STATUS_UNSUPPORTED, "decoder"},
    {DECODER, "{\"type\":\"Metaspace\"}", STATUS_UNSUPPORTED, "Metaspace"},
    {ADDED, "{\"id\":2,\"content\":\"other\"}", STATUS_BAD_FILE, "given twice"},
    {ADDED, "{\"id\":9,\"content\":\"a\"}", STATUS_BAD_FILE, "given twice"},
    {ADDED, "{\"id\":-1,\"content\":\"x\"}", STATUS_BAD_FILE, "no id"},
    {ADDED, "{\"id\":99999999,\"content\":\"x\"}", STATUS_BAD_FILE, "no id"},
    {ADDED, "{\"id\":3,\"content\":\"\"}", STATUS_BAD_FILE, "0 bytes"},
    {ADDED, "{\"id\":2,\"content\":\"ab\",\"special\":true}", STATUS_UNSUPPORTED,
     "special token 2"},
    {ADDED, "{\"id\":0,\"content\":\"a\",\"special\":true}", STATUS_UNSUPPORTED, "byte 0x61"},
    {VOCAB, "\"a\":0,\"b\":0,\"ab\":2", STATUS_BAD_FILE, "two tokens"},
    {VOCAB, "\"a\":0,\"b\":1,\"ab\":-2", STATUS_BAD_FILE, "id of token"},
    {VOCAB, "\"a\":0,\"b\":1,\"ab\":4194304", STATUS_BAD_FILE, "id of token"},
    {VOCAB, "\"a\":0,\"a\":1,\"ab\":2", STATUS_BAD_FILE, "duplicate"},
    {VOCAB, "", STATUS_BAD_FILE, "vocab"},
    {MERGES, "\"a  b\"", STATUS_BAD_FILE, "merge 0"},
    {MERGES, "[\"a\"]", STATUS_BAD_FILE, "merge 0"},
    {MERGES, "[\"b\",\"a\"]", STATUS_BAD_FILE, "not in the vocabulary"},
    {MODEL, ",\"byte_fallback\":true", STATUS_UNSUPPORTED, "byte_fallback"},
    {MODEL, ",\"dropout\":0.5", STATUS_UNSUPPORTED, "dropout"},
    {MODEL, ",\"end_of_word_suffix\":\"</w>\"", STATUS_UNSUPPORTED, "end_of_word_suffix"},
    {MODEL, ",\"unk_token\":\"<u>\"", STATUS_BAD_FILE, "unk_token"},
    {MODEL, "", STATUS_OK, ""},
    {MERGES, "[\"a\",\"b\"]", STATUS_OK, ""},
    {MODEL, ",\"dropout\":null,\"continuing_subword_prefix\":\"\",\"unk_token\":null", STATUS_OK,
     ""},
    {NORMALIZER, "{\"type\":\"NFC\"}", STATUS_OK, ""}};

START_TEST(each_is_named) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct status_note note = {""};
        enum status s = parse(cases[i].part, cases[i].text, NULL, &note);
        ck_assert_msg(s == cases[i].status && strstr(note.text, cases[i].named) != NULL,
                      "%s: %s: %s", cases[i].text, status_name(s), note.text);
    }
}
END_TEST

START_TEST(stages_have_a_limit) {
    char text[2048] = "{\"type\":\"Sequence\",\"pretokenizers\":[";
    struct status_note note = {""};
    for (int i = 0; i < 16; i++)
        strcat(text, "{\"type\":\"Digits\"},");
    strcat(text, "{\"type\":\"ByteLevel\"}]}");
    ck_assert_int_eq(parse(PRETOKENIZER, text, NULL, &note), STATUS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(note.text, "16 pre-tokenizers"));
}
END_TEST

START_TEST(configurations) {
    static const struct {
        const char *config;
        enum status status;
        const char *named;
    } configs[] = {
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":true}", STATUS_OK, ""},
        {"{\"bos_token\":\"<x>\",\"add_bos_token\":true}", STATUS_BAD_FILE, "bos_token"},
        {"{\"add_eos_token\":true}", STATUS_UNSUPPORTED, "add_eos_token"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", STATUS_BAD_FILE,
         "added_tokens_decoder"},
        {"{\"added_tokens_decoder\":{\"3\":{\"content\":\"y\"}}}", STATUS_BAD_FILE, "given twice"},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"y\"}}}", STATUS_OK, ""},
        {"{\"eos_token\":\"ab\"}", STATUS_UNSUPPORTED, "special token 2"},
        {"{\"pad_token\":\"ab\"}", STATUS_OK, ""},
        {"[]", STATUS_BAD_FILE, "not a JSON object"},
        {"{\"chat_template\":7}", STATUS_OK, ""},
        {"{", STATUS_BAD_FILE, "tokenizer_config.json"}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct status_note note = {""};
        enum status s = parse(MODEL, "", configs[i].config, &note);
        ck_assert_msg(s == configs[i].status && strstr(note.text, configs[i].named) != NULL,
                      "%s: %s: %s", configs[i].config, status_name(s), note.text);
    }
}
END_TEST

START_TEST(a_note_is_printable) {
    struct status_note note = {""};
    ck_assert_int_eq(parse(NORMALIZER, "{\"type\":\"\\u001b[2J\\u202e\\u00e9\"}", NULL, &note),
                     STATUS_UNSUPPORTED);
    for (const unsigned char *c = (const unsigned char *)note.text; *c != '\0'; c++)
        ck_assert(*c >= 0x20 && *c != 0x7F);
    ck_assert_ptr_nonnull(strstr(note.text, "?[2J???\xC3\xA9"));
}
END_TEST

/* A byte without a token: the unknown token, or an error when there is none. */
START_TEST(bytes_without_a_token) {
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{"
        "\"type\":"
        "\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0,\"<u>\":1},\"merges\":[]%s}}";
    for (int unknown = 0; unknown < 2; unknown++) {
        char text[512];
        struct lane_tokenizer *t;
        struct status_note note = {""};
        struct text_ids got = {NULL, 0, 0};
        int n = snprintf(text, sizeof text, json, unknown ? ",\"unk_token\":\"<u>\"" : "");
        ck_assert_int_eq(lane_tokenizer_parse("t", text, (size_t)n, NULL, 0, &t, &note), STATUS_OK);
        enum status s =
            lane_tokenizer_encode(t, "aza", 3, 0, 0, &got.ids, &got.n, &got.capacity, &note);
        ck_assert_int_eq(s, unknown ? STATUS_OK : STATUS_BAD_REQUEST);
        ck_assert_uint_eq(got.n, unknown ? 3 : 0);
        ck_assert(!unknown || got.ids[1] == 1);
        ck_assert(unknown || strstr(note.text, "0x7a") != NULL);
        free(got.ids);
        lane_tokenizer_close(t);
    }
}
END_TEST

static enum status open_path(const char *path, struct status_note *note) {
    struct lane_tokenizer *t = NULL;
    enum status s = lane_tokenizer_open(path, &t, note);
    ck_assert((s == STATUS_OK) == (t != NULL));
    lane_tokenizer_close(t);
    return s;
}

static void write_file(const char *dir, const char *name, const char *text, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(files) {
    char dir[] = "/tmp/roundhouse-text-XXXXXX", path[512], json[2048];
    struct status_note note = {""};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(open_path("/nonexistent/model", &note), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(note.text, "/nonexistent/model"));
    ck_assert_int_eq(open_path(dir, &note), STATUS_NOT_FOUND);
    int n = snprintf(json, sizeof json, whole, usual[0], usual[1], usual[2], usual[3], usual[4],
                     usual[5], usual[6], usual[7]);
    write_file(dir, "tokenizer.json", json, (size_t)n);
    ck_assert_int_eq(open_path(dir, &note), STATUS_OK);
    for (int cut = 0; cut < n; cut++) {
        write_file(dir, "tokenizer.json", json, (size_t)cut);
        ck_assert_int_eq(open_path(dir, &note), STATUS_BAD_FILE);
    }
    write_file(dir, "tokenizer.json", json, (size_t)n);
    write_file(dir, "chat_template.jinja", "{{ x\0 }}", 8);
    ck_assert_int_eq(open_path(dir, &note), STATUS_BAD_FILE);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    ck_assert_int_eq(open_path(path, &note), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(note.text, "not a model directory"));
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(open_path(dir, &note), STATUS_BAD_FILE);
    rmdir(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes to it */
    ck_assert_int_eq(open_path(dir, &note), STATUS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(note.text, "not a regular file"));
    unlink(path);
    snprintf(path, sizeof path, "%s/chat_template.jinja", dir);
    unlink(path);
    rmdir(dir);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text refusals");
    TCase *tests = tcase_create("refusals");
    tcase_add_test(tests, each_is_named);
    tcase_add_test(tests, stages_have_a_limit);
    tcase_add_test(tests, configurations);
    tcase_add_test(tests, a_note_is_printable);
    tcase_add_test(tests, bytes_without_a_token);
    tcase_add_test(tests, files);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
