/* SPDX-License-Identifier: Apache-2.0
 * The books as a list of sessions that a person can read, drop and pin. Each call does a bounded
 * amount of work, so a list of many sessions comes in parts.
 */
#ifndef SESSIONS_CATALOG_H
#define SESSIONS_CATALOG_H

#include "sessions/book.h"
#include "sessions/query.h"

/* Answers list, tokens, forget, pin, unpin. */
void ses_book_query(struct ses_book *b, struct ses_query *q);
/* The last node of the tenant's session of that name, which may have gone on; 0: there is none, and
 * the answer says so. */
uint32_t ses_book_session(const struct ses_book *b, struct ses_query *q);

#endif
