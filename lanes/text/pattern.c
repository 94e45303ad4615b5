/* SPDX-License-Identifier: Apache-2.0
 * The patterns of tokenizer.json are written for Oniguruma (Ruby syntax). Here they are rewritten
 * for PCRE2 where both mean the same or a rewriting makes them; every construct that is not known
 * to is refused by name.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/text/load.h"
#include "lanes/text/utf8.h"

/* Oniguruma's \w and White_Space; PCRE2's own differ from them (marks, U+180E). */
#define WORD_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

struct pattern {
    const char *in;
    size_t n, at;
    char *out; /* 20 bytes for each byte in: the longest rewriting of one is WORD_CLASS */
    size_t n_out;
    const char *refused; /* the construct that has no counterpart */
    char shown[16];
    uint32_t depth;
    uint64_t caseless; /* bit d: the group at depth d is (?i:...) */
};

static void put(struct pattern *p, const char *text, size_t n) {
    memcpy(p->out + p->n_out, text, n);
    p->n_out += n;
}

static void puts_(struct pattern *p, const char *text) {
    put(p, text, strlen(text));
}

static bool refuse(struct pattern *p, const char *what, size_t at, size_t n) {
    p->refused = what;
    n = n < sizeof p->shown - 1 ? n : sizeof p->shown - 1;
    n = n < p->n - at ? n : p->n - at;
    memcpy(p->shown, p->in + at, n);
    p->shown[n] = '\0';
    return false;
}

static bool starts(const struct pattern *p, const char *text) {
    size_t n = strlen(text);
    return p->n - p->at >= n && memcmp(p->in + p->at, text, n) == 0;
}

static bool letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* General categories keep their names; any other name is a script, which PCRE2 must not widen to
 * its extensions. */
static bool general_category(const char *name, size_t n) {
    static const char categories[] =
        "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C "
        "Cc Cf Co Cs Cn ";
    for (const char *c = categories; *c != '\0'; c = strchr(c, ' ') + 1)
        if ((size_t)(strchr(c, ' ') - c) == n && memcmp(c, name, n) == 0)
            return true;
    return false;
}

/* \p{Name}, \p{^Name}, \P{Name} */
static bool property(struct pattern *p) {
    size_t start = p->at, name = p->at + 3;
    const char *close = NULL;
    if (starts(p, "\\p{") || starts(p, "\\P{"))
        close = memchr(p->in + name, '}', p->n - name);
    if (close == NULL)
        return refuse(p, "a property that is not \\p{Name}", start, 8);
    bool inverted = p->in[start + 1] == 'P';
    if (p->in[name] == '^') {
        inverted = !inverted;
        name++;
    }
    size_t n = (size_t)(close - (p->in + name));
    for (size_t i = 0; i < n; i++)
        if (!letter_or_digit(p->in[name + i]))
            return refuse(p, "the property", start, n + 4);
    if (n == 0 || n > 40)
        return refuse(p, "the property", start, 12);
    puts_(p, inverted ? "\\P{" : "\\p{");
    if (!general_category(p->in + name, n))
        puts_(p, "sc:");
    put(p, p->in + name, n);
    puts_(p, "}");
    p->at = name + n + 1;
    return true;
}

/* \xHH (ASCII), \x{H...}, \uHHHH */
static bool code_point(struct pattern *p) {
    size_t start = p->at, digits = start + 2, n = 0, most = p->in[start + 1] == 'u' ? 4 : 2;
    bool braces = digits < p->n && p->in[start + 1] == 'x' && p->in[digits] == '{';
    if (braces) {
        digits++;
        most = 8;
    }
    while (n < most && digits + n < p->n && hex(p->in[digits + n]))
        n++;
    bool whole = braces ? n > 0 && digits + n < p->n && p->in[digits + n] == '}' : n == most;
    if (!whole || (!braces && most == 2 && p->in[digits] > '7'))
        return refuse(p, "the escape", start, 8);
    puts_(p, "\\x{");
    put(p, p->in + digits, n);
    puts_(p, "}");
    p->at = digits + n + (braces ? 1 : 0);
    return true;
}

static bool escape(struct pattern *p, bool in_class) {
    static const struct {
        char c;
        const char *outside, *inside;
    } same[] = {{'n', "\\n", "\\n"},
                {'r', "\\r", "\\r"},
                {'t', "\\t", "\\t"},
                {'f', "\\f", "\\f"},
                {'a', "\\a", "\\a"},
                {'e', "\\e", "\\e"},
                {'v', "\\x{b}", "\\x{b}"},
                {'s', "\\p{White_Space}", "\\p{White_Space}"},
                {'S', "\\P{White_Space}", "\\P{White_Space}"},
                {'d', "\\p{Nd}", "\\p{Nd}"},
                {'D', "\\P{Nd}", "\\P{Nd}"},
                {'w', "[" WORD_CLASS "]", WORD_CLASS},
                {'W', "[^" WORD_CLASS "]", NULL}};
    if (p->at + 1 >= p->n)
        return refuse(p, "a last backslash", p->at, 1);
    char c = p->in[p->at + 1];
    if (c == 'p' || c == 'P')
        return property(p);
    if (c == 'x' || c == 'u')
        return code_point(p);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (same[i].c != c || (in_class && same[i].inside == NULL))
            continue;
        puts_(p, in_class ? same[i].inside : same[i].outside);
        p->at += 2;
        return true;
    }
    if (letter_or_digit(c) || (unsigned char)c < 0x21 || (unsigned char)c >= 0x7F)
        return refuse(p, "the escape", p->at, 2);
    put(p, p->in + p->at, 2);
    p->at += 2;
    return true;
}

static bool class_(struct pattern *p) {
    size_t start = p->at++;
    puts_(p, "[");
    if (p->at < p->n && p->in[p->at] == '^') {
        puts_(p, "^");
        p->at++;
    }
    if (p->at < p->n && p->in[p->at] == ']')
        return refuse(p, "a class that begins with ]", start, 8);
    bool caseless = (p->caseless >> p->depth & 1) != 0;
    while (p->at < p->n && p->in[p->at] != ']') {
        if (caseless && !letter_or_digit(p->in[p->at]))
            return refuse(p, "more than ASCII letters in a class of a (?i:) group", start, 12);
        if (p->in[p->at] == '[')
            return refuse(p, "a class inside a class", start, 12);
        if (starts(p, "&&"))
            return refuse(p, "an intersection of classes", start, 12);
        if (p->in[p->at] == '\\') {
            if (!escape(p, true))
                return false;
            continue;
        }
        put(p, p->in + p->at++, 1);
    }
    if (p->at == p->n)
        return refuse(p, "a class without end", start, 8);
    puts_(p, "]");
    p->at++;
    return true;
}

static bool group_open(struct pattern *p) {
    static const char *const kinds[] = {"(?:", "(?i:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    bool plain = p->at + 1 >= p->n || p->in[p->at + 1] != '?';
    const char *kind = plain ? "(" : NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (starts(p, kinds[i]))
            kind = kinds[i];
    if (kind == NULL || p->depth == 60)
        return refuse(p, "the group", p->at, 4);
    uint64_t outer = p->caseless >> p->depth & 1;
    p->depth++;
    p->caseless &= ~((uint64_t)1 << p->depth);
    if (outer != 0 || strcmp(kind, "(?i:") == 0)
        p->caseless |= (uint64_t)1 << p->depth;
    puts_(p, plain ? "(?:" : kind); /* nothing reads what a group caught */
    p->at += strlen(kind);
    return true;
}

/* * + ? {n} {n,} {n,m}, each with a following ? or (not after braces) +. */
static bool quantifier(struct pattern *p) {
    size_t start = p->at;
    bool braces = p->in[p->at] == '{', comma = false;
    put(p, p->in + p->at++, 1);
    if (braces) {
        size_t digits = p->at;
        while (p->at < p->n && ((p->in[p->at] >= '0' && p->in[p->at] <= '9') ||
                                (p->in[p->at] == ',' && !comma && p->at > digits))) {
            comma |= p->in[p->at] == ',';
            put(p, p->in + p->at++, 1);
        }
        if (p->at == digits || p->at == p->n || p->in[p->at] != '}' || p->at - digits > 9)
            return refuse(p, "the repetition", start, 8);
        put(p, p->in + p->at++, 1);
    }
    if (p->at == p->n || strchr("*+?{", p->in[p->at]) == NULL)
        return true;
    char c = p->in[p->at];
    if (c == '*' || c == '{' || (braces && (c == '+' || !comma)))
        return refuse(p, "the repetition", start, p->at - start + 1);
    put(p, p->in + p->at++, 1);
    if (p->at < p->n && strchr("*+?{", p->in[p->at]) != NULL)
        return refuse(p, "the repetition", start, p->at - start + 1);
    return true;
}

/* Letters that Oniguruma, without regard to case, also finds as one character, such as the ligature
 * of f and i. */
static bool folds_together(const struct pattern *p) {
    static const char *const pairs[] = {"ss", "st", "ff", "fi", "fl"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (p->n - p->at >= 2 && (p->in[p->at] | 32) == pairs[i][0] &&
            (p->in[p->at + 1] | 32) == pairs[i][1])
            return true;
    return false;
}

/* One element. repeatable: whether a quantifier may follow the last one. */
static bool element(struct pattern *p, bool *repeatable) {
    char c = p->in[p->at];
    bool caseless = (p->caseless >> p->depth & 1) != 0;
    bool first = !*repeatable;
    *repeatable = true;
    if (caseless && (c == '\\' || c == '.' || (unsigned char)c >= 0x80 || folds_together(p)))
        return refuse(p, "what this build does not fold in a (?i:) group", p->at, 8);
    switch (c) {
    case '\\':
        return escape(p, false);
    case '[':
        return class_(p);
    case '(':
        *repeatable = false;
        return group_open(p);
    case ')':
        if (p->depth == 0)
            return refuse(p, "a ) without (", p->at, 4);
        p->depth--;
        break;
    case '|':
        *repeatable = false;
        break;
    case '*':
    case '+':
    case '?':
    case '{':
        if (first)
            return refuse(p, "a repetition of nothing", p->at, 4);
        *repeatable = false;
        return quantifier(p);
    case '^':
    case '$':
        return refuse(p, "the anchor", p->at, 1);
    default:
        break;
    }
    put(p, p->in + p->at++, 1);
    return true;
}

static bool rewrite(struct pattern *p) {
    bool repeatable = false;
    while (p->at < p->n)
        if (!element(p, &repeatable))
            return false;
    return p->depth == 0 ? true : refuse(p, "a group without end", 0, 8);
}

static void quote(struct pattern *p) {
    for (; p->at < p->n; p->at++) {
        unsigned char c = (unsigned char)p->in[p->at];
        if (c >= 0x20 && c < 0x80 && !letter_or_digit((char)c))
            puts_(p, "\\");
        put(p, p->in + p->at, 1);
    }
}

static enum status compile(const char *name, const struct pattern *p, pcre2_code **out,
                           struct status_note *note) {
    int error;
    PCRE2_SIZE at;
    uint32_t empty = 1;
    enum status status = STATUS_NO_MEMORY;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        return status_say(note, status, "no memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)p->out, p->n_out, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                      &error, &at, context);
    pcre2_compile_context_free(context);
    if (code == NULL) {
        char why[128];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: a pre_tokenizer's pattern cannot be compiled: %s", name, why);
    }
    pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty != 0) {
        pcre2_code_free(code);
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: a pre_tokenizer's pattern that matches empty text is not supported",
                          name);
    }
    /* Without a compiler for this machine the interpreter gives the same matches. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = code;
    return STATUS_OK;
}

enum status lane_text_pattern_compile(const char *name, const char *pattern, size_t bytes,
                                      bool literal, pcre2_code **out, struct status_note *note) {
    struct pattern p = {.in = pattern, .n = bytes};
    enum status status;
    if (bytes == 0 || bytes > TEXT_PATTERN_BYTES_MAX)
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: a pre_tokenizer's pattern has %zu bytes, not 1 to %d", name, bytes,
                          TEXT_PATTERN_BYTES_MAX);
    p.out = malloc(bytes * 20 + 64);
    if (p.out == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a pattern");
    if (literal)
        quote(&p);
    if (literal || rewrite(&p))
        status = compile(name, &p, out, note);
    else
        status = status_say(note, STATUS_UNSUPPORTED,
                            "%s: %s (%s) in a pre_tokenizer's pattern is not supported", name,
                            p.refused, p.shown);
    free(p.out);
    return status;
}
