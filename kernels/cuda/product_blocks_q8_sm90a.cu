/* SPDX-License-Identifier: Apache-2.0
 * Products over blocked weights on Hopper, some of the types: product_blocks_sm90a.cuh.
 */
#include "kernels/cuda/product_blocks_sm90a.cuh"

BLOCKS_KERNELS(KRN_Q8_0, q8_0)
BLOCKS_KERNELS(KRN_Q5_K, q5_k)
BLOCKS_KERNELS(KRN_Q6_K, q6_k)
