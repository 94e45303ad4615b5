/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that runs one function together. The thread that calls gpu_team_run is member 0. Inside the function
 * members meet at barriers and cut work into shares, fixed or taken one by one. Members spin for a short while that
 * is bounded in time, then yield, then park; with more members than cores they park at once. Nothing allocates after open.
 * The floating-point environment of every member is checked (krn_fpenv_check).
 */
#ifndef GPU_TEAM_H
#define GPU_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

enum { GPU_TEAM_MAX = 256 };

struct gpu_team;

/* A member inside gpu_team_run; private to its thread. */
struct gpu_member {
    struct gpu_team *team;
    uint32_t index, size;
    uint32_t region; /* barriers passed; names the counter of gpu_team_take */
    void *scratch;   /* scratch_bytes of gpu_team_open, 64-byte aligned, its own */
};

/* threads: members, the caller included; 0: one a core that this process may use. */
enum status gpu_team_open(uint32_t threads, size_t scratch_bytes, struct gpu_team **out,
                          struct status_note *note);
void gpu_team_close(struct gpu_team *t);
uint32_t gpu_team_size(const struct gpu_team *t);

/* Runs fn on every member and returns when all have returned. One caller at a time. */
void gpu_team_run(struct gpu_team *t, void (*fn)(void *self, struct gpu_member *m), void *self);

/* No member passes before all have come; what one wrote before it, all see after it. */
void gpu_team_barrier(struct gpu_member *m);

/* Takes the next at most `grain` of n units in this region (since the last barrier); false when none is left. A region
 * has one n; which member gets which units may differ from run to run. */
bool gpu_team_take(struct gpu_member *m, uint32_t n, uint32_t grain, uint32_t *begin, uint32_t *end);

/* The member's fixed share of n units. */
static inline void gpu_team_share(const struct gpu_member *m, uint32_t n, uint32_t *begin, uint32_t *end) {
    *begin = (uint32_t)((uint64_t)n * m->index / m->size);
    *end = (uint32_t)((uint64_t)n * (m->index + 1) / m->size);
}

#endif
