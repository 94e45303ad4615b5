/* SPDX-License-Identifier: Apache-2.0
 * Families beside Llama: what their op lists have and have not, weights that are missing, files
 * written and read again, and every key of config.json that differs between families.
 */
#include "tests/kernels/model_dir.h"

#include <jansson.h>

#include "kernels/families/registry.h"
#include "kernels/rowfn.h"
#include "kernels/weights/config_json.h"

/* One of each kind; window: on layer 1 alone, or on both. */
static const struct member {
    const char *name, *architecture;
    bool head_norms;
    uint32_t ops; /* a layer */
    struct krn_config set;
} members[] = {
    {"qwen2", "Qwen2ForCausalLM", false, 12, {.attn_bias = true, .tied = true}},
    {"qwen2", "Qwen2ForCausalLM", false, 12, {.attn_bias = true, .window = 9, .windowed = {2}}},
    {"mistral", "MistralForCausalLM", false, 12, {.window = 16, .windowed = {3}}},
    {"mistral", "MistralForCausalLM", false, 12, {.tied = true}},
    {"qwen3", "Qwen3ForCausalLM", true, 14, {.tied = true}},
    {"qwen3",
     "Qwen3ForCausalLM",
     true,
     14,
     {.attn_bias = true, .attn_out_bias = true, .window = 5, .windowed = {1}}},
    {"gemma3", "Gemma3ForCausalLM", true, 16, {.tied = true, .window = 5, .windowed = {2}}},
    {"gemma3", "Gemma3ForCausalLM", true, 16, {.attn_bias = true, .attn_out_bias = true}},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     true,
     12,
     {.tied = true, .experts = 9, .experts_used = 3, .experts_norm = true}},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     true,
     12,
     {.attn_bias = true, .attn_out_bias = true, .experts = 2, .experts_used = 2}},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     true,
     12, /* and two more in layer 1 */
     {.tied = true,
      .experts = 3,
      .experts_used = 2,
      .dense = {2},
      .dense_ffn = 112,
      .window = 6,
      .windowed = {3}}},
    {"mixtral",
     "MixtralForCausalLM",
     false,
     10,
     {.window = 7, .windowed = {3}, .experts = 4, .experts_used = 1, .experts_norm = true}},
    {"mixtral",
     "MixtralForCausalLM",
     false,
     10,
     {.tied = true, .experts = 3, .experts_used = 2, .experts_norm = true}},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static struct krn_config config_of(const struct member *m) {
    struct krn_config c = small_config();
    snprintf(c.family, sizeof c.family, "%s", m->name);
    c.attn_bias = m->set.attn_bias;
    c.attn_out_bias = m->set.attn_out_bias;
    c.tied = m->set.tied;
    c.window = m->set.window;
    c.windowed[0] = m->set.windowed[0];
    c.experts = m->set.experts;
    c.experts_used = m->set.experts_used;
    c.experts_norm = m->set.experts_norm;
    c.dense[0] = m->set.dense[0];
    c.dense_ffn = m->set.dense_ffn;
    if (strcmp(m->name, "gemma3") == 0) {
        c.has_local_rope = true;
        c.local_rope = (struct krn_rope){.kind = KRN_ROPE_PLAIN, .theta = 300.5};
        c.score_scalar = 50;
    }
    return c;
}

static struct krn_model *synthetic(const struct krn_config *c) {
    struct krn_model *m = NULL;
    OK(krn_model_synthetic(c, KRN_BF16, 1, &m, &note));
    return m;
}

static const struct krn_op *find(const struct krn_net *net, uint32_t layer, enum krn_op_kind kind,
                                 enum krn_buf dst) {
    const struct krn_op *found = NULL;
    for (uint32_t i = 0; i < net->n_ops; i++)
        if (net->ops[i].layer == layer && net->ops[i].kind == kind && net->ops[i].dst == dst) {
            ck_assert_ptr_null(found);
            found = &net->ops[i];
        }
    return found;
}

static void check_head_norm(const struct krn_net *net, uint32_t layer, enum krn_buf buf,
                            const char *name, uint32_t heads) {
    char full[96];
    const struct krn_config *c = &net->model->config;
    const struct krn_op *op = find(net, layer, KRN_OP_HEAD_NORM, buf);
    ck_assert_ptr_nonnull(op);
    ck_assert_int_eq(op->one_more, strcmp(c->family, "gemma3") == 0);
    snprintf(full, sizeof full, "model.layers.%u.self_attn.%s.weight", layer, name);
    ck_assert_str_eq(op->w->name, full);
    ck_assert(op->src == buf && op->n == heads * c->head_dim && op->k == c->head_dim);
    ck_assert(op->eps == c->norm_eps);
    ck_assert(op < find(net, layer, KRN_OP_ROPE_KV, KRN_BUF_K));
}

START_TEST(test_ops) {
    const struct member *m = &members[_i];
    struct krn_config c = config_of(m);
    struct krn_model *model = synthetic(&c);
    struct krn_net net;
    OK(krn_net_build(model, &net, &note));
    ck_assert_uint_eq(net.n_ops, c.layers * m->ops + 3 + (c.dense_ffn != 0 ? 2 : 0));
    for (uint32_t l = 0; l < c.layers; l++) {
        const struct krn_op *attend = find(&net, l, KRN_OP_ATTEND, KRN_BUF_A);
        ck_assert_uint_eq(attend->window, c.windowed[0] >> l & 1 ? c.window : 0);
        ck_assert(attend->scale ==
                  krn_attend_scale(c.score_scalar != 0 ? c.score_scalar : c.head_dim));
        for (enum krn_buf b = KRN_BUF_Q; b <= KRN_BUF_V; b++)
            ck_assert_int_eq(find(&net, l, KRN_OP_PRODUCT, b)->bias != NULL, c.attn_bias);
        if (m->head_norms) {
            check_head_norm(&net, l, KRN_BUF_Q, "q_norm", c.heads);
            check_head_norm(&net, l, KRN_BUF_K, "k_norm", c.kv_heads);
        }
    }
    for (uint32_t i = 0; i < net.n_ops; i++)
        if (net.ops[i].split == KRN_SPLIT_ROWS && net.ops[i].src == KRN_BUF_A)
            ck_assert_int_eq(net.ops[i].bias != NULL, c.attn_out_bias);
        else if (net.ops[i].src == KRN_BUF_G || net.ops[i].dst == KRN_BUF_U)
            ck_assert_ptr_null(net.ops[i].bias);
    krn_net_free(&net);
    krn_model_close(model);
}
END_TEST

/* Where norms stand in a sandwich, and what else is Gemma's. */
START_TEST(test_gemma) {
    static const struct {
        const char *name;
        enum krn_buf src, dst;
    } norms[] = {{"input_layernorm", KRN_BUF_X, KRN_BUF_H},
                 {"self_attn.q_norm", KRN_BUF_Q, KRN_BUF_Q},
                 {"self_attn.k_norm", KRN_BUF_K, KRN_BUF_K},
                 {"post_attention_layernorm", KRN_BUF_H, KRN_BUF_X},
                 {"pre_feedforward_layernorm", KRN_BUF_X, KRN_BUF_H},
                 {"post_feedforward_layernorm", KRN_BUF_H, KRN_BUF_X}};
    static const float roots[KRN_DTYPES] = {
        [KRN_F32] = 6.92820323F, [KRN_F16] = 6.9296875F, [KRN_BF16] = 6.9375F}; /* of 48 */
    struct krn_config c = config_of(&members[6]);
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++) {
        struct krn_model *m = NULL;
        struct krn_net net;
        OK(krn_model_synthetic(&c, (enum krn_dtype)dtype, 1, &m, &note));
        OK(krn_net_build(m, &net, &note));
        ck_assert(net.ops[0].kind == KRN_OP_EMBED && net.ops[0].scale == roots[dtype]);
        for (uint32_t i = 0, at = 0; i < net.n_ops; i++) {
            const struct krn_op *op = &net.ops[i];
            char name[96];
            if (op->kind == KRN_OP_ROPE_KV)
                ck_assert_int_eq(op->local_rope, op->layer == 1);
            if (op->kind == KRN_OP_GATE)
                ck_assert(op->gelu);
            if (op->kind == KRN_OP_PRODUCT && op->split == KRN_SPLIT_ROWS)
                ck_assert(op->dst == KRN_BUF_H && !op->add);
            if (op->kind != KRN_OP_NORM && op->kind != KRN_OP_HEAD_NORM)
                continue;
            snprintf(name, sizeof name, "model.layers.%u.%s.weight", op->layer, norms[at].name);
            ck_assert_str_eq(op->w->name, name);
            ck_assert(op->src == norms[at].src && op->dst == norms[at].dst && op->one_more);
            ck_assert_int_eq(op->add, op->dst == KRN_BUF_X);
            at = (at + 1) % (sizeof norms / sizeof norms[0]);
        }
        ck_assert(net.ops[net.n_ops - 2].kind == KRN_OP_FINAL && net.ops[net.n_ops - 2].one_more);
        krn_net_free(&net);
        krn_model_close(m);
    }
}
END_TEST

/* Each weight in turn missing. */
START_TEST(test_weights_refused) {
    struct krn_config c = config_of(&members[_i]);
    struct krn_model *m = synthetic(&c);
    struct krn_tensor *room = calloc(m->n_tensors, sizeof *room);
    ck_assert_ptr_nonnull(room);
    struct krn_net net = {0};
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        struct krn_model copy = *m;
        copy.tensors = room;
        copy.n_tensors = 0;
        for (uint32_t j = 0; j < m->n_tensors; j++)
            if (i != j)
                room[copy.n_tensors++] = m->tensors[j];
        ck_assert_int_eq(krn_net_build(&copy, &net, &note), STATUS_BAD_MODEL);
        check_line((const char *[MODEL_DIR_WORDS]){m->tensors[i].name, "is missing"}, "missing");
    }
    ck_assert_ptr_null(net.ops);
    free(room);
    krn_model_close(m);
}
END_TEST

START_TEST(test_round_trip) {
    struct krn_config c = config_of(&members[_i]);
    struct krn_model *made = synthetic(&c), *read = NULL;
    struct krn_net net;
    char dir[64];
    scratch_make(dir);
    OK(krn_model_save(made, dir, 2, &note));
    OK(krn_model_open(dir, &read, &note));
    ck_assert_mem_eq(&read->config, &made->config, sizeof read->config);
    ck_assert_mem_eq(read->fingerprint, made->fingerprint, sizeof read->fingerprint);
    OK(krn_net_build(read, &net, &note));
    krn_net_free(&net);
    char *text = read_file(dir, "config.json", NULL);
    ck_assert_ptr_nonnull(strstr(text, members[_i].architecture));
    free(text);
    krn_model_close(read);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* The window, the local angles and the scores' scale are part of what a model is. */
START_TEST(test_fingerprint) {
    enum { N = 13 };
    struct krn_config c[N];
    struct krn_model *m[N];
    for (int i = 0; i < N; i++)
        c[i] = config_of(&members[i < 4 ? 1 : i < 7 ? 6 : 8]);
    c[8].experts--;
    c[9].experts_used++;
    c[11] = c[12] = config_of(&members[10]);
    c[12].dense[0] = 1;
    c[10].experts_norm = false;
    c[1].window++;
    c[2].windowed[0] = 1;
    c[3].window = c[3].windowed[0] = 0;
    c[5].local_rope.theta += 1;
    c[6].score_scalar++;
    for (int i = 0; i < N; i++)
        m[i] = synthetic(&c[i]);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            ck_assert_mem_ne(m[i]->fingerprint, m[j]->fingerprint, sizeof m[i]->fingerprint);
    for (int i = 0; i < N; i++)
        krn_model_close(m[i]);
}
END_TEST

/* Configurations that the family's file cannot carry. */
START_TEST(test_save_refused) {
    static const struct {
        const char *family, *word;
        struct krn_config set;
    } cases[] = {
        {"llama", "window", {.window = 4, .windowed = {3}}},
        {"mistral", "window", {.window = 4, .windowed = {1}}},
        {"mistral", "biases", {.attn_bias = true, .attn_out_bias = true}},
        {"qwen2", "biases", {.attn_bias = false}},
        {"qwen2", "biases", {.attn_bias = true, .attn_out_bias = true}},
        {"qwen2", "biases", {.attn_bias = true, .mlp_bias = true}},
        {"qwen3", "attention_bias", {.attn_bias = true}},
        {"qwen3", "biases", {.mlp_bias = true}},
        {"qwen3_moe", "window", {.window = 4, .windowed = {2}, .experts = 2, .experts_used = 1}},
        {"mixtral",
         "every layer",
         {.experts = 2, .experts_used = 1, .experts_norm = true, .dense = {2}, .dense_ffn = 48}},
        {"mixtral", "sum to 1", {.experts = 2, .experts_used = 1}},
        {"qwen3", "scales of attention", {.score_scalar = 16}},
        {"qwen3", "angles", {.has_local_rope = true}},
        {"gemma3", "scales of attention", {.has_local_rope = true}},
        {"gemma3", "angles", {.score_scalar = 16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c = small_config();
        snprintf(c.family, sizeof c.family, "%s", cases[i].family);
        c.attn_bias = cases[i].set.attn_bias;
        c.attn_out_bias = cases[i].set.attn_out_bias;
        c.mlp_bias = cases[i].set.mlp_bias;
        c.window = cases[i].set.window;
        c.windowed[0] = cases[i].set.windowed[0];
        c.score_scalar = cases[i].set.score_scalar;
        c.has_local_rope = cases[i].set.has_local_rope;
        c.experts = cases[i].set.experts;
        c.experts_used = cases[i].set.experts_used;
        c.experts_norm = cases[i].set.experts_norm;
        c.dense[0] = cases[i].set.dense[0];
        c.dense_ffn = cases[i].set.dense_ffn;
        if (c.has_local_rope)
            c.local_rope = c.rope;
        struct krn_model *m = synthetic(&c);
        ck_assert_int_eq(krn_model_save(m, "/tmp/roundhouse-test-never", 1, &note),
                         STATUS_UNSUPPORTED);
        check_line((const char *[MODEL_DIR_WORDS]){cases[i].word}, cases[i].family);
        ck_assert_int_ne(access("/tmp/roundhouse-test-never", F_OK), 0);
        krn_model_close(m);
    }
}
END_TEST

#define SHAPE                                                                                      \
    "\"vocab_size\":80,\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"       \
    "\"num_attention_heads\":4,\"max_position_embeddings\":512"
#define QWEN2   "{\"architectures\":[\"Qwen2ForCausalLM\"],\"num_key_value_heads\":2," SHAPE
#define MISTRAL "{\"architectures\":[\"MistralForCausalLM\"],\"num_key_value_heads\":2," SHAPE
#define QWEN3                                                                                      \
    "{\"architectures\":[\"Qwen3ForCausalLM\"],\"num_key_value_heads\":2,\"head_dim\":32," SHAPE
#define QWEN_MOE                                                                                   \
    "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_key_value_heads\":2,\"head_dim\":"         \
    "32," SHAPE
#define QWEN_EXPERTS QWEN_MOE ",\"num_experts\":8,\"moe_intermediate_size\":48"
#define MIXTRAL                                                                                    \
    "{\"architectures\":[\"MixtralForCausalLM\"],\"num_key_value_heads\":2," SHAPE                 \
    ",\"num_local_experts\":4"
#define GEMMA_BARE                                                                                 \
    "{\"architectures\":[\"Gemma3ForCausalLM\"],\"num_key_value_heads\":2,\"head_dim\":32," SHAPE
#define GEMMA             GEMMA_BARE ",\"query_pre_attn_scalar\":32,\"sliding_window\":64"
#define TYPES(a, b, c, d) ",\"layer_types\":[\"" a "\",\"" b "\",\"" c "\",\"" d "\"]"
#define FULL              "full_attention"
#define LOCAL             "sliding_attention"

static enum status parse(const char *text, struct krn_config *c) {
    return krn_config_parse("m/config.json", text, strlen(text), NULL, NULL, 0, c, &note);
}

static const struct {
    const char *text;
    uint32_t window, windowed;
    bool attn_bias, attn_out_bias;
} accepted[] = {
    /* what Qwen2.5 files say: a window that is switched off */
    {QWEN2 ",\"use_sliding_window\":false,\"sliding_window\":32768,\"max_window_layers\":21,"
           "\"use_mrope\":false,\"tie_word_embeddings\":true}",
     0, 0, true, false},
    {QWEN2 "}", 0, 0, true, false},
    {QWEN2 ",\"attention_bias\":true}", 0, 0, true, false},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64,\"max_window_layers\":3}", 64, 8,
     true, false},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64,\"max_window_layers\":4}", 0, 0,
     true, false},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64" TYPES(FULL, LOCAL, LOCAL, FULL) "}",
     64, 6, true, false},
    {QWEN2 ",\"sliding_window\":64" TYPES(FULL, FULL, FULL, FULL) "}", 0, 0, true, false},
    {MISTRAL ",\"sliding_window\":128}", 128, 15, false, false},
    {MISTRAL ",\"sliding_window\":null,\"head_dim\":32}", 0, 0, false, false},
    {MISTRAL "}", 4096, 15, false, false}, /* the published default */
    {QWEN3 ",\"attention_bias\":false,\"use_sliding_window\":false,\"max_window_layers\":28}", 0, 0,
     false, false},
    {QWEN3 ",\"attention_bias\":true}", 0, 0, true, true},
    {QWEN3 ",\"use_sliding_window\":true,\"sliding_window\":7,\"max_window_layers\":0}", 7, 15,
     false, false},
    {GEMMA ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"attn_logit_softcapping\":null,"
           "\"final_logit_softcapping\":null,\"use_bidirectional_attention\":false}",
     64, 15, false, false}, /* the sixth layer would see everything */
    {GEMMA ",\"sliding_window_pattern\":2}", 64, 5, false, false},
    {GEMMA ",\"_sliding_window_pattern\":3,\"attention_bias\":true}", 64, 11, true, true},
    {GEMMA TYPES(FULL, LOCAL, FULL, FULL) "}", 64, 2, false, false},
    {GEMMA ",\"sliding_window_pattern\":1}", 0, 0, false, false},
    /* what Qwen3 MoE and Mixtral files say */
    {QWEN_EXPERTS ",\"num_experts_per_tok\":3,\"norm_topk_prob\":true,\"decoder_sparse_step\":1,"
                  "\"mlp_only_layers\":[],\"use_sliding_window\":false,\"sliding_window\":null,"
                  "\"max_window_layers\":48,\"router_aux_loss_coef\":0.001}",
     0, 0, false, false},
    {QWEN_MOE ",\"num_local_experts\":8,\"num_experts_per_tok\":8,\"moe_intermediate_size\":16}", 0,
     0, false, false},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":3,\"use_sliding_window\":true,\"sliding_window\":9,"
                  "\"max_window_layers\":2}",
     9, 15, false, false}, /* every layer, as the published code has it */
    {MIXTRAL ",\"num_experts_per_tok\":2}", 0, 0, false, false}, /* no window by default */
    {MIXTRAL ",\"num_experts_per_tok\":2,\"sliding_window\":null}", 0, 0, false, false},
    {MIXTRAL ",\"num_experts_per_tok\":2,\"sliding_window\":77}", 77, 15, false, false},
};

START_TEST(test_accepted) {
    struct krn_config c;
    OK(parse(accepted[_i].text, &c));
    ck_assert_uint_eq(c.window, accepted[_i].window);
    ck_assert_uint_eq(c.windowed[0], accepted[_i].windowed);
    ck_assert(c.attn_bias == accepted[_i].attn_bias);
    ck_assert(c.attn_out_bias == accepted[_i].attn_out_bias && !c.mlp_bias);
    ck_assert_uint_eq(c.kv_heads, 2);
}
END_TEST

static const struct {
    const char *text, *words[MODEL_DIR_WORDS];
} refused[] = {
    {QWEN2 ",\"attention_bias\":false}", {"attention_bias is false"}},
    {QWEN2 ",\"use_mrope\":true}", {"use_mrope is set"}},
    {QWEN2 ",\"mlp_bias\":true}", {"mlp_bias is set"}},
    {QWEN2 ",\"hidden_act\":\"gelu\"}", {"hidden_act is gelu"}},
    {QWEN2 ",\"num_key_value_heads\":null}", {"num_key_value_heads"}},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64}", {"max_window_layers"}},
    {QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":2}", {"sliding_window"}},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":0,\"max_window_layers\":2}",
     {"sliding_window is 0"}},
    {QWEN2 TYPES(FULL, LOCAL, FULL, FULL) "}", {"layer_types names sliding_attention"}},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64" TYPES(FULL, "linear_attention",
                                                                      FULL, FULL) "}",
     {"layer_types names linear_attention", "knows full_attention and sliding_attention"}},
    {QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":64,\"layer_types\":[\"" LOCAL "\"]}",
     {"layer_types is not a list of 4"}},
    {QWEN2 ",\"layer_types\":7}", {"layer_types is not a list of 4"}},
    {QWEN2 ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0}}", {"rope_type is yarn"}},
    {MISTRAL ",\"attention_bias\":true}", {"attention_bias is set"}},
    {MISTRAL ",\"sliding_window\":0}", {"sliding_window is 0"}},
    {MISTRAL ",\"sliding_window\":\"x\"}", {"sliding_window"}},
    {QWEN3 ",\"head_dim\":null}", {"head_dim"}},
    {QWEN3 ",\"mlp_bias\":true}", {"mlp_bias is set"}},
    {GEMMA ",\"hidden_activation\":\"gelu\"}", {"hidden_activation is gelu", "gelu_pytorch_tanh"}},
    {GEMMA ",\"hidden_act\":\"silu\"}", {"hidden_act is silu", "gelu_pytorch_tanh"}},
    {GEMMA ",\"attn_logit_softcapping\":50.0}", {"attn_logit_softcapping is set"}},
    {GEMMA ",\"final_logit_softcapping\":30.0}", {"final_logit_softcapping is set"}},
    {GEMMA ",\"use_bidirectional_attention\":true}", {"use_bidirectional_attention is set"}},
    {GEMMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}", {"rope_type is yarn"}},
    {GEMMA ",\"rope_local_base_freq\":0.5}", {"rope_theta is 0.5"}},
    {GEMMA ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":{},\"x\":{}}}",
     {"rope_parameters", "holds more"}},
    {GEMMA ",\"rope_parameters\":{\"full_attention\":{}}}", {"full_attention is an object"}},
    {GEMMA_BARE ",\"sliding_window\":64}", {"query_pre_attn_scalar"}},
    {GEMMA_BARE ",\"sliding_window\":64,\"query_pre_attn_scalar\":0}",
     {"query_pre_attn_scalar is 0"}},
    {GEMMA_BARE ",\"query_pre_attn_scalar\":32}", {"sliding_window"}},
    {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"]," SHAPE "}",
     {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"}},
    {"{\"architectures\":[\"Qwen2MoeForCausalLM\"]," SHAPE "}",
     {"Qwen2MoeForCausalLM", "knows LlamaForCausalLM", "Qwen3MoeForCausalLM"}},
    {QWEN_MOE ",\"moe_intermediate_size\":48,\"num_experts_per_tok\":2}", {"num_local_experts"}},
    {QWEN_MOE ",\"num_experts\":0,\"moe_intermediate_size\":48,\"num_experts_per_tok\":1}",
     {"num_experts is 0"}},
    {QWEN_MOE ",\"num_experts\":2147483648,\"moe_intermediate_size\":48,\"num_experts_per_tok\":1}",
     {"num_experts is 2147483648"}},
    {QWEN_MOE ",\"num_experts\":513,\"moe_intermediate_size\":48,\"num_experts_per_tok\":1}",
     {"num_experts is 513"}},
    {QWEN_MOE ",\"num_experts\":-1,\"moe_intermediate_size\":48,\"num_experts_per_tok\":1}",
     {"num_experts"}},
    {QWEN_EXPERTS "}", {"num_experts_per_tok"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":0}", {"num_experts_per_tok is 0"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":9}", {"num_experts_per_tok is 9", "the 8 experts"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":33}", {"num_experts_per_tok is 33"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"num_local_experts\":9}",
     {"num_local_experts is not num_experts, 8"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"decoder_sparse_step\":0}",
     {"decoder_sparse_step is 0"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"decoder_sparse_step\":5}",
     {"no layer has experts"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"mlp_only_layers\":[0,1,2,3]}",
     {"no layer has experts"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"mlp_only_layers\":[4]}",
     {"mlp_only_layers holds", "4 layers"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"mlp_only_layers\":[-1]}",
     {"mlp_only_layers holds", "4 layers"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"mlp_only_layers\":[\"1\"]}",
     {"mlp_only_layers holds"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"mlp_only_layers\":7}", {"mlp_only_layers is not"}},
    {QWEN_EXPERTS ",\"num_experts_per_tok\":2,\"use_sliding_window\":true,\"sliding_window\":0}",
     {"sliding_window is 0"}},
    {QWEN_MOE ",\"num_experts\":8,\"num_experts_per_tok\":2}", {"moe_intermediate_size"}},
    {MIXTRAL "}", {"num_experts_per_tok"}},
    {MIXTRAL ",\"num_experts_per_tok\":5}", {"num_experts_per_tok is 5", "the 4 experts"}},
    {MIXTRAL ",\"num_experts_per_tok\":2,\"sliding_window\":0}", {"sliding_window is 0"}},
};

START_TEST(test_refused) {
    /* the last of two equal keys would be a fault of its own */
    json_t *root = json_loads(refused[_i].text, 0, NULL);
    char *text = json_dumps(root, 0);
    struct krn_config c;
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(parse(text, &c) != STATUS_OK, "%s", text);
    check_line(refused[_i].words, text);
    free(text);
    json_decref(root);
}
END_TEST

/* Both forms of two sets of angles, and what is assumed where the file says nothing. */
START_TEST(test_gemma_fields) {
    struct krn_config c;
    OK(parse(GEMMA "}", &c));
    ck_assert(c.tied && c.score_scalar == 32 && c.has_local_rope);
    ck_assert(c.rope.kind == KRN_ROPE_PLAIN && c.rope.theta == 1e6);
    ck_assert(c.local_rope.kind == KRN_ROPE_PLAIN && c.local_rope.theta == 1e4);
    OK(parse(GEMMA ",\"tie_word_embeddings\":false,\"rope_theta\":5e5,"
                   "\"rope_local_base_freq\":2e4,"
                   "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}",
             &c));
    ck_assert(!c.tied && c.rope.kind == KRN_ROPE_LINEAR && c.rope.factor == 8.0);
    ck_assert(c.rope.theta == 5e5 && c.local_rope.theta == 2e4);
    ck_assert(c.local_rope.kind == KRN_ROPE_PLAIN);
    OK(parse(GEMMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                   "\"factor\":4.0,\"rope_theta\":7e5},\"sliding_attention\":{\"rope_type\":"
                   "\"default\",\"rope_theta\":3e4}}}",
             &c));
    ck_assert(c.rope.kind == KRN_ROPE_LINEAR && c.rope.factor == 4.0 && c.rope.theta == 7e5);
    ck_assert(c.local_rope.kind == KRN_ROPE_PLAIN && c.local_rope.theta == 3e4);
}
END_TEST

START_TEST(test_experts_fields) {
    struct krn_config c;
    OK(parse(QWEN_EXPERTS ",\"num_experts_per_tok\":3}", &c));
    ck_assert(c.experts == 8 && c.experts_used == 3 && !c.experts_norm && c.ffn == 48);
    OK(parse(QWEN_EXPERTS ",\"num_experts_per_tok\":8,\"norm_topk_prob\":true}", &c));
    ck_assert(c.experts_used == 8 && c.experts_norm);
    OK(parse(MIXTRAL ",\"num_experts_per_tok\":2}", &c));
    ck_assert(c.experts == 4 && c.experts_used == 2 && c.experts_norm && c.ffn == 96);
    ck_assert(c.norm_eps == 1e-5F && c.rope.theta == 1e6); /* the published defaults */
}
END_TEST

/* Experts of configurations that were never a file. */
START_TEST(test_experts_check) {
    static const struct {
        const char *family;
        uint32_t experts, used;
        bool good;
    } cases[] = {{"qwen3_moe", 4, 2, true},
                 {"mixtral", 1, 1, true},
                 {"qwen3_moe", 0, 0, false},
                 {"mixtral", 4, 0, false},
                 {"mixtral", 4, 5, false},
                 {"llama", 4, 2, false},
                 {"", 4, 2, false},
                 {"qwen3", 0, 1, false},
                 {"qwen3_moe", 513, 2, false},
                 {"qwen3_moe", 1U << 31, 2, false},
                 {"qwen3_moe", 400, 33, false},
                 {"qwen3_moe", UINT32_MAX, UINT32_MAX, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c = small_config();
        snprintf(c.family, sizeof c.family, "%s", cases[i].family);
        c.experts = cases[i].experts;
        c.experts_used = cases[i].used;
        ck_assert_int_eq(krn_config_check("c", &c, &note),
                         cases[i].good ? STATUS_OK : STATUS_BAD_MODEL);
        if (!cases[i].good)
            check_line((const char *[MODEL_DIR_WORDS]){"experts"}, cases[i].family);
    }
}
END_TEST

/* Which layers of a mixture have one MLP, and how wide. */
START_TEST(test_dense_layers) {
    static const struct {
        const char *keys;
        uint32_t dense;
    } cases[] = {{"}", 0},
                 {",\"mlp_only_layers\":[]}", 0},
                 {",\"mlp_only_layers\":[0]}", 1},
                 {",\"mlp_only_layers\":[3,1,1]}", 10},
                 {",\"decoder_sparse_step\":2}", 5},
                 {",\"decoder_sparse_step\":3}", 11},
                 {",\"decoder_sparse_step\":4,\"mlp_only_layers\":[1]}", 7},
                 {",\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]}", 13}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c;
        char text[1024];
        snprintf(text, sizeof text, "%s%s", QWEN_EXPERTS ",\"num_experts_per_tok\":2",
                 cases[i].keys);
        OK(parse(text, &c));
        ck_assert_uint_eq(c.dense[0], cases[i].dense);
        ck_assert_uint_eq(c.dense_ffn, cases[i].dense == 0 ? 0 : 96);
        ck_assert_uint_eq(c.ffn, 48);
        for (uint32_t l = 0; l < 4; l++)
            ck_assert_int_eq(krn_layer_dense(&c, l), cases[i].dense >> l & 1);
    }
}
END_TEST

/* ... of configurations that were never a file. */
START_TEST(test_dense_check) {
    static const struct {
        uint32_t experts, dense, ffn;
        const char *word; /* NULL: good */
    } cases[] = {{4, 2, 32, NULL},
                 {4, 2, 0, "the width of dense layers is 0"},
                 {4, 0, 32, "none is dense"},
                 {4, 4, 32, "mlp_only_layers is 2"},
                 {4, 3, 32, "no layer has experts"},
                 {0, 2, 32, "experts"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct krn_config c = small_config();
        snprintf(c.family, sizeof c.family, "%s", cases[i].experts != 0 ? "qwen3_moe" : "qwen3");
        c.experts = cases[i].experts;
        c.experts_used = cases[i].experts / 2;
        c.dense[0] = cases[i].dense;
        c.dense_ffn = cases[i].ffn;
        ck_assert_int_eq(krn_config_check("c", &c, &note),
                         cases[i].word == NULL ? STATUS_OK : STATUS_BAD_MODEL);
        if (cases[i].word != NULL)
            check_line((const char *[MODEL_DIR_WORDS]){cases[i].word}, "dense");
    }
}
END_TEST

/* What a mixture's layer does: the router into R, then every expert's three matrices. */
START_TEST(test_mixture) {
    static const char *const names[2][4] = {
        {"mlp.gate", "mlp.experts.%u.gate_proj", "mlp.experts.%u.up_proj",
         "mlp.experts.%u.down_proj"},
        {"block_sparse_moe.gate", "block_sparse_moe.experts.%u.w1",
         "block_sparse_moe.experts.%u.w3", "block_sparse_moe.experts.%u.w2"}};
    struct krn_config c = config_of(&members[8 + 3 * _i]);
    struct krn_model *m = synthetic(&c);
    struct krn_net net;
    OK(krn_net_build(m, &net, &note));
    for (uint32_t l = 0; l < c.layers; l++) {
        const struct krn_op *router = find(&net, l, KRN_OP_PRODUCT, KRN_BUF_R);
        const struct krn_op *op = find(&net, l, KRN_OP_EXPERTS, KRN_BUF_X);
        ck_assert(router + 1 == op && router->src == KRN_BUF_H && op->src == KRN_BUF_H);
        ck_assert(router->split == KRN_SPLIT_NONE && router->bias == NULL && op->add);
        ck_assert(router->n == c.experts && router->k == c.hidden);
        ck_assert(op->n_experts == c.experts && op->used == c.experts_used);
        ck_assert(op->norm_used == c.experts_norm && op->n == c.ffn && op->k == c.hidden);
        for (uint32_t e = 0; e < c.experts; e++) {
            const struct krn_expert *x = &op->experts[e];
            const struct krn_tensor *const t[4] = {router->w, x->gate, x->up, x->down};
            for (int i = 0; i < 4; i++) {
                char part[64], full[96];
                /* the format is one of the table's */
                int at = (int)(strchr(names[_i][i], '%') - names[_i][i]);
                if (i == 0)
                    snprintf(part, sizeof part, "%s", names[_i][0]);
                else
                    snprintf(part, sizeof part, "%.*s%u%s", at, names[_i][i], e,
                             names[_i][i] + at + 2);
                snprintf(full, sizeof full, "model.layers.%u.%s.weight", l, part);
                ck_assert_str_eq(t[i]->name, full);
            }
            ck_assert(x->down->dims[0] == c.hidden && x->gate->dims[0] == c.ffn);
        }
        ck_assert_ptr_null(find(&net, l, KRN_OP_GATE, KRN_BUF_G));
    }
    krn_net_free(&net);
    krn_model_close(m);
}
END_TEST

/* Windows of configurations that were never a file. */
START_TEST(test_window_check) {
    struct krn_config c = small_config();
    c.window = 3;
    ck_assert_int_eq(krn_config_check("c", &c, &note), STATUS_BAD_MODEL);
    check_line((const char *[MODEL_DIR_WORDS]){"sliding_window is 3", "no layer"}, "window");
    c.windowed[0] = 2;
    OK(krn_config_check("c", &c, &note));
    c.window = 0;
    ck_assert_int_eq(krn_config_check("c", &c, &note), STATUS_BAD_MODEL);
    check_line((const char *[MODEL_DIR_WORDS]){"sliding_window is 0"}, "window");
    c.window = KRN_CONTEXT_MAX + 1;
    ck_assert_int_eq(krn_config_check("c", &c, &note), STATUS_BAD_MODEL);
    c.window = 3;
    c.windowed[0] = 4;
    ck_assert_int_eq(krn_config_check("c", &c, &note), STATUS_BAD_MODEL);
    check_line((const char *[MODEL_DIR_WORDS]){"layer_types is 2"}, "window");
}
END_TEST

int main(void) {
    Suite *s = suite_create("families");
    TCase *t = tcase_create("families");
    tcase_add_loop_test(t, test_ops, 0, MEMBERS);
    tcase_add_loop_test(t, test_weights_refused, 0, MEMBERS);
    tcase_add_loop_test(t, test_round_trip, 0, MEMBERS);
    tcase_add_test(t, test_fingerprint);
    tcase_add_test(t, test_save_refused);
    tcase_add_loop_test(t, test_accepted, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(t, test_refused, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(t, test_window_check);
    tcase_add_test(t, test_experts_fields);
    tcase_add_test(t, test_experts_check);
    tcase_add_test(t, test_dense_layers);
    tcase_add_test(t, test_dense_check);
    tcase_add_loop_test(t, test_mixture, 0, 2);
    tcase_add_test(t, test_gemma);
    tcase_add_test(t, test_gemma_fields);
    suite_add_tcase(s, t);
    return test_run(s);
}
