/* SPDX-License-Identifier: Apache-2.0
 * Whether a request is valid at all: a pure function, asked before anything is promised.
 */
#ifndef LANES_ADMIT_H
#define LANES_ADMIT_H

#include "lanes/slot.h"

struct lane_admit_limits {
    uint32_t context, vocab;
    uint32_t page_tokens, pages_total;
    bool has_tokenizer;
};

struct lane_refusal {
    enum status status;
    uint64_t value, limit; /* what was asked and what is possible; 0 when there is no number */
};

/* OK, or why the request is refused. */
struct lane_refusal lane_admit_check(const struct lane_request *r,
                                     const struct lane_admit_limits *limits);

/* Sentence for a refusal, for people. */
void lane_refusal_say(const struct lane_refusal *r, struct status_note *note);

#endif
