/* SPDX-License-Identifier: Apache-2.0
 * The memory actor: receives, calls the books, answers. Whoever asks gets the answer; freed pages
 * are told to the planner before it.
 */
#include "sessions/memory.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "fabric/protocol.h"
#include "gpu/protocol.h"
#include "sessions/book.h"
#include "sessions/carry.h"
#include "sessions/catalog.h"
#include "sessions/tiers.h"

enum { MEMORY_WORLD_MAX = 8, MEMORY_FLUSHES_MAX = 8, MEMORY_FETCHES_MAX = 8 };
enum { MEMORY_COOKIE_EARLY, MEMORY_COOKIE_CARRY, MEMORY_COOKIE_WATCH, SILENT_PERIODS = 3 };
/* Longer than a disk takes to make room for a batch, which it answers for as a whole. */
static const uint64_t SILENT_NS = 30000000000;

struct ses_memory {
    struct ses_memory_config config;
    struct ses_book *book;
    act_id_t planner;
    /* Tiers of its own; NULL: none, or the caller's. */
    struct ses_tiers *tiers;
    struct ses_tier tier;
    struct ses_record *record; /* [n_slots]: what each slot holds */
    uint32_t *tokens;          /* [n_slots][page_tokens] */
    act_id_t stores[MEMORY_WORLD_MAX];
    struct act_ctx *ctx; /* while a message is received */
    struct {
        act_id_t from;
        uint64_t token;
    } flush[MEMORY_FLUSHES_MAX];
    uint32_t n_flushes;
    uint64_t early_ns, early_timer; /* when the next early copy may begin; 0: not armed */
    /* Parts of sessions' files that wait for their time; when the next one may be answered. */
    struct ses_memory_held {
        struct ses_query *query;
        act_id_t from;
    } held[MEMORY_FETCHES_MAX];
    uint32_t n_held;
    uint64_t carry_ns;
    uint64_t watch_timer, answered; /* of the disk; what it had answered when that was armed */
    bool silent;
    uint32_t unanswered; /* timers in a row in which it answered nothing */
    /* What the stores last said of themselves, and where they say it next. */
    struct {
        struct ses_store_counts known, next;
        bool asked;
    } tally[MEMORY_WORLD_MAX];
    struct ses_carry *carry; /* NULL: sessions cannot be carried */
    struct {
        struct ses_query *query; /* NULL: free */
        act_id_t from;
    } fetch[MEMORY_FETCHES_MAX]; /* questions that a store answers */
};

/* ---- tiers of the memory's own ---- */

static void memory_park(void *self, uint32_t page, uint32_t place) {
    ses_tiers_park(((struct ses_memory *)self)->tiers, page, place);
}

static void memory_restore(void *self, uint32_t place, uint32_t page) {
    ses_tiers_restore(((struct ses_memory *)self)->tiers, place, page);
}

static void memory_forget(void *self, uint32_t place) {
    ses_tiers_forget(((struct ses_memory *)self)->tiers, place);
}

static bool memory_on_disk(void *self, uint32_t place) {
    return ses_tiers_where(((struct ses_memory *)self)->tiers, place) == SES_TIER_DISK;
}

static uint32_t memory_where(void *self, uint32_t place) {
    const struct ses_tiers *t = ((struct ses_memory *)self)->tiers;
    return (ses_tiers_slot(t, place) != SES_TIERS_NONE ? SES_AT_RAM : 0u) |
           (ses_tiers_record(t, place) != SES_TIERS_NONE ? SES_AT_DISK : 0u);
}

static void memory_mark(void *self, uint32_t place, uint64_t use, bool pinned) {
    struct ses_memory *m = self;
    uint32_t number = ses_tiers_record(m->tiers, place);
    if (ses_tiers_is_silent(m->tiers)) /* it has enough to catch up with */
        return;
    for (uint32_t i = 0; number != SES_TIERS_NONE && i < m->config.key.world; i++)
        ACT_SEND(m->ctx, m->stores[i], ses, mark, .number = number, .use = use,
                 .flags = pinned ? SES_RECORD_PINNED : 0);
}

static void memory_move(void *self, uint32_t page, uint32_t slot, bool to_device) {
    struct ses_memory *m = self;
    ACT_SEND(m->ctx, m->planner, fab, move, .asker = act_self(m->ctx), .page = page, .slot = slot,
             .to_device = to_device);
}

static void memory_describe(void *self, uint32_t page, uint32_t slot) {
    struct ses_memory *m = self;
    struct ses_record *r = &m->record[slot];
    uint32_t *tokens = m->tokens + (size_t)slot * m->config.page_tokens;
    ses_book_describe(m->book, page, r);
    memcpy(tokens, r->tokens, r->n_tokens * sizeof *tokens);
    r->tokens = tokens;
}

static void memory_store(void *self, uint32_t number, uint32_t slot) {
    struct ses_memory *m = self;
    for (uint32_t i = 0; i < m->config.key.world; i++)
        ACT_SEND(m->ctx, m->stores[i], ses, write, .record = &m->record[slot], .number = number,
                 .slot = slot);
}

static void memory_load(void *self, uint32_t number, uint32_t slot) {
    struct ses_memory *m = self;
    for (uint32_t i = 0; i < m->config.key.world; i++)
        ACT_SEND(m->ctx, m->stores[i], ses, load, .number = number, .slot = slot);
}

static void memory_erase(void *self, uint32_t number) {
    struct ses_memory *m = self;
    for (uint32_t i = 0; i < m->config.key.world; i++)
        ACT_SEND(m->ctx, m->stores[i], ses, erase, .number = number);
}

static enum status open_tiers(struct ses_memory *m, struct status_note *note) {
    struct ses_memory_config *c = &m->config;
    bool disk = c->n_records > 0;
    CHECK(c->tier == NULL && c->key.world > 0 && c->key.world <= MEMORY_WORLD_MAX);
    c->n_places = disk && c->n_records > c->n_slots ? c->n_records : c->n_slots;
    c->early = disk;
    const struct ses_tiers_config tc = {.n_pages = c->n_pages,
                                        .n_places = c->n_places,
                                        .n_slots = c->n_slots,
                                        .world = c->key.world,
                                        .disk = disk,
                                        .out = {.self = m,
                                                .move = memory_move,
                                                .store = memory_store,
                                                .load = memory_load,
                                                .erase = memory_erase,
                                                .describe = memory_describe}};
    TRY(ses_tiers_open(&tc, &m->tiers, note));
    m->record = calloc(c->n_slots, sizeof *m->record);
    m->tokens = calloc((size_t)c->n_slots * c->page_tokens, sizeof *m->tokens);
    if (m->record == NULL || m->tokens == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory to describe %u pages", c->n_slots);
    m->tier = (struct ses_tier){.name = disk ? "memory and disk" : "memory",
                                .self = m,
                                .park = memory_park,
                                .restore = memory_restore,
                                .on_disk = memory_on_disk,
                                .where = memory_where,
                                .mark = memory_mark,
                                .forget = memory_forget};
    c->tier = &m->tier;
    return STATUS_OK;
}

static enum status open_carry(struct ses_memory *m, struct status_note *note) {
    const struct ses_memory_config *c = &m->config;
    struct ses_carry_config cc = {.kind = {.key = c->key,
                                           .page_tokens = c->page_tokens,
                                           .pages_max = c->pages_per_slot_max,
                                           .page_bytes = c->page_bytes},
                                  .book = m->book,
                                  .tiers = m->tiers,
                                  .host = c->host,
                                  .host_bytes = c->host_bytes,
                                  .record = m->record,
                                  .disk = c->n_records > 0};
    for (size_t i = 0; c->text != NULL && c->text[i] != 0 && i + 1 < sizeof cc.kind.text; i++)
        cc.kind.text[i] = c->text[i];
    for (uint32_t i = 0; i < c->n_slots; i++)
        m->record[i].tokens = m->tokens + (size_t)i * c->page_tokens;
    return ses_carry_open(&cc, &m->carry, note);
}

enum status ses_memory_open(const struct ses_memory_config *config, struct ses_memory **out,
                            struct status_note *note) {
    *out = NULL;
    struct ses_memory *m = calloc(1, sizeof *m);
    if (m == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session memory");
    m->config = *config;
    enum status status = config->n_slots > 0 ? open_tiers(m, note) : STATUS_OK;
    const struct ses_book_config book = {.key = config->key,
                                         .n_pages = config->n_pages,
                                         .page_tokens = config->page_tokens,
                                         .slots_max = config->slots_max,
                                         .pages_per_slot_max = config->pages_per_slot_max,
                                         .tier = m->config.tier,
                                         .n_places = m->config.n_places,
                                         .early = m->config.early};
    if (status == STATUS_OK)
        status = ses_book_open(&book, &m->book, note);
    if (status == STATUS_OK && config->host != NULL)
        status = open_carry(m, note);
    if (status != STATUS_OK) {
        ses_memory_close(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void ses_memory_close(struct ses_memory *m) {
    if (m == NULL)
        return;
    ses_carry_close(m->carry);
    ses_book_close(m->book);
    ses_tiers_close(m->tiers);
    free(m->tokens);
    free(m->record);
    free(m);
}

void ses_memory_wire(struct ses_memory *m, act_id_t planner) {
    m->planner = planner;
}

void ses_memory_wire_stores(struct ses_memory *m, const act_id_t *stores, uint32_t world) {
    CHECK(world == m->config.key.world && m->config.n_records > 0);
    memcpy(m->stores, stores, world * sizeof *stores);
}

bool ses_memory_found(struct ses_memory *m, const struct ses_record *record, uint32_t number) {
    uint32_t place;
    if (!ses_book_load(m->book, record, &place))
        return false;
    ses_tiers_found(m->tiers, place, number);
    return true;
}

void ses_memory_found_all(struct ses_memory *m) {
    ses_book_loaded(m->book);
}

void ses_memory_found_other(struct ses_memory *m, const struct ses_record *record) {
    ses_book_load_other(m->book, record);
}

bool ses_memory_audit(const struct ses_memory *m, struct status_note *note) {
    return ses_book_audit(m->book, note) && (m->tiers == NULL || ses_tiers_audit(m->tiers, note));
}

static void tell_freed(struct act_ctx *ctx, struct ses_memory *m) {
    struct fab_page_freed freed;
    while ((freed.n = ses_book_freed(m->book, freed.page, 8)) > 0)
        if (m->planner != 0)
            act_send(ctx, m->planner, fab_KIND_page_freed, &freed, sizeof freed);
}

static void answer_admit(struct act_ctx *ctx, struct ses_memory *m, act_id_t to,
                         const struct ses_answer *answer) {
    if (answer->verdict == SES_DENIED) {
        act_send(ctx, to, ses_KIND_denied, &answer->denied, sizeof answer->denied);
        return;
    }
    const struct ses_admitted *admitted = &answer->admitted;
    if (answer->verdict == SES_RESTORING) {
        tell_freed(ctx, m);
        ACT_SEND(ctx, to, ses, restoring, .slot = admitted->slot, .n_pages = admitted->n_pages);
        return;
    }
    uint32_t n;
    const ses_page_t *page = ses_book_pages(m->book, admitted->slot, &n);
    CHECK(n == admitted->n_pages && n <= m->config.pages_per_slot_max);
    if (m->config.tables != NULL)
        for (uint32_t i = 0; i < n; i++)
            m->config.tables[(size_t)admitted->slot * m->config.pages_per_slot_max + i] =
                ses_page_id(page[i]);
    tell_freed(ctx, m);
    act_send(ctx, to, ses_KIND_admitted, admitted, sizeof *admitted);
}

static void memory_on_admit(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                            const struct ses_admit *ask) {
    struct ses_answer answer;
    if (ses_book_admit(m->book, ask, &answer) != SES_LATER)
        answer_admit(ctx, m, from, &answer);
}

/* Whoever asked for a flush is told when nothing more can be saved. */
static void flushes_go_on(struct act_ctx *ctx, struct ses_memory *m) {
    if (m->n_flushes == 0)
        return;
    struct ses_tiers_counts counts = {.unsaved = 0};
    if (m->tiers != NULL) {
        ses_tiers_count(m->tiers, &counts);
        /* All that could begin has begun: what is not under way then cannot be saved. */
        if (!ses_tiers_quiet(m->tiers) || ses_book_parking(m->book) > 0)
            return;
        counts.unsaved += ses_book_unsaved(m->book);
    }
    for (uint32_t i = 0; i < m->n_flushes; i++)
        ACT_SEND(ctx, m->flush[i].from, ses, flushed, .token = m->flush[i].token,
                 .unsaved = counts.unsaved, .status = (uint32_t)counts.store_status);
    m->n_flushes = 0;
}

/* So many early copies may be under way now. */
static uint32_t early_room(struct act_ctx *ctx, struct ses_memory *m) {
    uint32_t room = m->tiers != NULL ? ses_tiers_room(m->tiers) : SES_TIERS_PARKS_MAX;
    if (m->config.early_gap_ns == 0 || m->n_flushes > 0 || !ses_book_may_wait(m->book))
        return room;
    uint32_t one_more = ses_book_parking(m->book) + (act_now_ns(ctx) >= m->early_ns);
    return one_more < room ? one_more : room;
}

static void copy_out(struct act_ctx *ctx, struct ses_memory *m) {
    uint64_t now = act_now_ns(ctx);
    if (ses_book_copy_out(m->book, early_room(ctx, m)) > 0)
        m->early_ns = now + m->config.early_gap_ns;
    bool waits = m->config.early_gap_ns > 0 && ses_book_wants(m->book) && now < m->early_ns;
    if (waits && m->early_timer == 0)
        m->early_timer = act_timer_arm(ctx, m->early_ns - now, MEMORY_COOKIE_EARLY);
}

static void say_disk(struct ses_memory *m, const char *sentence) {
    if (m->config.say != NULL)
        m->config.say(m->config.say_self, sentence);
}

/* A disk that owes an answer is looked at from time to time. */
static void watch_disk(struct act_ctx *ctx, struct ses_memory *m) {
    bool silent = ses_tiers_is_silent(m->tiers);
    if (m->silent && !silent)
        say_disk(m, "the disk of the session store answers again");
    m->silent = silent;
    ses_book_disk_silent(m->book, silent);
    if (m->watch_timer != 0 || silent || !ses_tiers_disk_owes(m->tiers))
        return;
    m->answered = ses_tiers_answered(m->tiers);
    m->watch_timer = act_timer_arm(ctx, SILENT_NS / SILENT_PERIODS, MEMORY_COOKIE_WATCH);
}

static void memory_on_watch(struct ses_memory *m) {
    m->watch_timer = 0;
    if (ses_tiers_is_silent(m->tiers))
        return;
    bool heard = !ses_tiers_disk_owes(m->tiers) || m->answered != ses_tiers_answered(m->tiers);
    m->unanswered = heard ? 0 : m->unanswered + 1;
    if (m->unanswered < SILENT_PERIODS)
        return;
    m->unanswered = 0;
    say_disk(m, "the disk of the session store has not answered for 30 seconds: it is set aside, "
                "and sessions that only it has are computed anew");
    ses_book_disk_silent(m->book, true);
    ses_tiers_set_silent(m->tiers);
}

/* After anything that may have changed what the tier, or an admit that waits for it, can do. */
static void tier_goes_on(struct act_ctx *ctx, struct ses_memory *m) {
    struct ses_answer answer;
    do {
        struct ses_tiers_done done;
        while (m->tiers != NULL && ses_tiers_done(m->tiers, &done))
            if (done.restored)
                ses_book_restored(m->book, done.page, done.fine);
            else
                ses_book_parked(m->book, done.page, done.fine);
        while (ses_book_ready(m->book, &answer))
            answer_admit(ctx, m, m->planner, &answer);
        if (m->config.early)
            copy_out(ctx, m);
        else {
            ses_book_keep_free(m->book, m->config.free_low);
            ses_book_copy_out(m->book, SES_TIERS_PARKS_MAX); /* what was pinned */
        }
        tell_freed(ctx, m);
    } while (m->tiers != NULL && ses_tiers_pending(m->tiers));
    if (m->tiers != NULL && m->config.n_records > 0)
        watch_disk(ctx, m);
    flushes_go_on(ctx, m);
}

static void memory_on_parked(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_parked *told) {
    (void)from;
    ses_book_parked(m->book, told->page, told->status == STATUS_OK);
    tell_freed(ctx, m);
}

static void memory_on_restored(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                               const struct ses_restored *told) {
    (void)from;
    ses_book_restored(m->book, told->page, told->status == STATUS_OK);
    tell_freed(ctx, m);
}

static void memory_on_extend(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_extend *ask) {
    struct ses_extended extended;
    ses_book_extend(m->book, ask, &extended);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_extended, &extended, sizeof extended);
}

static void memory_on_copied(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_copied *told) {
    (void)from;
    ses_book_copied(m->book, told);
    tell_freed(ctx, m);
}

static void memory_on_seal(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                           const struct ses_seal *told) {
    struct ses_sealed sealed;
    ses_book_seal(m->book, told, &sealed);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_sealed, &sealed, sizeof sealed);
}

static void memory_on_release(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                              const struct ses_release *told) {
    struct ses_released released;
    ses_book_release(m->book, told, &released);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_released, &released, sizeof released);
}

_Static_assert(SES_TIERS_PARKS_MAX + SES_TIERS_LEAVING_MAX + SES_TIERS_MOVES_MAX <= GPU_MOVES_MAX,
               "each rank has room for all that may be under way");

static void memory_on_gpu_moved(struct ses_memory *m, const struct gpu_moved *told) {
    ses_tiers_moved(m->tiers, told->slot, (enum status)told->status);
}

/* What a store says of itself is asked for after it did something, so nobody waits for a disk. */
static void tally(struct act_ctx *ctx, struct ses_memory *m, uint32_t rank) {
    if (!m->tally[rank].asked)
        ACT_SEND(ctx, m->stores[rank], ses, tally, .counts = &m->tally[rank].next);
    m->tally[rank].asked = true;
}

static void memory_on_stored(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_stored *told) {
    CHECK(from == m->stores[told->rank]);
    ses_tiers_stored(m->tiers, told->slot, (enum status)told->status);
    tally(ctx, m, told->rank);
}

static void memory_on_loaded(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_loaded *told) {
    CHECK(from == m->stores[told->rank]);
    ses_tiers_loaded(m->tiers, told->slot, (enum status)told->status);
    tally(ctx, m, told->rank);
}

static void memory_on_erased(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_erased *told) {
    CHECK(from == m->stores[told->rank]);
    ses_tiers_erased(m->tiers, told->number);
    tally(ctx, m, told->rank);
}

static void memory_on_flush(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                            const struct ses_flush *ask) {
    if (m->n_flushes == MEMORY_FLUSHES_MAX) { /* it may ask again */
        ACT_SEND(ctx, from, ses, flushed, .token = ask->token, .status = STATUS_AGAIN);
        return;
    }
    m->flush[m->n_flushes].from = from;
    m->flush[m->n_flushes++].token = ask->token;
    ses_book_save_all(m->book);
    if (m->tiers != NULL)
        ses_tiers_retry(m->tiers);
    else
        flushes_go_on(ctx, m);
}

static void memory_on_forget(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_forget *ask) {
    struct ses_forgotten forgotten = {.token = ask->token, .pages = ses_book_forget(m->book)};
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_forgotten, &forgotten, sizeof forgotten);
}

static void memory_on_count(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                            const struct ses_count *ask) {
    struct ses_counted counted;
    ses_book_count(m->book, &counted);
    counted.token = ask->token;
    act_send(ctx, from, ses_KIND_counted, &counted, sizeof counted);
}

/* The stores as they last said; they are asked for the next time. */
static void count_all(struct act_ctx *ctx, struct ses_memory *m, struct ses_counts *c) {
    *c = (struct ses_counts){.has_tiers = m->tiers != NULL,
                             .has_disk = m->config.n_records > 0,
                             .pinned = ses_trie_n_kept(ses_book_trie(m->book)),
                             .page_bytes = m->config.page_bytes * m->config.key.world};
    ses_book_count(m->book, &c->pages);
    if (m->tiers != NULL)
        ses_tiers_count(m->tiers, &c->tiers);
    for (uint32_t r = 0; c->has_disk && r < m->config.key.world; r++) {
        ses_store_counts_add(&c->stores, &m->tally[r].known);
        tally(ctx, m, r);
    }
}

static void memory_on_tallied(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                              const struct ses_tallied *told) {
    (void)ctx;
    CHECK(from == m->stores[told->rank] && m->tally[told->rank].asked);
    m->tally[told->rank].known = m->tally[told->rank].next;
    m->tally[told->rank].asked = false;
}

/* What only the disk could do or keep is refused while it is silent. */
static bool is_refused(const struct ses_memory *m, struct ses_query *q) {
    if (m->tiers == NULL || !ses_tiers_is_silent(m->tiers))
        return false;
    q->status = status_say(&q->note, STATUS_TIMEOUT,
                           "the disk of the session store does not answer; try again later");
    return true;
}

/* True: the store is asked, and answers later. */
static bool ask_store(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                      struct ses_query *q) {
    struct ses_carry_fetch fetch = {.rank = 0};
    uint32_t i = 0;
    if (q->kind == SES_QUERY_EXPORT && ses_carry_export(m->carry, q, &fetch))
        return false;
    if (is_refused(m, q))
        return false;
    while (i < MEMORY_FETCHES_MAX && m->fetch[i].query != NULL)
        i++;
    if (i == MEMORY_FETCHES_MAX) {
        q->status = status_say(&q->note, STATUS_AGAIN, "many sessions are being read; try again");
        return false;
    }
    m->fetch[i].query = q;
    m->fetch[i].from = from;
    ACT_SEND(ctx, m->stores[fetch.rank], ses, fetch, .query = q, .offset = fetch.offset,
             .number = fetch.number, .page = fetch.page);
    return true;
}

static void memory_on_fetched(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                              const struct ses_fetched *told) {
    CHECK(from == m->stores[told->rank]);
    uint32_t i = 0;
    while (m->fetch[i].query != told->query)
        CHECK(++i < MEMORY_FETCHES_MAX);
    bool all = told->query->kind == SES_QUERY_OTHER_FORGET && told->query->status == STATUS_OK;
    if (all && told->rank + 1 < m->config.key.world) { /* every rank has its part */
        ACT_SEND(ctx, m->stores[told->rank + 1], ses, fetch, .query = told->query);
        return;
    }
    m->fetch[i].query = NULL;
    if (told->query->kind == SES_QUERY_EXPORT)
        ses_carry_exported(m->carry, told->query);
    ACT_SEND(ctx, m->fetch[i].from, ses, looked, .query = told->query);
}

/* A session that waits for a disk which took nothing of late: says why. */
static void say_refusal(const struct ses_memory *m, struct ses_query *q) {
    struct ses_tiers_counts counts = {.store_status = STATUS_OK};
    if (m->tiers != NULL)
        ses_tiers_count(m->tiers, &counts);
    if (counts.store_status != STATUS_OK)
        status_say(&q->note, STATUS_AGAIN,
                   "%u of the session's %u pages are not on the disk, which took none of late: %s",
                   (unsigned)q->value, (unsigned)q->limit,
                   counts.store_status == STATUS_TOO_LARGE
                       ? "its budget or its floor of free space leaves no room"
                       : status_text(counts.store_status));
}

static void look(struct act_ctx *ctx, struct ses_memory *m, act_id_t from, struct ses_query *q) {
    q->page_bytes = m->config.page_bytes * m->config.key.world;
    if (q->kind == SES_QUERY_COUNT) {
        q->status = STATUS_OK;
        count_all(ctx, m, &q->counts);
    } else if (q->kind == SES_QUERY_OTHERS || q->kind == SES_QUERY_OTHER_TOKENS ||
               q->kind == SES_QUERY_OTHER_FORGET) {
        q->status = STATUS_OK;
        q->value = q->limit = q->next = 0;
        q->n = 0;
        if (m->config.n_records > 0 && ask_store(ctx, m, from, q))
            return;
        if (m->config.n_records == 0 && q->kind != SES_QUERY_OTHERS)
            q->status = status_say(&q->note, STATUS_NOT_FOUND, "this server has no store");
    } else if (q->kind == SES_QUERY_EXPORT || q->kind == SES_QUERY_IMPORT) {
        q->status = STATUS_OK;
        q->value = q->limit = q->next = q->size = 0;
        q->n = 0;
        if (m->carry == NULL)
            q->status = status_say(&q->note, STATUS_UNSUPPORTED,
                                   "sessions are carried from and to a tier below the device: "
                                   "start with --disk-cache or --ram-cache");
        else if (q->kind == SES_QUERY_IMPORT)
            ses_carry_import(m->carry, q, act_now_ns(ctx));
        else if (ask_store(ctx, m, from, q))
            return;
        tell_freed(ctx, m);
    } else if ((q->kind != SES_QUERY_PIN && q->kind != SES_QUERY_UNPIN) || !is_refused(m, q)) {
        ses_book_query(m->book, q);
        if (q->kind == SES_QUERY_PIN && q->status == STATUS_AGAIN)
            say_refusal(m, q);
        tell_freed(ctx, m);
    }
    ACT_SEND(ctx, from, ses, looked, .query = q);
}

/* A part of a session's file takes as long as a round of a small model does, on the same thread:
 * while lanes are let in, such parts come apart. True: it is answered later. */
static bool look_waits(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                       struct ses_query *q) {
    uint64_t now = act_now_ns(ctx);
    if (m->config.carry_gap_ns == 0 || m->carry == NULL ||
        (q->kind != SES_QUERY_EXPORT && q->kind != SES_QUERY_IMPORT) ||
        ses_book_lanes(m->book) == 0 || m->n_held == MEMORY_FETCHES_MAX)
        return false;
    if (now >= m->carry_ns && m->n_held == 0) {
        m->carry_ns = now + m->config.carry_gap_ns;
        return false;
    }
    if (m->n_held == 0)
        act_timer_arm(ctx, m->carry_ns - now, MEMORY_COOKIE_CARRY);
    m->held[m->n_held++] = (struct ses_memory_held){q, from};
    return true;
}

/* The one that has waited longest is answered. */
static void held_go_on(struct act_ctx *ctx, struct ses_memory *m) {
    CHECK(m->n_held > 0);
    struct ses_memory_held first = m->held[0];
    m->n_held--;
    memmove(m->held, m->held + 1, m->n_held * sizeof *m->held);
    m->carry_ns = act_now_ns(ctx) + m->config.carry_gap_ns;
    if (m->n_held > 0)
        act_timer_arm(ctx, m->config.carry_gap_ns, MEMORY_COOKIE_CARRY);
    look(ctx, m, first.from, first.query);
}

static void memory_on_look(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                           const struct ses_look *ask) {
    if (!look_waits(ctx, m, from, ask->query))
        look(ctx, m, from, ask->query);
}

static void memory_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct ses_memory *state = self;
    state->ctx = ctx;
    switch (msg->kind) {
    case ACT_KIND_start:
        for (uint32_t r = 0; state->config.n_records > 0 && r < state->config.key.world; r++)
            tally(ctx, state, r);
        break;
    case ACT_KIND_timer:
        switch (((const struct act_timer_msg *)(const void *)msg->body)->cookie) {
        case MEMORY_COOKIE_CARRY:
            held_go_on(ctx, state);
            break;
        case MEMORY_COOKIE_WATCH:
            memory_on_watch(state);
            break;
        default:
            state->early_timer = 0;
        }
        break;
    case ACT_KIND_gone: /* an asker that left does not need its answer */
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
        ACT_CASE(memory, ses, admit)
        ACT_CASE(memory, ses, extend)
        ACT_CASE(memory, ses, copied)
        ACT_CASE(memory, ses, seal)
        ACT_CASE(memory, ses, release)
        ACT_CASE(memory, ses, parked)
        ACT_CASE(memory, ses, restored)
        ACT_CASE(memory, ses, stored)
        ACT_CASE(memory, ses, loaded)
        ACT_CASE(memory, ses, erased)
        ACT_CASE(memory, ses, tallied)
        ACT_CASE(memory, ses, fetched)
        ACT_CASE(memory, ses, look)
        ACT_CASE(memory, ses, flush)
    case gpu_KIND_moved:
        memory_on_gpu_moved(state, (const struct gpu_moved *)msg->body);
        break;
        ACT_CASE(memory, ses, forget)
        ACT_CASE(memory, ses, count)
    default:
        CHECK(!"memory was sent a message that its protocol does not have");
    }
    if (state->config.tier != NULL)
        tier_goes_on(ctx, state);
}

const struct act_kind ses_memory_kind = {.name = "memory", .receive = memory_receive};
