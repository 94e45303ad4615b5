/* SPDX-License-Identifier: Apache-2.0
 * Which node goes first: a binary heap of the nodes that may go now, least recently used on top, of
 * equal use the deepest. Every candidate frees the bytes of one page, so the caller stops when the
 * bytes suffice. O(log n) each, nothing allocates.
 */
#ifndef SESSIONS_EVICT_H
#define SESSIONS_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct ses_evict;

/* Candidates are named 1 .. n. */
enum status ses_evict_open(uint32_t n, struct ses_evict **out, struct status_note *note);
void ses_evict_close(struct ses_evict *e);

/* Puts a candidate in; one that is in already is our bug. */
void ses_evict_put(struct ses_evict *e, uint32_t id, uint64_t use, uint32_t depth);
/* Takes a candidate out; one that is not in stays so. */
void ses_evict_remove(struct ses_evict *e, uint32_t id);
bool ses_evict_has(const struct ses_evict *e, uint32_t id);
/* The first to go, still in; 0: nobody. */
uint32_t ses_evict_least(const struct ses_evict *e);
uint32_t ses_evict_count(const struct ses_evict *e);

#endif
