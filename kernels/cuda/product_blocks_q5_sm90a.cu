/* SPDX-License-Identifier: Apache-2.0
 * Products over blocked weights on Hopper, some of the types: product_blocks_sm90a.cuh.
 */
#include "kernels/cuda/product_blocks_sm90a.cuh"

BLOCKS_KERNELS(KRN_Q4_1, q4_1)
BLOCKS_KERNELS(KRN_Q5_0, q5_0)
BLOCKS_KERNELS(KRN_Q5_1, q5_1)
