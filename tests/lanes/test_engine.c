/* SPDX-License-Identifier: Apache-2.0
 * The whole engine on the model that ships: resumed at every offset, windows that end early,
 * cancels, bad rows, failed rounds, budgets. The reference of every check is the same request
 * alone, fresh and without drafts.
 */
#include <string.h>
#include <unistd.h>

#include "kernels/oracle.h"
#include "lanes/journal.h"
#include "tests/lanes/engine_calls.h"

/* Of n cases that are alike, fewer where each costs much: sanitizers, emulators. */
static uint32_t engine_cases(uint32_t n, uint32_t small) {
    const char *scale = getenv("RH_TEST_SCALE");
    return scale != NULL && strcmp(scale, "small") == 0 ? small : n;
}

START_TEST(engine_resumes_at_every_offset) {
    enum { P = 150 };
    static uint32_t prompt[P + 1][P + 3];
    const uint32_t step = engine_cases(1, 9),
                   from = step / 9; /* 64 and 127 are always among them */
    struct lane_engine_config config = engine_config();
    struct engine_test *t = engine_open(&config), *fresh = engine_open(&config);
    engine_fill(prompt[P], P, 1);
    engine_add(t, prompt[P], P, 3);
    for (uint32_t k = from; k < P; k += step) { /* the first k tokens are known, then another */
        memcpy(prompt[k], prompt[P], k * sizeof(uint32_t));
        prompt[k][k] = 4050;
        prompt[k][k + 1] = 4051;
        engine_add(t, prompt[k], k + 2, 3);
        engine_add(fresh, prompt[k], k + 2, 3)->request.flags |= LANE_NO_REUSE | LANE_NO_KEEP;
    }
    engine_run(t, 1);
    engine_run(fresh, 1);
    for (uint32_t k = from, i = 0; k < P; k += step, i++) {
        const struct client_call *c = &t->call[i + 1];
        ck_assert_uint_eq(c->n_resumed, k);
        ck_assert_uint_eq(c->rows,
                          2 + c->n_new - 1); /* prompt less prefix, and each token but the last */
        ck_assert_uint_eq(fresh->call[i].n_resumed, 0);
        ck_assert_uint_eq(fresh->call[i].rows, k + 2 + fresh->call[i].n_new - 1);
        engine_same(t, i + 1, fresh, i);
    }
    engine_free(t);
    engine_free(fresh);
}
END_TEST

START_TEST(engine_computes_one_row_of_a_known_prompt) {
    static uint32_t prompt[200], longer[280];
    struct lane_engine_config config = engine_config();
    uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 200};
    engine_fill(prompt, 200, 2);
    for (uint32_t i = 0; i < 9; i += engine_cases(1, 2)) { /* 63 and 65 are always among them */
        struct engine_test *t = engine_open(&config), *fresh = engine_open(&config);
        uint32_t n = sizes[i];
        for (uint32_t again = 0; again < 3; again++)
            engine_add(t, prompt, n, 20)->request.flags |= LANE_IGNORE_EOS;
        engine_add(fresh, prompt, n, 20)->request.flags |= LANE_IGNORE_EOS | LANE_NO_REUSE;
        engine_run(t, 1);
        ck_assert_uint_eq(t->call[0].n_resumed, 0);
        for (uint32_t again = 1; again < 3; again++) {
            ck_assert_uint_eq(t->call[again].n_resumed, n - 1);
            ck_assert_uint_eq(t->call[again].rows, 20);
        }
        engine_run(fresh, 1);
        for (uint32_t again = 0; again < 3; again++)
            engine_same(t, again, fresh, 0);
        /* Reply rows are prompt rows of the next turn: all but the last token, whose row was never
         * computed. */
        memcpy(longer, prompt, n * sizeof(uint32_t));
        memcpy(longer + n, t->ids[0], 20 * sizeof(uint32_t));
        engine_fill(longer + n + 20, 5, 77);
        struct engine_test *turn = engine_open(&config), *alone = engine_open(&config);
        engine_add(turn, prompt, n, 20)->request.flags |= LANE_IGNORE_EOS;
        engine_add(turn, longer, n + 25, 20)->request.flags |= LANE_IGNORE_EOS;
        engine_add(alone, longer, n + 25, 20)->request.flags |= LANE_IGNORE_EOS;
        engine_run(turn, 1);
        engine_run(alone, 1);
        ck_assert_uint_eq(turn->call[1].n_resumed, n + 19);
        engine_same(turn, 1, alone, 0);
        engine_free(turn);
        engine_free(alone);
        engine_free(t);
        engine_free(fresh);
    }
}
END_TEST

START_TEST(engine_windows_end_where_single_tokens_end) {
    /* Drafted and undrafted runs that end by context, by length and by EOS. */
    static uint32_t prompt[6][100];
    struct lane_engine_config config = engine_config();
    config.context = 128;
    config.kv_bytes = 64u << 20;
    struct engine_test *t = engine_open(&config), *plain = engine_open(&config);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t n = 90 + i;
        for (uint32_t k = 0; k < n; k++) /* repeats, so that drafts are made and come true */
            prompt[i][k] = 300 + k % (3 + i);
        for (uint32_t d = 0; d < 2; d++) {
            struct client_call *c =
                engine_add(d == 0 ? plain : t, prompt[i], n, i < 3 ? 1u << 30 : 20 + i);
            c->request.flags |= i % 2 == 0 ? (uint32_t)LANE_IGNORE_EOS : 0u;
            c->request.draft_max = d == 0 ? 0 : 16;
            c->request.draft_fixed = true;
        }
    }
    engine_run(t, 1);
    engine_run(plain, 1);
    uint32_t drafted = 0, accepted = 0;
    for (uint32_t i = 0; i < 6; i++) {
        engine_same(t, i, plain, i);
        drafted += t->call[i].drafted;
        accepted += t->call[i].accepted;
        if (i % 2 == 0)
            ck_assert_int_eq(t->call[i].end, i < 3 ? LANE_END_CONTEXT : LANE_END_LENGTH);
        if (t->call[i].end == LANE_END_CONTEXT)
            ck_assert_uint_eq(t->call[i].n_new, 128 - (90 + i));
    }
    ck_assert(drafted > 100 && accepted > 20);
    engine_free(t);
    engine_free(plain);
}
END_TEST

static void engine_stop_at(struct client_call *c, const char *text, struct lane_stop *stop) {
    stop->bytes = (uint32_t)strlen(text);
    memcpy(stop->text, text, stop->bytes);
    c->request.stops = stop;
    c->request.n_stops = 1;
    c->request.flags = LANE_IGNORE_EOS;
}

START_TEST(engine_stop_strings_cut_the_text_and_not_the_memory) {
    struct lane_engine_config config = engine_config();
    struct engine_test *t = engine_open(&config);
    uint32_t *prompt = NULL, n = 0, capacity = 0;
    const char *text = "Once upon a time there was a little bear who";
    ck_assert_int_eq(lane_tokenizer_encode(lane_engine_tokenizer(t->engine), text, strlen(text),
                                           LANE_ENCODE_BOS, 0, &prompt, &n, &capacity, NULL),
                     STATUS_OK);
    static struct lane_stop stop[4];
    static const char *const stops[] = {" He", "ig", "forest. He", "d a big, st"};
    engine_add(t, prompt, n, ENGINE_NEW)->request.flags = LANE_IGNORE_EOS;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t d = 0; d < 2; d++) {
            struct client_call *c = engine_add(t, prompt, n, ENGINE_NEW);
            engine_stop_at(c, stops[i], &stop[i]);
            c->request.draft_max = d * 16;
            c->request.draft_fixed = true;
        }
    engine_add(t, prompt, n, ENGINE_NEW)->request.flags = LANE_IGNORE_EOS; /* after all of them */
    engine_run(t, 1);
    const char *whole = t->call[0].text;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t d = 0; d < 2; d++) {
            const struct client_call *c = &t->call[1 + i * 2 + d];
            const char *at = strstr(whole, stops[i]);
            ck_assert_ptr_nonnull(at);
            ck_assert_int_eq(c->end, LANE_END_STOP);
            ck_assert_uint_eq(c->text_bytes, (size_t)(at - whole));
            ck_assert_mem_eq(c->text, whole, c->text_bytes);
            ck_assert_mem_eq(c->ids, t->ids[0], c->n_new * sizeof(uint32_t));
        }
    engine_same(t, 9, t, 0);
    ck_assert_str_eq(t->call[9].text, whole);
    free(prompt);
    engine_free(t);
}
END_TEST

static void engine_faults(void *self, const struct gpu_plan *plan, struct gpu_faults *faults) {
    uint64_t *state = self;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    if ((plan->flags & GPU_PLAN_ALONE) == 0 && (*state >> 33) % 5 == 0)
        faults->step_fails = true;
}

START_TEST(engine_trouble_leaves_the_others_alone) {
    static uint32_t prompt[40][60];
    uint64_t seed = 4;
    struct lane_engine_config config = engine_config(), troubled = config;
    uint64_t policy_seed = 8;
    struct lane_policy random = lane_policy_random(&policy_seed);
    troubled.before_step = engine_faults;
    troubled.before_step_self = &seed;
    troubled.policy = &random;
    for (uint32_t ahead = 0; ahead < 2; ahead++) {
        troubled.ahead = troubled.rank_thread = ahead;
        struct engine_test *plain = engine_open(&config), *t = engine_open(&troubled);
        t->cancel_every = 4;
        for (uint32_t i = 0; i < 40; i++) {
            engine_fill(prompt[i], 60, i);
            for (uint32_t d = 0; d < 2; d++) {
                struct client_call *c =
                    engine_add(d == 0 ? plain : t, prompt[i], 1 + i * 59 / 40, 16);
                c->request.flags |= LANE_IGNORE_EOS;
                c->request.sampling.temperature = i % 2 ? 0.8f : 0.0f;
                c->request.sampling.frequency = i % 3 ? 0.0f : 0.4f;
                c->request.sampling.seed = i;
                c->request.draft_max = d * (i % 5) * 4;
            }
        }
        engine_run(plain, 1);
        engine_run(t, 12);
        uint32_t cancelled = 0;
        for (uint32_t i = 0; i < 40; i++) {
            const struct client_call *c = &t->call[i];
            cancelled += c->end == LANE_END_CANCELLED;
            if (c->end != LANE_END_CANCELLED)
                engine_same(t, i, plain, i);
            else
                ck_assert_mem_eq(c->ids, plain->ids[i], c->n_new * sizeof(uint32_t));
            ck_assert_int_ne(c->end, LANE_END_FAILED);
        }
        ck_assert_uint_gt(cancelled, 2);
        engine_free(plain);
        engine_free(t);
    }
}
END_TEST

static void engine_nan(void *self, const struct gpu_plan *plan, struct gpu_faults *faults) {
    const struct gpu_seq *seqs = gpu_plan_seqs(plan);
    for (uint32_t i = 0; i < plan->n_seqs; i++)
        if (seqs[i].request == *(const uint64_t *)self && seqs[i].first_pos >= 30) {
            faults->nan_row = true;
            faults->nan_slot = seqs[i].slot;
        }
}

START_TEST(engine_bad_row_ends_its_own_lane_and_is_never_cached) {
    static uint32_t prompt[3][30];
    uint64_t victim = 2;
    struct lane_engine_config config = engine_config(), bad = config;
    bad.before_step = engine_nan;
    bad.before_step_self = &victim;
    struct engine_test *plain = engine_open(&config), *t = engine_open(&bad);
    for (uint32_t i = 0; i < 3; i++) {
        engine_fill(prompt[i], 30, 40 + i);
        engine_add(plain, prompt[i], 30, 12)->request.flags |= LANE_IGNORE_EOS;
        engine_add(t, prompt[i], 30, 12)->request.flags |= LANE_IGNORE_EOS;
    }
    engine_add(t, prompt[1], 30, 12)->request.flags |= LANE_IGNORE_EOS; /* the same again: fine */
    engine_run(plain, 1);
    engine_run(t, 3);
    ck_assert_int_eq(t->call[1].end, LANE_END_FAILED);
    ck_assert_int_eq(t->call[1].status, STATUS_NOT_FINITE);
    engine_same(t, 0, plain, 0);
    engine_same(t, 2, plain, 2);
    engine_same(t, 3, plain, 1);
    engine_free(plain);
    engine_free(t);
}
END_TEST

/* A draft's row is not finite, in every window: what was drawn before it stands, and its lane goes
 * on as it would have without drafts. */
static void engine_nan_draft(void *self, const struct gpu_plan *plan, struct gpu_faults *faults) {
    const struct gpu_seq *seqs = gpu_plan_seqs(plan);
    uint64_t *n = self;
    for (uint32_t i = 0; i < plan->n_seqs; i++)
        if (seqs[i].n_rows > 1 && seqs[i].n_draws == seqs[i].n_rows) {
            faults->nan_row = true;
            faults->nan_slot = seqs[i].slot;
            faults->nan_at = 1 + (uint32_t)(++*n % (seqs[i].n_rows - 1));
            return;
        }
}

START_TEST(engine_bad_row_of_a_draft_ends_nobody) {
    static uint32_t prompt[4][60];
    uint64_t windows = 0;
    struct lane_engine_config config = engine_config(), bad = config;
    bad.before_step = engine_nan_draft;
    bad.before_step_self = &windows;
    struct engine_test *plain = engine_open(&config), *t = engine_open(&bad);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < 60; k++)
            prompt[i][k] = 300 + k % (3 + i);
        engine_add(plain, prompt[i], 60, 40)->request.flags |= LANE_IGNORE_EOS;
        struct client_call *c = engine_add(t, prompt[i], 60, 40);
        c->request.flags |= LANE_IGNORE_EOS;
        c->request.draft_max = 8;
        c->request.draft_fixed = true;
    }
    engine_run(plain, 1);
    engine_run(t, 4);
    for (uint32_t i = 0; i < 4; i++)
        engine_same(t, i, plain, i);
    ck_assert_uint_gt(windows, 10);
    engine_free(plain);
    engine_free(t);
}
END_TEST

static void engine_silence(void *self, const struct gpu_plan *plan, struct gpu_faults *faults) {
    (void)self;
    if (plan->number == 5)
        faults->slow_ns = 3600000000000u;
}

/* A rank that falls silent loses the engine: everybody is told so, those that come later too. */
START_TEST(engine_silent_rank_is_a_lost_device) {
    static const uint32_t prompt[8] = {2, 3, 4, 5, 6, 7, 8, 9};
    struct act_rt_config rc = {.port = ACT_PORT_SIM,
                               .workers = 1,
                               .actors_max = 64,
                               .messages_max = 8192,
                               .timers_max = 64,
                               .seed = 1};
    struct act_rt *rt;
    struct status_note note;
    ck_assert_int_eq(act_rt_open(&rc, &rt, &note), STATUS_OK);
    struct lane_engine_config config = {.fake = true,
                                        .fake_vocab = 64,
                                        .fake_context = 64,
                                        .fake_step_ns = 1000,
                                        .rt = rt,
                                        .world = 2,
                                        .lanes_max = 2,
                                        .queue_max = 4,
                                        .before_step = engine_silence};
    struct engine_test *t = engine_open(&config);
    for (uint32_t i = 0; i < 4; i++)
        engine_add(t, prompt, 8, 20)->request.flags |= LANE_IGNORE_EOS;
    engine_run(t, 2);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(t->call[i].end, LANE_END_FAILED);
        ck_assert_int_eq(t->call[i].status, STATUS_DEVICE);
        ck_assert_int_eq(t->call[i].refused, i >= 2);
    }
    engine_free(t);
    act_rt_close(rt);
}
END_TEST

START_TEST(engine_refusals_disturb_nobody) {
    static uint32_t prompt[300], bad[300];
    struct lane_engine_config config = engine_config();
    config.context = 256;
    config.kv_bytes = 3u * 400000u; /* two pages and a bit: 128 tokens */
    config.lanes_max = 1;
    config.queue_max = 2;
    struct engine_test *t = engine_open(&config);
    engine_fill(prompt, 300, 3);
    memcpy(bad, prompt, sizeof bad);
    bad[7] = 4096;
    engine_add(t, prompt, 40, 10);
    engine_add(t, prompt, 0, 10);
    engine_add(t, prompt, 256, 10);
    engine_add(t, bad, 20, 10);
    engine_add(t, prompt, 20, 0);
    engine_add(t, prompt, 200, 10);
    engine_add(t, prompt, 30, 10);
    engine_add(t, prompt, 20, 10);
    engine_add(t, prompt, 10, 10); /* running, two waiting: no room */
    engine_run(t, 9);
    static const enum status want[] = {
        STATUS_OK,        STATUS_EMPTY_PROMPT, STATUS_PROMPT_TOO_LONG,
        STATUS_BAD_TOKEN, STATUS_BAD_REQUEST,  STATUS_NO_PAGES,
        STATUS_OK,        STATUS_OK,           STATUS_QUEUE_FULL};
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_int_eq(t->call[i].status, want[i]);
        ck_assert_int_eq(t->call[i].refused, want[i] != STATUS_OK);
    }
    ck_assert_uint_gt(t->call[0].n_new, 0);
    engine_free(t);
}
END_TEST

START_TEST(engine_small_budget_serves_all_in_turn) {
    static uint32_t prompt[60][90];
    struct lane_engine_config config = engine_config(), tight = config;
    tight.kv_bytes = 6u * 400000u;
    struct engine_test *plain = engine_open(&config), *t = engine_open(&tight);
    for (uint32_t i = 0; i < 60; i++) {
        engine_fill(prompt[i], 90, i / 3);
        prompt[i][20 + i % 3] = 9;
        engine_add(plain, prompt[i], 30 + i, 8)->request.flags |= LANE_IGNORE_EOS | LANE_NO_REUSE;
        engine_add(t, prompt[i], 30 + i, 8)->request.flags |= LANE_IGNORE_EOS;
    }
    engine_run(plain, 1);
    engine_run(t, 60);
    for (uint32_t i = 0; i < 60; i++)
        engine_same(t, i, plain, i);
    engine_free(plain);
    engine_free(t);
}
END_TEST

/* Every draw setting through the whole engine against the oracle: bias, mask, penalties,
 * thresholds, logprobs, first logits. */
START_TEST(engine_draws_what_the_oracle_draws) {
    enum { CASES = 24, NEW = 14 };
    static uint32_t prompt[CASES][30], mask[4096 / 32];
    static struct krn_bias bias[3];
    static float first[2][CASES][4096];
    const uint32_t cases = engine_cases(CASES, 8); /* each setting once at least */
    struct lane_engine_config config = engine_config();
    struct engine_test *t = engine_open(&config);
    float logprob[CASES][NEW + 16];
    for (uint32_t w = 0; w < 4096 / 32; w++)
        mask[w] = 0x5a5a5a5a ^ w * 2654435761u;
    for (uint32_t i = 0; i < cases; i++) {
        engine_fill(prompt[i], 30, 900 + i);
        struct client_call *c = engine_add(t, prompt[i], 6 + i, NEW);
        c->logprobs = logprob[i];
        c->request.flags |= LANE_IGNORE_EOS | LANE_FIRST_LOGITS;
        c->request.first_logits = first[0][i];
        c->request.draft_max = i % 4 * 4;
        bias[0] = (struct krn_bias){300, 4.0f};
        bias[1] = (struct krn_bias){301, 3.5f};
        bias[2] = (struct krn_bias){17, -50.0f};
        if (i % 2) {
            c->request.bias = bias;
            c->request.n_bias = 3;
        }
        if (i % 3 == 1)
            c->request.mask = mask;
        c->request.sampling =
            (struct krn_sampling){.temperature = i % 4 ? 0.3f * (float)(i % 5) : 0.0f,
                                  .top_k = i % 5 == 2 ? 12 : 0,
                                  .top_p = i % 5 == 3 ? 0.8f : 1.0f,
                                  .min_p = i % 5 == 4 ? 0.05f : 0.0f,
                                  .repetition = i % 7 == 1 ? 1.3f : 1.0f,
                                  .presence = i % 7 == 2 ? 0.6f : 0.0f,
                                  .frequency = i % 7 == 3 ? 0.4f : 0.0f,
                                  .n_top = i % 6,
                                  .seed = i * 77,
                                  .flags = KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS};
    }
    struct krn_oracle *o;
    struct status_note note;
    static uint32_t want[CASES][NEW];
    static float want_logprob[CASES][NEW];
    ck_assert_int_eq(
        krn_oracle_open(lane_engine_net(t->engine), lane_engine_profile(t->engine), 128, &o, &note),
        STATUS_OK);
    static float logits[4096];
    for (uint32_t i = 0; i < cases; i++) {
        const struct lane_request *r = &t->call[i].request;
        uint32_t ids[64], n = r->n_prompt;
        memcpy(ids, r->prompt, n * sizeof ids[0]);
        krn_oracle_reset(o);
        for (uint32_t k = 0; k < n; k++)
            ck_assert(krn_oracle_feed(o, ids[k], logits));
        memcpy(first[1][i], logits, sizeof logits);
        for (uint32_t k = 0; k < NEW; k++) {
            struct krn_drawn d;
            krn_oracle_draw(logits, 4096, &r->sampling, ids, n, r->n_prompt, r->bias, r->n_bias,
                            r->mask, &d);
            want[i][k] = ids[n++] = d.token;
            want_logprob[i][k] = d.logprob;
            if (r->mask != NULL)
                ck_assert(r->mask[d.token / 32] >> (d.token % 32) & 1);
            ck_assert(krn_oracle_feed(o, d.token, logits));
        }
    }
    krn_oracle_close(o);
    engine_run(t, 7);
    for (uint32_t i = 0; i < cases; i++) {
        ck_assert_uint_eq(t->call[i].n_new, NEW);
        ck_assert_mem_eq(t->ids[i], want[i], sizeof want[i]);
        ck_assert_mem_eq(logprob[i], want_logprob[i], sizeof want_logprob[i]);
        ck_assert_mem_eq(first[0][i], first[1][i], sizeof first[0][i]);
    }
    engine_free(t);
}
END_TEST

/* Two tokens that bias puts above all others and a frequency penalty keeps level: every draw
 * depends on the count of the token just before it, which a row planned ahead or behind a draft
 * learns on the device only. */
START_TEST(engine_counts_the_pending_token) {
    static const struct krn_bias bias[2] = {{300, 1000.0f}, {301, 1000.0f}};
    static uint32_t prompt[20];
    engine_fill(prompt, 20, 6);
    for (uint32_t ahead = 0; ahead < 2; ahead++) {
        struct lane_engine_config config = engine_config();
        config.ahead = config.rank_thread = ahead;
        struct engine_test *t = engine_open(&config);
        for (uint32_t i = 0; i < 4; i++) {
            struct client_call *c = engine_add(t, prompt, 20, 16);
            c->request.flags |= LANE_IGNORE_EOS;
            c->request.bias = bias;
            c->request.n_bias = 2;
            c->request.sampling.frequency = 100.0f;
            c->request.draft_max = i * 5;
            c->request.draft_fixed = true;
        }
        engine_run(t, 2);
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t k = 0, n[2] = {0, 0}; k < 16; k++) {
                ck_assert(t->ids[i][k] == 300 || t->ids[i][k] == 301);
                n[t->ids[i][k] - 300]++;
                ck_assert(n[0] + 1 >= n[1] && n[1] + 1 >= n[0]);
                ck_assert_uint_eq(t->ids[i][k], t->ids[0][k]);
            }
        ck_assert(t->call[3].accepted > 4);
        engine_free(t);
    }
}
END_TEST

/* What the journal says of each lane, in order of the requests. */
struct journal_story {
    uint64_t lane, request;
    uint32_t prompt[64], n_prompt, out[64], n_out, ends, begins;
};

static struct journal_story *story_of(struct journal_story *all, uint32_t n, uint64_t lane) {
    for (uint32_t i = 0; i < n; i++)
        if (all[i].lane == lane)
            return &all[i];
    ck_abort_msg("a record of an unknown lane");
    return NULL;
}

START_TEST(engine_journal_tells_the_whole_story) {
    static uint32_t prompt[12][40];
    static struct journal_story story[12];
    char path[] = "/tmp/roundhouse-journal-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    struct lane_engine_config config = engine_config();
    config.journal_path = path;
    struct engine_test *t = engine_open(&config);
    for (uint32_t i = 0; i < 12; i++) {
        engine_fill(prompt[i], 40, i / 2);
        struct client_call *c = engine_add(t, prompt[i], 20 + i, 10);
        c->request.draft_max = i % 3 * 4;
    }
    engine_run(t, 5);
    struct journal_reader *r;
    struct journal_record rec;
    struct status_note note;
    uint32_t n = 0, plans = 0, rans = 0;
    ck_assert_int_eq(journal_read_open(path, &r, &note), STATUS_OK);
    enum status s;
    while ((s = journal_read_next(r, &rec, &note)) == STATUS_OK) {
        const struct lane_record_ids *ids = rec.payload;
        const uint32_t *list = (const uint32_t *)(ids + 1);
        switch (rec.kind) {
        case LANE_RECORD_request: {
            const struct lane_record_request *q = rec.payload;
            ck_assert_uint_lt(n, 12);
            story[n].lane = q->lane;
            story[n++].request = q->request;
            break;
        }
        case LANE_RECORD_prompt:
        case LANE_RECORD_tokens: {
            struct journal_story *y = story_of(story, n, ids->lane);
            bool reply = rec.kind == LANE_RECORD_tokens;
            uint32_t *at = reply ? &y->n_out : &y->n_prompt;
            ck_assert_uint_eq(ids->first, reply ? y->n_prompt + y->n_out : y->n_prompt);
            memcpy((reply ? y->out : y->prompt) + *at, list, ids->n * sizeof(uint32_t));
            *at += ids->n;
            break;
        }
        case LANE_RECORD_begin:
            story_of(story, n, *(const uint64_t *)rec.payload)->begins++;
            break;
        case LANE_RECORD_end:
            story_of(story, n, *(const uint64_t *)rec.payload)->ends++;
            break;
        case LANE_RECORD_plan:
            plans++;
            break;
        case LANE_RECORD_ran:
            rans++;
            break;
        default:
            break;
        }
    }
    ck_assert_msg(s == STATUS_NOT_FOUND, "%s", note.text);
    ck_assert_uint_eq(journal_read_torn(r), 0);
    journal_read_close(r);
    unlink(path);
    ck_assert_uint_eq(n, 12);
    ck_assert_uint_gt(plans, 10);
    ck_assert_uint_eq(plans, rans);
    for (uint32_t i = 0; i < 12; i++) {
        const struct client_call *c = &t->call[story[i].request - 1];
        ck_assert_uint_eq(story[i].ends, 1);
        ck_assert_uint_eq(story[i].begins, 1);
        ck_assert_uint_eq(story[i].n_prompt, c->request.n_prompt);
        ck_assert_mem_eq(story[i].prompt, c->request.prompt, c->request.n_prompt * 4);
        ck_assert_uint_eq(story[i].n_out, c->n_new);
        ck_assert_mem_eq(story[i].out, c->ids, c->n_new * 4);
    }
    engine_free(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("engine");
    TCase *tc = tcase_create("engine");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, engine_resumes_at_every_offset);
    tcase_add_test(tc, engine_computes_one_row_of_a_known_prompt);
    tcase_add_test(tc, engine_windows_end_where_single_tokens_end);
    tcase_add_test(tc, engine_stop_strings_cut_the_text_and_not_the_memory);
    tcase_add_test(tc, engine_trouble_leaves_the_others_alone);
    tcase_add_test(tc, engine_bad_row_ends_its_own_lane_and_is_never_cached);
    tcase_add_test(tc, engine_bad_row_of_a_draft_ends_nobody);
    tcase_add_test(tc, engine_silent_rank_is_a_lost_device);
    tcase_add_test(tc, engine_refusals_disturb_nobody);
    tcase_add_test(tc, engine_small_budget_serves_all_in_turn);
    tcase_add_test(tc, engine_draws_what_the_oracle_draws);
    tcase_add_test(tc, engine_counts_the_pending_token);
    tcase_add_test(tc, engine_journal_tells_the_whole_story);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
