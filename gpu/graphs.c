/* SPDX-License-Identifier: Apache-2.0
 * Slots of captured graphs and the one capture under way.
 */
#include "gpu/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

enum {
    GRAPHS_SLOTS = GPU_LEASE_HOLDERS_MAX, /* more than GPU_GRAPHS_MAX: some are retiring */
    GRAPHS_VOTES = 128,
    GRAPHS_NOBODY = GRAPHS_SLOTS
};

enum graphs_state { SLOT_FREE, SLOT_RESERVED, SLOT_CAPTURING, SLOT_CAPTURED, SLOT_RETIRING };

struct graphs_slot {
    enum graphs_state state;
    bool lost; /* said so */
    uint64_t key, after;
    struct gpu_cu_exec *exec;
};

struct gpu_graphs {
    struct gpu_graphs_config config;
    struct gpu_work no_work;
    struct graphs_slot slots[GRAPHS_SLOTS];
    uint32_t owner;   /* slot of the capture under way, or GRAPHS_NOBODY */
    uint32_t replays; /* slot that begin answered REPLAY for, or GRAPHS_NOBODY */
    uint64_t quarantine[GPU_GRAPHS_QUARANTINE];
    uint32_t n_quarantine; /* so far; the ring holds the last ones */
    struct gpu_graph_said votes[GRAPHS_VOTES];
    uint32_t votes_first, votes_n;
    uint32_t since_sample;
    struct gpu_graphs_count count;
};

enum status gpu_graphs_open(const struct gpu_graphs_config *config, struct gpu_graphs **out,
                            struct status_note *note) {
    CHECK(config->settings.max <= GPU_GRAPHS_MAX && config->settings.floor <= config->settings.max);
    CHECK(config->low_bytes <= config->high_bytes);
    struct gpu_graphs *g = calloc(1, sizeof *g);
    if (g == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the graph cache");
    g->config = *config;
    if (g->config.work == NULL)
        g->config.work = &g->no_work;
    if (g->config.sample == 0)
        g->config.sample = GPU_GRAPHS_SAMPLE;
    g->since_sample = g->config.sample; /* the first step asks */
    g->owner = g->replays = GRAPHS_NOBODY;
    *out = g;
    return STATUS_OK;
}

/* ---- votes ---- */

/* Queues a word. A full queue means that nobody fetches: the oldest word is the stalest. */
static void graphs_say(struct gpu_graphs *g, uint64_t key, enum gpu_graph_word word) {
    if (g->votes_n == GRAPHS_VOTES) {
        g->votes_first = (g->votes_first + 1) % GRAPHS_VOTES;
        g->votes_n--;
    }
    g->votes[(g->votes_first + g->votes_n++) % GRAPHS_VOTES] = (struct gpu_graph_said){key, word};
}

bool gpu_graphs_vote(struct gpu_graphs *g, struct gpu_graph_said *vote) {
    if (g->votes_n == 0)
        return false;
    *vote = g->votes[g->votes_first];
    g->votes_first = (g->votes_first + 1) % GRAPHS_VOTES;
    g->votes_n--;
    return true;
}

/* ---- slots ---- */

static uint32_t slot_of(const struct gpu_graphs *g, uint64_t key) {
    uint32_t i = 0;
    while (i < GRAPHS_SLOTS && !(g->slots[i].key == key && g->slots[i].state != SLOT_FREE &&
                                 g->slots[i].state != SLOT_RETIRING))
        i++;
    return i;
}

static uint32_t slots_in(const struct gpu_graphs *g, enum graphs_state state) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < GRAPHS_SLOTS; i++)
        n += g->slots[i].state == state;
    return n;
}

static void slot_clear(struct gpu_graphs *g, uint32_t i) {
    struct graphs_slot *s = &g->slots[i];
    if (s->exec != NULL)
        g->config.driver->graph_exec_destroy(s->exec);
    if (g->config.leases != NULL)
        gpu_lease_drop(g->config.leases, i);
    *s = (struct graphs_slot){0};
}

static bool quarantined(const struct gpu_graphs *g, uint64_t key) {
    uint32_t n = g->n_quarantine < GPU_GRAPHS_QUARANTINE ? g->n_quarantine : GPU_GRAPHS_QUARANTINE;
    for (uint32_t i = 0; i < n; i++)
        if (g->quarantine[i] == key)
            return true;
    return false;
}

/* A capture that came to nothing: the slot goes, the key is not tried again, the others hear it. */
static void slot_failed(struct gpu_graphs *g, uint32_t i) {
    uint64_t key = g->slots[i].key;
    slot_clear(g, i);
    if (!quarantined(g, key))
        g->quarantine[g->n_quarantine++ % GPU_GRAPHS_QUARANTINE] = key;
    g->count.failed++;
    graphs_say(g, key, GPU_GRAPH_NOT_CAPTURED);
}

void gpu_graphs_close(struct gpu_graphs *g) {
    if (g == NULL)
        return;
    if (g->owner != GRAPHS_NOBODY) {
        struct gpu_cu_graph *graph = NULL;
        g->config.driver->capture_end(g->config.stream, &graph);
        if (graph != NULL)
            g->config.driver->graph_destroy(graph);
    }
    for (uint32_t i = 0; i < GRAPHS_SLOTS; i++)
        slot_clear(g, i);
    free(g);
}

/* ---- pressure ---- */

/* Looks at the free memory now and then: between low and high what was stays. */
static void graphs_sample(struct gpu_graphs *g, bool now) {
    if (!now && ++g->since_sample < g->config.sample)
        return;
    g->since_sample = 0;
    size_t free_bytes = 0, total = 0;
    if (g->config.high_bytes == 0 ||
        g->config.driver->memory_info(&free_bytes, &total) != GPU_CUDA_SUCCESS)
        return;
    if (free_bytes < g->config.low_bytes) {
        g->count.tight = true;
        graphs_say(g, 0, GPU_GRAPH_TIGHT);
    } else if (g->count.tight && free_bytes > g->config.high_bytes) {
        g->count.tight = false;
        graphs_say(g, 0, GPU_GRAPH_EASY);
    }
}

/* ---- orders ---- */

static void graphs_reserve(struct gpu_graphs *g, uint64_t key) {
    uint32_t i = slot_of(g, key);
    bool room = !g->count.tight && !quarantined(g, key);
    if (i == GRAPHS_NOBODY && room) {
        uint32_t taken = GRAPHS_SLOTS - slots_in(g, SLOT_FREE) - slots_in(g, SLOT_RETIRING);
        room = taken < g->config.settings.max && slots_in(g, SLOT_FREE) > 0;
        for (uint32_t s = 0; s < GRAPHS_SLOTS && room && i == GRAPHS_NOBODY; s++)
            if (g->slots[s].state == SLOT_FREE)
                i = s;
        if (room)
            g->slots[i] = (struct graphs_slot){.state = SLOT_RESERVED, .key = key};
    }
    graphs_say(g, key, room ? GPU_GRAPH_ROOM : GPU_GRAPH_NO_ROOM);
}

static enum gpu_graph_run graphs_capture(struct gpu_graphs *g, uint64_t key) {
    uint32_t i = slot_of(g, key);
    if (i == GRAPHS_NOBODY || g->slots[i].state != SLOT_RESERVED) {
        graphs_say(g, key, GPU_GRAPH_NOT_CAPTURED);
        return GPU_GRAPHS_EAGER;
    }
    gpu_cu_t r = g->config.driver->capture_begin(g->config.stream, GPU_CU_CAPTURE_THREAD);
    if (r != GPU_CUDA_SUCCESS) {
        slot_failed(g, i);
        return GPU_GRAPHS_EAGER;
    }
    g->slots[i].state = SLOT_CAPTURING;
    g->owner = i;
    return GPU_GRAPHS_CAPTURE;
}

static bool graphs_stale(const struct gpu_graphs *g, uint32_t i) {
    return g->config.leases != NULL && (gpu_leases_stale(g->config.leases) >> i & 1) != 0;
}

static enum gpu_graph_run graphs_live(struct gpu_graphs *g, uint64_t key) {
    uint32_t i = slot_of(g, key);
    if (i != GRAPHS_NOBODY && g->slots[i].state == SLOT_CAPTURED && !graphs_stale(g, i)) {
        g->replays = i;
        return GPU_GRAPHS_REPLAY;
    }
    /* Said once, until the key is dropped or was never there. */
    if (i == GRAPHS_NOBODY || !g->slots[i].lost) {
        g->count.lost++;
        graphs_say(g, key, GPU_GRAPH_LOST);
    }
    if (i != GRAPHS_NOBODY)
        g->slots[i].lost = true;
    return GPU_GRAPHS_EAGER;
}

enum gpu_graph_run gpu_graphs_begin(struct gpu_graphs *g, uint64_t key,
                                    enum gpu_graph_order order) {
    CHECK(g->owner == GRAPHS_NOBODY && g->replays == GRAPHS_NOBODY); /* keeps G1 */
    enum gpu_graph_run run = GPU_GRAPHS_EAGER;
    g->config.work->graph_key = 0;
    if (key != 0 && order != GPU_GRAPH_NONE) {
        /* Hits are asked too, or pressure that comes later would never be seen. */
        graphs_sample(g, order != GPU_GRAPH_LIVE);
        if (order == GPU_GRAPH_LIVE)
            run = graphs_live(g, key);
        else if (order == GPU_GRAPH_ASK)
            graphs_reserve(g, key);
        else
            run = graphs_capture(g, key);
    }
    if (run != GPU_GRAPHS_EAGER)
        g->config.work->graph_key = key;
    g->count.eager += run == GPU_GRAPHS_EAGER;
    return run;
}

/* The step has to be launched eagerly after all. */
static enum status graphs_eagerly(struct gpu_graphs *g) {
    g->config.work->graph_key = 0;
    g->count.eager++;
    return STATUS_AGAIN;
}

static enum status graphs_lost(struct gpu_graphs *g, gpu_cu_t result, const char *what,
                               struct status_note *note) {
    return gpu_fault_say(note, g->config.driver, result, g->config.work, what);
}

/* Makes the captured sequence executable and takes leases for it; on failure nothing is left. */
static gpu_cu_t graphs_insert(struct gpu_graphs *g, uint32_t i, struct gpu_cu_graph *graph,
                              const gpu_mem_t *baked, uint32_t n_baked) {
    struct graphs_slot *s = &g->slots[i];
    gpu_cu_t r = g->config.driver->graph_instantiate(&s->exec, graph, 0);
    if (r != GPU_CUDA_SUCCESS) {
        s->exec = NULL;
        return r;
    }
    if (g->config.leases != NULL &&
        gpu_lease_take(g->config.leases, i, baked, n_baked, NULL) != STATUS_OK)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    return g->config.driver->graph_upload(s->exec, g->config.stream);
}

enum status gpu_graphs_end(struct gpu_graphs *g, enum status launched, const gpu_mem_t *baked,
                           uint32_t n_baked, struct status_note *note) {
    const struct gpu_driver *d = g->config.driver;
    struct gpu_cu_graph *graph = NULL;
    uint32_t i = g->owner;
    CHECK(i != GRAPHS_NOBODY && g->slots[i].state == SLOT_CAPTURING);
    g->owner = GRAPHS_NOBODY;
    gpu_cu_t r = d->capture_end(g->config.stream, &graph);
    if (r == GPU_CUDA_SUCCESS && launched == STATUS_OK)
        r = graphs_insert(g, i, graph, baked, n_baked);
    else if (r == GPU_CUDA_SUCCESS)
        r = GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (graph != NULL)
        d->graph_destroy(graph);
    if (gpu_result_kind(r) == GPU_FAULT_DEAD) {
        slot_failed(g, i);
        return graphs_lost(g, r, "capturing a graph", note);
    }
    if (r == GPU_CUDA_SUCCESS)
        r = d->graph_launch(g->slots[i].exec, g->config.stream);
    if (r != GPU_CUDA_SUCCESS) {
        slot_failed(g, i);
        return gpu_result_kind(r) == GPU_FAULT_DEAD
                   ? graphs_lost(g, r, "replaying a new graph", note)
                   : graphs_eagerly(g);
    }
    g->slots[i].state = SLOT_CAPTURED;
    g->count.captures++;
    g->count.replays++;
    graphs_say(g, g->slots[i].key, GPU_GRAPH_CAPTURED);
    return STATUS_OK;
}

enum status gpu_graphs_replay(struct gpu_graphs *g, struct status_note *note) {
    uint32_t i = g->replays;
    CHECK(i != GRAPHS_NOBODY && g->slots[i].state == SLOT_CAPTURED);
    g->replays = GRAPHS_NOBODY;
    gpu_cu_t r = g->config.driver->graph_launch(g->slots[i].exec, g->config.stream);
    if (r == GPU_CUDA_SUCCESS) {
        g->count.replays++;
        return STATUS_OK;
    }
    if (gpu_result_kind(r) == GPU_FAULT_DEAD)
        return graphs_lost(g, r, "replaying a graph", note);
    if (!g->slots[i].lost) {
        g->slots[i].lost = true;
        g->count.lost++;
        graphs_say(g, g->slots[i].key, GPU_GRAPH_LOST);
    }
    return graphs_eagerly(g);
}

/* ---- retiring ---- */

void gpu_graphs_drop(struct gpu_graphs *g, uint64_t key, uint64_t after) {
    uint32_t i = slot_of(g, key);
    if (i == GRAPHS_NOBODY)
        return;
    CHECK(i != g->owner && i != g->replays);
    if (g->slots[i].state == SLOT_RESERVED) {
        slot_clear(g, i);
        return;
    }
    g->slots[i].state = SLOT_RETIRING;
    g->slots[i].after = after;
}

void gpu_graphs_abandon(struct gpu_graphs *g) {
    CHECK(g->owner == GRAPHS_NOBODY && g->replays == GRAPHS_NOBODY);
    for (uint32_t i = 0; i < GRAPHS_SLOTS; i++) {
        struct graphs_slot *s = &g->slots[i];
        if (s->exec == NULL)
            continue;
        g->config.driver->graph_exec_destroy(s->exec);
        *s = (struct graphs_slot){.state = SLOT_RETIRING, .key = s->key, .after = UINT64_MAX};
    }
}

void gpu_graphs_reached(struct gpu_graphs *g, uint64_t number) {
    for (uint32_t i = 0; i < GRAPHS_SLOTS; i++)
        if (g->slots[i].state == SLOT_RETIRING && g->slots[i].after <= number)
            slot_clear(g, i);
}

struct gpu_graphs_count gpu_graphs_count(const struct gpu_graphs *g) {
    struct gpu_graphs_count count = g->count;
    count.captured = slots_in(g, SLOT_CAPTURED);
    count.reserved = slots_in(g, SLOT_RESERVED) + slots_in(g, SLOT_CAPTURING);
    count.retiring = slots_in(g, SLOT_RETIRING);
    count.quarantined =
        g->n_quarantine < GPU_GRAPHS_QUARANTINE ? g->n_quarantine : GPU_GRAPHS_QUARANTINE;
    return count;
}
