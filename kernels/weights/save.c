/* SPDX-License-Identifier: Apache-2.0
 * Writing a model as a directory of the Hugging Face layout: config.json, generation_config.json,
 * one or several safetensors files with their index. Each file is written under a passing name and
 * renamed when whole.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/check.h"
#include "kernels/families/registry.h"
#include "kernels/quant/quant.h"
#include "kernels/weights/json.h"
#include "kernels/weights/shards.h"
#include "kernels/weights/store.h"

static enum status no_memory(struct status_note *note) {
    return status_say(note, STATUS_NO_MEMORY, "no memory to write the model");
}

/* A file being written. */
struct out_file {
    FILE *stream;
    char path[KRN_PATH_MAX], part[KRN_PATH_MAX];
};

static enum status out_fault(const struct out_file *f, const char *what, struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    return status_say(note, STATUS_IO, "%s: cannot %s: %s", krn_label(label, f->path), what,
                      strerror(errno));
}

static enum status out_open(struct out_file *f, const char *dir, const char *name,
                            struct status_note *note) {
    char part[300];
    snprintf(part, sizeof part, "%s.part", name);
    TRY(krn_path_join(f->path, dir, name, note));
    TRY(krn_path_join(f->part, dir, part, note));
    f->stream = fopen(f->part, "wbe");
    return f->stream == NULL ? out_fault(f, "create", note) : STATUS_OK;
}

/* Ends the file: in place when whole, gone when not. */
static enum status out_close(struct out_file *f, enum status status, struct status_note *note) {
    if (fclose(f->stream) != 0 && status == STATUS_OK)
        status = out_fault(f, "write", note);
    if (status == STATUS_OK && rename(f->part, f->path) != 0)
        status = out_fault(f, "rename", note);
    if (status != STATUS_OK)
        unlink(f->part);
    return status;
}

static enum status out_write(struct out_file *f, const void *bytes, uint64_t n,
                             struct status_note *note) {
    if (fwrite(bytes, 1, (size_t)n, f->stream) != (size_t)n)
        return out_fault(f, "write", note);
    return STATUS_OK;
}

static int put_json(const char *text, size_t n, void *file) {
    struct out_file *f = file;
    return fwrite(text, 1, n, f->stream) == n ? 0 : -1;
}

/* Streamed: jansson's own buffer loses text when memory runs out. */
static enum status out_json(struct out_file *f, const json_t *root, size_t flags,
                            struct status_note *note) {
    if (json_dump_callback(root, put_json, f, flags) == 0)
        return STATUS_OK;
    return ferror(f->stream) ? out_fault(f, "write", note) : no_memory(note);
}

/* Takes root over. */
static enum status write_json(const char *dir, const char *name, json_t *root,
                              struct status_note *note) {
    struct out_file *f = malloc(sizeof *f);
    enum status status = f == NULL || root == NULL ? no_memory(note) : out_open(f, dir, name, note);
    if (status == STATUS_OK) {
        status = out_json(f, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), note);
        if (status == STATUS_OK)
            status = out_write(f, "\n", 1, note);
        status = out_close(f, status, note);
    }
    json_decref(root);
    free(f);
    return status;
}

static json_t *rope_json(const struct krn_rope *r) {
    if (r->kind == KRN_ROPE_PLAIN)
        return json_null();
    if (r->kind == KRN_ROPE_LINEAR)
        return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", r->factor);
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", r->factor,
                     "low_freq_factor", r->low_freq_factor, "high_freq_factor", r->high_freq_factor,
                     "original_max_position_embeddings", (json_int_t)r->original_context);
}

/* A list of n numbers; NULL when there is no memory. */
static json_t *list_json(const uint64_t *numbers, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        if (json_array_append_new(list, json_integer((json_int_t)numbers[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *eos_json(const struct krn_config *c) {
    if (c->n_eos == 0)
        return json_null();
    if (c->n_eos == 1)
        return json_integer(c->eos[0]);
    uint64_t ids[KRN_EOS_MAX];
    for (uint32_t i = 0; i < c->n_eos; i++)
        ids[i] = c->eos[i];
    return list_json(ids, c->n_eos);
}

static const char *torch_dtype(const struct krn_model *model) {
    static const char *const words[KRN_DTYPES] = {
        [KRN_F32] = "float32", [KRN_F16] = "float16", [KRN_BF16] = "bfloat16"};
    return words[model->n_tensors > 0 ? model->tensors[0].dtype : KRN_F32];
}

static int put(json_t *root, const char *key, json_t *value) {
    return json_object_set_new(root, key, value);
}

static bool mistral_like(const struct krn_config *c) {
    return strcmp(c->family, "mistral") == 0 || strcmp(c->family, "mixtral") == 0;
}

/* The family's file has one window for every layer. */
static bool window_for_all(const struct krn_config *c) {
    return mistral_like(c) || strcmp(c->family, "qwen3_moe") == 0;
}

static json_t *layer_types_json(const struct krn_config *c) {
    json_t *types = json_array();
    for (uint32_t l = 0; types != NULL && l < c->layers; l++) {
        const char *type = krn_layer_windowed(c, l) ? "sliding_attention" : "full_attention";
        if (json_array_append_new(types, json_string(type)) != 0) {
            json_decref(types);
            types = NULL;
        }
    }
    return types;
}

static int gemma_json(const struct krn_config *c, json_t *root) {
    json_object_del(root, "hidden_act");
    return put(root, "hidden_activation", json_string("gelu_pytorch_tanh")) |
           put(root, "rope_local_base_freq", json_real(c->local_rope.theta)) |
           put(root, "query_pre_attn_scalar", json_integer(c->score_scalar));
}

static int experts_json(const struct krn_config *c, json_t *root) {
    bool qwen = strcmp(c->family, "qwen3_moe") == 0;
    int bad = put(root, qwen ? "num_experts" : "num_local_experts", json_integer(c->experts)) |
              put(root, "num_experts_per_tok", json_integer(c->experts_used));
    if (!qwen)
        return bad;
    uint64_t dense[KRN_LAYERS_MAX];
    uint32_t n = 0;
    for (uint32_t l = 0; l < c->layers; l++)
        if (krn_layer_dense(c, l))
            dense[n++] = l;
    if (n > 0)
        bad |= put(root, "intermediate_size", json_integer(c->dense_ffn));
    return bad | put(root, "moe_intermediate_size", json_integer(c->ffn)) |
           put(root, "norm_topk_prob", json_boolean(c->experts_norm)) |
           put(root, "decoder_sparse_step", json_integer(1)) |
           put(root, "mlp_only_layers", list_json(dense, n));
}

/* What a family's file says beyond Llama's, and without the keys that it has not. False when there
 * is no memory. */
static bool family_json(const struct krn_config *c, json_t *root) {
    bool gemma = strcmp(c->family, "gemma3") == 0;
    if (strcmp(c->family, "llama") == 0)
        return true;
    json_object_del(root, "mlp_bias");
    if (strncmp(c->family, "qwen3", 5) != 0 && !gemma)
        json_object_del(root, "attention_bias");
    int bad = put(root, "sliding_window", c->window == 0 ? json_null() : json_integer(c->window));
    if (c->experts != 0)
        bad |= experts_json(c, root);
    if (mistral_like(c))
        return bad == 0;
    if (!window_for_all(c))
        bad |= put(root, "layer_types", layer_types_json(c));
    bad |=
        gemma ? gemma_json(c, root) : put(root, "use_sliding_window", json_boolean(c->window != 0));
    return bad == 0;
}

static json_t *config_json(const struct krn_model *model, const char *architecture) {
    const struct krn_config *c = &model->config;
    json_t *root =
        json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "architectures",
                  architecture, "model_type", c->family, "vocab_size", (json_int_t)c->vocab,
                  "hidden_size", (json_int_t)c->hidden, "intermediate_size", (json_int_t)c->ffn,
                  "num_hidden_layers", (json_int_t)c->layers, "num_attention_heads",
                  (json_int_t)c->heads, "num_key_value_heads", (json_int_t)c->kv_heads, "head_dim",
                  (json_int_t)c->head_dim, "max_position_embeddings", (json_int_t)c->context);
    json_t *more = json_pack("{s:f, s:f, s:o, s:s, s:b, s:b, s:b, s:o, s:o, s:s}", "rms_norm_eps",
                             (double)c->norm_eps, "rope_theta", c->rope.theta, "rope_scaling",
                             rope_json(&c->rope), "hidden_act", "silu", "attention_bias",
                             c->attn_bias, "mlp_bias", c->mlp_bias, "tie_word_embeddings", c->tied,
                             "bos_token_id", c->bos < 0 ? json_null() : json_integer(c->bos),
                             "eos_token_id", eos_json(c), "torch_dtype", torch_dtype(model));
    if (root == NULL || more == NULL || json_object_update(root, more) != 0 ||
        !family_json(c, root)) {
        json_decref(root);
        root = NULL;
    }
    json_decref(more);
    return root;
}

static json_t *generation_json(const struct krn_config *c) {
    json_t *root = json_pack("{s:o, s:o, s:b}", "bos_token_id",
                             c->bos < 0 ? json_null() : json_integer(c->bos), "eos_token_id",
                             eos_json(c), "do_sample", c->has_sampling);
    if (root == NULL || !c->has_sampling)
        return root;
    json_t *sampling = json_pack("{s:f, s:f, s:I}", "temperature", (double)c->temperature, "top_p",
                                 (double)c->top_p, "top_k", (json_int_t)c->top_k);
    if (sampling == NULL || json_object_update(root, sampling) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(sampling);
    return root;
}

/* Wide elements first, so that each tensor of a file is aligned to its element; then by name. */
static int file_order(const void *a, const void *b) {
    const struct krn_tensor *x = *(const struct krn_tensor *const *)a;
    const struct krn_tensor *y = *(const struct krn_tensor *const *)b;
    if ((x->dtype == KRN_F32) != (y->dtype == KRN_F32))
        return x->dtype == KRN_F32 ? -1 : 1;
    return strcmp(x->name, y->name);
}

static json_t *header_json(const struct krn_tensor *const *tensors, uint32_t n) {
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0;
    for (uint32_t i = 0; root != NULL && i < n; i++) {
        const struct krn_tensor *t = tensors[i];
        json_t *shape = list_json(t->dims, t->n_dims);
        json_t *entry =
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", krn_dtype_word(t->dtype), "shape", shape,
                      "data_offsets", (json_int_t)at, (json_int_t)(at + t->bytes));
        at += t->bytes;
        if (entry == NULL || json_object_set_new(root, t->name, entry) != 0) {
            json_decref(root);
            root = NULL;
        }
    }
    return root;
}

static int count_json(const char *text, size_t n, void *total) {
    (void)text;
    *(uint64_t *)total += n;
    return 0;
}

/* Length, header padded with blanks to whole 8 bytes, data. */
static enum status write_table(struct out_file *f, const json_t *header,
                               const struct krn_tensor *const *tensors, uint32_t n,
                               struct status_note *note) {
    static const char spaces[8] = "        ";
    uint64_t length = 0;
    if (json_dump_callback(header, count_json, &length, JSON_COMPACT) != 0)
        return no_memory(note);
    uint64_t padded = (length + 7) / 8 * 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(padded >> (8 * i));
    TRY(out_write(f, prefix, sizeof prefix, note));
    TRY(out_json(f, header, JSON_COMPACT, note));
    TRY(out_write(f, spaces, padded - length, note));
    for (uint32_t i = 0; i < n; i++)
        TRY(out_write(f, tensors[i]->data, tensors[i]->bytes, note));
    return STATUS_OK;
}

static enum status write_tensors(const char *dir, const char *name,
                                 const struct krn_tensor **tensors, uint32_t n,
                                 struct status_note *note) {
    qsort(tensors, n, sizeof(const struct krn_tensor *), file_order);
    json_t *header = header_json(tensors, n);
    struct out_file *f = malloc(sizeof *f);
    enum status status =
        f == NULL || header == NULL ? no_memory(note) : out_open(f, dir, name, note);
    if (status == STATUS_OK)
        status = out_close(f, write_table(f, header, tensors, n, note), note);
    json_decref(header);
    free(f);
    return status;
}

/* Tensors of the shards in name order, cut where the bytes so far pass the next equal part; none is
 * empty. */
static uint32_t shard_end(const struct krn_model *model, uint32_t begin, uint32_t shard,
                          uint32_t shards, uint64_t total, uint64_t *written) {
    uint32_t end = begin;
    uint32_t last = model->n_tensors - (shards - 1 - shard); /* leaves one for each later shard */
    uint64_t goal = total / shards * (shard + 1);
    do
        *written += model->tensors[end++].bytes;
    while (end < last && (shard + 1 == shards || *written < goal));
    return end;
}

static enum status write_shards(const struct krn_model *model, const char *dir, uint32_t shards,
                                const struct krn_tensor **order, json_t *map,
                                struct status_note *note) {
    uint64_t total = 0, written = 0;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        total += model->tensors[i].bytes;
    uint32_t begin = 0;
    for (uint32_t s = 0; s < shards; s++) {
        char name[64] = "model.safetensors";
        if (shards > 1)
            snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", s + 1, shards);
        uint32_t end = shard_end(model, begin, s, shards, total, &written);
        for (uint32_t i = begin; i < end; i++) {
            order[i] = &model->tensors[i];
            if (json_object_set_new(map, model->tensors[i].name, json_string(name)) != 0)
                return no_memory(note);
        }
        TRY(write_tensors(dir, name, order + begin, end - begin, note));
        begin = end;
    }
    CHECK(begin == model->n_tensors && written == total);
    if (shards == 1)
        return STATUS_OK;
    return write_json(
        dir, "model.safetensors.index.json",
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map),
        note);
}

/* What the family's config.json cannot say. */
static enum status layout_check(const struct krn_config *c, const char *label,
                                struct status_note *note) {
    bool llama = strcmp(c->family, "llama") == 0, mistral = mistral_like(c);
    bool qkv = strcmp(c->family, "qwen2") == 0;
    if (!qkv && c->attn_bias != c->attn_out_bias)
        return status_say(
            note, STATUS_UNSUPPORTED,
            "%s: the layout has one attention_bias for q, k, v and o; this model's differ", label);
    if ((qkv && (!c->attn_bias || c->attn_out_bias)) || (mistral && c->attn_bias) ||
        (!llama && c->mlp_bias))
        return status_say(note, STATUS_UNSUPPORTED, "%s: the layout of %s has other biases", label,
                          c->family);
    bool all = true;
    for (uint32_t l = 0; l < c->layers; l++)
        all = all && krn_layer_windowed(c, l);
    if (c->window != 0 && (llama || (window_for_all(c) && !all)))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: the layout of %s cannot say which layers have a window", label,
                          c->family);
    if (c->dense_ffn != 0 && strcmp(c->family, "qwen3_moe") != 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: the layout of %s has experts in every layer", label, c->family);
    if (strcmp(c->family, "mixtral") == 0 && !c->experts_norm)
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: the layout of mixtral has weights of experts that sum to 1", label);
    bool gemma = strcmp(c->family, "gemma3") == 0;
    if (gemma !=
            (c->has_local_rope && c->score_scalar != 0 && c->local_rope.kind == KRN_ROPE_PLAIN) ||
        (!gemma && (c->has_local_rope || c->score_scalar != 0)))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: the layout of %s has other angles or scales of attention", label,
                          c->family);
    return STATUS_OK;
}

static enum status save_check(const struct krn_model *model, const char *path, uint32_t shards,
                              struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    krn_label(label, path);
    if (shards < 1 || shards > model->n_tensors || shards > KRN_SHARDS_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "%s: %u shards asked for %u tensors", label,
                          shards, model->n_tensors);
    TRY(layout_check(&model->config, label, note));
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (model->tensors[i].dtype >= KRN_DTYPES)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: tensor %s is %s, for which the layout has no type", label,
                              model->tensors[i].name, krn_format_of(model->tensors[i].dtype)->word);
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return status_say(note, STATUS_IO, "%s: cannot create: %s", label, strerror(errno));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return status_say(note, STATUS_IO, "%s: is not a directory", label);
    return STATUS_OK;
}

enum status krn_model_save(const struct krn_model *model, const char *path, uint32_t shards,
                           struct status_note *note) {
    const struct krn_family *family = krn_family_named(model->config.family);
    CHECK(family != NULL);
    TRY(save_check(model, path, shards, note));
    TRY(write_json(path, "config.json", config_json(model, family->architectures[0]), note));
    TRY(write_json(path, "generation_config.json", generation_json(&model->config), note));
    const struct krn_tensor **order = calloc((size_t)model->n_tensors + 1, sizeof *order);
    json_t *map = json_object();
    enum status status = order == NULL || map == NULL
                             ? no_memory(note)
                             : write_shards(model, path, shards, order, map, note);
    json_decref(map);
    free(order);
    return status;
}
