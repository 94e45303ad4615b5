/* SPDX-License-Identifier: Apache-2.0
 * Hooks of the CPU device for tests and for prove's own proof; set them before the device steps.
 * The device itself is opened by gpu_device_cpu_open (gpu/device.h) and used through its ops.
 *
 * gpu_device_cpu_perturb(d, axis): the logits of a drawn row are computed with another order of
 * additions: the first half of K and the second half are summed apart and then added, where the
 * profile has one chain. Every output of such a row may differ in its last bits; nothing else
 * changes. It happens to the draws of
 *   1 company   every plan with more than one seq
 *   2 memory    a request whose first plan begins behind position 0 (rows came from memory)
 *   3 drafts    a seq with more than one draw (a verify window)
 *   4 pieces    a request that, after its first plan, computed a further piece: more than one row
 *               and at most one draw
 *   5 threads   every plan, when the team has more than one member
 *   6 trouble   a plan that is a retry (GPU_PLAN_ALONE) or follows a failed or void plan
 * A request is known by its id and lane slot.
 */
#ifndef GPU_DEVICE_CPU_H
#define GPU_DEVICE_CPU_H

#include "gpu/device.h"

enum gpu_perturb {
    GPU_PERTURB_NONE,
    GPU_PERTURB_COMPANY,
    GPU_PERTURB_MEMORY,
    GPU_PERTURB_DRAFTS,
    GPU_PERTURB_PIECES,
    GPU_PERTURB_THREADS,
    GPU_PERTURB_TROUBLE
};

/* Freed pages are filled with NaN: whoever still reads one notices. */
void gpu_device_cpu_poison(struct gpu_device *d, bool on);

/* Members of its team. */
uint32_t gpu_device_cpu_threads(const struct gpu_device *d);

#endif
