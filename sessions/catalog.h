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

#endif
