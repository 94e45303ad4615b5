/* SPDX-License-Identifier: Apache-2.0
 * Shared by desk.c (clients' side) and desk_engine.c (planner's side) only.
 */
#ifndef LANES_DOOR_DESK_PRIVATE_H
#define LANES_DOOR_DESK_PRIVATE_H

#include "lanes/door/desk.h"

/* Timers of one actor are told apart by their cookie; the transport's are others. */
enum { DOOR_COOKIE_DESK = 1 };

/* The timer will fire at `at_ns` or before. */
void door_desk_arm(struct door_desk *d, struct act_ctx *ctx, uint64_t at_ns);
/* Sends the cancel that was asked for, once the lane's name is known. */
void door_desk_send_cancel(struct door_desk *d, struct act_ctx *ctx, struct door_request *r);
void door_desk_stage_give(struct door_desk *d, struct door_stage *s);
void door_desk_forget_oldest(struct door_desk *d);

#endif
