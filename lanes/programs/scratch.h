/* SPDX-License-Identifier: Apache-2.0
 * A directory that a program fills while it runs and nobody wants afterwards. It is removed at the
 * end, and also when the program is interrupted or killed: a small process of its own sees that.
 */
#ifndef LANES_PROGRAMS_SCRATCH_H
#define LANES_PROGRAMS_SCRATCH_H

#include <sys/types.h>

#include "actors/status.h"

enum { SCRATCH_PATH = 4096 };

struct scratch {
    char folder[SCRATCH_PATH]; /* empty: none */
    pid_t keeper;              /* 0: none */
    int pipe;
};

/* In base, which is made too when it is not there. what: a part of its name. */
enum status scratch_make(struct scratch *s, const char *base, const char *what,
                         struct status_note *note);
/* Nothing may use it any more. */
void scratch_remove(struct scratch *s);

#endif
