/* SPDX-License-Identifier: Apache-2.0
 * Pages in a tier, one step at a time: what is found, what waits, what a bad record costs. The
 * contents are checked in test_memory.c, under random orders.
 */
#include <string.h>

#include "sessions/book.h"
#include "sessions/tiers.h"
#include "sessions/trie.h"
#include "tests/sessions/expect.h"

enum { PAGE_TOKENS = 4, PAGES = 8, PLACES = 8, IDS = 15 };

static struct ses_book *book;
static struct {
    uint32_t page, place;
    bool restores;
} job[PAGES];
static uint32_t n_jobs, n_used, n_places = PLACES;
static bool early;
static uint32_t ids[IDS];

static void begin(bool restores, uint32_t page, uint32_t place) {
    EXPECT(n_jobs < PAGES && place < PLACES && page >= 1 && page <= PAGES);
    job[n_jobs].restores = restores;
    job[n_jobs].page = page;
    job[n_jobs++].place = place;
}

static void park(void *self, uint32_t page, uint32_t place) {
    (void)self;
    n_used++;
    begin(false, page, place);
}

static void restore(void *self, uint32_t place, uint32_t page) {
    (void)self;
    begin(true, page, place);
}

static void forget(void *self, uint32_t place) {
    (void)self;
    EXPECT(n_used > 0 && place < PLACES);
    n_used--;
}

static void settle(void) {
    struct status_note note;
    uint32_t freed[8];
    while (ses_book_freed(book, freed, 8) > 0)
        ;
    EXPECT_FINE(ses_book_audit(book, &note), note);
}

/* Ends the oldest job under way. */
static void finish(bool fine) {
    EXPECT(n_jobs > 0);
    bool restores = job[0].restores;
    uint32_t page = job[0].page;
    memmove(job, job + 1, --n_jobs * sizeof *job);
    if (restores)
        ses_book_restored(book, page, fine);
    else
        ses_book_parked(book, page, fine);
    settle();
}

static struct ses_counted counted(void) {
    struct ses_counted c;
    ses_book_count(book, &c);
    return c;
}

static enum ses_verdict admit(uint32_t slot, uint32_t n, uint32_t max, struct ses_answer *answer) {
    struct ses_admit ask = {.ids = ids, .slot = slot, .n_ids = n, .max_tokens = max, .reuse = 1};
    enum ses_verdict verdict = ses_book_admit(book, &ask, answer);
    settle();
    return verdict;
}

static void release(uint32_t slot, uint32_t n_rows, uint32_t keep) {
    struct ses_release told = {.ids = ids, .slot = slot, .n_rows = n_rows, .keep = keep};
    struct ses_released out;
    ses_book_release(book, &told, &out);
    settle();
}

static bool ready(struct ses_answer *answer) {
    bool one = ses_book_ready(book, answer);
    settle();
    return one;
}

/* A session of 15 tokens is cached, and with `all` wholly in the tier. */
static void open_book(bool all) {
    static const struct ses_tier tier = {
        .name = "test", .park = park, .restore = restore, .forget = forget};
    struct ses_book_config config = {.n_pages = PAGES,
                                     .page_tokens = PAGE_TOKENS,
                                     .slots_max = 3,
                                     .pages_per_slot_max = PAGES,
                                     .tier = &tier,
                                     .n_places = n_places,
                                     .early = early};
    struct status_note note;
    struct ses_answer answer;
    EXPECT_FINE(ses_book_open(&config, &book, &note) == STATUS_OK, note);
    n_jobs = n_used = 0;
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = 10 + i;
    EXPECT_EQ(admit(0, IDS, IDS, &answer), SES_ADMITTED);
    release(0, IDS, 1);
    EXPECT_EQ(counted().pages_cached, 4);
    for (uint32_t i = 0; all && i < 4; i++) {
        EXPECT_EQ(ses_book_park(book, 9), 1); /* a parent goes after its child */
        settle();
        finish(true);
    }
    if (all) {
        EXPECT_EQ(counted().pages_free, PAGES);
        EXPECT_EQ(counted().nodes, 4);
        EXPECT_EQ(n_used, 4);
        EXPECT_EQ(ses_book_park(book, 9), 0);
    }
}

static void close_book(void) {
    EXPECT_EQ(n_jobs, 0);
    ses_book_forget(book);
    settle();
    EXPECT_EQ(counted().pages_free, PAGES);
    EXPECT_EQ(counted().nodes, 0);
    EXPECT_EQ(n_used, 0);
    ses_book_close(book);
}

START_TEST(test_comes_back) {
    for (uint32_t n = 1; n <= IDS; n++) { /* whole prompts and beginnings */
        open_book(true);
        struct ses_answer answer;
        uint32_t pages = (n - 1 + PAGE_TOKENS - 1) / PAGE_TOKENS;
        enum ses_verdict verdict = admit(1, n, n, &answer);
        EXPECT_EQ(verdict, n == 1 ? SES_ADMITTED : SES_RESTORING);
        EXPECT_EQ(n_jobs, pages);
        while (n_jobs > 0) {
            EXPECT(!ready(&answer));
            finish(true);
        }
        if (n > 1)
            EXPECT(ready(&answer));
        EXPECT_EQ(answer.verdict, SES_ADMITTED);
        EXPECT_EQ(answer.admitted.matched, n - 1);
        EXPECT_EQ(answer.admitted.reason, SES_HIT_CAPPED);
        EXPECT_EQ(answer.admitted.copy_src, 0);
        EXPECT(!ready(&answer));
        EXPECT_EQ(counted().nodes, 4);
        EXPECT_EQ(n_used, 4 - (n - 1) / PAGE_TOKENS); /* full pages are on the device again */
        release(1, n, 1);
        EXPECT_EQ(counted().nodes, 4);
        close_book();
    }
}
END_TEST

/* Record k is bad: everything before it is reused, it and all behind it are forgotten. */
START_TEST(test_bad_record) {
    for (uint32_t bad = 0; bad < 4; bad++) {
        open_book(true);
        struct ses_answer answer;
        EXPECT_EQ(admit(1, IDS, IDS, &answer), SES_RESTORING);
        EXPECT_EQ(n_jobs, 4);
        for (uint32_t k = 0; k < 4; k++)
            finish(k != bad);
        EXPECT(ready(&answer));
        EXPECT_EQ(answer.admitted.matched, bad * PAGE_TOKENS);
        EXPECT_EQ(answer.admitted.reason, bad > 0 ? SES_HIT_CUT : SES_MISS_RECORD);
        EXPECT_EQ(counted().nodes, bad);
        EXPECT_EQ(n_used, 0);
        release(1, IDS, 1);
        EXPECT_EQ(counted().nodes, 4);
        close_book();
    }
}
END_TEST

START_TEST(test_two_wait_for_one_record) {
    open_book(true);
    struct ses_answer answer;
    EXPECT_EQ(admit(1, 9, 9, &answer), SES_RESTORING);
    EXPECT_EQ(admit(2, 12, 12, &answer), SES_RESTORING);
    EXPECT_EQ(n_jobs, 2 + 3);
    while (n_jobs > 0)
        finish(true);
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT(ready(&answer));
        EXPECT_EQ(answer.admitted.matched, answer.admitted.slot == 1 ? 8 : 11);
    }
    EXPECT(!ready(&answer));
    EXPECT_EQ(counted().nodes, 4);
    release(1, 9, 1);
    release(2, 12, 1);
    EXPECT_EQ(counted().nodes, 4);
    close_book();
}
END_TEST

/* The first of three that wait has come and gone when the second's page comes: the third still
 * reads the place, so the page that is there stays. */
START_TEST(test_three_wait_for_one_record) {
    struct ses_answer answer;
    early = true;
    open_book(true);
    for (uint32_t slot = 0; slot < 3; slot++)
        EXPECT_EQ(admit(slot, 5, 5, &answer), SES_RESTORING);
    EXPECT_EQ(n_jobs, 3);
    for (uint32_t slot = 0; slot < 3; slot++) {
        finish(true);
        EXPECT(ready(&answer));
        EXPECT_EQ(answer.admitted.slot, slot);
        EXPECT_EQ(answer.admitted.matched, 4);
        if (slot == 0)
            release(0, 5, 0);
    }
    release(1, 5, 1);
    release(2, 5, 1);
    close_book();
    early = false;
}
END_TEST

START_TEST(test_parking_may_fail_or_be_overtaken) {
    open_book(false);
    struct ses_answer answer;
    EXPECT_EQ(ses_book_park(book, 9), 1);
    finish(false);
    EXPECT_EQ(counted().pages_cached, 4);
    EXPECT_EQ(n_used, 0);
    EXPECT_EQ(ses_book_park(book, 9), 1);
    EXPECT_EQ(admit(1, IDS, IDS, &answer), SES_ADMITTED); /* reads the page that is being parked */
    EXPECT_EQ(answer.admitted.matched, IDS - 1);
    EXPECT(answer.admitted.copy_src == job[0].page);
    finish(true);
    EXPECT_EQ(n_used, 0); /* it is in use: it stays */
    ses_book_copied(book, &(struct ses_copied){.slot = 1});
    settle();
    release(1, IDS, 1);
    EXPECT_EQ(counted().pages_cached, 4);
    EXPECT_EQ(ses_book_park(book, 9), 1);
    EXPECT_EQ(ses_book_forget(book), 0); /* all stand before a page that is under way */
    settle();
    finish(true);
    EXPECT_EQ(n_used, 1);
    EXPECT_EQ(ses_book_forget(book), 4);
    settle();
    close_book();
}
END_TEST

/* Pages on their way out are not there for an admit; it waits for them instead of being denied. */
START_TEST(test_admit_waits_for_parking) {
    open_book(false);
    struct ses_answer answer;
    EXPECT_EQ(ses_book_park(book, 1), 1);
    ids[0]++;
    EXPECT_EQ(admit(1, 6, PAGES * PAGE_TOKENS, &answer), SES_LATER);
    EXPECT(!ready(&answer));
    finish(true);
    EXPECT(ready(&answer));
    EXPECT_EQ(answer.verdict, SES_ADMITTED);
    EXPECT_EQ(answer.admitted.matched, 0);
    EXPECT_EQ(ses_book_park(book, 9), 0); /* everything is promised: nothing may be pinned */
    release(1, 6, 0);
    EXPECT_EQ(ses_book_park(book, 1), 1); /* what is left of the old session */
    EXPECT_EQ(admit(1, 6, (PAGES + 1) * PAGE_TOKENS, &answer), SES_DENIED);
    EXPECT_EQ(answer.denied.status, STATUS_NO_PAGES);
    EXPECT_EQ(admit(1, 6, PAGES * PAGE_TOKENS, &answer), SES_LATER);
    EXPECT_EQ(admit(2, 6, PAGES * PAGE_TOKENS, &answer), SES_LATER);
    finish(false);
    EXPECT(ready(&answer));
    EXPECT_EQ(answer.verdict, SES_ADMITTED);
    EXPECT_EQ(answer.admitted.slot, 1); /* first asked, first answered */
    EXPECT(ready(&answer));
    EXPECT_EQ(answer.verdict, SES_DENIED); /* nothing is under way any more: ask after a release */
    EXPECT_EQ(answer.denied.slot, 2);
    EXPECT_EQ(answer.denied.status, STATUS_AGAIN);
    EXPECT(!ready(&answer));
    release(1, 6, 0);
    close_book();
}
END_TEST

START_TEST(test_evicting_takes_what_is_parked_behind) {
    open_book(false);
    struct ses_answer answer;
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT_EQ(ses_book_park(book, 1), 1);
        finish(true);
    }
    EXPECT_EQ(n_used, 2);
    ids[0]++;
    EXPECT_EQ(admit(1, 6, PAGES * PAGE_TOKENS, &answer), SES_ADMITTED);
    for (uint32_t i = 0; i < 6; i++) {
        struct ses_extended out;
        ses_book_extend(book, &(struct ses_extend){.slot = 1, .n_pages = 1}, &out);
        settle();
    }
    EXPECT_EQ(counted().nodes, 0);
    EXPECT_EQ(n_used, 0);
    release(1, 0, 0);
    close_book();
}
END_TEST

/* Sessions come one after the other, each of its own tokens, until the tier has taken all that it
 * can: the last ones are found, the first are not. */
START_TEST(test_a_full_tier_gives_up_the_oldest) {
    enum { SESSIONS = PLACES + 4 };
    open_book(true);
    struct ses_answer answer;
    for (uint32_t k = 1; k <= SESSIONS; k++) {
        ids[0] = 1000 + k;
        EXPECT_EQ(admit(0, PAGE_TOKENS, PAGE_TOKENS + 1, &answer), SES_ADMITTED);
        EXPECT_EQ(answer.admitted.matched, 0);
        release(0, PAGE_TOKENS, 1);
        EXPECT_EQ(ses_book_park(book, 1), 1);
        settle();
        finish(true);
        EXPECT(n_used <= PLACES);
    }
    EXPECT_EQ(n_used, PLACES);
    for (uint32_t k = SESSIONS; k > 0; k--) {
        ids[0] = 1000 + k;
        bool kept = k > SESSIONS - PLACES;
        EXPECT_EQ(admit(0, PAGE_TOKENS, PAGE_TOKENS + 1, &answer),
                  kept ? SES_RESTORING : SES_ADMITTED);
        if (kept) {
            finish(true);
            EXPECT(ready(&answer));
            EXPECT_EQ(answer.admitted.matched, PAGE_TOKENS - 1);
        }
        release(0, PAGE_TOKENS, 0);
    }
    ids[0] = 10;
    close_book();
}
END_TEST

/* Pages that are being copied early stay where they are: nobody waits for them whose room can come
 * from what was copied before. */
START_TEST(test_early_copies_hold_up_nobody) {
    early = true;
    open_book(false);
    EXPECT_EQ(ses_book_copy_out(book, 9), 4);
    settle();
    while (n_jobs > 0)
        finish(true);
    struct ses_answer answer;
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] += 100;
    EXPECT_EQ(admit(1, IDS, IDS, &answer), SES_ADMITTED); /* the other four pages */
    release(1, IDS, 1);
    EXPECT_EQ(ses_book_copy_out(book, 9), 4);
    settle();
    EXPECT_EQ(n_jobs, 4);
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] += 100;
    EXPECT_EQ(admit(2, 5, 5, &answer), SES_ADMITTED); /* in the place of the first session's */
    release(2, 5, 0);
    while (n_jobs > 0)
        finish(true);
    EXPECT_EQ(counted().nodes, 8); /* and nothing was forgotten */
    early = false;
    close_book();
}
END_TEST

/* ---- more pages than may be copied at once ---- */

enum { MANY = 96, CACHED = 60 };
static uint32_t many[MANY], n_many, most;

static void park_many(void *self, uint32_t page, uint32_t place) {
    (void)self;
    EXPECT(place < MANY && n_many < MANY);
    many[n_many++] = page;
    most = n_many > most ? n_many : most;
}

static void forget_many(void *self, uint32_t place) {
    (void)self;
    EXPECT(place < MANY);
}

/* A request that needs nearly all pages, and a wish for free ones: pages leave some at a time. */
START_TEST(test_leaving_is_bounded) {
    static const struct ses_tier tier = {
        .name = "many", .park = park_many, .restore = restore, .forget = forget_many};
    struct ses_book_config config = {.n_pages = MANY,
                                     .page_tokens = PAGE_TOKENS,
                                     .slots_max = 3,
                                     .pages_per_slot_max = MANY,
                                     .tier = &tier,
                                     .n_places = MANY,
                                     .early = _i == 1};
    uint32_t copies = _i == 1 ? SES_TIERS_PARKS_MAX : 0;
    struct status_note note;
    struct ses_answer answer;
    EXPECT_FINE(ses_book_open(&config, &book, &note) == STATUS_OK, note);
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = 10 + i;
    for (uint32_t i = 0; i < CACHED; i++) {
        ids[0] = 1000 + i;
        EXPECT_EQ(admit(0, PAGE_TOKENS + 1, PAGE_TOKENS + 1, &answer), SES_ADMITTED);
        release(0, PAGE_TOKENS, 1);
    }
    EXPECT_EQ(counted().pages_cached, CACHED);
    n_many = most = 0;
    if (copies > 0) /* beside early ones */
        EXPECT_EQ(ses_book_copy_out(book, SES_TIERS_PARKS_MAX), copies);
    static uint32_t longer[(MANY - 4) * PAGE_TOKENS];
    const struct ses_admit ask = {.ids = longer,
                                  .slot = 1,
                                  .n_ids = (MANY - 4) * PAGE_TOKENS,
                                  .max_tokens = (MANY - 4) * PAGE_TOKENS,
                                  .reuse = 1};
    EXPECT_EQ(ses_book_admit(book, &ask, &answer), SES_LATER);
    settle();
    ses_book_keep_free(book, MANY);
    EXPECT_EQ(n_many, SES_TIERS_LEAVING_MAX + copies);
    bool admitted = false;
    while (n_many > 0 && !admitted) {
        uint32_t page = many[0];
        memmove(many, many + 1, --n_many * sizeof *many);
        ses_book_parked(book, page, true);
        settle();
        admitted = ready(&answer) && answer.verdict == SES_ADMITTED;
    }
    EXPECT(admitted && most <= SES_TIERS_LEAVING_MAX + SES_TIERS_PARKS_MAX);
    EXPECT_EQ(counted().nodes, CACHED); /* nothing was forgotten for it */
    ses_book_close(book);
}
END_TEST

/* A request for the session of 15 tokens that begins with first. */
static void use_session(uint32_t first) {
    struct ses_answer answer;
    ids[0] = first;
    EXPECT_EQ(admit(0, IDS, IDS, &answer), SES_ADMITTED);
    if (answer.admitted.copy_src != 0)
        ses_book_copied(book, &(struct ses_copied){.slot = 0});
    release(0, IDS, 1);
}

static uint32_t copy_all(void) {
    uint32_t n = ses_book_copy_out(book, 9);
    settle();
    while (n_jobs > 0)
        finish(true);
    return n;
}

/* The tier is smaller than the device: what lost its place there and is used more often than what
 * took it gets one again; what is used in turns does not. */
START_TEST(test_what_is_used_again_is_stored_again) {
    early = true;
    n_places = 4;
    open_book(false);
    EXPECT_EQ(copy_all(), 4);
    use_session(1000);
    EXPECT_EQ(copy_all(), 4); /* in the places of the first */
    use_session(10);
    EXPECT_EQ(ses_book_unsaved(book), 0); /* the second was used since it was used before */
    EXPECT_EQ(copy_all(), 0);
    use_session(10);
    EXPECT_EQ(ses_book_unsaved(book), 4);
    EXPECT_EQ(copy_all(), 4);
    EXPECT_EQ(n_used, 4);
    use_session(10);
    EXPECT_EQ(copy_all(), 0);
    close_book();
    early = false;
    n_places = PLACES;
}
END_TEST

/* At the end the tier gets what was used last, parents first, and nothing that was used before
 * what it has. */
START_TEST(test_the_last_used_is_saved_at_the_end) {
    early = true;
    n_places = 4;
    open_book(false);
    use_session(1000); /* both wait for their copies */
    EXPECT_EQ(ses_book_unsaved(book), 8);
    for (uint32_t first = 1000; first != 0; first = first == 1000 ? 10 : 0) {
        if (first == 10) {
            use_session(10); /* once: nothing gives way for it while others come */
            EXPECT_EQ(copy_all(), 0);
        }
        ses_book_save_all(book);
        EXPECT_EQ(ses_book_copy_out(book, 9), 4);
        settle();
        for (uint32_t i = 0; i < 4; i++) {
            struct ses_record r;
            ses_book_describe(book, job[i].page, &r);
            EXPECT_EQ(r.depth, i);
            EXPECT(i > 0 || r.tokens[0] == first);
        }
        while (n_jobs > 0)
            finish(true);
        ses_book_save_all(book);
        EXPECT_EQ(copy_all(), 0); /* what is left on the device was used before */
        EXPECT_EQ(ses_book_unsaved(book), 0);
    }
    close_book();
    early = false;
    n_places = PLACES;
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/parking");
    TCase *tcase = tcase_create("parking");
    tcase_add_test(tcase, test_comes_back);
    tcase_add_test(tcase, test_bad_record);
    tcase_add_test(tcase, test_two_wait_for_one_record);
    tcase_add_test(tcase, test_three_wait_for_one_record);
    tcase_add_test(tcase, test_parking_may_fail_or_be_overtaken);
    tcase_add_test(tcase, test_admit_waits_for_parking);
    tcase_add_test(tcase, test_a_full_tier_gives_up_the_oldest);
    tcase_add_test(tcase, test_what_is_used_again_is_stored_again);
    tcase_add_test(tcase, test_the_last_used_is_saved_at_the_end);
    tcase_add_test(tcase, test_early_copies_hold_up_nobody);
    tcase_add_loop_test(tcase, test_leaving_is_bounded, 0, 2);
    tcase_add_test(tcase, test_evicting_takes_what_is_parked_behind);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
