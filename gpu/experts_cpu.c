/* SPDX-License-Identifier: Apache-2.0
 * A mixture of experts on the CPU device (numerics.md 13). Rows are laid out by expert, so that all
 * rows of an expert share each read of its weights. Members take whole outputs, never a part of a
 * sum: a unit walks the experts in ascending order, segment by segment.
 */
#include <string.h>

#include "actors/check.h"
#include "gpu/cpu.h"

enum { FEW_ROWS = 16 }; /* one member routes so many */

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* Router logits, all rows; units are blocks of experts. */
static void run_router(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    struct krn_product p = {.x = c->buf[s->norm_dst],
                            .ldx = c->ld[s->norm_dst],
                            .rows = c->n_rows,
                            .w = &s->router,
                            .segments = 1,
                            .y = c->buf[KRN_BUF_R],
                            .ldy = c->ld[KRN_BUF_R]};
    uint32_t begin, end, blocks = ceil_div(s->n_experts, KRN_BLOCK);
    while (gpu_team_take(m, blocks, ceil_div(blocks, m->size), &begin, &end))
        c->fn->product(&p, begin, end, m->scratch);
    gpu_team_end(m);
}

static void route_row(const struct cpu *c, const struct cpu_stage *s, uint32_t row) {
    size_t at = (size_t)row * s->used;
    krn_route(c->buf[KRN_BUF_R] + row * c->ld[KRN_BUF_R], s->n_experts, s->used, s->norm_used,
              c->mix.chosen + at, c->mix.weight + at);
}

/* Counts, first slots, then the slots themselves in the order of rows. */
static void lay_out(const struct cpu *c, const struct cpu_stage *s) {
    const struct cpu_mixture *x = &c->mix;
    uint32_t slots = c->n_rows * s->used, at = 0;
    memset(x->first, 0, (s->n_experts + 1) * sizeof *x->first);
    for (uint32_t i = 0; i < slots; i++)
        x->first[x->chosen[i]]++;
    *x->n_active = 0;
    for (uint32_t e = 0; e < s->n_experts; e++) {
        uint32_t n = x->first[e];
        if (n > 0)
            x->active[(*x->n_active)++] = e;
        x->first[e] = at;
        at += n;
    }
    CHECK(at == slots);
    for (uint32_t i = 0; i < slots; i++) {
        uint32_t slot = x->first[x->chosen[i]]++;
        x->row[slot] = i / s->used;
        x->slot_weight[slot] = x->weight[i];
    }
    for (uint32_t e = s->n_experts; e > 0; e--) /* each has moved to where the next began */
        x->first[e] = x->first[e - 1];
    x->first[0] = 0;
}

static void run_route(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, rows = c->n_rows;
    bool few = rows <= FEW_ROWS;
    if (!few) {
        while (gpu_team_take(m, rows, ceil_div(rows, m->size), &begin, &end))
            for (uint32_t r = begin; r < end; r++)
                route_row(c, s, r);
        gpu_team_end(m);
    }
    while (gpu_team_take(m, 1, 1, &begin, &end)) {
        for (uint32_t r = 0; few && r < rows; r++)
            route_row(c, s, r);
        lay_out(c, s);
    }
    gpu_team_end(m);
}

static void run_gather(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, slots = c->n_rows * s->used;
    size_t ld = c->ld[KRN_BUF_H];
    while (gpu_team_take(m, slots, ceil_div(slots, m->size), &begin, &end))
        for (uint32_t i = begin; i < end; i++) {
            uint32_t row = c->mix.row[i];
            const float *from = c->buf[KRN_BUF_H] + row * ld;
            memcpy(c->mix.input + i * ld, from, c->model.hidden * sizeof *from);
            if (s->rounds) /* the norm's stage rounded it */
                memcpy(c->mix.rounded + i * c->ld_rounded, c->rounded + row * c->ld_rounded,
                       c->ld_rounded);
        }
    gpu_team_end(m);
}

/* Gate, up and silu of one expert's slots, outputs of blocks [block0, block1). */
static void run_inner(const struct cpu *c, const struct cpu_expert *e, uint32_t first,
                      uint32_t rows, uint32_t block0, uint32_t block1, void *scratch) {
    size_t ld = c->mix.ld_inner;
    float *g = c->buf[KRN_BUF_G] + first * ld, *u = c->buf[KRN_BUF_U] + first * ld;
    struct krn_product p = {.x = c->mix.input + first * c->ld[KRN_BUF_H],
                            .ldx = c->ld[KRN_BUF_H],
                            .q = c->mix.rounded + first * c->ld_rounded,
                            .ldq = c->ld_rounded,
                            .rows = rows,
                            .w = &e->gate,
                            .segments = 1,
                            .y = g,
                            .ldy = ld};
    c->matmul.product(&p, block0, block1, scratch);
    p.w = &e->up;
    p.y = u;
    c->matmul.product(&p, block0, block1, scratch);
    uint32_t from = block0 * KRN_BLOCK, to = block1 * KRN_BLOCK;
    to = to < e->gate.n ? to : e->gate.n;
    for (uint32_t r = 0; r < rows; r++)
        c->fn->gate(g + r * ld + from, u + r * ld + from, to - from);
}

/* How many units a member should find, so that the end is even. */
static uint32_t wanted(uint32_t size) {
    return size == 1 ? 1 : 4 * size;
}

/* Units: experts that may have slots, times groups of blocks; of experts without, nothing. */
static void run_inside(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, slots = c->n_rows * s->used, blocks = c->model.ffn / c->config.world;
    blocks = ceil_div(blocks, KRN_BLOCK);
    uint32_t most = slots < s->n_experts ? slots : s->n_experts;
    uint32_t groups = ceil_div(wanted(m->size), most);
    uint32_t grain = ceil_div(blocks, groups < blocks ? groups : blocks);
    groups = ceil_div(blocks, grain);
    while (gpu_team_take(m, most * groups, 1, &begin, &end)) {
        uint32_t i = begin / groups, block0 = begin % groups * grain;
        uint32_t block1 = block0 + grain < blocks ? block0 + grain : blocks;
        if (i >= *c->mix.n_active)
            continue;
        uint32_t e = c->mix.active[i], first = c->mix.first[e];
        run_inner(c, &s->experts[e], first, c->mix.first[e + 1] - first, block0, block1,
                  m->scratch);
    }
    gpu_team_end(m);
}

/* Rounds what down reads, each segment alone: a segment is whole blocks of every profile. */
static void run_round(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    const struct gpu_shard *down = &s->product[0].shard;
    uint32_t begin, end, slots = c->n_rows * s->used, part = down->k / down->segments;
    while (gpu_team_take(m, slots, ceil_div(slots, m->size), &begin, &end))
        for (uint32_t i = begin; i < end; i++)
            for (uint32_t k = 0; k < down->segments; k++)
                c->matmul.round(c->buf[KRN_BUF_G] + i * c->mix.ld_inner + (size_t)k * part, part,
                                c->mix.inner +
                                    ((size_t)i * down->segments + k) * c->mix.inner_bytes);
    gpu_team_end(m);
}

/* Outputs [from, to) of every row over segment `segment`: its experts in ascending order. */
static void sum_segment(const struct cpu *c, const struct cpu_stage *s, uint32_t segment,
                        uint32_t block0, uint32_t block1, float *sum, void *scratch) {
    const struct cpu_mixture *x = &c->mix;
    size_t ld = c->ld[KRN_BUF_X], segments = s->product[0].shard.segments;
    uint32_t from = block0 * KRN_BLOCK, to = block1 * KRN_BLOCK, hidden = s->product[0].w.n;
    to = to < hidden ? to : hidden;
    for (uint32_t r = 0; r < c->n_rows; r++)
        memset(sum + r * ld + from, 0, (to - from) * sizeof *sum);
    for (uint32_t a = 0; a < *x->n_active; a++) {
        uint32_t e = x->active[a], first = x->first[e], rows = x->first[e + 1] - first;
        const struct krn_packed *w = &s->experts[e].down[segment];
        struct krn_product p = {.x = c->buf[KRN_BUF_G] + first * c->mix.ld_inner +
                                     (size_t)segment * w->k,
                                .ldx = c->mix.ld_inner,
                                .q = x->inner + (first * segments + segment) * x->inner_bytes,
                                .ldq = segments * x->inner_bytes,
                                .rows = rows,
                                .w = w,
                                .segments = 1,
                                .y = x->one,
                                .ldy = ld};
        c->matmul.product(&p, block0, block1, scratch);
        for (uint32_t r = 0; r < rows; r++)
            c->fn->mix(sum + x->row[first + r] * ld + from, x->one + r * ld + from,
                       x->slot_weight[first + r], to - from);
    }
}

/* The segments' sums in the tree, by a stack; then the residual, unless ranks still add. */
static void sum_blocks(const struct cpu *c, const struct cpu_stage *s, uint32_t block0,
                       uint32_t block1, void *scratch) {
    const struct cpu_product *p = &s->product[0];
    float *const *sums = c->mix.sums;
    size_t ld = c->ld[KRN_BUF_X];
    uint32_t from = block0 * KRN_BLOCK, to = block1 * KRN_BLOCK, depth = 0;
    to = to < p->w.n ? to : p->w.n;
    for (uint32_t i = 0; i < p->shard.segments; i++) {
        sum_segment(c, s, i, block0, block1, sums[depth++], scratch);
        for (uint32_t done = i; done & 1; done >>= 1, depth--)
            for (uint32_t r = 0; r < c->n_rows; r++) {
                float *left = sums[depth - 2] + r * ld + from;
                c->fn->add(left, sums[depth - 1] + r * ld + from, left, to - from);
            }
    }
    CHECK(depth == 1);
    for (uint32_t r = 0; r < c->n_rows && !p->shard.reduce; r++) {
        float *y = c->buf[p->dst] + r * ld + from;
        c->fn->add(y, sums[0] + r * ld + from, y, to - from);
    }
}

void gpu_cpu_experts(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, blocks = ceil_div(s->product[0].w.n, KRN_BLOCK);
    gpu_cpu_norm(c, s, m);
    run_router(c, s, m);
    run_route(c, s, m);
    run_gather(c, s, m);
    run_inside(c, s, m);
    if (s->rounds_down)
        run_round(c, s, m);
    while (gpu_team_take(m, blocks, ceil_div(blocks, wanted(m->size)), &begin, &end))
        sum_blocks(c, s, begin, end, m->scratch);
    gpu_team_end(m);
    if (s->product[0].shard.reduce)
        gpu_cpu_reduce(c, &s->product[0], m);
}
