/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's own opening, for tests (another driver, other kernels); the program opens it by
 * gpu_device_cuda_open (gpu/device.h). It runs the `portable` profile with the bits of the CPU
 * device.
 */
#ifndef GPU_DEVICE_CUDA_H
#define GPU_DEVICE_CUDA_H

#include "gpu/device.h"
#include "gpu/driver.h"
#include "kernels/cuda/images.h"

struct gpu_device_cuda_over {
    const struct gpu_driver *driver;
    const struct krn_cuda_image *images;
    size_t n_images;
    bool each;        /* wait for every launch: a fault names its kernel (ROUNDHOUSE_CUDA_EACH) */
    uint64_t widened; /* bytes of blocked weights that are bf16 at one time; 0: the usual */
    uint32_t blocks_rows; /* more rows widen them; 0: the usual */
    uint64_t close_ns;    /* how long a close waits for what is under way; 0: ten seconds */
};

enum status gpu_device_cuda_open_over(const struct gpu_device_config *config,
                                      const struct gpu_device_cuda_over *over,
                                      struct gpu_device **out, struct status_note *note);

#endif
