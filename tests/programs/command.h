/* SPDX-License-Identifier: Apache-2.0
 * Runs the program that was just built, as a person would, and gives its exit code and output.
 * RH_EMULATOR: words that go before the program when this machine cannot execute it by itself; it
 * then may take COMMAND_EMULATED times as long.
 */
#ifndef TESTS_PROGRAMS_COMMAND_H
#define TESTS_PROGRAMS_COMMAND_H

#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/harness.h"

struct command_result {
    int code; /* exit code, or 128 + signal */
    size_t bytes;
    char text[1 << 20];
};

enum { COMMAND_EMULATED = 10 };

static inline const char *command_emulator(void) {
    const char *words = getenv("RH_EMULATOR");
    return words != NULL ? words : "";
}

static inline const char *command_builddir(void) {
    const char *build = getenv("RH_BUILDDIR");
    return build != NULL ? build : ".";
}

static inline int command_seconds(int seconds) {
    return command_emulator()[0] != '\0' ? COMMAND_EMULATED * seconds : seconds;
}

static inline void command_list(struct command_result *r, int seconds, const char *format,
                                va_list list) {
    char args[8192], line[16384];
    vsnprintf(args, sizeof args, format, list);
    snprintf(line, sizeof line,
             "ROUNDHOUSE_MODEL='%s/share/fable-5m' timeout %d %s '%s/roundhouse' %s", test_srcdir(),
             command_seconds(seconds), command_emulator(), command_builddir(), args);
    FILE *f = popen(line, "r");
    ck_assert_ptr_nonnull(f);
    r->bytes = fread(r->text, 1, sizeof r->text - 1, f);
    r->text[r->bytes] = '\0';
    int status = pclose(f);
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs "roundhouse ARGS" through the shell; say 2>&1 for both streams, 2>/dev/null for one. */
__attribute__((format(printf, 2, 3), unused)) static inline void
command_run(struct command_result *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    command_list(r, 120, format, list);
    va_end(list);
}

/* The same with another bound on its seconds. */
__attribute__((format(printf, 3, 4), unused)) static inline void
command_run_for(struct command_result *r, int seconds, const char *format, ...) {
    va_list list;
    va_start(list, format);
    command_list(r, seconds, format, list);
    va_end(list);
}

#endif
