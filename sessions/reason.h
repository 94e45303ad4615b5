/* SPDX-License-Identifier: Apache-2.0
 * Why a lookup found what it found: names for metrics and replies, texts for people.
 */
#ifndef SESSIONS_REASON_H
#define SESSIONS_REASON_H

#include "sessions/protocol.h"

/* Stable, lower case, one word; never NULL, also for values outside the enum. */
const char *ses_reason_name(enum ses_reason reason);
/* One clause. */
const char *ses_reason_text(enum ses_reason reason);

#endif
