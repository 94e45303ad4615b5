/* SPDX-License-Identifier: Apache-2.0
 * Models from GGUF files on the CPU device: every type of matrix, every V, every family equals the
 * oracle bit for bit; and the small published model where it is at hand (tests/fetch_smollm2).
 */
#include "tests/harness.h"

#include <unistd.h>
#include <xxhash.h>

#include "kernels/oracle.h"
#include "tests/gpu/cpu_rig.h"
#include "tests/kernels/family_models.h"
#include "tests/kernels/gguf_make.h"
#include "tests/kernels/scratch_dir.h"

enum { LENGTH = 12 };

static struct status_note note;

static struct krn_model *open_model(const char *path) {
    struct krn_model *m = NULL;
    ck_assert_msg(krn_model_open(path, &m, &note) == STATUS_OK, "%s", note.text);
    return m;
}

/* A model of random weights in matrices of this type, as a file. */
static void write_model(const char *path, const struct krn_config *c, enum krn_dtype type) {
    struct krn_model *made = NULL;
    struct gguf_make make;
    size_t n;
    ck_assert_int_eq(krn_model_synthetic(c, type < KRN_DTYPES ? type : KRN_F32, 9, &made, &note),
                     STATUS_OK);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, c);
    gguf_model_tensors(&make, made, type, true);
    unsigned char *bytes = gguf_end(&make, &n);
    FILE *f = fopen(path, "wb");
    ck_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
    krn_model_close(made);
}

static void write_llama(const char *path, enum krn_dtype type) {
    const struct krn_config c = {.vocab = 50,
                                 .hidden = 256,
                                 .layers = 1,
                                 .heads = 8,
                                 .kv_heads = 2,
                                 .head_dim = 32,
                                 .ffn = 256,
                                 .context = 256,
                                 .norm_eps = 1e-5F,
                                 .tied = type % 2 == 0,
                                 .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};
    write_model(path, &c, type);
}

/* The device in pieces, the oracle token by token. Returns the device's choice after the last. */
static uint32_t check_device(const struct rig_model *m, uint32_t threads, const uint32_t *ids,
                             uint32_t length) {
    static struct rig r;
    uint32_t tokens[LENGTH], vocab = m->model->config.vocab;
    uint64_t hashes[LENGTH], pieces = 6;
    struct krn_oracle *o;
    float *row = malloc(vocab * sizeof *row);
    ck_assert(row != NULL && length <= LENGTH);
    rig_open(&r, m, 8, threads, NULL);
    rig_hashes(&r, 0, ids, length, &pieces, hashes, tokens);
    rig_close(&r);
    rig_ok(krn_oracle_open(&m->net, &m->profile, length, &o, &note), &note);
    for (uint32_t i = 0; i < length; i++) {
        ck_assert_msg(krn_oracle_feed(o, ids[i], row), "token %u: not finite", i);
        ck_assert_msg(XXH3_64bits(row, vocab * sizeof *row) == hashes[i], "token %u differs", i);
    }
    krn_oracle_close(o);
    free(row);
    return tokens[length - 1];
}

START_TEST(test_types) {
    char dir[64], path[128];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    write_llama(path, (enum krn_dtype)_i);
    uint32_t ids[LENGTH];
    uint64_t seed = 5;
    for (uint32_t i = 0; i < LENGTH; i++)
        ids[i] = (uint32_t)(test_random(&seed) % 50);
    for (uint32_t v = 1; v <= 8; v *= 2) {
        struct rig_model m;
        rig_model_wrap(&m, open_model(path), v);
        check_device(&m, 1 + v % 2, ids, LENGTH);
        rig_ok(krn_profile_open("q8", &m.model->config, v, &m.profile, &note), &note);
        check_device(&m, 1 + v % 2, ids, LENGTH);
        rig_model_close(&m);
    }
    scratch_remove(dir);
}
END_TEST

/* Every family's file, its formats in turn, at the default V. */
START_TEST(test_families) {
    char dir[64], path[128];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    write_model(path, &family_models[_i],
                (enum krn_dtype)(KRN_DTYPES + 5 * _i % (KRN_TYPES - KRN_DTYPES)));
    uint32_t ids[LENGTH];
    uint64_t seed = 6;
    for (uint32_t i = 0; i < LENGTH; i++)
        ids[i] = (uint32_t)(test_random(&seed) % family_models[_i].vocab);
    struct rig_model m;
    rig_model_wrap(&m, open_model(path), 0);
    ck_assert_uint_eq(m.profile.virtual_ranks, 8);
    check_device(&m, 2, ids, LENGTH);
    rig_model_close(&m);
    scratch_remove(dir);
}
END_TEST

/* Where the published model lies: ROUNDHOUSE_SMOLLM2, or where tests/fetch_smollm2 puts it. */
static const char *published(char path[1024]) {
    const char *given = getenv("ROUNDHOUSE_SMOLLM2");
    if (given != NULL && given[0] != '\0')
        snprintf(path, 1024, "%s", given);
    else
        snprintf(path, 1024, "%s/build-models/SmolLM2-135M-Instruct.Q4_1.gguf", test_srcdir());
    return access(path, R_OK) == 0 ? path : NULL;
}

START_TEST(test_published) {
    static const uint32_t ids[] = {504, 3575, 282, 4649, 314}; /* "The capital of France is" */
    enum { PARIS = 7042 };
    char path[1024];
    struct rig_model m;
    if (published(path) == NULL)
        TEST_SKIP("no SmolLM2-135M-Instruct.Q4_1.gguf here; tests/fetch_smollm2 fetches it");
    rig_model_wrap(&m, open_model(path), 0);
    const struct krn_model *model = m.model;
    const struct krn_config *c = &model->config;
    ck_assert(c->vocab == 49152 && c->hidden == 576 && c->layers == 30 && c->ffn == 1536);
    ck_assert(c->heads == 9 && c->kv_heads == 3 && c->head_dim == 64 && c->context == 8192);
    ck_assert(c->tied && !c->attn_bias && !c->attn_out_bias && !c->mlp_bias);
    ck_assert(c->norm_eps == 1e-5F && c->rope.kind == KRN_ROPE_PLAIN && c->rope.theta == 100000);
    ck_assert(c->bos == 1 && c->n_eos == 1 && c->eos[0] == 2);
    ck_assert_uint_eq(model->parameters, 134515008);
    ck_assert_uint_eq(model->n_tensors, 272);
    ck_assert_int_eq(krn_model_tensor(model, "model.embed_tokens.weight")->dtype, KRN_Q8_0);
    ck_assert_int_eq(krn_model_tensor(model, "model.layers.29.mlp.down_proj.weight")->dtype,
                     KRN_Q4_1);
    ck_assert_int_eq(krn_model_tensor(model, "model.norm.weight")->dtype, KRN_F32);
    m.model->config.context = 256; /* the rig holds short sessions */
    ck_assert_uint_eq(check_device(&m, 2, ids, sizeof ids / sizeof ids[0]), PARIS);
    rig_ok(krn_profile_open("q8", c, 0, &m.profile, &note), &note);
    ck_assert_uint_eq(check_device(&m, 2, ids, sizeof ids / sizeof ids[0]), PARIS);
    rig_model_close(&m);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf_cpu");
    TCase *t = tcase_create("gguf_cpu");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_types, 0, KRN_TYPES);
    tcase_add_loop_test(t, test_families, 0, FAMILY_MODELS);
    tcase_add_test(t, test_published);
    suite_add_tcase(s, t);
    return test_run(s);
}
