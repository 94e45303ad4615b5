/* SPDX-License-Identifier: Apache-2.0
 * The exchange by NCCL over a fake library: everything arrives where it should at every world and
 * size, a rank that does not come is named, what NCCL reports ends the exchange for good, and a
 * library that cannot serve is refused by what it lacks. What real NCCL does with these calls is
 * tests/cuda/test_device_ranks on a GPU.
 */
#include <pthread.h>
#include <string.h>

#include "fabric/coll_nccl.h"
#include "tests/fabric/nccl_fake.h"
#include "tests/harness.h"

enum { FLOATS = 3000 };

struct rank {
    pthread_t thread;
    const struct gpu_exchange *x;
    struct status_note note;
    enum status status;
    uint32_t wrong;
    bool absent; /* joins, then does not come */
};

static uint32_t word(uint32_t from, uint32_t to, size_t n, size_t i) {
    return (uint32_t)(from * 2654435761u ^ to * 40503u ^ n * 97u ^ i * 2246822519u);
}

static uint64_t address(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

/* One size, both ways, out of place and in place. */
static enum status one_size(struct rank *r, size_t n) {
    const struct gpu_exchange *x = r->x;
    static _Thread_local uint32_t from[GPU_WORLD_MAX * FLOATS], to[GPU_WORLD_MAX * FLOATS];
    for (size_t i = 0; i < n; i++)
        from[i] = word(x->rank, 99, n, i);
    TRY(x->gather(x->self, address(from), address(to), n, NULL, &r->note));
    for (uint32_t k = 0; k < x->world; k++)
        for (size_t i = 0; i < n; i++)
            r->wrong += to[k * n + i] != word(k, 99, n, i);
    for (uint32_t k = 0; k < x->world; k++)
        for (size_t i = 0; i < n; i++)
            from[k * n + i] = word(x->rank, k, n, i);
    TRY(x->scatter(x->self, address(from), address(to), n, NULL, &r->note));
    for (uint32_t k = 0; k < x->world; k++)
        for (size_t i = 0; i < n; i++)
            r->wrong += to[k * n + i] != word(k, x->rank, n, i);
    uint32_t *mine = from + x->rank * n;
    for (size_t i = 0; i < n; i++)
        mine[i] = word(x->rank, 98, n, i);
    TRY(x->gather(x->self, address(mine), address(from), n, NULL, &r->note));
    for (uint32_t k = 0; k < x->world; k++)
        for (size_t i = 0; i < n; i++)
            r->wrong += from[k * n + i] != word(k, 98, n, i);
    return x->state(x->self, &r->note);
}

static void *run(void *self) {
    static const size_t sizes[] = {1, 4, 1000, FLOATS};
    struct rank *r = self;
    r->status = r->x->join(r->x->self, &r->note);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && r->status == STATUS_OK && !r->absent;
         i++)
        r->status = one_size(r, sizes[i]);
    if (r->absent)
        r->x->leave(r->x->self);
    return NULL;
}

static void open_over(const struct fab_nccl *nccl, uint32_t world, uint64_t deadline_ns,
                      struct fab_coll_nccl **out, struct rank *ranks) {
    struct fab_coll_nccl_config config = {.nccl = nccl, .world = world, .deadline_ns = deadline_ns};
    struct status_note note = {{0}};
    ck_assert_msg(fab_coll_nccl_open(&config, out, &note) == STATUS_OK, "%s", note.text);
    memset(ranks, 0, world * sizeof *ranks);
    for (uint32_t i = 0; i < world; i++)
        ranks[i].x = fab_coll_nccl_rank(*out, i);
}

static void run_all(struct rank *ranks, uint32_t first, uint32_t n) {
    for (uint32_t i = first; i < n; i++)
        ck_assert_int_eq(pthread_create(&ranks[i].thread, NULL, run, &ranks[i]), 0);
    for (uint32_t i = first; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
}

START_TEST(everything_arrives) {
    struct fab_coll_nccl *c;
    struct rank ranks[GPU_WORLD_MAX];
    for (uint32_t world = 2; world <= GPU_WORLD_MAX; world *= 2) {
        open_over(nccl_fake(), world, 0, &c, ranks);
        run_all(ranks, 0, world);
        for (uint32_t i = 0; i < world; i++) {
            ck_assert_msg(ranks[i].status == STATUS_OK, "%s", ranks[i].note.text);
            ck_assert_uint_eq(ranks[i].wrong, 0);
        }
        ck_assert_uint_eq(nccl_fake_live(), 2 * world);
        fab_coll_nccl_close(c);
        ck_assert_uint_eq(nccl_fake_live(), 0);
    }
}
END_TEST

/* Of four ranks one never joins: the others say so in bounded time and hold nothing. */
START_TEST(absent_rank) {
    struct fab_coll_nccl *c;
    struct rank ranks[4];
    open_over(nccl_fake(), 4, 30000000, &c, ranks);
    run_all(ranks, 1, 4);
    for (uint32_t i = 1; i < 4; i++) {
        ck_assert_int_ne(ranks[i].status, STATUS_OK);
        ck_assert_msg(strstr(ranks[i].note.text, "joining") != NULL, "%s", ranks[i].note.text);
    }
    ck_assert_uint_eq(nccl_fake_live(), 0);
    fab_coll_nccl_close(c);
}
END_TEST

/* A rank that leaves ends it for all; what failed once fails again, with the same sentence. */
START_TEST(rank_that_leaves) {
    struct fab_coll_nccl *c;
    struct rank ranks[2];
    struct status_note again = {{0}};
    float x[2];
    open_over(nccl_fake(), 2, 0, &c, ranks);
    ranks[1].absent = true;
    run_all(ranks, 0, 2);
    ck_assert_int_eq(ranks[0].status, STATUS_DESYNC);
    ck_assert_msg(strstr(ranks[0].note.text, "remote process exited") != NULL, "%s",
                  ranks[0].note.text);
    const struct gpu_exchange *e = ranks[0].x;
    ck_assert_int_eq(e->scatter(e->self, address(x), address(x), 1, NULL, &again), STATUS_DESYNC);
    ck_assert_str_eq(again.text, ranks[0].note.text);
    ck_assert_int_eq(e->state(e->self, &again), STATUS_DESYNC);
    e->leave(e->self);
    ck_assert_uint_eq(nccl_fake_live(), 0);
    fab_coll_nccl_close(c);
}
END_TEST

/* What NCCL reports later ends it too, for all ranks of the process. */
START_TEST(late_error) {
    struct fab_coll_nccl *c;
    struct rank ranks[2];
    open_over(nccl_fake(), 2, 0, &c, ranks);
    run_all(ranks, 0, 2);
    const struct gpu_exchange *e = ranks[1].x;
    ck_assert_int_eq(e->state(e->self, &ranks[1].note), STATUS_OK);
    nccl_fake_state(3);
    ck_assert_int_eq(e->state(e->self, &ranks[1].note), STATUS_DESYNC);
    nccl_fake_state(FAB_NCCL_SUCCESS);
    ck_assert_int_eq(e->state(e->self, &ranks[1].note), STATUS_DESYNC);
    const struct gpu_exchange *beside = ranks[0].x;
    ck_assert_int_eq(beside->state(beside->self, &ranks[0].note), STATUS_DESYNC);
    ck_assert_msg(strstr(ranks[0].note.text, "another rank has failed") != NULL, "%s",
                  ranks[0].note.text);
    ck_assert_uint_eq(nccl_fake_live(), 4); /* until ranks leave: graphs may hold it */
    e->leave(e->self);
    ck_assert_uint_eq(nccl_fake_live(), 2);
    fab_coll_nccl_close(c);
    ck_assert_uint_eq(nccl_fake_live(), 0);
}
END_TEST

/* A call that fails names NCCL and the operation; the others end too. */
START_TEST(failed_call) {
    struct fab_coll_nccl *c;
    struct rank ranks[2];
    open_over(nccl_fake(), 2, 0, &c, ranks);
    nccl_fake_fail(2);
    run_all(ranks, 0, 2);
    uint32_t named = 0;
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(ranks[i].status, STATUS_DESYNC);
        named += strstr(ranks[i].note.text, "NCCL, gathering: some error") != NULL;
    }
    ck_assert_uint_gt(named, 0);
    for (uint32_t i = 0; i < 2; i++)
        ranks[i].x->leave(ranks[i].x->self);
    ck_assert_uint_eq(nccl_fake_live(), 0);
    fab_coll_nccl_close(c);
}
END_TEST

START_TEST(library_that_cannot_serve) {
    struct fab_nccl table;
    struct status_note note = {{0}};
    char lacks[] = "ncclCommSplit";
    nccl_fake();
    ck_assert_int_eq(fab_nccl_fill(&table, nccl_fake_find, lacks, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, lacks) != NULL, "%s", note.text);
    nccl_fake_version(21403);
    ck_assert_int_eq(fab_nccl_fill(&table, nccl_fake_find, NULL, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "2.14.3") != NULL, "%s", note.text);
    nccl_fake_version(FAB_NCCL_LEAST);
    ck_assert_int_eq(fab_nccl_fill(&table, nccl_fake_find, NULL, &note), STATUS_OK);
    ck_assert_int_eq(table.found_version, FAB_NCCL_LEAST);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fabric/coll_nccl");
    TCase *tc = tcase_create("coll_nccl");
    tcase_add_test(tc, everything_arrives);
    tcase_add_test(tc, absent_rank);
    tcase_add_test(tc, rank_that_leaves);
    tcase_add_test(tc, late_error);
    tcase_add_test(tc, failed_call);
    tcase_add_test(tc, library_that_cannot_serve);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
