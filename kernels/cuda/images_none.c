/* SPDX-License-Identifier: Apache-2.0
 * The table of a build without kernels for a GPU.
 */
#include "kernels/cuda/images.h"

const struct krn_cuda_image krn_cuda_images[1];
const size_t krn_cuda_images_n = 0;
const uint32_t krn_cuda_toolkit = 0;
