/* SPDX-License-Identifier: Apache-2.0
 * Launches: loads the embedded kernels once, finds every function by name, and turns a call
 * (kernels/cuda/call.h) into a launch on a stream. A failed launch names kernel, grid, block,
 * shared bytes, plan and graph key. Owned by the rank's thread; nothing is loaded, found or
 * allocated after open.
 */
#ifndef GPU_LAUNCH_H
#define GPU_LAUNCH_H

#include "gpu/fault.h"
#include "kernels/cuda/call.h"
#include "kernels/cuda/images.h"

enum { GPU_KERNELS_MAX = 1024, GPU_KERNEL_IMAGES_MAX = 128 };

struct gpu_launcher;

struct gpu_launcher_config {
    const struct gpu_driver *driver; /* its context is current on this thread */
    int device;
    const struct krn_cuda_image *images;
    size_t n_images;
    struct gpu_work *work; /* borrowed; the launcher keeps its kernel, its owner plan and graph */
    bool each;             /* debugging: wait for every launch, so that a fault names its kernel */
};

/* Loads all images. One that has no code for this device is left out: its kernels are absent.
 * UNSUPPORTED when none can be loaded (says for what they were built and what the device is). */
enum status gpu_launcher_open(const struct gpu_launcher_config *config, struct gpu_launcher **out,
                              struct status_note *note);
void gpu_launcher_close(struct gpu_launcher *l);

/* Whether a kernel is there for this device. */
bool gpu_launcher_has(const struct gpu_launcher *l, const char *kernel);
/* How many kernels there are, and images that were left out. */
uint32_t gpu_launcher_count(const struct gpu_launcher *l, uint32_t *left_out);
/* Blocks of this call that fit on one multiprocessor at once; 0 when the kernel is absent. */
uint32_t gpu_launcher_resident(const struct gpu_launcher *l, const struct krn_cuda_call *call);

/* Enqueues one call. CHECKs that the arguments have the size that the kernel was compiled with.
 * UNSUPPORTED for an absent kernel. */
enum status gpu_launch(struct gpu_launcher *l, struct gpu_cu_stream *stream,
                       const struct krn_cuda_call *call, struct status_note *note);

#endif
