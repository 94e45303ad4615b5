/* SPDX-License-Identifier: Apache-2.0
 * The line of a long load: on a terminal alone, only after its time, and gone at the end.
 */
#include "lanes/programs/loading.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tests/harness.h"

static int terminal, screen; /* where the program writes, where we read what is seen */

static void setup(void) {
    struct termios t;
    screen = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(screen, 0);
    ck_assert_int_eq(grantpt(screen), 0);
    ck_assert_int_eq(unlockpt(screen), 0);
    terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(tcgetattr(terminal, &t), 0);
    cfmakeraw(&t);
    ck_assert_int_eq(tcsetattr(terminal, TCSANOW, &t), 0);
}

static void teardown(void) {
    close(terminal);
    close(screen);
}

/* Reads until text has come; what came is in seen. */
static void wait_until(const char *text, char *seen, size_t cap) {
    size_t n = strlen(seen);
    while (strstr(seen, text) == NULL) {
        ssize_t got = read(screen, seen + n, cap - 1 - n);
        ck_assert_int_gt(got, 0);
        n += (size_t)got;
        seen[n] = '\0';
    }
}

START_TEST(test_line_comes_and_goes) {
    struct loading l;
    char seen[4096] = "";
    loading_begin(&l, terminal, 1, "loading x");
    wait_until("\rloading x, ", seen, sizeof seen);
    wait_until("s\033[K", seen, sizeof seen);
    loading_end(&l);
    ck_assert_int_eq(write(terminal, "next", 4), 4);
    wait_until("next", seen, sizeof seen);
    ck_assert_ptr_nonnull(strstr(seen, "s\033[K\r\033[Knext"));
}
END_TEST

START_TEST(test_quick_work_leaves_no_trace) {
    struct loading l;
    char seen[4096] = "";
    loading_begin(&l, terminal, UINT64_MAX / 4, "loading x");
    ck_assert(l.runs);
    loading_end(&l);
    ck_assert_int_eq(write(terminal, "next", 4), 4);
    wait_until("next", seen, sizeof seen);
    ck_assert_str_eq(seen, "next");
}
END_TEST

START_TEST(test_no_terminal_no_line) {
    struct loading l;
    int fd[2];
    char byte;
    ck_assert_int_eq(pipe(fd), 0);
    loading_begin(&l, fd[1], 0, "loading x");
    ck_assert(!l.runs);
    loading_end(&l);
    close(fd[1]);
    ck_assert_int_eq(read(fd[0], &byte, 1), 0);
    close(fd[0]);
    loading_begin(&l, -1, 0, "loading x"); /* as when quiet */
    ck_assert(!l.runs);
    loading_end(&l);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("loading");
    TCase *t = tcase_create("loading");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_line_comes_and_goes);
    tcase_add_test(t, test_quick_work_leaves_no_trace);
    tcase_add_test(t, test_no_terminal_no_line);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
