/* SPDX-License-Identifier: Apache-2.0
 * What people ask of remembered sessions, and the answer, in one struct that belongs to the asker.
 * It is the memory's from the message look until looked. A session is what stands
 * before one leaf of the trie, named by the leaf's name; a tenant can name only its own.
 */
#ifndef SESSIONS_QUERY_H
#define SESSIONS_QUERY_H

#include "sessions/protocol.h"
#include "sessions/store.h"
#include "sessions/tiers.h"
#include "sessions/trie.h"

enum {
    SES_QUERY_ROWS = 64,
    SES_QUERY_BYTES = 128 << 10,
    SES_QUERY_TOKENS_MAX = 8192,
    SES_PIN_SHARE = 2 /* one part in so many of the tier's room can be pinned */
};

enum ses_query_kind {
    SES_QUERY_LIST,   /* sessions of the tenant, from `from` on; next: 0, or where to go on */
    SES_QUERY_TOKENS, /* tokens of the session from `from` on; next: 0, or where to go on */
    SES_QUERY_FORGET, /* what only this session has; n: pages forgotten */
    SES_QUERY_PIN,    /* its pages stay in the last tier that has them; n: its pages */
    SES_QUERY_UNPIN,
    SES_QUERY_COUNT,
    SES_QUERY_EXPORT, /* bytes of the session's file from `from` on; n: how many; size: of all */
    SES_QUERY_OTHERS, /* like list: sessions that this server cannot use, and why */
    SES_QUERY_OTHER_TOKENS, /* like tokens, of one of those */
    SES_QUERY_OTHER_FORGET, /* like forget, of one of those */
    SES_QUERY_IMPORT /* n_in bytes of a file from `from` on; name: of the import; next: go on */
};

struct ses_row {
    struct ses_name name;
    uint64_t use;                        /* larger is later; no clock */
    uint32_t tokens, pages;              /* the whole session */
    uint32_t on_device, in_ram, on_disk; /* pages that are there; one may be in several places */
    bool pinned, in_use;
};

/* Why a stored session cannot be used: what is another than here. */
enum ses_why {
    SES_WHY_MODEL,
    SES_WHY_WORLD,
    SES_WHY_PAGES,
    SES_WHY_LAYOUT,
    SES_WHY_VIRTUAL_RANKS,
    SES_WHY_KV_TYPE,
    SES_WHY_PROFILE,
    SES_WHY_UNKNOWN, /* what it was made by is not known any more */
    SES_WHYS
};
const char *ses_why_name(enum ses_why why);

struct ses_other_row {
    struct ses_name name;
    uint64_t use, bytes; /* of one rank */
    uint32_t tokens, pages;
    enum ses_why why;
    bool pinned;
    char text[SES_INDEX_TEXT]; /* what it was made by */
};

/* Every session of a store's directory, also beside a server that uses it; several ranks have a
 * store each, and the first one's is listed. The rows' why means nothing. */
enum status ses_store_offline(const char *folder, void *self,
                              void (*each)(void *self, const struct ses_other_row *row,
                                           uint64_t tenant),
                              struct status_note *note);

struct ses_counts {
    struct ses_counted pages;
    struct ses_tiers_counts tiers;
    struct ses_store_counts stores; /* of all ranks, as they last said */
    uint32_t pinned;                /* pages */
    uint64_t page_bytes;            /* of all ranks */
    bool has_tiers, has_disk;
};

struct ses_query {
    enum ses_query_kind kind;
    uint64_t tenant, from;
    struct ses_name name;
    /* The answer. value, limit: numbers that belong to a refusal. */
    enum status status;
    struct status_note note;
    uint64_t value, limit, next, size;
    uint32_t n, n_in;
    struct ses_name made; /* import: the session, when done */
    bool done;
    uint64_t page_bytes; /* of all ranks */
    union {
        struct ses_row row[SES_QUERY_ROWS];
        struct ses_other_row other[SES_QUERY_ROWS];
        uint32_t token[SES_QUERY_TOKENS_MAX];
        struct ses_counts counts;
        unsigned char bytes[SES_QUERY_BYTES];
    };
};

#endif
