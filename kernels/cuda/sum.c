/* SPDX-License-Identifier: Apache-2.0
 * The shape of this launch: a block a row.
 */
#include "kernels/cuda/sum.h"

void krn_cuda_sum_call(const struct krn_cuda_sum *args, uint32_t rows, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_sum",
                                   .grid = {rows, 1, 1},
                                   .block = {256, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
