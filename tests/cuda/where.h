/* SPDX-License-Identifier: Apache-2.0
 * Where a test of kernels runs: on the emulated device, or with RH_CUDA=gpu on this machine's GPU
 * (make check-gpu).
 */
#ifndef TESTS_CUDA_WHERE_H
#define TESTS_CUDA_WHERE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "kernels/cuda/images.h"

static inline bool where_gpu(void) {
    const char *where = getenv("RH_CUDA");
    return where != NULL && strcmp(where, "gpu") == 0;
}

/* Sanitizers cannot follow the emulated device's fibres: says so, where they would have to. */
static inline bool where_sanitized(void) {
    const char *s = getenv("RH_SANITIZERS");
    if (where_gpu() || s == NULL || s[0] == '\0' || strcmp(s, "none") == 0)
        return false;
    printf("skip: emulated kernels do not run under sanitizers\n");
    printf("checks: 0 passed, 0 failed, 1 skipped\n");
    return true;
}

/* Says why there is no GPU, if there is none. */
static inline bool where_look(void) {
    struct status_note note = {{0}};
    const struct gpu_driver *driver;
    int n = 0;
    if (krn_cuda_images_n == 0)
        status_say(&note, STATUS_UNSUPPORTED, "this build has no kernels for a GPU");
    else if (gpu_driver_open(krn_cuda_toolkit / 1000 * 1000, &driver, &note) == STATUS_OK &&
             driver->device_count(&n) == 0 && n > 0)
        return true;
    printf("skip: %s\nchecks: 0 passed, 0 failed, 1 skipped\n",
           note.text[0] != '\0' ? note.text : "the driver sees no GPU");
    fflush(stdout);
    return false;
}

/* A GPU is asked for and there is none, said by a plain line. A child looks: the driver does not
 * survive the forks of tests. */
static inline bool where_no_gpu(void) {
    int status = 0;
    if (!where_gpu())
        return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(where_look() ? 0 : 1);
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

#endif
