/* SPDX-License-Identifier: Apache-2.0
 * The mechanical rules of how our code looks, checked over the whole tree. An exception stands in
 * tests/tidy.allow with its reason, and an exception that nothing needs any more is itself an
 * error.
 */
#include "tests/harness.h"
#include "tests/tree.h"

#include <ctype.h>
#include <string.h>

enum {
    COLUMNS_MAX = 100,
    FUNCTION_LINES_MAX = 100,
    SOURCE_LINES_MAX = 800,
    HEADER_LINES_MAX = 150,
    CUDA_LINES_MAX = 600,
    FOLDER_README_LINES_MAX = 40,
    ALLOW_MAX = 64,
    MESSAGES_MAX = 400
};

struct finding {
    const char *rule;
    const char *path;
    int line;
    char text[200];
};

/* What was found so far in this process; a test resets it. */
static struct finding findings[MESSAGES_MAX];
static int n_findings;

static void found(const char *rule, const char *path, int line, const char *text, size_t n) {
    if (n_findings == MESSAGES_MAX) /* enough to work on; the next run shows the rest */
        return;
    struct finding *f = &findings[n_findings++];
    *f = (struct finding){.rule = rule, .path = path, .line = line};
    snprintf(f->text, sizeof f->text, "%.*s", (int)(n < 160 ? n : 160), text);
}

/* Calls check for each line of text, numbered from 1, without its line end. */
static void each_line(const char *path, const char *text,
                      void (*check)(const char *path, int line, const char *s, size_t n)) {
    int line = 0;
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        check(path, ++line, p, n);
        p += n + (p[n] == '\n');
    }
}

static int line_count(const char *text) {
    int n = 0;
    for (const char *p = text; *p != '\0'; p++)
        n += *p == '\n';
    return n;
}

static bool word_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The first occurrence of word (as a whole word) in s[0..n), or NULL. */
static const char *find_word(const char *s, size_t n, const char *word) {
    size_t m = strlen(word);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(s + i, word, m) == 0 && (i == 0 || !word_char(s[i - 1])) &&
            (i + m == n || !word_char(s[i + m])))
            return s + i;
    return NULL;
}

static const char *find_text(const char *s, size_t n, const char *text) {
    size_t m = strlen(text);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(s + i, text, m) == 0)
            return s + i;
    return NULL;
}

/* Rules of every text file. The needles are written in halves, so that this file does not find
 * itself. */
static void check_any_line(const char *path, int line, const char *s, size_t n) {
    static const char *const markers[] = {"TO"
                                          "DO",
                                          "FIX"
                                          "ME",
                                          "XX"
                                          "X",
                                          "HA"
                                          "CK"};
    static const char *const places[] = {"/wo"
                                         "rk/",
                                         "/fa"
                                         "rm/",
                                         "/ro"
                                         "ot/",
                                         "/tmp/"
                                         "wt",
                                         "/ho"
                                         "me/",
                                         ".lib"
                                         "rary/",
                                         "pypi"
                                         ".org",
                                         "npmjs"
                                         ".",
                                         "deb.deb"
                                         "ian.org",
                                         "rubygems"
                                         ".",
                                         "crates"
                                         ".io"};
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++)
        if (find_word(s, n, markers[i]) != NULL)
            found("marker", path, line, s, n);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (find_text(s, n, places[i]) != NULL)
            found("place", path, line, s, n);
    if (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t') && !tree_ends(path, ".md"))
        found("blank-end", path, line, s, n);
    if (n > 0 && s[n - 1] == '\r')
        found("line-end", path, line, s, n);
}

/* Rules of C sources as written, comments included. */
static void check_c_line(const char *path, int line, const char *s, size_t n) {
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)s[i] & 0xc0) != 0x80;
    /* A table has one row a line, however wide. */
    static bool in_table;
    if (line == 1)
        in_table = false;
    if (find_text(s, n, "clang-format o") != NULL)
        in_table = find_text(s, n, "clang-format off") != NULL;
    bool table = tree_ends(path, ".def") || (in_table && tree_ends(path, "protocol.h"));
    if (columns > COLUMNS_MAX && !table)
        found("columns", path, line, s, n);
    if (memchr(s, '\t', n) != NULL)
        found("tab", path, line, s, n);
    if (find_word(s, n,
                  "st"
                  "ub") != NULL ||
        find_text(s, n,
                  "not "
                  "implemented") != NULL)
        found("marker", path, line, s, n);
}

/* The row functions of one instruction set are compiled as one unit from headers that hold code. */
static bool is_fragment(const char *path) {
    return tree_starts(path, "kernels/cpu/");
}

/* Rules of C code: s has comments and strings blanked. */
static void check_code_line(const char *path, int line, const char *s, size_t n) {
    const char *v = find_word(s, n, "volatile");
    /* In tests it keeps a compiler from computing what is measured. */
    if (v != NULL && !tree_starts(path, "tests/") && find_text(s, n, "asm") == NULL &&
        find_word(s, n, "sig_atomic_t") == NULL)
        found("volatile", path, line, s, n);
    bool atomics = tree_starts(path, "actors/") || tree_starts(path, "gpu/team") ||
                   tree_starts(path, "fabric/coll_") || tree_starts(path, "tests/");
    if (!atomics && (find_word(s, n, "_Atomic") != NULL || find_text(s, n, "stdatomic.h") != NULL ||
                     find_text(s, n, "__atomic_") != NULL || find_text(s, n, "__sync_") != NULL))
        found("atomic", path, line, s, n);
    if (n > 8 && memcmp(s, "typedef ", 8) == 0 && !is_fragment(path) &&
        (find_word(s, n, "struct") != NULL || find_word(s, n, "union") != NULL ||
         find_word(s, n, "enum") != NULL) &&
        memchr(s, '(', n) == NULL)
        found("typedef", path, line, s, n);
    if (tree_starts(path, "tests/") &&
        (find_word(s, n, "sleep") != NULL || find_word(s, n, "usleep") != NULL ||
         find_word(s, n, "nanosleep") != NULL || find_word(s, n, "clock_nanosleep") != NULL))
        found("sleep", path, line, s, n);
}

/* The prefixes that a folder's public names carry. */
static bool prefix_fits(const char *path, const char *name) {
    static const struct {
        const char *folder, *prefixes;
    } table[] = {
        {"actors/", "act_ status_ check_ sim_ journal_"},
        {"kernels/", "krn_"},
        {"gpu/", "gpu_"},
        {"fabric/", "fab_"},
        {"sessions/", "ses_"},
        {"lanes/door/", "door_ desk_"},
        {"lanes/programs/",
         "program_ client_ ctl_ input_ output_ options_ prove_ show_ loading_ bench_ scratch_"},
        {"lanes/text/", "lane_ text_ utf8_ jinja_"},
        {"lanes/", "lane_"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!tree_starts(path, table[i].folder))
            continue;
        for (const char *p = table[i].prefixes; *p != '\0';) {
            size_t n = strcspn(p, " ");
            if (strncmp(name, p, n) == 0)
                return true;
            p += n + (p[n] == ' ');
        }
        return false;
    }
    return true;
}

/* A line of a header at column 0 that declares or defines a function: its name carries the folder's
 * prefix. */
static void check_header_line(const char *path, int line, const char *s, size_t n) {
    const char *open = memchr(s, '(', n);
    if (n == 0 || open == NULL || is_fragment(path) || tree_ends(path, "private.h") ||
        !(isalpha((unsigned char)*s) || *s == '_') || memchr(s, '=', (size_t)(open - s)) != NULL ||
        tree_starts(s, "typedef ") || tree_starts(s, "_Static_assert"))
        return;
    const char *end = open;
    while (end > s && end[-1] == ' ')
        end--;
    const char *name = end;
    while (name > s && word_char(name[-1]))
        name--;
    char copy[128];
    size_t m = (size_t)(end - name);
    /* One word before the parenthesis is a macro's use or a wrapped line, not a declaration. */
    if (m == 0 || m >= sizeof copy || name == s || tree_starts(name, "__attribute__"))
        return;
    memcpy(copy, name, m);
    copy[m] = '\0';
    if (!prefix_fits(path, copy))
        found("prefix", path, line, s, n);
}

/* Lengths of functions: a line that ends in ") {" outside any body opens one, a brace at column 0
 * closes it. */
static void check_functions(const char *path, const char *code) {
    int line = 0, begin = 0;
    for (const char *p = code; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        line++;
        if (begin == 0 && n >= 3 && memcmp(p + n - 3, ") {", 3) == 0 && !tree_starts(p, "#"))
            begin = line;
        if (begin != 0 && *p == '}') {
            if (line - begin + 1 > FUNCTION_LINES_MAX)
                found("function", path, begin, "a function of too many lines", 28);
            begin = 0;
        }
        p += n + (p[n] == '\n');
    }
}

static bool is_c(const char *path) {
    return tree_ends(path, ".c") || tree_ends(path, ".h") || tree_ends(path, ".cu") ||
           tree_ends(path, ".cuh") || tree_ends(path, ".def");
}

static bool wants_spdx(const char *path, const char *text) {
    return is_c(path) || tree_ends(path, ".am") || tree_ends(path, ".ac") ||
           tree_starts(text, "#!");
}

/* One SPDX line, the first, or the second below "#!". */
static bool has_spdx(const char *text) {
    if (tree_starts(text, "#!"))
        text += strcspn(text, "\n") + 1;
    const char *at = strstr(text, "SPDX-License-Identifier: Apache-2.0");
    return at != NULL && at < text + strcspn(text, "\n");
}

static bool guard_fits(const char *path, const char *text) {
    char guard[300] = "#ifndef ";
    size_t at = strlen(guard);
    for (const char *p = path; *p != '\0' && at + 2 < sizeof guard; p++)
        guard[at++] = word_char(*p) ? (char)toupper((unsigned char)*p) : '_';
    guard[at] = '\n';
    guard[at + 1] = '\0';
    return strstr(text, guard) != NULL;
}

static void check_sizes(const char *path, const char *text) {
    int lines = line_count(text), most = 0;
    const char *slash = strrchr(path, '/');
    if (tree_ends(path, ".c"))
        most = SOURCE_LINES_MAX;
    else if (tree_ends(path, ".h"))
        most = is_fragment(path) ? SOURCE_LINES_MAX : HEADER_LINES_MAX;
    else if (tree_ends(path, ".cu"))
        most = CUDA_LINES_MAX;
    else if (slash != NULL && strcmp(slash, "/README.md") == 0 &&
             !tree_starts(path, "tests/reference/"))
        most = FOLDER_README_LINES_MAX;
    if (most != 0 && lines > most) {
        char text_of[64];
        int n = snprintf(text_of, sizeof text_of, "%d lines, at most %d", lines, most);
        found("lines", path, lines, text_of, (size_t)n);
    }
}

static void check_file(const char *path, const char *text) {
    check_sizes(path, text);
    each_line(path, text, check_any_line);
    if (wants_spdx(path, text) && !has_spdx(text))
        found("spdx", path, 1, text, strcspn(text, "\n"));
    if (*text != '\0' && text[strlen(text) - 1] != '\n')
        found("last-line", path, line_count(text) + 1, "no line end at the end", 22);
    if (!is_c(path))
        return;
    each_line(path, text, check_c_line);
    char *code = tree_code(text, true);
    ck_assert_ptr_nonnull(code);
    each_line(path, code, check_code_line);
    check_functions(path, code);
    if (tree_ends(path, ".h")) {
        each_line(path, code, check_header_line);
        if (!is_fragment(path) && !guard_fits(path, text))
            found("guard", path, 1, text, strcspn(text, "\n"));
    }
    free(code);
}

/* Data that we did not write line by line: the shipped model, its reference vectors, the licence.
 */
static bool is_ours(const char *path) {
    return !tree_starts(path, "share/fable-5m/") && !tree_starts(path, "tests/reference/") &&
           !tree_starts(path, "tests/fuzz/corpus/") && !tree_starts(path, "tests/planted/") &&
           !tree_ends(path, ".json") && !tree_ends(path, ".txt") && strcmp(path, "LICENSE") != 0;
}

/* tests/tidy.allow: "rule path reason" a line. Strikes out what is allowed; returns how many lines
 * allow nothing. */
static int strike_out(const char *allow) {
    int idle = 0;
    for (const char *p = allow; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        char rule[32], path[256], reason[8];
        if (n > 0 && *p != '#') {
            bool used = false;
            ck_assert_msg(sscanf(p, "%31s %255s %7s", rule, path, reason) == 3,
                          "tests/tidy.allow: no reason: %.*s", (int)n, p);
            for (int i = 0; i < n_findings; i++)
                if (findings[i].rule != NULL && strcmp(findings[i].rule, rule) == 0 &&
                    strcmp(findings[i].path, path) == 0) {
                    findings[i].rule = NULL;
                    used = true;
                }
            if (!used) {
                printf("tests/tidy.allow: nothing needs it any more: %.*s\n", (int)n, p);
                idle++;
            }
        }
        p += n + (p[n] == '\n');
    }
    return idle;
}

START_TEST(test_tree_is_tidy) {
    struct tree t;
    ck_assert_msg(tree_read(&t, test_srcdir()), "cannot read %s", test_srcdir());
    n_findings = 0;
    int files = 0;
    for (size_t i = 0; i < t.n; i++)
        if (t.files[i].text != NULL && is_ours(t.files[i].path)) {
            check_file(t.files[i].path, t.files[i].text);
            files++;
        }
    const struct tree_file *allow = tree_find(&t, "tests/tidy.allow");
    ck_assert_ptr_nonnull(allow);
    int wrong = strike_out(allow->text);
    for (int i = 0; i < n_findings; i++)
        if (findings[i].rule != NULL) {
            printf("%s:%d: %s: %s\n", findings[i].path, findings[i].line, findings[i].rule,
                   findings[i].text);
            wrong++;
        }
    tree_free(&t);
    ck_assert_int_gt(files, 50);
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(test_folders_explain_themselves) {
    static const char *const folders[] = {
        "",          "actors/", "kernels/",    "gpu/",        "fabric/",
        "sessions/", "lanes/",  "lanes/text/", "lanes/door/", "lanes/programs/",
        "share/",    "doc/",    "tests/"};
    struct tree t;
    ck_assert(tree_read(&t, test_srcdir()));
    int missing = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[64];
        snprintf(path, sizeof path, "%sREADME.md", folders[i]);
        if (tree_find(&t, path) == NULL) {
            printf("missing: %s\n", path);
            missing++;
        }
    }
    tree_free(&t);
    ck_assert_int_eq(missing, 0);
}
END_TEST

#define SPDX "/* SPDX-License-Identifier: Apache-2.0 */\n"

/* Every rule finds what it is for, and does not find what is fine. */
START_TEST(test_rules_can_fail) {
    static const struct {
        const char *rule, *path, *text;
    } cases[] = {
        {NULL, "gpu/a.c",
         SPDX "int gpu_a(void) {\n    return 0; /* volatile, _Atomic in words */\n}\n"},
        {"spdx", "gpu/a.c", "int x;\n"},
        {"spdx", "tests/x", "#!/bin/sh\necho\n"},
        {NULL, "tests/x", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"},
        {"tab", "gpu/a.c", SPDX "\tint x;\n"},
        {"blank-end", "gpu/a.c", SPDX "int x; \n"},
        {"line-end", "doc/a.md", "a\r\n"},
        {"last-line", "gpu/a.c", SPDX "int x;"},
        {"marker", "doc/a.md",
         "- TO"
         "DO: more\n"},
        {"marker", "gpu/a.c",
         SPDX "/* a st"
              "ub */\n"},
        {"place", "doc/a.md",
         "see /ho"
         "me/me\n"},
        {"volatile", "gpu/a.c", SPDX "static volatile int x;\n"},
        {NULL, "gpu/a.c", SPDX "static volatile sig_atomic_t x;\n"},
        {NULL, "gpu/a.c", SPDX "    __asm__ volatile(\"\" ::: \"memory\");\n"},
        {"atomic", "lanes/a.c", SPDX "static _Atomic int x;\n"},
        {"atomic", "kernels/a.c", SPDX "#include <stdatomic.h>\n"},
        {NULL, "actors/a.c", SPDX "#include <stdatomic.h>\nstatic _Atomic int x;\n"},
        {NULL, "gpu/team.c", SPDX "static _Atomic int x;\n"},
        {"typedef", "gpu/a.c", SPDX "typedef struct gpu_a gpu_a;\n"},
        {NULL, "gpu/a.c", SPDX "typedef uint64_t gpu_a_t;\n"},
        {"sleep", "tests/gpu/a.c", SPDX "    usleep(10);\n"},
        {"guard", "gpu/a.h", SPDX "#ifndef A_H\n#define A_H\n#endif\n"},
        {NULL, "gpu/a.h",
         SPDX "#ifndef GPU_A_H\nint gpu_open(int n);\nstatic inline int gpu_b(void) {\n"},
        {"prefix", "gpu/a.h", SPDX "#ifndef GPU_A_H\nint open_it(int n);\n"},
        {"prefix", "kernels/a.h", SPDX "#ifndef KERNELS_A_H\nstatic inline float *dot(int n) {\n"},
        {"prefix", "lanes/door/a.h", SPDX "#ifndef LANES_DOOR_A_H\nvoid lane_x(void);\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        n_findings = 0;
        check_file(cases[i].path, cases[i].text);
        if (cases[i].rule == NULL)
            ck_assert_msg(n_findings == 0, "case %zu: %s", i, findings[0].rule);
        else
            ck_assert_msg(n_findings == 1 && strcmp(findings[0].rule, cases[i].rule) == 0,
                          "case %zu: %d found, first %s", i, n_findings,
                          n_findings > 0 ? findings[0].rule : "none");
    }
}
END_TEST

/* head, then n lines of line, then tail, as the file path; returns the only rule found, or NULL. */
static const char *rule_of_long(const char *path, const char *head, const char *line, int n,
                                const char *tail) {
    size_t bytes = strlen(head) + (size_t)n * strlen(line) + strlen(tail) + 1;
    char *text = malloc(bytes);
    ck_assert_ptr_nonnull(text);
    size_t at = strlen(head);
    memcpy(text, head, at);
    for (int i = 0; i < n; i++, at += strlen(line))
        memcpy(text + at, line, strlen(line));
    memcpy(text + at, tail, strlen(tail) + 1);
    n_findings = 0;
    check_file(path, text);
    free(text);
    ck_assert_int_le(n_findings, 1);
    return n_findings == 1 ? findings[0].rule : NULL;
}

START_TEST(test_lengths_can_fail) {
    const char *f = SPDX "static int f(void) {\n";
    ck_assert_ptr_null(rule_of_long("gpu/a.c", f, "    x();\n", FUNCTION_LINES_MAX - 2, "}\n"));
    ck_assert_str_eq(rule_of_long("gpu/a.c", f, "    x();\n", FUNCTION_LINES_MAX - 1, "}\n"),
                     "function");
    ck_assert_ptr_null(rule_of_long("gpu/a.c", SPDX, "int x;\n", SOURCE_LINES_MAX - 1, ""));
    ck_assert_str_eq(rule_of_long("gpu/a.c", SPDX, "int x;\n", SOURCE_LINES_MAX, ""), "lines");
    ck_assert_str_eq(rule_of_long("gpu/README.md", "", "a\n", FOLDER_README_LINES_MAX + 1, ""),
                     "lines");
    ck_assert_str_eq(
        rule_of_long("gpu/a.h", SPDX "#ifndef GPU_A_H\n", "int x;\n", HEADER_LINES_MAX, ""),
        "lines");
    ck_assert_ptr_null(rule_of_long("gpu/a.c", SPDX "//", "\xc3\xa9", COLUMNS_MAX - 2, "\n"));
    ck_assert_str_eq(rule_of_long("gpu/a.c", SPDX "//", "x", COLUMNS_MAX - 1, "\n"), "columns");
}
END_TEST

START_TEST(test_allowances_are_needed) {
    n_findings = 0;
    check_file("gpu/a.c", "int x;\n");
    ck_assert_int_eq(strike_out("# why\nspdx gpu/a.c generated\n"), 0);
    ck_assert_ptr_null(findings[0].rule);
    ck_assert_int_eq(strike_out("tab gpu/a.c none there\n"), 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tidy");
    TCase *tc = tcase_create("tidy");
    tcase_add_test(tc, test_rules_can_fail);
    tcase_add_test(tc, test_lengths_can_fail);
    tcase_add_test(tc, test_allowances_are_needed);
    tcase_add_test(tc, test_folders_explain_themselves);
    tcase_add_test(tc, test_tree_is_tidy);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
