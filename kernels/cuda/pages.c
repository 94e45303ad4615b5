/* SPDX-License-Identifier: Apache-2.0
 * The shapes of these launches: a block a row and four heads; a block a copied page and head.
 */
#include "kernels/cuda/pages.h"

void krn_cuda_rope_call(const struct krn_cuda_rope *args, uint32_t rows,
                        struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_rope",
                                   .grid = {rows, (args->heads + args->kv.kv_heads + 3) / 4, 1},
                                   .block = {128, 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_copy_call(const struct krn_cuda_copy *args, uint32_t copies,
                        struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_copy",
                                   .grid = {copies, args->heads, 1},
                                   .block = {256, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
