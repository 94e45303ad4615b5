/* SPDX-License-Identifier: Apache-2.0
 * The model that ships, through the CPU device or, with RH_CUDA=gpu, on this machine's GPU, against
 * its published float32 outputs: greedy tokens, first logits, perplexity; and the same bits from
 * one, two and four ranks.
 */
#include <math.h>
#include <pthread.h>

#include "fabric/coll_mailbox.h"
#include "tests/cuda/where.h"
#include "tests/gpu/cpu_rig.h"
#include "tests/harness.h"
#include "tests/kernels/reference.h"

enum { ROWS = 250, VOCAB = REFERENCE_VOCAB };

static struct reference *ref;
static struct rig_model m;

static void set_up(void) {
    struct krn_model *model;
    struct status_note note = {{0}};
    ref = reference_open();
    rig_ok(krn_model_open(ref->model_path, &model, &note), &note);
    rig_model_wrap(&m, model, 0);
}

static void tear_down(void) {
    rig_model_close(&m);
    reference_close(ref);
}

/* Computes what is left of a session; the result of the plan that drew the last n_draws rows. */
static struct gpu_result *run_to_end(struct rig *r, struct rig_session *s, uint32_t n_draws) {
    struct gpu_result *result = NULL;
    while (s->done < s->n_ids) {
        uint32_t left = s->n_ids - s->done, rows = left < ROWS ? left : ROWS;
        struct test_seq seq = rig_seq(r, s, rows, rows == left ? n_draws : 0);
        result = rig_step(r, 0, NULL, 0, &seq, 1);
        rig_ok(result->status, &result->note);
        s->done += rows;
    }
    return result;
}

START_TEST(test_greedy_tokens) {
    static struct rig_session s;
    struct rig r;
    uint32_t same = 0, near = 0;
    set_up();
    rig_open(&r, &m, ROWS, 0, NULL);
    for (int p = 0; p < REFERENCE_PROMPTS; p++) {
        const struct reference_prompt *prompt = &ref->prompts[p];
        r.next_page = 1;
        rig_session_begin(&r, &s, 1, prompt->ids, prompt->n_ids);
        s.sampling.flags = KRN_DRAW_KEEP_LOGITS;
        for (int i = 0; i < REFERENCE_STEPS; i++) {
            struct gpu_result *result = run_to_end(&r, &s, 1);
            uint32_t token = result->drawn[0].token;
            if (i == 0)
                for (int v = 0; v < VOCAB; v++)
                    ck_assert_float_le(fabsf(result->logits[v] - prompt->first_logits[v]), 5e-4F);
            bool close = prompt->f32.margin[i] < REFERENCE_MARGIN;
            ck_assert_msg(token == prompt->f32.ids[i] || (close && token == prompt->f32.second[i]),
                          "%s step %d: %u, not %u (margin %g)", prompt->name, i, token,
                          prompt->f32.ids[i], (double)prompt->f32.margin[i]);
            same += token == prompt->f32.ids[i];
            near += close;
            s.ids[s.n_ids++] = prompt->f32.ids[i];
        }
    }
    ck_assert_uint_ge(same + near, REFERENCE_PROMPTS * REFERENCE_STEPS);
    rig_close(&r);
    tear_down();
}
END_TEST

/* -log p of token in the distribution of a logits row. */
static double nll_of(const float *row, uint32_t token) {
    float max = row[0];
    double sum = 0;
    for (int v = 1; v < VOCAB; v++)
        max = row[v] > max ? row[v] : max;
    for (int v = 0; v < VOCAB; v++)
        sum += exp((double)(row[v] - max));
    return log(sum) - (double)(row[token] - max);
}

START_TEST(test_perplexity) {
    static struct rig_session s;
    struct rig r;
    double total = 0;
    uint32_t n = 0, other_top = 0;
    set_up();
    const struct reference_window *w = &ref->windows[0];
    rig_open(&r, &m, ROWS, 0, NULL);
    for (uint32_t row = 0; row < w->rows; row++) {
        r.next_page = 1;
        rig_session_begin(&r, &s, 1, (const uint32_t *)ref->heldout + (size_t)row * w->width,
                          w->width);
        s.sampling.flags = KRN_DRAW_KEEP_LOGITS;
        while (s.done < w->width) {
            struct test_seq seq = rig_seq(&r, &s, ROWS, ROWS);
            struct gpu_result *result = rig_step(&r, 0, NULL, 0, &seq, 1);
            rig_ok(result->status, &result->note);
            for (uint32_t i = 0; i < ROWS && s.done + i + 1 < w->width; i++, n++) {
                size_t at = (size_t)row * (w->width - 1) + s.done + i;
                double nll = nll_of(result->logits + (size_t)i * VOCAB, s.ids[s.done + i + 1]);
                ck_assert_double_le(fabs(nll - (double)w->nll[at]), 5e-3);
                total += nll;
                other_top += result->drawn[i].token != (uint32_t)w->top[at] &&
                             w->margin[at] >= REFERENCE_MARGIN;
            }
            s.done += ROWS;
        }
    }
    ck_assert_uint_eq(n, REFERENCE_HELDOUT - w->rows);
    ck_assert_uint_eq(other_top, 0);
    ck_assert_double_le(fabs(exp(total / n) / exp(w->mean_nll) - 1), 0.005);
    rig_close(&r);
    tear_down();
}
END_TEST

/* One rank of a world, on a thread of its own. */
struct rank_thread {
    pthread_t thread;
    struct gpu_device *device;
    const struct gpu_plan *plan;
    struct gpu_result *result;
};
static void *rank_step(void *arg) {
    struct rank_thread *t = arg;
    uint64_t again;
    t->device->ops->step(t->device, t->plan, t->result);
    while (t->device->ops->poll(t->device, 0, &again) != GPU_DONE)
        ;
    return NULL;
}

START_TEST(test_worlds) {
    static uint64_t hashes[ROWS];
    static uint32_t pages[16];
    struct status_note note = {{0}};
    set_up();
    ck_assert_uint_eq(m.profile.virtual_ranks, 4);
    for (uint32_t i = 0; i < 16; i++)
        pages[i] = 15 - i + 1;
    for (uint32_t world = 1; world <= 4; world *= 2) {
        struct fab_mailbox *box;
        struct fab_mailbox_config fc = {.world = world, .deadline_ns = 120000000000u};
        struct rank_thread t[4];
        struct gpu_round *round;
        rig_ok(fab_mailbox_open(&fc, &box, &note), &note);
        struct gpu_device_config config = rig_config(&m, ROWS, 64, 17, 1, NULL);
        ck_assert_int_eq(gpu_round_new(&config.limits, world, &round), STATUS_OK);
        struct test_seq seq = {.slot = 1,
                               .n_rows = ROWS,
                               .tokens = (const uint32_t *)ref->heldout,
                               .pages = pages,
                               .n_pages = 16,
                               .n_draws = ROWS,
                               .sampling = test_greedy};
        seq.sampling.flags = KRN_DRAW_HASH_LOGITS;
        test_plan_make(round->plan, NULL, 0, &seq, 1);
        round->plan->world = world;
        gpu_plan_seal(round->plan, 1, 0);
        for (uint32_t i = 0; i < world; i++) {
            config.rank = i;
            config.world = world;
            config.collective = world > 1 ? fab_mailbox_rank(box, i) : NULL;
            t[i] = (struct rank_thread){.plan = round->plan, .result = round->results[i]};
            rig_ok(rig_open_device(&config, &t[i].device, &note), &note);
        }
        for (uint32_t i = 0; i < world; i++)
            ck_assert_int_eq(pthread_create(&t[i].thread, NULL, rank_step, &t[i]), 0);
        for (uint32_t i = 0; i < world; i++)
            pthread_join(t[i].thread, NULL);
        for (uint32_t i = 0; i < world; i++) {
            rig_ok(t[i].result->status, &t[i].result->note);
            ck_assert_uint_eq(t[i].result->drawn_digest, t[0].result->drawn_digest);
            for (int r = 0; r < ROWS; r++) {
                if (world == 1)
                    hashes[r] = t[i].result->drawn[r].logits_hash;
                ck_assert_uint_eq(t[i].result->drawn[r].logits_hash, hashes[r]);
            }
            t[i].device->ops->close(t[i].device);
        }
        gpu_round_free(round);
        fab_mailbox_close(box);
    }
    tear_down();
}
END_TEST

/* Resident KiB of the mapped model file. */
static uint64_t mapped_resident(void) {
    char line[512];
    bool inside = false;
    uint64_t total = 0;
    unsigned long long kib;
    FILE *f = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strchr(line, '-') != NULL && strchr(line, '-') < strchr(line, ' '))
            inside = strstr(line, "model.safetensors") != NULL;
        if (inside && sscanf(line, "Rss: %llu kB", &kib) == 1)
            total += kib;
    }
    fclose(f);
    return total;
}

START_TEST(test_weights_once) {
    /* The packed form is what stays in memory, and what the file says can still be read. */
    struct rig r;
    set_up();
    uint64_t before = mapped_resident();
    const struct krn_tensor *t = krn_model_tensor(m.model, "model.norm.weight");
    uint64_t bytes = 0;
    unsigned char first = *(const unsigned char *)t->data;
    for (uint32_t i = 0; i < m.model->n_tensors; i++)
        bytes += m.model->tensors[i].bytes;
    rig_open(&r, &m, ROWS, 1, NULL);
    ck_assert_uint_ge(before, bytes / 1024 / 2); /* the fingerprint read it all */
    ck_assert_uint_le(mapped_resident(), 64);
    ck_assert_uint_eq(*(const unsigned char *)t->data, first);
    ck_assert_uint_ge(r.d->bytes_used, bytes);
    rig_close(&r);
    tear_down();
}
END_TEST

int main(void) {
    if (where_no_gpu())
        return 0;
    if (where_gpu())
        rig_open_device = gpu_device_cuda_open;
    Suite *suite = suite_create("gpu/fable");
    TCase *tc = tcase_create("fable");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, test_greedy_tokens);
    tcase_add_test(tc, test_perplexity);
    tcase_add_test(tc, test_worlds);
    if (!where_gpu()) /* of the CPU device's memory */
        tcase_add_test(tc, test_weights_once);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
