/* SPDX-License-Identifier: Apache-2.0
 * The oracle executes an op list for one token at a time. Keys and values of a layer lie side by
 * side in [position].
 */
#include "kernels/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/oracle_rows.h"

struct krn_oracle {
    const struct krn_net *net;
    const struct krn_config *config;
    uint32_t context, pos, segments, segment, layers;
    float *rope[2];       /* [context][head_dim]: of all layers, of windowed ones */
    float *keys, *values; /* [layer][context][kv_heads * head_dim] */
    float *buf[KRN_BUFS];
    float *hidden;  /* [layers + 1][hidden] */
    float *mixed;   /* [V][hidden] sums over experts, then one expert's [hidden] */
    float *scratch; /* of a product: two rows of the widest input */
    float *memory;  /* all of the above */
    enum krn_dtype act, kv;
    bool cuda; /* a profile of the tensor cores */
};

static uint64_t buf_floats(const struct krn_config *c, enum krn_buf b) {
    switch (b) {
    case KRN_BUF_X:
    case KRN_BUF_H:
        return c->hidden;
    case KRN_BUF_Q:
    case KRN_BUF_A:
        return (uint64_t)c->heads * c->head_dim;
    case KRN_BUF_K:
    case KRN_BUF_V:
        return (uint64_t)c->kv_heads * c->head_dim;
    case KRN_BUF_G:
    case KRN_BUF_U:
        return c->ffn > c->dense_ffn ? c->ffn : c->dense_ffn;
    case KRN_BUF_R:
        return c->experts;
    case KRN_BUF_L:
        return c->vocab;
    default:
        return 0;
    }
}

static uint64_t widest_input(const struct krn_config *c) {
    uint64_t widest = c->hidden;
    for (int b = 0; b < KRN_BUFS; b++)
        if (b != KRN_BUF_L && buf_floats(c, (enum krn_buf)b) > widest)
            widest = buf_floats(c, (enum krn_buf)b);
    return widest;
}

enum status krn_oracle_open(const struct krn_net *net, const struct krn_profile *profile,
                            uint32_t context, struct krn_oracle **out, struct status_note *note) {
    const struct krn_config *c = &net->model->config;
    if (context == 0 || context > KRN_CONTEXT_MAX || c->head_dim > KRN_HEAD_MAX)
        return status_say(note, STATUS_BAD_REQUEST,
                          "the oracle cannot hold %u tokens of heads of %u", context, c->head_dim);
    uint64_t kv = (uint64_t)c->layers * context * c->kv_heads * c->head_dim;
    uint64_t widest = widest_input(c);
    uint64_t n = 2 * kv + 2ull * context * c->head_dim + (c->layers + 1ull) * c->hidden;
    uint64_t mixed = c->experts == 0 ? 0 : (profile->virtual_ranks + 1ull) * c->hidden;
    n += mixed + 2 * widest;
    for (int b = 0; b < KRN_BUFS; b++)
        n += buf_floats(c, (enum krn_buf)b);
    struct krn_oracle *o = calloc(1, sizeof *o);
    float *m = calloc(n, sizeof *m);
    if (o == NULL || m == NULL) {
        free(o);
        free(m);
        return status_say(note, STATUS_NO_MEMORY, "the oracle needs %llu bytes",
                          (unsigned long long)n * sizeof *m);
    }
    *o = (struct krn_oracle){.net = net,
                             .config = c,
                             .context = context,
                             .layers = c->layers,
                             .segments = profile->virtual_ranks,
                             .segment = profile->attn_segment,
                             .act = profile->act,
                             .kv = profile->kv,
                             .cuda = krn_profile_gpu(profile),
                             .memory = m};
    o->keys = m;
    o->values = m + kv;
    o->rope[0] = m + 2 * kv;
    o->rope[1] = o->rope[0] + (uint64_t)context * c->head_dim;
    o->hidden = o->rope[1] + (uint64_t)context * c->head_dim;
    m = o->hidden + (c->layers + 1ull) * c->hidden;
    o->mixed = m;
    m += mixed;
    o->scratch = m;
    m += 2 * widest;
    for (int b = 0; b < KRN_BUFS; b++) {
        o->buf[b] = m;
        m += buf_floats(c, (enum krn_buf)b);
    }
    krn_rope_table(&c->rope, c->head_dim, context, o->rope[0]);
    if (c->has_local_rope)
        krn_rope_table(&c->local_rope, c->head_dim, context, o->rope[1]);
    *out = o;
    return STATUS_OK;
}

void krn_oracle_close(struct krn_oracle *o) {
    if (o == NULL)
        return;
    free(o->memory);
    free(o);
}

void krn_oracle_reset(struct krn_oracle *o) {
    o->pos = 0;
}

const float *krn_oracle_hidden(const struct krn_oracle *o, uint32_t layer) {
    CHECK(layer <= o->layers);
    return o->hidden + (size_t)layer * o->config->hidden;
}

static void rope_kv(struct krn_oracle *o, const struct krn_op *op) {
    const struct krn_config *c = o->config;
    const float *cs = o->rope[op->local_rope] + (size_t)o->pos * c->head_dim;
    size_t width = (size_t)c->kv_heads * c->head_dim;
    size_t at = ((size_t)op->layer * o->context + o->pos) * width;
    for (uint32_t h = 0; h < c->heads; h++)
        krn_oracle_rope(o->buf[KRN_BUF_Q] + (size_t)h * c->head_dim, cs, c->head_dim);
    for (uint32_t h = 0; h < c->kv_heads; h++)
        krn_oracle_rope(o->buf[KRN_BUF_K] + (size_t)h * c->head_dim, cs, c->head_dim);
    if (o->kv == KRN_BF16) {
        void (*round)(float *, uint32_t) = o->cuda ? krn_oracle_round_cuda : krn_oracle_round_bf16;
        round(o->buf[KRN_BUF_K], (uint32_t)width);
        round(o->buf[KRN_BUF_V], (uint32_t)width);
    }
    memcpy(o->keys + at, o->buf[KRN_BUF_K], width * sizeof(float));
    memcpy(o->values + at, o->buf[KRN_BUF_V], width * sizeof(float));
}

static void attend(struct krn_oracle *o, const struct krn_op *op) {
    const struct krn_config *c = o->config;
    size_t at = (size_t)op->layer * o->context * c->kv_heads * c->head_dim;
    struct krn_oracle_attend a = {.q = o->buf[KRN_BUF_Q],
                                  .keys = o->keys + at,
                                  .values = o->values + at,
                                  .pos = o->pos,
                                  .heads = c->heads,
                                  .kv_heads = c->kv_heads,
                                  .head_dim = c->head_dim,
                                  .segment = o->segment,
                                  .scale = op->scale,
                                  .window = op->window,
                                  .out = o->buf[KRN_BUF_A]};
    (o->cuda             ? krn_oracle_attend_cuda
     : o->kv == KRN_BF16 ? krn_oracle_attend_bf16
                         : krn_oracle_attend)(&a);
}

static void product(const struct krn_oracle *o, const float *x, const struct krn_tensor *w,
                    uint32_t segments, const struct krn_tensor *bias, bool add, float *y) {
    if (o->cuda)
        krn_oracle_product_cuda(x, w, segments, bias, add, y, o->scratch);
    else if (o->act == KRN_BF16)
        krn_oracle_product_bf16(x, w, segments, bias, add, y, o->scratch);
    else if (o->act == KRN_Q8_0)
        krn_oracle_product_q8(x, w, segments, bias, add, y);
    else
        krn_oracle_product(x, w, segments, bias, add, y);
}

/* Each segment adds the chosen experts in ascending order; the segments add in the tree. */
static void experts(struct krn_oracle *o, const struct krn_op *op, const float *src, float *dst) {
    uint32_t chosen[KRN_EXPERTS_USED_MAX], h = op->k, part = op->n / o->segments;
    float weights[KRN_EXPERTS_USED_MAX], *one = o->mixed + (size_t)o->segments * h;
    float *g = o->buf[KRN_BUF_G], *u = o->buf[KRN_BUF_U];
    krn_oracle_route(o->buf[KRN_BUF_R], op->n_experts, op->used, op->norm_used, chosen, weights);
    memset(o->mixed, 0, (size_t)o->segments * h * sizeof *one);
    for (uint32_t j = 0; j < op->used; j++) {
        const struct krn_expert *e = &op->experts[chosen[j]];
        product(o, src, e->gate, 1, NULL, false, g);
        product(o, src, e->up, 1, NULL, false, u);
        krn_oracle_gate(g, u, op->n);
        for (uint32_t s = 0; s < o->segments; s++) {
            float *sum = o->mixed + (size_t)s * h;
            if (o->cuda)
                krn_oracle_segment_cuda(g, e->down, s * part, (s + 1) * part, one, o->scratch);
            else if (o->act == KRN_BF16)
                krn_oracle_segment_bf16(g, e->down, s * part, (s + 1) * part, one, o->scratch);
            else if (o->act == KRN_Q8_0)
                krn_oracle_segment_q8(g, e->down, s * part, (s + 1) * part, one);
            else
                krn_oracle_segment(g, e->down, s * part, (s + 1) * part, one);
            for (uint32_t i = 0; i < h; i++)
                sum[i] = fmaf(weights[j], one[i], sum[i]);
        }
    }
    for (uint32_t i = 0; i < h; i++) {
        for (uint32_t apart = 1; apart < o->segments; apart *= 2)
            for (uint32_t s = 0; s < o->segments; s += 2 * apart)
                o->mixed[(size_t)s * h + i] =
                    o->mixed[(size_t)s * h + i] + o->mixed[(size_t)(s + apart) * h + i];
        dst[i] = dst[i] + o->mixed[i];
    }
}

/* A router is fp32 in every profile (numerics.md 13.1). */
static void multiply(const struct krn_oracle *o, const struct krn_op *op, const float *x,
                     float *y) {
    uint32_t segments = op->split == KRN_SPLIT_ROWS ? o->segments : 1;
    if (op->dst == KRN_BUF_R)
        krn_oracle_product(x, op->w, segments, op->bias, op->add, y);
    else
        product(o, x, op->w, segments, op->bias, op->add, y);
}

/* Returns false when the final hidden state is not finite. */
static bool execute(struct krn_oracle *o, const struct krn_op *op, uint32_t token, bool logits) {
    const struct krn_config *c = o->config;
    float *dst = o->buf[op->dst], *src = o->buf[op->src], *normed;
    void (*norm)(const float *, const struct krn_tensor *, float *, uint32_t, float) =
        op->one_more ? krn_oracle_norm_more : krn_oracle_norm;
    switch (op->kind) {
    case KRN_OP_EMBED:
        (o->act == KRN_BF16 && !o->cuda ? krn_oracle_embed_bf16 : krn_oracle_embed)(op->w, token,
                                                                                    dst);
        if (op->scale != 1.0f)
            krn_oracle_scale(dst, op->scale, c->hidden);
        break;
    case KRN_OP_NORM:
        normed = op->add ? src : dst; /* a row that is added is not needed again */
        norm(src, op->w, normed, c->hidden, op->eps);
        for (uint32_t i = 0; op->add && i < c->hidden; i++)
            dst[i] = dst[i] + normed[i];
        break;
    case KRN_OP_PRODUCT:
        if (op->dst != KRN_BUF_L || logits)
            multiply(o, op, src, dst);
        break;
    case KRN_OP_HEAD_NORM:
        for (uint32_t at = 0; at < op->n; at += op->k)
            norm(dst + at, op->w, dst + at, op->k, op->eps);
        break;
    case KRN_OP_ROPE_KV:
        rope_kv(o, op);
        break;
    case KRN_OP_ATTEND:
        attend(o, op);
        break;
    case KRN_OP_GATE:
        (op->gelu ? krn_oracle_gate_gelu : krn_oracle_gate)(dst, o->buf[KRN_BUF_U], op->n);
        break;
    case KRN_OP_EXPERTS:
        experts(o, op, src, dst);
        break;
    case KRN_OP_FINAL:
        norm(src, op->w, dst, c->hidden, op->eps);
        return krn_oracle_finite(src, c->hidden);
    default:
        CHECK(op->kind < KRN_OP_KINDS);
    }
    return true;
}

bool krn_oracle_feed(struct krn_oracle *o, uint32_t token, float *logits) {
    const struct krn_config *c = o->config;
    CHECK(o->pos < o->context);
    CHECK(token < c->vocab);
    bool finite = true;
    uint32_t layer = 0;
    for (uint32_t i = 0; i < o->net->n_ops; i++) {
        const struct krn_op *op = o->net->ops + i;
        /* a boundary lies before the first op of the next layer and before the final norm */
        if (op->kind == KRN_OP_FINAL || (op->kind == KRN_OP_NORM && op->layer > layer)) {
            layer = op->kind == KRN_OP_FINAL ? c->layers : op->layer;
            memcpy(o->hidden + (size_t)layer * c->hidden, o->buf[KRN_BUF_X],
                   c->hidden * sizeof(float));
        }
        finite = execute(o, op, token, logits != NULL) && finite;
        if (op->kind == KRN_OP_EMBED)
            memcpy(o->hidden, o->buf[KRN_BUF_X], c->hidden * sizeof(float));
    }
    if (logits != NULL) {
        memcpy(logits, o->buf[KRN_BUF_L], c->vocab * sizeof(float));
        finite = krn_oracle_finite(logits, c->vocab) && finite;
    }
    o->pos++;
    return finite;
}
