/* SPDX-License-Identifier: Apache-2.0
 * Segment files and what is live in them.
 */
#include "sessions/space.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/check.h"

enum { PATH_BYTES = 4096 };

struct segment {
    uint64_t bytes; /* of the file; 0: there is none */
    uint64_t filled, live;
    int fd; /* -1: not open */
};

struct ses_space_files {
    struct ses_space_config config;
    char folder[PATH_BYTES - 64];
    struct segment *segment; /* [SES_SEGMENTS_MAX]; 0 is never used */
    uint32_t current;        /* being filled; 0: none */
    uint32_t last;           /* highest number ever used */
    uint32_t n;
    uint64_t bytes;
    /* When more was here at the start than the budget allows: what may be here while what lives is
     * moved together. */
    uint64_t most;
    bool new_names;
};

static void path_of(const struct ses_space_files *f, uint32_t segment, char *path) {
    snprintf(path, PATH_BYTES, "%s/segment-%05u", f->folder, segment);
}

/* What lies in the directory already, of whatever key space. */
static enum status look(struct ses_space_files *f, struct status_note *note) {
    DIR *folder = opendir(f->folder);
    if (folder == NULL)
        return status_say(note, STATUS_IO, "%s cannot be read: %s", f->folder, strerror(errno));
    const struct dirent *e;
    while ((e = readdir(folder)) != NULL) {
        unsigned n;
        char path[PATH_BYTES], rest;
        struct stat s;
        if (sscanf(e->d_name, "segment-%5u%c", &n, &rest) != 1 || n == 0 || n >= SES_SEGMENTS_MAX)
            continue;
        path_of(f, n, path);
        if (stat(path, &s) != 0)
            continue;
        f->segment[n].bytes = f->segment[n].filled = (uint64_t)s.st_size;
        if (s.st_size == 0)
            f->segment[n].bytes = SES_DISK_BLOCK; /* so that it is there, and removed */
        f->bytes += f->segment[n].bytes;
        f->n++;
        if (n > f->last)
            f->last = n;
    }
    closedir(folder);
    uint64_t largest = f->config.segment_bytes;
    for (uint32_t n = 1; n <= f->last; n++)
        largest = f->segment[n].bytes > largest ? f->segment[n].bytes : largest;
    if (f->bytes > f->config.budget)
        f->most = f->bytes + largest;
    return STATUS_OK;
}

enum status ses_files_open(const struct ses_space_config *config, struct ses_space_files **out,
                           struct status_note *note) {
    *out = NULL;
    struct ses_space_files *f = calloc(1, sizeof *f);
    if (f != NULL)
        f->segment = calloc(SES_SEGMENTS_MAX, sizeof *f->segment);
    if (f == NULL || f->segment == NULL) {
        free(f);
        return status_say(note, STATUS_NO_MEMORY, "no memory for the segments of a session store");
    }
    f->config = *config;
    snprintf(f->folder, sizeof f->folder, "%s", config->folder);
    for (uint32_t i = 0; i < SES_SEGMENTS_MAX; i++)
        f->segment[i].fd = -1;
    enum status s = look(f, note);
    if (s != STATUS_OK) {
        ses_files_close(f);
        return s;
    }
    *out = f;
    return STATUS_OK;
}

void ses_files_close(struct ses_space_files *f) {
    if (f == NULL)
        return;
    for (uint32_t i = 0; i < SES_SEGMENTS_MAX; i++)
        if (f->segment[i].fd >= 0)
            close(f->segment[i].fd);
    free(f->segment);
    free(f);
}

static struct segment *segment_of(struct ses_space_files *f, uint32_t n) {
    CHECK(n > 0 && n < SES_SEGMENTS_MAX && f->segment[n].bytes > 0);
    return &f->segment[n];
}

bool ses_files_found(struct ses_space_files *f, const struct ses_where *where) {
    uint64_t bytes = (uint64_t)where->blocks * SES_DISK_BLOCK;
    if (where->segment == 0 || where->segment >= SES_SEGMENTS_MAX || bytes == 0)
        return false;
    struct segment *s = &f->segment[where->segment];
    if (s->bytes < bytes || where->offset > s->bytes - bytes)
        return false;
    s->live += bytes;
    return true;
}

static void remove_segment(struct ses_space_files *f, uint32_t n) {
    struct segment *s = &f->segment[n];
    char path[PATH_BYTES];
    path_of(f, n, path);
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    if (f->config.disk->ops->remove(f->config.disk, path) < 0)
        return; /* it stays, and counts; the next start tries again */
    f->bytes -= s->bytes;
    f->n--;
    *s = (struct segment){.fd = -1};
}

void ses_files_remove_empty(struct ses_space_files *f) {
    for (uint32_t n = 1; n <= f->last; n++)
        if (f->segment[n].bytes > 0 && f->segment[n].live == 0 && n != f->current)
            remove_segment(f, n);
}

static bool has_room(const struct ses_space_files *f, uint64_t bytes) {
    const struct segment *s = &f->segment[f->current];
    return f->current != 0 && s->filled + bytes <= s->bytes;
}

/* May another segment be begun? */
static bool may_grow(const struct ses_space_files *f, bool compacting) {
    uint64_t kept = compacting ? 0 : f->config.segment_bytes;
    return f->bytes + f->config.segment_bytes + kept <= f->config.budget;
}

/* The file system has room for another segment above the floor; *space: what it has. */
static int ask_space(const struct ses_space_files *f, uint64_t *space, bool *enough) {
    uint64_t bytes = f->config.segment_bytes;
    int error = f->config.disk->ops->space(f->config.disk, f->folder, space);
    *enough = error != 0 || (*space >= bytes && *space - bytes >= f->config.floor);
    return error;
}

/* More is here than the budget allows, but less lives than that: it is moved together, and for one
 * segment of them at a time there is more than there was. */
static bool may_shrink(const struct ses_space_files *f) {
    uint64_t live = 0, segment = f->config.segment_bytes, space = 0;
    bool enough = false;
    for (uint32_t n = 1; n <= f->last; n++)
        live += f->segment[n].live;
    return f->bytes + segment <= f->most && live + 2 * segment <= f->config.budget &&
           ask_space(f, &space, &enough) == 0 && enough;
}

static uint32_t free_number(const struct ses_space_files *f) {
    if (f->last + 1 < SES_SEGMENTS_MAX)
        return f->last + 1;
    uint32_t n = 1;
    while (n < SES_SEGMENTS_MAX && f->segment[n].bytes > 0)
        n++;
    return n;
}

static enum status grow(struct ses_space_files *f, bool compacting, struct status_note *note) {
    struct ses_disk *d = f->config.disk;
    uint64_t space = 0, bytes = f->config.segment_bytes;
    if (!may_grow(f, compacting) && !(compacting && may_shrink(f)))
        return status_say(note, STATUS_TOO_LARGE,
                          "the session store in %s is full: %llu bytes of a budget of %llu",
                          f->folder, (unsigned long long)f->bytes,
                          (unsigned long long)f->config.budget);
    bool enough;
    int error = ask_space(f, &space, &enough);
    if (!enough)
        return status_say(
            note, STATUS_TOO_LARGE,
            "the file system of %s has %llu bytes free; another segment of %llu would "
            "leave less than the floor of %llu",
            f->folder, (unsigned long long)space, (unsigned long long)bytes,
            (unsigned long long)f->config.floor);
    uint32_t n = free_number(f);
    char path[PATH_BYTES];
    path_of(f, n, path);
    int fd = error < 0 ? error : n == SES_SEGMENTS_MAX ? -ENFILE : d->ops->create(d, path, bytes);
    if (fd < 0)
        return status_say(note, STATUS_IO, "%s cannot be created: %s", path, strerror(-fd));
    f->segment[n] = (struct segment){.bytes = bytes, .fd = fd};
    f->bytes += bytes;
    f->n++;
    f->current = n;
    f->last = n > f->last ? n : f->last;
    f->new_names = true;
    return STATUS_OK;
}

enum status ses_files_take(struct ses_space_files *f, uint32_t blocks, bool compacting,
                           struct ses_where *where, struct status_note *note) {
    uint64_t bytes = (uint64_t)blocks * SES_DISK_BLOCK;
    CHECK(bytes > 0);
    if (bytes > f->config.segment_bytes) /* of another key, stored with another budget */
        return status_say(note, STATUS_TOO_LARGE, "a record of %llu bytes; segments have %llu",
                          (unsigned long long)bytes, (unsigned long long)f->config.segment_bytes);
    if (!has_room(f, bytes))
        TRY(grow(f, compacting, note));
    struct segment *s = segment_of(f, f->current);
    *where = (struct ses_where){.segment = f->current, .blocks = blocks, .offset = s->filled};
    s->filled += bytes;
    s->live += bytes;
    return STATUS_OK;
}

void ses_files_drop(struct ses_space_files *f, const struct ses_where *where) {
    struct segment *s = segment_of(f, where->segment);
    uint64_t bytes = (uint64_t)where->blocks * SES_DISK_BLOCK;
    CHECK(s->live >= bytes);
    s->live -= bytes;
}

uint32_t ses_files_next(const struct ses_space_files *f, uint32_t segment, uint64_t *bytes) {
    for (uint32_t n = segment + 1; n <= f->last; n++)
        if (f->segment[n].bytes > 0) {
            *bytes = f->segment[n].filled;
            return n;
        }
    return 0;
}

int ses_files_fd(struct ses_space_files *f, uint32_t segment) {
    struct segment *s = segment_of(f, segment);
    if (s->fd < 0) {
        char path[PATH_BYTES];
        path_of(f, segment, path);
        int fd = f->config.disk->ops->open(f->config.disk, path);
        if (fd < 0)
            return fd;
        s->fd = fd;
    }
    return s->fd;
}

enum status ses_files_sync_names(struct ses_space_files *f, struct status_note *note) {
    if (!f->new_names)
        return STATUS_OK;
    int error = f->config.disk->ops->sync_folder(f->config.disk, f->folder);
    if (error < 0)
        return status_say(note, STATUS_IO, "%s cannot be synced: %s", f->folder, strerror(-error));
    f->new_names = false;
    return STATUS_OK;
}

uint32_t ses_files_victim(const struct ses_space_files *f, uint64_t gain) {
    uint32_t best = 0;
    for (uint32_t n = 1; n <= f->last; n++) {
        const struct segment *s = &f->segment[n];
        if (s->bytes == 0 || n == f->current || s->live == 0 || s->live + gain > s->bytes)
            continue;
        if (best == 0 || s->live < f->segment[best].live)
            best = n;
    }
    return best;
}

bool ses_files_over(const struct ses_space_files *f) {
    return !may_grow(f, true);
}

bool ses_files_excess(const struct ses_space_files *f) {
    return f->bytes > f->config.budget;
}

bool ses_files_fits(const struct ses_space_files *f, uint32_t blocks) {
    uint64_t bytes = (uint64_t)blocks * SES_DISK_BLOCK;
    return bytes <= f->config.segment_bytes &&
           (has_room(f, bytes) || may_grow(f, true) || may_shrink(f));
}

bool ses_files_tight(const struct ses_space_files *f, uint64_t bytes) {
    return f->bytes > f->config.budget || (!has_room(f, bytes) && !may_grow(f, false));
}

uint64_t ses_files_bytes(const struct ses_space_files *f) {
    return f->bytes;
}
