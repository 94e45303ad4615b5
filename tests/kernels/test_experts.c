/* SPDX-License-Identifier: Apache-2.0
 * Which experts a row uses and how they add up (numerics.md 13): the choice against a sort, the
 * weights against fp64, ties, rows that are not finite, and one layer's sum against fp64 at every
 * V, with the order of additions as it is written.
 */
#include "tests/harness.h"

#include "kernels/oracle.h"
#include "kernels/oracle_rows.h"
#include "tests/kernels/kit.h"

struct choice {
    uint32_t chosen[KRN_EXPERTS_USED_MAX];
    float weights[KRN_EXPERTS_USED_MAX];
};

static struct choice route(const float *z, uint32_t n, uint32_t used, bool norm) {
    struct choice c, o;
    memset(&c, 0xff, sizeof c);
    memset(&o, 0xff, sizeof o);
    krn_route(z, n, used, norm, c.chosen, c.weights);
    krn_oracle_route(z, n, used, norm, o.chosen, o.weights);
    ck_assert_mem_eq(c.chosen, o.chosen, sizeof c.chosen);
    kit_equal(c.weights, o.weights, used, "weights of %u of %u", used, n);
    return c;
}

static uint32_t most_used(uint32_t n) {
    return n < KRN_EXPERTS_USED_MAX ? n : KRN_EXPERTS_USED_MAX;
}

/* Ascending; no expert left out has a greater logit, or the same and a lower number. */
static void check_chosen(const float *z, uint32_t n, uint32_t used, const struct choice *c) {
    bool in[KRN_EXPERTS_MAX] = {false};
    for (uint32_t j = 0; j < used; j++) {
        ck_assert_uint_lt(c->chosen[j], n);
        ck_assert(j == 0 || c->chosen[j - 1] < c->chosen[j]);
        in[c->chosen[j]] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < used && !in[i]; j++) {
            float taken = z[c->chosen[j]];
            ck_assert(z[i] < taken || (z[i] == taken && i > c->chosen[j]));
        }
}

static void check_weights(const float *z, uint32_t n, uint32_t used, bool norm,
                          const struct choice *c) {
    double max = z[0], all = 0, some = 0;
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)z[i]);
    for (uint32_t i = 0; i < n; i++)
        all += exp((double)z[i] - max);
    for (uint32_t j = 0; j < used; j++)
        some += exp((double)z[c->chosen[j]] - max);
    for (uint32_t j = 0; j < used; j++) {
        double want = exp((double)z[c->chosen[j]] - max) / (norm ? some : all);
        ck_assert_double_le(fabs((double)c->weights[j] - want), 4e-6 * want + 1e-37);
    }
}

START_TEST(every_count) {
    static const uint32_t counts[] = {1, 2, 3, 8, 15, 16, 17, 64, 128, 511, KRN_EXPERTS_MAX};
    struct kit_rand r = {81, 0};
    float z[KRN_EXPERTS_MAX];
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (uint32_t used = 1, n = counts[k]; used <= most_used(n); used++)
            for (int kind = 0; kind < 4; kind++) {
                for (uint32_t i = 0; i < n; i++) /* kind 2: ties, 3: exp is 0 for most */
                    z[i] = kind == 2   ? (float)kit_below(&r, 4)
                           : kind == 3 ? kit_unit(&r) * 1e4f
                                       : kit_unit(&r) * 6.0f;
                struct choice c = route(z, n, used, kind % 2 == 0);
                check_chosen(z, n, used, &c);
                check_weights(z, n, used, kind % 2 == 0, &c);
            }
}
END_TEST

START_TEST(ties_go_to_the_lower) {
    const float equal[6] = {1, 1, 1, 1, 1, 1}, zeros[4] = {-0.0f, 0.0f, -0.0f, 0.0f};
    const float mixed[6] = {2, 7, 2, 7, 2, 7};
    struct choice c = route(equal, 6, 3, true);
    ck_assert(c.chosen[0] == 0 && c.chosen[1] == 1 && c.chosen[2] == 2);
    ck_assert(c.weights[0] == 1.0f / 3.0f && c.weights[2] == 1.0f / 3.0f);
    c = route(zeros, 4, 2, false);
    ck_assert(c.chosen[0] == 0 && c.chosen[1] == 1 && c.weights[1] == 0.25f);
    c = route(mixed, 6, 4, true);
    ck_assert(c.chosen[0] == 0 && c.chosen[1] == 1 && c.chosen[2] == 3 && c.chosen[3] == 5);
    c = route(mixed, 6, 2, true);
    ck_assert(c.chosen[0] == 1 && c.chosen[1] == 3 && c.weights[0] == 0.5f);
}
END_TEST

/* The choice stays inside the experts, and every weight is NaN, so that the row ends. */
START_TEST(rows_that_are_not_finite) {
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u};
    for (unsigned b = 0; b < sizeof bad / sizeof bad[0]; b++)
        for (uint32_t n = 1; n <= 20; n++)
            for (uint32_t at = 0; at < n; at++)
                for (uint32_t used = 1; used <= n; used += 3) {
                    float z[20];
                    for (uint32_t i = 0; i < n; i++)
                        z[i] = (float)(i * 7 % 5);
                    z[at] = krn_float(bad[b]);
                    struct choice c = route(z, n, used, at % 2 == 0);
                    for (uint32_t j = 0; j < used; j++)
                        ck_assert(c.chosen[j] == j && isnan(c.weights[j]));
                }
}
END_TEST

static double element(const struct krn_tensor *w, uint64_t i) {
    return w->dtype == KRN_F32    ? (double)((const float *)w->data)[i]
           : w->dtype == KRN_BF16 ? (double)krn_widen_bf16(((const uint16_t *)w->data)[i])
                                  : (double)krn_widen_f16(((const uint16_t *)w->data)[i]);
}

static void product64(const double *x, const struct krn_tensor *w, double *y) {
    for (uint64_t n = 0; n < w->dims[0]; n++) {
        y[n] = 0;
        for (uint64_t k = 0; k < w->dims[1]; k++)
            y[n] += x[k] * element(w, n * w->dims[1] + k);
    }
}

enum { HIDDEN = 48, FFN = 128, VOCAB = 40, TOKENS = 20 };

/* What layer 0's mixture adds, in fp64 from fp32 inputs: x the normed row, y += it. */
static void layer64(const struct krn_op *router, const struct krn_op *op, const double *h,
                    double *y) {
    double z[KRN_EXPERTS_MAX], g[FFN], u[FFN], out[HIDDEN], max = -INFINITY, sum = 0;
    float narrow[KRN_EXPERTS_MAX];
    struct choice c;
    product64(h, router->w, z);
    for (uint32_t i = 0; i < op->n_experts; i++) {
        narrow[i] = (float)z[i];
        max = fmax(max, z[i]);
    }
    krn_route(narrow, op->n_experts, op->used, op->norm_used, c.chosen, c.weights);
    for (uint32_t i = 0, j = 0; i < op->n_experts; i++) {
        bool used = j < op->used && c.chosen[j] == i;
        sum += op->norm_used && !used ? 0 : exp(z[i] - max);
        j += used;
    }
    for (uint32_t j = 0; j < op->used; j++) {
        const struct krn_expert *e = &op->experts[c.chosen[j]];
        product64(h, e->gate, g);
        product64(h, e->up, u);
        for (uint32_t i = 0; i < FFN; i++)
            g[i] = g[i] / (1 + exp(-g[i])) * u[i];
        product64(g, e->down, out);
        for (uint32_t i = 0; i < HIDDEN; i++)
            y[i] += exp(z[c.chosen[j]] - max) / sum * out[i];
    }
}

/* The residual stream behind layer 0 is what attention left plus the mixture: everything before the
 * mixture is taken away by a twin whose experts' down matrices are zero. */
START_TEST(a_layer_in_fp64) {
    struct krn_config config = {.family = "qwen3_moe",
                                .vocab = VOCAB,
                                .hidden = HIDDEN,
                                .layers = 1,
                                .heads = 8,
                                .kv_heads = 8,
                                .head_dim = 16,
                                .ffn = FFN,
                                .context = 64,
                                .norm_eps = 1e-5f,
                                .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000.0},
                                .experts = 11,
                                .experts_used = 1 + (uint32_t)_i,
                                .experts_norm = _i % 2 == 0};
    struct status_note note;
    struct krn_model *model, *twin;
    struct krn_net net, bare;
    ck_assert_int_eq(krn_model_synthetic(&config, KRN_F16, 4, &model, &note), STATUS_OK);
    ck_assert_int_eq(krn_model_synthetic(&config, KRN_F16, 4, &twin, &note), STATUS_OK);
    for (uint32_t i = 0; i < twin->n_tensors; i++)
        if (strstr(twin->tensors[i].name, "down_proj") != NULL)
            memset((void *)(uintptr_t)twin->tensors[i].data, 0, twin->tensors[i].bytes);
    ck_assert_int_eq(krn_net_build(model, &net, &note), STATUS_OK);
    ck_assert_int_eq(krn_net_build(twin, &bare, &note), STATUS_OK);
    const struct krn_op *experts = NULL;
    for (uint32_t i = 0; i < net.n_ops; i++)
        if (net.ops[i].kind == KRN_OP_EXPERTS)
            experts = &net.ops[i];
    ck_assert_ptr_nonnull(experts);
    ck_assert(experts[-1].dst == KRN_BUF_R && experts[-2].kind == KRN_OP_NORM);
    for (uint32_t v = 1; v <= 8; v *= 2) {
        struct krn_profile profile;
        struct krn_oracle *o, *before;
        ck_assert_int_eq(krn_profile_portable(&config, v, &profile, &note), STATUS_OK);
        ck_assert_int_eq(krn_oracle_open(&net, &profile, TOKENS, &o, &note), STATUS_OK);
        ck_assert_int_eq(krn_oracle_open(&bare, &profile, TOKENS, &before, &note), STATUS_OK);
        for (uint32_t t = 0; t < TOKENS; t++) {
            double h[HIDDEN], want[HIDDEN];
            float normed[HIDDEN];
            ck_assert(krn_oracle_feed(o, t * 3 % VOCAB, NULL));
            ck_assert(krn_oracle_feed(before, t * 3 % VOCAB, NULL));
            const float *x = krn_oracle_hidden(before, 1), *y = krn_oracle_hidden(o, 1);
            krn_oracle_norm(x, experts[-2].w, normed, HIDDEN, config.norm_eps);
            for (uint32_t i = 0; i < HIDDEN; i++) {
                h[i] = (double)normed[i];
                want[i] = (double)x[i];
            }
            layer64(&experts[-1], experts, h, want);
            for (uint32_t i = 0; i < HIDDEN; i++)
                ck_assert_double_le(fabs((double)y[i] - want[i]), 4e-6);
        }
        krn_oracle_close(o);
        krn_oracle_close(before);
    }
    krn_net_free(&net);
    krn_net_free(&bare);
    krn_model_close(model);
    krn_model_close(twin);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("experts");
    TCase *tc = tcase_create("experts");
    tcase_add_test(tc, every_count);
    tcase_add_test(tc, ties_go_to_the_lower);
    tcase_add_test(tc, rows_that_are_not_finite);
    tcase_add_loop_test(tc, a_layer_in_fp64, 0, 11);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
