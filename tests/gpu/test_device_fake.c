/* SPDX-License-Identifier: Apache-2.0
 * The fake device: a right plan draws what the tokens alone say, and each kind of wrong page is a
 * wrong token.
 */
#include "gpu/device.h"
#include "tests/gpu/plan_make.h"
#include "tests/harness.h"

enum { VOCAB = 50000, PT = 8, PAGES = 40, STEP_NS = 1000 };

static const struct gpu_limits limits = {.rows = 128,
                                         .seqs = 8,
                                         .draws = 64,
                                         .copies = 8,
                                         .pages = 128,
                                         .counts = 8,
                                         .bias = 8,
                                         .mask_words = 4096,
                                         .kept_logits = 2,
                                         .vocab = VOCAB,
                                         .page_tokens = PT};

struct bench {
    struct gpu_device *d;
    struct gpu_round *round[2];
    uint64_t number, digest, now;
    uint32_t ids[256];
};

static void set_up(struct bench *b) {
    memset(b, 0, sizeof *b);
    struct gpu_device_config config = {.limits = limits,
                                       .page_tokens = PT,
                                       .n_pages = PAGES,
                                       .world = 1,
                                       .vocab = VOCAB,
                                       .fake_step_ns = STEP_NS};
    ck_assert_int_eq(gpu_device_fake_open(&config, &b->d, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(gpu_round_new(&limits, 1, &b->round[i]), STATUS_OK);
    uint64_t seed = 5;
    for (int i = 0; i < 256; i++)
        b->ids[i] = (uint32_t)(test_random(&seed) % VOCAB);
    b->now = 1;
}

static void tear_down(struct bench *b) {
    b->d->ops->close(b->d);
    gpu_round_free(b->round[0]);
    gpu_round_free(b->round[1]);
}

static void enqueue(struct bench *b, int which, uint32_t flags, const struct gpu_copy *copies,
                    uint32_t n_copies, const struct test_seq *seqs, uint32_t n) {
    struct gpu_plan *p = b->round[which]->plan;
    test_plan_make(p, copies, n_copies, seqs, n);
    p->flags = flags;
    gpu_plan_seal(p, b->number + 1, b->digest);
    ck_assert_int_eq(gpu_plan_check(p, p->bytes, b->number + 1, b->digest, &limits, PAGES, NULL),
                     STATUS_OK);
    b->number++;
    b->digest = p->digest;
    b->d->ops->step(b->d, p, b->round[which]->results[0]);
}

static struct gpu_result *finish(struct bench *b, int which) {
    uint64_t again = 0;
    while (b->d->ops->poll(b->d, b->now, &again) == GPU_BUSY) {
        ck_assert_uint_gt(again, 0);
        b->now += again;
    }
    return b->round[which]->results[0];
}

static struct gpu_result *step(struct bench *b, const struct test_seq *seqs, uint32_t n) {
    enqueue(b, 0, 0, NULL, 0, seqs, n);
    return finish(b, 0);
}

static const uint32_t table[] = {3, 9, 4, 7, 11, 12, 13, 14};

static struct test_seq seq(struct bench *b, uint32_t slot, uint32_t pos, uint32_t rows,
                           uint32_t draws) {
    return (struct test_seq){.slot = slot,
                             .first_pos = pos,
                             .n_rows = rows,
                             .tokens = b->ids + pos,
                             .pages = table,
                             .n_pages = (pos + rows + PT - 1) / PT,
                             .n_draws = draws,
                             .sampling = test_greedy};
}

START_TEST(test_pieces) {
    /* A prompt in pieces, decode rows and a window draw what the tokens alone say. */
    struct bench b;
    set_up(&b);
    struct test_seq pieces[] = {seq(&b, 2, 0, 5, 0), seq(&b, 2, 5, 14, 1), seq(&b, 2, 19, 1, 1),
                                seq(&b, 2, 20, 9, 9)};
    for (int i = 0; i < 4; i++) {
        struct gpu_result *r = step(&b, &pieces[i], 1);
        ck_assert_int_eq(r->status, STATUS_OK);
        ck_assert_uint_eq(r->n_draws, pieces[i].n_draws);
        for (uint32_t d = 0; d < r->n_draws; d++) {
            uint32_t n = pieces[i].first_pos + pieces[i].n_rows - pieces[i].n_draws + d + 1;
            ck_assert_uint_eq(r->drawn[d].token, gpu_fake_draw(b.ids, n, 0, VOCAB));
            ck_assert_uint_eq(r->drawn[d].finite, 1);
        }
    }
    tear_down(&b);
}
END_TEST

START_TEST(test_seed) {
    struct bench b;
    set_up(&b);
    struct test_seq s = seq(&b, 0, 0, 10, 1);
    s.sampling.seed = 77;
    ck_assert_uint_eq(step(&b, &s, 1)->drawn[0].token, gpu_fake_draw(b.ids, 10, 77, VOCAB));
    ck_assert_uint_ne(gpu_fake_draw(b.ids, 10, 77, VOCAB), gpu_fake_draw(b.ids, 10, 78, VOCAB));
    ck_assert_uint_ne(gpu_fake_draw(b.ids, 10, 77, VOCAB), gpu_fake_draw(b.ids, 11, 77, VOCAB));
    tear_down(&b);
}
END_TEST

/* Fills 20 positions, harms one thing, then decodes position 20 over the given table. */
static uint32_t after_harm(void (*harm)(struct bench *b), const uint32_t *pages) {
    struct bench b;
    set_up(&b);
    struct test_seq s = seq(&b, 2, 0, 20, 0);
    step(&b, &s, 1);
    if (harm != NULL)
        harm(&b);
    s = seq(&b, 2, 20, 1, 1);
    s.pages = pages;
    uint32_t token = step(&b, &s, 1)->drawn[0].token;
    tear_down(&b);
    return token;
}

static void harm_free(struct bench *b) {
    b->d->ops->page_freed(b->d, table[1]);
}
static void harm_other_writes(struct bench *b) {
    struct test_seq s = seq(b, 5, 8, 2, 0); /* the same positions and page, other tokens */
    s.tokens = b->ids + 100;
    step(b, &s, 1);
}
static void harm_same_tokens_other_past(struct bench *b) {
    /* The page is rewritten with the right tokens at the right positions, after another past. */
    const uint32_t other[] = {20, table[1]};
    struct test_seq s = seq(b, 5, 0, 16, 0);
    uint32_t ids[16];
    memcpy(ids, b->ids, sizeof ids);
    ids[0] ^= 1;
    s.tokens = ids;
    s.pages = other;
    step(b, &s, 1);
}

START_TEST(test_wrong_page_wrong_token) {
    static const uint32_t swapped[] = {9, 3, 4}, unwritten[] = {3, 9, 30}, twice[] = {3, 3, 4};
    struct bench b;
    set_up(&b);
    uint32_t right = gpu_fake_draw(b.ids, 21, 0, VOCAB);
    tear_down(&b);
    ck_assert_uint_eq(after_harm(NULL, table), right);
    ck_assert_uint_ne(after_harm(NULL, swapped), right);
    ck_assert_uint_ne(after_harm(NULL, unwritten), right);
    ck_assert_uint_ne(after_harm(NULL, twice), right);
    ck_assert_uint_ne(after_harm(harm_free, table), right);
    ck_assert_uint_ne(after_harm(harm_other_writes, table), right);
    ck_assert_uint_ne(after_harm(harm_same_tokens_other_past, table), right);
}
END_TEST

START_TEST(test_copy) {
    /* A partial page copied on write continues; what was not asked to be copied is not there. */
    struct bench b;
    set_up(&b);
    struct test_seq s = seq(&b, 2, 0, 14, 0);
    step(&b, &s, 1);
    const uint32_t mine[] = {3, 25};
    const struct gpu_copy copy = {9, 25, 4, 0};
    s = seq(&b, 4, 12, 2, 1);
    s.pages = mine;
    enqueue(&b, 0, 0, &copy, 1, &s, 1);
    ck_assert_uint_eq(finish(&b, 0)->drawn[0].token, gpu_fake_draw(b.ids, 14, 0, VOCAB));
    s = seq(&b, 5, 14, 1, 1);
    const uint32_t short_copy[] = {3, 26};
    const struct gpu_copy copy2 = {9, 26, 4, 0};
    s.pages = short_copy;
    enqueue(&b, 0, 0, &copy2, 1, &s, 1);
    ck_assert_uint_ne(finish(&b, 0)->drawn[0].token, gpu_fake_draw(b.ids, 15, 0, VOCAB));
    tear_down(&b);
}
END_TEST

START_TEST(test_two_in_flight) {
    /* A decode row whose token the device reads from the step before it; answers come in order, in
     * virtual time. */
    struct bench b;
    set_up(&b);
    struct test_seq first = seq(&b, 2, 0, 10, 1), second = seq(&b, 2, 10, 1, 1);
    second.from_draw = true;
    enqueue(&b, 0, 0, NULL, 0, &first, 1);
    enqueue(&b, 1, GPU_PLAN_AHEAD, NULL, 0, &second, 1);
    uint64_t again, begin = b.now;
    gpu_event_t both = b.d->ops->record(b.d, GPU_STREAM_COMPUTE);
    ck_assert_int_eq(b.d->ops->poll(b.d, b.now, &again), GPU_BUSY);
    ck_assert_uint_eq(again, STEP_NS);
    ck_assert(!b.d->ops->reached(b.d, both));
    struct gpu_result *r = finish(&b, 0);
    ck_assert_uint_eq(r->number, 1);
    b.ids[10] = r->drawn[0].token;
    ck_assert(!b.d->ops->reached(b.d, both));
    r = finish(&b, 1);
    ck_assert(b.d->ops->reached(b.d, both));
    ck_assert_uint_eq(b.now, begin + 2 * STEP_NS);
    ck_assert_uint_eq(r->number, 2);
    ck_assert_int_eq(r->status, STATUS_OK);
    ck_assert_uint_eq(r->drawn[0].token, gpu_fake_draw(b.ids, 11, 0, VOCAB));
    tear_down(&b);
}
END_TEST

START_TEST(test_void_after_failure) {
    struct bench b;
    set_up(&b);
    struct test_seq first = seq(&b, 2, 0, 10, 1), second = seq(&b, 2, 10, 1, 1);
    unsigned char before[PT * 8], after[PT * 8];
    ck_assert_uint_eq(b.d->page_bytes, sizeof before);
    second.from_draw = true;
    b.d->faults.step_fails = true;
    enqueue(&b, 0, 0, NULL, 0, &first, 1);
    enqueue(&b, 1, GPU_PLAN_AHEAD, NULL, 0, &second, 1);
    ck_assert_int_eq(finish(&b, 0)->status, STATUS_ROUND_FAILED);
    b.d->ops->page_read(b.d, table[1], before);
    ck_assert_int_eq(finish(&b, 1)->status, STATUS_AGAIN);
    b.d->ops->page_read(b.d, table[1], after);
    ck_assert_mem_eq(before, after, sizeof before);
    /* The retry is an ordinary plan; a void plan's draw is nobody's input. */
    enqueue(&b, 0, 0, NULL, 0, &second, 1);
    ck_assert_int_eq(finish(&b, 0)->status, STATUS_DESYNC);
    enqueue(&b, 0, GPU_PLAN_ALONE, NULL, 0, &first, 1);
    ck_assert_int_eq(finish(&b, 0)->status, STATUS_OK);
    ck_assert_uint_eq(b.round[0]->results[0]->drawn[0].token, gpu_fake_draw(b.ids, 10, 0, VOCAB));
    tear_down(&b);
}
END_TEST

START_TEST(test_nan_row) {
    struct bench b;
    set_up(&b);
    static const uint32_t others[] = {21, 22};
    struct test_seq s[2] = {seq(&b, 2, 0, 10, 2), seq(&b, 3, 0, 10, 1)};
    s[1].pages = others;
    b.d->faults.nan_row = true;
    b.d->faults.nan_slot = 2;
    struct gpu_result *r = step(&b, s, 2);
    ck_assert_int_eq(r->status, STATUS_OK);
    ck_assert_uint_eq(r->bad_row[0], 0);
    ck_assert_uint_eq(r->bad_row[1], GPU_ROW_FINE);
    ck_assert_uint_eq(r->drawn[0].finite, 0);
    ck_assert_uint_eq(r->drawn[1].finite, 0);
    ck_assert_uint_eq(r->drawn[2].finite, 1);
    ck_assert_uint_eq(r->drawn[2].token, gpu_fake_draw(b.ids, 10, 0, VOCAB));
    /* Its pages are no good to anybody. */
    struct test_seq next = seq(&b, 4, 10, 1, 1);
    ck_assert_uint_ne(step(&b, &next, 1)->drawn[0].token, gpu_fake_draw(b.ids, 11, 0, VOCAB));
    tear_down(&b);
}
END_TEST

START_TEST(test_outputs) {
    /* Kept logits, hash, logprobs and mask are deterministic and belong to the draw. */
    struct bench b;
    set_up(&b);
    struct test_seq s = seq(&b, 2, 0, 10, 2);
    s.sampling.flags = KRN_DRAW_KEEP_LOGITS | KRN_DRAW_HASH_LOGITS | KRN_DRAW_LOGPROB;
    s.sampling.n_top = 3;
    struct gpu_result *r = step(&b, &s, 1);
    ck_assert_uint_eq(r->n_logits, 2);
    uint64_t hash = r->drawn[1].logits_hash, digest = r->drawn_digest;
    ck_assert_uint_ne(hash, r->drawn[0].logits_hash);
    for (uint32_t i = 0; i < 2; i++) {
        const float *row = r->logits + (size_t)i * VOCAB;
        uint32_t best = 0;
        for (uint32_t t = 1; t < VOCAB; t++)
            best = row[t] > row[best] ? t : best;
        ck_assert_uint_eq(r->logits_draw[i], i);
        ck_assert_uint_eq(best, r->drawn[i].token);
        ck_assert_uint_eq(r->drawn[i].n_top, 3);
        ck_assert_uint_eq(r->top[i * KRN_TOP_MAX].id, r->drawn[i].token);
    }
    r = step(&b, &s, 1);
    ck_assert_uint_eq(r->drawn[1].logits_hash, hash);
    ck_assert_uint_ne(r->drawn_digest, digest); /* it names the plan */
    static uint32_t mask[(VOCAB + 31) / 32];
    mask[7] = 1u << 5;
    s.mask = mask;
    s.mask_words = (VOCAB + 31) / 32;
    s.n_draws = 1;
    ck_assert_uint_eq(step(&b, &s, 1)->drawn[0].token, 7 * 32 + 5);
    tear_down(&b);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/device_fake");
    TCase *tc = tcase_create("fake");
    tcase_add_test(tc, test_pieces);
    tcase_add_test(tc, test_seed);
    tcase_add_test(tc, test_wrong_page_wrong_token);
    tcase_add_test(tc, test_copy);
    tcase_add_test(tc, test_two_in_flight);
    tcase_add_test(tc, test_void_after_failure);
    tcase_add_test(tc, test_nan_row);
    tcase_add_test(tc, test_outputs);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
