/* SPDX-License-Identifier: Apache-2.0
 * A store's directory: whose it is, who uses it, and what the index says lies in it. No data is
 * read at start.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "actors/check.h"
#include "sessions/heal.h"
#include "sessions/store_private.h"

enum {
    PATH_BYTES = 4096,
    SEGMENT_BYTES_MAX = 256 << 20,
    SEGMENTS_WANTED = 16,
    SEGMENTS_MIN = 4,
    ASIDE_MAX = 8
};
static const char FORMAT_TEXT[] = "roundhouse session store, format 1\n";

/* ---- sizes ---- */

static uint64_t header_bytes(uint32_t page_tokens) {
    uint64_t bytes = sizeof(struct store_header) + page_tokens * sizeof(uint32_t);
    return (bytes + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
}

static uint64_t record_bytes(const struct ses_store_config *c) {
    return header_bytes(c->page_tokens) + c->host_bytes;
}

static uint64_t segment_bytes(const struct ses_store_config *c) {
    uint64_t record = record_bytes(c);
    uint64_t wanted = c->segment_bytes != 0 ? c->segment_bytes : c->budget / SEGMENTS_WANTED;
    if (wanted > SEGMENT_BYTES_MAX && c->segment_bytes == 0)
        wanted = SEGMENT_BYTES_MAX;
    return wanted < record ? record : wanted / record * record;
}

/* A part of the budget is the index's. */
static uint64_t files_budget(const struct ses_store_config *c) {
    return c->budget - c->budget / 16;
}

uint32_t ses_store_capacity(const struct ses_store_config *c) {
    uint64_t segment = segment_bytes(c), n = files_budget(c) / segment;
    if (n < SEGMENTS_MIN)
        return 0;
    /* One is kept for compaction, one is being filled; and moving needs something to gain. */
    uint64_t records = (n - 2) * (segment / record_bytes(c));
    records -= records / 8;
    return records < UINT32_MAX / 4 ? (uint32_t)records : UINT32_MAX / 4;
}

/* ---- the directory ---- */

static enum status folder_make(const char *folder, struct status_note *note) {
    char path[PATH_BYTES];
    if (folder[0] == '\0' || strlen(folder) >= sizeof path - 64)
        return status_say(note, STATUS_BAD_REQUEST,
                          "the path of the session store is empty or too long");
    strcpy(path, folder);
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return status_say(note, STATUS_IO, "the session store %s cannot be created: %s", folder,
                          strerror(errno));
    return STATUS_OK;
}

/* What another number of ranks has in the same directory. */
static bool name_of_ranks(const char *name) {
    unsigned rank, world;
    char rest;
    return sscanf(name, "rank-%3u-of-%3u%c", &rank, &world, &rest) == 2;
}

static bool folder_is_empty(const char *folder) {
    DIR *d = opendir(folder);
    const struct dirent *e;
    bool empty = d != NULL;
    while (d != NULL && (e = readdir(d)) != NULL)
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                          strcmp(e->d_name, "lock") == 0 || strcmp(e->d_name, "format.new") == 0 ||
                          name_of_ranks(e->d_name));
    if (d != NULL)
        closedir(d);
    return empty;
}

static enum status format_write(struct ses_store *s, const char *path, struct status_note *note) {
    char next[PATH_BYTES + 8];
    snprintf(next, sizeof next, "%s.new", path);
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : 0;
    ssize_t n = fd < 0 ? 0 : write(fd, FORMAT_TEXT, sizeof FORMAT_TEXT - 1);
    if (error == 0 && n != (ssize_t)sizeof FORMAT_TEXT - 1)
        error = n < 0 ? errno : ENOSPC; /* cut short */
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (error == 0 && rename(next, path) != 0)
        error = errno;
    if (error == 0)
        error = -s->disk->ops->sync_folder(s->disk, s->config.folder);
    return error == 0
               ? STATUS_OK
               : status_say(note, STATUS_IO, "%s cannot be written: %s", path, strerror(error));
}

/* A record of this format begins a segment. */
static bool segment_is_ours(const char *path) {
    struct store_header h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ours = fd >= 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
                memcmp(h.magic, SES_STORE_MAGIC, sizeof h.magic) == 0 &&
                h.format == SES_STORE_FORMAT;
    if (fd >= 0)
        close(fd);
    return ours;
}

/* What lies in the directory says itself that it is a store of this format. */
static bool folder_is_ours(const char *folder) {
    char path[PATH_BYTES + 272];
    struct status_note note;
    struct ses_index *x = NULL;
    DIR *d = opendir(folder);
    const struct dirent *e;
    bool ours = false;
    while (!ours && d != NULL && (e = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ours = strncmp(e->d_name, "segment-", 8) == 0 && segment_is_ours(path);
    }
    if (d != NULL)
        closedir(d);
    snprintf(path, sizeof path, "%s/index/data.mdb", folder);
    if (ours || access(path, R_OK) != 0)
        return ours;
    snprintf(path, sizeof path, "%s/index", folder);
    ours = ses_index_check(path, &note) == STATUS_OK &&
           ses_index_open(path, true, 0, &x, &note) == STATUS_OK;
    ses_index_close(x);
    return ours;
}

/* The file format is lost or damaged, the rest is not: written anew. */
static enum status format_heal(struct ses_store *s, const char *path, const char *what,
                               struct status_note *note) {
    char text[sizeof note->text];
    TRY(format_write(s, path, note));
    snprintf(text, sizeof text,
             "%.200s %s; it was written anew, for what lies beside it is a store of this format",
             path, what);
    if (s->config.say != NULL)
        s->config.say(s->config.say_self, text);
    return STATUS_OK;
}

/* Bytes of a file for a sentence: what cannot be printed as \\xNN; cut to fit. */
static void shown(const char *bytes, size_t n, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n && at + 5 <= size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = c >= ' ' && c < 127 && c != '\\';
        at += (size_t)snprintf(text + at, size - at, plain ? "%c" : "\\x%02x", c);
    }
}

/* Does a whole file format say another number? */
static bool format_is_another(const char *text) {
    unsigned format;
    int n = 0;
    return sscanf(text, "roundhouse session store, format %9u%n", &format, &n) == 1 &&
           strcmp(text + n, "\n") == 0 && format != SES_STORE_FORMAT;
}

/* Is it a store of this format, or becomes one because it is empty. */
static enum status format_check(struct ses_store *s, struct status_note *note) {
    char path[PATH_BYTES], text[128], words[64];
    const char *folder = s->config.folder;
    snprintf(path, sizeof path, "%s/format", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
    if (fd < 0 && error != ENOENT)
        return status_say(note, STATUS_IO, "%s cannot be read: %s", path, strerror(error));
    if (fd < 0 && folder_is_empty(folder))
        return format_write(s, path, note);
    if (fd < 0 && folder_is_ours(folder))
        return format_heal(s, path, "was missing", note);
    if (fd < 0)
        return status_say(note, STATUS_BAD_FILE,
                          "%s is no session store and not empty: give --disk-cache an empty or a "
                          "new directory",
                          folder);
    ssize_t n = read(fd, text, sizeof text - 1);
    error = errno;
    close(fd);
    if (n < 0)
        return status_say(note, STATUS_IO, "%s cannot be read: %s", path, strerror(error));
    text[n] = '\0';
    if (n == sizeof FORMAT_TEXT - 1 && memcmp(text, FORMAT_TEXT, sizeof FORMAT_TEXT) == 0)
        return STATUS_OK;
    shown(text, (size_t)n, words, sizeof words);
    if (format_is_another(text))
        return status_say(note, STATUS_BAD_FILE,
                          "%.150s is a session store of another format ('%s'): give another "
                          "directory, or remove it",
                          folder, words);
    if (folder_is_ours(folder))
        return format_heal(s, path, "was damaged", note);
    return status_say(note, STATUS_BAD_FILE,
                      "%.150s/format ('%s') is no session store's, and nothing beside it is: give "
                      "another directory, or remove it",
                      folder, words);
}

static enum status lock_take(struct ses_store *s, struct status_note *note) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/lock", s->config.folder);
    s->lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    s->lock_made = s->lock >= 0;
    if (!s->lock_made && errno == EEXIST)
        s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return status_say(note, STATUS_IO, "the session store %s cannot be written: %s",
                          s->config.folder, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) != 0)
        return status_say(note, STATUS_DUPLICATE,
                          "the session store %s is in use by another server: give each its own",
                          s->config.folder);
    return STATUS_OK;
}

/* Somebody else's directory is left as it was. */
static enum status refused(const struct ses_store *s, enum status status) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/lock", s->config.folder);
    if (s->lock_made)
        unlink(path);
    return status;
}

/* ---- what the index knows ---- */

static bool found_add(struct store_found **list, uint32_t *n, uint32_t *max,
                      const struct ses_record *r, const struct ses_where *where, uint32_t flags) {
    if (*n == *max) {
        uint32_t more = *max == 0 ? 256 : *max * 2;
        struct store_found *grown = realloc(*list, more * sizeof *grown);
        if (grown == NULL)
            return false;
        *list = grown;
        *max = more;
    }
    uint32_t *tokens = malloc(r->n_tokens * sizeof *tokens);
    if (tokens == NULL)
        return false;
    memcpy(tokens, r->tokens, r->n_tokens * sizeof *tokens);
    (*list)[*n] = (struct store_found){.record = *r, .where = *where, .flags = flags};
    (*list)[*n].record.flags = flags;
    (*list)[(*n)++].record.tokens = tokens;
    return true;
}

static bool each_entry(void *self, const struct ses_record *r, const struct ses_where *where,
                       uint32_t flags) {
    struct ses_store *s = self;
    bool own = memcmp(r->space.key, s->own_key, sizeof s->own_key) == 0;
    struct ses_where there = *where;
    bool fits = !own || (where->blocks == s->blocks && r->n_tokens <= s->config.page_tokens);
    if (!fits || !ses_files_found(s->files, where)) {
        s->counts.lost_segments++;
        there.segment = 0; /* to be removed */
        return found_add(&s->found, &s->n_found, &s->found_max, r, &there, flags);
    }
    if (own)
        return found_add(&s->found, &s->n_found, &s->found_max, r, where, flags);
    s->counts.found_other++;
    return r->depth > 0 || found_add(&s->other, &s->n_other, &s->other_max, r, where, flags);
}

/* Of folders beside this one only first pages count. */
static bool each_beside(void *self, const struct ses_record *r, const struct ses_where *where,
                        uint32_t flags) {
    struct ses_store *s = self;
    s->counts.found_other++;
    return r->depth > 0 || found_add(&s->other, &s->n_other, &s->other_max, r, where, flags);
}

static void look_beside(void *self, struct ses_index *x, const char *path) {
    struct status_note note;
    uint64_t bad = 0;
    (void)path;
    (void)ses_index_each(x, self, each_beside, &bad,
                         &note); /* hints: what cannot be read is none */
}

/* It is to be forgotten: its bytes are not there, or the memory has no place for it. */
static bool to_forget(const struct store_found *f) {
    return f->where.segment == 0 || f->no_place;
}

/* Parents first; of siblings the longest first, so that a shorter one that a crash left behind is
 * seen to be one. */
static int by_depth(const void *a_, const void *b_) {
    const struct store_found *a = a_, *b = b_;
    if (to_forget(a) != to_forget(b))
        return to_forget(a) ? 1 : -1;
    if (a->record.depth != b->record.depth)
        return a->record.depth < b->record.depth ? -1 : 1;
    if (a->record.n_tokens != b->record.n_tokens)
        return a->record.n_tokens > b->record.n_tokens ? -1 : 1;
    return memcmp(&a->record.name, &b->record.name, sizeof a->record.name);
}

static bool count_space(void *self, const struct ses_index_space *space) {
    (void)space;
    ++*(uint32_t *)self;
    return true;
}

/* Reads the index. *whole: every entry makes sense, and it is the index of these segments: one that
 * was never settled, or is not theirs, knows no key space. */
static enum status read_index(struct ses_store *s, bool *whole, struct status_note *note) {
    uint64_t bad = 0, bytes;
    uint32_t spaces = 0;
    TRY(ses_index_each_space(s->index, &spaces, count_space, note));
    TRY(ses_index_each(s->index, s, each_entry, &bad, note));
    s->counts.bad_entries += bad;
    *whole = bad == 0 && (spaces > 0 || ses_files_next(s->files, 0, &bytes) == 0);
    return STATUS_OK;
}

/* Names all that is worth keeping. */
static void hash_found(struct ses_store *s) {
    memset(s->by_name, 0, ((size_t)s->by_name_mask + 1) * sizeof *s->by_name);
    s->counts.found = 0;
    for (uint32_t i = 0; i < s->n_found && !to_forget(&s->found[i]); i++) {
        uint32_t at = (uint32_t)s->found[i].record.name.word[0] & s->by_name_mask;
        while (s->by_name[at] != 0)
            at = (at + 1) & s->by_name_mask;
        s->by_name[at] = i + 1;
        s->counts.found++;
    }
}

/* The record that stands before record i; UINT32_MAX: none does. */
static uint32_t found_before(const struct ses_store *s, uint32_t i) {
    const struct ses_record *r = &s->found[i].record;
    uint32_t at = (uint32_t)r->parent.word[0] & s->by_name_mask;
    for (; r->depth > 0 && s->by_name[at] != 0; at = (at + 1) & s->by_name_mask) {
        const struct ses_record *one = &s->found[s->by_name[at] - 1].record;
        if (memcmp(&one->name, &r->parent, sizeof one->name) == 0 && one->depth + 1 == r->depth)
            return s->by_name[at] - 1;
    }
    return UINT32_MAX;
}

/* What a record is worth: as much as what is worth most behind it. */
struct worth {
    bool reached, pinned; /* reached: all that stands before it is there */
    uint64_t use;
    uint32_t depth, index;
};

static int by_worth(const void *a_, const void *b_) {
    const struct worth *a = a_, *b = b_;
    if (a->reached != b->reached)
        return a->reached ? -1 : 1;
    if (a->pinned != b->pinned)
        return a->pinned ? -1 : 1;
    if (a->use != b->use)
        return a->use > b->use ? -1 : 1;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static void say_lost_pins(struct ses_store *s, uint32_t n, uint32_t all) {
    char text[160];
    if (n == 0 || s->config.say == NULL || s->config.rank > 0)
        return;
    snprintf(text, sizeof text,
             "%u of %u pinned sessions do not fit in a disk cache of %u pages and are cut short or "
             "forgotten",
             n, all, s->config.n_places);
    s->config.say(s->config.say_self, text);
}

/* More were found than there are places: whole sessions, those that are worth most. */
static enum status choose_found(struct ses_store *s, struct status_note *note) {
    uint32_t n = (uint32_t)s->counts.found, pins = 0, lost = 0;
    struct worth *w = calloc(n, sizeof *w);
    if (w == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory to choose from %u stored pages", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct ses_record *r = &s->found[i].record;
        uint32_t before = found_before(s, i);
        w[i] =
            (struct worth){.reached = r->depth == 0 || (before != UINT32_MAX && w[before].reached),
                           .pinned = (r->flags & SES_RECORD_PINNED) != 0,
                           .use = r->use,
                           .depth = r->depth,
                           .index = i};
    }
    for (uint32_t i = n; i-- > 0;) { /* parents have lower numbers */
        uint32_t before = found_before(s, i);
        if (before == UINT32_MAX)
            continue;
        w[before].pinned = w[before].pinned || w[i].pinned;
        w[before].use = w[before].use > w[i].use ? w[before].use : w[i].use;
    }
    qsort(w, n, sizeof *w, by_worth);
    for (uint32_t i = 0; i < n; i++) {
        struct store_found *f = &s->found[w[i].index];
        bool pinned = w[i].reached && (f->record.flags & SES_RECORD_PINNED) != 0;
        f->no_place = i >= s->config.n_places;
        pins += pinned;
        lost += pinned && f->no_place;
    }
    free(w);
    s->counts.dropped += n - s->config.n_places;
    say_lost_pins(s, lost, pins);
    qsort(s->found, s->n_found, sizeof *s->found, by_depth);
    hash_found(s);
    return STATUS_OK;
}

static enum status sort_found(struct ses_store *s, struct status_note *note) {
    if (s->n_found > 0)
        qsort(s->found, s->n_found, sizeof *s->found, by_depth);
    uint32_t slots = 64;
    while (slots < s->n_found * 2)
        slots *= 2;
    s->by_name = calloc(slots, sizeof *s->by_name);
    if (s->by_name == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u stored pages", s->n_found);
    s->by_name_mask = slots - 1;
    hash_found(s);
    bool all = s->config.n_places == 0 || s->counts.found <= s->config.n_places;
    return all ? STATUS_OK : choose_found(s, note);
}

uint32_t ses_store_n_found(const struct ses_store *s) {
    return (uint32_t)s->counts.found;
}

const struct ses_record *ses_store_found(const struct ses_store *s, uint32_t i) {
    CHECK(i < s->counts.found);
    return &s->found[i].record;
}

uint32_t ses_store_find(const struct ses_store *s, const struct ses_record *r) {
    uint32_t at = (uint32_t)r->name.word[0] & s->by_name_mask;
    for (; s->by_name[at] != 0; at = (at + 1) & s->by_name_mask) {
        const struct ses_record *own = &s->found[s->by_name[at] - 1].record;
        if (memcmp(&own->name, &r->name, sizeof own->name) == 0 &&
            own->space.tenant == r->space.tenant && own->n_tokens == r->n_tokens &&
            memcmp(own->tokens, r->tokens, r->n_tokens * sizeof *r->tokens) == 0)
            return s->by_name[at] - 1;
    }
    return UINT32_MAX;
}

void ses_store_bind(struct ses_store *s, uint32_t i, uint32_t number) {
    CHECK(i < s->counts.found && !s->found[i].bound);
    s->found[i].bound = true;
    ses_store_remember(s, number, &s->found[i].record, &s->found[i].where, s->found[i].flags);
}

static void found_free(struct store_found **list, uint32_t *n) {
    for (uint32_t i = 0; i < *n; i++)
        free((*list)[i].record.tokens);
    free(*list);
    *list = NULL;
    *n = 0;
}

/* An index entry whose where was replaced by "nowhere" is removed whatever it says. */
static enum status forget(struct ses_store *s, const struct store_found *f,
                          struct status_note *note) {
    return f->where.segment != 0 ? ses_index_remove(s->index, &f->record, &f->where, note)
                                 : ses_index_drop(s->index, &f->record, note);
}

enum status ses_store_put_own_space(struct ses_store *s, struct status_note *note) {
    struct ses_index_space space = {
        .key = {s->own_key[0], s->own_key[1]},
        .fingerprint = {s->config.key.fingerprint[0], s->config.key.fingerprint[1]},
        .page_tokens = s->config.page_tokens,
        .rank = s->config.rank,
        .world = s->config.key.world,
        .layout_version = s->config.key.layout_version,
        .page_bytes = s->config.page_bytes,
        .profile = s->config.profile};
    memcpy(space.text, s->text, sizeof space.text);
    return ses_index_put_space(s->index, &space, note);
}

enum status ses_store_settle(struct ses_store *s, struct status_note *note) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < s->n_found && status == STATUS_OK; i++)
        if (!s->found[i].bound)
            status = forget(s, &s->found[i], note);
    if (status == STATUS_OK)
        status = ses_store_put_own_space(s, note);
    if (status == STATUS_OK)
        status = ses_store_commit(s, note);
    if (status != STATUS_OK)
        ses_index_abort(s->index);
    for (uint32_t i = 0; status == STATUS_OK && i < s->n_found; i++) {
        const struct store_found *f = &s->found[i];
        s->counts.orphans += !f->bound && !to_forget(f);
        if (!f->bound && f->where.segment != 0)
            ses_files_drop(s->files, &f->where);
    }
    if (status == STATUS_OK)
        ses_files_remove_empty(s->files);
    found_free(&s->found, &s->n_found);
    found_free(&s->other, &s->n_other);
    s->counts.found -= s->counts.orphans;
    free(s->by_name);
    s->by_name = NULL;
    return status;
}

void ses_store_each_other(struct ses_store *s, void *self,
                          void (*each)(void *self, const struct ses_record *r)) {
    for (uint32_t i = 0; i < s->n_other; i++)
        each(self, &s->other[i].record);
}

/* ---- open and close ---- */

enum status ses_store_lay_aside(struct ses_store *s, const char *path, struct status_note *note) {
    char aside[PATH_BYTES + 16], file[PATH_BYTES + 32];
    for (int i = 0; i < ASIDE_MAX; i++) {
        snprintf(aside, sizeof aside, "%s.damaged-%d", path, i);
        snprintf(file, sizeof file, "%s/data.mdb", aside);
        unlink(file);
        snprintf(file, sizeof file, "%s/lock.mdb", aside);
        unlink(file);
        if (unlink(aside) != 0) /* whatever it is */
            rmdir(aside);
        if (rename(path, aside) == 0 || errno == ENOENT) {
            s->counts.rebuilt++;
            return STATUS_OK;
        }
    }
    return status_say(note, STATUS_IO, "the damaged session index %s cannot be renamed: %s", path,
                      strerror(errno));
}

enum status ses_store_files_open(struct ses_store *s, struct ses_space_files **out,
                                 struct status_note *note) {
    const struct ses_space_config fc = {.disk = s->disk,
                                        .folder = s->config.folder,
                                        .segment_bytes = segment_bytes(&s->config),
                                        .budget = files_budget(&s->config),
                                        .floor = s->config.floor};
    return ses_files_open(&fc, out, note);
}

enum status ses_store_index_open(struct ses_store *s, const char *path, struct status_note *note) {
    uint64_t need = ses_index_need(ses_store_capacity(&s->config), s->config.page_tokens);
    return ses_index_open(path, false, need, &s->index, note);
}

static void say_map(struct ses_store *s) {
    char text[192];
    uint64_t map = ses_index_map(s->index);
    if (map >= SES_INDEX_MAP_BYTES || s->config.say == NULL || s->config.rank > 0)
        return;
    snprintf(text, sizeof text,
             "address space is scarce (ulimit -v, an emulator): the session index maps %llu MiB in "
             "place of %llu and grows as long as there is room",
             (unsigned long long)(map >> 20), (unsigned long long)(SES_INDEX_MAP_BYTES >> 20));
    s->config.say(s->config.say_self, text);
}

/* Opens the index and the segments, and reads what they know; false: the index is of no use. */
static enum status open_index(struct ses_store *s, const char *path, bool *whole,
                              struct status_note *note) {
    found_free(&s->found, &s->n_found);
    found_free(&s->other, &s->n_other);
    s->found_max = s->other_max = 0;
    s->counts.found_other = s->counts.lost_segments = 0;
    ses_index_close(s->index);
    s->index = NULL;
    ses_files_close(s->files);
    s->files = NULL;
    TRY(ses_store_files_open(s, &s->files, note));
    enum status status = ses_index_check(path, note);
    if (status == STATUS_OK)
        status = ses_store_index_open(s, path, note);
    if (status == STATUS_OK)
        status = read_index(s, whole, note);
    if (status == STATUS_OK && !*whole)
        status_say(note, STATUS_BAD_FILE, "the session index %s does not belong to its segments",
                   path);
    *whole = *whole && status == STATUS_OK;
    return status == STATUS_NO_MEMORY || status == STATUS_IO ? status : STATUS_OK;
}

static enum status open_found(struct ses_store *s, const char *path, struct status_note *note) {
    bool whole = true;
    TRY(open_index(s, path, &whole, note));
    if (!whole) {
        char why[sizeof note->text], text[sizeof note->text + 96];
        snprintf(why, sizeof why, "%s", note->text);
        ses_index_close(s->index);
        s->index = NULL;
        TRY(ses_store_lay_aside(s, path, note));
        TRY(ses_store_index_open(s, path, note));
        TRY(ses_store_rebuild(s, NULL, note));
        TRY(open_index(s, path, &whole, note));
        snprintf(text, sizeof text, "%s: made anew from its segments, %llu pages", why,
                 (unsigned long long)s->counts.salvaged);
        if (s->config.say != NULL)
            s->config.say(s->config.say_self, text);
    }
    say_map(s);
    ses_store_beside(s, s, look_beside);
    return sort_found(s, note);
}

static enum status open_parts(struct ses_store *s, struct status_note *note) {
    const struct ses_store_config *c = &s->config;
    char path[PATH_BYTES];
    if (s->disk == NULL)
        TRY(ses_disk_open(&s->disk, note));
    if (ses_store_capacity(c) == 0)
        return status_say(note, STATUS_TOO_LARGE,
                          "a disk budget of %llu bytes for %s is too small: pages of this model "
                          "need at least %llu",
                          (unsigned long long)c->budget, c->folder,
                          (unsigned long long)(record_bytes(c) * (SEGMENTS_MIN + 1)));
    s->at = calloc(c->n_numbers, sizeof *s->at);
    s->erase = calloc((size_t)c->n_numbers + 1, sizeof *s->erase);
    s->mark = calloc((size_t)c->n_numbers + 1, sizeof *s->mark);
    void *headers = NULL;
    if (s->at == NULL || s->erase == NULL || s->mark == NULL ||
        posix_memalign(&headers, SES_DISK_BLOCK, SES_DISK_DEPTH * s->header_bytes) != 0)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u stored pages", c->n_numbers);
    s->headers = headers;
    for (uint32_t i = 0; i < SES_DISK_DEPTH; i++)
        s->op[i].header = s->headers + i * s->header_bytes;
    TRY(ses_store_loads_open(s, note));
    TRY(folder_make(c->folder, note));
    TRY(lock_take(s, note));
    enum status format = format_check(s, note);
    if (format != STATUS_OK)
        return refused(s, format);
    snprintf(path, sizeof path, "%s/format", c->folder);
    int probe = s->disk->ops->open(s->disk, path); /* says whether the page cache can be passed */
    if (probe >= 0)
        close(probe);
    snprintf(path, sizeof path, "%s/index", c->folder);
    return open_found(s, path, note);
}

enum status ses_store_open(const struct ses_store_config *config, struct ses_store **out,
                           struct status_note *note) {
    *out = NULL;
    CHECK(config->host_bytes % SES_DISK_BLOCK == 0 && config->page_bytes <= config->host_bytes);
    CHECK(config->page_tokens <= SES_INDEX_TOKENS_MAX);
    struct ses_store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session store");
    s->config = *config;
    s->disk = config->disk;
    if (strlen(config->folder) < sizeof s->folder)
        strcpy(s->folder, config->folder);
    s->config.folder = s->folder;
    if (config->root != NULL && strlen(config->root) < sizeof s->root)
        strcpy(s->root, config->root);
    s->config.root = s->root;
    snprintf(s->text, sizeof s->text, "%s", config->text != NULL ? config->text : "");
    s->config.text = s->text;
    s->lock = -1;
    s->header_bytes = header_bytes(config->page_tokens);
    s->blocks = (uint32_t)(record_bytes(config) / SES_DISK_BLOCK);
    struct ses_space space = ses_space_of(&config->key, 0);
    memcpy(s->own_key, space.key, sizeof s->own_key);
    enum status status = open_parts(s, note);
    if (status != STATUS_OK) {
        ses_store_close(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

void ses_store_close(struct ses_store *s) {
    if (s == NULL)
        return;
    if (s->files != NULL)
        ses_store_drain(s);
    found_free(&s->found, &s->n_found);
    found_free(&s->other, &s->n_other);
    free(s->by_name);
    ses_files_close(s->files);
    ses_index_close(s->index);
    if (s->lock >= 0)
        close(s->lock);
    free(s->headers);
    ses_store_loads_close(s);
    ses_store_others_close(s);
    free(s->fetched);
    free(s->mark);
    free(s->erase);
    free(s->at);
    if (s->disk != NULL)
        s->disk->ops->close(s->disk);
    free(s);
}

bool ses_store_direct(const struct ses_store *s) {
    return s->disk->direct;
}

const char *ses_store_disk_name(const struct ses_store *s) {
    return s->disk->name;
}
