/* SPDX-License-Identifier: Apache-2.0
 * Requests by name and waiting answers, against a plain model of both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/door/waits.h"
#include "tests/harness.h"

static uint64_t state = 7;

static uint32_t draw(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

enum { SLOTS = 40, NAMES = 200 };

START_TEST(test_names) {
    struct door_table t;
    struct door_request *of[NAMES] = {0};
    bool gone[NAMES] = {0};
    uint64_t old_id[NAMES] = {0};
    ck_assert(door_table_open(&t, SLOTS, (uint64_t)_i));
    for (int round = 0; round < 20000; round++) {
        char name[16];
        uint32_t k = draw(NAMES);
        snprintf(name, sizeof name, "name-%u", k);
        ck_assert_ptr_eq(door_table_find(&t, name), of[k]);
        ck_assert_int_eq(door_table_gone(&t, name), gone[k]);
        if (of[k] == NULL && !gone[k]) {
            struct door_request *r = door_table_add(&t, name);
            ck_assert_int_eq(r != NULL, t.live.n + t.ended.n + t.n_free == SLOTS && r != NULL);
            if (r == NULL) {
                ck_assert_uint_eq(t.n_free, 0);
                continue;
            }
            ck_assert_str_eq(r->name, name);
            of[k] = r;
            uint64_t id = door_table_id(&t, r);
            ck_assert_uint_ne(id, 0);
            ck_assert_uint_ne(id, old_id[k]);
            ck_assert_ptr_eq(door_table_by_id(&t, id), r);
            old_id[k] = id;
        } else if (of[k] != NULL && of[k]->state != DOOR_ENDED && draw(2) == 0) {
            door_table_end(&t, of[k]);
        } else if (of[k] != NULL) {
            gone[k] = draw(8) == 0;
            door_table_remove(&t, of[k], gone[k]);
            of[k] = NULL;
            ck_assert_ptr_null(door_table_by_id(&t, old_id[k]));
        }
        ck_assert_uint_eq(t.live.n + t.ended.n + t.n_free, SLOTS);
    }
    door_table_close(&t);
}
END_TEST

/* The ended list is in the order of ending. */
START_TEST(test_ended_order) {
    struct door_table t;
    char name[16];
    ck_assert(door_table_open(&t, 8, 3));
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "%d", i);
        ck_assert_ptr_nonnull(door_table_add(&t, name));
    }
    ck_assert_ptr_null(door_table_add(&t, "one more"));
    static const int order[] = {3, 0, 7, 1};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d", order[i]);
        door_table_end(&t, door_table_find(&t, name));
    }
    for (int i = 0; i < 4; i++) {
        struct door_request *r = &t.slots[t.ended.head];
        snprintf(name, sizeof name, "%d", order[i]);
        ck_assert_str_eq(r->name, name);
        door_table_remove(&t, r, true);
        ck_assert(door_table_gone(&t, name));
    }
    ck_assert_uint_eq(t.live.head, door_table_index(&t, door_table_find(&t, "2")));
    door_table_close(&t);
}
END_TEST

/* Thousands of the newest gone names are remembered, whatever their number. */
START_TEST(test_gone_bounded) {
    struct door_table t;
    char name[24];
    enum { N = 300000, NEWEST = 8000 };
    ck_assert(door_table_open(&t, 4, 11));
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "g%d", i);
        door_table_remove(&t, door_table_add(&t, name), true);
    }
    for (int i = N - NEWEST; i < N; i++) {
        snprintf(name, sizeof name, "g%d", i);
        ck_assert(door_table_gone(&t, name));
    }
    ck_assert(!door_table_gone(&t, "never"));
    door_table_close(&t);
}
END_TEST

static struct door_header header_of(uint32_t k) {
    struct door_header h = {.n = 8 + k % 60};
    for (uint32_t i = 0; i < h.n; i++)
        h.bytes[i] = (unsigned char)(k >> (i % 4 * 8));
    return h;
}

enum { WAITS = 64, HEADERS = 150 };

START_TEST(test_waits) {
    struct door_table t;
    struct door_waits w;
    struct door_wait *of[HEADERS] = {0};
    uint32_t ready[WAITS], n_ready = 0, waiting = 0;
    ck_assert(door_table_open(&t, 4, 1));
    ck_assert(door_waits_open(&w, WAITS));
    struct door_request *r[3] = {door_table_add(&t, "a"), door_table_add(&t, "b"), NULL};
    for (int round = 0; round < 20000; round++) {
        uint32_t k = draw(HEADERS);
        struct door_header h = header_of(k);
        ck_assert_ptr_eq(door_waits_find(&w, &h), of[k]);
        if (of[k] == NULL) {
            struct door_request *about = r[draw(3)];
            struct door_wait *e = door_waits_add(&w, &h, DOOR_WAIT_READ, &t, about, 5);
            ck_assert_int_eq(e == NULL, waiting + n_ready == WAITS);
            of[k] = e;
            waiting += e != NULL;
        } else if (of[k]->state == DOOR_WAIT_WAITING) {
            door_waits_ready(&w, &t, of[k]);
            ready[n_ready++] = k;
            waiting--;
        } else if (draw(3) == 0) {
            door_waits_rotate(&w);
            uint32_t first = ready[0];
            memmove(ready, ready + 1, (n_ready - 1) * sizeof ready[0]);
            ready[n_ready - 1] = first;
        } else {
            struct door_wait *first = door_waits_first(&w);
            ck_assert_ptr_eq(first, of[ready[0]]);
            of[ready[0]] = NULL;
            door_waits_done(&w, first);
            n_ready--;
            memmove(ready, ready + 1, n_ready * sizeof ready[0]);
        }
        ck_assert_uint_eq(w.waiting.n, waiting);
        ck_assert_uint_eq(w.ready.n, n_ready);
        ck_assert_uint_le(r[0]->n_waits + r[1]->n_waits, waiting);
    }
    door_waits_close(&w);
    door_table_close(&t);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("table");
    TCase *t = tcase_create("table");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_names, 0, 5);
    tcase_add_test(t, test_ended_order);
    tcase_add_test(t, test_gone_bounded);
    tcase_add_test(t, test_waits);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
