/* SPDX-License-Identifier: Apache-2.0
 * Hostile and broken weight files: each is refused with its status, in one line that names file,
 * tensor and value, and nothing stays mapped or open.
 */
#include "tests/kernels/model_dir.h"

#include <sys/stat.h>

#define ST "model.safetensors"

/* A safetensors file: header text, its length field when it lies, and bytes of data. */
struct header_case {
    const char *what, *header;
    uint64_t data, length; /* length 0: the header's own */
    const char *words[MODEL_DIR_WORDS];
};

#define A(dtype, shape, offsets)                                                                   \
    "\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define B(dtype, shape, offsets)                                                                   \
    "\"b\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define F32   "\"F32\""
#define DEEP8 "[[[[[[[["

static const struct header_case header_cases[] = {
    {"length wraps", "{}", 0, UINT64_MAX, {ST, "18446744073709551615", "limit"}},
    {"length + 8 wraps", "{}", 0, UINT64_MAX - 7, {ST, "18446744073709551608", "limit"}},
    {"length has its sign bit", "{}", 0, 1ULL << 63, {ST, "9223372036854775808", "limit"}},
    {"length over the limit", "{}", 0, 100000001, {ST, "100000001", "limit of 100000000"}},
    {"length beyond the file", "{}", 0, 1000, {ST, "1000 is beyond", "10 bytes"}},
    {"length one beyond the file", "{}", 5, 8, {ST, "8 is beyond", "15 bytes"}},
    {"no header", "", 0, 0, {ST, "does not begin with {"}},
    {"blank before the brace", " {}", 0, 0, {ST, "does not begin with {"}},
    {"an array", "[]", 0, 0, {ST, "does not begin with {"}},
    {"cut JSON", "{\"a\":", 0, 0, {ST, "not valid JSON"}},
    {"length inside the JSON", "{" A(F32, "[1]", "[0,4]") "}", 4, 9, {ST, "not valid JSON"}},
    {"bytes after the JSON", "{}x", 0, 0, {ST, "not valid JSON", "end of file"}},
    {"zero byte in a name", "{\"a\\u0000b\":{}}", 0, 0, {ST, "not valid JSON"}},
    {"name is not UTF-8", "{\"a\xff\":{}}", 0, 0, {ST, "not valid JSON", "0xff"}},
    {"name is a lone surrogate", "{\"a\\ud800\":{}}", 0, 0, {ST, "not valid JSON"}},
    {"duplicate name",
     "{" A(F32, "[1]", "[0,4]") "," A(F32, "[1]", "[4,8]") "}",
     8,
     0,
     {ST, "duplicate object key", "\"a\""}},
    {"duplicate field",
     "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     0,
     {ST, "duplicate object key"}},
    {"deep JSON",
     "{\"a\":" DEEP8 DEEP8 DEEP8 DEEP8 DEEP8,
     0,
     0,
     {ST, "nests deeper than 32", "at byte 36"}},
    {"empty name",
     "{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     0,
     {ST, "name is empty"}},
    {"control characters in a name",
     "{\"a\\n\\u001bb\":7}",
     0,
     0,
     {ST, "tensor a\\x0a\\x1bb", "not an object"}},
    {"entry is a list", "{\"a\":[]}", 0, 0, {ST, "tensor a", "not an object"}},
    {"entry is null", "{\"a\":null}", 0, 0, {ST, "tensor a", "not an object"}},
    {"no dtype",
     "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     0,
     {ST, "tensor a", "dtype is missing"}},
    {"dtype is a number",
     "{" A("7", "[1]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "dtype is not a string"}},
    {"dtype unknown",
     "{" A("\"F33\"", "[1]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "unknown dtype \"F33\""}},
    {"dtype in small letters",
     "{" A("\"f32\"", "[1]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "unknown dtype \"f32\""}},
    {"no shape",
     "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
     4,
     0,
     {ST, "tensor a", "shape is missing"}},
    {"shape is a number",
     "{" A(F32, "1", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "shape is not a list"}},
    {"negative dimension", "{" A(F32, "[-1]", "[0,4]") "}", 4, 0, {ST, "tensor a", "dimension 0"}},
    {"dimension is a real",
     "{" A(F32, "[2, 1.0]", "[0,8]") "}",
     8,
     0,
     {ST, "tensor a", "dimension 1"}},
    {"dimension over 63 bits",
     "{" A(F32, "[9223372036854775808]", "[0,4]") "}",
     4,
     0,
     {ST, "in a.shape:", "too big integer"}},
    {"shape overflows",
     "{" A(F32, "[4294967296,4294967296,4]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "overflows at dimension 1", "4294967296"}},
    {"shape overflows to zero and on",
     "{" A(F32, "[4294967296,4294967296,0]", "[0,0]") "}",
     0,
     0,
     {ST, "tensor a", "overflows"}},
    {"bytes overflow",
     "{" A(F32, "[4611686018427387904]", "[0,0]") "}",
     0,
     0,
     {ST, "tensor a", "4611686018427387904 elements of F32 overflow"}},
    {"half a byte",
     "{" A("\"F4\"", "[3]", "[0,1]") "}",
     1,
     0,
     {ST, "tensor a", "3 elements of F4 are not whole bytes"}},
    {"no offsets",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}",
     4,
     0,
     {ST, "tensor a", "data_offsets is missing"}},
    {"one offset",
     "{" A(F32, "[1]", "[4]") "}",
     4,
     0,
     {ST, "tensor a", "data_offsets is not a list of two"}},
    {"three offsets",
     "{" A(F32, "[1]", "[0,4,8]") "}",
     8,
     0,
     {ST, "tensor a", "data_offsets is not a list of two"}},
    {"negative offset",
     "{" A(F32, "[1]", "[-4,0]") "}",
     4,
     0,
     {ST, "tensor a", "data_offsets", "whole numbers"}},
    {"offset is text",
     "{" A(F32, "[1]", "[\"0\",4]") "}",
     4,
     0,
     {ST, "tensor a", "data_offsets", "whole numbers"}},
    {"offsets run backwards",
     "{" A(F32, "[1]", "[4,0]") "}",
     4,
     0,
     {ST, "tensor a", "4 to 0 run backwards"}},
    {"offset beyond the data",
     "{" A(F32, "[1]", "[0,4]") "}",
     3,
     0,
     {ST, "tensor a", "end at 4 of 3 data bytes"}},
    {"offset far beyond the data",
     "{" A(F32, "[1]", "[9223372036854775803,9223372036854775807]") "}",
     4,
     0,
     {ST, "tensor a", "end at 9223372036854775807 of 4"}},
    {"too few bytes for the shape",
     "{" A(F32, "[2]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "takes 8 bytes of F32", "hold 4"}},
    {"too many bytes for the shape",
     "{" A("\"BF16\"", "[1]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "takes 2 bytes of BF16", "hold 4"}},
    {"bytes with an empty shape's dimension",
     "{" A(F32, "[0,5]", "[0,4]") "}",
     4,
     0,
     {ST, "tensor a", "takes 0 bytes of F32", "hold 4"}},
    {"overlap",
     "{" A(F32, "[2]", "[0,8]") "," B(F32, "[2]", "[4,12]") "}",
     12,
     0,
     {ST, "tensor b", "overlaps the data of a"}},
    {"the same data twice",
     "{" A(F32, "[2]", "[0,8]") "," B(F32, "[2]", "[0,8]") "}",
     8,
     0,
     {ST, "tensor b", "overlaps the data of a"}},
    {"one inside another",
     "{" A(F32, "[4]", "[0,16]") "," B(F32, "[1]", "[4,8]") "}",
     16,
     0,
     {ST, "tensor b", "overlaps the data of a"}},
    {"an empty tensor inside another",
     "{" A(F32, "[4]", "[0,16]") "," B(F32, "[0]", "[8,8]") "}",
     16,
     0,
     {ST, "tensor b", "overlaps the data of a"}},
    {"hole at the start",
     "{" A(F32, "[1]", "[4,8]") "}",
     8,
     0,
     {ST, "tensor a", "4 bytes before its data"}},
    {"hole in the middle",
     "{" A(F32, "[1]", "[0,4]") "," B(F32, "[1]", "[5,9]") "}",
     9,
     0,
     {ST, "tensor b", "1 bytes before its data"}},
    {"hole at the end",
     "{" A(F32, "[1]", "[0,4]") "}",
     7,
     0,
     {ST, "tensor a", "3 bytes after its data"}},
    {"data of nobody", "{}", 64, 0, {ST, "no tensors for 64 data bytes"}},
    {"unknown field",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"strides\":[1]}}",
     4,
     0,
     {ST, "tensor a", "unknown field \"strides\""}},
    {"metadata is a list", "{\"__metadata__\":[]}", 0, 0, {ST, "__metadata__ is not an object"}},
    {"metadata holds a number",
     "{\"__metadata__\":{\"n\":1}}",
     0,
     0,
     {ST, "__metadata__ field n is not a string"}},
};
enum { HEADER_CASES = sizeof header_cases / sizeof header_cases[0] };

static void write_tensors(const char *dir, const char *name, const char *header, uint64_t length,
                          uint64_t data) {
    char bytes[4096] = {0};
    size_t n = strlen(header);
    uint64_t field = length != 0 ? length : n;
    ck_assert_uint_le(8 + n + data, sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(field >> (8 * i));
    memcpy(bytes + 8, header, n);
    write_file(dir, name, bytes, 8 + n + data);
}

START_TEST(test_header) {
    const struct header_case *c = &header_cases[_i];
    char dir[64];
    make_model_dir(dir, 1);
    write_tensors(dir, ST, c->header, c->length, c->data);
    check_refused(dir, STATUS_BAD_FILE, c->words, c->what);
    scratch_remove(dir);
}
END_TEST

/* The same faults met in the second of three shards: the first was mapped already. */
START_TEST(test_header_in_shard) {
    const struct header_case *c = &header_cases[_i];
    const char *words[MODEL_DIR_WORDS];
    char dir[64];
    memcpy(words, c->words, sizeof words);
    words[0] = "model-00002-of-00003.safetensors";
    make_model_dir(dir, 3);
    write_tensors(dir, words[0], c->header, c->length, c->data);
    check_refused(dir, STATUS_BAD_FILE, words, c->what);
    scratch_remove(dir);
}
END_TEST

/* Every length of a cut file is refused; the whole file opens. */
START_TEST(test_truncated) {
    char dir[64];
    const char *const words[MODEL_DIR_WORDS] = {ST};
    make_model_dir(dir, 1);
    size_t size;
    char *bytes = read_file(dir, ST, &size);
    size_t header = 0;
    memcpy(&header, bytes, 4);
    for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 977) {
        write_file(dir, ST, bytes, cut);
        check_refused(dir, STATUS_BAD_FILE, words, "cut file");
    }
    for (size_t cut = 8 + header - 2; cut <= 8 + header + 2; cut++) {
        write_file(dir, ST, bytes, cut);
        check_refused(dir, STATUS_BAD_FILE, words, "cut at the header's end");
    }
    write_file(dir, ST, bytes, size);
    struct krn_model *m;
    OK(krn_model_open(dir, &m, &note));
    ck_assert_int_eq(mappings_of(dir), 1);
    krn_model_close(m);
    ck_assert_int_eq(mappings_of(dir), 0);
    free(bytes);
    scratch_remove(dir);
}
END_TEST

/* A name of 5,000 bytes is refused and cut in the message. */
START_TEST(test_long_name) {
    enum { NAME = 5000 };
    char dir[64], *bytes = calloc(1, NAME + 200);
    const char *const words[MODEL_DIR_WORDS] = {ST, "nnn...", "5000 bytes, at most 1024"};
    ck_assert_ptr_nonnull(bytes);
    make_model_dir(dir, 1);
    char *at = bytes + 8;
    *at++ = '{';
    *at++ = '"';
    memset(at, 'n', NAME);
    at += NAME;
    at += sprintf(at, "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    uint64_t length = (uint64_t)(at - (bytes + 8));
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i));
    write_file(dir, ST, bytes, (size_t)(at - bytes) + 4);
    check_refused(dir, STATUS_BAD_FILE, words, "long name");
    free(bytes);
    scratch_remove(dir);
}
END_TEST

/* A header with more values than a tree may hold is refused before the tree is built. */
START_TEST(test_many_values) {
    enum { VALUES = (1 << 23) + 16 };
    char dir[64], *bytes = malloc(8 + 2 * VALUES + 16);
    const char *const words[MODEL_DIR_WORDS] = {ST, "more than 8388608 values"};
    ck_assert_ptr_nonnull(bytes);
    make_model_dir(dir, 1);
    char *at = bytes + 8;
    at += sprintf(at, "{\"a\":[0");
    for (int i = 0; i < VALUES; i++) {
        *at++ = ',';
        *at++ = '0';
    }
    at += sprintf(at, "]}");
    uint64_t length = (uint64_t)(at - (bytes + 8));
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i));
    write_file(dir, ST, bytes, (size_t)(at - bytes));
    check_refused(dir, STATUS_BAD_FILE, words, "many values");
    free(bytes);
    scratch_remove(dir);
}
END_TEST

/* An index file (or "" for none) over three good shards. */
struct index_case {
    const char *what, *index;
    enum status status;
    const char *words[MODEL_DIR_WORDS];
};

#define IX       "model.safetensors.index.json"
#define MAP(map) "{\"metadata\":{\"total_size\":1},\"weight_map\":" map "}"

static const struct index_case index_cases[] = {
    {"empty file", "", STATUS_BAD_FILE, {IX, "is empty"}},
    {"not JSON", "weights", STATUS_BAD_FILE, {IX, "not valid JSON"}},
    {"a list", "[]", STATUS_BAD_FILE, {IX, "not an object"}},
    {"no map", "{\"metadata\":{}}", STATUS_BAD_FILE, {IX, "weight_map is missing"}},
    {"map is a list", MAP("[]"), STATUS_BAD_FILE, {IX, "weight_map is not an object"}},
    {"map is empty", MAP("{}"), STATUS_BAD_FILE, {IX, "weight_map is empty"}},
    {"maps to a number", MAP("{\"a\":1}"), STATUS_BAD_FILE, {IX, "tensor a", "a name"}},
    {"path upwards",
     MAP("{\"a\":\"../x.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "tensor a", "\"../x.safetensors\"", "plain"}},
    {"absolute path",
     MAP("{\"a\":\"/etc/x.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "tensor a", "\"/etc/x.safetensors\"", "plain"}},
    {"path of a folder",
     MAP("{\"a\":\"sub/x.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "tensor a", "\"sub/x.safetensors\"", "plain"}},
    {"backslash",
     MAP("{\"a\":\"..\\\\x.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "tensor a", "plain"}},
    {"empty file name", MAP("{\"a\":\"\"}"), STATUS_BAD_FILE, {IX, "tensor a", "\"\"", "plain"}},
    {"two dots", MAP("{\"a\":\"..\"}"), STATUS_BAD_FILE, {IX, "tensor a", "\"..\"", "plain"}},
    {"hidden file", MAP("{\"a\":\".safetensors\"}"), STATUS_BAD_FILE, {IX, "tensor a", "plain"}},
    {"another ending",
     MAP("{\"a\":\"x.bin\"}"),
     STATUS_BAD_FILE,
     {IX, "tensor a", "\"x.bin\"", "plain"}},
    {"shard that is not there",
     MAP("{\"a\":\"none.safetensors\"}"),
     STATUS_NOT_FOUND,
     {"none.safetensors", "cannot open"}},
    {"duplicate tensor",
     MAP("{\"a\":\"none.safetensors\",\"a\":\"none.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "duplicate object key"}},
    {"tensor that no shard holds",
     MAP("{\"a\":\"model-00001-of-00003.safetensors\"}"),
     STATUS_BAD_FILE,
     {IX, "lm_head.weight of model-00001-of-00003.safetensors", "not in the index"}},
};
enum { INDEX_CASES = sizeof index_cases / sizeof index_cases[0] };

START_TEST(test_index) {
    const struct index_case *c = &index_cases[_i];
    char dir[64];
    make_model_dir(dir, 3);
    write_file(dir, IX, c->index, strlen(c->index));
    check_refused(dir, c->status, c->words, c->what);
    scratch_remove(dir);
}
END_TEST

/* Replaces `from` by `to` in a file of the directory. */
static void edit(const char *dir, const char *name, const char *from, const char *to) {
    size_t n;
    char *bytes = read_file(dir, name, &n);
    char *out = malloc(n + strlen(to) + 1);
    ck_assert_ptr_nonnull(out);
    char *at = memmem(bytes, n, from, strlen(from));
    ck_assert_msg(at != NULL, "no \"%s\" in %s", from, name);
    size_t before = (size_t)(at - bytes), after = n - before - strlen(from);
    memcpy(out, bytes, before);
    memcpy(out + before, to, strlen(to));
    memcpy(out + before + strlen(to), at + strlen(from), after);
    write_file(dir, name, out, before + strlen(to) + after);
    free(bytes);
    free(out);
}

/* A good index changed in one entry. */
static const struct {
    const char *what, *from, *to;
    const char *words[MODEL_DIR_WORDS];
} entry_cases[] = {
    {"tensor is in another shard",
     "\"lm_head.weight\": \"model-00001",
     "\"lm_head.weight\": \"model-00002",
     {IX, "lm_head.weight maps to model-00002", "is in model-00001"}},
    {"index lacks a tensor",
     "\"lm_head.weight\"",
     "\"head\"",
     {IX, "lm_head.weight of model-00001", "not in the index"}},
    {"shards lack a tensor",
     "\"lm_head.weight\"",
     "\"zzz\": \"model-00003-of-00003.safetensors\", \"lm_head.weight\"",
     {IX, "tensor zzz is not in model-00003-of-00003.safetensors"}},
};
enum { ENTRY_CASES = sizeof entry_cases / sizeof entry_cases[0] };

START_TEST(test_index_entry) {
    char dir[64];
    make_model_dir(dir, 3);
    edit(dir, IX, entry_cases[_i].from, entry_cases[_i].to);
    check_refused(dir, STATUS_BAD_FILE, entry_cases[_i].words, entry_cases[_i].what);
    scratch_remove(dir);
}
END_TEST

/* Two shards that hold the same tensor. */
START_TEST(test_index_twice) {
    const char *const words[MODEL_DIR_WORDS] = {IX, "lm_head.weight", "not in the index"};
    char dir[64];
    size_t n;
    make_model_dir(dir, 3);
    char *bytes = read_file(dir, "model-00001-of-00003.safetensors", &n);
    write_file(dir, "model-00002-of-00003.safetensors", bytes, n);
    check_refused(dir, STATUS_BAD_FILE, words, "the same tensors twice");
    free(bytes);
    scratch_remove(dir);
}
END_TEST

/* Things of the wrong kind in a place of the directory. */
enum kind { GONE, EMPTY, FOLDER, FIFO, DANGLING, LOOP };
static const struct {
    const char *name;
    enum kind kind;
    enum status status;
    const char *words[MODEL_DIR_WORDS];
} place_cases[] = {
    {"config.json", GONE, STATUS_NOT_FOUND, {"config.json", "cannot open"}},
    {"config.json", EMPTY, STATUS_BAD_FILE, {"config.json", "is empty"}},
    {"config.json", FOLDER, STATUS_BAD_FILE, {"config.json", "is a directory"}},
    {"config.json", FIFO, STATUS_BAD_FILE, {"config.json", "not a regular file"}},
    {"config.json", DANGLING, STATUS_NOT_FOUND, {"config.json", "cannot open"}},
    {"config.json", LOOP, STATUS_IO, {"config.json", "cannot open"}},
    {"generation_config.json", EMPTY, STATUS_BAD_FILE, {"generation_config.json", "is empty"}},
    {"generation_config.json", FOLDER, STATUS_BAD_FILE, {"generation_config.json", "directory"}},
    {"generation_config.json", DANGLING, STATUS_NOT_FOUND, {"generation_config.json", "open"}},
    {ST, GONE, STATUS_NOT_FOUND, {"neither " ST " nor " IX}},
    {ST, EMPTY, STATUS_BAD_FILE, {ST, "is empty"}},
    {ST, FOLDER, STATUS_BAD_FILE, {ST, "is a directory"}},
    {ST, FIFO, STATUS_BAD_FILE, {ST, "not a regular file"}},
    {ST, DANGLING, STATUS_NOT_FOUND, {ST, "cannot open"}},
    {ST, LOOP, STATUS_IO, {ST, "cannot open"}},
};
enum { PLACE_CASES = sizeof place_cases / sizeof place_cases[0] };

START_TEST(test_place) {
    char dir[64], path[512];
    make_model_dir(dir, 1);
    join(path, dir, place_cases[_i].name);
    ck_assert_int_eq(unlink(path), 0);
    int made = 0;
    switch (place_cases[_i].kind) {
    case GONE:
        break;
    case EMPTY:
        write_file(dir, place_cases[_i].name, "", 0);
        break;
    case FOLDER:
        made = mkdir(path, 0700);
        break;
    case FIFO:
        made = mkfifo(path, 0600);
        break;
    case DANGLING:
        made = symlink("nowhere", path);
        break;
    case LOOP:
        made = symlink(place_cases[_i].name, path);
        break;
    }
    ck_assert_int_eq(made, 0);
    check_refused(dir, place_cases[_i].status, place_cases[_i].words, place_cases[_i].name);
    scratch_remove(dir);
}
END_TEST

START_TEST(test_not_a_directory) {
    char dir[64], path[512];
    make_model_dir(dir, 1);
    join(path, dir, ST);
    check_refused(path, STATUS_BAD_FILE, (const char *[MODEL_DIR_WORDS]){ST, "is a file"}, "file");
    join(path, dir, "nothing");
    check_refused(path, STATUS_NOT_FOUND, (const char *[MODEL_DIR_WORDS]){"nothing", "no model"},
                  "nothing");
    check_refused("", STATUS_NOT_FOUND, (const char *[MODEL_DIR_WORDS]){"no model"}, "no path");
    char *deep = malloc(6000);
    ck_assert_ptr_nonnull(deep);
    deep[0] = '\0';
    for (int i = 0; i < 2500; i++)
        memcpy(deep + 2 * i, "./", 3);
    check_refused(deep, STATUS_IO, (const char *[MODEL_DIR_WORDS]){"./", "no model"}, "long path");
    free(deep);
    scratch_remove(dir);
}
END_TEST

START_TEST(test_other_formats) {
    char dir[64], path[512];
    make_model_dir(dir, 1);
    join(path, dir, ST);
    ck_assert_int_eq(unlink(path), 0);
    write_file(dir, "pytorch_model.bin", "x", 1);
    check_refused(dir, STATUS_BAD_MODEL,
                  (const char *[MODEL_DIR_WORDS]){"has pytorch_model.bin", "reads " ST}, "pickle");
    scratch_remove(dir);
}
END_TEST

/* A config.json beyond the limit is refused by its size, unread. */
START_TEST(test_large_config) {
    char dir[64], path[512];
    make_model_dir(dir, 1);
    join(path, dir, "config.json");
    ck_assert_int_eq(truncate(path, (1 << 20) + 1), 0);
    check_refused(dir, STATUS_TOO_LARGE,
                  (const char *[MODEL_DIR_WORDS]){"config.json", "1048577", "1048576"}, "large");
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights_hostile");
    TCase *t = tcase_create("hostile");
    tcase_add_loop_test(t, test_header, 0, HEADER_CASES);
    tcase_add_loop_test(t, test_header_in_shard, 0, HEADER_CASES);
    tcase_add_test(t, test_truncated);
    tcase_add_test(t, test_long_name);
    tcase_add_test(t, test_many_values);
    tcase_add_loop_test(t, test_index, 0, INDEX_CASES);
    tcase_add_loop_test(t, test_index_entry, 0, ENTRY_CASES);
    tcase_add_test(t, test_index_twice);
    tcase_add_loop_test(t, test_place, 0, PLACE_CASES);
    tcase_add_test(t, test_not_a_directory);
    tcase_add_test(t, test_other_formats);
    tcase_add_test(t, test_large_config);
    suite_add_tcase(s, t);
    return test_run(s);
}
