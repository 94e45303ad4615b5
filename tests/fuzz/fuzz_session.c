/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as the file of a session. What is taken in fits what this server is; no
 * size of the file decides what is allocated before it was compared; portions change nothing.
 */
#include <stdint.h>
#include <string.h>

#include "actors/check.h"
#include "sessions/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ses_export_kind kind = {
    .key = {.fingerprint = {1, 2}, .profile = 3, .rope = 4, .layout_version = 5, .world = 2},
    .page_tokens = 4,
    .pages_max = 8,
    .page_bytes = 24,
    .text = "the fuzzer's model"};

struct outcome {
    enum status status;
    uint32_t pages;
    uint64_t at;
    bool done;
};

static struct outcome run(const uint8_t *data, size_t size, size_t portion) {
    struct ses_import *im;
    struct status_note note = {{0}};
    struct outcome o = {.status = STATUS_OK};
    CHECK(ses_import_open(&kind, 9, &im, &note) == STATUS_OK);
    for (size_t at = 0; at < size && o.status == STATUS_OK;) {
        size_t n = size - at < portion ? size - at : portion, taken;
        o.status = ses_import_feed(im, data + at, n, &taken, &note);
        CHECK(taken <= n && (taken == n || ses_import_ready(im) || o.status != STATUS_OK));
        at += taken;
        CHECK(o.status == STATUS_OK || note.text[0] != 0);
        if (o.status != STATUS_OK || !ses_import_ready(im))
            continue;
        const uint32_t *tokens;
        uint32_t n_tokens;
        CHECK(ses_import_page(im, &tokens, &n_tokens) == o.pages && o.pages < kind.pages_max);
        CHECK(n_tokens > 0 && n_tokens <= kind.page_tokens);
        uint64_t sum = tokens[0] + tokens[n_tokens - 1];
        for (uint32_t r = 0; r < kind.key.world; r++) /* all of it is there to be read */
            for (uint64_t i = 0; i < kind.page_bytes; i++)
                sum += ses_import_bytes(im, r)[i];
        CHECK(sum != UINT64_MAX);
        o.pages++;
        ses_import_next(im);
    }
    o.at = ses_import_at(im);
    o.done = ses_import_done(im) && o.status == STATUS_OK;
    CHECK(o.at <= size && (!o.done || o.at == ses_import_size(im)));
    ses_import_close(im);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct outcome whole = run(data, size, size > 0 ? size : 1), parts = run(data, size, 7);
    CHECK(whole.status == parts.status && whole.pages == parts.pages && whole.at == parts.at &&
          whole.done == parts.done);
    return 0;
}
