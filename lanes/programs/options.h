/* SPDX-License-Identifier: Apache-2.0
 * Options of all programs, from the one table options.def. Values are strict: a number is a whole
 * number or an error, an option that a program does not take is refused by name.
 */
#ifndef LANES_PROGRAMS_OPTIONS_H
#define LANES_PROGRAMS_OPTIONS_H

#include <stdio.h>

#include "lanes/engine.h"
#include "lanes/text/tokenizer.h"

enum option_programs {
    P_RUN = 1,
    P_CHAT = 2,
    P_SERVE = 4,
    P_CTL = 8,
    P_PROVE = 16,
    P_BENCH = 32,
    P_INFO = 64,
    P_TOKENIZE = 128,
    P_DETOKENIZE = 256,
    P_SHOW = 512,
    P_ANY = 1023
};

enum option_id {
#define OPTION(id, name, value, programs, help) OPT_##id,
#include "lanes/programs/options.def"
#undef OPTION
    OPT_COUNT
};

enum { OPT_REPEAT_MAX = 64, OPT_ARGS_MAX = 64 };

struct options {
    uint32_t program; /* one bit of enum option_programs */
    const char *name; /* of the program */
    uint32_t n[OPT_COUNT];
    const char *value[OPT_COUNT][OPT_REPEAT_MAX]; /* "" for flags */
    uint32_t n_args;                              /* words that are no options */
    const char *args[OPT_ARGS_MAX];
};

/* Parses argv[1..] of `roundhouse PROGRAM ...` (argv[0] is the program's name). Accepts --name
 * value and --name=value; "--" ends options. BAD_REQUEST names the word. */
enum status options_parse(uint32_t program, int argc, char **argv, struct options *out,
                          struct status_note *note);
bool options_has(const struct options *o, enum option_id id);
/* The last value given, or otherwise. */
const char *options_text(const struct options *o, enum option_id id, const char *otherwise);
/* Whole numbers with optional K, M, G (1024) suffix where sizes is set, within [min, max]; *out
 * keeps its value when not given. */
enum status options_u64(const struct options *o, enum option_id id, uint64_t min, uint64_t max,
                        bool sizes, uint64_t *out, struct status_note *note);
/* The same as sizes, or N%: a percentage of `of`. */
enum status options_bytes(const struct options *o, enum option_id id, uint64_t of, uint64_t *out,
                          struct status_note *note);
enum status options_u32(const struct options *o, enum option_id id, uint32_t min, uint32_t max,
                        uint32_t *out, struct status_note *note);
/* A finite number within [min, max]. */
enum status options_float(const struct options *o, enum option_id id, float min, float max,
                          float *out, struct status_note *note);
/* Writes the options of a program, one a line. */
void options_help(uint32_t program, FILE *to);
/* Row i of the table for the manual page and info --options; false past the end. */
bool options_row(uint32_t i, const char **name, const char **value, uint32_t *programs,
                 const char **help);

/* Engine settings that the options ask for; the model defaults to the one that ships. */
enum status options_engine(const struct options *o, struct lane_engine_config *config,
                           struct status_note *note);
/* Draw settings, starting from the model's own defaults. */
enum status options_sampling(const struct options *o, const struct krn_config *model,
                             struct krn_sampling *out, struct status_note *note);
/* What --template-date and --thinking say; good while o is. chat: a template is used at all. */
enum status options_template(const struct options *o, bool chat, struct lane_template_options *out,
                             struct status_note *note);
/* Directory of the model that ships: ROUNDHOUSE_MODEL, beside the build, or installed. */
const char *options_default_model(void);

/* Where serve listens and ctl connects when nothing is said: in XDG_RUNTIME_DIR, which is the
 * user's alone. */
enum status options_usual_url(char *url, size_t cap, struct status_note *note);

/* Exit codes of all programs (doc/roundhouse.1). */
enum program_exit {
    EXIT_DONE = 0,
    EXIT_DIFFERS = 1,      /* prove found a difference; a request failed */
    EXIT_USAGE = 64,       /* the command line is wrong */
    EXIT_BAD_DATA = 65,    /* a model or input file is bad */
    EXIT_NO_INPUT = 66,    /* a file cannot be read */
    EXIT_UNAVAILABLE = 69, /* cannot listen, cannot connect, a store is in use */
    EXIT_INTERNAL = 70,    /* device or rank lost */
    EXIT_NO_RESOURCES = 71,
    EXIT_IO = 74,
    EXIT_HALTED = 75 /* serve: a second signal ended it before its drain */
};
enum program_exit program_exit_of(enum status s);

int program_run(int argc, char **argv);
int program_chat(int argc, char **argv);
int program_show(int argc, char **argv);
int program_serve(int argc, char **argv);
int program_ctl(int argc, char **argv);
int program_prove(int argc, char **argv);
int program_bench(int argc, char **argv);
int program_info(int argc, char **argv);
int program_tokenize(int argc, char **argv);
int program_detokenize(int argc, char **argv);

#endif
