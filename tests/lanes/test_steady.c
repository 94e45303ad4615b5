/* SPDX-License-Identifier: Apache-2.0
 * In the steady state nothing allocates: malloc and its kin are counted from the moment when all
 * lanes decode until the first ends, over prompt pieces, decode rows, verify windows, draws, page
 * grants, seals and text.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "lanes/programs/client.h"
#include "tests/harness.h"

/* Sanitizers bring their own allocator; there the test counts nothing and says so. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEADY_COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STEADY_COUNTED 0
#endif
#endif
#ifndef STEADY_COUNTED
#define STEADY_COUNTED 1
#endif

static atomic_bool steady_armed;
static atomic_ulong steady_count;

#if STEADY_COUNTED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static void steady_note(void) {
    if (atomic_load_explicit(&steady_armed, memory_order_relaxed))
        atomic_fetch_add_explicit(&steady_count, 1, memory_order_relaxed);
}
void *malloc(size_t n) {
    steady_note();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    steady_note();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    steady_note();
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
    steady_note();
    return __libc_memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n) {
    steady_note();
    *out = __libc_memalign(alignment, n);
    return *out != NULL ? 0 : ENOMEM;
}
#endif

enum { STEADY_LANES = 8, STEADY_NEW = 300 };

struct steady {
    struct client client;
    struct client_call call[STEADY_LANES];
    uint32_t prompt[STEADY_LANES][400];
    uint32_t over;
    unsigned long counted_rounds;
};

static void steady_start(struct act_ctx *ctx, struct client *c, void *user) {
    struct steady *t = user;
    for (uint32_t i = 0; i < STEADY_LANES; i++)
        client_submit(ctx, c, &t->call[i]);
}

static void steady_token(struct act_ctx *ctx, struct client *c, struct client_call *call,
                         uint32_t id) {
    struct steady *t = c->driver.user;
    (void)ctx;
    (void)call;
    (void)id;
    /* From the first token of the first lane on, while the long prompts of others still go in
     * pieces. */
    uint32_t most = 0;
    for (uint32_t i = 0; i < STEADY_LANES; i++)
        most = t->call[i].n_new > most ? t->call[i].n_new : most;
    if (most == 3)
        atomic_store(&steady_armed, true);
    if (most == STEADY_NEW)
        atomic_store(&steady_armed, false);
    t->counted_rounds += atomic_load(&steady_armed);
}

static void steady_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct steady *t = c->driver.user;
    (void)call;
    if (++t->over == STEADY_LANES)
        client_stop(ctx);
}

static void steady_run(bool ahead) {
    char path[4096];
    snprintf(path, sizeof path, "%s/share/fable-5m", test_srcdir());
    struct lane_engine_config config = {.model_path = path,
                                        .lanes_max = STEADY_LANES,
                                        .round_tokens = 64,
                                        .piece_tokens = 32,
                                        .ahead = ahead,
                                        .rank_thread = ahead};
    struct lane_engine *e;
    struct status_note note;
    struct steady *t = calloc(1, sizeof *t);
    ck_assert_msg(lane_engine_open(&config, &e, &note) == STATUS_OK, "%s", note.text);
    for (uint32_t i = 0; i < STEADY_LANES; i++) {
        struct client_call *c = &t->call[i];
        client_call_init(c);
        uint32_t n = 10 + i * 50;
        for (uint32_t k = 0; k < n; k++)
            t->prompt[i][k] = 40 + (k * 7 + i) % (9 + i);
        c->request.prompt = t->prompt[i];
        c->request.n_prompt = n;
        c->request.max_tokens = STEADY_NEW;
        c->request.flags = LANE_IGNORE_EOS;
        c->request.draft_max = i % 2 * 8;
        c->request.sampling.temperature = i % 3 ? 0.9f : 0.0f;
        c->request.sampling.top_k = i % 4 == 1 ? 20 : 0;
        c->request.sampling.top_p = i % 4 == 2 ? 0.9f : 1.0f;
        c->request.sampling.frequency = i % 4 == 3 ? 0.3f : 0.0f;
        c->request.sampling.n_top = 5;
        c->request.sampling.flags = KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS;
        c->text_capacity = 1 << 16; /* the client's own growth is not the engine's */
        c->text = malloc(c->text_capacity);
    }
    struct client_driver d = {
        .start = steady_start, .token = steady_token, .over = steady_over, .user = t};
    client_open(&t->client, e, &d);
    client_run(&t->client);
    atomic_store(&steady_armed, false);
    ck_assert_uint_gt(t->counted_rounds, 500);
    struct act_rt_stats stats;
    act_rt_stats(lane_engine_rt(e), &stats);
    ck_assert_uint_eq(stats.allocations_after_start, 0);
    lane_engine_close(e);
    for (uint32_t i = 0; i < STEADY_LANES; i++)
        client_call_free(&t->call[i]);
    free(t);
}

START_TEST(steady_counter_counts) {
    if (!STEADY_COUNTED)
        TEST_SKIP("a sanitizer's allocator is in use");
    atomic_store(&steady_armed, true);
    void *volatile_free = malloc(10);
    void *again = realloc(volatile_free, 20);
    atomic_store(&steady_armed, false);
    free(again);
    ck_assert_uint_eq(atomic_exchange(&steady_count, 0), 2);
}
END_TEST

START_TEST(steady_rounds_do_not_allocate) {
    steady_run(false);
    ck_assert_uint_eq(atomic_exchange(&steady_count, 0), 0);
}
END_TEST

START_TEST(steady_rounds_ahead_do_not_allocate) {
    steady_run(true);
    ck_assert_uint_eq(atomic_exchange(&steady_count, 0), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("steady");
    TCase *tc = tcase_create("steady");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, steady_counter_counts);
    tcase_add_test(tc, steady_rounds_do_not_allocate);
    tcase_add_test(tc, steady_rounds_ahead_do_not_allocate);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
