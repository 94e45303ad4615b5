/* SPDX-License-Identifier: Apache-2.0
 * The built-in table of results.
 */
#include "gpu/fault.h"

#include <stdio.h>

static const struct {
    const char *name;
    gpu_cu_t value;
    enum gpu_fault_kind kind;
} fault_table[] = {
#define RESULT(name, value, kind) {#name, value, GPU_FAULT_##kind},
#include "gpu/driver_results.def"
#undef RESULT
};

enum { FAULT_ROWS = sizeof fault_table / sizeof *fault_table };

/* The row of a result, or FAULT_ROWS. */
static unsigned fault_row(gpu_cu_t result) {
    unsigned i = 0;
    while (i < FAULT_ROWS && fault_table[i].value != result)
        i++;
    return i;
}

const char *gpu_result_name(const struct gpu_driver *d, gpu_cu_t result) {
    unsigned i = fault_row(result);
    if (i < FAULT_ROWS)
        return fault_table[i].name;
    const char *name = NULL;
    if (d != NULL && d->error_name(result, &name) == GPU_CUDA_SUCCESS && name != NULL)
        return name;
    return "a result that this build does not know";
}

enum gpu_fault_kind gpu_result_kind(gpu_cu_t result) {
    unsigned i = fault_row(result);
    return i < FAULT_ROWS ? fault_table[i].kind : GPU_FAULT_DEAD;
}

enum status gpu_result_status(gpu_cu_t result) {
    switch (gpu_result_kind(result)) {
    case GPU_FAULT_FINE:
        return STATUS_OK;
    case GPU_FAULT_LATER:
        return STATUS_AGAIN;
    case GPU_FAULT_ROOM:
        return STATUS_NO_MEMORY;
    case GPU_FAULT_LACKS:
        return STATUS_UNSUPPORTED;
    case GPU_FAULT_CALL:
    case GPU_FAULT_CAPTURE:
        return STATUS_ROUND_FAILED;
    case GPU_FAULT_DEAD:
        break;
    }
    return STATUS_DEVICE;
}

enum status gpu_fault_say(struct status_note *note, const struct gpu_driver *d, gpu_cu_t result,
                          const struct gpu_work *work, const char *what) {
    enum status status = gpu_result_status(result);
    if (status == STATUS_OK || status == STATUS_AGAIN)
        return status;
    char where[160] = "";
    if (work != NULL && work->plan != 0) {
        int n = snprintf(where, sizeof where, " in plan %llu", (unsigned long long)work->plan);
        if (work->graph_key != 0)
            n += snprintf(where + n, sizeof where - (size_t)n, ", graph %016llx",
                          (unsigned long long)work->graph_key);
        if (work->kernel != NULL)
            snprintf(where + n, sizeof where - (size_t)n, ", at or before kernel %s", work->kernel);
    }
    return status_say(
        note, status, "%s: %s (%d)%s%s", what, gpu_result_name(d, result), result, where,
        status == STATUS_DEVICE ? "; the device answers nothing more: this process must end" : "");
}
