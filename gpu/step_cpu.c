/* SPDX-License-Identifier: Apache-2.0
 * The CPU device's forward pass: all rows of a plan as one ragged batch. Every member of the team
 * walks the same regions (gpu/team.h). Work is cut by rows, output blocks, or spans and heads;
 * never along a sum, so neither threads nor cuts can move a bit (numerics.md). Outside of taken
 * units only what is constant for the step is read: the plan, the stages, counts.
 */
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "gpu/cpu.h"

/* A row of a buffer. */
static float *row_of(const struct cpu *c, enum krn_buf b, size_t row) {
    return c->buf[b] + row * c->ld[b];
}

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* The region's next rows, cut evenly; a few rows more than one a member make no difference. */
static bool take_rows(struct gpu_member *m, uint32_t n, uint32_t *begin, uint32_t *end) {
    return gpu_team_take(m, n, ceil_div(n, m->size), begin, end);
}

static void run_copies(struct cpu *c, struct gpu_member *m) {
    const struct gpu_copy *copies = gpu_plan_copies(c->plan);
    uint32_t begin, end, tiles = c->config.page_tokens / KRN_TILE;
    uint64_t head_bytes = tiles * c->attention.tile_bytes(c->kv.head_dim);
    uint64_t heads = c->device.page_bytes / head_bytes;
    while (gpu_team_take(m, c->plan->n_copies, 1, &begin, &end)) {
        const struct gpu_copy *copy = &copies[begin];
        /* Whole tiles of every layer and head, as many as the tokens reach into. */
        uint64_t bytes = head_bytes / tiles * ceil_div(copy->tokens, KRN_TILE);
        const unsigned char *src = c->pool + copy->src * c->device.page_bytes;
        unsigned char *dst = c->pool + copy->dst * c->device.page_bytes;
        for (uint64_t h = 0; h < heads; h++)
            memcpy(dst + h * head_bytes, src + h * head_bytes, bytes);
    }
    gpu_team_end(m);
}

static void run_embed(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end;
    while (take_rows(m, c->n_rows, &begin, &end))
        for (uint32_t r = begin; r < end; r++) {
            float *x = row_of(c, KRN_BUF_X, r);
            c->matmul.embed(&s->product[0].w, c->token[r], x);
            if (s->scale != 1.0f)
                c->fn->scale(x, s->scale, c->model.hidden);
            if (r == c->nan_row)
                memset(x, 0xff, c->model.hidden * sizeof *x);
        }
    gpu_team_end(m);
}

/* How a group's products are cut: `tiles` row tiles times groups of `grain` blocks. */
struct cut {
    uint32_t blocks, grain, groups, tiles;
};

/* Few rows: one group of blocks a member. Many: groups as wide as the row functions share rows
 * over, and row tiles until there are enough units to end evenly. */
static struct cut cut_products(const struct cpu_stage *s, uint32_t rows, uint32_t size) {
    enum { FEW_ROWS = 16, TILE_ROWS = 56, FEW_GRAIN = 8, MANY_GRAIN = 16, UNITS_A_MEMBER = 2 };
    struct cut cut = {0, 1, 1, 1};
    for (uint32_t i = 0; i < s->n_products && !(s->gate && i > 0); i++)
        cut.blocks += s->product[i].w.n_blocks;
    bool few = rows <= FEW_ROWS;
    uint32_t wanted = size == 1 ? 1 : few ? size : UNITS_A_MEMBER * size;
    cut.grain = ceil_div(cut.blocks, wanted);
    if (few && cut.grain > FEW_GRAIN)
        cut.grain = (cut.grain + 1) / 2 * 2; /* near to even shares: reading weights bounds them */
    if (!few && size > 1) {
        uint32_t most = rows / TILE_ROWS > 0 ? rows / TILE_ROWS : 1;
        uint32_t groups = ceil_div(cut.blocks, MANY_GRAIN);
        if (groups * most < wanted) /* too few rows: narrower groups */
            groups = ceil_div(wanted, most);
        cut.grain = (ceil_div(cut.blocks, groups) + 1) / 2 * 2;
    }
    if (cut.grain == 0)
        cut.grain = 1;
    cut.groups = ceil_div(cut.blocks, cut.grain);
    if (!few && cut.groups < wanted && rows >= 2 * TILE_ROWS) {
        uint32_t most = rows / TILE_ROWS, tiles = ceil_div(wanted, cut.groups);
        cut.tiles = tiles < most ? tiles : most;
    }
    return cut;
}

/* What a group's products read: rows, and the same rounded where a product wants them so. */
struct inputs {
    const float *x;
    size_t ldx;
    const unsigned char *q;
    size_t ldq;
};

/* Blocks [block0, block1) of one product for rows [row0, row0 + rows). */
static void run_product(const struct cpu *c, const struct cpu_product *p, const struct inputs *in,
                        uint32_t row0, uint32_t rows, uint32_t block0, uint32_t block1,
                        void *scratch) {
    bool reduce = p->shard.reduce;
    struct krn_product product = {.x = in->x + row0 * in->ldx,
                                  .ldx = in->ldx,
                                  .q = in->q + row0 * in->ldq,
                                  .ldq = in->ldq,
                                  .rows = rows,
                                  .w = &p->w,
                                  .segments = p->shard.segments,
                                  .bias = reduce ? NULL : p->bias,
                                  .add = p->add && !reduce,
                                  .y = reduce ? c->partial + row0 * c->ld[KRN_BUF_X]
                                              : row_of(c, p->dst, row0),
                                  .ldy = reduce ? c->ld[KRN_BUF_X] : c->ld[p->dst]};
    c->matmul.product(&product, block0, block1, scratch);
}

/* The gate for the outputs of blocks [block0, block1). */
static void run_gate_blocks(const struct cpu *c, const struct cpu_stage *s, uint32_t row0,
                            uint32_t rows, uint32_t block0, uint32_t block1) {
    void (*gate)(float *, const float *, uint32_t) = s->gelu ? c->fn->gate_gelu : c->fn->gate;
    uint32_t first = block0 * KRN_BLOCK, last = block1 * KRN_BLOCK;
    last = last < s->product[0].w.n ? last : s->product[0].w.n;
    for (uint32_t r = row0; r < row0 + rows; r++)
        gate(row_of(c, KRN_BUF_G, r) + first, row_of(c, KRN_BUF_U, r) + first, last - first);
}

/* Unit [block0, block1) of the group's blocks laid end to end. */
static void run_group_blocks(const struct cpu *c, const struct cpu_stage *s,
                             const struct inputs *in, uint32_t row0, uint32_t rows, uint32_t block0,
                             uint32_t block1, void *scratch) {
    if (s->gate) {
        run_product(c, &s->product[0], in, row0, rows, block0, block1, scratch);
        run_product(c, &s->product[1], in, row0, rows, block0, block1, scratch);
        run_gate_blocks(c, s, row0, rows, block0, block1);
        return;
    }
    for (uint32_t i = 0; i < s->n_products && block0 < block1; i++) {
        uint32_t n = s->product[i].w.n_blocks;
        if (block0 < n)
            run_product(c, &s->product[i], in, row0, rows, block0, block1 < n ? block1 : n,
                        scratch);
        block0 = block0 > n ? block0 - n : 0;
        block1 = block1 > n ? block1 - n : 0;
    }
}

void gpu_cpu_reduce(struct cpu *c, const struct cpu_product *p, struct gpu_member *m) {
    uint32_t begin, end, n = p->w.n;
    const struct gpu_collective *all = c->config.collective;
    while (gpu_team_take(m, 1, 1, &begin, &end)) {
        c->status = all->reduce(all->self, c->partial, (size_t)c->n_rows * c->ld[KRN_BUF_X]);
        if (c->status != STATUS_OK)
            gpu_team_fail(m);
    }
    gpu_team_end(m);
    if (gpu_team_failed(m))
        return;
    while (take_rows(m, c->n_rows, &begin, &end))
        for (uint32_t r = begin; r < end; r++) {
            float *sum = c->partial + (size_t)r * c->ld[KRN_BUF_X], *y = row_of(c, p->dst, r);
            if (p->bias != NULL)
                c->fn->add(sum, p->bias, sum, n);
            if (p->add)
                c->fn->add(y, sum, y, n);
            else
                memcpy(y, sum, n * sizeof *y);
        }
    gpu_team_end(m);
}

/* All rows normed by this member into its own memory, when they are few. */
static const float *norm_own(const struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    float *own = (float *)(void *)((unsigned char *)m->scratch + c->scratch_rows);
    uint32_t n = c->model.hidden;
    for (uint32_t r = 0; r < c->n_rows; r++)
        c->fn->norm(row_of(c, s->norm_src, r), s->norm, own + (size_t)r * n, n, s->eps);
    return own;
}

void gpu_cpu_norm(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, n = c->model.hidden;
    while (take_rows(m, c->n_rows, &begin, &end))
        for (uint32_t r = begin; r < end; r++) {
            float *x = row_of(c, s->norm_src, r), *y = row_of(c, s->norm_dst, r);
            c->fn->norm(x, s->norm, s->norm_add ? x : y, n, s->eps);
            if (s->norm_add)
                c->fn->add(y, x, y, n);
            if (s->rounds)
                c->matmul.round(y, n, c->rounded + r * c->ld_rounded);
        }
    gpu_team_end(m);
}

/* Rounds rows that no norm of this group made. */
static void run_round(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    const struct cpu_product *p = &s->product[0];
    uint32_t begin, end;
    while (take_rows(m, c->n_rows, &begin, &end))
        for (uint32_t r = begin; r < end; r++)
            c->matmul.round(row_of(c, p->src, r), p->shard.k, c->rounded + r * c->ld_rounded);
    gpu_team_end(m);
}

/* The group's inputs made by this member into its own memory, when the rows are few: normed where
 * own_norm says so, and rounded where own_rounded does. */
static struct inputs inputs_own(const struct cpu *c, const struct cpu_stage *s, bool own_norm,
                                bool own_rounded, struct gpu_member *m) {
    const struct cpu_product *p = &s->product[0];
    struct inputs in = {c->buf[p->src], c->ld[p->src], c->rounded, c->ld_rounded};
    if (own_norm) {
        in.x = norm_own(c, s, m);
        in.ldx = c->model.hidden;
    }
    if (own_rounded) {
        unsigned char *q = (unsigned char *)m->scratch + c->scratch_rounded;
        in.ldq = c->matmul.row_bytes(p->shard.k);
        for (uint32_t r = 0; r < c->n_rows; r++)
            c->matmul.round(in.x + r * in.ldx, p->shard.k, q + r * in.ldq);
        in.q = q;
    }
    return in;
}

static void run_group(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end;
    bool own_norm = s->has_norm && s->n_products > 0 &&
                    (uint64_t)c->n_rows * c->model.hidden <= CPU_PRIVATE_FLOATS;
    bool own_rounded = s->rounds && (own_norm || !s->has_norm) &&
                       c->n_rows * c->matmul.row_bytes(s->product[0].shard.k) <= CPU_PRIVATE_BYTES;
    own_norm = own_norm && own_rounded == s->rounds;
    if (s->has_norm && !own_norm)
        gpu_cpu_norm(c, s, m);
    else if (s->rounds && !own_rounded)
        run_round(c, s, m);
    if (s->n_products == 0)
        return;
    struct inputs in = {NULL, 0, NULL, 0};
    struct cut cut = cut_products(s, c->n_rows, m->size);
    while (gpu_team_take(m, cut.groups * cut.tiles, 1, &begin, &end)) {
        if (in.x == NULL) /* the rows may be read only now: a late member takes nothing */
            in = inputs_own(c, s, own_norm, own_rounded, m);
        /* Row tiles of one group of blocks follow each other: its weights are still near. */
        uint32_t tile = begin % cut.tiles, block0 = begin / cut.tiles * cut.grain;
        uint32_t block1 = block0 + cut.grain < cut.blocks ? block0 + cut.grain : cut.blocks;
        uint32_t row0 = (uint32_t)((uint64_t)c->n_rows * tile / cut.tiles);
        uint32_t row1 = (uint32_t)((uint64_t)c->n_rows * (tile + 1) / cut.tiles);
        run_group_blocks(c, s, &in, row0, row1 - row0, block0, block1, m->scratch);
    }
    gpu_team_end(m);
    if (s->product[0].shard.reduce)
        gpu_cpu_reduce(c, &s->product[0], m);
}

/* Rotates the span's rows of one KV head and its query heads, and writes keys and values to the
 * pages. */
static void run_rope(struct cpu *c, const struct cpu_stage *s, const struct krn_kv *kv,
                     const struct krn_span *span, uint32_t head) {
    uint32_t d = kv->head_dim, group = c->heads / c->kv_heads;
    for (uint32_t i = 0; i < span->rows; i++) {
        uint32_t row = span->first_row + i, pos = span->first_pos + i;
        const float *cs = c->rope[s->local_rope] + (size_t)pos * d;
        for (uint32_t i_q = 0; i_q < group; i_q++) {
            float *q = row_of(c, KRN_BUF_Q, row) + (size_t)(head * group + i_q) * d;
            if (s->q_norm != NULL)
                c->fn->norm(q, s->q_norm, q, d, s->eps);
            c->fn->rope(q, cs, d);
        }
        float *k = row_of(c, KRN_BUF_K, row) + (size_t)head * d;
        if (s->k_norm != NULL)
            c->fn->norm(k, s->k_norm, k, d, s->eps);
        c->fn->rope(k, cs, d);
        c->attention.kv_write(kv, span->pages, pos, head, k,
                              row_of(c, KRN_BUF_V, row) + (size_t)head * d);
    }
}

static void run_attend(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end, units = c->n_spans * c->kv_heads;
    struct krn_attend a = {.q = c->buf[KRN_BUF_Q],
                           .ldq = c->ld[KRN_BUF_Q],
                           .out = c->buf[KRN_BUF_A],
                           .ldo = c->ld[KRN_BUF_A],
                           .spans = c->spans,
                           .n_spans = c->n_spans,
                           .kv = c->kv,
                           .heads = c->heads,
                           .scale = s->scale,
                           .window = s->window,
                           .segment = c->config.profile.attn_segment};
    a.kv.layer_off = s->layer * c->layer_bytes;
    /* A seq of one span needs nobody else's keys, so its rotation and attention are one unit. */
    if (!c->one_span_a_seq) {
        while (gpu_team_take(m, units, 1, &begin, &end))
            run_rope(c, s, &a.kv, &c->spans[begin / c->kv_heads], begin % c->kv_heads);
        gpu_team_end(m);
    }
    while (gpu_team_take(m, units, 1, &begin, &end)) {
        uint32_t unit = units - 1 - begin; /* the longest first, so that the end is even */
        if (c->one_span_a_seq)
            run_rope(c, s, &a.kv, &c->spans[unit / c->kv_heads], unit % c->kv_heads);
        c->attention.attend(&a, unit, unit + 1, m->scratch);
    }
    gpu_team_end(m);
}

static void run_gate(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    uint32_t begin, end;
    while (take_rows(m, c->n_rows, &begin, &end))
        for (uint32_t r = begin; r < end; r++)
            (s->gelu ? c->fn->gate_gelu : c->fn->gate)(row_of(c, KRN_BUF_G, r),
                                                       row_of(c, KRN_BUF_U, r), s->gate_n);
    gpu_team_end(m);
}

static void run_final(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    const struct gpu_draw *draws = gpu_plan_draws(c->plan);
    uint32_t begin, end, n = c->model.hidden, rows = c->n_rows;
    /* Units: the rows' checks, then the drawn rows' norms. */
    while (take_rows(m, rows + c->plan->n_draws, &begin, &end))
        for (uint32_t i = begin; i < end; i++)
            if (i < rows) {
                c->bad[i] = !c->fn->finite(row_of(c, KRN_BUF_X, i), n);
            } else {
                float *y = row_of(c, KRN_BUF_H, i - rows);
                c->fn->norm(row_of(c, KRN_BUF_X, draws[i - rows].row), s->norm, y, n, s->eps);
                if (c->logits_round)
                    c->matmul.round(y, n, c->rounded + (i - rows) * c->ld_rounded);
            }
    gpu_team_end(m);
}

/* The perturb hook: the two halves of K are summed apart. One row, by one member. */
static void run_changed(struct cpu *c, const struct cpu_product *p, const float *x, float *y,
                        void *scratch) {
    unsigned char *q = (unsigned char *)scratch + c->scratch_rounded;
    uint32_t k = c->model.hidden, half = k / 2, n = p->w.n;
    float *part = c->perturb_row, *sum = part + k;
    struct krn_product product = {
        .x = part, .ldx = k, .q = q, .rows = 1, .w = &p->w, .segments = 1, .y = y, .ldy = n};
    memset(part, 0, k * sizeof *part);
    memcpy(part, x, half * sizeof *part);
    if (c->logits_round)
        c->matmul.round(part, k, q);
    c->matmul.product(&product, 0, p->w.n_blocks, scratch);
    memset(part, 0, half * sizeof *part);
    memcpy(part + half, x + half, (k - half) * sizeof *part);
    product.y = sum;
    if (c->logits_round)
        c->matmul.round(part, k, q);
    c->matmul.product(&product, 0, p->w.n_blocks, scratch);
    c->fn->add(y, sum, y, n);
    if (p->bias != NULL)
        c->fn->add(y, p->bias, y, n);
}

/* counts[] of the draw with the tokens of its extra rows on top; each id once. */
static uint32_t merge_counts(const struct cpu *c, const struct gpu_draw *d, struct krn_count *out) {
    const struct krn_count *counts = gpu_plan_counts(c->plan) + d->first_count;
    uint32_t n = d->n_counts;
    memcpy(out, counts, n * sizeof *out);
    for (uint32_t r = d->extra_row; r <= d->row; r++) {
        uint32_t i = 0;
        while (i < n && out[i].id != c->token[r])
            i++;
        if (i == n)
            out[n++] = (struct krn_count){.id = c->token[r]};
        out[i].in_reply++;
    }
    return n;
}

static void run_draw(struct cpu *c, uint32_t i, float *logits, struct gpu_member *m) {
    const struct gpu_draw *d = &gpu_plan_draws(c->plan)[i];
    unsigned char *scratch = m->scratch;
    uint32_t vocab = c->model.vocab;
    struct krn_draw draw = {.logits = logits,
                            .vocab = vocab,
                            .pos = c->position[d->row] + (uint64_t)1,
                            .sampling = &d->sampling,
                            .counts = gpu_plan_counts(c->plan) + d->first_count,
                            .n_counts = d->n_counts,
                            .bias = gpu_plan_bias(c->plan) + d->first_bias,
                            .n_bias = d->n_bias,
                            .mask =
                                d->mask == GPU_NO_MASK ? NULL : gpu_plan_masks(c->plan) + d->mask,
                            .scratch = scratch + c->scratch_draw,
                            .top = c->result->top + (size_t)i * KRN_TOP_MAX};
    if (d->extra_row <= d->row) {
        struct krn_count *merged = (struct krn_count *)(void *)(scratch + c->scratch_counts);
        draw.n_counts = merge_counts(c, d, merged);
        draw.counts = merged;
    }
    if (c->kept[i] != GPU_ROW_FINE)
        memcpy(c->result->logits + (size_t)c->kept[i] * vocab, logits, vocab * sizeof *logits);
    c->fn->draw(&draw, &c->result->drawn[i]);
}

/* One member's work between the logits of a chunk and its draws: the perturb hook and the exchange
 * between ranks. */
static void run_between(struct cpu *c, const struct cpu_product *p, uint32_t first, uint32_t rows,
                        float *part, size_t ld, struct gpu_member *m) {
    const struct gpu_collective *all = c->config.collective;
    uint32_t begin, end;
    while (gpu_team_take(m, 1, 1, &begin, &end)) {
        for (uint32_t i = 0; i < rows && c->perturb != 0; i++)
            if (c->changed[first + i])
                run_changed(c, p, row_of(c, KRN_BUF_H, first + i), part + i * ld, m->scratch);
        if (c->config.world > 1)
            c->status = all->gather(all->self, part, c->buf[KRN_BUF_L], rows, ld);
        if (c->status != STATUS_OK)
            gpu_team_fail(m);
    }
    gpu_team_end(m);
}

static void run_logits(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m) {
    const struct cpu_product *p = &s->product[0];
    bool gather = c->config.world > 1;
    size_t ld = gather ? c->logits_stride : c->ld[KRN_BUF_L];
    float *part = gather ? c->logits_part : c->buf[KRN_BUF_L];
    uint32_t n = c->plan->n_draws, begin, end;
    for (uint32_t first = 0; first < n; first += CPU_LOGITS_ROWS) {
        uint32_t rows = n - first < CPU_LOGITS_ROWS ? n - first : CPU_LOGITS_ROWS;
        struct krn_product product = {.x = row_of(c, KRN_BUF_H, first),
                                      .ldx = c->ld[KRN_BUF_H],
                                      .q = c->rounded + first * c->ld_rounded,
                                      .ldq = c->ld_rounded,
                                      .rows = rows,
                                      .w = &p->w,
                                      .segments = 1,
                                      .bias = p->bias,
                                      .y = part,
                                      .ldy = ld};
        struct cut cut = cut_products(s, rows, m->size);
        while (gpu_team_take(m, cut.blocks, cut.grain, &begin, &end))
            c->matmul.product(&product, begin, end, m->scratch);
        gpu_team_end(m);
        if (c->perturb != 0 || gather)
            run_between(c, p, first, rows, part, ld, m);
        if (gpu_team_failed(m))
            return;
        while (gpu_team_take(m, rows, 1, &begin, &end))
            run_draw(c, first + begin, row_of(c, KRN_BUF_L, begin), m);
        gpu_team_end(m);
    }
}

void gpu_cpu_forward(void *cpu, struct gpu_member *m) {
    struct cpu *c = cpu;
    run_copies(c, m);
    if (c->n_rows == 0)
        return;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        const struct cpu_stage *s = &c->stages[i];
        switch (s->kind) {
        case CPU_EMBED:
            run_embed(c, s, m);
            break;
        case CPU_GROUP:
            run_group(c, s, m);
            break;
        case CPU_ATTEND:
            run_attend(c, s, m);
            break;
        case CPU_GATE:
            run_gate(c, s, m);
            break;
        case CPU_EXPERTS:
            gpu_cpu_experts(c, s, m);
            break;
        case CPU_FINAL:
            run_final(c, s, m);
            break;
        case CPU_LOGITS:
            run_logits(c, s, m);
            break;
        }
        if (gpu_team_failed(m))
            return;
    }
}
