/* SPDX-License-Identifier: Apache-2.0
 * Somebody who lists, reads, pins, forgets and carries sessions while the scenario runs: whatever
 * is asked, at whatever moment, no token of a request may change by it.
 */
#ifndef TESTS_SIM_VISITOR_H
#define TESTS_SIM_VISITOR_H

#include "sessions/export.h"
#include "sessions/query.h"

enum { VISITOR_FILE_MAX = 256 << 10 };

struct visitor {
    uint64_t rng;
    act_id_t memory;
    bool leave;  /* asks nothing more */
    bool asking; /* a question is under way */
    uint32_t steps;
    struct ses_query query;
    struct ses_name name;
    uint64_t size, at; /* of the file that is being read or sent */
    bool reading, sending, whole;
    uint64_t import; /* number of the import */
    unsigned char file[VISITOR_FILE_MAX];
    uint64_t exported, imported, forgotten, pinned; /* that went well */
    const char *wrong;                              /* NULL: nothing */
};

extern const struct act_kind visitor_kind;

#endif
