/* SPDX-License-Identifier: Apache-2.0
 * The kernels of cuda-bf16 as numerics.md 16 says what they leave, step16 in integers: the tensor
 * core's own files cannot be compiled for the host, so here a call is the whole launch, in loops
 * over the same packed operands. What the device's host side does with them is tested by it; the
 * kernels themselves are compared with the same functions on a GPU (test_step16, test_*_bf16).
 */
#ifndef TESTS_CUDA_EMULATED_BF16_H
#define TESTS_CUDA_EMULATED_BF16_H

#include "kernels/cuda/attend_bf16.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/product_blocks.h"
#include "kernels/cuda/rows_bf16.h"

void emulated_bf16_rows(const void *args);
void emulated_bf16_product(const void *args);
void emulated_bf16_narrow(const void *args);
void emulated_bf16_wide(const void *args);
void emulated_bf16_experts(const void *args);
void emulated_pack_blocks(const void *args);
void emulated_widen_blocks(const void *args);
void emulated_product_blocks(const void *args);

/* By their names in product_bf16.c and attend_bf16.c. */
#define EMULATED_PRODUCTS(M)                                                                       \
    M(krn_product_bf16)                                                                            \
    M(krn_product_bf16_few_8)                                                                      \
    M(krn_product_bf16_few_16)                                                                     \
    M(krn_product_bf16_few_32)                                                                     \
    M(krn_product_bf16_few_64)                                                                     \
    M(krn_product_bf16_stream_16)                                                                  \
    M(krn_product_bf16_stream_32)                                                                  \
    M(krn_product_bf16_stream_48)                                                                  \
    M(krn_product_bf16_stream_64)                                                                  \
    M(krn_product_bf16_stream_80)                                                                  \
    M(krn_product_bf16_stream_96)                                                                  \
    M(krn_product_bf16_stream_112)                                                                 \
    M(krn_product_bf16_many_64)                                                                    \
    M(krn_product_bf16_many_128)                                                                   \
    M(krn_product_bf16_many_192)                                                                   \
    M(krn_product_bf16_many_256)
#define EMULATED_BLOCKS_OF(M, type)                                                                \
    M(krn_product_##type##_8)                                                                      \
    M(krn_product_##type##_16)                                                                     \
    M(krn_product_##type##_32)                                                                     \
    M(krn_product_##type##_64)                                                                     \
    M(krn_product_##type##_8_halves)                                                               \
    M(krn_product_##type##_16_halves)
#define EMULATED_BLOCKS(M)                                                                         \
    EMULATED_BLOCKS_OF(M, q8_0)                                                                    \
    EMULATED_BLOCKS_OF(M, q4_0)                                                                    \
    EMULATED_BLOCKS_OF(M, q4_1)                                                                    \
    EMULATED_BLOCKS_OF(M, q5_0)                                                                    \
    EMULATED_BLOCKS_OF(M, q5_1)                                                                    \
    EMULATED_BLOCKS_OF(M, q4_k)                                                                    \
    EMULATED_BLOCKS_OF(M, q5_k)                                                                    \
    EMULATED_BLOCKS_OF(M, q6_k)                                                                    \
    EMULATED_BLOCKS_OF(M, iq4_nl)
#define EMULATED_ATTENTIONS(M)                                                                     \
    M(krn_attend_bf16_narrow_64, bf16_narrow)                                                      \
    M(krn_attend_bf16_narrow_128, bf16_narrow)                                                     \
    M(krn_attend_bf16_narrow_256, bf16_narrow)                                                     \
    M(krn_attend_bf16_narrow90_64, bf16_narrow)                                                    \
    M(krn_attend_bf16_narrow90_128, bf16_narrow)                                                   \
    M(krn_attend_bf16_narrow90_256, bf16_narrow)                                                   \
    M(krn_attend_bf16_wide_64, bf16_wide)                                                          \
    M(krn_attend_bf16_wide_128, bf16_wide)                                                         \
    M(krn_attend_bf16_wide90_64, bf16_wide)                                                        \
    M(krn_attend_bf16_wide90_128, bf16_wide)

#endif
