/* SPDX-License-Identifier: Apache-2.0
 * A bounded memory of how sessions began, only to tell one kind of miss from another: evicted,
 * known under another key, or new. It forgets by overwriting, so that an answer may fall back to
 * "new"; it never decides what is reused.
 */
#ifndef SESSIONS_HEADS_H
#define SESSIONS_HEADS_H

#include "sessions/protocol.h"

enum { SES_HEAD_TOKENS = 16 }; /* a beginning is this many tokens, or all of a shorter one */

struct ses_heads;

/* Remembers about n beginnings of each kind. */
enum status ses_heads_open(uint32_t n, struct ses_heads **out, struct status_note *note);
void ses_heads_close(struct ses_heads *h);
void ses_heads_clear(struct ses_heads *h);

/* space: a digest of key and tenant. tokens: the first ones of a session. A tenant is told nothing
 * of what others have: only its own sessions can be evicted or of another key. */
void ses_heads_known(struct ses_heads *h, uint64_t tenant, uint64_t space, const uint32_t *tokens,
                     uint32_t n);
void ses_heads_evicted(struct ses_heads *h, uint64_t tenant, uint64_t space, const uint32_t *tokens,
                       uint32_t n);
/* The kind of a miss: SES_MISS_EVICTED before SES_MISS_KEY before SES_MISS_NEW. */
enum ses_reason ses_heads_reason(const struct ses_heads *h, uint64_t tenant, uint64_t space,
                                 const uint32_t *tokens, uint32_t n);

#endif
