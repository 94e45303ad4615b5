/* SPDX-License-Identifier: Apache-2.0
 * What somebody does to the index while the store runs: it is cut, overwritten, full of holes,
 * swapped or gone, at rest and in the middle of a batch, or its disk fails under a commit. Nothing
 * that was stored is lost or wrong, nothing ends, and the store takes pages again. Each in a child,
 * for a file that is mapped can end the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sessions/guard.h"
#include "tests/sessions/store_rig.h"

enum { KEPT_MOST = 1 << 20, METAS = 8192, PAGE = 4096 };

static struct shared { uint64_t at; } * shared;
static unsigned char kept[KEPT_MOST];
static uint64_t kept_bytes;
static bool metas_fail, read_only;
static bool cut_in_sync; /* the index, and from then on nothing can be written */
static off_t full_at;    /* a disk that is full: so far the index can be written; 0: all of it */

static bool is_index(int fd);

/* The library's writes come here: those of its two heads can fail, or all. */
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) {
    if (read_only || (metas_fail && offset < METAS)) {
        errno = read_only ? EROFS : EIO;
        return -1;
    }
    if (full_at > 0 && offset + (off_t)n > full_at && is_index(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, n, offset);
}

ssize_t pwritev(int fd, const struct iovec *part, int n, off_t offset) {
    ssize_t sum = 0;
    for (int i = 0; i < n; i++) { /* a part of it may come to be */
        ssize_t got = pwrite(fd, part[i].iov_base, part[i].iov_len, offset + sum);
        if (got < 0)
            return sum > 0 ? sum : got;
        sum += got;
    }
    return sum;
}

static const char *path(const char *name) {
    static char text[160];
    snprintf(text, sizeof text, "%s/index%s%s", rig.folder, name[0] != 0 ? "/" : "", name);
    return text;
}

int fdatasync(int fd) {
    if (cut_in_sync && is_index(fd)) {
        cut_in_sync = false;
        read_only = true;
        EXPECT(truncate(path("data.mdb"), 0) == 0);
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static bool is_index(int fd) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path("data.mdb"), &b) == 0 && a.st_ino == b.st_ino;
}

static uint64_t index_bytes(void) {
    struct stat s;
    return stat(path("data.mdb"), &s) == 0 ? (uint64_t)s.st_size : 0;
}

static void overwrite(uint64_t offset, const void *bytes, uint64_t n) {
    int fd = open(path("data.mdb"), O_WRONLY);
    EXPECT(fd >= 0 && pwrite(fd, bytes, n, (off_t)offset) == (ssize_t)n);
    close(fd);
}

static void cut(const char *name, uint64_t bytes) {
    EXPECT(truncate(path(name), (off_t)bytes) == 0);
}

static void keep(void) {
    int fd = open(path("data.mdb"), O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, kept, sizeof kept) : -1;
    EXPECT(n > 0);
    kept_bytes = (uint64_t)n;
    close(fd);
}

static void holes(uint64_t from, uint64_t bytes) {
    int fd = open(path("data.mdb"), O_RDWR);
    EXPECT(fd >= 0);
    int error =
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)bytes);
    static const unsigned char nothing[KEPT_MOST];
    if (error != 0) /* a file system without: the same for whoever reads */
        overwrite(from, nothing, bytes);
    close(fd);
}

enum { DAMAGES = 22 };

static void damage(uint32_t what) {
    static unsigned char noise[KEPT_MOST];
    char other[170];
    uint64_t bytes = index_bytes();
    for (uint32_t i = 0; what == 10 && i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * 197 + i / 251);
    snprintf(other, sizeof other, "%s.gone", path(""));
    switch (what) {
    case 0:
        cut("data.mdb", 0);
        break;
    case 1:
        cut("data.mdb", 100);
        break;
    case 2:
        cut("data.mdb", 4096);
        break;
    case 3:
        cut("data.mdb", 8192);
        break;
    case 4:
        cut("data.mdb", 12288 + 700);
        break;
    case 5:
        cut("data.mdb", bytes / 2);
        break;
    case 6:
        cut("data.mdb", bytes - 4096);
        break;
    case 7:
        cut("data.mdb", bytes - 1);
        break;
    case 8:
        holes(0, 8192);
        break;
    case 9:
        holes(8192, bytes - 8192);
        break;
    case 10:
        overwrite(0, noise, bytes);
        break;
    case 11:
        overwrite(8192, noise + 77, bytes - 8192);
        break;
    case 12:
        overwrite(bytes / 8192 * 4096, noise + 77, 4096);
        break;
    case 13:
        overwrite(0, kept, kept_bytes);
        break; /* an older one of its own */
    case 14:
        EXPECT(unlink(path("data.mdb")) == 0);
        break;
    case 15:
        EXPECT(unlink(path("lock.mdb")) == 0);
        break;
    case 16:
        cut("lock.mdb", 0);
        break;
    case 17:
        EXPECT(rename(path(""), other) == 0);
        break;
    case 18:
        fake_disk_clear(path(""));
        EXPECT(rmdir(path("")) == 0);
        break;
    case 19:
        EXPECT(rename(path(""), other) == 0);
        close(open(path(""), O_WRONLY | O_CREAT, 0600));
        break;
    case 20:
        EXPECT(chmod(path("data.mdb"), 0) == 0 && chmod(path(""), 0) == 0);
        return;
    default:
        metas_fail = true;
        return;
    }
}

/* What is left of the file is not enough; of other damage it may be. */
static bool is_useless(uint32_t what) {
    return what < 6 || (what > 7 && what < 12) || what == 13 || what == 14 ||
           (what > 16 && what < 20);
}

static void in_child(void (*work)(uint32_t what), uint32_t what, uint64_t at) {
    if (shared == NULL)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    if (truth == NULL) /* the folder is the parent's */
        rig_world_begin(1);
    shared->at = at;
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        setenv(EXPECT_CHILD, "1", 1);
        work(what);
        _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ck_abort_msg("the child ended with %d: damage %u at point %llu", status, what,
                     (unsigned long long)at);
}

/* A store with an index of several pages, some of them free, that runs. */
static void running(uint64_t seed) {
    struct fake_disk_faults none = {.seed = seed};
    rig_world_begin(seed);
    rig.settled = true;
    fake_disk_set(&none);
    EXPECT(rig_begin());
    rig_work(60);
    rig_finish();
    keep();
    rig_work(300);
    rig_finish();
}

/* It went on as if nothing had been, and the next start finds all of it. */
static void expect_unharmed(uint32_t what) {
    struct ses_store_counts c;
    uint64_t puts = truth->puts;
    rig_work(200);
    rig_finish();
    EXPECT(truth->puts > puts + 5);
    EXPECT_EQ(rig.failed_puts, 0);
    EXPECT_EQ(rig.bad_loads, 0);
    ses_store_count(rig.store, &c);
    EXPECT_EQ(c.dropped, 0);
    EXPECT_EQ(c.rebuilt, is_useless(what) ? 1 : c.rebuilt);
    EXPECT(c.rebuilt <= 1);
    chmod(path(""), 0700);
    if (access(path("data.mdb"), F_OK) == 0)
        chmod(path("data.mdb"), 0600);
    rig_end();
    truth->counts.dropped = 0; /* nothing may be missing */
    rig_read_back();
    EXPECT_EQ(truth->counts.rebuilt, 0);
}

static void at_rest(uint32_t what) {
    running(what + 1);
    damage(what);
    rig_work(100); /* and while it is harmed, the disk is asked */
    metas_fail = false;
    if (what == DAMAGES - 1) { /* what cannot be committed is said, and nothing else */
        rig_finish();
        EXPECT(rig.failed_puts > 0);
        rig.failed_puts = 0;
    }
    expect_unharmed(what);
}

START_TEST(test_damaged_at_rest) {
    for (uint32_t what = 0; what < DAMAGES; what++)
        in_child(at_rest, what, 0);
    rig_world_end();
}
END_TEST

static uint32_t then;

static void damage_now(void) {
    damage(then);
}

static void in_a_batch(uint32_t what) {
    running(what + 40);
    then = what;
    const struct fake_disk_faults later = {.seed = what, .call = damage_now, .call_at = shared->at};
    fake_disk_set(&later);
    while (fake_disk_points() <= shared->at)
        rig_work(20);
    rig_finish();
    expect_unharmed(what);
}

/* Before each write, sync and commit of some batches. */
START_TEST(test_damaged_in_a_batch) {
    for (uint32_t what = 0; what < 20; what++)
        for (uint64_t at = 1 + what % 2; at < 12; at += 2)
            in_child(in_a_batch, what, at);
    rig_world_end();
}
END_TEST

/* Cut between two changes of one commit: the library reads what is no more. */
static void cut_under_changes(uint32_t what) {
    struct status_note note = {{0}};
    struct ses_index *x = NULL;
    uint32_t token = 7;
    uint64_t bad = 0;
    const struct ses_where where = {.segment = 1, .blocks = 1};
    struct ses_record r = {.n_tokens = 1, .tokens = &token, .name = {{1, 1}}};
    rig_world_begin(1);
    EXPECT_FINE(ses_index_open(path(""), false, 0, &x, &note) == STATUS_OK, note);
    for (r.depth = 0; r.depth < 500; r.depth++)
        EXPECT(ses_index_put(x, &r, &where, 0, &note) == STATUS_OK);
    EXPECT(ses_index_commit(x, &note) == STATUS_OK);
    r.depth = 3;
    if (what < 2)
        EXPECT(ses_index_put(x, &r, &where, 0, &note) == STATUS_OK);
    cut("data.mdb", what % 2 == 0 ? 0 : 8192);
    r.depth = 490;
    enum status s = what < 2 ? ses_index_put(x, &r, &where, 0, &note)
                             : ses_index_each(x, NULL, NULL, &bad, &note);
    EXPECT(s == STATUS_BAD_FILE && !ses_index_usable(x) && ses_index_was_left(x) == (what < 2));
    EXPECT(strstr(note.text, what < 2 ? "was cut while" : "changed or removed by") != NULL);
    EXPECT(ses_index_commit(x, &note) == (what < 2 ? STATUS_OK : STATUS_OK)); /* nothing is left */
    EXPECT(ses_index_put(x, &r, &where, 0, &note) == STATUS_BAD_FILE);
    (void)ses_index_bytes(x);
    ses_index_close(x);
}

START_TEST(test_cut_under_changes) {
    for (uint32_t what = 0; what < 4; what++)
        in_child(cut_under_changes, what, 0);
    rig_world_end();
}
END_TEST

/* The folder is gone, and with it the names of the segments: what cannot be had is said so. */
static void folder_gone(uint32_t what) {
    running(what);
    char gone[80];
    snprintf(gone, sizeof gone, "%.60s.gone", rig.folder);
    EXPECT(rename(rig.folder, gone) == 0);
    rig_work(100);
    rig_finish();
    EXPECT(rig.failed_puts > 0);
    EXPECT_EQ(rig.bad_loads, 0); /* of what was open and still is */
    uint64_t failed = rig.failed_puts;
    EXPECT(rename(gone, rig.folder) == 0);
    rig_work(200);
    rig_finish();
    EXPECT_EQ(rig.failed_puts, failed);
    rig_end();
    rig_read_back();
}

START_TEST(test_folder_gone_and_back) {
    in_child(folder_gone, 5, 0);
    rig_world_end();
}
END_TEST

/* The file system, or only what the index is on, takes no more writes, and later does again: that
 * is said once each, what is there is read all the while, and nothing is lost. */
static void turns_read_only(uint32_t index_only) {
    struct fake_disk_faults none = {.seed = 9}, faults = {.seed = 9,
                                                          .fail_at = 1,
                                                          .fail_for = index_only ? 0 : UINT64_MAX,
                                                          .fail_error = EROFS};
    struct ses_store_counts before, after;
    running(9);
    ses_store_count(rig.store, &before);
    rig.said = 0;
    fake_disk_set(&faults);
    read_only = true;
    rig.good_loads = 0;
    rig_work(300);
    rig_finish();
    uint64_t failed = rig.failed_puts;
    ses_store_count(rig.store, &after);
    EXPECT(failed > 3 && rig.good_loads > 3 && after.io_errors > before.io_errors);
    EXPECT_EQ(rig.said, 1);
    read_only = false;
    fake_disk_set(&none);
    rig_work(200);
    rig_finish();
    EXPECT_EQ(rig.said, 2);
    EXPECT_EQ(rig.failed_puts, failed);
    EXPECT_EQ(rig.bad_loads, 0);
    rig_end();
    rig_read_back();
}

START_TEST(test_turns_read_only_and_back) {
    in_child(turns_read_only, 0, 0);
    in_child(turns_read_only, 1, 0);
    rig_world_end();
}
END_TEST

/* A full disk lets no commit through: that is said, is no damage, and later it goes on. */
static void turns_full(uint32_t what) {
    struct ses_store_counts c;
    running(9);
    rig.said = rig.good_loads = 0;
    full_at = (off_t)(index_bytes() / PAGE * what / 8 * PAGE);
    rig_work(300);
    rig_finish();
    EXPECT(rig.failed_puts > 3 && rig.good_loads > 3);
    EXPECT_EQ(rig.said, 1);
    full_at = 0;
    rig.failed_puts = 0;
    rig_work(200);
    rig_finish();
    EXPECT_EQ(rig.said, 2);
    EXPECT_EQ(rig.failed_puts + rig.bad_loads, 0);
    ses_store_count(rig.store, &c);
    EXPECT_EQ(c.rebuilt, 0);
    rig_end();
    rig_read_back();
}

START_TEST(test_turns_full_and_back) {
    for (uint32_t what = 1; what < 8; what += 2)
        in_child(turns_full, what, 0);
    rig_world_end();
}
END_TEST

/* The index is cut under a commit, on a disk that takes nothing for a long time: however often it
 * was tried in vain, it is made anew when that can be, once. */
static void long_ill(uint32_t what) {
    (void)what;
    struct ses_store_counts c;
    running(9);
    cut_in_sync = true;
    for (uint32_t i = 0; i < 400; i++) {
        rig_work(4);
        rig_finish();
    }
    EXPECT(!cut_in_sync && rig.failed_puts > 70);
    EXPECT_EQ(rig.bad_loads, 0);
    ses_store_count(rig.store, &c);
    EXPECT_EQ(c.rebuilt, 0);
    read_only = false;
    rig.failed_puts = 0;
    expect_unharmed(0);
}

START_TEST(test_long_ill) {
    in_child(long_ill, 0, 0);
    rig_world_end();
}
END_TEST

/* A signal from outside is none of the file's, and does what it did without a guard. */
static int is_sent_to(void *self) {
    (void)self;
    return kill(getpid(), SIGBUS);
}

static void sent(uint32_t what) {
    (void)what;
    int result = -1, status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        (void)ses_guard_run(is_sent_to, NULL, &result);
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

START_TEST(test_signal_from_outside) {
    in_child(sent, 0, 0);
    rig_world_end();
}
END_TEST

/* A command with the folder's path in DIR. */
static int tool(const char *form) {
    char command[400];
    snprintf(command, sizeof command, "DIR=%s; { %s; } 2>/dev/null", rig.folder, form);
    return system(command);
}

/* The same by a file system of its own that its kernel gives up under the store (ext4, abort). */
static void given_up(uint32_t what) {
    (void)what;
    struct fake_disk_faults none = {.seed = 9};
    rig_world_begin(9);
    shared->at = 1;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        tool("truncate -s 16M $DIR.image && mkfs.ext4 -q $DIR.image") != 0 ||
        tool("mount -o loop $DIR.image $DIR") != 0)
        return;
    shared->at = 2;
    running(9);
    rig.said = rig.good_loads = 0;
    EXPECT(tool("mount -o remount,abort $DIR") == 0);
    rig_work(200);
    rig_finish();
    EXPECT(rig.failed_puts > 3 && rig.good_loads > 3);
    EXPECT_EQ(rig.bad_loads, 0);
    EXPECT_EQ(rig.said, 1);
    rig_end();
    EXPECT(tool("umount $DIR && mount -o loop $DIR.image $DIR") == 0);
    fake_disk_set(&none);
    rig_read_back();
    EXPECT(truth->puts > 20);
    EXPECT(tool("umount $DIR") == 0);
}

START_TEST(test_file_system_given_up) {
    bool root = geteuid() == 0;
    if (root)
        in_child(given_up, 0, 0);
    bool here = root && shared->at == 2;
    if (root)
        EXPECT(tool("rm -rf $DIR.image $DIR.gone") == 0);
    if (truth != NULL)
        rig_world_end();
    if (!here)
        TEST_SKIP("this system lets the test mount no file of its own (root, loop, mkfs.ext4)");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/store_running");
    TCase *tcase = tcase_create("store_running");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_damaged_at_rest);
    tcase_add_test(tcase, test_damaged_in_a_batch);
    tcase_add_test(tcase, test_cut_under_changes);
    tcase_add_test(tcase, test_folder_gone_and_back);
    tcase_add_test(tcase, test_turns_read_only_and_back);
    tcase_add_test(tcase, test_turns_full_and_back);
    tcase_add_test(tcase, test_long_ill);
    tcase_add_test(tcase, test_signal_from_outside);
    tcase_add_test(tcase, test_file_system_given_up);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
