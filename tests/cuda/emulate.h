/* SPDX-License-Identifier: Apache-2.0
 * Kernels on the host: the .cu files of kernels/cuda, as they stand, compiled as C, one block after
 * the other, a fibre a thread. And a driver (gpu/driver.h) whose device they are: memory is the
 * host's, every call is done when it returns. So a device and its kernels can be compared bit for
 * bit where no GPU is. A .cu file that this is for includes kernels/cuda/device.h and uses nothing
 * else of CUDA than the words of emulated.h. Not for use under sanitizers, which cannot follow
 * fibres.
 */
#ifndef TESTS_CUDA_EMULATE_H
#define TESTS_CUDA_EMULATE_H

#include "gpu/driver.h"
#include "kernels/cuda/images.h"

/* A driver with one device of compute capability 9.0 that runs the kernels of emulated.c. */
const struct gpu_driver *emulate_driver(void);
/* The same kernels under the fake driver (gpu/driver_fake.h), which has graphs: after
 * gpu_fake_driver. */
void emulate_on_fake(void);
/* To be handed to a launcher: one image that holds them all. */
extern const struct krn_cuda_image emulate_images[1];

/* Launches so far, and the next one that shall fail with this result (0: none). */
uint64_t emulate_launches(void);
void emulate_fail_launch(uint64_t nth, gpu_cu_t result);
/* Products of cuda-bf16 from now on round as they must not. */
void emulate_other_cores(bool on);
/* Bytes that the device pretends to have; more than that is CUDA_ERROR_OUT_OF_MEMORY. */
void emulate_memory(uint64_t bytes);
uint64_t emulate_memory_live(void);

/* One kernel, as emulated.c lists them. */
struct emulated {
    const char *name;
    size_t args_bytes;
    void (*run)(const void *args);
    bool whole; /* one call is the whole launch */
};
extern const struct emulated emulated_kernels[];
extern const size_t emulated_kernels_n;

/* What a running thread of a kernel sees of itself. */
struct emulated_index {
    uint32_t x, y, z;
};
struct emulated_thread {
    struct emulated_index thread, block, block_size, grid;
};
extern struct emulated_thread emulated_now;
void emulated_barrier(void);

#endif
