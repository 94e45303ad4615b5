/* SPDX-License-Identifier: Apache-2.0
 * A store's index that is made anew, at start or while it runs: what heal.c, rebuild.c and
 * store_open.c do for each other. On the store's thread, or by the opener.
 */
#ifndef SESSIONS_HEAL_H
#define SESSIONS_HEAL_H

#include "sessions/store_private.h"

/* Which number names what lies at a place of the segments (heal.c). */
struct ses_alive;
uint32_t ses_alive_number(const struct ses_alive *alive, const struct ses_where *where);
/* Fills a new index with what the headers in the segment files say of themselves (rebuild.c).
 * alive: of this key only what a number names, with its use and flags; NULL: all. */
enum status ses_store_rebuild(struct ses_store *s, const struct ses_alive *alive,
                              struct status_note *note);
/* While it runs: an index that is of no use any more is opened anew if its file is whole and says
 * what the numbers say, else laid aside and made anew. Between batches only (heal.c). */
enum status ses_store_heal(struct ses_store *s, struct status_note *note);
/* Lays a damaged index aside, where a person may look at it; the one before gives way. */
enum status ses_store_lay_aside(struct ses_store *s, const char *path, struct status_note *note);
enum status ses_store_files_open(struct ses_store *s, struct ses_space_files **out,
                                 struct status_note *note);
/* With room in its map for all that the budget takes. */
enum status ses_store_index_open(struct ses_store *s, const char *path, struct status_note *note);
/* The key space of this store, for the next commit. */
enum status ses_store_put_own_space(struct ses_store *s, struct status_note *note);

#endif
