/* SPDX-License-Identifier: Apache-2.0
 * The engine as a whole: model, tokenizer, device, memory, planner, wired in one runtime. Programs,
 * tests and the simulation open it, spawn their own client actors and run the runtime.
 */
#ifndef LANES_ENGINE_H
#define LANES_ENGINE_H

#include "fabric/votes.h"
#include "gpu/device.h"
#include "kernels/families/family.h"
#include "lanes/planner_policy.h"
#include "lanes/request.h"
#include "lanes/text/tokenizer.h"
#include "sessions/protocol.h"
#include "sessions/store.h"

struct lane_engine;

/* Where a model runs. AUTO: on a GPU where one is usable and runs the profile, else on the CPU. */
enum lane_device { LANE_DEVICE_AUTO, LANE_DEVICE_CPU, LANE_DEVICE_CUDA };
/* How ranks on GPUs add and gather: NCCL where each has a GPU of its own; the host's memory. */
enum lane_exchange { LANE_EXCHANGE_AUTO, LANE_EXCHANGE_HOST, LANE_EXCHANGE_NCCL };

struct lane_engine_config {
    const char *model_path; /* or, when NULL, model: borrowed, must outlive the engine */
    const struct krn_model *model;
    /* Or a known shape with weights made from `seed` (krn_model_shape), without any file. */
    const char *shape;
    bool fake;                         /* fake device (simulation); model may be NULL then */
    uint32_t fake_vocab, fake_context; /* kv_bytes counts tokens then */
    uint64_t fake_step_ns;
    /* A page that it copies counts for so much of the rank's time; 0: copies cost nothing. */
    uint64_t fake_copy_ns;
    /* Test hook asked before each step of every rank (gpu/rank.h). NULL: none. */
    void (*before_step)(void *self, const struct gpu_plan *plan, struct gpu_faults *faults);
    void *before_step_self;
    struct act_rt *rt; /* NULL: the engine opens its own on threads */
    uint64_t seed;
    uint32_t threads;       /* CPU team; 0: cores */
    uint32_t world;         /* ranks in this process; 0: 1 */
    const char *profile;    /* numerics profile by name; NULL: the default */
    uint32_t virtual_ranks; /* 0: the profile's default */
    const char *isa;        /* NULL: best */
    enum lane_device device;
    enum lane_exchange exchange;
    enum gpu_weights weights; /* other than AUTO is refused where it means nothing */
    /* KV budget of each rank; 0: room for 16 full contexts, at most a quarter of the memory, or of
     * what a GPU has free */
    uint64_t kv_bytes;
    uint32_t kv_percent; /* or of the GPU's memory, on a CPU of the machine's; 0: not said */
    /* Host memory of each rank for pages that left the device; 0: none. With a disk at least enough
     * for what is on its way. Counts tokens with the fake device. */
    uint64_t ram_cache;
    /* A directory for sessions that outlive the process; NULL: none. The budget and the bytes that
     * stay free on its file system, of each rank. */
    const char *disk_cache;
    uint64_t disk_budget, disk_floor;
    uint64_t disk_segment;  /* bytes of one file; 0: by the budget */
    struct ses_disk *disk;  /* tests: instead of the system's, of one rank; taken over */
    uint32_t context;       /* 0: the model's; larger is refused */
    uint32_t page_tokens;   /* 0: 64 */
    uint32_t lanes_max;     /* running at once; 0: 64; at most 256 */
    uint32_t queue_max;     /* waiting; 0: 1024 */
    uint32_t round_tokens;  /* token budget of a round; 0: 512, on a GPU 2,048 */
    uint32_t piece_tokens;  /* prompt piece at most; 0: the same */
    uint64_t piece_ns;      /* and about so long at most; 0: 250 ms, UINT64_MAX: no bound */
    uint32_t prefill_share; /* percent of a round's budget for prompts while decodes wait; 0: 50 */
    bool ahead;             /* plan-ahead */
    bool ahead_auto;        /* plan-ahead, and the rank on its own thread, where there is a GPU */
    bool rank_thread;       /* the rank on its own thread; else with the worker */
    bool no_reuse;          /* the operator's switch: no prefix hits */
    const struct lane_policy *policy; /* NULL: the built-in one */
    const char *journal_path;         /* NULL: none */
    uint32_t perturb;                 /* prove's own proof, see gpu/perturb.h */
    /* Captured graphs at most (gpu/graph.h); 0: every step is eager. graphs_asked: the operator
     * named it, so a device without graphs refuses; else it runs eagerly. */
    uint32_t graphs;
    bool graphs_asked;
    /* Told in one sentence what an operator may want to know, on a worker or a store's thread.
     * NULL: nobody. */
    void (*say)(void *self, const char *text);
    void *say_self;
};

struct lane_counters {
    uint64_t rounds, rounds_failed, rows_prompt, rows_decode, rows_verify;
    uint64_t tokens_out, drafted, accepted, resumed, requests, refused, cancelled, failed;
    uint64_t resumed_ram, resumed_disk; /* of resumed */
    uint64_t reasons[SES_REASONS];      /* requests, by what the lookup found */
    uint64_t host_ns_total;             /* worker time outside row functions, over all rounds */
    uint64_t kernel_ns_total;
    uint32_t running, queued, lanes_max;
    uint32_t pages_total, pages_free;
    uint32_t page_tokens;
    uint64_t kv_capacity_tokens;
    bool draining;
};

/* Opens everything; on failure nothing stays and note is one clear sentence. */
enum status lane_engine_open(const struct lane_engine_config *config, struct lane_engine **out,
                             struct status_note *note);
/* Stops and frees everything; the runtime too when the engine opened it. */
void lane_engine_close(struct lane_engine *e);

struct act_rt *lane_engine_rt(struct lane_engine *e);
act_id_t lane_engine_planner(const struct lane_engine *e);
act_id_t lane_engine_memory(const struct lane_engine *e);
/* For tests and reports, when the runtime does not run: rank r's device; how graphs stand. */
const struct gpu_device *lane_engine_device(const struct lane_engine *e, uint32_t r);
const struct fab_votes *lane_engine_votes(const struct lane_engine *e);
/* "cpu", "cuda" or "fake"; what it runs on in words ("NVIDIA H200, driver 13.0"; of a CPU the
 * instruction set); and, where AUTO took the CPU, why not a GPU, else "". */
const char *lane_engine_device_name(const struct lane_engine *e);
const char *lane_engine_device_words(const struct lane_engine *e);
const char *lane_engine_device_why(const struct lane_engine *e);
bool lane_engine_ahead(const struct lane_engine *e); /* whether it plans ahead */
/* NULL with the fake device */
const struct krn_model *lane_engine_model(const struct lane_engine *e);
const struct krn_net *lane_engine_net(const struct lane_engine *e);
const struct krn_profile *lane_engine_profile(const struct lane_engine *e);
/* NULL when the model has none */
const struct lane_tokenizer *lane_engine_tokenizer(const struct lane_engine *e);
uint32_t lane_engine_context(const struct lane_engine *e);
uint32_t lane_engine_vocab(const struct lane_engine *e);
uint64_t lane_engine_kv_tokens(const struct lane_engine *e); /* KV capacity, said at start */
uint64_t lane_engine_bytes(const struct lane_engine *e);     /* weights, pages and buffers */
uint64_t lane_engine_weights_bytes(const struct lane_engine *e);
const char *lane_engine_weights(const struct lane_engine *e); /* packed, wide; "": no choice */
/* "weights 4513.2 MiB, packed" */
void lane_engine_weights_text(const struct lane_engine *e, char *text, size_t bytes);
uint64_t lane_engine_page_bytes(const struct lane_engine *e); /* of one rank */
enum status
lane_engine_dead(const struct lane_engine *e); /* OK, or the sticky failure that ended all work */
const struct lane_counters *
lane_engine_counters(const struct lane_engine *e); /* on the worker, or after it stopped */
/* Per-round host time outside row functions, ns, of the last rounds with exactly `lanes` lanes:
 * fills at most n, returns how many. */
uint32_t lane_engine_host_samples(const struct lane_engine *e, uint32_t lanes, uint64_t *ns,
                                  uint32_t n);
/* The tiers in one line for a person; "" when there are none. */
void lane_engine_tiers_text(const struct lane_engine *e, char *text, size_t bytes);
/* How fast pages go to the first rank's host memory and back; before the runtime runs. */
void lane_engine_copy_rates(struct lane_engine *e, double *out_B_s, double *in_B_s);
bool lane_engine_has_disk(const struct lane_engine *e);
/* Of the stores of all ranks; after the runtime has stopped. */
void lane_engine_store_counts(const struct lane_engine *e, struct ses_store_counts *out);
/* Conservation of pages (tests): false and a sentence when the books do not balance. */
bool lane_engine_audit(const struct lane_engine *e, struct status_note *note);

#endif
