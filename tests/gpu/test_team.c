/* SPDX-License-Identifier: Apache-2.0
 * The team: every unit is done once and after the regions before it; few and many members, more
 * members than cores.
 */
#include <stdatomic.h>
#include <string.h>

#include "gpu/team.h"
#include "tests/harness.h"

enum { ROUNDS = 24, UNITS = 128 };

struct work {
    /* Plain memory: a broken order is a wrong sum, and a race for the thread sanitizer. */
    uint32_t cells[2][UNITS];
    _Atomic uint32_t entered;
    uint32_t wrong[GPU_TEAM_MAX];
    uint32_t grain, fail_at;
};

/* Each region adds one to every cell, reading its neighbour of the region before. */
static void add_rounds(void *self, struct gpu_member *m) {
    struct work *w = self;
    uint32_t begin, end;
    atomic_fetch_add(&w->entered, 1);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const uint32_t *from = w->cells[r % 2];
        uint32_t *to = w->cells[(r + 1) % 2];
        while (gpu_team_take(m, UNITS, w->grain, &begin, &end)) {
            memset(m->scratch, (int)m->index, 256);
            for (uint32_t i = begin; i < end; i++)
                to[i] = from[(i * 7 + 1) % UNITS] + 1;
            for (int i = 0; i < 256; i++)
                w->wrong[m->index] += ((unsigned char *)m->scratch)[i] != (m->index & 255);
        }
        gpu_team_end(m);
        while (gpu_team_take(m, 0, 1, &begin, &end)) /* a region of nothing */
            w->wrong[m->index]++;
        gpu_team_end(m);
        if (r == w->fail_at && gpu_team_take(m, 1, 1, &begin, &end))
            gpu_team_fail(m);
        if (r == w->fail_at) {
            while (gpu_team_take(m, 1, 1, &begin, &end))
                w->wrong[m->index]++;
            gpu_team_end(m);
        }
        if (gpu_team_failed(m))
            return;
    }
}

static void run_size(uint32_t threads, uint32_t grain, int runs) {
    static struct work w;
    struct gpu_team *t;
    ck_assert_int_eq(gpu_team_open(threads, 256, &t, NULL), STATUS_OK);
    ck_assert_uint_eq(gpu_team_size(t), threads);
    memset(&w, 0, sizeof w);
    w.grain = grain;
    w.fail_at = ROUNDS;
    for (int run = 1; run <= runs; run++) {
        gpu_team_run(t, add_rounds, &w);
        for (uint32_t i = 0; i < UNITS; i++)
            ck_assert_uint_eq(w.cells[0][i], (uint32_t)run * ROUNDS);
    }
    /* A failure ends a run for all at the same region; the next run begins anew. */
    memset(w.cells, 0, sizeof w.cells);
    w.fail_at = 5;
    gpu_team_run(t, add_rounds, &w);
    for (uint32_t i = 0; i < UNITS; i++)
        ck_assert_uint_eq(w.cells[0][i], 6);
    memset(w.cells, 0, sizeof w.cells);
    w.fail_at = ROUNDS;
    gpu_team_run(t, add_rounds, &w);
    for (uint32_t i = 0; i < UNITS; i++)
        ck_assert_uint_eq(w.cells[0][i], ROUNDS);
    gpu_team_close(t);
    ck_assert_uint_ge(atomic_load(&w.entered), (uint32_t)runs + 2);
    for (uint32_t i = 0; i < threads; i++)
        ck_assert_uint_eq(w.wrong[i], 0);
}

START_TEST(test_sizes) {
    for (uint32_t n = 1; n <= 6; n++)
        for (uint32_t grain = 1; grain <= 200; grain = grain * 4 + 1)
            run_size(n, grain, 4);
}
END_TEST

START_TEST(test_oversubscribed) {
    run_size(64, 3, 3);
    run_size(33, 40, 3);
}
END_TEST

static void nothing(void *self, struct gpu_member *m) {
    (void)self;
    (void)m;
}

START_TEST(test_open_close) {
    struct gpu_team *t;
    struct status_note note = {{0}};
    for (int i = 0; i < 30; i++) {
        ck_assert_int_eq(gpu_team_open(4, 64, &t, NULL), STATUS_OK);
        for (int r = 0; r < i % 3; r++)
            gpu_team_run(t, nothing, NULL);
        gpu_team_close(t);
    }
    ck_assert_int_eq(gpu_team_open(0, 0, &t, NULL), STATUS_OK);
    ck_assert_uint_ge(gpu_team_size(t), 1);
    gpu_team_close(t);
    ck_assert_int_eq(gpu_team_open(GPU_TEAM_MAX + 1, 0, &t, &note), STATUS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(note.text, "257"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/team");
    TCase *tc = tcase_create("team");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_sizes);
    tcase_add_test(tc, test_oversubscribed);
    tcase_add_test(tc, test_open_close);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
