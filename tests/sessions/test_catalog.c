/* SPDX-License-Identifier: Apache-2.0
 * Sessions as people see them: what a list says, whose it is, what forgetting takes and leaves,
 * and that what is pinned stays whatever else wants its room. The tier finishes at once.
 */
#include "sessions/catalog.h"

#include <string.h>

#include "tests/sessions/expect.h"

enum { PAGE_TOKENS = 4, PAGES = 12, PLACES = 16, IDS_MAX = 40 };

static struct ses_book *book;
static struct ses_query query;
static bool used[PLACES], marked[PLACES], with_disk;
static uint32_t ids[IDS_MAX];
static struct {
    bool restores;
    uint32_t page;
} job[PAGES];
static uint32_t n_jobs, n_places = PLACES;

static void park(void *self, uint32_t page, uint32_t place) {
    (void)self;
    EXPECT(!used[place] && n_jobs < PAGES);
    used[place] = true;
    job[n_jobs].restores = false;
    job[n_jobs++].page = page;
}

static void restore(void *self, uint32_t place, uint32_t page) {
    (void)self;
    EXPECT(used[place] && n_jobs < PAGES);
    job[n_jobs].restores = true;
    job[n_jobs++].page = page;
}

static void forget(void *self, uint32_t place) {
    (void)self;
    EXPECT(used[place]);
    used[place] = marked[place] = false;
}

static uint32_t where(void *self, uint32_t place) {
    (void)self;
    return !used[place] ? 0 : with_disk ? SES_AT_DISK : SES_AT_RAM;
}

static void mark(void *self, uint32_t place, uint64_t use, bool pinned) {
    (void)self;
    EXPECT(used[place] && use > 0);
    marked[place] = pinned;
}

static void settle(void) {
    struct status_note note;
    struct ses_answer answer;
    uint32_t freed[8];
    do {
        while (n_jobs > 0) {
            bool restores = job[0].restores;
            uint32_t page = job[0].page;
            memmove(job, job + 1, --n_jobs * sizeof *job);
            (restores ? ses_book_restored : ses_book_parked)(book, page, true);
        }
        while (ses_book_ready(book, &answer))
            EXPECT_EQ(answer.verdict, SES_ADMITTED);
        ses_book_copy_out(book, 2);
        while (ses_book_freed(book, freed, 8) > 0)
            ;
        EXPECT_FINE(ses_book_audit(book, &note), note);
    } while (n_jobs > 0);
}

static void open_book(bool with_tier, bool early) {
    static const struct ses_tier tier = {.name = "test",
                                         .park = park,
                                         .restore = restore,
                                         .forget = forget,
                                         .where = where,
                                         .mark = mark};
    struct ses_book_config config = {.key = {.fingerprint = {7, 9}, .world = 1},
                                     .n_pages = PAGES,
                                     .page_tokens = PAGE_TOKENS,
                                     .slots_max = 2,
                                     .pages_per_slot_max = PAGES,
                                     .tier = with_tier ? &tier : NULL,
                                     .n_places = with_tier ? n_places : 0,
                                     .early = early};
    struct status_note note;
    EXPECT_FINE(ses_book_open(&config, &book, &note) == STATUS_OK, note);
    memset(used, 0, sizeof used);
    memset(marked, 0, sizeof marked);
    with_disk = early;
    n_jobs = 0;
}

/* A request of n tokens that begin with first, then others; returns how many were known. */
static uint32_t run(uint64_t tenant, uint32_t first, uint32_t n) {
    struct ses_answer answer;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = first * 100 + i;
    struct ses_admit ask = {.ids = ids, .tenant = tenant, .n_ids = n, .max_tokens = n, .reuse = 1};
    if (ses_book_admit(book, &ask, &answer) != SES_ADMITTED) {
        uint32_t freed[8];
        EXPECT(answer.verdict != SES_DENIED);
        while (answer.verdict != SES_ADMITTED) {
            EXPECT(n_jobs > 0);
            bool restores = job[0].restores;
            uint32_t page = job[0].page;
            memmove(job, job + 1, --n_jobs * sizeof *job);
            (restores ? ses_book_restored : ses_book_parked)(book, page, true);
            ses_book_ready(book, &answer);
            while (ses_book_freed(book, freed, 8) > 0)
                ;
        }
    }
    EXPECT_EQ(answer.verdict, SES_ADMITTED);
    if (answer.admitted.copy_src != 0)
        ses_book_copied(book, &(struct ses_copied){.slot = 0});
    struct ses_released out;
    ses_book_release(book, &(struct ses_release){.ids = ids, .n_rows = n, .keep = 1}, &out);
    settle();
    return answer.admitted.matched;
}

static enum status ask(enum ses_query_kind kind, uint64_t tenant, uint64_t from,
                       const struct ses_name *name) {
    query.kind = kind;
    query.tenant = tenant;
    query.from = from;
    if (name != NULL)
        query.name = *name;
    ses_book_query(book, &query);
    settle();
    return query.status;
}

/* The tenant's session of so many tokens that begins with first. */
static struct ses_row row_of(uint64_t tenant, uint32_t first, uint32_t n) {
    static struct ses_query list;
    EXPECT_EQ(ask(SES_QUERY_LIST, tenant, 0, NULL), STATUS_OK);
    list = query;
    for (uint32_t i = 0; i < list.n; i++) {
        EXPECT_EQ(ask(SES_QUERY_TOKENS, tenant, 0, &list.row[i].name), STATUS_OK);
        EXPECT_EQ(query.n, list.row[i].tokens);
        if (query.n == n && query.token[0] == first * 100)
            return list.row[i];
    }
    return (struct ses_row){.tokens = 0};
}

static uint32_t count(uint64_t tenant) {
    EXPECT_EQ(ask(SES_QUERY_LIST, tenant, 0, NULL), STATUS_OK);
    return query.n;
}

START_TEST(test_list) {
    open_book(true, true);
    run(0, 1, 10);
    run(0, 2, 7);
    run(5, 1, 10);
    EXPECT_EQ(count(0), 2);
    EXPECT_EQ(count(5), 1);
    EXPECT_EQ(count(6), 0);
    struct ses_row r = row_of(0, 1, 10);
    EXPECT_EQ(r.tokens, 10);
    EXPECT_EQ(r.pages, 3);
    EXPECT_EQ(r.on_device, 3);
    EXPECT_EQ(r.on_disk, 3);
    EXPECT_EQ(r.in_ram, 0);
    EXPECT(!r.pinned && !r.in_use);
    EXPECT(row_of(0, 2, 7).use > r.use);
    for (uint32_t from = 0; from <= 10; from++) {
        EXPECT_EQ(ask(SES_QUERY_TOKENS, 0, from, &r.name), STATUS_OK);
        EXPECT_EQ(query.n, 10 - from);
        for (uint32_t i = 0; i < query.n; i++)
            EXPECT_EQ(query.token[i], 100 + from + i);
    }
    EXPECT_EQ(ask(SES_QUERY_TOKENS, 0, 11, &r.name), STATUS_BAD_REQUEST);
    /* Nobody else's: whatever is asked, it is not there. */
    for (int kind = SES_QUERY_TOKENS; kind <= SES_QUERY_UNPIN; kind++)
        EXPECT_EQ(ask((enum ses_query_kind)kind, 5, 0, &r.name), STATUS_NOT_FOUND);
    r.name.word[1]++;
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &r.name), STATUS_NOT_FOUND);
    ses_book_close(book);
}
END_TEST

/* What another session shares stays; what is used cannot be forgotten. */
START_TEST(test_forget) {
    open_book(true, true);
    run(0, 1, 10);
    struct ses_row first = row_of(0, 1, 10);
    ids[9] = 7; /* the same beginning of two pages, another third one */
    struct ses_answer answer;
    struct ses_released out;
    struct ses_admit other = {.ids = ids, .slot = 1, .n_ids = 10, .max_tokens = 12, .reuse = 1};
    EXPECT_EQ(ses_book_admit(book, &other, &answer), SES_ADMITTED);
    EXPECT_EQ(answer.admitted.matched, 9);
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &first.name), STATUS_AGAIN); /* it is copied from */
    ses_book_copied(book, &(struct ses_copied){.slot = 1});
    ses_book_release(book, &(struct ses_release){.ids = ids, .slot = 1, .n_rows = 10, .keep = 1},
                     &out);
    settle();
    EXPECT_EQ(count(0), 2);
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &first.name), STATUS_OK);
    EXPECT_EQ(query.n, 1);
    EXPECT_EQ(count(0), 1);
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &first.name), STATUS_NOT_FOUND);
    EXPECT_EQ(run(0, 1, 10), 9);
    struct ses_row again = row_of(0, 1, 10);
    EXPECT(memcmp(&again.name, &first.name, sizeof first.name) == 0); /* a name that lasts */
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &again.name), STATUS_OK);
    EXPECT_EQ(ask(SES_QUERY_LIST, 0, 0, NULL), STATUS_OK);
    struct ses_name last = query.row[0].name;
    EXPECT_EQ(ask(SES_QUERY_FORGET, 0, 0, &last), STATUS_OK);
    EXPECT_EQ(query.n, 3);
    for (uint32_t i = 0; i < PLACES; i++)
        EXPECT(!used[i]);
    ses_book_close(book);
}
END_TEST

static void check_pin(bool early) {
    open_book(true, early);
    run(0, 1, 10);
    struct ses_row r = row_of(0, 1, 10);
    enum status first = ask(SES_QUERY_PIN, 0, 0, &r.name); /* without a disk it is copied now */
    EXPECT_EQ(first, early ? STATUS_OK : STATUS_AGAIN);
    EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_OK);
    EXPECT_EQ(query.n, 3);
    uint32_t marks = 0;
    for (uint32_t i = 0; i < PLACES; i++)
        marks += marked[i];
    EXPECT_EQ(marks, 1);
    /* Others want all the room there is, many times over. */
    for (uint32_t k = 2; k < 40; k++)
        run(k % 3, k, 4 * PAGE_TOKENS + k % PAGE_TOKENS);
    r = row_of(0, 1, 10);
    EXPECT(r.pinned);
    EXPECT_EQ(r.on_disk + r.in_ram, 3);
    EXPECT_EQ(run(0, 1, 10), 9);
    /* It goes on: the longer one is pinned up to where the pages were its own. */
    EXPECT_EQ(run(0, 1, 11), 10);
    for (uint32_t k = 40; k < 80; k++)
        run(k % 3, k, 4 * PAGE_TOKENS + k % PAGE_TOKENS);
    EXPECT_EQ(run(0, 1, 11), 10);
    r = row_of(0, 1, 11);
    EXPECT(r.pinned);
    /* A request that fills the whole device takes its pages there, not its place. */
    EXPECT_EQ(run(0, 90, PAGES * PAGE_TOKENS - 8), 0);
    EXPECT_EQ(run(0, 1, 11), 10);
    EXPECT_EQ(ask(SES_QUERY_UNPIN, 0, 0, &r.name), STATUS_OK);
    EXPECT(!row_of(0, 1, 11).pinned);
    for (uint32_t k = 100; k < 140; k++)
        run(k % 3, k, 4 * PAGE_TOKENS);
    if (early)
        EXPECT_EQ(row_of(0, 1, 11).tokens, 0); /* it went like any other */
    ses_book_close(book);
}

START_TEST(test_pin) {
    check_pin(true);
    check_pin(false);
}
END_TEST

/* A session that is on the device and lost its place on a disk smaller than that: the pin has it
 * stored again, whatever gives way. */
START_TEST(test_pin_stores) {
    n_places = 8;
    open_book(true, true);
    for (uint32_t k = 1; k <= 4; k++)
        run(0, k, 3 * PAGE_TOKENS);
    struct ses_row r = row_of(0, 1, 3 * PAGE_TOKENS);
    EXPECT_EQ(r.on_device, 3);
    EXPECT_EQ(r.on_disk, 0);
    EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_AGAIN);
    EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_OK);
    r = row_of(0, 1, 3 * PAGE_TOKENS);
    EXPECT(r.pinned);
    EXPECT_EQ(r.on_disk, 3);
    ses_book_close(book);
    n_places = PLACES;
}
END_TEST

/* A pin beyond the share is refused with the numbers, and changes nothing. */
START_TEST(test_pin_budget) {
    open_book(true, true);
    for (uint32_t k = 1; k <= 3; k++)
        run(0, k, 3 * PAGE_TOKENS);
    for (uint32_t k = 1; k <= 3; k++) {
        struct ses_row r = row_of(0, k, 3 * PAGE_TOKENS);
        EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), k < 3 ? STATUS_OK : STATUS_TOO_LARGE);
        if (k < 3)
            EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_OK); /* it costs once */
    }
    EXPECT_EQ(query.value, 9);
    EXPECT_EQ(query.limit, PLACES / SES_PIN_SHARE);
    EXPECT(!row_of(0, 3, 3 * PAGE_TOKENS).pinned);
    ses_book_close(book);
    open_book(false, false);
    run(0, 1, 10);
    struct ses_row r = row_of(0, 1, 10);
    EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_UNSUPPORTED);
    ses_book_close(book);
}
END_TEST

/* What is loaded at start is as pinned as it was, and an ancestor was used when its child was. */
START_TEST(test_loaded) {
    open_book(true, true);
    run(0, 1, 10);
    struct ses_record record[3];
    uint32_t tokens[3][PAGE_TOKENS], place;
    struct ses_row r = row_of(0, 1, 10);
    EXPECT_EQ(ask(SES_QUERY_PIN, 0, 0, &r.name), STATUS_OK);
    uint32_t n = 0;
    for (uint32_t id = 1; id <= PAGES; id++) { /* device pages in the order they were taken */
        struct ses_record one;
        if (n == 3)
            break;
        ses_book_describe(book, id, &one);
        EXPECT_EQ(one.depth, n);
        memcpy(tokens[n], one.tokens, one.n_tokens * sizeof(uint32_t));
        record[n] = one;
        record[n].tokens = tokens[n];
        record[n].use = n == 2 ? 50 : 10;
        n++;
    }
    EXPECT_EQ(record[0].flags, 0);
    EXPECT_EQ(record[2].flags, SES_RECORD_PINNED);
    ses_book_close(book);
    open_book(true, true);
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT(ses_book_load(book, &record[i], &place));
        used[place] = true;
    }
    ses_book_loaded(book);
    settle();
    r = row_of(0, 1, 10);
    EXPECT(r.pinned);
    EXPECT_EQ(r.use, 50);
    EXPECT_EQ(r.on_device, 0);
    EXPECT_EQ(r.on_disk, 3);
    EXPECT_EQ(ses_trie_use(ses_book_trie(book), 1), 50);
    EXPECT_EQ(run(0, 1, 10), 9);
    /* A record behind one that is not full, which only a damaged index can name. */
    struct ses_record odd = record[1];
    odd.depth = 3;
    odd.parent = record[2].name;
    EXPECT(!ses_book_load(book, &odd, &place));
    /* One behind another tenant's, which only a forged one can name. */
    odd = record[1];
    odd.parent = record[0].name;
    odd.space.tenant++;
    const struct ses_trie *trie = ses_book_trie(book);
    odd.name = ses_trie_name_of(trie, &odd.space, ses_trie_named(trie, &odd.parent), odd.tokens,
                                odd.n_tokens);
    EXPECT(!ses_book_load(book, &odd, &place));
    ses_book_close(book);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("catalog");
    TCase *t = tcase_create("catalog");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_list);
    tcase_add_test(t, test_forget);
    tcase_add_test(t, test_pin);
    tcase_add_test(t, test_pin_stores);
    tcase_add_test(t, test_pin_budget);
    tcase_add_test(t, test_loaded);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
