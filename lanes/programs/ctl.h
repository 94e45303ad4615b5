/* SPDX-License-Identifier: Apache-2.0
 * What the commands of `roundhouse ctl` share: one connection, one call, how answers are printed.
 */
#ifndef LANES_PROGRAMS_CTL_H
#define LANES_PROGRAMS_CTL_H

#include <jansson.h>

#include "lanes/door/client.h"
#include "lanes/programs/options.h"

struct ctl {
    struct options o;
    struct door_client *client;
    uint32_t timeout_ms;
    bool json;
};

/* Prints the note; returns the code. */
enum program_exit ctl_fail(const struct status_note *note, enum program_exit code);
/* Sends the object (taken over) and returns the reply, or NULL; *code says how it went. */
json_t *ctl_call(struct ctl *c, json_t *message, uint32_t wait_ms, enum program_exit *code);
/* The same again while the server says that it is busy, until the timeout. */
json_t *ctl_call_patiently(struct ctl *c, const json_t *message, enum program_exit *code);
void ctl_print_json(const json_t *v);
/* What was refused, for a person. */
void ctl_print_error(const json_t *error);

/* ctl sessions ...: args are the words behind it. */
enum program_exit ctl_sessions(struct ctl *c, const char *const *args, uint32_t n);
void ctl_sessions_help(FILE *to);
/* The sessions of --disk-cache, without a server. */
enum program_exit ctl_sessions_offline(const struct ctl *c);

#endif
