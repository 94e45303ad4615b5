/* SPDX-License-Identifier: Apache-2.0
 * A real `roundhouse serve` process and real `ctl` processes: ready line, streaming, exit codes,
 * signals, a second server on the same path, a client that is killed.
 */
#include "tests/programs/server.h"

static struct command_result out;
/* A server that has said that it is ready. */
static pid_t start_server(const char *drain_seconds) {
    const char *words[] = {"serve", "--json",          "--listen",    server_url,   "--threads",
                           "2",     "--drain-seconds", drain_seconds, "--kv-bytes", "64M",
                           NULL};
    return server_start(words);
}

START_TEST(test_stream_and_drain) {
    pid_t pid = start_server("30");
    ck_assert(server_said("KV capacity"));
    ck_assert(server_said("roundhouse: weights "));
    ck_assert(server_said("listening on"));
    command_run(&out, "ctl --connect %s ping", server_url);
    ck_assert_int_eq(out.code, 0);
    command_run(&out, "ctl --connect %s --json info", server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_ptr_nonnull(strstr(out.text, "\"model\":\"fable-5m\""));
    const char *bytes = strstr(out.text, "\"weights_bytes\":");
    ck_assert(bytes != NULL && strtoull(bytes + 16, NULL, 10) > 5000000); /* two a parameter */
    static char first[4096];
    command_run(&out, "ctl --connect %s generate 'Once upon a time' --max-tokens 20 --greedy",
                server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_uint_gt(out.bytes, 20);
    snprintf(first, sizeof first, "%.4000s", out.text);
    command_run(&out,
                "ctl --connect %s generate 'Once upon a time' --max-tokens 20 --greedy --draft 0",
                server_url);
    ck_assert_str_eq(out.text, first);
    command_run(&out, "ctl --connect %s generate x --max-tokens 1 --temperature 0 --name two",
                server_url);
    ck_assert_int_eq(out.code, 0);
    command_run(&out, "ctl --connect %s generate y --max-tokens 1 --name two 2>&1", server_url);
    ck_assert_int_eq(out.code, 1);
    ck_assert_ptr_nonnull(strstr(out.text, "(duplicate)"));
    command_run(&out, "ctl --connect %s submit '{\"name\":\"three\",\"prompt\":\"\"}' 2>&1",
                server_url);
    ck_assert_int_eq(out.code, 1);
    ck_assert_ptr_nonnull(strstr(out.text, "(empty_prompt)"));
    command_run(&out, "ctl --connect %s --json read two", server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_ptr_nonnull(strstr(out.text, "\"type\":\"ended\""));
    command_run(&out, "ctl --connect %s read nobody 2>&1", server_url);
    ck_assert_int_eq(out.code, 1);
    command_run(&out, "ctl --connect %s requests", server_url);
    ck_assert_ptr_nonnull(strstr(out.text, "two"));
    command_run(&out, "ctl --connect %s --json stats", server_url);
    ck_assert_ptr_nonnull(strstr(out.text, "\"pages_free\":"));
    /* A second server on the same path is refused by name. */
    command_run(&out, "serve --listen %s 2>&1", server_url);
    ck_assert_int_eq(out.code, 69);
    char want[64];
    snprintf(want, sizeof want, "is served by process %ld", (long)pid);
    ck_assert_ptr_nonnull(strstr(out.text, want));
    kill(pid, SIGTERM);
    ck_assert_int_eq(server_wait(pid), 0);
    ck_assert(server_said("drained"));
    ck_assert(server_said("miss_new "));                /* why memory did not help */
    ck_assert_int_eq(access(server_url + 6, F_OK), -1); /* socket and lock are gone */
    command_run(&out, "ctl --connect %s ping 2>&1", server_url);
    ck_assert_int_eq(out.code, 69);
}
END_TEST

/* The first signal lets a reply finish, and refuses new ones meanwhile. */
START_TEST(test_drain_finishes) {
    char line[8192];
    int from;
    pid_t pid = start_server("60");
    const char *words[] = {"ctl",          "--connect", server_url,     "generate", "Once",
                           "--max-tokens", "150",       "--ignore-eos", "--json",   NULL};
    pid_t client = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f)); /* it has started */
    kill(pid, SIGINT);
    bool length = false;
    while (fgets(line, sizeof line, f) != NULL)
        length = length || strstr(line, "\"reason\":\"length\"") != NULL;
    fclose(f);
    ck_assert(length);
    ck_assert_int_eq(server_wait(client), 0);
    ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

/* The deadline passes: what still runs is cancelled and told so. */
START_TEST(test_drain_deadline) {
    char line[8192];
    int from;
    pid_t pid = start_server("0");
    const char *words[] = {"ctl",          "--connect", server_url,     "generate", "Once",
                           "--max-tokens", "4000",      "--ignore-eos", "--json",   NULL};
    pid_t client = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    kill(pid, SIGTERM);
    bool cancelled = false;
    while (fgets(line, sizeof line, f) != NULL)
        cancelled = cancelled || strstr(line, "\"reason\":\"cancelled\"") != NULL;
    fclose(f);
    ck_assert(cancelled);
    ck_assert_int_eq(server_wait(client), 1);
    ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

/* The second signal halts: the client gets a reason, not silence, and the exit code says so. */
START_TEST(test_second_signal) {
    char line[8192];
    int from;
    pid_t pid = start_server("600");
    const char *words[] = {"ctl",          "--connect", server_url,     "generate", "Once",
                           "--max-tokens", "4000",      "--ignore-eos", "--json",   NULL};
    pid_t client = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    kill(pid, SIGTERM);
    while (!server_said("draining"))
        ;
    kill(pid, SIGTERM);
    ck_assert_int_eq(server_wait(pid), 75);
    bool shut = false;
    while (fgets(line, sizeof line, f) != NULL)
        shut = shut || strstr(line, "\"code\":\"shutdown\"") != NULL;
    fclose(f);
    ck_assert(shut);
    ck_assert_int_eq(server_wait(client), 1);
}
END_TEST

/* A client is killed in the middle of its reply; another reads that reply on to its end. */
START_TEST(test_client_killed) {
    char line[8192];
    int from;
    pid_t pid = start_server("30");
    const char *words[] = {"ctl", "--connect",    server_url, "generate", "Once",   "--max-tokens",
                           "100", "--ignore-eos", "--json",   "--name",   "orphan", NULL};
    pid_t client = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    kill(client, SIGKILL);
    fclose(f);
    ck_assert_int_eq(server_wait(client), 128 + SIGKILL);
    command_run(&out, "ctl --connect %s --json read orphan", server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_ptr_nonnull(strstr(out.text, "\"index\":0,"));
    ck_assert_ptr_nonnull(strstr(out.text, "\"index\":99,"));
    /* And a server that is killed leaves nothing that hinders the next one. */
    kill(pid, SIGKILL);
    server_wait(pid);
    pid = start_server("1");
    command_run(&out, "ctl --connect %s drain 1", server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

/* The server is killed while somebody waits for the end of its drain, who hears that. */
START_TEST(test_killed_in_drain) {
    char line[8192];
    int from, ignored;
    pid_t pid = start_server("600");
    const char *words[] = {"ctl",          "--connect", server_url,     "generate", "Once",
                           "--max-tokens", "4000",      "--ignore-eos", "--json",   NULL};
    const char *drain[] = {"ctl", "--connect", server_url, "drain", NULL};
    pid_t client = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f)); /* so the drain does not end by itself */
    pid_t waits = server_run(&ignored, drain);
    do {
        command_run(&out, "ctl --connect %s --json ping", server_url);
        ck_assert_int_eq(out.code, 0);
    } while (strstr(out.text, "\"draining\":true") == NULL);
    ck_assert_int_eq(server_end(pid, SIGKILL), 128 + SIGKILL);
    ck_assert_int_eq(server_wait(waits), 69);
    ck_assert(server_said("the server has gone"));
    server_end(client, SIGKILL);
    fclose(f);
    close(ignored);
}
END_TEST

START_TEST(test_refused) {
    static const struct {
        const char *args, *says;
        int code;
    } cases[] = {
        {"serve --listen tcp://0.0.0.0:5555", "needs TLS or a key", 69},
        {"serve --listen ftp://x", "only ipc://PATH", 69},
        {"serve --listen nonsense", "only ipc://PATH", 64},
        {"serve --listen tcp://127.0.0.1", "must be tcp://HOST:PORT", 64},
        {"serve --listen ipc:///no/such/folder/s", "No such file", 69},
        {"serve --model /no/such/model --listen ipc:///tmp/never", "/no/such/model", 66},
        {"serve --lanes 0", "--lanes", 64},
        {"serve --drain-seconds -1", "--drain-seconds", 64},
        {"serve extra", "extra", 64},
        {"serve --connect x", "--connect", 64},
        {"ctl", "usage", 64},
        {"ctl --connect ipc:///tmp/no-such-socket ping", "no server listens there", 69},
        {"ctl --connect nonsense ping", "nonsense", 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        command_run(&out, "%s 2>&1", cases[i].args);
        ck_assert_msg(out.code == cases[i].code, "%s: %d %s", cases[i].args, out.code, out.text);
        ck_assert_msg(strstr(out.text, cases[i].says) != NULL, "%s: %s", cases[i].args, out.text);
    }
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("serve");
    TCase *t = tcase_create("serve");
    tcase_add_checked_fixture(t, server_setup, server_teardown);
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_stream_and_drain);
    tcase_add_test(t, test_drain_finishes);
    tcase_add_test(t, test_drain_deadline);
    tcase_add_test(t, test_second_signal);
    tcase_add_test(t, test_client_killed);
    tcase_add_test(t, test_killed_in_drain);
    tcase_add_test(t, test_refused);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
