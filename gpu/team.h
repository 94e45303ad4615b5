/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that works through one function together. The thread that calls gpu_team_run is
 * member 0. The function is a sequence of regions, the same for every member; a region is n units
 * that members take one after the other, and it ends when all its units are done. Nobody waits for
 * a member that holds no unit: one that comes late (its core was busy elsewhere) finds regions over
 * and passes through them. So:
 *
 * Between a take that succeeded and the next call a member may touch what its units own and read
 * what earlier regions wrote. At any other time it may read only what is constant for the whole
 * run.
 *
 * Waiting is a short spin, bounded in time, then yields, then a park; with more members than cores
 * it parks at once. Nothing allocates after open. The floating-point environment of every member is
 * checked (krn_fpenv_check).
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
    uint32_t region;  /* the team's: number of the region */
    uint32_t n, next; /* the team's: its units; the next one when the team has one member */
    uint32_t held;    /* the team's: units taken and not yet reported done */
    void *scratch;    /* scratch_bytes of gpu_team_open, 64-byte aligned, its own */
};

/* threads: members, the caller included; 0: one a core that this process may use. */
enum status gpu_team_open(uint32_t threads, size_t scratch_bytes, struct gpu_team **out,
                          struct status_note *note);
void gpu_team_close(struct gpu_team *t);
uint32_t gpu_team_size(const struct gpu_team *t);
/* Cores that this process may use. */
uint32_t gpu_team_cores(void);

/* Runs fn and returns when no member is inside it any more. One caller at a time. */
void gpu_team_run(struct gpu_team *t, void (*fn)(void *self, struct gpu_member *m), void *self);

/* Takes the next at most `grain` of the region's n units; false when none is left. n is the same
 * for all members. What was taken before is done. */
bool gpu_team_take(struct gpu_member *m, uint32_t n, uint32_t grain, uint32_t *begin,
                   uint32_t *end);

/* Ends the region, after a take that gave false: returns when all its units are done. */
void gpu_team_end(struct gpu_member *m);

/* Called by the holder of a unit: from the end of this region on gpu_team_failed is true for every
 * member until the next run; they must then leave fn. A late member may see it sooner. */
void gpu_team_fail(struct gpu_member *m);
bool gpu_team_failed(const struct gpu_member *m);

#endif
