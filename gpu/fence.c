/* SPDX-License-Identifier: Apache-2.0
 * Marks: one event a stream.
 */
#include "gpu/fence.h"

#include <string.h>

#include "actors/check.h"
#include "gpu/fault.h"

enum status gpu_fence_open(struct gpu_fence *f, const struct gpu_driver *driver,
                           struct gpu_cu_stream *const *streams, uint32_t n,
                           struct status_note *note) {
    CHECK(n >= 1 && n <= GPU_FENCE_STREAMS_MAX);
    memset(f, 0, sizeof *f);
    f->driver = driver;
    f->n_streams = n;
    memcpy(f->streams, streams, n * sizeof *streams);
    for (uint32_t i = 0; i < GPU_FENCE_MARKS; i++)
        for (uint32_t s = 0; s < n; s++) {
            gpu_cu_t r = driver->event_create(&f->events[i][s], GPU_CU_EVENT_UNTIMED);
            if (r != GPU_CUDA_SUCCESS) {
                f->events[i][s] = NULL;
                gpu_fence_close(f);
                return gpu_fault_say(note, driver, r, NULL, "making the events of a fence");
            }
        }
    return STATUS_OK;
}

void gpu_fence_close(struct gpu_fence *f) {
    for (uint32_t i = 0; i < GPU_FENCE_MARKS; i++)
        for (uint32_t s = 0; s < f->n_streams; s++)
            if (f->events[i][s] != NULL)
                f->driver->event_destroy(f->events[i][s]);
    memset(f, 0, sizeof *f);
}

enum status gpu_fence_mark(struct gpu_fence *f, uint64_t *mark, struct status_note *note) {
    if (f->marked - f->reached == GPU_FENCE_MARKS)
        return STATUS_AGAIN;
    uint32_t at = (uint32_t)(f->marked % GPU_FENCE_MARKS);
    for (uint32_t s = 0; s < f->n_streams; s++) {
        gpu_cu_t r = f->driver->event_record(f->events[at][s], f->streams[s]);
        if (r != GPU_CUDA_SUCCESS)
            return gpu_fault_say(note, f->driver, r, NULL, "marking a stream");
    }
    *mark = ++f->marked;
    return STATUS_OK;
}

enum status gpu_fence_poll(struct gpu_fence *f, uint64_t *reached, struct status_note *note) {
    *reached = f->reached;
    while (f->reached < f->marked) {
        uint32_t at = (uint32_t)(f->reached % GPU_FENCE_MARKS);
        for (uint32_t s = 0; s < f->n_streams; s++) {
            gpu_cu_t r = f->driver->event_query(f->events[at][s]);
            if (r == GPU_CUDA_ERROR_NOT_READY)
                return STATUS_OK;
            if (r != GPU_CUDA_SUCCESS)
                return gpu_fault_say(note, f->driver, r, NULL, "asking how far a stream is");
        }
        *reached = ++f->reached;
    }
    return STATUS_OK;
}
