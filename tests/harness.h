/* SPDX-License-Identifier: Apache-2.0
 * One main for every Check program: runs the suite in this process (sanitizers and threads need it)
 * and prints the line "checks: P passed, F failed, S skipped" that the runner adds up.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* A test that cannot run here says why and counts as skipped. */
static int test_skipped;
#define TEST_SKIP(why)                                                                             \
    do {                                                                                           \
        printf("skip: %s: %s\n", __func__, why);                                                   \
        test_skipped++;                                                                            \
        return;                                                                                    \
    } while (0)

static inline int test_run(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    int run = srunner_ntests_run(runner);
    srunner_free(runner);
    printf("checks: %d passed, %d failed, %d skipped\n", run - failed - test_skipped, failed,
           test_skipped);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The checkout's folder, for share/ and tests/reference. */
static inline const char *test_srcdir(void) {
    const char *dir = getenv("RH_SRCDIR");
    return dir != NULL ? dir : ".";
}

#endif
