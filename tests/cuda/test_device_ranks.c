/* SPDX-License-Identifier: Apache-2.0
 * CUDA devices beside the oracle, bit for bit: one rank and several, in every profile of a GPU, for
 * every family; sessions in company, in random pieces. And the perturb hook, which changes what it
 * says and nothing else. On the emulated device, or with RH_CUDA=gpu on this machine's GPU, which
 * then is all ranks'.
 */
#include "tests/harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/coll_mailbox.h"
#include "fabric/coll_nccl.h"
#include "fabric/votes.h"
#include "gpu/device_cuda.h"
#include "gpu/perturb.h"
#include "kernels/cuda/draw.h"
#include "kernels/quant/quant.h"
#include "lanes/engine_exchange.h"
#include "tests/cuda/emulate.h"
#include "tests/cuda/where.h"
#include "tests/fabric/nccl_fake.h"
#include "tests/gpu/truth.h"
#include "tests/kernels/gguf_make.h"
#include "tests/kernels/scratch_dir.h"

enum { ROWS = 70, SESSIONS = 2, PAGES = 4, SEGMENT = 64, DRAWS = 3, LENGTH = 84 };

/* Weights in blocks become bf16 in small parts for more rows than this; 0: as usual. Or how they
 * lie at all. */
static uint32_t blocks_rows;
static enum gpu_weights blocks_weights;

static enum status open_cuda(const struct gpu_device_config *config, struct gpu_device **out,
                             struct status_note *note) {
    struct gpu_device_cuda_over over = {
        .images = emulate_images, .n_images = 1, .widened = 1, .blocks_rows = blocks_rows};
    if (where_gpu())
        return gpu_device_cuda_open(config, out, note);
    over.driver = emulate_driver();
    return gpu_device_cuda_open_over(config, &over, out, note);
}

/* Rows of a plan at most, and draws; 0: as many as rows. */
static uint32_t rows_most = ROWS, draws_most;

/* Each rank steps on a thread of its own. */
struct rank {
    pthread_t thread;
    struct gpu_device *device;
    const struct gpu_plan *plan;
    struct gpu_result *result;
};

struct world {
    const struct rig_model *m;
    uint32_t n, first, end; /* ranks; those of this process */
    struct rank rank[GPU_WORLD_MAX];
    struct fab_mailbox *box;
    struct fab_coll_nccl *exchange; /* NULL: the host carries */
    struct fab_votes votes;         /* on graphs: with an exchange on a GPU */
    uint64_t replayed;
    struct gpu_round *round;
    struct gpu_limits limits;
    uint64_t number, digest;
};

/* What ranks in processes of their own share. NCCL takes two ranks on one GPU when they are
 * processes of two hosts, as far as it can tell. */
struct apart {
    _Atomic bool named;
    struct fab_nccl_id id;
    struct fab_mailbox *box;
};

/* The fake NCCL's ranks are all of this process; the machine's, on a GPU, are one a process. */
static void world_exchange(struct world *w, struct apart *apart) {
    struct fab_coll_nccl_config config = {.world = w->n, .whole_floats = 4096};
    struct status_note note = {{0}};
    if (apart == NULL) {
        config.nccl = nccl_fake();
    } else {
        rig_ok(fab_nccl_open(&config.nccl, &note), &note);
        if (w->first == 0) {
            ck_assert_int_eq(config.nccl->unique_id(&apart->id), FAB_NCCL_SUCCESS);
            atomic_store(&apart->named, true);
        }
        while (!atomic_load(&apart->named))
            sched_yield();
        config.id = &apart->id;
    }
    rig_ok(fab_coll_nccl_open(&config, &w->exchange, &note), &note);
}

static struct fab_mailbox *box_open(uint32_t n) {
    struct fab_mailbox *box;
    struct status_note note = {{0}};
    struct fab_mailbox_config config = {
        .world = n, .slot_floats = 1024, .deadline_ns = 60000000000u};
    rig_ok(fab_mailbox_open(&config, &box, &note), &note);
    return box;
}

/* Ranks [first, end) of n in this process. */
static void world_part(struct world *w, const struct rig_model *m, uint32_t n, uint32_t first,
                       uint32_t end, bool exchange, struct apart *apart) {
    struct status_note note = {{0}};
    struct gpu_device *devices[GPU_WORLD_MAX];
    memset(w, 0, sizeof *w);
    fab_votes_open(&w->votes, n, gpu_graph_settings(GPU_GRAPHS_MAX), UINT64_MAX / 2);
    w->m = m;
    w->n = n;
    w->first = first;
    w->end = end;
    w->box = apart != NULL ? apart->box : box_open(n);
    if (exchange)
        world_exchange(w, apart);
    for (uint32_t i = first; i < end; i++) {
        struct gpu_device_config dc = rig_config(m, rows_most, 64, 1 + SESSIONS * PAGES, 1, NULL);
        dc.rank = i;
        dc.world = n;
        dc.weights = blocks_weights;
        dc.limits.draws = draws_most != 0 ? draws_most : dc.limits.draws;
        dc.collective = n > 1 ? fab_mailbox_rank(w->box, i) : NULL;
        if (apart != NULL)
            dc.graphs = gpu_graph_settings(GPU_GRAPHS_MAX);
        dc.exchange = exchange ? fab_coll_nccl_rank(w->exchange, i) : NULL;
        w->limits = dc.limits;
        rig_ok(open_cuda(&dc, &w->rank[i].device, &note), &note);
        devices[i - first] = w->rank[i].device;
        ck_assert_uint_eq(w->rank[i].device->page_bytes,
                          gpu_page_bytes(&m->model->config, &m->profile, 64, i, n));
    }
    if (exchange)
        rig_ok(lane_exchange_meet(devices, end - first, &note), &note);
    ck_assert_int_eq(gpu_round_new(&w->limits, n, &w->round), STATUS_OK);
}

static void world_open(struct world *w, const struct rig_model *m, uint32_t n) {
    world_part(w, m, n, 0, n, false, NULL);
}

static void world_close(struct world *w) {
    for (uint32_t i = w->first; i < w->end; i++)
        w->rank[i].device->ops->close(w->rank[i].device);
    gpu_round_free(w->round);
    fab_coll_nccl_close(w->exchange);
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

/* The conductor's part: what a plan does with its graph, and what ranks say of it. A process that
 * has one rank of several takes its word for the others': they see the same plans. */
static void world_orders(struct world *w, struct gpu_plan *p) {
    struct gpu_device *d = w->rank[w->first].device;
    uint64_t key;
    if (d->graphs.max == 0)
        return;
    p->graph_key = d->ops->graph_key(d, p);
    p->graph_order = fab_votes_order(&w->votes, p->graph_key, w->number + 1, 0);
    w->replayed += p->graph_order == GPU_GRAPH_LIVE;
    while (fab_votes_drop(&w->votes, &key))
        d->ops->graph_drop(d, key);
}

static void world_votes(struct world *w) {
    struct gpu_device *d = w->rank[w->first].device;
    struct gpu_graph_said said;
    while (d->graphs.max > 0 && d->ops->graph_vote(d, &said))
        for (uint32_t i = 0; i < w->n; i++)
            fab_votes_word(&w->votes, i, said.key, w->number, said.word);
}

/* All ranks say the same. */
static const struct gpu_result *world_step(struct world *w, const struct test_seq *seqs,
                                           uint32_t n) {
    struct gpu_plan *p = w->round->plan;
    test_plan_make(p, NULL, 0, seqs, n);
    p->world = w->n;
    world_orders(w, p);
    gpu_plan_seal(p, ++w->number, w->digest);
    w->digest = p->digest;
    for (uint32_t i = w->first; i < w->end; i++) {
        w->rank[i].plan = p;
        w->rank[i].result = w->round->results[i];
        ck_assert_int_eq(pthread_create(&w->rank[i].thread, NULL, rank_step, &w->rank[i]), 0);
    }
    const struct gpu_result *said = w->round->results[w->first];
    for (uint32_t i = w->first; i < w->end; i++)
        pthread_join(w->rank[i].thread, NULL);
    for (uint32_t i = w->first; i < w->end; i++) {
        rig_ok(w->round->results[i]->status, &w->round->results[i]->note);
        ck_assert_uint_eq(w->round->results[i]->drawn_digest, said->drawn_digest);
    }
    world_votes(w);
    return said;
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
        uint32_t n = 0, room = rows_most, who[SESSIONS];
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

static void any_found(const struct found found[2], const char *what, const char *profile,
                      uint32_t n) {
    ck_assert_msg(found[0].differ + found[1].differ == 0,
                  "%s, %s, %u ranks: %u of %u rows alone differ, %u of %u in company", what,
                  profile, n, found[0].differ, found[0].rows, found[1].differ, found[1].rows);
}

/* A model's sessions on some numbers of ranks; worlds: their sum. Closes it. */
static void model_worlds(struct rig_model *m, const char *name, uint32_t worlds, uint64_t seed) {
    static struct truth truth[SESSIONS];
    static struct world w;
    struct found found[2];
    any_truth(truth, m, seed);
    for (uint32_t n = 1; n <= m->profile.virtual_ranks; n *= 2) {
        if ((worlds & n) == 0)
            continue;
        world_open(&w, m, n);
        world_run(&w, truth, seed + n, found);
        any_found(found, name, m->profile.name, n);
        world_close(&w);
    }
    rig_model_close(m);
}

/* Weights of a file's blocks on n ranks: both ways have the oracle's bits, and each is what it says
 * and takes the memory that it should. Closes the model. */
static void blocks_both_ways(struct rig_model *m, const char *name, uint32_t n, uint64_t seed) {
    static struct truth truth[SESSIONS];
    static struct world w;
    struct found found[2];
    uint64_t bytes[GPU_WEIGHTS_WIDE + 1];
    any_truth(truth, m, seed);
    for (uint32_t way = GPU_WEIGHTS_AUTO; way <= GPU_WEIGHTS_WIDE; way++) {
        blocks_weights = (enum gpu_weights)way;
        world_open(&w, m, n);
        blocks_weights = GPU_WEIGHTS_AUTO;
        bytes[way] = w.rank[0].device->weights_bytes;
        for (uint32_t i = 0; i < n; i++)
            ck_assert_int_eq(w.rank[i].device->weights,
                             way == GPU_WEIGHTS_WIDE ? GPU_WEIGHTS_WIDE : GPU_WEIGHTS_PACKED);
        if (way != GPU_WEIGHTS_AUTO) { /* which is packed */
            world_run(&w, truth, seed + n, found);
            any_found(found, name, way == GPU_WEIGHTS_WIDE ? "wide" : "packed", n);
        }
        world_close(&w);
    }
    ck_assert_uint_eq(bytes[GPU_WEIGHTS_AUTO], bytes[GPU_WEIGHTS_PACKED]);
    /* What all but the embedding's table takes, at two bytes a weight and in blocks of at most
     * nine bits: the table, and all that is not a matrix, are the same. */
    const struct krn_config *c = &m->model->config;
    uint64_t matrices = ((uint64_t)c->hidden * (c->heads + c->kv_heads) * 2 * c->head_dim +
                         3 * (uint64_t)c->hidden * c->ffn) *
                        c->layers / n;
    uint64_t less = bytes[GPU_WEIGHTS_WIDE] - bytes[GPU_WEIGHTS_PACKED];
    ck_assert_uint_gt(bytes[GPU_WEIGHTS_WIDE], bytes[GPU_WEIGHTS_PACKED]);
    ck_assert_msg(less >= matrices * 7 / 8, "%s: %u bytes less, of %u weights", name,
                  (unsigned)less, (unsigned)matrices);
    rig_model_close(m);
}

static void some_worlds(const struct truth_shape *s, const char *profile, uint32_t worlds,
                        uint64_t seed) {
    static struct rig_model m;
    model_open(&m, s, profile, seed);
    model_worlds(&m, s->name, worlds, seed);
}

/* A model of random weights in a file whose matrices are of this type. */
static void blocked_open(struct rig_model *m, const char *path, enum krn_dtype type, uint32_t ffn) {
    const struct krn_config c = {.vocab = 70,
                                 .hidden = 256,
                                 .layers = 1,
                                 .heads = 8,
                                 .kv_heads = 2,
                                 .head_dim = 32,
                                 .ffn = ffn,
                                 .context = 256,
                                 .norm_eps = 1e-5F,
                                 .family = "llama",
                                 .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};
    struct status_note note = {{0}};
    struct krn_model *made = NULL, *read = NULL;
    struct gguf_make make;
    size_t n;
    rig_ok(krn_model_synthetic(&c, KRN_F32, 9, &made, &note), &note);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &c);
    gguf_model_tensors(&make, made, type, true);
    unsigned char *bytes = gguf_end(&make, &n);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    size_t wrote = fwrite(bytes, 1, n, f);
    ck_assert(fclose(f) == 0 && wrote == n);
    free(bytes);
    krn_model_close(made);
    rig_ok(krn_model_open(path, &read, &note), &note);
    rig_model_wrap(m, read, 4);
    rig_ok(krn_profile_open("cuda-bf16-sm90", &read->config, 4, &m->profile, &note), &note);
    m->profile.attn_segment = SEGMENT;
}

/* One rank of n on this machine's GPU, in a process of its own: the oracle's bits, and shapes that
 * return are replayed. Its exit status. */
static int rank_alone(const struct rig_model *m, const struct truth *truth, uint64_t seed,
                      uint32_t n, uint32_t rank, struct apart *apart) {
    static struct world w;
    struct found found[2];
    uint32_t rows = 0, differ = 0;
    char host[16];
    snprintf(host, sizeof host, "host-%u", rank);
    setenv("NCCL_HOSTID", host, 1);
    setenv("NCCL_NET", "Socket", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    world_part(&w, m, n, rank, rank + 1, true, apart);
    for (uint32_t i = 0; i < 6; i++) {
        world_run(&w, truth, seed + i, found);
        rows += found[0].rows + found[1].rows;
        differ += found[0].differ + found[1].differ;
    }
    printf("rank %u of %u by NCCL: %u rows, %u differ, %u of %u plans replayed\n", rank, n, rows,
           differ, (unsigned)w.replayed, (unsigned)w.number);
    fflush(stdout);
    world_close(&w);
    return differ != 0 || w.replayed < 4;
}

/* n ranks that exchange by NCCL: the fake one over the emulated device; on a GPU the machine's. */
static void exchanged_world(const struct truth_shape *s, const char *profile, uint32_t n,
                            uint64_t seed) {
    static struct truth truth[SESSIONS];
    static struct rig_model m;
    static struct world w;
    struct found found[2];
    pid_t child[GPU_WORLD_MAX];
    model_open(&m, s, profile, seed);
    any_truth(truth, &m, seed);
    if (!where_gpu()) {
        world_part(&w, &m, n, 0, n, true, NULL);
        world_run(&w, truth, seed, found);
        any_found(found, s->name, profile, n);
        world_close(&w);
        rig_model_close(&m);
        return;
    }
    struct apart *apart =
        mmap(NULL, sizeof *apart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(apart, MAP_FAILED);
    apart->box = box_open(n);
    for (uint32_t i = 0; i < n; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            _exit(rank_alone(&m, truth, seed, n, i, apart));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        ck_assert_msg(status == 0, "rank %u ended with %x", i, (unsigned)status);
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

/* Weights that stay in the blocks of their file, or do not: few rows, and more than are read from
 * blocks. The last one's gated width has segments of no whole tiles, which are widened at once. */
START_TEST(bf16_of_blocks) {
    static const struct {
        enum krn_dtype type;
        uint32_t ffn, world, rows;
    } cases[] = {{KRN_Q4_K, 512, 1, 0},
                 {KRN_Q8_0, 512, 2, 8},
                 {KRN_Q6_K, 512, 4, 1},
                 {KRN_IQ4_NL, 512, 1, 16},
                 {KRN_Q8_0, 1408, 1, 1}};
    char dir[64], path[128];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct rig_model m;
        blocked_open(&m, path, cases[i].type, cases[i].ffn);
        blocks_rows = cases[i].rows;
        blocks_both_ways(&m, krn_format_of(cases[i].type)->word, cases[i].world, 800 + i);
    }
    blocks_rows = 0;
    scratch_remove(dir);
}
END_TEST

/* --weights is refused before a weight is packed where it would change nothing. */
START_TEST(weights_without_a_choice) {
    static const struct {
        const char *profile;
        enum gpu_weights weights;
        const char *says;
    } cases[] = {{"portable", GPU_WEIGHTS_WIDE, "--weights wide is of profile cuda-bf16-sm90"},
                 {"portable", GPU_WEIGHTS_PACKED, "--weights packed is of profile"},
                 {"cuda-bf16-sm90", GPU_WEIGHTS_PACKED, "no matrix of this model is in blocks"},
                 {"cuda-bf16-sm90", GPU_WEIGHTS_WIDE, NULL}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig_model m;
        struct gpu_device *d = NULL;
        struct status_note note = {{0}};
        model_open(&m, &truth_shapes[1], cases[i].profile, 3);
        struct gpu_device_config config = rig_config(&m, 8, 64, 4, 1, NULL);
        config.weights = cases[i].weights;
        enum status s = open_cuda(&config, &d, &note);
        if (cases[i].says != NULL) {
            ck_assert_int_eq(s, STATUS_UNSUPPORTED);
            ck_assert_msg(strstr(note.text, cases[i].says) != NULL, "%s", note.text);
        } else {
            rig_ok(s, &note);
            ck_assert_int_eq(d->weights, GPU_WEIGHTS_WIDE);
            d->ops->close(d);
        }
        rig_model_close(&m);
    }
}
END_TEST

START_TEST(portable_of_a_world) {
    some_worlds(&truth_shapes[TRUTH_MIXTURE], "portable", 2, 701);
}
END_TEST

/* The same bits by the exchange between devices: few rows and many, logits, mixtures; on a GPU with
 * graphs. */
START_TEST(exchanged) {
    exchanged_world(&truth_shapes[4], "cuda-bf16-sm90", 2, 610);
    exchanged_world(&truth_shapes[TRUTH_MIXTURE], "portable", 2, 613);
    if (where_gpu()) /* more processes take turns on one GPU, and wait for each other on it */
        return;
    exchanged_world(&truth_shapes[1], "portable", 4, 611); /* bf16 rows would hide last bits */
    exchanged_world(&truth_shapes[2], "portable", 8, 612);
}
END_TEST

/* Fewer draws than a shape of them, of long rows: what arrives has its room. */
START_TEST(exchanged_draws) {
    static struct truth truth[SESSIONS];
    static struct rig_model m;
    static struct world w;
    struct truth_shape s = truth_shapes[1];
    struct found found[2];
    if (where_gpu())
        TEST_SKIP("ranks of one process need a GPU each");
    s.config.vocab = 2048;
    model_open(&m, &s, "portable", 620);
    any_truth(truth, &m, 620);
    rows_most = 8;
    draws_most = SESSIONS * DRAWS;
    world_part(&w, &m, 2, 0, 2, true, NULL);
    world_run(&w, truth, 620, found);
    any_found(found, "long rows", "portable", 2);
    world_close(&w);
    rows_most = ROWS;
    draws_most = 0;
    rig_model_close(&m);
}
END_TEST

/* An exchange that brings other bits is refused before the first step, by who sent them. */
START_TEST(flipped_exchange) {
    struct gpu_device *devices[2];
    struct fab_coll_nccl *c;
    struct rig_model m;
    struct status_note note = {{0}};
    if (where_gpu())
        TEST_SKIP("an NCCL that works flips nothing");
    struct fab_coll_nccl_config nc = {.nccl = nccl_fake(), .world = 2};
    model_open(&m, &truth_shapes[4], "portable", 5);
    rig_ok(fab_coll_nccl_open(&nc, &c, &note), &note);
    for (uint32_t i = 0; i < 2; i++) {
        struct gpu_device_config config = rig_config(&m, 8, 64, 4, 1, NULL);
        config.rank = i;
        config.world = 2;
        config.collective = &(const struct gpu_collective){.rank = i, .world = 2};
        config.exchange = fab_coll_nccl_rank(c, i);
        rig_ok(open_cuda(&config, &devices[i], &note), &note);
    }
    nccl_fake_flip(true);
    ck_assert_int_eq(lane_exchange_meet(devices, 2, &note), STATUS_DESYNC);
    ck_assert_msg(strstr(note.text, "rank 0: what rank 1 sent") != NULL &&
                      strstr(note.text, "--exchange host") != NULL,
                  "%s", note.text);
    for (uint32_t i = 0; i < 2; i++)
        devices[i]->ops->close(devices[i]);
    ck_assert_uint_eq(nccl_fake_live(), 0);
    fab_coll_nccl_close(c);
    rig_model_close(&m);
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
    if (where_gpu()) /* first: its forks must come before the driver; else behind the self-test's */
        tcase_add_test(tc, exchanged);
    tcase_add_test(tc, other_cores_are_refused);
    if (!where_gpu())
        tcase_add_test(tc, exchanged);
    tcase_add_test(tc, bf16_of_every_family);
    tcase_add_test(tc, bf16_of_every_world);
    tcase_add_test(tc, bf16_of_mixtures);
    tcase_add_test(tc, bf16_of_blocks);
    tcase_add_test(tc, weights_without_a_choice);
    tcase_add_test(tc, portable_of_a_world);
    tcase_add_test(tc, exchanged_draws);
    tcase_add_test(tc, flipped_exchange);
    tcase_add_test(tc, perturbed_company);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
