/* SPDX-License-Identifier: Apache-2.0
 * step16 of numerics.md 16.2 in integers: what the tensor cores of compute capability 9.0 make of
 * an fp32 accumulator and sixteen pairs of bf16. The oracle of cuda-bf16-sm90 and the self-test of
 * a GPU are made of it; tests/cuda/test_step16 compares it with the hardware.
 */
#ifndef KERNELS_STEP16_H
#define KERNELS_STEP16_H

#include <stdint.h>

enum { KRN_STEP16 = 16 };

/* bf16(x) of 16.1, as bits. */
uint16_t krn_step16_bf16(float x);
/* c plus the sixteen products. */
float krn_step16(float c, const uint16_t *a, const uint16_t *b);
/* The chain of K-steps over n pairs, the last one filled up with zeros; n may be 0. */
float krn_step16_chain(float c, const uint16_t *a, const uint16_t *b, uint32_t n);

#endif
