/* SPDX-License-Identifier: Apache-2.0
 * How fast the matrix units are: bf16 multiplications of operands that lie in shared memory, and
 * nothing else. For floors of benchmarks; Hopper only (rate_sm90a.cu).
 */
#ifndef KERNELS_CUDA_RATE_H
#define KERNELS_CUDA_RATE_H

#include "kernels/cuda/call.h"

enum {
    KRN_RATE_GROUPS = 2, /* warpgroups of a block */
    KRN_RATE_OUTPUTS = 256,
    /* Multiply-adds of a block a turn: 64 rows by these outputs by 64, each group. */
    KRN_RATE_TURN = KRN_RATE_GROUPS * 64 * KRN_RATE_OUTPUTS * 64
};

struct krn_cuda_rate {
    krn_cuda_ptr_t out; /* fp32, one a thread */
    uint32_t turns, blocks;
};

#ifdef __cplusplus
extern "C"
#endif
    void
    krn_cuda_rate_call(const struct krn_cuda_rate *args, struct krn_cuda_call *call);

#endif
