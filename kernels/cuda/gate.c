/* SPDX-License-Identifier: Apache-2.0
 * The shape of a gate's launch: up to 1,024 elements of a row a block.
 */
#include "kernels/cuda/gate.h"

enum { GATE_THREADS = 256, GATE_A_THREAD = 4 };

void krn_cuda_gate_call(const struct krn_cuda_gate *args, uint32_t rows,
                        struct krn_cuda_call *call) {
    uint32_t a_block = GATE_THREADS * GATE_A_THREAD;
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_gate",
                                   .grid = {rows, (args->n + a_block - 1) / a_block, 1},
                                   .block = {GATE_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
