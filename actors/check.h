/* SPDX-License-Identifier: Apache-2.0
 * CHECK(cond): our own bug. Aborts with file, line, and what the thread was doing (actor, message,
 * plan); on in release builds. Never used for bad input or a failed device.
 */
#ifndef ACTORS_CHECK_H
#define ACTORS_CHECK_H

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            check_failed(__FILE__, __LINE__, #cond);                                               \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *cond);

/* What this thread is doing, for check_failed. Names must outlive the call (string literals). */
struct check_here {
    const char *actor;   /* NULL: none */
    const char *message; /* NULL: the name of kind */
    unsigned kind;       /* 0: none */
    unsigned long long plan;
};
extern _Thread_local struct check_here check_here;

static inline void check_context(const char *actor, const char *message) {
    check_here.actor = actor;
    check_here.message = message;
}
static inline void check_context_plan(unsigned long long plan) {
    check_here.plan = plan;
}

#endif
