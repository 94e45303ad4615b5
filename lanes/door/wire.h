/* SPDX-License-Identifier: Apache-2.0
 * The client's side of doc/protocol.md as plain structs: one message in, one struct door_call out,
 * or one struct door_error that names the field. Pure; the result points into the arena that it was
 * decoded in.
 */
#ifndef LANES_DOOR_WIRE_H
#define LANES_DOOR_WIRE_H

#include "lanes/door/json_in.h"
#include "lanes/door/json_out.h"
#include "lanes/request.h"
#include "lanes/text/tokenizer.h"
#include "sessions/query.h"

enum {
    DOOR_PROTOCOL_VERSION = 1,
    DOOR_MESSAGE_MAX = 4 << 20,   /* bytes of a command; more is refused by name */
    DOOR_TRANSPORT_MAX = 8 << 20, /* more closes the connection */
    DOOR_ARENA_BYTES = 96 << 20,  /* address space; what a decoded message may take */
    DOOR_REPLY_MAX = 256 << 10,   /* bytes of a reply */
    DOOR_NAME_MAX = 96,
    DOOR_MESSAGES_MAX = 1024, /* chat messages of one prompt */
    DOOR_WAIT_MS_MAX = 60000,
    DOOR_EVENTS_MAX = 4096, /* events of one reply */
    DOOR_EVENTS_DEFAULT = 256,
    DOOR_MAX_TOKENS_DEFAULT = 256,
    DOOR_DRAFT_DEFAULT = 8,
    DOOR_IDLE_MS_DEFAULT = 60000,
    DOOR_DATA_MAX = SES_QUERY_BYTES, /* bytes of a session's file in one message */
    DOOR_LIST_MAX = 256              /* requests in one page of `sessions` */
};

enum door_cmd {
    DOOR_PING,
    DOOR_INFO,
    DOOR_SUBMIT,
    DOOR_READ,
    DOOR_CANCEL,
    DOOR_SESSIONS,
    DOOR_STORED,
    DOOR_TOKENS,
    DOOR_FORGET,
    DOOR_PIN,
    DOOR_EXPORT,
    DOOR_IMPORT,
    DOOR_STATS,
    DOOR_DRAIN,
    DOOR_CMDS
};

/* A refusal. retry_ms 0: trying again does not help; numbers: value and limit are worth saying. */
struct door_error {
    enum status status;
    uint32_t retry_ms;
    bool numbers;
    uint64_t value, limit;
    char field[DOOR_JSON_KEY_MAX];
    char message[288];
};

enum door_prompt { DOOR_PROMPT_TEXT, DOOR_PROMPT_IDS, DOOR_PROMPT_MESSAGES };

struct door_submit {
    enum door_prompt kind;
    const char *text;
    size_t text_bytes;
    const uint32_t *ids;
    uint32_t n_ids;
    const struct lane_message *messages;
    uint32_t n_messages;
    struct lane_template_options template; /* DOOR_PROMPT_MESSAGES only */
    bool bos, parse_special;               /* DOOR_PROMPT_TEXT only */
    bool seeded;
    uint32_t idle_cancel_ms; /* 0: never */
    /* Everything but id, client and prompt; bias and stops point into this struct. */
    struct lane_request request;
    struct krn_bias bias[LANE_BIAS_MAX];
    struct lane_stop stops[LANE_STOPS_MAX];
};

struct door_call {
    enum door_cmd cmd;
    char name[DOOR_NAME_MAX + 1]; /* submit, read, cancel */
    uint64_t cursor;              /* read; sessions, stored, tokens: where the page begins */
    uint32_t wait_ms, max_events; /* read */
    uint64_t deadline_ms;         /* drain */
    bool wait;                    /* drain: the answer comes when all is over */
    uint64_t tenant;              /* this and the next: stored, tokens, forget, pin */
    struct ses_name session;
    bool on;                   /* pin */
    bool others;               /* stored, tokens, forget */
    const unsigned char *data; /* import; cursor: its offset */
    uint32_t n_data;
    struct door_submit submit;
};

/* What the decoder must know of the engine. */
struct door_limits {
    uint32_t context, vocab;
    bool has_text, has_chat;      /* a tokenizer, a chat template */
    struct krn_sampling sampling; /* defaults */
    uint64_t drain_ms;            /* default of `drain` */
};

/* Decodes one message. False: error says why, and call->cmd and call->name mean nothing. */
bool door_decode(struct door_arena *arena, const struct door_limits *limits, const void *bytes,
                 size_t n, struct door_call *call, struct door_error *error);

/* Fills an error from a printf format; returns false, so that a decoder can return it. */
bool door_refuse(struct door_error *error, enum status status, const char *field,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

const char *door_cmd_name(enum door_cmd cmd);
/* Is this a request name: 1 to DOOR_NAME_MAX of letters, digits and . _ : / @ + - */
bool door_name_valid(const char *name, size_t bytes);

/* Session names are 32 hex digits. */
enum { DOOR_SESSION_DIGITS = 32 };
void door_session_text(const struct ses_name *name, char out[DOOR_SESSION_DIGITS + 1]);
bool door_session_from(const char *text, size_t n, struct ses_name *out);

/* A name of an import as 128 bits. */
struct ses_name door_import_id(const char *name);
/* Strict base64; false when it is not. out: 3 bytes for each 4. */
bool door_base64_from(const char *text, size_t n, unsigned char *out, size_t *n_out);

/* The number of a tenant's name; 0 for the empty one. */
uint64_t door_tenant(const char *name);

/* {"ok":false,"error":{...}} */
void door_out_error(struct door_out *o, const struct door_error *error);

#endif
