/* SPDX-License-Identifier: Apache-2.0
 * The handler of SIGBUS, and the way out that each thread has.
 */
#include "sessions/guard.h"

#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "actors/check.h"

static _Thread_local sigjmp_buf *way_out; /* NULL: nothing runs under the guard */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;

/* The signal comes from the instruction that reads, so the thread is the reader's own. One that was
 * sent from outside, or tells of memory that nobody read yet, may come while the work allocates. */
static void on_bus_error(int signal, siginfo_t *info, void *context) {
    (void)context;
    bool here = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
    if (here && way_out != NULL)
        siglongjmp(*way_out, 1);
    sigaction(signal, &before, NULL); /* and the instruction is tried again */
    if (!here)
        raise(signal);
}

static void install(void) {
    struct sigaction act = {.sa_sigaction = on_bus_error, .sa_flags = SA_NODEFER | SA_SIGINFO};
    sigemptyset(&act.sa_mask);
    CHECK(sigaction(SIGBUS, &act, &before) == 0);
}

bool ses_guard_run(int (*work)(void *self), void *self, int *result) {
    sigjmp_buf here;
    CHECK(way_out == NULL && pthread_once(&once, install) == 0);
    if (sigsetjmp(here, 0) != 0) { /* no mask to restore: SA_NODEFER */
        way_out = NULL;
        return false;
    }
    way_out = &here;
    *result = work(self);
    way_out = NULL;
    return true;
}

void ses_guard_leave(void) {
    CHECK(way_out != NULL);
    siglongjmp(*way_out, 1);
}

/* The list that the kernel goes through when a thread ends; it is empty when it names itself. */
void ses_guard_leave_locks(void) {
    struct robust_list_head *head = NULL;
    size_t bytes = 0;
    if (syscall(SYS_get_robust_list, 0, &head, &bytes) != 0 || head == NULL)
        return;
    head->list_op_pending = NULL;
    head->list.next = &head->list;
}
