/* SPDX-License-Identifier: Apache-2.0
 * Batches of records to the disk, loads from it, and the actor around them.
 */
#include "sessions/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/heal.h"
#include "sessions/query.h"
#include "sessions/store_private.h"

enum {
    COMPACTIONS_MAX = 4,
    LOADS_FIRST = 64,
    STORE_COOKIE_GO_ON = 0,
    STORE_COOKIE_RETRY = 1,
    STORE_COOKIE_SLOW = 2
};
static const uint64_t STORE_RETRY_NS = 1000000000, STORE_SLOW_NS = 5000000,
                      STORE_FROZEN_NS = 300000000000;

/* ---- records ---- */

uint64_t ses_store_header_sum(const unsigned char *header, uint64_t bytes) {
    struct store_header h;
    memcpy(&h, header, sizeof h);
    h.header_sum = 0;
    uint64_t part[2] = {XXH3_64bits(&h, sizeof h),
                        XXH3_64bits(header + sizeof h, bytes - sizeof h)};
    return XXH3_64bits(part, sizeof part);
}

void ses_store_header(const struct ses_store *s, const struct ses_record *r,
                      const struct ses_where *where, unsigned char *header) {
    struct store_header h = {.format = SES_STORE_FORMAT,
                             .n_tokens = r->n_tokens,
                             .key = {r->space.key[0], r->space.key[1]},
                             .tenant = r->space.tenant,
                             .name = {r->name.word[0], r->name.word[1]},
                             .parent = {r->parent.word[0], r->parent.word[1]},
                             .use = r->use,
                             .depth = r->depth,
                             .blocks = where->blocks,
                             .page_bytes = s->config.page_bytes,
                             .sum = {where->sum[0], where->sum[1]}};
    memcpy(h.magic, SES_STORE_MAGIC, sizeof h.magic);
    CHECK(sizeof h + r->n_tokens * sizeof *r->tokens <= s->header_bytes);
    memset(header, 0, s->header_bytes);
    memcpy(header, &h, sizeof h);
    memcpy(header + sizeof h, r->tokens, r->n_tokens * sizeof *r->tokens);
    h.header_sum = ses_store_header_sum(header, s->header_bytes);
    memcpy(header, &h, sizeof h);
}

enum status ses_store_verify_header(struct ses_store *s, const struct ses_record *r,
                                    const struct ses_where *where, const unsigned char *header,
                                    uint64_t header_bytes) {
    struct store_header h;
    memcpy(&h, header, sizeof h);
    if (memcmp(h.magic, SES_STORE_MAGIC, sizeof h.magic) != 0 || h.format != SES_STORE_FORMAT ||
        h.header_sum != ses_store_header_sum(header, header_bytes) || h.blocks != where->blocks ||
        memcmp(h.name, r->name.word, sizeof h.name) != 0 ||
        memcmp(h.key, r->space.key, sizeof h.key) != 0 || h.tenant != r->space.tenant ||
        memcmp(h.sum, where->sum, sizeof h.sum) != 0) {
        s->counts.bad_header++;
        return STATUS_BAD_FILE;
    }
    return STATUS_OK;
}

enum status ses_store_verify(struct ses_store *s, const struct ses_record *r,
                             const struct ses_where *where, const unsigned char *header,
                             uint64_t header_bytes, const unsigned char *page) {
    TRY(ses_store_verify_header(s, r, where, header, header_bytes));
    uint64_t bytes = (uint64_t)where->blocks * SES_DISK_BLOCK - header_bytes;
    XXH128_hash_t sum = XXH3_128bits(page, bytes);
    if (sum.low64 != where->sum[0] || sum.high64 != where->sum[1]) {
        s->counts.bad_sum++;
        return STATUS_BAD_FILE;
    }
    return STATUS_OK;
}

void ses_store_remember(struct ses_store *s, uint32_t number, const struct ses_record *r,
                        const struct ses_where *where, uint32_t flags) {
    CHECK(number < s->config.n_numbers && !s->at[number].held);
    s->at[number] =
        (struct store_location){.held = true, .where = *where, .record = *r, .flags = flags};
    s->at[number].record.tokens = NULL;
}

/* ---- transfers ---- */

struct store_op *ses_store_op_take(struct ses_store *s) {
    for (uint32_t i = 0; i < SES_DISK_DEPTH; i++)
        if (!s->op[i].used) {
            s->op[i].used = true;
            s->op[i].failed = false;
            s->op[i].tries = 0;
            return &s->op[i];
        }
    return NULL;
}

static void op_submit(struct ses_store *s, struct store_op *op, enum ses_disk_kind kind, int fd,
                      const struct ses_where *where) {
    uint64_t page = (uint64_t)where->blocks * SES_DISK_BLOCK - s->header_bytes;
    CHECK(page == s->config.host_bytes && op->slot < s->config.n_host);
    op->bytes = page + s->header_bytes;
    op->io =
        (struct ses_disk_op){.kind = kind,
                             .fd = fd,
                             .offset = where->offset,
                             .part = {{op->header, s->header_bytes},
                                      {s->config.host + op->slot * s->config.host_bytes, page}},
                             .n_parts = 2};
    s->disk->ops->submit(s->disk, &op->io);
}

/* A transfer has ended; one that was short is tried again. */
static struct store_op *op_reap(struct ses_store *s) {
    struct ses_disk_op *io = s->disk->ops->wait(s->disk);
    struct store_op *op = NULL;
    for (uint32_t i = 0; op == NULL; i++) {
        CHECK(i < SES_DISK_DEPTH);
        if (&s->op[i].io == io)
            op = &s->op[i];
    }
    int64_t wanted = io->kind == SES_DISK_SYNC ? 0 : (int64_t)op->bytes;
    if (io->result >= 0 && io->result != wanted) {
        s->counts.short_reads++;
        if (op->tries++ < 2) {
            s->disk->ops->submit(s->disk, io);
            return NULL;
        }
    }
    op->failed = io->result != wanted;
    s->counts.io_errors += io->result < 0;
    if (op->load == NULL)
        return op;
    ses_store_piece_came(s, op);
    return NULL;
}

void ses_store_drain(struct ses_store *s) {
    while (s->n_loading > 0)
        op_reap(s);
}

enum status ses_store_transfer(struct ses_store *s, enum ses_disk_kind kind, int fd,
                               uint64_t offset, void *bytes, uint64_t n) {
    struct store_op *op = ses_store_op_take(s);
    CHECK(op != NULL);
    op->load = NULL;
    op->bytes = n;
    op->io = (struct ses_disk_op){
        .kind = kind, .fd = fd, .offset = offset, .part = {{bytes, n}}, .n_parts = 1};
    s->disk->ops->submit(s->disk, &op->io);
    while (op_reap(s) != op)
        ;
    op->used = false;
    return !op->failed ? STATUS_OK : op->io.result < 0 ? STATUS_IO : STATUS_BAD_FILE;
}

enum status ses_store_commit(struct ses_store *s, struct status_note *note) {
    int cut = s->disk->ops->commit(s->disk, true);
    if (cut < 0) {
        ses_index_abort(s->index);
        return status_say(note, STATUS_IO, "the session index cannot commit: %s", strerror(-cut));
    }
    TRY(ses_index_commit(s->index, note));
    s->counts.commits++;
    cut = s->disk->ops->commit(s->disk, false);
    return cut < 0 ? status_say(note, STATUS_IO, "after a commit: %s", strerror(-cut)) : STATUS_OK;
}

/* ---- loads ---- */

static void loads_on(struct ses_store *s) {
    while (s->n_gets > 0 && s->n_loading < SES_STORE_BATCH) {
        uint32_t i = s->get_first;
        s->get_first = (s->get_first + 1) % SES_STORE_QUEUE;
        s->n_gets--;
        ses_store_load_begin(s, s->get[i].number, s->get[i].slot);
    }
}

/* ---- batches ---- */

static void say_state(struct ses_store *s, bool failing, const struct status_note *note) {
    if (failing == s->failing)
        return;
    s->failing = failing;
    if (s->config.say != NULL)
        s->config.say(s->config.say_self,
                      failing ? note->text : "the session store takes pages again");
}

static enum status put_begin(struct ses_store *s, struct store_put *p, struct status_note *note) {
    const unsigned char *page = s->config.host + p->slot * s->config.host_bytes;
    enum status status = ses_files_take(s->files, s->blocks, false, &p->where, note);
    if (status != STATUS_OK) {
        s->counts.refused += status == STATUS_TOO_LARGE;
        s->counts.io_errors += status != STATUS_TOO_LARGE;
        return status;
    }
    p->taken = true;
    XXH128_hash_t sum = XXH3_128bits(page, s->config.host_bytes);
    p->where.sum[0] = sum.low64;
    p->where.sum[1] = sum.high64;
    int fd = ses_files_fd(s->files, p->where.segment);
    if (fd < 0)
        return status_say(note, STATUS_IO, "a segment of the session store cannot be opened: %s",
                          strerror(-fd));
    _Static_assert(2 * SES_STORE_BATCH <= SES_DISK_DEPTH, "loads and a batch, each with an op");
    struct store_op *op = ses_store_op_take(s);
    CHECK(op != NULL);
    op->load = NULL;
    op->slot = p->slot;
    op->number = (uint32_t)(p - s->put);
    ses_store_header(s, &p->record, &p->where, op->header);
    op_submit(s, op, SES_DISK_WRITE, fd, &p->where);
    return STATUS_OK;
}

static bool writes_left(const struct ses_store *s) {
    for (uint32_t i = 0; i < SES_DISK_DEPTH; i++)
        if (s->op[i].used && s->op[i].load == NULL)
            return true;
    return false;
}

static void puts_wait(struct ses_store *s, struct status_note *note) {
    while (writes_left(s)) {
        struct store_op *op = op_reap(s);
        if (op == NULL)
            continue;
        if (op->failed)
            s->put[op->number].status = status_say(
                note, STATUS_IO, "a page cannot be written to %s: %s", s->config.folder,
                op->io.result < 0 ? strerror((int)-op->io.result) : "the transfer was cut short");
        op->used = false;
    }
}

/* Every segment that was written to is durable, or its records fail. */
static void puts_sync(struct ses_store *s, uint32_t n, struct status_note *note) {
    uint32_t segment = 0;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct store_put *p = &s->put[i];
        if (p->status != STATUS_OK)
            continue;
        if (p->where.segment != segment) {
            segment = p->where.segment;
            status =
                ses_store_transfer(s, SES_DISK_SYNC, ses_files_fd(s->files, segment), 0, NULL, 0);
            if (status != STATUS_OK)
                status_say(note, status, "a segment of %s cannot be synced", s->config.folder);
        }
        p->status = status;
    }
}

static enum status batch_index(struct ses_store *s, uint32_t n, struct status_note *note) {
    TRY(ses_files_sync_names(s->files, note));
    for (uint32_t i = 0; i < s->n_marks; i++) {
        const struct store_location *at = &s->at[s->mark[i]];
        if (at->held && at->where.segment != 0)
            TRY(ses_index_mark(s->index, &at->record, &at->where, at->flags, note));
    }
    for (uint32_t i = 0; i < s->n_erases; i++) {
        const struct store_location *at = &s->at[s->erase[i]];
        if (at->held && at->where.segment != 0)
            TRY(ses_index_remove(s->index, &at->record, &at->where, note));
    }
    for (uint32_t i = 0; i < n; i++)
        if (s->put[i].status == STATUS_OK)
            TRY(ses_index_put(s->index, &s->put[i].record, &s->put[i].where, s->put[i].record.flags,
                              note));
    return ses_store_commit(s, note);
}

static void marks_end(struct ses_store *s) {
    for (uint32_t i = 0; i < s->n_marks; i++)
        s->at[s->mark[i]].marked = false;
    s->counts.marks += s->n_marks;
    s->n_marks = 0;
    s->marks_now = false;
}

static void erases_end(struct ses_store *s) {
    for (uint32_t i = 0; i < s->n_erases; i++) {
        struct store_location *at = &s->at[s->erase[i]];
        if (at->held && at->where.segment != 0)
            ses_files_drop(s->files, &at->where);
        *at = (struct store_location){.held = false};
        s->counts.erased++;
        s->to.erased(s->to.self, s->erase[i]);
    }
    s->n_erases = 0;
}

static void puts_end(struct ses_store *s, uint32_t n, enum status status) {
    for (uint32_t i = 0; i < n; i++) {
        struct store_put *p = &s->put[i];
        if (p->status == STATUS_OK)
            p->status = status;
        if (p->status == STATUS_OK)
            ses_store_remember(s, p->number, &p->record, &p->where, p->record.flags);
        else if (p->taken)
            ses_files_drop(s->files, &p->where);
        s->counts.stored += p->status == STATUS_OK;
        s->to.stored(s->to.self, p->slot, p->status);
    }
    s->n_puts -= n;
    memmove(s->put, s->put + n, s->n_puts * sizeof *s->put);
}

/* Writes as many as there is room for; their number. */
static uint32_t puts_begin(struct ses_store *s, uint32_t n, struct status_note *note) {
    uint64_t record = (uint64_t)s->blocks * SES_DISK_BLOCK;
    for (int i = 0; i < COMPACTIONS_MAX && n > 0 && ses_files_tight(s->files, n * record); i++)
        if (!ses_store_compact(s, true))
            break;
    for (uint32_t i = 0; i < n; i++) {
        s->put[i].status = put_begin(s, &s->put[i], note);
        if (s->put[i].status == STATUS_TOO_LARGE && i > 0)
            n = i; /* the rest waits for the next batch, which makes room first */
    }
    puts_wait(s, note);
    puts_sync(s, n, note);
    return n;
}

/* The index turned useless under the batch: it is healed, and the batch made once more. */
static bool made_again(struct ses_store *s, uint32_t n) {
    s->again = !s->again && !ses_index_usable(s->index);
    for (uint32_t i = 0; s->again && i < n; i++) {
        if (s->put[i].taken)
            ses_files_drop(s->files, &s->put[i].where);
        s->put[i].taken = false;
    }
    return s->again;
}

/* An index that was found useless is healed first. */
static enum status index_ready(struct ses_store *s, struct status_note *note) {
    if (ses_index_usable(s->index))
        return STATUS_OK;
    ses_store_drain(s);
    return ses_store_heal(s, note);
}

static void batch(struct ses_store *s) {
    struct status_note note = {{0}};
    uint32_t n = s->n_puts < SES_STORE_BATCH ? s->n_puts : SES_STORE_BATCH, bad = 0;
    enum status ready = index_ready(s, &note);
    if (ready == STATUS_OK)
        n = puts_begin(s, n, &note);
    for (uint32_t i = 0; ready != STATUS_OK && i < n; i++)
        s->put[i].status = ready;
    for (uint32_t i = 0; i < n; i++)
        bad += s->put[i].status != STATUS_OK;
    enum status status = ready;
    if (status == STATUS_OK && (bad < n || s->n_erases + s->n_marks > 0))
        status = batch_index(s, n, &note);
    if (status != STATUS_OK)
        ses_index_abort(s->index);
    if (ready == STATUS_OK && status != STATUS_OK && made_again(s, n))
        return;
    s->again = false;
    s->counts.io_errors += status != STATUS_OK;
    s->erases_wait = status != STATUS_OK && s->n_erases > 0;
    s->marks_now = false; /* when it failed they wait for the next batch */
    if (status == STATUS_OK)
        marks_end(s);
    if (status == STATUS_OK)
        erases_end(s);
    if (n > 0)
        say_state(s, bad > 0 || status != STATUS_OK, &note);
    puts_end(s, n, status);
    if (status == STATUS_OK)
        ses_files_remove_empty(s->files);
    s->shrunk = false;
}

/* Nothing is asked: a store that is larger than its budget, which was larger before, shrinks by a
 * segment, without giving up any of its own that lives. */
static bool shrink(struct ses_store *s) {
    if (s->stopping || s->shrunk)
        return false;
    s->shrunk =
        !ses_files_excess(s->files) || !ses_index_usable(s->index) || !ses_store_compact(s, false);
    return !s->shrunk;
}

bool ses_store_cycle(struct ses_store *s) {
    loads_on(s);
    /* A batch waits for its syncs, and lanes wait for loads: some of those first. */
    bool reads = s->n_loading > 0 && s->passed < LOADS_FIRST;
    s->passed = reads ? s->passed + 1 : 0;
    if (!reads &&
        (s->n_puts > 0 || (s->n_erases > 0 && !s->erases_wait) || s->marks_now || s->again))
        batch(s);
    else if (s->n_loading > 0)
        op_reap(s);
    else if (shrink(s))
        return true;
    return s->n_loading + s->n_gets + s->n_puts > 0 || s->again ||
           (s->n_erases > 0 && !s->erases_wait);
}

/* ---- what is asked ---- */

void ses_store_answer_to(struct ses_store *s, const struct ses_store_answers *to) {
    s->to = *to;
}

void ses_store_put(struct ses_store *s, const struct ses_record *r, uint32_t number,
                   uint32_t slot) {
    CHECK(s->n_puts < SES_STORE_QUEUE && slot < s->config.n_host);
    CHECK(number < s->config.n_numbers && !s->at[number].held);
    s->put[s->n_puts++] = (struct store_put){.record = *r, .number = number, .slot = slot};
}

void ses_store_get(struct ses_store *s, uint32_t number, uint32_t slot) {
    CHECK(s->n_gets < SES_STORE_QUEUE);
    uint32_t i = (s->get_first + s->n_gets++) % SES_STORE_QUEUE;
    s->get[i].number = number;
    s->get[i].slot = slot;
}

void ses_store_erase(struct ses_store *s, uint32_t number) {
    CHECK(s->n_erases < s->config.n_numbers && number < s->config.n_numbers);
    s->erase[s->n_erases++] = number;
    s->erases_wait = false;
}

void ses_store_mark(struct ses_store *s, uint32_t number, uint64_t use, uint32_t flags) {
    CHECK(number < s->config.n_numbers && s->at[number].held);
    struct store_location *at = &s->at[number];
    s->marks_now = s->marks_now || at->flags != flags;
    at->flags = flags;
    at->record.use = use;
    if (!at->marked) {
        CHECK(s->n_marks < s->config.n_numbers); /* an erased number leaves with all marks */
        s->mark[s->n_marks++] = number;
    }
    at->marked = true;
}

void ses_store_marks_now(struct ses_store *s) {
    s->marks_now = s->n_marks > 0;
}

void ses_store_counts_add(struct ses_store_counts *sum, const struct ses_store_counts *one) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)one;
    _Static_assert(sizeof *sum % sizeof *to == 0, "all counts are of one type");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

void ses_store_count(const struct ses_store *s, struct ses_store_counts *out) {
    *out = s->counts;
    out->bytes = ses_files_bytes(s->files);
    out->index_bytes = ses_index_bytes(s->index);
}

/* ---- the actor ---- */

static void tell_stored(void *self, uint32_t slot, enum status status) {
    struct ses_store *s = self;
    ACT_SEND(s->ctx, s->memory, ses, stored, .slot = slot, .rank = s->config.rank,
             .status = (uint32_t)status);
}

static void tell_loaded(void *self, uint32_t slot, enum status status) {
    struct ses_store *s = self;
    ACT_SEND(s->ctx, s->memory, ses, loaded, .slot = slot, .rank = s->config.rank,
             .status = (uint32_t)status);
}

static void tell_erased(void *self, uint32_t number) {
    struct ses_store *s = self;
    ACT_SEND(s->ctx, s->memory, ses, erased, .number = number, .rank = s->config.rank);
}

void ses_store_wire(struct ses_store *s, act_id_t memory) {
    s->memory = memory;
    s->to = (struct ses_store_answers){s, tell_stored, tell_loaded, tell_erased};
}

static void store_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct ses_store *s = self;
    s->ctx = ctx;
    const void *b = msg->body;
    switch (msg->kind) {
    case ses_KIND_write: {
        const struct ses_write *m = b;
        ses_store_put(s, m->record, m->number, m->slot);
        break;
    }
    case ses_KIND_load: {
        const struct ses_load *m = b;
        ses_store_get(s, m->number, m->slot);
        break;
    }
    case ses_KIND_erase:
        ses_store_erase(s, ((const struct ses_erase *)b)->number);
        break;
    case ses_KIND_mark: {
        const struct ses_mark *m = b;
        ses_store_mark(s, m->number, m->use, m->flags);
        break;
    }
    case ses_KIND_fetch: {
        const struct ses_fetch *m = b;
        if (m->query->kind == SES_QUERY_EXPORT)
            ses_store_fetch(s, m->number, m->page, m->offset, m->query);
        else
            ses_store_query(s, m->query);
        ACT_SEND(ctx, s->memory, ses, fetched, .query = m->query, .rank = s->config.rank);
        break;
    }
    case ses_KIND_tally:
        ses_store_count(s, ((const struct ses_tally *)b)->counts);
        ACT_SEND(ctx, s->memory, ses, tallied, .rank = s->config.rank);
        break;
    case ACT_KIND_timer: {
        uint64_t cookie = ((const struct act_timer_msg *)b)->cookie;
        if (cookie == STORE_COOKIE_SLOW) {
            s->slow = false;
            s->rested = true;
            break;
        }
        s->timer = 0;
        if (cookie == STORE_COOKIE_RETRY)
            s->erases_wait = false;
        break;
    }
    case ACT_KIND_stop:
        ses_store_marks_now(s);
        s->stopping = true;
        while (ses_store_cycle(s)) /* what was asked is done, or fails */
            ;
        act_exit(ctx);
        break;
    default: /* start, gone */
        break;
    }
}

/* Simulation: a disk that takes its time over the next piece of work, or hangs. */
static bool store_is_slow(struct act_ctx *ctx, struct ses_store *s) {
    if (!s->slow && !s->rested && s->n_loading + s->n_gets + s->n_puts + s->n_erases > 0) {
        bool frozen = act_fault(ctx, "ses.disk_frozen");
        s->slow = frozen || act_fault(ctx, "ses.disk_slow");
        if (s->slow)
            act_timer_arm(ctx, frozen ? STORE_FROZEN_NS : STORE_SLOW_NS, STORE_COOKIE_SLOW);
    }
    s->rested = false;
    return s->slow;
}

/* The mailbox is empty: some work, and then the mailbox again. */
static void store_batch_end(struct act_ctx *ctx, void *self) {
    struct ses_store *s = self;
    s->ctx = ctx;
    if (store_is_slow(ctx, s))
        return;
    bool more = ses_store_cycle(s);
    if (s->timer == 0 && (more || s->erases_wait))
        s->timer = act_timer_arm(ctx, more ? 0 : STORE_RETRY_NS,
                                 more ? STORE_COOKIE_GO_ON : STORE_COOKIE_RETRY);
}

const struct act_kind ses_store_kind = {
    .name = "store", .receive = store_receive, .batch_end = store_batch_end};
