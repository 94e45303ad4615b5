/* SPDX-License-Identifier: Apache-2.0
 * Making room in a full store: what lives in the sparsest segment is copied behind the last one,
 * and the index says so in one commit, after which the old segment is unlinked. Cut off
 * anywhere, the old records or the new ones are there, never half of either. A store that is larger
 * than its budget, which was larger before, is moved together too; when there is no room even for
 * that, or too much lives, whole segments are given up, what is pinned in them last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/store_private.h"

enum { READ_TRIES = 3, OTHERS_MAX = 8192 };

struct move {
    struct ses_record record;
    struct ses_where from, to;
    uint32_t flags;
    bool taken, good;
};

struct moves {
    struct ses_store *store;
    uint32_t segment;
    bool others; /* only records of other keys */
    struct move *move;
    uint32_t n, max;
    bool no_memory;
};

static bool collect(void *self, const struct ses_record *r, const struct ses_where *where,
                    uint32_t flags) {
    struct moves *m = self;
    bool own = memcmp(r->space.key, m->store->own_key, sizeof r->space.key) == 0;
    if (where->segment != m->segment || (m->others && own))
        return true;
    if (m->others && m->n == OTHERS_MAX) /* the rest the next time */
        return false;
    if (m->n == m->max) {
        uint32_t max = m->max == 0 ? 64 : m->max * 2;
        struct move *more = realloc(m->move, max * sizeof *more);
        m->no_memory = more == NULL;
        if (more == NULL)
            return false;
        m->move = more;
        m->max = max;
    }
    uint32_t *tokens = malloc(r->n_tokens * sizeof *tokens);
    m->no_memory = tokens == NULL;
    if (tokens == NULL)
        return false;
    memcpy(tokens, r->tokens, r->n_tokens * sizeof *tokens);
    m->move[m->n] = (struct move){.record = *r, .from = *where, .flags = flags};
    m->move[m->n++].record.tokens = tokens;
    return true;
}

static void moves_free(struct moves *m) {
    for (uint32_t i = 0; i < m->n; i++)
        free(m->move[i].record.tokens);
    free(m->move);
}

/* Reads a record, verifies it and writes it to its new place. */
static enum status move_bytes(struct ses_store *s, struct move *m, unsigned char *bytes,
                              struct status_note *note) {
    uint64_t n = (uint64_t)m->from.blocks * SES_DISK_BLOCK;
    struct store_header h;
    if (!ses_files_fits(s->files, m->from.blocks)) {
        s->counts.dropped++;
        return STATUS_OK;
    }
    int fd = ses_files_fd(s->files, m->from.segment);
    enum status status = fd < 0 ? STATUS_IO : STATUS_AGAIN;
    for (int tries = 0; fd >= 0 && status != STATUS_OK && tries < READ_TRIES; tries++)
        status = ses_store_transfer(s, SES_DISK_READ, fd, m->from.offset, bytes, n);
    if (status != STATUS_OK) {
        s->counts.dropped++; /* it cannot be had: it goes with its segment */
        return STATUS_OK;
    }
    memcpy(&h, bytes, sizeof h);
    uint64_t page = (h.page_bytes + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
    if (page >= n ||
        ses_store_verify(s, &m->record, &m->from, bytes, n - page, bytes + n - page) != STATUS_OK) {
        s->counts.dropped++;
        return STATUS_OK;
    }
    TRY(ses_files_take(s->files, m->from.blocks, true, &m->to, note));
    m->taken = true;
    m->to.sum[0] = m->from.sum[0];
    m->to.sum[1] = m->from.sum[1];
    fd = ses_files_fd(s->files, m->to.segment);
    if (fd < 0)
        return status_say(note, STATUS_IO, "a new segment cannot be opened");
    TRY(ses_store_transfer(s, SES_DISK_WRITE, fd, m->to.offset, bytes, n));
    m->good = true;
    return STATUS_OK;
}

/* What there is no room for is lost: what is pinned and what was used last are moved first. */
static int by_worth(const void *a_, const void *b_) {
    const struct move *a = a_, *b = b_;
    if (a->flags != b->flags)
        return a->flags > b->flags ? -1 : 1;
    if (a->record.use != b->record.use)
        return a->record.use > b->record.use ? -1 : 1;
    return a->from.offset < b->from.offset ? -1 : a->from.offset > b->from.offset;
}

static enum status move_all(struct ses_store *s, struct moves *all, unsigned char *bytes,
                            struct status_note *note) {
    for (uint32_t i = 0; i < all->n; i++)
        TRY(move_bytes(s, &all->move[i], bytes, note));
    uint32_t synced = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct move *m = &all->move[i];
        if (!m->good || m->to.segment == synced)
            continue;
        synced = m->to.segment;
        TRY(ses_store_transfer(s, SES_DISK_SYNC, ses_files_fd(s->files, synced), 0, NULL, 0));
    }
    TRY(ses_files_sync_names(s->files, note));
    for (uint32_t i = 0; i < all->n; i++) {
        const struct move *m = &all->move[i];
        TRY(ses_index_remove(s->index, &m->record, &m->from, note));
        if (m->good)
            TRY(ses_index_put(s->index, &m->record, &m->to, m->flags, note));
    }
    return ses_store_commit(s, note);
}

/* The numbers that name what was moved. */
static void follow(struct ses_store *s, const struct moves *all) {
    for (uint32_t k = 0; k < s->config.n_numbers; k++) {
        struct ses_where *where = &s->at[k].where;
        if (!s->at[k].held || where->segment != all->segment)
            continue;
        struct ses_where to = {.segment = 0}; /* lost, unless it was moved */
        for (uint32_t i = 0; i < all->n; i++)
            if (all->move[i].good && all->move[i].from.offset == where->offset)
                to = all->move[i].to;
        *where = to;
    }
}

/* Where records of other keys lie, and which of those segments somebody pinned something in. */
struct foreign {
    const struct ses_store *store;
    unsigned char segment[SES_SEGMENTS_MAX];
};
enum { FOREIGN_HERE = 1, FOREIGN_PINNED = 2 };

static bool look_foreign(void *self, const struct ses_record *r, const struct ses_where *where,
                         uint32_t flags) {
    struct foreign *f = self;
    bool own = memcmp(r->space.key, f->store->own_key, sizeof r->space.key) == 0;
    if (!own && where->segment < SES_SEGMENTS_MAX)
        f->segment[where->segment] |=
            FOREIGN_HERE | ((flags & SES_RECORD_PINNED) != 0 ? FOREIGN_PINNED : 0);
    return true;
}

/* The segment that was written first of those with records of other keys, whose orders of use say
 * nothing about each other; one without pins if there is any. 0: none. */
static uint32_t oldest_foreign(struct ses_store *s) {
    struct status_note note;
    uint64_t bad = 0;
    uint32_t oldest = 0;
    struct foreign *f = calloc(1, sizeof *f);
    if (f == NULL)
        return 0;
    f->store = s;
    enum status status = ses_index_each(s->index, f, look_foreign, &bad, &note);
    for (unsigned pinned = 0; status == STATUS_OK && pinned <= FOREIGN_PINNED && oldest == 0;
         pinned += FOREIGN_PINNED)
        for (uint32_t n = 1; n < SES_SEGMENTS_MAX && oldest == 0; n++)
            if (f->segment[n] == (FOREIGN_HERE | pinned))
                oldest = n;
    free(f);
    return oldest;
}

static void say_gave_way(struct ses_store *s, uint32_t n) {
    char text[192];
    if (s->counts.others_dropped == 0 && n > 0 && s->config.say != NULL) {
        snprintf(text, sizeof text,
                 "the session store is full: stored pages of other models or settings give way, "
                 "%u now; disk.others_dropped of the statistics counts them",
                 n);
        s->config.say(s->config.say_self, text);
    }
    s->counts.others_dropped += n;
}

/* Records of other keys give way, those of the oldest segment. */
static bool evict_others(struct ses_store *s) {
    struct moves all = {.store = s, .segment = oldest_foreign(s), .others = true};
    if (all.segment == 0)
        return false;
    struct status_note note;
    uint64_t bad = 0;
    enum status status = ses_index_each(s->index, &all, collect, &bad, &note);
    for (uint32_t i = 0; status == STATUS_OK && i < all.n; i++)
        status = ses_index_remove(s->index, &all.move[i].record, &all.move[i].from, &note);
    if (status == STATUS_OK && all.n > 0)
        status = ses_store_commit(s, &note);
    bool done = status == STATUS_OK && all.n > 0; /* of those that there was memory for */
    if (status != STATUS_OK)
        ses_index_abort(s->index);
    for (uint32_t i = 0; done && i < all.n; i++)
        ses_files_drop(s->files, &all.move[i].from);
    if (done) {
        ses_files_remove_empty(s->files);
        say_gave_way(s, all.n);
    }
    moves_free(&all);
    return done;
}

bool ses_store_compact(struct ses_store *s, bool give_up) {
    uint64_t record = (uint64_t)s->blocks * SES_DISK_BLOCK;
    struct moves all = {.store = s, .segment = ses_files_victim(s->files, record)};
    if (all.segment == 0 && evict_others(s))
        return true;
    if (all.segment == 0 && give_up && ses_files_over(s->files))
        all.segment = ses_files_victim(s->files, 0);
    if (all.segment == 0)
        return false;
    ses_store_drain(s);
    struct status_note note;
    uint64_t bad = 0, most = 0;
    enum status status = ses_index_each(s->index, &all, collect, &bad, &note);
    for (uint32_t i = 0; i < all.n; i++)
        most = all.move[i].from.blocks > most ? all.move[i].from.blocks : most;
    void *bytes = NULL;
    if (status == STATUS_OK && (all.no_memory || all.n == 0 ||
                                posix_memalign(&bytes, SES_DISK_BLOCK, most * SES_DISK_BLOCK) != 0))
        status = STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        qsort(all.move, all.n, sizeof *all.move, by_worth);
        status = move_all(s, &all, bytes, &note);
    }
    bool done = status == STATUS_OK;
    if (!done)
        ses_index_abort(s->index);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct move *m = &all.move[i];
        if (done)
            ses_files_drop(s->files, &m->from);
        if (m->taken && !(done && m->good))
            ses_files_drop(s->files, &m->to);
        s->counts.moved += done && m->good;
    }
    if (done) {
        follow(s, &all);
        ses_files_remove_empty(s->files);
        s->counts.compactions++;
    }
    free(bytes);
    moves_free(&all);
    return done;
}
