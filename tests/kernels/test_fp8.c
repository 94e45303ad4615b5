/* SPDX-License-Identifier: Apache-2.0
 * Directories whose matrices are F8_E4M3 with scales: every byte's value by every kind of scale,
 * scales that are hostile, shapes that are no multiple of a block; what is refused, and by which
 * words.
 */
#include "tests/kernels/model_dir.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/approx.h"

enum { N = 131, K = 203, ROWS_A_SCALE = 128, BYTES_MAX = 1 << 17 };

struct item {
    const char *name, *dtype, *shape;
    uint64_t bytes;
    const void *data;
};

static void write_items(const char *dir, const struct item *items, uint32_t n) {
    static unsigned char file[BYTES_MAX];
    char header[1 << 14];
    uint64_t at = 0, size;
    int h = snprintf(header, sizeof header, "{");
    for (uint32_t i = 0; i < n; at += items[i++].bytes)
        h += snprintf(header + h, sizeof header - (size_t)h,
                      "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64
                      ",%" PRIu64 "]}",
                      i == 0 ? "" : ",", items[i].name, items[i].dtype, items[i].shape, at,
                      at + items[i].bytes);
    h += snprintf(header + h, sizeof header - (size_t)h, "}");
    size = (uint64_t)h;
    memcpy(file, &size, 8);
    memcpy(file + 8, header, size);
    size += 8;
    for (uint32_t i = 0; i < n; size += items[i++].bytes)
        memcpy(file + size, items[i].data, items[i].bytes);
    write_file(dir, "model.safetensors", file, size);
}

/* A directory whose config.json says this of quantization. */
static void make_dir(char *dir, const char *quantization) {
    make_model_dir(dir, 1);
    size_t n;
    char *config = read_file(dir, "config.json", &n), *made = malloc(n + 1024);
    ck_assert_ptr_nonnull(made);
    char *brace = strchr(config, '{');
    ck_assert_ptr_nonnull(brace);
    int size = snprintf(made, n + 1024, "{\"quantization_config\":%s,%s", quantization, brace + 1);
    write_file(dir, "config.json", made, (size_t)size);
    free(config);
    free(made);
}

/* A byte by the definition: no code of the reader's. */
static double e4m3(unsigned char b) {
    int e = b >> 3 & 15, m = b & 7;
    double size = e == 15 && m == 7 ? (double)NAN : e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
    return b >= 128 ? -size : size;
}

static bool same(float a, float b) {
    return (a != a && b != b) || krn_bits(a) == krn_bits(b);
}

/* Hostile scales among ordinary ones. */
static float any_scale(uint32_t i) {
    static const float hostile[] = {NAN,          INFINITY,   0.0F, 0x1p-149F,
                                    -0x1.fp-130F, 0x1.8p127F, -0.0F};
    return i % 3 == 1 ? hostile[i / 3 % 7] : 0x1.2345p-7F * (float)(1 + i % 11);
}

static void fill(unsigned char *w) {
    for (uint32_t i = 0; i < N * K; i++)
        w[i] = (unsigned char)(i * 7 + i / 256);
}

/* The matrix against scale(row, column), bit for bit, and nothing else in the model. */
static void check(const char *dir, const unsigned char *w, const float *scales, uint32_t rows,
                  uint32_t columns, uint32_t across) {
    struct krn_model *m = NULL;
    OK(krn_model_open(dir, &m, &note));
    const struct krn_tensor *t = krn_model_tensor(m, "a.weight");
    ck_assert(t != NULL && t->dtype == KRN_F32 && t->n_dims == 2);
    ck_assert(t->dims[0] == N && t->dims[1] == K && t->bytes == 4 * N * K);
    ck_assert_uint_eq(m->n_tensors, 1);
    ck_assert_uint_eq(m->parameters, N * K);
    for (uint32_t i = 0; i < N * K; i++) {
        float scale = scales[i / K / rows * across + i % K / columns];
        float want = (float)((double)scale * e4m3(w[i])), got = ((const float *)t->data)[i];
        ck_assert_msg(same(got, want), "row %u, column %u: %a for %a", i / K, i % K, (double)got,
                      (double)want);
    }
    krn_model_close(m);
}

static const char by_blocks[] = "{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":"
                                "\"dynamic\",\"weight_block_size\":[128,64]}";
static const char by_channel[] =
    "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_groups\":"
    "{\"group_0\":{\"weights\":{\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\","
    "\"symmetric\":true}}},\"kv_cache_scheme\":null}";
static const char by_tensor[] = "{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}";

START_TEST(scales_of_blocks) {
    static unsigned char w[N * K];
    float scales[2 * 4];
    char dir[64];
    fill(w);
    for (uint32_t round = 0; round < 7; round++) {
        for (uint32_t i = 0; i < 8; i++)
            scales[i] = any_scale(i + round);
        make_dir(dir, by_blocks);
        const struct item items[] = {{"a.weight_scale_inv", "F32", "[2,4]", sizeof scales, scales},
                                     {"a.weight", "F8_E4M3", "[131,203]", sizeof w, w}};
        write_items(dir, items, 2);
        check(dir, w, scales, ROWS_A_SCALE, 64, 4);
        scratch_remove(dir);
    }
}
END_TEST

START_TEST(scales_of_rows) {
    static unsigned char w[N * K];
    static const char *const shapes[] = {"[131,1]", "[131]"};
    float scales[N];
    uint16_t halves[N];
    char dir[64];
    fill(w);
    for (uint32_t i = 0; i < N; i++) {
        halves[i] = (uint16_t)(krn_bits(any_scale(i)) >> 16);
        scales[i] = krn_widen_bf16(halves[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        make_dir(dir, by_channel);
        const struct item items[] = {{"a.weight", "F8_E4M3", "[131,203]", sizeof w, w},
                                     {"a.weight_scale", "BF16", shapes[i], sizeof halves, halves}};
        write_items(dir, items, 2);
        check(dir, w, scales, 1, K, 1);
        scratch_remove(dir);
    }
}
END_TEST

START_TEST(one_scale) {
    static unsigned char w[N * K];
    static const char *const shapes[] = {"[]", "[1]", "[1,1]"};
    const float scale = 0x1.fedcbap-9F;
    char dir[64];
    fill(w);
    for (uint32_t i = 0; i < 3; i++) {
        make_dir(dir, by_tensor);
        const struct item items[] = {{"a.weight_scale", "F32", shapes[i], sizeof scale, &scale},
                                     {"a.weight", "F8_E4M3", "[131,203]", sizeof w, w}};
        write_items(dir, items, 2);
        check(dir, w, &scale, N, K, 1);
        scratch_remove(dir);
    }
}
END_TEST

/* Many matrices, whose names begin alike and end each other: each has its own scale. */
START_TEST(many_matrices) {
    enum { MANY = 60 };
    static char names[2 * MANY][32];
    static const unsigned char w[4] = {0x38, 0x40, 0xb8, 0x00}; /* 1, 2, -1, 0 */
    float scales[MANY];
    struct item items[2 * MANY];
    char dir[64];
    struct krn_model *m = NULL;
    for (uint32_t i = 0; i < MANY; i++) { /* a, aa, ..., b, ba, ... */
        uint32_t at = i * 7 % MANY;
        for (uint32_t k = 0; k < 2; k++)
            snprintf(names[2 * i + k], sizeof names[0], "%c%.*s.weight%s", 'a' + (int)(at / 10),
                     (int)(at % 10), "aaaaaaaaaa", k == 0 ? "" : "_scale");
        scales[i] = (float)(1 + i);
        items[2 * i] = (struct item){names[2 * i], "F8_E4M3", "[1,4]", 4, w};
        items[2 * i + 1] = (struct item){names[2 * i + 1], "F32", "[1]", 4, &scales[i]};
    }
    make_dir(dir, by_tensor);
    write_items(dir, items, 2 * MANY);
    OK(krn_model_open(dir, &m, &note));
    ck_assert_uint_eq(m->n_tensors, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        const struct krn_tensor *t = krn_model_tensor(m, names[2 * i]);
        ck_assert_ptr_nonnull(t);
        const float want[4] = {scales[i], 2 * scales[i], -scales[i], 0};
        ck_assert_mem_eq(t->data, want, sizeof want);
    }
    krn_model_close(m);
    scratch_remove(dir);
}
END_TEST

/* Opening says these words. */
static void refused(const char *quantization, const struct item *items, uint32_t n,
                    const char *words) {
    char dir[64];
    struct krn_model *m = NULL;
    make_dir(dir, quantization);
    if (n > 0)
        write_items(dir, items, n);
    ck_assert_int_ne(krn_model_open(dir, &m, &note), STATUS_OK);
    ck_assert_msg(strstr(note.text, words) != NULL, "%s: not '%s'", note.text, words);
    scratch_remove(dir);
}

START_TEST(refused_scales) {
    static const unsigned char w[64];
    static const float s[64];
    static const struct item matrix = {"a.weight", "F8_E4M3", "[8,8]", 64, w};
    refused(by_blocks, &matrix, 1, "with no scales");
    const struct item two[] = {matrix,
                               {"a.weight_scale", "F32", "[8]", 32, s},
                               {"a.weight_scale_inv", "F32", "[8]", 32, s}};
    refused(by_tensor, two, 3, "with two scales");
    const struct item shape[] = {matrix, {"a.weight_scale", "F32", "[7]", 28, s}};
    refused(by_tensor, shape, 2, "neither one, nor one a row");
    refused(by_blocks, shape, 2, "neither one, nor one a row");
    const struct item across[] = {matrix, {"a.weight_scale", "F32", "[2,4]", 32, s}};
    refused(by_tensor, across, 2, "neither one, nor one a row");
    const struct item type[] = {matrix, {"a.weight_scale", "I32", "[8]", 32, s}};
    refused(by_tensor, type, 2, "scales of I32");
}
END_TEST

START_TEST(refused_schemes) {
#define GROUP(weights)                                                                             \
    "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"g\":{\"weights\":" weights "}}" \
    "}"
#define BLOCK(sizes)                                                                               \
    "{\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":[" sizes "]}"
    static const char *const all[][2] = {
        {"{\"quant_method\":\"gptq\"}", "asks for gptq"},
        {"[]", "asks for unnamed"},
        {"{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", "fp8 of e5m2"},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}", "not two sizes"},
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}", "not two sizes"},
        {"{\"quant_method\":\"compressed-tensors\"}", "has no config_groups"},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}",
         "the format pack-quantized"},
        {"{\"quant_method\":\"compressed-tensors\",\"kv_cache_scheme\":{}}", "kv_cache_scheme"},
        {GROUP("{\"num_bits\":4,\"type\":\"int\"}"), "weights of int"},
        {GROUP("{\"num_bits\":8,\"type\":\"float\",\"strategy\":\"token\"}"), "scales by token"},
        {GROUP("{\"num_bits\":8,\"type\":\"float\",\"symmetric\":false}"), "zero points"},
        {GROUP("{\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\"}"), "not two sizes"},
        {GROUP(BLOCK("100,64") "},\"h\":{\"weights\":" BLOCK("128,64")), "more than one size"}};
    const struct item none = {0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        refused(all[i][0], &none, 0, all[i][1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fp8");
    TCase *t = tcase_create("fp8");
    tcase_add_test(t, scales_of_blocks);
    tcase_add_test(t, scales_of_rows);
    tcase_add_test(t, one_scale);
    tcase_add_test(t, many_matrices);
    tcase_add_test(t, refused_scales);
    tcase_add_test(t, refused_schemes);
    suite_add_tcase(suite, t);
    return test_run(suite);
}
