/* SPDX-License-Identifier: Apache-2.0
 * Words of the vocabularies on characters, by scores: always the neighbours that spell the token of
 * the highest score, the leftmost of equals, until none spell one. And what becomes of a character
 * without a token.
 */
#include <string.h>

#include "actors/check.h"
#include "lanes/text/encode.h"
#include "lanes/text/utf8.h"

size_t lane_text_character(const char *text, size_t n) {
    size_t length;
    return lane_utf8_next(text, n, &length) == UTF8_WHOLE ? length : 1;
}

enum status lane_text_emit_bytes(struct text_encode *e, const char *text, size_t n,
                                 bool after_unknown) {
    const struct lane_tokenizer *t = e->t;
    if (t->byte_id[(unsigned char)text[0]] >= 0) {
        for (size_t i = 0; i < n; i++)
            TRY(lane_text_emit(e, (uint32_t)t->byte_id[(unsigned char)text[i]]));
        return STATUS_OK;
    }
    if (t->unk < 0)
        return status_say(e->note, STATUS_BAD_REQUEST,
                          "a character of the text, beginning with byte 0x%02x, has no token in "
                          "this vocabulary",
                          (unsigned)(unsigned char)text[0]);
    return after_unknown && t->fuse_unk ? STATUS_OK : lane_text_emit(e, (uint32_t)t->unk);
}

/* A symbol is a part of the word; merging makes it longer and the next one empty. */
struct part {
    uint32_t start, bytes, previous, next; /* UINT32_MAX: none */
};

struct pair {
    uint32_t order, at, bytes; /* valid while the parts at `at` and after it have as many bytes */
};

struct scores_word {
    const struct lane_tokenizer *t;
    const char *word;
    struct part *parts;
    struct pair *heap;
    size_t n_heap, capacity;
};

static bool pair_before(const struct pair *a, const struct pair *b) {
    return a->order != b->order ? a->order < b->order : a->at < b->at;
}

static void pair_push(struct scores_word *w, struct pair p) {
    CHECK(w->n_heap < w->capacity);
    size_t i = w->n_heap++;
    for (size_t up; i > 0 && pair_before(&p, &w->heap[up = (i - 1) / 2]); i = up)
        w->heap[i] = w->heap[up];
    w->heap[i] = p;
}

static struct pair pair_pop(struct scores_word *w) {
    struct pair top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        if (child + 1 < w->n_heap && pair_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!pair_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

static void offer(struct scores_word *w, uint32_t at) {
    uint32_t next = w->parts[at].next;
    if (next == UINT32_MAX)
        return;
    uint32_t bytes = w->parts[at].bytes + w->parts[next].bytes;
    int64_t id = lane_text_word_id(w->t, w->word + w->parts[at].start, bytes);
    if (id >= 0)
        pair_push(w, (struct pair){w->t->order[id], at, bytes});
}

static void merge(struct scores_word *w) {
    while (w->n_heap > 0) {
        struct pair p = pair_pop(w);
        struct part *left = &w->parts[p.at];
        if (left->bytes == 0 || left->next == UINT32_MAX ||
            left->bytes + w->parts[left->next].bytes != p.bytes)
            continue;
        struct part *right = &w->parts[left->next];
        left->bytes = p.bytes;
        left->next = right->next;
        right->bytes = 0;
        if (left->next != UINT32_MAX)
            w->parts[left->next].previous = p.at;
        if (left->previous != UINT32_MAX)
            offer(w, left->previous);
        offer(w, p.at);
    }
}

enum status lane_text_word_scores(struct text_encode *e, const char *word, size_t n) {
    /* At most n - 1 pairs at first, and two for each of at most n - 1 merges. */
    size_t parts_bytes = n * sizeof(struct part);
    TRY(lane_text_work(e, parts_bytes + 3 * n * sizeof(struct pair)));
    struct scores_word w = {.t = e->t, .word = word, .parts = e->work, .capacity = 3 * n};
    w.heap = (struct pair *)(void *)((char *)e->work + parts_bytes);
    uint32_t n_parts = 0;
    for (size_t at = 0; at < n; n_parts++) {
        uint32_t bytes = (uint32_t)lane_text_character(word + at, n - at);
        w.parts[n_parts] = (struct part){(uint32_t)at, bytes, n_parts - 1, n_parts + 1};
        at += bytes;
    }
    w.parts[n_parts - 1].next = UINT32_MAX;
    for (uint32_t i = 0; i < n_parts; i++)
        offer(&w, i);
    merge(&w);
    bool unknown = false;
    for (uint32_t i = 0; i != UINT32_MAX; i = w.parts[i].next) {
        const char *text = word + w.parts[i].start;
        int64_t id = lane_text_word_id(e->t, text, w.parts[i].bytes);
        if (id >= 0)
            TRY(lane_text_emit(e, (uint32_t)id));
        else
            TRY(lane_text_emit_bytes(e, text, w.parts[i].bytes, unknown));
        unknown = id < 0;
    }
    return STATUS_OK;
}
