/* SPDX-License-Identifier: Apache-2.0
 * Includes point one way: programs -> door -> text and the lane core -> sessions -> fabric -> gpu
 * -> kernels -> actors. Nothing includes against the arrow or another folder's private.h; tests may
 * include anything.
 */
#include "tests/harness.h"
#include "tests/tree.h"

#include <string.h>

enum { ZONE_NONE = -1, ZONE_TESTS = 8 };

/* The zone of a path by its longest matching folder; a file may include its own zone and those of a
 * lower rank. */
static int zone_rank(const char *path) {
    static const struct {
        const char *folder;
        int rank;
    } zones[] = {
        {"actors/", 0},   {"kernels/", 1},        {"gpu/", 2},        {"fabric/", 3},
        {"sessions/", 4}, {"lanes/text/", 5},     {"lanes/door/", 6}, {"lanes/programs/", 7},
        {"lanes/", 5},    {"tests/", ZONE_TESTS},
    };
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
        if (tree_starts(path, zones[i].folder))
            return zones[i].rank;
    return ZONE_NONE;
}

/* NULL when path may include target (written from the project's folder), else what is wrong. */
static const char *include_wrong(const char *path, const char *target, bool exists) {
    int from = zone_rank(path), to = zone_rank(target);
    if (strcmp(target, "config.h") == 0)
        return NULL;
    if (to == ZONE_NONE || !exists)
        return "no such file from the project's folder on (includes are written from there)";
    if (from == ZONE_TESTS)
        return NULL;
    if (to == ZONE_TESTS)
        return "the program includes a test's file";
    if (tree_ends(target, "/private.h") &&
        strncmp(path, target, strlen(target) - strlen("private.h")) != 0)
        return "another folder's private.h";
    if (to > from)
        return "against the direction of includes";
    return NULL;
}

/* Checks one source text; prints and counts what is wrong. t may be NULL: then every target exists.
 */
static int includes_wrong(const char *path, const char *text, const struct tree *t) {
    char *code = tree_code(text, false);
    int wrong = 0, line = 0;
    ck_assert_ptr_nonnull(code);
    for (char *p = code; p != NULL; p = strchr(p, '\n')) {
        p += *p == '\n';
        line++;
        char *q = p + strspn(p, " ");
        if (*q != '#')
            continue;
        q += 1 + strspn(q + 1, " ");
        if (!tree_starts(q, "include"))
            continue;
        q += strlen("include");
        q += strspn(q, " ");
        char target[512];
        size_t n = *q == '"' ? strcspn(q + 1, "\"\n") : 0;
        if (n == 0 || n >= sizeof target)
            continue;
        memcpy(target, q + 1, n);
        target[n] = '\0';
        const char *why = include_wrong(path, target, t == NULL || tree_find(t, target) != NULL);
        if (why != NULL) {
            printf("%s:%d: \"%s\": %s\n", path, line, target, why);
            wrong++;
        }
    }
    free(code);
    return wrong;
}

static bool is_source(const char *path) {
    return tree_ends(path, ".c") || tree_ends(path, ".h") || tree_ends(path, ".cu") ||
           tree_ends(path, ".cuh") || tree_ends(path, ".def");
}

START_TEST(test_tree_points_one_way) {
    struct tree t;
    ck_assert_msg(tree_read(&t, test_srcdir()), "cannot read %s", test_srcdir());
    int wrong = 0, sources = 0;
    for (size_t i = 0; i < t.n; i++) {
        const struct tree_file *f = &t.files[i];
        if (f->text == NULL || !is_source(f->path) || zone_rank(f->path) == ZONE_NONE)
            continue;
        sources++;
        wrong += includes_wrong(f->path, f->text, &t);
    }
    tree_free(&t);
    ck_assert_int_gt(sources, 20);
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(test_direction_can_fail) {
    static const struct {
        const char *path, *text;
        int wrong;
    } cases[] = {
        {"lanes/round.c", "#include \"sessions/protocol.h\"\n#include \"actors/actor.h\"\n", 0},
        {"lanes/round.c", "#include \"lanes/text/stream.h\"\n", 0},
        {"lanes/round.c", "#include \"lanes/door/wire.h\"\n", 1},
        {"lanes/text/a.c", "#include \"lanes/programs/main.h\"\n", 1},
        {"lanes/door/a.c", "#include \"lanes/programs/main.h\"\n", 1},
        {"lanes/programs/a.c", "#include \"lanes/door/wire.h\"\n", 0},
        {"sessions/trie.c", "  #  include \"lanes/engine.h\"\n", 1},
        {"fabric/vote.c", "#include \"sessions/memory.h\"\n", 1},
        {"gpu/team.c", "#include \"fabric/protocol.h\"\n", 1},
        {"kernels/a.c", "\n#include \"gpu/plan.h\"\n", 1},
        {"kernels/a.c", "#include \"actors/status.h\"\n", 0},
        {"actors/a.c", "#include \"kernels/rowfn.h\"\n", 1},
        {"actors/a.c", "/* #include \"kernels/rowfn.h\" */\n// #include \"gpu/plan.h\"\n", 0},
        {"gpu/a.c", "#include \"kernels/private.h\"\n", 1},
        {"kernels/cpu/a.c", "#include \"kernels/private.h\"\n", 0},
        {"gpu/a.c", "#include \"tests/harness.h\"\n", 1},
        {"gpu/a.c", "#include \"plan.h\"\n", 1},
        {"tests/gpu/a.c", "#include \"gpu/private.h\"\n#include \"lanes/engine.h\"\n", 0},
        {"lanes/a.c", "#include <nng/nng.h>\n#include \"config.h\"\n", 0},
        {"lanes/a.c", "#include \"lanes/door/a.h\"\n#include \"lanes/programs/a.h\"\n", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(includes_wrong(cases[i].path, cases[i].text, NULL) == cases[i].wrong,
                      "case %zu: %s", i, cases[i].text);
}
END_TEST

START_TEST(test_missing_file_is_found) {
    struct tree empty = {0};
    ck_assert_int_eq(includes_wrong("lanes/a.c", "#include \"lanes/gone.h\"\n", &empty), 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("include direction");
    TCase *tc = tcase_create("include direction");
    tcase_add_test(tc, test_direction_can_fail);
    tcase_add_test(tc, test_missing_file_is_found);
    tcase_add_test(tc, test_tree_points_one_way);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
