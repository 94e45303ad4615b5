/* SPDX-License-Identifier: Apache-2.0
 * What the two halves of the fake driver share: memory and modules, streams and graphs.
 */
#ifndef GPU_DRIVER_FAKE_STATE_H
#define GPU_DRIVER_FAKE_STATE_H

#include <pthread.h>

#include "gpu/driver_fake.h"

enum fake_call {
#define DRIVER(name, symbol, suffix, version, need, arguments) FAKE_##name,
#include "gpu/driver.def"
#undef DRIVER
    FAKE_CALLS
};

struct gpu_cu_context {
    int device;
    uint32_t retained;
    bool owned;
    pthread_t owner;
};

struct gpu_cu_function {
    struct gpu_cu_function *next;
    const void *image;
    char name[64];
    uint32_t args_bytes, shared_bytes;
    int shared_max;
    bool loaded;
    gpu_fake_run_t run;
};

struct gpu_cu_module {
    struct gpu_cu_module *next;
    const void *image;
};

/* clang-format off */
enum fake_op_kind {
    FAKE_COPY_IN, FAKE_COPY_OUT, FAKE_COPY, FAKE_FILL8, FAKE_FILL32, FAKE_KERNEL, FAKE_RECORD,
    FAKE_WAIT, FAKE_GRAPH
};
/* clang-format on */

struct fake_op {
    struct fake_op *next;
    enum fake_op_kind kind;
    uint64_t number; /* in the order of enqueueing */
    gpu_cu_ptr_t to, from;
    void *host;
    unsigned char *own; /* staged copy or arguments; freed with the op */
    size_t bytes;
    uint32_t value;
    struct gpu_cu_function *function;
    struct gpu_cu_launch launch;
    struct gpu_cu_event *event;
    uint64_t version; /* of the event */
    struct gpu_cu_exec *exec;
};

struct gpu_cu_event {
    struct gpu_cu_event *next;
    uint64_t recorded, done; /* versions */
    uint64_t tick;           /* when it was done */
    struct gpu_cu_graph *capture;
    struct gpu_cu_stream *from;
    uint64_t from_ops; /* how many the stream had captured then */
};

struct gpu_cu_stream {
    struct gpu_cu_stream *next;
    struct fake_op *first, **last;
    struct gpu_cu_graph *capture;
    bool origin, unjoined;
    uint64_t captured; /* ops of this capture */
};

struct gpu_cu_graph {
    struct gpu_cu_graph *next;
    struct fake_op *first, **last;
    uint32_t n;
    int mode;
    pthread_t owner;
    bool capturing, lost;
};

struct gpu_cu_exec {
    struct gpu_cu_exec *next;
    struct fake_op *first;
    uint32_t n, pending; /* launches not run yet */
    bool destroyed;
    uint64_t bytes;
};

enum { FAKE_RULES_MAX = 16 };

struct gpu_fake {
    struct gpu_fake_config config;
    struct gpu_driver table;
    struct gpu_cu_context contexts[GPU_FAKE_DEVICES_MAX];
    uint64_t calls[FAKE_CALLS];
    struct fake_rule {
        enum fake_call call;
        uint64_t from, to; /* by the count of calls */
        gpu_cu_t result;
    } rules[FAKE_RULES_MAX];
    uint32_t n_rules;
    gpu_cu_t dead; /* the sticky result */
    gpu_cu_t work_result;
    uint64_t work_done, work_fails_at;
    uint64_t waits, foreign, number, tick;
    uint64_t used[GPU_FAKE_DEVICES_MAX], pressure[GPU_FAKE_DEVICES_MAX];
    struct gpu_fake_alive alive;
    struct gpu_cu_function *functions;
    struct gpu_cu_module *modules;
    struct gpu_cu_stream *streams;
    struct gpu_cu_event *events;
    struct gpu_cu_graph *graphs;
    struct gpu_cu_exec *execs;
};

extern struct gpu_fake gpu_fake;

/* First and last act of every function of the table: counts, refuses as armed, holds the lock. */
gpu_cu_t gpu_fake_enter(enum fake_call call);
void gpu_fake_leave(gpu_cu_t *refused);
#define FAKE_CALL(name)                                                                            \
    __attribute__((cleanup(gpu_fake_leave))) gpu_cu_t refused = gpu_fake_enter(FAKE_##name)

/* The device of this thread's context, or -1. */
int gpu_fake_device(void);
/* Whether [p, p + bytes) is device memory that may be used now; *pinned of host memory. */
bool gpu_fake_usable(gpu_cu_ptr_t p, size_t bytes);
bool gpu_fake_pinned(const void *p, size_t bytes);
/* Takes or returns device memory of a device; false when it is not there. */
bool gpu_fake_take(int device, uint64_t bytes);
void gpu_fake_return(int device, uint64_t bytes);
/* Something that no capture allows: loses the captures that this thread may break. */
gpu_cu_t gpu_fake_unsafe(void);
/* Runs everything that is pending on all streams. */
void gpu_fake_drain(void);
bool gpu_fake_pending(void);
void gpu_fake_memory_fill(struct gpu_driver *table);
void gpu_fake_memory_end(void);
void gpu_fake_streams_fill(struct gpu_driver *table);
void gpu_fake_streams_end(void);

#endif
