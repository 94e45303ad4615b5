/* SPDX-License-Identifier: Apache-2.0
 * What tests over the fake driver share: an open context, two streams, and kernels that add, so
 * that order and repetition are seen in what they leave.
 */
#ifndef TESTS_GPU_FAKE_RIG_H
#define TESTS_GPU_FAKE_RIG_H

#include <string.h>

#include "gpu/driver_fake.h"
#include "kernels/cuda/images.h"
#include "tests/harness.h"

/* *out = *out * 3 + *in + add: no two orders of different calls give the same. */
struct rig_args {
    gpu_cu_ptr_t in, out; /* uint64_t */
    uint64_t add;
};

static inline void rig_run(const char *kernel, const struct gpu_cu_launch *launch,
                           const void *args) {
    const struct rig_args *a = args;
    uint64_t in, out;
    (void)kernel;
    (void)launch;
    memcpy(&in, (const void *)(uintptr_t)a->in, sizeof in);
    memcpy(&out, (const void *)(uintptr_t)a->out, sizeof out);
    out = out * 3 + in + a->add;
    memcpy((void *)(uintptr_t)a->out, &out, sizeof out);
}

static const char rig_image_bytes[] = "an image", rig_foreign_bytes[] = "for another device";
static const struct krn_cuda_image rig_images[] = {
    {"rig", "90", rig_image_bytes, sizeof rig_image_bytes},
    {"foreign", "120", rig_foreign_bytes, sizeof rig_foreign_bytes}};

struct rig {
    const struct gpu_driver *d;
    struct gpu_cu_context *context;
    struct gpu_cu_stream *a, *b;
    struct status_note note;
};

static inline void rig_begin(struct rig *r, const struct gpu_fake_config *config) {
    memset(r, 0, sizeof *r);
    r->d = gpu_fake_driver(config);
    gpu_fake_kernel(rig_image_bytes, "rig_add", sizeof(struct rig_args), 1024, rig_run);
    gpu_fake_kernel(rig_image_bytes, "rig_other", sizeof(struct rig_args), 0, rig_run);
    ck_assert_int_eq(r->d->context_retain(&r->context, 0), GPU_CUDA_SUCCESS);
    ck_assert_int_eq(r->d->context_set(r->context), GPU_CUDA_SUCCESS);
    ck_assert_int_eq(r->d->stream_create(&r->a, GPU_CU_STREAM_OWN, 0), GPU_CUDA_SUCCESS);
    ck_assert_int_eq(r->d->stream_create(&r->b, GPU_CU_STREAM_OWN, 0), GPU_CUDA_SUCCESS);
}

/* A clean end: nothing is left but what the rig itself made. */
static inline void rig_end(struct rig *r) {
    ck_assert_int_eq(r->d->stream_destroy(r->a), GPU_CUDA_SUCCESS);
    ck_assert_int_eq(r->d->stream_destroy(r->b), GPU_CUDA_SUCCESS);
    ck_assert_int_eq(r->d->context_release(0), GPU_CUDA_SUCCESS);
    struct gpu_fake_alive left = gpu_fake_alive(), none;
    memset(&none, 0, sizeof none);
    ck_assert_mem_eq(&left, &none, sizeof none);
}

#define RIG_OK(call) ck_assert_int_eq((call), GPU_CUDA_SUCCESS)

#endif
