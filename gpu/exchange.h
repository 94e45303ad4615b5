/* SPDX-License-Identifier: Apache-2.0
 * What a device asks of the other ranks: sums and logits by the host, or floats moved between
 * devices. fabric/ implements both.
 */
#ifndef GPU_EXCHANGE_H
#define GPU_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

/* How ranks add their partial sums and gather their logits; fabric/ implements it, one per rank.
 * Called from inside a step, by every rank in the same order; blocks until all have come or one has
 * failed (DESYNC, TIMEOUT). */
struct gpu_collective {
    void *self;
    uint32_t rank, world;
    /* x[0..n) becomes the sum over ranks in the tree's order, on every rank. */
    enum status (*reduce)(void *self, float *x, size_t n);
    /* part (n floats a row, rows rows) of every rank, laid side by side in all: all[r][rank * n +
     * i]. */
    enum status (*gather)(void *self, const float *part, float *all, size_t rows, size_t n);
    const struct status_note *note; /* more about a failure; may be NULL */
};

/* How ranks' devices exchange floats without the host: operations enqueued on a device's stream, at
 * device addresses; fabric/ implements it (coll_nccl.h), one per rank. All ranks call in the same
 * order, each on its own thread with its context current. It moves and never adds: sums are the
 * device's, in the tree's order. The first failure (DESYNC, TIMEOUT) is for good; what is under way
 * then ends when the rank leaves, with any bits. */
struct gpu_exchange {
    void *self;
    uint32_t rank, world;
    uint64_t whole_floats; /* up to so many of all ranks, every rank may get all */
    /* Meets the other ranks; once, before anything else. */
    enum status (*join)(void *self, struct status_note *note);
    /* to[r * n ..) becomes rank r's from[0 .. n), for every r; from may be to + rank * n. */
    enum status (*gather)(void *self, uint64_t from, uint64_t to, size_t n, void *stream,
                          struct status_note *note);
    /* to[r * n ..) becomes what lies at rank r's from[rank * n ..), for every r. */
    enum status (*scatter)(void *self, uint64_t from, uint64_t to, size_t n, void *stream,
                           struct status_note *note);
    /* Whether what was enqueued has failed meanwhile. */
    enum status (*state)(void *self, struct status_note *note);
    /* For good; what is under way on the device is ended, not waited for. Graphs that hold
     * operations of it must be destroyed before: a library may wait for that. */
    void (*leave)(void *self);
};

#endif
