/* SPDX-License-Identifier: Apache-2.0
 * The arena under jansson, and a scan before it that bounds the depth and remembers the last key
 * for the refusal.
 */
#include "lanes/door/json_in.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"

enum { ARENA_ALIGN = 16, ARENA_GIVE_BACK = 4 << 20 };

/* The arena of the parse that this thread is in; NULL outside. */
static _Thread_local struct door_arena *parsing;
static _Thread_local jmp_buf parsing_over;

/* jansson's lexer does not look whether a string could grow: it drops bytes, the closing quote too,
 * and reads past its end. So a parse that runs out of memory is left at once; all that it
 * owns is in the arena. */
static void *json_take(size_t bytes) {
    if (parsing == NULL)
        return malloc(bytes);
    void *p = door_arena_take(parsing, bytes);
    if (p == NULL)
        longjmp(parsing_over, 1);
    return p;
}

static void json_give(void *p) {
    if (parsing == NULL)
        free(p);
}

void door_json_setup(void) {
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    if (take == json_take)
        return;
    json_set_alloc_funcs(json_take, json_give);
    json_object_seed(0);
}

bool door_arena_open(struct door_arena *a, size_t bytes) {
    CHECK(bytes >= DOOR_JSON_ARENA_MIN);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    *a = (struct door_arena){.base = base, .bytes = bytes};
    return true;
}

void door_arena_close(struct door_arena *a) {
    if (a->base != NULL)
        munmap(a->base, a->bytes);
    *a = (struct door_arena){0};
}

void *door_arena_take(struct door_arena *a, size_t bytes) {
    if (bytes > a->bytes || a->used > a->bytes - bytes) {
        a->ran_out = true;
        return NULL;
    }
    void *p = a->base + a->used;
    size_t used = (a->used + bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    a->used = used < a->bytes ? used : a->bytes;
    return p;
}

void door_arena_reset(struct door_arena *a) {
    if (a->used > ARENA_GIVE_BACK)
        madvise(a->base + ARENA_GIVE_BACK, a->bytes - ARENA_GIVE_BACK, MADV_DONTNEED);
    a->used = 0;
    a->ran_out = false;
}

/* ---- the scan ---- */

struct scan {
    const char *text;
    size_t n, at;
    size_t key_at, key_bytes; /* the last string that a colon followed */
    uint32_t depth;
};

/* Steps over a string whose opening quote is at s->at; false when it does not end. */
static bool scan_string(struct scan *s, size_t *begin, size_t *bytes) {
    size_t i = s->at + 1;
    *begin = i;
    while (i < s->n && s->text[i] != '"')
        i += s->text[i] == '\\' ? 2 : 1;
    if (i >= s->n)
        return false;
    *bytes = i - *begin;
    s->at = i + 1;
    return true;
}

/* Goes to `end`, or to where the depth is over its limit; syntax is jansson's to judge. */
static bool scan_to(struct scan *s, size_t end) {
    while (s->at < end) {
        char c = s->text[s->at];
        if (c == '"') {
            size_t begin, bytes;
            if (!scan_string(s, &begin, &bytes))
                return true;
            size_t next = s->at;
            while (next < s->n && strchr(" \t\r\n", s->text[next]) != NULL && s->text[next] != 0)
                next++;
            if (next < s->n && s->text[next] == ':') {
                s->key_at = begin;
                s->key_bytes = bytes;
            }
            continue;
        }
        if (c == '{' || c == '[') {
            if (++s->depth > DOOR_JSON_DEPTH_MAX)
                return false;
        } else if ((c == '}' || c == ']') && s->depth > 0) {
            s->depth--;
        }
        s->at++;
    }
    return true;
}

/* The key as it stands in the text, cut at a whole character. */
static void scan_key(const struct scan *s, char key[DOOR_JSON_KEY_MAX]) {
    size_t n = s->key_bytes;
    if (n > DOOR_JSON_KEY_MAX - 1) {
        n = DOOR_JSON_KEY_MAX - 1;
        while (n > 0 && ((unsigned char)s->text[s->key_at + n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(key, s->text + s->key_at, n);
    key[n] = 0;
}

static enum door_json_fault fault_of(const json_error_t *e) {
    switch (json_error_code(e)) {
    case json_error_invalid_utf8:
        return DOOR_JSON_UTF8;
    case json_error_duplicate_key:
        return DOOR_JSON_DUPLICATE;
    case json_error_numeric_overflow:
        return DOOR_JSON_NUMBER;
    case json_error_out_of_memory:
        return DOOR_JSON_MEMORY;
    case json_error_stack_overflow:
        return DOOR_JSON_DEPTH;
    default:
        return DOOR_JSON_SYNTAX;
    }
}

/* NULL: e says why, or the arena ran out. */
static json_t *parse(struct door_arena *a, const char *text, size_t bytes, json_error_t *e) {
    json_t *v = NULL;
    parsing = a;
    if (setjmp(parsing_over) == 0)
        v = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, e);
    parsing = NULL;
    return v;
}

json_t *door_json_load(struct door_arena *a, const char *text, size_t bytes,
                       struct door_json_error *error) {
    *error = (struct door_json_error){0};
    struct scan s = {.text = text, .n = bytes};
    if (!scan_to(&s, bytes)) {
        error->fault = DOOR_JSON_DEPTH;
        error->position = s.at;
        scan_key(&s, error->key);
        snprintf(error->what, sizeof error->what, "nested deeper than %d", DOOR_JSON_DEPTH_MAX);
        return NULL;
    }
    CHECK(parsing == NULL);
    json_error_t e;
    json_t *v = parse(a, text, bytes, &e);
    if (a->ran_out) {
        error->fault = DOOR_JSON_MEMORY;
        return NULL;
    }
    if (v != NULL)
        return v;
    error->fault = fault_of(&e);
    error->position = e.position > 0 && (size_t)e.position <= bytes ? (size_t)e.position : 0;
    s = (struct scan){.text = text, .n = bytes};
    scan_to(&s, error->position);
    scan_key(&s, error->key);
    /* jansson's sentence repeats the sender's bytes after "near"; those are not for us to pass
     * on. */
    char *near = strstr(e.text, " near ");
    if (near != NULL)
        *near = 0;
    snprintf(error->what, sizeof error->what, "%.100s", e.text);
    for (char *c = error->what; *c != 0; c++)
        if ((unsigned char)*c >= 0x80 || (unsigned char)*c < 0x20)
            *c = '?';
    return NULL;
}
