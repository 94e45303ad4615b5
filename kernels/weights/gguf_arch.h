/* SPDX-License-Identifier: Apache-2.0
 * The architectures of GGUF files that this build knows: which family each is, how its files store
 * what families store differently, and the names of its tensors. Private to kernels/weights/ and
 * its tests.
 */
#ifndef KERNELS_WEIGHTS_GGUF_ARCH_H
#define KERNELS_WEIGHTS_GGUF_ARCH_H

#include "kernels/weights/gguf.h"

enum { KRN_GGUF_PLACE_NAME = 80 };

enum krn_gguf_experts {
    KRN_GGUF_DENSE,  /* the architecture has no experts */
    KRN_GGUF_EITHER, /* expert_count decides; an expert is feed_forward_length wide */
    KRN_GGUF_EXPERTS /* always; an expert is expert_feed_forward_length wide */
};

struct krn_gguf_arch {
    const char *name;   /* of general.architecture */
    const char *family; /* ours */
    enum krn_gguf_experts experts;
    const char *window_family,
        *experts_family; /* where the file has a window, or experts; or NULL */
    bool pairs;          /* rows of queries and keys lie in rotation pairs */
    bool qkv_biases;     /* always, and the output has none */
    bool head_norms;
    bool gemma; /* sandwich norms stored as 1 + w, two sets of angles, windows by pattern */
};

/* NULL when no architecture has that name. */
const struct krn_gguf_arch *krn_gguf_arch_named(const unsigned char *name, uint64_t bytes);
/* The names, "gemma3, llama, ..."; cut to fit. */
void krn_gguf_arch_words(char *out, size_t bytes);
/* The architecture of a file: the reader's fault when it has none or an unknown one. */
const struct krn_gguf_arch *krn_gguf_arch_of(struct krn_gguf_reader *r);
/* Whether a key behind the architecture's name is one that the configuration reads, or that changes
 * nothing. */
bool krn_gguf_arch_knows(const struct krn_gguf_arch *a, const unsigned char *key, uint64_t bytes);

/* Whose rows the file holds in pairs: row 2j + t of a head is row t * head_dim / 2 + j here,
 * because the file's authors rotate neighbours and numerics.md 4.2 rotates halves. */
enum krn_gguf_pairs { KRN_GGUF_PAIRS_NONE, KRN_GGUF_PAIRS_Q, KRN_GGUF_PAIRS_K };

/* Where a tensor of the file goes. */
struct krn_gguf_place {
    char name[KRN_GGUF_PLACE_NAME]; /* of the model; of expert 0 where there are several */
    enum krn_gguf_pairs pairs;
    bool one_more;    /* the file holds 1 + w */
    uint32_t experts; /* so many matrices, one an expert, in a tensor of three dimensions; or 0 */
    uint32_t layer;   /* of experts */
    const char *expert[2]; /* of experts: the name before and behind the expert's number */
};

/* False for a tensor that a model of this configuration does not have. */
bool krn_gguf_place(const struct krn_gguf_arch *a, const struct krn_config *c, const char *name,
                    struct krn_gguf_place *out);
/* Whether a tensor's name says that a layer, of a mixture's, has one MLP alone. */
bool krn_gguf_dense_layer(const char *name, uint32_t layers, uint32_t *layer);
/* The name of expert e. */
void krn_gguf_expert_name(const struct krn_gguf_place *place, uint32_t e,
                          char out[KRN_GGUF_PLACE_NAME]);

#endif
