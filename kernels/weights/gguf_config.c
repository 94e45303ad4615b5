/* SPDX-License-Identifier: Apache-2.0
 * Metadata of a GGUF file as a model's configuration. A key of the architecture that this build
 * does not know is an error, never ignored.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/approx.h"
#include "kernels/rowfn.h"
#include "kernels/weights/config_json.h"
#include "kernels/weights/gguf_arch.h"
#include "kernels/weights/gguf_model.h"
#include "kernels/weights/json.h"

/* What reads one file: its architecture and the key that was asked for last. */
struct reading {
    struct krn_gguf_reader *r;
    const struct krn_gguf_arch *a;
    char key[96];
};

static void quote_text(char out[KRN_QUOTE_BYTES], const unsigned char *text, uint64_t n) {
    char copy[64];
    size_t bytes = n < sizeof copy - 1 ? (size_t)n : sizeof copy - 1;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    krn_quote(out, copy);
}

/* The architecture's key of that name; good until the next call. */
static const char *key_of(struct reading *in, const char *name) {
    snprintf(in->key, sizeof in->key, "%s.%s", in->a->name, name);
    return in->key;
}

static const struct krn_gguf_value *find(struct reading *in, const char *name) {
    return krn_gguf_find(in->r->g, key_of(in, name));
}

/* Token ids and shapes fit 32 bits by their limits. */
static uint32_t number(struct reading *in, const char *name, uint64_t max) {
    return (uint32_t)krn_gguf_number(in->r, key_of(in, name), 1, max);
}

static uint64_t number_or(struct reading *in, const char *name, uint64_t absent, uint64_t min,
                          uint64_t max) {
    return krn_gguf_number_or(in->r, key_of(in, name), absent, min, max);
}

static void check_known(struct reading *in) {
    struct krn_gguf_reader *r = in->r;
    const size_t prefix = strlen(in->a->name);
    for (uint32_t i = 0; i < r->g->n_values; i++) {
        const struct krn_gguf_value *v = &r->g->values[i];
        if (v->key_bytes > prefix && memcmp(v->key, in->a->name, prefix) == 0 &&
            v->key[prefix] == '.' &&
            !krn_gguf_arch_knows(in->a, v->key + prefix + 1, v->key_bytes - prefix - 1)) {
            char quoted[KRN_QUOTE_BYTES];
            quote_text(quoted, v->key, v->key_bytes);
            krn_gguf_fault(r, STATUS_BAD_MODEL, quoted, "is nothing that this build knows");
        }
    }
    if (!krn_gguf_text_is(r, "general.type", "model", true))
        krn_gguf_fault(r, STATUS_BAD_MODEL, "general.type", "is not \"model\"");
    if (krn_gguf_number_or(r, "split.count", 1, 0, UINT16_MAX) > 1)
        krn_gguf_fault(r, STATUS_BAD_MODEL, "split.count",
                       "says that this is one part of several; this build reads whole files");
}

static void read_head_dim(struct reading *in, struct krn_config *c) {
    struct krn_gguf_reader *r = in->r;
    c->head_dim =
        (uint32_t)number_or(in, "attention.key_length", c->hidden / c->heads, 1, KRN_HEAD_MAX);
    if (find(in, "attention.key_length") == NULL && c->hidden % c->heads != 0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, key_of(in, "embedding_length"),
                       "%u is not a multiple of the %u heads", c->hidden, c->heads);
    if (number_or(in, "attention.value_length", c->head_dim, 0, UINT32_MAX) != c->head_dim)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key, "differs from the keys' %u", c->head_dim);
    if (number_or(in, "rope.dimension_count", c->head_dim, 0, UINT32_MAX) != c->head_dim)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key, "is not %u; this build rotates whole heads",
                       c->head_dim);
}

static void read_vocab(struct reading *in, struct krn_config *c) {
    struct krn_gguf_reader *r = in->r;
    const struct krn_entry *table = krn_gguf_entry(r->g, "token_embd.weight");
    if (r->status == STATUS_OK && (table == NULL || table->n_dims != 2))
        r->status = status_say(r->note, STATUS_BAD_MODEL, "%s: tensor token_embd.weight %s",
                               r->g->file, table == NULL ? "is missing" : "is not a matrix");
    if (r->status != STATUS_OK)
        return;
    uint64_t vocab = number_or(in, "vocab_size", table->dims[0], 0, UINT32_MAX);
    if (table->dims[0] > KRN_CONFIG_VOCAB_MAX)
        r->status =
            status_say(r->note, STATUS_BAD_MODEL,
                       "%s: tensor token_embd.weight has %" PRIu64 " rows, at most %d are allowed",
                       r->g->file, table->dims[0], KRN_CONFIG_VOCAB_MAX);
    else if (vocab != table->dims[0])
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key,
                       "is %" PRIu64 ", token_embd.weight has %" PRIu64 " rows", vocab,
                       table->dims[0]);
    c->vocab = (uint32_t)table->dims[0];
}

/* Layers with one MLP between those with experts: no key names them, their tensors do. */
static void read_dense(struct reading *in, struct krn_config *c) {
    const struct krn_table *table = &in->r->g->table;
    for (uint32_t i = 0; i < table->n; i++) {
        uint32_t layer;
        if (krn_gguf_dense_layer(table->entries[i].name, c->layers, &layer))
            c->dense[layer / 32] |= 1U << (layer % 32);
    }
    for (uint32_t l = 0; l < c->layers && c->dense_ffn == 0; l++)
        if (krn_layer_dense(c, l))
            c->dense_ffn = number(in, "feed_forward_length", KRN_CONFIG_FFN_MAX);
}

/* ffn is an expert's width where there are experts. */
static void read_experts(struct reading *in, struct krn_config *c) {
    struct krn_gguf_reader *r = in->r;
    bool always = in->a->experts == KRN_GGUF_EXPERTS;
    uint64_t experts = number_or(in, "expert_count", 0, 0, UINT32_MAX);
    if (in->a->experts == KRN_GGUF_DENSE && experts != 0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key, "is not 0; architecture %s has no experts",
                       in->a->name);
    if (r->status != STATUS_OK || (!always && experts == 0))
        return;
    c->experts = number(in, "expert_count", KRN_EXPERTS_MAX);
    c->experts_used = number(in, "expert_used_count", c->experts);
    if (always || find(in, "expert_feed_forward_length") != NULL)
        c->ffn = number(in, "expert_feed_forward_length", KRN_CONFIG_FFN_MAX);
    if (always)
        read_dense(in, c);
    c->experts_norm = krn_gguf_bool_or(r, key_of(in, "expert_weights_norm"), true);
    if (krn_gguf_real_or(r, key_of(in, "expert_weights_scale"), 1.0) != 1.0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key, "is not 1; this build scales no experts");
    if (number_or(in, "expert_gating_func", 1, 0, UINT32_MAX) != 1)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key,
                       "is not 1, softmax, which is the one that this build knows");
    if (number_or(in, "expert_shared_count", 0, 0, UINT32_MAX) != 0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key, "is not 0; this build shares no experts");
}

static void read_shape(struct reading *in, struct krn_config *c) {
    c->hidden = number(in, "embedding_length", KRN_CONFIG_HIDDEN_MAX);
    if (in->a->experts != KRN_GGUF_EXPERTS)
        c->ffn = number(in, "feed_forward_length", KRN_CONFIG_FFN_MAX);
    c->layers = number(in, "block_count", KRN_LAYERS_MAX);
    c->context = number(in, "context_length", KRN_CONTEXT_MAX);
    c->heads = number(in, "attention.head_count", KRN_CONFIG_HEADS_MAX);
    c->kv_heads =
        (uint32_t)number_or(in, "attention.head_count_kv", c->heads, 1, KRN_CONFIG_HEADS_MAX);
    read_head_dim(in, c);
    read_experts(in, c);
    read_vocab(in, c);
}

static void set_windowed(struct krn_config *c, uint32_t layer) {
    c->windowed[layer / 32] |= 1U << (layer % 32);
}

/* Which layers have the window: each named, or all but each n-th, 0 for none of these. */
static void read_pattern(struct reading *in, struct krn_config *c) {
    enum { GEMMA_PATTERN = 6 };
    const struct krn_gguf_value *v = find(in, "attention.sliding_window_pattern");
    if (v != NULL && v->type == KRN_GGUF_LIST) {
        if (v->element != KRN_GGUF_BOOL || v->count != c->layers)
            krn_gguf_fault(in->r, STATUS_BAD_MODEL, in->key,
                           "is not a list of %u truth values, one a layer", c->layers);
        for (uint32_t l = 0; l < c->layers && in->r->status == STATUS_OK; l++)
            if (v->at[l] != 0)
                set_windowed(c, l);
        return;
    }
    if (v == NULL && !in->a->gemma && in->a->window_family == NULL) {
        krn_gguf_fault(in->r, STATUS_BAD_MODEL, key_of(in, "attention.sliding_window"),
                       "is set, and no attention.sliding_window_pattern says for which layers");
        return;
    }
    uint64_t pattern = number_or(in, "attention.sliding_window_pattern",
                                 in->a->gemma ? GEMMA_PATTERN : 0, 0, KRN_LAYERS_MAX);
    for (uint32_t l = 0; l < c->layers && in->r->status == STATUS_OK; l++)
        if (pattern == 0 || (l + 1) % pattern != 0)
            set_windowed(c, l);
}

/* A window of 0 keys is none. */
static void read_windows(struct reading *in, struct krn_config *c) {
    uint64_t window =
        in->a->gemma
            ? krn_gguf_number(in->r, key_of(in, "attention.sliding_window"), 0, KRN_CONTEXT_MAX)
            : number_or(in, "attention.sliding_window", 0, 0, KRN_CONTEXT_MAX);
    if (in->r->status != STATUS_OK || window == 0)
        return;
    read_pattern(in, c);
    for (uint32_t l = 0; l < c->layers; l++)
        if (krn_layer_windowed(c, l))
            c->window = (uint32_t)window;
}

/* More than `above`, and finite. */
static double real_above(struct krn_gguf_reader *r, const char *key, double value, double above) {
    if (!isfinite(value) || value <= above)
        krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is %g, not a finite number above %g", value,
                       above);
    return value;
}

/* Factors by which the published llama3 rule divides frequency i of head_dim / 2, against those of
 * the file. */
static bool factors_match(const struct krn_config *c, const struct krn_rope *l,
                          const unsigned char *factors) {
    const double two_pi = 0x1.921fb54442d18p+2;
    for (uint32_t i = 0; i < c->head_dim / 2; i++) {
        double wave = two_pi * krn_pow64(l->theta, 2.0 * i / c->head_dim);
        double smooth = (l->original_context / wave - l->low_freq_factor) /
                        (l->high_freq_factor - l->low_freq_factor);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        float found;
        memcpy(&found, factors + 4 * (size_t)i, sizeof found);
        double expected = 1.0 / ((1.0 - smooth) / l->factor + smooth);
        if (!(fabs((double)found - expected) <= 1e-4 * expected))
            return false;
    }
    return true;
}

/* Files of llama3 scaling hold its factors as a tensor and not its parameters. These are found
 * again: the last factor is the scale; the bounds are 1 and 4 in all published models; of the
 * original contexts one fits. */
static void read_rope_factors(struct krn_gguf_reader *r, struct krn_config *c) {
    const struct krn_entry *e = krn_gguf_entry(r->g, "rope_freqs.weight");
    struct krn_rope *rope = &c->rope;
    if (e == NULL || r->status != STATUS_OK)
        return;
    struct krn_rope l = {.kind = KRN_ROPE_LLAMA3,
                         .theta = rope->theta,
                         .low_freq_factor = 1.0,
                         .high_freq_factor = 4.0};
    if (rope->kind == KRN_ROPE_PLAIN && e->usable && e->type == KRN_F32 && e->n_dims == 1 &&
        c->head_dim >= 2 && e->dims[0] == c->head_dim / 2) {
        const unsigned char *factors = r->g->bytes + e->offset;
        float last;
        memcpy(&last, factors + e->bytes - sizeof last, sizeof last);
        l.factor = (double)last;
        for (l.original_context = 1024;
             isfinite(last) && last >= 1.0F && l.original_context <= 1 << 17;
             l.original_context *= 2) {
            if (factors_match(c, &l, factors)) {
                *rope = l;
                return;
            }
        }
    }
    r->status = status_say(r->note, STATUS_BAD_MODEL,
                           "%s: tensor rope_freqs.weight holds other factors than those of llama3 "
                           "scaling, which are the ones that this build knows",
                           r->g->file);
}

static void read_rope(struct reading *in, struct krn_config *c) {
    struct krn_gguf_reader *r = in->r;
    struct krn_rope *rope = &c->rope;
    const char *key = key_of(in, "rope.freq_base");
    double theta = in->a->gemma ? krn_gguf_real(r, key) : krn_gguf_real_or(r, key, 10000.0);
    rope->theta = r->status == STATUS_OK ? real_above(r, key, theta, 1.0) : 10000.0;
    bool old = find(in, "rope.scaling.factor") == NULL;
    double factor =
        krn_gguf_real_or(r, key_of(in, old ? "rope.scale_linear" : "rope.scaling.factor"), 0.0);
    bool linear = krn_gguf_text_is(r, key_of(in, "rope.scaling.type"), "linear",
                                   factor != 0.0 && factor != 1.0);
    if (linear) {
        rope->kind = KRN_ROPE_LINEAR;
        rope->factor = factor;
        if (!isfinite(factor) || factor < 1.0)
            krn_gguf_fault(r, STATUS_BAD_MODEL,
                           key_of(in, old ? "rope.scale_linear" : "rope.scaling.factor"),
                           "is %g, not a finite number of at least 1", factor);
    } else if (!krn_gguf_text_is(r, in->key, "none", true) && r->status == STATUS_OK) {
        const struct krn_gguf_value *v = krn_gguf_find(r->g, in->key);
        char quoted[KRN_QUOTE_BYTES];
        quote_text(quoted, v->at, v->count);
        krn_gguf_fault(r, STATUS_BAD_MODEL, in->key,
                       "is \"%s\"; this build knows none, linear and llama3's factors", quoted);
    }
    read_rope_factors(r, c);
    if (!in->a->gemma)
        return;
    key = key_of(in, "rope.freq_base_swa");
    c->has_local_rope = true;
    c->local_rope =
        (struct krn_rope){.kind = KRN_ROPE_PLAIN,
                          .theta = real_above(r, key, krn_gguf_real_or(r, key, 10000.0), 1.0)};
}

/* What ends a reply: end of text, of turn, of message, each id once. */
static void read_tokens(struct krn_gguf_reader *r, struct krn_config *c) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char bos_key[] = "tokenizer.ggml.bos_token_id";
    if (r->status != STATUS_OK)
        return;
    c->bos = -1;
    if (krn_gguf_find(r->g, bos_key) != NULL)
        c->bos = (int64_t)krn_gguf_number(r, bos_key, 0, c->vocab - 1);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (krn_gguf_find(r->g, keys[i]) == NULL)
            continue;
        uint32_t id = (uint32_t)krn_gguf_number(r, keys[i], 0, c->vocab - 1);
        bool known = false;
        for (uint32_t j = 0; j < c->n_eos; j++)
            known = known || c->eos[j] == id;
        if (!known)
            c->eos[c->n_eos++] = id;
    }
}

/* The largest Gemma scales its scores as if hidden were cut evenly into heads; files do not say so,
 * and it is known by its layers. */
static uint32_t gemma_scalar(const struct krn_config *c) {
    enum { GEMMA_27B_LAYERS = 62 };
    return c->layers == GEMMA_27B_LAYERS ? c->hidden / c->heads : c->head_dim;
}

static const char *family_of(const struct krn_gguf_arch *a, const struct krn_config *c) {
    if (c->experts != 0 && a->experts_family != NULL)
        return a->experts_family;
    return c->window != 0 && a->window_family != NULL ? a->window_family : a->family;
}

enum status krn_gguf_config(const struct krn_gguf *g, struct krn_config *out,
                            struct status_note *note) {
    struct krn_config c = {.top_p = 1.0F};
    struct krn_gguf_reader r = {.g = g, .note = note};
    struct reading in = {.r = &r, .a = krn_gguf_arch_of(&r)};
    TRY(r.status);
    check_known(&in);
    read_shape(&in, &c);
    TRY(r.status);
    read_windows(&in, &c);
    const char *key = key_of(&in, "attention.layer_norm_rms_epsilon");
    double eps = real_above(&r, key, krn_gguf_real(&r, key), 0.0);
    c.norm_eps = eps > 1e30 ? INFINITY : (float)eps;
    read_rope(&in, &c);
    read_tokens(&r, &c);
    TRY(r.status);
    snprintf(c.family, sizeof c.family, "%s", family_of(in.a, &c));
    c.tied = krn_gguf_entry(g, "output.weight") == NULL;
    c.attn_bias = in.a->qkv_biases || krn_gguf_entry(g, "blk.0.attn_q.bias") != NULL;
    c.attn_out_bias = krn_gguf_entry(g, "blk.0.attn_output.bias") != NULL;
    c.mlp_bias = c.experts == 0 && krn_gguf_entry(g, "blk.0.ffn_gate.bias") != NULL;
    c.score_scalar = in.a->gemma ? gemma_scalar(&c) : 0;
    TRY(krn_config_check(g->file, &c, note));
    *out = c;
    return STATUS_OK;
}
