/* SPDX-License-Identifier: Apache-2.0
 * Reading of a model's configuration. A key that would change what the model computes and that this
 * build does not honour is an error, never ignored.
 */
#include "kernels/weights/config_json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/families/registry.h"
#include "kernels/rowfn.h"
#include "kernels/weights/fp8.h"
#include "kernels/weights/json.h"

/* A double outside float's range has no defined conversion. */
static float narrow(double value) {
    return fabs(value) > (double)FLT_MAX ? INFINITY : (float)value;
}

static enum status outside(const char *file, const char *key, double value, const char *why,
                           struct status_note *note) {
    return status_say(note, STATUS_BAD_MODEL, "%s: %s is %g, %s", file, key, value, why);
}

static enum status range(const char *file, const char *key, uint32_t value, uint32_t max,
                         struct status_note *note) {
    if (value >= 1 && value <= max)
        return STATUS_OK;
    return status_say(note, STATUS_BAD_MODEL, "%s: %s is %u, outside 1 to %u", file, key, value,
                      max);
}

static enum status rope_check(const char *file, const struct krn_rope *r,
                              struct status_note *note) {
    if (!isfinite(r->theta) || r->theta <= 1.0)
        return outside(file, "rope_theta", r->theta, "not a finite number above 1", note);
    if (r->kind == KRN_ROPE_PLAIN)
        return STATUS_OK;
    if (r->kind != KRN_ROPE_LINEAR && r->kind != KRN_ROPE_LLAMA3)
        return outside(file, "rope_type", (double)r->kind, "no kind of this build", note);
    if (!isfinite(r->factor) || r->factor < 1.0)
        return outside(file, "rope factor", r->factor, "not a finite number of at least 1", note);
    if (r->kind == KRN_ROPE_LINEAR)
        return STATUS_OK;
    if (!isfinite(r->low_freq_factor) || r->low_freq_factor <= 0)
        return outside(file, "low_freq_factor", r->low_freq_factor, "not a finite number above 0",
                       note);
    if (!isfinite(r->high_freq_factor) || r->high_freq_factor <= r->low_freq_factor)
        return outside(file, "high_freq_factor", r->high_freq_factor,
                       "not a finite number above low_freq_factor", note);
    return range(file, "original_max_position_embeddings", r->original_context, KRN_CONTEXT_MAX,
                 note);
}

static enum status heads_check(const char *file, const struct krn_config *c,
                               struct status_note *note) {
    TRY(range(file, "num_attention_heads", c->heads, KRN_CONFIG_HEADS_MAX, note));
    TRY(range(file, "num_key_value_heads", c->kv_heads, KRN_CONFIG_HEADS_MAX, note));
    if (c->heads % c->kv_heads != 0)
        return status_say(note, STATUS_BAD_MODEL,
                          "%s: num_attention_heads %u is not a multiple of num_key_value_heads %u",
                          file, c->heads, c->kv_heads);
    if (c->head_dim == 0 || c->head_dim % 16 != 0 || c->head_dim > KRN_HEAD_MAX)
        return status_say(note, STATUS_BAD_MODEL,
                          "%s: head_dim is %u, not a multiple of 16 from 16 to %d", file,
                          c->head_dim, KRN_HEAD_MAX);
    return STATUS_OK;
}

static enum status tokens_check(const char *file, const struct krn_config *c,
                                struct status_note *note) {
    if (c->bos < -1 || c->bos >= (int64_t)c->vocab)
        return outside(file, "bos_token_id", (double)c->bos, "outside the vocabulary", note);
    if (c->n_eos > KRN_EOS_MAX)
        return outside(file, "eos_token_id", c->n_eos, "too many ids", note);
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] >= c->vocab)
            return outside(file, "eos_token_id", c->eos[i], "outside the vocabulary", note);
    return STATUS_OK;
}

static enum status sampling_check(const char *file, const struct krn_config *c,
                                  struct status_note *note) {
    if (!c->has_sampling)
        return STATUS_OK;
    if (!isfinite(c->temperature) || c->temperature < 0)
        return outside(file, "temperature", (double)c->temperature, "not a finite number from 0 on",
                       note);
    if (!isfinite(c->top_p) || c->top_p <= 0 || c->top_p > 1)
        return outside(file, "top_p", (double)c->top_p, "not above 0 and up to 1", note);
    return STATUS_OK;
}

static enum status window_check(const char *file, const struct krn_config *c,
                                struct status_note *note) {
    bool any = false;
    for (uint32_t l = 0; l < KRN_LAYERS_MAX; l++) {
        any = any || krn_layer_windowed(c, l);
        if (krn_layer_windowed(c, l) && l >= c->layers)
            return outside(file, "layer_types", l, "a window of a layer that is not there", note);
    }
    if (any && c->window == 0)
        return outside(file, "sliding_window", 0, "but layers attend within it", note);
    if (!any && c->window != 0)
        return outside(file, "sliding_window", c->window, "but no layer attends within it", note);
    return c->window <= KRN_CONTEXT_MAX
               ? STATUS_OK
               : range(file, "sliding_window", c->window, KRN_CONTEXT_MAX, note);
}

/* Layers without experts between those of a mixture. */
static enum status dense_check(const char *file, const struct krn_config *c,
                               struct status_note *note) {
    uint32_t dense = 0;
    for (uint32_t l = 0; l < KRN_LAYERS_MAX; l++) {
        bool said = (c->dense[l / 32] >> (l % 32) & 1) != 0;
        if (said && (l >= c->layers || c->experts == 0))
            return outside(file, "mlp_only_layers", l,
                           c->experts == 0 ? "but the family has no experts"
                                           : "a layer that is not there",
                           note);
        dense += said;
    }
    if (dense != 0 && dense == c->layers)
        return status_say(note, STATUS_BAD_MODEL,
                          "%s: no layer has experts; such a model is none of this family", file);
    if (dense == 0 && c->dense_ffn != 0)
        return outside(file, "the width of dense layers", c->dense_ffn, "but none is dense", note);
    return dense == 0
               ? STATUS_OK
               : range(file, "the width of dense layers", c->dense_ffn, KRN_CONFIG_FFN_MAX, note);
}

static enum status experts_check(const char *file, const struct krn_config *c,
                                 struct status_note *note) {
    const struct krn_family *family = krn_family_named(c->family[0] == '\0' ? "llama" : c->family);
    bool mixture = family != NULL && family->mixture;
    if (mixture)
        TRY(range(file, "the number of experts", c->experts, KRN_EXPERTS_MAX, note));
    if (!mixture && c->experts != 0)
        return outside(file, "the number of experts", c->experts, "but the family has none", note);
    if (c->experts_used > c->experts || (c->experts_used == 0 && c->experts != 0))
        return status_say(note, STATUS_BAD_MODEL,
                          "%s: num_experts_per_tok is %u, outside 1 to the %u experts", file,
                          c->experts_used, c->experts);
    TRY(dense_check(file, c, note));
    return c->experts_used <= KRN_EXPERTS_USED_MAX
               ? STATUS_OK
               : range(file, "num_experts_per_tok", c->experts_used, KRN_EXPERTS_USED_MAX, note);
}

enum status krn_config_check(const char *file, const struct krn_config *c,
                             struct status_note *note) {
    TRY(range(file, "vocab_size", c->vocab, KRN_CONFIG_VOCAB_MAX, note));
    TRY(range(file, "hidden_size", c->hidden, KRN_CONFIG_HIDDEN_MAX, note));
    TRY(range(file, "intermediate_size", c->ffn, KRN_CONFIG_FFN_MAX, note));
    TRY(range(file, "num_hidden_layers", c->layers, KRN_LAYERS_MAX, note));
    TRY(range(file, "max_position_embeddings", c->context, KRN_CONTEXT_MAX, note));
    TRY(heads_check(file, c, note));
    if (!isfinite(c->norm_eps) || c->norm_eps <= 0)
        return outside(file, "rms_norm_eps", (double)c->norm_eps, "not a finite number above 0",
                       note);
    TRY(rope_check(file, &c->rope, note));
    if (c->has_local_rope)
        TRY(rope_check(file, &c->local_rope, note));
    if (c->score_scalar > KRN_CONFIG_HIDDEN_MAX)
        TRY(range(file, "query_pre_attn_scalar", c->score_scalar, KRN_CONFIG_HIDDEN_MAX, note));
    TRY(window_check(file, c, note));
    TRY(experts_check(file, c, note));
    TRY(tokens_check(file, c, note));
    return sampling_check(file, c, note);
}

/* What a family's config.json can say, where families differ. */
enum windows {
    WINDOWS_NONE,     /* sliding_window and other layer_types are refused */
    WINDOWS_ALL,      /* sliding_window is for every layer; 4096 when the key is missing */
    WINDOWS_NAMED,    /* sliding_window is for every layer; none when the key is missing */
    WINDOWS_SWITCHED, /* use_sliding_window; layer_types, or all layers from max_window_layers on */
    WINDOWS_SWITCHED_ALL, /* use_sliding_window, for every layer whatever max_window_layers says */
    WINDOWS_PATTERN       /* layer_types, or all layers but each sliding_window_pattern-th */
};
enum biases {
    BIASES_KEYS,      /* attention_bias for q, k, v and o; mlp_bias */
    BIASES_ATTENTION, /* attention_bias alone */
    BIASES_NONE,
    BIASES_QKV /* always, and no key says so */
};
enum experts {
    EXPERTS_NONE,
    EXPERTS_QWEN,   /* num_experts (newer files: num_local_experts), moe_intermediate_size,
                       norm_topk_prob; mlp_only_layers and those that decoder_sparse_step leaves
                       out are intermediate_size wide */
    EXPERTS_MIXTRAL /* num_local_experts; intermediate_size is an expert's */
};
struct dialect {
    const char *family;
    enum windows windows;
    enum biases biases;
    enum experts experts;
    bool head_dim_named;    /* never hidden_size / num_attention_heads */
    bool kv_heads_named;    /* never num_attention_heads */
    bool gemma;             /* gelu, tied by default, scores' scalar, two sets of angles */
    const char *refused[3]; /* keys that must be null, missing or false */
};
static const struct dialect dialects[] = {
    {"llama", WINDOWS_NONE, BIASES_KEYS, EXPERTS_NONE, false, false, false, {NULL}},
    {"mistral",
     WINDOWS_ALL,
     BIASES_NONE,
     EXPERTS_NONE,
     false,
     true,
     false,
     {"attention_bias", "mlp_bias"}},
    {"mixtral",
     WINDOWS_NAMED,
     BIASES_NONE,
     EXPERTS_MIXTRAL,
     false,
     true,
     false,
     {"attention_bias", "mlp_bias"}},
    {"qwen2",
     WINDOWS_SWITCHED,
     BIASES_QKV,
     EXPERTS_NONE,
     false,
     true,
     false,
     {"use_mrope", "mlp_bias"}},
    {"qwen3", WINDOWS_SWITCHED, BIASES_ATTENTION, EXPERTS_NONE, true, true, false, {"mlp_bias"}},
    {"qwen3_moe",
     WINDOWS_SWITCHED_ALL,
     BIASES_ATTENTION,
     EXPERTS_QWEN,
     true,
     true,
     false,
     {"mlp_bias"}},
    {"gemma3",
     WINDOWS_PATTERN,
     BIASES_ATTENTION,
     EXPERTS_NONE,
     true,
     true,
     true,
     {"attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"}},
};

static const struct dialect *dialect_of(const char *family) {
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++)
        if (strcmp(dialects[i].family, family) == 0)
            return &dialects[i];
    return &dialects[0]; /* the fault is known already */
}

/* The architecture's name decides the family; what no family of this build claims is refused by
 * name. */
static void read_family(struct krn_fields *f, struct krn_config *c) {
    const json_t *list = krn_field(f, "architectures");
    if (!json_is_array(list) || json_array_size(list) != 1 ||
        !json_is_string(json_array_get(list, 0))) {
        krn_field_fault(f, STATUS_BAD_FILE, "architectures", "is not a list of one name");
        return;
    }
    const char *name = json_string_value(json_array_get(list, 0));
    const struct krn_family *family = krn_family_of_architecture(name);
    if (family == NULL) {
        char quoted[KRN_QUOTE_BYTES], known[240];
        krn_quote(quoted, name);
        quoted[64] = '\0';
        krn_family_architectures(known, sizeof known);
        krn_field_fault(f, STATUS_BAD_MODEL, "architectures", "names %s; this build knows %s",
                        quoted, known);
        return;
    }
    snprintf(c->family, sizeof c->family, "%s", family->name);
}

/* Known keys that change the computation and have no row function here. */
static void refuse_unsupported(struct krn_fields *f, const struct dialect *d) {
    char quoted[KRN_QUOTE_BYTES];
    const char *known = d->gemma ? "gelu_pytorch_tanh" : "silu";
    const char *keys[] = {"hidden_act", d->gemma ? "hidden_activation" : "hidden_act"};
    for (size_t i = 0; i < 2; i++) {
        const char *act = krn_field_text_or(f, keys[i], known);
        if (strcmp(act, known) != 0)
            krn_field_fault(f, STATUS_BAD_MODEL, keys[i], "is %s; this build knows %s",
                            krn_quote(quoted, act), known);
    }
    if (d->windows == WINDOWS_NONE && krn_field(f, "sliding_window") != NULL)
        krn_field_fault(f, STATUS_BAD_MODEL, "sliding_window",
                        "is set; this build knows full attention only in this family");
    for (size_t i = 0; i < sizeof d->refused / sizeof d->refused[0] && d->refused[i] != NULL; i++)
        if (krn_field(f, d->refused[i]) != NULL && !json_is_false(krn_field(f, d->refused[i])))
            krn_field_fault(f, STATUS_BAD_MODEL, d->refused[i],
                            "is set; this build does not know that in this family");
    if (krn_field_number_or(f, "partial_rotary_factor", 1.0) != 1.0)
        krn_field_fault(f, STATUS_BAD_MODEL, "partial_rotary_factor",
                        "is not 1; this build rotates whole heads");
}

static void set_windowed(struct krn_config *c, uint32_t layer) {
    c->windowed[layer / 32] |= 1U << (layer % 32);
}

/* Each layer's kind, by name. */
static void read_layer_types(struct krn_fields *f, const json_t *types, bool windows,
                             struct krn_config *c) {
    char quoted[KRN_QUOTE_BYTES];
    for (uint32_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type != NULL && windows && i < c->layers && strcmp(type, "sliding_attention") == 0)
            set_windowed(c, i);
        else if (type == NULL || strcmp(type, "full_attention") != 0)
            krn_field_fault(f, STATUS_BAD_MODEL, "layer_types", "names %s; this build knows %s",
                            krn_quote(quoted, type == NULL ? "no type" : type),
                            windows ? "full_attention and sliding_attention" : "full_attention");
    }
    if (!json_is_array(types) || json_array_size(types) != c->layers)
        krn_field_fault(f, STATUS_BAD_MODEL, "layer_types",
                        "is not a list of %u names, one a layer", c->layers);
}

/* Windows by rule, where the file does not name each layer's kind. */
static void read_window_rule(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    enum { GEMMA_PATTERN = 6 };
    uint32_t from = 0, pattern = UINT32_MAX;
    if (d->windows == WINDOWS_SWITCHED)
        from = krn_field_u32(f, "max_window_layers", 0, KRN_LAYERS_MAX);
    if (d->windows == WINDOWS_PATTERN) {
        pattern = krn_field_u32_or(f, "_sliding_window_pattern", GEMMA_PATTERN, 1, KRN_LAYERS_MAX);
        pattern = krn_field_u32_or(f, "sliding_window_pattern", pattern, 1, KRN_LAYERS_MAX);
    }
    for (uint32_t l = from; l < c->layers && f->status == STATUS_OK; l++)
        if ((l + 1) % pattern != 0)
            set_windowed(c, l);
}

/* Which layers attend within a window, and its width. */
static void read_windows(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    enum { MISTRAL_WINDOW = 4096 };
    if (f->status != STATUS_OK)
        return;
    const json_t *types = krn_field(f, "layer_types");
    bool on = d->windows == WINDOWS_PATTERN;
    bool all = d->windows == WINDOWS_ALL || d->windows == WINDOWS_NAMED;
    if (d->windows == WINDOWS_SWITCHED || d->windows == WINDOWS_SWITCHED_ALL)
        on = krn_field_bool_or(f, "use_sliding_window", false);
    if (all) /* null is off, missing is not */
        on = krn_field(f, "sliding_window") != NULL ||
             (d->windows == WINDOWS_ALL && json_object_get(f->object, "sliding_window") == NULL);
    if (types != NULL)
        read_layer_types(f, types, on, c);
    else if (on)
        read_window_rule(f, d, c);
    bool any = false;
    for (uint32_t l = 0; l < c->layers; l++)
        any = any || krn_layer_windowed(c, l);
    if (any && all)
        c->window = krn_field_u32_or(f, "sliding_window", MISTRAL_WINDOW, 1, KRN_CONTEXT_MAX);
    else if (any)
        c->window = krn_field_u32(f, "sliding_window", 1, KRN_CONTEXT_MAX);
}

static void read_biases(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    bool attention = krn_field_bool_or(f, "attention_bias", d->biases == BIASES_QKV);
    if (d->biases == BIASES_QKV && !attention)
        krn_field_fault(f, STATUS_BAD_MODEL, "attention_bias",
                        "is false; this family has biases for q, k and v");
    c->attn_bias = attention;
    c->attn_out_bias = attention && d->biases != BIASES_QKV; /* one key for q, k, v and o */
    c->mlp_bias = d->biases == BIASES_KEYS && krn_field_bool_or(f, "mlp_bias", false);
}

static void read_rope_kind(struct krn_fields *f, struct krn_rope *r) {
    const char *type = krn_field_text_or(f, "rope_type", krn_field_text_or(f, "type", "default"));
    char quoted[KRN_QUOTE_BYTES];
    if (strcmp(type, "default") == 0) {
        r->kind = KRN_ROPE_PLAIN;
    } else if (strcmp(type, "linear") == 0) {
        r->kind = KRN_ROPE_LINEAR;
        r->factor = krn_field_number(f, "factor");
    } else if (strcmp(type, "llama3") == 0) {
        r->kind = KRN_ROPE_LLAMA3;
        r->factor = krn_field_number(f, "factor");
        r->low_freq_factor = krn_field_number(f, "low_freq_factor");
        r->high_freq_factor = krn_field_number(f, "high_freq_factor");
        r->original_context =
            krn_field_u32(f, "original_max_position_embeddings", 1, KRN_CONTEXT_MAX);
    } else if (strcmp(type, "dynamic") == 0 || strcmp(type, "longrope") == 0 ||
               strcmp(type, "su") == 0) {
        krn_field_fault(f, STATUS_BAD_MODEL, "rope_type",
                        "is %s, which depends on the length of the text: one position would have "
                        "several angles",
                        type);
    } else {
        krn_field_fault(f, STATUS_BAD_MODEL, "rope_type",
                        "is %s; this build knows default, linear and llama3",
                        krn_quote(quoted, type));
    }
}

/* One set of angles; r holds its defaults. */
static void read_rope_object(struct krn_fields *f, const json_t *object, const char *where,
                             struct krn_rope *r) {
    struct krn_fields in = *f;
    in.object = object;
    in.where = where;
    const char *inner;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, inner, value) {
        char quoted[KRN_QUOTE_BYTES];
        if (json_is_object(value))
            krn_field_fault(&in, STATUS_BAD_MODEL, krn_quote(quoted, inner),
                            "is an object; this build knows one set of angles for all layers");
    }
    r->theta = krn_field_number_or(&in, "rope_theta", r->theta);
    if (krn_field_number_or(&in, "partial_rotary_factor", 1.0) != 1.0)
        krn_field_fault(&in, STATUS_BAD_MODEL, "partial_rotary_factor",
                        "is not 1; this build rotates whole heads");
    read_rope_kind(&in, r);
    f->status = in.status;
}

/* rope_parameters with an object for each kind of layer. True when the file is of this form. */
static bool read_rope_pair(struct krn_fields *f, const json_t *parameters, struct krn_config *c) {
    const json_t *full = json_object_get(parameters, "full_attention");
    const json_t *local = json_object_get(parameters, "sliding_attention");
    if (!json_is_object(full) || !json_is_object(local))
        return false;
    if (json_object_size(parameters) != 2)
        krn_field_fault(f, STATUS_BAD_MODEL, "rope_parameters",
                        "holds more than full_attention and sliding_attention");
    read_rope_object(f, full, "rope_parameters.full_attention.", &c->rope);
    read_rope_object(f, local, "rope_parameters.sliding_attention.", &c->local_rope);
    return true;
}

/* Older files: rope_theta and rope_scaling; newer ones: rope_parameters with rope_theta inside. */
static void read_rope(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    const json_t *scaling = krn_field(f, "rope_scaling");
    const json_t *parameters = krn_field(f, "rope_parameters");
    if (scaling != NULL && parameters != NULL && !json_equal(scaling, parameters))
        krn_field_fault(f, STATUS_BAD_MODEL, "rope_scaling",
                        "and rope_parameters are both set and differ");
    c->rope.kind = KRN_ROPE_PLAIN;
    c->rope.theta = krn_field_number_or(
        f, "rope_theta", d->gemma || d->experts == EXPERTS_MIXTRAL ? 1000000.0 : 10000.0);
    if (d->gemma) {
        c->has_local_rope = true;
        c->local_rope.kind = KRN_ROPE_PLAIN;
        c->local_rope.theta = krn_field_number_or(f, "rope_local_base_freq", 10000.0);
    }
    const char *key = parameters != NULL ? "rope_parameters" : "rope_scaling";
    const json_t *object = parameters != NULL ? parameters : scaling;
    if (object == NULL || f->status != STATUS_OK)
        return;
    if (!json_is_object(object)) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not an object");
        return;
    }
    if (d->gemma && object == parameters && read_rope_pair(f, parameters, c))
        return;
    read_rope_object(f, object, parameters != NULL ? "rope_parameters." : "rope_scaling.",
                     &c->rope);
}

/* Which layers of a mixture have no experts. */
static void read_dense(struct krn_fields *f, struct krn_config *c) {
    uint32_t step = krn_field_u32_or(f, "decoder_sparse_step", 1, 1, UINT32_MAX);
    const json_t *list = krn_field(f, "mlp_only_layers");
    if (list != NULL && !json_is_array(list))
        krn_field_fault(f, STATUS_BAD_FILE, "mlp_only_layers", "is not a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        json_int_t layer = json_is_integer(one) ? json_integer_value(one) : -1;
        if (layer < 0 || layer >= c->layers)
            krn_field_fault(f, STATUS_BAD_MODEL, "mlp_only_layers",
                            "holds something else than numbers of the %u layers", c->layers);
        else
            c->dense[layer / 32] |= 1U << (layer % 32);
    }
    for (uint32_t l = 0; l < c->layers && f->status == STATUS_OK; l++) {
        if ((l + 1) % step != 0)
            c->dense[l / 32] |= 1U << (l % 32);
        if (krn_layer_dense(c, l))
            c->dense_ffn = c->ffn;
    }
}

/* ffn becomes an expert's width; intermediate_size is for dense layers. */
static void read_experts(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    if (d->experts == EXPERTS_NONE)
        return;
    bool qwen = d->experts == EXPERTS_QWEN;
    const char *key =
        qwen && krn_field(f, "num_experts") != NULL ? "num_experts" : "num_local_experts";
    c->experts = krn_field_u32(f, key, 1, KRN_EXPERTS_MAX);
    if (qwen &&
        krn_field_u32_or(f, "num_local_experts", c->experts, 1, KRN_EXPERTS_MAX) != c->experts)
        krn_field_fault(f, STATUS_BAD_MODEL, "num_local_experts", "is not num_experts, %u",
                        c->experts);
    c->experts_used = krn_field_u32(f, "num_experts_per_tok", 1, KRN_EXPERTS_USED_MAX);
    c->experts_norm = !qwen || krn_field_bool_or(f, "norm_topk_prob", false);
    if (!qwen)
        return;
    read_dense(f, c);
    c->ffn = krn_field_u32(f, "moe_intermediate_size", 1, KRN_CONFIG_FFN_MAX);
}

static void read_shape(struct krn_fields *f, const struct dialect *d, struct krn_config *c) {
    c->vocab = krn_field_u32(f, "vocab_size", 1, KRN_CONFIG_VOCAB_MAX);
    c->hidden = krn_field_u32(f, "hidden_size", 1, KRN_CONFIG_HIDDEN_MAX);
    c->ffn = krn_field_u32(f, "intermediate_size", 1, KRN_CONFIG_FFN_MAX);
    c->layers = krn_field_u32(f, "num_hidden_layers", 1, KRN_LAYERS_MAX);
    c->heads = krn_field_u32(f, "num_attention_heads", 1, KRN_CONFIG_HEADS_MAX);
    c->kv_heads =
        d->kv_heads_named
            ? krn_field_u32(f, "num_key_value_heads", 1, KRN_CONFIG_HEADS_MAX)
            : krn_field_u32_or(f, "num_key_value_heads", c->heads, 1, KRN_CONFIG_HEADS_MAX);
    c->context = krn_field_u32(f, "max_position_embeddings", 1, KRN_CONTEXT_MAX);
    c->head_dim = d->head_dim_named ? krn_field_u32(f, "head_dim", 1, KRN_CONFIG_HIDDEN_MAX)
                                    : krn_field_u32_or(f, "head_dim", 0, 1, KRN_CONFIG_HIDDEN_MAX);
    if (c->head_dim == 0 && f->status == STATUS_OK) {
        if (c->hidden % c->heads != 0)
            krn_field_fault(
                f, STATUS_BAD_MODEL, "hidden_size",
                "%u is not a multiple of num_attention_heads %u, and head_dim is missing",
                c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
    c->norm_eps =
        narrow(krn_field_number_or(f, "rms_norm_eps", d->experts == EXPERTS_MIXTRAL ? 1e-5 : 1e-6));
    c->tied = krn_field_bool_or(f, "tie_word_embeddings", d->gemma);
    if (d->gemma)
        c->score_scalar = krn_field_u32(f, "query_pre_attn_scalar", 1, KRN_CONFIG_HIDDEN_MAX);
    read_experts(f, d, c);
    read_biases(f, d, c);
    read_windows(f, d, c);
}

/* One id or a list of ids. */
static void read_eos(struct krn_fields *f, struct krn_config *c) {
    const json_t *value = krn_field(f, "eos_token_id");
    if (value == NULL)
        return;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    if (n > KRN_EOS_MAX) {
        krn_field_fault(f, STATUS_BAD_MODEL, "eos_token_id",
                        "lists %zu ids, at most %d are allowed", n, KRN_EOS_MAX);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id)) {
            krn_field_fault(f, STATUS_BAD_FILE, "eos_token_id", "holds something else than an id");
            return;
        }
        json_int_t number = json_integer_value(id);
        if (number < 0 || number >= (json_int_t)c->vocab) {
            krn_field_fault(f, STATUS_BAD_MODEL, "eos_token_id",
                            "is %" JSON_INTEGER_FORMAT ", outside the vocabulary of %u", number,
                            c->vocab);
            return;
        }
        c->eos[i] = (uint32_t)number;
    }
    c->n_eos = (uint32_t)n;
}

static void read_bos(struct krn_fields *f, struct krn_config *c) {
    if (krn_field(f, "bos_token_id") != NULL)
        c->bos = krn_field_u32(f, "bos_token_id", 0, c->vocab - 1);
}

/* do_sample false means greedy, whatever the other fields say; absent fields are off. */
static void read_generation(struct krn_fields *f, struct krn_config *c) {
    read_eos(f, c);
    if (c->bos < 0)
        read_bos(f, c);
    c->has_sampling = krn_field_bool_or(f, "do_sample", false);
    if (!c->has_sampling)
        return;
    c->temperature = narrow(krn_field_number_or(f, "temperature", 1.0));
    c->top_p = narrow(krn_field_number_or(f, "top_p", 1.0));
    c->top_k = krn_field_u32_or(f, "top_k", 0, 0, INT32_MAX);
}

enum status krn_config_parse(const char *file, const void *json, size_t n,
                             const char *generation_file, const void *generation,
                             size_t n_generation, struct krn_config *out,
                             struct status_note *note) {
    struct krn_config c = {.bos = -1, .top_p = 1.0F};
    json_t *root;
    TRY(krn_json_object(file, json, n, &root, note));
    struct krn_fields f = {.file = file, .where = "", .object = root, .note = note};
    read_family(&f, &c);
    const struct dialect *d = dialect_of(c.family);
    refuse_unsupported(&f, d);
    krn_fp8_config(&f, &c);
    read_shape(&f, d, &c);
    read_rope(&f, d, &c);
    read_bos(&f, &c);
    read_eos(&f, &c);
    json_decref(root);
    TRY(f.status);
    if (generation != NULL) {
        TRY(krn_json_object(generation_file, generation, n_generation, &root, note));
        f = (struct krn_fields){.file = generation_file, .where = "", .object = root, .note = note};
        read_generation(&f, &c);
        json_decref(root);
        TRY(f.status);
        TRY(sampling_check(generation_file, &c, note));
    }
    TRY(krn_config_check(file, &c, note));
    *out = c;
    return STATUS_OK;
}
