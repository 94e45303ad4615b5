/* SPDX-License-Identifier: Apache-2.0
 * The shape of the draws' launch: a block a draw.
 */
#include "kernels/cuda/draw.h"

void krn_cuda_draw_call(const struct krn_cuda_draw *args, uint32_t draws,
                        struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_draw",
                                   .grid = {draws, 1, 1},
                                   .block = {512, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
