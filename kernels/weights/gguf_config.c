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
#include "kernels/weights/gguf_model.h"
#include "kernels/weights/json.h"

#define ARCH "llama."

/* What is read below, and what changes nothing. */
static const char *const known_keys[] = {
    ARCH "attention.head_count",
    ARCH "attention.head_count_kv",
    ARCH "attention.key_length",
    ARCH "attention.layer_norm_rms_epsilon",
    ARCH "attention.value_length",
    ARCH "block_count",
    ARCH "context_length",
    ARCH "embedding_length",
    ARCH "expert_count",
    ARCH "expert_used_count",
    ARCH "feed_forward_length",
    ARCH "rope.dimension_count",
    ARCH "rope.freq_base",
    ARCH "rope.scale_linear",
    ARCH "rope.scaling.factor",
    ARCH "rope.scaling.finetuned",
    ARCH "rope.scaling.original_context_length",
    ARCH "rope.scaling.type",
    ARCH "tensor_data_layout",
    ARCH "vocab_size",
};

static void quote_text(char out[KRN_QUOTE_BYTES], const unsigned char *text, uint64_t n) {
    char copy[64];
    size_t bytes = n < sizeof copy - 1 ? (size_t)n : sizeof copy - 1;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    krn_quote(out, copy);
}

static void check_architecture(struct krn_gguf_reader *r) {
    static const char key[] = "general.architecture";
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    char quoted[KRN_QUOTE_BYTES];
    if (v == NULL)
        krn_gguf_fault(r, STATUS_BAD_FILE, key, "is missing");
    if (v == NULL || krn_gguf_text_is(r, key, "llama", true) || r->status != STATUS_OK)
        return;
    quote_text(quoted, v->at, v->count);
    krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is \"%s\"; this build knows llama", quoted);
}

static bool key_is(const struct krn_gguf_value *v, const char *key) {
    return v->key_bytes == strlen(key) && memcmp(v->key, key, strlen(key)) == 0;
}

static void check_known(struct krn_gguf_reader *r) {
    const size_t prefix = sizeof ARCH - 1;
    for (uint32_t i = 0; i < r->g->n_values; i++) {
        const struct krn_gguf_value *v = &r->g->values[i];
        bool known = v->key_bytes < prefix || memcmp(v->key, ARCH, prefix) != 0;
        for (size_t k = 0; !known && k < sizeof known_keys / sizeof known_keys[0]; k++)
            known = key_is(v, known_keys[k]);
        if (!known) {
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
    if (krn_gguf_number_or(r, ARCH "expert_count", 0, 0, UINT32_MAX) != 0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, ARCH "expert_count",
                       "is not 0; this build knows no mixture of experts");
}

/* Token ids and shapes fit 32 bits by their limits. */
static uint32_t number(struct krn_gguf_reader *r, const char *key, uint64_t max) {
    return (uint32_t)krn_gguf_number(r, key, 1, max);
}

static void read_shape(struct krn_gguf_reader *r, struct krn_config *c) {
    const struct krn_entry *table = krn_gguf_entry(r->g, "token_embd.weight");
    c->hidden = number(r, ARCH "embedding_length", KRN_CONFIG_HIDDEN_MAX);
    c->ffn = number(r, ARCH "feed_forward_length", KRN_CONFIG_FFN_MAX);
    c->layers = number(r, ARCH "block_count", KRN_LAYERS_MAX);
    c->context = number(r, ARCH "context_length", KRN_CONTEXT_MAX);
    c->heads = number(r, ARCH "attention.head_count", KRN_CONFIG_HEADS_MAX);
    c->kv_heads = (uint32_t)krn_gguf_number_or(r, ARCH "attention.head_count_kv", c->heads, 1,
                                               KRN_CONFIG_HEADS_MAX);
    c->head_dim = (uint32_t)krn_gguf_number_or(r, ARCH "attention.key_length", c->hidden / c->heads,
                                               1, KRN_HEAD_MAX);
    if (krn_gguf_find(r->g, ARCH "attention.key_length") == NULL && c->hidden % c->heads != 0)
        krn_gguf_fault(r, STATUS_BAD_MODEL, ARCH "embedding_length",
                       "%u is not a multiple of the %u heads", c->hidden, c->heads);
    if (krn_gguf_number_or(r, ARCH "attention.value_length", c->head_dim, 0, UINT32_MAX) !=
        c->head_dim)
        krn_gguf_fault(r, STATUS_BAD_MODEL, ARCH "attention.value_length",
                       "differs from the keys' %u", c->head_dim);
    if (krn_gguf_number_or(r, ARCH "rope.dimension_count", c->head_dim, 0, UINT32_MAX) !=
        c->head_dim)
        krn_gguf_fault(r, STATUS_BAD_MODEL, ARCH "rope.dimension_count",
                       "is not %u; this build rotates whole heads", c->head_dim);
    if (r->status == STATUS_OK && (table == NULL || table->n_dims != 2))
        r->status = status_say(r->note, STATUS_BAD_MODEL, "%s: tensor token_embd.weight %s",
                               r->g->file, table == NULL ? "is missing" : "is not a matrix");
    if (r->status != STATUS_OK)
        return;
    uint64_t vocab = krn_gguf_number_or(r, ARCH "vocab_size", table->dims[0], 0, UINT32_MAX);
    if (table->dims[0] > KRN_CONFIG_VOCAB_MAX)
        r->status =
            status_say(r->note, STATUS_BAD_MODEL,
                       "%s: tensor token_embd.weight has %" PRIu64 " rows, at most %d are allowed",
                       r->g->file, table->dims[0], KRN_CONFIG_VOCAB_MAX);
    else if (vocab != table->dims[0])
        krn_gguf_fault(r, STATUS_BAD_MODEL, ARCH "vocab_size",
                       "is %" PRIu64 ", token_embd.weight has %" PRIu64 " rows", vocab,
                       table->dims[0]);
    c->vocab = (uint32_t)table->dims[0];
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

static void read_rope(struct krn_gguf_reader *r, struct krn_config *c) {
    static const char type_key[] = ARCH "rope.scaling.type";
    static const char factor_key[] = ARCH "rope.scaling.factor";
    static const char old_key[] = ARCH "rope.scale_linear";
    struct krn_rope *rope = &c->rope;
    rope->theta = real_above(r, ARCH "rope.freq_base",
                             krn_gguf_real_or(r, ARCH "rope.freq_base", 10000.0), 1.0);
    const char *key = krn_gguf_find(r->g, factor_key) != NULL ? factor_key : old_key;
    double factor = krn_gguf_real_or(r, key, 0.0);
    bool linear = krn_gguf_text_is(r, type_key, "linear", factor != 0.0 && factor != 1.0);
    if (linear) {
        rope->kind = KRN_ROPE_LINEAR;
        rope->factor = factor;
        if (!isfinite(factor) || factor < 1.0)
            krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is %g, not a finite number of at least 1",
                           factor);
    } else if (!krn_gguf_text_is(r, type_key, "none", true) && r->status == STATUS_OK) {
        const struct krn_gguf_value *v = krn_gguf_find(r->g, type_key);
        char quoted[KRN_QUOTE_BYTES];
        quote_text(quoted, v->at, v->count);
        krn_gguf_fault(r, STATUS_BAD_MODEL, type_key,
                       "is \"%s\"; this build knows none, linear and llama3's factors", quoted);
    }
    read_rope_factors(r, c);
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

enum status krn_gguf_config(const struct krn_gguf *g, struct krn_config *out,
                            struct status_note *note) {
    static const char eps_key[] = ARCH "attention.layer_norm_rms_epsilon";
    struct krn_config c = {.family = "llama", .top_p = 1.0F};
    struct krn_gguf_reader r = {.g = g, .note = note};
    check_architecture(&r);
    TRY(r.status);
    check_known(&r);
    read_shape(&r, &c);
    double eps = real_above(&r, eps_key, krn_gguf_real(&r, eps_key), 0.0);
    c.norm_eps = eps > 1e30 ? INFINITY : (float)eps;
    read_rope(&r, &c);
    read_tokens(&r, &c);
    TRY(r.status);
    c.tied = krn_gguf_entry(g, "output.weight") == NULL;
    c.attn_bias = krn_gguf_entry(g, "blk.0.attn_q.bias") != NULL;
    c.attn_out_bias = krn_gguf_entry(g, "blk.0.attn_output.bias") != NULL;
    c.mlp_bias = krn_gguf_entry(g, "blk.0.ffn_gate.bias") != NULL;
    TRY(krn_config_check(g->file, &c, note));
    *out = c;
    return STATUS_OK;
}
