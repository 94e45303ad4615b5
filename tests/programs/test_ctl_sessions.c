/* SPDX-License-Identifier: Apache-2.0
 * `roundhouse ctl sessions` as a person uses it: list, show, pin, export, forget, import, over
 * restarts and kill -9 of the server in the middle of it; files that are none; exit codes.
 */
#include "tests/programs/server.h"

static struct command_result out;
static char session[40];

/* A server on this store. */
static pid_t start_server_as(const char *store, const char *option, const char *value) {
    char cache[128];
    snprintf(cache, sizeof cache, "%s/%s", server_folder, store);
    const char *words[] = {"serve",    "--json",       "--quiet", "--listen",
                           server_url, "--threads",    "2",       "--kv-bytes",
                           "64M",      "--disk-cache", cache,     "--disk-budget",
                           "128M",     option,         value,     NULL};
    return server_start(words);
}

static pid_t start_server(const char *store) {
    return start_server_as(store, "--lanes", "64");
}

static void end_server(pid_t pid, int signal) {
    ck_assert_int_eq(server_end(pid, signal), signal == SIGTERM ? 0 : 128 + signal);
}

/* roundhouse ctl --connect URL ARGS; what it says must hold `says`. */
__attribute__((format(printf, 3, 4))) static void ctl(int code, const char *says,
                                                      const char *format, ...) {
    char args[512];
    va_list list;
    va_start(list, format);
    vsnprintf(args, sizeof args, format, list);
    va_end(list);
    command_run(&out, "ctl --connect %s --timeout %d %s 2>&1", server_url, command_seconds(10),
                args);
    ck_assert_msg(out.code == code, "%s: %d %s", args, out.code, out.text);
    ck_assert_msg(strstr(out.text, says) != NULL, "%s: %s", args, out.text);
}

static const char story[] = "generate --greedy --ignore-eos --max-tokens 150 'Once upon a time'";

/* A session into whatever there is already: links are followed, devices and pipes are written into,
 * a file of the user's that has an unlucky name stays, and what fails leaves what was there. */
static void exports(void) {
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && echo mine > file.part && echo old > target && chmod 640 target && "
             "ln -s target link && ln -s new dangling && ln -s /dev/full full && ln -s /dev/stdout "
             "out && mkdir d && "
             "echo old > sealed",
             server_folder);
    ck_assert_int_eq(system(command), 0);
    ctl(0, session, "sessions export %s %s/file", session, server_folder);
    ctl(0, session, "sessions export %s %s/link", session, server_folder);
    ctl(0, session, "sessions export %s %s/dangling", session, server_folder);
    ctl(74, "No space left", "sessions export %s %s/full", session, server_folder);
    ctl(74, "Is a directory", "sessions export %s %s/d", session, server_folder);
    ctl(1, "not_found", "sessions export %032d %s/sealed", 0, server_folder);
    command_run(&out, "ctl --connect %s sessions export %s %s/out | cat > %s/piped", server_url,
                session, server_folder, server_folder);
    snprintf(command, sizeof command,
             "cd %s && cmp file target && cmp file new && cmp file piped && test -L link && "
             "test -L dangling && test -L full && test \"$(cat file.part sealed)\" = \"$(echo "
             "mine; echo old)\" && "
             "test $(stat -c %%a target) = 640 && test $(ls | grep -c part) = 1",
             server_folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(test_carry) {
    static char told[4096];
    pid_t pid = start_server("a");
    ctl(0, "", "%s", story);
    snprintf(told, sizeof told, "%.4000s", out.text);
    ctl(0, "\"tokens\":154", "sessions --json");
    const char *at = strstr(out.text, "\"session\":\"");
    ck_assert_ptr_nonnull(at);
    snprintf(session, sizeof session, "%.32s", at + 11);
    ctl(0, session, "sessions");
    ctl(0, "[0,", "sessions show %s", session);
    ctl(0, "3 pages", "sessions pin %s", session);
    ctl(0, session, "sessions export %s %s/file", session, server_folder);
    exports();
    ctl(0, "no_room", "stats");
    end_server(pid, SIGKILL); /* what was said to be pinned is on the disk, and so is the pin */
    pid = start_server("a");
    ctl(0, "pinned", "sessions list");
    ctl(0, "", "%s", story);
    ck_assert_str_eq(out.text, told);
    ctl(0, "forgot", "sessions forget %s", session);
    ctl(1, "not_found", "sessions forget %s", session);
    ctl(1, "not_found", "sessions show %s --tenant somebody", session);
    end_server(pid, SIGTERM);

    /* The server is killed when half of an import is there; then all of it comes. */
    char command[512];
    snprintf(command, sizeof command, "head -c 700000 %s/file > %s/half", server_folder,
             server_folder);
    ck_assert_int_eq(system(command), 0);
    pid = start_server("b");
    ctl(65, "ends before its session does", "sessions import %s/half", server_folder);
    end_server(pid, SIGKILL);
    pid = start_server("b");
    ctl(0, session, "sessions import %s/file", server_folder);
    ctl(0, session, "sessions import %s/file", server_folder);
    ctl(0, "", "%s --name again --json", story);
    ck_assert_ptr_nonnull(strstr(out.text, "\"resumed_tokens\":4"));
    ctl(0, "", "%s", story);
    ck_assert_str_eq(out.text, told);
    end_server(pid, SIGTERM);
}
END_TEST

/* Longer than what tells one miss from another. */
static const char tale[] =
    "'Once upon a time there was a fox who lived in the deep dark wood with her "
    "young' --tenant t --ignore-eos";

/* The same directory for another V, then for two ranks: a miss with that reason, and computed
 * anew; without its tenant's name it is not there. */
START_TEST(test_rebuild) {
    static const struct {
        const char *option, *value, *why;
    } other[] = {{"--virtual-ranks", "1", "other virtual_ranks"}, {"--ranks", "2", "other world"}};
    pid_t pid = start_server("a");
    ctl(0, "", "generate --greedy --max-tokens 70 %s", tale);
    ctl(0, " 88 ", "sessions --tenant t");
    end_server(pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        pid = start_server_as("a", other[i].option, other[i].value);
        ctl(0, other[i].why, "sessions --tenant t");
        const char *row = strstr(strstr(out.text, "of no use"), "\n");
        snprintf(session, sizeof session, "%.32s", row + 1);
        ctl(0, "session, latest", "sessions");
        ck_assert_ptr_null(strstr(out.text, "of no use"));
        ctl(0, "miss_key", "generate --max-tokens 1 %s --json", tale);
        ctl(1, "not_found", "sessions rebuild %s", session);
        ctl(0, "88 tokens", "sessions rebuild --tenant t %s", session);
        ctl(0, other[i].why, "sessions --tenant t"); /* stays until its room is wanted */
        ctl(0, "\"resumed_tokens\":18", "generate --max-tokens 1 %s --json", tale);
        end_server(pid, SIGTERM);
    }
    pid = start_server("a"); /* and what was there is there */
    ctl(0, "\"resumed_tokens\":18", "generate --max-tokens 1 %s --json", tale);
    ctl(0, "other world", "sessions --tenant t");
    ctl(0, "rebuilt", "sessions rebuild --tenant t");
    end_server(pid, SIGTERM);
    pid = start_server_as("a", "--virtual-ranks", "1"); /* one of another V, one of two ranks */
    ctl(0, "other virtual_ranks", "sessions --tenant t");
    const char *row = strstr(strstr(out.text, "of no use"), "\n");
    for (int i = 0; i < 2; i++, row = strchr(row + 1, '\n')) {
        static char name[2][40], why[2][40];
        snprintf(name[i], sizeof name[i], "%.32s", row + 1);
        snprintf(why[i], sizeof why[i], "%.20s", strstr(row, "other "));
        if (i == 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (strncmp(why[k], "other virtual_ranks", 19) == 0)
                ctl(0, "2 pages", "sessions forget --tenant t %s", name[k]);
            else
                ctl(1, "another number of ranks", "sessions forget --tenant t %s", name[k]);
    }
    ctl(0, "other world", "sessions --tenant t");
    ck_assert_ptr_null(strstr(out.text, "other virtual_ranks"));
    command_run(&out, "ctl sessions --disk-cache %s/a --tenant t 2>&1",
                server_folder); /* beside it */
    ck_assert_int_eq(out.code, 0);
    ck_assert_ptr_nonnull(strstr(out.text, "1 virtual ranks, 1 ranks"));
    ck_assert_ptr_nonnull(strstr(out.text, "virtual ranks, 2 ranks"));
    end_server(pid, SIGTERM);
    command_run(&out, "ctl sessions list --disk-cache %s/a --tenant nobody --json", server_folder);
    ck_assert(out.code == 0 && out.bytes == 0);
    command_run(&out, "ctl sessions --disk-cache %s/a/index 2>&1", server_folder);
    ck_assert(out.code == 66 && strstr(out.text, "holds no session store") != NULL);
    command_run(&out, "ctl sessions --disk-cache %s/b 2>&1", server_folder);
    ck_assert(out.code == 66 && strstr(out.text, "no such directory") != NULL);
    command_run(&out, "ctl sessions forget x --disk-cache %s/a 2>&1", server_folder);
    ck_assert_int_eq(out.code, 64);
}
END_TEST

/* A disk that takes nothing: whoever drains the server hears how much is lost. */
START_TEST(test_unsaved) {
    pid_t pid = start_server_as("full", "--disk-floor", "100%");
    command_run(&out, "ctl --connect %s generate Once --max-tokens 70 --ignore-eos", server_url);
    ck_assert_int_eq(out.code, 0);
    ctl(0, "session, latest", "sessions");
    snprintf(session, sizeof session, "%.32s", strchr(out.text, '\n') + 1);
    command_run(&out, "ctl --connect %s --timeout 1 sessions pin %s 2>&1", server_url, session);
    ck_assert_msg(out.code == 1 && strstr(out.text, "took none of late: its budget or its floor"),
                  "%d %s", out.code, out.text);
    command_run(&out, "ctl --connect %s drain 5 --json", server_url);
    ck_assert_int_eq(out.code, 0);
    ck_assert_ptr_nonnull(strstr(out.text, "\"unsaved\":2,\"why\":\""));
    ck_assert_int_eq(server_wait(pid), 0);
}
END_TEST

START_TEST(test_refused) {
    char command[512];
    snprintf(command, sizeof command, "echo nothing of the kind > %s/odd; : > %s/empty",
             server_folder, server_folder);
    ck_assert_int_eq(system(command), 0);
    memset(session, '0', 32);
    session[32] = 0;
    pid_t pid = start_server("a");
    ctl(0, "session, latest used first", "sessions");
    command_run(&out, "run --quiet --prompt x --disk-cache %s/a --disk-budget 128M 2>&1",
                server_folder);
    ck_assert_msg(out.code == 69 && strstr(out.text, "in use by another") != NULL, "%d %s",
                  out.code, out.text);
    command_run(&out, "run --quiet --prompt x --disk-cache /proc/nope 2>&1");
    ck_assert_msg(out.code == 64 && strstr(out.text, "/proc/nope") != NULL, "%d %s", out.code,
                  out.text);
    ctl(1, "not_found", "sessions export %s %s/none", session, server_folder);
    ck_assert_int_ne(access(server_folder, R_OK), -1);
    snprintf(command, sizeof command, "%s/none", server_folder);
    ck_assert_int_eq(access(command, F_OK), -1); /* nothing stays of what failed */
    ctl(74, "cannot be written", "sessions export %s /no/such/folder/file", session);
    ctl(65, "ends before", "sessions import %s/odd", server_folder);
    ctl(65, "ends before", "sessions import %s/empty", server_folder);
    ctl(66, "cannot be read", "sessions import %s/nobody", server_folder);
    ctl(66, "Is a directory", "sessions import %s", server_folder);
    ctl(1, "32 hex digits", "sessions pin nonsense");
    ctl(64, "usage", "sessions pin");
    ctl(64, "usage", "sessions nonsense");
    ctl(0, "export NAME FILE", "sessions --help");
    end_server(pid, SIGTERM);
}
END_TEST

int main(void) {
    Suite *s = suite_create("ctl_sessions");
    TCase *t = tcase_create("ctl_sessions");
    tcase_add_checked_fixture(t, server_setup, server_teardown);
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_carry);
    tcase_add_test(t, test_rebuild);
    tcase_add_test(t, test_unsaved);
    tcase_add_test(t, test_refused);
    suite_add_tcase(s, t);
    return test_run(s);
}
