/* SPDX-License-Identifier: Apache-2.0
 * The shape of a norm's launch: a block a row, or as many as the largest GPU has at one time.
 */
#include "kernels/cuda/norm.h"

enum { NORM_BLOCKS_MAX = 264 };

void krn_cuda_norm_call(const struct krn_cuda_norm *args, uint32_t rows,
                        struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_norm",
                                   .grid = {rows < NORM_BLOCKS_MAX ? rows : NORM_BLOCKS_MAX, 1, 1},
                                   .block = {512, 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
