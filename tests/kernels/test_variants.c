/* SPDX-License-Identifier: Apache-2.0
 * What the shipped model does not have: other families, biases, untied output, other head counts
 * and sizes, windows, linear and llama3 angles, f16 and f32 weights, several files. Directories
 * written by transformers, its float32 outputs, and the oracle at every V that the model allows.
 */
#include "tests/harness.h"

#include <string.h>

#include "kernels/oracle.h"
#include "kernels/weights/file.h"
#include "kernels/weights/safetensors.h"
#include "tests/kernels/reference.h"

/* Relative to the largest magnitude of a reference row; two float32 programs of this depth. */
#define ERROR_MAX 5e-6

enum { TOKENS = 100, VOCAB = 80, LAYERS = 2 };

static struct status_note note;

#define OK(expr) ck_assert_msg((expr) == STATUS_OK, "%s", note.text)

static const struct {
    const char *name;
    uint32_t hidden, heads, kv_heads, head_dim;
    bool tied, attn_bias, mlp_bias;
    enum krn_rope_kind rope;
    enum krn_dtype dtype;
    const char *family;
    uint32_t window, windowed, experts, used;
    bool norm;
} variants[] = {
    {"llama-variants/llama3", 32, 4, 2, 16, false, true, true, KRN_ROPE_LLAMA3, KRN_F32, "llama", 0,
     0, 0, 0, false},
    {"llama-variants/linear", 32, 4, 1, 32, true, false, false, KRN_ROPE_LINEAR, KRN_BF16, "llama",
     0, 0, 0, 0, false},
    {"llama-variants/plain", 32, 2, 2, 16, false, false, false, KRN_ROPE_PLAIN, KRN_F16, "llama", 0,
     0, 0, 0, false},
    {"families/qwen2", 64, 4, 2, 16, false, true, false, KRN_ROPE_PLAIN, KRN_F32, "qwen2", 0, 0, 0,
     0, false},
    {"families/qwen2-window", 64, 4, 1, 16, true, true, false, KRN_ROPE_PLAIN, KRN_BF16, "qwen2",
     21, 2, 0, 0, false},
    {"families/mistral", 32, 4, 2, 32, false, false, false, KRN_ROPE_PLAIN, KRN_BF16, "mistral", 30,
     3, 0, 0, false},
    {"families/mistral-full", 32, 2, 1, 16, false, false, false, KRN_ROPE_PLAIN, KRN_F16, "mistral",
     0, 0, 0, 0, false},
    {"families/qwen3", 32, 4, 2, 32, true, false, false, KRN_ROPE_PLAIN, KRN_BF16, "qwen3", 0, 0, 0,
     0, false},
    {"families/qwen3-bias", 32, 4, 4, 16, false, true, false, KRN_ROPE_PLAIN, KRN_F32, "qwen3", 17,
     2, 0, 0, false},
    {"families/gemma3", 32, 4, 2, 32, true, false, false, KRN_ROPE_LINEAR, KRN_F32, "gemma3", 23, 1,
     0, 0, false},
    {"families/gemma3-bf16", 48, 4, 1, 16, true, true, false, KRN_ROPE_PLAIN, KRN_BF16, "gemma3",
     40, 2, 0, 0, false},
    {"families/qwen3-moe", 32, 4, 2, 32, true, false, false, KRN_ROPE_PLAIN, KRN_BF16, "qwen3_moe",
     0, 0, 8, 3, true},
    {"families/qwen3-moe-softmax", 32, 4, 4, 16, false, false, false, KRN_ROPE_PLAIN, KRN_F32,
     "qwen3_moe", 0, 0, 5, 2, false},
    {"families/qwen3-moe-dense", 32, 4, 2, 32, true, false, false, KRN_ROPE_PLAIN, KRN_BF16,
     "qwen3_moe", 27, 3, 6, 2, true},
    {"families/mixtral", 32, 2, 1, 16, false, false, false, KRN_ROPE_PLAIN, KRN_F16, "mixtral", 0,
     0, 4, 2, true},
    {"families/mixtral-window", 32, 4, 2, 32, true, false, false, KRN_ROPE_PLAIN, KRN_BF16,
     "mixtral", 19, 3, 6, 1, true},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

struct expected {
    struct krn_file file;
    struct krn_table table;
    const int32_t *ids;
    const float *logits, *hidden;
};

static const void *find(const struct expected *e, const char *name, uint64_t elements) {
    for (uint32_t i = 0; i < e->table.n; i++)
        if (strcmp(e->table.entries[i].name, name) == 0 &&
            e->table.entries[i].bytes == elements * 4)
            return e->file.bytes + e->table.entries[i].offset;
    ck_abort_msg("no %s of %llu elements", name, (unsigned long long)elements);
}

static void expected_open(struct expected *e, const char *dir, uint32_t hidden) {
    char path[1200];
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    OK(krn_file_open(path, UINT64_MAX, &e->file, &note));
    OK(krn_table_parse(path, e->file.bytes, e->file.size, &e->table, &note));
    e->ids = find(e, "ids", TOKENS);
    e->logits = find(e, "logits", (uint64_t)TOKENS * VOCAB);
    e->hidden = find(e, "hidden", (uint64_t)(LAYERS + 1) * TOKENS * hidden);
}

static void check_tokens(struct krn_oracle *o, const struct expected *e, uint32_t hidden,
                         uint32_t v) {
    float logits[VOCAB];
    for (uint32_t t = 0; t < TOKENS; t++) {
        ck_assert(krn_oracle_feed(o, (uint32_t)e->ids[t], logits));
        for (uint32_t b = 0; b < LAYERS; b++) {
            size_t row = (size_t)b * TOKENS + t;
            double error =
                reference_error(krn_oracle_hidden(o, b), e->hidden + row * hidden, hidden);
            ck_assert_msg(error <= ERROR_MAX, "V %u token %u boundary %u: %g", v, t, b, error);
        }
        double error = reference_error(logits, e->logits + (size_t)t * VOCAB, VOCAB);
        ck_assert_msg(error <= ERROR_MAX, "V %u token %u: logits differ by %g", v, t, error);
    }
}

START_TEST(test_variant) {
    char dir[1024];
    struct expected e;
    struct krn_model *m = NULL;
    struct krn_net net;
    snprintf(dir, sizeof dir, "%s/tests/reference/%s", test_srcdir(), variants[_i].name);
    expected_open(&e, dir, variants[_i].hidden);
    OK(krn_model_open(dir, &m, &note));
    const struct krn_config *c = &m->config;
    ck_assert(c->heads == variants[_i].heads && c->kv_heads == variants[_i].kv_heads);
    ck_assert(c->head_dim == variants[_i].head_dim && c->tied == variants[_i].tied);
    ck_assert_str_eq(c->family, variants[_i].family);
    ck_assert(c->attn_bias == variants[_i].attn_bias && c->mlp_bias == variants[_i].mlp_bias);
    ck_assert(c->experts == variants[_i].experts && c->experts_used == variants[_i].used);
    ck_assert(c->experts_norm == variants[_i].norm);
    ck_assert(c->window == variants[_i].window && c->windowed[0] == variants[_i].windowed);
    ck_assert(c->rope.kind == variants[_i].rope && m->tensors[0].dtype == variants[_i].dtype);
    ck_assert(c->n_eos == 2 && c->eos[1] == 2 && c->bos == 0 && !c->has_sampling);
    OK(krn_net_build(m, &net, &note));
    uint32_t most = krn_profile_virtual_ranks_max(c, 16);
    for (uint32_t v = 1; v <= most; v *= 2) {
        struct krn_profile profile;
        struct krn_oracle *o = NULL;
        OK(krn_profile_portable(c, v, &profile, &note));
        OK(krn_oracle_open(&net, &profile, c->context, &o, &note));
        check_tokens(o, &e, c->hidden, v);
        krn_oracle_close(o);
    }
    krn_net_free(&net);
    krn_model_close(m);
    krn_table_free(&e.table);
    krn_file_close(&e.file);
}
END_TEST

int main(void) {
    Suite *s = suite_create("variants");
    TCase *t = tcase_create("variants");
    tcase_add_loop_test(t, test_variant, 0, VARIANTS);
    suite_add_tcase(s, t);
    return test_run(s);
}
