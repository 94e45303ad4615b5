/* SPDX-License-Identifier: Apache-2.0
 * The planner actor: the queue, the lanes' wants, and the next round. It asks memory for pages,
 * the policy for sizes and order, and the conductor to run; it holds no tokens of its own and
 * never touches a device.
 */
#ifndef LANES_PLANNER_H
#define LANES_PLANNER_H

#include "fabric/protocol.h"
#include "lanes/admit.h"
#include "lanes/engine.h"
#include "lanes/planner_policy.h"
#include "sessions/protocol.h"

struct journal;
struct lane_planner;
extern const struct act_kind lane_planner_kind;

struct lane_planner_config {
    struct lane_shared *shared; /* planner is filled in by lane_planner_wire */
    struct lane_admit_limits limits;
    struct gpu_limits plan_limits;
    uint32_t lanes_max, queue_max, slots_max; /* slots_max = lanes_max + queue_max */
    uint32_t pages_per_slot;
    uint32_t round_tokens, piece_tokens, prefill_share;
    uint64_t piece_ns; /* a prompt piece is cut so that it takes about this long at most */
    uint32_t world;
    bool ahead, no_reuse;
    struct lane_policy policy;
    struct journal *journal; /* NULL: none; the engine's, written by the planner alone */
    void (*say)(void *self, const char *text); /* as the engine's; NULL: nobody */
    void *say_self;
};

enum status lane_planner_open(const struct lane_planner_config *config, struct lane_planner **out,
                              struct status_note *note);
void lane_planner_close(struct lane_planner *p);
/* Page tables [slots_max][pages_per_slot] that memory fills; known before memory is opened. */
uint32_t *lane_planner_tables(struct lane_planner *p);
void lane_planner_wire(struct lane_planner *p, act_id_t self, act_id_t memory, act_id_t conductor);

/* For whoever runs on the planner's worker, or after the runtime stopped. */
const struct lane_counters *lane_planner_counters(const struct lane_planner *p);
uint32_t lane_planner_host_samples(const struct lane_planner *p, uint32_t lanes, uint64_t *ns,
                                   uint32_t n);
/* STATUS_OK, or the sticky failure that ended all work. */
enum status lane_planner_dead(const struct lane_planner *p);

#endif
