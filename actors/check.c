/* SPDX-License-Identifier: Apache-2.0
 * The last words of a failed CHECK.
 */
#include "actors/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "actors/trace.h"

_Thread_local struct check_here check_here;

_Noreturn void check_failed(const char *file, int line, const char *cond) {
    const char *actor = check_here.actor != NULL ? check_here.actor : "none";
    const char *message = check_here.message;
    if (message == NULL)
        message = check_here.kind != 0 ? act_trace_name((uint16_t)check_here.kind) : "none";
    fprintf(stderr, "roundhouse: bug: %s:%d: %s does not hold (actor %s, message %s, plan %llu)\n",
            file, line, cond, actor, message, check_here.plan);
    abort();
}
