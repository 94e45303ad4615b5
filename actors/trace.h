/* SPDX-License-Identifier: Apache-2.0
 * Names of messages, for the last words of a failed CHECK and for printed traces. A folder
 * registers its table once at start, before any runtime runs; without it a message has the name of
 * its number's range.
 */
#ifndef ACTORS_TRACE_H
#define ACTORS_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "actors/protocol.h"

/* rows[i] belongs to kind first + i: ACT_TRACE_REGISTER(LANE_PROTOCOL, lane). rows must stay. Not
 * while running. */
void act_trace_register(uint16_t first, const struct act_protocol_row *rows, uint32_t n);
#define ACT_TRACE_REGISTER(TABLE, p)                                                               \
    do {                                                                                           \
        static const struct act_protocol_row act_rows_[] = {TABLE(ACT_GEN_NAME)};                  \
        act_trace_register(p##_KIND_first + 1, act_rows_, sizeof act_rows_ / sizeof act_rows_[0]); \
    } while (0)

/* Never NULL. */
const char *act_trace_name(uint16_t kind);

/* SIM: from now on prints a line a delivery (virtual time, receiver, kind, sender); NULL ends it.
 */
void act_sim_trace_print(struct act_rt *rt, FILE *out);

#endif
