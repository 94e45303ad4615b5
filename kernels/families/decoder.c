/* SPDX-License-Identifier: Apache-2.0
 * One table of weights serves checking, building and synthetic models of every family of decoders.
 */
#include "kernels/families/decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/families/expect.h"
#include "kernels/rowfn.h"

enum dim { DIM_NONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_FFN, DIM_HEAD, DIM_EXPERTS };
enum when {
    ALWAYS,
    ATTN_BIAS,
    ATTN_OUT_BIAS,
    MLP_BIAS,
    HEAD_NORMS,
    PLAIN,
    SANDWICH,
    DENSE,
    MIXTURE
};

enum slot {
    ATTN_NORM,
    Q,
    K,
    V,
    O,
    MLP_NORM,
    GATE,
    UP,
    DOWN,
    ROUTER, /* products */
    Q_BIAS,
    K_BIAS,
    V_BIAS,
    O_BIAS,
    GATE_BIAS,
    UP_BIAS,
    DOWN_BIAS,
    Q_NORM,
    K_NORM,
    PRE_MLP_NORM,
    POST_ATTN_NORM,
    POST_MLP_NORM,
    SLOTS
};

/* model.layers.N.<name>, [out][in]. */
static const struct {
    const char *name;
    enum dim out, in;
    enum krn_role role;
    enum when when;
} slots[SLOTS] = {
    [ATTN_NORM] = {"input_layernorm.weight", DIM_HIDDEN, DIM_NONE, KRN_ROLE_NORM, ALWAYS},
    [Q] = {"self_attn.q_proj.weight", DIM_Q, DIM_HIDDEN, KRN_ROLE_IN, ALWAYS},
    [K] = {"self_attn.k_proj.weight", DIM_KV, DIM_HIDDEN, KRN_ROLE_IN, ALWAYS},
    [V] = {"self_attn.v_proj.weight", DIM_KV, DIM_HIDDEN, KRN_ROLE_IN, ALWAYS},
    [O] = {"self_attn.o_proj.weight", DIM_HIDDEN, DIM_Q, KRN_ROLE_OUT, ALWAYS},
    [MLP_NORM] = {"post_attention_layernorm.weight", DIM_HIDDEN, DIM_NONE, KRN_ROLE_NORM, PLAIN},
    [GATE] = {"mlp.gate_proj.weight", DIM_FFN, DIM_HIDDEN, KRN_ROLE_IN, DENSE},
    [UP] = {"mlp.up_proj.weight", DIM_FFN, DIM_HIDDEN, KRN_ROLE_IN, DENSE},
    [DOWN] = {"mlp.down_proj.weight", DIM_HIDDEN, DIM_FFN, KRN_ROLE_OUT, DENSE},
    [ROUTER] = {NULL, DIM_EXPERTS, DIM_HIDDEN, KRN_ROLE_IN, MIXTURE}, /* the family names it */
    [Q_BIAS] = {"self_attn.q_proj.bias", DIM_Q, DIM_NONE, KRN_ROLE_BIAS, ATTN_BIAS},
    [K_BIAS] = {"self_attn.k_proj.bias", DIM_KV, DIM_NONE, KRN_ROLE_BIAS, ATTN_BIAS},
    [V_BIAS] = {"self_attn.v_proj.bias", DIM_KV, DIM_NONE, KRN_ROLE_BIAS, ATTN_BIAS},
    [O_BIAS] = {"self_attn.o_proj.bias", DIM_HIDDEN, DIM_NONE, KRN_ROLE_BIAS, ATTN_OUT_BIAS},
    [GATE_BIAS] = {"mlp.gate_proj.bias", DIM_FFN, DIM_NONE, KRN_ROLE_BIAS, MLP_BIAS},
    [UP_BIAS] = {"mlp.up_proj.bias", DIM_FFN, DIM_NONE, KRN_ROLE_BIAS, MLP_BIAS},
    [DOWN_BIAS] = {"mlp.down_proj.bias", DIM_HIDDEN, DIM_NONE, KRN_ROLE_BIAS, MLP_BIAS},
    [Q_NORM] = {"self_attn.q_norm.weight", DIM_HEAD, DIM_NONE, KRN_ROLE_NORM, HEAD_NORMS},
    [K_NORM] = {"self_attn.k_norm.weight", DIM_HEAD, DIM_NONE, KRN_ROLE_NORM, HEAD_NORMS},
    [PRE_MLP_NORM] = {"pre_feedforward_layernorm.weight", DIM_HIDDEN, DIM_NONE, KRN_ROLE_NORM,
                      SANDWICH},
    [POST_ATTN_NORM] = {"post_attention_layernorm.weight", DIM_HIDDEN, DIM_NONE, KRN_ROLE_NORM,
                        SANDWICH},
    [POST_MLP_NORM] = {"post_feedforward_layernorm.weight", DIM_HIDDEN, DIM_NONE, KRN_ROLE_NORM,
                       SANDWICH},
};

static const char embed_name[] = "model.embed_tokens.weight";
static const char norm_name[] = "model.norm.weight";
static const char head_name[] = "lm_head.weight";

static uint32_t dim_size(const struct krn_config *c, enum dim d) {
    switch (d) {
    case DIM_HIDDEN:
        return c->hidden;
    case DIM_Q:
        return c->heads * c->head_dim;
    case DIM_KV:
        return c->kv_heads * c->head_dim;
    case DIM_FFN:
        return krn_dense_width(c);
    case DIM_HEAD:
        return c->head_dim;
    case DIM_EXPERTS:
        return c->experts;
    case DIM_NONE:
        break;
    }
    return 0;
}

static bool slot_used(const struct krn_decoder *d, const struct krn_config *c, uint32_t layer,
                      enum slot s) {
    switch (slots[s].when) {
    case ATTN_BIAS:
        return c->attn_bias;
    case ATTN_OUT_BIAS:
        return c->attn_out_bias;
    case MLP_BIAS:
        return c->mlp_bias;
    case HEAD_NORMS:
        return d->head_norms;
    case PLAIN:
        return !d->sandwich;
    case SANDWICH:
        return d->sandwich;
    case DENSE:
        return krn_layer_dense(c, layer);
    case MIXTURE:
        return !krn_layer_dense(c, layer);
    case ALWAYS:
        break;
    }
    return true;
}

static void top_weight(struct krn_weight *out, const char *name, enum krn_role role, uint32_t rows,
                       uint32_t columns) {
    *out =
        (struct krn_weight){.role = role, .n_dims = columns == 0 ? 1 : 2, .dims = {rows, columns}};
    snprintf(out->name, sizeof out->name, "%s", name);
}

static void slot_name(const struct krn_decoder *d, char *out, size_t bytes, uint32_t layer,
                      enum slot s) {
    snprintf(out, bytes, "model.layers.%u.%s", layer,
             s == ROUTER ? d->experts->router : slots[s].name);
}

/* Matrices of an expert, in the order of its weights. */
enum part { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN, EXPERT_PARTS };

static void expert_name(const struct krn_decoder *d, char *out, size_t bytes, uint32_t layer,
                        uint32_t expert, enum part part) {
    const char *const names[EXPERT_PARTS] = {d->experts->gate, d->experts->up, d->experts->down};
    snprintf(out, bytes, "model.layers.%u.%s%u.%s", layer, d->experts->expert, expert, names[part]);
}

static enum krn_role norm_role(const struct krn_decoder *d) {
    return d->one_more ? KRN_ROLE_NORM_MORE : KRN_ROLE_NORM;
}

/* The slots that a layer uses, and how many weights it has with its experts'. */
static uint32_t layer_slots(const struct krn_decoder *d, const struct krn_config *c, uint32_t layer,
                            enum slot used[SLOTS], uint32_t *n_weights) {
    uint32_t n = 0;
    for (enum slot s = 0; s < SLOTS; s++)
        if (slot_used(d, c, layer, s))
            used[n++] = s;
    *n_weights = n + (krn_layer_dense(c, layer) ? 0 : EXPERT_PARTS * c->experts);
    return n;
}

/* A weight of a layer: its experts' stand behind the others. */
static void layer_weight_of(const struct krn_decoder *d, const struct krn_config *c, uint32_t layer,
                            uint32_t index, struct krn_weight *out) {
    enum slot used[SLOTS];
    uint32_t n_weights, n = layer_slots(d, c, layer, used, &n_weights);
    char name[sizeof out->name];
    if (index >= n) {
        enum part part = (index - n) % EXPERT_PARTS;
        expert_name(d, name, sizeof name, layer, (index - n) / EXPERT_PARTS, part);
        if (part == EXPERT_DOWN)
            top_weight(out, name, KRN_ROLE_OUT, c->hidden, c->ffn);
        else
            top_weight(out, name, KRN_ROLE_IN, c->ffn, c->hidden);
        return;
    }
    enum slot s = used[index];
    slot_name(d, name, sizeof name, layer, s);
    enum krn_role role = slots[s].role == KRN_ROLE_NORM ? norm_role(d) : slots[s].role;
    top_weight(out, name, role, dim_size(c, slots[s].out), dim_size(c, slots[s].in));
}

/* The layer of a weight behind the top ones, and in *index its place there. */
static uint32_t layer_of(const struct krn_decoder *d, const struct krn_config *c, uint32_t *index) {
    enum slot used[SLOTS];
    uint32_t layer = 0, n;
    layer_slots(d, c, layer, used, &n);
    if (c->dense_ffn == 0) { /* all layers have as many */
        layer = *index / n;
        *index %= n;
        return layer;
    }
    for (; layer < c->layers && *index >= n; layer_slots(d, c, ++layer, used, &n))
        *index -= n;
    return layer;
}

bool krn_decoder_weight(const struct krn_decoder *d, const struct krn_config *c, uint32_t index,
                        struct krn_weight *out) {
    if (index == 0) {
        top_weight(out, embed_name, KRN_ROLE_EMBED, c->vocab, c->hidden);
        return true;
    }
    if (index == 1) {
        top_weight(out, norm_name, norm_role(d), c->hidden, 0);
        return true;
    }
    index -= 2;
    if (!c->tied && index == 0) {
        top_weight(out, head_name, KRN_ROLE_HEAD, c->vocab, c->hidden);
        return true;
    }
    index -= !c->tied;
    uint32_t layer = layer_of(d, c, &index);
    if (layer >= c->layers)
        return false;
    layer_weight_of(d, c, layer, index, out);
    return true;
}

struct build {
    const struct krn_decoder *decoder;
    const struct krn_model *model;
    struct krn_op *ops;
    uint32_t n, max;
    struct krn_expert *experts; /* [layers][experts] */
};

static struct krn_op *emit(struct build *b, enum krn_op_kind kind, uint32_t layer, enum krn_buf src,
                           enum krn_buf dst) {
    CHECK(b->n < b->max);
    struct krn_op *op = &b->ops[b->n++];
    *op = (struct krn_op){.kind = kind, .layer = layer, .src = src, .dst = dst};
    return op;
}

/* Present: krn_expect_weights has seen it. */
static const struct krn_tensor *weight(const struct build *b, const char *name) {
    const struct krn_tensor *t = krn_model_tensor(b->model, name);
    CHECK(t != NULL);
    return t;
}

static const struct krn_tensor *layer_weight(const struct build *b, uint32_t layer, enum slot s) {
    if (s == SLOTS || !slot_used(b->decoder, &b->model->config, layer, s))
        return NULL;
    char name[sizeof((struct krn_weight *)0)->name];
    slot_name(b->decoder, name, sizeof name, layer, s);
    return weight(b, name);
}

static void emit_norm(struct build *b, uint32_t layer, enum slot s, enum krn_buf src,
                      enum krn_buf dst) {
    struct krn_op *op = emit(b, KRN_OP_NORM, layer, src, dst);
    op->one_more = b->decoder->one_more;
    op->add = dst == KRN_BUF_X;
    op->w = layer_weight(b, layer, s);
    op->n = op->k = b->model->config.hidden;
    op->eps = b->model->config.norm_eps;
}

static void emit_product(struct build *b, uint32_t layer, enum slot s, enum slot bias,
                         enum krn_buf src, enum krn_buf dst, enum krn_split split) {
    struct krn_op *op = emit(b, KRN_OP_PRODUCT, layer, src, dst);
    op->w = layer_weight(b, layer, s);
    op->bias = layer_weight(b, layer, bias);
    op->n = dim_size(&b->model->config, slots[s].out);
    op->k = dim_size(&b->model->config, slots[s].in);
    op->split = split;
    op->add = dst == KRN_BUF_X; /* the residual stream is only ever added to */
}

static void emit_head_norm(struct build *b, uint32_t layer, enum slot s, enum krn_buf buf,
                           uint32_t heads, enum krn_split split) {
    struct krn_op *op = emit(b, KRN_OP_HEAD_NORM, layer, buf, buf);
    op->w = layer_weight(b, layer, s);
    op->k = b->model->config.head_dim;
    op->n = heads * op->k;
    op->eps = b->model->config.norm_eps;
    op->one_more = b->decoder->one_more;
    op->split = split;
}

static void emit_attention(struct build *b, uint32_t l) {
    const struct krn_config *c = &b->model->config;
    if (b->decoder->head_norms) {
        emit_head_norm(b, l, Q_NORM, KRN_BUF_Q, c->heads, KRN_SPLIT_HEADS);
        emit_head_norm(b, l, K_NORM, KRN_BUF_K, c->kv_heads, KRN_SPLIT_KV_HEADS);
    }
    struct krn_op *op = emit(b, KRN_OP_ROPE_KV, l, KRN_BUF_Q, KRN_BUF_K);
    op->split = KRN_SPLIT_HEADS;
    op->local_rope = c->has_local_rope && krn_layer_windowed(c, l);
    op = emit(b, KRN_OP_ATTEND, l, KRN_BUF_Q, KRN_BUF_A);
    op->split = KRN_SPLIT_HEADS;
    op->scale = krn_attend_scale(c->score_scalar != 0 ? c->score_scalar : c->head_dim);
    op->window = krn_layer_windowed(c, l) ? c->window : 0;
}

/* A row-split product into the residual stream, normed first in a sandwich. */
static void emit_out(struct build *b, uint32_t l, enum slot s, enum slot bias, enum slot norm,
                     enum krn_buf src) {
    bool sandwich = b->decoder->sandwich;
    emit_product(b, l, s, bias, src, sandwich ? KRN_BUF_H : KRN_BUF_X, KRN_SPLIT_ROWS);
    if (sandwich)
        emit_norm(b, l, norm, KRN_BUF_H, KRN_BUF_X);
}

static void emit_experts(struct build *b, uint32_t l) {
    const struct krn_config *c = &b->model->config;
    struct krn_expert *experts = b->experts + (size_t)l * c->experts;
    for (uint32_t e = 0; e < c->experts; e++) {
        const struct krn_tensor *t[EXPERT_PARTS];
        for (enum part part = 0; part < EXPERT_PARTS; part++) {
            char name[sizeof((struct krn_weight *)0)->name];
            expert_name(b->decoder, name, sizeof name, l, e, part);
            t[part] = weight(b, name);
        }
        experts[e] = (struct krn_expert){t[EXPERT_GATE], t[EXPERT_UP], t[EXPERT_DOWN]};
    }
    struct krn_op *op = emit(b, KRN_OP_EXPERTS, l, KRN_BUF_H, KRN_BUF_X);
    op->experts = experts;
    op->n_experts = c->experts;
    op->used = c->experts_used;
    op->norm_used = c->experts_norm;
    op->n = c->ffn;
    op->k = c->hidden;
    op->split = KRN_SPLIT_ROWS;
    op->add = true;
}

static void emit_mlp(struct build *b, uint32_t l) {
    if (!krn_layer_dense(&b->model->config, l)) {
        emit_product(b, l, ROUTER, SLOTS, KRN_BUF_H, KRN_BUF_R, KRN_SPLIT_NONE);
        emit_experts(b, l);
        return;
    }
    emit_product(b, l, GATE, GATE_BIAS, KRN_BUF_H, KRN_BUF_G, KRN_SPLIT_COLUMNS);
    emit_product(b, l, UP, UP_BIAS, KRN_BUF_H, KRN_BUF_U, KRN_SPLIT_COLUMNS);
    struct krn_op *gate = emit(b, KRN_OP_GATE, l, KRN_BUF_U, KRN_BUF_G);
    gate->n = krn_dense_width(&b->model->config);
    gate->split = KRN_SPLIT_COLUMNS;
    gate->gelu = b->decoder->gelu;
    emit_out(b, l, DOWN, DOWN_BIAS, POST_MLP_NORM, KRN_BUF_G);
}

static void emit_layer(struct build *b, uint32_t l) {
    emit_norm(b, l, ATTN_NORM, KRN_BUF_X, KRN_BUF_H);
    emit_product(b, l, Q, Q_BIAS, KRN_BUF_H, KRN_BUF_Q, KRN_SPLIT_HEADS);
    emit_product(b, l, K, K_BIAS, KRN_BUF_H, KRN_BUF_K, KRN_SPLIT_KV_HEADS);
    emit_product(b, l, V, V_BIAS, KRN_BUF_H, KRN_BUF_V, KRN_SPLIT_KV_HEADS);
    emit_attention(b, l);
    emit_out(b, l, O, O_BIAS, POST_ATTN_NORM, KRN_BUF_A);
    emit_norm(b, l, b->decoder->sandwich ? PRE_MLP_NORM : MLP_NORM, KRN_BUF_X, KRN_BUF_H);
    emit_mlp(b, l);
}

/* The root of n in fp32, then rounded to the type, ties to even; blocked types hold fp32 values. */
static float root_rounded(uint32_t n, enum krn_dtype dtype) {
    float root = sqrtf((float)n); /* from 1 to 2^8: a normal number of every type */
    uint32_t bits, drop = dtype == KRN_BF16 ? 16 : dtype == KRN_F16 ? 13 : 0;
    memcpy(&bits, &root, sizeof bits);
    if (drop != 0) {
        bits += (1U << (drop - 1)) - 1 + (bits >> drop & 1);
        bits = bits >> drop << drop;
    }
    memcpy(&root, &bits, sizeof root);
    return root;
}

enum status krn_decoder_build(const struct krn_family *family, const struct krn_decoder *decoder,
                              const struct krn_model *model, struct krn_net *out,
                              struct status_note *note) {
    enum { OPS_A_LAYER = 12, OPS_OF_EXPERTS = 10, OPS_AROUND = 3 };
    const struct krn_config *c = &model->config;
    CHECK((c->experts != 0) == (decoder->experts != NULL) && !(c->experts != 0 && c->mlp_bias));
    TRY(krn_expect_weights(family, model, note));
    uint32_t more = (decoder->head_norms ? 2 : 0) + (decoder->sandwich ? 2 : 0);
    struct build b = {.decoder = decoder, .model = model, .max = OPS_AROUND};
    for (uint32_t l = 0; l < c->layers; l++)
        b.max += (krn_layer_dense(c, l) ? OPS_A_LAYER : OPS_OF_EXPERTS) + more;
    b.ops = calloc(b.max, sizeof *b.ops);
    b.experts = calloc((size_t)c->layers * c->experts + 1, sizeof *b.experts);
    if (b.ops == NULL || b.experts == NULL) {
        free(b.ops);
        free(b.experts);
        return status_say(note, STATUS_NO_MEMORY, "no memory for the op list of %u layers",
                          c->layers);
    }
    struct krn_op *op = emit(&b, KRN_OP_EMBED, 0, KRN_BUF_NONE, KRN_BUF_X);
    op->w = weight(&b, embed_name);
    op->n = c->hidden;
    op->k = c->vocab;
    op->scale = decoder->root_embed ? root_rounded(c->hidden, op->w->dtype) : 1.0F;
    for (uint32_t l = 0; l < c->layers; l++)
        emit_layer(&b, l);
    op = emit(&b, KRN_OP_FINAL, c->layers, KRN_BUF_X, KRN_BUF_H);
    op->w = weight(&b, norm_name);
    op->n = op->k = c->hidden;
    op->eps = c->norm_eps;
    op->one_more = decoder->one_more;
    op = emit(&b, KRN_OP_PRODUCT, c->layers, KRN_BUF_H, KRN_BUF_L);
    op->w = weight(&b, c->tied ? embed_name : head_name);
    op->n = c->vocab;
    op->k = c->hidden;
    op->split = KRN_SPLIT_VOCAB;
    CHECK(b.n == b.max);
    *out = (struct krn_net){.model = model, .n_ops = b.n, .ops = b.ops, .experts = b.experts};
    return STATUS_OK;
}
