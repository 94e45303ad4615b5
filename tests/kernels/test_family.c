/* SPDX-License-Identifier: Apache-2.0
 * Families: the op list of the shipped and of synthetic models, and every refusal of a weight.
 */
#include "tests/kernels/model_dir.h"

#include "kernels/families/registry.h"

static struct krn_model *synthetic(const struct krn_config *c) {
    struct krn_model *m = NULL;
    OK(krn_model_synthetic(c, KRN_BF16, 1, &m, &note));
    return m;
}

START_TEST(test_fable) {
    char path[1024];
    struct krn_model *m = NULL;
    struct krn_net net;
    snprintf(path, sizeof path, "%s/share/fable-5m", test_srcdir());
    OK(krn_model_open(path, &m, &note));
    ck_assert_uint_eq(m->parameters, 5475584);
    OK(krn_net_build(m, &net, &note));
    ck_assert_ptr_eq(net.model, m);
    ck_assert_uint_eq(net.n_ops, 6 * 12 + 3);
    krn_net_free(&net);
    ck_assert_ptr_null(net.ops);
    krn_model_close(m);
}
END_TEST

/* What every layer does, in order: kind, buffers, weight, shape rule. */
struct expected {
    enum krn_op_kind kind;
    enum krn_buf src, dst;
    const char *w;
    enum krn_split split;
};

static const struct expected layer_ops[] = {
    {KRN_OP_NORM, KRN_BUF_X, KRN_BUF_H, "input_layernorm.weight", KRN_SPLIT_NONE},
    {KRN_OP_PRODUCT, KRN_BUF_H, KRN_BUF_Q, "self_attn.q_proj.weight", KRN_SPLIT_HEADS},
    {KRN_OP_PRODUCT, KRN_BUF_H, KRN_BUF_K, "self_attn.k_proj.weight", KRN_SPLIT_KV_HEADS},
    {KRN_OP_PRODUCT, KRN_BUF_H, KRN_BUF_V, "self_attn.v_proj.weight", KRN_SPLIT_KV_HEADS},
    {KRN_OP_ROPE_KV, KRN_BUF_Q, KRN_BUF_K, NULL, KRN_SPLIT_HEADS},
    {KRN_OP_ATTEND, KRN_BUF_Q, KRN_BUF_A, NULL, KRN_SPLIT_HEADS},
    {KRN_OP_PRODUCT, KRN_BUF_A, KRN_BUF_X, "self_attn.o_proj.weight", KRN_SPLIT_ROWS},
    {KRN_OP_NORM, KRN_BUF_X, KRN_BUF_H, "post_attention_layernorm.weight", KRN_SPLIT_NONE},
    {KRN_OP_PRODUCT, KRN_BUF_H, KRN_BUF_G, "mlp.gate_proj.weight", KRN_SPLIT_COLUMNS},
    {KRN_OP_PRODUCT, KRN_BUF_H, KRN_BUF_U, "mlp.up_proj.weight", KRN_SPLIT_COLUMNS},
    {KRN_OP_GATE, KRN_BUF_U, KRN_BUF_G, NULL, KRN_SPLIT_COLUMNS},
    {KRN_OP_PRODUCT, KRN_BUF_G, KRN_BUF_X, "mlp.down_proj.weight", KRN_SPLIT_ROWS},
};
enum { LAYER_OPS = sizeof layer_ops / sizeof layer_ops[0] };

static bool has_bias(const struct krn_config *c, const char *weight) {
    if (strstr(weight, "o_proj") != NULL)
        return c->attn_out_bias;
    return strstr(weight, "self_attn") != NULL ? c->attn_bias : c->mlp_bias;
}

static void check_op(const struct krn_model *m, const struct krn_op *op, const struct expected *e,
                     uint32_t layer) {
    char name[128];
    ck_assert_int_eq(op->kind, e->kind);
    ck_assert_int_eq(op->src, e->src);
    ck_assert_int_eq(op->dst, e->dst);
    ck_assert_int_eq(op->split, e->split);
    ck_assert_uint_eq(op->layer, layer);
    ck_assert_int_eq(op->add, op->kind == KRN_OP_PRODUCT && op->dst == KRN_BUF_X);
    if (e->w == NULL) {
        ck_assert_ptr_null(op->w);
        return;
    }
    snprintf(name, sizeof name, "model.layers.%u.%s", layer, e->w);
    ck_assert_str_eq(op->w->name, name);
    if (op->kind == KRN_OP_NORM) {
        ck_assert(op->eps == m->config.norm_eps);
        return;
    }
    ck_assert_uint_eq(op->n, op->w->dims[0]);
    ck_assert_uint_eq(op->k, op->w->dims[1]);
    ck_assert_int_eq(op->bias != NULL, has_bias(&m->config, e->w));
    if (op->bias != NULL) {
        strcpy(strrchr(name, '.'), ".bias");
        ck_assert_str_eq(op->bias->name, name);
        ck_assert_uint_eq(op->bias->dims[0], op->n);
    }
}

/* All 16 combinations of the flags. */
START_TEST(test_ops) {
    struct krn_config c = small_config();
    struct krn_net net;
    c.tied = _i & 1;
    c.attn_bias = _i & 2;
    c.attn_out_bias = _i & 4;
    c.mlp_bias = _i & 8;
    struct krn_model *m = synthetic(&c);
    OK(krn_net_build(m, &net, &note));
    ck_assert_uint_eq(net.n_ops, c.layers * LAYER_OPS + 3);
    const struct krn_op *op = net.ops;
    ck_assert(op->kind == KRN_OP_EMBED && op->dst == KRN_BUF_X && op->n == c.hidden);
    ck_assert_str_eq(op->w->name, "model.embed_tokens.weight");
    op++;
    for (uint32_t l = 0; l < c.layers; l++)
        for (int i = 0; i < LAYER_OPS; i++)
            check_op(m, op++, &layer_ops[i], l);
    ck_assert(op->kind == KRN_OP_FINAL && op->src == KRN_BUF_X && op->dst == KRN_BUF_H);
    ck_assert(op->eps == c.norm_eps);
    ck_assert_str_eq(op->w->name, "model.norm.weight");
    op++;
    ck_assert(op->kind == KRN_OP_PRODUCT && op->src == KRN_BUF_H && op->dst == KRN_BUF_L);
    ck_assert(op->split == KRN_SPLIT_VOCAB && !op->add && op->bias == NULL);
    ck_assert(op->n == c.vocab && op->k == c.hidden);
    ck_assert_str_eq(op->w->name, c.tied ? "model.embed_tokens.weight" : "lm_head.weight");
    krn_net_free(&net);
    krn_model_close(m);
}
END_TEST

/* The model without tensor `gone`, or with it reshaped; shares all memory with m. */
static struct krn_model altered(const struct krn_model *m, struct krn_tensor *room, uint32_t at,
                                bool gone) {
    struct krn_model copy = *m;
    copy.tensors = room;
    copy.n_tensors = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (!gone || i != at)
            room[copy.n_tensors++] = m->tensors[i];
    return copy;
}

/* Each weight in turn missing, with a dimension changed, with one too many. */
START_TEST(test_weights_refused) {
    struct krn_config c = small_config();
    c.attn_bias = c.attn_out_bias = c.mlp_bias = true;
    struct krn_model *m = synthetic(&c);
    struct krn_tensor *room = calloc(m->n_tensors, sizeof *room);
    ck_assert_ptr_nonnull(room);
    struct krn_net net = {0};
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const char *name = m->tensors[i].name;
        char dims[64];
        struct krn_model copy = altered(m, room, i, true);
        ck_assert_int_eq(krn_net_build(&copy, &net, &note), STATUS_BAD_MODEL);
        check_line((const char *[MODEL_DIR_WORDS]){name, "is missing"}, name);
        for (uint32_t d = 0; d < m->tensors[i].n_dims; d++) {
            copy = altered(m, room, i, false);
            room[i].dims[d]++;
            ck_assert_int_eq(krn_net_build(&copy, &net, &note), STATUS_BAD_MODEL);
            snprintf(dims, sizeof dims, "%llu", (unsigned long long)room[i].dims[d]);
            check_line((const char *[MODEL_DIR_WORDS]){name, "has shape [", dims, "expected ["},
                       name);
        }
        copy = altered(m, room, i, false);
        room[i].dims[room[i].n_dims++] = 1;
        ck_assert_int_eq(krn_net_build(&copy, &net, &note), STATUS_BAD_MODEL);
        check_line((const char *[MODEL_DIR_WORDS]){name, ", 1], expected ["}, name);
    }
    ck_assert_ptr_null(net.ops);
    free(room);
    krn_model_close(m);
}
END_TEST

/* Overwrites in the header of the saved model, same length. */
static void patch(const char *dir, const char *tensor, const char *from, const char *to) {
    size_t n;
    char *bytes = read_file(dir, "model.safetensors", &n);
    char *at = memmem(bytes, n, tensor, strlen(tensor));
    ck_assert_ptr_nonnull(at);
    at = memmem(at, n - (size_t)(at - bytes), from, strlen(from));
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    write_file(dir, "model.safetensors", bytes, n);
    free(bytes);
}

/* A type that no row function reads is an error only where a weight is asked for. */
START_TEST(test_unusable) {
    char dir[64];
    struct krn_model *m = NULL;
    struct krn_net net;
    make_model_dir(dir, 1);
    patch(dir, "model.layers.1.mlp.up_proj.weight", "\"F16\"", "\"I16\"");
    OK(krn_model_open(dir, &m, &note));
    ck_assert_int_eq(krn_net_build(m, &net, &note), STATUS_BAD_MODEL);
    check_line((const char *[MODEL_DIR_WORDS]){"model.layers.1.mlp.up_proj.weight is I16", "BF16"},
               "type");
    krn_model_close(m);
    scratch_remove(dir);
}
END_TEST

/* Buffers that old files carry are neither weights nor parameters; a tied model's head is its
 * embedding, whatever the file has beside it. */
START_TEST(test_unused) {
    char dir[64];
    struct krn_model *m = NULL;
    struct krn_net net;
    make_model_dir(dir, 1);
    OK(krn_model_open(dir, &m, &note));
    uint64_t parameters = m->parameters;
    krn_model_close(m);
    size_t n;
    char *bytes = read_file(dir, "model.safetensors", &n);
    uint64_t header = 0;
    memcpy(&header, bytes, 8);
    while (bytes[8 + header - 1] != '}')
        header--;
    size_t data = 0;
    memcpy(&data, bytes, 8);
    char more[512];
    size_t end = n - 8 - data;
    snprintf(more, sizeof more,
             ",\"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[8],"
             "\"data_offsets\":[%zu,%zu]},\"position_ids\":{\"dtype\":\"I64\",\"shape\":[1],"
             "\"data_offsets\":[%zu,%zu]},\"a.b\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,2],"
             "\"data_offsets\":[%zu,%zu]},\"scalar\":{\"dtype\":\"F32\",\"shape\":[],"
             "\"data_offsets\":[%zu,%zu]}}",
             end, end + 32, end + 32, end + 40, end + 40, end + 44, end + 44, end + 48);
    char *out = calloc(1, n + 512 + 48);
    ck_assert_ptr_nonnull(out);
    uint64_t longer = header - 1 + strlen(more);
    memcpy(out, &longer, 8);
    memcpy(out + 8, bytes + 8, header - 1);
    memcpy(out + 8 + header - 1, more, strlen(more));
    memcpy(out + 8 + longer, bytes + 8 + data, end);
    write_file(dir, "model.safetensors", out, 8 + longer + end + 48);
    OK(krn_model_open(dir, &m, &note));
    OK(krn_net_build(m, &net, &note));
    ck_assert_uint_eq(m->parameters, parameters);
    krn_net_free(&net);
    m->config.tied = true;
    OK(krn_net_build(m, &net, &note));
    ck_assert_str_eq(net.ops[net.n_ops - 1].w->name, "model.embed_tokens.weight");
    krn_net_free(&net);
    krn_model_close(m);
    free(out);
    free(bytes);
    scratch_remove(dir);
}
END_TEST

START_TEST(test_registry) {
    char text[80], cut[8];
    ck_assert_ptr_eq(krn_family_named("llama"), &krn_family_llama);
    ck_assert_ptr_null(krn_family_named("Llama"));
    ck_assert_ptr_eq(krn_family_of_architecture("LlamaForCausalLM"), &krn_family_llama);
    ck_assert_ptr_null(krn_family_of_architecture("llama"));
    krn_family_architectures(text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "LlamaForCausalLM"));
    krn_family_architectures(cut, sizeof cut);
    ck_assert_uint_lt(strlen(cut), sizeof cut);
    struct krn_config c = small_config();
    struct krn_model *m = synthetic(&c);
    struct krn_net net;
    snprintf(m->config.family, sizeof m->config.family, "other");
    ck_assert_int_eq(krn_net_build(m, &net, &note), STATUS_BAD_MODEL);
    check_line((const char *[MODEL_DIR_WORDS]){"\"other\"", "LlamaForCausalLM"}, "family");
    krn_model_close(m);
}
END_TEST

int main(void) {
    Suite *s = suite_create("family");
    TCase *t = tcase_create("family");
    tcase_add_test(t, test_fable);
    tcase_add_loop_test(t, test_ops, 0, 16);
    tcase_add_test(t, test_weights_refused);
    tcase_add_test(t, test_unusable);
    tcase_add_test(t, test_unused);
    tcase_add_test(t, test_registry);
    suite_add_tcase(s, t);
    return test_run(s);
}
