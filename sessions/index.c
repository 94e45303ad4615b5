/* SPDX-License-Identifier: Apache-2.0
 * Entries as bytes, and transactions.
 */
#include "sessions/index.h"

#include <errno.h>
#include <lmdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "actors/check.h"

struct ses_index {
    MDB_env *env;
    MDB_dbi pages, spaces;
    MDB_txn *txn; /* changes that wait for commit */
    uint64_t map; /* bytes; 0: it was given up to grow, and the larger one was not to be had */
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

static enum status index_fail(struct status_note *note, int error, const char *what) {
    if (error == MDB_MAP_FULL || error == MDB_MAP_RESIZED)
        return status_say(note, STATUS_NO_MEMORY,
                          "the session index cannot %s: it needs more address space than this "
                          "process may have: raise its limit (ulimit -v)",
                          what);
    enum status s = error == ENOMEM ? STATUS_NO_MEMORY
                    : error == MDB_CORRUPTED || error == MDB_INVALID ||
                            error == MDB_VERSION_MISMATCH || error == MDB_PAGE_NOTFOUND
                        ? STATUS_BAD_FILE
                        : STATUS_IO;
    return status_say(note, s, "the session index cannot %s: %s", what, mdb_strerror(error));
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

static int env_open(struct ses_index *x, const char *path, bool read_only, uint64_t map) {
    int error = mdb_env_create(&x->env);
    if (error == 0)
        error = mdb_env_set_maxdbs(x->env, 4);
    if (error == 0)
        error = mdb_env_set_mapsize(x->env, map);
    if (error == 0)
        error = mdb_env_open(x->env, path, MDB_NOTLS | (read_only ? MDB_RDONLY : 0), 0600);
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

enum status ses_index_open(const char *path, bool read_only, uint64_t need, struct ses_index **out,
                           struct status_note *note) {
    *out = NULL;
    struct ses_index *x = calloc(1, sizeof *x);
    if (x == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session index");
    if (!read_only)
        mkdir(path, 0700); /* what is wrong with it is said by the open */
    x->map = SES_INDEX_MAP_BYTES;
    int error = env_open(x, path, read_only, x->map);
    if (error == ENOMEM) {
        x->map = need > MAP_LEAST ? need : MAP_LEAST;
        error = env_open(x, path, read_only, x->map);
    }
    if (error == ENOMEM) {
        status_say(note, STATUS_NO_MEMORY,
                   "the session index %s needs %llu MiB of address space, which this process may "
                   "not have: raise its limit (ulimit -v) or lower the budget of the disk",
                   path, (unsigned long long)(x->map >> 20));
        free(x);
        return STATUS_NO_MEMORY;
    }
    MDB_envinfo info;
    if (error == 0)
        error = mdb_env_info(x->env, &info);
    if (error == 0)
        x->map = info.me_mapsize; /* at least what the file needs */
    MDB_txn *txn = NULL;
    if (error == 0)
        error = txn_begin(x, read_only ? MDB_RDONLY : 0, &txn);
    unsigned create = read_only ? 0 : MDB_CREATE;
    if (error == 0)
        error = mdb_dbi_open(txn, "pages", create, &x->pages);
    if (error == 0)
        error = mdb_dbi_open(txn, "spaces", create, &x->spaces);
    if (error == 0) {
        error = mdb_txn_commit(txn);
        txn = NULL;
    }
    if (txn != NULL)
        mdb_txn_abort(txn);
    if (error != 0) {
        ses_index_close(x);
        return index_fail(note, error, "be opened");
    }
    *out = x;
    return STATUS_OK;
}

void ses_index_close(struct ses_index *x) {
    if (x == NULL)
        return;
    ses_index_abort(x);
    if (x->env != NULL)
        mdb_env_close(x->env);
    free(x);
}

uint64_t ses_index_bytes(const struct ses_index *x) {
    MDB_envinfo info;
    MDB_stat stat;
    if (x->map == 0 || mdb_env_info(x->env, &info) != 0 || mdb_env_stat(x->env, &stat) != 0)
        return 0;
    return ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
}

static int index_begin(struct ses_index *x) {
    return x->txn != NULL ? 0 : txn_begin(x, 0, &x->txn);
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

enum status ses_index_put(struct ses_index *x, const struct ses_record *r,
                          const struct ses_where *where, uint32_t flags, struct status_note *note) {
    unsigned char bytes[sizeof(struct index_value) + SES_INDEX_TOKENS_MAX * sizeof(uint32_t)];
    CHECK(r->n_tokens <= SES_INDEX_TOKENS_MAX);
    struct index_key k = key_of(r);
    struct index_value v = {.where = *where,
                            .tenant = r->space.tenant,
                            .name = {r->name.word[0], r->name.word[1]},
                            .parent = {r->parent.word[0], r->parent.word[1]},
                            .use = r->use,
                            .depth = r->depth,
                            .n_tokens = r->n_tokens,
                            .flags = flags};
    v.sum = entry_sum(&k, v, r->tokens);
    memcpy(bytes, &v, sizeof v);
    memcpy(bytes + sizeof v, r->tokens, r->n_tokens * sizeof *r->tokens);
    MDB_val key = {sizeof k, &k}, value = {sizeof v + r->n_tokens * sizeof *r->tokens, bytes};
    int error = index_begin(x);
    if (error == 0)
        error = mdb_put(x->txn, x->pages, &key, &value, 0);
    return error == 0 ? STATUS_OK : index_fail(note, error, "take a record");
}

enum status ses_index_mark(struct ses_index *x, const struct ses_record *r,
                           const struct ses_where *where, uint32_t flags,
                           struct status_note *note) {
    unsigned char bytes[sizeof(struct index_value) + SES_INDEX_TOKENS_MAX * sizeof(uint32_t)];
    struct index_key k = key_of(r);
    struct index_value v = {.n_tokens = 0};
    MDB_val key = {sizeof k, &k}, value;
    int error = index_begin(x);
    if (error == 0)
        error = mdb_get(x->txn, x->pages, &key, &value);
    if (error == MDB_NOTFOUND)
        return STATUS_OK;
    if (error == 0 && (value.mv_size < sizeof v || value.mv_size > sizeof bytes))
        error = MDB_CORRUPTED;
    if (error == 0) {
        memcpy(bytes, value.mv_data, value.mv_size);
        memcpy(&v, bytes, sizeof v);
        if (v.where.segment != where->segment || v.where.offset != where->offset)
            return STATUS_OK;
        if (value.mv_size != sizeof v + v.n_tokens * sizeof(uint32_t))
            error = MDB_CORRUPTED;
    }
    if (error == 0) {
        uint32_t tokens[SES_INDEX_TOKENS_MAX];
        memcpy(tokens, bytes + sizeof v, v.n_tokens * sizeof *tokens);
        v.use = r->use;
        v.flags = flags;
        v.sum = entry_sum(&k, v, tokens);
        memcpy(bytes, &v, sizeof v);
        value.mv_data = bytes;
        error = mdb_put(x->txn, x->pages, &key, &value, 0);
    }
    return error == 0 ? STATUS_OK : index_fail(note, error, "mark a record");
}

enum status ses_index_remove(struct ses_index *x, const struct ses_record *r,
                             const struct ses_where *where, struct status_note *note) {
    struct index_key k = key_of(r);
    MDB_val key = {sizeof k, &k}, value;
    int error = index_begin(x);
    if (error == 0)
        error = mdb_get(x->txn, x->pages, &key, &value);
    /* The same tokens may have been stored again meanwhile, elsewhere. */
    struct index_value v = {.depth = 0};
    if (error == 0 && value.mv_size >= sizeof v)
        memcpy(&v, value.mv_data, sizeof v);
    if (error == 0 && v.where.segment == where->segment && v.where.offset == where->offset)
        error = mdb_del(x->txn, x->pages, &key, NULL);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK
                                               : index_fail(note, error, "remove a record");
}

enum status ses_index_drop(struct ses_index *x, const struct ses_record *r,
                           struct status_note *note) {
    struct index_key k = key_of(r);
    MDB_val key = {sizeof k, &k};
    int error = index_begin(x);
    if (error == 0)
        error = mdb_del(x->txn, x->pages, &key, NULL);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK
                                               : index_fail(note, error, "remove a record");
}

enum status ses_index_put_space(struct ses_index *x, const struct ses_index_space *s,
                                struct status_note *note) {
    MDB_val key = {sizeof s->key, (void *)(uintptr_t)s->key},
            value = {sizeof *s, (void *)(uintptr_t)s};
    int error = index_begin(x);
    if (error == 0)
        error = mdb_put(x->txn, x->spaces, &key, &value, 0);
    return error == 0 ? STATUS_OK : index_fail(note, error, "take a key space");
}

enum status ses_index_commit(struct ses_index *x, struct status_note *note) {
    if (x->txn == NULL)
        return STATUS_OK;
    int error = mdb_txn_commit(x->txn);
    x->txn = NULL;
    return error == 0 ? STATUS_OK : index_fail(note, error, "commit");
}

void ses_index_abort(struct ses_index *x) {
    if (x->txn != NULL)
        mdb_txn_abort(x->txn);
    x->txn = NULL;
}

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

bool ses_index_get(struct ses_index *x, const uint64_t key[2], uint32_t depth,
                   const struct ses_name *name, uint32_t *tokens, struct ses_record *r,
                   struct ses_where *where) {
    *r = (struct ses_record){.space = {.key = {key[0], key[1]}}, .name = *name, .depth = depth};
    struct index_key k = key_of(r);
    MDB_val at = {sizeof k, &k}, value;
    MDB_txn *txn = NULL;
    uint32_t flags;
    int error = txn_begin(x, MDB_RDONLY, &txn);
    if (error == 0)
        error = mdb_get(txn, x->pages, &at, &value);
    bool fine = error == 0 && entry_read(&at, &value, tokens, r, where, &flags);
    if (txn != NULL)
        mdb_txn_abort(txn);
    return fine;
}

enum status ses_index_each(struct ses_index *x, void *self,
                           bool (*each)(void *self, const struct ses_record *r,
                                        const struct ses_where *where, uint32_t flags),
                           uint64_t *bad, struct status_note *note) {
    uint32_t tokens[SES_INDEX_TOKENS_MAX], flags;
    struct ses_record r;
    struct ses_where where;
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    int error = txn_begin(x, MDB_RDONLY, &txn);
    if (error == 0)
        error = mdb_cursor_open(txn, x->pages, &cursor);
    while (error == 0 && (error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        if (!entry_read(&key, &value, tokens, &r, &where, &flags))
            ++*bad;
        else if (!each(self, &r, &where, flags))
            break;
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    if (txn != NULL)
        mdb_txn_abort(txn);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK : index_fail(note, error, "be read");
}

enum status ses_index_each_space(struct ses_index *x, void *self,
                                 bool (*each)(void *self, const struct ses_index_space *s),
                                 struct status_note *note) {
    struct ses_index_space s;
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    int error = txn_begin(x, MDB_RDONLY, &txn);
    if (error == 0)
        error = mdb_cursor_open(txn, x->spaces, &cursor);
    while (error == 0 && (error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        if (value.mv_size > sizeof s || value.mv_size < offsetof(struct ses_index_space, profile))
            continue;
        memset(&s, 0, sizeof s);
        memcpy(&s, value.mv_data, value.mv_size);
        s.profile.name[sizeof s.profile.name - 1] = '\0';
        s.text[sizeof s.text - 1] = '\0';
        if (!each(self, &s))
            break;
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    if (txn != NULL)
        mdb_txn_abort(txn);
    return error == 0 || error == MDB_NOTFOUND ? STATUS_OK : index_fail(note, error, "be read");
}
