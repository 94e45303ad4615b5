/* SPDX-License-Identifier: Apache-2.0
 * The CPU device against the oracle, bit for bit: every shape, piece, thread count and instruction
 * set gives the logits and draws of one token at a time.
 */
#include <math.h>
#include <xxhash.h>

#include "kernels/oracle.h"
#include "tests/gpu/cpu_rig.h"
#include "tests/harness.h"

enum { ROWS = 96, LENGTH = 210, SHAPES = 7 };

#define BASE                                                                                       \
    .layers = 2, .context = 256, .norm_eps = 1e-5F, .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}
static const struct shape {
    const char *name;
    struct krn_config config;
    enum krn_dtype dtype;
    uint32_t v; /* expected default V */
} shapes[SHAPES] = {
    {"multi-head",
     {BASE, .vocab = 131, .hidden = 48, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 64,
      .tied = true},
     KRN_F32,
     4},
    {"grouped",
     {BASE, .vocab = 160, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 192,
      .tied = true},
     KRN_BF16,
     4},
    {"eight",
     {BASE, .vocab = 257, .hidden = 80, .heads = 8, .kv_heads = 2, .head_dim = 16, .ffn = 256,
      .tied = false},
     KRN_F16,
     8},
    {"one",
     {BASE, .vocab = 33, .hidden = 33, .heads = 3, .kv_heads = 1, .head_dim = 48, .ffn = 80,
      .tied = false},
     KRN_BF16,
     1},
    {"biased",
     {BASE, .vocab = 300, .hidden = 64, .heads = 2, .kv_heads = 2, .head_dim = 64, .ffn = 96,
      .tied = false, .attn_bias = true, .attn_out_bias = true, .mlp_bias = true},
     KRN_F32,
     2},
    {"llama3",
     {.layers = 1,
      .context = 256,
      .norm_eps = 1e-6F,
      .vocab = 96,
      .hidden = 32,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 16,
      .ffn = 64,
      .tied = true,
      .rope = {KRN_ROPE_LLAMA3, 500000, 8, 1, 4, 64}},
     KRN_F16,
     4},
    {"two",
     {BASE, .vocab = 64, .hidden = 64, .heads = 6, .kv_heads = 6, .head_dim = 16, .ffn = 32,
      .tied = true},
     KRN_BF16,
     2},
};

static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"};

/* What the oracle says of a session: the logits after every token. */
struct truth {
    uint32_t ids[LENGTH];
    uint64_t hashes[LENGTH];
    uint32_t greedy[LENGTH];
    float *logits; /* [LENGTH][vocab] */
};

static void truth_make(struct truth *t, const struct rig_model *m, uint64_t seed) {
    struct status_note note = {{0}};
    struct krn_oracle *o;
    uint32_t vocab = m->model->config.vocab;
    rig_ok(krn_oracle_open(&m->net, &m->profile, 256, &o, &note), &note);
    t->logits = malloc(sizeof(float) * LENGTH * vocab);
    for (uint32_t i = 0; i < LENGTH; i++) {
        float *row = t->logits + (size_t)i * vocab;
        t->ids[i] = (uint32_t)(test_random(&seed) % vocab);
        ck_assert(krn_oracle_feed(o, t->ids[i], row));
        t->hashes[i] = XXH3_64bits(row, vocab * sizeof *row);
        struct krn_drawn drawn;
        krn_oracle_draw(row, vocab, &test_greedy, t->ids, i + 1, i + 1, NULL, 0, NULL, &drawn);
        t->greedy[i] = drawn.token;
    }
    krn_oracle_close(o);
}

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
        rig_model_synthetic(&m, &shapes[i].config, shapes[i].dtype, 7 + (uint64_t)i, 0);
        ck_assert_uint_eq(m.profile.virtual_ranks, shapes[i].v);
        truth_make(&t, &m, 100 + (uint64_t)i);
        for (uint32_t threads = 1; threads <= 5; threads++) {
            struct rig r;
            rig_open(&r, &m, ROWS, threads, NULL);
            ck_assert_uint_eq(gpu_device_cpu_threads(r.d), threads);
            rig_hashes(&r, 1, t.ids, LENGTH, NULL, hashes, tokens);
            compare(&t, hashes, tokens, shapes[i].name, threads);
            for (int again = 0; again < 2; again++) {
                rig_hashes(&r, 2, t.ids, LENGTH, &pieces, hashes, tokens);
                compare(&t, hashes, tokens, shapes[i].name, threads);
            }
            rig_close(&r);
        }
        free(t.logits);
        rig_model_close(&m);
    }
}
END_TEST

START_TEST(test_isas) {
    static struct truth t;
    uint64_t hashes[LENGTH], pieces = 12;
    uint32_t tokens[LENGTH], ran = 0;
    for (int i = 0; i < SHAPES; i += 2) {
        struct rig_model m;
        rig_model_synthetic(&m, &shapes[i].config, shapes[i].dtype, 70 + (uint64_t)i, 0);
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
        free(t.logits);
        rig_model_close(&m);
    }
    ck_assert_uint_ge(ran, 4);
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
        rig_model_synthetic(&m, &shapes[2].config, KRN_F32, 3, v);
        truth_make(&t, &m, 9);
        rig_open(&r, &m, ROWS, 2, NULL);
        rig_hashes(&r, 1, t.ids, LENGTH, NULL, hashes, tokens);
        compare(&t, hashes, tokens, "virtual ranks", v);
        differ += v > 1 && hashes[50] != first;
        first = v == 1 ? hashes[50] : first;
        rig_close(&r);
        free(t.logits);
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
    rig_model_synthetic(&m, &shapes[1].config, KRN_BF16, 21, 0);
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
    for (uint32_t i = 0; i < SESSIONS; i++)
        free(t[i].logits);
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
    rig_model_synthetic(&m, &shapes[4].config, KRN_F32, 23, 0);
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
    free(t.logits);
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
    tcase_add_test(tc, test_virtual_ranks);
    tcase_add_test(tc, test_company);
    tcase_add_test(tc, test_shared_prefix);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
