/* SPDX-License-Identifier: Apache-2.0
 * The second opinion on cuda-bf16 (numerics.md 16): from plain row-major matrices, one warp a few
 * elements, operands on other sides than the kernels that serve, nothing shared, nothing fast. The
 * self-test of a device and the kernel tests compare with it bit for bit.
 */
#ifndef KERNELS_CUDA_ORACLE_BF16_H
#define KERNELS_CUDA_ORACLE_BF16_H

#include "kernels/cuda/call.h"

struct krn_cuda_oracle_product {
    krn_cuda_ptr_t x; /* fp32 [rows][k] */
    krn_cuda_ptr_t w; /* bf16 [n][k] */
    krn_cuda_ptr_t y; /* fp32 [rows][n]: the tree's sum alone */
    uint32_t rows, n, k, segments;
};

/* Keys and values of one sequence, row-major; query head h reads KV head h / (heads / kv_heads). */
struct krn_cuda_oracle_attend {
    krn_cuda_ptr_t q;    /* fp32 [rows][heads][head_dim] */
    krn_cuda_ptr_t k, v; /* bf16 [keys][kv_heads][head_dim] */
    krn_cuda_ptr_t out;  /* fp32 [rows][heads][head_dim] */
    uint32_t rows, first_pos, heads, kv_heads, head_dim, window, segment;
    float scale;
};

#ifdef __cplusplus
extern "C" {
#endif
void krn_cuda_oracle_product_call(const struct krn_cuda_oracle_product *args,
                                  struct krn_cuda_call *call);
void krn_cuda_oracle_attend_call(const struct krn_cuda_oracle_attend *args,
                                 struct krn_cuda_call *call);
#ifdef __cplusplus
}
#endif

#endif
