/* SPDX-License-Identifier: Apache-2.0
 * The shapes of these launches: a block a row; a block a seq.
 */
#include "kernels/cuda/final.h"

void krn_cuda_finite_call(const struct krn_cuda_finite *args, uint32_t rows,
                          struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_finite",
                                   .grid = {rows, 1, 1},
                                   .block = {128, 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_finish_call(const struct krn_cuda_finish *args, uint32_t seqs,
                          struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_finish",
                                   .grid = {seqs, 1, 1},
                                   .block = {64, 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
