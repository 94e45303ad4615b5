/* SPDX-License-Identifier: Apache-2.0
 * Products of the profile cuda-bf16 (numerics.md 16.3): y (+)= x * w^T, one result whatever the row
 * count and whichever kernel computes it. Four kernels, chosen by the machine and the shape:
 *
 *     few      up to 64 rows, Hopper: mma.sync, a warp streams the weights of 16 outputs
 *     stream   up to 256 rows, Hopper: wgmma, a block streams the weights of its outputs
 *     many     any rows, Hopper: wgmma, 128 outputs by 64 to 256 rows a block
 *     generic  any rows, sm_80 and later: mma.sync, 64 outputs by 64 rows a block
 *
 * Operands lie in tiles (bf16_tile.h). A gated product holds gate and up side by side: sixteen
 * packed rows are eight outputs' gates, then the same eight outputs' ups.
 */
#ifndef KERNELS_CUDA_PRODUCT_BF16_H
#define KERNELS_CUDA_PRODUCT_BF16_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/call.h"

enum {
    KRN_BF16_ADD = 1,       /* y = y + the sum */
    KRN_BF16_GATE = 2,      /* n = 2 * outputs: silu(g) * u */
    KRN_BF16_GATE_GELU = 4, /* with GATE: gelu's tanh form in place of silu */
    KRN_BF16_ROWS_FEW = 64,
    KRN_BF16_ROWS_STREAM = 256
};

struct krn_cuda_product_bf16 {
    krn_cuda_ptr_t x;      /* packed rows, room for whole tiles of 64 rows */
    krn_cuda_ptr_t w;      /* packed weights, n rows */
    krn_cuda_ptr_t bias;   /* fp32, in the order of w's rows; 0: none */
    krn_cuda_ptr_t y;      /* fp32 [rows][ldy]; 0: none */
    krn_cuda_ptr_t packed; /* the outputs as packed rows of the next product; 0: none */
    krn_cuda_ptr_t work;   /* krn_cuda_product_bf16_work bytes; used where segments > 1 */
    uint32_t rows, n, ldy;
    uint32_t k_blocks, segments; /* of x and w; k_blocks is a multiple of segments */
    uint32_t packed_segment;     /* packed: K of the next product a segment, and its blocks */
    uint32_t packed_blocks;
    uint32_t flags;                /* KRN_BF16_* */
    uint32_t units, warps, stages; /* set by the shape function */
    uint32_t row_tiles, n_tiles;   /* many: set by the shape function */
    uint32_t parts, reserved;      /* few: set by the shape function */
};

/* What a shape function must know of the device. */
struct krn_cuda_machine {
    uint32_t sms;          /* multiprocessors */
    uint32_t major, minor; /* compute capability */
    uint32_t shared_max;   /* dynamic shared bytes that a block may ask for */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of workspace that any product on this machine needs. */
uint64_t krn_cuda_product_bf16_work(const struct krn_cuda_machine *m);

/* The kernels, for tests; AUTO takes the best that runs. */
enum krn_cuda_product_path {
    KRN_BF16_AUTO,
    KRN_BF16_GENERIC,
    KRN_BF16_FEW,
    KRN_BF16_STREAM,
    KRN_BF16_MANY_64,
    KRN_BF16_MANY_128,
    KRN_BF16_MANY_192,
    KRN_BF16_MANY_256,
    KRN_BF16_PATHS
};

/* Fills the launch and the cut of args. 1, or 0 when the path cannot run there (AUTO always can
 * from sm_80 on). */
int krn_cuda_product_bf16_call(struct krn_cuda_product_bf16 *args, const struct krn_cuda_machine *m,
                               enum krn_cuda_product_path path, struct krn_cuda_call *call);

#ifdef __cplusplus
}
#endif

#endif
