/* SPDX-License-Identifier: Apache-2.0
 * What a CUDA kernel launch needs, as a value: the bridge between an op's shape function (pure C,
 * kernels/cuda/NAME.h, runs anywhere) and whoever holds a device (gpu/launch.h). An op is one
 * NAME.h with the argument struct and the prototype of its shape function (for C alone: #ifndef
 * __CUDACC__), one NAME.c with that function, and one NAME.cu with kernels that take the struct as
 * their one parameter:
 *
 *     KRN_CUDA_KERNEL(name, threads)(const __grid_constant__ struct krn_cuda_name a) { ... }
 *
 * The struct holds fixed-width types, and device addresses as krn_cuda_ptr_t. What may change
 * between replays of a graph is not in it: arguments are frozen by a capture; it lies in device
 * memory at a fixed address.
 */
#ifndef KERNELS_CUDA_CALL_H
#define KERNELS_CUDA_CALL_H

#include <stdint.h>

/* An address on the device; 0 names nothing. */
typedef uint64_t krn_cuda_ptr_t;

enum {
    KRN_CUDA_NAME_MAX = 64,   /* bytes of a kernel's name with its end */
    KRN_CUDA_ARGS_MAX = 4096, /* bytes of arguments */
    KRN_CUDA_THREADS_MAX = 1024
};

enum {
    /* May begin while its predecessor ends: the kernel waits for it itself (griddepcontrol.wait)
     * before it reads or writes anything that the predecessor touches. */
    KRN_CUDA_OVERLAP = 1,
    /* All blocks are resident at once (they wait for each other). */
    KRN_CUDA_COOPERATIVE = 2
};

struct krn_cuda_call {
    const char *kernel; /* the name in KRN_CUDA_KERNEL; a literal */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* blocks a cluster; all 0: none */
    uint32_t shared;     /* dynamic shared bytes a block */
    uint32_t flags;
    uint32_t args_bytes; /* sizeof of the argument struct */
    const void *args;    /* borrowed until the launch returns */
};

#ifdef __CUDACC__
#define KRN_CUDA_KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define KRN_CUDA_AT(type, p)           ((type *)(p))
#endif

#endif
