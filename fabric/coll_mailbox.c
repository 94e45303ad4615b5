/* SPDX-License-Identifier: Apache-2.0
 * One exchange, number e = 1, 2, ...: every rank writes its part to its slot e % 2 and publishes
 * the slot's line with epoch e; it waits until all lines of that slot have epoch e; then it reads
 * the parts.
 *
 * Why two slots are enough: a rank writes slot e % 2 again for exchange e + 2, after it has seen
 * every line at e + 1, and a rank publishes e + 1 only when it has read all of e. (pairing E:
 * release of the epoch, acquire by each reader)
 *
 * A large sum goes in slices: rank r adds slice r of all parts into its own slot, in the place of
 * its own slice, which nobody else reads before; it publishes its sum line with epoch e, and all
 * copy the slices.
 */
#include "fabric/coll_mailbox.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"
#include "actors/ck.h"
#include "actors/port.h"
#include "fabric/tree.h"

enum {
    MAILBOX_FLOATS = 65536,
    MAILBOX_SLICED = 4096, /* floats from which a sum goes in slices */
    MAILBOX_SPINS = 2000,
    MAILBOX_YIELDS_A_LOOK = 64,
    MAILBOX_AWAY_MAX = 3
};
#define MAILBOX_DEADLINE_NS 10000000000u

enum mailbox_op { MAILBOX_REDUCE = 1, MAILBOX_GATHER };

static const char *op_name(uint32_t op) {
    return op == MAILBOX_REDUCE ? "reduce" : op == MAILBOX_GATHER ? "gather" : "nothing known";
}

/* Written by one rank, read by all. */
struct mailbox_line {
    _Alignas(128) _Atomic uint64_t epoch; /* E */
    uint32_t op;
    uint64_t size, at; /* floats of the operation, and of it before this exchange */
};

struct mailbox_rank {
    struct gpu_collective collective;
    struct fab_mailbox *box;
    uint64_t epoch;
    struct status_note note;
};

struct fab_mailbox {
    struct mailbox_line part[2][GPU_WORLD_MAX], sum[2][GPU_WORLD_MAX];
    _Alignas(128) _Atomic uint32_t failed; /* enum status of the first failure */
    uint32_t world;
    size_t slot_floats, bytes;
    uint64_t deadline_ns;
    struct mailbox_rank ranks[GPU_WORLD_MAX];
    _Alignas(128) float slots[]; /* [world][2][slot_floats] */
};

static float *slot_of(struct fab_mailbox *b, uint32_t rank, uint64_t epoch) {
    return b->slots + ((size_t)rank * 2 + epoch % 2) * b->slot_floats;
}

static enum status mailbox_fail(struct mailbox_rank *r, enum status status) {
    uint32_t none = STATUS_OK;
    /* Relaxed: the flag says only that everybody must leave. */
    atomic_compare_exchange_strong_explicit(&r->box->failed, &none, status, memory_order_relaxed,
                                            memory_order_relaxed);
    return status;
}

/* Waits until the line has the epoch. */
static enum status line_wait(struct mailbox_rank *r, const struct mailbox_line *line, uint32_t rank,
                             enum mailbox_op op) {
    struct fab_mailbox *b = r->box;
    uint64_t begin = 0, last = 0;
    uint32_t away = 0;
    for (uint32_t i = 0;; i++) {
        if (atomic_load_explicit(&line->epoch, memory_order_acquire) == r->epoch) /* E */
            return STATUS_OK;
        uint32_t failed = atomic_load_explicit(&b->failed, memory_order_relaxed);
        if (failed != STATUS_OK)
            return status_say(&r->note, (enum status)failed,
                              "rank %u left exchange %llu (%s): another rank had failed",
                              r->collective.rank, (unsigned long long)r->epoch, op_name(op));
        if (i < MAILBOX_SPINS) {
            act_stall();
            continue;
        }
        sched_yield();
        if (i % MAILBOX_YIELDS_A_LOOK != 0)
            continue;
        uint64_t now = act_port_now_ns();
        if (begin == 0 || (now - last > b->deadline_ns / 4 && away++ < MAILBOX_AWAY_MAX))
            begin = now; /* the first look; or we were away: stopped, or our machine was */
        last = now;
        if (now - begin > b->deadline_ns)
            return mailbox_fail(
                r, status_say(&r->note, STATUS_TIMEOUT,
                              "rank %u did not come to exchange %llu (%s) within %llu ms", rank,
                              (unsigned long long)r->epoch, op_name(op),
                              (unsigned long long)(b->deadline_ns / 1000000)));
    }
}

/* Publishes this rank's part and waits for all others; then every slot of this exchange may be
 * read. */
static enum status mailbox_meet(struct mailbox_rank *r, enum mailbox_op op, uint64_t size,
                                uint64_t at) {
    struct fab_mailbox *b = r->box;
    struct mailbox_line *lines = b->part[r->epoch % 2], *mine = &lines[r->collective.rank];
    mine->op = op;
    mine->size = size;
    mine->at = at;
    atomic_store_explicit(&mine->epoch, r->epoch, memory_order_release); /* E */
    for (uint32_t i = 0; i < b->world; i++) {
        TRY(line_wait(r, &lines[i], i, op));
        if (lines[i].op != (uint32_t)op || lines[i].size != size || lines[i].at != at)
            return mailbox_fail(
                r, status_say(&r->note, STATUS_DESYNC,
                              "exchange %llu: rank %u is in %s of %llu floats at %llu, rank %u in "
                              "%s of %llu at %llu",
                              (unsigned long long)r->epoch, i, op_name(lines[i].op),
                              (unsigned long long)lines[i].size, (unsigned long long)lines[i].at,
                              r->collective.rank, op_name(op), (unsigned long long)size,
                              (unsigned long long)at));
    }
    return STATUS_OK;
}

/* First float of a rank's slice; whole cache lines. */
static size_t slice_at(size_t n, uint32_t rank, uint32_t world) {
    size_t lines = (n + 15) / 16, at = lines * rank / world * 16;
    return at < n ? at : n;
}

static enum status reduce_sliced(struct mailbox_rank *r, float *x, size_t n) {
    struct fab_mailbox *b = r->box;
    uint32_t me = r->collective.rank;
    const float *part[GPU_WORLD_MAX];
    size_t from = slice_at(n, me, b->world), to = slice_at(n, me + 1, b->world);
    for (uint32_t i = 0; i < b->world; i++)
        part[i] = slot_of(b, i, r->epoch) + from;
    fab_tree_sum(part, b->world, slot_of(b, me, r->epoch) + from, to - from);
    struct mailbox_line *lines = b->sum[r->epoch % 2];
    atomic_store_explicit(&lines[me].epoch, r->epoch, memory_order_release); /* E */
    for (uint32_t i = 0; i < b->world; i++) {
        TRY(line_wait(r, &lines[i], i, MAILBOX_REDUCE));
        from = slice_at(n, i, b->world);
        to = slice_at(n, i + 1, b->world);
        memcpy(x + from, slot_of(b, i, r->epoch) + from, (to - from) * sizeof *x);
    }
    return STATUS_OK;
}

static enum status mailbox_reduce(void *self, float *x, size_t n) {
    struct mailbox_rank *r = self;
    struct fab_mailbox *b = r->box;
    for (size_t at = 0, take; at < n; at += take) {
        take = n - at < b->slot_floats ? n - at : b->slot_floats;
        r->epoch++;
        memcpy(slot_of(b, r->collective.rank, r->epoch), x + at, take * sizeof *x);
        TRY(mailbox_meet(r, MAILBOX_REDUCE, n, at));
        if (take >= MAILBOX_SLICED) {
            TRY(reduce_sliced(r, x + at, take));
            continue;
        }
        const float *part[GPU_WORLD_MAX];
        for (uint32_t i = 0; i < b->world; i++)
            part[i] = slot_of(b, i, r->epoch);
        fab_tree_sum(part, b->world, x + at, take);
    }
    return STATUS_OK;
}

/* Floats [at, at + take) of a rank's rows go to their places in rows of all ranks. */
static void scatter(const float *from, float *all, size_t at, size_t take, size_t n, uint32_t rank,
                    uint32_t world) {
    while (take > 0) {
        size_t row = at / n, col = at % n, len = n - col < take ? n - col : take;
        memcpy(all + (row * world + rank) * n + col, from, len * sizeof *all);
        from += len;
        at += len;
        take -= len;
    }
}

static enum status mailbox_gather(void *self, const float *part, float *all, size_t rows,
                                  size_t n) {
    struct mailbox_rank *r = self;
    struct fab_mailbox *b = r->box;
    size_t total = rows * n;
    for (size_t at = 0, take; at < total; at += take) {
        take = total - at < b->slot_floats ? total - at : b->slot_floats;
        r->epoch++;
        memcpy(slot_of(b, r->collective.rank, r->epoch), part + at, take * sizeof *part);
        TRY(mailbox_meet(r, MAILBOX_GATHER, total, at));
        for (uint32_t i = 0; i < b->world; i++)
            scatter(slot_of(b, i, r->epoch), all, at, take, n, i, b->world);
    }
    return STATUS_OK;
}

enum status fab_mailbox_open(const struct fab_mailbox_config *config, struct fab_mailbox **out,
                             struct status_note *note) {
    uint32_t world = config->world;
    if (world == 0 || world > GPU_WORLD_MAX || (world & (world - 1)) != 0)
        return status_say(note, STATUS_BAD_REQUEST,
                          "a collective of %u ranks: a power of two up to %d can add", world,
                          GPU_WORLD_MAX);
    size_t floats = config->slot_floats != 0 ? config->slot_floats : MAILBOX_FLOATS;
    floats = (floats + 31) / 32 * 32;
    size_t bytes = sizeof(struct fab_mailbox) + world * 2 * floats * sizeof(float);
    /* Shared, so that the same memory can serve ranks in other processes. */
    struct fab_mailbox *b =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the slots of %u ranks", world);
    b->world = world;
    b->slot_floats = floats;
    b->bytes = bytes;
    b->deadline_ns = config->deadline_ns != 0 ? config->deadline_ns : MAILBOX_DEADLINE_NS;
    for (uint32_t i = 0; i < world; i++) {
        struct mailbox_rank *r = &b->ranks[i];
        r->box = b;
        r->collective = (struct gpu_collective){.self = r,
                                                .rank = i,
                                                .world = world,
                                                .reduce = mailbox_reduce,
                                                .gather = mailbox_gather,
                                                .note = &r->note};
    }
    *out = b;
    return STATUS_OK;
}

void fab_mailbox_close(struct fab_mailbox *m) {
    if (m != NULL)
        munmap(m, m->bytes);
}

const struct gpu_collective *fab_mailbox_rank(struct fab_mailbox *m, uint32_t rank) {
    CHECK(rank < m->world);
    return &m->ranks[rank].collective;
}
