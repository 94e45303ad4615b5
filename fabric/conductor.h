/* SPDX-License-Identifier: Apache-2.0
 * The conductor: makes several ranks look like one (fabric/protocol.h). It numbers and chains
 * plans, sends them to all ranks, compares what they answer and reports one result, in order. At
 * most two rounds are under way. It runs on a worker and never blocks.
 */
#ifndef FABRIC_CONDUCTOR_H
#define FABRIC_CONDUCTOR_H

#include "fabric/protocol.h"

struct fab_conductor;
extern const struct act_kind fab_conductor_kind;

struct fab_conductor_config {
    uint32_t world;
    /* A rank that has not answered a plan this long after it could begin is named and the fabric is
     * broken: this and every later run is answered TIMEOUT. 0: never (ranks that compute on the
     * conductor's own thread). */
    uint64_t deadline_ns;
    uint64_t chain_start; /* digest before plan 1 */
};

/* The state to spawn with fab_conductor_kind; the caller closes it after the runtime has stopped.
 */
enum status fab_conductor_open(const struct fab_conductor_config *config,
                               struct fab_conductor **out);
void fab_conductor_close(struct fab_conductor *c);
/* The rank actors, world of them; once, before any message. */
void fab_conductor_wire(struct fab_conductor *c, const act_id_t *ranks);

/* The pure part: what one plan's answers of all ranks mean. Returns the status of the whole and the
 * rank that it is about; note gets the sentence. Severity: OK, AGAIN, ROUND_FAILED and NO_MEMORY,
 * TIMEOUT, DEVICE, DESYNC. */
enum status fab_results_compare(const struct gpu_round *round, uint32_t *rank,
                                struct status_note *note);

#endif
