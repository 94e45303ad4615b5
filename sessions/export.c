/* SPDX-License-Identifier: Apache-2.0
 * The file's parts, and taking them in.
 */
#include "sessions/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "sessions/reserve.h"

static const char HEAD_MAGIC[8] = {'R', 'H', 'S', 'E', 'S', 'S', '1', '\n'};
static const char PART_MAGIC[8] = {'R', 'H', 'P', 'A', 'R', 'T', '1', '\n'};
static const char END_MAGIC[8] = {'R', 'H', 'S', 'E', 'N', 'D', '1', '\n'};

enum stage { HEAD, TOKENS, PART, BYTES, READY, END, DONE };

struct ses_import {
    struct ses_export_kind kind;
    uint64_t tenant, at;
    enum stage stage;
    uint64_t got; /* of the stage's bytes */
    struct ses_export_head head;
    struct ses_export_part part;
    struct ses_export_end end;
    uint32_t *tokens;
    unsigned char *page;    /* [2][world][page_bytes]: the last page, and the one at hand */
    uint32_t at_page, rank; /* in the order of the file; n_pages: the last one's turn has come */
    XXH3_state_t *whole;
};

/* ---- writing ---- */

struct ses_export_head ses_export_head_of(const struct ses_export_kind *kind, uint64_t tenant,
                                          uint64_t n_tokens) {
    struct ses_export_head h = {.format = SES_EXPORT_FORMAT,
                                .head_bytes = sizeof h,
                                .fingerprint = {kind->key.fingerprint[0], kind->key.fingerprint[1]},
                                .profile = kind->key.profile,
                                .rope = kind->key.rope,
                                .layout_version = kind->key.layout_version,
                                .world = kind->key.world,
                                .tenant = tenant,
                                .page_tokens = kind->page_tokens,
                                .n_pages = ses_pages_for((uint32_t)n_tokens, kind->page_tokens),
                                .n_tokens = n_tokens,
                                .page_bytes = kind->page_bytes};
    memcpy(h.magic, HEAD_MAGIC, sizeof h.magic);
    memcpy(h.text, kind->text, sizeof h.text);
    h.text[sizeof h.text - 1] = '\0';
    return h;
}

static void head_sum(const struct ses_export_head *head, uint64_t out[2]) {
    struct ses_export_head h = *head;
    memset(h.sum, 0, sizeof h.sum);
    XXH128_hash_t sum = XXH3_128bits(&h, sizeof h);
    out[0] = sum.low64;
    out[1] = sum.high64;
}

void ses_export_seal(struct ses_export_head *head) {
    head_sum(head, head->sum);
}

uint32_t ses_export_piece(uint32_t index, uint32_t rank, const unsigned char *page,
                          uint64_t page_bytes, uint64_t offset, unsigned char *out, uint32_t n) {
    struct ses_export_part part = {.page = index, .rank = rank};
    uint64_t all = sizeof part + page_bytes, done = 0;
    CHECK(offset < all);
    if (n > all - offset)
        n = (uint32_t)(all - offset);
    if (offset < sizeof part) {
        memcpy(part.magic, PART_MAGIC, sizeof part.magic);
        XXH128_hash_t sum = XXH3_128bits(page, page_bytes);
        part.sum[0] = sum.low64;
        part.sum[1] = sum.high64;
        done = sizeof part - offset < n ? sizeof part - offset : n;
        memcpy(out, (const unsigned char *)&part + offset, done);
        offset += done;
    }
    memcpy(out + done, page + offset - sizeof part, n - done);
    return n;
}

/* ---- taking in ---- */

enum status ses_import_open(const struct ses_export_kind *kind, uint64_t tenant,
                            struct ses_import **out, struct status_note *note) {
    struct ses_import *im = calloc(1, sizeof *im);
    *out = im;
    if (im != NULL)
        im->whole = XXH3_createState();
    if (im == NULL || im->whole == NULL) {
        free(im);
        *out = NULL;
        return status_say(note, STATUS_NO_MEMORY, "no memory for an import");
    }
    im->kind = *kind;
    im->tenant = tenant;
    XXH3_128bits_reset(im->whole);
    return STATUS_OK;
}

void ses_import_close(struct ses_import *im) {
    if (im == NULL)
        return;
    XXH3_freeState(im->whole);
    free(im->tokens);
    free(im->page);
    free(im);
}

static enum status refuse_words(struct status_note *note, const char *what, const char *theirs,
                                const char *ours, const struct ses_import *im) {
    return status_say(note, STATUS_UNSUPPORTED,
                      "the session belongs to another %s: %s, here %s; it was made by %.80s, this "
                      "is %.80s",
                      what, theirs, ours, im->head.text, im->kind.text);
}

static enum status refuse(struct status_note *note, const char *what, uint64_t theirs,
                          uint64_t ours, const struct ses_import *im) {
    char text[2][24];
    snprintf(text[0], sizeof text[0], "%" PRIu64, theirs);
    snprintf(text[1], sizeof text[1], "%" PRIu64, ours);
    return refuse_words(note, what, text[0], text[1], im);
}

/* Digests, in as many digits as programs print of them. */
static enum status refuse_digest(struct status_note *note, const char *what, uint64_t theirs,
                                 uint64_t ours, const struct ses_import *im) {
    char text[2][24];
    snprintf(text[0], sizeof text[0], "%016" PRIx64, theirs);
    snprintf(text[1], sizeof text[1], "%016" PRIx64, ours);
    return refuse_words(note, what, text[0], text[1], im);
}

static enum status refuse_model(struct status_note *note, const struct ses_import *im) {
    const uint64_t *theirs = im->head.fingerprint, *ours = im->kind.key.fingerprint;
    char text[2][40];
    snprintf(text[0], sizeof text[0], "%016" PRIx64 "%016" PRIx64, theirs[1], theirs[0]);
    snprintf(text[1], sizeof text[1], "%016" PRIx64 "%016" PRIx64, ours[1], ours[0]);
    return refuse_words(note, "model", text[0], text[1], im);
}

/* Does it belong to this model and these settings? */
static enum status head_fits(const struct ses_import *im, struct status_note *note) {
    const struct ses_export_head *h = &im->head;
    const struct ses_export_kind *k = &im->kind;
    if (h->tenant != im->tenant)
        return status_say(note, STATUS_BAD_REQUEST,
                          "the session belongs to another tenant, and is imported for that one "
                          "only");
    if (h->fingerprint[0] != k->key.fingerprint[0] || h->fingerprint[1] != k->key.fingerprint[1])
        return refuse_model(note, im);
    if (h->world != k->key.world)
        return refuse(note, "number of ranks", h->world, k->key.world, im);
    if (h->page_tokens != k->page_tokens)
        return refuse(note, "number of tokens a page", h->page_tokens, k->page_tokens, im);
    if (h->profile != k->key.profile)
        return refuse_digest(note, "profile", h->profile, k->key.profile, im);
    if (h->rope != k->key.rope)
        return refuse_digest(note, "setting of RoPE", h->rope, k->key.rope, im);
    if (h->layout_version != k->key.layout_version)
        return refuse_digest(note, "layout of pages", h->layout_version, k->key.layout_version, im);
    if (h->page_bytes != k->page_bytes)
        return refuse(note, "number of bytes a page", h->page_bytes, k->page_bytes, im);
    if (h->n_tokens > (uint64_t)k->pages_max * k->page_tokens)
        return status_say(note, STATUS_TOO_LARGE,
                          "the session has %" PRIu64 " tokens, the context holds %" PRIu64,
                          h->n_tokens, (uint64_t)k->pages_max * k->page_tokens);
    return STATUS_OK;
}

static enum status head_take(struct ses_import *im, struct status_note *note) {
    struct ses_export_head *h = &im->head;
    uint64_t sum[2];
    if (memcmp(h->magic, HEAD_MAGIC, sizeof h->magic) != 0)
        return status_say(note, STATUS_BAD_FILE, "this is no file of a session");
    if (h->format != SES_EXPORT_FORMAT)
        return status_say(note, STATUS_BAD_FILE,
                          "a session file of format %u; this build reads format %d", h->format,
                          SES_EXPORT_FORMAT);
    if (h->head_bytes != sizeof *h)
        return status_say(note, STATUS_BAD_FILE,
                          "the session file is damaged: it says that its head has %u bytes; in "
                          "format %d it has %zu",
                          h->head_bytes, SES_EXPORT_FORMAT, sizeof *h);
    head_sum(h, sum);
    h->text[sizeof h->text - 1] = '\0';
    if (memcmp(sum, h->sum, sizeof sum) != 0)
        return status_say(note, STATUS_BAD_FILE, "the head of the session file is damaged");
    TRY(head_fits(im, note));
    if (h->n_tokens == 0 || h->n_pages != ses_pages_for((uint32_t)h->n_tokens, h->page_tokens))
        return status_say(note, STATUS_BAD_FILE,
                          "the session file says %u pages of %" PRIu64 " tokens", h->n_pages,
                          h->n_tokens);
    im->tokens = calloc(h->n_tokens, sizeof *im->tokens);
    im->page = malloc(h->page_bytes * h->world * 2);
    if (im->tokens == NULL || im->page == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a session of %" PRIu64 " tokens",
                          h->n_tokens);
    return STATUS_OK;
}

static enum status tokens_take(struct ses_import *im, struct status_note *note) {
    XXH128_hash_t sum = XXH3_128bits(im->tokens, im->head.n_tokens * sizeof *im->tokens);
    if (sum.low64 != im->head.tokens_sum[0] || sum.high64 != im->head.tokens_sum[1])
        return status_say(note, STATUS_BAD_FILE, "the tokens of the session file are damaged");
    return STATUS_OK;
}

static enum status part_take(const struct ses_import *im, struct status_note *note) {
    const struct ses_export_part *p = &im->part;
    uint32_t index = ses_export_order(im->at_page, im->head.n_pages);
    if (memcmp(p->magic, PART_MAGIC, sizeof p->magic) != 0 || p->page != index ||
        p->rank != im->rank)
        return status_say(note, STATUS_BAD_FILE,
                          "the session file is damaged before page %u of rank %u", index, im->rank);
    return STATUS_OK;
}

static unsigned char *bytes_at(const struct ses_import *im, uint32_t rank) {
    bool last = im->at_page == 0 || im->at_page == im->head.n_pages;
    return im->page + ((last ? 0 : im->head.world) + rank) * im->head.page_bytes;
}

static enum status bytes_take(const struct ses_import *im, struct status_note *note) {
    XXH128_hash_t sum = XXH3_128bits(bytes_at(im, im->rank), im->head.page_bytes);
    if (sum.low64 != im->part.sum[0] || sum.high64 != im->part.sum[1])
        return status_say(note, STATUS_BAD_FILE,
                          "page %u of rank %u in the session file is damaged",
                          ses_export_order(im->at_page, im->head.n_pages), im->rank);
    return STATUS_OK;
}

static enum status end_take(struct ses_import *im, struct status_note *note) {
    XXH128_hash_t sum = XXH3_128bits_digest(im->whole);
    if (memcmp(im->end.magic, END_MAGIC, sizeof im->end.magic) != 0 ||
        sum.low64 != im->end.sum[0] || sum.high64 != im->end.sum[1])
        return status_say(note, STATUS_BAD_FILE,
                          "the session file is damaged: its end does not fit what stands before");
    return STATUS_OK;
}

/* Where the stage's bytes go, and how many they are. */
static unsigned char *stage_bytes(struct ses_import *im, uint64_t *n) {
    switch (im->stage) {
    case HEAD:
        *n = sizeof im->head;
        return (unsigned char *)&im->head;
    case TOKENS:
        *n = im->head.n_tokens * sizeof *im->tokens;
        return (unsigned char *)im->tokens;
    case PART:
        *n = sizeof im->part;
        return (unsigned char *)&im->part;
    case BYTES:
        *n = im->head.page_bytes;
        return bytes_at(im, im->rank);
    default:
        *n = sizeof im->end;
        return (unsigned char *)&im->end;
    }
}

/* The stage's bytes are all there. */
static enum status stage_end(struct ses_import *im, struct status_note *note) {
    im->got = 0;
    switch (im->stage) {
    case HEAD:
        im->stage = TOKENS;
        return head_take(im, note);
    case TOKENS:
        im->stage = PART;
        return tokens_take(im, note);
    case PART:
        im->stage = BYTES;
        return part_take(im, note);
    case BYTES:
        TRY(bytes_take(im, note));
        if (++im->rank < im->head.world) {
            im->stage = PART;
        } else if (im->at_page == 0 && im->head.n_pages > 1) { /* it waits for those before it */
            im->rank = 0;
            im->at_page = 1;
            im->stage = PART;
        } else {
            im->stage = READY;
        }
        return STATUS_OK;
    default:
        im->stage = DONE;
        return end_take(im, note);
    }
}

enum status ses_import_feed(struct ses_import *im, const unsigned char *bytes, size_t n,
                            size_t *taken, struct status_note *note) {
    *taken = 0;
    while (*taken < n && im->stage != READY) {
        uint64_t all;
        if (im->stage == DONE)
            return status_say(note, STATUS_BAD_FILE, "there are bytes behind the end of a session");
        unsigned char *to = stage_bytes(im, &all);
        uint64_t some = all - im->got < n - *taken ? all - im->got : n - *taken;
        memcpy(to + im->got, bytes + *taken, some);
        if (im->stage != END)
            XXH3_128bits_update(im->whole, bytes + *taken, some);
        im->got += some;
        im->at += some;
        *taken += some;
        if (im->got == all)
            TRY(stage_end(im, note));
    }
    return STATUS_OK;
}

uint64_t ses_import_at(const struct ses_import *im) {
    return im->at;
}

uint64_t ses_import_size(const struct ses_import *im) {
    return im->stage == HEAD ? 0 : ses_export_size(&im->head);
}

bool ses_import_ready(const struct ses_import *im) {
    return im->stage == READY;
}

uint32_t ses_import_page(const struct ses_import *im, const uint32_t **tokens, uint32_t *n) {
    CHECK(im->stage == READY);
    uint32_t index = im->at_page == im->head.n_pages
                         ? im->at_page - 1
                         : ses_export_order(im->at_page, im->head.n_pages);
    uint64_t first = (uint64_t)index * im->head.page_tokens, left = im->head.n_tokens - first;
    *tokens = im->tokens + first;
    *n = left < im->head.page_tokens ? (uint32_t)left : im->head.page_tokens;
    return index;
}

const unsigned char *ses_import_bytes(const struct ses_import *im, uint32_t rank) {
    return bytes_at(im, rank);
}

void ses_import_next(struct ses_import *im) {
    CHECK(im->stage == READY);
    uint32_t n = im->head.n_pages;
    im->rank = 0;
    if (n == 1 || im->at_page == n)
        im->stage = END;
    else
        im->stage = ++im->at_page == n ? READY : PART;
}

bool ses_import_done(const struct ses_import *im) {
    return im->stage == DONE;
}
