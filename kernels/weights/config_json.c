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
#include "kernels/weights/json.h"

enum {
    CONFIG_VOCAB_MAX = 1 << 22,
    CONFIG_HIDDEN_MAX = 1 << 16,
    CONFIG_FFN_MAX = 1 << 20,
    CONFIG_LAYERS_MAX = 1024,
    CONFIG_HEADS_MAX = 1024
};

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
    TRY(range(file, "num_attention_heads", c->heads, CONFIG_HEADS_MAX, note));
    TRY(range(file, "num_key_value_heads", c->kv_heads, CONFIG_HEADS_MAX, note));
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

enum status krn_config_check(const char *file, const struct krn_config *c,
                             struct status_note *note) {
    TRY(range(file, "vocab_size", c->vocab, CONFIG_VOCAB_MAX, note));
    TRY(range(file, "hidden_size", c->hidden, CONFIG_HIDDEN_MAX, note));
    TRY(range(file, "intermediate_size", c->ffn, CONFIG_FFN_MAX, note));
    TRY(range(file, "num_hidden_layers", c->layers, CONFIG_LAYERS_MAX, note));
    TRY(range(file, "max_position_embeddings", c->context, KRN_CONTEXT_MAX, note));
    TRY(heads_check(file, c, note));
    if (!isfinite(c->norm_eps) || c->norm_eps <= 0)
        return outside(file, "rms_norm_eps", (double)c->norm_eps, "not a finite number above 0",
                       note);
    TRY(rope_check(file, &c->rope, note));
    TRY(tokens_check(file, c, note));
    return sampling_check(file, c, note);
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
        char quoted[KRN_QUOTE_BYTES], known[80];
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
static void refuse_unsupported(struct krn_fields *f) {
    char quoted[KRN_QUOTE_BYTES];
    const char *act = krn_field_text_or(f, "hidden_act", "silu");
    if (strcmp(act, "silu") != 0)
        krn_field_fault(f, STATUS_BAD_MODEL, "hidden_act", "is %s; this build knows silu",
                        krn_quote(quoted, act));
    if (krn_field(f, "sliding_window") != NULL)
        krn_field_fault(f, STATUS_BAD_MODEL, "sliding_window",
                        "is set; this build knows full attention only");
    const json_t *quantization = krn_field(f, "quantization_config");
    if (quantization != NULL) {
        const json_t *method = json_object_get(quantization, "quant_method");
        const char *name = json_is_string(method) ? json_string_value(method) : "unnamed";
        krn_field_fault(f, STATUS_BAD_MODEL, "quantization_config",
                        "asks for %s; this build knows F32, F16 and BF16 weights",
                        krn_quote(quoted, name));
    }
    if (krn_field_number_or(f, "partial_rotary_factor", 1.0) != 1.0)
        krn_field_fault(f, STATUS_BAD_MODEL, "partial_rotary_factor",
                        "is not 1; this build rotates whole heads");
    const json_t *types = krn_field(f, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL || strcmp(type, "full_attention") != 0)
            krn_field_fault(f, STATUS_BAD_MODEL, "layer_types",
                            "names %s; this build knows full_attention",
                            krn_quote(quoted, type == NULL ? "no type" : type));
    }
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

/* Older files: rope_theta and rope_scaling; newer ones: rope_parameters with rope_theta inside. */
static void read_rope(struct krn_fields *f, struct krn_rope *r) {
    const json_t *scaling = krn_field(f, "rope_scaling");
    const json_t *parameters = krn_field(f, "rope_parameters");
    if (scaling != NULL && parameters != NULL && !json_equal(scaling, parameters))
        krn_field_fault(f, STATUS_BAD_MODEL, "rope_scaling",
                        "and rope_parameters are both set and differ");
    r->kind = KRN_ROPE_PLAIN;
    r->theta = krn_field_number_or(f, "rope_theta", 10000.0);
    const char *key = parameters != NULL ? "rope_parameters" : "rope_scaling";
    const json_t *object = parameters != NULL ? parameters : scaling;
    if (object == NULL || f->status != STATUS_OK)
        return;
    if (!json_is_object(object)) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not an object");
        return;
    }
    struct krn_fields in = *f;
    in.object = object;
    in.where = parameters != NULL ? "rope_parameters." : "rope_scaling.";
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

static void read_shape(struct krn_fields *f, struct krn_config *c) {
    c->vocab = krn_field_u32(f, "vocab_size", 1, CONFIG_VOCAB_MAX);
    c->hidden = krn_field_u32(f, "hidden_size", 1, CONFIG_HIDDEN_MAX);
    c->ffn = krn_field_u32(f, "intermediate_size", 1, CONFIG_FFN_MAX);
    c->layers = krn_field_u32(f, "num_hidden_layers", 1, CONFIG_LAYERS_MAX);
    c->heads = krn_field_u32(f, "num_attention_heads", 1, CONFIG_HEADS_MAX);
    c->kv_heads = krn_field_u32_or(f, "num_key_value_heads", c->heads, 1, CONFIG_HEADS_MAX);
    c->context = krn_field_u32(f, "max_position_embeddings", 1, KRN_CONTEXT_MAX);
    c->head_dim = krn_field_u32_or(f, "head_dim", 0, 1, CONFIG_HIDDEN_MAX);
    if (c->head_dim == 0 && f->status == STATUS_OK) {
        if (c->hidden % c->heads != 0)
            krn_field_fault(
                f, STATUS_BAD_MODEL, "hidden_size",
                "%u is not a multiple of num_attention_heads %u, and head_dim is missing",
                c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
    c->norm_eps = narrow(krn_field_number_or(f, "rms_norm_eps", 1e-6));
    c->tied = krn_field_bool_or(f, "tie_word_embeddings", false);
    c->attn_bias = krn_field_bool_or(f, "attention_bias", false);
    c->attn_out_bias = c->attn_bias; /* one key for q, k, v and o in this family */
    c->mlp_bias = krn_field_bool_or(f, "mlp_bias", false);
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
    refuse_unsupported(&f);
    read_shape(&f, &c);
    read_rope(&f, &c.rope);
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
