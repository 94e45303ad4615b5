/* SPDX-License-Identifier: Apache-2.0
 * Room in a store's directory: segment files of one size, filled from front to back and never
 * written again, and how much of each is still wanted. Keeps to the budget and the free-space floor
 * before anything is written. One segment of the budget is kept for compaction, so that a full
 * store can always make room. Used by the store's thread only.
 */
#ifndef SESSIONS_SPACE_H
#define SESSIONS_SPACE_H

#include "sessions/disk.h"
#include "sessions/index.h"

struct ses_space_files;

struct ses_space_config {
    struct ses_disk *disk;
    const char *folder;
    uint64_t segment_bytes; /* whole records */
    uint64_t budget;        /* bytes of all segment files together, others' included */
    uint64_t floor;         /* bytes that stay free on the file system */
};

enum { SES_SEGMENTS_MAX = 65536 };

enum status ses_files_open(const struct ses_space_config *config, struct ses_space_files **out,
                           struct status_note *note);
void ses_files_close(struct ses_space_files *f);

/* At start: an entry of the index lies there. False: there is no such segment, or it is shorter. */
bool ses_files_found(struct ses_space_files *f, const struct ses_where *where);

/* Room for a record. TOO_LARGE: the budget or the floor forbids it, or no segment is as large; IO:
 * the disk. compacting: the last segment may be used too. */
enum status ses_files_take(struct ses_space_files *f, uint32_t blocks, bool compacting,
                           struct ses_where *where, struct status_note *note);
/* What was taken is not wanted (any more). */
void ses_files_drop(struct ses_space_files *f, const struct ses_where *where);
/* The segment after that number (0: the first), and the bytes of its file; 0: no more. */
uint32_t ses_files_next(const struct ses_space_files *f, uint32_t segment, uint64_t *bytes);
/* A file descriptor of the segment; negative errno. */
int ses_files_fd(struct ses_space_files *f, uint32_t segment);
/* Names of new segments are made durable, which a commit needs; removes empty ones. */
enum status ses_files_sync_names(struct ses_space_files *f, struct status_note *note);
void ses_files_remove_empty(struct ses_space_files *f);
/* The full segment with the least still in it, when at least `gain` bytes of it are not; 0:
 * none. */
uint32_t ses_files_victim(const struct ses_space_files *f, uint64_t gain);
/* More is here than the budget, which was larger before, allows with a segment to move to. */
bool ses_files_over(const struct ses_space_files *f);
/* More is here than the budget. */
bool ses_files_excess(const struct ses_space_files *f);
/* A record of so many blocks has room, or would have it in a segment that the budget allows to be
 * begun for compaction, or that is needed to move together what is here of a larger one. */
bool ses_files_fits(const struct ses_space_files *f, uint32_t blocks);
/* So many bytes can not be taken but by compacting, or more is here than the budget allows. */
bool ses_files_tight(const struct ses_space_files *f, uint64_t bytes);
uint64_t ses_files_bytes(const struct ses_space_files *f);

#endif
