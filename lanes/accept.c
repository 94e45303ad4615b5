/* SPDX-License-Identifier: Apache-2.0
 * Acceptance: the target's own draws decide, drafts only say which rows were computed in advance.
 */
#include "lanes/accept.h"

static bool accept_is_eos(const struct lane_accept_in *in, uint32_t id) {
    for (uint32_t i = 0; i < in->n_eos; i++)
        if (in->eos[i] == id)
            return true;
    return false;
}

void lane_accept(const struct lane_accept_in *in, struct lane_accept_out *out) {
    *out = (struct lane_accept_out){0};
    for (uint32_t i = 0; i < in->n_draws; i++) {
        if (in->draws[i].finite == 0) {
            out->bad = true;
            return;
        }
        uint32_t id = in->draws[i].token;
        out->n_new++;
        if (accept_is_eos(in, id)) {
            out->eos = true;
            return;
        }
        if (out->n_new == in->new_left) {
            out->full = true;
            return;
        }
        if (i + 1 == in->n_draws || in->drafts[i] != id)
            return;
        out->accepted++;
    }
}

uint32_t lane_draft_adapt(uint32_t now, uint32_t proposed, uint32_t accepted, uint32_t max) {
    if (proposed == 0 || max == 0)
        return now;
    uint32_t next = accepted == proposed ? now + 2 : accepted * 2 < proposed ? now / 2 : now;
    if (next < 1)
        next = 1;
    return next > max ? max : next;
}
