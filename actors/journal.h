/* SPDX-License-Identifier: Apache-2.0
 * An append-only file of records for replaying what was decided (admissions, plans, accepts,
 * evictions); never for recovery. One owner writes through a buffer that is allocated once; a full
 * disk loses records, says so, leaves a gap record as soon as writing works again, and disturbs
 * nobody. A reader stops cleanly at a torn end and names the offset of damage.
 *
 *   file    magic "RHJOURN1", u32 version, u32 0, u64 created_ns, u64 XXH3-64 of these 24 bytes
 *   record  u32 bytes, u16 kind, u16 flags, u64 time_ns, payload, zeros up to 8 bytes,
 *           u64 XXH3-64 of all that, seeded with the record's offset in the file
 * Integers are little-endian. Nothing is synced to the disk but by journal_sync.
 */
#ifndef ACTORS_JOURNAL_H
#define ACTORS_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

enum {
    JOURNAL_VERSION = 1,
    JOURNAL_HEADER_BYTES = 32,
    JOURNAL_RECORD_MAX = 1 << 20, /* payload bytes */
    JOURNAL_KIND_gap = 0xffff     /* payload: u64 how many records this writer has lost so far */
};

struct journal;

/* Opens path for appending; makes it when it does not exist, cuts a torn end off, refuses a file
 * that is no journal or is damaged before its end. buffer_bytes bounds the largest record (payload
 * + 24). */
enum status journal_open(const char *path, size_t buffer_bytes, uint64_t now_ns,
                         struct journal **out, struct status_note *note);
/* Adds a record to the buffer; writes the buffer out when it is full. TOO_LARGE: nothing was
 * added. IO: records were lost; journal_lost says how many in all. */
enum status journal_append(struct journal *j, uint16_t kind, uint16_t flags, uint64_t time_ns,
                           const void *payload, size_t bytes);
/* Hands what is buffered to the system: call it when the owner's mailbox ran empty. */
enum status journal_flush(struct journal *j);
enum status journal_sync(struct journal *j);
uint64_t journal_lost(const struct journal *j);
/* Bytes in the file and in the buffer. */
uint64_t journal_bytes(const struct journal *j);
/* Flushes and frees; j may be NULL. */
void journal_close(struct journal *j);

struct journal_record {
    uint64_t offset, time_ns;
    const void *payload; /* valid until the next call; 8-byte aligned */
    uint32_t bytes;
    uint16_t kind, flags;
};

struct journal_reader;

enum status journal_read_open(const char *path, struct journal_reader **out,
                              struct status_note *note);
/* OK: *out is a record. NOT_FOUND: the end; journal_read_torn says how many bytes of an unfinished
 * record follow. BAD_FILE: damage, the note names the offset; every later call says the same. */
enum status journal_read_next(struct journal_reader *r, struct journal_record *out,
                              struct status_note *note);
uint64_t journal_read_torn(const struct journal_reader *r);
void journal_read_close(struct journal_reader *r);

#endif
