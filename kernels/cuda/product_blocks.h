/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 whose weights stay in the blocks of their file (block_unit.h): the sums of
 * product_bf16.h over bf16(the exact value of numerics.md 12), bit for bit; only where the widening
 * happens differs. Up to KRN_BLOCKS_ROWS rows a kernel makes the values in registers as it streams
 * the units; for more, widening puts bf16 tiles into memory, which the kernels of product_bf16.h
 * read.
 */
#ifndef KERNELS_CUDA_PRODUCT_BLOCKS_H
#define KERNELS_CUDA_PRODUCT_BLOCKS_H

#include "kernels/cuda/block_pack.h"
#include "kernels/cuda/product_bf16.h"

enum { KRN_BLOCKS_ROWS = 64 };

struct krn_cuda_product_blocks {
    struct krn_cuda_product_bf16 p; /* w: units; what its shape function sets is not used */
    uint32_t type, unit_bytes;
    uint32_t units, warps; /* the rest is set by the shape function: of a block, at a time */
    uint32_t parts, stages;
    uint32_t span; /* blocks of 64 columns a stage */
    uint32_t reserved;
};

/* Rows of units [unit0, unit0 + units) as the bf16 tiles of a matrix of its own. */
struct krn_cuda_widen_blocks {
    krn_cuda_ptr_t w, out;
    uint32_t type, units, blocks; /* blocks: of 64 columns */
    uint32_t reserved;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the launch and the cut of args. 0 where it cannot run: too many rows, or no Hopper. */
int krn_cuda_product_blocks_call(struct krn_cuda_product_blocks *args,
                                 const struct krn_cuda_machine *m, struct krn_cuda_call *call);

/* A multiple of four rows of units are whole tiles; the last tile's other rows become zeros. */
void krn_cuda_widen_blocks_call(const struct krn_cuda_widen_blocks *args,
                                struct krn_cuda_call *call);

#ifdef __cplusplus
}
#endif

#endif
