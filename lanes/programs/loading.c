/* SPDX-License-Identifier: Apache-2.0
 * A line on a terminal while a model loads.
 */
#include "lanes/programs/loading.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "actors/port.h"

static const uint64_t LOADING_AFTER_NS = 1000000000, LOADING_STEP_NS = 500000000;

static void loading_write(const struct loading *l, const char *text) {
    ssize_t n = write(l->fd, text, strlen(text));
    (void)n; /* who reads it no longer is told at the end */
}

uint64_t loading_now_ns(void) {
    return act_port_now_ns();
}

static void *loading_thread(void *self) {
    struct loading *l = self;
    uint64_t begun = loading_now_ns(), next = begun + l->after_ns;
    bool shown = false;
    pthread_mutex_lock(&l->lock);
    while (!l->ended) {
        struct timespec until = {(time_t)(next / 1000000000), (long)(next % 1000000000)};
        pthread_cond_timedwait(&l->over, &l->lock, &until);
        if (l->ended || loading_now_ns() < next)
            continue;
        char line[256];
        snprintf(line, sizeof line, "\r%s, %.1f s\033[K", l->what, (double)(next - begun) / 1e9);
        loading_write(l, line);
        shown = true;
        next += LOADING_STEP_NS;
    }
    pthread_mutex_unlock(&l->lock);
    if (shown)
        loading_write(l, "\r\033[K");
    return NULL;
}

void loading_begin(struct loading *l, int fd, uint64_t after_ns, const char *what) {
    pthread_condattr_t clock;
    sigset_t all, old;
    *l = (struct loading){.fd = fd, .after_ns = after_ns};
    if (isatty(fd) == 0)
        return;
    snprintf(l->what, sizeof l->what, "%s", what);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->over, &clock);
    pthread_condattr_destroy(&clock);
    /* Signals are the program's affair. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    l->runs = pthread_create(&l->thread, NULL, loading_thread, l) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void loading_end(struct loading *l) {
    if (!l->runs)
        return;
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    pthread_cond_signal(&l->over);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->over);
    pthread_mutex_destroy(&l->lock);
    l->runs = false;
}

enum status loading_engine(const struct lane_engine_config *config, bool quiet,
                           struct lane_engine **out, struct status_note *note) {
    struct loading l;
    char what[200];
    const char *path = config->model_path != NULL ? config->model_path : "the model";
    size_t n = strlen(path);
    snprintf(what, sizeof what, "roundhouse: loading %s%s", n > 160 ? "..." : "",
             n > 160 ? path + n - 160 : path);
    loading_begin(&l, quiet ? -1 : STDERR_FILENO, LOADING_AFTER_NS, what);
    enum status s = lane_engine_open(config, out, note);
    loading_end(&l);
    return s;
}
