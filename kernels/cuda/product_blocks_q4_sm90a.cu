/* SPDX-License-Identifier: Apache-2.0
 * Products over blocked weights on Hopper, some of the types: product_blocks_sm90a.cuh.
 */
#include "kernels/cuda/product_blocks_sm90a.cuh"

BLOCKS_KERNELS(KRN_Q4_0, q4_0)
BLOCKS_KERNELS(KRN_Q4_K, q4_k)
BLOCKS_KERNELS(KRN_IQ4_NL, iq4_nl)
