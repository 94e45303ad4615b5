/* SPDX-License-Identifier: Apache-2.0
 * Messages to and from the conductor, which makes several ranks look like one.
 */
#ifndef FABRIC_PROTOCOL_H
#define FABRIC_PROTOCOL_H

#include "actors/protocol.h"
#include "gpu/plan.h"

/* clang-format off */
/*          name        from       to         answered_by  late means          credit  fields */
#define FAB_PROTOCOL(M)                                                                                                  \
    M(fab, run,        planner,   conductor, ran,         device_stuck,       plan,   struct gpu_round *round;)          \
    M(fab, ran,        conductor, planner,   none,        none,               plan,   struct gpu_round *round;           \
                                                                                      uint32_t status;                   \
                                                                                      uint32_t rank;)                    \
    M(fab, page_freed, memory,    conductor, none,        none,               none,   uint32_t n; uint32_t page[8];)     \
    /* By way of the planner, as page_freed: a page is not wiped after it was written. */                                \
    M(fab, move,       memory,    conductor, gpu_moved,   none,               none,   uint64_t asker; uint32_t page;     \
                                                                                      uint32_t slot;                     \
                                                                                      uint32_t to_device;)
/* clang-format on */

enum { fab_KIND_first = FAB_KIND_FIRST - 1, FAB_PROTOCOL(ACT_GEN_ENUM) fab_KIND_end };
FAB_PROTOCOL(ACT_GEN_STRUCT)

/* run: the plan is laid out and filled; the conductor gives it its number and chained digest, sets
 * world, and sends it to all ranks. ran: all ranks answered; results[0] is the answer; status is
 * OK, or the worst of the ranks', or DESYNC with the rank that differs from rank 0. I1  Numbers
 * have no gap; the digest chains over all earlier plans, voided and failed ones included. I2  ran
 * comes once for each run, in the order of run. I3  No token of a plan leaves before all ranks'
 * plan digests and drawn digests were equal.
 */

#endif
