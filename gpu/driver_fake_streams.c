/* SPDX-License-Identifier: Apache-2.0
 * The fake driver's streams, events, captures and graphs.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/driver_fake_state.h"
#include "gpu/fault.h"

static _Thread_local int capture_mode = GPU_CU_CAPTURE_GLOBAL; /* of this thread's calls */

enum { FAKE_GRAPH_BYTES = 64 << 10, FAKE_NODE_BYTES = 1 << 10 };

static void ops_free(struct fake_op *first) {
    while (first != NULL) {
        struct fake_op *op = first;
        first = op->next;
        free(op->own);
        free(op);
    }
}

static bool stream_there(const struct gpu_cu_stream *stream) {
    const struct gpu_cu_stream *s = gpu_fake.streams;
    while (s != NULL && s != stream)
        s = s->next;
    return s != NULL;
}

static bool event_there(const struct gpu_cu_event *event) {
    const struct gpu_cu_event *e = gpu_fake.events;
    while (e != NULL && e != event)
        e = e->next;
    return e != NULL;
}

/* ---- running ---- */

static void work_failed(gpu_cu_t result) {
    if (gpu_fake.dead == GPU_CUDA_SUCCESS)
        gpu_fake.dead = result;
}

/* One piece of work, whose turn it is. */
static void op_do(const struct fake_op *op) {
    struct gpu_fake *f = &gpu_fake;
    f->tick++;
    if (op->kind <= FAKE_KERNEL && ++f->work_done == f->work_fails_at)
        work_failed(f->work_result);
    if (f->dead != GPU_CUDA_SUCCESS)
        return;
    bool reads = op->kind == FAKE_COPY_OUT || op->kind == FAKE_COPY;
    bool writes = op->kind == FAKE_COPY_IN || (op->kind >= FAKE_COPY && op->kind <= FAKE_FILL32);
    size_t bytes = op->kind == FAKE_FILL32 ? op->bytes * 4 : op->bytes;
    if ((reads && !gpu_fake_usable(op->from, bytes)) ||
        (writes && !gpu_fake_usable(op->to, bytes))) {
        work_failed(GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    void *to = (void *)(uintptr_t)op->to;
    const void *from = (const void *)(uintptr_t)op->from;
    switch (op->kind) {
    case FAKE_COPY_IN:
        memcpy(to, op->own != NULL ? op->own : op->host, bytes);
        break;
    case FAKE_COPY_OUT:
        memcpy(op->host, from, bytes);
        break;
    case FAKE_COPY:
        memmove(to, from, bytes);
        break;
    case FAKE_FILL8:
        memset(to, (int)op->value, bytes);
        break;
    case FAKE_FILL32:
        for (size_t i = 0; i < op->bytes; i++)
            memcpy((unsigned char *)to + 4 * i, &op->value, 4);
        break;
    case FAKE_KERNEL:
        op->function->run(op->function->name, &op->launch, op->own);
        break;
    case FAKE_RECORD:
        op->event->done = op->version;
        op->event->tick = f->tick;
        break;
    default: /* waits are over; graphs are run by their stream */
        break;
    }
}

static void exec_unuse(struct gpu_cu_exec *e) {
    if (e->pending > 0 || !e->destroyed)
        return;
    for (struct gpu_cu_exec **x = &gpu_fake.execs; *x != NULL; x = &(*x)->next)
        if (*x == e) {
            *x = e->next;
            break;
        }
    ops_free(e->first);
    free(e);
}

static bool op_ready(const struct fake_op *op) {
    return op->kind != FAKE_WAIT || op->event->done >= op->version ||
           gpu_fake.dead != GPU_CUDA_SUCCESS;
}

/* Runs the oldest work that can run; false when there is none. */
static bool run_one(void) {
    struct gpu_cu_stream *best = NULL;
    for (struct gpu_cu_stream *s = gpu_fake.streams; s != NULL; s = s->next)
        if (s->first != NULL && op_ready(s->first) &&
            (best == NULL || s->first->number < best->first->number))
            best = s;
    if (best == NULL)
        return false;
    struct fake_op *op = best->first;
    best->first = op->next;
    if (best->first == NULL)
        best->last = &best->first;
    if (op->kind == FAKE_GRAPH) {
        for (const struct fake_op *o = op->exec->first; o != NULL; o = o->next)
            op_do(o);
        op->exec->pending--;
        exec_unuse(op->exec);
    } else {
        op_do(op);
    }
    op->next = NULL;
    ops_free(op);
    return true;
}

void gpu_fake_drain(void) {
    while (run_one())
        ;
}

bool gpu_fake_pending(void) {
    for (const struct gpu_cu_stream *s = gpu_fake.streams; s != NULL; s = s->next)
        if (s->first != NULL)
            return true;
    return false;
}

uint32_t gpu_fake_run(uint32_t n) {
    uint32_t ran = 0;
    while (ran < n && run_one())
        ran++;
    return ran;
}

/* ---- capture ---- */

gpu_cu_t gpu_fake_unsafe(void) {
    gpu_cu_t result = GPU_CUDA_SUCCESS;
    if (capture_mode == GPU_CU_CAPTURE_RELAXED)
        return result;
    for (struct gpu_cu_graph *g = gpu_fake.graphs; g != NULL; g = g->next) {
        bool mine = pthread_equal(g->owner, pthread_self());
        if (!g->capturing || g->mode == GPU_CU_CAPTURE_RELAXED)
            continue;
        if (mine || (g->mode == GPU_CU_CAPTURE_GLOBAL && capture_mode == GPU_CU_CAPTURE_GLOBAL)) {
            g->lost = true;
            result = GPU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

static gpu_cu_t fake_capture_begin(struct gpu_cu_stream *stream, int mode) {
    FAKE_CALL(capture_begin);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!stream_there(stream))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL)
        return GPU_CUDA_ERROR_ILLEGAL_STATE;
    struct gpu_cu_graph *g = calloc(1, sizeof *g);
    CHECK(g != NULL);
    g->last = &g->first;
    g->mode = mode;
    g->owner = pthread_self();
    g->capturing = true;
    g->next = gpu_fake.graphs;
    gpu_fake.graphs = g;
    stream->capture = g;
    stream->origin = true;
    stream->unjoined = false;
    stream->captured = 0;
    return GPU_CUDA_SUCCESS;
}

static void graph_drop(struct gpu_cu_graph *graph) {
    for (struct gpu_cu_graph **g = &gpu_fake.graphs; *g != NULL; g = &(*g)->next)
        if (*g == graph) {
            *g = graph->next;
            break;
        }
    ops_free(graph->first);
    free(graph);
}

static gpu_cu_t fake_capture_end(struct gpu_cu_stream *stream, struct gpu_cu_graph **graph) {
    FAKE_CALL(capture_end);
    *graph = NULL;
    struct gpu_cu_graph *g = stream->capture;
    if (g == NULL || !stream->origin)
        return refused != GPU_CUDA_SUCCESS ? refused : GPU_CUDA_ERROR_ILLEGAL_STATE;
    if (g->mode != GPU_CU_CAPTURE_RELAXED && !pthread_equal(g->owner, pthread_self()))
        return GPU_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    bool unjoined = false;
    for (struct gpu_cu_stream *s = gpu_fake.streams; s != NULL; s = s->next)
        if (s->capture == g) {
            unjoined = unjoined || s->unjoined;
            s->capture = NULL;
            s->origin = false;
            s->unjoined = false;
        }
    for (struct gpu_cu_event *e = gpu_fake.events; e != NULL; e = e->next)
        if (e->capture == g)
            e->capture = NULL;
    g->capturing = false;
    gpu_cu_t result = refused != GPU_CUDA_SUCCESS ? refused
                      : g->lost                   ? GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : unjoined                  ? GPU_CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                  : GPU_CUDA_SUCCESS;
    if (result != GPU_CUDA_SUCCESS) {
        graph_drop(g);
        return result;
    }
    gpu_fake.alive.graphs++;
    *graph = g;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_capture_state(struct gpu_cu_stream *stream, int *state) {
    FAKE_CALL(capture_state);
    *state = stream->capture == NULL ? GPU_CU_CAPTURING_NOT
             : stream->capture->lost ? GPU_CU_CAPTURING_LOST
                                     : GPU_CU_CAPTURING;
    return refused;
}

static gpu_cu_t fake_capture_mode(int *mode) {
    FAKE_CALL(capture_mode);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return GPU_CUDA_SUCCESS;
}

/* ---- enqueueing ---- */

/* Gives work to a stream, or to the capture that it is in. Takes op. */
static gpu_cu_t enqueue(struct gpu_cu_stream *stream, struct fake_op *op) {
    gpu_cu_t result = GPU_CUDA_SUCCESS;
    if (!stream_there(stream))
        result = GPU_CUDA_ERROR_INVALID_HANDLE;
    else if (stream->capture != NULL && stream->capture->lost)
        result = GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result != GPU_CUDA_SUCCESS) {
        ops_free(op);
        return result;
    }
    op->number = ++gpu_fake.number;
    op->next = NULL;
    if (stream->capture != NULL) {
        *stream->capture->last = op;
        stream->capture->last = &op->next;
        stream->capture->n++;
        stream->captured++;
        stream->unjoined = !stream->origin;
        return GPU_CUDA_SUCCESS;
    }
    *stream->last = op;
    stream->last = &op->next;
    if (!gpu_fake.config.deferred)
        gpu_fake_drain();
    return GPU_CUDA_SUCCESS;
}

static struct fake_op *op_new(enum fake_op_kind kind, size_t bytes) {
    struct fake_op *op = calloc(1, sizeof *op);
    CHECK(op != NULL);
    op->kind = kind;
    op->bytes = bytes;
    return op;
}

static gpu_cu_t fake_copy_in(gpu_cu_ptr_t to, const void *from, size_t bytes,
                             struct gpu_cu_stream *stream) {
    FAKE_CALL(copy_in);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_op *op = op_new(FAKE_COPY_IN, bytes);
    op->to = to;
    memcpy(&op->host, &from, sizeof from);
    /* Memory that is not pinned is read now, pinned memory when the copy runs. */
    if (!gpu_fake_pinned(from, bytes)) {
        op->own = malloc(bytes + 1);
        CHECK(op->own != NULL);
        memcpy(op->own, from, bytes);
    }
    return enqueue(stream, op);
}

static gpu_cu_t fake_copy_out(void *to, gpu_cu_ptr_t from, size_t bytes,
                              struct gpu_cu_stream *stream) {
    FAKE_CALL(copy_out);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_op *op = op_new(FAKE_COPY_OUT, bytes);
    op->host = to;
    op->from = from;
    return enqueue(stream, op);
}

static gpu_cu_t fake_copy_within(gpu_cu_ptr_t to, gpu_cu_ptr_t from, size_t bytes,
                                 struct gpu_cu_stream *stream) {
    FAKE_CALL(copy_within);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_op *op = op_new(FAKE_COPY, bytes);
    op->to = to;
    op->from = from;
    return enqueue(stream, op);
}

static gpu_cu_t fake_fill8(gpu_cu_ptr_t to, unsigned char value, size_t n,
                           struct gpu_cu_stream *stream) {
    FAKE_CALL(fill8);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_op *op = op_new(FAKE_FILL8, n);
    op->to = to;
    op->value = value;
    return enqueue(stream, op);
}

static gpu_cu_t fake_fill32(gpu_cu_ptr_t to, unsigned value, size_t n,
                            struct gpu_cu_stream *stream) {
    FAKE_CALL(fill32);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_op *op = op_new(FAKE_FILL32, n);
    op->to = to;
    op->value = value;
    return enqueue(stream, op);
}

static gpu_cu_t fake_launch(const struct gpu_cu_launch *launch, struct gpu_cu_function *function,
                            void **params, void **extra) {
    FAKE_CALL(launch);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    const uint32_t *g = launch->grid, *b = launch->block;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    if (extra != NULL || g[0] == 0 || g[1] == 0 || g[2] == 0 || g[1] > 65535 || g[2] > 65535 ||
        threads == 0 || threads > 1024 || (int64_t)launch->shared > function->shared_max)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    struct fake_op *op = op_new(FAKE_KERNEL, 0);
    op->function = function;
    op->launch = *launch;
    op->launch.attributes = NULL;
    op->launch.n_attributes = 0;
    op->bytes = function->args_bytes;
    op->own = aligned_alloc(64, (op->bytes + 64) / 64 * 64);
    CHECK(op->own != NULL);
    memcpy(op->own, params[0], op->bytes);
    return enqueue(launch->stream, op);
}

/* ---- streams and events ---- */

static gpu_cu_t fake_stream_create(struct gpu_cu_stream **stream, unsigned flags, int priority) {
    FAKE_CALL(stream_create);
    (void)flags;
    (void)priority;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (gpu_fake_device() < 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    struct gpu_cu_stream *s = calloc(1, sizeof *s);
    CHECK(s != NULL);
    s->last = &s->first;
    s->next = gpu_fake.streams;
    gpu_fake.streams = *stream = s;
    gpu_fake.alive.streams++;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_stream_destroy(struct gpu_cu_stream *stream) {
    FAKE_CALL(stream_destroy);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!stream_there(stream))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    gpu_fake_drain();
    for (struct gpu_cu_stream **s = &gpu_fake.streams; *s != NULL; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next;
            break;
        }
    ops_free(stream->first);
    free(stream);
    gpu_fake.alive.streams--;
    return GPU_CUDA_SUCCESS;
}

/* A question or a wait that no capture allows on its own stream. */
static gpu_cu_t stream_asked(struct gpu_cu_stream *stream) {
    if (!stream_there(stream))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture == NULL)
        return GPU_CUDA_SUCCESS;
    stream->capture->lost = true;
    return GPU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static gpu_cu_t fake_stream_query(struct gpu_cu_stream *stream) {
    FAKE_CALL(stream_query);
    gpu_cu_t r = refused != GPU_CUDA_SUCCESS ? refused : stream_asked(stream);
    if (r != GPU_CUDA_SUCCESS)
        return r;
    return stream->first == NULL ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_NOT_READY;
}

static gpu_cu_t fake_stream_synchronize(struct gpu_cu_stream *stream) {
    FAKE_CALL(stream_synchronize);
    gpu_cu_t r = refused != GPU_CUDA_SUCCESS ? refused : stream_asked(stream);
    if (r != GPU_CUDA_SUCCESS)
        return r;
    while (stream->first != NULL)
        CHECK(run_one()); /* else it waits for an event that nobody will record */
    return gpu_fake.dead;
}

static gpu_cu_t fake_stream_wait(struct gpu_cu_stream *stream, struct gpu_cu_event *event,
                                 unsigned flags) {
    FAKE_CALL(stream_wait);
    (void)flags;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!stream_there(stream) || !event_there(event))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL) {
        if (stream->capture != NULL && stream->capture != event->capture) {
            stream->capture->lost = event->capture->lost = true;
            return GPU_CUDA_ERROR_STREAM_CAPTURE_MERGE;
        }
        if (event->from->captured == event->from_ops)
            event->from->unjoined = false;
        if (stream->capture == NULL) { /* this stream joins the capture */
            stream->capture = event->capture;
            stream->origin = false;
            stream->captured = 0;
            stream->unjoined = true;
        }
        return GPU_CUDA_SUCCESS;
    }
    if (stream->capture != NULL) { /* an event from outside: not in the graph's power */
        stream->capture->lost = true;
        return GPU_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct fake_op *op = op_new(FAKE_WAIT, 0);
    op->event = event;
    op->version = event->recorded;
    return enqueue(stream, op);
}

static gpu_cu_t fake_event_create(struct gpu_cu_event **event, unsigned flags) {
    FAKE_CALL(event_create);
    (void)flags;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct gpu_cu_event *e = calloc(1, sizeof *e);
    CHECK(e != NULL);
    e->next = gpu_fake.events;
    gpu_fake.events = *event = e;
    gpu_fake.alive.events++;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_event_destroy(struct gpu_cu_event *event) {
    FAKE_CALL(event_destroy);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!event_there(event))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    gpu_fake_drain();
    for (struct gpu_cu_event **e = &gpu_fake.events; *e != NULL; e = &(*e)->next)
        if (*e == event) {
            *e = event->next;
            break;
        }
    free(event);
    gpu_fake.alive.events--;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_event_record(struct gpu_cu_event *event, struct gpu_cu_stream *stream) {
    FAKE_CALL(event_record);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!event_there(event) || !stream_there(stream))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL) {
        if (stream->capture->lost)
            return GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        event->capture = stream->capture;
        event->from = stream;
        event->from_ops = stream->captured;
        return GPU_CUDA_SUCCESS;
    }
    event->capture = NULL;
    struct fake_op *op = op_new(FAKE_RECORD, 0);
    op->event = event;
    op->version = ++event->recorded;
    return enqueue(stream, op);
}

static gpu_cu_t event_asked(struct gpu_cu_event *event) {
    if (!event_there(event))
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (event->capture == NULL)
        return GPU_CUDA_SUCCESS;
    event->capture->lost = true;
    return GPU_CUDA_ERROR_CAPTURED_EVENT;
}

static gpu_cu_t fake_event_query(struct gpu_cu_event *event) {
    FAKE_CALL(event_query);
    gpu_cu_t r = refused != GPU_CUDA_SUCCESS ? refused : event_asked(event);
    if (r != GPU_CUDA_SUCCESS)
        return r;
    return event->done >= event->recorded ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_NOT_READY;
}

static gpu_cu_t fake_event_synchronize(struct gpu_cu_event *event) {
    FAKE_CALL(event_synchronize);
    gpu_cu_t r = refused != GPU_CUDA_SUCCESS ? refused : event_asked(event);
    if (r != GPU_CUDA_SUCCESS)
        return r;
    while (event->done < event->recorded && gpu_fake.dead == GPU_CUDA_SUCCESS)
        CHECK(run_one());
    return gpu_fake.dead;
}

/* A piece of work takes a microsecond. */
static gpu_cu_t fake_event_elapsed(float *ms, struct gpu_cu_event *from, struct gpu_cu_event *to) {
    FAKE_CALL(event_elapsed);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (from->recorded == 0 || to->recorded == 0)
        return GPU_CUDA_ERROR_INVALID_HANDLE;
    if (from->done < from->recorded || to->done < to->recorded)
        return GPU_CUDA_ERROR_NOT_READY;
    *ms = (float)(int64_t)(to->tick - from->tick) * 1e-3f;
    return GPU_CUDA_SUCCESS;
}

/* ---- graphs ---- */

static bool graph_there(const struct gpu_cu_graph *graph) {
    const struct gpu_cu_graph *g = gpu_fake.graphs;
    while (g != NULL && g != graph)
        g = g->next;
    return g != NULL;
}

static gpu_cu_t fake_graph_nodes(struct gpu_cu_graph *graph, struct gpu_cu_node **nodes,
                                 size_t *n) {
    FAKE_CALL(graph_nodes);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!graph_there(graph) || nodes != NULL)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    *n = graph->n;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_graph_destroy(struct gpu_cu_graph *graph) {
    FAKE_CALL(graph_destroy);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!graph_there(graph) || graph->capturing)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    graph_drop(graph);
    gpu_fake.alive.graphs--;
    return GPU_CUDA_SUCCESS;
}

/* A copy with arguments of its own, as they were when they were captured. */
static struct fake_op *op_copy(const struct fake_op *op) {
    struct fake_op *copy = op_new(op->kind, op->bytes);
    unsigned char *own = NULL;
    if (op->own != NULL) {
        own = aligned_alloc(64, (op->bytes + 64) / 64 * 64);
        CHECK(own != NULL);
        memcpy(own, op->own, op->bytes);
    }
    *copy = *op;
    copy->own = own;
    copy->next = NULL;
    return copy;
}

static gpu_cu_t fake_graph_instantiate(struct gpu_cu_exec **exec, struct gpu_cu_graph *graph,
                                       unsigned long long flags) {
    FAKE_CALL(graph_instantiate);
    (void)flags;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int device = gpu_fake_device();
    if (!graph_there(graph) || graph->capturing || device < 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = FAKE_GRAPH_BYTES + (uint64_t)graph->n * FAKE_NODE_BYTES;
    if (!gpu_fake_take(device, bytes))
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    struct gpu_cu_exec *e = calloc(1, sizeof *e);
    CHECK(e != NULL);
    struct fake_op **last = &e->first;
    for (const struct fake_op *op = graph->first; op != NULL; op = op->next) {
        *last = op_copy(op);
        last = &(*last)->next;
        e->n++;
    }
    e->bytes = bytes;
    e->next = gpu_fake.execs;
    gpu_fake.execs = *exec = e;
    gpu_fake.alive.execs++;
    return GPU_CUDA_SUCCESS;
}

static bool exec_there(const struct gpu_cu_exec *exec) {
    const struct gpu_cu_exec *e = gpu_fake.execs;
    while (e != NULL && e != exec)
        e = e->next;
    return e != NULL && !e->destroyed;
}

static gpu_cu_t fake_graph_upload(struct gpu_cu_exec *exec, struct gpu_cu_stream *stream) {
    FAKE_CALL(graph_upload);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    return exec_there(exec) && stream_there(stream) ? GPU_CUDA_SUCCESS
                                                    : GPU_CUDA_ERROR_INVALID_HANDLE;
}

static gpu_cu_t fake_graph_launch(struct gpu_cu_exec *exec, struct gpu_cu_stream *stream) {
    FAKE_CALL(graph_launch);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!exec_there(exec) || (stream_there(stream) && stream->capture != NULL))
        return GPU_CUDA_ERROR_INVALID_VALUE;
    struct fake_op *op = op_new(FAKE_GRAPH, 0);
    op->exec = exec;
    exec->pending++;
    gpu_cu_t r = enqueue(stream, op);
    if (r != GPU_CUDA_SUCCESS)
        exec->pending--;
    return r;
}

static gpu_cu_t fake_graph_exec_destroy(struct gpu_cu_exec *exec) {
    FAKE_CALL(graph_exec_destroy);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int device = gpu_fake_device();
    if (!exec_there(exec) || device < 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    exec->destroyed = true;
    gpu_fake_return(device, exec->bytes);
    gpu_fake.alive.execs--;
    exec_unuse(exec);
    return GPU_CUDA_SUCCESS;
}

void gpu_fake_streams_fill(struct gpu_driver *t) {
#define FILL(name) t->name = fake_##name
    FILL(copy_in), FILL(copy_out), FILL(copy_within), FILL(fill8), FILL(fill32), FILL(launch);
    FILL(stream_create), FILL(stream_destroy), FILL(stream_query), FILL(stream_synchronize);
    FILL(stream_wait), FILL(event_create), FILL(event_destroy), FILL(event_record);
    FILL(event_query), FILL(event_synchronize), FILL(event_elapsed), FILL(capture_begin);
    FILL(capture_end), FILL(capture_state), FILL(capture_mode), FILL(graph_nodes);
    FILL(graph_destroy), FILL(graph_instantiate), FILL(graph_upload), FILL(graph_launch);
    FILL(graph_exec_destroy);
#undef FILL
}

void gpu_fake_streams_end(void) {
    struct gpu_fake *f = &gpu_fake;
    capture_mode = GPU_CU_CAPTURE_GLOBAL;
    for (struct gpu_cu_stream *s = f->streams, *next; s != NULL; s = next) {
        next = s->next;
        ops_free(s->first);
        free(s);
    }
    for (struct gpu_cu_event *e = f->events, *next; e != NULL; e = next) {
        next = e->next;
        free(e);
    }
    while (f->graphs != NULL)
        graph_drop(f->graphs);
    for (struct gpu_cu_exec *e = f->execs, *next; e != NULL; e = next) {
        next = e->next;
        ops_free(e->first);
        free(e);
    }
}
