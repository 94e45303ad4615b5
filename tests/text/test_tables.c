/* SPDX-License-Identifier: Apache-2.0
 * Tokenizers from tables in memory: the pre-tokenizers that GGUF names, token types, roles, chat
 * templates, and what is refused, by its name.
 */
#include "tests/text/tables.h"

static json_t *vectors(const char *key, json_t **root) {
    *root = text_json("tests/text/tables.json");
    return json_object_get(*root, key);
}

static void expect_rows(const struct lane_tokenizer *t, const char *name, const json_t *texts,
                        const json_t *rows) {
    ck_assert_uint_gt(json_array_size(rows), 50);
    ck_assert_uint_eq(json_array_size(rows), json_array_size(texts));
    for (size_t k = 0; k < json_array_size(rows); k++) {
        const json_t *text = json_array_get(texts, k);
        for (uint32_t flags = 0; flags <= LANE_ENCODE_SPECIAL; flags++) {
            char what[128];
            snprintf(what, sizeof what, "%s, text %zu, flags %u", name, k, flags);
            struct text_ids got =
                text_encode_flags(t, json_string_value(text), json_string_length(text), flags);
            text_expect_ids(what, json_array_get(json_array_get(rows, k), flags), &got);
            free(got.ids);
        }
    }
}

START_TEST(pres_as_published) {
    json_t *root, *pres = vectors("pres", &root), *one;
    json_t *texts = text_json("tests/text/tokenizers.json");
    struct text_tables x = text_tables_json(pres);
    size_t i;
    ck_assert_uint_eq(json_array_size(json_object_get(pres, "cases")), 5);
    json_array_foreach(json_object_get(pres, "cases"), i, one) {
        const char *pre = json_string_value(json_object_get(one, "pre"));
        x.in.pre = text_slice(pre);
        x.in.bos = x.in.n_tokens - 3;
        struct lane_tokenizer *t = text_tables_open(&x);
        expect_rows(t, pre, json_object_get(texts, "texts"), json_object_get(one, "ids"));
        ck_assert_int_eq(lane_tokenizer_adds_bos(t), strcmp(pre, "llama-bpe") == 0);
        lane_tokenizer_close(t);
    }
    x.in.pre.bytes = NULL; /* a file that names none */
    struct lane_tokenizer *t = text_tables_open(&x);
    expect_rows(t, "none", json_object_get(texts, "texts"),
                json_object_get(json_array_get(json_object_get(pres, "cases"), 0), "ids"));
    lane_tokenizer_close(t);
    text_tables_free(&x);
    json_decref(texts);
    json_decref(root);
}
END_TEST

/* ---- a small llama vocabulary ---- */

#define MARK "\xE2\x96\x81"

enum { UNK, BOS, EOS, FIRST_BYTE, LETTERS = FIRST_BYTE + 256 };

static const struct {
    const char *piece;
    float score;
    int32_t type;
} pieces[] = {
    {MARK, -20, 1},      {"a", -21, 1},          {"b", -22, 1},       {"c", -23, 1},
    {"ab", -1, 1},       {"bc", -1, 1},          {"abc", -3, 1},      {MARK "a", -2, 1},
    {MARK "abc", -4, 1}, {MARK MARK, -5, 1},     {"<x>", 0, 4},       {MARK MARK MARK, 0, 5},
    {"x y", -30, 1},     {"\xC3\xA9", -9, 1},    {"cc", -6, 5},       {"aa", -7, 1},
    {"aaa", -7, 1},      {"<|im_start|>", 0, 3}, {"<|im_end|>", 0, 3}};

enum { PIECES = sizeof pieces / sizeof *pieces, TOKENS = LETTERS + PIECES };

struct small {
    struct lane_text_slice tokens[TOKENS];
    int32_t types[TOKENS];
    float scores[TOKENS];
    char bytes[256][8];
    struct lane_tables in;
};

static void small_fill(struct small *x) {
    static const char *const roles[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < TOKENS; i++) {
        int byte = i - FIRST_BYTE, piece = i - LETTERS;
        if (piece < 0 && byte >= 0)
            snprintf(x->bytes[byte], sizeof x->bytes[byte], "<0x%02X>", (unsigned)byte);
        x->tokens[i] = text_slice(piece >= 0  ? pieces[piece].piece
                                  : byte >= 0 ? x->bytes[byte]
                                              : roles[i]);
        x->types[i] = piece >= 0 ? pieces[piece].type : byte >= 0 ? 6 : i == UNK ? 2 : 3;
        x->scores[i] = piece >= 0 ? pieces[piece].score : 0;
    }
    x->in = (struct lane_tables){.model = text_slice("llama"),
                                 .tokens = x->tokens,
                                 .n_tokens = TOKENS,
                                 .types = x->types,
                                 .scores = x->scores,
                                 .bos = -1,
                                 .eos = -1,
                                 .eot = -1,
                                 .unk = -1};
}

static struct lane_tokenizer *small_open(struct small *x) {
    struct lane_tokenizer *t = NULL;
    struct status_note note = {""};
    enum status status = lane_tokenizer_from_tables("small", &x->in, &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    return t;
}

/* Pieces of the ids, each in brackets. */
static void expect_pieces(const struct small *x, const struct lane_tokenizer *t, const char *text,
                          uint32_t flags, const char *expected) {
    char got[1024] = "";
    struct text_ids ids = text_encode_flags(t, text, strlen(text), flags);
    for (uint32_t i = 0; i < ids.n; i++) {
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "[%s]", x->tokens[ids.ids[i]].bytes);
    }
    free(ids.ids);
    ck_assert_str_eq(got, expected);
}

START_TEST(types_and_scores) {
    static struct small x;
    small_fill(&x);
    struct lane_tokenizer *t = small_open(&x);
    const struct {
        const char *text, *pieces;
    } cases[] = {
        {"", ""},
        {"abc", "[" MARK "abc]"},
        {"ab bc", "[" MARK "][ab][" MARK "][bc]"},
        {"xabc", "[" MARK "][<0x78>][abc]"},
        {"xaaaa", "[" MARK "][<0x78>][aaa][a]"},
        {"xaaaaa", "[" MARK "][<0x78>][aaa][aa]"},
        {" abc", "[" MARK "][" MARK "abc]"}, /* its own space goes on after the one put before */
        {MARK "abc", "[" MARK "][" MARK "abc]"},
        {"   b", "[" MARK MARK "][" MARK MARK "][b]"}, /* unused tokens are never made */
        {"xcc", "[" MARK "][<0x78>][c][c]"},
        {"x y", "[" MARK "][<0x78>][" MARK "][<0x79>]"},
        {"\xC3\xA9\xC3\xA8", "[" MARK "][\xC3\xA9][<0xC3>][<0xA8>]"},
        {"a<x>a", "[" MARK "a][<x>][" MARK "a]"},
        {"<0x41>", "[" MARK "][<0x3C>][<0x30>][<0x78>][<0x34>][<0x31>][<0x3E>]"},
        {"\xFF\x80"
         "abc",
         "[<0xFF>][<0x80>][abc]"},
        {"c\xE2\x96", "[" MARK "][c][<0xE2>][<0x96>]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_pieces(&x, t, cases[i].text, 0, cases[i].pieces);
    expect_pieces(&x, t, "<s>a", LANE_ENCODE_SPECIAL, "[<s>][" MARK "a]");
    expect_pieces(&x, t, "a", LANE_ENCODE_BOS, "[<s>][" MARK "a]");
    expect_pieces(&x, t, "<s>a", 0, "[" MARK "][<0x3C>][<0x73>][<0x3E>][a]");
    ck_assert(lane_tokenizer_is_special(t, EOS) && lane_tokenizer_is_special(t, UNK));
    ck_assert(!lane_tokenizer_is_special(t, LETTERS + 10));
    uint32_t n;
    ck_assert_mem_eq(lane_tokenizer_bytes(t, LETTERS + 7, &n), " a", 2);
    ck_assert_mem_eq(lane_tokenizer_bytes(t, FIRST_BYTE + 0xA0, &n), "\xA0", 1);
    ck_assert_uint_eq(n, 1);
    lane_tokenizer_close(t);
    x.in.add_space_prefix = LANE_NO;
    x.in.add_bos = LANE_NO;
    t = small_open(&x);
    ck_assert(!lane_tokenizer_adds_bos(t));
    expect_pieces(&x, t, "abc", 0, "[abc]");
    expect_pieces(&x, t, "abc abc<x>abc", 0, "[abc][" MARK "abc][<x>][abc]");
    lane_tokenizer_close(t);
}
END_TEST

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

START_TEST(any_bytes_come_back) {
    static struct small x;
    static const char pool[] = "aabbcc  \xC3\xA9\xE2\x96\x81\xFF\xF0\x9F\x90\xBB\n";
    char text[300];
    uint32_t state = 5, n_bytes, longest = 0;
    small_fill(&x);
    x.in.add_space_prefix = LANE_NO;
    struct lane_tokenizer *t = small_open(&x);
    for (int round = 0; round < 300; round++) {
        size_t n = next_random(&state) % sizeof text, n_back, n_spaced = 0;
        char spaced[sizeof text];
        for (size_t i = 0; i < n; i++)
            text[i] = pool[next_random(&state) % (sizeof pool - 1)];
        struct text_ids ids = text_encode_flags(t, text, n, 0);
        for (size_t i = 0; i < n; n_spaced++) { /* the one thing that is not kept */
            bool mark = n - i >= 3 && memcmp(text + i, MARK, 3) == 0;
            spaced[n_spaced] = mark ? ' ' : text[i];
            i += mark ? 3 : 1;
        }
        char *back = text_decode(t, ids.ids, ids.n, &n_back);
        ck_assert_uint_eq(n_back, n_spaced);
        ck_assert_mem_eq(back, spaced, n_spaced);
        for (uint32_t i = 0; i < ids.n; i++) {
            lane_tokenizer_bytes(t, ids.ids[i], &n_bytes);
            longest = n_bytes > longest ? n_bytes : longest;
        }
        free(back);
        free(ids.ids);
    }
    ck_assert_uint_ge(longest, 4);
    lane_tokenizer_close(t);
}
END_TEST

/* ---- the same scores, the simplest way ---- */

static int find_piece(const char *text, size_t n) {
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].type == 1 && strlen(pieces[i].piece) == n &&
            memcmp(pieces[i].piece, text, n) == 0)
            return i;
    return -1;
}

/* Merges a text of a, b and c; the lengths of its parts. */
static size_t merge_simply(const char *text, size_t n, size_t *part) {
    size_t n_parts = n;
    for (size_t i = 0; i < n; i++)
        part[i] = 1;
    for (;;) {
        size_t best = n_parts, at = 0;
        float score = 0;
        for (size_t i = 0; i + 1 < n_parts; at += part[i++]) {
            int piece = find_piece(text + at, part[i] + part[i + 1]);
            if (piece >= 0 && (best == n_parts || pieces[piece].score > score)) {
                best = i;
                score = pieces[piece].score;
            }
        }
        if (best == n_parts)
            return n_parts;
        part[best] += part[best + 1];
        n_parts--;
        memmove(part + best + 1, part + best + 2, (n_parts - best - 1) * sizeof *part);
    }
}

START_TEST(scores_as_the_simplest_way) {
    static struct small x;
    uint32_t state = 9;
    small_fill(&x);
    x.in.add_space_prefix = LANE_NO;
    struct lane_tokenizer *t = small_open(&x);
    for (int round = 0; round < 300; round++) {
        char text[200];
        size_t n = 1 + next_random(&state) % sizeof text, part[sizeof text];
        for (size_t i = 0; i < n; i++)
            text[i] = "aaabbc"[next_random(&state) % 6];
        size_t n_parts = merge_simply(text, n, part);
        struct text_ids ids = text_encode_flags(t, text, n, 0);
        ck_assert_uint_eq(ids.n, n_parts);
        for (uint32_t i = 0; i < ids.n; i++)
            ck_assert_uint_eq(x.tokens[ids.ids[i]].n, part[i]);
        free(ids.ids);
    }
    lane_tokenizer_close(t);
}
END_TEST

/* ---- conversations ---- */

static struct lane_tokenizer *open_chat(const json_t *chats, const char *kind, const json_t *row) {
    json_t *one = json_deep_copy(json_object_get(json_object_get(chats, "tokenizers"), kind));
    struct status_note note = {""};
    struct lane_tokenizer *t;
    json_object_set(one, "model", json_object_get(chats, "model"));
    json_t *config = json_pack("{s:s,s:s,s:O}", "bos_token", "<s>", "eos_token", "</s>",
                               "chat_template", json_object_get(row, "template"));
    char *text = json_dumps(one, JSON_COMPACT), *settings = json_dumps(config, JSON_COMPACT);
    enum status status =
        lane_tokenizer_parse("chat", text, strlen(text), settings, strlen(settings), &t, &note);
    ck_assert_msg(status == STATUS_OK, "%s", note.text);
    free(text);
    free(settings);
    json_decref(config);
    json_decref(one);
    return t;
}

START_TEST(chats_as_published) {
    json_t *root, *chats = vectors("chats", &root), *row;
    const char *const kinds[] = {"each", "first", "none"};
    size_t i;
    ck_assert_uint_gt(json_array_size(json_object_get(chats, "rows")), 100);
    for (size_t k = 0; k < 3; k++) {
        struct lane_tokenizer *t = NULL;
        const json_t *of = NULL;
        json_array_foreach(json_object_get(chats, "rows"), i, row) {
            bool unknown;
            if (of == NULL || !json_equal(of, json_object_get(row, "template"))) {
                lane_tokenizer_close(t);
                of = json_object_get(row, "template");
                t = open_chat(chats, kinds[k], row);
            }
            ck_assert_str_eq(lane_template_name(t, &unknown),
                             json_string_value(json_object_get(row, "shape")));
            struct text_ids got = text_encode_chat(t, json_object_get(row, "messages"));
            char what[64];
            snprintf(what, sizeof what, "%s, row %zu", kinds[k], i);
            text_expect_ids(what, json_object_get(json_object_get(row, "ids"), kinds[k]), &got);
            free(got.ids);
        }
        lane_tokenizer_close(t);
    }
    json_decref(root);
}
END_TEST

/* A template's ids are those of what it writes, with special tokens where it writes them. */
START_TEST(chats_from_tables) {
    static struct small x;
    json_t *root, *chats = vectors("chats", &root), *row;
    size_t i;
    small_fill(&x);
    json_array_foreach(json_object_get(chats, "rows"), i, row) {
        const json_t *text = json_object_get(row, "text");
        x.in.chat_template = text_slice(json_string_value(json_object_get(row, "template")));
        struct lane_tokenizer *t = small_open(&x);
        struct text_ids chat = text_encode_chat(t, json_object_get(row, "messages"));
        struct text_ids whole = text_encode_flags(t, json_string_value(text),
                                                  json_string_length(text), LANE_ENCODE_SPECIAL);
        ck_assert_uint_eq(chat.n, whole.n);
        for (uint32_t k = 0; k < whole.n; k++)
            ck_assert_uint_eq(chat.ids[k], whole.ids[k]);
        free(chat.ids);
        free(whole.ids);
        lane_tokenizer_close(t);
    }
    json_decref(root);
}
END_TEST

/* ---- refusals ---- */

static void expect_refused(const struct lane_tables *in, enum status status, const char *named) {
    struct lane_tokenizer *t;
    struct status_note note = {""};
    enum status got = lane_tokenizer_from_tables("file.gguf", in, &t, &note);
    ck_assert_ptr_null(t);
    ck_assert_msg(got == status, "%s: status %s", named, status_name(got));
    ck_assert_msg(strstr(note.text, named) != NULL, "\"%s\" is not in: %s", named, note.text);
    ck_assert_msg(strstr(note.text, "file.gguf") != NULL, "no file in: %s", note.text);
}

START_TEST(refused_by_name) {
    static struct small x;
    static char big[3000];
    memset(big, 'x', sizeof big);
#define CASE(change, status, named)                                                                \
    do {                                                                                           \
        small_fill(&x);                                                                            \
        change;                                                                                    \
        expect_refused(&x.in, status, named);                                                      \
    } while (0)
    CASE(x.in.model = text_slice("t5"), STATUS_UNSUPPORTED, "\"t5\"");
    CASE(x.in.model.bytes = NULL, STATUS_UNSUPPORTED, "only gpt2 and llama");
    CASE(x.in.model = text_slice("b\x1b[2J"), STATUS_UNSUPPORTED, "\"b?[2J\"");
    CASE(x.in.n_tokens = 0, STATUS_BAD_FILE, "tokenizer.ggml.tokens");
    CASE(x.in.n_tokens = UINT32_MAX, STATUS_BAD_FILE, "tokenizer.ggml.tokens");
    CASE(x.in.n_merges = UINT32_MAX, STATUS_BAD_FILE, "tokenizer.ggml.merges");
    CASE(x.in.scores = NULL, STATUS_BAD_FILE, "tokenizer.ggml.scores");
    CASE(x.scores[LETTERS + 2] = 0.0f / 0.0f, STATUS_BAD_FILE, "score of token 261");
    CASE(x.in.bos = TOKENS, STATUS_BAD_FILE, "tokenizer.ggml.bos_token_id");
    CASE(x.in.eos = INT64_MAX, STATUS_BAD_FILE, "tokenizer.ggml.eos_token_id");
    CASE(x.in.unk = TOKENS, STATUS_BAD_FILE, "tokenizer.ggml.unknown_token_id");
    CASE(x.in.add_eos = LANE_YES, STATUS_UNSUPPORTED, "add_eos_token");
    CASE(x.in.remove_extra_whitespaces = LANE_YES, STATUS_UNSUPPORTED, "remove_extra_whitespaces");
    CASE((x.types[BOS] = 1, x.in.add_bos = LANE_YES), STATUS_BAD_FILE, "no bos_token_id");
    CASE(x.tokens[LETTERS + 2] = x.tokens[LETTERS + 1], STATUS_BAD_FILE, "260 and 261");
    CASE(x.tokens[LETTERS] = text_slice("_"), STATUS_UNSUPPORTED, "U+2581");
    CASE(x.tokens[FIRST_BYTE + 7].n = 0, STATUS_UNSUPPORTED, "<0x07> is missing");
    CASE(x.tokens[FIRST_BYTE + 7] = text_slice("seven"), STATUS_BAD_FILE, "byte token 10");
    CASE((x.tokens[LETTERS + 2] = (struct lane_text_slice){big, sizeof big}), STATUS_UNSUPPORTED,
         "token 261 is longer");
    CASE((x.tokens[LETTERS + 2] = (struct lane_text_slice){big, SIZE_MAX / 2}, x.in.n_tokens = 3,
          x.tokens[2] = (struct lane_text_slice){big, sizeof big}),
         STATUS_BAD_FILE, "added token 2 has 3000 bytes");
    CASE(x.in.chat_template = ((struct lane_text_slice){"a\0b", 3}), STATUS_BAD_FILE,
         "tokenizer.chat_template");
    /* byte-level */
    struct lane_text_slice merge = text_slice("a b");
#define BYTES(change, status, named)                                                               \
    CASE((x.in.model = text_slice("gpt2"), x.in.merges = &merge, x.in.n_merges = 1, change),       \
         status, named)
    BYTES(x.in.pre = text_slice("tekken"), STATUS_UNSUPPORTED, "pre-tokenizer \"tekken\"");
    BYTES(x.in.pre = text_slice("default "), STATUS_UNSUPPORTED, "\"default \"");
    BYTES(x.in.n_merges = 0, STATUS_BAD_FILE, "tokenizer.ggml.merges is missing");
    BYTES(merge = text_slice("ab"), STATUS_BAD_FILE, "merge 0 is not a pair");
    BYTES(merge = text_slice("ab "), STATUS_BAD_FILE, "merge 0 is not a pair");
    BYTES((merge.n = 0), STATUS_BAD_FILE, "merge 0 is not a pair");
    BYTES(merge = text_slice("a q"), STATUS_BAD_FILE, "merge 0 has a token");
    BYTES((merge = text_slice("a b"), x.in.eos = LETTERS + 4), STATUS_UNSUPPORTED,
          "makes the special token 263");
#undef BYTES
#undef CASE
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text tables");
    TCase *tests = tcase_create("tables");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pres_as_published);
    tcase_add_test(tests, types_and_scores);
    tcase_add_test(tests, any_bytes_come_back);
    tcase_add_test(tests, scores_as_the_simplest_way);
    tcase_add_test(tests, chats_as_published);
    tcase_add_test(tests, chats_from_tables);
    tcase_add_test(tests, refused_by_name);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
