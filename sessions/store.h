/* SPDX-License-Identifier: Apache-2.0
 * The store: pages of sessions on a disk, one store a rank and directory, an actor on a thread
 * of its own that only it blocks. Bytes lie in append-only segment files, each record with a
 * header and a checksum; that a record exists is said by the index alone, whose commit comes
 * after the bytes are durable. So whatever is cut off, lost or flipped is a record that does not
 * exist or does not verify: a miss with a counted cause.
 *
 *   DIR/lock  DIR/format  DIR/index/  DIR/segment-00001 ...
 *
 * An index that is damaged, gone or another's is not opened: it is laid aside, and a new one is
 * made of what the segments' headers say, which are checksummed too. Pins are lost with it, but not
 * when that happens while the store runs and knows them (heal.c).
 *
 * Order within one batch: write records, sync segments, sync names, commit the index (removals
 * first), answer; then unlink segments that nothing lies in any more. Compaction copies what
 * lives in a sparse segment, and is one more batch of that kind.
 */
#ifndef SESSIONS_STORE_H
#define SESSIONS_STORE_H

#include "sessions/disk.h"
#include "sessions/index.h"
#include "sessions/protocol.h"

struct ses_store;
extern const struct act_kind ses_store_kind;

enum { SES_STORE_FORMAT = 1, SES_STORE_BATCH = 32, SES_STORE_QUEUE = 256 };

struct ses_store_config {
    const char *folder;    /* copied; created when it is not there; else a store or empty */
    struct ses_disk *disk; /* taken over; NULL: the best that the system has */
    uint64_t budget, floor;
    uint64_t segment_bytes; /* 0: by the budget */
    struct ses_key key;
    const char *text; /* copied; model and profile in words */
    struct ses_index_profile profile;
    /* Copied; NULL: none. The directory in which several ranks have folders of their own: what lies
     * there for other numbers of ranks is known as sessions under other keys. */
    const char *root;
    uint32_t rank, page_tokens;
    uint64_t page_bytes;
    unsigned char *host; /* slots: whole blocks, on block boundaries */
    uint64_t host_bytes; /* of one */
    uint32_t n_host;
    uint64_t piece_bytes; /* that one read asks for; 0: as many as suit */
    uint32_t n_numbers;   /* records that the memory can name */
    /* Records that the memory has places for; 0: for all. When more are found, those of pinned
     * sessions are kept, then those of the sessions that were used last. */
    uint32_t n_places;
    /* Called on the store's thread when it stops or begins again to take pages, and by the opener
     * of what it did not expect. May be NULL. */
    void (*say)(void *self, const char *sentence);
    void *say_self;
};

struct ses_store_counts {
    uint64_t stored, loaded, erased, commits, compactions, moved;
    uint64_t
        dropped; /* records that compaction could not read, or a smaller budget has no room for */
    /* Records that were not what the index says, by what was wrong. */
    uint64_t bad_header, bad_sum, short_reads, lost_segments, bad_entries;
    uint64_t io_errors, refused; /* refused: budget or floor */
    uint64_t found, found_other, orphans;
    uint64_t rebuilt, salvaged; /* indexes made anew from the segments, and records in them */
    uint64_t bytes, index_bytes;
    uint64_t others_dropped; /* records of other keys that gave way */
    uint64_t marks;          /* entries whose use or flags were written anew */
};
void ses_store_counts_add(struct ses_store_counts *sum, const struct ses_store_counts *one);

/* Refuses a directory that is somebody else's, in use, or of another format, each by name, and
 * leaves it as it was. A lost or damaged file `format` is written anew where segments or the index
 * say what they are. */
enum status ses_store_open(const struct ses_store_config *config, struct ses_store **out,
                           struct status_note *note);
void ses_store_close(struct ses_store *s);
void ses_store_wire(struct ses_store *s, act_id_t memory);
const char *ses_store_disk_name(const struct ses_store *s);
bool ses_store_direct(const struct ses_store *s); /* past the page cache */

/* Records of the key that a budget has room for. */
uint32_t ses_store_capacity(const struct ses_store_config *config);
/* At start: what the index knows and there is a place for, parents before children; i counts the
 * records of this key. */
uint32_t ses_store_n_found(const struct ses_store *s);
const struct ses_record *ses_store_found(const struct ses_store *s, uint32_t i);
/* Is there one of that name? Its i, or UINT32_MAX. */
uint32_t ses_store_find(const struct ses_store *s, const struct ses_record *r);
/* Record i has this number from now on. */
void ses_store_bind(struct ses_store *s, uint32_t i, uint32_t number);
/* What was not bound is of no use: it is removed. Frees what was found. */
enum status ses_store_settle(struct ses_store *s, struct status_note *note);
/* First pages of sessions under other keys. */
void ses_store_each_other(struct ses_store *s, void *self,
                          void (*each)(void *self, const struct ses_record *r));

/* The store without its actor, for tests and tools: what the messages ask, then cycle until nothing
 * is left; answers come by these calls. */
struct ses_store_answers {
    void *self;
    void (*stored)(void *self, uint32_t slot, enum status status);
    void (*loaded)(void *self, uint32_t slot, enum status status);
    void (*erased)(void *self, uint32_t number);
};
void ses_store_answer_to(struct ses_store *s, const struct ses_store_answers *to);
void ses_store_put(struct ses_store *s, const struct ses_record *r, uint32_t number, uint32_t slot);
void ses_store_get(struct ses_store *s, uint32_t number, uint32_t slot);
void ses_store_erase(struct ses_store *s, uint32_t number);
/* The index says so from its next commit on; changed flags are worth one of their own. */
void ses_store_mark(struct ses_store *s, uint32_t number, uint64_t use, uint32_t flags);
/* As if something else were to be committed: before the end, and for tests. */
void ses_store_marks_now(struct ses_store *s);
/* Bytes of the record's part of a session's file (sessions/export.h) from offset on, in q. */
void ses_store_fetch(struct ses_store *s, uint32_t number, uint32_t page, uint64_t offset,
                     struct ses_query *q);
/* Answers others and other_tokens. */
void ses_store_query(struct ses_store *s, struct ses_query *q);
/* Does some work and waits for some; false: nothing is left to do. */
bool ses_store_cycle(struct ses_store *s);

void ses_store_count(const struct ses_store *s, struct ses_store_counts *out);

#endif
