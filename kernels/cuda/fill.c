/* SPDX-License-Identifier: Apache-2.0
 * The shape of a fill's launch: enough blocks for any machine, each thread in strides.
 */
#include "kernels/cuda/fill.h"

enum { FILL_THREADS = 256, FILL_BLOCKS_MAX = 2048 };

void krn_cuda_fill_call(const struct krn_cuda_fill *args, struct krn_cuda_call *call) {
    uint64_t rows = args->blocked ? ((uint64_t)args->rows + 15) / 16 * 16 : args->rows;
    uint64_t blocks = (rows * args->k + FILL_THREADS - 1) / FILL_THREADS;
    *call = (struct krn_cuda_call){
        .kernel = "krn_cuda_fill",
        .grid = {blocks < FILL_BLOCKS_MAX ? (uint32_t)blocks : FILL_BLOCKS_MAX, 1, 1},
        .block = {FILL_THREADS, 1, 1},
        .args = args,
        .args_bytes = sizeof *args};
}
