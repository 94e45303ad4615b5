/* SPDX-License-Identifier: Apache-2.0
 * A new index out of the segment files: every record begins with a header that says what it is and
 * has a checksum of its own. What was erased or moved may come back, which harms nobody: a page is
 * what its tokens say, wherever it lies. Pages themselves are not read; a load verifies them.
 */
#include <stdlib.h>
#include <string.h>

#include "sessions/heal.h"

enum { HEADER_BYTES = 2 * SES_DISK_BLOCK, HUNT_BYTES = 1 << 20 };

struct scan {
    struct ses_store *store;
    const struct ses_alive *alive; /* NULL: whatever is found */
    uint32_t segment;
    uint64_t bytes;    /* of the file, whole blocks */
    unsigned char *at; /* [HUNT_BYTES], aligned */
};

static enum status keep(struct scan *c, const struct ses_record *found,
                        const struct ses_where *where, struct status_note *note) {
    struct ses_store *s = c->store;
    struct ses_record r = *found;
    uint32_t flags = 0;
    if (c->alive != NULL && memcmp(r.space.key, s->own_key, sizeof r.space.key) == 0) {
        uint32_t number = ses_alive_number(c->alive, where);
        if (number == UINT32_MAX) /* erased, or moved since */
            return STATUS_OK;
        r.use = s->at[number].record.use;
        flags = s->at[number].flags;
    }
    s->counts.salvaged++;
    return ses_index_put(s->index, &r, where, flags, note);
}

/* Is there a record at this offset? Notes it in the index and says how long it is; 0: none. */
static enum status record_at(struct scan *c, uint64_t offset, uint64_t *length,
                             struct status_note *note) {
    struct store_header h;
    memcpy(&h, c->at, sizeof h);
    *length = 0;
    uint64_t record = (uint64_t)h.blocks * SES_DISK_BLOCK;
    if (memcmp(h.magic, SES_STORE_MAGIC, sizeof h.magic) != 0 || h.format != SES_STORE_FORMAT ||
        h.n_tokens == 0 || h.n_tokens > SES_INDEX_TOKENS_MAX || record > c->bytes - offset ||
        h.page_bytes == 0 || h.page_bytes > record)
        return STATUS_OK;
    uint64_t page = (h.page_bytes + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
    uint64_t header = page < record ? record - page : 0;
    if (header < sizeof h + h.n_tokens * sizeof(uint32_t) || header > HEADER_BYTES ||
        h.header_sum != ses_store_header_sum(c->at, header))
        return STATUS_OK;
    uint32_t tokens[SES_INDEX_TOKENS_MAX];
    memcpy(tokens, c->at + sizeof h, h.n_tokens * sizeof *tokens);
    const struct ses_record r = {.space = {.key = {h.key[0], h.key[1]}, .tenant = h.tenant},
                                 .name = {{h.name[0], h.name[1]}},
                                 .parent = {{h.parent[0], h.parent[1]}},
                                 .use = h.use,
                                 .depth = h.depth,
                                 .n_tokens = h.n_tokens,
                                 .tokens = tokens};
    const struct ses_where where = {
        .segment = c->segment, .blocks = h.blocks, .offset = offset, .sum = {h.sum[0], h.sum[1]}};
    *length = record;
    return keep(c, &r, &where, note);
}

static bool read_at(struct scan *c, uint64_t offset, uint64_t n) {
    int fd = ses_files_fd(c->store->files, c->segment);
    return fd >= 0 &&
           ses_store_transfer(c->store, SES_DISK_READ, fd, offset, c->at, n) == STATUS_OK;
}

/* Where the next header may begin, from a block on that is none; the end: nowhere. */
static uint64_t hunt(struct scan *c, uint64_t offset) {
    while (offset < c->bytes) {
        uint64_t n = c->bytes - offset < HUNT_BYTES ? c->bytes - offset : HUNT_BYTES;
        if (!read_at(c, offset, n))
            n = n < SES_DISK_BLOCK ? n : SES_DISK_BLOCK; /* a bad place on the disk: past it */
        else
            for (uint64_t i = 0; i < n; i += SES_DISK_BLOCK)
                if (memcmp(c->at + i, SES_STORE_MAGIC, sizeof SES_STORE_MAGIC - 1) == 0)
                    return offset + i;
        offset += n;
    }
    return c->bytes;
}

static enum status scan_segment(struct scan *c, struct status_note *note) {
    for (uint64_t offset = 0, length; offset < c->bytes; offset += length) {
        uint64_t n = c->bytes - offset < HEADER_BYTES ? c->bytes - offset : HEADER_BYTES;
        memset(c->at, 0, HEADER_BYTES);
        length = 0;
        if (read_at(c, offset, n))
            TRY(record_at(c, offset, &length, note));
        if (length == 0)
            length = hunt(c, offset + SES_DISK_BLOCK) - offset;
    }
    return STATUS_OK;
}

enum status ses_store_rebuild(struct ses_store *s, const struct ses_alive *alive,
                              struct status_note *note) {
    void *bytes = NULL;
    if (posix_memalign(&bytes, SES_DISK_BLOCK, HUNT_BYTES) != 0)
        return status_say(note, STATUS_NO_MEMORY, "no memory to read segments");
    struct scan c = {.store = s, .alive = alive, .at = bytes};
    enum status status = STATUS_OK;
    s->counts.salvaged = 0;
    while (status == STATUS_OK &&
           (c.segment = ses_files_next(s->files, c.segment, &c.bytes)) != 0) {
        c.bytes -= c.bytes % SES_DISK_BLOCK;
        status = scan_segment(&c, note);
        if (status == STATUS_OK) /* a part at a time: the whole counts when it is settled */
            status = ses_store_commit(s, note);
    }
    if (status != STATUS_OK)
        ses_index_abort(s->index);
    free(bytes);
    return status;
}
