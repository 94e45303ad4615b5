/* SPDX-License-Identifier: Apache-2.0
 * The shapes of these launches: a block a row, or a block 2,048 floats.
 */
#include "kernels/cuda/sum.h"

void krn_cuda_sum_call(const struct krn_cuda_sum *args, uint32_t rows, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_sum",
                                   .grid = {rows, 1, 1},
                                   .block = {256, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

enum { TREE_THREADS = 256, TREE_EACH = 8 };

void krn_cuda_tree_call(const struct krn_cuda_tree *args, struct krn_cuda_call *call) {
    uint64_t blocks = (args->n + TREE_THREADS * TREE_EACH - 1) / (TREE_THREADS * TREE_EACH);
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_tree",
                                   .grid = {(uint32_t)blocks, 1, 1},
                                   .block = {TREE_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_beside_call(const struct krn_cuda_beside *args, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_beside",
                                   .grid = {args->rows, args->ranks, 1},
                                   .block = {TREE_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
