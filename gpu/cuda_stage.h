/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's files: the op list as launches, and the shapes that launches have.
 */
#ifndef GPU_CUDA_STAGE_H
#define GPU_CUDA_STAGE_H

#include "kernels/cuda/attend.h"
#include "kernels/cuda/attend_bf16.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/final.h"
#include "kernels/cuda/gate.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/pages.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/product_bf16.h"
#include "kernels/cuda/rows_bf16.h"
#include "kernels/cuda/sum.h"

/* One launch or a few, with arguments that no plan changes but for the shape. */
enum cuda_stage_kind {
    CUDA_EMBED,
    CUDA_NORM,
    CUDA_PRODUCT,
    CUDA_ROPE,
    CUDA_ATTEND,
    CUDA_GATE,
    CUDA_EXPERTS,
    CUDA_FINAL,
    CUDA_LOGITS,
    CUDA_PRODUCT_BF16, /* numerics.md 16 */
    CUDA_ATTEND_BF16,
    CUDA_LOGITS_BF16
};

/* The launches of a mixture (experts_cuda.c), without what a chunk of rows sets. */
struct cuda_experts {
    uint32_t n; /* experts */
    struct krn_cuda_route route;
    struct krn_cuda_place place;
    struct krn_cuda_experts inner, down; /* gate, up and the gate; down */
    struct krn_cuda_mix mix;
    /* cuda-bf16, in place of inner and down: */
    bool bf16;
    struct krn_cuda_experts_rows rows, rows_down;
    struct krn_cuda_experts_bf16 gate, up, out;
};

/* Memory of mixtures, of one chunk of rows but for chosen and weight. */
struct cuda_mixture {
    uint64_t chosen, weight, slot_row, slot_of, tiles, n_tiles, inner, one;
    uint64_t up, packed, packed_inner; /* cuda-bf16 */
    uint32_t rows, ld_inner, ld_one;   /* of a chunk at most */
};

/* Blocked weights (blocks_cuda.h). */
struct cuda_blocks {
    uint64_t widened; /* device memory: a matrix of blocks, or a part of one, as bf16 tiles */
    uint64_t bytes, most;
    uint32_t rows; /* more rows are multiplied by it */
};

struct cuda_stage {
    enum cuda_stage_kind kind;
    union {
        struct krn_cuda_embed embed;
        struct krn_cuda_norm norm; /* FINAL: of the drawn rows */
        struct krn_cuda_product product;
        struct krn_cuda_rope rope;
        struct krn_cuda_attend attend;
        struct krn_cuda_gate gate;
        struct cuda_experts experts;
        struct krn_cuda_product_bf16 product_bf16;
        struct krn_cuda_attend_bf16 attend_bf16;
    } a;
    uint32_t blocks;                /* PRODUCT_BF16: the type of w's units; 0: w is tiles */
    bool packs;                     /* PRODUCT_BF16: its rows are packed first */
    struct krn_cuda_rows_bf16 rows; /* how; also of LOGITS_BF16 */
    bool reduce;             /* PRODUCT, EXPERTS: into the partial sums, which `sum` closes */
    struct krn_cuda_sum sum; /* of a reduced product */
};

/* Rows, draws and seqs that a sequence of launches has room for: few values of each, so that few
 * graphs serve all plans. */
struct cuda_shape {
    uint32_t rows, draws, seqs;
};

#endif
