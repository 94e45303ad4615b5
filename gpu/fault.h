/* SPDX-License-Identifier: Apache-2.0
 * What a driver's answer means, and the sentence that says so: which call, which result, during
 * which kernel, plan and graph. Names and texts come from a built-in table, so that they are there
 * when the driver is dead. Pure; any thread.
 */
#ifndef GPU_FAULT_H
#define GPU_FAULT_H

#include "gpu/driver.h"

/* Kinds of gpu/driver_results.def. */
enum gpu_fault_kind {
    GPU_FAULT_FINE,
    GPU_FAULT_LATER,
    GPU_FAULT_ROOM,
    GPU_FAULT_LACKS,
    GPU_FAULT_CALL,
    GPU_FAULT_CAPTURE,
    GPU_FAULT_DEAD
};

/* What the device's owner is doing, kept by it as it goes. */
struct gpu_work {
    uint64_t plan;      /* 0: none */
    uint64_t graph_key; /* 0: eager */
    const char *kernel; /* the last one launched; NULL: none yet */
};

/* The name of a result, such as CUDA_ERROR_ILLEGAL_ADDRESS. The driver is asked only about what the
 * table does not know; d may be NULL. Never NULL. */
const char *gpu_result_name(const struct gpu_driver *d, gpu_cu_t result);
/* A result that is not in the table (a newer driver's) counts as DEAD: nothing is known of it. */
enum gpu_fault_kind gpu_result_kind(gpu_cu_t result);
/* FINE: OK, LATER: AGAIN, ROOM: NO_MEMORY, LACKS: UNSUPPORTED, CALL and CAPTURE: ROUND_FAILED,
 * DEAD: DEVICE. */
enum status gpu_result_status(gpu_cu_t result);

/* Turns a result into a status; unless it is OK or AGAIN, note says: what failed with which result,
 * while plan, graph and kernel were under way (work may be NULL), and that the process must be
 * started again where the fault is sticky. */
enum status gpu_fault_say(struct status_note *note, const struct gpu_driver *d, gpu_cu_t result,
                          const struct gpu_work *work, const char *what);

#endif
