/* SPDX-License-Identifier: Apache-2.0
 * What the runtime needs from the operating system: a clock, a futex, threads, the number of cores.
 * The simulation needs none of it. Only port_threads.c calls the system.
 */
#ifndef ACTORS_PORT_H
#define ACTORS_PORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
uint64_t act_port_now_ns(void);
/* Sleeps while *word == expected, at most until deadline_ns (UINT64_MAX: no deadline). May return
 * early. */
void act_port_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);
/* Wakes the one that sleeps on word. Async-signal-safe. */
void act_port_wake(_Atomic uint32_t *word);
/* Lets whoever wants this core have it for a moment; cheap when nobody does. */
void act_port_yield(void);
/* Cores that this process may use; at least 1. */
uint32_t act_port_cores(void);
/* What one wake of a sleeping thread costs here, ns; measured at the first call, then remembered.
 */
uint64_t act_port_wake_cost_ns(void);
/* Starts a thread with all signals blocked. */
bool act_port_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void act_port_thread_join(pthread_t thread);

#endif
