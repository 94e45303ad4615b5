/* SPDX-License-Identifier: Apache-2.0
 * The CPU device against the oracle, bit for bit: every shape, piece, thread count and instruction
 * set gives the logits and draws of one token at a time.
 */
#include "kernels/matmul.h"
#include "tests/gpu/truth.h"
#include "tests/harness.h"

enum { ROWS = 96, LENGTH = TRUTH_LENGTH, SHAPES = TRUTH_SHAPES };

static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"};

static void compare(const struct truth *t, const uint64_t *hashes, const uint32_t *tokens,
                    const char *what, uint32_t threads) {
    for (uint32_t i = 0; i < LENGTH; i++) {
        ck_assert_msg(hashes[i] == t->hashes[i], "%s, %u threads: logits after token %u differ",
                      what, threads, i);
        ck_assert_uint_eq(tokens[i], t->greedy[i]);
    }
}

START_TEST(test_shapes) {
    static struct truth t;
    uint64_t hashes[LENGTH], pieces = 11;
    uint32_t tokens[LENGTH];
    for (int i = 0; i < SHAPES; i++) {
        struct rig_model m;
        rig_model_synthetic(&m, &truth_shapes[i].config, truth_shapes[i].dtype, 7 + (uint64_t)i, 0);
        ck_assert_uint_eq(m.profile.virtual_ranks, truth_shapes[i].v);
        truth_make(&t, &m, 100 + (uint64_t)i);
        for (uint32_t threads = 1; threads <= 5; threads++) {
            struct rig r;
            rig_open(&r, &m, ROWS, threads, NULL);
            ck_assert_uint_eq(gpu_device_cpu_threads(r.d), threads);
            rig_hashes(&r, 1, t.ids, LENGTH, NULL, hashes, tokens);
            compare(&t, hashes, tokens, truth_shapes[i].name, threads);
            for (int again = 0; again < 2; again++) {
                rig_hashes(&r, 2, t.ids, LENGTH, &pieces, hashes, tokens);
                compare(&t, hashes, tokens, truth_shapes[i].name, threads);
            }
            rig_close(&r);
        }
        rig_model_close(&m);
    }
}
END_TEST

START_TEST(test_isas) {
    static struct truth t;
    uint64_t hashes[LENGTH], pieces = 12;
    uint32_t tokens[LENGTH], ran = 0;
    for (int i = 0; i < SHAPES; i += i < TRUTH_LLAMAS ? 2 : 1) {
        struct rig_model m;
        rig_model_synthetic(&m, &truth_shapes[i].config, truth_shapes[i].dtype, 70 + (uint64_t)i,
                            0);
        truth_make(&t, &m, 5);
        for (size_t k = 0; k < sizeof isas / sizeof isas[0]; k++) {
            if (krn_rowfn_pick(isas[k]) == NULL)
                continue;
            struct rig r;
            rig_open(&r, &m, ROWS, 2, isas[k]);
            rig_hashes(&r, 1, t.ids, LENGTH, &pieces, hashes, tokens);
            compare(&t, hashes, tokens, isas[k], 2);
            rig_close(&r);
            ran++;
        }
        rig_model_close(&m);
    }
    ck_assert_uint_ge(ran, 4);
}
END_TEST

/* Profile _i of the table on every shape that it can cut, every instruction set. */
START_TEST(test_profiles) {
    static struct truth t;
    const char *name = krn_profile_name((unsigned)_i);
    uint64_t hashes[LENGTH], pieces = 13;
    uint32_t tokens[LENGTH], ran = 0;
    for (int i = 0; name != NULL && i < SHAPES; i++) {
        struct rig_model m;
        struct status_note note;
        rig_model_synthetic(&m, &truth_shapes[i].config, truth_shapes[i].dtype, 170 + (uint64_t)i,
                            0);
        if (krn_profile_open(name, &m.model->config, 0, &m.profile, &note) != STATUS_OK) {
            rig_model_close(&m);
            continue;
        }
        if (krn_profile_gpu(&m.profile)) { /* tests/cuda/test_device_ranks has its oracle */
            struct krn_matmul products;
            ck_assert_int_eq(krn_matmul_open(&m.profile, krn_rowfn_pick(NULL), &products, &note),
                             STATUS_UNSUPPORTED);
        } else {
            truth_make(&t, &m, 15);
            for (size_t k = 0; k < sizeof isas / sizeof isas[0]; k++) {
                if (krn_rowfn_pick(isas[k]) == NULL)
                    continue;
                struct rig r;
                rig_open(&r, &m, ROWS, 1 + (uint32_t)k, isas[k]);
                rig_hashes(&r, 1, t.ids, LENGTH, NULL, hashes, tokens);
                compare(&t, hashes, tokens, isas[k], 1 + (uint32_t)k);
                rig_hashes(&r, 2, t.ids, LENGTH, &pieces, hashes, tokens);
                compare(&t, hashes, tokens, isas[k], 1 + (uint32_t)k);
                rig_close(&r);
            }
        }
        ran++;
        rig_model_close(&m);
    }
    ck_assert_uint_ge(ran, name != NULL ? 6 : 0);
}
END_TEST

START_TEST(test_virtual_ranks) {
    /* V is part of the profile: each V has its own bits, and the device has the oracle's. */
    static struct truth t;
    uint64_t hashes[LENGTH], first = 0;
    uint32_t tokens[LENGTH], differ = 0;
    for (uint32_t v = 1; v <= 8; v *= 2) {
        struct rig_model m;
        struct rig r;
        rig_model_synthetic(&m, &truth_shapes[2].config, KRN_F32, 3, v);
        truth_make(&t, &m, 9);
        rig_open(&r, &m, ROWS, 2, NULL);
        rig_hashes(&r, 1, t.ids, LENGTH, NULL, hashes, tokens);
        compare(&t, hashes, tokens, "virtual ranks", v);
        differ += v > 1 && hashes[50] != first;
        first = v == 1 ? hashes[50] : first;
        rig_close(&r);
        rig_model_close(&m);
    }
    ck_assert_uint_eq(differ, 3);
}
END_TEST

/* Sessions of different prompts in one plan: pieces, decode rows and windows, any order, on
 * poisoned pages. */
START_TEST(test_company) {
    enum { SESSIONS = 5 };
    static struct truth t[SESSIONS];
    static struct rig_session s[SESSIONS];
    struct rig_model m;
    struct rig r;
    uint64_t seed = 77;
    rig_model_synthetic(&m, &truth_shapes[_i == 0 ? 1 : TRUTH_MIXTURE].config, KRN_BF16, 21, 0);
    rig_open(&r, &m, 200, 2, NULL);
    gpu_device_cpu_poison(r.d, true);
    for (uint32_t p = 1; p < r.n_pages; p++)
        r.d->ops->page_freed(r.d, p);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        truth_make(&t[i], &m, 30 + i);
        rig_session_begin(&r, &s[i], 10 * i, t[i].ids, LENGTH);
    }
    for (uint32_t left = SESSIONS * LENGTH; left > 0;) {
        struct test_seq seqs[SESSIONS];
        uint32_t who[SESSIONS], n = 0;
        for (uint32_t j = 0, from = (uint32_t)(test_random(&seed) % SESSIONS); j < SESSIONS; j++) {
            uint32_t i = (from + j * 3) % SESSIONS, rest = LENGTH - s[i].done;
            static const uint32_t most[] = {1, 1, 17, 40};
            uint32_t rows = 1 + (uint32_t)(test_random(&seed) % most[test_random(&seed) % 4]);
            if (rest == 0 || test_random(&seed) % 4 == 0)
                continue;
            rows = rows < rest ? rows : rest;
            seqs[n] = rig_seq(&r, &s[i], rows, test_random(&seed) % 2 == 0 ? rows : 1);
            who[n++] = i;
        }
        if (n == 0)
            continue;
        struct gpu_result *result = rig_step(&r, 0, NULL, 0, seqs, n);
        rig_ok(result->status, &result->note);
        for (uint32_t q = 0, d = 0; q < n; q++) {
            struct rig_session *x = &s[who[q]];
            x->done += seqs[q].n_rows;
            left -= seqs[q].n_rows;
            ck_assert_uint_eq(result->bad_row[q], GPU_ROW_FINE);
            for (uint32_t k = 0; k < seqs[q].n_draws; k++, d++) {
                uint32_t at = x->done - seqs[q].n_draws + k;
                ck_assert_uint_eq(result->drawn[d].logits_hash, t[who[q]].hashes[at]);
                ck_assert_uint_eq(result->drawn[d].token, t[who[q]].greedy[at]);
            }
        }
    }
    rig_close(&r);
    rig_model_close(&m);
}
END_TEST

/* A second session takes over the first's pages up to every kind of offset, the partial last page
 * copied. */
START_TEST(test_shared_prefix) {
    static struct truth t;
    static struct rig_session a, b;
    static const uint32_t offsets[] = {1, 15, 16, 63, 64, 65, 100, 127, 128, 130, 191, 209};
    struct rig_model m;
    struct rig r;
    rig_model_synthetic(&m, &truth_shapes[4].config, KRN_F32, 23, 0);
    truth_make(&t, &m, 1);
    rig_open(&r, &m, LENGTH, 2, NULL);
    gpu_device_cpu_poison(r.d, true);
    rig_session_begin(&r, &a, 1, t.ids, LENGTH);
    struct test_seq seq = rig_seq(&r, &a, LENGTH, 1);
    rig_step(&r, 0, NULL, 0, &seq, 1);
    uint32_t pages = r.next_page;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        r.next_page = pages;
        for (uint32_t p = pages; p < r.n_pages; p++)
            r.d->ops->page_freed(r.d, p);
        rig_session_begin(&r, &b, 2, t.ids, LENGTH);
        uint32_t at = offsets[i], full = at / 64;
        memcpy(b.pages, a.pages, full * sizeof *b.pages);
        struct gpu_copy copy = {a.pages[full], b.pages[full], at % 64, 0};
        b.done = at;
        seq = rig_seq(&r, &b, LENGTH - at, 1);
        struct gpu_result *result = rig_step(&r, 0, &copy, at % 64 != 0, &seq, 1);
        rig_ok(result->status, &result->note);
        ck_assert_uint_eq(result->drawn[0].finite, 1);
        ck_assert_uint_eq(result->drawn[0].logits_hash, t.hashes[LENGTH - 1]);
    }
    rig_close(&r);
    rig_model_close(&m);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/device_cpu");
    TCase *tc = tcase_create("cpu");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test_shapes);
    tcase_add_test(tc, test_isas);
    tcase_add_loop_test(tc, test_profiles, 1, 5); /* profile 0 is what the other tests run */
    tcase_add_test(tc, test_virtual_ranks);
    tcase_add_test(tc, test_shared_prefix);
    suite_add_tcase(suite, tc);
    TCase *company = tcase_create("company");
    tcase_set_timeout(company, 300);
    tcase_add_loop_test(company, test_company, 0, 2);
    suite_add_tcase(suite, company);
    return test_run(suite);
}
