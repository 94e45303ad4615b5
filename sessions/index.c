/* SPDX-License-Identifier: Apache-2.0
 * Entries as bytes, and transactions.
 */
#include "sessions/index.h"

#include <errno.h>
#include <lmdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/guard.h"

enum {
    PATH_BYTES = 4096,
    /* Beside the library's errors, below them all. */
    INDEX_CUT = -50000,     /* the mapped file ended before it should */
    INDEX_NO_MAP = -50002,  /* no address space for it */
    INDEX_CHANGED = -50001, /* somebody else wrote to it, or it is not there any more */
    STAMP_NS = 7,
    CHANGES_KEPT = 8192 /* the library keeps so many in memory until the commit */
};

/* A file as it was left: whoever else writes to it changes that. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
};

struct ses_index {
    MDB_env *env; /* NULL: closed, or left where it was */
    MDB_dbi pages, spaces;
    MDB_txn *txn; /* changes that wait for commit */
    uint32_t changes;
    uint64_t map; /* bytes; 0: it was given up to grow, and the larger one was not to be had */
    bool read_only, broken, left;
    char data[PATH_BYTES], lock[PATH_BYTES];
    struct stamp data_stamp, lock_stamp;
};

/* On disk, in the order of memory of the machines that we run on (little-endian). */
struct index_key {
    uint64_t space[2];
    unsigned char depth[4]; /* big-endian, to sort by it */
    unsigned char name[16];
    unsigned char zero[4];
};
struct index_value {
    struct ses_where where;
    uint64_t tenant, name[2], parent[2], use;
    uint32_t depth, n_tokens, flags;
    uint32_t sum; /* of key, value and tokens with this field zero */
};
_Static_assert(sizeof(struct index_key) == 40, "on-disk layout");
_Static_assert(sizeof(struct index_value) == 96, "on-disk layout");

static bool is_fatal(int error) {
    return error == MDB_CORRUPTED || error == MDB_INVALID || error == MDB_VERSION_MISMATCH ||
           error == MDB_PAGE_NOTFOUND || error == MDB_PANIC || error == INDEX_CUT ||
           error == INDEX_CHANGED;
}

static enum status index_fail(struct status_note *note, int error, const char *what) {
    if (error == MDB_MAP_FULL || error == MDB_MAP_RESIZED)
        return status_say(note, STATUS_NO_MEMORY,
                          "the session index cannot %s: it needs more address space than this "
                          "process may have: raise its limit (ulimit -v)",
                          what);
    const char *why = error == INDEX_CUT       ? "its file was cut while it was in use"
                      : error == INDEX_CHANGED ? "its file was changed or removed by somebody else"
                                               : mdb_strerror(error);
    enum status s = error == ENOMEM   ? STATUS_NO_MEMORY
                    : is_fatal(error) ? STATUS_BAD_FILE
                                      : STATUS_IO;
    return status_say(note, s, "the session index cannot %s: %s", what, why);
}

/* ---- the file below ---- */

static struct stamp stamp_of(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0)
        return (struct stamp){.bytes = -1};
    return (struct stamp){s.st_dev, s.st_ino, s.st_size, s.st_mtim};
}

static bool same_file(const struct stamp *a, const struct stamp *b) {
    return a->device == b->device && a->inode == b->inode;
}

/* The file's time gets odd nanoseconds, which the coarse clock of file systems hardly gives: so
 * what somebody else writes within the same tick shows too. */
static void stamp_take(struct ses_index *x) {
    int fd = -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    if (!x->read_only && mdb_env_get_fd(x->env, &fd) == 0 &&
        clock_gettime(CLOCK_REALTIME, &times[1]) == 0) {
        times[1].tv_nsec = STAMP_NS;
        (void)futimens(fd, times); /* where it cannot be set, the tick has to do */
    }
    x->data_stamp = stamp_of(x->data);
    x->lock_stamp = stamp_of(x->lock);
}

/* Is the file as this index left it? The library would not notice, and go where it says. */
static bool stamp_holds(const struct ses_index *x) {
    struct stamp data = stamp_of(x->data), lock = stamp_of(x->lock);
    return same_file(&data, &x->data_stamp) && data.bytes == x->data_stamp.bytes &&
           data.modified.tv_sec == x->data_stamp.modified.tv_sec &&
           data.modified.tv_nsec == x->data_stamp.modified.tv_nsec &&
           same_file(&lock, &x->lock_stamp) && lock.bytes >= x->lock_stamp.bytes;
}

/* All calls of the library go through here. An environment that was left inside one is not touched
 * again, for it may hold its lock; nor is its memory given back. */
static int guarded(struct ses_index *x, int (*work)(void *self), void *self) {
    int error = 0;
    if (!ses_guard_run(work, self, &error)) {
        x->env = NULL;
        x->txn = NULL;
        x->left = true;
        ses_guard_leave_locks();
        error = INDEX_CUT;
    }
    x->broken = x->broken || is_fatal(error);
    return error;
}

static int index_call(struct ses_index *x, int (*work)(void *self), void *self) {
    if (x->env == NULL)
        return x->left ? INDEX_CUT : INDEX_CHANGED;
    return guarded(x, work, self);
}

static void on_assertion(MDB_env *env, const char *what) {
    (void)env;
    (void)what;
    ses_guard_leave();
}

bool ses_index_usable(struct ses_index *x) {
    x->broken = x->broken || x->env == NULL || (!x->read_only && !stamp_holds(x));
    return !x->broken;
}

bool ses_index_was_left(const struct ses_index *x) {
    return x->left;
}

/* ---- the map ---- */

enum { MAP_LEAST = 1 << 20, NODE_BYTES = 10 /* of a page of the tree, beside key and value */ };

uint64_t ses_index_need(uint64_t n_records, uint32_t page_tokens) {
    uint64_t each = sizeof(struct index_key) + sizeof(struct index_value) + NODE_BYTES +
                    page_tokens * sizeof(uint32_t);
    /* Pages of the tree are at least half full; changes are copies, and free pages come later. */
    uint64_t need = MAP_LEAST;
    while (need < SES_INDEX_MAP_BYTES && need / 4 / each < n_records)
        need *= 2;
    return need;
}

static int env_open(struct ses_index *x, uint64_t map) {
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", x->data);
    *strrchr(folder, '/') = '\0';
    int error = mdb_env_create(&x->env);
    if (error == 0)
        error = mdb_env_set_assert(x->env, on_assertion);
    if (error == 0)
        error = mdb_env_set_maxdbs(x->env, 4);
    if (error == 0)
        error = mdb_env_set_mapsize(x->env, map);
    if (error == 0)
        error = mdb_env_open(x->env, folder, MDB_NOTLS | (x->read_only ? MDB_RDONLY : 0), 0600);
    if (error != 0) {
        mdb_env_close(x->env);
        x->env = NULL;
    }
    return error;
}

/* Without changes under way: a map of twice the size, if the address space has so much beside the
 * one that there is, which goes before the other comes. */
static void map_double(struct ses_index *x) {
    uint64_t size = x->map * 2;
    if (size > SES_INDEX_MAP_BYTES)
        return;
    void *room = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return;
    munmap(room, size);
    x->map = mdb_env_set_mapsize(x->env, size) == 0 ? size : 0;
}

/* Changes of one commit fill less than half of a map. */
static int txn_begin(struct ses_index *x, unsigned flags, MDB_txn **txn) {
    MDB_envinfo info;
    MDB_stat stat;
    if (x->map > 0 && flags == 0 && mdb_env_info(x->env, &info) == 0 &&
        mdb_env_stat(x->env, &stat) == 0 && (info.me_last_pgno + 1) * stat.ms_psize > x->map / 2)
        map_double(x);
    return x->map > 0 ? mdb_txn_begin(x->env, NULL, flags, txn) : ENOMEM;
}

uint64_t ses_index_map(const struct ses_index *x) {
    return x->map;
}

/* ---- open and close ---- */

struct open_call {
    struct ses_index *x;
    uint64_t need;
};

static int open_work(void *self) {
    struct open_call *c = self;
    struct ses_index *x = c->x;
    MDB_envinfo info;
    unsigned create = x->read_only ? 0 : MDB_CREATE;
    x->map = SES_INDEX_MAP_BYTES;
    int error = env_open(x, x->map);
    if (error == ENOMEM) {
        x->map = c->need > MAP_LEAST ? c->need : MAP_LEAST;
        error = env_open(x, x->map);
    }
    if (error == ENOMEM)
        return INDEX_NO_MAP;
    if (error == 0)
        error = mdb_env_info(x->env, &info);
    if (error == 0)
        x->map = info.me_mapsize; /* at least what the file needs */
    if (error == 0)
        error = txn_begin(x, x->read_only ? MDB_RDONLY : 0, &x->txn);
    if (error == 0)
        error = mdb_dbi_open(x->txn, "pages", create, &x->pages);
    if (error == 0)
        error = mdb_dbi_open(x->txn, "spaces", create, &x->spaces);
    if (error == 0) {
        error = mdb_txn_commit(x->txn);
        x->txn = NULL;
    }
    return error;
}

enum status ses_index_open(const char *path, bool read_only, uint64_t need, struct ses_index **out,
                           struct status_note *note) {
    *out = NULL;
    struct ses_index *x = calloc(1, sizeof *x);
    struct open_call c = {x, need};
    if (x == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session index");
    x->read_only = read_only;
    int n = snprintf(x->data, sizeof x->data, "%s/data.mdb", path),
        m = snprintf(x->lock, sizeof x->lock, "%s/lock.mdb", path);
    int error = n < (int)sizeof x->data && m < (int)sizeof x->lock ? 0 : ENAMETOOLONG;
    if (!read_only)
        mkdir(path, 0700); /* what is wrong with it is said by the open */
    if (error == 0)
        error = guarded(x, open_work, &c);
    uint64_t map = x->map;
    if (error == 0)
        stamp_take(x);
    else
        ses_index_close(x);
    if (error == INDEX_NO_MAP)
        return status_say(
            note, STATUS_NO_MEMORY,
            "the session index %s needs %llu MiB of address space, which this process may "
            "not have: raise its limit (ulimit -v) or lower the budget of the disk",
            path, (unsigned long long)(map >> 20));
    if (error != 0)
        return index_fail(note, error, "be opened");
    *out = x;
    return STATUS_OK;
}

static int close_work(void *self) {
    struct ses_index *x = self;
    mdb_env_close(x->env);
    return 0;
}

void ses_index_let_go(struct ses_index *x) {
    ses_index_abort(x);
    if (x->env != NULL)
        (void)index_call(x, close_work, x);
    x->env = NULL;
    x->broken = true;
}

void ses_index_close(struct ses_index *x) {
    if (x == NULL)
        return;
    ses_index_let_go(x);
    free(x);
}

struct bytes_call {
    const struct ses_index *x;
    uint64_t bytes;
};

static int bytes_work(void *self) {
    struct bytes_call *c = self;
    MDB_envinfo info;
    MDB_stat stat;
    int error = c->x->map > 0 ? mdb_env_info(c->x->env, &info) : ENOMEM;
    if (error == 0)
        error = mdb_env_stat(c->x->env, &stat);
    if (error == 0)
        c->bytes = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
    return error;
}

uint64_t ses_index_bytes(struct ses_index *x) {
    struct bytes_call c = {.x = x};
    (void)index_call(x, bytes_work, &c);
    return c.bytes;
}

/* ---- changes ---- */

static int begin_work(void *self) {
    struct ses_index *x = self;
    x->changes = 0;
    return txn_begin(x, 0, &x->txn);
}

static int index_begin(struct ses_index *x) {
    if (x->txn != NULL)
        return 0;
    if (x->env != NULL && !ses_index_usable(x))
        return INDEX_CHANGED;
    return index_call(x, begin_work, x);
}

static struct index_key key_of(const struct ses_record *r) {
    struct index_key k = {.space = {r->space.key[0], r->space.key[1]}};
    for (int i = 0; i < 4; i++)
        k.depth[i] = (unsigned char)(r->depth >> (24 - 8 * i));
    memcpy(k.name, r->name.word, sizeof k.name);
    return k;
}

static uint32_t entry_sum(const struct index_key *k, struct index_value v, const uint32_t *tokens) {
    v.sum = 0;
    uint64_t part[3] = {XXH3_64bits(k, sizeof *k), XXH3_64bits(&v, sizeof v),
                        XXH3_64bits(tokens, v.n_tokens * sizeof *tokens)};
    return (uint32_t)XXH3_64bits(part, sizeof part);
}

struct change {
    struct ses_index *x;
    struct index_key key;
    unsigned char *bytes;
    size_t n;
    const struct ses_record *record; /* mark, remove */
    const struct ses_where *where;
    uint32_t flags;
};

static int change_make(struct change *c, int (*work)(void *self)) {
    int error = index_begin(c->x);
    c->x->changes++;
    return error != 0 ? error : index_call(c->x, work, c);
}

static int put_work(void *self) {
    struct change *c = self;
    MDB_val key = {sizeof c->key, &c->key}, value = {c->n, c->bytes};
    return mdb_put(c->x->txn, c->x->pages, &key, &value, 0);
}

enum status ses_index_put(struct ses_index *x, const struct ses_record *r,
                          const struct ses_where *where, uint32_t flags, struct status_note *note) {
    unsigned char bytes[sizeof(struct index_value) + SES_INDEX_TOKENS_MAX * sizeof(uint32_t)];
    CHECK(r->n_tokens <= SES_INDEX_TOKENS_MAX);
    struct change c = {.x = x,
                       .key = key_of(r),
                       .bytes = bytes,
                       .n = sizeof(struct index_value) + r->n_tokens * sizeof *r->tokens};
    struct index_value v = {.where = *where,
                            .tenant = r->space.tenant,
                            .name = {r->name.word[0], r->name.word[1]},
                            .parent = {r->parent.word[0], r->parent.word[1]},
                            .use = r->use,
                            .depth = r->depth,
                            .n_tokens = r->n_tokens,
                            .flags = flags};
    v.sum = entry_sum(&c.key, v, r->tokens);
    memcpy(bytes, &v, sizeof v);
    memcpy(bytes + sizeof v, r->tokens, r->n_tokens * sizeof *r->tokens);
    int error = change_make(&c, put_work);
    return error == 0 ? STATUS_OK : index_fail(note, error, "take a record");
}

static int mark_work(void *self) {
    struct change *c = self;
    unsigned char bytes[sizeof(struct index_value) + SES_INDEX_TOKENS_MAX * sizeof(uint32_t)];
    uint32_t tokens[SES_INDEX_TOKENS_MAX];
    struct index_value v;
    MDB_val key = {sizeof c->key, &c->key}, value;
    int error = mdb_get(c->x->txn, c->x->pages, &key, &value);
    if (error != 0)
        return error == MDB_NOTFOUND ? 0 : error;
    if (value.mv_size < sizeof v || value.mv_size > sizeof bytes)
        return MDB_CORRUPTED;
    memcpy(bytes, value.mv_data, value.mv_size);
    memcpy(&v, bytes, sizeof v);
    if (v.where.segment != c->where->segment || v.where.offset != c->where->offset)
        return 0;
    if (value.mv_size != sizeof v + v.n_tokens * sizeof(uint32_t))
        return MDB_CORRUPTED;
    memcpy(tokens, bytes + sizeof v, v.n_tokens * sizeof *tokens);
    v.use = c->record->use;
    v.flags = c->flags;
    v.sum = entry_sum(&c->key, v, tokens);
    memcpy(bytes, &v, sizeof v);
    value.mv_data = bytes;
    return mdb_put(c->x->txn, c->x->pages, &key, &value, 0);
}

enum status ses_index_mark(struct ses_index *x, const struct ses_record *r,
                           const struct ses_where *where, uint32_t flags,
                           struct status_note *note) {
    struct change c = {.x = x, .key = key_of(r), .record = r, .where = where, .flags = flags};
    int error = change_make(&c, mark_work);
    return error == 0 ? STATUS_OK : index_fail(note, error, "mark a record");
}

static int remove_work(void *self) {
    struct change *c = self;
    struct index_value v = {.depth = 0};
    MDB_val key = {sizeof c->key, &c->key}, value;
    int error = mdb_get(c->x->txn, c->x->pages, &key, &value);
    /* The same tokens may have been stored again meanwhile, elsewhere. */
    if (error == 0 && c->where != NULL && value.mv_size >= sizeof v)
        memcpy(&v, value.mv_data, sizeof v);
    if (error == 0 && (c->where == NULL || (v.where.segment == c->where->segment &&
                                            v.where.offset == c->where->offset)))
        error = mdb_del(c->x->txn, c->x->pages, &key, NULL);
    return error == MDB_NOTFOUND ? 0 : error;
}

enum status ses_index_remove(struct ses_index *x, const struct ses_record *r,
                             const struct ses_where *where, struct status_note *note) {
    struct change c = {.x = x, .key = key_of(r), .where = where};
    int error = change_make(&c, remove_work);
    return error == 0 ? STATUS_OK : index_fail(note, error, "remove a record");
}

enum status ses_index_drop(struct ses_index *x, const struct ses_record *r,
                           struct status_note *note) {
    return ses_index_remove(x, r, NULL, note);
}

static int put_space_work(void *self) {
    struct change *c = self;
    MDB_val key = {sizeof c->key.space, c->bytes}, value = {c->n, c->bytes};
    return mdb_put(c->x->txn, c->x->spaces, &key, &value, 0);
}

enum status ses_index_put_space(struct ses_index *x, const struct ses_index_space *s,
                                struct status_note *note) {
    struct ses_index_space copy = *s;
    _Static_assert(offsetof(struct ses_index_space, key) == 0, "the key is the value's beginning");
    struct change c = {.x = x, .bytes = (unsigned char *)&copy, .n = sizeof copy};
    int error = change_make(&c, put_space_work);
    return error == 0 ? STATUS_OK : index_fail(note, error, "take a key space");
}

static int commit_work(void *self) {
    struct ses_index *x = self;
    return mdb_txn_commit(x->txn);
}

enum status ses_index_commit(struct ses_index *x, struct status_note *note) {
    if (x->txn == NULL)
        return STATUS_OK;
    struct stamp now = stamp_of(x->data);
    bool large = x->changes > CHANGES_KEPT; /* the library may have written some of it already */
    if (large ? !same_file(&now, &x->data_stamp) || now.bytes < x->data_stamp.bytes
              : !stamp_holds(x)) {
        x->broken = true;
        ses_index_abort(x);
        return index_fail(note, INDEX_CHANGED, "commit");
    }
    int error = index_call(x, commit_work, x);
    x->txn = NULL;
    if (!x->broken) /* what a disk that is full left of a commit is this index's own, and no harm */
        stamp_take(x);
    return error == 0 ? STATUS_OK : index_fail(note, error, "commit");
}

static int abort_work(void *self) {
    struct ses_index *x = self;
    mdb_txn_abort(x->txn);
    return 0;
}

void ses_index_abort(struct ses_index *x) {
    if (x->txn != NULL)
        (void)index_call(x, abort_work, x);
    x->txn = NULL;
}

/* ---- reading ---- */

/* False: the bytes make no sense. */
static bool entry_read(const MDB_val *key, const MDB_val *value, uint32_t *tokens,
                       struct ses_record *r, struct ses_where *where, uint32_t *flags) {
    struct index_key k;
    struct index_value v;
    if (key->mv_size != sizeof k || value->mv_size < sizeof v)
        return false;
    memcpy(&k, key->mv_data, sizeof k);
    memcpy(&v, value->mv_data, sizeof v);
    if (v.n_tokens == 0 || v.n_tokens > SES_INDEX_TOKENS_MAX ||
        value->mv_size != sizeof v + v.n_tokens * sizeof *tokens)
        return false;
    memcpy(tokens, (const unsigned char *)value->mv_data + sizeof v, v.n_tokens * sizeof *tokens);
    *where = v.where;
    *flags = v.flags;
    *r = (struct ses_record){.space = {.key = {k.space[0], k.space[1]}, .tenant = v.tenant},
                             .name = {{v.name[0], v.name[1]}},
                             .parent = {{v.parent[0], v.parent[1]}},
                             .use = v.use,
                             .depth = v.depth,
                             .n_tokens = v.n_tokens,
                             .tokens = tokens};
    struct index_key own = key_of(r);
    return memcmp(&own, &k, sizeof k) == 0 && v.sum == entry_sum(&k, v, tokens);
}

/* A walk over entries, or one entry. */
struct look {
    struct ses_index *x;
    MDB_dbi db;
    MDB_txn *txn;
    MDB_cursor *cursor;
    struct index_key key;
    uint32_t *tokens;
    struct ses_record record;
    struct ses_where where;
    struct ses_index_space space;
    uint32_t flags;
    bool sense;
};

static int look_begin(void *self) {
    struct look *l = self;
    int error = txn_begin(l->x, MDB_RDONLY, &l->txn);
    return error != 0 || l->db == 0 ? error : mdb_cursor_open(l->txn, l->db, &l->cursor);
}

static int look_end(void *self) {
    struct look *l = self;
    if (l->cursor != NULL)
        mdb_cursor_close(l->cursor);
    if (l->txn != NULL)
        mdb_txn_abort(l->txn);
    return 0;
}

static int look_one(void *self) {
    struct look *l = self;
    MDB_val key = {sizeof l->key, &l->key}, value;
    int error = mdb_get(l->txn, l->x->pages, &key, &value);
    l->sense = error == 0 && entry_read(&key, &value, l->tokens, &l->record, &l->where, &l->flags);
    return error;
}

static int look_next(void *self) {
    struct look *l = self;
    MDB_val key, value;
    int error = mdb_cursor_get(l->cursor, &key, &value, MDB_NEXT);
    l->sense = error == 0 && entry_read(&key, &value, l->tokens, &l->record, &l->where, &l->flags);
    return error;
}

static int look_next_space(void *self) {
    struct look *l = self;
    MDB_val key, value;
    int error = mdb_cursor_get(l->cursor, &key, &value, MDB_NEXT);
    l->sense = error == 0 && value.mv_size <= sizeof l->space &&
               value.mv_size >= offsetof(struct ses_index_space, profile);
    if (!l->sense)
        return error;
    memset(&l->space, 0, sizeof l->space);
    memcpy(&l->space, value.mv_data, value.mv_size);
    l->space.profile.name[sizeof l->space.profile.name - 1] = '\0';
    l->space.text[sizeof l->space.text - 1] = '\0';
    return 0;
}

static int look_from(struct look *l) {
    return l->x->env != NULL && !ses_index_usable(l->x) ? INDEX_CHANGED
                                                        : index_call(l->x, look_begin, l);
}

bool ses_index_get(struct ses_index *x, const uint64_t key[2], uint32_t depth,
                   const struct ses_name *name, uint32_t *tokens, struct ses_record *r,
                   struct ses_where *where) {
    *r = (struct ses_record){.space = {.key = {key[0], key[1]}}, .name = *name, .depth = depth};
    struct look l = {.x = x, .key = key_of(r), .tokens = tokens};
    int error = look_from(&l);
    if (error == 0)
        error = index_call(x, look_one, &l);
    (void)index_call(x, look_end, &l);
    if (error != 0 || !l.sense)
        return false;
    *r = l.record;
    *where = l.where;
    return true;
}

enum status ses_index_each(struct ses_index *x, void *self,
                           bool (*each)(void *self, const struct ses_record *r,
                                        const struct ses_where *where, uint32_t flags),
                           uint64_t *bad, struct status_note *note) {
    uint32_t tokens[SES_INDEX_TOKENS_MAX];
    struct look l = {.x = x, .db = x->pages, .tokens = tokens};
    int error = look_from(&l);
    while (error == 0 && (error = index_call(x, look_next, &l)) == 0) {
        if (!l.sense)
            ++*bad;
        else if (!each(self, &l.record, &l.where, l.flags))
            break;
    }
    (void)index_call(x, look_end, &l);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK : index_fail(note, error, "be read");
}

enum status ses_index_each_space(struct ses_index *x, void *self,
                                 bool (*each)(void *self, const struct ses_index_space *s),
                                 struct status_note *note) {
    struct look l = {.x = x, .db = x->spaces};
    int error = look_from(&l);
    while (error == 0 && (error = index_call(x, look_next_space, &l)) == 0)
        if (l.sense && !each(self, &l.space))
            break;
    (void)index_call(x, look_end, &l);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK : index_fail(note, error, "be read");
}
