/* SPDX-License-Identifier: Apache-2.0
 * A program that writes a file dies, or the machine loses its power, before each thing that it does
 * with the file: under its name stands what stood there, or the new one whole, and the new one once
 * that was said. What is left beside it has a name of its own and is in nobody's way.
 */
#include "lanes/programs/output.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sessions/expect.h"

enum { PIECES = 6, PIECE = 3000, BYTES = PIECES * PIECE };
enum target { FILE_THERE, FILE_NEW, LINK_TO_FILE, TARGETS };

/* Outlives the child. */
static struct shared { bool said; } * shared;

static char folder[64];
static char bytes[BYTES];
static const char old_bytes[] = "what stood there\n";

/* What the child's disk would have after a cut: only what was synced for sure. */
static struct cut {
    bool counts, power; /* else it is killed, and all that was written stays */
    uint32_t at, points;
    struct output o;
    bool synced, renamed, name_synced;
} c;

static const char *in_folder(const char *name) {
    static char path[2][400];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* ---- the machine ---- */

static void lose(void) {
    const char *now = c.renamed ? c.o.path : c.o.part;
    struct stat s;
    if (now[0] != '\0' && !c.synced && stat(now, &s) == 0)
        EXPECT(truncate(now, s.st_size / 2) == 0);
    if (!c.renamed || c.name_synced)
        return;
    unlink(c.o.path);
    if (access(in_folder("kept"), F_OK) == 0)
        syscall(SYS_renameat2, AT_FDCWD, in_folder("kept"), AT_FDCWD, c.o.path, 0);
}

static void point(void) {
    if (!c.counts || ++c.points != c.at)
        return;
    if (c.power)
        lose();
    kill(getpid(), SIGKILL);
}

/* The program's calls come here. */
int fsync(int fd) {
    struct stat s;
    point();
    EXPECT(fstat(fd, &s) == 0);
    if (S_ISDIR(s.st_mode))
        c.name_synced = true;
    else
        c.synced = true;
    return 0;
}

int rename(const char *from, const char *to) {
    point();
    if (c.counts) {
        unlink(in_folder("kept"));
        if (link(to, in_folder("kept")) != 0)
            EXPECT(access(to, F_OK) != 0);
        c.renamed = true;
        c.name_synced = false;
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int fflush(FILE *f) {
    static int (*next)(FILE * f);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fflush");
    if (f == c.o.f && f != NULL) {
        point();
        c.synced = false;
    }
    return next(f);
}

int fclose(FILE *f) {
    static int (*next)(FILE * f);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fclose");
    if (f == c.o.f && f != NULL)
        point();
    return next(f);
}

/* ---- the program ---- */

static void write_it(const char *path) {
    struct status_note note = {{0}};
    point();
    EXPECT_FINE(output_open(&c.o, path, &note) == STATUS_OK, note);
    for (uint32_t i = 0; i < PIECES; i++) {
        point();
        c.synced = false;
        EXPECT(fwrite(bytes + (size_t)i * PIECE, 1, PIECE, c.o.f) == PIECE);
    }
    EXPECT_FINE(output_close(&c.o, true, &note) == STATUS_OK, note);
    shared->said = true;
    point();
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(in_folder(name), "w");
    EXPECT(f != NULL && fputs(text, f) >= 0);
    EXPECT(fclose(f) == 0);
}

/* False: the child came to its end. */
static bool cut_off(const char *path, uint32_t at, bool power) {
    memset(shared, 0, sizeof *shared);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        setenv(EXPECT_CHILD, "1", 1);
        c = (struct cut){.counts = true, .power = power, .at = at};
        write_it(path);
        _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        ck_abort_msg("the child ended with %d at point %u", status, at);
    return killed;
}

/* The whole file is `want`, or with none there is no such file. */
static bool holds(const char *path, const char *want, size_t n) {
    static char got[BYTES + 1];
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return want == NULL;
    size_t n_got = fread(got, 1, sizeof got, f);
    fclose(f);
    return want != NULL && n_got == n && memcmp(got, want, n) == 0;
}

/* How many files are left beside; none of them has a name that anybody would give to one. */
static uint32_t beside(void) {
    uint32_t n = 0;
    DIR *d = opendir(folder);
    EXPECT(d != NULL);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strcmp(e->d_name, "file") == 0 || strcmp(e->d_name, "link") == 0)
            continue;
        n += strcmp(e->d_name, "kept") != 0;
        EXPECT(strcmp(e->d_name, "kept") == 0 ||
               (strncmp(e->d_name, "roundhouse-", 11) == 0 && strstr(e->d_name, ".part") != NULL));
        unlink(in_folder(e->d_name));
    }
    closedir(d);
    return n;
}

static uint32_t sweep(enum target target, bool power) {
    const char *old = target == FILE_NEW ? NULL : old_bytes;
    char path[400];
    uint32_t at = 1, left = 0, news = 0;
    bool killed = true;
    snprintf(path, sizeof path, "%s", in_folder(target == LINK_TO_FILE ? "link" : "file"));
    for (; killed; at++) {
        unlink(in_folder("file"));
        if (old != NULL)
            put("file", old);
        killed = cut_off(path, at, power);
        bool is_new = holds(path, bytes, BYTES);
        bool is_old = holds(path, old, sizeof old_bytes - 1);
        if (!is_new && !is_old)
            ck_abort_msg("target %d, point %u: neither the old nor the new file", target, at);
        EXPECT(is_new || !shared->said);
        news += is_new;
        EXPECT(killed || shared->said);
        /* The next one is not in the way of what is left, nor that in its way. */
        c = (struct cut){.counts = false};
        write_it(path);
        EXPECT(holds(path, bytes, BYTES));
        uint32_t n = beside();
        EXPECT(n <= (killed ? 1 : 0));
        left += n;
    }
    EXPECT(news > 1 && news < at - 2 && left > 0);
    return at - 2;
}

START_TEST(cut_off_at_every_point) {
    uint32_t points = 0;
    strcpy(folder, "/tmp/rh-output-XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    EXPECT(symlink("file", in_folder("link")) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    for (int target = 0; target < TARGETS; target++)
        points += sweep((enum target)target, false) + sweep((enum target)target, true);
    printf("%u points\n", points);
    EXPECT(points >= TARGETS * 2 * (PIECES + 6));
    unlink(in_folder("file"));
    unlink(in_folder("link"));
    EXPECT(rmdir(folder) == 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("output");
    TCase *t = tcase_create("output");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, cut_off_at_every_point);
    suite_add_tcase(s, t);
    return test_run(s);
}
