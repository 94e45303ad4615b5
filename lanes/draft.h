/* SPDX-License-Identifier: Apache-2.0
 * Prompt lookup: drafts are what followed the last few tokens when they last occurred in prompt or
 * reply (Saxena, "Prompt Lookup Decoding", 2023). A draft is a guess about rows worth computing;
 * it can never change a token.
 */
#ifndef LANES_DRAFT_H
#define LANES_DRAFT_H

#include "lanes/slot.h"

/* Writes at most `max` drafts to ids[n ..) and returns how many; extends the slot's index over
 * ids[0..n). */
uint32_t lane_draft_propose(struct lane_slot *s, uint32_t max);

#endif
