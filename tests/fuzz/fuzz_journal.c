/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as a journal. The reader ends, every record lies whole inside the file,
 * and what it calls the end or damage stays so; a file that is sound to its end or torn there can
 * be written on, and then reads back with one record more.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actors/check.h"
#include "actors/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads to the end; counts the records. */
static enum status read_all(const char *path, size_t size, uint64_t *n, uint64_t *torn) {
    struct journal_reader *r;
    struct journal_record record;
    struct status_note note = {""};
    enum status s = journal_read_open(path, &r, &note);
    *n = 0;
    *torn = 0;
    if (s != STATUS_OK) {
        CHECK(r == NULL && s == STATUS_BAD_FILE && note.text[0] != '\0');
        return s;
    }
    uint64_t after = JOURNAL_HEADER_BYTES;
    unsigned sum = 0;
    while ((s = journal_read_next(r, &record, &note)) == STATUS_OK) {
        CHECK(record.offset == after && record.bytes <= JOURNAL_RECORD_MAX);
        after += 24 + (record.bytes + 7) / 8 * 8;
        CHECK(after <= size);
        for (uint32_t i = 0; i < record.bytes; i++) /* every byte may be read */
            sum += ((const unsigned char *)record.payload)[i];
        ++*n;
    }
    CHECK(s == STATUS_NOT_FOUND || s == STATUS_BAD_FILE);
    CHECK(sum != 1 || *n > 0);
    CHECK(journal_read_next(r, &record, NULL) == s);
    *torn = journal_read_torn(r);
    CHECK(s != STATUS_NOT_FOUND || after + *torn == size);
    journal_read_close(r);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0; /* an empty file is a new journal */
    int fd = memfd_create("journal", MFD_CLOEXEC);
    char path[64];
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint64_t n, torn, again;
    enum status s = read_all(path, size, &n, &torn);
    struct journal *j;
    enum status opened = journal_open(path, 4096, 1, &j, NULL);
    CHECK((opened == STATUS_OK) == (s == STATUS_NOT_FOUND));
    if (opened == STATUS_OK) {
        CHECK(journal_append(j, 7, 0, 9, "more", 4) == STATUS_OK);
        journal_close(j);
        CHECK(read_all(path, size - (size_t)torn + 32, &again, &torn) == STATUS_NOT_FOUND);
        CHECK(again == n + 1 && torn == 0);
    }
    close(fd);
    return 0;
}
