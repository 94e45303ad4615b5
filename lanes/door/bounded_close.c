/* SPDX-License-Identifier: Apache-2.0
 * nng_close on a thread that nobody must wait for.
 */
#include "lanes/door/bounded_close.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { CLOSE_SECONDS = 2 };

/* Freed by whoever of the two is last. */
struct closing {
    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    nng_socket socket;
    bool done, left;
};

static void closing_free(struct closing *c) {
    pthread_cond_destroy(&c->done_cond);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void *closing_run(void *arg) {
    struct closing *c = arg;
    nng_close(c->socket);
    pthread_mutex_lock(&c->lock);
    c->done = true;
    bool left = c->left;
    pthread_cond_signal(&c->done_cond);
    pthread_mutex_unlock(&c->lock);
    if (left)
        closing_free(c);
    return NULL;
}

bool door_socket_close(nng_socket socket) {
    struct closing *c = calloc(1, sizeof *c);
    pthread_t thread;
    if (c == NULL) {
        nng_close(socket);
        return true;
    }
    c->socket = socket;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->done_cond, NULL);
    if (pthread_create(&thread, NULL, closing_run, c) != 0) {
        closing_free(c);
        nng_close(socket);
        return true;
    }
    pthread_detach(thread);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_SECONDS;
    pthread_mutex_lock(&c->lock);
    while (!c->done && pthread_cond_timedwait(&c->done_cond, &c->lock, &until) == 0)
        ;
    bool done = c->done;
    c->left = !done;
    pthread_mutex_unlock(&c->lock);
    if (done)
        closing_free(c);
    return done;
}
