/* SPDX-License-Identifier: Apache-2.0
 * What tests and benchmarks of kernels share: one GPU opened through the driver table and the
 * launcher that serve, memory, launches, comparison on the device, times. Every failure ends the
 * program with a sentence; without a GPU it ends with a plain line and 77.
 */
#ifndef TESTS_CUDA_KIT_H
#define TESTS_CUDA_KIT_H

#include "gpu/driver.h"
#include "gpu/launch.h"
#include "kernels/cuda/compare.h"
#include "kernels/cuda/product_bf16.h"

enum { KIT_SKIP = 77 };

struct kit {
    const struct gpu_driver *d;
    struct gpu_launcher *launcher;
    struct gpu_cu_stream *stream;
    struct krn_cuda_machine machine;
    struct gpu_work work;
    char name[96];
    krn_cuda_ptr_t compared;
};

void kit_open(struct kit *k);
krn_cuda_ptr_t kit_alloc(struct kit *k, uint64_t bytes);
void kit_free(struct kit *k, krn_cuda_ptr_t p);
void kit_put(struct kit *k, krn_cuda_ptr_t to, const void *from, uint64_t bytes);
void kit_get(struct kit *k, void *to, krn_cuda_ptr_t from, uint64_t bytes);
void kit_copy(struct kit *k, krn_cuda_ptr_t to, krn_cuda_ptr_t from, uint64_t bytes);
void kit_fill(struct kit *k, krn_cuda_ptr_t to, uint32_t value, uint64_t words);
void kit_launch(struct kit *k, const struct krn_cuda_call *call);
void kit_wait(struct kit *k);

/* Adds words that differ to the count that kit_differing returns and clears. */
void kit_compare(struct kit *k, krn_cuda_ptr_t a, krn_cuda_ptr_t b, uint64_t words);
uint64_t kit_differing(struct kit *k, uint64_t *first);

/* Median over `rounds` of the microseconds that one of `n` equal pieces of work takes: enqueue
 * them all, in a captured graph. */
double kit_time(struct kit *k, void (*enqueue)(void *self, struct kit *k, uint32_t i), void *self,
                uint32_t n, uint32_t rounds);

/* Random numbers of a counter. */
uint64_t kit_random(uint64_t *state);
/* Spread over 2^-spread ... 2^spread, either sign. */
float kit_float(uint64_t *state, int spread);
uint16_t kit_bf16(float x);

#endif
