/* SPDX-License-Identifier: Apache-2.0
 * Files of sessions: what is written is taken in again, whatever portions it comes in; one wrong
 * byte anywhere, a file that ends early or goes on, and a file of another server are refused, each
 * with its reason.
 */
#include "sessions/export.h"

#include <string.h>
#include <xxhash.h>

#include "tests/sessions/expect.h"

enum { PAGE_TOKENS = 4, PAGE_BYTES = 24, TOKENS = 10, PAGES = 3, WORLD = 2, BYTES_MAX = 4096 };

static const struct ses_export_kind kind = {
    .key = {.fingerprint = {1, 2}, .profile = 3, .rope = 4, .layout_version = 5, .world = WORLD},
    .page_tokens = PAGE_TOKENS,
    .pages_max = 8,
    .page_bytes = PAGE_BYTES,
    .text = "the fuzzer's model"};

static unsigned char page[PAGES][WORLD][PAGE_BYTES], file[BYTES_MAX];
static uint32_t tokens[TOKENS];
static size_t size;
static struct status_note note;

static void sum_of(const void *bytes, size_t n, uint64_t out[2]) {
    XXH128_hash_t sum = XXH3_128bits(bytes, n);
    out[0] = sum.low64;
    out[1] = sum.high64;
}

static void put(const void *bytes, size_t n) {
    EXPECT(size + n <= sizeof file);
    memcpy(file + size, bytes, n);
    size += n;
}

/* The whole file, its head changed before its checksum is made; pieces of any size. */
static void write_file(void (*change)(struct ses_export_head *head), uint32_t piece) {
    struct ses_export_head head = ses_export_head_of(&kind, 9, TOKENS);
    size = 0;
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = 100 + i;
    sum_of(tokens, sizeof tokens, head.tokens_sum);
    if (change != NULL)
        change(&head);
    ses_export_seal(&head);
    put(&head, sizeof head);
    put(tokens, sizeof tokens);
    for (uint32_t k = 0; k < PAGES; k++)
        for (uint32_t r = 0; r < WORLD; r++) {
            uint32_t i = ses_export_order(k, PAGES);
            memset(page[i][r], (int)(10 * i + r), PAGE_BYTES);
            for (uint64_t at = 0; at < sizeof(struct ses_export_part) + PAGE_BYTES;) {
                unsigned char some[64];
                uint32_t n = ses_export_piece(i, r, page[i][r], PAGE_BYTES, at, some, piece);
                EXPECT(n > 0 && n <= piece);
                put(some, n);
                at += n;
            }
        }
    struct ses_export_end end = {.magic = "RHSEND1\n"};
    memcpy(end.magic, "RHSEND1\n", sizeof end.magic);
    sum_of(file, size, end.sum);
    put(&end, sizeof end);
    if (change == NULL)
        EXPECT_EQ(size, ses_export_size(&head));
}

/* Feeds it in such portions; *pages: how many came out right. done: it was whole. */
static enum status take(size_t n_bytes, size_t portion, uint32_t *pages, bool *done) {
    struct ses_import *im;
    enum status status = STATUS_OK;
    *pages = 0;
    EXPECT_FINE(ses_import_open(&kind, 9, &im, &note) == STATUS_OK, note);
    for (size_t at = 0; at < n_bytes && status == STATUS_OK;) {
        size_t n = n_bytes - at < portion ? n_bytes - at : portion, taken;
        status = ses_import_feed(im, file + at, n, &taken, &note);
        at += taken;
        if (status != STATUS_OK || !ses_import_ready(im))
            continue;
        const uint32_t *own;
        uint32_t n_own, index = ses_import_page(im, &own, &n_own);
        EXPECT_EQ(index, *pages);
        EXPECT_EQ(n_own, index + 1 < PAGES ? PAGE_TOKENS : TOKENS % PAGE_TOKENS);
        EXPECT(memcmp(own, tokens + (size_t)index * PAGE_TOKENS, n_own * sizeof *own) == 0);
        for (uint32_t r = 0; r < WORLD; r++)
            EXPECT(memcmp(ses_import_bytes(im, r), page[index][r], PAGE_BYTES) == 0);
        ++*pages;
        ses_import_next(im);
    }
    *done = ses_import_done(im) && status == STATUS_OK;
    ses_import_close(im);
    return status;
}

START_TEST(test_portions) {
    uint32_t pages;
    bool done;
    for (uint32_t piece = 1; piece <= 64; piece++) {
        write_file(NULL, piece);
        EXPECT_FINE(take(size, 65 - piece, &pages, &done) == STATUS_OK, note);
        EXPECT(done && pages == PAGES);
    }
}
END_TEST

/* Nothing that is wrong comes out; what came out before it was right. */
START_TEST(test_damaged) {
    uint32_t pages;
    bool done;
    write_file(NULL, 64);
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit += 7) {
            file[at] ^= (unsigned char)(1 << bit);
            EXPECT(take(size, 100, &pages, &done) != STATUS_OK);
            EXPECT(!done && note.text[0] != 0);
            file[at] ^= (unsigned char)(1 << bit);
        }
    for (size_t n = 0; n < size; n++) {
        EXPECT_FINE(take(n, 33, &pages, &done) == STATUS_OK, note);
        EXPECT(!done);
    }
    file[size] = 0;
    EXPECT_EQ(take(size + 1, 100, &pages, &done), STATUS_BAD_FILE);
    EXPECT(!done);
}
END_TEST

static void other_model(struct ses_export_head *h) {
    h->fingerprint[1]++;
}
static void other_profile(struct ses_export_head *h) {
    h->profile++;
}
static void other_rope(struct ses_export_head *h) {
    h->rope++;
}
static void other_layout(struct ses_export_head *h) {
    h->layout_version++;
}
static void other_world(struct ses_export_head *h) {
    h->world = 1u << 31;
}
static void other_tenant(struct ses_export_head *h) {
    h->tenant++;
}
static void other_page(struct ses_export_head *h) {
    h->page_tokens *= 2;
}
static void huge_page(struct ses_export_head *h) {
    h->page_bytes = UINT64_MAX / 2;
}
static void huge_tokens(struct ses_export_head *h) {
    h->n_tokens = UINT64_MAX / 4;
}
static void no_tokens(struct ses_export_head *h) {
    h->n_tokens = 0;
}
static void wrapped_tokens(struct ses_export_head *h) {
    h->n_tokens += 1ull << 32;
}
static void huge_pages(struct ses_export_head *h) {
    h->n_pages = UINT32_MAX;
}
static void next_format(struct ses_export_head *h) {
    h->format++;
}
static void longer_head(struct ses_export_head *h) {
    h->head_bytes += 8;
}
static void wrong_magic(struct ses_export_head *h) {
    h->magic[0] = 'X';
}

START_TEST(test_foreign) {
    static const struct {
        void (*change)(struct ses_export_head *h);
        enum status status;
        const char *reason;
    } wrong[] = {
        {other_model, STATUS_UNSUPPORTED, "another model"},
        {other_profile, STATUS_UNSUPPORTED, "another profile"},
        {other_rope, STATUS_UNSUPPORTED, "another setting of RoPE"},
        {other_layout, STATUS_UNSUPPORTED, "another layout"},
        {other_world, STATUS_UNSUPPORTED, "another number of ranks"},
        {other_page, STATUS_UNSUPPORTED, "another number of tokens a page"},
        {huge_page, STATUS_UNSUPPORTED, "another number of bytes a page"},
        {other_tenant, STATUS_BAD_REQUEST, "another tenant"},
        {huge_tokens, STATUS_TOO_LARGE, "the context holds 32"},
        {wrapped_tokens, STATUS_TOO_LARGE, "the context holds 32"},
        {no_tokens, STATUS_BAD_FILE, "0 tokens"},
        {huge_pages, STATUS_BAD_FILE, "4294967295 pages"},
        {next_format, STATUS_BAD_FILE, "format 2; this build reads format 1"},
        {longer_head, STATUS_BAD_FILE, "its head has 288 bytes; in format 1 it has 280"},
        {wrong_magic, STATUS_BAD_FILE, "no file of a session"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint32_t pages;
        bool done;
        write_file(wrong[i].change, 64);
        ck_assert_int_eq(take(size, 50, &pages, &done), wrong[i].status);
        ck_assert_msg(strstr(note.text, wrong[i].reason) != NULL, "%s: %s", wrong[i].reason,
                      note.text);
        EXPECT(!done && pages == 0);
        /* Both sides are said, and what is said differs. */
        char theirs[64], ours[64];
        const char *at = strstr(note.text, ": ");
        if (wrong[i].status != STATUS_UNSUPPORTED)
            continue;
        EXPECT(at != NULL && sscanf(at, ": %63[^,], here %63[^;];", theirs, ours) == 2);
        ck_assert_msg(strcmp(theirs, ours) != 0, "%s", note.text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/export");
    TCase *tcase = tcase_create("export");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_portions);
    tcase_add_test(tcase, test_damaged);
    tcase_add_test(tcase, test_foreign);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
