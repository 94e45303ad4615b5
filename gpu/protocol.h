/* SPDX-License-Identifier: Apache-2.0
 * Messages to and from rank actors.
 */
#ifndef GPU_PROTOCOL_H
#define GPU_PROTOCOL_H

#include "actors/protocol.h"
#include "gpu/plan.h"

/* clang-format off */
/*          name        from       to         answered_by  late means          credit  fields */
#define GPU_PROTOCOL(M)                                                                                                   \
    M(gpu, step,       conductor, rank,      stepped,     device_stuck,       plan,   struct gpu_round *round;)           \
    M(gpu, stepped,    rank,      conductor, none,        none,               plan,   struct gpu_round *round;            \
                                                                                      uint32_t rank;)                     \
    M(gpu, page_freed, conductor, rank,      none,        none,               none,   uint32_t n; uint32_t page[8];)      \
    /* Copies a page to its slot of the rank's host memory, or back. asker: who gets moved; it has GPU_MOVES_MAX under \
     * way at most. */                            \
    M(gpu, move,       conductor, rank,      moved,       none,               moves,  uint64_t asker; uint32_t page;      \
                                                                                      uint32_t slot;                      \
                                                                                      uint32_t to_device;)                \
    M(gpu, moved,      rank,      memory,    none,        none,               moves,  uint32_t slot; uint32_t rank;       \
                                                                                      uint32_t status;)                   \
    M(gpu, graph_vote, rank,      conductor, none,        refused,            none,   uint64_t key;                       \
                                                                                      uint64_t plan;                      \
                                                                                      uint32_t rank;                        \
                                                                                      uint32_t word;)                     \
    M(gpu, graph_drop, conductor, rank,      none,        none,               none,   uint64_t key;)
/* clang-format on */

enum { GPU_MOVES_MAX = 64 };
enum { gpu_KIND_first = GPU_KIND_FIRST - 1, GPU_PROTOCOL(ACT_GEN_ENUM) gpu_KIND_end };
GPU_PROTOCOL(ACT_GEN_STRUCT)

/* Invariants.
 * I1  A rank executes plans in the order of their numbers, each once. (sim: plan_order)
 * I2  A step is answered by exactly one stepped. (sim: terminal)
 * I3  A plan closed ahead of a failed plan is answered AGAIN and wrote no page. (sim: ahead_void)
 * I4  The plan is not written while any rank holds it. (digest recomputed in stepped)
 * I5  A page that is copied out was written by steps that have ended; moved is said when the copy
 *     has ended, and no step that sees the page is planned before. The rank's events say so, not
 *     the order of messages alone. Other steps do not wait for copies.
 * I6  A key's drop comes before any plan that asks for it anew: the conductor sends both. A vote
 *     names the plan whose order it answers; a device answers within step. (sim: graphs)
 * I7  What a rank tells of graphs moves no bit: a vote lost, late or doubled costs speed. (sim)
 */

#endif
