/* SPDX-License-Identifier: Apache-2.0
 * An in-process client for programs and tests: one actor that submits calls, collects what comes
 * back, and tells its driver. Runs on the engine's worker. Calls and their buffers belong to the
 * driver and live until they are over.
 */
#ifndef LANES_PROGRAMS_CLIENT_H
#define LANES_PROGRAMS_CLIENT_H

#include "lanes/engine.h"

enum client_state { CLIENT_IDLE, CLIENT_SENT, CLIENT_ACCEPTED, CLIENT_OVER };

struct client_call {
    struct lane_request
        request; /* filled by the driver but for id and client; then client_submit */
    void *user;
    /* Optional buffers for results, each with room for max_tokens (cut to the context). */
    uint32_t *ids;
    float *logprobs;
    uint64_t *hashes;
    /* Text so far; grown by the client, freed with client_call_free. */
    char *text;
    size_t text_bytes, text_capacity;
    /* Results. */
    enum client_state state;
    uint64_t lane; /* once accepted */
    bool refused, cancel_sent;
    enum lane_end end;
    enum status status;
    uint64_t value, limit; /* of a refusal */
    uint32_t n_new, n_prompt, n_resumed, from_ram, from_disk, reason, drafted, accepted, rows;
    uint64_t submit_ns, first_ns, end_ns; /* 0: not yet */
};

struct client;

struct client_driver {
    /* Begins the work; may submit. */
    void (*start)(struct act_ctx *ctx, struct client *c, void *user);
    /* Optional: a token or text came; call->text may have grown. id: UINT32_MAX for text alone. */
    void (*token)(struct act_ctx *ctx, struct client *c, struct client_call *call, uint32_t id);
    /* The call is over (refused, ended); it may be submitted again at once. */
    void (*over)(struct act_ctx *ctx, struct client *c, struct client_call *call);
    /* Optional. */
    void (*timer)(struct act_ctx *ctx, struct client *c, uint64_t cookie);
    /* Optional: any other message (statistics, memory counts, drained). */
    void (*other)(struct act_ctx *ctx, struct client *c, const struct act_msg *msg);
    void *user;
};

enum { CLIENT_CALLS_MAX = 1024 };

struct client {
    struct lane_engine *engine;
    struct client_driver driver;
    act_id_t self;
    struct client_call *calls[CLIENT_CALLS_MAX]; /* by request id modulo; NULL: free */
    uint64_t next_id;
    uint32_t live;
};

/* Spawns the client on the engine's worker. c is the caller's, until the runtime has stopped. */
void client_open(struct client *c, struct lane_engine *engine, const struct client_driver *driver);
/* Runs the engine's runtime until client_stop. */
void client_run(struct client *c);
void client_stop(struct act_ctx *ctx);

void client_submit(struct act_ctx *ctx, struct client *c, struct client_call *call);
/* Ends the call early; over follows as always. */
void client_cancel(struct act_ctx *ctx, struct client *c, struct client_call *call);
/* Zeroes a call and gives it plain settings: greedy, one token, no drafts, no text. */
void client_call_init(struct client_call *call);
void client_call_free(struct client_call *call);

/* "eos", "stop", "length", "context", "cancelled", "failed". */
const char *client_end_name(enum lane_end end);
/* One sentence for a call that was refused or failed. */
void client_call_say(const struct client_call *call, struct status_note *note);

#endif
