/* SPDX-License-Identifier: Apache-2.0
 * Sessions that lie in the store and cannot be used by this server: another model, profile, number
 * of ranks, or layout. They are listed with the reason, and their tokens can be had, so that they
 * can be computed anew. On the store's thread, when somebody asks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "actors/check.h"
#include "sessions/query.h"
#include "sessions/store_private.h"

enum { WORLD_MAX = 8, OTHERS_MAX = 1 << 20, SPACES_MAX = 256 };

struct other {
    uint64_t key[2], tenant, use;
    struct ses_name name, parent;
    uint32_t depth, n_tokens, flags, n_kids;
    uint32_t index; /* which of the indexes */
    uint64_t bytes;
};

struct ses_others {
    struct ses_store *store;
    struct other *one;
    uint32_t n, max;
    uint32_t *slot, mask; /* hash of one, 1-based; 0: empty */
    struct ses_index_space space[SPACES_MAX];
    uint32_t n_spaces, index;
    bool cut; /* more than can be listed, or no memory */
};

/* ---- folders beside the store's own ---- */

void ses_store_beside(const struct ses_store *s, void *self,
                      void (*each)(void *self, struct ses_index *x, const char *path)) {
    char path[sizeof s->root + 64], file[sizeof path + 32];
    for (uint32_t world = 1; s->root[0] != '\0' && world <= WORLD_MAX; world *= 2) {
        struct ses_index *index;
        struct status_note note;
        struct stat st;
        if (world == 1)
            snprintf(path, sizeof path, "%s", s->root);
        else
            snprintf(path, sizeof path, "%s/rank-0-of-%u", s->root, world);
        if (strcmp(path, s->folder) == 0)
            continue;
        snprintf(file, sizeof file, "%s/index/data.mdb", path);
        if (stat(file, &st) != 0)
            continue;
        snprintf(file, sizeof file, "%s/index", path);
        if (ses_index_check(file, &note) != STATUS_OK ||
            ses_index_open(file, true, 0, &index, &note) != STATUS_OK)
            continue;
        each(self, index, path);
        ses_index_close(index);
    }
}

/* ---- the list ---- */

static uint32_t hash_of(const struct ses_others *o, const uint64_t key[2],
                        const struct ses_name *name) {
    return (uint32_t)(name->word[0] ^ key[0]) & o->mask;
}

static struct other *find(const struct ses_others *o, const uint64_t key[2],
                          const struct ses_name *name, uint32_t index) {
    for (uint32_t at = hash_of(o, key, name); o->slot[at] != 0; at = (at + 1) & o->mask) {
        struct other *one = &o->one[o->slot[at] - 1];
        if (memcmp(&one->name, name, sizeof *name) == 0 && one->index == index &&
            one->key[0] == key[0] && one->key[1] == key[1])
            return one;
    }
    return NULL;
}

static bool add_entry(void *self, const struct ses_record *r, const struct ses_where *where,
                      uint32_t flags) {
    struct ses_others *o = self;
    if (o->index == 0 && memcmp(r->space.key, o->store->own_key, sizeof r->space.key) == 0)
        return true;
    if (o->n == o->max) {
        uint32_t max = o->max == 0 ? 256 : o->max * 2;
        struct other *more = o->n < OTHERS_MAX ? realloc(o->one, max * sizeof *more) : NULL;
        o->cut = more == NULL;
        if (more == NULL)
            return false;
        o->one = more;
        o->max = max;
    }
    o->one[o->n++] = (struct other){.key = {r->space.key[0], r->space.key[1]},
                                    .tenant = r->space.tenant,
                                    .use = r->use,
                                    .name = r->name,
                                    .parent = r->parent,
                                    .depth = r->depth,
                                    .n_tokens = r->n_tokens,
                                    .flags = flags,
                                    .index = o->index,
                                    .bytes = (uint64_t)where->blocks * SES_DISK_BLOCK};
    return true;
}

static bool add_space(void *self, const struct ses_index_space *space) {
    struct ses_others *o = self;
    if (o->n_spaces < SPACES_MAX)
        o->space[o->n_spaces++] = *space;
    return true;
}

static void add_index(void *self, struct ses_index *x, const char *path) {
    struct ses_others *o = self;
    struct status_note note;
    uint64_t bad = 0;
    (void)path;
    /* What cannot be read is not listed. */
    (void)ses_index_each_space(x, o, add_space, &note);
    (void)ses_index_each(x, o, add_entry, &bad, &note);
    o->index++;
}

static void others_free(struct ses_store *s) {
    if (s->others == NULL)
        return;
    free(s->others->slot);
    free(s->others->one);
    free(s->others);
    s->others = NULL;
}

void ses_store_others_close(struct ses_store *s) {
    others_free(s);
}

static bool others_open(struct ses_store *s) {
    others_free(s);
    struct ses_others *o = calloc(1, sizeof *o);
    s->others = o;
    if (o == NULL)
        return false;
    o->store = s;
    if (s->index != NULL)
        add_index(o, s->index, s->folder);
    ses_store_beside(s, o, add_index);
    uint32_t slots = 64;
    while (slots < o->n * 2)
        slots *= 2;
    o->slot = calloc(slots, sizeof *o->slot);
    if (o->slot == NULL) {
        others_free(s);
        return false;
    }
    o->mask = slots - 1;
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t at = hash_of(o, o->one[i].key, &o->one[i].name);
        while (o->slot[at] != 0)
            at = (at + 1) & o->mask;
        o->slot[at] = i + 1;
    }
    for (uint32_t i = 0; i < o->n; i++) {
        struct other *parent =
            o->one[i].depth > 0 ? find(o, o->one[i].key, &o->one[i].parent, o->one[i].index) : NULL;
        if (parent != NULL)
            parent->n_kids++;
    }
    return true;
}

/* Of a profile's name, without the number of virtual ranks that may end it: NAME-vN. */
static size_t stem_bytes(const char *name) {
    size_t n = strlen(name), at = n;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    return at < n && at > 2 && name[at - 1] == 'v' && name[at - 2] == '-' ? at - 2 : n;
}

/* Why this server cannot use it. */
static enum ses_why why_of(const struct ses_store *s, const struct ses_index_space *space) {
    const struct ses_store_config *c = &s->config;
    const struct ses_index_profile *p = &space->profile, *own = &c->profile;
    if (memcmp(space->fingerprint, c->key.fingerprint, sizeof space->fingerprint) != 0)
        return SES_WHY_MODEL;
    if (space->world != c->key.world)
        return SES_WHY_WORLD;
    if (space->page_tokens != c->page_tokens)
        return SES_WHY_PAGES;
    if (space->layout_version != c->key.layout_version)
        return SES_WHY_LAYOUT;
    if (p->name[0] != '\0' && stem_bytes(p->name) != stem_bytes(own->name))
        return SES_WHY_PROFILE;
    if (p->name[0] != '\0' && memcmp(p->name, own->name, stem_bytes(own->name)) != 0)
        return SES_WHY_PROFILE;
    if (p->name[0] != '\0' && p->virtual_ranks != own->virtual_ranks)
        return SES_WHY_VIRTUAL_RANKS;
    if (p->name[0] != '\0' && p->kv != own->kv)
        return SES_WHY_KV_TYPE;
    return SES_WHY_PROFILE;
}

/* The session that ends in this page; false: a page of it is missing. */
static bool row_of(const struct ses_others *o, const struct other *leaf,
                   struct ses_other_row *row) {
    const struct other *one = leaf;
    *row = (struct ses_other_row){.name = leaf->name,
                                  .use = leaf->use,
                                  .pages = leaf->depth + 1,
                                  .pinned = (leaf->flags & SES_RECORD_PINNED) != 0,
                                  .why = SES_WHY_UNKNOWN};
    for (uint32_t depth = leaf->depth;; depth--) {
        row->tokens += one->n_tokens;
        row->bytes += one->bytes;
        if (depth == 0)
            break;
        one = find(o, leaf->key, &one->parent, leaf->index);
        if (one == NULL || one->depth + 1 != depth)
            return false;
    }
    for (uint32_t i = 0; i < o->n_spaces; i++)
        if (memcmp(o->space[i].key, leaf->key, sizeof leaf->key) == 0) {
            row->why = why_of(o->store, &o->space[i]);
            memcpy(row->text, o->space[i].text, sizeof row->text);
        }
    return true;
}

static void list(struct ses_store *s, struct ses_query *q) {
    if ((q->from == 0 || s->others == NULL) && !others_open(s)) {
        q->status = status_say(&q->note, STATUS_NO_MEMORY, "no memory to list what is stored");
        return;
    }
    const struct ses_others *o = s->others;
    uint64_t i = q->from;
    for (; i < o->n && q->n < SES_QUERY_ROWS; i++) {
        const struct other *one = &o->one[i];
        if (one->tenant == q->tenant && one->n_kids == 0 && row_of(o, one, &q->other[q->n]))
            q->n++;
    }
    q->next = i < o->n ? i : 0;
    if (q->next == 0)
        others_free(s);
}

/* ---- tokens ---- */

struct walk {
    struct ses_store *s;
    struct ses_query *q;
    bool own, done;
};

static bool space_of(const struct ses_others *o, const struct ses_query *q, uint32_t index,
                     const struct other **leaf) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->one[i].index == index && o->one[i].tenant == q->tenant &&
            memcmp(&o->one[i].name, &q->name, sizeof q->name) == 0) {
            *leaf = &o->one[i];
            return true;
        }
    return false;
}

/* Copies what is wanted of the session, from its last page to its first. */
static void tokens_from(void *self, struct ses_index *x, const char *path) {
    struct walk *w = self;
    struct ses_others *o = w->s->others;
    const struct other *leaf;
    uint32_t token[SES_INDEX_TOKENS_MAX];
    struct ses_other_row row;
    (void)path;
    uint32_t index = o->index++;
    if (w->done || !space_of(o, w->q, index, &leaf) || !row_of(o, leaf, &row))
        return;
    struct ses_query *q = w->q;
    uint64_t end = row.tokens, first;
    w->done = true;
    if (q->from > end) {
        q->status = status_say(&q->note, STATUS_BAD_REQUEST, "from: %llu, the session has %llu",
                               (unsigned long long)q->from, (unsigned long long)end);
        return;
    }
    uint64_t last = end - q->from < SES_QUERY_TOKENS_MAX ? end : q->from + SES_QUERY_TOKENS_MAX;
    q->n = (uint32_t)(last - q->from);
    q->next = last < end ? last : 0;
    struct ses_name name = leaf->name;
    for (uint32_t depth = leaf->depth;; depth--, end = first) {
        struct ses_record r;
        struct ses_where where;
        if (!ses_index_get(x, leaf->key, depth, &name, token, &r, &where) || r.n_tokens > end) {
            q->n = 0;
            q->status = status_say(&q->note, STATUS_NOT_FOUND, "a page of the session has gone");
            return;
        }
        first = end - r.n_tokens;
        for (uint32_t i = 0; i < r.n_tokens; i++)
            if (first + i >= q->from && first + i < last)
                q->token[first + i - q->from] = token[i];
        name = r.parent;
        if (depth == 0)
            return;
    }
}

static void tokens(struct ses_store *s, struct ses_query *q) {
    struct walk w = {.s = s, .q = q};
    if (!others_open(s)) {
        q->status = status_say(&q->note, STATUS_NO_MEMORY, "no memory to list what is stored");
        return;
    }
    s->others->index = 0;
    tokens_from(&w, s->index, s->folder);
    if (!w.done)
        ses_store_beside(s, &w, tokens_from);
    if (!w.done)
        q->status = status_say(&q->note, STATUS_NOT_FOUND, "no session of that name is stored");
    others_free(s);
}

/* ---- forgetting ---- */

/* Takes the session's last pages out of the index, up to one that another goes on from. */
static enum status drop_from(struct ses_store *s, struct other *leaf, struct ses_where *dropped,
                             uint32_t *n, struct status_note *note) {
    uint32_t token[SES_INDEX_TOKENS_MAX];
    struct other *one = leaf;
    for (uint32_t depth = leaf->depth; one != NULL && one->n_kids == 0; depth--) {
        struct ses_record r;
        if (!ses_index_get(s->index, one->key, depth, &one->name, token, &r, &dropped[*n]))
            break;
        TRY(ses_index_remove(s->index, &r, &dropped[*n], note));
        ++*n;
        one = depth > 0 ? find(s->others, one->key, &one->parent, one->index) : NULL;
        if (one != NULL)
            one->n_kids--;
    }
    return ses_store_commit(s, note);
}

static void forget(struct ses_store *s, struct ses_query *q) {
    const struct other *found = NULL;
    bool own = others_open(s) && space_of(s->others, q, 0, &found);
    for (uint32_t i = 1; s->others != NULL && found == NULL && i < s->others->index; i++)
        space_of(s->others, q, i, &found);
    struct ses_where *dropped =
        own && found != NULL ? calloc(found->depth + 1, sizeof *dropped) : NULL;
    if (found == NULL)
        q->status = status_say(&q->note, STATUS_NOT_FOUND, "no session of that name is stored");
    else if (!own)
        q->status = status_say(&q->note, STATUS_UNSUPPORTED,
                               "the session lies in the folder of another number of ranks: a "
                               "server with that many can forget it");
    else if (dropped == NULL)
        q->status = status_say(&q->note, STATUS_NO_MEMORY, "no memory to forget a session");
    else if (found->n_kids > 0)
        q->status = status_say(&q->note, STATUS_NOT_FOUND, "others go on from it: forget those");
    else
        q->status = drop_from(s, &s->others->one[found - s->others->one], dropped, &q->n, &q->note);
    if (q->status != STATUS_OK)
        ses_index_abort(s->index);
    for (uint32_t i = 0; q->status == STATUS_OK && i < q->n; i++)
        ses_files_drop(s->files, &dropped[i]);
    if (q->status == STATUS_OK)
        ses_files_remove_empty(s->files);
    free(dropped);
    others_free(s);
}

void ses_store_query(struct ses_store *s, struct ses_query *q) {
    q->status = STATUS_OK;
    q->value = q->limit = q->next = 0;
    q->n = 0;
    if (q->kind == SES_QUERY_OTHERS)
        list(s, q);
    else if (q->kind == SES_QUERY_OTHER_FORGET)
        forget(s, q);
    else
        tokens(s, q);
}

/* ---- without a server ---- */

enum status ses_store_offline(const char *folder, void *self,
                              void (*each)(void *self, const struct ses_other_row *row,
                                           uint64_t tenant),
                              struct status_note *note) {
    char path[4096 + 16];
    struct stat st;
    struct ses_store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory to list a store");
    enum status status = STATUS_OK;
    if ((size_t)snprintf(s->root, sizeof s->root, "%s", folder) >= sizeof s->root ||
        stat(s->root, &st) != 0)
        status = status_say(note, STATUS_NOT_FOUND, "%.300s: no such directory", folder);
    /* Its own key is all zero, so all that there is counts as another's. */
    snprintf(s->folder, sizeof s->folder, "%s", s->root);
    snprintf(path, sizeof path, "%s/index", s->root);
    bool own = status == STATUS_OK && stat(path, &st) == 0;
    if (own)
        status = ses_index_check(path, note);
    if (own && status == STATUS_OK)
        status = ses_index_open(path, true, 0, &s->index, note);
    if (status == STATUS_OK && !others_open(s))
        status = status_say(note, STATUS_NO_MEMORY, "no memory to list %.300s", folder);
    if (status == STATUS_OK && s->others->index == 0)
        status = status_say(note, STATUS_NOT_FOUND, "%.300s holds no session store", folder);
    for (uint32_t i = 0; status == STATUS_OK && i < s->others->n; i++) {
        const struct other *one = &s->others->one[i];
        struct ses_other_row row;
        if (one->n_kids == 0 && row_of(s->others, one, &row))
            each(self, &row, one->tenant);
    }
    others_free(s);
    ses_index_close(s->index);
    free(s);
    return status;
}

static const char *const why_names[SES_WHYS] = {
    [SES_WHY_MODEL] = "model",
    [SES_WHY_WORLD] = "world",
    [SES_WHY_PAGES] = "page_tokens",
    [SES_WHY_LAYOUT] = "layout",
    [SES_WHY_VIRTUAL_RANKS] = "virtual_ranks",
    [SES_WHY_KV_TYPE] = "kv_type",
    [SES_WHY_PROFILE] = "profile",
    [SES_WHY_UNKNOWN] = "unknown",
};

const char *ses_why_name(enum ses_why why) {
    return (unsigned)why < SES_WHYS ? why_names[why] : "unknown";
}
