/* SPDX-License-Identifier: Apache-2.0
 * The store's index, an LMDB environment: a commit is the only moment at which records come to be,
 * move or cease. Entries are in order of key space, depth and name, so parents come before their
 * children. Used by one thread at a time; other processes may read it.
 */
#ifndef SESSIONS_INDEX_H
#define SESSIONS_INDEX_H

#include "sessions/record.h"

struct ses_index;

/* Where a record lies, and what its bytes must be. */
struct ses_where {
    uint32_t segment;
    uint32_t blocks; /* of the whole record */
    uint64_t offset;
    uint64_t sum[2]; /* XXH3-128 of the page */
};

enum { SES_INDEX_TEXT = 160, SES_INDEX_TOKENS_MAX = 1024 };

/* A numerics profile in words, for the reasons of misses. */
struct ses_index_profile {
    char name[32];
    uint32_t version, virtual_ranks, kv; /* kv: type of keys and values */
    uint32_t zero;
};

/* A key space, for people and for the reasons of misses. */
struct ses_index_space {
    uint64_t key[2];
    uint64_t fingerprint[2];
    uint32_t page_tokens, rank, world, layout_version;
    uint64_t page_bytes;
    char text[SES_INDEX_TEXT];        /* model, profile and KV type in words */
    struct ses_index_profile profile; /* zero in entries of older builds */
};

/* Address space of the index only; its file grows as it is used. Where so much is refused (ulimit
 * -v, an emulator) the map begins with what is asked for and is doubled as the file grows. */
#define SES_INDEX_MAP_BYTES ((uint64_t)64 << 30)
/* A map that holds so many records of so many tokens, with what changes of them leave behind. */
uint64_t ses_index_need(uint64_t n_records, uint32_t page_tokens);

/* Before it is opened: BAD_FILE when any page of it is not what the format promises, so that the
 * library, which trusts it, might read anywhere. OK when there is none. */
enum status ses_index_check(const char *path, struct status_note *note);
/* path: a directory, created when it is not there. read_only: beside a server that writes it.
 * need: bytes of map without which it is not opened; what is in the file always is mapped. */
enum status ses_index_open(const char *path, bool read_only, uint64_t need, struct ses_index **out,
                           struct status_note *note);
void ses_index_close(struct ses_index *x);
uint64_t ses_index_bytes(struct ses_index *x);
uint64_t ses_index_map(const struct ses_index *x); /* bytes of address space that it has */
/* False, from then on: its file was cut, changed or removed by somebody else, is damaged, or the
 * library gave it up. Every call but close then fails, and asks nothing of the file. */
bool ses_index_usable(struct ses_index *x);
/* Closes its file; every call but close fails from then on. */
void ses_index_let_go(struct ses_index *x);
/* It was left inside the library: the same file must not be opened again by this process. */
bool ses_index_was_left(const struct ses_index *x);

/* Changes gather until commit, which makes them durable or leaves all as it was. */
enum status ses_index_put(struct ses_index *x, const struct ses_record *r,
                          const struct ses_where *where, uint32_t flags, struct status_note *note);
/* The record's entry, if it still says where, gets the record's use and these flags. */
enum status ses_index_mark(struct ses_index *x, const struct ses_record *r,
                           const struct ses_where *where, uint32_t flags, struct status_note *note);
/* Removes the record's entry if it still says where. */
enum status ses_index_remove(struct ses_index *x, const struct ses_record *r,
                             const struct ses_where *where, struct status_note *note);
/* Removes it whatever it says. */
enum status ses_index_drop(struct ses_index *x, const struct ses_record *r,
                           struct status_note *note);
enum status ses_index_put_space(struct ses_index *x, const struct ses_index_space *s,
                                struct status_note *note);
enum status ses_index_commit(struct ses_index *x, struct status_note *note);
void ses_index_abort(struct ses_index *x);

/* The record of that key space, depth and name, with its tokens (room for SES_INDEX_TOKENS_MAX).
 * False: there is none, or it makes no sense. */
bool ses_index_get(struct ses_index *x, const uint64_t key[2], uint32_t depth,
                   const struct ses_name *name, uint32_t *tokens, struct ses_record *r,
                   struct ses_where *where);

/* Every entry in order; each stops early when it returns false. record's tokens are valid during
 * the call. An entry that makes no sense is passed over and counted in *bad. */
enum status ses_index_each(struct ses_index *x, void *self,
                           bool (*each)(void *self, const struct ses_record *r,
                                        const struct ses_where *where, uint32_t flags),
                           uint64_t *bad, struct status_note *note);
enum status ses_index_each_space(struct ses_index *x, void *self,
                                 bool (*each)(void *self, const struct ses_index_space *s),
                                 struct status_note *note);

#endif
