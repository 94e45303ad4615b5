/* SPDX-License-Identifier: Apache-2.0
 * The door over nng: one raw rep socket with all listeners, one receive and one send under way, and
 * the self-probe. The callbacks of nng's threads only post; everything else happens in the door's
 * actor, except that the probe's actor, on a thread of its own, may close and reopen a listener.
 */
#include "lanes/door/bounded_close.h"
#include "lanes/door/door.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actors/check.h"
#include "lanes/door/selfprobe.h"

enum {
    OUT_MAX = 64,     /* answers made and not yet sent; nothing is received while it is full */
    PIPE_SLOTS = 256, /* connections told apart by the pacing */
    PIPE_BURST = 24,  /* nng drops what exceeds 64 under way on one connection */
    PACE_NS = 4000000,
    FLUSH_NS = 100000000, /* from nng's queue to the wire, before the program may end */
    RETRY_NS = 100000000,
    PROBE_BACKOFF_MAX = 32
};
enum { COOKIE_PACE = 100, COOKIE_LINGER, COOKIE_FLUSH, COOKIE_RECEIVE, COOKIE_PROBE };

struct listener {
    struct door_address address;
    nng_listener nng;
};

struct door {
    struct door_config config;
    struct door_desk desk;
    act_id_t self, probe;
    nng_socket socket;
    nng_aio *receive, *send;
    bool socket_open, receiving, sending, receive_waits;
    struct listener listeners[DOOR_LISTENERS_MAX];
    uint32_t n_listeners;
    nng_msg *out[OUT_MAX]; /* ring of answers that were made at once */
    uint32_t out_first, out_n;
    uint16_t burst[PIPE_SLOTS]; /* answers sent since burst_ns, less calls received */
    uint64_t burst_ns;
    bool paced; /* every ready answer goes to a connection that has enough under way */
    bool leaving, halted, closing, closed;
    /* The probe's actor only: */
    uint32_t probe_backoff;
};

ACT_HANDLER(door, door, door, received);
ACT_HANDLER(door, door, door, sent);
ACT_HANDLER(door, door, door, probed);
ACT_HANDLER(door, door, door, leave);
ACT_HANDLER(door, door, door, halt);

/* ---- nng's threads ---- */

static void on_received(void *arg) {
    struct door *d = arg;
    struct door_received m = {.error = nng_aio_result(d->receive)};
    act_post(d->config.rt, d->self, door_KIND_received, &m, sizeof m);
}

static void on_sent(void *arg) {
    struct door *d = arg;
    struct door_sent m = {.error = nng_aio_result(d->send)};
    act_post(d->config.rt, d->self, door_KIND_sent, &m, sizeof m);
}

/* ---- in ---- */

static void receive_more(struct door *d) {
    if (d->receiving || d->receive_waits || d->closed || d->out_n == OUT_MAX ||
        !door_desk_may_receive(&d->desk))
        return;
    d->receiving = true;
    nng_recv_aio(d->socket, d->receive);
}

/* The first four bytes of the return address name the connection. */
static uint16_t *burst_of(struct door *d, const unsigned char *header) {
    uint32_t pipe;
    memcpy(&pipe, header, sizeof pipe);
    return &d->burst[(pipe * 2654435761u) >> 24];
}
_Static_assert(PIPE_SLOTS == 256, "burst_of takes eight bits");

/* A client that asks again has read an answer: its connection may have one more under way. */
static void burst_less(struct door *d, const struct door_header *from) {
    uint16_t *burst = burst_of(d, from->bytes);
    if (*burst == PIPE_BURST)
        d->paced = false;
    if (*burst > 0)
        --*burst;
}

/* The answer in desk.out as a message to that address, or NULL. */
static nng_msg *message_of(struct door *d, const struct door_header *to) {
    nng_msg *m;
    if (nng_msg_alloc(&m, 0) != 0)
        return NULL;
    if (nng_msg_header_append(m, to->bytes, to->n) != 0 ||
        nng_msg_append(m, d->desk.out.buf, d->desk.out.n) != 0) {
        nng_msg_free(m);
        return NULL;
    }
    return m;
}

void door_on_received(struct act_ctx *ctx, struct door *d, act_id_t from,
                      const struct door_received *m) {
    (void)from;
    d->receiving = false;
    if (m->error == NNG_ECLOSED)
        return;
    if (m->error != 0) { /* out of memory, say: try again, but not at once */
        d->receive_waits = true;
        act_timer_arm(ctx, RETRY_NS, COOKIE_RECEIVE);
        return;
    }
    nng_msg *msg = nng_aio_get_msg(d->receive);
    nng_aio_set_msg(d->receive, NULL);
    struct door_header to = {.n = (uint32_t)nng_msg_header_len(msg)};
    if (to.n >= sizeof(uint32_t) && to.n <= sizeof to.bytes) {
        memcpy(to.bytes, nng_msg_header(msg), to.n);
        burst_less(d, &to);
        if (door_desk_receive(&d->desk, ctx, &to, nng_msg_body(msg), nng_msg_len(msg))) {
            nng_msg *reply = message_of(d, &to);
            if (reply != NULL) /* else the client asks again */
                d->out[(d->out_first + d->out_n++) % OUT_MAX] = reply;
        }
    }
    nng_msg_free(msg);
}

/* ---- out ---- */

static void send_one(struct door *d, nng_msg *m) {
    ++*burst_of(d, nng_msg_header(m));
    nng_aio_set_msg(d->send, m);
    d->sending = true;
    nng_send_aio(d->socket, d->send);
}

/* The oldest ready answer whose connection may take one more, in front; false when there is
 * none. */
static bool find_unpaced(struct door *d, struct act_ctx *ctx) {
    for (uint32_t i = d->desk.waits.ready.n; i > 0; i--) {
        if (*burst_of(d, door_desk_ready(&d->desk)->bytes) < PIPE_BURST)
            return true;
        door_desk_later(&d->desk);
    }
    d->paced = true;
    act_timer_arm(ctx, PACE_NS, COOKIE_PACE);
    return false;
}

static void send_more(struct door *d, struct act_ctx *ctx) {
    uint64_t now = act_now_ns(ctx);
    if (now - d->burst_ns >= PACE_NS) {
        memset(d->burst, 0, sizeof d->burst);
        d->burst_ns = now;
    }
    while (!d->sending) {
        if (d->out_n > 0) {
            nng_msg *m = d->out[d->out_first];
            d->out_first = (d->out_first + 1) % OUT_MAX;
            d->out_n--;
            send_one(d, m);
        } else if (door_desk_ready(&d->desk) != NULL && !d->paced && find_unpaced(d, ctx)) {
            struct door_header to = *door_desk_ready(&d->desk);
            door_desk_answer(&d->desk, ctx);
            nng_msg *m = message_of(d, &to);
            if (m != NULL)
                send_one(d, m);
        } else {
            return;
        }
    }
}

void door_on_sent(struct act_ctx *ctx, struct door *d, act_id_t from, const struct door_sent *m) {
    (void)ctx;
    (void)from;
    d->sending = false;
    if (m->error != 0) { /* refused by nng: the message is ours again, its client asks again */
        nng_msg_free(nng_aio_get_msg(d->send));
        nng_aio_set_msg(d->send, NULL);
    }
}

/* ---- leaving ---- */

static void close_soon(struct door *d, struct act_ctx *ctx) {
    if (d->closing)
        return;
    d->closing = true;
    act_timer_arm(ctx, FLUSH_NS, COOKIE_FLUSH);
}

/* Called when the mailbox is empty: has the time come to end? */
static void leave_check(struct door *d, struct act_ctx *ctx) {
    if (d->desk.fatal != STATUS_OK && !d->leaving) {
        d->desk.draining = true;
        d->leaving = true;
        act_timer_arm(ctx, d->config.linger_ns, COOKIE_LINGER);
    }
    if (d->desk.drained && !d->leaving) {
        d->leaving = true;
        act_timer_arm(ctx, d->config.linger_ns, COOKIE_LINGER);
    }
    if (d->leaving && d->out_n == 0 && !d->sending && door_desk_all_read(&d->desk))
        close_soon(d, ctx);
}

void door_on_leave(struct act_ctx *ctx, struct door *d, act_id_t from, const struct door_leave *m) {
    (void)from;
    door_desk_drain(&d->desk, ctx, m->deadline_ns);
}

void door_on_halt(struct act_ctx *ctx, struct door *d, act_id_t from, const struct door_halt *m) {
    (void)from;
    (void)m;
    d->halted = true;
    door_desk_abandon(&d->desk, ctx);
    close_soon(d, ctx);
}

static void say_closed(struct door *d, struct act_ctx *ctx) {
    enum status s = d->halted                    ? STATUS_SHUTDOWN
                    : d->desk.fatal != STATUS_OK ? d->desk.fatal
                                                 : STATUS_OK;
    if (d->closed)
        return;
    d->closed = true; /* keeps I4 */
    if (d->config.owner != 0)
        ACT_SEND(ctx, d->config.owner, door, closed, .status = s,
                 .cancelled = d->desk.drain_cancelled);
}

/* ---- the actor ---- */

void door_on_probed(struct act_ctx *ctx, struct door *d, act_id_t from,
                    const struct door_probed *m) {
    (void)ctx;
    (void)from;
    d->desk.probes++;
    d->desk.healed += m->healed;
}

static void door_timer(struct door *d, struct act_ctx *ctx, const struct act_msg *msg) {
    struct act_timer_msg t;
    memcpy(&t, msg->body, sizeof t);
    if (t.cookie == COOKIE_PACE)
        d->paced = false;
    else if (t.cookie == COOKIE_RECEIVE)
        d->receive_waits = false;
    else if (t.cookie == COOKIE_LINGER)
        close_soon(d, ctx);
    else if (t.cookie == COOKIE_FLUSH)
        say_closed(d, ctx);
}

static void door_receive(struct act_ctx *ctx, void *arg, const struct act_msg *msg) {
    struct door *d = arg, *state = d;
    if (door_desk_message(&d->desk, ctx, msg))
        return;
    switch (msg->kind) {
        ACT_CASE(door, door, received)
        ACT_CASE(door, door, sent)
        ACT_CASE(door, door, probed)
        ACT_CASE(door, door, leave)
        ACT_CASE(door, door, halt)
    case ACT_KIND_timer:
        door_timer(d, ctx, msg);
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default: /* start */
        break;
    }
}

/* After a batch: several tokens that arrived together leave in one answer. */
static void door_batch_end(struct act_ctx *ctx, void *arg) {
    struct door *d = arg;
    send_more(d, ctx);
    receive_more(d);
    leave_check(d, ctx);
}

static const struct act_kind door_kind = {
    .name = "door", .receive = door_receive, .batch_end = door_batch_end};

/* ---- listeners and their probe ---- */

static int listener_start(struct door *d, struct listener *l) {
    int error = nng_listener_create(&l->nng, d->socket, l->address.url);
    if (error != 0)
        return error;
    error = nng_listener_set_size(l->nng, NNG_OPT_RECVMAXSZ, DOOR_TRANSPORT_MAX);
    if (error == 0 && l->address.path[0] != 0)
        error = nng_listener_set_int(l->nng, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (error == 0)
        error = nng_listener_start(l->nng, 0);
    if (error != 0)
        nng_listener_close(l->nng);
    return error;
}

/* Probes every ipc listener. Beside one that does not answer a new one is opened on the same
 * path, and who was left without service is hung up on. The dead one stays open until the socket
 * closes: closing it can leave nng's only cleaning thread waiting for ever. It costs a few file
 * descriptors a time. */
static void probe_all(struct door *d, struct act_ctx *ctx) {
    bool failed = false;
    for (uint32_t i = 0; i < d->n_listeners; i++) {
        struct listener *l = &d->listeners[i];
        if (l->address.path[0] == 0)
            continue;
        uint32_t healed = 0;
        if (!door_probe_ipc(l->address.path, d->config.probe_deadline_ms)) {
            failed = true;
            unlink(l->address.path);
            door_probe_hang_up(l->address.path);
            healed = listener_start(d, l) == 0;
        }
        ACT_SEND(ctx, d->self, door, probed, .listener = i, .healed = healed);
    }
    /* A worker that is busy for long fails probes too; opening again every time would help
     * nobody. */
    d->probe_backoff = !failed                                ? 1
                       : d->probe_backoff < PROBE_BACKOFF_MAX ? d->probe_backoff * 2
                                                              : PROBE_BACKOFF_MAX;
}

static void probe_receive(struct act_ctx *ctx, void *arg, const struct act_msg *msg) {
    struct door *d = arg;
    if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
        return;
    }
    if (msg->kind == ACT_KIND_timer)
        probe_all(d, ctx);
    else if (msg->kind != ACT_KIND_start)
        return;
    act_timer_arm(ctx, d->config.probe_ns * d->probe_backoff, COOKIE_PROBE);
}

static const struct act_kind probe_kind = {.name = "door probe", .receive = probe_receive};

/* ---- life ---- */

static enum status listen_all(struct door *d, struct status_note *note) {
    if (d->config.n_urls == 0 || d->config.n_urls > DOOR_LISTENERS_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "a door has 1 to %d addresses, not %u",
                          DOOR_LISTENERS_MAX, d->config.n_urls);
    for (uint32_t i = 0; i < d->config.n_urls; i++) {
        struct listener *l = &d->listeners[i];
        TRY(door_address_parse(d->config.urls[i], &l->address, note));
        TRY(door_address_lock(&l->address, note));
        d->n_listeners = i + 1;
        int error = listener_start(d, l), port = 0;
        if (error != 0)
            return status_say(note, STATUS_IO, "%s: cannot listen: %s", l->address.url,
                              nng_strerror(error));
        char *colon = strrchr(l->address.url, ':');
        if (l->address.path[0] == 0 && strcmp(colon, ":0") == 0 &&
            nng_listener_get_int(l->nng, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
            snprintf(colon, sizeof l->address.url - (size_t)(colon - l->address.url), ":%d", port);
    }
    return STATUS_OK;
}

static enum status socket_open(struct door *d, struct status_note *note) {
    int error = nng_rep0_open_raw(&d->socket);
    d->socket_open = error == 0;
    if (error == 0)
        error = nng_socket_set_size(d->socket, NNG_OPT_RECVMAXSZ, DOOR_TRANSPORT_MAX);
    if (error == 0)
        error = nng_aio_alloc(&d->receive, on_received, d);
    if (error == 0)
        error = nng_aio_alloc(&d->send, on_sent, d);
    return error == 0
               ? STATUS_OK
               : status_say(note, STATUS_NO_MEMORY, "the door's socket: %s", nng_strerror(error));
}

enum status door_open(const struct door_config *config, struct door **out,
                      struct status_note *note) {
    struct door *d = calloc(1, sizeof *d);
    if (d == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a door");
    d->config = *config;
    d->probe_backoff = 1;
    for (uint32_t i = 0; i < DOOR_LISTENERS_MAX; i++)
        d->listeners[i].address.lock = -1;
    if (d->config.probe_ns == 0)
        d->config.probe_ns = 2000000000;
    if (d->config.probe_deadline_ms == 0)
        d->config.probe_deadline_ms = 2000;
    if (d->config.linger_ns == 0)
        d->config.linger_ns = 2000000000;
    enum status s = door_desk_open(&d->desk, &config->desk, note);
    if (s == STATUS_OK)
        s = socket_open(d, note);
    if (s == STATUS_OK)
        s = listen_all(d, note);
    if (s == STATUS_OK) {
        d->self = act_spawn(config->rt, &door_kind, d, config->worker);
        d->probe = d->self != 0 ? act_spawn(config->rt, &probe_kind, d, ACT_OWN_THREAD) : 0;
        if (d->probe == 0)
            s = status_say(note, STATUS_NO_MEMORY, "no room in the runtime for the door's actors");
    }
    if (s != STATUS_OK) {
        door_close(d);
        return s;
    }
    *out = d;
    return STATUS_OK;
}

const char *door_url(const struct door *d, uint32_t i) {
    CHECK(i < d->n_listeners);
    return d->listeners[i].address.url;
}

const struct door_desk *door_desk_of(const struct door *d) {
    return &d->desk;
}

void door_drain(struct door *d, uint64_t deadline_ns) {
    struct door_leave m = {.deadline_ns = deadline_ns};
    act_post(d->config.rt, d->self, door_KIND_leave, &m, sizeof m);
}

void door_halt(struct door *d) {
    struct door_halt m = {0};
    act_post(d->config.rt, d->self, door_KIND_halt, &m, sizeof m);
}

void door_stop(struct door *d) {
    if (d->socket_open)
        door_socket_close(d->socket);
    d->socket_open = false;
    if (d->receive != NULL) {
        nng_aio_stop(d->receive);
        if (d->receiving && nng_aio_result(d->receive) == 0)
            nng_msg_free(nng_aio_get_msg(d->receive));
        nng_aio_free(d->receive);
        d->receive = NULL;
    }
    if (d->send != NULL) {
        nng_aio_stop(d->send);
        if (d->sending && nng_aio_result(d->send) != 0)
            nng_msg_free(nng_aio_get_msg(d->send));
        nng_aio_free(d->send);
        d->send = NULL;
    }
    for (; d->out_n > 0; d->out_n--) {
        nng_msg_free(d->out[d->out_first]);
        d->out_first = (d->out_first + 1) % OUT_MAX;
    }
}

void door_close(struct door *d) {
    door_stop(d);
    for (uint32_t i = 0; i < DOOR_LISTENERS_MAX; i++)
        door_address_unlock(&d->listeners[i].address);
    door_desk_close(&d->desk);
    free(d);
}
