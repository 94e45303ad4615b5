/* SPDX-License-Identifier: Apache-2.0
 * A client of the door.
 */
#include "lanes/door/client.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/door/bounded_close.h"
#include "lanes/door/wire.h"

struct door_client {
    nng_socket socket;
    nng_aio *aio;
    nng_mtx *lock; /* of what follows; nng's threads tell */
    nng_cv *changed;
    bool done;
    uint32_t peers, gone_ms;
    nng_time alone; /* since when there are no peers */
};

enum { RESEND_MS = 2000 };

static void on_done(void *self) {
    struct door_client *c = self;
    nng_mtx_lock(c->lock);
    c->done = true;
    nng_cv_wake(c->changed);
    nng_mtx_unlock(c->lock);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *self) {
    struct door_client *c = self;
    (void)pipe;
    nng_mtx_lock(c->lock);
    c->peers += event == NNG_PIPE_EV_ADD_PRE ? 1u : -1u;
    c->alone = nng_clock();
    nng_cv_wake(c->changed);
    nng_mtx_unlock(c->lock);
}

static void client_free(struct door_client *c) {
    if (c->aio != NULL)
        nng_aio_free(c->aio);
    if (c->changed != NULL)
        nng_cv_free(c->changed);
    if (c->lock != NULL)
        nng_mtx_free(c->lock);
    free(c);
}

static struct door_client *client_new(void) {
    struct door_client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->alone = nng_clock();
    if (nng_mtx_alloc(&c->lock) != 0 || nng_cv_alloc(&c->changed, c->lock) != 0 ||
        nng_aio_alloc(&c->aio, on_done, c) != 0 || nng_req0_open(&c->socket) != 0) {
        client_free(c);
        return NULL;
    }
    return c;
}

enum status door_client_open(const char *url, uint32_t resend_ms, struct door_client **out,
                             struct status_note *note) {
    struct door_client *c = client_new();
    if (c == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a client");
    nng_pipe_notify(c->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, c);
    nng_pipe_notify(c->socket, NNG_PIPE_EV_REM_POST, on_pipe, c);
    nng_socket_set_ms(c->socket, NNG_OPT_REQ_RESENDTIME,
                      (nng_duration)(resend_ms != 0 ? resend_ms : RESEND_MS));
    nng_socket_set_ms(c->socket, NNG_OPT_RECONNMINT, 20);
    nng_socket_set_ms(c->socket, NNG_OPT_RECONNMAXT, 500);
    nng_socket_set_size(c->socket, NNG_OPT_RECVMAXSZ, DOOR_TRANSPORT_MAX);
    int error = nng_dial(c->socket, url, NULL, 0);
    if (error != 0) {
        door_client_close(c);
        return status_say(
            note, error == NNG_EINVAL ? STATUS_BAD_REQUEST : STATUS_NOT_FOUND, "%s: %s", url,
            error == NNG_ECONNREFUSED || error == NNG_ENOENT ? "no server listens there"
                                                             : nng_strerror(error));
    }
    *out = c;
    return STATUS_OK;
}

void door_client_close(struct door_client *c) {
    if (c != NULL && door_socket_close(c->socket)) /* else nng may still call on_pipe */
        client_free(c);
}

void door_client_gone_after(struct door_client *c, uint32_t ms) {
    nng_mtx_lock(c->lock);
    c->gone_ms = ms;
    nng_mtx_unlock(c->lock);
}

static enum status client_failed(int error, const char *what, struct status_note *note) {
    if (error == NNG_ETIMEDOUT)
        return status_say(note, STATUS_TIMEOUT, "no answer from the server in time");
    return status_say(note, STATUS_IO, "%s: %s", what, nng_strerror(error));
}

/* Until what was begun with the aio has ended; false: nobody was there for too long. */
static bool client_wait(struct door_client *c) {
    bool gone = false;
    nng_mtx_lock(c->lock);
    while (!c->done) {
        if (c->peers > 0 || c->gone_ms == 0 || gone) {
            nng_cv_wait(c->changed);
        } else if (nng_clock() < c->alone + c->gone_ms) {
            nng_cv_until(c->changed, c->alone + c->gone_ms);
        } else {
            gone = true;
            nng_mtx_unlock(c->lock);
            nng_aio_cancel(c->aio);
            nng_mtx_lock(c->lock);
        }
    }
    c->done = false;
    nng_mtx_unlock(c->lock);
    return !gone || nng_aio_result(c->aio) == 0;
}

enum status door_client_call(struct door_client *c, const void *message, size_t n,
                             uint32_t timeout_ms, char **reply, size_t *reply_bytes,
                             struct status_note *note) {
    static const char gone[] = "the server has gone: its connection broke and nobody listens there";
    nng_msg *m;
    nng_aio_set_timeout(c->aio, (nng_duration)timeout_ms);
    if (nng_msg_alloc(&m, n) != 0)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a message");
    memcpy(nng_msg_body(m), message, n);
    nng_aio_set_msg(c->aio, m);
    nng_send_aio(c->socket, c->aio);
    bool there = client_wait(c);
    int error = nng_aio_result(c->aio);
    if (error != 0) {
        nng_msg_free(m);
        return there ? client_failed(error, "cannot send", note)
                     : status_say(note, STATUS_GONE, "%s", gone);
    }
    nng_recv_aio(c->socket, c->aio);
    there = client_wait(c);
    error = nng_aio_result(c->aio);
    if (error != 0)
        return there ? client_failed(error, "cannot receive", note)
                     : status_say(note, STATUS_GONE, "%s", gone);
    m = nng_aio_get_msg(c->aio);
    *reply_bytes = nng_msg_len(m);
    *reply = malloc(*reply_bytes + 1);
    if (*reply != NULL) {
        memcpy(*reply, nng_msg_body(m), *reply_bytes);
        (*reply)[*reply_bytes] = 0;
    }
    nng_msg_free(m);
    return *reply != NULL ? STATUS_OK
                          : status_say(note, STATUS_NO_MEMORY, "no memory for an answer");
}
