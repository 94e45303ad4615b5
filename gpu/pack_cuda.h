/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's packing: pack_cuda.c (the walk, everything but tensor cores) and
 * pack_bf16_cuda.c (products and attention of the profile cuda-bf16).
 */
#ifndef GPU_PACK_CUDA_H
#define GPU_PACK_CUDA_H

#include "gpu/cuda.h"

/* Walks the op list twice with the same steps: first to count bytes (base 0), then to carry. */
struct gpu_cuda_packer {
    struct cuda *c;
    gpu_cu_ptr_t base;
    uint64_t at;
    enum status status;
    struct status_note *note;
    const struct krn_tensor *table; /* of the embedding */
    gpu_cu_ptr_t table_at;
    gpu_cu_ptr_t q_norm, k_norm; /* of the heads of the layer at hand */
    float head_eps;
    bool packed[KRN_BUFS]; /* bf16: the buffer's packed rows are what stands in it */
};

/* Products that become one: their ops, and this rank's part of each. */
struct gpu_cuda_group {
    const struct krn_op *op;
    uint32_t n_ops;
    struct gpu_shard part[3];
    bool gates;      /* gate and up: eight rows of one, then the same eight of the other */
    uint32_t blocks; /* the type whose blocks stay; 0: bf16 tiles */
};

/* The next part of the weights. */
gpu_cu_ptr_t gpu_cuda_take(struct gpu_cuda_packer *p, uint64_t bytes);
/* Carries staged bytes to the device and waits, so that the staging memory is free again. */
void gpu_cuda_carry(struct gpu_cuda_packer *p, gpu_cu_ptr_t to, uint64_t bytes);
/* Elements [first, first + n) of a vector as floats, plus one where the family's norms ask for it;
 * 0 for no tensor. */
gpu_cu_ptr_t gpu_cuda_pack_vector(struct gpu_cuda_packer *p, const struct krn_tensor *t,
                                  uint32_t first, uint32_t n, bool one_more);

/* Rows [row0, row0 + n) and columns [col0, col0 + k) of a tensor without bytes, made in place:
 * row-major, or in blocks of 16 rows. */
void gpu_cuda_fill(struct gpu_cuda_packer *p, const struct krn_tensor *t, uint64_t row0, uint32_t n,
                   uint32_t col0, uint32_t k, bool blocked, gpu_cu_ptr_t out);

/* What a weight is packed as here: blocked formats become their exact f32 values. */
enum krn_dtype gpu_cuda_packed_type(const struct krn_tensor *t);
/* Rows [row0, row0 + n) and columns [col0, col0 + k) as blocks [block][k][16]. */
gpu_cu_ptr_t gpu_cuda_pack_matrix(struct gpu_cuda_packer *p, const struct krn_tensor *t,
                                  uint32_t row0, uint32_t n, uint32_t col0, uint32_t k);
/* What follows the ranks' reduction of op's partial sums. */
struct krn_cuda_sum gpu_cuda_sum_of(const struct cuda *c, const struct krn_op *op,
                                    gpu_cu_ptr_t bias);

/* pack_bf16_cuda.c */
uint64_t gpu_cuda_place_bf16(struct cuda *c, gpu_cu_ptr_t base, uint64_t at);
/* One product, or several of one input with their weights side by side: queries, keys and values;
 * gate and up with the gate at their end. left: ops from op on. Returns how many ops it took. */
uint32_t gpu_cuda_product_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                               struct cuda_stage *s);
/* Where a norm leaves packed rows for the products behind it; 0: somebody reads fp32. */
gpu_cu_ptr_t gpu_cuda_norm_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left);
/* This rank's part of a matrix as tiles; the same distance between any two of one shape. */
gpu_cu_ptr_t gpu_cuda_pack_tiles(struct gpu_cuda_packer *p, const struct krn_op *op,
                                 const struct gpu_shard *part);
/* next: the ops behind it, up to the product that reads what it writes. */
void gpu_cuda_attend_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                          struct cuda_stage *s);

#endif
