/* SPDX-License-Identifier: Apache-2.0
 * The journal: what was written comes back; every torn end is cut off cleanly; every flipped bit
 * is named or, at the end, taken for torn, never read as something else; a full disk loses records
 * and says so.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/journal.h"
#include "tests/harness.h"

enum { RECORDS = 60 };

static char path[64];

static void path_fresh(void) {
    snprintf(path, sizeof path, "/tmp/rh-journal-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
}

static size_t payload_bytes(uint32_t i) {
    return (i * 37) % 300;
}

static void payload_fill(unsigned char *p, uint32_t i) {
    for (size_t k = 0; k < payload_bytes(i); k++)
        p[k] = (unsigned char)(i * 131 + k * 7);
}

static struct journal *open_or_fail(size_t buffer) {
    struct journal *j;
    struct status_note note = {{0}};
    enum status s = journal_open(path, buffer, 5, &j, &note);
    ck_assert_msg(s == STATUS_OK, "%s", note.text);
    return j;
}

static void write_records(uint32_t from, uint32_t to, size_t buffer) {
    struct journal *j = open_or_fail(buffer);
    for (uint32_t i = from; i < to; i++) {
        unsigned char p[300];
        payload_fill(p, i);
        ck_assert_int_eq(
            journal_append(j, (uint16_t)(i + 1), (uint16_t)(i & 3), i * 1000u, p, payload_bytes(i)),
            STATUS_OK);
    }
    ck_assert_uint_eq(journal_lost(j), 0);
    journal_close(j);
}

/* Reads until the end; every record must be the one of its place. Returns how many came. */
static uint32_t read_records(enum status *end, uint64_t *torn, struct status_note *note) {
    struct journal_reader *r;
    struct journal_record record;
    uint32_t n = 0;
    *end = journal_read_open(path, &r, note);
    if (*end != STATUS_OK)
        return 0;
    while ((*end = journal_read_next(r, &record, note)) == STATUS_OK) {
        unsigned char p[300];
        payload_fill(p, n);
        ck_assert_uint_eq(record.kind, n + 1);
        ck_assert_uint_eq(record.flags, n & 3);
        ck_assert_uint_eq(record.time_ns, n * 1000u);
        ck_assert_uint_eq(record.bytes, payload_bytes(n));
        ck_assert_uint_eq((uintptr_t)record.payload % 8, 0);
        ck_assert_int_eq(memcmp(record.payload, p, record.bytes), 0);
        n++;
    }
    ck_assert_int_eq(journal_read_next(r, &record, NULL), *end);
    *torn = journal_read_torn(r);
    journal_read_close(r);
    return n;
}

static unsigned char *slurp(size_t *n) {
    int fd = open(path, O_RDONLY);
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    *n = (size_t)st.st_size;
    unsigned char *all = malloc(*n + 1);
    ck_assert_ptr_nonnull(all);
    ck_assert_int_eq(read(fd, all, *n), (ssize_t)*n);
    close(fd);
    return all;
}

static void spill(const unsigned char *all, size_t n) {
    unlink(path); /* a file that replaces another one's bytes would be synced on some systems */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_eq(write(fd, all, n), (ssize_t)n);
    close(fd);
}

START_TEST(what_is_written_comes_back) {
    enum status end;
    uint64_t torn = 0;
    struct status_note note;
    for (size_t buffer = 400; buffer < 100000; buffer *= 5) {
        path_fresh();
        write_records(0, RECORDS / 2, buffer);
        write_records(RECORDS / 2, RECORDS, buffer); /* opened again */
        ck_assert_uint_eq(read_records(&end, &torn, &note), RECORDS);
        ck_assert_int_eq(end, STATUS_NOT_FOUND);
        ck_assert_uint_eq(torn, 0);
        unlink(path);
    }
}
END_TEST

START_TEST(a_torn_end_is_cut_off) {
    path_fresh();
    write_records(0, RECORDS, 4096);
    size_t n;
    unsigned char *all = slurp(&n);
    enum status end;
    uint64_t torn = 0;
    struct status_note note;
    uint32_t before = RECORDS;
    for (size_t cut = n; cut >= 32; cut -= cut < 40 ? 1 : 3) {
        spill(all, cut);
        uint32_t got = read_records(&end, &torn, &note);
        ck_assert_int_eq(end, STATUS_NOT_FOUND);
        ck_assert_uint_le(got, before);
        ck_assert_uint_le(before - got, 1);
        before = got;
        if (cut % 50 == 0) { /* and writing goes on from there */
            write_records(got, RECORDS, 4096);
            ck_assert_uint_eq(read_records(&end, &torn, &note), RECORDS);
            ck_assert_uint_eq(torn, 0);
        }
    }
    ck_assert_uint_eq(before, 0);
    for (size_t cut = 0; cut < 32; cut++) {
        spill(all, cut);
        read_records(&end, &torn, &note);
        ck_assert_int_eq(end, STATUS_BAD_FILE);
    }
    free(all);
    unlink(path);
}
END_TEST

START_TEST(a_flipped_bit_is_named) {
    path_fresh();
    write_records(0, RECORDS, 4096);
    size_t n;
    unsigned char *all = slurp(&n);
    enum status end;
    uint64_t torn = 0;
    struct status_note note;
    size_t last = 0; /* where the last record begins */
    struct journal_reader *r;
    struct journal_record record;
    ck_assert_int_eq(journal_read_open(path, &r, NULL), STATUS_OK);
    while (journal_read_next(r, &record, NULL) == STATUS_OK)
        last = record.offset;
    journal_read_close(r);
    for (size_t at = 0; at < n; at++) {
        all[at] ^= (unsigned char)(1u << (at % 8));
        spill(all, n);
        uint32_t got = read_records(&end, &torn, &note); /* checks what it returns */
        if (at < last)
            ck_assert_msg(end == STATUS_BAD_FILE, "byte %zu: %s", at, status_name(end));
        else
            ck_assert_msg(end == STATUS_NOT_FOUND && torn == n - last, "byte %zu", at);
        ck_assert_uint_lt(got, RECORDS);
        if (at >= 32 && at < last) {
            ck_assert_ptr_nonnull(strstr(note.text, "offset"));
            struct journal *j;
            ck_assert_int_eq(journal_open(path, 4096, 0, &j, &note), STATUS_BAD_FILE);
            ck_assert_ptr_null(j);
        }
        all[at] ^= (unsigned char)(1u << (at % 8));
    }
    free(all);
    unlink(path);
}
END_TEST

START_TEST(a_moved_record_is_no_record) {
    path_fresh();
    struct journal *j = open_or_fail(4096);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(journal_append(j, 1, 0, 1, "same bytes", 10), STATUS_OK);
    journal_close(j);
    size_t n;
    unsigned char *all = slurp(&n);
    size_t each = (n - 32) / 4;
    memmove(all + 32, all + 32 + each, each * 3); /* the first one is gone */
    spill(all, n - each);
    struct journal_reader *r;
    struct journal_record record;
    ck_assert_int_eq(journal_read_open(path, &r, NULL), STATUS_OK);
    ck_assert_int_ne(journal_read_next(r, &record, NULL), STATUS_OK);
    journal_read_close(r);
    free(all);
    unlink(path);
}
END_TEST

START_TEST(limits_are_said) {
    path_fresh();
    struct journal *j;
    struct status_note note;
    ck_assert_int_eq(journal_open(path, 8, 0, &j, &note), STATUS_BAD_REQUEST);
    ck_assert_int_eq(journal_open("/", 4096, 0, &j, &note), STATUS_IO);
    ck_assert_int_eq(journal_open("/dev/null", 4096, 0, &j, &note), STATUS_BAD_FILE);
    struct journal_reader *r;
    ck_assert_int_eq(journal_read_open("/nowhere/x", &r, &note), STATUS_NOT_FOUND);
    ck_assert_int_eq(journal_read_open("/", &r, &note), STATUS_BAD_FILE);
    j = open_or_fail(256);
    static const char big[256];
    ck_assert_int_eq(journal_append(j, 1, 0, 0, big, sizeof big), STATUS_TOO_LARGE);
    ck_assert_int_eq(journal_append(j, 1, 0, 0, big, 100), STATUS_OK);
    ck_assert_int_eq(journal_sync(j), STATUS_OK);
    ck_assert_uint_eq(journal_bytes(j), 32 + 24 + 104);
    journal_close(j);
    unlink(path);
}
END_TEST

/* A limit on the file's size stands for a full disk. */
START_TEST(a_full_disk_loses_records_and_says_so) {
    path_fresh();
    struct rlimit before, small;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct journal *j = open_or_fail(512);
    small = before;
    small.rlim_cur = 2000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint64_t appended = 0;
    for (; appended < 100; appended++)
        journal_append(j, 1, 0, appended, "0123456789", 10);
    uint64_t lost = journal_lost(j);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    for (; appended < 200; appended++)
        journal_append(j, 1, 0, appended, "0123456789", 10);
    journal_close(j);
    signal(SIGXFSZ, handler);
    ck_assert_uint_gt(lost, 0);
    struct journal_reader *r;
    struct journal_record record;
    ck_assert_int_eq(journal_read_open(path, &r, NULL), STATUS_OK);
    uint64_t read = 0, said = 0, gaps = 0;
    enum status s;
    while ((s = journal_read_next(r, &record, NULL)) == STATUS_OK) {
        if (record.kind == JOURNAL_KIND_gap) {
            ck_assert_uint_eq(record.bytes, sizeof said);
            memcpy(&said, record.payload, sizeof said);
            gaps++;
        } else {
            ck_assert_uint_eq(record.time_ns, read + said);
            read++;
        }
    }
    ck_assert_int_eq(s, STATUS_NOT_FOUND);
    ck_assert_uint_eq(journal_read_torn(r), 0);
    journal_read_close(r);
    ck_assert_uint_eq(gaps, 1);
    ck_assert_uint_eq(read + said, appended);
    unlink(path);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("journal");
    TCase *c = tcase_create("journal");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_is_written_comes_back);
    tcase_add_test(c, a_torn_end_is_cut_off);
    tcase_add_test(c, a_flipped_bit_is_named);
    tcase_add_test(c, a_moved_record_is_no_record);
    tcase_add_test(c, limits_are_said);
    tcase_add_test(c, a_full_disk_loses_records_and_says_so);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
