/* SPDX-License-Identifier: Apache-2.0
 * AMX tiles: whether this machine has them and lets this process use them. What a kernel configures
 * it releases before it returns, so that no thread carries tile state between calls.
 */
#ifndef KERNELS_CPU_AMX_H
#define KERNELS_CPU_AMX_H

#include <stdbool.h>

/* The kernel grants the tiles' memory to a process that asks, once, for all its threads: call
 * before threads start. False as well where the CPU or the system has none. */
bool krn_amx_int8(void);
bool krn_amx_bf16(void);

#endif
