/* SPDX-License-Identifier: Apache-2.0
 * What the planner writes into the journal (actors/journal.h), so that an incident can be
 * replayed: requests, what memory gave, plans, what came back, tokens, ends, pages freed. Payloads
 * are little-endian structs as below. Never used for recovery.
 */
#ifndef LANES_JOURNAL_H
#define LANES_JOURNAL_H

#include "actors/journal.h"
#include "lanes/slot.h"

enum lane_record_kind {
    LANE_RECORD_request = 1, /* struct lane_record_request; a new lane */
    LANE_RECORD_prompt,      /* struct lane_record_ids: the prompt's ids, in parts */
    LANE_RECORD_bias,        /* u64 lane, then n_bias of struct krn_bias; only when there are any */
    LANE_RECORD_mask,        /* u64 lane, then the mask's words; only when there is one */
    LANE_RECORD_begin,       /* struct lane_record_begin */
    LANE_RECORD_plan,        /* struct lane_record_plan, then n_seqs of struct lane_record_seq */
    LANE_RECORD_ran,         /* struct lane_record_ran */
    LANE_RECORD_tokens,      /* struct lane_record_ids: new tokens of the reply */
    LANE_RECORD_end,         /* struct lane_record_end */
    LANE_RECORD_freed        /* u32 pages that memory freed */
};

struct lane_record_request {
    uint64_t lane, request, tenant;
    uint32_t flags, priority, n_prompt, new_max, draft_max, n_bias;
    struct krn_sampling sampling;
};
struct lane_record_ids {
    uint64_t lane;
    uint32_t first, n; /* ids[first .. first + n) of the lane follow */
};
struct lane_record_begin {
    uint64_t lane;
    uint32_t matched, reason;
};
struct lane_record_plan {
    uint64_t index; /* plans closed before */
    uint32_t flags, n_seqs;
};
struct lane_record_seq {
    uint64_t lane;
    uint32_t first_pos, n_rows, n_draws, reserved;
};
struct lane_record_ran {
    uint64_t number, digest, drawn_digest;
    uint32_t status, reserved;
};
struct lane_record_end {
    uint64_t lane;
    uint32_t end, status, n_new, n_rows;
};

enum { LANE_RECORD_IDS = 1 << 16 }; /* ids a record at most */

/* All do nothing when j is NULL and never fail: a full disk loses records and says so
 * (actors/journal.h). */
void lane_journal_request(struct journal *j, uint64_t now, const struct lane_slot *s);
void lane_journal_ids(struct journal *j, uint64_t now, enum lane_record_kind kind,
                      const struct lane_slot *s, uint32_t first, uint32_t n);
void lane_journal_put(struct journal *j, uint64_t now, enum lane_record_kind kind,
                      const void *payload, size_t bytes);

#endif
