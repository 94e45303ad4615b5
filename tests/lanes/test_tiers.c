/* SPDX-License-Identifier: Apache-2.0
 * The whole engine with tiers below a device that is too small: conversations that take turns come
 * back from memory or disk, and what they say equals a run alone, fresh and without tiers.
 */
#include <string.h>

#include "tests/lanes/engine_calls.h"

enum { CHATS = 6, TURNS = 3, FIRST = 150, MORE = 40, NEW = 12, LONGEST = 400 };

static uint32_t prompt[CHATS * TURNS][LONGEST], length[CHATS * TURNS];

/* Turn t of chat c goes on with what was said, as it was said in the reference. */
static struct engine_test *reference(void) {
    struct lane_engine_config config = engine_config();
    struct engine_test *alone = NULL;
    for (uint32_t t = 0; t < TURNS; t++) {
        struct engine_test *now = engine_open(&config);
        for (uint32_t c = 0; c < CHATS; c++) {
            uint32_t i = t * CHATS + c, n = 0;
            if (t > 0) {
                const struct client_call *last = &alone->call[i - CHATS];
                n = length[i - CHATS];
                memcpy(prompt[i], prompt[i - CHATS], n * sizeof(uint32_t));
                memcpy(prompt[i] + n, last->ids, last->n_new * sizeof(uint32_t));
                n += last->n_new;
            }
            uint32_t more = t == 0 ? FIRST + 17 * c : MORE + c;
            engine_fill(prompt[i] + n, more, 100 * t + c);
            length[i] = n + more;
            ck_assert_uint_le(length[i], LONGEST);
        }
        for (uint32_t i = 0; i < (t + 1) * CHATS; i++) /* the earlier ones too: one run has all */
            engine_add(now, prompt[i], length[i], NEW)->request.flags |=
                LANE_NO_REUSE | LANE_NO_KEEP | LANE_IGNORE_EOS;
        engine_run(now, 4);
        if (alone != NULL)
            engine_free(alone);
        alone = now;
    }
    return alone;
}

static uint64_t page_bytes(void) {
    struct lane_engine_config config = engine_config();
    config.kv_bytes = 64u << 20;
    struct engine_test *t = engine_open(&config);
    engine_add(t, prompt[0], length[0], 1);
    uint64_t pages = lane_engine_counters(t->engine)->pages_total;
    engine_run(t, 1);
    engine_free(t);
    return config.kv_bytes / pages;
}

static void check(uint32_t world, uint32_t lanes, bool with_ram) {
    struct engine_test *alone = reference();
    struct lane_engine_config config = engine_config();
    uint64_t page = page_bytes();
    config.world = world;
    config.threads = 1;
    config.kv_bytes = page / world * (uint64_t)(8 * lanes);
    config.ram_cache = with_ram ? page / world * 48 : 0;
    struct engine_test *t = engine_open(&config);
    for (uint32_t i = 0; i < CHATS * TURNS; i++)
        engine_add(t, prompt[i], length[i], NEW)->request.flags |= LANE_IGNORE_EOS;
    engine_run(t, lanes);
    uint32_t from_ram = 0, expected = 0;
    for (uint32_t i = 0; i < CHATS * TURNS; i++) {
        engine_same(t, i, alone, i);
        from_ram += t->call[i].from_ram;
        ck_assert_uint_le(t->call[i].from_ram, t->call[i].n_resumed);
        ck_assert_uint_eq(t->call[i].from_disk, 0);
        if (i < CHATS || lanes > 1)
            continue;
        /* What the turn before left, its last token excepted, all resumes. */
        expected += length[i - CHATS] + NEW - 1;
        if (with_ram)
            ck_assert_uint_eq(t->call[i].n_resumed, length[i - CHATS] + NEW - 1);
    }
    ck_assert_msg(with_ram ? from_ram > expected / 2 : from_ram == 0, "%u tokens from RAM of %u",
                  from_ram, expected);
    engine_free(t);
    engine_free(alone);
}

START_TEST(tiers_memory_one_at_a_time) {
    check(1, 1, true);
}
END_TEST

START_TEST(tiers_memory_two_ranks) {
    check(2, 1, true);
}
END_TEST

START_TEST(tiers_memory_in_company) {
    check(1, 3, true);
}
END_TEST

START_TEST(tiers_none) {
    check(1, 1, false);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lanes/tiers");
    TCase *tcase = tcase_create("tiers");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, tiers_memory_one_at_a_time);
    tcase_add_test(tcase, tiers_memory_two_ranks);
    tcase_add_test(tcase, tiers_memory_in_company);
    tcase_add_test(tcase, tiers_none);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
