/* SPDX-License-Identifier: Apache-2.0
 * Is the index's file whole? LMDB trusts the file that it maps: a damaged page may make it read
 * anywhere. So before it is opened every page that it could come to is read here and checked
 * against all that the format promises: each page reached once or free, nodes inside their page and
 * side by side, keys in order and between their parents', counts as the roots say. Values carry
 * sums of their own (index.c). Layout: LMDB 0.9, data version 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sessions/index.h"

enum {
    PATH_BYTES = 4096,
    PAGE_LEAST = 4096,
    PAGE_MOST = 65536,
    HEAD = 16, /* of a page; of a node: */
    NODE = 8,
    KEY_MOST = 511,
    DEPTH_MAX = 12,
    SUBS_MAX = 8,
    IS_BRANCH = 1,
    IS_LEAF = 2,
    IS_OVERFLOW = 4,
    IS_META = 8,
    NODE_BIG = 1,
    NODE_SUB = 2,
    INTEGER_KEYS = 8
};
static const uint32_t META_MAGIC = 0xBEEFC0DE, META_VERSION = 1;
static const uint64_t NO_ROOT = UINT64_MAX;

struct tree_db {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};
_Static_assert(sizeof(struct tree_db) == 48, "as on disk");

struct meta {
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct tree_db db[2]; /* free pages; everything else */
    uint64_t last, txn;
};
_Static_assert(sizeof(struct meta) == 136, "as on disk");

struct page_head {
    uint64_t number;
    uint16_t pad, flags, lower, upper;
};
_Static_assert(sizeof(struct page_head) == HEAD, "as on disk");

struct node {
    uint16_t lo, hi, flags, key_bytes;
};

struct bytes {
    const unsigned char *at; /* NULL: no bound */
    uint32_t n;
};

struct check {
    int fd;
    uint64_t file_bytes, last;
    uint32_t page_bytes;
    unsigned char *seen;  /* a bit a page */
    unsigned char *pages; /* [DEPTH_MAX + 1][page_bytes] */
    struct tree_db found; /* counted; of the tree at hand */
    struct tree_db sub[SUBS_MAX];
    uint32_t n_subs;
    bool free_tree, main_tree;
    const char *wrong; /* what, of page: */
    uint64_t page;
};

static bool bad(struct check *c, uint64_t page, const char *what) {
    if (c->wrong == NULL) {
        c->wrong = what;
        c->page = page;
    }
    return false;
}

static bool take(struct check *c, uint64_t page) {
    if (page < 2 || page > c->last || (page + 1) * c->page_bytes > c->file_bytes)
        return bad(c, page, "is named and not there");
    unsigned char bit = (unsigned char)(1u << page % 8);
    if ((c->seen[page / 8] & bit) != 0)
        return bad(c, page, "is used twice");
    c->seen[page / 8] |= bit;
    return true;
}

static bool read_at(struct check *c, uint64_t page, void *out, uint64_t skip, uint64_t n) {
    uint64_t at = page * c->page_bytes + skip;
    for (uint64_t done = 0; done < n;) {
        ssize_t got = pread(c->fd, (unsigned char *)out + done, n - done, (off_t)(at + done));
        if (got <= 0)
            return bad(c, page, "cannot be read");
        done += (uint64_t)got;
    }
    return true;
}

static int compare(const struct check *c, struct bytes a, struct bytes b) {
    if (c->free_tree) { /* 8 bytes each, which was checked */
        uint64_t x, y;
        memcpy(&x, a.at, sizeof x);
        memcpy(&y, b.at, sizeof y);
        return (x > y) - (x < y);
    }
    int order = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* Free pages: a count and so many numbers. */
static bool free_list(struct check *c, uint64_t page, const unsigned char *data, uint64_t bytes) {
    uint64_t n, number;
    if (bytes < sizeof n)
        return bad(c, page, "has a short list of free pages");
    memcpy(&n, data, sizeof n);
    if (n > bytes / sizeof n - 1)
        return bad(c, page, "has a list of free pages that is longer than its bytes");
    for (uint64_t i = 1; i <= n; i++) {
        memcpy(&number, data + i * sizeof number, sizeof number);
        unsigned char bit = (unsigned char)(1u << number % 8);
        if (number < 2 || number > c->last || (c->seen[number / 8] & bit) != 0)
            return bad(c, page, "frees a page that is used");
        c->seen[number / 8] |= bit;
    }
    return true;
}

static bool overflow(struct check *c, uint64_t page, uint64_t bytes) {
    unsigned char head[HEAD];
    uint64_t n = (HEAD + bytes + c->page_bytes - 1) / c->page_bytes;
    struct page_head h;
    uint32_t pages;
    if (n > c->last || page > c->last - n + 1)
        return bad(c, page, "begins a value that ends nowhere");
    for (uint64_t i = 0; i < n; i++)
        if (!take(c, page + i))
            return false;
    if (!read_at(c, page, head, 0, HEAD))
        return false;
    memcpy(&h, head, sizeof h);
    memcpy(&pages, head + 12, sizeof pages);
    if (h.number != page || h.flags != IS_OVERFLOW || pages != n)
        return bad(c, page, "is no beginning of a long value");
    c->found.overflows += n;
    if (!c->free_tree)
        return true;
    unsigned char *list = malloc(bytes);
    bool fine =
        list != NULL && read_at(c, page, list, HEAD, bytes) && free_list(c, page, list, bytes);
    free(list);
    return fine;
}

static bool leaf_node(struct check *c, uint64_t page, const unsigned char *at, uint32_t room) {
    struct node n;
    memcpy(&n, at, sizeof n);
    uint64_t bytes = n.lo | (uint64_t)n.hi << 16;
    const unsigned char *data = at + NODE + n.key_bytes;
    c->found.entries++;
    if (n.flags == NODE_BIG) {
        uint64_t first;
        if (NODE + n.key_bytes + sizeof first > room)
            return bad(c, page, "has a node that is longer than its page");
        memcpy(&first, data, sizeof first);
        return overflow(c, first, bytes);
    }
    if (NODE + n.key_bytes + bytes > room)
        return bad(c, page, "has a node that is longer than its page");
    if (c->free_tree)
        return n.flags == 0 ? free_list(c, page, data, bytes) : bad(c, page, "has a strange node");
    if (!c->main_tree)
        return n.flags == 0 || bad(c, page, "has a strange node");
    bool known = (n.key_bytes == 5 && memcmp(at + NODE, "pages", 5) == 0) ||
                 (n.key_bytes == 6 && memcmp(at + NODE, "spaces", 6) == 0);
    if (!known || n.flags != NODE_SUB || bytes != sizeof c->sub[0] || c->n_subs == SUBS_MAX)
        return bad(c, page, "names a tree that is none of ours");
    memcpy(&c->sub[c->n_subs++], data, sizeof c->sub[0]);
    return true;
}

static uint32_t node_bytes(const struct check *c, const struct node *n, bool branch) {
    (void)c;
    uint64_t data = branch ? 0 : n->flags == NODE_BIG ? 8 : n->lo | (uint64_t)n->hi << 16;
    uint64_t bytes = NODE + n->key_bytes + data;
    return bytes > PAGE_MOST ? PAGE_MOST : (uint32_t)(bytes + (bytes & 1));
}

/* The page's nodes: inside it, side by side, in order, between low and high. */
static bool nodes(struct check *c, uint64_t page, const unsigned char *p, bool branch,
                  struct bytes low, struct bytes high) {
    struct page_head h;
    memcpy(&h, p, sizeof h);
    uint32_t n = (uint32_t)(h.lower - HEAD) / 2, used = 0;
    struct bytes last = {.at = NULL};
    for (uint32_t i = 0; i < n; i++) {
        uint16_t at;
        struct node one;
        memcpy(&at, p + HEAD + (size_t)i * 2, sizeof at);
        if (at < h.upper || at % 2 != 0 || (uint32_t)at + NODE > c->page_bytes)
            return bad(c, page, "has a node outside");
        memcpy(&one, p + at, sizeof one);
        struct bytes key = {p + at + NODE, one.key_bytes};
        bool first = branch && i == 0; /* its key is not looked at */
        if (one.key_bytes > KEY_MOST || (uint32_t)at + NODE + one.key_bytes > c->page_bytes ||
            (!first && (c->free_tree ? key.n != 8 : key.n == 0)))
            return bad(c, page, "has a bad key");
        used += node_bytes(c, &one, branch);
        if (!branch && !leaf_node(c, page, p + at, c->page_bytes - at))
            return false;
        if (first)
            continue;
        if ((last.at != NULL && compare(c, last, key) >= 0) ||
            (low.at != NULL && compare(c, low, key) > 0) ||
            (high.at != NULL && compare(c, key, high) >= 0))
            return bad(c, page, "is out of order");
        last = key;
    }
    return used == c->page_bytes - h.upper || bad(c, page, "has nodes that overlap");
}

static bool walk(struct check *c, uint64_t page, uint32_t depth, struct bytes low,
                 struct bytes high) {
    unsigned char *p = c->pages + (size_t)depth * c->page_bytes;
    struct page_head h;
    bool branch = depth > 1;
    if (!take(c, page) || !read_at(c, page, p, 0, c->page_bytes))
        return false;
    memcpy(&h, p, sizeof h);
    if (h.number != page || h.flags != (branch ? IS_BRANCH : IS_LEAF))
        return bad(c, page, "is not what its parent says");
    if (h.lower < HEAD + (branch ? 4 : 2) || h.lower % 2 != 0 || h.lower > h.upper ||
        h.upper > c->page_bytes)
        return bad(c, page, "has no sensible bounds");
    if (!nodes(c, page, p, branch, low, high))
        return false;
    if (!branch) {
        c->found.leaves++;
        return true;
    }
    c->found.branches++;
    uint32_t n = (uint32_t)(h.lower - HEAD) / 2;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t at;
        struct node one;
        memcpy(&at, p + HEAD + (size_t)i * 2, sizeof at);
        memcpy(&one, p + at, sizeof one);
        uint64_t child = one.lo | (uint64_t)one.hi << 16 | (uint64_t)one.flags << 32;
        struct bytes from = i == 0 ? low : (struct bytes){p + at + NODE, one.key_bytes}, to = high;
        if (i + 1 < n) {
            memcpy(&at, p + HEAD + (size_t)(i + 1) * 2, sizeof at);
            memcpy(&one, p + at, sizeof one);
            to = (struct bytes){p + at + NODE, one.key_bytes};
        }
        if (!walk(c, child, depth - 1, from, to))
            return false;
    }
    return true;
}

static bool tree(struct check *c, const struct tree_db *db) {
    static const struct bytes open = {.at = NULL};
    c->found = (struct tree_db){.root = db->root};
    if (db->flags != (c->free_tree ? INTEGER_KEYS : 0))
        return bad(c, 0, "has a tree of another kind");
    if (db->root != NO_ROOT) {
        if (db->depth == 0 || db->depth > DEPTH_MAX)
            return bad(c, db->root, "is the root of a tree that is too deep");
        if (!walk(c, db->root, db->depth, open, open))
            return false;
    } else if (db->depth != 0) {
        return bad(c, 0, "has a tree without a root");
    }
    const struct tree_db *f = &c->found;
    return (f->branches == db->branches && f->leaves == db->leaves &&
            f->overflows == db->overflows && f->entries == db->entries) ||
           bad(c, db->root, "is the root of a tree that has lost some of its pages");
}

/* Both heads, of which LMDB takes the newer. */
static bool metas(struct check *c, struct meta *out) {
    unsigned char head[HEAD + sizeof *out];
    struct meta m[2];
    c->page_bytes = PAGE_LEAST;
    for (uint32_t i = 0; i < 2; i++) {
        struct page_head h;
        if (!read_at(c, i, head, 0, sizeof head))
            return false;
        memcpy(&h, head, sizeof h);
        memcpy(&m[i], head + HEAD, sizeof m[i]);
        if (h.number != i || h.flags != IS_META || m[i].magic != META_MAGIC ||
            m[i].version != META_VERSION || m[i].address != 0 ||
            (m[i].txn != 0 && m[i].txn % 2 != i))
            return bad(c, i, "is no head of an index");
        uint32_t size = m[i].db[0].pad; /* the page size is kept there */
        if (size < PAGE_LEAST || size > PAGE_MOST || (size & (size - 1)) != 0 ||
            (i == 1 && size != c->page_bytes))
            return bad(c, i, "has a strange page size");
        c->page_bytes = size;
    }
    *out = m[m[0].txn < m[1].txn];
    if (out->txn - m[m[0].txn >= m[1].txn].txn > 1) /* each commit writes the older head */
        return bad(c, 0, "and its other head are not of two commits in a row");
    c->last = out->last;
    if (out->last < 1 || out->last >= out->map_bytes / c->page_bytes ||
        out->map_bytes > SES_INDEX_MAP_BYTES)
        return bad(c, 0, "has strange sizes");
    return true;
}

static bool check_all(struct check *c) {
    struct meta m;
    if (!metas(c, &m))
        return false;
    c->seen = calloc(c->last / 8 + 1, 1);
    c->pages = malloc((size_t)c->page_bytes * (DEPTH_MAX + 1));
    if (c->seen == NULL || c->pages == NULL)
        return bad(c, 0, "needs more memory than there is");
    c->main_tree = true;
    if (!tree(c, &m.db[1]))
        return false;
    c->main_tree = false;
    for (uint32_t i = 0; i < c->n_subs; i++)
        if (!tree(c, &c->sub[i]))
            return false;
    c->free_tree = true;
    return tree(c, &m.db[0]);
}

enum status ses_index_check(const char *path, struct status_note *note) {
    char file[PATH_BYTES];
    struct stat s;
    struct check c = {.fd = -1};
    snprintf(file, sizeof file, "%s/data.mdb", path);
    if (lstat(path, &s) != 0 && errno == ENOENT)
        return STATUS_OK; /* there is none yet */
    if (!S_ISDIR(s.st_mode))
        return status_say(note, STATUS_BAD_FILE, "%s is no directory", path);
    if (lstat(file, &s) != 0)
        return errno == ENOENT ? STATUS_OK
                               : status_say(note, STATUS_BAD_FILE, "%s cannot be looked at: %s",
                                            file, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return status_say(note, STATUS_BAD_FILE, "%s is no file", file);
    if (s.st_size == 0)
        return STATUS_OK;
    c.file_bytes = (uint64_t)s.st_size;
    c.fd = open(file, O_RDONLY | O_CLOEXEC);
    if (c.fd < 0)
        return status_say(note, STATUS_BAD_FILE, "%s cannot be read: %s", file, strerror(errno));
    bool fine = check_all(&c);
    close(c.fd);
    free(c.seen);
    free(c.pages);
    return fine ? STATUS_OK
                : status_say(note, STATUS_BAD_FILE, "the session index %s is damaged: page %llu %s",
                             file, (unsigned long long)c.page, c.wrong);
}
