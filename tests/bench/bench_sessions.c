/* SPDX-License-Identifier: Apache-2.0
 * What the memory costs a request: lookups among many sessions, admit and release, seals. Ratios
 * are to one pass of XXH3 over the same prompts, the least that a lookup by hash must do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

#include "sessions/book.h"
#include "sessions/index.h"
#include "sessions/trie.h"

enum { PAGE = 64, TOKENS = 3000, SESSIONS = 400, SHARED = 1000, ROUNDS = 20 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t prompts[SESSIONS][TOKENS];

/* All sessions begin with the same 1,000 tokens and differ from there on. */
static void fill(void) {
    uint64_t x = 1;
    for (uint32_t s = 0; s < SESSIONS; s++)
        for (uint32_t i = 0; i < TOKENS; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            prompts[s][i] = i < SHARED ? i : (uint32_t)(x >> 40) % 32000;
        }
}

static void die(const char *what) {
    fprintf(stderr, "bench_sessions: %s\n", what);
    exit(1);
}

static void serve(struct ses_book *b, uint32_t s, uint32_t expected) {
    struct ses_admit ask = {
        .ids = prompts[s], .n_ids = TOKENS, .max_tokens = TOKENS + 100, .reuse = 1};
    struct ses_answer answer;
    if (ses_book_admit(b, &ask, &answer) != SES_ADMITTED || answer.admitted.matched != expected)
        die("a session was not found as it was left");
    if (answer.admitted.copy_src != 0)
        ses_book_copied(b, &(struct ses_copied){.slot = 0});
    struct ses_release told = {.ids = prompts[s], .n_rows = TOKENS, .keep = 1};
    struct ses_released out;
    ses_book_release(b, &told, &out);
    uint32_t ids[8];
    while (ses_book_freed(b, ids, 8) > 0)
        ;
}

static void row(const char *what, double seconds, double times, double bare) {
    printf("%-40s %9.2f us  %6.1fx\n", what, seconds / times * 1e6, seconds / times / bare);
}

static bool count(void *self, const struct ses_record *r, const struct ses_where *where,
                  uint32_t flags) {
    (void)r;
    (void)where;
    (void)flags;
    ++*(uint32_t *)self;
    return true;
}

/* What a start has to look at: 100,000 stored sessions of one page each. */
static void index_row(double bare) {
    char folder[] = "/tmp/rh-bench-index-XXXXXX", command[128];
    struct ses_index *x;
    struct status_note note;
    struct ses_key key = {.world = 1};
    uint32_t tokens[PAGE] = {0}, n = 0;
    uint64_t bad = 0;
    if (mkdtemp(folder) == NULL || ses_index_open(folder, false, 0, &x, &note) != STATUS_OK)
        die("no index can be made in /tmp");
    for (uint32_t i = 0; i < 100000; i++) {
        tokens[0] = i;
        const struct ses_record r = {.space = ses_space_of(&key, 0),
                                     .name = {{i * 0x9e3779b97f4a7c15u, i}},
                                     .n_tokens = PAGE,
                                     .tokens = tokens};
        const struct ses_where where = {.segment = 1 + i / 1000, .blocks = 50, .offset = i % 1000};
        if (ses_index_put(x, &r, &where, 0, &note) != STATUS_OK ||
            (i % 10000 == 9999 && ses_index_commit(x, &note) != STATUS_OK))
            die(note.text);
    }
    uint64_t bytes = ses_index_bytes(x);
    ses_index_close(x);
    double start = now_s();
    if (ses_index_check(folder, &note) != STATUS_OK)
        die(note.text);
    row("index of 100,000: every page checked", now_s() - start, 1, bare);
    start = now_s();
    if (ses_index_open(folder, true, 0, &x, &note) != STATUS_OK ||
        ses_index_each(x, &n, count, &bad, &note) != STATUS_OK || n != 100000 || bad != 0)
        die("the index is not as it was left");
    row("index of 100,000: opened and read", now_s() - start, 1, bare);
    printf("index of a session: %llu bytes on disk\n", (unsigned long long)(bytes / 100000));
    ses_index_close(x);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        die("a directory in /tmp stays");
}

int main(void) {
    fill();
    uint32_t pages = (TOKENS + PAGE - 1) / PAGE * SESSIONS;
    struct ses_book_config config = {
        .n_pages = pages + 64, .page_tokens = PAGE, .slots_max = 4, .pages_per_slot_max = 64};
    struct ses_book *b;
    struct status_note note;
    if (ses_book_open(&config, &b, &note) != STATUS_OK)
        die(note.text);
    uint64_t sum = 0;
    double start = now_s();
    for (int r = 0; r < ROUNDS; r++)
        for (uint32_t s = 0; s < SESSIONS; s++)
            sum += XXH3_64bits(prompts[s], sizeof prompts[s]);
    double bare = (now_s() - start) / (ROUNDS * SESSIONS);
    printf("%d sessions of %d tokens, page of %d; sum %llx\n", SESSIONS, TOKENS, PAGE,
           (unsigned long long)sum);
    row("XXH3 of a prompt", bare, 1, bare);

    start = now_s();
    for (uint32_t s = 0; s < SESSIONS; s++)
        serve(b, s, s == 0 ? 0 : SHARED);
    row("new session: admit, release", now_s() - start, SESSIONS, bare);
    start = now_s();
    for (int r = 0; r < ROUNDS; r++)
        for (uint32_t s = 0; s < SESSIONS; s++)
            serve(b, (s * 7919u) % SESSIONS, TOKENS - 1);
    row("resumed session: admit, release", now_s() - start, ROUNDS * SESSIONS, bare);

    struct ses_key key = config.key;
    struct ses_space space = ses_space_of(&key, 0);
    struct ses_trie *t;
    if (ses_trie_open(200000, PAGE, &t, &note) != STATUS_OK)
        die(note.text);
    uint32_t ids[PAGE] = {0}, path[2], found = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        ids[0] = i * 2654435761u % 100000;
        ids[1] = i;
        ses_trie_add(t, &space, 0, ids, 2, i + 1);
    }
    start = now_s();
    for (uint32_t i = 0; i < 200000; i++) {
        ids[0] = i * 2246822519u % 100000;
        ids[1] = 200000;
        found += ses_trie_find(t, &space, ids, 2, path).tokens;
    }
    row("lookup among 100,000 short sessions", now_s() - start, 200000, bare);
    printf("found %u; books of a page: %llu bytes\n", found,
           (unsigned long long)(ses_trie_bytes(t) / 200000));
    ses_trie_close(t);
    index_row(bare);
    ses_book_close(b);
    return 0;
}
