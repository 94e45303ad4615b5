/* SPDX-License-Identifier: Apache-2.0
 * What tests/kernels/forward64.h says.
 */
#include "tests/kernels/forward64.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "tests/kernels/gguf_make.h"

struct run {
    const struct krn_model *m;
    const struct krn_config *c;
    bool gemma, mixtral;
    uint32_t pos, q, kv;
    double *keys, *values; /* [layers][FORWARD64_TOKENS][kv] */
    double margin;
    double **wide; /* a tensor's elements, one table a tensor, made when it is first read */
};

static double *room(size_t n) {
    double *x = calloc(n, sizeof *x);
    CHECK(x != NULL);
    return x;
}

__attribute__((format(printf, 2, 3))) static const struct krn_tensor *
find(const struct run *u, const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return krn_model_tensor(u->m, name);
}

static const double *elements(const struct run *u, const struct krn_tensor *t) {
    double **wide = &u->wide[t - u->m->tensors];
    uint32_t block = gguf_block(t->dtype), bytes = gguf_block_bytes(t->dtype);
    uint64_t n = t->bytes / bytes * block;
    if (*wide != NULL)
        return *wide;
    *wide = room(n);
    for (uint64_t i = 0; i < n; i++)
        (*wide)[i] = gguf_value(t->dtype, (const unsigned char *)t->data + i / block * bytes,
                                (uint32_t)(i % block));
    return *wide;
}

/* y = w x + bias. */
static void product(const struct run *u, const struct krn_tensor *w, const struct krn_tensor *bias,
                    const double *x, double *y) {
    CHECK(w != NULL && w->n_dims == 2);
    const double *row = elements(u, w);
    for (uint64_t n = 0; n < w->dims[0]; n++, row += w->dims[1]) {
        y[n] = bias != NULL ? elements(u, bias)[n] : 0.0;
        for (uint64_t k = 0; k < w->dims[1]; k++)
            y[n] += row[k] * x[k];
    }
}

static void norm(const struct run *u, const struct krn_tensor *w, const double *x, double *y,
                 uint32_t n) {
    double sum = 0.0;
    CHECK(w != NULL && w->dims[0] == n);
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    double scale = 1.0 / sqrt(sum / n + (double)u->c->norm_eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * scale * (u->gemma ? 1.0 + elements(u, w)[i] : elements(u, w)[i]);
}

static void rotate(const struct run *u, const struct krn_rope *rope, double *x) {
    uint32_t d = u->c->head_dim;
    double factor = rope->kind == KRN_ROPE_LINEAR ? rope->factor : 1.0;
    CHECK(rope->kind != KRN_ROPE_LLAMA3);
    for (uint32_t i = 0; i < d / 2; i++) {
        double angle = u->pos / factor * pow(rope->theta, -2.0 * i / d);
        double a = x[i], b = x[i + d / 2];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + d / 2] = b * cos(angle) + a * sin(angle);
    }
}

/* One head over the keys that the row sees. */
static void attend(const struct run *u, uint32_t layer, uint32_t head, const double *q,
                   double *out) {
    const struct krn_config *c = u->c;
    uint32_t d = c->head_dim, from = 0, kv_head = head / (c->heads / c->kv_heads);
    bool windowed = krn_layer_windowed(c, layer);
    double s[FORWARD64_TOKENS], max = -INFINITY, sum = 0.0;
    if (windowed && u->pos + 1 > c->window)
        from = u->pos + 1 - c->window;
    size_t base = ((size_t)layer * FORWARD64_TOKENS) * u->kv + (size_t)kv_head * d;
    for (uint32_t j = from; j <= u->pos; j++) {
        s[j] = 0.0;
        for (uint32_t i = 0; i < d; i++)
            s[j] += q[i] * u->keys[base + (size_t)j * u->kv + i];
        s[j] /= sqrt(c->score_scalar != 0 ? c->score_scalar : d);
        max = fmax(max, s[j]);
    }
    memset(out, 0, d * sizeof *out);
    for (uint32_t j = from; j <= u->pos; j++)
        sum += exp(s[j] - max);
    for (uint32_t j = from; j <= u->pos; j++)
        for (uint32_t i = 0; i < d; i++)
            out[i] += exp(s[j] - max) / sum * u->values[base + (size_t)j * u->kv + i];
}

#define LAYER "model.layers.%u."

/* Adds attention to x. */
static void attention(struct run *u, uint32_t l, double *x) {
    const struct krn_config *c = u->c;
    uint32_t d = c->head_dim;
    double *h = room(c->hidden), *q = room(u->q), *a = room(u->q), *out = room(c->hidden);
    double *k = u->keys + ((size_t)l * FORWARD64_TOKENS + u->pos) * u->kv;
    double *v = u->values + ((size_t)l * FORWARD64_TOKENS + u->pos) * u->kv;
    const struct krn_rope *rope =
        c->has_local_rope && krn_layer_windowed(c, l) ? &c->local_rope : &c->rope;
    norm(u, find(u, LAYER "input_layernorm.weight", l), x, h, c->hidden);
    product(u, find(u, LAYER "self_attn.q_proj.weight", l),
            find(u, LAYER "self_attn.q_proj.bias", l), h, q);
    product(u, find(u, LAYER "self_attn.k_proj.weight", l),
            find(u, LAYER "self_attn.k_proj.bias", l), h, k);
    product(u, find(u, LAYER "self_attn.v_proj.weight", l),
            find(u, LAYER "self_attn.v_proj.bias", l), h, v);
    bool norms = u->gemma || strncmp(c->family, "qwen3", 5) == 0;
    for (uint32_t i = 0; i < c->heads; i++) {
        if (norms)
            norm(u, find(u, LAYER "self_attn.q_norm.weight", l), q + i * d, q + i * d, d);
        rotate(u, rope, q + i * d);
    }
    for (uint32_t i = 0; i < c->kv_heads; i++) {
        if (norms)
            norm(u, find(u, LAYER "self_attn.k_norm.weight", l), k + i * d, k + i * d, d);
        rotate(u, rope, k + i * d);
    }
    for (uint32_t i = 0; i < c->heads; i++)
        attend(u, l, i, q + i * d, a + i * d);
    product(u, find(u, LAYER "self_attn.o_proj.weight", l),
            find(u, LAYER "self_attn.o_proj.bias", l), a, out);
    if (u->gemma)
        norm(u, find(u, LAYER "post_attention_layernorm.weight", l), out, out, c->hidden);
    for (uint32_t i = 0; i < c->hidden; i++)
        x[i] += out[i];
    free(h);
    free(q);
    free(a);
    free(out);
}

static double gate_of(const struct run *u, double g) {
    if (u->gemma)
        return 0.5 * g * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g)));
    return g / (1.0 + exp(-g));
}

/* out += weight * mlp(h). */
static void mlp(const struct run *u, const struct krn_tensor *const w[3],
                const struct krn_tensor *const bias[3], double weight, const double *h,
                double *out) {
    const uint64_t ffn = w[0]->dims[0];
    double *g = room(ffn), *up = room(ffn), *y = room(u->c->hidden);
    product(u, w[0], bias[0], h, g);
    product(u, w[1], bias[1], h, up);
    for (uint64_t i = 0; i < ffn; i++)
        g[i] = gate_of(u, g[i]) * up[i];
    product(u, w[2], bias[2], g, y);
    for (uint32_t i = 0; i < u->c->hidden; i++)
        out[i] += weight * y[i];
    free(g);
    free(up);
    free(y);
}

static void mixture(struct run *u, uint32_t l, const double *h, double *out) {
    const struct krn_config *c = u->c;
    const struct krn_tensor *const none[3] = {NULL, NULL, NULL};
    double *z = room(c->experts), all = 0.0, some = 0.0;
    bool *in = calloc(c->experts, sizeof *in);
    CHECK(in != NULL);
    product(u,
            u->mixtral ? find(u, LAYER "block_sparse_moe.gate.weight", l)
                       : find(u, LAYER "mlp.gate.weight", l),
            NULL, h, z);
    for (uint32_t k = 0; k <= c->experts_used && k < c->experts; k++) {
        uint32_t best = c->experts;
        double last = INFINITY;
        for (uint32_t e = 0; e < c->experts; e++) {
            if (in[e])
                last = fmin(last, z[e]);
            else if (best == c->experts || z[e] > z[best])
                best = e;
        }
        if (k < c->experts_used)
            in[best] = true;
        else
            u->margin = fmin(u->margin, last - z[best]);
    }
    for (uint32_t e = 0; e < c->experts; e++) {
        all += exp(z[e]);
        some += in[e] ? exp(z[e]) : 0.0;
    }
    for (uint32_t e = 0; e < c->experts; e++) {
        static const char *const names[2][3] = {{"gate_proj", "up_proj", "down_proj"},
                                                {"w1", "w3", "w2"}};
        const struct krn_tensor *w[3];
        for (int i = 0; i < 3; i++)
            w[i] = find(u, LAYER "%s.experts.%u.%s.weight", l,
                        u->mixtral ? "block_sparse_moe" : "mlp", e, names[u->mixtral][i]);
        if (in[e])
            mlp(u, w, none, exp(z[e]) / (c->experts_norm ? some : all), h, out);
    }
    free(z);
    free(in);
}

static void feed_forward(struct run *u, uint32_t l, double *x) {
    const struct krn_config *c = u->c;
    double *h = room(c->hidden), *out = room(c->hidden);
    norm(u,
         u->gemma ? find(u, LAYER "pre_feedforward_layernorm.weight", l)
                  : find(u, LAYER "post_attention_layernorm.weight", l),
         x, h, c->hidden);
    if (c->experts != 0 && find(u, LAYER "mlp.gate_proj.weight", l) == NULL) {
        mixture(u, l, h, out);
    } else {
        static const char *const names[3] = {"gate_proj", "up_proj", "down_proj"};
        const struct krn_tensor *w[3], *bias[3];
        for (int i = 0; i < 3; i++) {
            w[i] = find(u, LAYER "mlp.%s.weight", l, names[i]);
            bias[i] = find(u, LAYER "mlp.%s.bias", l, names[i]);
        }
        mlp(u, w, bias, 1.0, h, out);
    }
    if (u->gemma)
        norm(u, find(u, LAYER "post_feedforward_layernorm.weight", l), out, out, c->hidden);
    for (uint32_t i = 0; i < c->hidden; i++)
        x[i] += out[i];
    free(h);
    free(out);
}

/* The root of hidden, to the bits that the embedding's type has. */
static double embed_scale(const struct run *u, enum krn_dtype type) {
    int bits = type == KRN_BF16 ? 8 : type == KRN_F16 ? 11 : 24, exponent;
    double part = frexp(sqrt(u->c->hidden), &exponent);
    return u->gemma ? ldexp(nearbyint(ldexp(part, bits)), exponent - bits) : 1.0;
}

double *forward64(const struct krn_model *model, const uint32_t *ids, uint32_t n, double *margin) {
    const struct krn_config *c = &model->config;
    struct run u = {.m = model,
                    .c = c,
                    .gemma = strcmp(c->family, "gemma3") == 0,
                    .mixtral = strcmp(c->family, "mixtral") == 0,
                    .q = c->heads * c->head_dim,
                    .kv = c->kv_heads * c->head_dim,
                    .margin = INFINITY};
    CHECK(n <= FORWARD64_TOKENS);
    u.keys = room((size_t)c->layers * FORWARD64_TOKENS * u.kv);
    u.values = room((size_t)c->layers * FORWARD64_TOKENS * u.kv);
    u.wide = calloc(model->n_tensors, sizeof *u.wide);
    CHECK(u.wide != NULL);
    const struct krn_tensor *table = find(&u, "model.embed_tokens.weight");
    double *logits = room((size_t)n * c->vocab), *x = room(c->hidden);
    for (u.pos = 0; u.pos < n; u.pos++) {
        for (uint32_t i = 0; i < c->hidden; i++)
            x[i] = elements(&u, table)[(uint64_t)ids[u.pos] * c->hidden + i] *
                   embed_scale(&u, table->dtype);
        for (uint32_t l = 0; l < c->layers; l++) {
            attention(&u, l, x);
            feed_forward(&u, l, x);
        }
        norm(&u, find(&u, "model.norm.weight"), x, x, c->hidden);
        product(&u, c->tied ? table : find(&u, "lm_head.weight"), NULL, x,
                logits + (size_t)u.pos * c->vocab);
    }
    *margin = u.margin;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        free(u.wide[i]);
    free(u.wide);
    free(u.keys);
    free(u.values);
    free(x);
    return logits;
}

double forward64_error(const float *got, const double *want, size_t n) {
    double most = 0.0, largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want[i]);
        if (isnan(off))
            return off;
        most = fmax(most, off);
        largest = fmax(largest, fabs(want[i]));
    }
    return most / largest;
}
