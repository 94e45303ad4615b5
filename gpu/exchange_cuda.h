/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's files: what ranks exchange through their devices (struct
 * gpu_exchange), on the compute stream, in launches that depend on a plan's shape alone.
 */
#ifndef GPU_EXCHANGE_CUDA_H
#define GPU_EXCHANGE_CUDA_H

#include "gpu/cuda.h"

/* Lays out partial sums, this rank's logits and what arrives behind base + at; the end. */
uint64_t gpu_cuda_exchange_place(struct cuda *c, gpu_cu_ptr_t base, uint64_t at, uint64_t rows,
                                 uint64_t logits);
/* The port's meet. */
enum status gpu_cuda_meet(struct gpu_device *d, struct status_note *note);
/* For good: whatever is not answered yet has any bits. */
void gpu_cuda_leave(struct cuda *c);
/* The ranks' partial sums of a reduced stage by the tree, then bias and residual. */
enum status gpu_cuda_exchange_sum(struct cuda *c, const struct cuda_stage *s,
                                  const struct cuda_shape *shape, struct status_note *note);
/* The logits of every rank side by side, `rows` rows of them. */
enum status gpu_cuda_exchange_logits(struct cuda *c, uint32_t rows, struct status_note *note);

#endif
