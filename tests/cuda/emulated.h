/* SPDX-License-Identifier: Apache-2.0
 * The words of CUDA that kernels use, in C (tests/cuda/emulate.h). Included before each .cu file.
 */
#ifndef TESTS_CUDA_EMULATED_H
#define TESTS_CUDA_EMULATED_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/cuda/emulate.h"

#define KRN_CUDA_KERNEL(name, threads) static void name
#define KRN_CUDA_AT(type, p)           ((type *)(uintptr_t)(p))
#define CUDA_FN                        static inline __attribute__((unused))
#define UNROLL
#define __grid_constant__
/* One block runs at a time. Between blocks this section is filled with 0xff. */
#define __shared__      static __attribute__((section("emulated_shared")))
#define __syncthreads() emulated_barrier()
#define threadIdx       (emulated_now.thread)
#define blockIdx        (emulated_now.block)
#define blockDim        (emulated_now.block_size)
#define gridDim         (emulated_now.grid)

static inline void emulated_add_u32(uint32_t *p, uint32_t v) {
    *p += v;
}
static inline void emulated_add_u64(unsigned long long *p, unsigned long long v) {
    *p += v;
}
static inline void emulated_min_u32(uint32_t *p, uint32_t v) {
    *p = v < *p ? v : *p;
}
static inline void emulated_min_u64(unsigned long long *p, unsigned long long v) {
    *p = v < *p ? v : *p;
}
#define atomicAdd(p, v)                                                                            \
    _Generic((p), uint32_t * : emulated_add_u32, unsigned long long * : emulated_add_u64)(p, v)
#define atomicMin(p, v)                                                                            \
    _Generic((p), uint32_t * : emulated_min_u32, unsigned long long * : emulated_min_u64)(p, v)
#define atomicOr(p, v) ((void)(*(p) |= (v)))

#endif
