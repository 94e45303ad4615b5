/* SPDX-License-Identifier: Apache-2.0
 * Event logs against a plain array: every cursor, every kind, chunks given back, the reservation is
 * enough.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/door/events.h"
#include "tests/harness.h"

enum { MANY = 3000 };

static uint64_t state = 1;

static uint32_t draw(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static struct door_event random_event(void) {
    struct door_event e = {.kind = (uint8_t)draw(DOOR_EVENTS)};
    e.n_bytes = (uint8_t)draw(DOOR_EVENT_BYTES_MAX + 1);
    for (uint32_t i = 0; i < e.n_bytes; i++)
        e.bytes[i] = (uint8_t)draw(256);
    if (e.kind == DOOR_EVENT_TOKEN) {
        e.index = draw(UINT32_MAX);
        e.id = draw(UINT32_MAX);
        e.flags = (uint8_t)draw(4);
        if ((e.flags & DOOR_HAS_LOGPROB) != 0)
            e.logprob = -(float)draw(1000) / 7;
        if ((e.flags & DOOR_HAS_HASH) != 0)
            e.hash = (uint64_t)draw(UINT32_MAX) << 20;
        e.n_top = (uint8_t)draw(KRN_TOP_MAX + 1);
        for (uint32_t i = 0; i < e.n_top; i++)
            e.top[i] = (struct krn_top){.id = draw(5000), .logprob = -(float)draw(100)};
    } else if (e.kind != DOOR_EVENT_TEXT) {
        for (int i = 0; i < 4; i++)
            e.value[i] = draw(UINT32_MAX);
        e.more[0] = draw(99);
        e.more[1] = draw(99);
    }
    return e;
}

static void same(const struct door_event *a, const struct door_event *b) {
    ck_assert_uint_eq(a->kind, b->kind);
    ck_assert_uint_eq(a->flags, b->flags);
    ck_assert_uint_eq(a->index, b->index);
    ck_assert_uint_eq(a->id, b->id);
    ck_assert(a->logprob == b->logprob);
    ck_assert_uint_eq(a->hash, b->hash);
    ck_assert_uint_eq(a->n_top, b->n_top);
    ck_assert_mem_eq(a->top, b->top, a->n_top * sizeof a->top[0]);
    ck_assert_uint_eq(a->n_bytes, b->n_bytes);
    ck_assert_mem_eq(a->bytes, b->bytes, a->n_bytes);
    ck_assert_mem_eq(a->value, b->value, sizeof a->value);
    ck_assert_mem_eq(a->more, b->more, sizeof a->more);
}

START_TEST(test_any_cursor) {
    static struct door_event want[MANY];
    struct door_pool p;
    struct door_log log = {0};
    struct door_place place;
    struct door_event e;
    ck_assert(door_pool_open(&p, 4 << 20));
    door_log_seek(&p, &log, 0, &place);
    ck_assert(!door_log_next(&p, &log, &place, &e));
    for (uint32_t i = 0; i < MANY; i++) {
        want[i] = random_event();
        ck_assert(door_log_append(&p, &log, &want[i]));
        ck_assert_uint_eq(log.n_events, i + 1);
    }
    ck_assert_uint_gt(log.n_chunks, 10);
    ck_assert_uint_eq(p.used, log.n_chunks);
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t at = draw(MANY + 1), n = draw(60);
        door_log_seek(&p, &log, at, &place);
        for (; n > 0 && at < MANY; n--, at++) {
            ck_assert(door_log_next(&p, &log, &place, &e));
            same(&want[at], &e);
            ck_assert_uint_eq(place.event, at + 1);
        }
        ck_assert(at < MANY || !door_log_next(&p, &log, &place, &e));
    }
    /* A reader that stands at the end goes on when more comes. */
    door_log_seek(&p, &log, MANY, &place);
    for (int i = 0; i < 300; i++) {
        struct door_event next = random_event();
        ck_assert(!door_log_next(&p, &log, &place, &e));
        ck_assert(door_log_append(&p, &log, &next));
        ck_assert(door_log_next(&p, &log, &place, &e));
        same(&next, &e);
    }
    door_log_clear(&p, &log);
    ck_assert_uint_eq(p.used, 0);
    door_pool_close(&p);
}
END_TEST

START_TEST(test_pool_full) {
    struct door_pool p;
    struct door_log a = {0}, b = {0};
    struct door_event e = {.kind = DOOR_EVENT_TEXT, .n_bytes = 31};
    ck_assert(door_pool_open(&p, 4 * DOOR_CHUNK_BYTES));
    while (door_log_append(&p, &a, &e))
        ;
    ck_assert_uint_eq(a.n_chunks, 4);
    uint64_t n = a.n_events;
    ck_assert(!door_log_append(&p, &a, &e) && !door_log_append(&p, &b, &e));
    ck_assert_uint_eq(a.n_events, n);
    ck_assert_uint_eq(b.n_events, 0);
    door_log_clear(&p, &a);
    while (door_log_append(&p, &b, &e))
        ;
    ck_assert_uint_eq(b.n_events, n);
    door_log_clear(&p, &b);
    door_pool_close(&p);
}
END_TEST

/* The worst reply that was announced fits in what is reserved for it: text in the smallest
 * pieces that a lane sends. */
START_TEST(test_reservation) {
    struct door_pool p;
    ck_assert(door_pool_open(&p, 64 << 20));
    for (int round = 0; round < 200; round++) {
        struct door_log log = {0};
        uint32_t tokens = 1 + draw(2000), bytes = draw(100), top = draw(KRN_TOP_MAX + 1);
        bool hash = draw(2) == 1;
        struct door_event started = {.kind = DOOR_EVENT_STARTED},
                          ended = {.kind = DOOR_EVENT_ENDED};
        ck_assert(door_log_append(&p, &log, &started));
        for (uint32_t t = 0; t < tokens; t++) {
            struct door_event e = {.kind = DOOR_EVENT_TOKEN,
                                   .flags =
                                       (uint8_t)(DOOR_HAS_LOGPROB | (hash ? DOOR_HAS_HASH : 0)),
                                   .n_top = (uint8_t)top};
            uint32_t left = bytes;
            e.n_bytes = (uint8_t)(left < 16 ? left : 16);
            left -= e.n_bytes;
            ck_assert(door_log_append(&p, &log, &e));
            while (left > 0) {
                struct door_event more = {.kind = DOOR_EVENT_TEXT};
                more.n_bytes = (uint8_t)(left < 28 ? left : 28);
                left -= more.n_bytes;
                ck_assert(door_log_append(&p, &log, &more));
            }
        }
        ck_assert(door_log_append(&p, &log, &ended));
        ck_assert_uint_le(log.n_chunks, door_log_chunks(tokens, bytes, top, hash));
        door_log_clear(&p, &log);
    }
    door_pool_close(&p);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("events");
    TCase *t = tcase_create("events");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_any_cursor);
    tcase_add_test(t, test_pool_full);
    tcase_add_test(t, test_reservation);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
