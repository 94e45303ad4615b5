/* SPDX-License-Identifier: Apache-2.0
 * Acceptance: every way in which a window can end, against a plain model that takes one token at a
 * time.
 */
#include <string.h>

#include "lanes/accept.h"
#include "tests/harness.h"

static const uint32_t accept_eos[] = {7, 9};

/* What one-token-at-a-time decoding would have done with the same draws. */
static struct lane_accept_out accept_model(const struct lane_accept_in *in) {
    struct lane_accept_out out = {0};
    uint32_t left = in->new_left;
    for (uint32_t i = 0;; i++) {
        const struct krn_drawn *d = &in->draws[i];
        if (!d->finite) {
            out.bad = true;
            break;
        }
        out.n_new++;
        left--;
        bool eos = false;
        for (uint32_t k = 0; k < in->n_eos; k++)
            eos = eos || in->eos[k] == d->token;
        if (eos) {
            out.eos = true;
            break;
        }
        if (left == 0) {
            out.full = true;
            break;
        }
        bool next_known = i + 1 < in->n_draws && in->drafts[i] == d->token;
        if (!next_known)
            break;
        out.accepted++;
    }
    return out;
}

START_TEST(accept_equals_one_at_a_time) {
    uint64_t x = 1;
    uint32_t eos = 0, full = 0, bad = 0, all = 0;
    for (uint32_t round = 0; round < 200000; round++) {
        uint32_t drafts[16];
        struct krn_drawn draws[17];
        memset(draws, 0, sizeof draws);
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t n = 1 + (uint32_t)(x >> 33) % 17;
        for (uint32_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            draws[i].token = (uint32_t)(x >> 40) % 10;
            draws[i].finite = (x >> 20) % 64 != 0;
            if (i < 16)
                drafts[i] = (x >> 30) % 4 != 0 ? draws[i].token : (uint32_t)(x >> 50) % 10;
        }
        struct lane_accept_in in = {.drafts = drafts,
                                    .draws = draws,
                                    .n_draws = n,
                                    .new_left = 1 + (uint32_t)(x >> 13) % 20,
                                    .eos = accept_eos,
                                    .n_eos = (x >> 5) % 3};
        struct lane_accept_out got, want = accept_model(&in);
        lane_accept(&in, &got);
        ck_assert_uint_eq(got.n_new, want.n_new);
        ck_assert_uint_eq(got.accepted, want.accepted);
        ck_assert_int_eq(got.eos, want.eos);
        ck_assert_int_eq(got.full, want.full);
        ck_assert_int_eq(got.bad, want.bad);
        ck_assert_uint_le(got.n_new, in.new_left);
        eos += got.eos;
        full += got.full;
        bad += got.bad;
        all += got.accepted == n - 1 && n > 4;
    }
    ck_assert(eos > 100 && full > 100 && bad > 100 && all > 100);
}
END_TEST

START_TEST(accept_nothing_after_eos) {
    uint32_t drafts[] = {3, 7, 4};
    struct krn_drawn draws[] = {{.token = 3, .finite = 1},
                                {.token = 7, .finite = 1},
                                {.token = 4, .finite = 1},
                                {.token = 5, .finite = 1}};
    struct lane_accept_in in = {drafts, draws, 4, 100, accept_eos, 2};
    struct lane_accept_out out;
    lane_accept(&in, &out);
    ck_assert_uint_eq(out.n_new, 2);
    ck_assert(out.eos);
    in.n_eos = 0;
    lane_accept(&in, &out);
    ck_assert_uint_eq(out.n_new, 4);
    ck_assert_uint_eq(out.accepted, 3);
    ck_assert(!out.eos);
}
END_TEST

START_TEST(accept_draft_length_adapts_within_bounds) {
    ck_assert_uint_eq(lane_draft_adapt(4, 4, 4, 16), 6);
    ck_assert_uint_eq(lane_draft_adapt(16, 16, 16, 16), 16);
    ck_assert_uint_eq(lane_draft_adapt(4, 4, 2, 16), 4);
    ck_assert_uint_eq(lane_draft_adapt(4, 4, 1, 16), 2);
    ck_assert_uint_eq(lane_draft_adapt(1, 1, 0, 16), 1);
    ck_assert_uint_eq(lane_draft_adapt(5, 0, 0, 16), 5);
    ck_assert_uint_eq(lane_draft_adapt(3, 3, 3, 3), 3);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("accept");
    TCase *tc = tcase_create("accept");
    tcase_add_test(tc, accept_equals_one_at_a_time);
    tcase_add_test(tc, accept_nothing_after_eos);
    tcase_add_test(tc, accept_draft_length_adapts_within_bounds);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
