/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device: the self-test of the profiles of tensor cores.
 */
#ifndef GPU_SELFTEST_CUDA_H
#define GPU_SELFTEST_CUDA_H

#include "gpu/cuda.h"

/* Before the weights are packed. UNSUPPORTED says which kernel has other bits than the profile. */
enum status gpu_cuda_selftest(struct cuda *c, struct status_note *note);

#endif
