/* SPDX-License-Identifier: Apache-2.0
 * Blocked weights on the CUDA device (numerics.md 12, 16.3), private to its files: they stay as
 * they are stored, put into units (kernels/cuda/block_unit.h) on the device, and become bf16 in the
 * kernels that stream them, or, for many rows, part by part in memory that the products of bf16
 * tiles read.
 */
#ifndef GPU_BLOCKS_CUDA_H
#define GPU_BLOCKS_CUDA_H

#include "gpu/pack_cuda.h"

enum { CUDA_WIDENED = 256 << 20 /* bytes of bf16 tiles at one time, where products can be cut */ };

/* The type of a part whose blocks stay as they are stored, else 0: by --weights wide, of all. */
uint32_t gpu_cuda_blocks(const struct cuda *c, const struct krn_op *op,
                         const struct gpu_shard *part);
/* Once weights are counted: what the device does with blocks, or that it cannot do what was asked.
 */
enum status gpu_cuda_weights_settle(struct cuda *c, struct status_note *note);
/* The weights of a group in units. */
gpu_cu_ptr_t gpu_cuda_pack_units(struct gpu_cuda_packer *p, const struct gpu_cuda_group *g);
/* Room for what a stage widens at a time. */
void gpu_cuda_widen_room(struct cuda *c, const struct cuda_stage *s);
/* The product of a stage whose weights are in blocks, over a->rows rows. */
enum status gpu_cuda_product_blocks(struct cuda *c, const struct cuda_stage *s,
                                    const struct krn_cuda_product_bf16 *a,
                                    struct status_note *note);

#endif
