/* SPDX-License-Identifier: Apache-2.0
 * The row functions of a GPU as a table (kernels/rowfn.h): each call carries its operands to the
 * device, launches the kernel that a step launches, and carries the result back. So the golden
 * digests and the CPU's tests hold for kernels too. One device at a time.
 */
#ifndef TESTS_CUDA_ROWFN_CUDA_H
#define TESTS_CUDA_ROWFN_CUDA_H

#include "gpu/launch.h"
#include "kernels/rowfn.h"

/* "emulated", or the first GPU of a driver with this build's kernels; a status and a sentence when
 * there is none. */
enum status rowfn_cuda_open(bool emulated, const struct krn_rowfn **out, struct status_note *note);
void rowfn_cuda_close(void);
/* The device's name. */
const char *rowfn_cuda_device(void);

/* Runs a fill and gives what it wrote. */
struct krn_cuda_fill;
void rowfn_cuda_fill(struct krn_cuda_fill *a, void *out, uint64_t bytes);

/* Norms of rows by so many blocks, as fp32 (y NULL: not) and as packed rows. */
struct krn_cuda_norm;
void rowfn_cuda_norm(struct krn_cuda_norm *a, const float *x, const float *w, uint32_t rows,
                     uint32_t blocks, float *y, void *packed, uint64_t packed_bytes);

#endif
