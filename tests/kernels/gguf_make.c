/* SPDX-License-Identifier: Apache-2.0
 * What tests/kernels/gguf_make.h says: the file.
 */
#include "tests/kernels/gguf_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

void gguf_put(struct gguf_bytes *b, const void *bytes, size_t n) {
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2;
        b->at = realloc(b->at, b->room);
        CHECK(b->at != NULL);
    }
    if (n > 0)
        memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

void gguf_put_number(struct gguf_bytes *b, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(value >> 8 * i);
        gguf_put(b, &byte, 1);
    }
}

static void put_text(struct gguf_bytes *b, const char *text) {
    gguf_put_number(b, strlen(text), 8);
    gguf_put(b, text, strlen(text));
}

void gguf_begin(struct gguf_make *m, uint32_t version, uint64_t alignment) {
    *m = (struct gguf_make){.version = version, .alignment = alignment};
    if (alignment != 32)
        gguf_key_u32(m, "general.alignment", (uint32_t)alignment);
}

void gguf_key(struct gguf_make *m, const char *key, uint32_t type, const void *value, size_t n) {
    put_text(&m->keys, key);
    gguf_put_number(&m->keys, type, 4);
    gguf_put(&m->keys, value, n);
    m->n_keys++;
}

void gguf_key_u32(struct gguf_make *m, const char *key, uint32_t value) {
    gguf_key(m, key, 4, &value, sizeof value);
}

void gguf_key_f32(struct gguf_make *m, const char *key, float value) {
    gguf_key(m, key, 6, &value, sizeof value);
}

void gguf_key_text(struct gguf_make *m, const char *key, const char *text) {
    struct gguf_bytes value = {0};
    put_text(&value, text);
    gguf_key(m, key, 8, value.at, value.n);
    free(value.at);
}

static void pad(struct gguf_bytes *b, uint64_t alignment) {
    while (b->n % alignment != 0)
        gguf_put_number(b, 0, 1);
}

struct gguf_made *gguf_tensor(struct gguf_make *m, const char *name, uint32_t type, uint32_t n_dims,
                              const uint64_t *dims, const void *data, size_t bytes) {
    CHECK(m->n_tensors < GGUF_MAKE_TENSORS && n_dims <= 8);
    struct gguf_made *t = &m->tensors[m->n_tensors++];
    *t = (struct gguf_made){.type = type, .n_dims = n_dims};
    snprintf(t->name, sizeof t->name, "%s", name);
    memcpy(t->dims, dims, n_dims * sizeof *dims);
    pad(&m->data, m->alignment);
    t->offset = m->data.n;
    gguf_put(&m->data, data, bytes);
    return t;
}

unsigned char *gguf_end(struct gguf_make *m, size_t *n) {
    struct gguf_bytes b = {0};
    gguf_put(&b, "GGUF", 4);
    gguf_put_number(&b, m->version, 4);
    gguf_put_number(&b, m->lie_tensors != 0 ? m->lie_tensors : m->n_tensors, 8);
    gguf_put_number(&b, m->lie_keys != 0 ? m->lie_keys : m->n_keys, 8);
    gguf_put(&b, m->keys.at, m->keys.n);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct gguf_made *t = &m->tensors[i];
        gguf_put_number(&b, t->name_bytes != 0 ? t->name_bytes : strlen(t->name), 8);
        gguf_put(&b, t->name, strlen(t->name));
        gguf_put_number(&b, t->n_dims, 4);
        for (uint32_t d = 0; d < t->n_dims && d < 8; d++)
            gguf_put_number(&b, t->dims[d], 8);
        gguf_put_number(&b, t->type, 4);
        gguf_put_number(&b, t->offset, 8);
    }
    if (m->data.n > 0) {
        pad(&b, m->alignment != 0 ? m->alignment : 1);
        gguf_put(&b, m->data.at, m->data.n);
    }
    free(m->keys.at);
    free(m->data.at);
    m->keys = m->data = (struct gguf_bytes){0};
    *n = b.n;
    return b.at;
}

/* The architecture that a family's converter writes. */
static const char *arch_of(const struct krn_config *c) {
    if (strcmp(c->family, "qwen3_moe") == 0)
        return "qwen3moe";
    bool other = strncmp(c->family, "qwen", 4) == 0 || strcmp(c->family, "gemma3") == 0;
    return other ? c->family : "llama";
}

static const char *arch_key(const struct krn_config *c, const char *name) {
    static char key[96];
    snprintf(key, sizeof key, "%s.%s", arch_of(c), name);
    return key;
}

/* Windows by a list of truth values: all families' files can say that. */
static void window_keys(struct gguf_make *m, const struct krn_config *c) {
    struct gguf_bytes list = {0};
    gguf_key_u32(m, arch_key(c, "attention.sliding_window"), c->window);
    gguf_put_number(&list, 7, 4);
    gguf_put_number(&list, c->layers, 8);
    for (uint32_t l = 0; l < c->layers; l++)
        gguf_put_number(&list, krn_layer_windowed(c, l), 1);
    bool all = strcmp(c->family, "mistral") == 0 || strcmp(c->family, "mixtral") == 0;
    if (!all)
        gguf_key(m, arch_key(c, "attention.sliding_window_pattern"), 9, list.at, list.n);
    free(list.at);
}

static void expert_keys(struct gguf_make *m, const struct krn_config *c) {
    const unsigned char norm = c->experts_norm;
    gguf_key_u32(m, arch_key(c, "expert_count"), c->experts);
    gguf_key_u32(m, arch_key(c, "expert_used_count"), c->experts_used);
    if (strcmp(c->family, "qwen3_moe") == 0)
        gguf_key_u32(m, arch_key(c, "expert_feed_forward_length"), c->ffn);
    if (!norm)
        gguf_key(m, arch_key(c, "expert_weights_norm"), 7, &norm, 1);
}

void gguf_model_keys(struct gguf_make *m, const struct krn_config *c) {
    gguf_key_text(m, "general.architecture", arch_of(c));
    gguf_key_u32(m, arch_key(c, "block_count"), c->layers);
    gguf_key_u32(m, arch_key(c, "context_length"), c->context);
    gguf_key_u32(m, arch_key(c, "embedding_length"), c->hidden);
    gguf_key_u32(m, arch_key(c, "feed_forward_length"), c->dense_ffn != 0 ? c->dense_ffn : c->ffn);
    gguf_key_u32(m, arch_key(c, "attention.head_count"), c->heads);
    gguf_key_u32(m, arch_key(c, "attention.head_count_kv"), c->kv_heads);
    gguf_key_u32(m, arch_key(c, "attention.key_length"), c->head_dim);
    gguf_key_u32(m, arch_key(c, "attention.value_length"), c->head_dim);
    gguf_key_f32(m, arch_key(c, "attention.layer_norm_rms_epsilon"), c->norm_eps);
    gguf_key_f32(m, arch_key(c, "rope.freq_base"), (float)c->rope.theta);
    gguf_key_u32(m, arch_key(c, "rope.dimension_count"), c->head_dim);
    gguf_key_u32(m, arch_key(c, "vocab_size"), c->vocab);
    if (c->rope.kind == KRN_ROPE_LINEAR) {
        gguf_key_text(m, arch_key(c, "rope.scaling.type"), "linear");
        gguf_key_f32(m, arch_key(c, "rope.scaling.factor"), (float)c->rope.factor);
    }
    if (c->has_local_rope)
        gguf_key_f32(m, arch_key(c, "rope.freq_base_swa"), (float)c->local_rope.theta);
    if (c->window != 0 || strcmp(c->family, "gemma3") == 0)
        window_keys(m, c);
    if (c->experts != 0)
        expert_keys(m, c);
    if (c->bos >= 0)
        gguf_key_u32(m, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos);
    if (c->n_eos > 0)
        gguf_key_u32(m, "tokenizer.ggml.eos_token_id", c->eos[0]);
}

/* "model.layers.3.self_attn.q_proj.weight" as "blk.3.attn_q.weight". *expert: its number, or -1. */
static void file_name(const struct krn_config *c, const char *name, char out[128], int *expert) {
    static const char *const parts[][2] = {{"input_layernorm", "attn_norm"},
                                           {"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"self_attn.q_norm", "attn_q_norm"},
                                           {"self_attn.k_norm", "attn_k_norm"},
                                           {"pre_feedforward_layernorm", "ffn_norm"},
                                           {"post_feedforward_layernorm", "post_ffw_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"},
                                           {"mlp.gate.", "ffn_gate_inp."},
                                           {"block_sparse_moe.gate.", "ffn_gate_inp."}};
    static const char *const matrices[][2] = {
        {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"},
        {"w1", "ffn_gate_exps"},        {"w3", "ffn_up_exps"},      {"w2", "ffn_down_exps"}};
    unsigned layer;
    int used = 0;
    bool gemma = strcmp(c->family, "gemma3") == 0;
    *expert = -1;
    if (strcmp(name, "model.embed_tokens.weight") == 0)
        snprintf(out, 128, "token_embd.weight");
    else if (strcmp(name, "model.norm.weight") == 0)
        snprintf(out, 128, "output_norm.weight");
    else if (strcmp(name, "lm_head.weight") == 0)
        snprintf(out, 128, "output.weight");
    if (sscanf(name, "model.layers.%u.%n", &layer, &used) != 1 || used == 0)
        return;
    const char *at = name + used, *experts = strstr(at, "experts.");
    if (experts != NULL) {
        char matrix[32];
        CHECK(sscanf(experts, "experts.%d.%31[^.]", expert, matrix) == 2);
        for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
            if (strcmp(matrix, matrices[i][0]) == 0)
                snprintf(out, 128, "blk.%u.%s.weight", layer, matrices[i][1]);
        return;
    }
    if (strncmp(at, "post_attention_layernorm", 24) == 0)
        snprintf(out, 128, "blk.%u.%s.weight", layer, gemma ? "post_attention_norm" : "ffn_norm");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strncmp(at, parts[i][0], strlen(parts[i][0])) == 0)
            snprintf(out, 128, "blk.%u.%s%s", layer, parts[i][1], at + strlen(parts[i][0]));
}

/* The row of the file where row r of a tensor goes. */
static uint64_t file_row(const struct krn_config *c, const char *name, uint64_t r) {
    if ((strstr(name, "q_proj") == NULL && strstr(name, "k_proj") == NULL) ||
        strcmp(arch_of(c), "llama") != 0)
        return r;
    uint64_t head = r / c->head_dim, in = r % c->head_dim, half = c->head_dim / 2;
    return head * c->head_dim + 2 * (in % half) + in / half;
}

/* Element i, exact: plain tensors have blocks of one. */
static float plain_value(const struct krn_tensor *t, uint64_t i) {
    uint32_t bytes = gguf_block_bytes(t->dtype);
    return (float)gguf_value(t->dtype, (const unsigned char *)t->data + i * bytes, 0);
}

static size_t put_row(const struct krn_tensor *t, uint64_t row, uint64_t n, enum krn_dtype type,
                      bool values, unsigned char *out) {
    uint32_t block = gguf_block(type), bytes = gguf_block_bytes(type);
    float x[256];
    size_t used = 0;
    if (type == t->dtype && !values) {
        memcpy(out, (const unsigned char *)t->data + row * n * bytes, n * bytes);
        return n * bytes;
    }
    for (uint64_t at = 0; at < n; at += block) {
        unsigned char coded[256];
        for (uint32_t i = 0; i < block; i++)
            x[i] = plain_value(t, row * n + at + i);
        gguf_quantise(type, x, coded);
        for (uint32_t i = 0; values && i < block; i++) {
            float y = (float)gguf_value(type, coded, i);
            memcpy(out + used, &y, sizeof y);
            used += sizeof y;
        }
        if (!values) {
            memcpy(out + used, coded, bytes);
            used += bytes;
        }
    }
    return used;
}

/* Gemma's norms as its converter writes them: 1 + w in fp32. */
static bool more_norm(const struct krn_config *c, const struct krn_tensor *t) {
    return strcmp(c->family, "gemma3") == 0 && strstr(t->name, "norm.weight") != NULL;
}

/* The tensor of that name, or a new one of so many matrices; the next matrix's data follows. */
static void put_matrix(struct gguf_make *m, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *dims, uint32_t matrices, const void *data, size_t bytes) {
    struct gguf_made *last = m->n_tensors > 0 ? &m->tensors[m->n_tensors - 1] : NULL;
    if (matrices > 0 && last != NULL && strcmp(last->name, name) == 0) {
        gguf_put(&m->data, data, bytes);
        return;
    }
    const uint64_t stacked[3] = {dims[0], dims[1], matrices};
    gguf_tensor(m, name, type, matrices > 0 ? 3 : n_dims, stacked, data, bytes);
}

/* One tensor of the model: t, or of all experts that matrix of expert e. */
static void add_tensor(struct gguf_make *m, const struct krn_model *model,
                       const struct krn_tensor *t, const char *name, uint32_t matrices,
                       enum krn_dtype type, bool vectors_f32, bool values) {
    bool vector = t->n_dims == 1, more = more_norm(&model->config, t);
    enum krn_dtype as = !vector ? type : vectors_f32 || more ? KRN_F32 : t->dtype;
    uint64_t rows = t->dims[0], columns = vector ? 1 : t->dims[1];
    const uint64_t dims[2] = {vector ? rows : columns, rows};
    unsigned char *data = malloc(rows * columns * sizeof(float));
    unsigned char row[16384];
    CHECK(data != NULL && columns * sizeof(float) <= sizeof row);
    size_t bytes = 0;
    for (uint64_t r = 0; r < rows; r++) {
        bytes = put_row(t, r, columns, as, values && !vector, row);
        if (more) {
            float factor = 1.0F + plain_value(t, r);
            memcpy(row, &factor, sizeof factor);
        }
        memcpy(data + file_row(&model->config, t->name, r) * bytes, row, bytes);
    }
    put_matrix(m, name, gguf_type_number(values && !vector ? KRN_F32 : as), t->n_dims, dims,
               matrices, data, bytes * rows);
    free(data);
}

/* All matrices of a name, by expert's number. */
static void add_experts(struct gguf_make *m, const struct krn_model *model, const char *wanted,
                        enum krn_dtype type, bool values) {
    for (uint32_t e = 0; e < model->config.experts; e++)
        for (uint32_t i = 0; i < model->n_tensors; i++) {
            char name[128] = "";
            int expert;
            file_name(&model->config, model->tensors[i].name, name, &expert);
            if (expert == (int)e && strcmp(name, wanted) == 0)
                add_tensor(m, model, &model->tensors[i], name, model->config.experts, type, true,
                           values);
        }
}

static void add_tensors(struct gguf_make *m, const struct krn_model *model, enum krn_dtype type,
                        bool vectors_f32, bool values) {
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct krn_tensor *t = &model->tensors[i];
        char name[128] = "";
        int expert;
        file_name(&model->config, t->name, name, &expert);
        CHECK(name[0] != '\0');
        /* routers stay as precise as they are */
        bool router = strstr(name, "ffn_gate_inp") != NULL;
        if (expert < 0)
            add_tensor(m, model, t, name, 0, router && type >= KRN_DTYPES ? KRN_F32 : type,
                       vectors_f32, values && !router);
        else if (expert == 0)
            add_experts(m, model, name, type, values);
    }
}

void gguf_model_tensors(struct gguf_make *m, const struct krn_model *model, enum krn_dtype type,
                        bool vectors_f32) {
    add_tensors(m, model, type, vectors_f32, false);
}

void gguf_model_values(struct gguf_make *m, const struct krn_model *model, enum krn_dtype type) {
    add_tensors(m, model, type, true, true);
}
