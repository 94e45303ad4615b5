/* SPDX-License-Identifier: Apache-2.0
 * Expectations for long loops: Check writes a record for each of its own assertions, these cost
 * nothing while they hold.
 */
#ifndef TESTS_SESSIONS_EXPECT_H
#define TESTS_SESSIONS_EXPECT_H

#include <stdlib.h>
#include <unistd.h>

#include "tests/harness.h"

/* A child that a test forked must not go on with the other tests: it says what failed and ends. */
#define EXPECT_CHILD "RH_EXPECT_CHILD"
#define EXPECT_FAILED(...)                                                                         \
    do {                                                                                           \
        if (getenv(EXPECT_CHILD) != NULL) {                                                        \
            printf(__VA_ARGS__);                                                                   \
            printf(" (%s:%d)\n", __FILE__, __LINE__);                                              \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
        ck_abort_msg(__VA_ARGS__);                                                                 \
    } while (0)
#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond))                                                                               \
            EXPECT_FAILED("%s does not hold", #cond);                                              \
    } while (0)
#define EXPECT_EQ(a, b)                                                                            \
    do {                                                                                           \
        unsigned long long a_ = (a), b_ = (b);                                                     \
        if (a_ != b_)                                                                              \
            EXPECT_FAILED("%s is %llu, %s is %llu", #a, a_, #b, b_);                               \
    } while (0)
/* A call that fills a status_note when it fails. */
#define EXPECT_FINE(call, note)                                                                    \
    do {                                                                                           \
        if (!(call))                                                                               \
            EXPECT_FAILED("%s: %s", #call, (note).text);                                           \
    } while (0)

static inline unsigned long long expect_random(unsigned long long *state) {
    unsigned long long x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
