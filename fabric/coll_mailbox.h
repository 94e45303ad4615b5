/* SPDX-License-Identifier: Apache-2.0
 * A collective for ranks that share memory: each rank has two slots that it alone writes, and flag
 * lines with an epoch. Ranks add in the tree's order (fabric/tree.h), so the bits are those of one
 * rank. A flag line carries operation, size and exchange number: ranks that are not at the same
 * place are named at once (DESYNC), an absent one at the deadline (TIMEOUT). The first failure is
 * for good. Each rank's calls come from one thread at a time; they spin, then yield.
 */
#ifndef FABRIC_COLL_MAILBOX_H
#define FABRIC_COLL_MAILBOX_H

#include "gpu/device.h"

struct fab_mailbox;

struct fab_mailbox_config {
    uint32_t world;       /* a power of two up to GPU_WORLD_MAX */
    uint32_t slot_floats; /* larger operations go in pieces; 0: 65,536 */
    uint64_t deadline_ns; /* of one exchange; 0: ten seconds */
};

enum status fab_mailbox_open(const struct fab_mailbox_config *config, struct fab_mailbox **out,
                             struct status_note *note);
/* When no rank is inside a call. */
void fab_mailbox_close(struct fab_mailbox *m);
/* The collective of one rank; valid until close. */
const struct gpu_collective *fab_mailbox_rank(struct fab_mailbox *m, uint32_t rank);

#endif
