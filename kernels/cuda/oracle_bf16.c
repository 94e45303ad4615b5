/* SPDX-License-Identifier: Apache-2.0
 * Shapes of the oracle's launches: a warp a block.
 */
#include "kernels/cuda/oracle_bf16.h"

void krn_cuda_oracle_product_call(const struct krn_cuda_oracle_product *args,
                                  struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_oracle_product",
                                   .grid = {(args->n + 7) / 8, (args->rows + 15) / 16, 1},
                                   .block = {32, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_oracle_attend_call(const struct krn_cuda_oracle_attend *args,
                                 struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_oracle_attend",
                                   .grid = {args->heads, args->rows, 1},
                                   .block = {32, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
