/* SPDX-License-Identifier: Apache-2.0
 * Slots, records and what is under way between them.
 */
#include "sessions/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

enum { NONE = SES_TIERS_NONE, RESERVE_MAX = 8, LOOK_MAX = 64 };

struct link {
    uint32_t before, after; /* NONE at the ends */
};

struct list {
    struct link *link; /* [n_slots] */
    uint32_t first, last, n;
};

struct place {
    uint32_t slot, record; /* NONE */
};

/* A lane waits for a place's bytes in this page of its; pages in a queue name the next. */
struct wish {
    uint32_t place, next; /* next: 0 at the end */
};

struct queue {
    uint32_t first, last; /* pages; 0: empty */
};

/* filling: one of parking, loading. storing and restoring only read and may overlap. */
struct slot {
    uint32_t place;  /* NONE: free, or storing what was forgotten meanwhile */
    uint32_t record; /* storing, loading: which */
    uint32_t page;   /* parking, restoring: the device's */
    struct queue wishes;
    uint32_t move_acks, disk_acks; /* ranks that have not answered */
    enum status move_status, disk_status;
    bool parking, loading, storing, restoring, filled, in_line, ready;
};

struct ses_tiers {
    struct ses_tiers_config config;
    struct place *place;
    struct slot *slot;
    uint32_t *record_free, n_record_free;
    uint32_t *record_acks; /* being erased: ranks that have not answered */
    uint32_t *slot_free, n_slot_free;
    struct list use;             /* slots whose place is on disk too, least recently used first */
    struct list line;            /* of the others, the ones that wait to be stored */
    struct list ready;           /* slots with bytes and wishes that nothing is moved from */
    struct wish *wish;           /* [1 + n_pages] */
    struct queue far;            /* wishes for what is in no slot, oldest first */
    uint32_t n_wishes;           /* those that no move has begun for */
    struct ses_tiers_done *done; /* [n_pages] ring: a page has one outcome at a time */
    uint32_t done_first, n_done;
    uint32_t n_dirty; /* slots with a place that is not on disk */
    uint32_t moves, restores, loads, stores, erases, reserve;
    bool failing, probe;    /* the disk refused; probe: it is asked once more */
    bool silent;            /* it does not answer: it is asked for nothing until it did */
    uint32_t *late, n_late; /* records to be erased that it was not told of meanwhile */
    uint64_t answered;
    struct ses_tiers_counts counts;
};

/* ---- lists and numbers ---- */

static void list_add(struct list *l, uint32_t i) {
    l->link[i] = (struct link){l->last, NONE};
    if (l->last != NONE)
        l->link[l->last].after = i;
    else
        l->first = i;
    l->last = i;
    l->n++;
}

static void list_remove(struct list *l, uint32_t i) {
    struct link k = l->link[i];
    if (k.before != NONE)
        l->link[k.before].after = k.after;
    else
        l->first = k.after;
    if (k.after != NONE)
        l->link[k.after].before = k.before;
    else
        l->last = k.before;
    CHECK(l->n > 0);
    l->n--;
}

static bool list_open(struct list *l, uint32_t n) {
    *l = (struct list){.link = calloc((size_t)n + 1, sizeof *l->link), .first = NONE, .last = NONE};
    return l->link != NULL;
}

static uint32_t *numbers(uint32_t n) {
    uint32_t *list = calloc((size_t)n + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < n; i++)
        list[i] = n - 1 - i; /* taken from the end: the lowest first */
    return list;
}

enum status ses_tiers_open(const struct ses_tiers_config *config, struct ses_tiers **out,
                           struct status_note *note) {
    *out = NULL;
    CHECK(config->n_places > 0 && config->n_slots > 0 && config->world > 0);
    CHECK(config->disk || config->n_slots >= config->n_places);
    struct ses_tiers *t = calloc(1, sizeof *t);
    if (t == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the tiers' books");
    t->config = *config;
    uint32_t records = ses_tiers_records(config);
    t->place = calloc(config->n_places, sizeof *t->place);
    t->slot = calloc(config->n_slots, sizeof *t->slot);
    t->record_free = config->disk ? numbers(records) : NULL;
    t->record_acks = config->disk ? calloc(records, sizeof *t->record_acks) : NULL;
    t->late = config->disk ? calloc(records, sizeof *t->late) : NULL;
    t->slot_free = numbers(config->n_slots);
    t->wish = calloc((size_t)config->n_pages + 1, sizeof *t->wish);
    t->done = calloc((size_t)config->n_pages + 1, sizeof *t->done);
    bool fine = list_open(&t->use, config->n_slots) && list_open(&t->line, config->n_slots) &&
                list_open(&t->ready, config->n_slots);
    if (!fine || t->place == NULL || t->slot == NULL || t->slot_free == NULL || t->wish == NULL ||
        t->done == NULL ||
        (config->disk && (t->record_free == NULL || t->record_acks == NULL || t->late == NULL))) {
        ses_tiers_close(t);
        return status_say(note, STATUS_NO_MEMORY,
                          "no memory for the books of %u pages in memory and %u on disk",
                          config->n_slots, config->n_places);
    }
    for (uint32_t i = 0; i < config->n_places; i++)
        t->place[i] = (struct place){NONE, NONE};
    for (uint32_t i = 0; i < config->n_slots; i++)
        t->slot[i].place = NONE;
    t->n_slot_free = config->n_slots;
    t->n_record_free = config->disk ? records : 0;
    if (config->disk)
        t->reserve = config->n_slots / 2 < RESERVE_MAX ? (config->n_slots + 1) / 2 : RESERVE_MAX;
    *out = t;
    return STATUS_OK;
}

void ses_tiers_close(struct ses_tiers *t) {
    if (t == NULL)
        return;
    free(t->use.link);
    free(t->line.link);
    free(t->ready.link);
    free(t->done);
    free(t->wish);
    free(t->slot_free);
    free(t->late);
    free(t->record_acks);
    free(t->record_free);
    free(t->slot);
    free(t->place);
    free(t);
}

void ses_tiers_found(struct ses_tiers *t, uint32_t place, uint32_t record) {
    CHECK(place < t->config.n_places && record < ses_tiers_records(&t->config));
    CHECK(t->place[place].record == NONE && t->place[place].slot == NONE);
    uint32_t i = 0; /* at start numbers are mostly still in order: look from where it should be */
    uint32_t n = t->n_record_free;
    for (; i < n && t->record_free[n - 1 - i] != record; i++)
        ;
    CHECK(i < n);
    t->record_free[n - 1 - i] = t->record_free[n - 1];
    t->n_record_free--;
    t->place[place].record = record;
    t->counts.records++;
}

/* ---- slots ---- */

static struct slot *slot_of(struct ses_tiers *t, uint32_t i) {
    CHECK(i < t->config.n_slots);
    return &t->slot[i];
}

static bool slot_dirty(const struct ses_tiers *t, const struct slot *s) {
    return s->place != NONE && t->place[s->place].record == NONE;
}

static void outcome(struct ses_tiers *t, bool restored, uint32_t page, bool fine) {
    CHECK(t->n_done < t->config.n_pages);
    t->done[(t->done_first + t->n_done++) % t->config.n_pages] =
        (struct ses_tiers_done){.restored = restored, .fine = fine, .page = page};
}

bool ses_tiers_done(struct ses_tiers *t, struct ses_tiers_done *done) {
    if (t->n_done == 0)
        return false;
    *done = t->done[t->done_first];
    t->done_first = (t->done_first + 1) % t->config.n_pages;
    t->n_done--;
    return true;
}

uint32_t ses_tiers_room(const struct ses_tiers *t) {
    uint32_t taken = t->n_dirty + t->reserve;
    uint32_t room = t->moves + (taken < t->config.n_slots ? t->config.n_slots - taken : 0);
    return room < SES_TIERS_PARKS_MAX ? room : SES_TIERS_PARKS_MAX;
}

bool ses_tiers_pending(const struct ses_tiers *t) {
    return t->n_done > 0;
}

/* The slot's place goes on without it. */
static void slot_leave(struct ses_tiers *t, uint32_t i) {
    struct slot *s = &t->slot[i];
    CHECK(s->wishes.first == 0);
    if (slot_dirty(t, s))
        t->n_dirty--;
    else
        list_remove(&t->use, i);
    if (s->in_line)
        list_remove(&t->line, i);
    t->place[s->place].slot = NONE;
    s->place = NONE;
    s->in_line = s->filled = false;
}

static void slot_release(struct ses_tiers *t, uint32_t i) {
    CHECK(t->slot[i].place == NONE && !t->slot[i].storing && !t->slot[i].loading);
    t->slot_free[t->n_slot_free++] = i;
}

static void slot_join(struct ses_tiers *t, uint32_t i, uint32_t place) {
    t->slot[i].place = place;
    t->place[place].slot = i;
    if (slot_dirty(t, &t->slot[i]))
        t->n_dirty++;
    else
        list_add(&t->use, i);
}

static void slot_used(struct ses_tiers *t, uint32_t i) {
    if (slot_dirty(t, &t->slot[i]))
        return;
    list_remove(&t->use, i);
    list_add(&t->use, i);
}

/* A free slot, or the one least recently used whose bytes are on disk; NONE: each that was looked
 * at is being filled or moved from, and whoever ends that asks again. */
static uint32_t slot_take(struct ses_tiers *t) {
    if (t->n_slot_free == 0) {
        uint32_t i = t->use.first;
        for (int look = 0; i != NONE && look < LOOK_MAX; i = t->use.link[i].after, look++) {
            const struct slot *s = &t->slot[i];
            if (s->filled && !s->storing && !s->restoring && s->wishes.first == 0)
                break;
            if (look == LOOK_MAX - 1)
                return NONE;
        }
        if (i == NONE)
            return NONE;
        slot_leave(t, i);
        slot_release(t, i);
    }
    return t->slot_free[--t->n_slot_free];
}

/* ---- records ---- */

static void record_erase(struct ses_tiers *t, uint32_t record) {
    CHECK(t->record_acks[record] == 0);
    t->record_acks[record] = t->config.world;
    t->erases++;
    if (t->silent)
        t->late[t->n_late++] = record;
    else
        t->config.out.erase(t->config.out.self, record);
}

/* Whatever waits to be stored and may be. */
static void store_on(struct ses_tiers *t) {
    uint32_t i;
    while ((i = t->line.first) != NONE && t->stores < SES_TIERS_STORES_MAX &&
           t->n_record_free > 0 && !t->silent && (!t->failing || t->probe)) {
        struct slot *s = &t->slot[i];
        t->probe = false;
        list_remove(&t->line, i);
        s->in_line = false;
        s->storing = true;
        s->record = t->record_free[--t->n_record_free];
        s->disk_acks = t->config.world;
        s->disk_status = STATUS_OK;
        t->stores++;
        t->config.out.store(t->config.out.self, s->record, i);
    }
}

/* One thing of all ranks' disks has ended. A disk that was silent is one again when it has answered
 * all that it was asked. */
static void disk_answered(struct ses_tiers *t) {
    t->answered++;
    if (!t->silent || ses_tiers_disk_owes(t))
        return;
    t->silent = false;
    while (t->n_late > 0)
        t->config.out.erase(t->config.out.self, t->late[--t->n_late]);
}

bool ses_tiers_disk_owes(const struct ses_tiers *t) {
    return t->loads + t->stores > 0; /* erases wait for a disk that is full or read-only */
}

uint64_t ses_tiers_answered(const struct ses_tiers *t) {
    return t->answered;
}

bool ses_tiers_is_silent(const struct ses_tiers *t) {
    return t->silent;
}

void ses_tiers_erased(struct ses_tiers *t, uint32_t record) {
    CHECK(record < ses_tiers_records(&t->config) && t->record_acks[record] > 0);
    if (--t->record_acks[record] > 0)
        return;
    t->erases--;
    t->record_free[t->n_record_free++] = record;
    disk_answered(t);
    store_on(t);
}

static void to_line(struct ses_tiers *t, uint32_t i) {
    t->slot[i].in_line = true;
    list_add(&t->line, i);
}

void ses_tiers_retry(struct ses_tiers *t) {
    t->probe = t->failing;
    store_on(t);
}

/* ---- restores ---- */

static void queue_add(struct ses_tiers *t, struct queue *q, uint32_t page) {
    t->wish[page].next = 0;
    if (q->first == 0)
        q->first = page;
    else
        t->wish[q->last].next = page;
    q->last = page;
}

static uint32_t queue_take(struct ses_tiers *t, struct queue *q) {
    uint32_t page = q->first;
    q->first = t->wish[page].next;
    return page;
}

/* Something is moved from the slot as soon as its bytes are there and nothing else is. */
static void slot_look(struct ses_tiers *t, uint32_t i) {
    struct slot *s = &t->slot[i];
    if (!s->filled || s->restoring || s->ready || s->wishes.first == 0)
        return;
    s->ready = true;
    list_add(&t->ready, i);
}

static void slot_wish(struct ses_tiers *t, uint32_t i, uint32_t page) {
    queue_add(t, &t->slot[i].wishes, page);
    slot_look(t, i);
}

static void moves_on(struct ses_tiers *t) {
    uint32_t i;
    while ((i = t->ready.first) != NONE && t->restores < SES_TIERS_MOVES_MAX) {
        struct slot *s = &t->slot[i];
        list_remove(&t->ready, i);
        s->ready = false;
        s->restoring = true;
        s->page = queue_take(t, &s->wishes);
        s->move_acks = t->config.world;
        s->move_status = STATUS_OK;
        t->n_wishes--;
        t->restores++;
        slot_used(t, i);
        t->config.out.move(t->config.out.self, s->page, i, true);
    }
}

/* Reads from the disk what the oldest wishes need; false: there is no slot for it now. */
static bool load_next(struct ses_tiers *t) {
    uint32_t place = t->wish[t->far.first].place;
    struct place *p = &t->place[place];
    if (p->slot != NONE) { /* another wish had it loaded */
        slot_wish(t, p->slot, queue_take(t, &t->far));
        return true;
    }
    CHECK(p->record != NONE); /* the books restore only what is somewhere */
    uint32_t i = t->loads < SES_TIERS_LOADS_MAX ? slot_take(t) : NONE;
    if (i == NONE)
        return false;
    struct slot *s = &t->slot[i];
    slot_join(t, i, place);
    s->loading = true;
    s->record = p->record;
    s->disk_acks = t->config.world;
    s->disk_status = STATUS_OK;
    t->loads++;
    queue_add(t, &s->wishes, queue_take(t, &t->far));
    t->config.out.load(t->config.out.self, p->record, i);
    return true;
}

/* The bytes cannot be had: everybody who waits for them is told. */
static void wishes_fail(struct ses_tiers *t, struct queue *wishes) {
    while (wishes->first != 0) {
        outcome(t, true, queue_take(t, wishes), false);
        t->n_wishes--;
    }
}

static void restore_on(struct ses_tiers *t) {
    if (t->silent)
        wishes_fail(t, &t->far);
    while (t->far.first != 0 && load_next(t))
        ;
    moves_on(t);
}

void ses_tiers_set_silent(struct ses_tiers *t) {
    CHECK(t->config.disk && !t->silent);
    t->silent = true;
    t->failing = true;
    t->counts.silences++;
    t->counts.store_status = STATUS_TIMEOUT;
    for (uint32_t i = 0; i < t->config.n_slots; i++) {
        struct slot *s = &t->slot[i];
        if (!s->loading || s->place == NONE)
            continue;
        t->counts.load_failed++;
        wishes_fail(t, &s->wishes);
        slot_leave(t, i); /* the disk may still write to it: it is free when that has ended */
    }
    restore_on(t);
}

/* ---- what the books ask ---- */

void ses_tiers_park(struct ses_tiers *t, uint32_t page, uint32_t place) {
    CHECK(place < t->config.n_places);
    CHECK(t->place[place].slot == NONE && t->place[place].record == NONE);
    bool room = !t->config.disk || t->n_dirty + t->reserve < t->config.n_slots;
    uint32_t i = room ? slot_take(t) : NONE;
    if (i == NONE) {
        t->counts.no_slot++;
        outcome(t, false, page, false);
        ses_tiers_retry(t); /* nothing else would ask when all slots wait for the disk */
        return;
    }
    struct slot *s = &t->slot[i];
    slot_join(t, i, place);
    s->parking = true;
    s->page = page;
    s->move_acks = t->config.world;
    s->move_status = STATUS_OK;
    t->moves++;
    t->config.out.describe(t->config.out.self, page, i);
    t->config.out.move(t->config.out.self, page, i, false);
}

uint32_t ses_tiers_bring(struct ses_tiers *t, uint32_t place) {
    CHECK(place < t->config.n_places);
    CHECK(t->place[place].slot == NONE && t->place[place].record == NONE);
    bool room = !t->config.disk || t->n_dirty + t->reserve < t->config.n_slots;
    uint32_t i = room ? slot_take(t) : NONE;
    if (i == NONE)
        t->counts.no_slot++;
    else
        slot_join(t, i, place);
    return i;
}

void ses_tiers_brought(struct ses_tiers *t, uint32_t slot) {
    struct slot *s = slot_of(t, slot);
    CHECK(s->place != NONE && !s->filled && !s->parking && !s->loading);
    s->filled = true;
    t->counts.brought++;
    if (!t->config.disk)
        return;
    t->probe = t->failing;
    to_line(t, slot);
    store_on(t);
}

void ses_tiers_restore(struct ses_tiers *t, uint32_t place, uint32_t page) {
    CHECK(place < t->config.n_places && t->n_wishes < t->config.n_pages);
    t->n_wishes++;
    t->wish[page].place = place;
    if (t->place[place].slot != NONE)
        slot_wish(t, t->place[place].slot, page);
    else
        queue_add(t, &t->far, page);
    restore_on(t);
}

void ses_tiers_forget(struct ses_tiers *t, uint32_t place) {
    CHECK(place < t->config.n_places);
    struct place *p = &t->place[place];
    uint32_t i = p->slot, record = p->record;
    if (i != NONE) {
        const struct slot *s = &t->slot[i];
        CHECK(!s->parking && !s->loading && !s->restoring);
        slot_leave(t, i);
        if (!s->storing) /* else its record is erased when it has been written */
            slot_release(t, i);
    }
    p->record = NONE;
    if (record != NONE) {
        t->counts.records--;
        record_erase(t, record);
    }
}

enum ses_tier_where ses_tiers_where(const struct ses_tiers *t, uint32_t place) {
    CHECK(place < t->config.n_places);
    uint32_t i = t->place[place].slot;
    return i != NONE && t->slot[i].filled ? SES_TIER_RAM : SES_TIER_DISK;
}

uint32_t ses_tiers_record(const struct ses_tiers *t, uint32_t place) {
    CHECK(place < t->config.n_places);
    return t->place[place].record;
}

uint32_t ses_tiers_slot(const struct ses_tiers *t, uint32_t place) {
    CHECK(place < t->config.n_places);
    uint32_t i = t->place[place].slot;
    return i != NONE && t->slot[i].filled ? i : NONE;
}

/* ---- what came of it ---- */

static void parked(struct ses_tiers *t, uint32_t i) {
    struct slot *s = &t->slot[i];
    bool fine = s->move_status == STATUS_OK;
    s->parking = false;
    t->moves--;
    s->filled = fine;
    outcome(t, false, s->page, fine);
    if (!fine) {
        t->counts.move_failed++;
        slot_leave(t, i);
        slot_release(t, i);
        return;
    }
    t->counts.moved_out++;
    if (!t->config.disk)
        return;
    t->probe = t->failing;
    to_line(t, i);
}

static void restored(struct ses_tiers *t, uint32_t i) {
    struct slot *s = &t->slot[i];
    bool fine = s->move_status == STATUS_OK;
    s->restoring = false;
    t->restores--;
    slot_look(t, i);
    t->counts.moved_in += fine;
    t->counts.move_failed += !fine;
    outcome(t, true, s->page, fine);
}

void ses_tiers_moved(struct ses_tiers *t, uint32_t slot, enum status status) {
    struct slot *s = slot_of(t, slot);
    CHECK(s->move_acks > 0 && s->parking != s->restoring);
    if (status != STATUS_OK)
        s->move_status = status;
    if (--s->move_acks > 0)
        return;
    if (s->parking)
        parked(t, slot);
    else
        restored(t, slot);
    restore_on(t);
    store_on(t);
}

void ses_tiers_stored(struct ses_tiers *t, uint32_t slot, enum status status) {
    struct slot *s = slot_of(t, slot);
    CHECK(s->disk_acks > 0 && s->storing);
    if (status != STATUS_OK)
        s->disk_status = status;
    if (--s->disk_acks > 0)
        return;
    s->storing = false;
    t->stores--;
    disk_answered(t);
    bool fine = s->disk_status == STATUS_OK, wanted = s->place != NONE;
    t->failing = !fine;
    t->counts.store_status = s->disk_status;
    t->counts.stored += fine;
    t->counts.store_failed += !fine;
    if (fine && wanted) {
        t->n_dirty--;
        t->place[s->place].record = s->record;
        t->counts.records++;
        list_add(&t->use, slot);
    } else {
        record_erase(t, s->record);
        if (wanted)
            to_line(t, slot);
        else
            slot_release(t, slot);
    }
    restore_on(t);
    store_on(t);
}

void ses_tiers_loaded(struct ses_tiers *t, uint32_t slot, enum status status) {
    struct slot *s = slot_of(t, slot);
    CHECK(s->disk_acks > 0 && s->loading);
    if (status != STATUS_OK)
        s->disk_status = status;
    if (--s->disk_acks > 0)
        return;
    s->loading = false;
    t->loads--;
    disk_answered(t);
    bool wanted = s->place != NONE;
    s->filled = wanted && s->disk_status == STATUS_OK;
    t->counts.loaded += s->filled;
    if (!wanted) {
        slot_release(t, slot);
    } else if (!s->filled) {
        t->counts.load_failed++;
        wishes_fail(t, &s->wishes);
        slot_leave(t, slot);
        slot_release(t, slot);
    }
    slot_look(t, slot);
    restore_on(t);
    store_on(t);
}

/* ---- looking at it ---- */

/* What waits in the line with nothing under way waits for a disk that refused it. */
bool ses_tiers_quiet(const struct ses_tiers *t) {
    uint32_t disk = t->silent ? 0 : t->loads + t->stores;
    return t->moves + t->restores + disk + t->n_wishes + t->n_done == 0;
}

void ses_tiers_count(const struct ses_tiers *t, struct ses_tiers_counts *out) {
    *out = t->counts;
    out->slots = t->config.n_slots;
    out->slots_used = t->config.n_slots - t->n_slot_free;
    out->unsaved = t->config.disk ? t->n_dirty : 0;
}

bool ses_tiers_audit(const struct ses_tiers *t, struct status_note *note) {
    uint32_t with_place = 0, dirty = 0, in_line = 0, orphans = 0, records = 0, moves = 0, disk = 0;
    uint32_t ready = 0, wishes = 0;
    bool fine = true;
    for (uint32_t i = 0; i < t->config.n_slots; i++) {
        const struct slot *s = &t->slot[i];
        with_place += s->place != NONE;
        dirty += slot_dirty(t, s);
        in_line += s->in_line;
        orphans += s->place == NONE && (s->storing || s->loading);
        moves += s->parking + s->restoring;
        disk += s->loading + s->storing;
        fine = fine && (s->place == NONE || t->place[s->place].slot == i);
        fine = fine && !(s->parking && s->loading) && !(s->filled && (s->parking || s->loading));
        fine = fine && (!s->in_line || (s->filled && !s->storing && slot_dirty(t, s)));
        fine = fine && (s->filled || !s->restoring);
        for (uint32_t w = s->wishes.first; w != 0; w = t->wish[w].next)
            wishes += t->wish[w].place == s->place;
        ready += s->ready;
        fine = fine && s->ready == (s->filled && !s->restoring && s->wishes.first != 0);
    }
    for (uint32_t w = t->far.first; w != 0; w = t->wish[w].next)
        wishes++;
    for (uint32_t p = 0; p < t->config.n_places; p++) {
        records += t->place[p].record != NONE;
        fine = fine && (t->place[p].slot == NONE || t->slot[t->place[p].slot].place == p);
    }
    uint32_t numbered = records + t->n_record_free + t->erases + t->stores;
    fine = fine && with_place == t->use.n + dirty && dirty == t->n_dirty && in_line == t->line.n &&
           with_place + orphans + t->n_slot_free == t->config.n_slots &&
           records == t->counts.records && moves == t->moves + t->restores &&
           disk == t->loads + t->stores && ready == t->ready.n && wishes == t->n_wishes &&
           (!t->config.disk || numbered == ses_tiers_records(&t->config));
    if (!fine)
        status_say(note, STATUS_BAD_REQUEST,
                   "the tiers do not balance: %u slots hold places, %u are listed as on disk, %u "
                   "unsaved of %u, "
                   "%u records of %u, %u numbers",
                   with_place, t->use.n, dirty, t->n_dirty, records, t->counts.records, numbered);
    return fine;
}
