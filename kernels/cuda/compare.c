/* SPDX-License-Identifier: Apache-2.0
 * The shape of a comparison's launch.
 */
#include "kernels/cuda/compare.h"

enum { COMPARE_THREADS = 256, COMPARE_BLOCKS_MAX = 1024, COMPARE_WORDS_A_THREAD = 8 };

void krn_cuda_compare_call(const struct krn_cuda_compare *args, struct krn_cuda_call *call) {
    uint64_t a_block = (uint64_t)COMPARE_THREADS * COMPARE_WORDS_A_THREAD;
    uint64_t blocks = (args->words + a_block - 1) / a_block;
    if (blocks == 0)
        blocks = 1;
    if (blocks > COMPARE_BLOCKS_MAX)
        blocks = COMPARE_BLOCKS_MAX;
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_compare",
                                   .grid = {(uint32_t)blocks, 1, 1},
                                   .block = {COMPARE_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
