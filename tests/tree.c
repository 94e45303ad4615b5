/* SPDX-License-Identifier: Apache-2.0
 * Reads the tree for tests/tidy.c and tests/include_check.c.
 */
#include "tests/tree.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TREE_DEPTH_MAX = 16, TREE_PATH_MAX = 4096 };

bool tree_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool tree_ends(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static bool generated(const char *path) {
    static const char *const names[] = {"aclocal.m4",   "configure",   "configure~", "config.h.in",
                                        "config.h.in~", "Makefile.in", "config.h",   "Makefile"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

static bool skipped_folder(const char *path) {
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    if (strcmp(name, ".ci") == 0)
        return false;
    return name[0] == '.' || tree_starts(path, "build") || tree_starts(path, "_build") ||
           strcmp(path, "autom4te.cache") == 0;
}

static bool read_file(struct tree *t, const char *full, const char *path, size_t bytes) {
    if (t->n == t->capacity) {
        size_t capacity = t->capacity == 0 ? 256 : 2 * t->capacity;
        struct tree_file *files = realloc(t->files, capacity * sizeof *files);
        if (files == NULL)
            return false;
        t->files = files;
        t->capacity = capacity;
    }
    FILE *in = fopen(full, "rb");
    char *text = malloc(bytes + 1);
    char *copy = strdup(path);
    if (in == NULL || text == NULL || copy == NULL) {
        free(text);
        free(copy);
        if (in != NULL)
            fclose(in);
        return false;
    }
    bytes = fread(text, 1, bytes, in);
    fclose(in);
    text[bytes] = '\0';
    if (memchr(text, '\0', bytes) != NULL) {
        free(text);
        text = NULL;
    }
    t->files[t->n++] = (struct tree_file){.path = copy, .text = text, .bytes = bytes};
    return true;
}

static bool walk(struct tree *t, const char *root, const char *below, int depth) {
    char full[TREE_PATH_MAX], path[TREE_PATH_MAX];
    if (depth == TREE_DEPTH_MAX ||
        snprintf(full, sizeof full, "%s/%s", root, below) >= (int)sizeof full)
        return false;
    DIR *dir = opendir(full);
    if (dir == NULL)
        return false;
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int n = snprintf(path, sizeof path, "%s%s%s", below, *below ? "/" : "", entry->d_name);
        int m = snprintf(full, sizeof full, "%s/%s", root, path);
        struct stat st;
        if (n >= (int)sizeof path || m >= (int)sizeof full || lstat(full, &st) != 0)
            ok = false;
        else if (S_ISDIR(st.st_mode))
            ok = skipped_folder(path) || walk(t, root, path, depth + 1);
        else if (S_ISREG(st.st_mode) && !generated(path) && !tree_ends(path, "~") &&
                 strcmp(path, ".git") != 0)
            ok = read_file(t, full, path, (size_t)st.st_size);
    }
    closedir(dir);
    return ok;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

bool tree_read(struct tree *t, const char *root) {
    *t = (struct tree){0};
    if (!walk(t, root, "", 0)) {
        tree_free(t);
        return false;
    }
    qsort(t->files, t->n, sizeof *t->files, by_path);
    return t->n > 0;
}

void tree_free(struct tree *t) {
    for (size_t i = 0; i < t->n; i++) {
        free(t->files[i].path);
        free(t->files[i].text);
    }
    free(t->files);
    *t = (struct tree){0};
}

const struct tree_file *tree_find(const struct tree *t, const char *path) {
    struct tree_file key = {.path = (char *)(uintptr_t)path};
    return t->n == 0 ? NULL : bsearch(&key, t->files, t->n, sizeof *t->files, by_path);
}

/* Where the literal or comment that starts at s ends: one past its last byte; its kind in *comment.
 * NULL: none starts. */
static const char *literal_end(const char *s, bool *comment) {
    *comment = s[0] == '/' && (s[1] == '/' || s[1] == '*');
    if (*comment) {
        const char *end = s[1] == '/' ? strchr(s, '\n') : strstr(s + 2, "*/");
        if (end == NULL)
            return s + strlen(s);
        return s[1] == '/' ? end : end + 2;
    }
    if (*s != '"' && *s != '\'')
        return NULL;
    const char *p = s + 1;
    while (*p != '\0' && *p != '\n' && *p != *s)
        p += p[0] == '\\' && p[1] != '\0' ? 2 : 1;
    return *p == *s ? p + 1 : p;
}

char *tree_code(const char *text, bool strings) {
    char *code = strdup(text);
    for (char *p = code; p != NULL && *p != '\0';) {
        bool comment;
        const char *end = literal_end(text + (p - code), &comment);
        if (end == NULL) {
            p++;
            continue;
        }
        char *stop = code + (end - text);
        if (comment || strings)
            for (char *q = p; q < stop; q++)
                if (*q != '\n' && (comment || (q != p && q != stop - 1)))
                    *q = ' ';
        p = stop;
    }
    return code;
}
