/* SPDX-License-Identifier: Apache-2.0
 * How many 32-bit words of two buffers on the device differ, and where first: bits are compared
 * where they lie. The result is a count and a minimum, so the order of threads cannot move it.
 */
#ifndef KERNELS_CUDA_COMPARE_H
#define KERNELS_CUDA_COMPARE_H

#include "kernels/cuda/call.h"

struct krn_cuda_compared {
    uint64_t differ; /* words; added to what is there: begin with 0 */
    uint64_t first;  /* index of the first; begin with UINT64_MAX */
};

struct krn_cuda_compare {
    krn_cuda_ptr_t a, b; /* words each, 4-byte aligned */
    krn_cuda_ptr_t out;  /* struct krn_cuda_compared */
    uint64_t words;
};

#ifndef __CUDACC__
void krn_cuda_compare_call(const struct krn_cuda_compare *args, struct krn_cuda_call *call);
#endif

#endif
