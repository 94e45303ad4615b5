/* SPDX-License-Identifier: Apache-2.0
 * The draw: every table against the oracle's sorted one over random parameters, ids, bias and
 * masks; ties, refusals, hashes, log-probabilities, and that frequencies follow the weights.
 */
#include "tests/harness.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/oracle.h"
#include "tests/kernels/kit.h"

static const struct krn_rowfn *table[4];
static unsigned n_tables;

enum { VOCAB_MAX = 5000, IDS_MAX = 60 };

struct bed {
    float row[VOCAB_MAX], z[VOCAB_MAX];
    uint32_t mask[(VOCAB_MAX + 31) / 32];
    uint32_t ids[IDS_MAX], n, n_prompt, vocab;
    struct krn_count counts[IDS_MAX];
    uint32_t n_counts;
    struct krn_bias bias[8];
    uint32_t n_bias;
    bool masked;
    struct krn_sampling s;
    struct krn_top top[KRN_TOP_MAX];
    void *scratch;
};

static struct bed bed;

static void count_ids(void) {
    bed.n_counts = 0;
    for (uint32_t i = 0; i < bed.n; i++) {
        uint32_t c = 0;
        while (c < bed.n_counts && bed.counts[c].id != bed.ids[i])
            c++;
        if (c == bed.n_counts)
            bed.counts[bed.n_counts++] = (struct krn_count){bed.ids[i], 0, 0};
        if (i < bed.n_prompt)
            bed.counts[c].in_prompt++;
        else
            bed.counts[c].in_reply++;
    }
}

static struct krn_drawn draw(const struct krn_rowfn *fn) {
    struct krn_drawn out;
    memcpy(bed.z, bed.row, bed.vocab * sizeof(float));
    struct krn_draw d = {.logits = bed.z,
                         .vocab = bed.vocab,
                         .pos = bed.n,
                         .sampling = &bed.s,
                         .counts = bed.counts,
                         .n_counts = bed.n_counts,
                         .bias = bed.bias,
                         .n_bias = bed.n_bias,
                         .mask = bed.masked ? bed.mask : NULL,
                         .scratch = bed.scratch,
                         .top = bed.top};
    fn->draw(&d, &out);
    return out;
}

static void check_draw(const char *what, unsigned at) {
    struct krn_drawn want;
    krn_oracle_draw(bed.row, bed.vocab, &bed.s, bed.ids, bed.n, bed.n_prompt, bed.bias, bed.n_bias,
                    bed.masked ? bed.mask : NULL, &want);
    for (unsigned t = 0; t < n_tables; t++) {
        struct krn_drawn got = draw(table[t]);
        ck_assert_msg(got.token == want.token && got.finite == want.finite &&
                          krn_bits(got.logprob) == krn_bits(want.logprob) &&
                          got.logits_hash == want.logits_hash,
                      "%s %u: %s draws %u (%u, %a), expected %u (%u, %a)", what, at, table[t]->isa,
                      got.token, got.finite, (double)got.logprob, want.token, want.finite,
                      (double)want.logprob);
    }
}

static void plain(uint32_t vocab) {
    bed.vocab = vocab;
    bed.n = bed.n_prompt = bed.n_counts = bed.n_bias = 0;
    bed.masked = false;
    bed.s = (struct krn_sampling){.top_p = 1.0f, .repetition = 1.0f};
}

static void random_bed(struct kit_rand *r) {
    static const float temperatures[] = {0.0f, 0.01f, 0.3f, 1.0f, 1.7f, 50.0f};
    static const float ps[] = {1.0f, 1.0f, 0.99f, 0.9f, 0.5f, 0.01f, 0.0f};
    static const float min_ps[] = {0.0f, 0.0f, 0.0f, 0.02f, 0.5f, 1.0f};
    static const uint32_t ks[] = {0, 0, 0, 1, 2, 40, 300, VOCAB_MAX};
    plain(1 + kit_below(r, kit_below(r, 4) == 0 ? VOCAB_MAX : 200));
    unsigned shape = kit_below(r, 4);
    for (uint32_t i = 0; i < bed.vocab; i++) {
        float x = (kit_unit(r) + kit_unit(r) + kit_unit(r)) * 8.0f;
        if (shape == 1)
            x = rintf(x); /* many ties */
        if (shape == 2)
            x = kit_value(r, KIT_SPREAD);
        if (shape == 3)
            x = kit_value(r, KIT_TINY); /* zeros of both signs */
        bed.row[i] = x;
    }
    bed.n = kit_below(r, IDS_MAX + 1);
    bed.n_prompt = kit_below(r, bed.n + 1);
    for (uint32_t i = 0; i < bed.n; i++)
        bed.ids[i] = kit_below(r, bed.vocab);
    count_ids();
    bed.n_bias = kit_below(r, 3) == 0 ? kit_below(r, 9) : 0;
    for (uint32_t i = 0; i < bed.n_bias; i++)
        bed.bias[i] = (struct krn_bias){kit_below(r, bed.vocab + 2), kit_unit(r) * 20.0f};
    bed.masked = kit_below(r, 4) == 0;
    for (unsigned i = 0; i < sizeof bed.mask / sizeof bed.mask[0]; i++)
        bed.mask[i] = kit_u32(r) & kit_u32(r);
    bed.s = (struct krn_sampling){.temperature = temperatures[kit_below(r, 6)],
                                  .top_k = ks[kit_below(r, 8)],
                                  .top_p = ps[kit_below(r, 7)],
                                  .min_p = min_ps[kit_below(r, 6)],
                                  .repetition = kit_below(r, 2) != 0 ? 1.0f : 1.3f,
                                  .presence = kit_below(r, 2) != 0 ? 0.0f : 0.7f,
                                  .frequency = kit_below(r, 2) != 0 ? 0.0f : -0.3f,
                                  .seed = krn_philox_u64(1, r->n),
                                  .flags = kit_below(r, 4),
                                  .n_top = kit_below(r, 25)};
}

START_TEST(random_draws) {
    struct kit_rand r = {41, 0};
    for (unsigned i = 0; i < 6000; i++) {
        random_bed(&r);
        check_draw("random", i);
    }
}
END_TEST

START_TEST(ties_go_to_the_lower_id) {
    for (uint32_t vocab = 2; vocab < 2200; vocab += 61)
        for (uint32_t at = 0; at < vocab; at += 7) {
            plain(vocab);
            for (uint32_t i = 0; i < vocab; i++)
                bed.row[i] = i >= at ? (i % 2 != 0 ? -0.0f : 0.0f) : -1.0f;
            for (unsigned t = 0; t < n_tables; t++)
                ck_assert_uint_eq(draw(table[t]).token, at);
        }
}
END_TEST

START_TEST(not_finite_rows_are_refused) {
    struct kit_rand r = {42, 0};
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (uint32_t vocab = 1; vocab < 100; vocab += 3)
        for (uint32_t at = 0; at < vocab; at++) {
            plain(vocab);
            kit_fill(&r, bed.row, vocab, KIT_TAME);
            bed.row[at] = bad[at % 3];
            bed.s.temperature = (float)(at % 2);
            for (unsigned t = 0; t < n_tables; t++)
                ck_assert_uint_eq(draw(table[t]).finite, 0);
        }
    plain(64);
    kit_fill(&r, bed.row, 64, KIT_TAME);
    bed.masked = true;
    memset(bed.mask, 0, sizeof bed.mask); /* nothing is allowed */
    for (unsigned t = 0; t < n_tables; t++)
        ck_assert_uint_eq(draw(table[t]).finite, 0);
    /* penalties and bias that overflow stay ordered */
    plain(4);
    bed.row[0] = 0x1.fffffep127f, bed.row[1] = 1.0f, bed.row[2] = 2.0f,
    bed.row[3] = -0x1.fffffep127f;
    bed.n = bed.n_prompt = 2;
    bed.ids[0] = 0, bed.ids[1] = 3;
    count_ids();
    bed.s.repetition = 0.5f; /* doubles what it should halve */
    check_draw("overflow", 0);
    ck_assert_uint_eq(draw(table[0]).token, 0);
}
END_TEST

START_TEST(hash_is_of_the_raw_row) {
    struct kit_rand r = {43, 0};
    random_bed(&r);
    bed.s.flags = KRN_DRAW_HASH_LOGITS;
    for (unsigned t = 0; t < n_tables; t++)
        ck_assert_uint_eq(draw(table[t]).logits_hash,
                          XXH3_64bits(bed.row, bed.vocab * sizeof(float)));
}
END_TEST

START_TEST(logprobs) {
    struct kit_rand r = {44, 0};
    for (unsigned i = 0; i < 300; i++) {
        random_bed(&r);
        bed.s.flags = KRN_DRAW_LOGPROB;
        bed.masked = false;
        double max = -INFINITY, sum = 0.0;
        for (uint32_t k = 0; k < bed.vocab; k++)
            max = bed.row[k] > max ? bed.row[k] : max;
        for (uint32_t k = 0; k < bed.vocab; k++)
            sum += exp(bed.row[k] - max);
        for (unsigned t = 0; t < n_tables; t++) {
            struct krn_drawn d = draw(table[t]);
            double want = bed.row[d.token] - max - log(sum);
            ck_assert_double_lt(fabs(d.logprob - want), 2e-6 * (1.0 + fabs(want)));
            uint32_t n = bed.s.n_top < KRN_TOP_MAX ? bed.s.n_top : KRN_TOP_MAX;
            ck_assert_uint_eq(d.n_top, n < bed.vocab ? n : bed.vocab);
            for (uint32_t k = 0; k < d.n_top; k++) {
                const struct krn_top *p = bed.top + k;
                double at = bed.row[p->id] - max - log(sum);
                ck_assert_double_lt(fabs(p->logprob - at), 2e-6 * (1.0 + fabs(at)));
                uint32_t before = 0; /* exactly k tokens are better */
                for (uint32_t j = 0; j < bed.vocab; j++)
                    before +=
                        bed.row[j] > bed.row[p->id] || (bed.row[j] == bed.row[p->id] && j < p->id);
                ck_assert_uint_eq(before, k);
            }
        }
    }
}
END_TEST

/* Seeds draw each id about as often as its weight says: no id is off by six standard deviations. */
START_TEST(frequencies_follow_weights) {
    enum { V = 8, DRAWS = 40000 };
    double p[V], sum = 0.0;
    unsigned hits[V] = {0};
    plain(V);
    for (uint32_t i = 0; i < V; i++) {
        bed.row[i] = (float)i * 0.4f;
        sum += p[i] = exp(i * 0.4 / 0.8);
    }
    bed.s.temperature = 0.8f;
    for (unsigned i = 0; i < DRAWS; i++) {
        bed.s.seed = i;
        hits[draw(table[n_tables - 1]).token]++;
    }
    for (unsigned i = 0; i < V; i++) {
        double mean = DRAWS * p[i] / sum, dev = sqrt(mean * (1.0 - p[i] / sum));
        ck_assert_double_lt(fabs(hits[i] - mean), 6.0 * dev);
    }
}
END_TEST

/* Parameters at their neutral value change nothing, position and seed alone choose. */
START_TEST(position_and_seed_choose) {
    struct kit_rand r = {45, 0};
    plain(3000);
    kit_fill(&r, bed.row, bed.vocab, KIT_TAME);
    bed.s.temperature = 1.0f;
    unsigned differ = 0;
    uint32_t last = 0;
    for (unsigned i = 0; i < 50; i++) {
        bed.n = i; /* the position; no ids are counted */
        bed.n_counts = 0;
        struct krn_drawn a = draw(table[0]);
        for (unsigned t = 0; t < n_tables; t++)
            ck_assert_uint_eq(draw(table[t]).token, a.token);
        differ += a.token != last;
        last = a.token;
    }
    ck_assert_uint_gt(differ, 40);
}
END_TEST

int main(void) {
    n_tables = kit_tables(table);
    bed.scratch = kit_alloc(krn_draw_scratch(VOCAB_MAX));
    Suite *suite = suite_create("draw");
    TCase *tc = tcase_create("draw");
    tcase_add_test(tc, random_draws);
    tcase_add_test(tc, ties_go_to_the_lower_id);
    tcase_add_test(tc, not_finite_rows_are_refused);
    tcase_add_test(tc, hash_is_of_the_raw_row);
    tcase_add_test(tc, logprobs);
    tcase_add_test(tc, frequencies_follow_weights);
    tcase_add_test(tc, position_and_seed_choose);
    suite_add_tcase(suite, tc);
    int rc = test_run(suite);
    free(bed.scratch);
    return rc;
}
