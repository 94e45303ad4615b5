/* SPDX-License-Identifier: Apache-2.0
 * The shape of a product's launch. A warp holds 64 outputs, two a thread, of up to 16 rows; the
 * warps of a block hold the segments of K or, of one segment, neighbouring outputs.
 */
#include "kernels/cuda/product.h"

#include "actors/check.h"

enum { PRODUCT_OUTPUTS = 64, PRODUCT_WARPS = 4, PRODUCT_ROWS = 16 };

#define KERNELS(dtype)                                                                             \
    {                                                                                              \
        "krn_cuda_product_" dtype "_1", "krn_cuda_product_" dtype "_2",                            \
            "krn_cuda_product_" dtype "_4", "krn_cuda_product_" dtype "_8",                        \
            "krn_cuda_product_" dtype "_16"                                                        \
    }
static const char *const kernels[KRN_DTYPES][5] = {
    [KRN_F32] = KERNELS("f32"), [KRN_F16] = KERNELS("f16"), [KRN_BF16] = KERNELS("bf16")};

void krn_cuda_product_call(const struct krn_cuda_product *args, struct krn_cuda_call *call) {
    CHECK(args->dtype < KRN_DTYPES && args->segments <= KRN_V_MAX);
    uint32_t tile = 0;
    while (1u << tile < args->rows && 1u << tile < PRODUCT_ROWS)
        tile++;
    uint32_t groups = (args->n + PRODUCT_OUTPUTS - 1) / PRODUCT_OUTPUTS;
    uint32_t warps = args->segments > 1 ? args->segments : PRODUCT_WARPS;
    if (args->segments == 1)
        groups = (groups + PRODUCT_WARPS - 1) / PRODUCT_WARPS;
    *call = (struct krn_cuda_call){.kernel = kernels[args->dtype][tile],
                                   .grid = {groups, (args->rows + (1u << tile) - 1) >> tile, 1},
                                   .block = {32, warps, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
