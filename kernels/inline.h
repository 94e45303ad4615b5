/* SPDX-License-Identifier: Apache-2.0
 * KRN_INLINE marks arithmetic that C compilers and nvcc compile from one source, so that a device
 * and a CPU cannot come to differ by two texts of one formula.
 */
#ifndef KERNELS_INLINE_H
#define KERNELS_INLINE_H

#ifdef __CUDACC__
#define KRN_INLINE static __host__ __device__ __forceinline__
#else
#define KRN_INLINE static inline
#endif

#endif
