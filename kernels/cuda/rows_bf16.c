/* SPDX-License-Identifier: Apache-2.0
 * The shape of a packing launch: a thread a chunk of eight columns.
 */
#include "kernels/cuda/rows_bf16.h"

enum { ROWS_THREADS = 128 };

void krn_cuda_rows_bf16_call(const struct krn_cuda_rows_bf16 *args, struct krn_cuda_call *call) {
    uint32_t chunks = krn_bf16_blocks(args->k, args->segments) * (KRN_BF16_SIDE / 8);
    uint32_t rows = args->rows > args->out_rows ? args->rows : args->out_rows;
    *call = (struct krn_cuda_call){
        .kernel = "krn_rows_bf16",
        .grid = {(chunks + ROWS_THREADS - 1) / ROWS_THREADS, rows < 32768 ? rows : 32768, 1},
        .block = {ROWS_THREADS, 1, 1},
        .args = args,
        .args_bytes = sizeof *args};
}
