/* SPDX-License-Identifier: Apache-2.0
 * A GGUF file becomes a krn_model.
 */
#include "kernels/weights/gguf_model.h"

#include <stdio.h>
#include <string.h>

#include "kernels/quant/quant.h"
#include "kernels/weights/json.h"
#include "kernels/weights/store.h"

enum { MAPPED_NAME_BYTES = 80 };

/* Whose rows the file holds in pairs: row 2j + t of a head is row t * head_dim / 2 + j here,
 * because the file's authors rotate neighbours and numerics.md 4.2 rotates halves. */
enum pairs { PAIRS_NONE, PAIRS_Q, PAIRS_K };

static const struct {
    const char *file, *name; /* of a layer; ".weight" or ".bias" follows */
    enum pairs pairs;
    bool norm;
} slots[] = {
    {"attn_norm", "input_layernorm", PAIRS_NONE, true},
    {"attn_q", "self_attn.q_proj", PAIRS_Q, false},
    {"attn_k", "self_attn.k_proj", PAIRS_K, false},
    {"attn_v", "self_attn.v_proj", PAIRS_NONE, false},
    {"attn_output", "self_attn.o_proj", PAIRS_NONE, false},
    {"ffn_norm", "post_attention_layernorm", PAIRS_NONE, true},
    {"ffn_gate", "mlp.gate_proj", PAIRS_NONE, false},
    {"ffn_up", "mlp.up_proj", PAIRS_NONE, false},
    {"ffn_down", "mlp.down_proj", PAIRS_NONE, false},
};

static const char *const top_names[][2] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

const struct krn_entry *krn_gguf_entry(const struct krn_gguf *g, const char *name) {
    for (uint32_t i = 0; i < g->table.n; i++)
        if (strcmp(g->table.entries[i].name, name) == 0)
            return &g->table.entries[i];
    return NULL;
}

static bool bias_used(const struct krn_config *c, size_t slot) {
    if (slots[slot].norm)
        return false;
    if (strncmp(slots[slot].file, "ffn", 3) == 0)
        return c->mlp_bias;
    return strcmp(slots[slot].file, "attn_output") == 0 ? c->attn_out_bias : c->attn_bias;
}

/* Held by the configuration already, or by no model that matters. */
static bool skipped(const char *name) {
    return strcmp(name, "rope_freqs.weight") == 0;
}

/* False for a tensor that the architecture does not have here. */
static bool map_name(const struct krn_config *c, const char *name, char out[MAPPED_NAME_BYTES],
                     enum pairs *pairs) {
    *pairs = PAIRS_NONE;
    for (size_t i = 0; i < sizeof top_names / sizeof top_names[0]; i++) {
        if (strcmp(name, top_names[i][0]) == 0) {
            snprintf(out, MAPPED_NAME_BYTES, "%s", top_names[i][1]);
            return true;
        }
    }
    if (strncmp(name, "blk.", 4) != 0)
        return false;
    uint32_t layer = 0;
    const char *at = name + 4;
    if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] != '.'))
        return false;
    for (; *at >= '0' && *at <= '9' && layer < c->layers; at++)
        layer = layer * 10 + (uint32_t)(*at - '0');
    if (*at++ != '.' || layer >= c->layers)
        return false;
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        size_t n = strlen(slots[i].file);
        if (strncmp(at, slots[i].file, n) != 0)
            continue;
        if (strcmp(at + n, ".weight") != 0 && (strcmp(at + n, ".bias") != 0 || !bias_used(c, i)))
            continue;
        snprintf(out, MAPPED_NAME_BYTES, "model.layers.%u.%s%s", layer, slots[i].name, at + n);
        *pairs = slots[i].pairs;
        return true;
    }
    return false;
}

static enum status tensor_fault(const struct krn_gguf *g, const struct krn_entry *e,
                                enum status status, const char *text, struct status_note *note) {
    char quoted[KRN_QUOTE_BYTES];
    return status_say(note, status, "%s: tensor %s %s", g->file, krn_quote(quoted, e->name), text);
}

/* Rows of pairs in the order of halves. */
static void unpair(const unsigned char *from, unsigned char *to, uint64_t rows, uint64_t row_bytes,
                   uint32_t head_dim) {
    uint32_t half = head_dim / 2;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t head = r / head_dim, in = r % head_dim;
        uint64_t source = head * head_dim + 2 * (in % half) + in / half;
        memcpy(to + r * row_bytes, from + source * row_bytes, (size_t)row_bytes);
    }
}

/* Where the tensor's bytes lie: mapped, or copied because of their order or alignment. */
static enum status data_of(struct krn_model *model, const struct krn_gguf *g,
                           const struct krn_entry *e, enum pairs pairs, const void **data,
                           struct status_note *note) {
    const struct krn_config *c = &model->config;
    const unsigned char *from = g->bytes + e->offset;
    *data = from;
    bool aligned = (uintptr_t)from % krn_format_of(e->type)->align == 0;
    if (pairs == PAIRS_NONE && aligned)
        return STATUS_OK;
    uint64_t rows = e->dims[0];
    uint32_t heads = pairs == PAIRS_K ? c->kv_heads : c->heads;
    if (pairs != PAIRS_NONE && rows != (uint64_t)heads * c->head_dim)
        return tensor_fault(g, e, STATUS_BAD_MODEL, "has other rows than its heads ask for", note);
    unsigned char *copy = krn_store_block(model, e->bytes);
    if (copy == NULL)
        return tensor_fault(g, e, STATUS_NO_MEMORY, "finds no memory for its rows", note);
    if (pairs == PAIRS_NONE)
        memcpy(copy, from, (size_t)e->bytes);
    else
        unpair(from, copy, rows, e->bytes / rows, c->head_dim);
    *data = copy;
    return STATUS_OK;
}

static enum status adopt(struct krn_model *model, const struct krn_gguf *g,
                         const struct krn_entry *e, char *name, struct status_note *note) {
    struct krn_store *store = model->store;
    enum pairs pairs;
    const void *data;
    if (!map_name(&model->config, e->name, name, &pairs))
        return tensor_fault(g, e, STATUS_BAD_MODEL,
                            "is none that this build knows in architecture llama", note);
    if (!e->usable) {
        store->unusable[store->n_unusable++] = (struct krn_unusable){
            .name = name, .dtype = e->dtype, .n_dims = e->n_dims, .bytes = e->bytes};
        return STATUS_OK;
    }
    TRY(data_of(model, g, e, pairs, &data, note));
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
    *t = (struct krn_tensor){
        .name = name, .dtype = e->type, .n_dims = e->n_dims, .data = data, .bytes = e->bytes};
    memcpy(t->dims, e->dims, sizeof t->dims);
    return STATUS_OK;
}

/* Takes the mapping over from file, also when it fails. */
static enum status fill(struct krn_model *model, const struct krn_gguf *g, struct krn_file *file,
                        struct status_note *note) {
    struct krn_store *store = model->store;
    store->files[store->n_files++] = *file;
    *file = (struct krn_file){0};
    char *names = krn_store_block(model, (uint64_t)g->table.n * MAPPED_NAME_BYTES);
    if (names == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the tensors' names", g->file);
    for (uint32_t i = 0; i < g->table.n; i++)
        if (!skipped(g->table.entries[i].name))
            TRY(adopt(model, g, &g->table.entries[i], names + (size_t)i * MAPPED_NAME_BYTES, note));
    return krn_store_seal(model, note);
}

static enum status model_of(const struct krn_gguf *g, struct krn_file *file, struct krn_model **out,
                            struct status_note *note) {
    struct krn_config config;
    TRY(krn_gguf_config(g, &config, note));
    struct krn_model *model = krn_store_new(g->table.n, 1, g->table.n + 1, g->table.n);
    if (model == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the model's tables", g->file);
    model->config = config;
    enum status status = fill(model, g, file, note);
    if (status == STATUS_OK)
        *out = model;
    else
        krn_model_close(model);
    return status;
}

enum status krn_gguf_open(const char *path, struct krn_model **out, struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    struct krn_file file;
    struct krn_gguf g;
    TRY(krn_file_open(path, UINT64_MAX, &file, note));
    enum status status = krn_gguf_parse(krn_label(label, path), file.bytes, file.size, &g, note);
    if (status == STATUS_OK) {
        status = model_of(&g, &file, out, note);
        krn_gguf_free(&g);
    }
    krn_file_close(&file);
    return status;
}
