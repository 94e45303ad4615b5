/* SPDX-License-Identifier: Apache-2.0
 * The conductor: makes several ranks look like one (fabric/protocol.h). It numbers and chains
 * plans, sends them to all ranks, compares what they answer and reports one result, in order. At
 * most two rounds are under way. It runs on a worker and never blocks.
 */
#ifndef FABRIC_CONDUCTOR_H
#define FABRIC_CONDUCTOR_H

#include "fabric/protocol.h"
#include "fabric/votes.h"
#include "gpu/device.h"

struct fab_conductor;
extern const struct act_kind fab_conductor_kind;

struct fab_conductor_config {
    uint32_t world;
    /* A rank that has not answered a plan this long after it could begin is named and the fabric is
     * broken: this and every later run is answered TIMEOUT. 0: never (ranks that compute on the
     * conductor's own thread). */
    uint64_t deadline_ns;
    uint64_t chain_start; /* digest before plan 1 */
    /* Graphs: the device that is asked for the keys of plans (borrowed; only its pure graph_key is
     * called), NULL where plans have none; the settings of all ranks (fab_votes_agree); how long a
     * vote may take, 0: ten seconds. */
    const struct gpu_device *shapes;
    struct gpu_graph_settings graphs;
    uint64_t vote_deadline_ns;
    /* Told in one sentence who was silent about a graph or a plan, and why a plan failed that ends
     * all work or a lane; NULL: nobody listens. On the worker. */
    void (*say)(void *self, const char *text);
    void *self;
};

/* The state to spawn with fab_conductor_kind; the caller closes it after the runtime has stopped.
 */
enum status fab_conductor_open(const struct fab_conductor_config *config,
                               struct fab_conductor **out);
void fab_conductor_close(struct fab_conductor *c);
/* The rank actors, world of them; once, before any message. */
void fab_conductor_wire(struct fab_conductor *c, const act_id_t *ranks);

/* How graphs stand; when the actor does not run. */
const struct fab_votes *fab_conductor_votes(const struct fab_conductor *c);

/* The pure part: what one plan's answers of all ranks mean. Returns the status of the whole and the
 * rank that it is about; note gets the sentence. Severity: OK, AGAIN, ROUND_FAILED and NO_MEMORY,
 * TIMEOUT, DEVICE, DESYNC. */
enum status fab_results_compare(const struct gpu_round *round, uint32_t *rank,
                                struct status_note *note);

#endif
