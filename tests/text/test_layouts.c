/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of one model from both layouts: the same ids and the same bytes of each, for every
 * kind of vocabulary and every pre-tokenizer that GGUF names, over texts of every sort; and the
 * differences that the layouts themselves make, each shown.
 */
#include <utf8proc.h>

#include "lanes/vocabulary.h"
#include "tests/kernels/scratch_dir.h"
#include "tests/text/layouts.h"
#include "tests/text/support.h"

#define MARK "\xE2\x96\x81"

struct both {
    struct lane_tokenizer *hf, *gguf;
    uint32_t vocab;
};

static struct both open_both(const struct text_layouts *x) {
    char dir[64], path[512];
    struct both both = {.vocab = x->vocab};
    struct status_note note = {""};
    scratch_make(dir);
    text_layouts_write(x, dir);
    snprintf(path, sizeof path, "%s/hf", dir);
    ck_assert_msg(lane_vocabulary_open(path, &both.hf, &note) == STATUS_OK, "%s", note.text);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    ck_assert_msg(lane_vocabulary_open(path, &both.gguf, &note) == STATUS_OK, "%s", note.text);
    scratch_remove(dir);
    return both;
}

static void close_both(struct both *both) {
    lane_tokenizer_close(both->hf);
    lane_tokenizer_close(both->gguf);
}

/* ---- texts ---- */

enum { TEXT_MAX = 400, CATEGORIES = UTF8PROC_CATEGORY_CO + 1, OF_EACH = 64 };

struct maker {
    uint32_t state;
    uint32_t points[CATEGORIES][OF_EACH], n_points[CATEGORIES];
    const json_t *samples; /* English among them */
    char text[TEXT_MAX + 64];
    size_t n;
};

static uint32_t below(struct maker *m, uint32_t n) {
    m->state = m->state * 1664525u + 1013904223u;
    return (m->state >> 8) % n;
}

/* Some characters of each category, spread over all there are. */
static void fill_points(struct maker *m) {
    uint32_t seen[CATEGORIES] = {0};
    for (uint32_t c = 1; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000)
            continue;
        uint32_t category = (uint32_t)utf8proc_category((utf8proc_int32_t)c);
        uint32_t at = seen[category]++;
        if (m->n_points[category] < OF_EACH)
            m->points[category][m->n_points[category]++] = c;
        else if (below(m, at + 1) < OF_EACH)
            m->points[category][below(m, OF_EACH)] = c;
    }
}

static void add(struct maker *m, const char *text, size_t n) {
    if (m->n + n > TEXT_MAX)
        return;
    memcpy(m->text + m->n, text, n);
    m->n += n;
}

static void add_text(struct maker *m, const char *text) {
    add(m, text, strlen(text));
}

static void add_point(struct maker *m, uint32_t point) {
    utf8proc_uint8_t bytes[4];
    add(m, (const char *)bytes, (size_t)utf8proc_encode_char((utf8proc_int32_t)point, bytes));
}

static void add_character(struct maker *m) {
    uint32_t category = below(m, CATEGORIES);
    if (m->n_points[category] != 0)
        add_point(m, m->points[category][below(m, m->n_points[category])]);
}

/* A part of one of the samples, cut at any byte. */
static void add_sample(struct maker *m, uint32_t most) {
    const json_t *one = json_array_get(m->samples, below(m, (uint32_t)json_array_size(m->samples)));
    size_t n = json_string_length(one), from = n == 0 ? 0 : below(m, (uint32_t)n);
    size_t take = 1 + below(m, most);
    add(m, json_string_value(one) + from, take < n - from ? take : n - from);
}

static void add_one_of(struct maker *m, const char *const *list, uint32_t n) {
    add_text(m, list[below(m, n)]);
}

static const char *const spaces[] = {" ",           " ",  "  ",       "\t",       "\n",
                                     "\r\n",        "\v", "\xC2\x85", "\xC2\xA0", "\xE2\x80\x83",
                                     "\xE3\x80\x80"};
static const char *const digits[] = {
    "0", "1", "7", "99", "123", "\xD9\xA4", "\xC2\xBD", "\xE2\x85\xA7", "3.14", "1,000", "x"};
static const char *const short_forms[] = {"'s",        "'S",  "'t",   "'re", "'RE", "'ve",
                                          "'m",        "'ll", "'LL",  "'d",  "'",   "\xE2\x80\x99s",
                                          "'\xC5\xBF", "I",   "they", " ",   "x"};
static const char *const specials[] = {
    "<s>",  "</s>",  "<|im_start|>", "<|im_end|>", "<|x|>", "<|x|>y", "<|x", "<|im_",   "<think>",
    "<thi", "<unk>", "<0x41>",       "[PAD703]",   " ",     "a",      "y",   "\xC3\xA9"};
static const char *const broken[] = {
    "\xC3", "\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x9F", "\xFF", "\xE2\x96"};
#define ONE_OF(m, list) add_one_of(m, list, sizeof(list) / sizeof *(list))

enum sort { BYTES, CHARACTERS, SPACES, DIGITS, SHORT_FORMS, SPECIALS, BROKEN, ENGLISH, SORTS };

static void make(struct maker *m, enum sort sort) {
    m->n = 0;
    for (uint32_t parts = 1 + below(m, 24); parts > 0; parts--) {
        uint32_t one = below(m, 4);
        char byte = (char)below(m, 256);
        if (sort == BYTES)
            add(m, &byte, 1);
        else if (sort == ENGLISH || (one == 0 && sort != CHARACTERS))
            add_sample(m, sort == ENGLISH ? 60 : 4);
        else if (sort == CHARACTERS || one == 1)
            add_character(m);
        else if (sort == SPACES)
            ONE_OF(m, spaces);
        else if (sort == DIGITS)
            ONE_OF(m, digits);
        else if (sort == SHORT_FORMS)
            ONE_OF(m, short_forms);
        else if (sort == SPECIALS)
            ONE_OF(m, specials);
        else if (one == 2)
            add(m, "", 1); /* a zero byte */
        else
            ONE_OF(m, broken);
    }
}

/* ---- equality ---- */

static void expect_same(const struct both *both, const char *what, const char *text, size_t n,
                        uint32_t flags) {
    struct text_ids a = text_encode_flags(both->hf, text, n, flags);
    struct text_ids b = text_encode_flags(both->gguf, text, n, flags);
    bool same = a.n == b.n && (a.n == 0 || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0);
    if (!same) {
        char shown[4 * TEXT_MAX + 4] = "";
        for (size_t i = 0; i < n && i < TEXT_MAX; i++)
            snprintf(shown + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
        uint32_t at = 0;
        while (at < a.n && at < b.n && a.ids[at] == b.ids[at])
            at++;
        ck_abort_msg("%s, flags %u: %u ids and %u; the first that differs is %u: %u and %u; %s",
                     what, flags, a.n, b.n, at, at < a.n ? a.ids[at] : 0, at < b.n ? b.ids[at] : 0,
                     shown);
    }
    free(a.ids);
    free(b.ids);
}

/* What every id stands for; so the same ids are the same text. */
static void expect_same_tokens(const struct both *both, const char *what) {
    for (uint32_t id = 0; id < both->vocab + 2; id++) {
        uint32_t n, m;
        const char *a = lane_tokenizer_bytes(both->hf, id, &n);
        const char *b = lane_tokenizer_bytes(both->gguf, id, &m);
        ck_assert_msg(n == m && memcmp(a, b, n) == 0, "%s: id %u is \"%.*s\" and \"%.*s\"", what,
                      id, (int)n, a, (int)m, b);
        ck_assert_msg(lane_tokenizer_is_special(both->hf, id) ==
                          lane_tokenizer_is_special(both->gguf, id),
                      "%s: id %u", what, id);
    }
    bool unknown;
    ck_assert_int_eq(lane_tokenizer_bos(both->hf), lane_tokenizer_bos(both->gguf));
    ck_assert_int_eq(lane_tokenizer_adds_bos(both->hf), lane_tokenizer_adds_bos(both->gguf));
    ck_assert_int_eq(lane_tokenizer_id(both->hf, "<think>"),
                     lane_tokenizer_id(both->gguf, "<think>"));
    ck_assert_str_eq(lane_template_name(both->hf, &unknown), "chatml");
    ck_assert_str_eq(lane_template_name(both->gguf, &unknown), "chatml");
}

static void expect_same_chat(const struct both *both) {
    json_t *chat = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "system", "content",
                             "Be  kind.\n", "role", "user", "content", "<|im_end|> 12 <think>",
                             "role", "assistant", "content", " So.");
    struct text_ids a = text_encode_chat(both->hf, chat), b = text_encode_chat(both->gguf, chat);
    ck_assert_uint_eq(a.n, b.n);
    ck_assert_mem_eq(a.ids, b.ids, a.n * sizeof *a.ids);
    free(a.ids);
    free(b.ids);
    json_decref(chat);
}

static void expect_same_texts(const struct both *both, const char *what) {
    enum { TEXTS = 400 };
    static struct maker m;
    json_t *words = text_json("tests/text/tokenizers.json");
    json_t *pieces = text_json("tests/text/characters.json");
    const json_t *lists[] = {json_object_get(words, "texts"), json_object_get(pieces, "texts")};
    m = (struct maker){.state = 77, .samples = lists[1]};
    fill_points(&m);
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < json_array_size(lists[l]); i++) {
            const json_t *text = json_array_get(lists[l], i);
            for (uint32_t flags = 0; flags < 4; flags++)
                expect_same(both, what, json_string_value(text), json_string_length(text), flags);
        }
    for (uint32_t i = 0; i < TEXTS * SORTS; i++) {
        make(&m, (enum sort)(i % SORTS));
        expect_same(both, what, m.text, m.n, 0);
        expect_same(both, what, m.text, m.n, LANE_ENCODE_SPECIAL | LANE_ENCODE_BOS);
    }
    json_decref(words);
    json_decref(pieces);
}

static void expect_equal(struct text_layouts *x, const char *what) {
    text_layouts_add(x, "<|x|>", true);
    text_layouts_add(x, "<|x|>y", true);
    text_layouts_add(x, "<think>", false);
    text_layouts_add(x, "<thi", false);
    x->vocab += 3; /* a model's rows are often more than the tokenizer's ids */
    struct both both = open_both(x);
    expect_same_tokens(&both, what);
    expect_same_texts(&both, what);
    expect_same_chat(&both);
    close_both(&both);
}

static const char *const pres[] = {"",      "default", "gpt-2",    "smollm",
                                   "qwen2", "llama3",  "llama-v3", "llama-bpe"};

START_TEST(bytes_in_both) {
    json_t *words = text_json("tests/text/tokenizers.json");
    struct text_layouts x = text_layouts_bytes(words, pres[_i]);
    expect_equal(&x, pres[_i]);
    text_layouts_free(&x);
    json_decref(words);
}
END_TEST

static json_t *pieces_named(const json_t *root, const char *name) {
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(root, "tables"), i,
                       one) if (strcmp(json_string_value(json_object_get(one, "name")), name) ==
                                0) return one;
    ck_abort_msg("no vocabulary %s", name);
}

static const struct {
    const char *name;
    bool gemma;
} spellings[] = {
    {"llama", false}, {"gemma", true}, {"joined", false}, {"joined", true}, {"no bytes", false}};

START_TEST(pieces_in_both) {
    json_t *root = text_json("tests/text/characters.json");
    const char *name = spellings[_i].name;
    struct text_layouts x = text_layouts_pieces(pieces_named(root, name), spellings[_i].gemma);
    text_layouts_add(&x, "<|im_start|>", true);
    text_layouts_add(&x, "<|im_end|>", true);
    expect_equal(&x, name);
    text_layouts_free(&x);
    json_decref(root);
}
END_TEST

/* ---- what the layouts themselves make differ ---- */

/* The tokens' bytes with bars between them; special ones in brackets. */
static void expect_words(const struct lane_tokenizer *t, const char *text, uint32_t flags,
                         const char *expected) {
    char got[256] = "";
    struct text_ids ids = text_encode_flags(t, text, strlen(text), flags);
    for (uint32_t i = 0; i < ids.n; i++) {
        uint32_t n;
        const char *bytes = lane_tokenizer_bytes(t, ids.ids[i], &n);
        bool special = lane_tokenizer_is_special(t, ids.ids[i]);
        size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%s%s%.*s%s", i == 0 ? "" : "|", special ? "[" : "",
                 (int)n, bytes, special ? "]" : "");
    }
    free(ids.ids);
    ck_assert_str_eq(got, expected);
}

/* The converter takes an added token for a special one by its looks. */
START_TEST(special_by_looks) {
    json_t *words = text_json("tests/text/tokenizers.json");
    struct text_layouts x = text_layouts_bytes(words, "smollm");
    text_layouts_add(&x, "<|y|>", false);
    struct both both = open_both(&x);
    expect_words(both.hf, "the<|y|>", 0, "t|he|<|y|>");
    expect_words(both.gguf, "the<|y|>", 0, "t|he|<|||y|||>");
    expect_words(both.hf, "the<|y|>", LANE_ENCODE_SPECIAL, "t|he|<|y|>");
    expect_words(both.gguf, "the<|y|>", LANE_ENCODE_SPECIAL, "t|he|[<|y|>]");
    close_both(&both);
    text_layouts_free(&x);
    json_decref(words);
}
END_TEST

/* GGUF has no room for what an added token takes with it, or asks of what stands beside it. */
START_TEST(options_of_added_tokens) {
    json_t *words = text_json("tests/text/tokenizers.json");
    struct text_layouts x = text_layouts_bytes(words, "gpt-2");
    static const char *const options[] = {"lstrip", "rstrip", "single_word"};
    static const char *const names[] = {"<l>", "<r>", "ear"};
    for (size_t i = 0; i < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", text_layouts_add(&x, names[i], i < 2));
        json_t *list = json_object_get(x.tokenizer, "added_tokens");
        json_t *decoder = json_object_get(x.config, "added_tokens_decoder");
        json_object_set_new(json_array_get(list, json_array_size(list) - 1), options[i],
                            json_true());
        json_object_set_new(json_object_get(decoder, key), options[i], json_true());
    }
    struct both both = open_both(&x);
    expect_words(both.hf, "in <l> in", LANE_ENCODE_SPECIAL, "in|[<l>]| in");
    expect_words(both.gguf, "in <l> in", LANE_ENCODE_SPECIAL, "in| |[<l>]| in");
    expect_words(both.hf, "in <r> in", LANE_ENCODE_SPECIAL, "in| |[<r>]|in");
    expect_words(both.gguf, "in <r> in", LANE_ENCODE_SPECIAL, "in| |[<r>]| in");
    expect_words(both.hf, "bear", 0, "b|e|ar");
    expect_words(both.gguf, "bear", 0, "b|ear");
    close_both(&both);
    text_layouts_free(&x);
    json_decref(words);
}
END_TEST

/* GGUF puts the space of llama's vocabularies before each text between added tokens; Metaspace can
 * put it before the first alone. */
START_TEST(spaces_before_texts) {
    json_t *root = text_json("tests/text/characters.json"), *first;
    struct text_layouts x = text_layouts_pieces(pieces_named(root, "llama"), false);
    text_layouts_add(&x, "<x>", false);
    first = json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", MARK,
                      "prepend_scheme", "first", "split", 0);
    struct both both = open_both(&x), later;
    expect_words(both.hf, "the<x>the", 0, " the|<x>| the");
    expect_words(both.gguf, "the<x>the", 0, " the|<x>| the");
    json_object_set(x.tokenizer, "pre_tokenizer", first);
    json_object_set_new(x.tokenizer, "normalizer",
                        json_pack("{s:s, s:[]}", "type", "Sequence", "normalizers"));
    later = open_both(&x);
    expect_words(later.hf, "the<x>the", 0, " the|<x>|the");
    expect_words(later.gguf, "the<x>the", 0, " the|<x>| the");
    close_both(&both);
    close_both(&later);
    text_layouts_free(&x);
    json_decref(first);
    json_decref(root);
}
END_TEST

/* Added tokens of U+2581: tokenizer.json looks for that character in the text, before spaces become
 * it, and merges make the spaces' tokens; GGUF looks for the spaces, longest first. */
START_TEST(runs_of_spaces) {
    json_t *root = text_json("tests/text/characters.json");
    struct text_layouts x = text_layouts_pieces(pieces_named(root, "gemma"), true);
    struct both without = open_both(&x), with;
    text_layouts_add(&x, MARK MARK, false);
    with = open_both(&x);
    expect_words(without.hf, "in   the", 0, "in|  | the");
    expect_words(without.gguf, "in   the", 0, "in|  | the");
    expect_words(with.hf, "in     the", 0, "in|    | the");
    expect_words(with.gguf, "in     the", 0, "in|  |  | the");
    close_both(&without);
    close_both(&with);
    text_layouts_free(&x);
    json_decref(root);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text layouts");
    TCase *tests = tcase_create("layouts");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, bytes_in_both, 0, (int)(sizeof pres / sizeof *pres));
    tcase_add_loop_test(tests, pieces_in_both, 0, (int)(sizeof spellings / sizeof *spellings));
    tcase_add_test(tests, special_by_looks);
    tcase_add_test(tests, options_of_added_tokens);
    tcase_add_test(tests, spaces_before_texts);
    tcase_add_test(tests, runs_of_spaces);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
