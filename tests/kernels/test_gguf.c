/* SPDX-License-Identifier: Apache-2.0
 * GGUF files as models: the same model as the Hugging Face layout gives, to the last bit; blocked
 * weights as their exact values; what is not known refused by name.
 */
#include "tests/kernels/model_dir.h"

#include <math.h>

#include "kernels/approx.h"
#include "kernels/oracle.h"
#include "kernels/quant/quant.h"
#include "tests/kernels/gguf_make.h"

enum { TOKENS = 6 };

static struct krn_config wide_config(void) {
    return (struct krn_config){.vocab = 60,
                               .hidden = 256,
                               .layers = 1,
                               .heads = 4,
                               .kv_heads = 1,
                               .head_dim = 64,
                               .ffn = 256,
                               .context = 16384,
                               .norm_eps = 1e-5F,
                               .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000.0}};
}

static struct krn_model *synthetic(const struct krn_config *c, enum krn_dtype dtype) {
    struct krn_model *m = NULL;
    OK(krn_model_synthetic(c, dtype, 17, &m, &note));
    return m;
}

/* Writes what was made as dir/name and opens it. */
static struct krn_model *open_made(struct gguf_make *make, const char *dir, const char *name) {
    size_t n;
    char path[512];
    struct krn_model *m = NULL;
    unsigned char *bytes = gguf_end(make, &n);
    write_file(dir, name, bytes, n);
    free(bytes);
    join(path, dir, name);
    OK(krn_model_open(path, &m, &note));
    ck_assert_int_eq(mappings_of(path), 1);
    return m;
}

/* The model as the Hugging Face layout, read back. */
static struct krn_model *open_saved(const struct krn_model *made, const char *dir) {
    char path[512];
    struct krn_model *m = NULL;
    join(path, dir, "hf");
    OK(krn_model_save(made, path, 1, &note));
    OK(krn_model_open(path, &m, &note));
    return m;
}

static void check_same(const struct krn_model *a, const struct krn_model *b) {
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct krn_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert_msg(x->dtype == y->dtype && x->n_dims == y->n_dims && x->bytes == y->bytes, "%s",
                      x->name);
        ck_assert_int_eq(memcmp(x->dims, y->dims, sizeof x->dims), 0);
        ck_assert_msg(memcmp(x->data, y->data, x->bytes) == 0, "%s", x->name);
    }
    ck_assert_uint_eq(a->parameters, b->parameters);
    ck_assert_int_eq(memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint), 0);
}

/* Logits of a few tokens, vocab floats each; the caller frees them. */
static float *logits_of(const struct krn_model *m) {
    struct krn_net net;
    struct krn_profile profile;
    struct krn_oracle *o;
    float *logits = malloc((size_t)TOKENS * m->config.vocab * sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    OK(krn_net_build(m, &net, &note));
    OK(krn_profile_portable(&m->config, 0, &profile, &note));
    OK(krn_oracle_open(&net, &profile, TOKENS, &o, &note));
    for (uint32_t i = 0; i < TOKENS; i++)
        ck_assert(krn_oracle_feed(o, 3 + 9 * i, logits + (size_t)i * m->config.vocab));
    krn_oracle_close(o);
    krn_net_free(&net);
    return logits;
}

static void check_logits(const struct krn_model *a, const struct krn_model *b) {
    float *x = logits_of(a), *y = logits_of(b);
    ck_assert_int_eq(memcmp(x, y, (size_t)TOKENS * a->config.vocab * sizeof *x), 0);
    free(x);
    free(y);
}

/* Both layouts of one model give one model. */
START_TEST(test_same_model) {
    char dir[64];
    struct krn_config c = _i % 2 == 0 ? small_config() : wide_config();
    const enum krn_dtype dtype = (enum krn_dtype)(_i % KRN_DTYPES);
    c.tied = _i / 3 % 2 == 0;
    c.attn_bias = c.attn_out_bias = _i / 6 % 2 == 1;
    c.mlp_bias = _i / 12 % 2 == 1;
    if (_i % 5 == 1)
        c.rope = (struct krn_rope){.kind = KRN_ROPE_LINEAR, .theta = 500000.0, .factor = 4.0};
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, dtype);
    made->config.bos = _i % 4 == 0 ? -1 : 2;
    made->config.n_eos = _i % 4 == 1 ? 0 : 1;
    made->config.eos[0] = made->config.n_eos == 0 ? 0 : 5;
    struct krn_model *saved = open_saved(made, dir);
    struct gguf_make make;
    gguf_begin(&make, 2 + (uint32_t)_i % 2, 32);
    gguf_model_keys(&make, &saved->config);
    gguf_model_tensors(&make, saved, dtype, false);
    struct krn_model *read = open_made(&make, dir, "model.gguf");
    check_same(saved, read);
    check_logits(saved, read);
    /* converters widen vectors: other types, the same bits */
    gguf_begin(&make, 3, 64);
    gguf_model_keys(&make, &saved->config);
    gguf_model_tensors(&make, saved, dtype, true);
    struct krn_model *widened = open_made(&make, dir, "widened.gguf");
    check_logits(saved, widened);
    krn_model_close(widened);
    krn_model_close(read);
    ck_assert_int_eq(mappings_of(dir), 1);
    krn_model_close(saved);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Every alignment, also those that leave tensors misaligned in memory: keys move the data. */
START_TEST(test_alignment) {
    char dir[64];
    struct krn_config c = small_config();
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, _i % 2 == 0 ? KRN_F32 : KRN_BF16);
    for (uint32_t shift = 0; shift < 9; shift++) {
        struct gguf_make make;
        char text[16] = "";
        memset(text, 'x', shift);
        gguf_begin(&make, 3, 1U << _i);
        gguf_key_text(&make, "general.name", text);
        gguf_model_keys(&make, &made->config);
        gguf_model_tensors(&make, made, made->tensors[0].dtype, false);
        struct krn_model *read = open_made(&make, dir, "model.gguf");
        check_same(made, read);
        krn_model_close(read);
    }
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Blocked weights are their exact values: a file of these values as f32 gives the same bits. */
START_TEST(test_blocked) {
    const enum krn_dtype type = (enum krn_dtype)_i;
    char dir[64];
    struct krn_config c = wide_config();
    c.tied = _i % 2 == 0;
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, KRN_F32);
    struct gguf_make make;
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_tensors(&make, made, type, true);
    struct krn_model *blocked = open_made(&make, dir, "blocked.gguf");
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_values(&make, made, type);
    char path[512];
    size_t n;
    struct krn_model *values = NULL;
    unsigned char *bytes = gguf_end(&make, &n);
    write_file(dir, "values.gguf", bytes, n);
    free(bytes);
    join(path, dir, "values.gguf");
    OK(krn_model_open(path, &values, &note));
    ck_assert_uint_eq(blocked->parameters, made->parameters);
    ck_assert_uint_eq(values->parameters, made->parameters);
    ck_assert_uint_ne(blocked->fingerprint[0], values->fingerprint[0]);
    for (uint32_t i = 0; i < blocked->n_tensors; i++) {
        const struct krn_tensor *t = &blocked->tensors[i], *v = &values->tensors[i];
        ck_assert_int_eq(t->dtype, t->n_dims == 2 ? type : KRN_F32);
        uint64_t elements = v->bytes / sizeof(float);
        float *unpacked = malloc(v->bytes);
        ck_assert_ptr_nonnull(unpacked);
        krn_unpack(t->dtype, t->data, 0, elements, unpacked);
        ck_assert_msg(memcmp(unpacked, v->data, v->bytes) == 0, "%s", t->name);
        free(unpacked);
    }
    check_logits(blocked, values);
    ck_assert_int_eq(krn_model_save(blocked, dir, 1, &note), STATUS_UNSUPPORTED);
    krn_model_close(values);
    krn_model_close(blocked);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* The factors of llama3 scaling as its converter writes them, in fp32. */
static void put_factors(struct gguf_make *make, const struct krn_config *c) {
    const struct krn_rope *r = &c->rope;
    float factors[KRN_QUANT_BLOCK_MAX];
    const uint64_t dims[1] = {c->head_dim / 2};
    for (uint32_t i = 0; i < c->head_dim / 2; i++) {
        float freq = 1.0F / powf((float)r->theta, (float)(2 * i) / (float)c->head_dim);
        float wave = 2.0F * 3.14159265F / freq;
        float original = (float)r->original_context;
        float low = (float)r->low_freq_factor, high = (float)r->high_freq_factor;
        float smooth = (original / wave - low) / (high - low);
        factors[i] = wave < original / high  ? 1.0F
                     : wave > original / low ? (float)r->factor
                                             : 1.0F / ((1.0F - smooth) / (float)r->factor + smooth);
    }
    gguf_tensor(make, "rope_freqs.weight", 0, 1, dims, factors, dims[0] * sizeof(float));
}

/* llama3 scaling is found again from its factors. */
START_TEST(test_llama3) {
    static const struct krn_rope ropes[] = {{KRN_ROPE_LLAMA3, 500000.0, 8.0, 1.0, 4.0, 8192},
                                            {KRN_ROPE_LLAMA3, 500000.0, 32.0, 1.0, 4.0, 8192},
                                            {KRN_ROPE_LLAMA3, 10000.0, 2.0, 1.0, 4.0, 2048}};
    char dir[64], path[512];
    struct krn_config c = wide_config();
    c.rope = ropes[_i];
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, KRN_BF16);
    struct gguf_make make;
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_tensors(&make, made, KRN_BF16, false);
    put_factors(&make, &c);
    struct krn_model *read = open_made(&make, dir, "model.gguf");
    check_same(made, read);
    krn_model_close(read);
    /* other bounds: no published model has them */
    c.rope.low_freq_factor = 2.0;
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_tensors(&make, made, KRN_BF16, false);
    put_factors(&make, &c);
    size_t n;
    unsigned char *bytes = gguf_end(&make, &n);
    write_file(dir, "model.gguf", bytes, n);
    free(bytes);
    join(path, dir, "model.gguf");
    static const char *const words[MODEL_DIR_WORDS] = {"model.gguf", "rope_freqs.weight", "llama3"};
    check_refused(path, STATUS_BAD_MODEL, words, "other factors");
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Ends of text, of turn and of message are each taken once, in this order. */
START_TEST(test_end_tokens) {
    char dir[64];
    struct krn_config c = small_config();
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, KRN_F16);
    struct gguf_make make;
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_key_u32(&make, "tokenizer.ggml.eom_token_id", 9);
    gguf_key_u32(&make, "tokenizer.ggml.eot_token_id", 7);
    gguf_key_u32(&make, "tokenizer.ggml.eos_token_id", 7);
    gguf_key_u32(&make, "tokenizer.ggml.bos_token_id", 0);
    gguf_model_tensors(&make, made, KRN_F16, false);
    struct krn_model *read = open_made(&make, dir, "model.gguf");
    const struct krn_config *got = &read->config;
    ck_assert(got->n_eos == 2 && got->eos[0] == 7 && got->eos[1] == 9 && got->bos == 0);
    ck_assert(!got->has_sampling && got->top_p == 1.0F);
    krn_model_close(read);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* A directory with one file is that file; with two it is a question; config.json comes first. */
START_TEST(test_directory) {
    char dir[64];
    struct krn_config c = small_config();
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, KRN_F16), *read = NULL;
    for (int i = 0; i < 2; i++) {
        struct gguf_make make;
        gguf_begin(&make, 3, 32);
        gguf_model_keys(&make, &made->config);
        gguf_model_tensors(&make, made, KRN_F16, false);
        krn_model_close(open_made(&make, dir, i == 0 ? "any name.gguf" : "other.gguf"));
        if (i == 0) {
            OK(krn_model_open(dir, &read, &note));
            check_same(made, read);
            krn_model_close(read);
        }
    }
    static const char *const words[MODEL_DIR_WORDS] = {"several .gguf files"};
    check_refused(dir, STATUS_BAD_FILE, words, "two files");
    OK(krn_model_save(made, dir, 1, &note));
    OK(krn_model_open(dir, &read, &note));
    check_same(made, read);
    krn_model_close(read);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* A type that no row function reads: the file opens, the family says which tensor it misses. */
START_TEST(test_unusable) {
    static const struct {
        uint32_t number, block, bytes;
        const char *word;
    } types[] = {{10, 256, 84, "Q2_K"},
                 {28, 1, 8, "F64"},
                 {23, 256, 136, "IQ4_XS"},
                 {39, 32, 17, "MXFP4"},
                 {9, 32, 36, "Q8_1"}};
    char dir[64];
    struct krn_config c = wide_config();
    const uint64_t dims[2] = {c.hidden, c.vocab};
    c.tied = true;
    scratch_make(dir);
    struct krn_model *made = synthetic(&c, KRN_F16);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct gguf_make make;
        struct krn_net net;
        size_t bytes = (size_t)c.hidden / types[i].block * c.vocab * types[i].bytes;
        void *data = calloc(1, bytes);
        ck_assert_ptr_nonnull(data);
        gguf_begin(&make, 3, 32);
        gguf_model_keys(&make, &made->config);
        gguf_model_tensors(&make, made, KRN_F16, false);
        gguf_tensor(&make, "output.weight", types[i].number, 2, dims, data, bytes);
        struct krn_model *read = open_made(&make, dir, "model.gguf");
        ck_assert_uint_eq(read->n_tensors, made->n_tensors);
        ck_assert_int_eq(krn_net_build(read, &net, &note), STATUS_BAD_MODEL);
        const char *const words[MODEL_DIR_WORDS] = {"lm_head.weight", types[i].word, "Q4_K",
                                                    "IQ4_NL"};
        check_line(words, types[i].word);
        krn_model_close(read);
        free(data);
    }
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("gguf");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_same_model, 0, 24);
    tcase_add_loop_test(t, test_alignment, 0, 8);
    tcase_add_loop_test(t, test_blocked, KRN_DTYPES, KRN_TYPES);
    tcase_add_loop_test(t, test_llama3, 0, 3);
    tcase_add_test(t, test_end_tokens);
    tcase_add_test(t, test_directory);
    tcase_add_test(t, test_unusable);
    suite_add_tcase(s, t);
    return test_run(s);
}
