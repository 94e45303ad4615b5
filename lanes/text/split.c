/* SPDX-License-Identifier: Apache-2.0
 * Text to words: invalid bytes apart, normalized, cut at the added tokens, then through the
 * pre-tokenizers in order. Stages call each other, so nothing is listed; depth is the number of
 * stages.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utf8proc.h>

#include "actors/check.h"
#include "lanes/text/encode.h"
#include "lanes/text/utf8.h"

enum {
    JIT_STACK_MAX = 4 << 20,
    HEAP_KIB_MAX = 64 << 10,
    FIRST_LIMIT = 1 << 10, /* backtracking of a search that nobody counts */
    LAST_LIMIT = 1 << 20,  /* and what is added to it for each byte */
    LAST_LIMIT_A_BYTE = 4,
    SEARCHES_UNTIMED = 256, /* between two looks at the clock */
    TIME_NS = 2000000000,   /* what any text may take, and each byte of it more: some fifty times */
    TIME_NS_A_BYTE = 4000   /* what the slowest known pattern takes */
};

static uint64_t thread_time_ns(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What one step of a search costs depends on the pattern, so hostile ones are stopped by the
 * thread's own time. */
enum status lane_text_time_left(struct text_encode *e) {
    if (thread_time_ns() < e->deadline_ns)
        return STATUS_OK;
    return status_say(e->note, STATUS_BAD_REQUEST,
                      "the tokenizer's pattern takes too long to cut this text in words");
}

/* What a failed search may be given before it is tried again; an error when nothing more may be. */
static enum status search_again(struct text_encode *e, int rc, size_t n, uint32_t *limit,
                                uint32_t *options) {
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && e->stack == NULL) {
        e->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_MAX, NULL);
        if (e->stack == NULL)
            return status_say(e->note, STATUS_NO_MEMORY, "no memory to cut the text in words");
        pcre2_jit_stack_assign(e->context, NULL, e->stack);
        return STATUS_OK;
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && (*options & PCRE2_NO_JIT) == 0) {
        *options |=
            PCRE2_NO_JIT; /* the interpreter's state lies on the heap, within HEAP_KIB_MAX */
        return STATUS_OK;
    }
    if (rc == PCRE2_ERROR_MATCHLIMIT && *limit < LAST_LIMIT + LAST_LIMIT_A_BYTE * n) {
        *limit *= 2;
        return lane_text_time_left(e);
    }
    if (rc == PCRE2_ERROR_NOMEMORY)
        return status_say(e->note, STATUS_NO_MEMORY, "no memory to cut the text in words");
    return status_say(e->note, STATUS_BAD_REQUEST,
                      "the tokenizer's pattern cannot cut this text in words (search error %d "
                      "after its limits)",
                      rc);
}

static enum status search(struct text_encode *e, const pcre2_code *pattern, const char *text,
                          size_t n, size_t from, bool *found) {
    uint32_t limit = FIRST_LIMIT, options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    if (++e->searches % SEARCHES_UNTIMED == 0)
        TRY(lane_text_time_left(e));
    for (;;) {
        pcre2_set_match_limit(e->context, limit);
        int rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from, options, e->match, e->context);
        *found = rc > 0;
        if (rc > 0 || rc == PCRE2_ERROR_NOMATCH)
            return STATUS_OK;
        TRY(search_again(e, rc, n, &limit, &options));
    }
}

static enum status stage_run(struct text_encode *e, uint32_t index, const char *text, size_t n);

/* A pre-token that must begin with a space gets one; the words are made before the copy goes. */
static enum status stage_prefixed(struct text_encode *e, uint32_t index, const char *text,
                                  size_t n) {
    char *copy = malloc(n + 1);
    if (copy == NULL)
        return status_say(e->note, STATUS_NO_MEMORY, "no memory to encode %zu bytes", n);
    copy[0] = ' ';
    memcpy(copy + 1, text, n);
    enum status status = stage_run(e, index, copy, n + 1);
    free(copy);
    return status;
}

static enum status stage_cut(struct text_encode *e, uint32_t index, const char *text, size_t n) {
    const struct text_stage *stage = &e->t->stages[index];
    size_t done = 0;
    while (done < n) {
        bool found;
        TRY(search(e, stage->pattern, text, n, done, &found));
        size_t start = n, end = n;
        if (found) {
            const PCRE2_SIZE *range = pcre2_get_ovector_pointer(e->match);
            start = range[0];
            end = range[1];
            CHECK(done <= start);
            CHECK(start < end && end <= n);
        }
        if (start > done && !(stage->removed && stage->invert))
            TRY(stage_run(e, index + 1, text + done, start - done));
        if (end > start && !(stage->removed && !stage->invert))
            TRY(stage_run(e, index + 1, text + start, end - start));
        done = end;
    }
    return STATUS_OK;
}

static enum status stage_spaces(struct text_encode *e, uint32_t index, const char *text, size_t n) {
    size_t done = 0;
    for (size_t at = 1; at < n; at++) {
        if (text[at] != ' ')
            continue;
        TRY(stage_run(e, index + 1, text + done, at - done));
        done = at;
    }
    return stage_run(e, index + 1, text + done, n - done);
}

static enum status stage_run(struct text_encode *e, uint32_t index, const char *text, size_t n) {
    if (index == e->t->n_stages)
        return lane_text_word(e, text, n);
    const struct text_stage *stage = &e->t->stages[index];
    bool prefixed = stage->prefix == TEXT_PREFIX_EACH ||
                    (stage->prefix == TEXT_PREFIX_FIRST && text == e->first);
    if ((stage->prefix_space || prefixed) && text[0] != ' ' && text != e->glued)
        return stage_prefixed(e, index, text, n);
    if (stage->spaces)
        return stage_spaces(e, index, text, n);
    if (stage->pattern == NULL)
        return stage_run(e, index + 1, text, n);
    return stage_cut(e, index, text, n);
}

static enum status split_words(struct text_encode *e, const char *text, size_t n) {
    return stage_run(e, 0, text, n);
}

/* Everything below U+0300 is in form C already, and so is most text. */
static bool already_nfc(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0xCC)
            return false;
    return true;
}

static enum status split_normal(struct text_encode *e, const char *text, size_t n) {
    return lane_text_added_split(e, &e->t->normalized, text, n, split_words);
}

static bool has_mark(const char *text, size_t n) {
    const char *end = text + n;
    while ((text = memchr(text, 0xE2, (size_t)(end - text))) != NULL) {
        if (end - text >= 3 && memcmp(text, "\xE2\x96\x81", 3) == 0)
            return true;
        text++;
    }
    return false;
}

/* On characters: U+2581 and the space are one, and a space may stand before the text. */
static enum status split_spaces(struct text_encode *e, const char *text, size_t n, bool glued,
                                bool first) {
    bool prefix = e->t->prepends && !glued;
    e->glued = glued ? text : NULL;
    e->first = first ? text : NULL;
    if (!prefix && !has_mark(text, n))
        return split_normal(e, text, n);
    char *copy = malloc(n + 1);
    if (copy == NULL)
        return status_say(e->note, STATUS_NO_MEMORY, "no memory to encode %zu bytes", n);
    copy[0] = ' ';
    e->glued = glued ? copy : NULL;
    e->first = first ? copy : NULL;
    n = prefix + lane_text_spaces(text, n, copy + prefix);
    enum status status = split_normal(e, copy, n);
    free(copy);
    return status;
}

/* Valid UTF-8, not yet normalized. What follows invalid bytes begins no text, so it gets no space
 * before it. */
static enum status split_valid(struct text_encode *e, const char *text, size_t n, bool glued) {
    bool first = text == e->begin, bytes_only = e->t->kind == TEXT_BYTES;
    if (!e->t->nfc || already_nfc(text, n)) {
        e->glued = glued ? text : NULL;
        return bytes_only ? split_normal(e, text, n) : split_spaces(e, text, n, glued, first);
    }
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                          &form, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (bytes < 0)
        return status_say(e->note,
                          bytes == UTF8PROC_ERROR_NOMEM ? STATUS_NO_MEMORY : STATUS_BAD_REQUEST,
                          "the text cannot be normalized: %s", utf8proc_errmsg(bytes));
    const char *normal = (const char *)form;
    e->glued = glued ? normal : NULL;
    enum status status = bytes_only ? split_normal(e, normal, (size_t)bytes)
                                    : split_spaces(e, normal, (size_t)bytes, glued, first);
    free(form);
    return status;
}

/* Runs of valid UTF-8 go on as text; runs of bytes that are not become words of their own. */
static enum status split_runs(struct text_encode *e, const char *text, size_t n) {
    for (size_t at = 0; at < n;) {
        size_t valid = lane_utf8_valid(text + at, n - at), length, end;
        if (valid != 0)
            TRY(split_valid(e, text + at, valid, at != 0));
        at += valid;
        for (end = at; end < n && lane_utf8_next(text + end, n - end, &length) != UTF8_WHOLE;)
            end++;
        TRY(lane_text_word(e, text + at, end - at));
        at = end;
    }
    return STATUS_OK;
}

enum status lane_text_split(struct text_encode *e, const char *text, size_t n) {
    return lane_text_added_split(e, &e->t->raw, text, n, split_runs);
}

static void encode_close(struct text_encode *e) {
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->context);
    pcre2_jit_stack_free(e->stack);
    free(e->work);
}

enum status lane_tokenizer_encode(const struct lane_tokenizer *t, const char *text, size_t bytes,
                                  uint32_t flags, uint32_t limit, uint32_t **ids, uint32_t *n,
                                  uint32_t *capacity, struct status_note *note) {
    struct text_encode e = {.t = t, .flags = flags, .limit = limit, .ids = ids, .n = n};
    uint32_t before = *n;
    if (bytes > TEXT_INPUT_BYTES_MAX)
        return status_say(note, STATUS_TOO_LARGE, "a text of %zu bytes is over the limit of %d",
                          bytes, TEXT_INPUT_BYTES_MAX);
    e.capacity = capacity;
    e.note = note;
    e.begin = (flags & TEXT_ENCODE_GOES_ON) != 0 ? NULL : text;
    e.deadline_ns = thread_time_ns() + TIME_NS + TIME_NS_A_BYTE * (uint64_t)bytes;
    if ((flags & LANE_ENCODE_BOS) != 0 && t->bos >= 0)
        TRY(lane_text_emit(&e, (uint32_t)t->bos));
    if (bytes == 0)
        return STATUS_OK;
    e.match = pcre2_match_data_create(1, NULL);
    e.context = pcre2_match_context_create(NULL);
    enum status status = STATUS_NO_MEMORY;
    if (e.match == NULL || e.context == NULL) {
        status_say(note, status, "no memory to encode %zu bytes", bytes);
        goto out;
    }
    pcre2_set_heap_limit(e.context, HEAP_KIB_MAX);
    status = lane_text_split(&e, text, bytes);
out:
    if (status != STATUS_OK)
        *n = before;
    encode_close(&e);
    return status;
}
