/* SPDX-License-Identifier: Apache-2.0
 * roundhouse PROGRAM ...: one binary, one table of programs.
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "lanes/programs/ctl.h"

static const struct {
    const char *name;
    uint32_t bit;
    int (*main)(int argc, char **argv);
    const char *synopsis, *help;
} programs[] = {
    {"run", P_RUN, program_run, "run [--prompt TEXT | --file FILE | --tokens FILE]... [TEXT]...",
     "run one or many prompts at once and print the replies"},
    {"chat", P_CHAT, program_chat, "chat", "talk with the model; each turn resumes the one before"},
    {"serve", P_SERVE, program_serve, "serve [--listen URL]...",
     "serve sessions over nng (doc/protocol.md)"},
    {"ctl", P_CTL, program_ctl,
     "ctl [--connect URL] ping | info | stats | requests | sessions [...] | generate TEXT | "
     "submit JSON | "
     "read NAME [CURSOR] | cancel NAME | drain [SECONDS]",
     "talk to a server"},
    {"prove", P_PROVE, program_prove, "prove [--axes LIST] [--json FILE]",
     "prove on this machine that what a session answers depends on nothing else"},
    {"bench", P_BENCH, program_bench, "bench [--json FILE]",
     "measure this machine with this model"},
    {"info", P_INFO, program_info, "info", "what is in a model directory and how it would run"},
    {"tokenize", P_TOKENIZE, program_tokenize, "tokenize [TEXT]...", "text to token ids"},
    {"detokenize", P_DETOKENIZE, program_detokenize, "detokenize [ID]...", "token ids to text"},
    {"show", P_SHOW, program_show, "show", "watch sessions run side by side, resumed, and checked"},
};
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

static void main_usage(FILE *to) {
    fprintf(to, "roundhouse %s: LLM inference where a session's answer depends on nothing else\n\n",
            PACKAGE_VERSION);
    fprintf(to,
            "usage: roundhouse PROGRAM [options]; roundhouse PROGRAM --help for its options\n\n");
    for (uint32_t i = 0; i < PROGRAMS; i++)
        fprintf(to, "  %-11s %s\n", programs[i].name, programs[i].help);
    fprintf(to,
            "\nexit codes: 0 done, 1 differs or failed, 64 usage, 65 bad model or data, 66 no such "
            "file,\n69 cannot listen or connect (or a store is in use), 70 device or rank "
            "lost,\n71 out of memory or KV budget, 74 I/O, 75 halted by a second signal\n");
}

static bool main_wants_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* What was not written was not done. */
static int main_end(const char *program, int code) {
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_DONE)
        return code;
    fprintf(stderr, "roundhouse %s: standard output cannot be written\n", program);
    return EXIT_IO;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        main_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        main_usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("roundhouse %s\n", PACKAGE_VERSION);
        return EXIT_DONE;
    }
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        if (strcmp(argv[1], programs[i].name) != 0)
            continue;
        bool help = main_wants_help(argc - 1, argv + 1);
        for (int k = 2; help && programs[i].bit == P_CTL && k < argc; k++)
            if (strcmp(argv[k], "sessions") == 0) {
                ctl_sessions_help(stdout);
                return EXIT_DONE;
            }
        if (help) {
            printf("usage: roundhouse %s [options]\n%s\n\n", programs[i].synopsis,
                   programs[i].help);
            options_help(programs[i].bit, stdout);
            return EXIT_DONE;
        }
        return main_end(argv[1], programs[i].main(argc - 1, argv + 1));
    }
    fprintf(stderr, "roundhouse: '%s' is no program; roundhouse --help lists them\n", argv[1]);
    return EXIT_USAGE;
}
