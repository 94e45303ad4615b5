/* SPDX-License-Identifier: Apache-2.0
 * An index that turns useless while the store runs: its file was cut, overwritten or removed, or
 * its disk failed in the middle of a commit. What lives is known without it, so nothing that can be
 * loaded is lost: the file is opened anew when it is whole and says the same, else it is laid aside
 * and another is made of the records' headers, with the uses and pins that are known here. Until
 * then nothing is stored, and what was stored is loaded as before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "sessions/heal.h"

enum { HEALS_MAX = 64, PATH_BYTES = 4096 };

/* ---- what lives ---- */

struct ses_alive {
    const struct ses_store *store;
    uint32_t *at; /* hash of places: number + 1; 0: empty */
    uint32_t mask;
};

static uint32_t place_hash(const struct ses_where *w) {
    uint64_t x = (w->offset / SES_DISK_BLOCK + ((uint64_t)w->segment << 32)) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(x >> 32);
}

static bool alive_open(struct ses_alive *a, const struct ses_store *s) {
    uint64_t slots = 64;
    while (slots < (uint64_t)s->config.n_numbers * 2)
        slots *= 2;
    *a = (struct ses_alive){s, calloc(slots, sizeof *a->at), (uint32_t)(slots - 1)};
    for (uint32_t k = 0; a->at != NULL && k < s->config.n_numbers; k++) {
        if (!s->at[k].held || s->at[k].where.segment == 0)
            continue;
        uint32_t i = place_hash(&s->at[k].where) & a->mask;
        while (a->at[i] != 0)
            i = (i + 1) & a->mask;
        a->at[i] = k + 1;
    }
    return a->at != NULL;
}

uint32_t ses_alive_number(const struct ses_alive *a, const struct ses_where *where) {
    for (uint32_t i = place_hash(where) & a->mask; a->at[i] != 0; i = (i + 1) & a->mask) {
        const struct ses_where *own = &a->store->at[a->at[i] - 1].where;
        if (own->segment == where->segment && own->offset == where->offset)
            return a->at[i] - 1;
    }
    return UINT32_MAX;
}

/* ---- an index against it ---- */

struct adopt {
    struct ses_store *store;
    const struct ses_alive *alive;
    bool *seen;                 /* [n_numbers] */
    struct ses_record *strange; /* entries to be removed, without tokens */
    uint32_t n, max;
    bool no_memory;
};

static bool adopt_entry(void *self, const struct ses_record *r, const struct ses_where *where,
                        uint32_t flags) {
    struct adopt *a = self;
    struct ses_store *s = a->store;
    (void)flags;
    bool own = memcmp(r->space.key, s->own_key, sizeof r->space.key) == 0;
    uint32_t number = own ? ses_alive_number(a->alive, where) : UINT32_MAX;
    bool known = !own || (number != UINT32_MAX && !a->seen[number] &&
                          memcmp(&s->at[number].record.name, &r->name, sizeof r->name) == 0 &&
                          s->at[number].where.blocks == where->blocks);
    if (known && ses_files_found(s->files, where)) {
        if (own)
            a->seen[number] = true;
        return true;
    }
    if (a->n == a->max) {
        uint32_t max = a->max == 0 ? 64 : a->max * 2;
        struct ses_record *more = realloc(a->strange, max * sizeof *more);
        a->no_memory = more == NULL;
        if (more == NULL)
            return false;
        a->strange = more;
        a->max = max;
    }
    a->strange[a->n] = *r;
    a->strange[a->n++].tokens = NULL;
    return true;
}

/* Compares the index with what lives and removes what does not. all: everything that lives must be
 * in it, or BAD_FILE; else what is not is lost. */
static enum status adopt(struct ses_store *s, const struct ses_alive *alive, bool all,
                         struct status_note *note) {
    struct adopt a = {.store = s, .alive = alive};
    uint64_t bad = 0;
    a.seen = calloc((size_t)s->config.n_numbers + 1, sizeof *a.seen);
    if (a.seen == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory to look through the session index");
    enum status status = ses_index_each(s->index, &a, adopt_entry, &bad, note);
    if (status == STATUS_OK && a.no_memory)
        status = status_say(note, STATUS_NO_MEMORY, "no memory to look through the session index");
    for (uint32_t k = 0; status == STATUS_OK && all && k < s->config.n_numbers; k++)
        if (s->at[k].held && s->at[k].where.segment != 0 && !a.seen[k])
            bad++;
    if (status == STATUS_OK && all && bad > 0)
        status = status_say(note, STATUS_BAD_FILE, "the session index is not of this store");
    for (uint32_t i = 0; status == STATUS_OK && i < a.n; i++)
        status = ses_index_drop(s->index, &a.strange[i], note);
    if (status == STATUS_OK)
        status = ses_store_put_own_space(s, note);
    if (status == STATUS_OK)
        status = ses_store_commit(s, note);
    if (status != STATUS_OK)
        ses_index_abort(s->index);
    for (uint32_t k = 0; status == STATUS_OK && k < s->config.n_numbers; k++)
        if (s->at[k].held && !a.seen[k] && s->at[k].where.segment != 0) {
            s->at[k].where = (struct ses_where){.segment = 0}; /* its header cannot be read */
            s->counts.dropped++;
        }
    free(a.strange);
    free(a.seen);
    return status;
}

/* ---- another index ---- */

/* The file as it is. BAD_FILE: it is of no use. */
static enum status reopen(struct ses_store *s, const struct ses_alive *alive, const char *path,
                          struct status_note *note) {
    TRY(ses_index_check(path, note));
    TRY(ses_store_index_open(s, path, note));
    return adopt(s, alive, true, note);
}

static enum status fresh_files(struct ses_store *s, struct ses_space_files **old,
                               struct status_note *note) {
    struct ses_space_files *files;
    TRY(ses_store_files_open(s, &files, note));
    if (*old == NULL)
        *old = s->files;
    else
        ses_files_close(s->files);
    s->files = files;
    return STATUS_OK;
}

/* What was left inside the library keeps its memory: each counts once. */
static void drop(struct ses_store *s, struct ses_index *x) {
    s->heals += x != NULL && ses_index_was_left(x);
    ses_index_close(x);
}

static enum status renew(struct ses_store *s, const struct ses_alive *alive, const char *path,
                         struct ses_space_files **old, struct status_note *note) {
    drop(s, s->index);
    s->index = NULL;
    TRY(fresh_files(s, old, note));
    TRY(ses_store_lay_aside(s, path, note));
    TRY(ses_store_index_open(s, path, note));
    TRY(ses_store_rebuild(s, alive, note));
    return adopt(s, alive, false, note);
}

static void say_healed(struct ses_store *s, bool anew, const char *why) {
    char text[512];
    if (anew)
        snprintf(text, sizeof text, "%.300s: made anew from the segments of %.100s, %llu pages",
                 why, s->config.folder, (unsigned long long)s->counts.salvaged);
    else
        snprintf(text, sizeof text, "%.300s: opened again, and whole", why);
    if (s->config.say != NULL)
        s->config.say(s->config.say_self, text);
}

enum status ses_store_heal(struct ses_store *s, struct status_note *note) {
    char path[PATH_BYTES];
    struct ses_alive alive;
    struct ses_space_files *old = NULL;
    struct ses_index *useless = s->index;
    if (s->heals >= HEALS_MAX)
        return status_say(
            note, STATUS_IO,
            "the index of the session store %s was cut %u times while it was in use: it "
            "is left alone until the next start",
            s->config.folder, (unsigned)HEALS_MAX);
    CHECK(s->n_loading == 0);
    if (!alive_open(&alive, s))
        return status_say(note, STATUS_NO_MEMORY, "no memory to look through the session store");
    snprintf(path, sizeof path, "%s/index", s->config.folder);
    bool left = ses_index_was_left(useless), anew = false;
    uint64_t rebuilt = s->counts.rebuilt;
    ses_index_let_go(useless);
    s->index = NULL;
    enum status status = fresh_files(s, &old, note);
    if (status == STATUS_OK)
        status = left ? STATUS_BAD_FILE : reopen(s, &alive, path, note);
    if (status == STATUS_BAD_FILE) {
        anew = true;
        status = renew(s, &alive, path, &old, note);
    }
    free(alive.at);
    if (status == STATUS_OK) {
        drop(s, useless);
        ses_files_close(old);
        ses_files_remove_empty(s->files);
        say_healed(s, anew, "the session index was of no use any more");
        return STATUS_OK;
    }
    drop(s, s->index);
    s->index = useless;
    s->counts.rebuilt = rebuilt;
    if (old != NULL) { /* what lies there is as it was */
        ses_files_close(s->files);
        s->files = old;
    }
    return status;
}
