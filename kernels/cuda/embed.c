/* SPDX-License-Identifier: Apache-2.0
 * The shape of an embedding's launch: blocks of 1,024 columns of a row.
 */
#include "kernels/cuda/embed.h"

void krn_cuda_embed_call(const struct krn_cuda_embed *args, uint32_t rows,
                         struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_embed",
                                   .grid = {rows, (args->k + 1023) / 1024, 1},
                                   .block = {128, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}
