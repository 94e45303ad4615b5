/* SPDX-License-Identifier: Apache-2.0
 * A model's life: created empty, filled, sealed, closed.
 */
#include "kernels/weights/store.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/quant/quant.h"

struct krn_model *krn_store_new(uint32_t n_tensors, uint32_t n_files, uint32_t n_blocks,
                                uint32_t n_unusable) {
    struct krn_model *model = calloc(1, sizeof *model);
    struct krn_store *store = calloc(1, sizeof *store);
    struct krn_tensor *tensors = calloc((size_t)n_tensors + 1, sizeof *tensors);
    if (store != NULL) {
        store->files = calloc((size_t)n_files + 1, sizeof *store->files);
        store->blocks = calloc((size_t)n_blocks + 1, sizeof *store->blocks);
        store->unusable = calloc((size_t)n_unusable + 1, sizeof *store->unusable);
    }
    if (model != NULL) {
        model->store = store;
        model->tensors = tensors;
    }
    if (model != NULL && tensors != NULL && store != NULL && store->files != NULL &&
        store->blocks != NULL && store->unusable != NULL)
        return model;
    if (model != NULL) {
        krn_model_close(model);
    } else {
        free(tensors);
        if (store != NULL) {
            free(store->files);
            free(store->blocks);
            free(store->unusable);
            free(store);
        }
    }
    return NULL;
}

void *krn_store_block(struct krn_model *model, uint64_t bytes) {
    struct krn_store *store = model->store;
    if (bytes > SIZE_MAX - 64)
        return NULL;
    size_t rounded = ((size_t)bytes + 63) / 64 * 64;
    void *block = aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (block != NULL)
        store->blocks[store->n_blocks++] = block;
    return block;
}

static int tensor_order(const void *a, const void *b) {
    const struct krn_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int unusable_order(const void *a, const void *b) {
    const struct krn_unusable *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int tensor_find(const void *name, const void *tensor) {
    return strcmp(name, ((const struct krn_tensor *)tensor)->name);
}

static int unusable_find(const void *name, const void *unusable) {
    return strcmp(name, ((const struct krn_unusable *)unusable)->name);
}

const struct krn_tensor *krn_model_tensor(const struct krn_model *model, const char *name) {
    return bsearch(name, model->tensors, model->n_tensors, sizeof *model->tensors, tensor_find);
}

const struct krn_unusable *krn_store_unusable(const struct krn_model *model, const char *name) {
    const struct krn_store *store = model->store;
    return bsearch(name, store->unusable, store->n_unusable, sizeof *store->unusable,
                   unusable_find);
}

static void hash_u64(XXH3_state_t *h, uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    XXH3_128bits_update(h, bytes, sizeof bytes);
}

static void hash_f64(XXH3_state_t *h, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    hash_u64(h, bits);
}

static void hash_text(XXH3_state_t *h, const char *text) {
    size_t n = strlen(text);
    hash_u64(h, n);
    XXH3_128bits_update(h, text, n);
}

static void hash_rope(XXH3_state_t *h, const struct krn_rope *r) {
    hash_u64(h, r->kind);
    hash_f64(h, r->theta);
    hash_f64(h, r->factor);
    hash_f64(h, r->low_freq_factor);
    hash_f64(h, r->high_freq_factor);
    hash_u64(h, r->original_context);
}

/* Every field in a fixed order and width; a new field is appended and the version in the first line
 * raised. */
static void hash_config(XXH3_state_t *h, const struct krn_config *c) {
    hash_text(h, "roundhouse model 1");
    hash_text(h, c->family);
    const uint64_t sizes[] = {c->vocab,    c->hidden,   c->layers, c->heads,
                              c->kv_heads, c->head_dim, c->ffn,    c->context};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        hash_u64(h, sizes[i]);
    hash_f64(h, (double)c->norm_eps);
    hash_rope(h, &c->rope);
    hash_u64(h, (uint64_t)c->tied | (uint64_t)c->attn_bias << 1 | (uint64_t)c->attn_out_bias << 2 |
                    (uint64_t)c->mlp_bias << 3 | (uint64_t)c->has_sampling << 4);
    hash_u64(h, (uint64_t)c->bos);
    hash_u64(h, c->n_eos);
    for (uint32_t i = 0; i < c->n_eos; i++)
        hash_u64(h, c->eos[i]);
    hash_f64(h, (double)c->temperature);
    hash_f64(h, (double)c->top_p);
    hash_u64(h, c->top_k);
    if (c->window != 0) {
        hash_text(h, "window");
        hash_u64(h, c->window);
        for (uint32_t l = 0; l < c->layers; l++)
            hash_u64(h, krn_layer_windowed(c, l));
    }
    if (c->has_local_rope) {
        hash_text(h, "local rope");
        hash_rope(h, &c->local_rope);
    }
    if (c->experts != 0) {
        hash_text(h, "experts");
        hash_u64(h, c->experts);
        hash_u64(h, c->experts_used);
        hash_u64(h, c->experts_norm);
    }
    if (c->dense_ffn != 0) {
        hash_text(h, "dense");
        hash_u64(h, c->dense_ffn);
        for (uint32_t l = 0; l < c->layers; l++)
            hash_u64(h, krn_layer_dense(c, l));
    }
    if (c->score_scalar != 0) {
        hash_text(h, "score scalar");
        hash_u64(h, c->score_scalar);
    }
}

static enum status fingerprint(struct krn_model *model, struct status_note *note) {
    XXH3_state_t *h = XXH3_createState();
    if (h == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the model's fingerprint");
    XXH3_128bits_reset(h);
    hash_config(h, &model->config);
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct krn_tensor *t = &model->tensors[i];
        hash_text(h, t->name);
        hash_u64(h, t->dtype);
        hash_u64(h, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            hash_u64(h, t->dims[d]);
        hash_u64(h, t->bytes);
        if (t->data != NULL) {
            XXH3_128bits_update(h, t->data, (size_t)t->bytes);
            continue;
        }
        hash_text(h, "fill");
        hash_u64(h, t->fill.stream);
        hash_f64(h, (double)t->fill.offset);
        hash_f64(h, (double)t->fill.reach);
    }
    XXH128_hash_t digest = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    model->fingerprint[0] = digest.high64;
    model->fingerprint[1] = digest.low64;
    return STATUS_OK;
}

/* Rotary tables that old files carry are buffers; a tied model's lm_head is the embedding again. */
static bool counts_as_parameter(const struct krn_model *model, const struct krn_tensor *t) {
    size_t n = strlen(t->name), tail = sizeof ".rotary_emb.inv_freq" - 1;
    if (n >= tail && strcmp(t->name + n - tail, ".rotary_emb.inv_freq") == 0)
        return false;
    return !(model->config.tied && strcmp(t->name, "lm_head.weight") == 0);
}

/* The bytes are whole blocks. */
static uint64_t elements(const struct krn_tensor *t) {
    const struct krn_format *f = krn_format_of(t->dtype);
    return t->bytes / f->bytes * f->block;
}

enum status krn_store_seal(struct krn_model *model, struct status_note *note) {
    struct krn_store *store = model->store;
    struct krn_tensor *tensors = (struct krn_tensor *)(uintptr_t)model->tensors;
    qsort(tensors, model->n_tensors, sizeof *tensors, tensor_order);
    qsort(store->unusable, store->n_unusable, sizeof *store->unusable, unusable_order);
    model->parameters = 0;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (counts_as_parameter(model, &tensors[i]))
            model->parameters += elements(&tensors[i]);
    return fingerprint(model, note);
}

void krn_model_close(struct krn_model *model) {
    if (model == NULL)
        return;
    struct krn_store *store = model->store;
    if (store != NULL) {
        for (uint32_t i = 0; i < store->n_files; i++)
            krn_file_close(&store->files[i]);
        for (uint32_t i = 0; i < store->n_blocks; i++)
            free(store->blocks[i]);
        free(store->files);
        free(store->blocks);
        free(store->unusable);
        free(store);
    }
    free((void *)(uintptr_t)model->tensors);
    free(model);
}
