/* SPDX-License-Identifier: Apache-2.0
 * Records of the store read for a file of their session, some bytes a question; the one that was
 * read last is kept for the next question.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "sessions/export.h"
#include "sessions/query.h"
#include "sessions/store_private.h"

enum { READ_TRIES = 3 };

static enum status read_record(struct ses_store *s, const struct store_location *at,
                               struct status_note *note) {
    uint64_t n = (uint64_t)s->blocks * SES_DISK_BLOCK;
    void *bytes = s->fetched;
    if (bytes == NULL && posix_memalign(&bytes, SES_DISK_BLOCK, n) != 0)
        return status_say(note, STATUS_NO_MEMORY, "no memory to read a page of the session");
    s->fetched = bytes;
    s->fetched_name = (struct ses_name){{0}};
    int fd = at->where.segment != 0 ? ses_files_fd(s->files, at->where.segment) : -1;
    enum status status = fd < 0 ? STATUS_IO : STATUS_AGAIN;
    for (int tries = 0; fd >= 0 && status != STATUS_OK && tries < READ_TRIES; tries++)
        status = ses_store_transfer(s, SES_DISK_READ, fd, at->where.offset, bytes, n);
    if (status == STATUS_OK)
        status = ses_store_verify(s, &at->record, &at->where, bytes, s->header_bytes,
                                  s->fetched + s->header_bytes);
    if (status != STATUS_OK)
        return status_say(
            note, STATUS_IO,
            "a page of the session cannot be read from the disk, or is damaged there");
    s->fetched_name = at->record.name;
    return STATUS_OK;
}

void ses_store_fetch(struct ses_store *s, uint32_t number, uint32_t page, uint64_t offset,
                     struct ses_query *q) {
    CHECK(number < s->config.n_numbers && s->at[number].held);
    const struct store_location *at = &s->at[number];
    CHECK(at->where.segment == 0 || at->where.blocks == s->blocks);
    q->status = STATUS_OK;
    if (memcmp(&s->fetched_name, &at->record.name, sizeof s->fetched_name) != 0)
        q->status = read_record(s, at, &q->note);
    q->n = 0;
    if (q->status == STATUS_OK)
        q->n = ses_export_piece(page, s->config.rank, s->fetched + s->header_bytes,
                                s->config.page_bytes, offset, q->bytes, SES_QUERY_BYTES);
}
