/* SPDX-License-Identifier: Apache-2.0
 * The kernels that the host can run, and their table.
 */
#include "tests/cuda/emulated.h"

#include "kernels/cuda/attend.cu"
#include "kernels/cuda/compare.cu"
#include "kernels/cuda/draw.cu"
#include "kernels/cuda/embed.cu"
#include "kernels/cuda/experts.cu"
#include "kernels/cuda/fill.cu"
#include "kernels/cuda/final.cu"
#include "kernels/cuda/gate.cu"
#include "kernels/cuda/norm.cu"
#include "kernels/cuda/pages.cu"
#include "kernels/cuda/product.cu"
#include "kernels/cuda/sum.cu"
#include "tests/cuda/emulated_bf16.h"

/* EMULATED(kernel, its argument struct) */
#define EMULATED_ALL(M)                                                                            \
    M(krn_cuda_route, krn_cuda_route)                                                              \
    M(krn_cuda_place, krn_cuda_place)                                                              \
    M(krn_cuda_mix, krn_cuda_mix)                                                                  \
    M(krn_cuda_experts_f32_1, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f32_2, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f32_4, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f32_8, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f32_16, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_f16_1, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f16_2, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f16_4, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f16_8, krn_cuda_experts)                                                    \
    M(krn_cuda_experts_f16_16, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_bf16_1, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_bf16_2, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_bf16_4, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_bf16_8, krn_cuda_experts)                                                   \
    M(krn_cuda_experts_bf16_16, krn_cuda_experts)                                                  \
    M(krn_cuda_experts_rows, krn_cuda_experts_rows)                                                \
    M(krn_cuda_compare, krn_cuda_compare)                                                          \
    M(krn_cuda_embed, krn_cuda_embed)                                                              \
    M(krn_cuda_fill, krn_cuda_fill)                                                                \
    M(krn_cuda_norm, krn_cuda_norm)                                                                \
    M(krn_cuda_rope, krn_cuda_rope)                                                                \
    M(krn_cuda_copy, krn_cuda_copy)                                                                \
    M(krn_cuda_attend, krn_cuda_attend)                                                            \
    M(krn_cuda_sum, krn_cuda_sum)                                                                  \
    M(krn_cuda_tree, krn_cuda_tree)                                                                \
    M(krn_cuda_beside, krn_cuda_beside)                                                            \
    M(krn_cuda_gate, krn_cuda_gate)                                                                \
    M(krn_cuda_finite, krn_cuda_finite)                                                            \
    M(krn_cuda_finish, krn_cuda_finish)                                                            \
    M(krn_cuda_draw_first, krn_cuda_draw)                                                          \
    M(krn_cuda_draw, krn_cuda_draw)                                                                \
    M(krn_cuda_product_f32_1, krn_cuda_product)                                                    \
    M(krn_cuda_product_f32_2, krn_cuda_product)                                                    \
    M(krn_cuda_product_f32_4, krn_cuda_product)                                                    \
    M(krn_cuda_product_f32_8, krn_cuda_product)                                                    \
    M(krn_cuda_product_f32_16, krn_cuda_product)                                                   \
    M(krn_cuda_product_f16_1, krn_cuda_product)                                                    \
    M(krn_cuda_product_f16_2, krn_cuda_product)                                                    \
    M(krn_cuda_product_f16_4, krn_cuda_product)                                                    \
    M(krn_cuda_product_f16_8, krn_cuda_product)                                                    \
    M(krn_cuda_product_f16_16, krn_cuda_product)                                                   \
    M(krn_cuda_product_bf16_1, krn_cuda_product)                                                   \
    M(krn_cuda_product_bf16_2, krn_cuda_product)                                                   \
    M(krn_cuda_product_bf16_4, krn_cuda_product)                                                   \
    M(krn_cuda_product_bf16_8, krn_cuda_product)                                                   \
    M(krn_cuda_product_bf16_16, krn_cuda_product)

#define EMULATED_RUN(kernel, type)                                                                 \
    static void run_##kernel(const void *args) {                                                   \
        struct type a;                                                                             \
        memcpy(&a, args, sizeof a);                                                                \
        kernel(a);                                                                                 \
    }
EMULATED_ALL(EMULATED_RUN)

#define EMULATED_ENTRY(kernel, type) {#kernel, sizeof(struct type), run_##kernel, false},
#define EMULATED_PRODUCT(kernel)                                                                   \
    {#kernel, sizeof(struct krn_cuda_product_bf16), emulated_bf16_product, true},
#define EMULATED_BLOCK(kernel)                                                                     \
    {#kernel, sizeof(struct krn_cuda_product_blocks), emulated_product_blocks, true},
#define EMULATED_ATTENTION(kernel, which)                                                          \
    {#kernel, sizeof(struct krn_cuda_attend_bf16), emulated_##which, true},
const struct emulated emulated_kernels[] = {
    EMULATED_ALL(EMULATED_ENTRY) EMULATED_PRODUCTS(EMULATED_PRODUCT) EMULATED_BLOCKS(EMULATED_BLOCK)
        EMULATED_ATTENTIONS(EMULATED_ATTENTION){"krn_rows_bf16", sizeof(struct krn_cuda_rows_bf16),
                                                emulated_bf16_rows, true},
    {"krn_pack_blocks", sizeof(struct krn_cuda_pack_blocks), emulated_pack_blocks, true},
    {"krn_widen_blocks", sizeof(struct krn_cuda_widen_blocks), emulated_widen_blocks, true},
    {"krn_experts_bf16", sizeof(struct krn_cuda_experts_bf16), emulated_bf16_experts, true}};
const size_t emulated_kernels_n = sizeof emulated_kernels / sizeof emulated_kernels[0];
