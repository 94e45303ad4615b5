/* SPDX-License-Identifier: Apache-2.0
 * The shared-memory collective: sums have the tree's bits at every size and world, gathers lie
 * where they should, and ranks that are elsewhere or absent are named.
 */
#include <pthread.h>
#include <string.h>

#include "fabric/coll_mailbox.h"
#include "fabric/tree.h"
#include "tests/gpu/plan_make.h"
#include "tests/harness.h"

enum { FLOATS_MAX = 20000 };

struct rank_thread {
    pthread_t thread;
    const struct gpu_collective *c;
    const size_t *sizes;
    uint32_t n_sizes;
    uint32_t wrong;
    enum status status;
    float *x, *parts[GPU_WORLD_MAX], *want, *all;
};

/* What rank i brings to exchange k: hard to add in any order but one. */
static void fill(float *x, size_t n, uint32_t rank, size_t k) {
    uint64_t seed = rank * 1000003 + k;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_random(&seed);
        x[i] = ((float)(r >> 40) - 8388608.0F) * (r % 3 == 0 ? 1e-6F : r % 3 == 1 ? 1.0F : 3e4F);
    }
}

static void one_size(struct rank_thread *t, size_t n, size_t k) {
    uint32_t world = t->c->world;
    const float *parts[GPU_WORLD_MAX];
    for (uint32_t i = 0; i < world; i++) {
        fill(t->parts[i], n, i, k);
        parts[i] = t->parts[i];
    }
    memcpy(t->x, parts[t->c->rank], n * sizeof(float));
    t->status = t->c->reduce(t->c->self, t->x, n);
    fab_tree_sum(parts, world, t->want, n);
    t->wrong += t->status != STATUS_OK || memcmp(t->x, t->want, n * sizeof(float)) != 0;
    size_t width = 1 + k % 7, rows = n / width;
    t->status = t->c->gather(t->c->self, parts[t->c->rank], t->all, rows, width);
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < world; i++)
            t->wrong += memcmp(t->all + (r * world + i) * width, parts[i] + r * width,
                               width * sizeof(float)) != 0;
}

static void *rank_main(void *arg) {
    struct rank_thread *t = arg;
    for (uint32_t k = 0; k < t->n_sizes; k++)
        one_size(t, t->sizes[k], k);
    return NULL;
}

START_TEST(test_bits) {
    static const size_t sizes[] = {1,    2,    15,   16,   17,   0,     100, 1000,
                                   4095, 4096, 4097, 8000, 9999, 20000, 3,   12345};
    for (uint32_t world = 1; world <= 8; world *= 2) {
        struct fab_mailbox *box;
        struct rank_thread t[GPU_WORLD_MAX];
        struct fab_mailbox_config config = {
            .world = world, .slot_floats = 8192, .deadline_ns = 60000000000u};
        ck_assert_int_eq(fab_mailbox_open(&config, &box, NULL), STATUS_OK);
        for (uint32_t i = 0; i < world; i++) {
            t[i] = (struct rank_thread){.c = fab_mailbox_rank(box, i),
                                        .sizes = sizes,
                                        .n_sizes = sizeof sizes / sizeof sizes[0]};
            t[i].x = malloc(FLOATS_MAX * sizeof(float));
            t[i].want = malloc(FLOATS_MAX * sizeof(float));
            t[i].all = malloc(FLOATS_MAX * sizeof(float) * world);
            for (uint32_t j = 0; j < world; j++)
                t[i].parts[j] = malloc(FLOATS_MAX * sizeof(float));
            ck_assert_int_eq(pthread_create(&t[i].thread, NULL, rank_main, &t[i]), 0);
        }
        for (uint32_t i = 0; i < world; i++) {
            pthread_join(t[i].thread, NULL);
            ck_assert_uint_eq(t[i].wrong, 0);
            ck_assert_int_eq(t[i].status, STATUS_OK);
            free(t[i].x);
            free(t[i].want);
            free(t[i].all);
            for (uint32_t j = 0; j < world; j++)
                free(t[i].parts[j]);
        }
        fab_mailbox_close(box);
    }
}
END_TEST

START_TEST(test_tree) {
    /* The upper tree on top of subtrees equals the whole tree, and differs from adding one after
     * the other. */
    enum { N = 500 };
    static float x[8][N], pairs[4][N], whole[N], upper[N], chain[N];
    const float *eight[8], *four[4];
    for (uint32_t i = 0; i < 8; i++) {
        fill(x[i], N, i, 5);
        eight[i] = x[i];
    }
    for (uint32_t i = 0; i < 4; i++) {
        fab_tree_sum(eight + 2 * i, 2, pairs[i], N);
        four[i] = pairs[i];
        ck_assert_uint_eq(fab_tree_first(8, i, 4), 2 * i);
    }
    ck_assert_uint_eq(fab_tree_count(8, 4), 2);
    fab_tree_sum(eight, 8, whole, N);
    fab_tree_sum(four, 4, upper, N);
    ck_assert_mem_eq(whole, upper, sizeof whole);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < 8; r++)
            chain[i] = r == 0 ? x[0][i] : chain[i] + x[r][i];
    ck_assert_mem_ne(whole, chain, sizeof whole);
}
END_TEST

static void *gather_main(void *arg) {
    struct rank_thread *t = arg;
    t->status = t->c->gather(t->c->self, t->x, t->all, 4, 8);
    return NULL;
}
static void *reduce_main(void *arg) {
    struct rank_thread *t = arg;
    t->status = t->c->reduce(t->c->self, t->x, t->sizes[0]);
    return NULL;
}

/* Ranks 0 and 1 run these; what they say afterwards. */
static void two(void *(*first)(void *), void *(*second)(void *), size_t n0, size_t n1,
                enum status want, const char *says) {
    struct fab_mailbox *box;
    struct rank_thread t[2];
    float x[2][64] = {{0}}, all[2][128];
    const size_t sizes[2] = {n0, n1};
    void *(*const run[2])(void *) = {first, second};
    /* The deadline is reached only where a rank is absent. */
    struct fab_mailbox_config config = {.world = 2,
                                        .deadline_ns = second == NULL ? 20000000u : 60000000000u};
    ck_assert_int_eq(fab_mailbox_open(&config, &box, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        t[i] = (struct rank_thread){
            .c = fab_mailbox_rank(box, i), .sizes = &sizes[i], .x = x[i], .all = all[i]};
        if (run[i] != NULL)
            ck_assert_int_eq(pthread_create(&t[i].thread, NULL, run[i], &t[i]), 0);
    }
    bool said = false;
    for (uint32_t i = 0; i < 2; i++) {
        if (run[i] == NULL)
            continue;
        pthread_join(t[i].thread, NULL);
        ck_assert_int_eq(t[i].status, want);
        said = said || strstr(t[i].c->note->text, says) != NULL;
    }
    ck_assert_msg(said, "%s", t[0].c->note->text);
    /* For good. */
    ck_assert_int_eq(t[0].c->reduce(t[0].c->self, x[0], 4), want);
    fab_mailbox_close(box);
}

START_TEST(test_named) {
    two(reduce_main, gather_main, 32, 32, STATUS_DESYNC, "in gather of 32 floats");
    two(reduce_main, reduce_main, 32, 33, STATUS_DESYNC, "of 32");
    two(reduce_main, NULL, 32, 0, STATUS_TIMEOUT, "rank 1 did not come to exchange 1 (reduce)");
}
END_TEST

START_TEST(test_refused) {
    struct fab_mailbox *box;
    struct status_note note = {{0}};
    static const uint32_t worlds[] = {0, 3, 6, 16};
    for (int i = 0; i < 4; i++) {
        struct fab_mailbox_config config = {.world = worlds[i]};
        ck_assert_int_eq(fab_mailbox_open(&config, &box, &note), STATUS_BAD_REQUEST);
        ck_assert_ptr_nonnull(strstr(note.text, "power of two"));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fabric/coll_mailbox");
    TCase *tc = tcase_create("mailbox");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test_bits);
    tcase_add_test(tc, test_tree);
    tcase_add_test(tc, test_named);
    tcase_add_test(tc, test_refused);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
