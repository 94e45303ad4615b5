/* SPDX-License-Identifier: Apache-2.0
 * The graph cache of one rank: captured launch sequences by key, replayed instead of launched. It
 * obeys the plan's order and tells what came of it (gpu/graph.h); it decides nothing that the other
 * ranks would have to know. Only the rank's thread calls, and nothing but kernel launches, copies
 * and fills on the given stream may stand between gpu_graphs_begin that answers CAPTURE and
 * gpu_graphs_end. What changes from plan to plan must lie in device memory at fixed addresses:
 * arguments are frozen.
 *
 * Invariants: G1 A capture has one owner, a reserved slot, from begin to end; end leaves the stream
 * as it was before, whatever failed. G2 Each executable has one slot, and each slot that is not
 * free one executable or one reservation: nothing is lost when a lease, an instantiation or a vote
 * fails. G3 A key whose capture failed is not captured again. G4 A graph with a stale lease is not
 * replayed. G5 An executable is destroyed, and its leases are dropped, when its last replay is
 * over, but for abandoned ones. G6 Failure of any kind leaves the step to be run eagerly.
 */
#ifndef GPU_GRAPHS_H
#define GPU_GRAPHS_H

#include "gpu/fault.h"
#include "gpu/graph.h"
#include "gpu/lease.h"

enum { GPU_GRAPHS_QUARANTINE = 64, GPU_GRAPHS_SAMPLE = 64 };

struct gpu_graphs;

struct gpu_graphs_config {
    const struct gpu_driver *driver;
    struct gpu_cu_stream *stream; /* captures and replays run on it */
    struct gpu_leases *leases;    /* NULL: graphs hold nothing (tests) */
    struct gpu_work *work;        /* borrowed; graph_key is kept by the cache. NULL: none */
    struct gpu_graph_settings settings;
    uint64_t low_bytes;  /* less free device memory than this is pressure ... */
    uint64_t high_bytes; /* ... until there is more than this */
    uint32_t sample;     /* every how many steps memory is asked for; 0: GPU_GRAPHS_SAMPLE */
};

enum gpu_graph_run {
    GPU_GRAPHS_EAGER,   /* launch the sequence */
    GPU_GRAPHS_CAPTURE, /* launch it into the capture, then call gpu_graphs_end */
    GPU_GRAPHS_REPLAY   /* call gpu_graphs_replay */
};

enum status gpu_graphs_open(const struct gpu_graphs_config *config, struct gpu_graphs **out,
                            struct status_note *note);
/* The device must be idle. */
void gpu_graphs_close(struct gpu_graphs *g);

/* What to do for a step with this key and order. */
enum gpu_graph_run gpu_graphs_begin(struct gpu_graphs *g, uint64_t key, enum gpu_graph_order order);
/* Ends the capture. launched: what launching into it came to; baked: the memory whose addresses
 * were launched with. OK: captured, and replayed as this step. AGAIN: nothing ran; launch the
 * sequence eagerly now. DEVICE: the device is lost. */
enum status gpu_graphs_end(struct gpu_graphs *g, enum status launched, const gpu_mem_t *baked,
                           uint32_t n_baked, struct status_note *note);
/* Replays what begin answered REPLAY for. AGAIN: it could not; launch eagerly now. */
enum status gpu_graphs_replay(struct gpu_graphs *g, struct status_note *note);

/* Forgets a key: its reservation, or its graph once work number `after` is over (gpu/fence.h). */
void gpu_graphs_drop(struct gpu_graphs *g, uint64_t key, uint64_t after);
/* Destroys every executable now, also one whose replay is under way, which the driver frees when
 * that is over; leases stay until close. Behind it no key is live here. */
void gpu_graphs_abandon(struct gpu_graphs *g);
/* Work up to this number is over. */
void gpu_graphs_reached(struct gpu_graphs *g, uint64_t number);
/* The next thing to tell the conductor; false: nothing. */
bool gpu_graphs_vote(struct gpu_graphs *g, struct gpu_graph_said *vote);

struct gpu_graphs_count {
    uint32_t captured, reserved, retiring, quarantined; /* now */
    uint64_t replays, eager, captures, failed, lost;    /* so far */
    bool tight;
};
struct gpu_graphs_count gpu_graphs_count(const struct gpu_graphs *g);

#endif
