/* SPDX-License-Identifier: Apache-2.0
 * The tiers' books under random orders: every copy ends late and in any order, disks refuse and
 * lose, places are forgotten at any time. A plain model says what each slot, record and page holds;
 * a page that was told restored holds its place's bytes, or "not fine" was said.
 */
#include "sessions/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sessions/expect.h"

enum {
    PAGES = 12,
    LIFE_PLACES = 40,
    LIFE_SLOTS = 40,
    MANY_PLACES = 240,
    MANY_SLOTS = 100,
    PLACES_MAX = MANY_PLACES,
    SLOTS_MAX = MANY_SLOTS,
    RECORDS_MAX = PLACES_MAX + SLOTS_MAX,
    WORLD_MAX = 2,
    JOBS = 256
};

enum job_kind { JOB_OUT, JOB_IN, JOB_STORE, JOB_LOAD, JOB_ERASE };

struct job {
    enum job_kind kind;
    uint32_t a, slot, rank;
};

static struct {
    uint64_t rng;
    struct ses_tiers *t;
    uint32_t places, slots, world;
    bool disk, broken;
    bool calm; /* nothing fails by chance; a broken disk takes nothing and gives what it has */
    uint32_t page[WORLD_MAX][PAGES + 1], slot[WORLD_MAX][SLOTS_MAX], record[WORLD_MAX][RECORDS_MAX];
    bool written[WORLD_MAX][RECORDS_MAX], numbered[RECORDS_MAX];
    struct job job[JOBS];
    uint32_t n_jobs;
    uint32_t holds[PLACES_MAX]; /* the value that the place stands for; 0: not parked */
    uint32_t busy[PLACES_MAX];  /* copies of the books that name it */
    uint32_t page_place[PAGES + 1];
    bool parking[PAGES + 1], restoring[PAGES + 1];
    uint32_t value, parked, restored, refused, lost, erased, in_ram, hung;
} w;

static uint32_t below(uint32_t n) {
    w.rng = w.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w.rng >> 33) % n);
}

static void job(enum job_kind kind, uint32_t a, uint32_t slot) {
    for (uint32_t r = 0; r < w.world; r++) {
        EXPECT(w.n_jobs < JOBS);
        w.job[w.n_jobs++] = (struct job){kind, a, slot, r};
    }
}

static void out_move(void *self, uint32_t page, uint32_t slot, bool to_device) {
    (void)self;
    job(to_device ? JOB_IN : JOB_OUT, page, slot);
}

static void out_store(void *self, uint32_t record, uint32_t slot) {
    (void)self;
    EXPECT(!w.numbered[record]); /* a number is not used again before it was erased */
    w.numbered[record] = true;
    job(JOB_STORE, record, slot);
}

static void out_load(void *self, uint32_t record, uint32_t slot) {
    (void)self;
    EXPECT(w.numbered[record]);
    job(JOB_LOAD, record, slot);
}

static void out_erase(void *self, uint32_t record) {
    (void)self;
    EXPECT(w.numbered[record]);
    job(JOB_ERASE, record, 0);
}

static void out_describe(void *self, uint32_t page, uint32_t slot) {
    (void)self;
    EXPECT(page >= 1 && page <= PAGES && slot < w.slots);
}

static void settle(void) {
    struct status_note note;
    struct ses_tiers_done d;
    while (ses_tiers_done(w.t, &d)) {
        uint32_t place = w.page_place[d.page];
        EXPECT((d.restored ? w.restoring : w.parking)[d.page]);
        w.restoring[d.page] = w.parking[d.page] = false;
        w.busy[place]--;
        if (!d.restored) {
            w.parked += d.fine;
            w.refused += !d.fine;
            if (!d.fine) { /* the books give the place back */
                w.holds[place] = 0;
                ses_tiers_forget(w.t, place);
            }
            continue;
        }
        w.lost += !d.fine;
        w.restored += d.fine;
        for (uint32_t r = 0; d.fine && r < w.world; r++)
            EXPECT_EQ(w.page[r][d.page], w.holds[place]);
    }
    EXPECT_FINE(ses_tiers_audit(w.t, &note), note);
}

static void finish_at(uint32_t at) {
    struct job j = w.job[at];
    /* One rank's store does what it is told in order of record: erase never passes its write. */
    for (uint32_t i = 0; i < w.n_jobs; i++)
        if (w.job[i].rank == j.rank && w.job[i].kind >= JOB_STORE && j.kind >= JOB_STORE &&
            w.job[i].a == j.a && i < at) {
            at = i;
            j = w.job[at];
        }
    memmove(w.job + at, w.job + at + 1, (--w.n_jobs - at) * sizeof *w.job);
    uint32_t r = j.rank;
    bool fails = w.calm ? w.broken && j.kind == JOB_STORE : w.broken || below(16) == 0;
    enum status status = fails ? STATUS_IO : STATUS_OK;
    switch (j.kind) {
    case JOB_OUT:
        w.slot[r][j.slot] = w.page[r][j.a];
        ses_tiers_moved(w.t, j.slot, !w.calm && below(32) == 0 ? STATUS_DEVICE : STATUS_OK);
        break;
    case JOB_IN:
        w.page[r][j.a] = w.slot[r][j.slot];
        ses_tiers_moved(w.t, j.slot, STATUS_OK);
        break;
    case JOB_STORE:
        w.written[r][j.a] = !fails;
        w.record[r][j.a] = w.slot[r][j.slot];
        ses_tiers_stored(w.t, j.slot, status);
        break;
    case JOB_LOAD:
        fails = fails || !w.written[r][j.a];
        w.slot[r][j.slot] = fails ? 0xdead : w.record[r][j.a];
        ses_tiers_loaded(w.t, j.slot, fails ? STATUS_BAD_FILE : STATUS_OK);
        break;
    case JOB_ERASE:
        w.written[r][j.a] = false;
        w.record[r][j.a] = 0xdead;
        bool others = false;
        for (uint32_t i = 0; i < w.n_jobs; i++)
            others = others || (w.job[i].kind == JOB_ERASE && w.job[i].a == j.a);
        w.numbered[j.a] = others;
        w.erased++;
        ses_tiers_erased(w.t, j.a);
        break;
    }
    settle();
}

static void finish(void) {
    finish_at(below(w.n_jobs));
}

static void act(void) {
    uint32_t place = below(w.places), page = 1 + below(PAGES);
    bool page_busy = w.parking[page] || w.restoring[page];
    if (w.holds[place] == 0 && !page_busy && w.busy[place] == 0) {
        for (uint32_t r = 0; r < w.world; r++)
            w.page[r][page] = w.value + 1;
        w.holds[place] = ++w.value;
        w.page_place[page] = place;
        w.busy[place]++;
        w.parking[page] = true;
        ses_tiers_park(w.t, page, place);
    } else if (w.holds[place] != 0 && below(3) == 0 && w.busy[place] == 0) {
        w.holds[place] = 0;
        ses_tiers_forget(w.t, place);
    } else if (w.holds[place] != 0 && !page_busy) {
        for (uint32_t p = 1; p <= PAGES; p++)
            if (w.parking[p] && w.page_place[p] == place)
                return; /* the books restore only what was parked */
        w.in_ram += ses_tiers_where(w.t, place) == SES_TIER_RAM;
        w.page_place[page] = place;
        w.busy[place]++;
        w.restoring[page] = true;
        ses_tiers_restore(w.t, place, page);
    }
    settle();
}

static void open_tiers(void) {
    const struct ses_tiers_config config = {.n_pages = PAGES,
                                            .n_places = w.places,
                                            .n_slots = w.slots,
                                            .world = w.world,
                                            .disk = w.disk,
                                            .out = {.move = out_move,
                                                    .store = out_store,
                                                    .load = out_load,
                                                    .erase = out_erase,
                                                    .describe = out_describe}};
    struct status_note note;
    EXPECT_FINE(ses_tiers_open(&config, &w.t, &note) == STATUS_OK, note);
}

/* From here on the disk is one that hangs: nobody waits for what it was asked, which comes late. */
static void hang(void) {
    if (ses_tiers_is_silent(w.t) || !ses_tiers_disk_owes(w.t))
        return;
    ses_tiers_set_silent(w.t);
    settle();
    w.hung++;
    for (uint32_t p = 1; p <= PAGES; p++) { /* what a page waits for is in memory, or comes there */
        bool parking = false;
        for (uint32_t q = 1; q <= PAGES; q++)
            parking = parking || (w.parking[q] && w.page_place[q] == w.page_place[p]);
        EXPECT(!w.restoring[p] || parking || ses_tiers_where(w.t, w.page_place[p]) == SES_TIER_RAM);
    }
}

static void one_life(uint64_t seed) {
    uint64_t sums[] = {w.parked, w.restored, w.refused, w.lost, w.erased, w.in_ram, w.hung};
    memset(&w, 0, sizeof w);
    w.parked = (uint32_t)sums[0];
    w.restored = (uint32_t)sums[1];
    w.refused = (uint32_t)sums[2];
    w.lost = (uint32_t)sums[3];
    w.erased = (uint32_t)sums[4];
    w.in_ram = (uint32_t)sums[5];
    w.hung = (uint32_t)sums[6];
    w.rng = seed * 2 + 1;
    w.disk = seed % 4 != 0;
    w.world = 1 + seed % WORLD_MAX;
    w.places = 1 + below(LIFE_PLACES);
    w.slots = w.disk ? 1 + below(LIFE_SLOTS) : w.places;
    open_tiers();
    for (uint32_t i = 0; i < 3000; i++) {
        if (below(200) == 0)
            w.broken = !w.broken && below(2) == 0;
        if (w.disk && below(150) == 0)
            hang();
        if (w.n_jobs > 0 && below(3) > 0)
            finish();
        else
            act();
    }
    w.broken = false;
    for (uint32_t i = 0; w.n_jobs > 0; i++) { /* everything under way ends */
        EXPECT(i < 10000);
        finish();
    }
    for (uint32_t p = 1; p <= PAGES; p++)
        EXPECT(!w.parking[p] && !w.restoring[p]);
    EXPECT(ses_tiers_quiet(w.t) && !ses_tiers_is_silent(w.t));
    for (uint32_t place = 0; place < w.places; place++)
        if (w.holds[place] != 0)
            ses_tiers_forget(w.t, place);
    while (w.n_jobs > 0)
        finish();
    struct ses_tiers_counts counts;
    ses_tiers_count(w.t, &counts);
    EXPECT_EQ(counts.slots_used + counts.records + counts.unsaved, 0);
    for (uint32_t i = 0; i < RECORDS_MAX; i++)
        EXPECT(!w.numbered[i]);
    ses_tiers_close(w.t);
}

START_TEST(test_random_orders) {
    for (uint64_t seed = 1; seed <= 400; seed++)
        one_life(seed);
    EXPECT(w.parked > 10000 && w.restored > 10000 && w.refused > 100 && w.lost > 100 &&
           w.erased > 1000 && w.in_ram > 1000 && w.hung > 1000);
}
END_TEST

static void finish_all(void) {
    while (w.n_jobs > 0)
        finish();
}

static void park_begin(uint32_t place) {
    uint32_t page = 1 + place % PAGES;
    w.page[0][page] = w.holds[place] = ++w.value;
    w.page_place[page] = place;
    w.busy[place]++;
    w.parking[page] = true;
    ses_tiers_park(w.t, page, place);
    settle();
}

static bool park_one(uint32_t place) {
    uint32_t before = w.parked;
    park_begin(place);
    finish_all();
    return w.parked > before;
}

static void restore_one(uint32_t place) {
    uint32_t page = 1 + place % PAGES, before = w.restored;
    w.page_place[page] = place;
    w.busy[place]++;
    w.restoring[page] = true;
    ses_tiers_restore(w.t, place, page);
    settle();
    finish_all();
    EXPECT_EQ(w.restored, before + 1);
}

static void open_calm(void) {
    memset(&w, 0, sizeof w);
    w.disk = w.calm = true;
    w.world = 1;
    w.places = MANY_PLACES;
    w.slots = MANY_SLOTS;
    open_tiers();
}

static uint32_t unsaved(void) {
    struct ses_tiers_counts counts;
    ses_tiers_count(w.t, &counts);
    return counts.unsaved;
}

static void close_calm(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (w.holds[i] != 0)
            ses_tiers_forget(w.t, i);
    finish_all();
    ses_tiers_close(w.t);
}

/* A disk that takes no more lets host memory fill with what is nowhere else; what it has comes back
 * all the same, however long ago the last clean slots were used. Whoever finds no slot then asks
 * the disk again, for nobody else would. */
START_TEST(test_full_disk_still_restores) {
    open_calm();
    uint32_t n = MANY_SLOTS + 8, place = n;
    for (uint32_t i = 0; i < n; i++)
        EXPECT(park_one(i));
    w.broken = true;
    while (park_one(place))
        place++;
    EXPECT(place > n + 64 && w.refused == 1);
    for (uint32_t i = n - 8; i < n; i++)
        restore_one(i);
    for (uint32_t i = 0; i < 8; i++)
        restore_one(i);
    EXPECT(!park_one(place) && unsaved() > 64);
    w.broken = false;
    EXPECT(!park_one(place));
    EXPECT_EQ(unsaved(), 0);
    EXPECT(park_one(place));
    close_calm(place + 1);
}
END_TEST

/* Host memory fills while the disk is silent: when it answers it is given all of that. */
START_TEST(test_silent_disk_catches_up) {
    open_calm();
    uint32_t n = MANY_SLOTS + 8, place = n;
    for (uint32_t i = 0; i < n; i++)
        EXPECT(park_one(i));
    w.page_place[1] = 0;
    w.busy[0]++;
    w.restoring[1] = true;
    ses_tiers_restore(w.t, 0, 1);
    settle();
    EXPECT(w.n_jobs == 1 && w.job[0].kind == JOB_LOAD);
    hang();
    EXPECT_EQ(w.lost, 1);
    for (uint32_t refused = w.refused; w.refused == refused; place++) {
        park_begin(place);
        if (w.n_jobs > 1)
            finish_at(1);
    }
    EXPECT(w.n_jobs == 1 && unsaved() > 64);
    finish_all();
    EXPECT(!ses_tiers_is_silent(w.t));
    EXPECT_EQ(unsaved(), 0);
    close_calm(place);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/tiers");
    TCase *tcase = tcase_create("tiers");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_random_orders);
    tcase_add_test(tcase, test_full_disk_still_restores);
    tcase_add_test(tcase, test_silent_disk_catches_up);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
