/* SPDX-License-Identifier: Apache-2.0
 * What the store's files share: store.c has batches, store_load.c loads, store_open.c the directory
 * and what is found in it, compact.c the moving of what lives.
 */
#ifndef SESSIONS_STORE_PRIVATE_H
#define SESSIONS_STORE_PRIVATE_H

#include "sessions/space.h"
#include "sessions/store.h"
#include "sessions/store_load.h"

#define SES_STORE_MAGIC "RHPAGE1\n"

/* The head of a record's header block; tokens follow it. */
struct store_header {
    char magic[8];
    uint32_t format, n_tokens;
    uint64_t key[2], tenant, name[2], parent[2], use;
    uint32_t depth, blocks;
    uint64_t page_bytes;
    uint64_t sum[2];     /* of the page's blocks */
    uint64_t header_sum; /* of the whole header with this field zero */
};
_Static_assert(sizeof(struct store_header) == 120, "on-disk layout");

struct store_location {
    bool held;
    struct ses_where where;
    struct ses_record record; /* without tokens */
    uint32_t flags;
    bool marked;
};

struct store_op {
    struct ses_disk_op io;
    unsigned char *header; /* header_bytes, aligned */
    bool used, failed;
    struct store_load *load;      /* NULL: no piece of one */
    uint32_t number, slot, tries; /* number: of the put, or of the load's piece */
    uint64_t bytes;
};

struct store_put {
    struct ses_record record; /* with tokens, the memory's */
    uint32_t number, slot;
    struct ses_where where;
    bool taken;
    enum status status;
};

struct store_found {
    struct ses_record record; /* tokens: the store's own copy */
    struct ses_where where;
    uint32_t flags, number;
    bool bound;
    bool no_place; /* the memory has none for it */
};

struct ses_store {
    struct ses_store_config config;
    char folder[4096], root[4096], text[SES_INDEX_TEXT]; /* config's point here */
    struct ses_disk *disk;
    struct ses_index *index;
    struct ses_space_files *files;
    int lock;
    bool lock_made;        /* by this start */
    uint32_t blocks;       /* of a record */
    uint64_t header_bytes; /* of its header */
    uint64_t own_key[2];
    struct store_location *at; /* [n_numbers] */
    struct store_op op[SES_DISK_DEPTH];
    unsigned char *headers;
    struct store_load load[SES_STORE_BATCH];
    uint64_t piece, tickets;       /* bytes of a read */
    uint32_t n_pieces;             /* of a page */
    uint32_t n_loading, n_reading; /* loads, and pieces of them that are under way */
    struct {
        uint32_t number, slot;
    } get[SES_STORE_QUEUE];
    uint32_t get_first, n_gets, passed; /* passed: loads that went before a batch */
    struct store_put put[SES_STORE_QUEUE];
    uint32_t n_puts;
    uint32_t *erase; /* [n_numbers] */
    uint32_t n_erases;
    bool erases_wait; /* the last commit failed: they wait for the next batch */
    uint32_t *mark;   /* [n_numbers]: whose use or flags changed since the last commit */
    uint32_t n_marks;
    bool marks_now;
    /* The record that was read last for a file of its session; fetched_name all zero: none. */
    unsigned char *fetched; /* NULL until one was asked for */
    struct ses_name fetched_name;
    struct ses_others *others; /* while somebody reads the list (others.c) */
    struct ses_store_answers to;
    struct ses_store_counts counts;
    struct store_found *found;
    uint32_t n_found, found_max;
    uint32_t *by_name; /* hash of found, 1-based; 0: empty */
    uint32_t by_name_mask;
    struct store_found *other; /* first pages under other keys */
    uint32_t n_other, other_max;
    bool failing;
    bool stopping, shrunk; /* shrunk: to the budget, or as far as that goes now */
    bool again;            /* the batch at hand is made a second time, with a healed index */
    uint32_t heals;        /* of an index that was left inside the library */
    act_id_t memory;
    struct act_ctx *ctx;
    uint64_t timer;
    bool slow, rested; /* simulation: see store_is_slow */
};

/* Of a whole header, its tokens and padding included. */
uint64_t ses_store_header_sum(const unsigned char *header, uint64_t bytes);
/* Writes the header of a record whose sums are known. */
void ses_store_header(const struct ses_store *s, const struct ses_record *r,
                      const struct ses_where *where, unsigned char *header);
/* Is this the record, as the index knows it? Counts what is wrong. page: blocks behind the
 * header. */
enum status ses_store_verify(struct ses_store *s, const struct ses_record *r,
                             const struct ses_where *where, const unsigned char *header,
                             uint64_t header_bytes, const unsigned char *page);
/* The same of its header alone. */
enum status ses_store_verify_header(struct ses_store *s, const struct ses_record *r,
                                    const struct ses_where *where, const unsigned char *header,
                                    uint64_t header_bytes);
/* One that is not under way, of SES_DISK_DEPTH. */
struct store_op *ses_store_op_take(struct ses_store *s);
/* Waits for all that is under way. */
void ses_store_drain(struct ses_store *s);
/* One transfer, waited for; nothing else may be under way. OK when all bytes came. */
enum status ses_store_transfer(struct ses_store *s, enum ses_disk_kind kind, int fd,
                               uint64_t offset, void *bytes, uint64_t n);
/* Commits the index, with the disk's word before and after. */
enum status ses_store_commit(struct ses_store *s, struct status_note *note);
/* Calls each with the index of every folder beside this one that is of another number of ranks;
 * path: of the folder. */
void ses_store_beside(const struct ses_store *s, void *self,
                      void (*each)(void *self, struct ses_index *x, const char *path));
void ses_store_others_close(struct ses_store *s);
/* Moves what lives in the sparsest segment; true when that made room. give_up: or gives up one of
 * this key's own that all lives, when more is here than the budget allows. */
bool ses_store_compact(struct ses_store *s, bool give_up);
void ses_store_remember(struct ses_store *s, uint32_t number, const struct ses_record *r,
                        const struct ses_where *where, uint32_t flags);

#endif
