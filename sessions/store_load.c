/* SPDX-License-Identifier: Apache-2.0
 * Loads: a record is read in pieces, those of the oldest load first, and summed in order as they
 * come. So a page is checked and handed on while the next ones are read, and what is left to do
 * behind the last byte of all is one piece.
 */
#include <errno.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/store_private.h"

enum { LOAD_PIECES_MAX = 64 }; /* bits of a word */
static const uint64_t LOAD_PIECE = 512 << 10;

enum status ses_store_loads_open(struct ses_store *s, struct status_note *note) {
    uint64_t least = (s->config.host_bytes + LOAD_PIECES_MAX - 1) / LOAD_PIECES_MAX;
    uint64_t piece = s->config.piece_bytes != 0 ? s->config.piece_bytes : LOAD_PIECE;
    piece = piece > least ? piece : least;
    s->piece = (piece + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
    s->n_pieces = (uint32_t)((s->config.host_bytes + s->piece - 1) / s->piece);
    for (uint32_t i = 0; i < SES_STORE_BATCH && s->n_pieces > 1; i++) {
        s->load[i].sum = XXH3_createState();
        if (s->load[i].sum == NULL)
            return status_say(note, STATUS_NO_MEMORY, "no memory to check stored pages with");
    }
    return STATUS_OK;
}

void ses_store_loads_close(struct ses_store *s) {
    for (uint32_t i = 0; i < SES_STORE_BATCH; i++)
        XXH3_freeState(s->load[i].sum);
}

static uint64_t piece_bytes(const struct ses_store *s, uint32_t piece) {
    uint64_t left = s->config.host_bytes - piece * s->piece;
    return left < s->piece ? left : s->piece;
}

static unsigned char *page_of(const struct ses_store *s, const struct store_load *l) {
    return s->config.host + l->slot * s->config.host_bytes;
}

static void load_end(struct ses_store *s, struct store_load *l) {
    s->counts.loaded += l->status == STATUS_OK;
    s->n_loading--;
    l->used = false;
    s->to.loaded(s->to.self, l->slot, l->status);
}

/* The one that was begun first of those that have something to ask for. */
static struct store_load *load_next(struct ses_store *s) {
    struct store_load *next = NULL;
    for (uint32_t i = 0; i < SES_STORE_BATCH; i++) {
        struct store_load *l = &s->load[i];
        if (l->used && l->status == STATUS_OK && l->asked < s->n_pieces &&
            (next == NULL || l->ticket < next->ticket))
            next = l;
    }
    return next;
}

static void piece_ask(struct ses_store *s, struct store_load *l) {
    struct store_op *op = ses_store_op_take(s);
    CHECK(op != NULL);
    const struct ses_where *where = &s->at[l->number].where;
    CHECK((uint64_t)where->blocks * SES_DISK_BLOCK == s->header_bytes + s->config.host_bytes);
    uint32_t piece = l->asked++;
    uint64_t n = piece_bytes(s, piece), at = piece * s->piece, head = s->header_bytes;
    op->load = l;
    op->number = piece;
    op->bytes = n + (piece == 0 ? head : 0);
    op->io = (struct ses_disk_op){
        .kind = SES_DISK_READ, .fd = l->fd, .offset = where->offset + (piece == 0 ? 0 : head + at)};
    if (piece == 0)
        op->io.part[op->io.n_parts++] = (struct iovec){op->header, head};
    op->io.part[op->io.n_parts++] = (struct iovec){page_of(s, l) + at, n};
    l->n_asked++;
    s->n_reading++;
    s->disk->ops->submit(s->disk, &op->io);
}

static void pieces_on(struct ses_store *s) {
    struct store_load *l;
    while (s->n_reading < SES_STORE_BATCH && (l = load_next(s)) != NULL)
        piece_ask(s, l);
}

void ses_store_load_begin(struct ses_store *s, uint32_t number, uint32_t slot) {
    struct store_load *l = s->load;
    while (l->used)
        CHECK(++l < s->load + SES_STORE_BATCH);
    CHECK(number < s->config.n_numbers && s->at[number].held && slot < s->config.n_host);
    uint32_t segment = s->at[number].where.segment; /* 0: a compaction could not save it */
    *l = (struct store_load){.used = true,
                             .number = number,
                             .slot = slot,
                             .ticket = ++s->tickets,
                             .fd = segment != 0 ? ses_files_fd(s->files, segment) : -ENOENT,
                             .sum = l->sum};
    s->n_loading++;
    if (l->fd < 0) {
        s->counts.lost_segments++;
        l->status = l->fd == -ENOENT ? STATUS_BAD_FILE : STATUS_IO;
        load_end(s, l);
        return;
    }
    if (s->n_pieces > 1)
        XXH3_128bits_reset(l->sum);
    pieces_on(s);
}

/* Adds what came and has all before it. */
static void sum_on(struct ses_store *s, struct store_load *l) {
    while (l->summed < s->n_pieces && (l->came >> l->summed & 1) != 0) {
        XXH3_128bits_update(l->sum, page_of(s, l) + l->summed * s->piece,
                            piece_bytes(s, l->summed));
        l->summed++;
    }
}

static enum status load_check(struct ses_store *s, struct store_load *l) {
    const struct ses_where *where = &s->at[l->number].where;
    XXH128_hash_t sum = s->n_pieces > 1 ? XXH3_128bits_digest(l->sum)
                                        : XXH3_128bits(page_of(s, l), s->config.host_bytes);
    if (sum.low64 == where->sum[0] && sum.high64 == where->sum[1])
        return STATUS_OK;
    s->counts.bad_sum++;
    return STATUS_BAD_FILE;
}

void ses_store_piece_came(struct ses_store *s, struct store_op *op) {
    struct store_load *l = op->load;
    const struct store_location *at = &s->at[l->number];
    if (l->status == STATUS_OK && op->failed)
        l->status = op->io.result < 0 ? STATUS_IO : STATUS_BAD_FILE;
    else if (l->status == STATUS_OK && op->number == 0)
        l->status =
            ses_store_verify_header(s, &at->record, &at->where, op->header, s->header_bytes);
    op->used = false;
    op->load = NULL;
    s->n_reading--;
    l->n_asked--;
    l->came |= (uint64_t)1 << op->number;
    if (l->status == STATUS_OK && s->n_pieces > 1)
        sum_on(s, l);
    bool all = l->asked == s->n_pieces && l->n_asked == 0;
    if (l->status == STATUS_OK && all)
        l->status = load_check(s, l);
    if (l->n_asked == 0 && (all || l->status != STATUS_OK))
        load_end(s, l);
    pieces_on(s);
}
