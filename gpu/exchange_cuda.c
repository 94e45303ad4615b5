/* SPDX-License-Identifier: Apache-2.0
 * Few rows: every rank gets all partial sums and adds them itself, one operation and one kernel.
 * Many rows: each rank gets a slice of all, adds it, and the sums are gathered: 2 (world - 1) /
 * world of the bytes instead of world - 1 times. Both add in the tree's order, so the bits are
 * equal.
 */
#include "gpu/exchange_cuda.h"

#include <string.h>
#include <time.h>

#include "actors/check.h"
#include "actors/port.h"
#include "kernels/philox.h"

enum { EXCHANGE_PROBE = 1024, EXCHANGE_POLL_NS = 50000 };
#define EXCHANGE_DEADLINE_NS 30000000000u

uint64_t gpu_cuda_exchange_place(struct cuda *c, gpu_cu_ptr_t base, uint64_t at, uint64_t rows,
                                 uint64_t logits) {
    uint32_t world = c->config.world;
    uint64_t sums = gpu_cuda_round_up((uint32_t)rows) * (uint64_t)c->ld[KRN_BUF_X];
    uint64_t parts = logits * c->logits_stride * world, few = c->config.exchange->whole_floats;
    few = sums * world < few ? sums * world : few;
    parts = parts > sums ? parts : sums;
    c->gathered_floats = parts > few ? parts : few;
    const uint64_t floats[3] = {sums, logits * c->logits_stride, c->gathered_floats};
    gpu_cu_ptr_t *const to[3] = {&c->partial, &c->logits_part, &c->gathered};
    for (int i = 0; i < 3; i++) {
        at = (at + 255) / 256 * 256;
        *to[i] = base + at;
        at += floats[i] * sizeof(float);
    }
    return at;
}

static enum status exchange_launch(struct cuda *c, const struct krn_cuda_call *call,
                                   struct status_note *note) {
    return gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], call, note);
}

enum status gpu_cuda_exchange_sum(struct cuda *c, const struct cuda_stage *s,
                                  const struct cuda_shape *shape, struct status_note *note) {
    const struct gpu_exchange *x = c->config.exchange;
    void *stream = c->streams[GPU_STREAM_COMPUTE];
    uint64_t n = shape->rows * (uint64_t)c->ld[KRN_BUF_X], slice = n / x->world;
    struct krn_cuda_sum sum = s->sum;
    struct krn_cuda_call call;
    if (n * x->world <= x->whole_floats) {
        CHECK(n * x->world <= c->gathered_floats);
        TRY(x->gather(x->self, c->partial, c->gathered, n, stream, note));
        sum.part = c->gathered;
        sum.ranks = x->world;
        sum.apart = n;
    } else {
        gpu_cu_ptr_t mine = c->partial + x->rank * slice * sizeof(float);
        const struct krn_cuda_tree tree = {
            .parts = c->gathered, .out = mine, .n = slice, .ranks = x->world};
        CHECK(n <= c->gathered_floats);
        TRY(x->scatter(x->self, c->partial, c->gathered, slice, stream, note));
        krn_cuda_tree_call(&tree, &call);
        TRY(exchange_launch(c, &call, note));
        TRY(x->gather(x->self, mine, c->partial, slice, stream, note));
    }
    krn_cuda_sum_call(&sum, shape->rows, &call);
    return exchange_launch(c, &call, note);
}

enum status gpu_cuda_exchange_logits(struct cuda *c, uint32_t rows, struct status_note *note) {
    const struct gpu_exchange *x = c->config.exchange;
    const struct krn_cuda_beside beside = {.parts = c->gathered,
                                           .out = c->buf[KRN_BUF_L],
                                           .rows = rows,
                                           .n = c->logits_stride,
                                           .ranks = x->world,
                                           .ld = c->ld[KRN_BUF_L]};
    struct krn_cuda_call call;
    TRY(x->gather(x->self, c->logits_part, c->gathered, rows * (size_t)c->logits_stride,
                  c->streams[GPU_STREAM_COMPUTE], note));
    krn_cuda_beside_call(&beside, &call);
    return exchange_launch(c, &call, note);
}

void gpu_cuda_leave(struct cuda *c) {
    const struct gpu_exchange *x = c->config.exchange;
    if (x == NULL)
        return;
    if (c->graphs != NULL)
        gpu_graphs_abandon(c->graphs);
    x->leave(x->self);
}

/* What rank `from` sends in the proof, floats [0, world * EXCHANGE_PROBE): any bits. */
static void probe_fill(uint64_t from, uint32_t *to, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        to[i] = (uint32_t)krn_philox_u64(from, i);
}

/* Until what was enqueued is done, the exchange has failed, or too long. */
static enum status probe_wait(struct cuda *c, struct status_note *note) {
    const struct gpu_exchange *x = c->config.exchange;
    struct gpu_cu_event *mark = c->steps[0].done;
    uint64_t until = act_port_now_ns() + EXCHANGE_DEADLINE_NS;
    gpu_cu_t r = c->driver->event_record(mark, c->streams[GPU_STREAM_COMPUTE]);
    while (r == GPU_CUDA_SUCCESS) {
        r = c->driver->event_query(mark);
        if (gpu_result_kind(r) != GPU_FAULT_LATER)
            break;
        r = GPU_CUDA_SUCCESS;
        TRY(x->state(x->self, note));
        if (act_port_now_ns() > until)
            return status_say(note, STATUS_TIMEOUT,
                              "rank %u: what ranks exchange at start did not arrive in %u s",
                              x->rank, (unsigned)(EXCHANGE_DEADLINE_NS / 1000000000u));
        nanosleep(&(struct timespec){.tv_nsec = EXCHANGE_POLL_NS}, NULL);
    }
    return gpu_cuda_said(c, r, "waiting for what ranks exchange", note);
}

/* One operation on seeded bits; what arrived beside what was sent. */
static enum status probe(struct cuda *c, bool scatter, uint32_t n, struct status_note *note) {
    const struct gpu_exchange *x = c->config.exchange;
    struct gpu_cu_stream *stream = c->streams[GPU_STREAM_COMPUTE];
    uint32_t *sent = (uint32_t *)(void *)c->staging, *came = sent + x->world * n;
    uint64_t bytes = (uint64_t)x->world * n * sizeof *sent;
    probe_fill(x->rank, sent, x->world * n);
    TRY(gpu_cuda_said(c, c->driver->copy_in(c->partial, sent, bytes, stream),
                      "carrying what ranks exchange", note));
    TRY((scatter ? x->scatter : x->gather)(x->self, c->partial, c->gathered, n, stream, note));
    TRY(gpu_cuda_said(c, c->driver->copy_out(came, c->gathered, bytes, stream),
                      "carrying what ranks exchange", note));
    TRY(probe_wait(c, note));
    for (uint32_t r = 0; r < x->world; r++) {
        probe_fill(r, sent, x->world * n);
        if (memcmp(came + r * n, sent + (scatter ? x->rank * n : 0), n * sizeof *sent) != 0)
            return status_say(note, STATUS_DESYNC,
                              "rank %u: what rank %u sent at start (%s) arrived otherwise: do not "
                              "use this exchange here, --exchange host does without",
                              x->rank, r, scatter ? "scatter" : "gather");
    }
    return STATUS_OK;
}

enum status gpu_cuda_meet(struct gpu_device *d, struct status_note *note) {
    struct cuda *c = (struct cuda *)d;
    const struct gpu_exchange *x = c->config.exchange;
    if (x == NULL)
        return STATUS_OK;
    uint64_t sums = gpu_cuda_round_up(c->limits.rows) * (uint64_t)c->ld[KRN_BUF_X];
    uint64_t room = (sums < c->gathered_floats ? sums : c->gathered_floats) / x->world;
    uint32_t n = room < EXCHANGE_PROBE ? (uint32_t)room : EXCHANGE_PROBE;
    gpu_cuda_here(c);
    enum status status = x->join(x->self, note);
    if (status == STATUS_OK)
        status = probe(c, false, n, note);
    if (status == STATUS_OK)
        status = probe(c, true, n, note);
    if (status != STATUS_OK) /* others may wait in it */
        gpu_cuda_leave(c);
    return status;
}
