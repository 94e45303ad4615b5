/* SPDX-License-Identifier: Apache-2.0
 * How much of a thread's time something that is not urgent may take: a share, of which some may be
 * saved up, so that a little comes at once and a lot is spread. Pure; times are the caller's.
 */
#ifndef GPU_PACE_H
#define GPU_PACE_H

#include <stdint.h>

struct gpu_pace {
    uint32_t share;      /* one part in so many; 0: it may take what it likes */
    uint64_t saved_max;  /* nanoseconds */
    int64_t credit;      /* nanoseconds that may be taken now; below zero: owed */
    uint64_t counted_ns; /* credit was given for the time until then */
};

/* All that can be saved is. */
struct gpu_pace gpu_pace_begin(uint32_t share, uint64_t saved_max, uint64_t now_ns);
/* 0: it may go on now; else how long it waits. */
uint64_t gpu_pace_wait(struct gpu_pace *p, uint64_t now_ns);
/* It took so long; what it took too much is waited for later. */
void gpu_pace_took(struct gpu_pace *p, uint64_t ns);

#endif
