/* SPDX-License-Identifier: Apache-2.0
 * What a client asks for. The client owns the struct and all it points to, unchanged until accepted
 * or refused arrives; the engine copies what it needs.
 */
#ifndef LANES_REQUEST_H
#define LANES_REQUEST_H

#include "kernels/rowfn.h"
#include "lanes/protocol.h"

enum {
    LANE_STOPS_MAX = 16,
    LANE_STOP_BYTES_MAX = 128,
    LANE_BIAS_MAX = 300,
    LANE_DRAFT_MAX = 16,
    LANE_MASK_NONE = 0
};

enum lane_request_flags {
    LANE_IGNORE_EOS = 1,
    LANE_NO_REUSE = 2,      /* compute every row, take nothing from memory */
    LANE_NO_KEEP = 4,       /* leave nothing in memory */
    LANE_NO_TEXT = 8,       /* token ids only; no detokenising, no stop strings */
    LANE_FIRST_LOGITS = 16, /* deliver the fp32 row that drew the first token (message logits) */
    LANE_SHOW_SPECIAL = 32  /* special tokens appear in the text */
};

struct lane_stop {
    uint32_t bytes;
    char text[LANE_STOP_BYTES_MAX];
};

struct lane_request {
    /* chosen by the client, unique among its live requests; echoed in every message */
    uint64_t id;
    act_id_t client; /* receives the messages to: client of lanes/protocol.h */
    uint64_t tenant; /* sessions are shared within a tenant only */
    const uint32_t *prompt;
    uint32_t n_prompt;
    uint64_t max_tokens;  /* new tokens; 0 is refused; cut to the context */
    uint64_t deadline_ns; /* relative, 0: none; TIMEOUT when it passes in the queue or the lane */
    uint32_t flags;
    uint32_t priority;  /* 0 normal; larger goes first, ageing bounds how long others wait */
    uint32_t draft_max; /* 0 .. LANE_DRAFT_MAX; 0: no drafts */
    bool draft_fixed;   /* always propose draft_max; else adaptive */
    struct krn_sampling sampling;
    const struct krn_bias *bias;
    uint32_t n_bias;
    const uint32_t *mask; /* vocab bits, 1 = allowed; NULL: none. Constant for the request */
    /* vocab floats of the client's, with LANE_FIRST_LOGITS; filled when message logits comes */
    float *first_logits;
    const struct lane_stop *stops;
    uint32_t n_stops;
};

#endif
