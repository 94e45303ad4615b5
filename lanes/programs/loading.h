/* SPDX-License-Identifier: Apache-2.0
 * The line that says, on a terminal, that something long is still on its way: it appears after a
 * while, counts seconds, and is taken away at the end, so that what is quick leaves no trace. A
 * thread of its own writes it, for the work in between never looks up; it lives from begin to end,
 * on the caller's thread both, before and after any worker.
 */
#ifndef LANES_PROGRAMS_LOADING_H
#define LANES_PROGRAMS_LOADING_H

#include <pthread.h>

#include "lanes/engine.h"

struct loading {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool runs, ended;
    int fd;
    uint64_t after_ns;
    char what[200];
};

/* Writes to fd once after_ns have passed, if fd is a terminal. what: a clause without a newline. */
void loading_begin(struct loading *l, int fd, uint64_t after_ns, const char *what);
void loading_end(struct loading *l);

uint64_t loading_now_ns(void);

/* lane_engine_open with such a line on standard error after a second, unless quiet. */
enum status loading_engine(const struct lane_engine_config *config, bool quiet,
                           struct lane_engine **out, struct status_note *note);

#endif
