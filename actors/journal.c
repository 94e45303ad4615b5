/* SPDX-License-Identifier: Apache-2.0
 * The journal's writer and reader. The reader slides a window over the file; what ends the file
 * early is told apart from damage by looking for a sound record further on.
 */
#include "actors/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "actors/check.h"

enum {
    JOURNAL_FRONT = 16, /* of a record, before its payload */
    JOURNAL_CHECK = 8,
    JOURNAL_FRAME = JOURNAL_FRONT + JOURNAL_CHECK,
    JOURNAL_WINDOW = 2 * (JOURNAL_RECORD_MAX + 64),
    JOURNAL_SEARCH_HASHED = 64 << 20 /* bytes that the look for a sound record may hash */
};

static const char journal_magic[8] = {'R', 'H', 'J', 'O', 'U', 'R', 'N', '1'};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "records are written as they lie in memory");

struct journal_front {
    uint32_t bytes;
    uint16_t kind, flags;
    uint64_t time_ns;
};
_Static_assert(sizeof(struct journal_front) == JOURNAL_FRONT, "on-disk layout");

struct journal_header {
    char magic[8];
    uint32_t version, zero;
    uint64_t created_ns, check;
};
_Static_assert(sizeof(struct journal_header) == JOURNAL_HEADER_BYTES, "on-disk layout");

static size_t journal_padded(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static uint64_t journal_header_check(const struct journal_header *h) {
    return XXH3_64bits(h, offsetof(struct journal_header, check));
}

/* ---- reading ---- */

struct journal_reader {
    int fd;
    uint64_t size;     /* of the file when it was opened */
    uint64_t at;       /* of the next record */
    uint64_t begin, n; /* the window: file offset and bytes */
    uint64_t torn;
    bool bad;
    struct status_note note; /* of the damage */
    _Alignas(8) unsigned char window[JOURNAL_WINDOW];
};

/* Bytes of [offset, offset + bytes) at *out; fewer at the file's end. False when reading failed. */
static bool reader_load(struct journal_reader *r, uint64_t offset, uint64_t bytes,
                        const unsigned char **out, uint64_t *have) {
    uint64_t left = offset < r->size ? r->size - offset : 0;
    bytes = bytes < left ? bytes : left;
    CHECK(bytes <= JOURNAL_WINDOW);
    if (offset < r->begin || offset + bytes > r->begin + r->n) {
        uint64_t want = left < JOURNAL_WINDOW ? left : JOURNAL_WINDOW;
        r->begin = offset;
        r->n = 0;
        while (r->n < want) {
            ssize_t got = pread(r->fd, r->window + r->n, want - r->n, (off_t)(r->begin + r->n));
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return false;
            if (got == 0)
                break;
            r->n += (uint64_t)got;
        }
    }
    uint64_t in_window = r->begin + r->n - offset;
    *out = r->window + (offset - r->begin);
    *have = bytes < in_window ? bytes : in_window;
    return true;
}

enum reader_parse { READER_GOOD, READER_END, READER_SHORT, READER_WRONG, READER_FAILED };

/* What lies at offset. hashed counts the work. */
static enum reader_parse reader_parse(struct journal_reader *r, uint64_t offset,
                                      struct journal_record *out, uint64_t *hashed) {
    const unsigned char *p;
    uint64_t have;
    struct journal_front front;
    if (!reader_load(r, offset, JOURNAL_FRONT, &p, &have))
        return READER_FAILED;
    if (have == 0)
        return READER_END;
    if (have < JOURNAL_FRONT)
        return READER_SHORT;
    memcpy(&front, p, sizeof front);
    if (front.bytes > JOURNAL_RECORD_MAX)
        return READER_WRONG;
    uint64_t body = JOURNAL_FRONT + journal_padded(front.bytes);
    if (!reader_load(r, offset, body + JOURNAL_CHECK, &p, &have))
        return READER_FAILED;
    if (have < body + JOURNAL_CHECK)
        return READER_SHORT;
    uint64_t check;
    memcpy(&check, p + body, sizeof check);
    *hashed += body;
    if (check != XXH3_64bits_withSeed(p, body, offset))
        return READER_WRONG;
    *out = (struct journal_record){.offset = offset,
                                   .time_ns = front.time_ns,
                                   .payload = p + JOURNAL_FRONT,
                                   .bytes = front.bytes,
                                   .kind = front.kind,
                                   .flags = front.flags};
    return READER_GOOD;
}

/* Whether a sound record follows somewhere: then what is wrong here is damage, not a torn end. */
static bool reader_more_follows(struct journal_reader *r, uint64_t offset) {
    struct journal_record record;
    uint64_t hashed = 0;
    for (uint64_t at = offset + 8; at + JOURNAL_FRAME <= r->size; at += 8) {
        if (hashed > JOURNAL_SEARCH_HASHED)
            return true; /* so much that looks like records is not one torn record */
        if (reader_parse(r, at, &record, &hashed) == READER_GOOD)
            return true;
    }
    return false;
}

enum status journal_read_open(const char *path, struct journal_reader **out,
                              struct status_note *note) {
    struct journal_reader *r = malloc(sizeof *r);
    *out = NULL;
    if (r == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for reading", path);
    memset(r, 0, offsetof(struct journal_reader, window));
    enum status s = STATUS_OK;
    struct stat st;
    struct journal_header header = {.version = 0};
    const unsigned char *p;
    uint64_t have = 0;
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) {
        s = status_say(note, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path,
                       strerror(errno));
        goto out;
    }
    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        s = status_say(note, STATUS_BAD_FILE, "%s: not a regular file", path);
        goto out;
    }
    r->size = (uint64_t)st.st_size;
    if (!reader_load(r, 0, sizeof header, &p, &have)) {
        s = status_say(note, STATUS_IO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (have == sizeof header)
        memcpy(&header, p, sizeof header);
    if (have < sizeof header || memcmp(header.magic, journal_magic, sizeof journal_magic) != 0)
        s = status_say(note, STATUS_BAD_FILE, "%s: not a journal", path);
    else if (header.check != journal_header_check(&header))
        s = status_say(note, STATUS_BAD_FILE, "%s: the journal's header is damaged", path);
    else if (header.version != JOURNAL_VERSION)
        s = status_say(note, STATUS_BAD_FILE, "%s: journal version %u, this build reads %d", path,
                       header.version, JOURNAL_VERSION);
    r->at = sizeof header;
out:
    if (s != STATUS_OK) {
        journal_read_close(r);
        r = NULL;
    }
    *out = r;
    return s;
}

enum status journal_read_next(struct journal_reader *r, struct journal_record *out,
                              struct status_note *note) {
    uint64_t hashed = 0;
    if (!r->bad) {
        enum reader_parse parsed = reader_parse(r, r->at, out, &hashed);
        if (parsed == READER_GOOD) {
            r->at += JOURNAL_FRAME + journal_padded(out->bytes);
            return STATUS_OK;
        }
        if (parsed == READER_FAILED)
            return status_say(note, STATUS_IO, "journal: reading at offset %llu: %s",
                              (unsigned long long)r->at, strerror(errno));
        if (parsed == READER_END)
            return status_say(note, STATUS_NOT_FOUND, "journal: the end");
        if (!reader_more_follows(r, r->at)) {
            r->torn = r->size - r->at;
            return status_say(note, STATUS_NOT_FOUND,
                              "journal: the end, %llu bytes of an unfinished record left out",
                              (unsigned long long)r->torn);
        }
        r->bad = true;
        status_say(&r->note, STATUS_BAD_FILE, "journal: the record at offset %llu is damaged",
                   (unsigned long long)r->at);
    }
    return status_say(note, STATUS_BAD_FILE, "%s", r->note.text);
}

uint64_t journal_read_torn(const struct journal_reader *r) {
    return r->torn;
}

void journal_read_close(struct journal_reader *r) {
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

/* ---- writing ---- */

struct journal {
    int fd;
    uint64_t offset; /* bytes in the file that are whole records */
    size_t used, max;
    uint64_t buffered; /* records */
    uint64_t lost;
    bool gap; /* to be said in the file */
    unsigned char *buffer;
};

static bool journal_write(int fd, const void *data, size_t bytes, uint64_t offset) {
    const unsigned char *p = data;
    while (bytes > 0) {
        ssize_t n = pwrite(fd, p, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

/* The end of the whole records of an existing journal. */
static enum status journal_find_end(const char *path, uint64_t *end, struct status_note *note) {
    struct journal_reader *r;
    struct journal_record record;
    enum status s = journal_read_open(path, &r, note);
    if (s != STATUS_OK || r == NULL)
        return s;
    while ((s = journal_read_next(r, &record, note)) == STATUS_OK)
        ;
    *end = r->at;
    journal_read_close(r);
    return s == STATUS_NOT_FOUND ? STATUS_OK : s;
}

static enum status journal_begin(struct journal *j, const char *path, uint64_t now_ns,
                                 struct status_note *note) {
    struct stat st;
    j->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->fd < 0 || fstat(j->fd, &st) != 0)
        return status_say(note, STATUS_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return status_say(note, STATUS_BAD_FILE, "%s: not a regular file", path);
    if (st.st_size > 0) {
        TRY(journal_find_end(path, &j->offset, note));
        if (ftruncate(j->fd, (off_t)j->offset) != 0)
            return status_say(note, STATUS_IO, "%s: %s", path, strerror(errno));
        return STATUS_OK;
    }
    struct journal_header header = {.version = JOURNAL_VERSION, .created_ns = now_ns};
    memcpy(header.magic, journal_magic, sizeof header.magic);
    header.check = journal_header_check(&header);
    if (!journal_write(j->fd, &header, sizeof header, 0))
        return status_say(note, STATUS_IO, "%s: %s", path, strerror(errno));
    j->offset = sizeof header;
    return STATUS_OK;
}

enum status journal_open(const char *path, size_t buffer_bytes, uint64_t now_ns,
                         struct journal **out, struct status_note *note) {
    *out = NULL;
    if (buffer_bytes < 4 * JOURNAL_FRAME)
        return status_say(note, STATUS_BAD_REQUEST, "%s: a buffer of %zu bytes is too small", path,
                          buffer_bytes);
    struct journal *j = calloc(1, sizeof *j);
    if (j == NULL || (j->buffer = malloc(buffer_bytes)) == NULL) {
        free(j);
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for a buffer of %zu bytes", path,
                          buffer_bytes);
    }
    j->max = buffer_bytes;
    enum status s = journal_begin(j, path, now_ns, note);
    if (s != STATUS_OK) {
        if (j->fd >= 0)
            close(j->fd);
        free(j->buffer);
        free(j);
        return s;
    }
    *out = j;
    return STATUS_OK;
}

/* The buffer has room. */
static void journal_put(struct journal *j, const struct journal_front *front, const void *payload) {
    size_t padded = journal_padded(front->bytes);
    unsigned char *p = j->buffer + j->used;
    memcpy(p, front, JOURNAL_FRONT);
    if (front->bytes > 0)
        memcpy(p + JOURNAL_FRONT, payload, front->bytes);
    memset(p + JOURNAL_FRONT + front->bytes, 0, padded - front->bytes);
    uint64_t check = XXH3_64bits_withSeed(p, JOURNAL_FRONT + padded, j->offset + j->used);
    memcpy(p + JOURNAL_FRONT + padded, &check, sizeof check);
    j->used += JOURNAL_FRAME + padded;
    j->buffered++;
}

enum status journal_append(struct journal *j, uint16_t kind, uint16_t flags, uint64_t time_ns,
                           const void *payload, size_t bytes) {
    size_t gap = JOURNAL_FRAME + sizeof j->lost;
    if (bytes > JOURNAL_RECORD_MAX || JOURNAL_FRAME + journal_padded(bytes) + gap > j->max)
        return STATUS_TOO_LARGE;
    enum status s = STATUS_OK;
    if (j->used + JOURNAL_FRAME + journal_padded(bytes) + gap > j->max)
        s = journal_flush(j);
    if (j->gap) {
        struct journal_front front = {sizeof j->lost, JOURNAL_KIND_gap, 0, time_ns};
        journal_put(j, &front, &j->lost);
        j->buffered--; /* not one of the caller's */
        j->gap = false;
    }
    struct journal_front front = {(uint32_t)bytes, kind, flags, time_ns};
    journal_put(j, &front, payload);
    return s;
}

enum status journal_flush(struct journal *j) {
    if (j->used == 0)
        return STATUS_OK;
    size_t used = j->used;
    uint64_t records = j->buffered;
    j->used = 0;
    j->buffered = 0;
    if (journal_write(j->fd, j->buffer, used, j->offset)) {
        j->offset += used;
        return STATUS_OK;
    }
    /* Half a record may stand there now; the next write begins at the same place. When cutting it
     * off fails as well, a reader takes it for a torn end. */
    if (ftruncate(j->fd, (off_t)j->offset) != 0)
        errno = 0;
    j->lost += records;
    j->gap = true;
    return STATUS_IO;
}

enum status journal_sync(struct journal *j) {
    TRY(journal_flush(j));
    return fdatasync(j->fd) == 0 ? STATUS_OK : STATUS_IO;
}

uint64_t journal_lost(const struct journal *j) {
    return j->lost;
}

uint64_t journal_bytes(const struct journal *j) {
    return j->offset + j->used;
}

void journal_close(struct journal *j) {
    if (j == NULL)
        return;
    (void)journal_flush(j);
    close(j->fd);
    free(j->buffer);
    free(j);
}
