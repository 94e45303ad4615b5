/* SPDX-License-Identifier: Apache-2.0
 * Loads of the store: records that are read in pieces, at most SES_STORE_BATCH at once. Private to
 * the store's files, on the store's thread.
 */
#ifndef SESSIONS_STORE_LOAD_H
#define SESSIONS_STORE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

struct ses_store;
struct store_op;

/* A record that is read; used: it is under way. */
struct store_load {
    bool used;
    enum status status;
    uint32_t number, slot;
    int fd;
    uint64_t ticket;         /* order of begin */
    uint32_t asked, n_asked; /* pieces: the next to ask for; how many are under way */
    uint32_t summed;         /* pieces */
    uint64_t came;           /* pieces, a bit each */
    struct XXH3_state_s *sum;
};

enum status ses_store_loads_open(struct ses_store *s, struct status_note *note);
void ses_store_loads_close(struct ses_store *s);
void ses_store_load_begin(struct ses_store *s, uint32_t number, uint32_t slot);
/* The disk is done with a piece; asks for more. */
void ses_store_piece_came(struct ses_store *s, struct store_op *op);

#endif
