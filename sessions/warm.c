/* SPDX-License-Identifier: Apache-2.0
 * Touches memory a chunk at a time, and looks at its mailbox between two.
 */
#include "sessions/warm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"
#include "actors/protocol.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { WARM_CHUNK = 4 << 20 };

struct ses_warm {
    struct ses_warm_range range[SES_WARM_RANGES];
    uint32_t n;
    uint64_t at; /* touched of each */
};

/* As if written to, with the bytes that are there. */
static bool touch(unsigned char *at, uint64_t bytes) {
    return bytes == 0 || madvise(at, bytes, MADV_POPULATE_WRITE) == 0;
}

bool ses_warm_first(const struct ses_warm_range *r) {
    return touch(r->at, r->bytes < SES_WARM_FIRST ? r->bytes : SES_WARM_FIRST);
}

enum status ses_warm_open(const struct ses_warm_range *ranges, uint32_t n, struct ses_warm **out,
                          struct status_note *note) {
    CHECK(n <= SES_WARM_RANGES);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory to touch host memory with");
    memcpy((*out)->range, ranges, n * sizeof *ranges);
    (*out)->n = n;
    return STATUS_OK;
}

void ses_warm_close(struct ses_warm *w) {
    free(w);
}

/* One chunk of each range in turn, so that no rank is behind; false: all is touched, or what is
 * not never will be. */
static bool warm_some(struct ses_warm *w) {
    bool more = false;
    for (uint32_t i = 0; i < w->n; i++) {
        struct ses_warm_range *r = &w->range[i];
        uint64_t left = w->at < r->bytes ? r->bytes - w->at : 0;
        uint64_t bytes = left < WARM_CHUNK ? left : WARM_CHUNK;
        if (!touch(r->at + w->at, bytes))
            return false;
        more = more || left > bytes;
    }
    w->at += WARM_CHUNK;
    return more;
}

static void warm_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct ses_warm *w = self;
    if (msg->kind == ACT_KIND_stop || !warm_some(w))
        act_exit(ctx);
    else
        act_timer_arm(ctx, 0, 0);
}

const struct act_kind ses_warm_kind = {.name = "warm", .receive = warm_receive};
