/* SPDX-License-Identifier: Apache-2.0
 * The books against a plain model: hits exact to the token, right contents behind every page table,
 * conserved pages.
 */
#include "tests/sessions/lanes_model.h"

static struct model model;
static struct ses_book *book;

static void open_both(uint64_t seed, uint32_t n_pages, uint32_t page_tokens, uint32_t per_slot) {
    struct status_note note;
    struct ses_book_config config = {.key = {.fingerprint = {1, 2}, .profile = 3, .world = 1},
                                     .n_pages = n_pages,
                                     .page_tokens = page_tokens,
                                     .slots_max = MODEL_SLOTS,
                                     .pages_per_slot_max = per_slot};
    ck_assert_msg(ses_book_open(&config, &book, &note) == STATUS_OK, "%s", note.text);
    model_open(&model, seed, n_pages, page_tokens, per_slot);
}

static void settle(void) {
    struct status_note note;
    uint32_t ids[8], n;
    while ((n = ses_book_freed(book, ids, 8)) > 0)
        model_freed(&model, ids, n);
    if (!ses_book_audit(book, &note))
        ck_abort_msg("%s", note.text);
}

static struct ses_counted counted(void) {
    struct ses_counted c;
    ses_book_count(book, &c);
    return c;
}

static enum status admit(uint32_t slot, uint32_t reuse, struct ses_admitted *a,
                         struct ses_denied *d) {
    struct model_lane *lane = &model.lane[slot];
    struct ses_admit ask = {.ids = lane->ids,
                            .tenant = lane->tenant,
                            .slot = slot,
                            .n_ids = lane->n_ids,
                            .max_tokens = lane->max_tokens,
                            .reuse = reuse};
    struct ses_answer answer;
    enum ses_verdict verdict = ses_book_admit(book, &ask, &answer);
    EXPECT(verdict != SES_LATER); /* there is no tier to wait for */
    enum status status = verdict == SES_ADMITTED ? STATUS_OK : (enum status)answer.denied.status;
    if (status != STATUS_OK)
        *d = answer.denied;
    if (status == STATUS_OK) {
        *a = answer.admitted;
        uint32_t ids[MODEL_IDS], n;
        const ses_page_t *page = ses_book_pages(book, slot, &n);
        for (uint32_t i = 0; i < n; i++)
            ids[i] = ses_page_id(page[i]);
        EXPECT_EQ(n, a->n_pages);
        lane->slot = slot;
        model_admitted(&model, lane, a, ids);
    }
    return status;
}

static void copied(struct model_lane *lane) {
    if (!lane->copy_waits)
        return;
    model_copy(&model, lane);
    ses_book_copied(book, &(struct ses_copied){.slot = lane->slot});
    settle();
}

static void compute(struct model_lane *lane) {
    uint32_t n;
    const ses_page_t *page = ses_book_pages(book, lane->slot, &n);
    ses_page_t at = page[lane->n_rows / model.page_tokens];
    const struct ses_trie *t = ses_book_trie(book);
    for (uint32_t node = 1; node <= model.n_pages; node++)
        if (ses_trie_live(t, node))
            EXPECT(ses_trie_page(t, node) != at);
    model_compute(&model, lane);
}

/* One more token, drawn at random, and its page when it needs one. */
static void decode(struct model_lane *lane) {
    if (lane->n_ids % model.page_tokens == 0 && lane->n_ids / model.page_tokens == lane->n_pages) {
        struct ses_extended e;
        ses_book_extend(book, &(struct ses_extend){.slot = lane->slot, .n_pages = 1}, &e);
        EXPECT_EQ(e.n_pages, 1);
        lane->page[lane->n_pages++] = e.page[0];
        settle();
    }
    lane->ids[lane->n_ids++] = model_choose(&model, model.alphabet);
    compute(lane);
}

static void seal(struct model_lane *lane) {
    struct ses_sealed out;
    struct ses_seal told = {.ids = lane->ids, .slot = lane->slot, .n_rows = lane->n_rows};
    ses_book_seal(book, &told, &out);
    uint32_t full = lane->n_rows - lane->n_rows % model.page_tokens;
    EXPECT_EQ(out.n_rows, lane->n_rows);
    model_remember(model.kept, &model.n_kept, lane->tenant, lane->ids, full);
    settle();
}

static void release(struct model_lane *lane, uint32_t keep) {
    struct ses_released out;
    struct ses_release told = {
        .ids = lane->ids, .slot = lane->slot, .n_rows = lane->n_rows, .keep = keep};
    ses_book_release(book, &told, &out);
    if (keep) {
        model_remember(model.kept, &model.n_kept, lane->tenant, lane->ids,
                       model_rows_kept(&model, lane));
        model_remember(model.past, &model.n_past, lane->tenant, lane->ids, lane->n_ids);
    }
    lane->live = false;
    settle();
    EXPECT(out.pages_free <= model.n_pages);
}

static void close_both(void) {
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        if (model.lane[i].live)
            release(&model.lane[i], 0);
    ses_book_forget(book);
    settle();
    struct ses_counted c = counted();
    EXPECT_EQ(c.pages_free, c.pages_total);
    EXPECT_EQ(c.pages_held + c.pages_cached + c.nodes, 0);
    ses_book_close(book);
    book = NULL;
}

static uint32_t lanes_live(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        n += model.lane[i].live;
    return n;
}

/* An admit whose answer is compared with the plain model; the list of all kept ones too where
 * nothing was evicted. */
static void try_admit(uint32_t slot) {
    struct model_lane *lane = &model.lane[slot];
    struct ses_admitted a = {0};
    struct ses_denied d = {0};
    uint32_t expected = model_expected_cached(&model, ses_book_trie(book), lane);
    struct ses_counted before = counted();
    if (before.evicted == 0 && model.n_kept <= MODEL_HISTORY)
        EXPECT_EQ(expected, model_expected_kept(&model, lane));
    uint32_t pages = (lane->max_tokens + model.page_tokens - 1) / model.page_tokens;
    enum status status = admit(slot, 1, &a, &d);
    if (status == STATUS_OK) {
        EXPECT_EQ(a.matched, expected);
        EXPECT(pages <= model.pages_per_slot_max);
        if (expected > 0 && expected < lane->n_ids - 1)
            EXPECT_EQ(a.reason, SES_HIT);
        if (expected == 0 && lane->n_ids > 1)
            EXPECT(a.reason >= SES_MISS_NEW);
    } else {
        model.denied++;
        EXPECT_EQ(d.status, (uint32_t)status);
        EXPECT_EQ(d.pages_needed, pages);
        EXPECT_EQ(status == STATUS_NO_PAGES,
                  pages > model.n_pages || pages > model.pages_per_slot_max);
        EXPECT(status == STATUS_NO_PAGES || d.pages_free < pages);
        if (status == STATUS_AGAIN)
            EXPECT(lanes_live() > 0); /* alone, what fits in the pool is let in */
        struct ses_counted after = counted();
        EXPECT_EQ(before.evicted, after.evicted);
        EXPECT_EQ(before.pages_free, after.pages_free);
    }
    settle();
}

static void lane_step(struct model_lane *lane) {
    uint32_t what = model_choose(&model, 16);
    if (what == 0) { /* cancelled, perhaps before its copy ran */
        release(lane, model_choose(&model, 2));
    } else if (lane->copy_waits) {
        copied(lane);
    } else if (lane->n_rows < lane->n_ids) {
        for (uint32_t n = 1 + model_choose(&model, 12); n > 0 && lane->n_rows < lane->n_ids; n--)
            compute(lane);
    } else if (what == 1) {
        seal(lane);
    } else if (lane->n_ids < lane->max_tokens) {
        decode(lane);
    } else {
        release(lane, 1);
    }
}

static void run_random(uint64_t seed, uint32_t n_pages, uint32_t page_tokens, uint32_t per_slot,
                       uint32_t requests) {
    open_both(seed, n_pages, page_tokens, per_slot);
    uint32_t n_max = per_slot * page_tokens + 2;
    n_max = n_max < MODEL_IDS ? n_max : MODEL_IDS;
    while (model.admitted < requests) {
        uint32_t slot = model_choose(&model, MODEL_SLOTS);
        struct model_lane *lane = &model.lane[slot];
        if (lane->live) {
            lane_step(lane);
        } else {
            model_prompt(&model, lane, n_max);
            try_admit(slot);
        }
        for (uint32_t i = 0; i < MODEL_SLOTS; i++)
            model_check_lane(&model, &model.lane[i]);
        model_check_cached(&model, ses_book_trie(book));
    }
    EXPECT(model.rows_saved > 0);
    close_both();
}

START_TEST(test_random_without_pressure) {
    for (uint64_t seed = 1; seed <= 60; seed++)
        run_random(seed * 77, 128, 4, 6, 90);
}
END_TEST

START_TEST(test_random_under_pressure) {
    for (uint64_t seed = 1; seed <= 600; seed++)
        run_random(seed, 3 + (uint32_t)seed % 14, 1u << seed % 5, 2 + (uint32_t)seed % 5, 120);
}
END_TEST

/* ---- every sequence of a few steps in a pool so small that all of them matter ---- */

enum { STEPS = 6, CHOICES = 12, PROMPTS = 6 };

static const struct {
    uint32_t n, max, ids[5];
} prompts[PROMPTS] = {
    {1, 2, {0}},       {2, 4, {0, 0}},       {3, 3, {0, 0, 1}},
    {3, 4, {0, 1, 0}}, {4, 6, {0, 0, 0, 0}}, {5, 5, {0, 0, 0, 1, 1}},
};

/* Does step `choice` of CHOICES: half for each of two lanes. False when there is no such step. */
static bool small_step(uint32_t choice) {
    struct model_lane *lane = &model.lane[choice % 2];
    uint32_t what = choice / 2;
    if (!lane->live) {
        lane->n_ids = prompts[what].n;
        lane->max_tokens = prompts[what].max;
        lane->tenant = 0;
        memcpy(lane->ids, prompts[what].ids, sizeof prompts[what].ids);
        try_admit(choice % 2);
        return lane->live;
    }
    bool prompt = lane->n_rows < lane->n_ids;
    switch (what) {
    case 0:
        if (!prompt)
            return false;
        copied(lane);
        while (lane->n_rows < lane->n_ids)
            compute(lane);
        return true;
    case 1:
        if (prompt || lane->n_ids == lane->max_tokens)
            return false;
        decode(lane);
        return true;
    case 2:
        if (prompt)
            return false;
        seal(lane);
        return true;
    case 3:
        release(lane, 1);
        return true;
    case 4:
        release(lane, 0);
        return true;
    default:
        if (!lane->copy_waits)
            return false;
        copied(lane);
        return true;
    }
}

static uint64_t every_sequence(uint32_t n_pages) {
    uint32_t steps[STEPS] = {0};
    uint64_t runs = 0;
    for (;;) {
        open_both(1, n_pages, 2, 3);
        model.alphabet = 2;
        uint32_t done = 0;
        while (done < STEPS && small_step(steps[done])) {
            done++;
            for (uint32_t i = 0; i < 2; i++)
                model_check_lane(&model, &model.lane[i]);
            model_check_cached(&model, ses_book_trie(book));
        }
        close_both();
        runs++;
        uint32_t at =
            done < STEPS ? done : STEPS - 1; /* what follows an impossible step is skipped */
        while (++steps[at] == CHOICES) {
            if (at == 0)
                return runs;
            steps[at--] = 0;
        }
        for (uint32_t i = at + 1; i < STEPS; i++)
            steps[i] = 0;
    }
}

START_TEST(test_every_small_sequence) {
    EXPECT(every_sequence(3) > 10000);
    EXPECT(every_sequence(4) > 10000);
}
END_TEST

START_TEST(test_two_thousand_requests) {
    run_random(4242, 24, 8, 6, 2000);
}
END_TEST

static void serve(uint32_t slot, uint32_t keep) {
    struct model_lane *lane = &model.lane[slot];
    copied(lane);
    while (lane->n_rows < lane->n_ids)
        compute(lane);
    model_check_lane(&model, lane);
    release(lane, keep);
}

static uint32_t rows_of(const uint32_t *ids, uint32_t n, uint32_t *reason) {
    EXPECT(n <= MODEL_IDS);
    struct ses_admitted a;
    struct ses_denied d;
    struct model_lane *lane = &model.lane[0];
    memcpy(lane->ids, ids, n * sizeof *ids);
    lane->n_ids = lane->max_tokens = n;
    lane->tenant = 0;
    EXPECT_EQ(admit(0, 1, &a, &d), STATUS_OK);
    uint64_t before = model.rows_computed;
    serve(0, 0);
    *reason = a.reason;
    return (uint32_t)(model.rows_computed - before);
}

/* Rows computed = prompt minus common beginning, at least 1: equal, edited, extended and cut
 * prompts at every offset. */
static void every_offset(uint32_t page_tokens, uint32_t near) {
    uint32_t base[MODEL_IDS], reason;
    for (uint32_t kept = 1; kept <= 3 * page_tokens + 1; kept++) {
        if ((kept + near) % page_tokens > 2 * near) /* only prompts that end near a page's end */
            continue;
        open_both(kept, 64, page_tokens, 8);
        for (uint32_t i = 0; i < MODEL_IDS; i++)
            base[i] = 1000 + i;
        EXPECT_EQ(rows_of(base, kept, &reason), kept);
        EXPECT_EQ(reason, SES_MISS_NEW);
        struct ses_admitted a;
        struct ses_denied d;
        EXPECT_EQ(admit(0, 1, &a, &d), STATUS_OK);
        serve(0, 1);
        EXPECT_EQ(rows_of(base, kept, &reason), 1);
        EXPECT_EQ(reason, SES_HIT_CAPPED);
        for (uint32_t more = 1; more <= page_tokens + 1; more++) {
            EXPECT_EQ(rows_of(base, kept + more, &reason), more);
            EXPECT_EQ(reason, SES_HIT);
        }
        for (uint32_t cut = 1; cut < kept; cut++) {
            EXPECT_EQ(rows_of(base, cut, &reason), 1);
            EXPECT_EQ(reason, SES_HIT_CAPPED);
        }
        for (uint32_t edit = 0; edit < kept; edit++) {
            base[edit] ^= 1u << 20;
            EXPECT_EQ(rows_of(base, kept, &reason), kept - edit);
            EXPECT_EQ(reason, edit > 0 ? SES_HIT : SES_MISS_NEW);
            base[edit] ^= 1u << 20;
        }
        close_both();
    }
}

START_TEST(test_every_offset) {
    every_offset(1, 1);
    every_offset(4, 4);
    every_offset(16, 16);
    every_offset(64, 1);
}
END_TEST

static void kept_once(uint64_t tenant, const uint32_t *ids, uint32_t n) {
    struct ses_admitted a;
    struct ses_denied d;
    struct model_lane *lane = &model.lane[0];
    memcpy(lane->ids, ids, n * sizeof *ids);
    lane->n_ids = lane->max_tokens = n;
    lane->tenant = tenant;
    EXPECT_EQ(admit(0, 1, &a, &d), STATUS_OK);
    serve(0, 1);
}

START_TEST(test_same_adds_nothing) {
    open_both(1, 32, 4, 8);
    uint32_t ids[18];
    for (uint32_t i = 0; i < 18; i++)
        ids[i] = i;
    kept_once(0, ids, 18);
    EXPECT_EQ(counted().nodes, 5);
    kept_once(0, ids, 18);
    EXPECT_EQ(counted().nodes, 5);
    kept_once(0, ids, 17); /* a beginning of what is there */
    EXPECT_EQ(counted().nodes, 5);
    ids[17] = 99; /* a second branch on the last page */
    kept_once(0, ids, 18);
    EXPECT_EQ(counted().nodes, 6);
    ids[17] = 17;
    ids[18 - 1] = 17;
    kept_once(0, ids, 16);
    EXPECT_EQ(counted().nodes, 6);
    EXPECT_EQ(ses_trie_tokens_held(ses_book_trie(book)), 16 + 2 + 2);
    close_both();
    open_both(1, 32, 4, 8);
    kept_once(0, ids, 2);
    kept_once(0, ids, 3); /* a longer partial page takes the place of the shorter */
    EXPECT_EQ(counted().nodes, 1);
    EXPECT_EQ(counted().pages_cached, 1);
    kept_once(0, ids, 4);
    EXPECT_EQ(counted().nodes, 1);
    EXPECT_EQ(ses_trie_tokens_held(ses_book_trie(book)), 4);
    close_both();
}
END_TEST

START_TEST(test_tenants_never_share) {
    open_both(1, 32, 4, 8);
    uint32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    kept_once(7, ids, 9);
    struct ses_admitted a;
    struct ses_denied d;
    struct model_lane *lane = &model.lane[1];
    memcpy(lane->ids, ids, sizeof ids);
    lane->n_ids = lane->max_tokens = 9;
    lane->tenant = 8;
    EXPECT_EQ(admit(1, 1, &a, &d), STATUS_OK);
    EXPECT_EQ(a.matched, 0);
    EXPECT_EQ(a.reason, SES_MISS_NEW); /* what others have is not told */
    serve(1, 1);
    lane->tenant = 7;
    EXPECT_EQ(admit(1, 1, &a, &d), STATUS_OK);
    EXPECT_EQ(a.matched, 8);
    serve(1, 0);
    EXPECT_EQ(admit(1, 0, &a, &d), STATUS_OK); /* reuse off */
    EXPECT_EQ(a.matched, 0);
    EXPECT_EQ(a.reason, SES_MISS_OFF);
    serve(1, 1);
    close_both();
}
END_TEST

START_TEST(test_evicted_is_said) {
    open_both(1, 4, 4, 4);
    uint32_t ids[16];
    for (uint32_t i = 0; i < 16; i++)
        ids[i] = i;
    kept_once(0, ids, 8);
    for (uint32_t i = 0; i < 16; i++)
        ids[i] = 100 + i;
    kept_once(0, ids, 16); /* all of the pool */
    EXPECT_EQ(counted().evicted, 2);
    for (uint32_t i = 0; i < 16; i++)
        ids[i] = i;
    uint32_t reason;
    EXPECT_EQ(rows_of(ids, 8, &reason), 8);
    EXPECT_EQ(reason, SES_MISS_EVICTED);
    ids[0] = 55;
    EXPECT_EQ(rows_of(ids, 8, &reason), 8);
    EXPECT_EQ(reason, SES_MISS_NEW);
    ses_book_forget(book);
    settle();
    ids[0] = 0;
    EXPECT_EQ(rows_of(ids, 8, &reason), 8);
    EXPECT_EQ(reason, SES_MISS_NEW); /* what was told to be forgotten leaves no trace */
    close_both();
}
END_TEST

/* The oldest session goes as a whole before any page of a younger one. */
START_TEST(test_least_recently_used_goes_first) {
    open_both(1, 9, 4, 9);
    uint32_t a[12], b[12], c[12], reason;
    for (uint32_t i = 0; i < 12; i++) {
        a[i] = i;
        b[i] = 100 + i;
        c[i] = 200 + i;
    }
    kept_once(0, a, 12);
    kept_once(0, b, 12);
    EXPECT_EQ(rows_of(a, 12, &reason),
              1); /* used again: b is older now; the capped copy fits beside */
    kept_once(0, c, 12);
    EXPECT_EQ(counted().evicted, 0);
    kept_once(0, (uint32_t[]){300, 301}, 2);
    EXPECT_EQ(counted().evicted, 1);
    EXPECT_EQ(rows_of(b, 12, &reason), 4);
    kept_once(0, (uint32_t[]){400, 401, 402, 403, 404}, 5);
    EXPECT_EQ(rows_of(b, 12, &reason), 4);
    close_both();
}
END_TEST

/* A pool with no page to spare: the source of a hit is moved into the lane instead of copied, and
 * the hit stays exact. */
START_TEST(test_move_when_full) {
    open_both(1, 3, 4, 3);
    uint32_t ids[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, reason;
    kept_once(0, ids, 12);
    ids[5] = 50; /* ends inside the second page, which has a child */
    EXPECT_EQ(rows_of(ids, 12, &reason), 7);
    EXPECT_EQ(reason, SES_HIT);
    EXPECT_EQ(counted().nodes, 1);
    close_both();
}
END_TEST

/* A lane that was cancelled before its copy ran has nothing behind the shared pages to keep. */
START_TEST(test_copy_that_never_ran) {
    open_both(1, 16, 4, 4);
    uint32_t ids[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    kept_once(0, ids, 7);
    struct ses_admitted a;
    struct ses_denied d;
    struct model_lane *lane = &model.lane[1];
    memcpy(lane->ids, ids, sizeof ids);
    lane->n_ids = lane->max_tokens = 12;
    EXPECT_EQ(admit(1, 1, &a, &d), STATUS_OK);
    EXPECT(a.copy_src != 0);
    lane->n_rows = 12; /* what it was to compute */
    release(lane, 1);
    EXPECT_EQ(counted().nodes, 2);
    EXPECT_EQ(ses_trie_tokens_held(ses_book_trie(book)), 7);
    close_both();
}
END_TEST

START_TEST(test_denied) {
    open_both(1, 8, 4, 6);
    struct ses_admitted a;
    struct ses_denied d;
    struct model_lane *lane = model.lane;
    for (uint32_t i = 0; i < 3; i++) {
        lane[i].ids[0] = i;
        lane[i].n_ids = 1;
        lane[i].max_tokens = 16;
    }
    lane[0].max_tokens = 25; /* seven pages in a table of six */
    EXPECT_EQ(admit(0, 1, &a, &d), STATUS_NO_PAGES);
    EXPECT_EQ(d.pages_needed, 7);
    EXPECT_EQ(d.pages_free, 8);
    lane[0].max_tokens = UINT32_MAX;
    EXPECT_EQ(admit(0, 1, &a, &d), STATUS_NO_PAGES);
    lane[0].max_tokens = 16;
    EXPECT_EQ(admit(0, 1, &a, &d), STATUS_OK);
    EXPECT_EQ(admit(1, 1, &a, &d), STATUS_OK);
    EXPECT_EQ(admit(2, 1, &a, &d), STATUS_AGAIN);
    EXPECT_EQ(d.pages_free, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct ses_extended e;
        ses_book_extend(book, &(struct ses_extend){.slot = i, .n_pages = 3}, &e);
        EXPECT_EQ(e.n_pages, 3);
        settle();
    }
    EXPECT_EQ(counted().pages_free, 0);
    release(&lane[0], 0);
    EXPECT_EQ(admit(2, 1, &a, &d), STATUS_OK);
    close_both();
}
END_TEST

/* Two lanes compute the same prompt side by side: one page becomes the trie's, the other stays
 * private and goes. */
START_TEST(test_same_prompt_twice_at_once) {
    open_both(1, 32, 4, 8);
    struct ses_admitted a;
    struct ses_denied d;
    for (uint32_t k = 0; k < 2; k++) {
        struct model_lane *lane = &model.lane[k];
        for (uint32_t i = 0; i < 8; i++)
            lane->ids[i] = i;
        lane->n_ids = 8;
        lane->max_tokens = 20;
        EXPECT_EQ(admit(k, 1, &a, &d), STATUS_OK);
        EXPECT_EQ(a.matched, 0);
    }
    for (uint32_t k = 0; k < 2; k++) {
        while (model.lane[k].n_rows < 8)
            compute(&model.lane[k]);
        seal(&model.lane[k]);
    }
    EXPECT_EQ(counted().nodes, 2);
    model.alphabet = 1; /* both go on alike */
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < 2; k++)
            decode(&model.lane[k]);
    release(&model.lane[0],
            0); /* what the other lane's pages stand behind is idle now, and not to be evicted */
    seal(&model.lane[1]);
    EXPECT_EQ(counted().nodes, 4);
    EXPECT_EQ(ses_trie_n_idle(ses_book_trie(book)), 0);
    release(&model.lane[1], 1);
    EXPECT_EQ(counted().nodes, 4);
    EXPECT_EQ(counted().pages_held, 0);
    EXPECT_EQ(counted().pages_free, 28);
    close_both();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/book");
    TCase *tcase = tcase_create("book");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, test_random_without_pressure);
    tcase_add_test(tcase, test_random_under_pressure);
    tcase_add_test(tcase, test_every_small_sequence);
    tcase_add_test(tcase, test_two_thousand_requests);
    tcase_add_test(tcase, test_every_offset);
    tcase_add_test(tcase, test_same_adds_nothing);
    tcase_add_test(tcase, test_tenants_never_share);
    tcase_add_test(tcase, test_evicted_is_said);
    tcase_add_test(tcase, test_least_recently_used_goes_first);
    tcase_add_test(tcase, test_move_when_full);
    tcase_add_test(tcase, test_copy_that_never_ran);
    tcase_add_test(tcase, test_denied);
    tcase_add_test(tcase, test_same_prompt_twice_at_once);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
