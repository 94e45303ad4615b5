/* SPDX-License-Identifier: Apache-2.0
 * GGUF files of every family: the same configuration, tensors and bits as the Hugging Face layout
 * of the same model, every blocked format against a forward pass in fp64, and what only the other
 * architectures' files can get wrong.
 */
#include "tests/kernels/model_dir.h"

#include "kernels/oracle.h"
#include "tests/kernels/family_models.h"
#include "tests/kernels/forward64.h"
#include "tests/kernels/gguf_make.h"

enum { TOKENS = 7 };
static const uint32_t ids[TOKENS] = {3, 57, 8, 8, 21, 40, 1};

static struct krn_model *synthetic(const struct krn_config *c, enum krn_dtype dtype) {
    struct krn_model *m = NULL;
    OK(krn_model_synthetic(c, dtype, 23, &m, &note));
    return m;
}

static void write_made(struct gguf_make *make, const char *dir, const char *name) {
    size_t n;
    unsigned char *bytes = gguf_end(make, &n);
    write_file(dir, name, bytes, n);
    free(bytes);
}

static struct krn_model *open_made(struct gguf_make *make, const char *dir, const char *name) {
    char path[512];
    struct krn_model *m = NULL;
    write_made(make, dir, name);
    join(path, dir, name);
    OK(krn_model_open(path, &m, &note));
    return m;
}

/* Logits of all ids, which the caller frees. */
static float *logits_of(const struct krn_model *m, uint32_t v) {
    struct krn_net net;
    struct krn_profile profile;
    struct krn_oracle *o;
    float *logits = malloc((size_t)TOKENS * m->config.vocab * sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    OK(krn_net_build(m, &net, &note));
    OK(krn_profile_portable(&m->config, v, &profile, &note));
    OK(krn_oracle_open(&net, &profile, TOKENS, &o, &note));
    for (uint32_t i = 0; i < TOKENS; i++)
        ck_assert(krn_oracle_feed(o, ids[i], logits + (size_t)i * m->config.vocab));
    krn_oracle_close(o);
    krn_net_free(&net);
    return logits;
}

static void check_logits(const struct krn_model *a, const struct krn_model *b) {
    float *x = logits_of(a, 0), *y = logits_of(b, 0);
    ck_assert_mem_eq(x, y, (size_t)TOKENS * a->config.vocab * sizeof *x);
    free(x);
    free(y);
}

/* Against fp64: a few hundred roundings of fp32, relative to the largest logit. */
static void check_fp64(const struct krn_model *m, uint32_t v) {
    double margin, *want = forward64(m, ids, TOKENS, &margin);
    float *got = logits_of(m, v);
    double error = forward64_error(got, want, (size_t)TOKENS * m->config.vocab);
    ck_assert_double_gt(margin, 1e-5);
    ck_assert_msg(error <= 4e-6, "V %u: %g", v, error);
    free(got);
    free(want);
}

static bool is_norm(const struct krn_tensor *t) {
    return strstr(t->name, "norm.weight") != NULL;
}

/* Gemma's norms come from files of 1 + w, so the last bits of w are the file's and not the
 * layout's. */
static void check_same(const struct krn_model *a, const struct krn_model *b) {
    bool gemma = strcmp(a->config.family, "gemma3") == 0;
    ck_assert_mem_eq(&a->config, &b->config, sizeof a->config);
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct krn_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert_int_eq(memcmp(x->dims, y->dims, sizeof x->dims), 0);
        if (gemma && is_norm(x))
            continue;
        ck_assert_msg(x->dtype == y->dtype && x->bytes == y->bytes, "%s", x->name);
        ck_assert_msg(memcmp(x->data, y->data, x->bytes) == 0, "%s", x->name);
    }
    ck_assert_uint_eq(a->parameters, b->parameters);
    if (!gemma)
        ck_assert_mem_eq(a->fingerprint, b->fingerprint, sizeof a->fingerprint);
}

/* Both layouts of one model, in each plain type. */
START_TEST(test_same_model) {
    char dir[64], path[512];
    const struct krn_config *c = &family_models[_i / KRN_DTYPES];
    enum krn_dtype dtype = (enum krn_dtype)(_i % KRN_DTYPES);
    struct krn_model *made = synthetic(c, dtype), *saved = NULL;
    struct gguf_make make;
    scratch_make(dir);
    made->config.bos = 4;
    made->config.n_eos = 1;
    made->config.eos[0] = 7;
    join(path, dir, "hf");
    OK(krn_model_save(made, path, 1, &note));
    OK(krn_model_open(path, &saved, &note));
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &saved->config);
    gguf_model_tensors(&make, saved, dtype, false);
    struct krn_model *read = open_made(&make, dir, "model.gguf");
    check_same(saved, read);
    check_logits(saved, read);
    check_fp64(read, 1U << _i % 4);
    krn_model_close(read);
    /* an alignment that leaves tensors misaligned in memory */
    gguf_begin(&make, 3, 1);
    gguf_key_text(&make, "general.name", "x");
    gguf_model_keys(&make, &saved->config);
    gguf_model_tensors(&make, saved, dtype, false);
    read = open_made(&make, dir, "odd.gguf");
    check_same(saved, read);
    krn_model_close(read);
    krn_model_close(saved);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Every family with every blocked format: exact values, and the forward pass over them. */
START_TEST(test_blocked) {
    enum { BLOCKED = KRN_TYPES - KRN_DTYPES };
    char dir[64];
    const struct krn_config *c = &family_models[_i / BLOCKED];
    enum krn_dtype type = (enum krn_dtype)(KRN_DTYPES + _i % BLOCKED);
    struct krn_model *made = synthetic(c, KRN_F32);
    struct gguf_make make;
    scratch_make(dir);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_tensors(&make, made, type, true);
    struct krn_model *blocked = open_made(&make, dir, "blocked.gguf");
    ck_assert_mem_eq(&blocked->config, &made->config, sizeof made->config);
    for (uint32_t i = 0; i < blocked->n_tensors; i++) {
        const struct krn_tensor *t = &blocked->tensors[i];
        bool router = strstr(t->name, "mlp.gate.") != NULL || strstr(t->name, "moe.gate.") != NULL;
        ck_assert_int_eq(t->dtype, t->n_dims == 2 && !router ? type : KRN_F32);
    }
    check_fp64(blocked, 1U << _i % 4);
    krn_model_close(blocked);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Old files have a matrix an expert. */
START_TEST(test_lone_experts) {
    char dir[64];
    struct krn_model *made = synthetic(&family_models[3], KRN_F16);
    struct gguf_make make;
    scratch_make(dir);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    gguf_model_tensors(&make, made, KRN_F16, false);
    uint32_t n = make.n_tensors;
    for (uint32_t i = 0; i < n; i++) {
        struct gguf_made *t = &make.tensors[i];
        char *stacked = strstr(t->name, "_exps.weight");
        if (stacked == NULL)
            continue;
        *stacked = '\0';
        struct gguf_made whole = *t;
        uint64_t experts = whole.dims[2], bytes = whole.dims[0] * whole.dims[1] * 2;
        for (uint64_t e = 0; e < experts; e++) {
            struct gguf_made *one = e == 0 ? t : &make.tensors[make.n_tensors++];
            *one = whole;
            one->n_dims = 2;
            one->offset += e * bytes;
            snprintf(one->name, sizeof one->name, "%.40s.%u.weight", whole.name, (unsigned)e);
        }
    }
    struct krn_model *read = open_made(&make, dir, "model.gguf");
    check_same(made, read);
    krn_model_close(read);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Windows as Gemma's files say them: a number, or nothing. */
START_TEST(test_gemma_windows) {
    static const struct {
        bool named;
        uint32_t pattern, windowed;
    } cases[] = {{false, 0, 0x5f}, {true, 6, 0x5f}, {true, 2, 0x55}, {true, 1, 0}, {true, 0, 0x7f}};
    char dir[64];
    scratch_make(dir);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c = family_models[12];
        c.layers = 7;
        c.window = c.windowed[0] = 0;
        struct krn_model *made = synthetic(&c, KRN_F16);
        struct gguf_make make;
        gguf_begin(&make, 3, 32);
        gguf_key_text(&make, "general.architecture", "gemma3");
        gguf_key_u32(&make, "gemma3.block_count", 7);
        gguf_key_u32(&make, "gemma3.context_length", c.context);
        gguf_key_u32(&make, "gemma3.embedding_length", c.hidden);
        gguf_key_u32(&make, "gemma3.feed_forward_length", c.ffn);
        gguf_key_u32(&make, "gemma3.attention.head_count", c.heads);
        gguf_key_u32(&make, "gemma3.attention.head_count_kv", c.kv_heads);
        gguf_key_u32(&make, "gemma3.attention.key_length", c.head_dim);
        gguf_key_f32(&make, "gemma3.attention.layer_norm_rms_epsilon", c.norm_eps);
        gguf_key_f32(&make, "gemma3.rope.freq_base", 1e6F);
        gguf_key_text(&make, "gemma3.rope.scaling.type", "linear");
        gguf_key_f32(&make, "gemma3.rope.scaling.factor", 8.0F);
        gguf_key_u32(&make, "gemma3.attention.sliding_window", 512);
        if (cases[i].named)
            gguf_key_u32(&make, "gemma3.attention.sliding_window_pattern", cases[i].pattern);
        gguf_model_tensors(&make, made, KRN_F16, true);
        struct krn_model *read = open_made(&make, dir, "model.gguf");
        const struct krn_config *got = &read->config;
        ck_assert_uint_eq(got->windowed[0], cases[i].windowed);
        ck_assert_uint_eq(got->window, cases[i].windowed != 0 ? 512 : 0);
        ck_assert(got->rope.kind == KRN_ROPE_LINEAR && got->rope.factor == 8.0);
        ck_assert(got->has_local_rope && got->local_rope.theta == 10000.0);
        ck_assert(got->local_rope.kind == KRN_ROPE_PLAIN && got->score_scalar == 32);
        krn_model_close(read);
        krn_model_close(made);
    }
    scratch_remove(dir);
}
END_TEST

/* A model of a family with one change, which is refused when it is opened or its net is built. */
enum change {
    NOTHING,
    KEY_ADDED,
    KEY_GONE,
    STACK_FLAT,   /* experts' matrices with two dimensions */
    STACK_SHORT,  /* one expert fewer */
    STACK_TURNED, /* rows and columns changed over */
    STACK_ODD,    /* of a type that no row function reads */
    LONE_TOO,     /* a matrix of one expert beside those of all */
    NORM_ODD      /* a factor that is no 1 + w */
};
static const struct {
    uint32_t model;
    enum change change;
    const char *key;
    uint32_t value;
    const char *words[MODEL_DIR_WORDS];
} refused[] = {
    {5, KEY_ADDED, "qwen2.expert_count", 4, {"qwen2.expert_count", "has no experts"}},
    {5, KEY_ADDED, "qwen2.expert_shared_count", 0, {"qwen2.expert_shared_count", "nothing"}},
    {5, KEY_ADDED, "qwen2.attention.sliding_window", 9, {"sliding_window", "which layers"}},
    {3, KEY_ADDED, "llama.expert_gating_func", 2, {"llama.expert_gating_func", "softmax"}},
    {3, KEY_ADDED, "llama.expert_shared_count", 1, {"llama.expert_shared_count is not 0"}},
    {3, KEY_ADDED, "llama.expert_weights_norm", 1, {"llama.expert_weights_norm", "true nor"}},
    {3, KEY_ADDED, "llama.expert_weights_scale", 2, {"llama.expert_weights_scale", "real"}},
    {3, KEY_ADDED, "llama.expert_feed_forward_length", 0, {"expert_feed_forward_length is 0"}},
    {3, KEY_GONE, "llama.expert_count", 0, {"tensor blk.0.ffn_"}},
    {9, KEY_GONE, "qwen3moe.expert_count", 0, {"qwen3moe.expert_count is missing"}},
    {9, KEY_GONE, "qwen3moe.expert_feed_forward_length", 0, {"expert_feed_forward_length", "miss"}},
    {12, KEY_GONE, "gemma3.attention.sliding_window", 0, {"sliding_window", "missing"}},
    {12, KEY_GONE, "gemma3.rope.freq_base", 0, {"gemma3.rope.freq_base", "missing"}},
    {12, NORM_ODD, NULL, 0, {"norm.weight", "no 1 + w"}},
    {11, KEY_GONE, "qwen3moe.feed_forward_length", 0, {"feed_forward_length", "missing"}},
    {3, STACK_FLAT, NULL, 0, {"ffn_down_exps.weight is not 4 matrices"}},
    {9, STACK_SHORT, NULL, 0, {"ffn_down_exps.weight is not 6 matrices"}},
    {9, STACK_TURNED, NULL, 0, {"experts.0.down_proj.weight has shape [128, 512]"}},
    {9, STACK_ODD, NULL, 0, {"experts.0.down_proj.weight is F64", "3 dimensions"}},
    {3, LONE_TOO, NULL, 0, {"experts.2.w2.weight is there alone"}},
};

static struct gguf_made *made_named(struct gguf_make *m, const char *part) {
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (strstr(m->tensors[i].name, part) != NULL)
            return &m->tensors[i];
    ck_abort_msg("no tensor %s", part);
}

static void change_tensors(struct gguf_make *m, enum change change) {
    struct gguf_made *t = made_named(m, change == NORM_ODD ? "attn_norm" : "ffn_");
    const uint64_t one[2] = {256, 256};
    static const unsigned char matrix[256 * 256 * 2];
    const float odd = 0x1.000002p-3F;
    if (change >= STACK_FLAT && change <= STACK_ODD)
        t = made_named(m, "ffn_down_exps");
    switch (change) {
    case STACK_FLAT:
        t->n_dims = 2;
        t->dims[1] *= t->dims[2];
        break;
    case STACK_SHORT: /* in as many bytes */
        t->dims[0] *= 2;
        t->dims[2] /= 2;
        break;
    case STACK_TURNED:
        t->dims[0] *= 2;
        t->dims[1] /= 2;
        break;
    case STACK_ODD: /* eight bytes in place of two */
        t->type = 28;
        t->dims[0] /= 4;
        break;
    case LONE_TOO:
        gguf_tensor(m, "blk.0.ffn_down.2.weight", 1, 2, one, matrix, sizeof matrix);
        break;
    case NORM_ODD:
        memcpy(m->data.at + t->offset + 40, &odd, sizeof odd);
        break;
    default:
        break;
    }
}

START_TEST(test_refused) {
    char dir[64], path[512];
    struct krn_model *made = synthetic(&family_models[refused[_i].model], KRN_F16), *read = NULL;
    struct krn_net net = {0};
    struct gguf_make make;
    scratch_make(dir);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &made->config);
    const char *key = refused[_i].key;
    if (refused[_i].change == KEY_ADDED)
        gguf_key_u32(&make, key, refused[_i].value);
    for (size_t i = 8; refused[_i].change == KEY_GONE; i++) { /* renamed to what changes nothing */
        ck_assert_uint_lt(i + strlen(key), make.keys.n);
        if (make.keys.at[i - 8] == strlen(key) && memcmp(make.keys.at + i, key, strlen(key)) == 0) {
            memset(make.keys.at + i, 'z', strlen(key));
            break;
        }
    }
    gguf_model_tensors(&make, made, KRN_F16, false);
    change_tensors(&make, refused[_i].change);
    write_made(&make, dir, "model.gguf");
    join(path, dir, "model.gguf");
    if (krn_model_open(path, &read, &note) == STATUS_OK) {
        ck_assert_int_ne(krn_net_build(read, &net, &note), STATUS_OK);
        krn_model_close(read);
    }
    check_line(refused[_i].words, refused[_i].words[0]);
    ck_assert_int_eq(mappings_of(path), 0);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf_families");
    TCase *t = tcase_create("gguf_families");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_same_model, 0, FAMILY_MODELS * KRN_DTYPES);
    tcase_add_loop_test(t, test_blocked, 0, FAMILY_MODELS * (KRN_TYPES - KRN_DTYPES));
    tcase_add_test(t, test_lone_experts);
    tcase_add_test(t, test_gemma_windows);
    tcase_add_loop_test(t, test_refused, 0, (int)(sizeof refused / sizeof refused[0]));
    suite_add_tcase(s, t);
    return test_run(s);
}
