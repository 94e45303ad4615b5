/* SPDX-License-Identifier: Apache-2.0
 * The exchange of ranks by NCCL (gpu/exchange.h): it moves floats between the
 * devices' memories on their compute streams and adds none, for a library's order of additions is
 * not the tree's. A rank that does not come to the meeting is a TIMEOUT at the deadline, what NCCL
 * reports is a DESYNC, and both are for good. Once ranks have met, a call returns when its work is
 * enqueued: that has no deadline of its own while NCCL connects for the first operations, a plan's
 * deadline stands above it. Who leaves ends the communicator, and with it what it has under way on
 * the device.
 */
#ifndef FABRIC_COLL_NCCL_H
#define FABRIC_COLL_NCCL_H

#include "fabric/nccl.h"
#include "gpu/device.h"

struct fab_coll_nccl;

struct fab_coll_nccl_config {
    const struct fab_nccl *nccl;
    uint32_t world;
    uint64_t deadline_ns;         /* of joining; 0: thirty seconds */
    uint64_t whole_floats;        /* struct gpu_exchange; 0: 262,144 */
    const struct fab_nccl_id *id; /* the communicator's, from rank 0; NULL: made here */
};

enum status fab_coll_nccl_open(const struct fab_coll_nccl_config *config,
                               struct fab_coll_nccl **out, struct status_note *note);
/* When no rank is inside a call; ranks that have not left are ended. */
void fab_coll_nccl_close(struct fab_coll_nccl *n);
/* The exchange of one rank of this process; valid until close. */
const struct gpu_exchange *fab_coll_nccl_rank(struct fab_coll_nccl *n, uint32_t rank);

#endif
