/* SPDX-License-Identifier: Apache-2.0
 * The real code of actors/mailbox.h under every kind of interleaving: two senders, one owner and
 * one that stops the owner run as coroutines that hand control to a seeded scheduler between any
 * two shared accesses. The sleep of the owner is a futex as the kernel defines it: look at the
 * counter and fall asleep in one step, woken only when asleep. Claims: I1 to I4 of mailbox.h. With
 * the counter sampled after the mark the test must find a lost wake.
 */
#define MAILBOX_YIELD(site) coroutine_yield()
static void coroutine_yield(void);

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "actors/ck.h"
#include "actors/mailbox.h"
#include "tests/harness.h"

#ifdef ACT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

enum { OWNER, SENDER_0, SENDER_1, STOPPER, COROUTINES, SENDERS = 2, EACH = 3 };
enum { STACK = 128 * 1024, STEPS_MAX = 20000 };

struct coroutine {
    ucontext_t context;
    void *fiber; /* for the thread sanitizer */
    bool done, asleep;
};

struct envelope {
    uint32_t before;
    uint32_t sender, number;
    uint32_t taken, refused;
};

static struct {
    struct coroutine all[COROUTINES];
    ucontext_t main;
    void *main_fiber;
    int running;
    uint64_t rng;
    uint32_t urgency[COROUTINES]; /* priority mode */
    bool priority;
    struct act_mailbox box;
    struct envelope envelopes[SENDERS * EACH];
    uint32_t next[SENDERS];
    uint32_t finished; /* envelopes taken or refused */
    bool stop, stops, mark_first, wrong;
    uint32_t sleeps;
} world;

static char stacks[COROUTINES][STACK];

static uint64_t draw(uint64_t n) {
    world.rng += 0x9e3779b97f4a7c15u;
    uint64_t z = (world.rng ^ (world.rng >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static void coroutine_yield(void) {
    if (world.running < 0)
        return;
#ifdef ACT_THREAD_SANITIZER
    __tsan_switch_to_fiber(world.main_fiber, 0);
#endif
    swapcontext(&world.all[world.running].context, &world.main);
}

/* ---- the futex ---- */

static void futex_wait(uint32_t sample) {
    coroutine_yield();
    if (atomic_load_explicit(&world.box.parks, memory_order_relaxed) != sample)
        return;
    world.sleeps++;
    world.all[OWNER].asleep = true;
    while (world.all[OWNER].asleep)
        coroutine_yield();
}

static void futex_wake(void) {
    coroutine_yield();
    world.all[OWNER].asleep = false;
}

/* ---- what runs ---- */

static void link_before(void *envelope, uint32_t before) {
    ((struct envelope *)envelope)->before = before;
}

static void sender(uint32_t me) {
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t at = me * EACH + i;
        struct envelope *e = &world.envelopes[at];
        e->sender = me;
        e->number = i;
        switch (act_mailbox_push(&world.box, MAILBOX_REF_MIN + at, e, link_before)) {
        case MAILBOX_PUSHED:
            break;
        case MAILBOX_PUSHED_WAKE:
            act_mailbox_wake_note(&world.box);
            futex_wake();
            break;
        case MAILBOX_REFUSED:
            e->refused++;
            world.finished++;
            world.wrong = world.wrong || !world.stop;
            break;
        }
    }
}

static void stopper(void) {
    coroutine_yield();
    world.stop = true;
    act_mailbox_wake_note(&world.box);
    futex_wake();
}

static void hand_out(uint32_t ref) {
    uint32_t turned = 0;
    while (ref != 0) {
        struct envelope *e = &world.envelopes[ref - MAILBOX_REF_MIN];
        uint32_t before = e->before;
        e->before = turned;
        turned = ref;
        ref = before;
    }
    while (turned != 0) {
        struct envelope *e = &world.envelopes[turned - MAILBOX_REF_MIN];
        turned = e->before;
        e->taken++;
        world.finished++;
        world.wrong = world.wrong || e->number != world.next[e->sender];
        world.next[e->sender] = e->number + 1;
    }
}

static void owner_park(void) {
    uint32_t sample = 0;
    if (!world.mark_first) {
        if (!act_mailbox_park(&world.box, &sample))
            return;
    } else {
        if (!act_mailbox_park_mark(&world.box))
            return;
        sample = act_mailbox_park_sample(&world.box);
    }
    coroutine_yield();
    if (!world.stop)
        futex_wait(sample);
    act_mailbox_park_unmark(&world.box);
}

static void owner(void) {
    while (world.finished < SENDERS * EACH || (world.stops && !world.stop)) {
        uint32_t ref = act_mailbox_take(&world.box);
        if (ref != 0) {
            hand_out(ref);
        } else if (world.stop) {
            hand_out(act_mailbox_close(&world.box));
            return;
        } else {
            owner_park();
        }
    }
}

static void coroutine_main(int me) {
    if (me == OWNER)
        owner();
    else if (me == STOPPER)
        stopper();
    else
        sender((uint32_t)(me - SENDER_0));
    world.all[me].done = true;
    for (;;)
        coroutine_yield();
}

/* ---- the scheduler ---- */

static int pick(void) {
    int can[COROUTINES], n = 0;
    for (int i = 0; i < COROUTINES; i++) {
        if (!world.all[i].done && !world.all[i].asleep)
            can[n++] = i;
    }
    if (n == 0)
        return -1;
    if (!world.priority)
        return can[draw((uint64_t)n)];
    int best = can[0];
    for (int i = 1; i < n; i++) {
        if (world.urgency[can[i]] > world.urgency[best])
            best = can[i];
    }
    if (draw(8) == 0)
        world.urgency[best] = (uint32_t)draw(1000);
    return best;
}

enum outcome { FINE, LOST_WAKE, WRONG };

static void coroutine_open(int i) {
    struct coroutine *c = &world.all[i];
    world.urgency[i] = (uint32_t)draw(1000);
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = stacks[i];
    c->context.uc_stack.ss_size = STACK;
    makecontext(&c->context, (void (*)(void))coroutine_main, 1, i);
#ifdef ACT_THREAD_SANITIZER
    c->fiber = __tsan_create_fiber(0);
#endif
}

static enum outcome run_one(uint64_t seed, bool mark_first) {
    memset(&world, 0, sizeof world);
    world.rng = seed;
    world.priority = seed % 3 == 0;
    world.stops = seed % 2 == 1;
    world.mark_first = mark_first;
    act_mailbox_init(&world.box);
#ifdef ACT_THREAD_SANITIZER
    world.main_fiber = __tsan_get_current_fiber();
#endif
    for (int i = 0; i < COROUTINES; i++)
        coroutine_open(i);
    world.all[STOPPER].done = !world.stops;
    int steps = 0;
    while ((world.running = pick()) >= 0 && steps++ < STEPS_MAX) {
#ifdef ACT_THREAD_SANITIZER
        __tsan_switch_to_fiber(world.all[world.running].fiber, 0);
#endif
        swapcontext(&world.main, &world.all[world.running].context);
    }
    world.running = -1;
#ifdef ACT_THREAD_SANITIZER
    for (int i = 0; i < COROUTINES; i++)
        __tsan_destroy_fiber(world.all[i].fiber);
#endif
    if (!world.all[OWNER].done)
        return LOST_WAKE;
    for (uint32_t i = 0; i < SENDERS * EACH; i++) {
        if (world.envelopes[i].taken + world.envelopes[i].refused != 1)
            return WRONG;
    }
    return world.wrong ? WRONG : FINE;
}

#ifdef ACT_THREAD_SANITIZER
enum { SEEDS = 2000 };
#else
enum { SEEDS = 30000 };
#endif

START_TEST(every_interleaving_delivers_once) {
    uint64_t sleeps = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum outcome o = run_one(seed, false);
        ck_assert_msg(o == FINE, "seed %llu: %s", (unsigned long long)seed,
                      o == LOST_WAKE ? "lost wake" : "wrong delivery");
        sleeps += world.sleeps;
    }
    /* The test means something only when the owner does fall asleep. */
    ck_assert_uint_gt(sleeps, SEEDS / 4);
}
END_TEST

START_TEST(planted_mark_first_loses_a_wake) {
    uint64_t lost = 0, wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum outcome o = run_one(seed, true);
        lost += o == LOST_WAKE;
        wrong += o == WRONG;
    }
    ck_assert_uint_gt(lost, 0);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mailbox, interleaved");
    TCase *c = tcase_create("mailbox");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_interleaving_delivers_once);
    tcase_add_test(c, planted_mark_first_loses_a_wake);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
