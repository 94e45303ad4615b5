/* SPDX-License-Identifier: Apache-2.0
 * A family turns a model into an op list: what one forward pass over rows computes, in order, with
 * the weight of each op and its shard rule. Devices and the oracle execute the list; they know no
 * family.
 */
#ifndef KERNELS_FAMILIES_FAMILY_H
#define KERNELS_FAMILIES_FAMILY_H

#include "kernels/model.h"

/* Row buffers of a forward pass. Widths are in floats a row and belong to one rank's share. */
enum krn_buf {
    KRN_BUF_NONE,
    KRN_BUF_X, /* residual stream, hidden wide, whole on every rank */
    KRN_BUF_H, /* normed input of a product, hidden wide, whole on every rank */
    KRN_BUF_Q, /* queries, then attention output in KRN_BUF_A */
    KRN_BUF_K,
    KRN_BUF_V,
    KRN_BUF_A, /* attention output, heads*head_dim of the rank */
    KRN_BUF_G, /* gate, then gate*up */
    KRN_BUF_U, /* up */
    KRN_BUF_R, /* router's logits, one an expert, whole on every rank */
    KRN_BUF_L, /* logits of the drawn rows */
    KRN_BUFS
};

enum krn_op_kind {
    KRN_OP_EMBED,     /* dst = w[token] * scale */
    KRN_OP_NORM,      /* dst = rmsnorm(src) * w; add: dst += it */
    KRN_OP_PRODUCT,   /* dst = src . w^T + bias; split and add say how */
    KRN_OP_HEAD_NORM, /* each head of dst (Q or K) = rmsnorm(head) * w, just before ROPE_KV */
    KRN_OP_ROPE_KV,   /* rotate Q and K in place, then write K and V rows to their pages */
    KRN_OP_ATTEND,    /* A = attention(Q, pages) */
    KRN_OP_GATE,      /* G = silu(G) * U, or gelu */
    KRN_OP_EXPERTS,   /* X += the experts of src that R chooses, weighted (numerics.md 13) */
    KRN_OP_FINAL,     /* H = norm(X) of the drawn rows only, compacted; finite check of every row */
    KRN_OP_KINDS
};

enum krn_split {
    KRN_SPLIT_NONE,     /* every rank computes all of it */
    KRN_SPLIT_HEADS,    /* column split: outputs by query head */
    KRN_SPLIT_KV_HEADS, /* column split: outputs by KV head (copied when V > kv_heads) */
    KRN_SPLIT_COLUMNS,  /* column split: outputs in V equal parts */
    KRN_SPLIT_VOCAB,    /* column split in whole blocks; ranks gather the logits */
    KRN_SPLIT_ROWS      /* row split: K in V segments, added in the tree */
};

/* An expert's matrices: [ffn][hidden], [ffn][hidden], [hidden][ffn]. Gate and up are cut by
 * columns, down by rows. */
struct krn_expert {
    const struct krn_tensor *gate, *up, *down;
};

struct krn_op {
    enum krn_op_kind kind;
    enum krn_buf src, dst;
    const struct krn_tensor *w, *bias; /* bias may be NULL */
    uint32_t layer;
    uint32_t n, k; /* PRODUCT: outputs and inputs of the whole model */
    enum krn_split split;
    bool add; /* PRODUCT, NORM: dst += result (the residual); else dst = result */
    float eps;
    float scale;     /* EMBED: of the row, 1 leaves it alone; ATTEND: of the scores */
    uint32_t window; /* ATTEND: keys that a row sees, itself included; 0: all */
    bool one_more;   /* NORM, HEAD_NORM, FINAL: the factor is 1 + w */
    bool local_rope; /* ROPE_KV: by the angles of windowed layers */
    bool gelu;       /* GATE: G = gelu(G) * U by its tanh form */
    const struct krn_expert *experts; /* EXPERTS: n_experts of them; n: ffn, k: hidden */
    uint32_t n_experts, used;
    bool norm_used; /* EXPERTS: the weights of a row's experts sum to 1 */
};

struct krn_net {
    const struct krn_model *model; /* must outlive the net */
    uint32_t n_ops;
    const struct krn_op *ops;
    const struct krn_expert *experts; /* of all layers, or NULL */
};

/* What a weight is for: which values a synthetic one gets, and nothing else. */
enum krn_role {
    KRN_ROLE_EMBED,
    KRN_ROLE_NORM,
    KRN_ROLE_NORM_MORE, /* of a norm by 1 + w */
    KRN_ROLE_IN,        /* a product from the residual stream */
    KRN_ROLE_OUT,       /* a product added to the residual stream */
    KRN_ROLE_HEAD,
    KRN_ROLE_BIAS
};

/* A weight that a model of some configuration must hold. */
struct krn_weight {
    char name[80];
    enum krn_role role;
    uint32_t n_dims; /* 1 or 2 */
    uint64_t dims[2];
};

struct krn_family {
    const char *name;
    const char *const *architectures; /* NULL-terminated names of config.json */
    bool mixture;                     /* its layers have experts, those of no other have */
    enum status (*build)(const struct krn_model *model, struct krn_net *out,
                         struct status_note *note);
    /* The index-th weight of a model of this configuration; false past the last. */
    bool (*weight)(const struct krn_config *config, uint32_t index, struct krn_weight *out);
};

extern const struct krn_family krn_family_llama, krn_family_qwen2, krn_family_qwen3,
    krn_family_mistral, krn_family_gemma3, krn_family_qwen3_moe, krn_family_mixtral;

/* Finds the model's family and builds its op list, checking every weight's presence and shape by
 * name. */
enum status krn_net_build(const struct krn_model *model, struct krn_net *out,
                          struct status_note *note);
void krn_net_free(struct krn_net *net);

#endif
