/* SPDX-License-Identifier: Apache-2.0
 * Addresses that may be listened on, and the lock that keeps a second server away.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes/door/listen.h"
#include "tests/harness.h"

START_TEST(test_addresses) {
    static const struct {
        const char *url;
        enum status status;
    } cases[] = {
        {"ipc:///tmp/x", STATUS_OK},
        {"ipc://relative", STATUS_OK},
        {"tcp://127.0.0.1:0", STATUS_OK},
        {"tcp://127.1.2.3:65535", STATUS_OK},
        {"tcp://localhost:5555", STATUS_OK},
        {"tcp://[::1]:5555", STATUS_OK},
        {"ipc://", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1", STATUS_BAD_REQUEST},
        {"tcp://:5555", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1:", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1:65536", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1:-1", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1:99999999999999999999", STATUS_BAD_REQUEST},
        {"tcp://127.0.0.1:5x", STATUS_BAD_REQUEST},
        {"tcp://*:5555", STATUS_UNSUPPORTED},
        {"tcp://0.0.0.0:5555", STATUS_UNSUPPORTED},
        {"tcp://10.0.0.1:5555", STATUS_UNSUPPORTED},
        {"tcp://128.0.0.1:5555", STATUS_UNSUPPORTED},
        {"tcp://127.0.0.1.example.com:5555", STATUS_UNSUPPORTED},
        {"tcp://example.com:5555", STATUS_UNSUPPORTED},
        {"tcp://[::]:5555", STATUS_UNSUPPORTED},
        {"tcp://[::2]:5555", STATUS_UNSUPPORTED},
        {"tls+tcp://127.0.0.1:5555", STATUS_UNSUPPORTED},
        {"ws://127.0.0.1:5555", STATUS_UNSUPPORTED},
        {"inproc://x", STATUS_UNSUPPORTED},
        {"abstract://x", STATUS_UNSUPPORTED},
        {"/tmp/x", STATUS_BAD_REQUEST},
        {"", STATUS_BAD_REQUEST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct door_address a;
        struct status_note note = {{0}};
        enum status s = door_address_parse(cases[i].url, &a, &note);
        ck_assert_msg(s == cases[i].status, "%s: %s %s", cases[i].url, status_name(s), note.text);
        ck_assert_int_eq(s != STATUS_OK, note.text[0] != 0);
    }
    char url[300];
    struct door_address a;
    struct status_note note;
    snprintf(url, sizeof url, "ipc:///%0120d", 1);
    ck_assert_int_eq(door_address_parse(url, &a, &note), STATUS_BAD_REQUEST);
    snprintf(url, sizeof url, "ipc:///%0200d", 1);
    ck_assert_int_eq(door_address_parse(url, &a, &note), STATUS_BAD_REQUEST);
}
END_TEST

static char folder[64], url[96];

static void setup(void) {
    snprintf(folder, sizeof folder, "/tmp/door-listen-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(url, sizeof url, "ipc://%s/s", folder);
}

static void teardown(void) {
    rmdir(folder);
}

START_TEST(test_second_server) {
    struct door_address a, b;
    struct status_note note = {{0}};
    char pid[32];
    ck_assert_int_eq(door_address_parse(url, &a, &note), STATUS_OK);
    ck_assert_int_eq(door_address_parse(url, &b, &note), STATUS_OK);
    ck_assert_int_eq(door_address_lock(&a, &note), STATUS_OK);
    ck_assert_int_eq(door_address_lock(&b, &note), STATUS_DUPLICATE);
    snprintf(pid, sizeof pid, "process %ld ", (long)getpid());
    ck_assert_msg(strstr(note.text, pid) != NULL, "%s", note.text);
    door_address_unlock(&a);
    ck_assert_int_eq(door_address_lock(&b, &note), STATUS_OK);
    door_address_unlock(&b);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing is left behind */
}
END_TEST

/* A server that was killed leaves its lock file and its socket: neither hinders the next. */
START_TEST(test_stale) {
    struct door_address a;
    struct status_note note = {{0}};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    ck_assert_int_eq(door_address_parse(url, &a, &note), STATUS_OK);
    pid_t child = fork();
    if (child == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        memcpy(at.sun_path, a.path, strlen(a.path));
        _exit(door_address_lock(&a, &note) == STATUS_OK &&
                      bind(fd, (const struct sockaddr *)&at, sizeof at) == 0
                  ? 0
                  : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(access(a.path, F_OK), 0);
    ck_assert_int_eq(door_address_lock(&a, &note), STATUS_OK);
    ck_assert_int_ne(access(a.path, F_OK), 0);
    door_address_unlock(&a);
}
END_TEST

/* A file that is no socket is not ours to remove. */
START_TEST(test_foreign_file) {
    struct door_address a;
    struct status_note note = {{0}};
    ck_assert_int_eq(door_address_parse(url, &a, &note), STATUS_OK);
    int fd = open(a.path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    ck_assert_int_eq(door_address_lock(&a, &note), STATUS_IO);
    ck_assert_int_eq(access(a.path, F_OK), 0);
    unlink(a.path);
    snprintf(a.path, sizeof a.path, "%s/no/such/folder", folder);
    ck_assert_int_eq(door_address_lock(&a, &note), STATUS_IO);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("listen");
    TCase *t = tcase_create("listen");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_addresses);
    tcase_add_test(t, test_second_server);
    tcase_add_test(t, test_stale);
    tcase_add_test(t, test_foreign_file);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
