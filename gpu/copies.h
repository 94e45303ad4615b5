/* SPDX-License-Identifier: Apache-2.0
 * How fast pages go between a device and the host memory of its tiers, nothing else under way:
 * what a restore from that memory can reach at best. Before the rank runs, on the thread that
 * opened the device.
 */
#ifndef GPU_COPIES_H
#define GPU_COPIES_H

#include "gpu/device.h"

struct gpu_host {
    unsigned char *at; /* slots */
    uint64_t slot_bytes;
    uint32_t n;
};

/* Bytes a second from the device and to it, over pages 1 to n_pages or some of them, which keep
 * their bytes; 0: there is no host memory. */
void gpu_copy_rates(struct gpu_device *d, uint32_t n_pages, struct gpu_host host, double *out_B_s,
                    double *in_B_s);

#endif
