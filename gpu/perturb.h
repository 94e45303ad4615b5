/* SPDX-License-Identifier: Apache-2.0
 * The perturb hook of prove's own proof, common to devices: which draws of a plan are in the
 * situation of an axis. Their logits are then computed with another order of additions: the first
 * half of K and the second half are summed apart and then added, where the profile has one chain.
 * Every output of such a row may differ in its last bits; nothing else changes. It happens to the
 * draws of
 *   1 company   every plan with more than one seq
 *   2 memory    a request whose first plan begins behind position 0 (rows came from memory)
 *   3 drafts    a seq with more than one draw (a verify window)
 *   4 pieces    a request that, after its first plan, computed a further piece: more than one row
 *               and at most one draw
 *   5 threads   every plan, when the device works with more than one thread
 *   6 trouble   a plan that is a retry (GPU_PLAN_ALONE) or follows a failed or void plan
 * A request is known by its id and lane slot. Pure but for its memory.
 */
#ifndef GPU_PERTURB_H
#define GPU_PERTURB_H

#include "gpu/plan.h"

enum gpu_perturb {
    GPU_PERTURB_NONE,
    GPU_PERTURB_COMPANY,
    GPU_PERTURB_MEMORY,
    GPU_PERTURB_DRAFTS,
    GPU_PERTURB_PIECES,
    GPU_PERTURB_THREADS,
    GPU_PERTURB_TROUBLE
};

/* What is remembered of each slot's request; begins as zeros. */
struct gpu_perturb_memory {
    struct gpu_perturb_seen {
        uint64_t request;
        bool known, resumed, pieced;
    } seen[GPU_SLOTS_MAX];
};

/* Sets changed[draw] for every draw of the plan. */
void gpu_perturb_mark(enum gpu_perturb kind, struct gpu_perturb_memory *memory,
                      const struct gpu_plan *p, uint64_t failed_number, bool many_threads,
                      unsigned char *changed);

#endif
