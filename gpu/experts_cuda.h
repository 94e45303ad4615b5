/* SPDX-License-Identifier: Apache-2.0
 * Mixtures of experts on the CUDA device; private to its files.
 */
#ifndef GPU_EXPERTS_CUDA_H
#define GPU_EXPERTS_CUDA_H

#include "gpu/pack_cuda.h"

/* Lays out what a chunk of rows needs, for models with experts; returns the next free byte. */
uint64_t gpu_cuda_place_experts(struct cuda *c, gpu_cu_ptr_t base, uint64_t at);
/* This rank's part of every expert; their matrices lie at even distances. */
void gpu_cuda_cut_experts(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s);
/* The launches, chunk by chunk; with several ranks what follows is the reduction. */
enum status gpu_cuda_run_experts(struct cuda *c, const struct cuda_stage *s, uint32_t rows,
                                 struct status_note *note);

#endif
