/* SPDX-License-Identifier: Apache-2.0
 * A driver that is not there: the table of gpu/driver.h over host memory, for tests of everything
 * that stands on it. Memory, streams, events, captures, graphs and VMM follow the driver's rules
 * (order within a stream, arguments frozen at launch and capture, thread-local capture, what a
 * capture forbids, sticky errors); kernels are host functions that were registered by name. Device
 * addresses are host addresses. One at a time in a process; any thread may call.
 */
#ifndef GPU_DRIVER_FAKE_H
#define GPU_DRIVER_FAKE_H

#include "gpu/driver.h"

enum { GPU_FAKE_DEVICES_MAX = 8 };

struct gpu_fake_config {
    uint32_t devices;      /* 0: one */
    uint64_t memory_bytes; /* of each; 0: 1 GiB */
    int major, minor;      /* 0: 9.0 */
    int driver_version;    /* 0: 13000 */
    int rdma_with_vmm;     /* attribute 110 */
    bool no_vmm;           /* its functions are missing */
    bool deferred;         /* work waits for gpu_fake_run or for a synchronisation */
};

/* Begins anew: nothing exists, nothing is armed. */
const struct gpu_driver *gpu_fake_driver(const struct gpu_fake_config *config);

/* What exists; all 0 after a clean end. */
struct gpu_fake_alive {
    uint32_t memory, host, streams, events, graphs, execs, modules, blocks, reservations, contexts;
    uint64_t bytes[GPU_FAKE_DEVICES_MAX]; /* of device memory in use */
};
struct gpu_fake_alive gpu_fake_alive(void);

/* A kernel of the module that module_load makes of `image` (any address). */
typedef void (*gpu_fake_run_t)(const char *kernel, const struct gpu_cu_launch *launch,
                               const void *args);
void gpu_fake_kernel(const void *image, const char *name, uint32_t args_bytes,
                     uint32_t shared_bytes, gpu_fake_run_t run);

/* The calls of the function `name` (as in driver.def) number after + 1 to after + times from now on
 * answer result instead of doing anything. A sticky result makes every later call answer it. */
void gpu_fake_fail(const char *name, uint32_t after, uint32_t times, gpu_cu_t result);
/* The work number after + 1 from now on (copies, fills, kernels, as they run) fails in that way. */
void gpu_fake_fail_work(uint32_t after, gpu_cu_t result);
/* Calls of a function so far. */
uint64_t gpu_fake_calls(const char *name);
/* Times that the host had to wait for a whole device: synchronisations of a context, and frees of
 * memory while work was pending. */
uint64_t gpu_fake_waits(void);
/* Calls made by a thread other than the first that made a context current. */
uint64_t gpu_fake_foreign_calls(void);
/* Takes so much memory away from others' use, or gives it back with 0. */
void gpu_fake_pressure(uint32_t device, uint64_t bytes);
/* Runs up to n pieces of pending work, the oldest that can run first; how many ran. */
uint32_t gpu_fake_run(uint32_t n);

#endif
