/* SPDX-License-Identifier: Apache-2.0
 * The project's files as texts, for the tests that read the tree itself. Works in a checkout and in
 * an unpacked tarball; leaves out version control, build folders and what autoconf generates.
 */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* One file: path from the project's folder ("actors/actor.h"), its bytes with a terminator after
 * them. */
struct tree_file {
    char *path;
    char *text;
    size_t bytes;
};

struct tree {
    struct tree_file *files; /* ordered by path */
    size_t n, capacity;
};

/* Reads every text file below root; binary files (a zero byte in them) have text NULL. False when
 * root is unreadable. */
bool tree_read(struct tree *t, const char *root);
void tree_free(struct tree *t);
const struct tree_file *tree_find(const struct tree *t, const char *path);

bool tree_starts(const char *s, const char *prefix);
bool tree_ends(const char *s, const char *suffix);

/* A copy of C source of equal length with the insides of comments (and of strings and characters,
 * when strings is set) blanked; line ends stay. The caller frees it. */
char *tree_code(const char *text, bool strings);

#endif
