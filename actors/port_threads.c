/* SPDX-License-Identifier: Apache-2.0
 * The port on Linux: futex, threads, cores.
 */
#include "actors/port.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PORT_WAKE_ROUNDS = 15 };

uint64_t act_port_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void act_port_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    /* BITSET takes an absolute time on CLOCK_MONOTONIC. Every reason to return early is fine for
     * the callers. */
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_BITSET_PRIVATE, expected,
            deadline_ns == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void act_port_wake(_Atomic uint32_t *word) {
    int saved = errno;
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void act_port_yield(void) {
    sched_yield();
}

uint32_t act_port_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (uint32_t)n : 1;
}

bool act_port_thread_start(pthread_t *thread, void *(*run)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

void act_port_thread_join(pthread_t thread) {
    pthread_join(thread, NULL);
}

/* Two threads pass a number back and forth, both sleeping; a round is two wakes. */
struct port_echo {
    _Atomic uint32_t there, back;
};

static void *port_echo_run(void *arg) {
    struct port_echo *echo = arg;
    for (uint32_t i = 0; i < PORT_WAKE_ROUNDS; i++) {
        /* acquire and release: pair with the stores and loads of the measuring thread */
        while (atomic_load_explicit(&echo->there, memory_order_acquire) == i)
            act_port_wait(&echo->there, i, UINT64_MAX);
        atomic_store_explicit(&echo->back, i + 1, memory_order_release);
        act_port_wake(&echo->back);
    }
    return NULL;
}

static int port_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t port_wake_cost;

static void port_wake_measure(void) {
    struct port_echo echo;
    atomic_init(&echo.there, 0);
    atomic_init(&echo.back, 0);
    pthread_t thread;
    port_wake_cost = 30000; /* a usual value, for a machine where no thread can be started */
    if (!act_port_thread_start(&thread, port_echo_run, &echo))
        return;
    uint64_t round[PORT_WAKE_ROUNDS];
    for (uint32_t i = 0; i < PORT_WAKE_ROUNDS; i++) {
        uint64_t start = act_port_now_ns();
        atomic_store_explicit(&echo.there, i + 1, memory_order_release);
        act_port_wake(&echo.there);
        while (atomic_load_explicit(&echo.back, memory_order_acquire) == i)
            act_port_wait(&echo.back, i, UINT64_MAX);
        round[i] = act_port_now_ns() - start;
    }
    act_port_thread_join(thread);
    qsort(round, PORT_WAKE_ROUNDS, sizeof round[0], port_compare);
    port_wake_cost = round[PORT_WAKE_ROUNDS / 2] / 2;
}

uint64_t act_port_wake_cost_ns(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, port_wake_measure);
    return port_wake_cost;
}
