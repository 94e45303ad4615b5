/* SPDX-License-Identifier: Apache-2.0
 * A client of the door.
 */
#include "lanes/door/client.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/door/bounded_close.h"
#include "lanes/door/wire.h"

struct door_client {
    nng_socket socket;
};

enum { RESEND_MS = 2000 };

enum status door_client_open(const char *url, uint32_t resend_ms, struct door_client **out,
                             struct status_note *note) {
    struct door_client *c = calloc(1, sizeof *c);
    if (c == NULL || nng_req0_open(&c->socket) != 0) {
        free(c);
        return status_say(note, STATUS_NO_MEMORY, "no memory for a client");
    }
    nng_socket_set_ms(c->socket, NNG_OPT_REQ_RESENDTIME,
                      (nng_duration)(resend_ms != 0 ? resend_ms : RESEND_MS));
    nng_socket_set_ms(c->socket, NNG_OPT_RECONNMINT, 20);
    nng_socket_set_ms(c->socket, NNG_OPT_RECONNMAXT, 500);
    nng_socket_set_size(c->socket, NNG_OPT_RECVMAXSZ, DOOR_TRANSPORT_MAX);
    int error = nng_dial(c->socket, url, NULL, 0);
    if (error != 0) {
        door_socket_close(c->socket);
        free(c);
        return status_say(
            note, error == NNG_EINVAL ? STATUS_BAD_REQUEST : STATUS_NOT_FOUND, "%s: %s", url,
            error == NNG_ECONNREFUSED || error == NNG_ENOENT ? "no server listens there"
                                                             : nng_strerror(error));
    }
    *out = c;
    return STATUS_OK;
}

void door_client_close(struct door_client *c) {
    if (c == NULL)
        return;
    door_socket_close(c->socket);
    free(c);
}

static enum status client_failed(int error, const char *what, struct status_note *note) {
    if (error == NNG_ETIMEDOUT)
        return status_say(note, STATUS_TIMEOUT, "no answer from the server in time");
    return status_say(note, STATUS_IO, "%s: %s", what, nng_strerror(error));
}

enum status door_client_call(struct door_client *c, const void *message, size_t n,
                             uint32_t timeout_ms, char **reply, size_t *reply_bytes,
                             struct status_note *note) {
    nng_msg *m;
    nng_socket_set_ms(c->socket, NNG_OPT_SENDTIMEO, (nng_duration)timeout_ms);
    nng_socket_set_ms(c->socket, NNG_OPT_RECVTIMEO, (nng_duration)timeout_ms);
    if (nng_msg_alloc(&m, 0) != 0)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a message");
    int error = nng_msg_append(m, message, n);
    if (error == 0)
        error = nng_sendmsg(c->socket, m, 0);
    if (error != 0) {
        nng_msg_free(m);
        return client_failed(error, "cannot send", note);
    }
    error = nng_recvmsg(c->socket, &m, 0);
    if (error != 0)
        return client_failed(error, "cannot receive", note);
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
