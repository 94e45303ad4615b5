/* SPDX-License-Identifier: Apache-2.0
 * Byte-pair merges of one word: always the pair of the lowest rank, the leftmost of equals, until
 * none is left. Short words scan an array; long ones keep a heap, so that a word of n bytes costs n
 * log n.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "actors/check.h"
#include "lanes/text/encode.h"

enum { SHORT_WORD = 48 };

const struct text_merge *lane_text_merge_find(const struct lane_tokenizer *t, uint32_t left,
                                              uint32_t right) {
    uint64_t key = (uint64_t)left << 32 | right;
    uint32_t slot = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> t->merge_shift);
    /* Half of the slots are free, so the walk ends. */
    for (;; slot = (slot + 1) & t->merge_mask) {
        const struct text_merge *m = &t->merges[slot];
        if (m->rank == UINT32_MAX)
            return NULL;
        if (m->left == left && m->right == right)
            return m;
    }
}

enum status lane_text_emit(struct text_encode *e, uint32_t id) {
    if (e->limit != 0 && *e->n >= e->limit)
        return status_say(e->note, STATUS_TOO_LARGE, "the text has more than %u tokens", e->limit);
    if (*e->n == *e->capacity) {
        uint32_t grown = *e->capacity < 32 ? 64 : *e->capacity * 2;
        if (*e->capacity > UINT32_MAX / 2)
            return status_say(e->note, STATUS_TOO_LARGE, "the text has too many tokens");
        uint32_t *ids = realloc(*e->ids, grown * sizeof *ids);
        if (ids == NULL)
            return status_say(e->note, STATUS_NO_MEMORY, "no memory for %u token ids", grown);
        *e->ids = ids;
        *e->capacity = grown;
    }
    (*e->ids)[(*e->n)++] = id;
    return STATUS_OK;
}

static enum status no_token(const struct text_encode *e, char byte) {
    return status_say(e->note, STATUS_BAD_REQUEST,
                      "byte 0x%02x of the text has no token in this vocabulary",
                      (unsigned)(unsigned char)byte);
}

/* First ids of a word. A byte without a token becomes the unknown token (several in a row one, when
 * fused). */
static enum status byte_symbols(struct text_encode *e, const char *word, size_t n, uint32_t *symbol,
                                size_t *n_symbols) {
    const struct lane_tokenizer *t = e->t;
    bool unknown = false;
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t id = t->byte_id[(unsigned char)word[i]];
        if (id < 0 && t->unk < 0)
            return no_token(e, word[i]);
        if (id < 0 && unknown && t->fuse_unk)
            continue;
        unknown = id < 0;
        symbol[out++] = (uint32_t)(unknown ? t->unk : id);
    }
    *n_symbols = out;
    return STATUS_OK;
}

/* The same for characters, of which those without a token become their bytes' tokens. */
static enum status character_symbols(struct text_encode *e, const char *word, size_t n,
                                     uint32_t *symbol, size_t *n_symbols) {
    const struct lane_tokenizer *t = e->t;
    bool unknown = false;
    size_t out = 0, length;
    for (size_t at = 0; at < n; at += length) {
        length = lane_text_character(word + at, n - at);
        int64_t id = lane_text_word_id(t, word + at, length);
        if (id < 0 && t->byte_id[0] >= 0) {
            for (size_t i = 0; i < length; i++)
                symbol[out++] = (uint32_t)t->byte_id[(unsigned char)word[at + i]];
            continue;
        }
        if (id < 0 && t->unk < 0)
            return no_token(e, word[at]);
        if (id < 0 && unknown && t->fuse_unk)
            continue;
        unknown = id < 0;
        symbol[out++] = (uint32_t)(unknown ? t->unk : id);
    }
    *n_symbols = out;
    return STATUS_OK;
}

static enum status word_symbols(struct text_encode *e, const char *word, size_t n, uint32_t *symbol,
                                size_t *n_symbols) {
    return e->t->kind == TEXT_BYTES ? byte_symbols(e, word, n, symbol, n_symbols)
                                    : character_symbols(e, word, n, symbol, n_symbols);
}

static enum status word_short(struct text_encode *e, uint32_t *symbol, size_t n) {
    const struct lane_tokenizer *t = e->t;
    const struct text_merge *pair[SHORT_WORD];
    for (size_t i = 0; i + 1 < n; i++)
        pair[i] = lane_text_merge_find(t, symbol[i], symbol[i + 1]);
    while (n > 1) {
        size_t best = n;
        uint32_t rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            if (pair[i] != NULL && pair[i]->rank < rank) {
                rank = pair[i]->rank;
                best = i;
            }
        }
        if (best == n)
            break;
        symbol[best] = pair[best]->id;
        n--;
        memmove(symbol + best + 1, symbol + best + 2, (n - best - 1) * sizeof *symbol);
        memmove(pair + best, pair + best + 1, (n - best) * sizeof *pair);
        if (best > 0)
            pair[best - 1] = lane_text_merge_find(t, symbol[best - 1], symbol[best]);
        if (best + 1 < n)
            pair[best] = lane_text_merge_find(t, symbol[best], symbol[best + 1]);
    }
    for (size_t i = 0; i < n; i++)
        TRY(lane_text_emit(e, symbol[i]));
    return STATUS_OK;
}

/* A long word: symbols in a doubly linked list, candidate merges in a binary heap by (rank,
 * position). */
struct long_symbol {
    uint32_t id, previous, next; /* UINT32_MAX: none; id UINT32_MAX: merged away */
};

struct long_candidate {
    uint32_t rank, at, left, right; /* valid while the symbols at `at` are still left and right */
};

struct long_word {
    const struct lane_tokenizer *t;
    struct long_symbol *symbol;
    struct long_candidate *heap;
    size_t n_heap, heap_capacity;
};

static bool candidate_before(const struct long_candidate *a, const struct long_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct long_word *w, struct long_candidate c) {
    CHECK(w->n_heap < w->heap_capacity);
    size_t i = w->n_heap++;
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!candidate_before(&c, &w->heap[parent]))
            break;
        w->heap[i] = w->heap[parent];
        i = parent;
    }
    w->heap[i] = c;
}

static struct long_candidate heap_pop(struct long_word *w) {
    struct long_candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap)
            break;
        if (child + 1 < w->n_heap && candidate_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!candidate_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

static void long_offer(struct long_word *w, uint32_t at) {
    uint32_t next = w->symbol[at].next;
    if (next == UINT32_MAX)
        return;
    const struct text_merge *m = lane_text_merge_find(w->t, w->symbol[at].id, w->symbol[next].id);
    if (m != NULL)
        heap_push(w, (struct long_candidate){m->rank, at, m->left, m->right});
}

static void long_merge(struct long_word *w) {
    while (w->n_heap > 0) {
        struct long_candidate c = heap_pop(w);
        struct long_symbol *s = &w->symbol[c.at];
        if (s->id != c.left || s->next == UINT32_MAX || w->symbol[s->next].id != c.right)
            continue;
        uint32_t gone = s->next;
        s->id = lane_text_merge_find(w->t, c.left, c.right)->id;
        s->next = w->symbol[gone].next;
        w->symbol[gone].id = UINT32_MAX;
        if (s->next != UINT32_MAX)
            w->symbol[s->next].previous = c.at;
        if (s->previous != UINT32_MAX)
            long_offer(w, s->previous);
        long_offer(w, c.at);
    }
}

/* One word's work area, kept for the next long word of the same call. */
enum status lane_text_work(struct text_encode *e, size_t bytes) {
    if (e->work_bytes >= bytes)
        return STATUS_OK;
    free(e->work);
    e->work = malloc(bytes);
    e->work_bytes = e->work == NULL ? 0 : bytes;
    if (e->work == NULL)
        return status_say(e->note, STATUS_NO_MEMORY, "no memory for a word of the text");
    return STATUS_OK;
}

static enum status word_long(struct text_encode *e, const char *word, size_t n) {
    /* At most n - 1 candidates at first, and two for each of at most n - 1 merges. */
    size_t heap_capacity = 3 * n;
    size_t symbols = n * sizeof(struct long_symbol);
    TRY(lane_text_work(e, symbols + heap_capacity * sizeof(struct long_candidate) +
                              n * sizeof(uint32_t)));
    struct long_word w = {.t = e->t, .symbol = e->work, .heap_capacity = heap_capacity};
    w.heap = (struct long_candidate *)(void *)((char *)e->work + symbols);
    uint32_t *first = (uint32_t *)(void *)(w.heap + heap_capacity);
    TRY(word_symbols(e, word, n, first, &n));
    for (uint32_t i = 0; i < n; i++)
        w.symbol[i] = (struct long_symbol){first[i], i - 1, i + 1 < n ? i + 1 : UINT32_MAX};
    for (uint32_t i = 0; i < n; i++)
        long_offer(&w, i);
    long_merge(&w);
    for (uint32_t i = 0; i != UINT32_MAX; i = w.symbol[i].next)
        TRY(lane_text_emit(e, w.symbol[i].id));
    return STATUS_OK;
}

int64_t lane_text_word_id(const struct lane_tokenizer *t, const char *word, size_t n) {
    if (n > t->bytes_max)
        return -1;
    for (uint32_t slot = (uint32_t)XXH3_64bits(word, n) & t->word_mask;;
         slot = (slot + 1) & t->word_mask) {
        if (t->words[slot] == 0)
            return -1;
        uint32_t id = t->words[slot] - 1;
        if (t->tokens[id].bytes == n && memcmp(t->pool + t->tokens[id].offset, word, n) == 0)
            return id;
    }
}

static enum status whole_word(struct text_encode *e, const char *word, size_t n) {
    CHECK(n <= (size_t)4 * TEXT_INPUT_BYTES_MAX);
    if (e->t->kind == TEXT_SCORES)
        return lane_text_word_scores(e, word, n);
    if (e->t->kind == TEXT_UNIGRAM)
        return lane_text_word_unigram(e, word, n);
    /* With ignore_merges a word that is a token is that token, whatever the merges say. */
    if (e->t->ignore_merges) {
        int64_t id = lane_text_word_id(e->t, word, n);
        if (id >= 0)
            return lane_text_emit(e, (uint32_t)id);
    }
    if (n > SHORT_WORD)
        return word_long(e, word, n);
    uint32_t symbol[SHORT_WORD] = {0};
    TRY(word_symbols(e, word, n, symbol, &n));
    return word_short(e, symbol, n);
}

enum status lane_text_word(struct text_encode *e, const char *word, size_t n) {
    size_t done = 0;
    /* No merge crosses a place where no token does. Sums of scores would round differently. */
    if (e->t->spaces_lead && e->t->kind != TEXT_UNIGRAM) {
        for (size_t at = 1; at < n; at++) {
            if (word[at] != ' ' || word[at - 1] == ' ')
                continue;
            TRY(whole_word(e, word + done, at - done));
            done = at;
        }
    }
    return done < n ? whole_word(e, word + done, n - done) : STATUS_OK;
}
