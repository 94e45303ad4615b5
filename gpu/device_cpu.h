/* SPDX-License-Identifier: Apache-2.0
 * Hooks of the CPU device for tests and for prove's own proof; set them before the device steps.
 * The device itself is opened by gpu_device_cpu_open (gpu/device.h) and used through its ops.
 *
 * gpu_device_cpu_perturb(d, axis): gpu/perturb.h names the situations.
 */
#ifndef GPU_DEVICE_CPU_H
#define GPU_DEVICE_CPU_H

#include "gpu/device.h"
#include "gpu/perturb.h"

void gpu_device_cpu_perturb(struct gpu_device *d, uint32_t kind);

/* Freed pages are filled with NaN: whoever still reads one notices. */
void gpu_device_cpu_poison(struct gpu_device *d, bool on);

/* Members of its team. */
uint32_t gpu_device_cpu_threads(const struct gpu_device *d);

#endif
