/* SPDX-License-Identifier: Apache-2.0
 * Lanes and a device as the memory sees them, small enough to be obviously right: what each token
 * slot of each page holds, what each lane has computed, and a plain list of everything that was
 * ever kept. Tests drive a ses_book (or the actor) with it and compare.
 */
#ifndef TESTS_SESSIONS_LANES_MODEL_H
#define TESTS_SESSIONS_LANES_MODEL_H

#include <string.h>

#include "sessions/book.h"
#include "sessions/trie.h"
#include "tests/sessions/expect.h"

enum {
    MODEL_IDS = 320,
    MODEL_SLOTS = 8,
    MODEL_PAGES = 128,
    MODEL_PAGE_TOKENS = 64,
    MODEL_HISTORY = 512
};
struct model_cell {
    uint32_t token, position;
};

struct model_sequence {
    uint64_t tenant;
    uint32_t n;
    uint32_t ids[MODEL_IDS];
};

struct model_lane {
    bool live, copy_waits;
    uint64_t tenant;
    uint32_t slot, n_ids, n_rows, max_tokens, n_pages;
    uint32_t copy_src, copy_dst, copy_tokens;
    uint32_t page[MODEL_IDS];
    uint32_t ids[MODEL_IDS];
};

struct model {
    unsigned long long random;
    uint32_t page_tokens, n_pages, pages_per_slot_max, tenants, alphabet;
    struct model_cell cell[MODEL_PAGES + 1][MODEL_PAGE_TOKENS];
    struct model_lane lane[MODEL_SLOTS];
    struct model_sequence kept[MODEL_HISTORY]; /* everything that the memory was told to keep */
    uint32_t n_kept;
    struct model_sequence past[MODEL_HISTORY]; /* prompts to derive further prompts from */
    uint32_t n_past;
    uint64_t rows_computed, rows_saved, admitted, denied;
};

uint32_t model_choose(struct model *m, uint32_t n);
void model_open(struct model *m, uint64_t seed, uint32_t n_pages, uint32_t page_tokens,
                uint32_t pages_per_slot_max);
void model_remember(struct model_sequence *list, uint32_t *n, uint64_t tenant, const uint32_t *ids,
                    uint32_t n_ids);
/* A prompt that begins like an earlier one: cut anywhere, one token changed, some more tokens
 * behind. */
void model_prompt(struct model *m, struct model_lane *lane, uint32_t n_max);
/* The longest beginning of the lane's prompt that was ever kept, cut to leave one row. */
uint32_t model_expected_kept(const struct model *m, const struct model_lane *lane);
/* The same over what the trie says it has now, node by node from the root: no order, no hash. */
uint32_t model_expected_cached(const struct model *m, const struct ses_trie *t,
                               const struct model_lane *lane);
/* Every row that the lane may read holds its own token. */
void model_check_lane(const struct model *m, const struct model_lane *lane);
/* What the trie remembers is in the pages that it names. */
void model_check_cached(const struct model *m, const struct ses_trie *t);
void model_admitted(struct model *m, struct model_lane *lane, const struct ses_admitted *a,
                    const uint32_t *pages);
void model_copy(struct model *m, struct model_lane *lane);
/* Writes row n_rows; nobody else may have the page, neither a lane nor the trie. */
void model_compute(struct model *m, struct model_lane *lane);
/* What the memory keeps of a lane whose copy did not run ends at the shared pages. */
uint32_t model_rows_kept(const struct model *m, const struct model_lane *lane);
void model_freed(struct model *m, const uint32_t *ids, uint32_t n);

#endif
