/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's graphs: which plans share one sequence of launches, and a step that captures it
 * or replays it. Copies of pages and the plan's upload stay outside; kernels read the rest of a
 * plan from the image, at one address. Where the host carries what ranks exchange, nothing is
 * captured; an exchange between devices is captured with the rest.
 */
#include "gpu/graphs_cuda.h"
#include "actors/check.h"

enum {
    GRAPHS_LOW = 64 << 20, /* free device memory, in bytes */
    GRAPHS_HIGH = 192 << 20,
    /* Longer pieces come in shapes that seldom return, and hide their launches anyway. */
    GRAPHS_ROWS_MAX = 256
};

enum status gpu_cuda_graphs_open(struct cuda *c, bool each, struct status_note *note) {
    /* A launch that is waited for cannot be seen inside a graph. */
    if (c->config.graphs.max == 0 || each || (c->config.world > 1 && c->config.exchange == NULL))
        return STATUS_OK;
    c->device.graphs = c->config.graphs;
    TRY(gpu_leases_open(c->arena, &c->leases, note));
    const struct gpu_graphs_config config = {.driver = c->driver,
                                             .stream = c->streams[GPU_STREAM_COMPUTE],
                                             .leases = c->leases,
                                             .work = &c->work,
                                             .settings = c->config.graphs,
                                             .low_bytes = GRAPHS_LOW,
                                             .high_bytes = GRAPHS_HIGH};
    return gpu_graphs_open(&config, &c->graphs, note);
}

void gpu_cuda_graphs_close(struct cuda *c) {
    gpu_graphs_close(c->graphs);
    gpu_leases_close(c->leases);
    c->graphs = NULL;
    c->leases = NULL;
}

/* What launches depend on: the shape, and nothing else of a plan. A bit keeps it from 0. */
uint64_t gpu_cuda_graph_key(const struct gpu_device *d, const struct gpu_plan *p) {
    const struct cuda *c = (const struct cuda *)d;
    struct cuda_shape s = gpu_cuda_shape(p);
    if (c->graphs == NULL || p->n_seqs == 0 || p->n_rows == 0 || c->perturb != GPU_PERTURB_NONE)
        return 0;
    if (s.rows > GRAPHS_ROWS_MAX)
        return 0;
    return 1ull << 63 | (uint64_t)s.rows << 40 | (uint64_t)s.draws << 20 | s.seqs;
}

bool gpu_cuda_graph_vote(struct gpu_device *d, struct gpu_graph_said *said) {
    struct cuda *c = (struct cuda *)d;
    return c->graphs != NULL && gpu_graphs_vote(c->graphs, said);
}

/* Steps that are answered are over. */
void gpu_cuda_graphs_settle(struct cuda *c) {
    if (c->graphs == NULL)
        return;
    uint64_t over = c->last_number;
    if (c->n_steps > 0)
        over = c->steps[c->first_step].plan->number - 1;
    gpu_graphs_reached(c->graphs, over);
}

void gpu_cuda_graph_drop(struct gpu_device *d, uint64_t key) {
    struct cuda *c = (struct cuda *)d;
    if (c->graphs == NULL)
        return;
    gpu_cuda_here(c);
    gpu_graphs_drop(c->graphs, key, c->last_number);
    gpu_cuda_graphs_settle(c);
}

enum status gpu_cuda_run(struct cuda *c, const struct gpu_plan *p, struct status_note *note) {
    TRY(gpu_cuda_copies(c, p, note));
    enum gpu_graph_run run = GPU_GRAPHS_EAGER;
    enum gpu_graph_order order = (enum gpu_graph_order)p->graph_order;
    enum status status = STATUS_AGAIN;
    bool fails = c->device.faults.graph_fails; /* by a test's wish */
    if (fails && order == GPU_GRAPH_LIVE)
        order = GPU_GRAPH_NONE;
    if (c->graphs != NULL)
        run = gpu_graphs_begin(c->graphs, p->graph_key, order);
    if (run == GPU_GRAPHS_REPLAY)
        status = gpu_graphs_replay(c->graphs, note);
    else if (run == GPU_GRAPHS_CAPTURE)
        status =
            gpu_graphs_end(c->graphs, fails ? STATUS_ROUND_FAILED : gpu_cuda_forward(c, p, note),
                           c->memory, CUDA_MEMORIES, note);
    return status == STATUS_AGAIN ? gpu_cuda_forward(c, p, note) : status;
}
