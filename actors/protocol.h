/* SPDX-License-Identifier: Apache-2.0
 * From one table a folder to ids, structs, assertions, names and handler prototypes.
 *
 * A row:  M(prefix, name, from, to, answered_by, late, credit, fields)
 *   prefix       the folder (lane, ses, fab, gpu); names are lower case
 *   from, to     actor kinds; `to` gives the handler's name: to_on_name()
 *   answered_by  the message that answers it, or none
 *   late         what lateness of the answer means, or none
 *   credit       whose credit bounds how many may be under way: lane, plan, request, none
 *   fields       members of struct prefix_name, at most ACT_BODY_BYTES; semicolons, no commas
 * Read the tables in lanes/protocol.h, sessions/protocol.h, fabric/protocol.h, gpu/protocol.h.
 */
#ifndef ACTORS_PROTOCOL_H
#define ACTORS_PROTOCOL_H

#include "actors/actor.h"

/* Ids of the folders' messages start here; ids below ACT_KIND_FIRST are the runtime's own. */
enum {
    ACT_KIND_FIRST = 0x100,
    GPU_KIND_FIRST = 0x100,
    FAB_KIND_FIRST = 0x200,
    SES_KIND_FIRST = 0x300,
    LANE_KIND_FIRST = 0x400,
    TEST_KIND_FIRST = 0x700,
    ACT_KIND_MAX = 0x800
};

#define ACT_GEN_ENUM(p, name, from, to, answer, late, credit, fields) p##_KIND_##name,
#define ACT_GEN_STRUCT(p, name, from, to, answer, late, credit, fields)                            \
    struct p##_##name {                                                                            \
        fields                                                                                     \
    };                                                                                             \
    _Static_assert(sizeof(struct p##_##name) <= ACT_BODY_BYTES, "message too large: " #name);
#define ACT_GEN_NAME(p, name, from, to, answer, late, credit, fields)                              \
    [p##_KIND_##name - p##_KIND_first - 1] = {#p "." #name, #from, #to, #answer, #late, #credit},
/* One case of a receive function: handler_prefix_on_name(ctx, state, from, &body). */
#define ACT_CASE(hp, p, name)                                                                      \
    case p##_KIND_##name:                                                                          \
        hp##_on_##name(ctx, state, msg->from, (const struct p##_##name *)msg->body);               \
        break;
/* The prototype of such a handler; hs is the actor's state struct. */
#define ACT_HANDLER(hp, hs, p, name)                                                               \
    void hp##_on_##name(struct act_ctx *ctx, struct hs *state, act_id_t from,                      \
                        const struct p##_##name *m)

struct act_protocol_row {
    const char *name, *from, *to, *answered_by, *late, *credit;
};

/* Typed send: ACT_SEND(ctx, to, lane, want, .lane = 3, .rows = 1). */
#define ACT_SEND(ctx, dest, p, name, ...)                                                          \
    do {                                                                                           \
        struct p##_##name act_body_ = {__VA_ARGS__};                                               \
        act_send(ctx, dest, p##_KIND_##name, &act_body_, sizeof act_body_);                        \
    } while (0)

#endif
