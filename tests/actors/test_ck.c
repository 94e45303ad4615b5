/* SPDX-License-Identifier: Apache-2.0
 * The lock-free parts under real threads: return stack, single-producer ring, snapshot, index
 * slots. Under the thread sanitizer the same tests run on the substitutes.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "actors/ck.h"
#include "actors/ring.h"
#include "actors/slots.h"
#include "actors/snapshot.h"
#include "tests/harness.h"

enum { THREADS = 3, EACH = 20000 };

/* ---- stack: each thread pushes its entries, the owner takes all until every one came once ---- */

struct item {
    struct act_stack_entry entry;
    uint32_t thread, number;
};
struct pusher {
    struct act_stack *stack;
    struct item *items;
};

static void *pusher_run(void *arg) {
    struct pusher *me = arg;
    for (uint32_t i = 0; i < EACH;) {
        if (i % 3 == 0 && i + 4 <= EACH) { /* a chain of four, newest first */
            for (uint32_t k = 3; k > 0; k--)
                act_stack_link(&me->items[i + k].entry, &me->items[i + k - 1].entry);
            act_stack_push_chain_upmc(me->stack, &me->items[i + 3].entry, &me->items[i].entry);
            i += 4;
        } else {
            act_stack_push_upmc(me->stack, &me->items[i++].entry);
        }
    }
    return NULL;
}

START_TEST(stack_returns_everything) {
    struct act_stack stack;
    act_stack_init(&stack);
    struct item *items = calloc(THREADS * EACH, sizeof *items);
    ck_assert_ptr_nonnull(items);
    struct pusher pushers[THREADS];
    pthread_t threads[THREADS];
    for (uint32_t t = 0; t < THREADS; t++) {
        for (uint32_t i = 0; i < EACH; i++)
            items[t * EACH + i] = (struct item){.thread = t, .number = i};
        pushers[t] = (struct pusher){&stack, items + t * EACH};
        ck_assert_int_eq(pthread_create(&threads[t], NULL, pusher_run, &pushers[t]), 0);
    }
    uint32_t got = 0, next[THREADS] = {0};
    while (got < THREADS * EACH) {
        /* newest first: within one batch a thread's numbers fall; between batches they rise */
        uint32_t low[THREADS], high[THREADS], n[THREADS] = {0};
        struct act_stack_entry *e = act_stack_take_upmc(&stack), *after;
        if (e == NULL)
            sched_yield();
        for (; e != NULL; e = after) {
            after = act_stack_next(e);
            struct item *item = (struct item *)(void *)e;
            uint32_t t = item->thread;
            if (n[t]++ == 0)
                high[t] = item->number;
            else
                ck_assert_uint_eq(item->number + 1, low[t]);
            low[t] = item->number;
            got++;
        }
        for (uint32_t t = 0; t < THREADS; t++) {
            if (n[t] == 0)
                continue;
            ck_assert_uint_eq(low[t], next[t]);
            next[t] = high[t] + 1;
        }
    }
    for (uint32_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    ck_assert_ptr_null(act_stack_take_upmc(&stack));
    free(items);
}
END_TEST

/* ---- ring ---- */

struct ring_rig {
    struct act_ring ring;
    void *slots[64];
    uintptr_t values[EACH];
};

static void *ring_producer(void *arg) {
    struct ring_rig *rig = arg;
    for (uintptr_t i = 0; i < EACH; i++) {
        rig->values[i] = i * 3;
        while (!act_ring_put_spsc(&rig->ring, &rig->values[i]))
            sched_yield();
    }
    return NULL;
}

START_TEST(ring_keeps_order) {
    static struct ring_rig rig;
    act_ring_init(&rig.ring, rig.slots, 64);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, ring_producer, &rig), 0);
    for (uintptr_t i = 0; i < EACH; i++) {
        void *item;
        while (!act_ring_get_spsc(&rig.ring, &item))
            sched_yield();
        ck_assert_ptr_eq(item, &rig.values[i]);
        ck_assert_uint_eq(*(uintptr_t *)item, i * 3);
    }
    pthread_join(thread, NULL);
    void *item;
    ck_assert(!act_ring_get_spsc(&rig.ring, &item));
    uint32_t n = 0;
    while (act_ring_put_spsc(&rig.ring, &rig))
        n++;
    ck_assert_uint_eq(n, 63); /* one slot stays free */
}
END_TEST

/* ---- snapshot: all words of a set belong together, and sets do not go back ---- */

static struct act_snapshot snapshot;

static void *snapshot_writer(void *arg) {
    (void)arg;
    for (uint64_t i = 1; i <= EACH; i++) {
        uint64_t words[ACT_SNAPSHOT_WORDS];
        for (uint64_t k = 0; k < ACT_SNAPSHOT_WORDS; k++)
            words[k] = i * (k + 1);
        act_snapshot_write(&snapshot, words, ACT_SNAPSHOT_WORDS);
    }
    return NULL;
}

START_TEST(snapshot_is_whole) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, snapshot_writer, NULL), 0);
    uint64_t last = 0;
    while (last < EACH) {
        uint64_t words[ACT_SNAPSHOT_WORDS];
        act_snapshot_read(&snapshot, words, ACT_SNAPSHOT_WORDS);
        ck_assert_uint_ge(words[0], last);
        for (uint64_t k = 0; k < ACT_SNAPSHOT_WORDS; k++)
            ck_assert_uint_eq(words[k], words[0] * (k + 1));
        last = words[0];
    }
    pthread_join(thread, NULL);
}
END_TEST

/* ---- slots: an index has one holder at a time, none is lost, never more than max ---- */

enum { SLOTS = 8 };

struct slots_rig {
    struct act_slots slots;
    _Atomic uint32_t next[SLOTS + 1];
    uint64_t held[SLOTS + 1]; /* plain: the sanitizer sees two holders at once */
    _Atomic uint32_t wrong, refused;
};

static void *slots_run(void *arg) {
    struct slots_rig *rig = arg;
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t mine[4], n = 0;
        for (; n < 4; n++) {
            mine[n] = act_slots_take(&rig->slots);
            if (mine[n] == 0) {
                atomic_fetch_add_explicit(&rig->refused, 1, memory_order_relaxed);
                break;
            }
            if (mine[n] > SLOTS || rig->held[mine[n]]++ != 0)
                atomic_fetch_add_explicit(&rig->wrong, 1, memory_order_relaxed);
        }
        while (n > 0) {
            rig->held[mine[--n]]--;
            act_slots_put(&rig->slots, mine[n]);
        }
    }
    return NULL;
}

START_TEST(slots_have_one_holder) {
    static struct slots_rig rig;
    act_slots_init(&rig.slots, rig.next, SLOTS);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, slots_run, &rig), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    ck_assert_uint_eq(rig.wrong, 0);
    bool seen[SLOTS + 1] = {false};
    for (int i = 0; i < SLOTS; i++) {
        uint32_t index = act_slots_take(&rig.slots);
        ck_assert_uint_ge(index, 1);
        ck_assert_uint_le(index, SLOTS);
        ck_assert(!seen[index]);
        seen[index] = true;
    }
    ck_assert_uint_eq(act_slots_take(&rig.slots), 0);
    act_slots_put(&rig.slots, 5);
    ck_assert_uint_eq(act_slots_take(&rig.slots), 5);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ck");
    TCase *c = tcase_create("ck");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, stack_returns_everything);
    tcase_add_test(c, ring_keeps_order);
    tcase_add_test(c, snapshot_is_whole);
    tcase_add_test(c, slots_have_one_holder);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
