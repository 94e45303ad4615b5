/* SPDX-License-Identifier: Apache-2.0
 * A scratch directory for tests that write files: made fresh, removed with all that it holds.
 */
#ifndef TESTS_KERNELS_SCRATCH_DIR_H
#define TESTS_KERNELS_SCRATCH_DIR_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int scratch_unlink(const char *path, const struct stat *st, int type,
                                 struct FTW *walk) {
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline void scratch_remove(const char *path) {
    nftw(path, scratch_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* path: room for 64 bytes. */
static inline char *scratch_make(char *path) {
    snprintf(path, 64, "/tmp/roundhouse-test-XXXXXX");
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
