/* SPDX-License-Identifier: Apache-2.0
 * Sessions out of the memory and into it as files (sessions/export.h), some bytes a question.
 * Reading is by offset and keeps nothing, but for the checksum of all that was read in order; one
 * file at a time comes in, and each of its pages is a page of the tier as soon as it is whole and
 * right. Owned by the memory actor.
 */
#ifndef SESSIONS_CARRY_H
#define SESSIONS_CARRY_H

#include "sessions/book.h"
#include "sessions/export.h"
#include "sessions/query.h"

struct ses_carry;

struct ses_carry_config {
    struct ses_export_kind kind;
    struct ses_book *book;
    struct ses_tiers *tiers;
    unsigned char *const *host; /* [world]: slots of host_bytes */
    uint64_t host_bytes;
    struct ses_record *record; /* [n_slots], with tokens: what each slot holds */
    bool disk;
};

/* What a store is to be asked: bytes of a part from offset on, which hold record `number`. */
struct ses_carry_fetch {
    uint32_t rank, number, page;
    uint64_t offset;
};

enum status ses_carry_open(const struct ses_carry_config *config, struct ses_carry **out,
                           struct status_note *note);
void ses_carry_close(struct ses_carry *c);

/* False: the store must be asked, and ses_carry_exported called when it has answered in q. */
bool ses_carry_export(struct ses_carry *c, struct ses_query *q, struct ses_carry_fetch *fetch);
void ses_carry_exported(struct ses_carry *c, const struct ses_query *q);
void ses_carry_import(struct ses_carry *c, struct ses_query *q, uint64_t now_ns);

#endif
