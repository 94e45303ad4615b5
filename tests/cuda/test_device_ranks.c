/* SPDX-License-Identifier: Apache-2.0
 * CUDA devices beside the oracle, bit for bit: one rank and several, in every profile of a GPU, for
 * every family; sessions in company, in random pieces. And the perturb hook, which changes what it
 * says and nothing else. On the emulated device, or with RH_CUDA=gpu on this machine's GPU, which
 * then is all ranks'.
 */
#include "tests/harness.h"

#include <pthread.h>

#include "fabric/coll_mailbox.h"
#include "gpu/device_cuda.h"
#include "gpu/perturb.h"
#include "kernels/cuda/draw.h"
#include "tests/cuda/emulate.h"
#include "tests/cuda/where.h"
#include "tests/gpu/truth.h"

enum { ROWS = 70, SESSIONS = 2, PAGES = 4, SEGMENT = 64, DRAWS = 3, LENGTH = 84 };

static enum status open_cuda(const struct gpu_device_config *config, struct gpu_device **out,
                             struct status_note *note) {
    struct gpu_device_cuda_over over = {.images = emulate_images, .n_images = 1};
    if (where_gpu())
        return gpu_device_cuda_open(config, out, note);
    over.driver = emulate_driver();
    return gpu_device_cuda_open_over(config, &over, out, note);
}

/* Each rank steps on a thread of its own. */
struct rank {
    pthread_t thread;
    struct gpu_device *device;
    const struct gpu_plan *plan;
    struct gpu_result *result;
};

struct world {
    const struct rig_model *m;
    uint32_t n;
    struct rank rank[GPU_WORLD_MAX];
    struct fab_mailbox *box;
    struct gpu_round *round;
    struct gpu_limits limits;
    uint64_t number, digest;
};

static void world_open(struct world *w, const struct rig_model *m, uint32_t n) {
    struct status_note note = {{0}};
    struct fab_mailbox_config config = {
        .world = n, .slot_floats = 1024, .deadline_ns = 60000000000u};
    memset(w, 0, sizeof *w);
    w->m = m;
    w->n = n;
    rig_ok(fab_mailbox_open(&config, &w->box, &note), &note);
    for (uint32_t i = 0; i < n; i++) {
        struct gpu_device_config dc = rig_config(m, ROWS, 64, 1 + SESSIONS * PAGES, 1, NULL);
        dc.rank = i;
        dc.world = n;
        dc.collective = n > 1 ? fab_mailbox_rank(w->box, i) : NULL;
        w->limits = dc.limits;
        rig_ok(open_cuda(&dc, &w->rank[i].device, &note), &note);
        ck_assert_uint_eq(w->rank[i].device->page_bytes,
                          gpu_page_bytes(&m->model->config, &m->profile, 64, i, n));
    }
    ck_assert_int_eq(gpu_round_new(&w->limits, n, &w->round), STATUS_OK);
}

static void world_close(struct world *w) {
    for (uint32_t i = 0; i < w->n; i++)
        w->rank[i].device->ops->close(w->rank[i].device);
    gpu_round_free(w->round);
    fab_mailbox_close(w->box);
}

static void *rank_step(void *self) {
    struct rank *r = self;
    uint64_t again;
    r->device->ops->step(r->device, r->plan, r->result);
    while (r->device->ops->poll(r->device, 0, &again) != GPU_DONE)
        ;
    return NULL;
}

/* All ranks say the same. */
static const struct gpu_result *world_step(struct world *w, const struct test_seq *seqs,
                                           uint32_t n) {
    struct gpu_plan *p = w->round->plan;
    test_plan_make(p, NULL, 0, seqs, n);
    p->world = w->n;
    gpu_plan_seal(p, ++w->number, w->digest);
    w->digest = p->digest;
    for (uint32_t i = 0; i < w->n; i++) {
        w->rank[i].plan = p;
        w->rank[i].result = w->round->results[i];
        ck_assert_int_eq(pthread_create(&w->rank[i].thread, NULL, rank_step, &w->rank[i]), 0);
    }
    for (uint32_t i = 0; i < w->n; i++)
        pthread_join(w->rank[i].thread, NULL);
    for (uint32_t i = 0; i < w->n; i++) {
        rig_ok(w->round->results[i]->status, &w->round->results[i]->note);
        ck_assert_uint_eq(w->round->results[i]->drawn_digest, w->round->results[0]->drawn_digest);
    }
    return w->round->results[0];
}

/* What a run found: rows, and those whose logits are not the oracle's. */
struct found {
    uint32_t rows, differ;
};

/* All of every session, in random pieces beside each other, whose last rows draw. How many of them
 * differ, in plans without company and with it. */
static void world_run(struct world *w, const struct truth *truth, uint64_t seed,
                      struct found found[2]) {
    uint32_t done[SESSIONS] = {0}, left = SESSIONS * LENGTH;
    uint32_t pages[SESSIONS][PAGES];
    for (uint32_t i = 0; i < SESSIONS * PAGES; i++)
        pages[i % SESSIONS][i / SESSIONS] = 1 + (i * 5 + 2) % (SESSIONS * PAGES);
    memset(found, 0, 2 * sizeof *found);
    while (left > 0) {
        static const uint32_t most[] = {1, 3, 20, ROWS};
        struct test_seq seqs[SESSIONS];
        uint32_t n = 0, room = ROWS, who[SESSIONS];
        for (uint32_t i = 0; i < SESSIONS; i++) {
            uint32_t rest = LENGTH - done[i];
            uint32_t rows = 1 + (uint32_t)(test_random(&seed) % most[test_random(&seed) % 4]);
            rows = rows < rest ? rows : rest;
            rows = rows < room ? rows : room;
            if (rows == 0 || test_random(&seed) % 3 == 0)
                continue;
            who[n] = i;
            seqs[n] = (struct test_seq){.slot = i,
                                        .first_pos = done[i],
                                        .n_rows = rows,
                                        .request = 1 + i,
                                        .tokens = truth[i].ids + done[i],
                                        .pages = pages[i],
                                        .n_pages = (done[i] + rows + 63) / 64,
                                        .n_draws = rows < DRAWS ? rows : DRAWS,
                                        .sampling = test_greedy};
            seqs[n++].sampling.flags = KRN_DRAW_HASH_LOGITS;
            room -= rows;
        }
        if (n == 0)
            continue;
        const struct gpu_result *r = world_step(w, seqs, n);
        for (uint32_t q = 0, k = 0; q < n; q++) {
            const struct truth *t = &truth[who[q]];
            done[who[q]] += seqs[q].n_rows;
            left -= seqs[q].n_rows;
            for (uint32_t i = seqs[q].n_draws; i > 0; i--, k++) {
                found[n > 1].rows++;
                found[n > 1].differ += r->drawn[k].logits_hash != t->hashes[done[who[q]] - i];
            }
        }
    }
}

static void any_truth(struct truth *truth, const struct rig_model *m, uint64_t seed) {
    for (uint32_t i = 0; i < SESSIONS; i++)
        truth_begin(&truth[i], m, seed + i, LENGTH);
}

/* Several segments of attention in these short sessions. */
static void model_open(struct rig_model *m, const struct truth_shape *s, const char *profile,
                       uint64_t seed) {
    struct krn_config config = s->config;
    struct status_note note;
    if (config.vocab < KRN_CUDA_VOCAB_MIN)
        config.vocab += KRN_CUDA_VOCAB_MIN; /* shorter rows are refused */
    rig_model_synthetic(m, &config, s->dtype, seed, 0);
    rig_ok(krn_profile_open(profile, &m->model->config, 0, &m->profile, &note), &note);
    m->profile.attn_segment = SEGMENT;
}

/* worlds: the sum of the numbers of ranks to be tried. */
static void some_worlds(const struct truth_shape *s, const char *profile, uint32_t worlds,
                        uint64_t seed) {
    static struct truth truth[SESSIONS];
    static struct rig_model m;
    static struct world w;
    struct found found[2];
    model_open(&m, s, profile, seed);
    any_truth(truth, &m, seed);
    for (uint32_t n = 1; n <= m.profile.virtual_ranks; n *= 2) {
        if ((worlds & n) == 0)
            continue;
        world_open(&w, &m, n);
        world_run(&w, truth, seed + n, found);
        ck_assert_msg(found[0].differ + found[1].differ == 0,
                      "%s, %s, %u ranks: %u of %u rows alone differ, %u of %u in company", s->name,
                      profile, n, found[0].differ, found[0].rows, found[1].differ, found[1].rows);
        world_close(&w);
    }
    rig_model_close(&m);
}

START_TEST(bf16_of_every_family) {
    static const uint32_t shapes[] = {3, 9, 10};
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        some_worlds(&truth_shapes[shapes[i]], "cuda-bf16-sm90", 1, 500 + i);
}
END_TEST

START_TEST(bf16_of_every_world) {
    some_worlds(&truth_shapes[4], "cuda-bf16-sm90", 2, 600); /* biases behind the reduction */
    some_worlds(&truth_shapes[5], "cuda-bf16-sm90", 4, 601); /* fewer KV heads than ranks */
}
END_TEST

START_TEST(bf16_of_mixtures) {
    some_worlds(&truth_shapes[TRUTH_MIXTURE], "cuda-bf16-sm90", 2, 650);
    some_worlds(&truth_shapes[TRUTH_SHAPES - 1], "cuda-bf16-sm90", 1, 651);
}
END_TEST

START_TEST(portable_of_a_world) {
    some_worlds(&truth_shapes[TRUTH_MIXTURE], "portable", 2, 701);
}
END_TEST

/* Rows in company have other logits, and only they: what they leave in pages is as it was. */
START_TEST(perturbed_company) {
    static struct truth truth[SESSIONS];
    static struct rig_model m;
    static struct world w;
    struct found found[2];
    model_open(&m, &truth_shapes[6], "cuda-bf16-sm90", 11);
    any_truth(truth, &m, 12);
    for (uint32_t n = 1; n <= 2; n++) {
        world_open(&w, &m, n);
        for (uint32_t i = 0; i < n; i++)
            w.rank[i].device->ops->perturb(w.rank[i].device, GPU_PERTURB_COMPANY);
        world_run(&w, truth, 13, found);
        ck_assert_uint_eq(found[0].differ, 0);
        ck_assert_uint_gt(found[0].rows, 0);
        ck_assert_uint_ge(found[1].differ, found[1].rows - found[1].rows / 8);
        world_close(&w);
    }
    rig_model_close(&m);
}
END_TEST

/* Tensor cores with other bits are refused before a weight is packed, by a sentence that names the
 * kernel; the right ones are not. */
START_TEST(other_cores_are_refused) {
    struct rig_model m;
    struct gpu_device *d = NULL;
    struct status_note note = {{0}};
    if (where_gpu())
        TEST_SKIP("a GPU has the cores that it has");
    model_open(&m, &truth_shapes[1], "cuda-bf16-sm90", 3);
    struct gpu_device_config config = rig_config(&m, 8, 64, 4, 1, NULL);
    uint64_t live = emulate_memory_live();
    emulate_other_cores(true);
    ck_assert_int_eq(open_cuda(&config, &d, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "krn_product_bf16") != NULL &&
                      strstr(note.text, "--profile portable") != NULL,
                  "%s", note.text);
    ck_assert_uint_eq(emulate_memory_live(), live);
    emulate_other_cores(false);
    rig_ok(open_cuda(&config, &d, &note), &note);
    d->ops->close(d);
    rig_model_close(&m);
}
END_TEST

int main(void) {
    if (where_no_gpu() || where_sanitized())
        return 0;
    Suite *suite = suite_create("cuda/device_ranks");
    TCase *tc = tcase_create("device_ranks");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, other_cores_are_refused);
    tcase_add_test(tc, bf16_of_every_family);
    tcase_add_test(tc, bf16_of_every_world);
    tcase_add_test(tc, bf16_of_mixtures);
    tcase_add_test(tc, portable_of_a_world);
    tcase_add_test(tc, perturbed_company);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
