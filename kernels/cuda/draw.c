/* SPDX-License-Identifier: Apache-2.0
 * The shapes of the draws' launches: some blocks a draw, then one.
 */
#include "kernels/cuda/draw.h"

void krn_cuda_draw_calls(const struct krn_cuda_draw *args, uint32_t draws,
                         struct krn_cuda_call calls[2]) {
    calls[0] = (struct krn_cuda_call){.kernel = "krn_cuda_draw_first",
                                      .grid = {draws, KRN_CUDA_DRAW_PARTS, 1},
                                      .block = {512, 1, 1},
                                      .flags = KRN_CUDA_OVERLAP,
                                      .args = args,
                                      .args_bytes = sizeof *args};
    calls[1] = calls[0];
    calls[1].kernel = "krn_cuda_draw";
    calls[1].grid[1] = 1;
}
