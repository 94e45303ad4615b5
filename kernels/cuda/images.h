/* SPDX-License-Identifier: Apache-2.0
 * The kernels of this build: one fatbin a .cu file, embedded. The table is made by the build
 * (kernels/cuda/make_images); without nvcc it is empty and krn_cuda_toolkit is 0.
 */
#ifndef KERNELS_CUDA_IMAGES_H
#define KERNELS_CUDA_IMAGES_H

#include <stddef.h>
#include <stdint.h>

struct krn_cuda_image {
    const char *name;  /* file name without .cu */
    const char *archs; /* what it holds code for, as configured: "80 90a ptx80" */
    const void *bytes;
    size_t n;
};

extern const struct krn_cuda_image krn_cuda_images[];
extern const size_t krn_cuda_images_n;
/* The toolkit that made them, 1000 * major + 10 * minor; 0: none. */
extern const uint32_t krn_cuda_toolkit;

#endif
