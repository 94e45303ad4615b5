/* SPDX-License-Identifier: Apache-2.0
 * The rank actor: the one owner of a device. It executes plans in the order of their numbers, up to
 * two under way, and answers each in one message, in order (gpu/protocol.h). Runs on its own
 * thread, or with the worker when the device computes inside step. It never blocks but inside such
 * a step.
 *
 * Fault points (simulation): gpu.step_fails, gpu.nan_row (one rank only), gpu.slow, gpu.void,
 * gpu.move_fails, gpu.graph_fails, gpu.vote_lost, gpu.vote_late, gpu.vote_twice.
 */
#ifndef GPU_RANK_H
#define GPU_RANK_H

#include "gpu/device.h"
#include "gpu/pace.h"
#include "gpu/protocol.h"

struct gpu_rank;
extern const struct act_kind gpu_rank_kind;

struct gpu_rank_config {
    struct gpu_device *device; /* borrowed; must outlive the actor */
    /* Host memory for pages, host_bytes each (at least the device's page_bytes); NULL: none. The
     * memory actor says who has which slot. Borrowed. */
    unsigned char *host;
    uint64_t host_bytes;
    uint32_t n_host;
    uint32_t rank, world;
    /* Of a device whose copies this thread makes: while steps come, those to it take one part in
     * so many of the time, those from it four times that. 0: all are made as they are asked for.
     * copy_ns: what one counts for at least (simulation, whose clock stands still meanwhile). */
    uint32_t copy_share;
    uint64_t copy_ns;
    uint64_t slow_ns; /* what gpu.slow adds to a step */
    /* Test hook, asked before each step; may set faults. NULL: none. */
    void (*before_step)(void *self, const struct gpu_plan *plan, struct gpu_faults *faults);
    void *self;
    /* Told when the first of some copies fails: for the memory it is a miss. May be NULL. */
    void (*say)(void *self, const char *sentence);
    void *say_self;
};

/* The state to spawn with gpu_rank_kind; the caller closes it after the runtime has stopped. */
enum status gpu_rank_open(const struct gpu_rank_config *config, struct gpu_rank **out);
void gpu_rank_close(struct gpu_rank *r);
/* Whose steps it takes and whom it answers; once, before any message. */
void gpu_rank_wire(struct gpu_rank *r, act_id_t conductor);

#endif
