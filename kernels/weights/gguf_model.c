/* SPDX-License-Identifier: Apache-2.0
 * A GGUF file becomes a krn_model.
 */
#include "kernels/weights/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/quant/quant.h"
#include "kernels/weights/gguf_arch.h"
#include "kernels/weights/json.h"
#include "kernels/weights/store.h"

const struct krn_entry *krn_gguf_entry(const struct krn_gguf *g, const char *name) {
    for (uint32_t i = 0; i < g->table.n; i++)
        if (strcmp(g->table.entries[i].name, name) == 0)
            return &g->table.entries[i];
    return NULL;
}

/* Held by the configuration already, or by no model that matters. */
static bool skipped(const char *name) {
    return strcmp(name, "rope_freqs.weight") == 0;
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

/* A norm's factors less one. What adds 1 again (numerics.md 2) must give the file's values. */
static enum status less_one(const struct krn_gguf *g, const struct krn_entry *e, float *to,
                            struct status_note *note) {
    for (uint64_t i = 0; i < e->dims[0]; i++) {
        float factor;
        krn_unpack(e->type, g->bytes + e->offset, i, 1, &factor);
        to[i] = factor - 1.0F;
        if (1.0F + to[i] != factor && !isnan(factor))
            return tensor_fault(g, e, STATUS_BAD_MODEL,
                                "holds a factor that is no 1 + w of a float w", note);
    }
    return STATUS_OK;
}

/* A copy in our order of rows, or of misaligned data. */
static enum status copy_of(struct krn_model *model, const struct krn_gguf *g,
                           const struct krn_entry *e, enum krn_gguf_pairs pairs, void *to,
                           struct status_note *note) {
    const struct krn_config *c = &model->config;
    const unsigned char *from = g->bytes + e->offset;
    uint64_t rows = e->dims[0];
    uint32_t heads = pairs == KRN_GGUF_PAIRS_K ? c->kv_heads : c->heads;
    if (pairs == KRN_GGUF_PAIRS_NONE)
        memcpy(to, from, (size_t)e->bytes);
    else if (rows != (uint64_t)heads * c->head_dim)
        return tensor_fault(g, e, STATUS_BAD_MODEL, "has other rows than its heads ask for", note);
    else
        unpair(from, to, rows, e->bytes / rows, c->head_dim);
    return STATUS_OK;
}

/* Where the tensor's bytes lie: mapped, or copied because of their order, values or alignment. */
static enum status data_of(struct krn_model *model, const struct krn_gguf *g,
                           const struct krn_entry *e, const struct krn_gguf_place *place,
                           struct krn_tensor *t, struct status_note *note) {
    const unsigned char *from = g->bytes + e->offset;
    bool aligned = (uintptr_t)from % krn_format_of(e->type)->align == 0;
    t->data = from;
    if (place->pairs == KRN_GGUF_PAIRS_NONE && !place->one_more && aligned)
        return STATUS_OK;
    bool norm = place->one_more && e->n_dims == 1;
    uint64_t bytes = norm ? e->dims[0] * sizeof(float) : e->bytes;
    void *copy = krn_store_block(model, bytes);
    if (copy == NULL)
        return tensor_fault(g, e, STATUS_NO_MEMORY, "finds no memory for its rows", note);
    t->data = copy;
    if (!norm)
        return copy_of(model, g, e, place->pairs, copy, note);
    t->dtype = KRN_F32;
    t->bytes = bytes;
    return less_one(g, e, copy, note);
}

/* Names of the model's tensors, one after the other. */
struct names {
    char *at;
};

static const char *take_name(struct names *names, const char *name) {
    size_t n = strlen(name) + 1;
    const char *taken = memcpy(names->at, name, n);
    names->at += n;
    return taken;
}

/* One matrix an expert from a tensor of three dimensions. */
static enum status adopt_experts(struct krn_model *model, const struct krn_gguf *g,
                                 const struct krn_entry *e, const struct krn_gguf_place *place,
                                 struct names *names, struct status_note *note) {
    struct krn_tensor whole = {.dtype = e->type, .bytes = e->bytes};
    TRY(data_of(model, g, e, place, &whole, note));
    for (uint32_t i = 0; i < place->experts; i++) {
        char name[KRN_GGUF_PLACE_NAME];
        uint64_t bytes = whole.bytes / place->experts;
        krn_gguf_expert_name(place, i, name);
        struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
        *t = (struct krn_tensor){.name = take_name(names, name),
                                 .dtype = whole.dtype,
                                 .n_dims = 2,
                                 .dims = {e->dims[1], e->dims[2]},
                                 .data = (const unsigned char *)whole.data + i * bytes,
                                 .bytes = bytes};
    }
    return STATUS_OK;
}

/* Where an entry goes; of experts with as many matrices as the configuration says. */
static enum status place_of(const struct krn_gguf *g, const struct krn_gguf_arch *a,
                            const struct krn_config *c, const struct krn_entry *e,
                            struct krn_gguf_place *out, struct status_note *note) {
    char text[96];
    if (!krn_gguf_place(a, c, e->name, out)) {
        snprintf(text, sizeof text, "is none that this build knows in architecture %s", a->name);
        return tensor_fault(g, e, STATUS_BAD_MODEL, text, note);
    }
    if (out->experts != 0 && (e->n_dims != 3 || e->dims[0] != out->experts)) {
        snprintf(text, sizeof text, "is not %u matrices, one an expert", out->experts);
        return tensor_fault(g, e, STATUS_BAD_MODEL, text, note);
    }
    return STATUS_OK;
}

static enum status adopt(struct krn_model *model, const struct krn_gguf *g,
                         const struct krn_gguf_arch *a, const struct krn_entry *e,
                         struct names *names, struct status_note *note) {
    struct krn_store *store = model->store;
    struct krn_gguf_place place;
    TRY(place_of(g, a, &model->config, e, &place, note));
    if (!e->usable) {
        store->unusable[store->n_unusable++] =
            (struct krn_unusable){.name = take_name(names, place.name),
                                  .dtype = e->dtype,
                                  .n_dims = e->n_dims,
                                  .bytes = e->bytes};
        return STATUS_OK;
    }
    if (place.experts != 0)
        return adopt_experts(model, g, e, &place, names, note);
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
    *t = (struct krn_tensor){.name = take_name(names, place.name),
                             .dtype = e->type,
                             .n_dims = e->n_dims,
                             .bytes = e->bytes};
    memcpy(t->dims, e->dims, sizeof t->dims);
    return data_of(model, g, e, &place, t, note);
}

/* Tensors of the model: an entry gives one, or one an expert. */
static enum status count(const struct krn_gguf *g, const struct krn_gguf_arch *a,
                         const struct krn_config *c, uint64_t *n, struct status_note *note) {
    *n = 0;
    for (uint32_t i = 0; i < g->table.n; i++) {
        struct krn_gguf_place place;
        if (skipped(g->table.entries[i].name))
            continue;
        TRY(place_of(g, a, c, &g->table.entries[i], &place, note));
        *n += place.experts != 0 ? place.experts : 1;
    }
    if (*n > KRN_TENSORS_MAX)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: %llu matrices of experts and other tensors, at most %d are allowed",
                          g->file, (unsigned long long)*n, KRN_TENSORS_MAX);
    return STATUS_OK;
}

/* Takes the mapping over from file, also when it fails. */
static enum status fill(struct krn_model *model, const struct krn_gguf *g,
                        const struct krn_gguf_arch *a, uint64_t n, struct krn_file *file,
                        struct status_note *note) {
    struct krn_store *store = model->store;
    store->files[store->n_files++] = *file;
    *file = (struct krn_file){0};
    struct names names = {krn_store_block(model, n * KRN_GGUF_PLACE_NAME)};
    if (names.at == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the tensors' names", g->file);
    for (uint32_t i = 0; i < g->table.n; i++)
        if (!skipped(g->table.entries[i].name))
            TRY(adopt(model, g, a, &g->table.entries[i], &names, note));
    TRY(krn_store_seal(model, note));
    for (uint32_t i = 1; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i - 1].name, model->tensors[i].name) == 0)
            return status_say(note, STATUS_BAD_MODEL, "%s: %s is there alone and among all experts",
                              g->file, model->tensors[i].name);
    return STATUS_OK;
}

static enum status model_of(const struct krn_gguf *g, struct krn_file *file, struct krn_model **out,
                            struct status_note *note) {
    struct krn_config config;
    struct krn_gguf_reader r = {.g = g, .note = note};
    uint64_t n;
    TRY(krn_gguf_config(g, &config, note));
    const struct krn_gguf_arch *a = krn_gguf_arch_of(&r);
    TRY(r.status);
    TRY(count(g, a, &config, &n, note));
    struct krn_model *model = krn_store_new((uint32_t)n, 1, g->table.n + 1, g->table.n);
    if (model == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the model's tables", g->file);
    model->config = config;
    enum status status = fill(model, g, a, n, file, note);
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
