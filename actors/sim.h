/* SPDX-License-Identifier: Apache-2.0
 * What the rest of the runtime calls of the simulation. What its user calls is in actor.h.
 */
#ifndef ACTORS_SIM_H
#define ACTORS_SIM_H

#include <stdint.h>

#include "actors/status.h"

struct act_rt;
struct act_ctx;
struct act_actor;
struct act_msg;
struct act_sim;

enum status act_sim_open(struct act_rt *rt);
void act_sim_close(struct act_rt *rt);
void act_sim_spawned(struct act_ctx *ctx, struct act_actor *actor);
void act_sim_ended(struct act_ctx *ctx, struct act_actor *actor);
void act_sim_put(struct act_ctx *ctx, struct act_actor *actor, struct act_msg *msg);
uint64_t act_sim_now(const struct act_rt *rt);

#endif
