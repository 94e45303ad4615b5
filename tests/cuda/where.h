/* SPDX-License-Identifier: Apache-2.0
 * Where a test of kernels runs: on the emulated device, or with RH_CUDA=gpu on this machine's GPU
 * (make check-gpu).
 */
#ifndef TESTS_CUDA_WHERE_H
#define TESTS_CUDA_WHERE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool where_gpu(void) {
    const char *where = getenv("RH_CUDA");
    return where != NULL && strcmp(where, "gpu") == 0;
}

/* Fibres are more than sanitizers can follow. */
static inline bool where_sanitized(void) {
    const char *s = getenv("RH_SANITIZERS");
    return s != NULL && s[0] != '\0' && strcmp(s, "none") != 0;
}

#endif
