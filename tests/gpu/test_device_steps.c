/* SPDX-License-Identifier: Apache-2.0
 * Steps of the CPU device beyond plain rows: draws with counts, bias and mask; rows that are the
 * last draw; failed and void plans; rows that are not finite; pages and events; the perturb hook;
 * and that a step allocates nothing.
 */
#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kernels/oracle.h"
#include "tests/gpu/cpu_rig.h"
#include "tests/harness.h"

/* The linker sends every allocation of this program here. */
static _Atomic uint64_t allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_malloc(size_t n) {
    allocations++;
    return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    allocations++;
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    allocations++;
    return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n) {
    allocations++;
    return __real_aligned_alloc(align, n);
}
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off) {
    allocations++;
    return __real_mmap(at, n, prot, flags, fd, off);
}

enum { VOCAB = 300, PROMPT = 20, LENGTH = 60 };
static const struct krn_config config = {.layers = 2,
                                         .context = 256,
                                         .norm_eps = 1e-5F,
                                         .vocab = VOCAB,
                                         .hidden = 64,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 32,
                                         .ffn = 192,
                                         .tied = true,
                                         .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};

/* The same with experts. */
static const struct krn_config mixture = {.family = "mixtral",
                                          .layers = 2,
                                          .context = 256,
                                          .norm_eps = 1e-5F,
                                          .vocab = VOCAB,
                                          .hidden = 64,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 32,
                                          .ffn = 128,
                                          .tied = true,
                                          .experts = 6,
                                          .experts_used = 2,
                                          .experts_norm = true,
                                          .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};
static const struct krn_config *shape = &config;

struct bench {
    struct rig_model m;
    struct rig r;
    uint32_t ids[256];
};

static void set_up(struct bench *b, uint32_t threads) {
    uint64_t seed = 3;
    rig_model_synthetic(&b->m, shape, KRN_BF16, 5, 0);
    rig_open(&b->r, &b->m, 96, threads, NULL);
    for (int i = 0; i < 256; i++)
        b->ids[i] = (uint32_t)(test_random(&seed) % 40); /* few, so that ids repeat */
}

static void tear_down(struct bench *b) {
    rig_close(&b->r);
    rig_model_close(&b->m);
}

static uint32_t count_ids(const uint32_t *ids, uint32_t n, struct krn_count *out) {
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < k && out[j].id != ids[i])
            j++;
        if (j == k)
            out[k++] = (struct krn_count){.id = ids[i]};
        out[j].in_prompt += i < PROMPT;
        out[j].in_reply += i >= PROMPT;
    }
    return k;
}

START_TEST(test_draws) {
    /* Windows of 1 to 17 rows; counts stop at the first drawn row and the device counts the
     * drafts. */
    static const struct krn_sampling kinds[] = {
        {.top_p = 1, .repetition = 1.3F, .flags = KRN_DRAW_KEEP_LOGITS},
        {.temperature = 0.9F,
         .top_p = 0.9F,
         .repetition = 1,
         .presence = 0.7F,
         .frequency = 0.4F,
         .seed = 5},
        {.temperature = 1.4F,
         .top_k = 30,
         .top_p = 1,
         .min_p = 0.02F,
         .repetition = 1.1F,
         .frequency = -0.3F,
         .seed = 99},
        {.temperature = 1,
         .top_p = 1,
         .repetition = 1,
         .seed = 1234567,
         .flags = KRN_DRAW_LOGPROB,
         .n_top = 5},
    };
    static const struct krn_bias bias[] = {{7, 3.0F}, {12, -INFINITY}, {250, 2.5F}};
    uint32_t mask[(VOCAB + 31) / 32], seen[VOCAB] = {0}, distinct = 0;
    struct bench b;
    struct krn_oracle *o;
    struct status_note note;
    static struct rig_session s;
    static float logits[LENGTH][VOCAB];
    set_up(&b, 2);
    rig_ok(krn_oracle_open(&b.m.net, &b.m.profile, 256, &o, &note), &note);
    for (int i = 0; i < LENGTH; i++)
        ck_assert(krn_oracle_feed(o, b.ids[i], logits[i]));
    for (uint32_t w = 0; w < (VOCAB + 31) / 32; w++)
        mask[w] = 0x5a5a5a5a ^ w;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (uint32_t round = 0; round < 4; round++) {
            b.r.next_page = 1;
            rig_session_begin(&b.r, &s, 1, b.ids, LENGTH);
            s.sampling = kinds[k];
            for (uint32_t width = 17; s.done < LENGTH;) {
                uint32_t rows = s.done == 0               ? PROMPT
                                : width < LENGTH - s.done ? width
                                                          : LENGTH - s.done;
                struct krn_count counts[64];
                struct test_seq seq = rig_seq(&b.r, &s, rows, s.done == 0 ? 1 : rows);
                uint32_t known = s.done + rows - seq.n_draws + 1;
                seq.counts = counts;
                seq.n_counts = count_ids(b.ids, known, counts);
                seq.bias = bias;
                seq.n_bias = round % 2 == 1 ? 3 : 0;
                seq.mask = mask;
                seq.mask_words = round >= 2 ? (VOCAB + 31) / 32 : 0;
                struct gpu_result *r = rig_step(&b.r, 0, NULL, 0, &seq, 1);
                rig_ok(r->status, &r->note);
                for (uint32_t d = 0; d < seq.n_draws; d++) {
                    struct krn_drawn want;
                    uint32_t n = known + d;
                    krn_oracle_draw(logits[n - 1], VOCAB, &kinds[k], b.ids, n, PROMPT,
                                    seq.n_bias > 0 ? bias : NULL, seq.n_bias,
                                    seq.mask_words > 0 ? mask : NULL, &want);
                    ck_assert_msg(r->drawn[d].token == want.token,
                                  "kind %zu round %u: after %u ids %u, not %u", k, round, n,
                                  r->drawn[d].token, want.token);
                    ck_assert(r->drawn[d].logprob == want.logprob);
                    distinct += seen[want.token]++ == 0;
                    if (kinds[k].flags & KRN_DRAW_KEEP_LOGITS) {
                        ck_assert_uint_eq(r->n_logits, seq.n_draws);
                        ck_assert_uint_eq(r->logits_draw[d], d);
                        ck_assert_mem_eq(r->logits + (size_t)d * VOCAB, logits[n - 1],
                                         sizeof logits[0]);
                    }
                }
                s.done += rows;
                width = width > 3 ? width - 3 : 1;
            }
        }
    ck_assert_uint_gt(distinct, 20);
    krn_oracle_close(o);
    tear_down(&b);
}
END_TEST

START_TEST(test_from_draw) {
    /* A row whose token only the device knows, with penalties over it, equals the same row with its
     * token said. */
    struct bench b;
    static struct rig_session s[2];
    set_up(&b, 2);
    for (uint32_t i = 0; i < 2; i++) {
        rig_session_begin(&b.r, &s[i], 3 + i, b.ids, PROMPT);
        s[i].sampling = (struct krn_sampling){.temperature = 1,
                                              .top_p = 1,
                                              .repetition = 1.2F,
                                              .frequency = 0.5F,
                                              .seed = 7,
                                              .flags = KRN_DRAW_HASH_LOGITS};
    }
    for (uint32_t step = 0; step < 30; step++) {
        struct krn_count counts[2][64];
        struct gpu_result *r;
        struct krn_drawn drawn[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t rows = s[i].n_ids - s[i].done;
            bool ahead = i == 1 && step > 0;
            struct test_seq seq = rig_seq(&b.r, &s[i], rows, 1);
            seq.counts = counts[i];
            seq.n_counts = count_ids(s[i].ids, s[i].n_ids - ahead, counts[i]);
            seq.from_draw = ahead;
            r = NULL;
            if (!ahead) {
                r = rig_step(&b.r, 0, NULL, 0, &seq, 1);
            } else { /* the other session came between: draw again */
                struct test_seq again = seq;
                again.from_draw = false;
                again.first_pos = s[i].done - 1;
                again.tokens = s[i].ids + s[i].done - 1;
                again.n_counts = count_ids(s[i].ids, s[i].n_ids - 1, counts[i]);
                r = rig_step(&b.r, 0, NULL, 0, &again, 1);
                ck_assert_uint_eq(r->drawn[0].token, s[i].ids[s[i].n_ids - 1]);
                r = rig_step(&b.r, GPU_PLAN_AHEAD, NULL, 0, &seq, 1);
            }
            rig_ok(r->status, &r->note);
            drawn[i] = r->drawn[0];
            s[i].done += rows;
            s[i].ids[s[i].n_ids++] = r->drawn[0].token;
        }
        ck_assert_uint_eq(drawn[0].token, drawn[1].token);
        ck_assert_uint_eq(drawn[0].logits_hash, drawn[1].logits_hash);
    }
    tear_down(&b);
}
END_TEST

START_TEST(test_failed_and_void) {
    struct bench b;
    static struct rig_session s;
    set_up(&b, 2);
    rig_session_begin(&b.r, &s, 3, b.ids, PROMPT);
    struct test_seq first = rig_seq(&b.r, &s, PROMPT, 1), second;
    struct gpu_result *r = rig_step(&b.r, 0, NULL, 0, &first, 1);
    uint64_t hash = r->drawn[0].logits_hash;
    unsigned char *before = malloc(b.r.d->page_bytes), *after = malloc(b.r.d->page_bytes);
    b.r.d->faults.step_fails = true;
    r = rig_step(&b.r, 0, NULL, 0, &first, 1);
    ck_assert_int_eq(r->status, STATUS_ROUND_FAILED);
    ck_assert_uint_eq(r->n_draws, 0);
    s.done = PROMPT;
    s.ids[PROMPT] = 1;
    second = rig_seq(&b.r, &s, 1, 1);
    second.from_draw = true;
    b.r.d->ops->page_read(b.r.d, s.pages[0], before);
    ck_assert_int_eq(rig_step(&b.r, GPU_PLAN_AHEAD, NULL, 0, &second, 1)->status, STATUS_AGAIN);
    ck_assert_int_eq(rig_step(&b.r, GPU_PLAN_AHEAD, NULL, 0, &second, 1)->status,
                     STATUS_AGAIN); /* void follows void */
    b.r.d->ops->page_read(b.r.d, s.pages[0], after);
    ck_assert_mem_eq(before, after, b.r.d->page_bytes);
    ck_assert_int_eq(rig_step(&b.r, 0, NULL, 0, &second, 1)->status, STATUS_DESYNC);
    r = rig_step(&b.r, GPU_PLAN_ALONE, NULL, 0, &first, 1);
    rig_ok(r->status, &r->note);
    ck_assert_uint_eq(r->drawn[0].logits_hash, hash);
    free(before);
    free(after);
    tear_down(&b);
}
END_TEST

START_TEST(test_not_finite) {
    /* The row's own seq is marked from the row on; its neighbour does not notice. */
    struct bench b;
    static struct rig_session s[2];
    shape = _i == 0 ? &config : &mixture;
    set_up(&b, 2);
    for (uint32_t i = 0; i < 2; i++)
        rig_session_begin(&b.r, &s[i], 3 + i, b.ids + 9 * i, 40);
    struct test_seq seqs[2] = {rig_seq(&b.r, &s[0], 40, 3), rig_seq(&b.r, &s[1], 40, 2)};
    struct gpu_result *r = rig_step(&b.r, 0, NULL, 0, seqs, 2);
    uint64_t hash = r->drawn[4].logits_hash, digest = r->drawn_digest;
    b.r.d->faults.nan_row = true;
    b.r.d->faults.nan_slot = 3;
    r = rig_step(&b.r, 0, NULL, 0, seqs, 2);
    rig_ok(r->status, &r->note);
    ck_assert_uint_eq(r->bad_row[0], 0);
    ck_assert_uint_eq(r->bad_row[1], GPU_ROW_FINE);
    for (int d = 0; d < 3; d++)
        ck_assert_uint_eq(r->drawn[d].finite, 0);
    ck_assert_uint_eq(r->drawn[4].finite, 1);
    ck_assert_uint_eq(r->drawn[4].logits_hash, hash);
    ck_assert_uint_ne(r->drawn_digest, digest);
    /* On its old pages, which hold NaN now, the first session is whole again when it is computed
     * again. */
    r = rig_step(&b.r, 0, NULL, 0, seqs, 2);
    ck_assert_uint_eq(r->drawn[0].finite, 1);
    ck_assert_uint_eq(r->drawn[4].logits_hash, hash);
    tear_down(&b);
}
END_TEST

START_TEST(test_pages_and_events) {
    /* A session's pages, read to the host and written to other places, continue the session. */
    struct bench b;
    static struct rig_session s, moved;
    set_up(&b, 1);
    const struct gpu_device_ops *ops = b.r.d->ops;
    rig_session_begin(&b.r, &s, 3, b.ids, 100);
    rig_session_begin(&b.r, &moved, 4, b.ids, 100);
    struct test_seq seq = rig_seq(&b.r, &s, 90, 1);
    rig_step(&b.r, 0, NULL, 0, &seq, 1);
    gpu_event_t computed = ops->record(b.r.d, GPU_STREAM_COMPUTE);
    ops->wait(b.r.d, GPU_STREAM_OUT, computed);
    ck_assert_uint_eq(b.r.d->page_bytes, gpu_page_bytes(&config, &b.m.profile, 64, 0, 1));
    void *host = malloc(b.r.d->page_bytes);
    for (int p = 0; p < 2; p++) {
        ck_assert_int_eq(ops->page_read(b.r.d, s.pages[p], host), STATUS_OK);
        ck_assert_int_eq(ops->page_write(b.r.d, moved.pages[p], host), STATUS_OK);
    }
    gpu_event_t copied = ops->record(b.r.d, GPU_STREAM_IN);
    ck_assert_uint_gt(copied, computed);
    ops->wait(b.r.d, GPU_STREAM_COMPUTE, copied);
    ck_assert(ops->reached(b.r.d, computed) && ops->reached(b.r.d, copied));
    s.done = moved.done = 90;
    seq = rig_seq(&b.r, &s, 10, 1);
    uint64_t hash = rig_step(&b.r, 0, NULL, 0, &seq, 1)->drawn[0].logits_hash;
    seq = rig_seq(&b.r, &moved, 10, 1);
    ck_assert_uint_eq(rig_step(&b.r, 0, NULL, 0, &seq, 1)->drawn[0].logits_hash, hash);
    /* Poisoned pages are seen. */
    gpu_device_cpu_poison(b.r.d, true);
    ops->page_freed(b.r.d, moved.pages[0]);
    ck_assert_uint_eq(rig_step(&b.r, 0, NULL, 0, &seq, 1)->drawn[0].finite, 0);
    free(host);
    tear_down(&b);
}
END_TEST

START_TEST(test_allocates_nothing) {
    struct bench b;
    static struct rig_session s;
    shape = _i == 0 ? &config : &mixture;
    set_up(&b, 3);
    rig_session_begin(&b.r, &s, 3, b.ids, 200);
    uint64_t before = atomic_load(&allocations), counted;
    ck_assert_uint_gt(before, 0); /* the count works; the assertion allocates */
    before = atomic_load(&allocations);
    while (s.done < 200) {
        uint32_t rows = s.done == 0 ? 96 : s.done < 120 ? 1 : 16;
        rows = rows < 200 - s.done ? rows : 200 - s.done;
        struct test_seq seq = rig_seq(&b.r, &s, rows, 1);
        rig_step(&b.r, 0, NULL, 0, &seq, 1);
        s.done += rows;
    }
    counted = atomic_load(&allocations) - before;
    ck_assert_uint_eq(counted, 0);
    tear_down(&b);
}
END_TEST

/* The last draw's hash after a small history that is in none or one of the perturb hook's
 * situations. */
static uint64_t history(uint32_t axis, uint32_t situation) {
    struct bench b;
    static struct rig_session s, other;
    set_up(&b, situation == GPU_PERTURB_THREADS ? 2 : 1);
    gpu_device_cpu_perturb(b.r.d, axis);
    rig_session_begin(&b.r, &s, 3, b.ids, 60);
    rig_session_begin(&b.r, &other, 4, b.ids, 60);
    if (situation == GPU_PERTURB_MEMORY) { /* rows of another request with the same tokens */
        struct test_seq seq = rig_seq(&b.r, &s, 30, 1);
        seq.request = 77777;
        rig_step(&b.r, 0, NULL, 0, &seq, 1);
        s.done = 30;
    }
    struct test_seq seqs[2] = {
        rig_seq(&b.r, &s, (situation == GPU_PERTURB_PIECES ? 30 : 59) - s.done, 1),
        rig_seq(&b.r, &other, 10, 1)};
    rig_step(&b.r, 0, NULL, 0, seqs, 1);
    s.done += seqs[0].n_rows;
    if (situation == GPU_PERTURB_PIECES) {
        seqs[0] = rig_seq(&b.r, &s, 29, 1);
        rig_step(&b.r, 0, NULL, 0, seqs, 1);
        s.done = 59;
    }
    seqs[0] = rig_seq(&b.r, &s, 1, 1);
    if (situation == GPU_PERTURB_DRAFTS) {
        s.done -= 3;
        seqs[0] = rig_seq(&b.r, &s, 4, 4);
    }
    b.r.d->faults.step_fails = situation == GPU_PERTURB_TROUBLE;
    if (situation == GPU_PERTURB_TROUBLE)
        rig_step(&b.r, 0, NULL, 0, seqs, 1);
    struct gpu_result *r = rig_step(&b.r, situation == GPU_PERTURB_TROUBLE ? GPU_PLAN_ALONE : 0,
                                    NULL, 0, seqs, situation == GPU_PERTURB_COMPANY ? 2 : 1);
    rig_ok(r->status, &r->note);
    uint64_t hash = r->drawn[seqs[0].n_draws - 1].logits_hash;
    tear_down(&b);
    return hash;
}

START_TEST(test_perturb) {
    uint64_t right = history(GPU_PERTURB_NONE, GPU_PERTURB_NONE);
    for (uint32_t axis = GPU_PERTURB_NONE; axis <= GPU_PERTURB_TROUBLE; axis++)
        for (uint32_t situation = GPU_PERTURB_NONE; situation <= GPU_PERTURB_TROUBLE; situation++) {
            bool same = history(axis, situation) == right;
            ck_assert_msg(same == (axis == 0 || axis != situation), "axis %u, situation %u", axis,
                          situation);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/device_steps");
    TCase *tc = tcase_create("steps");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test_draws);
    tcase_add_test(tc, test_from_draw);
    tcase_add_test(tc, test_failed_and_void);
    tcase_add_loop_test(tc, test_not_finite, 0, 2);
    tcase_add_test(tc, test_pages_and_events);
    tcase_add_loop_test(tc, test_allocates_nothing, 0, 2);
    tcase_add_test(tc, test_perturb);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
