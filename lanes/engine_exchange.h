/* SPDX-License-Identifier: Apache-2.0
 * Private to lanes/: how the ranks of one process exchange when each has a GPU.
 */
#ifndef LANES_ENGINE_EXCHANGE_H
#define LANES_ENGINE_EXCHANGE_H

#include "fabric/coll_nccl.h"
#include "lanes/engine.h"

/* *out: NCCL, or NULL where the host carries: by AUTO also where there are fewer GPUs than ranks or
 * no NCCL, which is said. Asked for by name it is refused with the reason. gpus: 0 on a CPU. */
enum status lane_exchange_open(const struct lane_engine_config *config, uint32_t gpus,
                               struct fab_coll_nccl **out, struct status_note *note);
/* All devices meet at one time, each on a thread of its own; the first failure's sentence. */
enum status lane_exchange_meet(struct gpu_device *const *devices, uint32_t world,
                               struct status_note *note);

#endif
