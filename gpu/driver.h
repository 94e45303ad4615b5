/* SPDX-License-Identifier: Apache-2.0
 * The GPU driver as a table of functions, found at run time (libcuda.so.1), so that one binary
 * starts anywhere; its types are declared here, so that it builds anywhere. The fake driver
 * (gpu/driver_fake.h) fills the same table. Only the rank's own thread calls the functions of a
 * context. A result is one of gpu/driver_results.def; "not ready" is a state, not an error.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

typedef int gpu_cu_t;          /* a result */
typedef uint64_t gpu_cu_ptr_t; /* an address on the device; 0 names nothing */

struct gpu_cu_context;
struct gpu_cu_module;
struct gpu_cu_function;
struct gpu_cu_stream;
struct gpu_cu_event;
struct gpu_cu_graph;
struct gpu_cu_node;
struct gpu_cu_exec;

enum {
#define RESULT(name, value, kind) GPU_##name = value,
#include "gpu/driver_results.def"
#undef RESULT
    GPU_CU_RESULT_MAX = 999
};

/* Attributes of devices. 110 says whether RDMA works with the VMM backend; 126, which looks like
 * it, counts memory sync domains. */
enum {
    GPU_CU_ATTR_MULTIPROCESSORS = 16,
    GPU_CU_ATTR_L2_BYTES = 38,
    GPU_CU_ATTR_MAJOR = 75,
    GPU_CU_ATTR_MINOR = 76,
    GPU_CU_ATTR_COOPERATIVE = 95,
    GPU_CU_ATTR_SHARED_OPTIN = 97,
    GPU_CU_ATTR_VMM = 102,
    GPU_CU_ATTR_RDMA_WITH_VMM = 110,
    GPU_CU_ATTR_SYNC_DOMAINS = 126
};

enum {
    GPU_CU_FUNCTION_SHARED = 1, /* static shared bytes */
    GPU_CU_FUNCTION_LOCAL = 3,
    GPU_CU_FUNCTION_REGISTERS = 4,
    GPU_CU_FUNCTION_VIRTUAL = 5, /* 10 * major + minor that its source was compiled for */
    GPU_CU_FUNCTION_BINARY = 6,  /* 10 * major + minor of its machine code */
    GPU_CU_FUNCTION_SHARED_MAX = 8,
    GPU_CU_FUNCTION_CLUSTER_ANY = 14, /* clusters of more than 8 blocks allowed */
    GPU_CU_STREAM_OWN = 1,            /* does not wait for the default stream */
    GPU_CU_EVENT_UNTIMED = 2,
    GPU_CU_HOST_PORTABLE = 1,
    GPU_CU_CAPTURE_GLOBAL = 0,
    GPU_CU_CAPTURE_THREAD = 1,
    GPU_CU_CAPTURE_RELAXED = 2,
    GPU_CU_CAPTURING_NOT = 0,
    GPU_CU_CAPTURING = 1,
    GPU_CU_CAPTURING_LOST = 2,
    GPU_CU_MEMORY_PINNED = 1,
    GPU_CU_PLACE_DEVICE = 1,
    GPU_CU_ACCESS_BOTH = 3,
    GPU_CU_GRANULARITY_LEAST = 0,
    GPU_CU_LAUNCH_COOPERATIVE = 2,
    GPU_CU_LAUNCH_CLUSTER = 4,
    GPU_CU_LAUNCH_OVERLAP = 6
};

struct gpu_cu_launch_attribute {
    int id;
    int pad;
    union {
        unsigned char bytes[64];
        int flag;
        uint32_t cluster[3];
    } value;
};

struct gpu_cu_launch {
    uint32_t grid[3], block[3];
    uint32_t shared;
    struct gpu_cu_stream *stream;
    struct gpu_cu_launch_attribute *attributes;
    uint32_t n_attributes;
};

struct gpu_cu_place {
    int type, id;
};

struct gpu_cu_memory {
    int type, handles;
    struct gpu_cu_place place;
    void *windows;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

struct gpu_cu_access {
    struct gpu_cu_place place;
    int flags;
};

struct gpu_cu_ipc {
    unsigned char bytes[64];
};

struct gpu_driver {
#define DRIVER(name, symbol, suffix, version, need, arguments) gpu_cu_t(*name) arguments;
#include "gpu/driver.def"
#undef DRIVER
    int driver_version; /* what it supports: 1000 * major + 10 * minor */
    bool fake;
};

/* Finds the driver and initialises it. UNSUPPORTED, with what to do, when there is none, it is too
 * old for `needed` (1000 * major + 10 * minor), or it sees no device. The table lives until the
 * process ends. */
enum status gpu_driver_open(uint32_t needed, const struct gpu_driver **out,
                            struct status_note *note);
/* The same over a given loader: find(self, symbol, version, suffix) returns the function or NULL.
 * For tests; gpu_driver_open uses it. */
enum status gpu_driver_fill(struct gpu_driver *d, uint32_t needed,
                            void *(*find)(void *self, const char *symbol, int version,
                                          const char *suffix),
                            void *self, struct status_note *note);

#endif
