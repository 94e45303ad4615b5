/* SPDX-License-Identifier: Apache-2.0
 * The Llama family against published float32 outputs of the shipped model: hidden states, logits,
 * greedy tokens and the held-out text, all through the oracle. The bounds are those of two correct
 * float32 programs that add in different orders; each is a named constant here.
 */
#include "tests/harness.h"

#include <math.h>
#include <string.h>

#include "kernels/oracle.h"
#include "kernels/weights/json.h"
#include "tests/kernels/reference.h"

/* Largest difference, relative to the largest magnitude of the reference row. */
#define HIDDEN_ERROR 5e-6
#define LOGITS_ERROR 5e-6
/* Nats of one predicted token, and of their mean relative to it. */
#define NLL_ERROR  1e-3
#define MEAN_ERROR 1e-4

/* When tests run small, under sanitizers: prompts up to this long and this many greedy tokens. */
enum { SMALL_IDS = 30, SMALL_STEPS = 16 };

static struct status_note note;
static struct reference *ref;
static struct krn_model *model;
static struct krn_net net;
static struct krn_profile profile;
static struct krn_oracle *oracle;
static float logits[REFERENCE_VOCAB];

#define OK(expr) ck_assert_msg((expr) == STATUS_OK, "%s", note.text)

static bool small(void) {
    const char *scale = getenv("RH_TEST_SCALE");
    return scale != NULL && strcmp(scale, "small") == 0;
}

static void open_all(void) {
    ref = reference_open();
    OK(krn_model_open(ref->model_path, &model, &note));
    OK(krn_net_build(model, &net, &note));
    OK(krn_profile_portable(&model->config, 0, &profile, &note));
    OK(krn_oracle_open(&net, &profile, model->config.context, &oracle, &note));
    ck_assert_uint_eq(model->config.vocab, REFERENCE_VOCAB);
    ck_assert_uint_eq(model->config.hidden, REFERENCE_HIDDEN);
}

static void close_all(void) {
    krn_oracle_close(oracle);
    krn_net_free(&net);
    krn_model_close(model);
    reference_close(ref);
}

static uint32_t best(const float *row) {
    uint32_t at = 0;
    for (uint32_t i = 1; i < REFERENCE_VOCAB; i++)
        if (row[i] > row[at])
            at = i;
    return at;
}

/* -log of the probability of `token`. */
static double nats(const float *row, uint32_t token) {
    double top = (double)row[best(row)], sum = 0;
    for (uint32_t i = 0; i < REFERENCE_VOCAB; i++)
        sum += exp((double)row[i] - top);
    return top + log(sum) - (double)row[token];
}

/* The last boundary of the reference stands after the final norm; the oracle's before it. */
static void final_norm(const float *x, float *out) {
    const struct krn_tensor *w = krn_model_tensor(model, "model.norm.weight");
    double squares = 0;
    for (int i = 0; i < REFERENCE_HIDDEN; i++)
        squares += (double)x[i] * (double)x[i];
    double scale = 1 / sqrt(squares / REFERENCE_HIDDEN + (double)model->config.norm_eps);
    for (int i = 0; i < REFERENCE_HIDDEN; i++) {
        uint32_t bits = (uint32_t)((const uint16_t *)w->data)[i] << 16;
        float weight;
        memcpy(&weight, &bits, sizeof weight);
        out[i] = (float)((double)x[i] * scale * (double)weight);
    }
}

/* Every layer boundary and every position's logits of two prompts. */
START_TEST(test_hidden) {
    const struct reference_trace *trace = &ref->traces[_i];
    uint32_t tokens = trace->prompt->n_ids;
    double worst_hidden = 0, worst_logits = 0;
    krn_oracle_reset(oracle);
    for (uint32_t t = 0; t < tokens; t++) {
        ck_assert(krn_oracle_feed(oracle, trace->prompt->ids[t], logits));
        for (uint32_t b = 0; b < REFERENCE_BOUNDARIES; b++) {
            const float *x = krn_oracle_hidden(oracle, b);
            float normed[REFERENCE_HIDDEN];
            if (b + 1 == REFERENCE_BOUNDARIES) {
                final_norm(x, normed);
                x = normed;
            }
            size_t row = (size_t)b * tokens + t;
            double error =
                reference_error(x, trace->hidden + row * REFERENCE_HIDDEN, REFERENCE_HIDDEN);
            worst_hidden = fmax(worst_hidden, error);
            ck_assert_msg(error <= HIDDEN_ERROR, "%s token %u boundary %u: %g", trace->prompt->name,
                          t, b, error);
        }
        const float *expected = trace->logits + (size_t)t * REFERENCE_VOCAB;
        double error = reference_error(logits, expected, REFERENCE_VOCAB);
        worst_logits = fmax(worst_logits, error);
        ck_assert_msg(error <= LOGITS_ERROR, "%s token %u: logits differ by %g",
                      trace->prompt->name, t, error);
    }
    printf("%s: hidden states within %.1e, logits within %.1e\n", trace->prompt->name, worst_hidden,
           worst_logits);
}
END_TEST

/* The first logits, then 64 greedy tokens: the oracle's own draw is fed back for as long as it
 * agrees, and from a near tie on the reference's token, so that each step is judged. */
START_TEST(test_prompt) {
    const struct reference_prompt *p = &ref->prompts[_i];
    const struct krn_sampling greedy = {.top_p = 1.0F, .repetition = 1.0F};
    const uint32_t steps = small() ? SMALL_STEPS : REFERENCE_STEPS;
    uint32_t *ids, near_ties = 0;
    if (small() && p->n_ids > SMALL_IDS)
        TEST_SKIP("long prompts run at full scale");
    ids = calloc(p->n_ids + REFERENCE_STEPS, sizeof *ids);
    ck_assert_ptr_nonnull(ids);
    memcpy(ids, p->ids, p->n_ids * sizeof *ids);
    krn_oracle_reset(oracle);
    for (uint32_t i = 0; i < p->n_ids; i++)
        ck_assert(krn_oracle_feed(oracle, ids[i], i + 1 == p->n_ids ? logits : NULL));
    double error = reference_error(logits, p->first_logits, REFERENCE_VOCAB);
    ck_assert_msg(error <= LOGITS_ERROR, "%s: first logits differ by %g", p->name, error);
    for (uint32_t s = 0; s < steps; s++) {
        struct krn_drawn drawn;
        uint32_t n = p->n_ids + s;
        krn_oracle_draw(logits, REFERENCE_VOCAB, &greedy, ids, n, p->n_ids, NULL, 0, NULL, &drawn);
        ck_assert_uint_eq(drawn.finite, 1);
        ck_assert_uint_eq(drawn.token, best(logits));
        if (drawn.token != p->f32.ids[s]) {
            ck_assert_msg(p->f32.margin[s] < REFERENCE_MARGIN, "%s step %u: %u, expected %u",
                          p->name, s, drawn.token, p->f32.ids[s]);
            ck_assert_uint_eq(drawn.token, p->f32.second[s]);
            near_ties++;
        }
        ck_assert_double_eq_tol((double)logits[p->f32.ids[s]], (double)p->top_logit[s],
                                LOGITS_ERROR * fabs((double)p->top_logit[s]) * 4);
        ids[n] = p->f32.ids[s];
        ck_assert(krn_oracle_feed(oracle, ids[n], logits));
    }
    printf("%s: %u ids, first logits within %.1e, %u of %u greedy tokens differ\n", p->name,
           p->n_ids, error, near_ties, steps);
    free(ids);
}
END_TEST

/* The beginning of a row of the held-out text: nats, best tokens, perplexity. */
START_TEST(test_heldout) {
    const struct reference_window *w = &ref->windows[0];
    const uint32_t tokens = small() ? 50 : 400;
    const uint32_t row = (uint32_t)_i;
    const int32_t *ids = ref->heldout + (size_t)row * w->width;
    double sum = 0, expected_sum = 0, worst = 0;
    krn_oracle_reset(oracle);
    for (uint32_t t = 0; t < tokens; t++) {
        size_t at = (size_t)row * (w->width - 1) + t;
        ck_assert(krn_oracle_feed(oracle, (uint32_t)ids[t], logits));
        double n = nats(logits, (uint32_t)ids[t + 1]);
        double off = fabs(n - (double)w->nll[at]);
        ck_assert_msg(off <= NLL_ERROR, "row %u token %u: %g nats, expected %g", row, t, n,
                      (double)w->nll[at]);
        ck_assert_msg(best(logits) == (uint32_t)w->top[at] || w->margin[at] < REFERENCE_MARGIN,
                      "row %u token %u: best is %u, expected %d", row, t, best(logits), w->top[at]);
        worst = fmax(worst, off);
        sum += n;
        expected_sum += (double)w->nll[at];
    }
    double off = fabs(sum / expected_sum - 1);
    ck_assert_msg(off <= MEAN_ERROR, "row %u: mean off by %g", row, off);
    printf("held-out row %u: %u tokens, perplexity %.5f, expected %.5f; a token within %.1e nats\n",
           row, tokens, exp(sum / tokens), exp(expected_sum / tokens), worst);
}
END_TEST

/* The reference files agree with each other and with their own README. */
START_TEST(test_files) {
    static const double means[] = {3.02685, 3.01358}, means_gpu[] = {3.02704, 3.01355};
    for (int i = 0; i < REFERENCE_WINDOWS; i++) {
        const struct reference_window *w = &ref->windows[i];
        double sum = 0;
        size_t n = (size_t)w->rows * (w->width - 1);
        for (size_t t = 0; t < n; t++)
            sum += (double)w->nll[t];
        ck_assert_double_eq_tol(sum / (double)n, w->mean_nll, 1e-6);
        ck_assert_double_eq_tol(w->mean_nll, means[i], 1e-5);
        ck_assert_double_eq_tol(w->mean_nll_bf16_gpu, means_gpu[i], 1e-5);
    }
    ck_assert_uint_eq(ref->heldout_bytes, 73639);
    for (int i = 0; i < REFERENCE_PROMPTS; i++) {
        const struct reference_prompt *p = &ref->prompts[i];
        ck_assert_uint_eq(best(p->first_logits), p->f32.ids[0]);
        ck_assert_uint_eq(best(p->first_logits_bf16_gpu), p->bf16_gpu.ids[0]);
        ck_assert(p->first_logits[p->f32.ids[0]] - p->first_logits[p->f32.second[0]] -
                      p->f32.margin[0] <
                  1e-4F);
        ck_assert_int_eq(p->add_bos && p->ids[0] != 0, 0);
    }
    ck_assert_ptr_null(reference_find(ref, "p02"));
}
END_TEST

int main(void) {
    Suite *s = suite_create("reference");
    TCase *t = tcase_create("reference");
    tcase_set_timeout(t, 300);
    tcase_add_unchecked_fixture(t, open_all, close_all);
    tcase_add_test(t, test_files);
    tcase_add_loop_test(t, test_hidden, 0, 2);
    tcase_add_loop_test(t, test_prompt, 0, REFERENCE_PROMPTS);
    tcase_add_loop_test(t, test_heldout, 0, 2);
    suite_add_tcase(s, t);
    return test_run(s);
}
