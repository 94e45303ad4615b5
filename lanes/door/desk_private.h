/* SPDX-License-Identifier: Apache-2.0
 * Shared by desk.c (clients' side) and desk_engine.c (planner's side) only.
 */
#ifndef LANES_DOOR_DESK_PRIVATE_H
#define LANES_DOOR_DESK_PRIVATE_H

#include "lanes/door/desk.h"

/* Timers of one actor are told apart by their cookie; the transport's are others. */
enum { DOOR_COOKIE_DESK = 1 };
enum { DOOR_ASKED_PLANNER = 1, DOOR_ASKED_MEMORY = 2 };

/* desk_stored.c. True: the answer is made. */
bool door_desk_query(struct door_desk *d, struct act_ctx *ctx, const struct door_header *from);
void door_desk_ask_counts(struct door_desk *d, struct act_ctx *ctx);
void door_desk_answer_query(struct door_desk *d, const struct door_wait *w);
void door_desk_wake_kind(struct door_desk *d, enum door_wait_kind kind);
/* One of those asked for stats has answered. */
void door_desk_counted(struct door_desk *d, uint32_t who);

/* The timer will fire at `at_ns` or before. */
void door_desk_arm(struct door_desk *d, struct act_ctx *ctx, uint64_t at_ns);
/* Sends the cancel that was asked for, once the lane's name is known. */
void door_desk_send_cancel(struct door_desk *d, struct act_ctx *ctx, struct door_request *r);
void door_desk_stage_give(struct door_desk *d, struct door_stage *s);
void door_desk_forget_oldest(struct door_desk *d);

#endif
