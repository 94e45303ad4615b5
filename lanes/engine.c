/* SPDX-License-Identifier: Apache-2.0
 * Opens the parts in order, wires the actors, and takes everything down again.
 */
#include "lanes/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "actors/trace.h"
#include "fabric/coll_mailbox.h"
#include "fabric/conductor.h"
#include "gpu/copies.h"
#include "gpu/rank.h"
#include "lanes/engine_exchange.h"
#include "lanes/engine_tiers.h"
#include "lanes/journal.h"
#include "lanes/planner.h"
#include "lanes/slot.h"
#include "lanes/vocabulary.h"
#include "sessions/memory.h"

enum {
    ENGINE_LANES_DEFAULT = 64,
    ENGINE_LANES_MAX = 256,
    ENGINE_QUEUE_DEFAULT = 512,
    ENGINE_QUEUE_MAX = 768,
    ENGINE_ROUND_TOKENS = 512,
    ENGINE_PIECE_TOKENS = 512,
    ENGINE_ROUND_TOKENS_CUDA = 2048,
    ENGINE_PREFILL_SHARE = 50,
    ENGINE_PAGE_TOKENS = 64,
    ENGINE_CONTEXTS_DEFAULT = 16,
    ENGINE_JOURNAL_BUFFER = 1 << 20,
    ENGINE_LAYOUT_CUDA = 0x100, /* each device has its own */
    ENGINE_LAYOUT = 1,          /* version of the order of keys and values in a page */
    ENGINE_FREE_LOW_MAX = 32,
    ENGINE_COPY_SHARE = 48,        /* of copies that the computing thread makes, each direction */
    ENGINE_EARLY_B_S = 20000000,   /* of early copies, a second and core that computes */
    ENGINE_CARRY_GAP_NS = 4000000, /* between parts of sessions that are carried */
    ENGINE_PENALISED_MAX = 1 << 20 /* counts in a plan */
};
static const uint64_t ENGINE_PIECE_NS = 250000000;
static const uint64_t ENGINE_RANK_DEADLINE_NS = 30000000000;
/* A round of the largest piece in fp32 may take a small GPU a minute; one that hangs never ends. */
static const uint64_t ENGINE_CUDA_DEADLINE_NS = 120000000000;
static const uint64_t ENGINE_FAKE_VOTE_NS = 2000000; /* the fake device's steps are short */

struct lane_engine {
    struct lane_engine_config config;
    struct act_rt *rt;
    bool owns_rt, owns_model, has_net;
    struct krn_model *opened;
    const struct krn_model *model;
    struct krn_net net;
    struct krn_profile profile;
    struct lane_tokenizer *tokenizer;
    struct lane_shared shared;
    struct gpu_limits limits;
    uint32_t n_pages; /* the sink not counted */
    uint32_t pages_per_slot, slots_max;
    uint32_t threads; /* of each rank's team */
    bool rows_asked;  /* the operator sized rounds or pieces */
    bool cuda;        /* else the CPU, or the fake device */
    struct gpu_cuda_found gpu;
    struct status_note no_gpu; /* why it is not */
    char device_words[160];
    struct fab_mailbox *collective; /* NULL with one rank */
    struct fab_coll_nccl *exchange; /* NULL: the host carries what ranks exchange */
    struct gpu_device *devices[GPU_WORLD_MAX];
    struct gpu_rank *ranks[GPU_WORLD_MAX];
    struct lane_tiers *tiers; /* NULL: none */
    struct fab_conductor *conductor;
    struct ses_memory *memory;
    struct journal *journal;
    struct lane_planner *planner;
    act_id_t planner_id, memory_id;
};

static uint32_t engine_or(uint32_t value, uint32_t otherwise) {
    return value != 0 ? value : otherwise;
}

/* Fills in defaults and refuses what cannot be. */
static enum status engine_settle(struct lane_engine *e, struct status_note *note) {
    struct lane_engine_config *c = &e->config;
    c->world = engine_or(c->world, 1);
    c->lanes_max = engine_or(c->lanes_max, ENGINE_LANES_DEFAULT);
    c->queue_max = engine_or(c->queue_max, ENGINE_QUEUE_DEFAULT);
    e->rows_asked = c->round_tokens != 0 || c->piece_tokens != 0;
    c->round_tokens = engine_or(c->round_tokens, ENGINE_ROUND_TOKENS);
    c->piece_tokens = engine_or(c->piece_tokens, ENGINE_PIECE_TOKENS);
    c->prefill_share = engine_or(c->prefill_share, ENGINE_PREFILL_SHARE);
    c->page_tokens = engine_or(c->page_tokens, ENGINE_PAGE_TOKENS);
    if (c->lanes_max > ENGINE_LANES_MAX || c->queue_max > ENGINE_QUEUE_MAX)
        return status_say(note, STATUS_TOO_LARGE,
                          "%u lanes and a queue of %u were asked for; at most %d and %d can be had",
                          c->lanes_max, c->queue_max, ENGINE_LANES_MAX, ENGINE_QUEUE_MAX);
    if ((c->page_tokens & (c->page_tokens - 1)) != 0 || c->page_tokens > 1024 ||
        (!c->fake && c->page_tokens < KRN_TILE))
        return status_say(
            note, STATUS_BAD_REQUEST,
            "a page of %u tokens was asked for; it must be a power of two from 64 to 1024",
            c->page_tokens);
    if (c->world > GPU_WORLD_MAX || (c->world & (c->world - 1)) != 0)
        return status_say(note, STATUS_BAD_REQUEST,
                          "%u ranks were asked for; 1, 2, 4 or 8 can be had", c->world);
    if (c->round_tokens > 65536 || c->piece_tokens > c->round_tokens || c->prefill_share > 100)
        return status_say(
            note, STATUS_BAD_REQUEST,
            "a round of %u tokens with pieces of %u and a prefill share of %u %% cannot be; pieces "
            "must fit in a round of at most 65536, the share in 100",
            c->round_tokens, c->piece_tokens, c->prefill_share);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t share = cores > 0 ? (uint32_t)cores / c->world : 1;
    e->threads = c->threads > 0 ? c->threads : share > 0 ? share : 1;
    return STATUS_OK;
}

static enum status engine_open_model(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    if (c->fake) {
        e->shared.vocab = engine_or(c->fake_vocab, 64);
        e->shared.context = engine_or(c->fake_context, 256);
        e->shared.n_eos = 1;
        e->shared.eos[0] = 1;
        return STATUS_OK;
    }
    if (c->shape != NULL) {
        TRY(krn_model_shape(c->shape, c->seed, &e->opened, note));
        e->model = e->opened;
    } else if (c->model_path != NULL) {
        TRY(krn_model_open(c->model_path, &e->opened, note));
        e->model = e->opened;
        /* A model without a tokenizer still serves token ids; a broken tokenizer is an error. */
        enum status s = lane_vocabulary_open(c->model_path, &e->tokenizer, note);
        if (s != STATUS_OK && s != STATUS_NOT_FOUND)
            return s;
    } else {
        e->model = c->model;
    }
    TRY(krn_net_build(e->model, &e->net, note));
    e->has_net = true;
    const struct krn_config *m = &e->model->config;
    TRY(krn_profile_open(c->profile, m, c->virtual_ranks, &e->profile, note));
    if (c->world > e->profile.virtual_ranks)
        return status_say(note, STATUS_BAD_REQUEST,
                          "%u ranks were asked for but this model is cut in %u virtual ranks; use "
                          "at most that many",
                          c->world, e->profile.virtual_ranks);
    if (c->context > m->context)
        return status_say(note, STATUS_TOO_LARGE,
                          "a context of %u tokens was asked for; the model was made for %u",
                          c->context, m->context);
    e->shared.vocab = m->vocab;
    e->shared.context = engine_or(c->context, m->context);
    e->shared.n_eos = m->n_eos;
    memcpy(e->shared.eos, m->eos, sizeof e->shared.eos);
    e->shared.tokenizer = e->tokenizer;
    return STATUS_OK;
}

/* A choice of GPUs alone; their device says what of it a model in its profile has. */
static enum status engine_check_weights(const struct lane_engine *e, struct status_note *note) {
    if (e->cuda || e->config.weights == GPU_WEIGHTS_AUTO)
        return STATUS_OK;
    return status_say(note, STATUS_UNSUPPORTED,
                      "--weights %s is of a GPU's memory; how the device %s holds weights is its "
                      "profile's matter: leave it out%s%s",
                      e->config.weights == GPU_WEIGHTS_WIDE ? "wide" : "packed",
                      lane_engine_device_name(e),
                      e->no_gpu.text[0] != '\0' ? ", or see why not a GPU: " : "", e->no_gpu.text);
}

/* Which device: the GPU where it can run this model, unless the CPU was asked for; or, when the GPU
 * was asked for, that or nothing. */
static enum status engine_choose(struct lane_engine *e, struct status_note *note) {
    struct lane_engine_config *c = &e->config;
    const struct krn_rowfn *fn = krn_rowfn_pick(c->isa);
    snprintf(e->device_words, sizeof e->device_words, "%u threads, %s", e->threads,
             fn != NULL ? fn->isa : "unknown");
    if (c->fake || c->device == LANE_DEVICE_CPU)
        return engine_check_weights(e, note);
    enum status s = gpu_device_cuda_probe(&e->model->config, &e->profile, &e->gpu, &e->no_gpu);
    e->cuda = s == STATUS_OK;
    if (s != STATUS_OK && c->device == LANE_DEVICE_CUDA)
        return status_say(note, s, "%s", e->no_gpu.text);
    if (s != STATUS_OK && krn_profile_gpu(&e->profile))
        return status_say(note, s, "profile %s runs on a GPU alone: %s", e->profile.name,
                          e->no_gpu.text);
    if (e->cuda && c->ahead_auto)
        c->ahead = c->rank_thread = true;
    if (e->cuda && !e->rows_asked) /* as many as fill its matrix units */
        c->round_tokens = c->piece_tokens = ENGINE_ROUND_TOKENS_CUDA;
    if (e->cuda)
        snprintf(e->device_words, sizeof e->device_words, "%s, driver %d.%d", e->gpu.name,
                 e->gpu.driver_version / 1000, e->gpu.driver_version % 1000 / 10);
    return engine_check_weights(e, note);
}

/* How many pages the KV budget buys, and the limits of a plan. */
static enum status engine_size(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    uint32_t page = c->page_tokens;
    e->pages_per_slot = (e->shared.context + page - 1) / page;
    if (c->fake) {
        e->n_pages = (uint32_t)(c->kv_bytes > 0 ? c->kv_bytes / page : 16u * e->pages_per_slot);
    } else {
        uint64_t bytes = gpu_page_bytes(&e->model->config, &e->profile, page, 0, c->world);
        uint64_t budget = c->kv_bytes;
        uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        if (budget == 0 && c->kv_percent > 0)
            budget = (e->cuda ? e->gpu.total_bytes : ram) / 100 * c->kv_percent;
        if (budget == 0) {
            budget = (uint64_t)ENGINE_CONTEXTS_DEFAULT * e->pages_per_slot * bytes;
            uint64_t quarter = (e->cuda ? e->gpu.free_bytes : ram) / 4;
            budget = budget < quarter ? budget : quarter;
        }
        if (budget / bytes > UINT32_MAX / page - 1)
            return status_say(note, STATUS_TOO_LARGE,
                              "a KV budget of %llu bytes is more than this build can number in "
                              "pages of %llu bytes",
                              (unsigned long long)budget, (unsigned long long)bytes);
        e->n_pages = (uint32_t)(budget / bytes);
        if (e->n_pages == 0)
            return status_say(
                note, STATUS_NO_PAGES,
                "a KV budget of %llu bytes holds no page; one page of %u tokens takes %llu bytes",
                (unsigned long long)budget, page, (unsigned long long)bytes);
    }
    uint32_t lanes = c->lanes_max, vocab = e->shared.vocab, context = e->shared.context;
    uint64_t counts = (uint64_t)lanes * (context < vocab ? context : vocab);
    e->slots_max = lanes + c->queue_max;
    e->limits = (struct gpu_limits){
        .rows = c->round_tokens + lanes * 2,
        .seqs = lanes,
        .draws = lanes * GPU_WINDOW_MAX < c->round_tokens + lanes * 2 ? lanes * GPU_WINDOW_MAX
                                                                      : c->round_tokens + lanes * 2,
        .copies = lanes,
        .pages = lanes * e->pages_per_slot,
        .counts = counts < ENGINE_PENALISED_MAX ? (uint32_t)counts : ENGINE_PENALISED_MAX,
        .bias = lanes * LANE_BIAS_MAX,
        .mask_words = lanes * ((vocab + 31) / 32),
        .kept_logits = lanes < 8 ? lanes : 8,
        .vocab = vocab,
        .page_tokens = c->page_tokens};
    if (e->limits.counts < (context < vocab ? context : vocab))
        e->limits.counts = context < vocab ? context : vocab;
    return STATUS_OK;
}

/* What pages depend on: everything that would make another's bytes wrong here. */
static struct ses_key engine_key(const struct lane_engine *e) {
    const struct lane_engine_config *c = &e->config;
    struct ses_key key = {.profile = c->fake ? 1 : krn_profile_digest(&e->profile),
                          .layout_version = (ENGINE_LAYOUT + (e->cuda ? ENGINE_LAYOUT_CUDA : 0))
                                                << 16 |
                                            c->page_tokens,
                          .world = c->world};
    if (e->model == NULL)
        return key;
    const struct krn_config *m = &e->model->config;
    const struct krn_rope *rope = &m->rope, *local = &m->local_rope;
    double settings[] = {rope->kind,
                         rope->theta,
                         rope->factor,
                         rope->low_freq_factor,
                         rope->high_freq_factor,
                         rope->original_context,
                         m->has_local_rope,
                         m->has_local_rope ? local->kind : 0,
                         m->has_local_rope ? local->theta : 0,
                         m->has_local_rope ? local->factor : 0};
    key.rope = XXH3_64bits(settings, sizeof settings);
    memcpy(key.fingerprint, e->model->fingerprint, sizeof key.fingerprint);
    return key;
}

static enum status engine_open_tiers(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    char text[SES_INDEX_TEXT];
    struct ses_index_profile profile = {.version = e->profile.version,
                                        .virtual_ranks = e->profile.virtual_ranks,
                                        .kv = (uint32_t)e->profile.kv};
    _Static_assert(sizeof profile.name == sizeof e->profile.name, "names of profiles");
    memcpy(profile.name, e->profile.name, sizeof profile.name);
    if (c->fake)
        snprintf(text, sizeof text, "fake device");
    else
        snprintf(text, sizeof text, "%s, profile %s version %u, %u virtual ranks, %u ranks",
                 c->model_path != NULL ? c->model_path : "a model in memory", e->profile.name,
                 e->profile.version, e->profile.virtual_ranks, c->world);
    const struct lane_tiers_config tc = {.world = c->world,
                                         .page_tokens = c->page_tokens,
                                         .n_pages = e->n_pages,
                                         .page_bytes = e->devices[0]->page_bytes,
                                         .tokens = c->fake,
                                         .ram = c->ram_cache,
                                         .folder = c->disk_cache,
                                         .budget = c->disk_budget,
                                         .floor = c->disk_floor,
                                         .segment_bytes = c->disk_segment,
                                         .disk = c->disk,
                                         .key = engine_key(e),
                                         .text = text,
                                         .profile = profile,
                                         .say = c->say,
                                         .say_self = c->say_self};
    return lane_tiers_open(&tc, &e->tiers, note);
}

/* A device that copies pages on the thread that computes: copies do not take more than a share. */
static bool engine_copies_itself(const struct lane_engine *e) {
    return e->devices[0]->inline_step || e->config.fake_copy_ns > 0;
}

static enum status engine_open_devices(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    if (c->world > 1 && !c->fake) {
        struct fab_mailbox_config mailbox = {.world = c->world,
                                             .deadline_ns = ENGINE_RANK_DEADLINE_NS};
        TRY(fab_mailbox_open(&mailbox, &e->collective, note));
    }
    TRY(lane_exchange_open(c, e->cuda ? e->gpu.n_gpus : 0, &e->exchange, note));
    for (uint32_t r = 0; r < c->world; r++) {
        struct gpu_device_config d = {.net = c->fake ? NULL : &e->net,
                                      .profile = e->profile,
                                      .limits = e->limits,
                                      .page_tokens = c->page_tokens,
                                      .n_pages = e->n_pages + 1,
                                      .threads = e->threads,
                                      .rank = r,
                                      .world = c->world,
                                      .isa = c->isa,
                                      .graphs = gpu_graph_settings(c->graphs),
                                      .weights = c->weights,
                                      .vocab = e->shared.vocab,
                                      .fake_step_ns = c->fake_step_ns,
                                      .seed = c->seed};
        if (e->collective != NULL)
            d.collective = fab_mailbox_rank(e->collective, r);
        if (e->exchange != NULL)
            d.exchange = fab_coll_nccl_rank(e->exchange, r);
        TRY(c->fake   ? gpu_device_fake_open(&d, &e->devices[r], note)
            : e->cuda ? gpu_device_cuda_open(&d, &e->devices[r], note)
                      : gpu_device_cpu_open(&d, &e->devices[r], note));
        if (!c->fake && c->perturb != 0)
            e->devices[r]->ops->perturb(e->devices[r], c->perturb);
    }
    if (e->exchange != NULL)
        TRY(lane_exchange_meet(e->devices, c->world, note));
    TRY(engine_open_tiers(e, note));
    for (uint32_t r = 0; r < c->world; r++) {
        lane_tiers_pin(e->tiers, r, e->devices[r]);
        struct gpu_rank_config rc = {.device = e->devices[r],
                                     .rank = r,
                                     .world = c->world,
                                     .host = lane_tiers_host(e->tiers, r),
                                     .host_bytes = lane_tiers_host_bytes(e->tiers),
                                     .n_host = lane_tiers_slots(e->tiers),
                                     .copy_share = engine_copies_itself(e) ? ENGINE_COPY_SHARE : 0,
                                     .copy_ns = c->fake_copy_ns,
                                     .slow_ns = 1000000,
                                     .before_step = c->before_step,
                                     .self = c->before_step_self,
                                     .say = c->say,
                                     .say_self = c->say_self};
        TRY(gpu_rank_open(&rc, &e->ranks[r]));
    }
    return STATUS_OK;
}

/* What the devices were opened with must be one thing, and what was asked for. */
static enum status engine_check_graphs(const struct lane_engine *e, struct status_note *note) {
    struct gpu_graph_settings of[GPU_WORLD_MAX];
    const struct gpu_device *d = e->devices[0];
    for (uint32_t r = 0; r < e->config.world; r++)
        of[r] = e->devices[r]->graphs;
    TRY(fab_votes_agree(of, e->config.world, note));
    if (e->config.graphs_asked && e->config.graphs > 0 &&
        (d->ops->graph_key == NULL || d->graphs.max == 0))
        return status_say(
            note, STATUS_UNSUPPORTED,
            "graphs: the device %s has none here; leave --graphs and ROUNDHOUSE_GRAPHS out "
            "or say off",
            d->ops->name);
    return STATUS_OK;
}

/* How long a rank may take for a plan. One CPU rank may compute on the conductor's own thread. */
static uint64_t engine_deadline_ns(const struct lane_engine *e) {
    if (e->cuda)
        return ENGINE_CUDA_DEADLINE_NS;
    return e->config.fake || e->config.world > 1 ? ENGINE_RANK_DEADLINE_NS : 0;
}

/* So many device pages are kept free by parking others. */
static uint32_t engine_free_low(const struct lane_engine *e) {
    uint32_t low = e->n_pages / 8 > 2 ? e->n_pages / 8 : 2;
    return low < ENGINE_FREE_LOW_MAX ? low : ENGINE_FREE_LOW_MAX;
}

/* While lanes compute, early copies come so far apart that copying, checking and writing them takes
 * about a hundredth of the cores: what is copied is written by the cores that compute. */
static uint64_t engine_early_gap_ns(const struct lane_engine *e) {
    if (e->config.fake)
        return 8 * e->config.fake_copy_ns;
    return engine_copies_itself(e)
               ? e->devices[0]->page_bytes * 1000000000 / ((uint64_t)ENGINE_EARLY_B_S * e->threads)
               : 0;
}

/* A part of a session's file costs the first thread 0.2 ms, and on a CPU that one computes. */
static uint64_t engine_carry_gap_ns(const struct lane_engine *e) {
    if (e->config.fake)
        return 10 * e->config.fake_copy_ns;
    return engine_copies_itself(e) ? ENGINE_CARRY_GAP_NS : 0;
}

static enum status engine_open_actors(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    TRY(engine_check_graphs(e, note));
    struct fab_conductor_config fc = {.world = c->world,
                                      .deadline_ns = engine_deadline_ns(e),
                                      .chain_start = 0,
                                      .shapes = e->devices[0],
                                      .graphs = e->devices[0]->graphs,
                                      .vote_deadline_ns = c->fake ? ENGINE_FAKE_VOTE_NS : 0,
                                      .say = c->say,
                                      .self = c->say_self};
    TRY(fab_conductor_open(&fc, &e->conductor));
    if (c->journal_path != NULL)
        TRY(journal_open(c->journal_path, ENGINE_JOURNAL_BUFFER,
                         c->rt != NULL ? act_rt_now_ns(c->rt) : 0, &e->journal, note));
    struct lane_planner_config pc = {.shared = &e->shared,
                                     .limits = {.context = e->shared.context,
                                                .vocab = e->shared.vocab,
                                                .page_tokens = c->page_tokens,
                                                .pages_total = e->n_pages,
                                                .has_tokenizer = e->tokenizer != NULL},
                                     .plan_limits = e->limits,
                                     .lanes_max = c->lanes_max,
                                     .queue_max = c->queue_max,
                                     .slots_max = e->slots_max,
                                     .pages_per_slot = e->pages_per_slot,
                                     .round_tokens = c->round_tokens,
                                     .piece_tokens = c->piece_tokens,
                                     .prefill_share = c->prefill_share,
                                     .piece_ns = c->piece_ns > 0 ? c->piece_ns : ENGINE_PIECE_NS,
                                     .world = c->world,
                                     .ahead = c->ahead,
                                     .no_reuse = c->no_reuse,
                                     .policy = c->policy != NULL ? *c->policy : lane_policy_default,
                                     .journal = e->journal,
                                     .say = c->say,
                                     .say_self = c->say_self};
    TRY(lane_planner_open(&pc, &e->planner, note));
    struct ses_memory_config mc = {.key = engine_key(e),
                                   .n_pages = e->n_pages,
                                   .page_tokens = c->page_tokens,
                                   .page_bytes = e->devices[0]->page_bytes,
                                   .slots_max = e->slots_max,
                                   .pages_per_slot_max = e->pages_per_slot,
                                   .tables = lane_planner_tables(e->planner),
                                   .n_slots = lane_tiers_slots(e->tiers),
                                   .n_records = lane_tiers_records(e->tiers),
                                   .host = lane_tiers_hosts(e->tiers),
                                   .host_bytes = lane_tiers_host_bytes(e->tiers),
                                   .text = lane_tiers_of(e->tiers),
                                   .free_low = engine_free_low(e),
                                   .early_gap_ns = engine_early_gap_ns(e),
                                   .carry_gap_ns = engine_carry_gap_ns(e),
                                   .say = c->say,
                                   .say_self = c->say_self};
    TRY(ses_memory_open(&mc, &e->memory, note));
    return lane_tiers_found(e->tiers, e->memory, note);
}

static enum status engine_spawn(struct lane_engine *e, struct status_note *note) {
    const struct lane_engine_config *c = &e->config;
    if (c->rt != NULL) {
        e->rt = c->rt;
    } else {
        struct act_rt_config rc = {.port = ACT_PORT_THREADS,
                                   .workers = 1,
                                   .actors_max = e->slots_max + 64,
                                   /* What a slot has under way, and what a round may tell:
                                    * a token's best, its hash, itself, its text in parts. */
                                   .messages_max =
                                       e->slots_max * 64 + 65536 +
                                       c->lanes_max * GPU_WINDOW_MAX * (KRN_TOP_MAX + 40),
                                   .timers_max = e->slots_max + 256};
        TRY(act_rt_open(&rc, &e->rt, note));
        e->owns_rt = true;
    }
    ACT_TRACE_REGISTER(GPU_PROTOCOL, gpu);
    ACT_TRACE_REGISTER(FAB_PROTOCOL, fab);
    ACT_TRACE_REGISTER(SES_PROTOCOL, ses);
    ACT_TRACE_REGISTER(LANE_PROTOCOL, lane);
    act_id_t ranks[GPU_WORLD_MAX];
    bool own = c->rank_thread || (c->world > 1 && !c->fake);
    for (uint32_t r = 0; r < c->world; r++)
        ranks[r] = act_spawn(e->rt, &gpu_rank_kind, e->ranks[r], own ? ACT_OWN_THREAD : 0);
    act_id_t conductor = act_spawn(e->rt, &fab_conductor_kind, e->conductor, 0);
    e->memory_id = act_spawn(e->rt, &ses_memory_kind, e->memory, 0);
    e->planner_id = act_spawn(e->rt, &lane_planner_kind, e->planner, 0);
    if (ranks[c->world - 1] == 0 || conductor == 0 || e->memory_id == 0 || e->planner_id == 0)
        return status_say(note, STATUS_NO_MEMORY,
                          "the runtime has no room for the engine's actors");
    if (own && !c->fake && !e->cuda) /* the team's other threads: nobody may spin on their cores */
        act_rt_cores_reserve(e->rt, (int)(c->world * (e->threads - 1)));
    for (uint32_t r = 0; r < c->world; r++)
        gpu_rank_wire(e->ranks[r], conductor);
    fab_conductor_wire(e->conductor, ranks);
    /* Freed pages go by way of the planner, so that none is told of after a plan that uses it
     * again. */
    ses_memory_wire(e->memory, e->planner_id);
    lane_planner_wire(e->planner, e->planner_id, e->memory_id, conductor);
    return lane_tiers_spawn(e->tiers, e->rt, e->memory, e->memory_id, !c->fake, note);
}

static enum status engine_open_parts(struct lane_engine *e, struct status_note *note) {
    TRY(engine_settle(e, note));
    TRY(engine_open_model(e, note));
    e->shared.page_tokens = e->config.page_tokens;
    TRY(engine_choose(e, note));
    if (e->config.shape != NULL && !e->cuda)
        TRY(krn_model_fill(e->opened, note));
    TRY(engine_size(e, note));
    TRY(engine_open_devices(e, note));
    TRY(engine_open_actors(e, note));
    return engine_spawn(e, note);
}

enum status lane_engine_open(const struct lane_engine_config *config, struct lane_engine **out,
                             struct status_note *note) {
    struct lane_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the engine");
    e->config = *config;
    enum status s = engine_open_parts(e, note);
    if (s != STATUS_OK) {
        lane_engine_close(e);
        return s;
    }
    *out = e;
    return STATUS_OK;
}

void lane_engine_close(struct lane_engine *e) {
    if (e == NULL)
        return;
    if (e->owns_rt)
        act_rt_close(e->rt);
    lane_planner_close(e->planner);
    journal_close(e->journal);
    if (e->memory != NULL)
        ses_memory_close(e->memory);
    if (e->conductor != NULL)
        fab_conductor_close(e->conductor);
    for (uint32_t r = 0; r < GPU_WORLD_MAX; r++) {
        if (e->ranks[r] != NULL)
            gpu_rank_close(e->ranks[r]);
        if (e->devices[r] != NULL)
            e->devices[r]->ops->close(e->devices[r]);
    }
    lane_tiers_close(e->tiers); /* behind the devices, which may know its memory */
    if (e->collective != NULL)
        fab_mailbox_close(e->collective);
    fab_coll_nccl_close(e->exchange);
    if (e->tokenizer != NULL)
        lane_tokenizer_close(e->tokenizer);
    if (e->has_net)
        krn_net_free(&e->net);
    if (e->opened != NULL)
        krn_model_close(e->opened);
    free(e);
}

struct act_rt *lane_engine_rt(struct lane_engine *e) {
    return e->rt;
}

act_id_t lane_engine_planner(const struct lane_engine *e) {
    return e->planner_id;
}

act_id_t lane_engine_memory(const struct lane_engine *e) {
    return e->memory_id;
}

const struct gpu_device *lane_engine_device(const struct lane_engine *e, uint32_t r) {
    CHECK(r < e->config.world);
    return e->devices[r];
}

const struct fab_votes *lane_engine_votes(const struct lane_engine *e) {
    return fab_conductor_votes(e->conductor);
}

const struct krn_model *lane_engine_model(const struct lane_engine *e) {
    return e->model;
}

const struct krn_net *lane_engine_net(const struct lane_engine *e) {
    return e->has_net ? &e->net : NULL;
}

const struct krn_profile *lane_engine_profile(const struct lane_engine *e) {
    return &e->profile;
}

const struct lane_tokenizer *lane_engine_tokenizer(const struct lane_engine *e) {
    return e->tokenizer;
}

uint32_t lane_engine_context(const struct lane_engine *e) {
    return e->shared.context;
}

uint32_t lane_engine_vocab(const struct lane_engine *e) {
    return e->shared.vocab;
}

uint64_t lane_engine_kv_tokens(const struct lane_engine *e) {
    return (uint64_t)e->n_pages * e->config.page_tokens;
}

const char *lane_engine_device_name(const struct lane_engine *e) {
    return e->config.fake ? "fake" : e->cuda ? "cuda" : "cpu";
}

const char *lane_engine_device_words(const struct lane_engine *e) {
    return e->device_words;
}

const char *lane_engine_device_why(const struct lane_engine *e) {
    return e->cuda ? "" : e->no_gpu.text;
}

bool lane_engine_ahead(const struct lane_engine *e) {
    return e->config.ahead;
}

uint64_t lane_engine_page_bytes(const struct lane_engine *e) {
    return e->devices[0]->page_bytes;
}

uint64_t lane_engine_bytes(const struct lane_engine *e) {
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < e->config.world; r++)
        bytes += e->devices[r]->bytes_used;
    return bytes;
}

uint64_t lane_engine_weights_bytes(const struct lane_engine *e) {
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < e->config.world; r++)
        bytes += e->devices[r]->weights_bytes;
    return bytes;
}

const char *lane_engine_weights(const struct lane_engine *e) {
    static const char *const words[] = {
        [GPU_WEIGHTS_AUTO] = "", [GPU_WEIGHTS_PACKED] = "packed", [GPU_WEIGHTS_WIDE] = "wide"};
    return words[e->devices[0]->weights];
}

void lane_engine_weights_text(const struct lane_engine *e, char *text, size_t bytes) {
    const char *word = lane_engine_weights(e);
    snprintf(text, bytes, "weights %.1f MiB%s%s", (double)lane_engine_weights_bytes(e) / (1 << 20),
             word[0] != '\0' ? ", " : "", word);
}

void lane_engine_tiers_text(const struct lane_engine *e, char *text, size_t bytes) {
    lane_tiers_text(e->tiers, text, bytes);
}

void lane_engine_copy_rates(struct lane_engine *e, double *out_B_s, double *in_B_s) {
    const struct gpu_host host = {.at = lane_tiers_host(e->tiers, 0),
                                  .slot_bytes = lane_tiers_host_bytes(e->tiers),
                                  .n = lane_tiers_slots(e->tiers)};
    gpu_copy_rates(e->devices[0], e->n_pages, host, out_B_s, in_B_s);
}

bool lane_engine_has_disk(const struct lane_engine *e) {
    return lane_tiers_records(e->tiers) > 0;
}

void lane_engine_store_counts(const struct lane_engine *e, struct ses_store_counts *out) {
    lane_tiers_counts(e->tiers, out);
}

enum status lane_engine_dead(const struct lane_engine *e) {
    return lane_planner_dead(e->planner);
}

const struct lane_counters *lane_engine_counters(const struct lane_engine *e) {
    return lane_planner_counters(e->planner);
}

uint32_t lane_engine_host_samples(const struct lane_engine *e, uint32_t lanes, uint64_t *ns,
                                  uint32_t n) {
    return lane_planner_host_samples(e->planner, lanes, ns, n);
}

bool lane_engine_audit(const struct lane_engine *e, struct status_note *note) {
    return ses_memory_audit(e->memory, note);
}
