/* SPDX-License-Identifier: Apache-2.0
 * The shape of the launch: a block a multiprocessor.
 */
#include "kernels/cuda/rate.h"

enum { TILE_BYTES = 64 * 128 };

void krn_cuda_rate_call(const struct krn_cuda_rate *args, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_rate",
                                   .grid = {args->blocks, 1, 1},
                                   .block = {128 * KRN_RATE_GROUPS, 1, 1},
                                   .shared = 1024 +
                                             (KRN_RATE_GROUPS + KRN_RATE_OUTPUTS / 64) * TILE_BYTES,
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
