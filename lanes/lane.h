/* SPDX-License-Identifier: Apache-2.0
 * The lane actor: one accepted request, from `accepted` to `ended`. It owns its slot and only
 * receives, decides by the pure functions of accept.h and draft.h, and sends. Runs on the
 * planner's worker.
 */
#ifndef LANES_LANE_H
#define LANES_LANE_H

#include "lanes/slot.h"

/* State: struct lane_slot. */
extern const struct act_kind lane_kind;

#endif
