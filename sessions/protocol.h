/* SPDX-License-Identifier: Apache-2.0
 * Messages to and from the memory actor, the only one that may say who holds a page.
 */
#ifndef SESSIONS_PROTOCOL_H
#define SESSIONS_PROTOCOL_H

#include "actors/protocol.h"

struct ses_record;       /* sessions/record.h */
struct ses_tiers_counts; /* sessions/tiers.h */
struct ses_store_counts; /* sessions/store.h */
struct ses_query;        /* sessions/query.h */

/* Why a lookup found what it found. Names and texts: sessions/reason.h. */
enum ses_reason {
    SES_HIT,          /* matched tokens found, all that could match */
    SES_HIT_CAPPED,   /* the whole prompt was found; one row is computed all the same */
    SES_HIT_CUT,      /* a record of a tier was unreadable: what stands before it was reused */
    SES_MISS_NEW,     /* no session begins like this */
    SES_MISS_EVICTED, /* it was known and has been evicted */
    SES_MISS_KEY,     /* the tenant has it under another key (model, profile, ...) */
    SES_MISS_RECORD,  /* it is known, but its first record in a tier was unreadable */
    SES_MISS_SILENT,  /* it is known, but the disk that has it does not answer */
    SES_MISS_OFF,     /* the request or the operator switched reuse off */
    SES_REASONS
};

/* clang-format off */
/*          name       from     to       answered_by  late means   credit  fields */
#define SES_PROTOCOL(M)                                                                                                  \
    /* ids: the planner's, unchanged until admitted or denied. max_tokens: worst case of positions, n_ids included. */    \
    M(ses, admit,     planner, memory,  admitted,    none,        lane,   const uint32_t *ids; uint64_t tenant;           \
                                                                          uint32_t slot; uint32_t n_ids;                  \
                                                                          uint32_t max_tokens; uint32_t reuse;)           \
    /* matched tokens need no row; pages (planner's array given in table) were filled: n_pages covers n_ids rounded up   \
     * to whole pages. from_ram, from_disk: how many of them came from those tiers. When copy_src is not 0 the first copy_tokens of it must be copied to copy_dst before any row. */   \
    M(ses, admitted,  memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t matched;                \
                                                                          uint32_t n_pages; uint32_t reason;              \
                                                                          uint32_t copy_src; uint32_t copy_dst;           \
                                                                          uint32_t copy_tokens; uint32_t from_ram;        \
                                                                          uint32_t from_disk;)                            \
    /* status NO_PAGES: can never fit; AGAIN: not now, the planner asks again after a release. */                         \
    M(ses, denied,    memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t status;                 \
                                                                          uint32_t pages_needed; uint32_t pages_free;)    \
    /* The request was let in and has its pages; admitted comes when a tier has filled them. Until then others are       \
     * decided: a disk that is slow holds up nobody else. */                                                             \
    M(ses, restoring, memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t n_pages;)               \
    /* One more page from the slot's reservation; never refused. */                                                       \
    M(ses, extend,    planner, memory,  extended,    none,        lane,   uint32_t slot; uint32_t n_pages;)               \
    M(ses, extended,  memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t n_pages;                \
                                                                          uint32_t page[8];)                              \
    /* The copy of `admitted` ran: the source is no longer held for it. */                                                \
    M(ses, copied,    planner, memory,  none,        none,        none,   uint32_t slot;)                                 \
    /* Rows [0, n_rows) hold finite keys and values of ids[0..n_rows), computed: full pages may be shared from now on.    \
     * ids stay unchanged until sealed. */                                                                                \
    M(ses, seal,      planner, memory,  sealed,      none,        lane,   const uint32_t *ids; uint32_t slot;             \
                                                                          uint32_t n_rows;)                               \
    M(ses, sealed,    memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t n_rows;)                \
    /* The lane has ended and no plan names it. Rows [0, n_rows) are cached when keep is 1. */                            \
    M(ses, release,   planner, memory,  released,    none,        lane,   const uint32_t *ids; uint32_t slot;             \
                                                                          uint32_t n_rows; uint32_t keep;)                \
    M(ses, released,  memory,  planner, none,        none,        lane,   uint32_t slot; uint32_t pages_free;)            \
    /* The tier finished what it was told; page: the device's. status OK: the bytes are right. */                        \
    M(ses, parked,    tier,    memory,  none,        none,        none,   uint32_t page; uint32_t status;)                \
    M(ses, restored,  tier,    memory,  none,        none,        none,   uint32_t page; uint32_t status;)                \
    /* The store of a rank: between a slot of its host memory and a record. record: what the bytes are, the memory's,     \
     * unchanged until stored. stored: they are on disk, and indexed. */                                                   \
    M(ses, write,     memory,  store,   stored,      none,        lane,   const struct ses_record *record;                \
                                                                          uint32_t number; uint32_t slot;)                \
    M(ses, stored,    store,   memory,  none,        none,        lane,   uint32_t slot; uint32_t rank; uint32_t status;) \
    M(ses, load,      memory,  store,   loaded,      none,        lane,   uint32_t number; uint32_t slot;)                \
    M(ses, loaded,    store,   memory,  none,        none,        lane,   uint32_t slot; uint32_t rank; uint32_t status;) \
    M(ses, erase,     memory,  store,   erased,      none,        none,   uint32_t number;)                               \
    M(ses, erased,    store,   memory,  none,        none,        none,   uint32_t number; uint32_t rank;)                \
    /* The record was used, or its flags (sessions/record.h) changed: the index says so from its next commit on. */       \
    M(ses, mark,      memory,  store,   none,        none,        none,   uint64_t use; uint32_t number; uint32_t flags;)  \
    /* counts: the memory's, the store's until tallied. */                                                                \
    M(ses, tally,     memory,  store,   tallied,     none,        none,   struct ses_store_counts *counts;)               \
    M(ses, tallied,   store,   memory,  none,        none,        none,   uint32_t rank;)                                 \
    /* Bytes of a part of a session's file (sessions/export.h) that the record holds, or a list of what cannot be used;   \
     * the answer is in the query. */      \
    M(ses, fetch,     memory,  store,   fetched,     none,        request, struct ses_query *query; uint64_t offset;      \
                                                                          uint32_t number; uint32_t page;)                \
    M(ses, fetched,   store,   memory,  none,        none,        request, struct ses_query *query; uint32_t rank;)       \
    /* query: the asker's, the memory's until looked.   */                                                                 \
    M(ses, look,      client,  memory,  looked,      none,        request, struct ses_query *query;)                      \
    M(ses, looked,    memory,  client,  none,        none,        request, struct ses_query *query;)                      \
    /* Everything that can be saved is saved. unsaved: pages that no disk took, and why. */                               \
    M(ses, flush,     client,  memory,  flushed,     none,        request, uint64_t token;)                               \
    M(ses, flushed,   memory,  client,  none,        none,        request, uint64_t token; uint32_t unsaved;              \
                                                                          uint32_t status;)                               \
    M(ses, forget,    client,  memory,  forgotten,   none,        request, uint64_t token;)                               \
    M(ses, forgotten, memory,  client,  none,        none,        request, uint64_t token; uint32_t pages;)               \
    M(ses, count,     client,  memory,  counted,     none,        request, uint64_t token;)                               \
    M(ses, counted,   memory,  client,  none,        none,        request, uint64_t token; uint32_t pages_total;          \
                                                                          uint32_t pages_free; uint32_t pages_held;       \
                                                                          uint32_t pages_cached; uint32_t nodes;          \
                                                                          uint32_t evicted;)
/* clang-format on */

enum { ses_KIND_first = SES_KIND_FIRST - 1, SES_PROTOCOL(ACT_GEN_ENUM) ses_KIND_end };
SES_PROTOCOL(ACT_GEN_STRUCT)

/* Invariants.
 * I1  A page is free, or held by lanes, or by the trie, or by both; holders = lanes + trie + jobs
 *     in flight, checked at every message in the simulation. (sim: pages_conserved)
 * I2  A page that a lane maps, or that a copy reads, is never freed or evicted. (sim: poison)
 * I3  What `admitted` reserved is always enough: extend is never refused. (sim: extend)
 * I4  Every admit has exactly one answer; every release too. (sim: terminal) restoring comes at
 *     most once before admitted, never before denied.
 * I5  Two lanes never write the same page. (sim: poison)
 * I6  The news that a page was freed come to the planner before an answer that gives it out again.
 * I7  A page or place that the tier was told to copy is used for nothing else until parked or
 *     restored; a lane maps a restored page only when its bytes are right.
 * I8  A record exists for the memory only when every rank's store said stored; its number is used
 *     again only when every one said erased.
 * I9  No admit waits for the bytes of another: memory decides while any number are restoring, and
 *     what is in host memory is not read behind what is on a disk. (sim: slow_disk)
 */

#endif
