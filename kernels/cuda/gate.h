/* SPDX-License-Identifier: Apache-2.0
 * The gate of rows (numerics.md 7).
 */
#ifndef KERNELS_CUDA_GATE_H
#define KERNELS_CUDA_GATE_H

#include "kernels/cuda/step.h"

struct krn_cuda_gate {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t g, u; /* f32, ld a row; g = silu(g) * u or gelu(g) * u */
    uint32_t n, ld;
    uint32_t gelu, reserved;
};

void krn_cuda_gate_call(const struct krn_cuda_gate *args, uint32_t rows,
                        struct krn_cuda_call *call);

#endif
