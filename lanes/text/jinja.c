/* SPDX-License-Identifier: Apache-2.0
 * The reduced form is a list of items: T literal, E expression, S statement, each ended by byte 1;
 * inside E and S the words are ended by byte 3, and a string among them begins with byte 4. Bytes 1
 * to 8 are not allowed in a template.
 */
#include "lanes/text/jinja.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/text/utf8.h"

enum { ITEM_END = 1, WORD_END = 3, STRING_MARK = 4, WORDS_MAX = 512 };

struct word {
    size_t begin, n; /* in the words buffer, without WORD_END */
    bool string;
};

struct reduce {
    const char *in;
    size_t n, at;
    char *out; /* twice the input and some: each input byte gives at most two */
    size_t n_out;
    bool in_literal; /* the last item is a literal that is still open */
    char *words;
    size_t n_bytes;
    struct word word[WORDS_MAX];
    uint32_t n_words;
};

static void out_byte(struct reduce *r, char c) {
    r->out[r->n_out++] = c;
}

static void out_bytes(struct reduce *r, const char *bytes, size_t n) {
    memcpy(r->out + r->n_out, bytes, n);
    r->n_out += n;
}

static void literal(struct reduce *r, const char *bytes, size_t n) {
    if (n == 0)
        return;
    if (!r->in_literal)
        out_byte(r, 'T');
    r->in_literal = true;
    out_bytes(r, bytes, n);
}

static void literal_end(struct reduce *r) {
    if (r->in_literal)
        out_byte(r, ITEM_END);
    r->in_literal = false;
}

static bool space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool name_byte(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

/* A string in quotes, without them, with its escapes carried out. */
static bool word_string(struct reduce *r, size_t end, struct word *w) {
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    char quote = r->in[r->at++];
    w->string = true;
    for (; r->at < end && r->in[r->at] != quote; r->at++) {
        char c = r->in[r->at];
        if (c == '\\') {
            const char *known = ++r->at < end ? memchr(from, r->in[r->at], sizeof from - 1) : NULL;
            if (known == NULL)
                return false;
            c = to[known - from];
        }
        r->words[r->n_bytes++] = c;
    }
    return r->at++ < end;
}

static bool word_next(struct reduce *r, size_t end) {
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    if (r->n_words == WORDS_MAX)
        return false;
    struct word *w = &r->word[r->n_words++];
    *w = (struct word){r->n_bytes, 0, false};
    size_t n = 1;
    char c = r->in[r->at];
    if (c == '\'' || c == '"') {
        if (!word_string(r, end, w))
            return false;
    } else {
        if (name_byte(c)) {
            while (r->at + n < end && name_byte(r->in[r->at + n]))
                n++;
        } else if (strchr("=!<>+-*/%~|.,:()[]{}", c) == NULL) {
            return false;
        }
        for (size_t i = 0; i < sizeof two / sizeof *two; i++)
            if (end - r->at >= 2 && memcmp(r->in + r->at, two[i], 2) == 0)
                n = 2;
        memcpy(r->words + r->n_bytes, r->in + r->at, n);
        r->n_bytes += n;
        r->at += n;
    }
    w->n = r->n_bytes - w->begin;
    return true;
}

static bool word_is(const struct reduce *r, uint32_t i, const char *text) {
    return i < r->n_words && !r->word[i].string && r->word[i].n == strlen(text) &&
           memcmp(r->words + r->word[i].begin, text, r->word[i].n) == 0;
}

static bool word_name(const struct reduce *r, uint32_t i) {
    const struct word *w = &r->word[i];
    if (w->n == 0 || (r->words[w->begin] >= '0' && r->words[w->begin] <= '9'))
        return false;
    for (size_t k = 0; k < w->n; k++)
        if (!name_byte(r->words[w->begin + k]))
            return false;
    return true;
}

/* Words first .. last, x['name'] as x.name. */
static void out_words(struct reduce *r, char kind, uint32_t first, uint32_t last) {
    literal_end(r);
    out_byte(r, kind);
    for (uint32_t i = first; i < last; i++) {
        const struct word *w = &r->word[i];
        bool holder = i > first &&
                      (word_name(r, i - 1) || word_is(r, i - 1, "]") || word_is(r, i - 1, ")")) &&
                      !r->word[i - 1].string;
        if (holder && word_is(r, i, "[") && i + 2 < last && r->word[i + 1].string &&
            word_name(r, i + 1) && word_is(r, i + 2, "]")) {
            out_bytes(r, ".\x03", 2);
            out_bytes(r, r->words + r->word[i + 1].begin, r->word[i + 1].n);
            i += 2;
        } else {
            if (w->string)
                out_byte(r, STRING_MARK);
            out_bytes(r, r->words + w->begin, w->n);
        }
        out_byte(r, WORD_END);
    }
    out_byte(r, ITEM_END);
}

/* Outputs that are sums of terms become one output a term; a term that is a string becomes literal
 * text. */
static void out_expression(struct reduce *r) {
    static const char *const whole[] = {"if", "else", "and", "or", "not", "is", "in",
                                        "==", "!=",   "<",   ">",  "<=",  ">=", "-",
                                        "*",  "/",    "%",   "//", "**",  "~"};
    uint32_t begin = 0, depth = 0;
    for (uint32_t i = 0; i < r->n_words; i++)
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
            if (word_is(r, i, whole[k])) {
                out_words(r, 'E', 0, r->n_words);
                return;
            }
    for (uint32_t i = 0; i <= r->n_words; i++) {
        if (word_is(r, i, "(") || word_is(r, i, "[") || word_is(r, i, "{"))
            depth++;
        if (depth > 0 && (word_is(r, i, ")") || word_is(r, i, "]") || word_is(r, i, "}")))
            depth--;
        if (i < r->n_words && !(depth == 0 && word_is(r, i, "+")))
            continue;
        if (i == begin + 1 && r->word[begin].string)
            literal(r, r->words + r->word[begin].begin, r->word[begin].n);
        else
            out_words(r, 'E', begin, i);
        begin = i + 1;
    }
}

/* Between tags: what the tags' own marks and the block rules (trim_blocks, lstrip_blocks) leave of
 * the text. */
static void out_data(struct reduce *r, size_t begin, size_t end, char next_tag, bool strip_next) {
    if (strip_next) {
        while (end > begin && space(r->in[end - 1]))
            end--;
    } else if (next_tag == '%' || next_tag == '#') {
        size_t line = end;
        while (line > begin && (r->in[line - 1] == ' ' || r->in[line - 1] == '\t'))
            line--;
        if (line == 0 || r->in[line - 1] == '\n')
            end = line;
    }
    if (end > begin)
        literal(r, r->in + begin, end - begin);
}

/* The position of the tag's closing pair, quotes respected; SIZE_MAX: none. */
static size_t tag_end(const struct reduce *r, size_t from, char kind) {
    char quote = 0;
    for (size_t i = from; i + 1 < r->n; i++) {
        char c = r->in[i];
        if (quote != 0) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = 0;
        } else if (kind != '#' && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == (kind == '{' ? '}' : kind) && r->in[i + 1] == '}') {
            return i;
        }
    }
    return SIZE_MAX;
}

/* One tag; leaves r->at behind it and behind the white space that it eats. */
static bool tag(struct reduce *r) {
    char kind = r->in[r->at + 1];
    size_t begin = r->at + 2;
    size_t close = tag_end(r, begin, kind), end = close;
    if (close == SIZE_MAX)
        return false;
    if (begin < end && (r->in[begin] == '-' || r->in[begin] == '+'))
        begin++;
    bool strip = end > begin && r->in[end - 1] == '-';
    bool keep = end > begin && r->in[end - 1] == '+';
    if (strip || keep)
        end--;
    r->n_words = 0;
    r->n_bytes = 0;
    for (r->at = begin; kind != '#';) {
        while (r->at < end && space(r->in[r->at]))
            r->at++;
        if (r->at >= end)
            break;
        if (!word_next(r, end))
            return false;
    }
    if (kind == '{')
        out_expression(r);
    else if (kind == '%')
        out_words(r, 'S', 0, r->n_words);
    r->at = close + 2;
    while (strip && r->at < r->n && space(r->in[r->at]))
        r->at++;
    if (kind != '{' && !strip && !keep && r->at < r->n && r->in[r->at] == '\n')
        r->at++;
    return true;
}

static bool reduce(struct reduce *r) {
    size_t data = 0;
    while (r->at < r->n) {
        bool opens = r->in[r->at] == '{' && r->at + 1 < r->n &&
                     strchr("{%#", r->in[r->at + 1]) != NULL && r->in[r->at + 1] != '\0';
        if (!opens) {
            r->at++;
            continue;
        }
        char mark = r->at + 2 < r->n ? r->in[r->at + 2] : ' ';
        out_data(r, data, r->at, mark == '+' ? '{' : r->in[r->at + 1], mark == '-');
        if (!tag(r))
            return false;
        data = r->at;
    }
    out_data(r, data, r->n, '{', false);
    literal_end(r);
    return true;
}

bool lane_jinja_reduce(const char *text, size_t n, char **out, size_t *n_out) {
    bool ok = false;
    *out = NULL;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= 8 && text[i] != JINJA_ANY[0])
            return false;
    struct reduce *r = calloc(1, sizeof *r);
    if (r == NULL)
        return false;
    if (n > 0 && text[n - 1] == '\n')
        n--; /* a template's last newline is not part of it */
    r->in = text;
    r->n = n;
    r->out = malloc(4 * n + 16);
    r->words = malloc(n + 16);
    ok = r->out != NULL && r->words != NULL && reduce(r);
    if (ok) {
        r->out[r->n_out] = '\0';
        *out = r->out;
        *n_out = r->n_out;
    } else {
        free(r->out);
    }
    free(r->words);
    free(r);
    return ok;
}

bool lane_jinja_matches(const char *pattern, size_t n_pattern, const char *reduced,
                        size_t n_reduced, const char **any, size_t *n_any) {
    const char *gap = memchr(pattern, JINJA_ANY[0], n_pattern);
    *any = NULL;
    *n_any = 0;
    if (gap == NULL)
        return n_pattern == n_reduced && memcmp(pattern, reduced, n_pattern) == 0;
    size_t head = (size_t)(gap - pattern), tail = n_pattern - head - 1;
    if (n_reduced < head + tail || memcmp(pattern, reduced, head) != 0 ||
        memcmp(gap + 1, reduced + n_reduced - tail, tail) != 0)
        return false;
    *any = reduced + head;
    *n_any = n_reduced - head - tail;
    return memchr(*any, ITEM_END, *n_any) == NULL && memchr(*any, WORD_END, *n_any) == NULL;
}
