/* SPDX-License-Identifier: Apache-2.0
 * What the vocabularies on characters need beside their tokens: the order of scores, the tokens
 * sorted by bytes, and the proof that words may be cut before spaces.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/text/encode.h"
#include "lanes/text/load.h"
#include "lanes/text/utf8.h"

static const char *bytes_of(const struct lane_tokenizer *t, uint32_t id) {
    return t->pool + t->tokens[id].offset;
}

static bool made(const struct lane_tokenizer *t, uint32_t id) {
    return (t->tokens[id].flags & (TEXT_MADE | TEXT_SPECIAL)) == TEXT_MADE;
}

/* With all bytes a character can always be spelled; with none it is the unknown token. */
static enum status check_bytes(const struct lane_tokenizer *t, const char *name,
                               struct status_note *note) {
    unsigned missing = 0, n_missing = 0;
    for (unsigned byte = 256; byte-- > 0;) {
        if (t->byte_id[byte] < 0) {
            missing = byte;
            n_missing++;
        }
    }
    if (n_missing == 0 || n_missing == 256)
        return STATUS_OK;
    return status_say(note, STATUS_UNSUPPORTED,
                      "%s: there are tokens for some bytes, but <0x%02X> is missing", name,
                      missing);
}

/* A character of the text must never be a special token. */
static enum status check_characters(const struct lane_tokenizer *t, const char *name,
                                    struct status_note *note) {
    for (uint32_t id = 0; t->kind == TEXT_MERGES && id < t->vocab; id++) {
        size_t length;
        if ((t->tokens[id].flags & TEXT_SPECIAL) != 0 && t->tokens[id].bytes != 0 &&
            lane_utf8_next(bytes_of(t, id), t->tokens[id].bytes, &length) == UTF8_WHOLE &&
            length == t->tokens[id].bytes)
            return status_say(note, STATUS_UNSUPPORTED,
                              "%s: the special token %u is a single character", name, id);
    }
    if (lane_text_word_id(t, " ", 1) < 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: the vocabulary has no token U+2581 for a space", name);
    return STATUS_OK;
}

static bool space_inside(const char *bytes, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (bytes[i] == ' ' && bytes[i - 1] != ' ')
            return true;
    return false;
}

/* For the comparison functions of qsort, which take no argument of ours. */
struct scored {
    double score;
    uint32_t id;
};

static int scored_compare(const void *left, const void *right) {
    const struct scored *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static enum status index_order(struct lane_tokenizer *t, struct status_note *note) {
    struct scored *list = malloc(t->vocab * sizeof *list);
    t->order = malloc(t->vocab * sizeof *t->order);
    if (list == NULL || t->order == NULL) {
        free(list);
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u scores", t->vocab);
    }
    for (uint32_t id = 0; id < t->vocab; id++)
        list[id] = (struct scored){t->scores[id], id};
    qsort(list, t->vocab, sizeof *list, scored_compare);
    for (uint32_t i = 0, order = 0; i < t->vocab; i++) {
        order += i > 0 && list[i].score != list[i - 1].score;
        t->order[list[i].id] = order;
    }
    free(list);
    return STATUS_OK;
}

struct spelled {
    const char *bytes;
    uint32_t n, id;
};

static int spelled_compare(const void *left, const void *right) {
    const struct spelled *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    return order != 0 ? order : a->n != b->n ? (a->n < b->n ? -1 : 1) : a->id < b->id ? -1 : 1;
}

static enum status index_sorted(struct lane_tokenizer *t, struct status_note *note) {
    enum { UNKNOWN_PENALTY = 10 };
    struct spelled *list = malloc(t->vocab * sizeof *list);
    uint32_t n = 0;
    t->sorted = malloc(t->vocab * sizeof *t->sorted);
    if (list == NULL || t->sorted == NULL) {
        free(list);
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u tokens", t->vocab);
    }
    for (uint32_t id = 0; id < t->vocab; id++)
        if (made(t, id))
            list[n++] = (struct spelled){bytes_of(t, id), t->tokens[id].bytes, id};
    qsort(list, n, sizeof *list, spelled_compare);
    for (uint32_t i = 0; i < n; i++) {
        t->sorted[i] = list[i].id;
        t->first[(unsigned char)list[i].bytes[0] + 1] = i + 1;
    }
    for (unsigned byte = 1; byte <= 256; byte++)
        if (t->first[byte] < t->first[byte - 1])
            t->first[byte] = t->first[byte - 1];
    t->unk_score -= UNKNOWN_PENALTY;
    free(list);
    return STATUS_OK;
}

enum status lane_text_index_chars(struct lane_tokenizer *t, const char *name,
                                  struct status_note *note) {
    TRY(check_bytes(t, name, note));
    TRY(check_characters(t, name, note));
    t->spaces_lead = !t->ignore_merges;
    for (uint32_t id = 0; id < t->vocab; id++)
        if (made(t, id) && space_inside(bytes_of(t, id), t->tokens[id].bytes))
            t->spaces_lead = false;
    if (t->kind == TEXT_SCORES)
        TRY(index_order(t, note));
    return t->kind == TEXT_UNIGRAM ? index_sorted(t, note) : STATUS_OK;
}
