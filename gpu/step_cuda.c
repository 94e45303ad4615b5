/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's forward pass: the launches of all stages over one ragged batch. Nothing of a
 * plan is in their arguments but the shape; kernels read the rest from the image. With several
 * ranks and no exchange between their devices the host carries what they add and gather, so a step
 * then waits for its stream.
 */
#include "actors/check.h"
#include "gpu/blocks_cuda.h"
#include "gpu/exchange_cuda.h"
#include "gpu/experts_cuda.h"
#include "gpu/pages_cuda.h"

/* 0, 1, 2, 4, 8, 16, then multiples of 32 and behind 128 of 128. */
uint32_t gpu_cuda_round_up(uint32_t n) {
    uint32_t to = n > 128 ? 128 : n > 16 ? 32 : 1;
    if (n == 0)
        return 0;
    if (n > 16)
        return (n + to - 1) / to * to;
    while (to < n)
        to *= 2;
    return to;
}

struct cuda_shape gpu_cuda_shape(const struct gpu_plan *p) {
    return (struct cuda_shape){gpu_cuda_round_up(p->n_rows), gpu_cuda_round_up(p->n_draws),
                               gpu_cuda_round_up(p->n_seqs)};
}

static enum status launch(struct cuda *c, const struct krn_cuda_call *call,
                          struct status_note *note) {
    return gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], call, note);
}

/* Brings floats of the device to the exchange, or back, and waits. */
static enum status carry(struct cuda *c, gpu_cu_ptr_t at, float *host, uint64_t n, bool out,
                         struct status_note *note) {
    struct gpu_cu_stream *s = c->streams[GPU_STREAM_COMPUTE];
    gpu_cu_t r = out ? c->driver->copy_out(host, at, n * sizeof *host, s)
                     : c->driver->copy_in(at, host, n * sizeof *host, s);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->stream_synchronize(s);
    return gpu_cuda_said(c, r, "carrying what ranks exchange", note);
}

static enum status exchange_said(const struct cuda *c, enum status s, struct status_note *note) {
    const struct status_note *why = c->config.collective->note;
    if (s == STATUS_OK)
        return s;
    return status_say(note, s, "%s",
                      why != NULL && why->text[0] != '\0' ? why->text : status_text(s));
}

/* The ranks' partial sums in the tree's order, then bias and residual. */
static enum status run_reduce(struct cuda *c, const struct cuda_stage *s, uint32_t n_rows,
                              const struct cuda_shape *shape, struct status_note *note) {
    const struct gpu_collective *all = c->config.collective;
    uint64_t n = (uint64_t)n_rows * c->ld[KRN_BUF_X];
    struct krn_cuda_call call;
    if (c->config.exchange != NULL)
        return gpu_cuda_exchange_sum(c, s, shape, note);
    TRY(carry(c, c->partial, c->exchange, n, true, note));
    TRY(exchange_said(c, all->reduce(all->self, c->exchange, n), note));
    TRY(carry(c, c->partial, c->exchange, n, false, note));
    krn_cuda_sum_call(&s->sum, shape->rows, &call);
    return launch(c, &call, note);
}

static enum status run_product(struct cuda *c, const struct cuda_stage *s, uint32_t n_rows,
                               const struct cuda_shape *shape, struct status_note *note) {
    struct krn_cuda_product a = s->a.product;
    struct krn_cuda_call call;
    a.rows = shape->rows;
    krn_cuda_product_call(&a, &call);
    TRY(launch(c, &call, note));
    return s->reduce ? run_reduce(c, s, n_rows, shape, note) : STATUS_OK;
}

/* Rows into bf16 tiles, where they are not yet, and the product. */
enum status gpu_cuda_product_rows(struct cuda *c, const struct cuda_stage *s, uint32_t first,
                                  uint32_t rows, struct status_note *note) {
    struct krn_cuda_rows_bf16 pack = s->rows;
    struct krn_cuda_product_bf16 a = s->a.product_bf16;
    struct krn_cuda_call call;
    if (s->packs) {
        pack.rows = rows;
        pack.x += (uint64_t)first * pack.ldx * sizeof(float);
        krn_cuda_rows_bf16_call(&pack, &call);
        TRY(launch(c, &call, note));
    } else {
        a.x += first / KRN_BF16_SIDE * (uint64_t)a.k_blocks * KRN_BF16_TILE_BYTES;
    }
    a.rows = rows;
    if (a.n == 0) /* a rank behind a small vocabulary */
        return STATUS_OK;
    if (s->blocks != 0)
        return gpu_cuda_product_blocks(c, s, &a, note);
    if (!krn_cuda_product_bf16_call(&a, &c->machine, KRN_BF16_AUTO, &call))
        return status_say(note, STATUS_UNSUPPORTED, "no product of %u rows on this GPU", rows);
    return launch(c, &call, note);
}

/* The least number that the shape's is rounded up from. */
static uint32_t round_least(uint32_t n) {
    return n <= 16 ? n / 2 + 1 : n == 32 ? 17 : n <= 128 ? n - 31 : n - 127;
}

/* Wide spans need a sequence with enough rows: in steps of decode rows there is none. */
static enum status run_attend_bf16(struct cuda *c, const struct cuda_stage *s,
                                   const struct cuda_shape *shape, struct status_note *note) {
    struct krn_cuda_attend_bf16 a = s->a.attend_bf16;
    struct cuda_places at = gpu_cuda_places(c, shape);
    struct krn_cuda_call calls[2];
    a.table += at.table[a.window != 0 ? 1 : 0];
    a.pages += at.pages;
    int n = krn_cuda_attend_bf16_calls(&a, &c->machine, calls);
    if (shape->rows + 1 - round_least(shape->seqs) < krn_cuda_attend_wide_from(&a))
        n = 1;
    for (int i = 0; i < n; i++)
        TRY(launch(c, &calls[i], note));
    return STATUS_OK;
}

/* All rows are checked; the drawn ones are normed. */
static enum status run_final(struct cuda *c, const struct cuda_stage *s,
                             const struct cuda_shape *shape, struct status_note *note) {
    const struct krn_cuda_finite a = {.step = c->image,
                                      .x = c->buf[KRN_BUF_X],
                                      .bad = c->bad,
                                      .n = c->model.hidden,
                                      .ldx = c->ld[KRN_BUF_X]};
    struct krn_cuda_call call;
    krn_cuda_finite_call(&a, shape->rows, &call);
    TRY(launch(c, &call, note));
    if (shape->draws == 0)
        return STATUS_OK;
    krn_cuda_norm_call(&s->a.norm, shape->draws, &call);
    return launch(c, &call, note);
}

/* The logits of every rank side by side. */
static enum status run_gather(struct cuda *c, uint32_t rows, struct status_note *note) {
    const struct gpu_collective *all = c->config.collective;
    uint64_t n = (uint64_t)rows * c->logits_stride;
    float *whole = c->exchange + n;
    TRY(carry(c, c->logits_part, c->exchange, n, true, note));
    TRY(exchange_said(c, all->gather(all->self, c->exchange, whole, rows, c->logits_stride), note));
    return carry(c, c->buf[KRN_BUF_L], whole, n * c->config.world, false, note);
}

/* Logits and draws, a bounded number of draws at a time. */
static enum status run_logits(struct cuda *c, const struct cuda_stage *s, const struct gpu_plan *p,
                              const struct cuda_shape *shape, struct status_note *note) {
    struct krn_cuda_call call;
    for (uint32_t first = 0; first < shape->draws; first += CUDA_LOGITS_ROWS) {
        uint32_t left = shape->draws - first;
        struct krn_cuda_product a = s->a.product;
        if (s->kind == CUDA_LOGITS_BF16) {
            a = (struct krn_cuda_product){.n = 0};
            TRY(gpu_cuda_product_rows(c, s, first,
                                      left < CUDA_LOGITS_ROWS ? left : CUDA_LOGITS_ROWS, note));
            if (c->any_changed)
                TRY(gpu_cuda_perturb_bf16(c, s, first, note));
        }
        a.rows = left < CUDA_LOGITS_ROWS ? left : CUDA_LOGITS_ROWS;
        a.first_row = first;
        a.x += (uint64_t)first * a.ldx * sizeof(float);
        if (a.n > 0) {
            krn_cuda_product_call(&a, &call);
            TRY(launch(c, &call, note));
        }
        if (c->any_changed && a.n > 0) { /* the perturb hook: the halves of K apart */
            a.segments = 2;
            a.only = c->image + c->head->off_changed + first;
            krn_cuda_product_call(&a, &call);
            TRY(launch(c, &call, note));
        }
        if (c->config.exchange != NULL)
            TRY(gpu_cuda_exchange_logits(c, a.rows, note));
        else if (c->config.world > 1 && first < p->n_draws)
            TRY(run_gather(c, p->n_draws - first < a.rows ? p->n_draws - first : a.rows, note));
        const struct krn_cuda_draw draw = {.step = c->image,
                                           .tokens = c->tokens,
                                           .logits = c->buf[KRN_BUF_L],
                                           .edited = c->edited,
                                           .scaled = c->scaled,
                                           .best = c->best,
                                           .drawn = c->answer + c->at.drawn,
                                           .top = c->answer + c->at.top,
                                           .kept = c->answer + c->at.kept,
                                           .secret = c->secret,
                                           .first_draw = first,
                                           .vocab = c->model.vocab,
                                           .ld = c->ld[KRN_BUF_L]};
        struct krn_cuda_call calls[2];
        krn_cuda_draw_calls(&draw, a.rows, calls);
        for (int i = 0; i < 2; i++)
            TRY(launch(c, &calls[i], note));
    }
    return STATUS_OK;
}

static enum status run_stage(struct cuda *c, const struct cuda_stage *s, const struct gpu_plan *p,
                             const struct cuda_shape *shape, uint32_t n_rows,
                             struct status_note *note) {
    struct krn_cuda_call call;
    switch (s->kind) {
    case CUDA_EMBED:
        krn_cuda_embed_call(&s->a.embed, shape->rows, &call);
        break;
    case CUDA_NORM:
        krn_cuda_norm_call(&s->a.norm, shape->rows, &call);
        break;
    case CUDA_PRODUCT:
        return run_product(c, s, n_rows, shape, note);
    case CUDA_ROPE:
        krn_cuda_rope_call(&s->a.rope, shape->rows, &call);
        break;
    case CUDA_ATTEND:
        krn_cuda_attend_call(&s->a.attend, shape->rows, &call);
        break;
    case CUDA_GATE:
        krn_cuda_gate_call(&s->a.gate, shape->rows, &call);
        break;
    case CUDA_EXPERTS:
        TRY(gpu_cuda_run_experts(c, s, shape->rows, note));
        return s->reduce ? run_reduce(c, s, n_rows, shape, note) : STATUS_OK;
    case CUDA_FINAL:
        return run_final(c, s, shape, note);
    case CUDA_PRODUCT_BF16:
        TRY(gpu_cuda_product_rows(c, s, 0, shape->rows, note));
        return s->reduce ? run_reduce(c, s, n_rows, shape, note) : STATUS_OK;
    case CUDA_ATTEND_BF16:
        return run_attend_bf16(c, s, shape, note);
    case CUDA_LOGITS:
    case CUDA_LOGITS_BF16:
        return run_logits(c, s, p, shape, note);
    }
    return launch(c, &call, note);
}

enum status gpu_cuda_copies(struct cuda *c, const struct gpu_plan *p, struct status_note *note) {
    const struct krn_cuda_copy copy = {
        .step = c->image,
        .kv = c->kv,
        .heads = c->kv_heads * c->model.layers,
        .tile_words = (uint32_t)(c->layer_bytes / c->kv_heads / (c->config.page_tokens / KRN_TILE) /
                                 sizeof(uint32_t))};
    struct krn_cuda_call call;
    if (p->n_copies == 0)
        return STATUS_OK;
    krn_cuda_copy_call(&copy, p->n_copies, &call);
    return launch(c, &call, note);
}

enum status gpu_cuda_forward(struct cuda *c, const struct gpu_plan *p, struct status_note *note) {
    struct cuda_shape shape = gpu_cuda_shape(p);
    struct krn_cuda_call call;
    uint32_t n_rows = 0;
    for (uint32_t q = 0; q < p->n_seqs; q++)
        n_rows += gpu_plan_seqs(p)[q].n_rows;
    if (n_rows == 0)
        return STATUS_OK;
    for (uint32_t i = 0; i < c->n_stages; i++)
        TRY(run_stage(c, &c->stages[i], p, &shape, n_rows, note));
    const struct krn_cuda_finish finish = {.step = c->image,
                                           .bad = c->bad,
                                           .bad_row = c->answer + c->at.bad_row,
                                           .drawn = c->answer + c->at.drawn,
                                           .last = c->last,
                                           .ended = c->answer + c->at.times + sizeof(uint64_t)};
    krn_cuda_finish_call(&finish, shape.seqs, &call);
    return launch(c, &call, note);
}
