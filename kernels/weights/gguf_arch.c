/* SPDX-License-Identifier: Apache-2.0
 * The tables of architectures, of their keys and of their tensors' names.
 */
#include "kernels/weights/gguf_arch.h"

#include <stdio.h>
#include <string.h>

#include "kernels/weights/json.h"

static const struct krn_gguf_arch archs[] = {
    {.name = "gemma3", .family = "gemma3", .head_norms = true, .gemma = true},
    {.name = "llama",
     .family = "llama",
     .experts = KRN_GGUF_EITHER,
     .window_family = "mistral",
     .experts_family = "mixtral",
     .pairs = true},
    {.name = "qwen2", .family = "qwen2", .qkv_biases = true},
    {.name = "qwen3", .family = "qwen3", .head_norms = true},
    {.name = "qwen3moe", .family = "qwen3_moe", .experts = KRN_GGUF_EXPERTS, .head_norms = true},
};
enum { ARCHS = sizeof archs / sizeof archs[0] };

const struct krn_gguf_arch *krn_gguf_arch_named(const unsigned char *name, uint64_t bytes) {
    for (size_t i = 0; i < ARCHS; i++)
        if (strlen(archs[i].name) == bytes && memcmp(archs[i].name, name, (size_t)bytes) == 0)
            return &archs[i];
    return NULL;
}

void krn_gguf_arch_words(char *out, size_t bytes) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ARCHS && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i == 0 ? "" : ", ", archs[i].name);
}

const struct krn_gguf_arch *krn_gguf_arch_of(struct krn_gguf_reader *r) {
    static const char key[] = "general.architecture";
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    if (v == NULL) {
        krn_gguf_fault(r, STATUS_BAD_FILE, key, "is missing");
        return NULL;
    }
    if (v->type != KRN_GGUF_TEXT) {
        krn_gguf_fault(r, STATUS_BAD_FILE, key, "is not a text");
        return NULL;
    }
    const struct krn_gguf_arch *a = krn_gguf_arch_named(v->at, v->count);
    if (a == NULL) {
        char quoted[KRN_QUOTE_BYTES], known[96], copy[64];
        size_t n = v->count < sizeof copy - 1 ? (size_t)v->count : sizeof copy - 1;
        memcpy(copy, v->at, n);
        copy[n] = '\0';
        krn_gguf_arch_words(known, sizeof known);
        krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is \"%s\"; this build knows %s",
                       krn_quote(quoted, copy), known);
    }
    return a;
}

/* Behind the architecture's name and a dot. */
static const struct {
    const char *key;
    bool experts, gemma; /* only of architectures that may have them */
} keys[] = {
    {"attention.head_count", false, false},
    {"attention.head_count_kv", false, false},
    {"attention.key_length", false, false},
    {"attention.layer_norm_rms_epsilon", false, false},
    {"attention.sliding_window", false, false},
    {"attention.sliding_window_pattern", false, false},
    {"attention.value_length", false, false},
    {"block_count", false, false},
    {"context_length", false, false},
    {"embedding_length", false, false},
    {"expert_count", false, false},
    {"expert_used_count", false, false},
    {"expert_feed_forward_length", true, false},
    {"expert_gating_func", true, false},
    {"expert_shared_count", true, false},
    {"expert_weights_norm", true, false},
    {"expert_weights_scale", true, false},
    {"feed_forward_length", false, false},
    {"rope.dimension_count", false, false},
    {"rope.freq_base", false, false},
    {"rope.freq_base_swa", false, true},
    {"rope.scale_linear", false, false},
    {"rope.scaling.factor", false, false},
    {"rope.scaling.finetuned", false, false},
    {"rope.scaling.original_context_length", false, false},
    {"rope.scaling.type", false, false},
    {"tensor_data_layout", false, false},
    {"vocab_size", false, false},
};

bool krn_gguf_arch_knows(const struct krn_gguf_arch *a, const unsigned char *key, uint64_t bytes) {
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i].key) == bytes && memcmp(keys[i].key, key, (size_t)bytes) == 0)
            return (!keys[i].experts || a->experts != KRN_GGUF_DENSE) &&
                   (!keys[i].gemma || a->gemma);
    return false;
}

enum when { ALWAYS, DENSE, MIXTURE, HEAD_NORMS, GEMMA, NOT_GEMMA };
enum kind { PRODUCT, NORM, QUERIES, KEYS, VALUES, OUT, MLP, STACK };

/* Tensors of a layer, ".weight" or ".bias" behind the file's name. A mixture's names depend on the
 * family. */
static const struct {
    const char *file, *name;
    enum when when;
    enum kind kind;
} slots[] = {
    {"attn_norm", "input_layernorm", ALWAYS, NORM},
    {"attn_q", "self_attn.q_proj", ALWAYS, QUERIES},
    {"attn_k", "self_attn.k_proj", ALWAYS, KEYS},
    {"attn_v", "self_attn.v_proj", ALWAYS, VALUES},
    {"attn_output", "self_attn.o_proj", ALWAYS, OUT},
    {"attn_q_norm", "self_attn.q_norm", HEAD_NORMS, NORM},
    {"attn_k_norm", "self_attn.k_norm", HEAD_NORMS, NORM},
    {"ffn_norm", "post_attention_layernorm", NOT_GEMMA, NORM},
    {"ffn_norm", "pre_feedforward_layernorm", GEMMA, NORM},
    {"post_attention_norm", "post_attention_layernorm", GEMMA, NORM},
    {"post_ffw_norm", "post_feedforward_layernorm", GEMMA, NORM},
    {"ffn_gate", "mlp.gate_proj", DENSE, MLP},
    {"ffn_up", "mlp.up_proj", DENSE, MLP},
    {"ffn_down", "mlp.down_proj", DENSE, MLP},
    {"ffn_gate_inp", NULL, MIXTURE, PRODUCT},
    {"ffn_gate_exps", "gate", MIXTURE, STACK},
    {"ffn_up_exps", "up", MIXTURE, STACK},
    {"ffn_down_exps", "down", MIXTURE, STACK},
};

/* What a family calls its router and its experts' matrices: gate, up, down. */
static const struct {
    const char *family, *router, *before, *behind[3];
} mixtures[] = {
    {"mixtral",
     "block_sparse_moe.gate",
     "block_sparse_moe.experts.",
     {".w1.weight", ".w3.weight", ".w2.weight"}},
    {"qwen3_moe",
     "mlp.gate",
     "mlp.experts.",
     {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}},
};
static const char *const parts[3] = {"gate", "up", "down"};

static const char *const top_names[][2] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

static bool slot_here(const struct krn_gguf_arch *a, const struct krn_config *c, uint32_t layer,
                      size_t slot) {
    switch (slots[slot].when) {
    case DENSE:
        return krn_layer_dense(c, layer);
    case MIXTURE:
        return !krn_layer_dense(c, layer);
    case HEAD_NORMS:
        return a->head_norms;
    case GEMMA:
        return a->gemma;
    case NOT_GEMMA:
        return !a->gemma;
    case ALWAYS:
        break;
    }
    return true;
}

static bool bias_here(const struct krn_config *c, size_t slot) {
    switch (slots[slot].kind) {
    case QUERIES:
    case KEYS:
    case VALUES:
        return c->attn_bias;
    case OUT:
        return c->attn_out_bias;
    case MLP:
        return c->mlp_bias;
    default:
        return false;
    }
}

/* A decimal number without a zero before it, at most max; what follows in *at. */
static bool take_number(const char **at, uint32_t max, uint32_t *out) {
    const char *p = *at;
    *out = 0;
    if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9' && *out <= max; p++)
        *out = *out * 10 + (uint32_t)(*p - '0');
    *at = p;
    return *out <= max;
}

static size_t mixture_of(const char *family) {
    for (size_t i = 0; i < sizeof mixtures / sizeof mixtures[0]; i++)
        if (strcmp(mixtures[i].family, family) == 0)
            return i;
    return 0;
}

void krn_gguf_expert_name(const struct krn_gguf_place *place, uint32_t e,
                          char out[KRN_GGUF_PLACE_NAME]) {
    snprintf(out, KRN_GGUF_PLACE_NAME, "model.layers.%u.%s%u%s", place->layer, place->expert[0], e,
             place->expert[1]);
}

/* Old files have a matrix an expert: "ffn_gate.3.weight". */
static bool place_lone_expert(const struct krn_config *c, const char *at, uint32_t layer,
                              struct krn_gguf_place *out) {
    size_t m = mixture_of(c->family);
    for (size_t part = 0; part < 3; part++) {
        char file[16];
        int n = snprintf(file, sizeof file, "ffn_%s.", parts[part]);
        const char *rest = at + n;
        uint32_t e;
        if (strncmp(at, file, (size_t)n) != 0 || !take_number(&rest, c->experts - 1, &e) ||
            strcmp(rest, ".weight") != 0)
            continue;
        snprintf(out->name, sizeof out->name, "model.layers.%u.%s%u%s", layer, mixtures[m].before,
                 e, mixtures[m].behind[part]);
        return true;
    }
    return false;
}

static void place_stack(const struct krn_config *c, size_t slot, uint32_t layer,
                        struct krn_gguf_place *out) {
    size_t m = mixture_of(c->family), part = 0;
    while (strcmp(parts[part], slots[slot].name) != 0)
        part++;
    out->experts = c->experts;
    out->layer = layer;
    out->expert[0] = mixtures[m].before;
    out->expert[1] = mixtures[m].behind[part];
    krn_gguf_expert_name(out, 0, out->name);
}

/* A tensor of a layer: what stands behind "blk.N.". */
static bool place_slot(const struct krn_gguf_arch *a, const struct krn_config *c, const char *at,
                       uint32_t layer, struct krn_gguf_place *out) {
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        size_t n = strlen(slots[i].file);
        if (strncmp(at, slots[i].file, n) != 0 || !slot_here(a, c, layer, i))
            continue;
        if (strcmp(at + n, ".weight") != 0 && (strcmp(at + n, ".bias") != 0 || !bias_here(c, i)))
            continue;
        if (slots[i].kind == STACK) {
            place_stack(c, i, layer, out);
            return true;
        }
        const char *name =
            slots[i].name != NULL ? slots[i].name : mixtures[mixture_of(c->family)].router;
        snprintf(out->name, sizeof out->name, "model.layers.%u.%s%s", layer, name, at + n);
        if (a->pairs && slots[i].kind == QUERIES)
            out->pairs = KRN_GGUF_PAIRS_Q;
        if (a->pairs && slots[i].kind == KEYS)
            out->pairs = KRN_GGUF_PAIRS_K;
        out->one_more = a->gemma && slots[i].kind == NORM;
        return true;
    }
    return !krn_layer_dense(c, layer) && place_lone_expert(c, at, layer, out);
}

/* "blk.N." and what follows it; NULL when the name is none of a layer. */
static const char *behind_layer(const char *name, uint32_t layers, uint32_t *layer) {
    const char *at = name + 4;
    if (strncmp(name, "blk.", 4) != 0 || !take_number(&at, layers - 1, layer) || *at != '.')
        return NULL;
    return at + 1;
}

bool krn_gguf_dense_layer(const char *name, uint32_t layers, uint32_t *layer) {
    const char *at = layers == 0 ? NULL : behind_layer(name, layers, layer);
    return at != NULL && strcmp(at, "ffn_gate.weight") == 0;
}

bool krn_gguf_place(const struct krn_gguf_arch *a, const struct krn_config *c, const char *name,
                    struct krn_gguf_place *out) {
    *out = (struct krn_gguf_place){.pairs = KRN_GGUF_PAIRS_NONE};
    for (size_t i = 0; i < sizeof top_names / sizeof top_names[0]; i++) {
        if (strcmp(name, top_names[i][0]) == 0) {
            snprintf(out->name, sizeof out->name, "%s", top_names[i][1]);
            out->one_more = a->gemma && i == 1;
            return true;
        }
    }
    uint32_t layer;
    const char *at = behind_layer(name, c->layers, &layer);
    return at != NULL && place_slot(a, c, at, layer, out);
}
