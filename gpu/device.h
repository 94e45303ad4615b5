/* SPDX-License-Identifier: Apache-2.0
 * The device port: what a rank actor asks of hardware. Implementations: device_cpu (row functions
 * on a team of threads), device_cuda (one GPU), device_fake (simulation). One owner: only the rank
 * actor's thread calls it.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "gpu/exchange.h"
#include "gpu/plan.h"
#include "kernels/families/family.h"

struct gpu_device;

/* Streams of a device and marks on them. The CPU device is in order, so its events are reached at
 * once. */
enum gpu_stream { GPU_STREAM_COMPUTE, GPU_STREAM_IN, GPU_STREAM_OUT, GPU_STREAMS };
typedef uint64_t gpu_event_t;

/* Matrices of a GGUF file's blocks in a GPU's memory, profile cuda-bf16-sm90: PACKED as they are,
 * or WIDE, as bf16; no bit of a result depends on it. AUTO: PACKED where that can be. */
enum gpu_weights { GPU_WEIGHTS_AUTO, GPU_WEIGHTS_PACKED, GPU_WEIGHTS_WIDE };

struct gpu_device_config {
    const struct krn_net *net; /* NULL for the fake device */
    struct krn_profile profile;
    struct gpu_limits limits;
    uint32_t page_tokens;
    uint32_t n_pages; /* page 0 is the sink */
    uint32_t threads; /* CPU: team size, this thread included; 0: cores (this rank's share) */
    uint32_t rank, world;
    const struct gpu_collective *collective; /* NULL when world is 1 */
    const struct gpu_exchange *exchange;     /* CUDA, several ranks; NULL: the host carries */
    const char *isa;                         /* CPU: NULL for the best */
    struct gpu_graph_settings graphs;        /* of devices with a graph cache: CUDA, fake */
    enum gpu_weights weights;                /* CUDA */
    /* fake device: */
    uint32_t vocab;
    uint64_t fake_step_ns; /* virtual time a step takes */
    uint64_t seed;
};

enum gpu_poll { GPU_DONE, GPU_BUSY };

struct gpu_device_ops {
    const char *name;
    /* Enqueues the plan; the result is complete when poll says so. At most two steps may be under
     * way. plan and result stay valid until then. A plan closed ahead of a failed one answers AGAIN
     * without touching pages. */
    void (*step)(struct gpu_device *d, const struct gpu_plan *plan, struct gpu_result *result);
    /* GPU_BUSY with *again_ns, when to ask again (relative), or GPU_DONE for the oldest step under
     * way. */
    enum gpu_poll (*poll)(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns);
    /* Whole pages to and from host memory (tiers, tests), page_bytes each, on the in or out stream.
     */
    enum status (*page_read)(struct gpu_device *d, uint32_t page, void *host);
    enum status (*page_write)(struct gpu_device *d, uint32_t page, const void *host);
    /* Optional (NULL: all host memory is alike). Host memory for pages from now until close is made
     * known to the driver: page_read and page_write of it then copy straight to and from it and
     * return at once; what they come after is the caller's to order (wait), and an event recorded
     * behind them says when they are done. False: it stays as it was, and those calls wait. */
    bool (*host_use)(struct gpu_device *d, void *host, uint64_t bytes);
    /* Tells that a page was freed; debug and fake devices poison it. */
    void (*page_freed)(struct gpu_device *d, uint32_t page);
    gpu_event_t (*record)(struct gpu_device *d, enum gpu_stream stream);
    void (*wait)(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event);
    bool (*reached)(struct gpu_device *d, gpu_event_t event);
    /* With an exchange, once before the first step, of all ranks at one time, each on a thread of
     * its own: joins it and proves that it brings what ranks send, bit for bit. NULL where there is
     * none. */
    enum status (*meet)(struct gpu_device *d, struct status_note *note);
    /* Graphs (gpu/graph.h), all three or none (NULL: every step is eager). graph_key: the plan's
     * shape class, 0 for none; pure, asked by the conductor on its own thread, the same on all
     * ranks. graph_vote: the next word for the conductor, false when there is none; asked after
     * step and poll. graph_drop: forgets a key; comes before the next plan that asks for it. */
    uint64_t (*graph_key)(const struct gpu_device *d, const struct gpu_plan *plan);
    bool (*graph_vote)(struct gpu_device *d, struct gpu_graph_said *vote);
    void (*graph_drop)(struct gpu_device *d, uint64_t key);
    /* Hooks of tests and of prove's own proof, set before the device steps; NULL where there are
     * none. perturb: one addition order is another in the situations of gpu/perturb.h. poison:
     * freed pages are filled with NaN. */
    void (*perturb)(struct gpu_device *d, uint32_t kind);
    void (*poison)(struct gpu_device *d, bool on);
    void (*close)(struct gpu_device *d);
};

/* Faults of the next step, for tests and the simulation; step takes them and clears them. */
struct gpu_faults {
    bool step_fails; /* ROUND_FAILED, after some of its work */
    bool voided;     /* AGAIN, no page touched */
    bool nan_row;    /* row nan_at (or its last) of the seq with slot nan_slot is not finite */
    uint32_t nan_slot, nan_at;
    uint64_t slow_ns; /* the step takes so much longer (fake) */
    bool graph_fails; /* the order of this plan cannot be followed: no room, no capture, lost */
};

struct gpu_device {
    const struct gpu_device_ops *ops;
    uint64_t page_bytes;
    uint64_t bytes_used;              /* weights, pages, buffers */
    uint64_t weights_bytes;           /* of them */
    enum gpu_weights weights;         /* AUTO: there is no such choice */
    bool inline_step;                 /* step computes before it returns (CPU) */
    struct gpu_graph_settings graphs; /* what it was opened with; 0 where it has no graphs */
    struct gpu_faults faults;
};

enum status gpu_device_cpu_open(const struct gpu_device_config *config, struct gpu_device **out,
                                struct status_note *note);
/* What a machine's first GPU is, before a device is sized for it. */
struct gpu_cuda_found {
    char name[96];
    uint32_t n_gpus;
    uint64_t free_bytes, total_bytes;
    int driver_version; /* 1000 * major + 10 * minor */
};
/* UNSUPPORTED says why no GPU of this machine can run this model in this profile with this build.
 */
enum status gpu_device_cuda_probe(const struct krn_config *model, const struct krn_profile *profile,
                                  struct gpu_cuda_found *out, struct status_note *note);

/* The first GPU of this machine, by rank where there are several. UNSUPPORTED says what is missing:
 * a driver, a GPU, kernels of this build, or a part of the model or profile. NO_MEMORY says what
 * was needed and what was free. */
enum status gpu_device_cuda_open(const struct gpu_device_config *config, struct gpu_device **out,
                                 struct status_note *note);
enum status gpu_device_fake_open(const struct gpu_device_config *config, struct gpu_device **out,
                                 struct status_note *note);

/* BAD_REQUEST names the page size, page count, limit or number of ranks that no device can have;
 * device is its name in the sentence. Ranks without a collective are a bug. */
enum status gpu_device_check(const struct gpu_device_config *config, const char *device,
                             struct status_note *note);

/* Bytes of one KV page of this rank; used to turn a KV budget into n_pages before a device is
 * opened. */
uint64_t gpu_page_bytes(const struct krn_config *config, const struct krn_profile *profile,
                        uint32_t page_tokens, uint32_t rank, uint32_t world);

/* The fake device's graphs, for tests: how many keys hold a slot, whether this one is captured, how
 * many steps were replays. */
uint32_t gpu_device_fake_graphs(const struct gpu_device *d);
bool gpu_device_fake_captured(const struct gpu_device *d, uint64_t key);
uint64_t gpu_device_fake_replays(const struct gpu_device *d);

/* What the fake device draws for a sequence: a pure function of its tokens (ids[0..n)), seed and
 * pos, for the simulation's solo reference. pos = n. */
uint32_t gpu_fake_draw(const uint32_t *ids, uint32_t n, uint64_t seed, uint32_t vocab);

#endif
