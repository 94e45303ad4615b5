/* SPDX-License-Identifier: Apache-2.0
 * A session as one file that can be carried to another server of the same model and settings:
 *
 *   head    ses_export_head: what it is and whose, with a checksum
 *   tokens  n_tokens of 32 bits; their checksum is in the head
 *   parts   for each page, for each rank: ses_export_part, then page_bytes of keys and values. The
 *           last page comes first: a session that goes on while it is read loses that one only
 *   end     ses_export_end: a checksum of all bytes before it
 *
 * All numbers little-endian, all checksums XXH3-128. Pure; import takes the bytes in any portions
 * and trusts none of them before its checksum, no size before it is compared with what is possible
 * here.
 */
#ifndef SESSIONS_EXPORT_H
#define SESSIONS_EXPORT_H

#include "sessions/memory.h"

enum { SES_EXPORT_FORMAT = 1, SES_EXPORT_TEXT = 160 };

struct ses_export_head {
    char magic[8];
    uint32_t format, head_bytes; /* of this struct */
    uint64_t fingerprint[2], profile, rope;
    uint32_t layout_version, world;
    uint64_t tenant;
    uint32_t page_tokens, n_pages;
    uint64_t n_tokens;
    uint64_t page_bytes;        /* of one rank */
    char text[SES_EXPORT_TEXT]; /* model and profile, for people */
    uint64_t tokens_sum[2];
    uint64_t sum[2]; /* of this struct with this field zero */
};
_Static_assert(sizeof(struct ses_export_head) == 280, "layout of the file");

struct ses_export_part {
    char magic[8];
    uint32_t page, rank;
    uint64_t sum[2]; /* of the page_bytes behind it */
};
_Static_assert(sizeof(struct ses_export_part) == 32, "layout of the file");

struct ses_export_end {
    char magic[8];
    uint64_t sum[2];
};
_Static_assert(sizeof(struct ses_export_end) == 24, "layout of the file");

/* What this server's sessions are. */
struct ses_export_kind {
    struct ses_key key;
    uint32_t page_tokens, pages_max; /* of one session */
    uint64_t page_bytes;             /* of one rank */
    char text[SES_EXPORT_TEXT];
};

/* Everything but tokens_sum and sum; sealed when tokens_sum is known. */
struct ses_export_head ses_export_head_of(const struct ses_export_kind *kind, uint64_t tenant,
                                          uint64_t n_tokens);
void ses_export_seal(struct ses_export_head *head);
/* Where things lie. */
static inline uint64_t ses_export_tokens_end(const struct ses_export_head *h) {
    return sizeof *h + h->n_tokens * sizeof(uint32_t);
}
static inline uint64_t ses_export_part_bytes(const struct ses_export_head *h) {
    return sizeof(struct ses_export_part) + h->page_bytes;
}
static inline uint64_t ses_export_size(const struct ses_export_head *h) {
    return ses_export_tokens_end(h) + (uint64_t)h->n_pages * h->world * ses_export_part_bytes(h) +
           sizeof(struct ses_export_end);
}
/* The page whose parts come at this place in the file. */
static inline uint32_t ses_export_order(uint32_t at, uint32_t n_pages) {
    return at == 0 ? n_pages - 1 : at - 1;
}
/* Bytes of a part from offset on, at most n; returns how many. page: page_bytes of them. */
uint32_t ses_export_piece(uint32_t index, uint32_t rank, const unsigned char *page,
                          uint64_t page_bytes, uint64_t offset, unsigned char *out, uint32_t n);

struct ses_import;

/* Nothing is allocated before the head is known to be right. */
enum status ses_import_open(const struct ses_export_kind *kind, uint64_t tenant,
                            struct ses_import **out, struct status_note *note);
void ses_import_close(struct ses_import *im);
/* Takes bytes until there are no more or a page is whole, and says how many it took. */
enum status ses_import_feed(struct ses_import *im, const unsigned char *bytes, size_t n,
                            size_t *taken, struct status_note *note);
uint64_t ses_import_at(const struct ses_import *im);   /* bytes taken */
uint64_t ses_import_size(const struct ses_import *im); /* 0: not known yet */
/* A page is whole: its number, tokens, and each rank's bytes; until next. */
bool ses_import_ready(const struct ses_import *im);
uint32_t ses_import_page(const struct ses_import *im, const uint32_t **tokens, uint32_t *n);
const unsigned char *ses_import_bytes(const struct ses_import *im, uint32_t rank);
void ses_import_next(struct ses_import *im);
/* All was there and right. */
bool ses_import_done(const struct ses_import *im);

#endif
