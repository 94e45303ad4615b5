/* SPDX-License-Identifier: Apache-2.0
 * Reading files that are mapped: when somebody cuts such a file, or its disk fails, the reader gets
 * SIGBUS. Work that runs under the guard is left at that point and the caller is told, instead of
 * the process ending. What the work holds then stays held: it must be of a kind that can be
 * abandoned whole. For one thread at a time each; a SIGBUS elsewhere does what it did before.
 */
#ifndef SESSIONS_GUARD_H
#define SESSIONS_GUARD_H

#include <stdbool.h>

/* False: work was left before its end. It must be in another file than its caller's compiler can
 * see through, and must not be left while it allocates. */
bool ses_guard_run(int (*work)(void *self), void *self, int *result);
/* Leaves the work that runs on this thread; there must be some. */
void ses_guard_leave(void);

/* The shared locks that this thread holds are left for good: the next one that it takes would be
 * chained to them else, in files that may be cut. */
void ses_guard_leave_locks(void);

#endif
