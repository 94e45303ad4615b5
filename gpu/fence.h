/* SPDX-License-Identifier: Apache-2.0
 * Numbers for enqueued work: a mark is reached when everything that was enqueued before it on all
 * of a device's streams is over. Marks are reached in their order. Owned by the rank's thread; a
 * ring of events that are made at open.
 */
#ifndef GPU_FENCE_H
#define GPU_FENCE_H

#include "gpu/driver.h"

enum { GPU_FENCE_STREAMS_MAX = 4, GPU_FENCE_MARKS = 64 };

struct gpu_fence {
    const struct gpu_driver *driver;
    struct gpu_cu_stream *streams[GPU_FENCE_STREAMS_MAX];
    uint32_t n_streams;
    struct gpu_cu_event *events[GPU_FENCE_MARKS][GPU_FENCE_STREAMS_MAX];
    uint64_t marked, reached; /* the last mark made, and reached */
};

enum status gpu_fence_open(struct gpu_fence *f, const struct gpu_driver *driver,
                           struct gpu_cu_stream *const *streams, uint32_t n,
                           struct status_note *note);
void gpu_fence_close(struct gpu_fence *f);
/* Marks what is enqueued now; *mark is its number, 1, 2, ... AGAIN when GPU_FENCE_MARKS marks are
 * still to be reached: poll first. */
enum status gpu_fence_mark(struct gpu_fence *f, uint64_t *mark, struct status_note *note);
/* Asks the driver; *reached is the last mark that is over. DEVICE when a stream has failed. */
enum status gpu_fence_poll(struct gpu_fence *f, uint64_t *reached, struct status_note *note);

#endif
