/* SPDX-License-Identifier: Apache-2.0
 * Slots, drafts, admission checks, policies and plan building: the pure parts of lanes/.
 */
#include <math.h>
#include <string.h>

#include "lanes/admit.h"
#include "lanes/draft.h"
#include "lanes/planner_policy.h"
#include "lanes/round.h"
#include "tests/harness.h"

static struct lane_shared round_shared = {.context = 200, .vocab = 50, .page_tokens = 16};

static struct lane_request round_request(const uint32_t *prompt, uint32_t n) {
    return (struct lane_request){
        .id = 5,
        .client = 1,
        .prompt = prompt,
        .n_prompt = n,
        .max_tokens = 20,
        .sampling = {.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f}};
}

START_TEST(slot_counts_follow_the_ids) {
    struct lane_slot *slots;
    uint32_t prompt[] = {3, 4, 3, 3, 9};
    ck_assert_int_eq(lane_slots_open(&round_shared, 3, &slots, NULL), STATUS_OK);
    struct lane_slot *s = &slots[2];
    struct lane_request r = round_request(prompt, 5);
    r.sampling.frequency = 0.5f;
    for (uint32_t again = 0; again < 2; again++) { /* a cleared slot starts afresh */
        lane_slot_fill(s, &r);
        lane_slot_append(s, 4);
        lane_slot_append(s, 11);
        ck_assert_uint_eq(s->n_counts, 4);
        struct krn_count want[] = {{3, 3, 0}, {4, 1, 1}, {9, 1, 0}, {11, 0, 1}};
        ck_assert_mem_eq(s->counts, want, sizeof want);
        ck_assert_uint_eq(lane_slot_name(s) >> 32, again + 1);
        lane_slot_clear(s);
    }
    for (uint32_t i = 0; i < round_shared.vocab; i++)
        ck_assert_uint_eq(s->count_at[i], 0);
    lane_slots_close(slots, 3);
}
END_TEST

START_TEST(slot_cuts_max_tokens_to_the_context) {
    struct lane_slot *slots;
    uint32_t prompt[190] = {0};
    ck_assert_int_eq(lane_slots_open(&round_shared, 1, &slots, NULL), STATUS_OK);
    struct lane_request r = round_request(prompt, 190);
    uint64_t asked[] = {1, 9, 10, 11, UINT32_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < 6; i++) {
        r.max_tokens = asked[i];
        lane_slot_fill(slots, &r);
        ck_assert_uint_eq(slots->new_max, asked[i] < 10 ? asked[i] : 10);
        ck_assert_int_eq(slots->context_bound, asked[i] > 10);
        lane_slot_clear(slots);
    }
    lane_slots_close(slots, 1);
}
END_TEST

/* The naive search: the latest earlier place of the last three, else two, ids. */
static uint32_t draft_naive(const uint32_t *ids, uint32_t n, uint32_t max, uint32_t *out) {
    for (uint32_t gram = 3; gram >= 2; gram--)
        for (uint32_t at = n - 1; n > gram && at >= gram; at--)
            if (memcmp(ids + at - gram, ids + n - gram, gram * sizeof(uint32_t)) == 0) {
                for (uint32_t k = 0; k < max; k++)
                    out[k] = at + k < n ? ids[at + k] : out[at + k - n];
                return max;
            }
    return 0;
}

START_TEST(draft_equals_naive_lookup) {
    struct lane_slot *slots;
    ck_assert_int_eq(lane_slots_open(&round_shared, 1, &slots, NULL), STATUS_OK);
    uint64_t x = 3;
    uint32_t found = 0, missed = 0;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t prompt[20];
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t n = 1 + (uint32_t)(x >> 33) % 20, alphabet = 2 + (uint32_t)(x >> 50) % 8;
        for (uint32_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            prompt[i] = (uint32_t)(x >> 33) % alphabet;
        }
        struct lane_request r = round_request(prompt, n);
        r.draft_max = 16;
        lane_slot_fill(slots, &r);
        for (uint32_t k = 0; k < 60; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t want[16], max = (uint32_t)(x >> 40) % 17;
            uint32_t n_want = draft_naive(slots->ids, slots->n, max, want);
            uint32_t got = lane_draft_propose(slots, max);
            if (max == 0) {
                ck_assert_uint_eq(got, 0);
            } else if (got != n_want ||
                       memcmp(slots->ids + slots->n, want, got * sizeof(uint32_t)) != 0) {
                missed++; /* a hash slot taken by another gram costs a guess, never a token */
            } else {
                found += got > 0;
            }
            lane_slot_append(slots, (uint32_t)(x >> 20) % alphabet);
        }
        lane_slot_clear(slots);
    }
    ck_assert_uint_gt(found, 5000);
    ck_assert_uint_lt(missed, found / 50);
    lane_slots_close(slots, 1);
}
END_TEST

START_TEST(admit_refuses_by_name_before_work) {
    struct lane_admit_limits limits = {
        .context = 200, .vocab = 50, .page_tokens = 16, .pages_total = 12};
    uint32_t prompt[200] = {1, 2, 49};
    struct lane_request good = round_request(prompt, 3), r;
    ck_assert_int_eq(lane_admit_check(&good, &limits).status, STATUS_OK);
#define REFUSED(change, expected)                                                                  \
    r = good;                                                                                      \
    change;                                                                                        \
    ck_assert_int_eq(lane_admit_check(&r, &limits).status, expected)
    REFUSED(r.n_prompt = 0, STATUS_EMPTY_PROMPT);
    REFUSED(r.prompt = NULL, STATUS_EMPTY_PROMPT);
    REFUSED(r.n_prompt = 200, STATUS_PROMPT_TOO_LONG);
    REFUSED(r.n_prompt = UINT32_MAX, STATUS_PROMPT_TOO_LONG);
    REFUSED(r.max_tokens = 0, STATUS_BAD_REQUEST);
    REFUSED(r.draft_max = 17, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.temperature = NAN, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.temperature = -1.0f, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.top_p = 1.5f, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.min_p = NAN, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.repetition = 0.0f, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.presence = INFINITY, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.frequency = NAN, STATUS_BAD_REQUEST);
    REFUSED(r.sampling.n_top = 21, STATUS_BAD_REQUEST);
    REFUSED(r.n_bias = 301, STATUS_BAD_REQUEST);
    REFUSED(r.n_stops = 17, STATUS_BAD_REQUEST);
    REFUSED(r.flags = LANE_FIRST_LOGITS, STATUS_BAD_REQUEST);
    struct krn_bias bias = {.id = 50};
    REFUSED((r.bias = &bias, r.n_bias = 1), STATUS_BAD_TOKEN);
    struct lane_stop stop = {.bytes = 0};
    REFUSED((r.stops = &stop, r.n_stops = 1), STATUS_BAD_REQUEST);
    REFUSED(r.max_tokens = UINT64_MAX, STATUS_NO_PAGES); /* 200 tokens need 13 of 12 pages */
    limits.pages_total = 13;
    REFUSED(r.max_tokens = UINT64_MAX, STATUS_OK);
    prompt[1] = 50;
    struct lane_refusal bad = lane_admit_check(&good, &limits);
    ck_assert_int_eq(bad.status, STATUS_BAD_TOKEN);
    ck_assert_uint_eq(bad.value, 50);
    struct status_note note;
    lane_refusal_say(&bad, &note);
    ck_assert_str_eq(note.text, "token id 50 is outside the vocabulary of 50");
#undef REFUSED
}
END_TEST

START_TEST(policy_keeps_decodes_and_ages_prompts) {
    struct lane_policy_want want[5] = {
        {.slot = 0, .kind = LANE_WANT_PROMPT, .rows = 1000, .arrived = 1},
        {.slot = 1, .kind = LANE_WANT_DECODE, .rows = 1, .arrived = 2},
        {.slot = 2, .kind = LANE_WANT_VERIFY, .rows = 9, .arrived = 3},
        {.slot = 3, .kind = LANE_WANT_PROMPT, .rows = 30, .arrived = 4, .priority = 2},
        {.slot = 4, .kind = LANE_WANT_PROMPT, .rows = 500, .arrived = 5, .rounds_waited = 9}};
    uint32_t rows[5], order[5];
    struct lane_policy_view view = {
        .round_tokens = 100, .piece_tokens = 64, .prefill_share = 50, .n = 5, .want = want};
    lane_policy_default.decide(NULL, &view, rows, order);
    ck_assert_uint_eq(rows[1], 1);
    ck_assert_uint_eq(rows[2], 9);
    ck_assert_uint_eq(rows[4], 50); /* aged: before priority; the share of prompts is used up */
    ck_assert_uint_eq(rows[3], 0);
    ck_assert_uint_eq(rows[0], 0);
    want[0].rounds_waited = want[3].rounds_waited = 8;
    lane_policy_default.decide(NULL, &view, rows, order);
    ck_assert_uint_gt(rows[0], 0); /* nobody waits without bound */
    ck_assert_uint_gt(rows[3], 0);
    ck_assert_uint_gt(rows[4], 0);
}
END_TEST

START_TEST(policy_random_is_a_permutation_with_nonsense_sizes) {
    uint64_t seed = 9;
    struct lane_policy p = lane_policy_random(&seed);
    struct lane_policy_want want[20];
    memset(want, 0, sizeof want);
    for (uint32_t i = 0; i < 20; i++)
        want[i].rows = 1 + i * 3;
    struct lane_policy_view view = {.n = 20, .want = want};
    uint32_t rows[20], order[20], omitted = 0, over = 0;
    for (uint32_t k = 0; k < 500; k++) {
        p.decide(p.self, &view, rows, order);
        uint32_t seen = 0;
        for (uint32_t i = 0; i < 20; i++) {
            seen |= 1u << order[i];
            omitted += rows[i] == 0;
            over += rows[i] > want[i].rows;
        }
        ck_assert_uint_eq(seen, 0xfffff);
    }
    ck_assert(omitted > 500 && over > 100);
}
END_TEST

START_TEST(round_plan_says_what_the_entries_say) {
    struct lane_slot *slots;
    uint32_t prompt[] = {3, 4, 5, 6, 7, 8, 9};
    ck_assert_int_eq(lane_slots_open(&round_shared, 3, &slots, NULL), STATUS_OK);
    struct lane_request r = round_request(prompt, 7);
    uint32_t mask[2] = {0xff, 1};
    struct krn_bias bias[2] = {{3, 1.0f}, {4, -1.0f}};
    lane_slot_fill(&slots[0], &r);
    r.sampling.repetition = 1.2f;
    r.bias = bias;
    r.n_bias = 2;
    r.mask = mask;
    lane_slot_fill(&slots[1], &r);
    lane_slot_append(&slots[1], 20);
    slots[1].ids[8] = 21; /* two drafts */
    slots[1].ids[9] = 22;
    uint32_t pages[3][2] = {{11, 12}, {13, 14}, {15, 16}};
    struct lane_round_entry e[2] = {
        {.slot = &slots[0],
         .pages = pages[0],
         .first_pos = 2,
         .n_rows = 5,
         .n_draws = 1,
         .copy = {.src = 9, .dst = 11, .tokens = 2}},
        {.slot = &slots[1], .pages = pages[1], .first_pos = 7, .n_rows = 3, .n_draws = 3}};
    struct gpu_limits limits = {.rows = 8,
                                .seqs = 2,
                                .draws = 4,
                                .copies = 1,
                                .pages = 2,
                                .counts = 8,
                                .bias = 2,
                                .mask_words = 2,
                                .vocab = 50};
    ck_assert(lane_round_fits(e, 2, &limits));
    limits.rows = 7;
    ck_assert(!lane_round_fits(e, 2, &limits));
    limits.rows = 8;
    struct gpu_round *g;
    ck_assert_int_eq(gpu_round_new(&limits, 1, &g), STATUS_OK);
    lane_round_build(g->plan, e, 2, 16, 0);
    gpu_plan_seal(g->plan, 1, 0);
    struct status_note note;
    ck_assert_msg(gpu_plan_check(g->plan, g->plan->bytes, 1, 0, &limits, 100, &note) == STATUS_OK,
                  "%s", note.text);
    const struct gpu_row *rows = gpu_plan_rows(g->plan);
    uint32_t want[] = {5, 6, 7, 8, 9, 20, 21, 22};
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(rows[i].token, want[i]);
    const struct gpu_draw *d = gpu_plan_draws(g->plan);
    ck_assert_uint_eq(d[0].row, 4);
    ck_assert_uint_eq(d[0].n_counts, 0);
    for (uint32_t i = 1; i < 4; i++) {
        ck_assert_uint_eq(d[i].row, 4 + i);
        ck_assert_uint_eq(d[i].extra_row,
                          6); /* the first draft; none for the pending token's own row */
        ck_assert_uint_eq(d[i].n_counts, 8);
        ck_assert_uint_eq(d[i].n_bias, 2);
        ck_assert_uint_eq(d[i].mask, 0);
    }
    /* A row planned ahead counts its own token, which nobody knows yet. */
    struct lane_round_entry ahead = {.slot = &slots[1],
                                     .pages = pages[1],
                                     .first_pos = 8,
                                     .n_rows = 1,
                                     .n_draws = 1,
                                     .from_draw = true};
    struct gpu_round *g2;
    ck_assert_int_eq(gpu_round_new(&limits, 1, &g2), STATUS_OK);
    lane_round_build(g2->plan, &ahead, 1, 16, GPU_PLAN_AHEAD);
    ck_assert_uint_eq(gpu_plan_rows(g2->plan)[0].flags, GPU_ROW_FROM_DRAW);
    ck_assert_uint_eq(gpu_plan_draws(g2->plan)[0].row, 0);
    ck_assert_uint_eq(gpu_plan_draws(g2->plan)[0].extra_row, 0);
    gpu_round_free(g2);
    ck_assert_uint_eq(gpu_plan_copies(g->plan)[0].src, 9);
    ck_assert_uint_eq(gpu_plan_seqs(g->plan)[0].n_pages, 1);
    ck_assert_uint_eq(gpu_plan_pages(g->plan)[gpu_plan_seqs(g->plan)[1].first_page], 13);
    gpu_round_free(g);
    lane_slots_close(slots, 3);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("round");
    TCase *tc = tcase_create("round");
    tcase_add_test(tc, slot_counts_follow_the_ids);
    tcase_add_test(tc, slot_cuts_max_tokens_to_the_context);
    tcase_add_test(tc, draft_equals_naive_lookup);
    tcase_add_test(tc, admit_refuses_by_name_before_work);
    tcase_add_test(tc, policy_keeps_decodes_and_ages_prompts);
    tcase_add_test(tc, policy_random_is_a_permutation_with_nonsense_sizes);
    tcase_add_test(tc, round_plan_says_what_the_entries_say);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
