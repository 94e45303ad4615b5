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

#endif
