/* SPDX-License-Identifier: Apache-2.0
 * A folder of a test's own with a real `roundhouse serve` in it, and other programs that stay while
 * the test goes on. What they say on standard error gathers in the folder's file "err".
 */
#ifndef TESTS_PROGRAMS_SERVER_H
#define TESTS_PROGRAMS_SERVER_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/programs/command.h"

enum { SERVER_WORDS = 48 };

static char server_folder[64], server_url[96];

/* A fixture of Check: an empty folder, where url names a socket that is not there yet. */
static inline void server_setup(void) {
    snprintf(server_folder, sizeof server_folder, "/tmp/serve-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server_folder));
    snprintf(server_url, sizeof server_url, "ipc://%s/s", server_folder);
}

static inline void server_teardown(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", server_folder);
    ck_assert_int_eq(system(command), 0);
}

/* All that was said on standard error until now. */
static inline const char *server_words(void) {
    static char all[1 << 16];
    char path[96];
    snprintf(path, sizeof path, "%s/err", server_folder);
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    all[n] = '\0';
    return all;
}

static inline bool server_said(const char *text) {
    return strstr(server_words(), text) != NULL;
}

/* Starts roundhouse with these words (NULL at the end); its output goes to *from. */
static inline pid_t server_run(int *from, const char *const *words) {
    char program[4096], model[4096], err[96], emulator[1024], *save = NULL;
    char *argv[SERVER_WORDS];
    int fds[2], n = 0;
    snprintf(program, sizeof program, "%s/roundhouse", command_builddir());
    snprintf(model, sizeof model, "%s/share/fable-5m", test_srcdir());
    snprintf(err, sizeof err, "%s/err", server_folder);
    snprintf(emulator, sizeof emulator, "%s", command_emulator());
    for (char *w = strtok_r(emulator, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    argv[n++] = program;
    for (; *words != NULL; words++) {
        ck_assert_int_lt(n, SERVER_WORDS - 1);
        argv[n++] = (char *)(uintptr_t)*words;
    }
    argv[n] = NULL;
    ck_assert_int_eq(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int e = open(err, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fds[1], STDOUT_FILENO);
        dup2(e, STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        setenv("ROUNDHOUSE_MODEL", model, 1);
        /* Nothing of a failed test stays for long. */
        alarm((unsigned)command_seconds(120));
        execvp(argv[0], argv);
        _exit(127);
    }
    close(fds[1]);
    *from = fds[0];
    return pid;
}

/* The same for words that begin with "serve", "--json"; it has said that it is ready. */
static inline pid_t server_start(const char *const *words) {
    char line[4096] = "";
    int from;
    pid_t pid = server_run(&from, words);
    FILE *f = fdopen(from, "r");
    ck_assert_msg(fgets(line, sizeof line, f) != NULL, "%s", server_words());
    ck_assert_ptr_nonnull(strstr(line, "\"ready\":true"));
    ck_assert_ptr_nonnull(strstr(line, "\"kv_tokens\":"));
    fclose(f);
    return pid;
}

/* Its exit code, or 128 + signal. */
static inline int server_wait(pid_t pid) {
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int server_end(pid_t pid, int signal) {
    kill(pid, signal);
    return server_wait(pid);
}

#endif
