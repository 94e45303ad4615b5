/* SPDX-License-Identifier: Apache-2.0
 * The shape of attention's launch: a block a row and up to eight query heads of one KV head.
 */
#include "kernels/cuda/attend.h"

enum { ATTEND_LINES = 8 };

void krn_cuda_attend_call(const struct krn_cuda_attend *args, uint32_t rows,
                          struct krn_cuda_call *call) {
    uint32_t group = args->heads / args->kv.kv_heads;
    *call = (struct krn_cuda_call){
        .kernel = "krn_cuda_attend",
        .grid = {rows, args->kv.kv_heads, (group + ATTEND_LINES - 1) / ATTEND_LINES},
        .block = {128, 1, 1},
        .args = args,
        .args_bytes = sizeof *args};
}
