/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device: enqueues each step's upload, launches and read-back on one stream and answers
 * when its last event is reached. Two steps may be under way; the stream keeps their order, so one
 * image and one answer in device memory serve both, and each has its own pinned copies. Its life is
 * in open_cuda.c.
 */
#include <string.h>

#include "actors/check.h"
#include "actors/port.h"
#include "gpu/exchange_cuda.h"
#include "gpu/graphs_cuda.h"
#include "gpu/pages_cuda.h"

enum { POLL_AGAIN_NS = 5000 };

/* What the host needs of the answer, behind the step's kernels. */
static enum status read_back(struct cuda *c, struct cuda_step *s, struct status_note *note) {
    const struct gpu_plan *p = s->plan;
    const struct gpu_draw *draws = gpu_plan_draws(p);
    struct gpu_cu_stream *stream = c->streams[GPU_STREAM_COMPUTE];
    bool tops = false;
    for (uint32_t i = 0; i < p->n_draws; i++)
        tops = tops || draws[i].sampling.n_top > 0;
    uint64_t n = c->at.drawn + p->n_draws * sizeof(struct krn_drawn);
    gpu_cu_t r = c->driver->copy_out(s->answer, c->answer, n, stream);
    if (r == GPU_CUDA_SUCCESS && tops)
        r = c->driver->copy_out(s->answer + c->at.top, c->answer + c->at.top,
                                p->n_draws * KRN_TOP_MAX * sizeof(struct krn_top), stream);
    if (r == GPU_CUDA_SUCCESS && s->result->n_logits > 0)
        r = c->driver->copy_out(s->answer + c->at.kept, c->answer + c->at.kept,
                                (uint64_t)s->result->n_logits * c->model.vocab * sizeof(float),
                                stream);
    return gpu_cuda_said(c, r, "reading a step's answer", note);
}

/* Ranks agree whether the step is good, so that none runs ahead of what failed on another. */
static enum status agree(struct cuda *c, enum status status, uint64_t number,
                         struct status_note *note) {
    const struct gpu_collective *all = c->config.collective;
    float mine = (float)status, each[GPU_WORLD_MAX];
    enum status said = all->gather(all->self, &mine, each, 1, 1);
    if (status != STATUS_OK)
        return status;
    if (said != STATUS_OK)
        return status_say(note, said, "plan %llu: %s", (unsigned long long)number,
                          all->note != NULL && all->note->text[0] != '\0' ? all->note->text
                                                                          : status_text(said));
    for (uint32_t i = 0; i < c->config.world; i++)
        if (each[i] != (float)STATUS_OK)
            return status_say(note, STATUS_ROUND_FAILED, "plan %llu failed on rank %u",
                              (unsigned long long)number, i);
    return STATUS_OK;
}

static enum status enqueue(struct cuda *c, struct cuda_step *s, struct status_note *note) {
    struct gpu_cu_stream *stream = c->streams[GPU_STREAM_COMPUTE];
    uint32_t bytes = 0;
    TRY(gpu_cuda_image(c, s->plan, s->result, s->image, &bytes));
    c->head = (const struct krn_cuda_step *)(void *)s->image;
    TRY(gpu_cuda_upload(c, s, bytes, note));
    TRY(gpu_cuda_run(c, s->plan, note));
    TRY(read_back(c, s, note));
    gpu_cu_t r = c->driver->event_record(s->done, stream);
    TRY(gpu_cuda_said(c, r, "marking a step's end", note));
    s->launched = true;
    s->work = c->work;
    return STATUS_OK;
}

/* What each slot drew in, and that a failed step's memory is nobody's any more. */
static void settle(struct cuda *c, struct cuda_step *s, enum status status) {
    const struct gpu_plan *p = s->plan;
    if (status == STATUS_OK && !s->fails) {
        for (uint32_t q = 0; q < p->n_seqs; q++)
            if (gpu_plan_seqs(p)[q].n_draws > 0)
                c->drew[gpu_plan_seqs(p)[q].slot] = p->number;
        return;
    }
    c->failed_number = p->number;
    if (status != STATUS_OK && status != STATUS_DESYNC && status != STATUS_AGAIN)
        c->driver->stream_synchronize(c->streams[GPU_STREAM_COMPUTE]);
}

static void cuda_step(struct gpu_device *d, const struct gpu_plan *p, struct gpu_result *r) {
    struct cuda *c = (struct cuda *)d;
    CHECK(c->n_steps < CUDA_STEPS);
    CHECK(p->n_rows <= c->limits.rows && p->n_draws <= c->limits.draws &&
          p->n_seqs <= c->limits.seqs);
    CHECK(p->n_counts <= c->limits.counts && p->n_pages <= c->limits.pages);
    struct cuda_step *s = &c->steps[(c->first_step + c->n_steps) % CUDA_STEPS];
    s->plan = p;
    s->result = r;
    s->begin_ns = act_port_now_ns();
    s->launched = false;
    s->fails = d->faults.step_fails;
    gpu_cuda_here(c);
    gpu_result_begin(r, p);
    c->work = (struct gpu_work){.plan = p->number};
    c->last_number = p->number;
    if (d->faults.voided || ((p->flags & GPU_PLAN_AHEAD) && c->failed_number + 1 == p->number)) {
        r->status = status_say(&r->note, STATUS_AGAIN,
                               "plan %llu is void: it was closed ahead of a failed one",
                               (unsigned long long)p->number);
    } else {
        r->status = enqueue(c, s, &r->note);
        /* Who the host carries for has left already when its step is a DESYNC. */
        if (c->config.world > 1 && (r->status != STATUS_DESYNC || c->config.exchange != NULL)) {
            r->status = agree(c, r->status, p->number, &r->note);
            s->launched = s->launched && r->status == STATUS_OK;
            if (r->status != STATUS_OK && r->status != STATUS_AGAIN)
                gpu_cuda_leave(c); /* others wait in it */
        }
    }
    r->host_ns = act_port_now_ns() - s->begin_ns;
    settle(c, s, r->status);
    d->faults = (struct gpu_faults){0};
    c->n_steps++;
}

/* The answer's pinned copy becomes the result. */
static void unpack(struct cuda *c, struct cuda_step *s) {
    struct gpu_result *r = s->result;
    const uint64_t *times = (const uint64_t *)(const void *)(s->answer + c->at.times);
    const struct krn_cuda_step *head = (const struct krn_cuda_step *)(const void *)s->image;
    if (head->n_rows > 0 && times[1] > times[0]) /* else no kernel wrote them */
        r->kernel_ns = times[1] - times[0];
    memcpy(r->drawn, s->answer + c->at.drawn, r->n_draws * sizeof *r->drawn);
    memcpy(r->bad_row, s->answer + c->at.bad_row, r->n_seqs * sizeof *r->bad_row);
    for (uint32_t i = 0; i < r->n_draws; i++)
        if (r->drawn[i].n_top > 0)
            memcpy(r->top + (size_t)i * KRN_TOP_MAX,
                   s->answer + c->at.top + (size_t)i * KRN_TOP_MAX * sizeof *r->top,
                   r->drawn[i].n_top * sizeof *r->top);
    memcpy(r->logits, s->answer + c->at.kept,
           (size_t)r->n_logits * c->model.vocab * sizeof *r->logits);
}

/* The oldest step is over; gpu_cu_t of its last event. */
static void finish(struct cuda *c, struct cuda_step *s, gpu_cu_t last) {
    struct gpu_result *r = s->result;
    uint64_t begin_ns = act_port_now_ns();
    if (s->launched && r->status == STATUS_OK) {
        c->work = s->work;
        r->status = gpu_cuda_said(c, last, "waiting for a step", &r->note);
        if (r->status == STATUS_OK && s->fails)
            r->status =
                status_say(&r->note, STATUS_ROUND_FAILED, "plan %llu failed by a test's wish",
                           (unsigned long long)s->plan->number);
    }
    if (r->status == STATUS_OK)
        unpack(c, s);
    if (r->status != STATUS_OK) {
        if (c->failed_number < s->plan->number || c->failed_number == CUDA_NO_PLAN)
            c->failed_number = s->plan->number;
        r->n_draws = r->n_logits = 0;
    }
    r->drawn_digest = gpu_result_drawn_digest(r);
    r->step_ns = act_port_now_ns() - s->begin_ns;
    r->host_ns += act_port_now_ns() - begin_ns;
}

/* A step whose exchange has failed is over: it would wait for ever, or has ended with any bits. */
static bool exchange_well(struct cuda *c, struct cuda_step *s) {
    const struct gpu_exchange *x = c->config.exchange;
    if (x == NULL || s->result->status != STATUS_OK)
        return true;
    s->result->status = x->state(x->self, &s->result->note);
    if (s->result->status != STATUS_OK)
        gpu_cuda_leave(c);
    return s->result->status == STATUS_OK;
}

static enum gpu_poll cuda_poll(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns) {
    struct cuda *c = (struct cuda *)d;
    (void)now_ns;
    CHECK(c->n_steps > 0);
    struct cuda_step *s = &c->steps[c->first_step];
    gpu_cu_t r = GPU_CUDA_SUCCESS;
    gpu_cuda_here(c);
    if (s->launched) {
        r = c->driver->event_query(s->done);
        bool later = gpu_result_kind(r) == GPU_FAULT_LATER;
        if ((later || r == GPU_CUDA_SUCCESS) && exchange_well(c, s) && later) {
            *again_ns = POLL_AGAIN_NS;
            return GPU_BUSY;
        }
    }
    *again_ns = 0;
    finish(c, s, r);
    c->first_step = (c->first_step + 1) % CUDA_STEPS;
    c->n_steps--;
    gpu_cuda_graphs_settle(c);
    return GPU_DONE;
}

static void cuda_perturb(struct gpu_device *d, uint32_t kind) {
    struct cuda *c = (struct cuda *)d;
    CHECK(kind <= GPU_PERTURB_TROUBLE);
    c->perturb = kind;
}

static void cuda_poison(struct gpu_device *d, bool on) {
    ((struct cuda *)d)->poison = on;
}

const struct gpu_device_ops gpu_cuda_ops = {
    .name = "cuda",
    .step = cuda_step,
    .poll = cuda_poll,
    .page_read = gpu_cuda_page_read,
    .page_write = gpu_cuda_page_write,
    .host_use = gpu_cuda_host_use,
    .page_freed = gpu_cuda_page_freed,
    .record = gpu_cuda_record,
    .wait = gpu_cuda_wait,
    .reached = gpu_cuda_reached,
    .meet = gpu_cuda_meet,
    .graph_key = gpu_cuda_graph_key,
    .graph_vote = gpu_cuda_graph_vote,
    .graph_drop = gpu_cuda_graph_drop,
    .perturb = cuda_perturb,
    .poison = cuda_poison,
    .close = gpu_cuda_close,
};
