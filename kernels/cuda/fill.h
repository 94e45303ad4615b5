/* SPDX-License-Identifier: Apache-2.0
 * Seeded random rows of a matrix (kernels/fill.h), made on the device.
 */
#ifndef KERNELS_CUDA_FILL_H
#define KERNELS_CUDA_FILL_H

#include "kernels/cuda/call.h"

struct krn_cuda_fill {
    krn_cuda_ptr_t out; /* [rows][k] or, blocked, [blocks of 16 rows][k][16] with zeros behind */
    uint64_t stream;
    uint64_t first; /* index of the first element */
    float offset, reach;
    uint32_t rows, k, ld; /* ld: elements from one row of the matrix to the next */
    uint32_t dtype;       /* KRN_F32 or KRN_BF16 */
    uint32_t blocked, reserved;
};

#ifdef __cplusplus
extern "C"
#endif
    void
    krn_cuda_fill_call(const struct krn_cuda_fill *args, struct krn_cuda_call *call);

#endif
