/* SPDX-License-Identifier: Apache-2.0
 * Which bytes of a file lie where; pages that come in become nodes, places and slots.
 */
#include "sessions/carry.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/catalog.h"
#include "sessions/private.h"
#include "sessions/tiers.h"

enum { READERS = 4 };
static const uint64_t IMPORT_IDLE_NS = 5000000000; /* then another one may begin */
static const char END_MAGIC[8] = {'R', 'H', 'S', 'E', 'N', 'D', '1', '\n'};

/* A file that is being read in order: the checksum of what was. */
struct reader {
    struct ses_name name, parent;          /* of the page before the last, when there is one */
    uint64_t tenant, n_tokens, next, turn; /* turn 0: none */
    uint64_t last, last_sum;               /* where the last answer began, and what it was */
    XXH3_state_t *whole;
};

struct ses_carry {
    struct ses_carry_config config;
    uint32_t *path; /* [pages_max]: nodes of the session at hand */
    struct reader reader[READERS];
    uint64_t turns;
    struct ses_import *import; /* NULL: none */
    struct ses_name import_id, parent;
    uint64_t import_ns, import_tenant;
};

enum status ses_carry_open(const struct ses_carry_config *config, struct ses_carry **out,
                           struct status_note *note) {
    struct ses_carry *c = calloc(1, sizeof *c);
    *out = c;
    bool fine = c != NULL;
    if (fine)
        c->path = calloc(config->kind.pages_max, sizeof *c->path);
    fine = fine && c->path != NULL;
    for (int i = 0; fine && i < READERS; i++) {
        c->reader[i].whole = XXH3_createState();
        fine = c->reader[i].whole != NULL;
    }
    if (!fine) {
        ses_carry_close(c);
        *out = NULL;
        return status_say(note, STATUS_NO_MEMORY, "no memory to carry sessions");
    }
    c->config = *config;
    return STATUS_OK;
}

void ses_carry_close(struct ses_carry *c) {
    if (c == NULL)
        return;
    ses_import_close(c->import);
    for (int i = 0; i < READERS; i++)
        XXH3_freeState(c->reader[i].whole);
    free(c->path);
    free(c);
}

/* ---- out ---- */

static struct reader *reader_of(struct ses_carry *c, const struct ses_query *q, bool begin) {
    struct reader *r = NULL, *oldest = &c->reader[0];
    for (int i = 0; i < READERS; i++) {
        struct reader *one = &c->reader[i];
        if (one->turn > 0 && one->tenant == q->tenant &&
            memcmp(&one->name, &q->name, sizeof one->name) == 0)
            r = one;
        if (one->turn < oldest->turn)
            oldest = one;
    }
    if (r == NULL && begin) {
        r = oldest;
        r->name = q->name;
        r->tenant = q->tenant;
        r->next = 0;
        XXH3_128bits_reset(r->whole);
    }
    if (r != NULL)
        r->turn = ++c->turns;
    return r;
}

void ses_carry_exported(struct ses_carry *c, const struct ses_query *q) {
    if (q->status != STATUS_OK || q->from + q->n > q->size - sizeof(struct ses_export_end))
        return;
    struct reader *r = reader_of(c, q, q->from == 0);
    uint64_t sum = XXH3_64bits(q->bytes, q->n);
    if (r == NULL)
        return;
    if (q->from == 0) {
        XXH3_128bits_reset(r->whole);
        r->next = 0;
    }
    /* Rows behind a session's last are whatever was there: when it was forgotten and computed anew
     * between an answer that was lost and the next, the file would not be one. */
    if (q->from == r->last && q->from != r->next && sum != r->last_sum)
        r->next = UINT64_MAX;
    if (q->from != r->next)
        return; /* read before, or out of order */
    r->last = q->from;
    r->last_sum = sum;
    XXH3_128bits_update(r->whole, q->bytes, q->n);
    r->next += q->n;
}

/* Head and tokens. */
static void export_head(struct ses_carry *c, struct ses_query *q, struct ses_export_head *head,
                        uint32_t leaf) {
    const struct ses_trie *t = ses_book_trie(c->config.book);
    uint64_t from = q->from, end = ses_export_tokens_end(head);
    for (uint32_t id = leaf; id != 0; id = ses_trie_parent(t, id))
        c->path[ses_trie_depth(t, id)] = id;
    end = end - from < SES_QUERY_BYTES ? end : from + SES_QUERY_BYTES;
    if (from < sizeof *head) {
        XXH3_state_t *state = XXH3_createState();
        CHECK(state != NULL && XXH3_128bits_reset(state) == XXH_OK);
        for (uint32_t i = 0; i < head->n_pages; i++) {
            uint32_t n;
            const uint32_t *tokens = ses_trie_tokens(t, c->path[i], &n);
            XXH3_128bits_update(state, tokens, n * sizeof *tokens);
        }
        XXH128_hash_t sum = XXH3_128bits_digest(state);
        XXH3_freeState(state);
        head->tokens_sum[0] = sum.low64;
        head->tokens_sum[1] = sum.high64;
        ses_export_seal(head);
        uint64_t n = (end < sizeof *head ? end : sizeof *head) - from;
        memcpy(q->bytes, (const unsigned char *)head + from, n);
        q->n = (uint32_t)n;
        from += n;
    }
    uint64_t page = (uint64_t)head->page_tokens * sizeof(uint32_t);
    while (from < end) {
        uint64_t at = from - sizeof *head;
        uint32_t n;
        const uint32_t *tokens = ses_trie_tokens(t, c->path[at / page], &n);
        uint64_t some = n * sizeof *tokens - at % page;
        some = some < end - from ? some : end - from;
        memcpy(q->bytes + q->n, (const unsigned char *)tokens + at % page, some);
        q->n += (uint32_t)some;
        from += some;
    }
}

static void export_end(struct ses_carry *c, struct ses_query *q) {
    struct ses_export_end end;
    uint64_t begin = q->size - sizeof end;
    const struct reader *r = reader_of(c, q, false);
    if (r == NULL || r->next != begin) {
        q->status = status_say(&q->note, STATUS_BAD_REQUEST,
                               "offset: a session's file ends with a checksum of all that was read "
                               "before, in order; begin again at 0");
        return;
    }
    XXH128_hash_t sum = XXH3_128bits_digest(r->whole);
    memcpy(end.magic, END_MAGIC, sizeof end.magic);
    end.sum[0] = sum.low64;
    end.sum[1] = sum.high64;
    q->n = (uint32_t)(q->size - q->from);
    memcpy(q->bytes, (const unsigned char *)&end + (q->from - begin), q->n);
}

/* A page of one rank, from a slot at once or from a record by the store. */
static bool export_part(struct ses_carry *c, struct ses_query *q, const struct ses_export_head *h,
                        uint32_t leaf, struct ses_carry_fetch *fetch) {
    struct ses_book *b = c->config.book;
    uint64_t at = q->from - ses_export_tokens_end(h), part = ses_export_part_bytes(h);
    uint32_t index = ses_export_order((uint32_t)(at / part / h->world), h->n_pages), node = leaf;
    *fetch = (struct ses_carry_fetch){
        .rank = (uint32_t)(at / part % h->world), .page = index, .offset = at % part};
    while (node != 0 && ses_trie_depth(b->trie, node) > index)
        node = ses_trie_parent(b->trie, node);
    if (node == 0 || ses_trie_depth(b->trie, node) < index) {
        q->status = status_say(&q->note, STATUS_NOT_FOUND,
                               "the session went on before its last page was read");
        return true;
    }
    ses_page_t place = ses_book_place_of(b, node);
    bool there = place != 0 && ses_pages_state(b->pages, place) == SES_PAGE_PARKED;
    uint32_t slot = SES_TIERS_NONE;
    fetch->number = SES_TIERS_NONE;
    if (there) {
        slot = ses_tiers_slot(c->config.tiers, ses_book_place(b, place));
        fetch->number = ses_tiers_record(c->config.tiers, ses_book_place(b, place));
    }
    if (slot != SES_TIERS_NONE)
        q->n = ses_export_piece(index, fetch->rank,
                                c->config.host[fetch->rank] + slot * c->config.host_bytes,
                                h->page_bytes, fetch->offset, q->bytes, SES_QUERY_BYTES);
    else if (fetch->number != SES_TIERS_NONE)
        return false;
    else if (c->config.disk) {
        ses_book_save(b, leaf);
        q->status = status_say(&q->note, STATUS_AGAIN,
                               "page %u of the session is still on its way to the disk", index);
    } else
        q->status = status_say(&q->note, STATUS_UNSUPPORTED,
                               "page %u of the session is on the device only: pin the session "
                               "first, or start with --disk-cache",
                               index);
    return true;
}

/* The session's last node, or when it went on meanwhile the one before; 0: the answer says why. */
static uint32_t source_of(struct ses_carry *c, struct ses_query *q, uint64_t *n_tokens) {
    const struct ses_trie *t = ses_book_trie(c->config.book);
    uint32_t leaf = ses_book_session(c->config.book, q), parent = 0;
    const struct reader *r = reader_of(c, q, false);
    if (leaf != 0) {
        *n_tokens = (uint64_t)t->node[leaf].depth * t->page_tokens + t->node[leaf].n_tokens;
        return leaf;
    }
    if (r != NULL && q->from >= sizeof(struct ses_export_head) + r->n_tokens * sizeof(uint32_t))
        parent = ses_trie_named(t, &r->parent);
    if (parent == 0)
        return 0;
    *n_tokens = r->n_tokens;
    q->status = STATUS_OK;
    return parent;
}

static void begin_reading(struct ses_carry *c, const struct ses_query *q, uint32_t leaf,
                          uint64_t n_tokens) {
    struct ses_book *b = c->config.book;
    uint32_t parent = ses_trie_parent(b->trie, leaf);
    struct reader *r = reader_of(c, q, true);
    r->parent = parent != 0 ? ses_trie_name(b->trie, parent) : (struct ses_name){{0}};
    r->n_tokens = n_tokens;
    if (c->config.disk)
        ses_book_save(b, leaf);
    else
        ses_book_touch(b, leaf);
}

bool ses_carry_export(struct ses_carry *c, struct ses_query *q, struct ses_carry_fetch *fetch) {
    uint64_t n_tokens;
    uint32_t leaf = source_of(c, q, &n_tokens);
    if (leaf == 0)
        return true;
    struct ses_export_head head = ses_export_head_of(&c->config.kind, q->tenant, n_tokens);
    q->size = ses_export_size(&head);
    if (c->config.disk && head.n_pages > c->config.book->config.n_places) {
        q->value = head.n_pages;
        q->limit = c->config.book->config.n_places;
        q->status = status_say(&q->note, STATUS_TOO_LARGE,
                               "the session has %llu pages, the disk cache has room for %llu: "
                               "start with a larger --disk-budget",
                               (unsigned long long)q->value, (unsigned long long)q->limit);
    } else if (q->from > q->size) {
        q->value = q->from;
        q->limit = q->size;
        q->status =
            status_say(&q->note, STATUS_BAD_REQUEST, "offset: %llu, the file has %llu bytes",
                       (unsigned long long)q->from, (unsigned long long)q->size);
    } else if (q->from == q->size) {
        q->n = 0;
    } else if (q->from < ses_export_tokens_end(&head)) {
        if (q->from == 0)
            begin_reading(c, q, leaf, n_tokens);
        export_head(c, q, &head, leaf);
    } else if (q->from >= q->size - sizeof(struct ses_export_end)) {
        export_end(c, q);
    } else if (!export_part(c, q, &head, leaf, fetch)) {
        return false;
    }
    ses_carry_exported(c, q);
    return true;
}

/* ---- in ---- */

/* The whole page becomes a node with a slot of the tier; AGAIN: there is no room now. */
static enum status bring(struct ses_carry *c, const struct ses_query *q, struct status_note *note) {
    struct ses_book *b = c->config.book;
    const uint32_t *tokens;
    struct ses_record r = {.space = ses_space_of(&c->config.kind.key, q->tenant),
                           .parent = c->parent};
    r.depth = ses_import_page(c->import, &tokens, &r.n_tokens);
    r.tokens = (uint32_t *)(uintptr_t)tokens;
    uint32_t node, place;
    enum status status = ses_book_bring(b, &r, &node, &place, note);
    if (status == STATUS_OK && place != SES_TIERS_NONE) {
        uint32_t slot = ses_tiers_bring(c->config.tiers, place);
        if (slot == SES_TIERS_NONE) {
            ses_book_forget_node(b, node);
            return status_say(note, STATUS_AGAIN, "no host memory is free for a page; try again");
        }
        for (uint32_t k = 0; k < c->config.kind.key.world; k++)
            memcpy(c->config.host[k] + slot * c->config.host_bytes, ses_import_bytes(c->import, k),
                   c->config.kind.page_bytes);
        uint32_t *own = c->config.record[slot].tokens;
        ses_book_describe_node(b, node, &c->config.record[slot]);
        memcpy(own, c->config.record[slot].tokens, r.n_tokens * sizeof *own);
        c->config.record[slot].tokens = own;
        ses_tiers_brought(c->config.tiers, slot);
    }
    if (status == STATUS_OK)
        c->parent = ses_trie_name(b->trie, node);
    return status;
}

static enum status begin(struct ses_carry *c, struct ses_query *q, uint64_t now_ns) {
    bool same = c->import != NULL && c->import_tenant == q->tenant &&
                memcmp(&c->import_id, &q->name, sizeof q->name) == 0;
    if (same)
        return STATUS_OK;
    if (q->from > 0)
        return status_say(&q->note, STATUS_NOT_FOUND,
                          "no import of that name is under way; begin at offset 0");
    if (c->import != NULL && !ses_import_done(c->import) && now_ns - c->import_ns < IMPORT_IDLE_NS)
        return status_say(&q->note, STATUS_AGAIN, "another import is under way");
    ses_import_close(c->import);
    c->import = NULL;
    TRY(ses_import_open(&c->config.kind, q->tenant, &c->import, &q->note));
    c->import_id = q->name;
    c->import_tenant = q->tenant;
    c->parent = (struct ses_name){{0}};
    return STATUS_OK;
}

void ses_carry_import(struct ses_carry *c, struct ses_query *q, uint64_t now_ns) {
    q->status = begin(c, q, now_ns);
    if (q->status != STATUS_OK)
        return;
    c->import_ns = now_ns;
    uint64_t at = ses_import_at(c->import);
    if (q->from > at) {
        q->value = q->from;
        q->limit = at;
        q->status = status_say(&q->note, STATUS_BAD_REQUEST, "offset: %llu, the next byte is %llu",
                               (unsigned long long)q->from, (unsigned long long)at);
        return;
    }
    uint64_t done = at - q->from; /* sent before */
    for (;;) {
        if (ses_import_ready(c->import)) {
            q->status = bring(c, q, &q->note);
            if (q->status != STATUS_OK)
                break;
            ses_import_next(c->import);
        }
        if (done >= q->n_in)
            break;
        size_t taken;
        q->status = ses_import_feed(c->import, q->bytes + done, q->n_in - done, &taken, &q->note);
        done += taken;
        if (q->status != STATUS_OK)
            break;
    }
    q->next = ses_import_at(c->import);
    q->size = ses_import_size(c->import);
    q->done = ses_import_done(c->import) && q->status == STATUS_OK;
    q->made = c->parent;
    if (q->status != STATUS_OK && q->status != STATUS_AGAIN) {
        ses_import_close(c->import); /* what came in before is right, and stays */
        c->import = NULL;
    }
}
