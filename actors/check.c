/* SPDX-License-Identifier: Apache-2.0
 * The last words of a failed CHECK.
 */
#include "actors/check.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local const char *context_actor = "none";
static _Thread_local const char *context_message = "none";
static _Thread_local unsigned long long context_plan;

void check_context(const char *actor, const char *message) {
    context_actor = actor;
    context_message = message;
}

void check_context_plan(unsigned long long plan) {
    context_plan = plan;
}

_Noreturn void check_failed(const char *file, int line, const char *cond) {
    fprintf(stderr, "roundhouse: bug: %s:%d: %s does not hold (actor %s, message %s, plan %llu)\n",
            file, line, cond, context_actor, context_message, context_plan);
    abort();
}
