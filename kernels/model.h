/* SPDX-License-Identifier: Apache-2.0
 * A loaded model: configuration, named tensors (mapped files or owned memory) and fingerprint.
 * Immutable after krn_model_open, so any thread may read it. File formats are in kernels/weights/,
 * families in kernels/families/.
 */
#ifndef KERNELS_MODEL_H
#define KERNELS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"
#include "kernels/fill.h"
#include "kernels/profile.h"

enum krn_limits {
    KRN_DIMS_MAX = 4,
    KRN_EOS_MAX = 16,
    KRN_CONTEXT_MAX = 1 << 20,
    KRN_LAYERS_MAX = 1024,
    KRN_EXPERTS_MAX = 512,
    KRN_EXPERTS_USED_MAX = 32
};

struct krn_tensor {
    const char *name;
    enum krn_dtype dtype;
    uint32_t n_dims;
    /* outermost first, as the file has them; a matrix is [outputs][inputs] */
    uint64_t dims[KRN_DIMS_MAX];
    /* little-endian, row-major; aligned at least to its element. NULL: nobody made the bytes yet,
     * they are `fill` (krn_model_shape). */
    const void *data;
    uint64_t bytes;
    struct krn_fill fill; /* of synthetic weights */
};

enum krn_rope_kind { KRN_ROPE_PLAIN, KRN_ROPE_LINEAR, KRN_ROPE_LLAMA3 };

struct krn_rope {
    enum krn_rope_kind kind;
    double theta, factor, low_freq_factor, high_freq_factor;
    uint32_t original_context;
};

struct krn_config {
    char family[24]; /* "llama", "qwen2", ... */
    uint32_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn, context;
    float norm_eps;
    struct krn_rope rope;
    bool tied, attn_bias, attn_out_bias, mlp_bias;
    uint32_t window; /* keys that a row of a windowed layer sees, itself included; 0: none is */
    uint32_t windowed[KRN_LAYERS_MAX / 32]; /* bit l: layer l attends within the window */
    bool has_local_rope;                    /* windowed layers rotate by local_rope */
    struct krn_rope local_rope;             /* zeros without it */
    uint32_t score_scalar;                  /* scores are divided by its root; 0: by head_dim's */
    uint32_t experts;      /* of each layer's MLP, ffn wide each; 0: one MLP without a router */
    uint32_t experts_used; /* by a row */
    bool experts_norm;     /* the used ones' weights sum to 1 */
    /* bit l: layer l of a mixture has one MLP without a router, dense_ffn wide; 0: no layer has */
    uint32_t dense[KRN_LAYERS_MAX / 32];
    uint32_t dense_ffn;
    int64_t bos;    /* -1: none */
    uint32_t n_eos; /* generation_config.json wins over config.json */
    uint32_t eos[KRN_EOS_MAX];
    bool has_sampling; /* defaults from generation_config.json */
    float temperature, top_p;
    uint32_t top_k;
    bool fp8;              /* matrices in files of safetensors may be F8_E4M3 with scales */
    uint32_t fp8_block[2]; /* rows and columns that share a scale; 0: a scale a row or a matrix */
};

struct krn_model {
    struct krn_config config;
    uint32_t n_tensors;
    const struct krn_tensor *tensors; /* sorted by name */
    uint64_t fingerprint[2];          /* XXH3-128 over config, names, types, shapes and bytes */
    uint64_t parameters;              /* tied embeddings counted once */
    void *store;                      /* private: mappings and tables */
};

/* Opens a model directory of the Hugging Face layout (config.json, model.safetensors or its index
 * and shards, generation_config.json), a GGUF file, or a directory without config.json that holds
 * one .gguf file. On failure *out is untouched, nothing stays mapped and note
 * names file and tensor. */
enum status krn_model_open(const char *path, struct krn_model **out, struct status_note *note);
void krn_model_close(struct krn_model *model);

static inline bool krn_layer_windowed(const struct krn_config *c, uint32_t layer) {
    return (c->windowed[layer / 32] >> (layer % 32) & 1) != 0;
}

static inline bool krn_layer_dense(const struct krn_config *c, uint32_t layer) {
    return c->experts == 0 || (c->dense[layer / 32] >> (layer % 32) & 1) != 0;
}

/* The width of an MLP without a router; 0 when no layer has one. */
static inline uint32_t krn_dense_width(const struct krn_config *c) {
    return c->experts == 0 ? c->ffn : c->dense_ffn;
}

/* The tensor of that name, or NULL. */
const struct krn_tensor *krn_model_tensor(const struct krn_model *model, const char *name);

/* A model with seeded random weights in memory (tests, prove, the simulation); only the shape
 * fields of config are read: family ("": llama), vocab ... dense_ffn. Scales keep activations of
 * order one. */
enum status krn_model_synthetic(const struct krn_config *config, enum krn_dtype dtype,
                                uint64_t seed, struct krn_model **out, struct status_note *note);
/* A model of a known shape ("llama-8b"; krn_model_shape_name lists them) with seeded random bf16
 * weights. Its matrices have no bytes: a device makes them from `fill`, or krn_model_fill does,
 * once, before anybody reads them. NOT_FOUND names the shapes that there are. */
enum status krn_model_shape(const char *name, uint64_t seed, struct krn_model **out,
                            struct status_note *note);
const char *krn_model_shape_name(unsigned i);
/* Makes all bytes in host memory. NO_MEMORY says what is needed and what the machine has. */
enum status krn_model_fill(struct krn_model *model, struct status_note *note);
/* Writes such a model as a directory of the Hugging Face layout (shards: number of safetensors
 * files). */
enum status krn_model_save(const struct krn_model *model, const char *path, uint32_t shards,
                           struct status_note *note);

#endif
