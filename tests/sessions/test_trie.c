/* SPDX-License-Identifier: Apache-2.0
 * The trie alone: cost of lookups by counted comparisons, key spaces, chosen hash collisions.
 * Exactness of hits is tested through the books.
 */
#include <string.h>

#include "sessions/trie.h"
#include "tests/sessions/expect.h"

static struct ses_trie *open_trie(uint32_t n, uint32_t page_tokens) {
    struct ses_trie *t;
    struct status_note note;
    EXPECT_FINE(ses_trie_open(n, page_tokens, &t, &note) == STATUS_OK, note);
    return t;
}

static uint32_t common(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b) {
    uint32_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

enum { CHILDREN = 100000, TOKENS = 4 };

/* Half of the children are partial, half full; order: 0 rising, 1 falling, 2 shuffled. */
static void many_children(int order) {
    static uint32_t ids[CHILDREN][TOKENS];
    const struct ses_space space = {.tenant = 1};
    struct ses_trie *t = open_trie(CHILDREN, TOKENS);
    unsigned long long random = 7;
    uint64_t before = 0, worst = 0, total = 0;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        uint32_t key = order == 0 ? i : order == 1 ? CHILDREN - 1 - i : (i * 7919u) % CHILDREN;
        ids[i][0] = key / 1000;
        ids[i][1] = key % 1000 * 4;
        ids[i][2] = 5;
        ids[i][3] = 6;
        struct ses_added added =
            ses_trie_add(t, &space, 0, ids[i], key % 2 ? TOKENS : TOKENS - 1, i + 1);
        EXPECT(added.added && added.dropped == 0);
    }
    EXPECT(ses_trie_compares(t) / CHILDREN < 60);
    for (int k = 0; k < 20000; k++) {
        uint32_t key = (uint32_t)(expect_random(&random) % CHILDREN), path[2];
        uint32_t want[6] = {key / 1000, key % 1000 * 4, 5, 6, 7, 8};
        uint32_t at = (uint32_t)(expect_random(&random) % 5), n = 3 + k % 4, expected = n;
        if (at < 4) {
            want[at] += at == 1 ? 1 + k % 3 : 1000;
            expected = at < n ? at : n;
        }
        uint32_t there = key % 2 ? TOKENS : TOKENS - 1;
        expected = expected < there ? expected : there;
        before = ses_trie_compares(t);
        struct ses_match m = ses_trie_find(t, &space, want, n, path);
        uint64_t cost = ses_trie_compares(t) - before;
        worst = cost > worst ? cost : worst;
        total += cost;
        EXPECT_EQ(m.n_full * TOKENS + m.tokens, expected);
    }
    EXPECT(worst <= 64); /* a treap of 100,000 is about forty deep */
    EXPECT(total / 20000 <= 32);
    ses_trie_close(t);
}

START_TEST(test_many_children) {
    for (int order = 0; order < 3; order++)
        many_children(order);
}
END_TEST

START_TEST(test_keys_are_spaces) {
    struct ses_key key = {
        .fingerprint = {1, 2}, .profile = 3, .rope = 4, .layout_version = 5, .world = 6};
    struct ses_key other[7] = {key, key, key, key, key, key, key};
    other[0].fingerprint[0]++;
    other[1].fingerprint[1]++;
    other[2].profile++;
    other[3].rope++;
    other[4].layout_version++;
    other[5].world++;
    struct ses_trie *t = open_trie(16, 4);
    uint32_t ids[6] = {1, 2, 3, 4, 5, 6}, path[2];
    struct ses_space mine = ses_space_of(&key, 9);
    uint32_t full = ses_trie_add(t, &mine, 0, ids, 4, 1).node;
    ses_trie_add(t, &mine, full, ids + 4, 2, 2);
    for (int i = 0; i < 7; i++) {
        struct ses_space space = ses_space_of(&other[i], i < 6 ? 9 : 10);
        struct ses_match m = ses_trie_find(t, &space, ids, 6, path);
        EXPECT_EQ(m.n_full + m.partial + m.tokens, 0);
        EXPECT(ses_trie_add(t, &space, 0, ids, 4, 3 + (uint64_t)i).added);
        EXPECT_EQ(ses_trie_find(t, &space, ids, 6, path).n_full, 1);
    }
    struct ses_match m = ses_trie_find(t, &mine, ids, 6, path);
    EXPECT_EQ(m.n_full, 1);
    EXPECT_EQ(m.tokens, 2);
    struct status_note note;
    EXPECT_FINE(ses_trie_audit(t, &note), note);
    ses_trie_close(t);
}
END_TEST

/* Pages chosen so that all fall into one bucket: found all the same, and at no greater cost. */
START_TEST(test_chosen_collisions) {
    enum { NODES = 512, MANY = 400 };
    struct ses_trie *t = open_trie(NODES, TOKENS);
    struct ses_trie *scratch = open_trie(1, TOKENS); /* tells names, which choose the bucket */
    const struct ses_space space = {0};
    static uint32_t ids[MANY][TOKENS];
    uint32_t n = 0, path[1];
    for (uint32_t i = 0; n < MANY; i++) {
        uint32_t page[TOKENS] = {i, i >> 3, 1, 2};
        struct ses_name name =
            ses_trie_name(scratch, ses_trie_add(scratch, &space, 0, page, TOKENS, 1).node);
        ses_trie_remove(scratch, 1);
        if (name.word[0] % (2 * NODES) != 0)
            continue;
        memcpy(ids[n], page, sizeof page);
        EXPECT(ses_trie_add(t, &space, 0, page, TOKENS, n + 1).added);
        n++;
    }
    ses_trie_close(scratch);
    uint64_t worst = 0;
    bool ordered = false;
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t before = ses_trie_compares(t);
        EXPECT_EQ(ses_trie_find(t, &space, ids[i], TOKENS, path).n_full, 1);
        uint64_t cost = ses_trie_compares(t) - before;
        EXPECT_EQ(ses_page_id(ses_trie_page(t, path[0])), i + 1);
        worst = cost > worst ? cost : worst;
        ordered = ordered || cost > 4;
    }
    EXPECT(ordered); /* else the pages did not collide and this tests nothing */
    EXPECT(worst <= 40);
    struct status_note note;
    EXPECT_FINE(ses_trie_audit(t, &note), note);
    for (uint32_t i = 0; i < MANY; i++)
        EXPECT_EQ(ses_page_id(ses_trie_remove(t, 1 + i)), i + 1);
    EXPECT_EQ(ses_trie_n_nodes(t), 0);
    EXPECT_FINE(ses_trie_audit(t, &note), note);
    ses_trie_close(t);
}
END_TEST

/* Children of one node, added and removed at random, against a list. */
START_TEST(test_siblings) {
    enum { LIST = 48, LENGTH = 8 };
    for (unsigned long long seed = 1; seed <= 100; seed++) {
        unsigned long long random = seed;
        struct ses_trie *t = open_trie(LIST, LENGTH);
        const struct ses_space space = {.tenant = seed};
        struct {
            uint32_t node, n, ids[LENGTH];
        } list[LIST];
        uint32_t n = 0, path[1];
        for (int step = 0; step < 300; step++) {
            uint32_t ids[LENGTH], len = 1 + (uint32_t)(expect_random(&random) % LENGTH), best = 0;
            for (uint32_t i = 0; i < len; i++)
                ids[i] = (uint32_t)(expect_random(&random) % 2);
            bool longer_there = false;
            for (uint32_t i = 0; i < n; i++) {
                uint32_t c = common(list[i].ids, list[i].n, ids, len);
                best = c > best ? c : best;
                longer_there = longer_there || c == len;
            }
            struct ses_match m = ses_trie_find(t, &space, ids, len, path);
            EXPECT_EQ(m.n_full * LENGTH + m.tokens, best);
            if (n == LIST || expect_random(&random) % 4 == 0) {
                uint32_t at = (uint32_t)(n > 0 ? expect_random(&random) % n : 0);
                if (n == 0)
                    continue;
                ses_trie_remove(t, list[at].node);
                list[at] = list[--n];
            } else {
                struct ses_added added =
                    ses_trie_add(t, &space, 0, ids, len, 1000 + (uint32_t)step);
                EXPECT_EQ(added.added, !longer_there);
                for (uint32_t i = 0; added.added && i < n; i++)
                    if (common(list[i].ids, list[i].n, ids, len) == list[i].n) {
                        EXPECT(added.dropped != 0);
                        list[i--] = list[--n];
                    }
                if (added.added) {
                    list[n].node = added.node;
                    list[n].n = len;
                    memcpy(list[n++].ids, ids, sizeof ids);
                }
            }
            struct status_note note;
            EXPECT_FINE(ses_trie_audit(t, &note), note);
            EXPECT_EQ(ses_trie_n_nodes(t), n);
        }
        ses_trie_close(t);
    }
}
END_TEST

/* Use is counted, no clock is asked: a time that goes backwards changes nothing, and stored use
 * from whatever future is older than what is used from now on. */
START_TEST(test_stored_use_is_the_past) {
    const uint64_t stored[] = {0, 1, 1000, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    const struct ses_space space = {.tenant = 1};
    uint32_t old[TOKENS] = {1, 2, 3, 4}, new[TOKENS] = {5, 6, 7, 8};
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        struct ses_trie *t = open_trie(4, TOKENS);
        struct ses_name name = ses_trie_name_of(t, &space, 0, old, TOKENS);
        uint32_t loaded = ses_trie_load(t, &space, 0, old, TOKENS, stored[i], &name, 1);
        EXPECT(loaded != 0);
        ses_trie_loaded(t);
        struct ses_added added = ses_trie_add(t, &space, 0, new, TOKENS, 2);
        for (int k = 0; k < 3; k++) {
            ses_trie_touch(t, added.node);
            EXPECT(ses_trie_use(t, added.node) > ses_trie_use(t, loaded));
        }
        ses_trie_touch(t, loaded);
        EXPECT(ses_trie_use(t, loaded) > ses_trie_use(t, added.node));
        ses_trie_close(t);
    }
}
END_TEST

START_TEST(test_refused) {
    struct ses_trie *t;
    struct status_note note;
    ck_assert_int_eq(ses_trie_open(0, 64, &t, &note), STATUS_BAD_REQUEST);
    ck_assert_int_eq(ses_trie_open(10, 0, &t, &note), STATUS_BAD_REQUEST);
    ck_assert_int_eq(ses_trie_open(10, 65, &t, &note), STATUS_BAD_REQUEST);
    ck_assert_ptr_null(t);
    t = open_trie(10, 64);
    ck_assert_uint_gt(ses_trie_bytes(t), 10 * 64 * 4);
    ses_trie_close(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/trie");
    TCase *tcase = tcase_create("trie");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, test_many_children);
    tcase_add_test(tcase, test_keys_are_spaces);
    tcase_add_test(tcase, test_chosen_collisions);
    tcase_add_test(tcase, test_siblings);
    tcase_add_test(tcase, test_stored_use_is_the_past);
    tcase_add_test(tcase, test_refused);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
