/* SPDX-License-Identifier: Apache-2.0
 * A mixture of experts on the CUDA device (numerics.md 13). Rows go through in chunks, so that what
 * every expert leaves of every row, segment by segment, finds room; a chunk's launches depend on
 * the shape alone, as all others do.
 */
#include "gpu/experts_cuda.h"

#include "actors/check.h"

enum { EXPERTS_BYTES = 512 << 20, EXPERTS_ROWS_MIN = 16 };

static gpu_cu_ptr_t cut(gpu_cu_ptr_t base, uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t from = (*at + 255) / 256 * 256;
    *at = from + n * size;
    return base + from;
}

static uint32_t whole_blocks(uint32_t n) {
    return (n + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK;
}

uint64_t gpu_cuda_place_experts(struct cuda *c, gpu_cu_ptr_t base, uint64_t at) {
    struct cuda_mixture *x = &c->mix;
    uint32_t used = c->model.experts_used, rows = gpu_cuda_round_up(c->limits.rows);
    uint32_t segments = c->config.profile.virtual_ranks / c->config.world;
    if (c->model.experts == 0)
        return at;
    x->ld_inner = whole_blocks(c->model.ffn / c->config.world);
    x->ld_one = whole_blocks(c->model.hidden);
    uint64_t a_slot = ((uint64_t)x->ld_inner + (uint64_t)segments * x->ld_one) * sizeof(float);
    uint64_t most = EXPERTS_BYTES / (a_slot * used) / EXPERTS_ROWS_MIN * EXPERTS_ROWS_MIN;
    most = most < EXPERTS_ROWS_MIN ? EXPERTS_ROWS_MIN : most;
    x->rows = most < rows ? (uint32_t)most : rows;
    uint64_t slots = (uint64_t)x->rows * used;
    x->chosen = cut(base, &at, (uint64_t)rows * used, sizeof(uint32_t));
    x->weight = cut(base, &at, (uint64_t)rows * used, sizeof(float));
    x->slot_row = cut(base, &at, slots, sizeof(uint32_t));
    x->slot_of = cut(base, &at, slots, sizeof(uint32_t));
    x->tiles = cut(base, &at, slots, sizeof(struct krn_cuda_tile));
    x->n_tiles = cut(base, &at, 1, sizeof(uint32_t));
    x->inner = cut(base, &at, slots * x->ld_inner, sizeof(float));
    x->one = cut(base, &at, slots * segments * x->ld_one, sizeof(float));
    if (!c->bf16)
        return at;
    /* A tile has as many slots as an expert has on average, or 64 of them. */
    uint64_t tiles = slots / KRN_EXPERTS_TILE_BF16 + 2ull * c->model.experts;
    tiles = tiles < slots ? tiles : slots;
    x->up = cut(base, &at, slots * x->ld_inner, sizeof(float));
    at = (at + 1023) / 1024 * 1024;
    x->packed = cut(base, &at, tiles * krn_bf16_blocks(c->model.hidden, 1), KRN_BF16_TILE_BYTES);
    x->packed_inner =
        cut(base, &at, tiles * krn_bf16_blocks(c->model.ffn / c->config.world, segments),
            KRN_BF16_TILE_BYTES);
    return at;
}

/* One of an expert's matrices, a rank's part of it, for all experts; *stride: bytes between two. */
static gpu_cu_ptr_t pack_all(struct gpu_cuda_packer *p, const struct krn_op *op, size_t which,
                             const struct gpu_shard *part, uint64_t *stride) {
    gpu_cu_ptr_t first = 0, at = 0;
    const struct krn_tensor *one = NULL;
    for (uint32_t e = 0; e < op->n_experts; e++) {
        const struct krn_tensor *const of[] = {op->experts[e].gate, op->experts[e].up,
                                               op->experts[e].down};
        const struct krn_tensor *t = of[which];
        one = e == 0 ? t : one;
        if (t->dtype != one->dtype && !p->c->bf16 && p->status == STATUS_OK)
            p->status = status_say(p->note, STATUS_UNSUPPORTED,
                                   "%s is stored otherwise than %s: the CUDA device needs one type "
                                   "for a layer's experts",
                                   t->name, one->name);
        at = p->c->bf16 ? gpu_cuda_pack_tiles(p, &(struct krn_op){.w = t}, part)
                        : gpu_cuda_pack_matrix(p, t, part->row0, part->n, part->col0, part->k);
        first = e == 0 ? at : first;
        if (e == 1)
            *stride = at - first;
        CHECK(at == first + e * *stride || p->status != STATUS_OK);
    }
    return first;
}

/* The same on tensor cores: inputs packed, gate and up apart, the gate where down's are packed. */
static void cut_bf16(const struct cuda *c, struct cuda_experts *a, const struct gpu_shard *wide,
                     const struct gpu_shard *down) {
    const struct cuda_mixture *x = &c->mix;
    a->bf16 = true;
    a->rows = (struct krn_cuda_experts_rows){.tiles = x->tiles,
                                             .n_tiles = x->n_tiles,
                                             .slot_row = x->slot_row,
                                             .x = a->inner.x,
                                             .out = x->packed,
                                             .ldx = a->inner.ldx,
                                             .k = wide->k,
                                             .segments = 1};
    a->rows_down = (struct krn_cuda_experts_rows){.tiles = x->tiles,
                                                  .n_tiles = x->n_tiles,
                                                  .x = x->inner,
                                                  .up = x->up,
                                                  .out = x->packed_inner,
                                                  .ldx = x->ld_inner,
                                                  .k = down->k,
                                                  .segments = down->segments};
    a->gate = (struct krn_cuda_experts_bf16){.tiles = x->tiles,
                                             .n_tiles = x->n_tiles,
                                             .x = x->packed,
                                             .w = a->inner.w,
                                             .y = x->inner,
                                             .w_stride = a->inner.w_stride,
                                             .n = wide->n,
                                             .ldy = x->ld_inner,
                                             .k_blocks = krn_bf16_blocks(wide->k, 1),
                                             .segments = 1};
    a->up = a->gate;
    a->up.w = a->inner.w2;
    a->up.y = x->up;
    a->out = (struct krn_cuda_experts_bf16){.tiles = x->tiles,
                                            .n_tiles = x->n_tiles,
                                            .x = x->packed_inner,
                                            .w = a->down.w,
                                            .y = x->one,
                                            .w_stride = a->down.w_stride,
                                            .n = down->n,
                                            .ldy = x->ld_one,
                                            .k_blocks = krn_bf16_blocks(down->k, down->segments),
                                            .segments = down->segments};
}

void gpu_cuda_cut_experts(struct gpu_cuda_packer *p, const struct krn_op *op,
                          struct cuda_stage *s) {
    struct cuda *c = p->c;
    const struct gpu_device_config *config = &c->config;
    const struct cuda_mixture *x = &c->mix;
    const struct krn_op in = {.n = op->n, .k = op->k, .split = KRN_SPLIT_COLUMNS};
    const struct krn_op out = {
        .n = op->k, .k = op->n, .split = KRN_SPLIT_ROWS, .dst = op->dst, .add = true};
    struct gpu_shard wide =
        gpu_shard_of(&in, &c->model, &config->profile, config->rank, config->world);
    struct gpu_shard down =
        gpu_shard_of(&out, &c->model, &config->profile, config->rank, config->world);
    struct cuda_experts *a = &s->a.experts;
    s->kind = CUDA_EXPERTS;
    s->reduce = down.reduce;
    a->n = op->n_experts;
    a->route = (struct krn_cuda_route){.step = c->image,
                                       .logits = c->buf[KRN_BUF_R],
                                       .chosen = x->chosen,
                                       .weight = x->weight,
                                       .n = op->n_experts,
                                       .used = op->used,
                                       .norm = op->norm_used,
                                       .ld = c->ld[KRN_BUF_R]};
    a->place = (struct krn_cuda_place){.step = c->image,
                                       .chosen = x->chosen,
                                       .slot_row = x->slot_row,
                                       .slot_of = x->slot_of,
                                       .tiles = x->tiles,
                                       .n_tiles = x->n_tiles,
                                       .n = op->n_experts,
                                       .used = op->used};
    a->inner = (struct krn_cuda_experts){.tiles = x->tiles,
                                         .n_tiles = x->n_tiles,
                                         .slot_row = x->slot_row,
                                         .x = c->buf[op->src],
                                         .y = x->inner,
                                         .ldx = c->ld[op->src],
                                         .ldy = x->ld_inner,
                                         .n = wide.n,
                                         .k = wide.k,
                                         .segments = 1,
                                         .dtype = gpu_cuda_packed_type(op->experts[0].gate)};
    a->down = (struct krn_cuda_experts){.tiles = x->tiles,
                                        .n_tiles = x->n_tiles,
                                        .x = x->inner,
                                        .y = x->one,
                                        .ldx = x->ld_inner,
                                        .ldy = x->ld_one,
                                        .n = down.n,
                                        .k = down.k,
                                        .segments = down.segments,
                                        .dtype = gpu_cuda_packed_type(op->experts[0].down)};
    a->mix = (struct krn_cuda_mix){.step = c->image,
                                   .slot_of = x->slot_of,
                                   .weight = x->weight,
                                   .one = x->one,
                                   .y = down.reduce ? c->partial : c->buf[op->dst],
                                   .used = op->used,
                                   .segments = down.segments,
                                   .n = down.n,
                                   .ld_one = x->ld_one,
                                   .ldy = down.reduce ? c->ld[KRN_BUF_X] : c->ld[op->dst],
                                   .add = !down.reduce};
    uint64_t up_stride = 0;
    a->inner.w = pack_all(p, op, 0, &wide, &a->inner.w_stride);
    a->inner.w2 = pack_all(p, op, 1, &wide, &up_stride);
    a->down.w = pack_all(p, op, 2, &down, &a->down.w_stride);
    if (c->bf16)
        cut_bf16(c, a, &wide, &down);
    else if (p->status == STATUS_OK && gpu_cuda_packed_type(op->experts[0].up) != a->inner.dtype)
        p->status = status_say(p->note, STATUS_UNSUPPORTED,
                               "%s is stored otherwise than %s: the CUDA device needs one type for "
                               "both",
                               op->experts[0].gate->name, op->experts[0].up->name);
    s->sum = gpu_cuda_sum_of(c, &out, 0);
}

static enum status launch(struct cuda *c, const struct krn_cuda_call *call,
                          struct status_note *note) {
    return gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], call, note);
}

static enum status multiply(struct cuda *c, struct cuda_experts *a, uint32_t slots,
                            struct status_note *note) {
    struct krn_cuda_call call;
    a->inner.tile = a->down.tile = a->place.tile;
    krn_cuda_experts_call(&a->inner, slots, a->n, &call);
    TRY(launch(c, &call, note));
    krn_cuda_experts_call(&a->down, slots, a->n, &call);
    return launch(c, &call, note);
}

static enum status multiply_bf16(struct cuda *c, struct cuda_experts *a, uint32_t slots,
                                 struct status_note *note) {
    struct krn_cuda_call call;
    uint32_t tiles = krn_cuda_experts_tiles(slots, a->n, a->place.tile);
    a->rows.tiles_max = a->rows_down.tiles_max = tiles;
    a->gate.tiles_max = a->up.tiles_max = a->out.tiles_max = tiles;
    krn_cuda_experts_rows_call(&a->rows, &call);
    TRY(launch(c, &call, note));
    krn_cuda_experts_bf16_call(&a->gate, &call);
    TRY(launch(c, &call, note));
    krn_cuda_experts_bf16_call(&a->up, &call);
    TRY(launch(c, &call, note));
    krn_cuda_experts_rows_call(&a->rows_down, &call);
    TRY(launch(c, &call, note));
    krn_cuda_experts_bf16_call(&a->out, &call);
    return launch(c, &call, note);
}

/* Rows [first, first + rows) of the shape. */
static enum status run_chunk(struct cuda *c, const struct cuda_experts *s, uint32_t first,
                             uint32_t rows, struct status_note *note) {
    struct cuda_experts a = *s;
    struct krn_cuda_call call;
    uint32_t slots = rows * a.place.used, most = KRN_EXPERTS_TILE;
    a.place.first_row = a.mix.first_row = first;
    a.place.rows = a.mix.rows = rows;
    most = a.bf16 ? KRN_EXPERTS_TILE_BF16 : most;
    a.place.tile = krn_cuda_experts_tile(rows, a.place.used, a.n, most);
    krn_cuda_place_call(&a.place, &call);
    TRY(launch(c, &call, note));
    TRY(a.bf16 ? multiply_bf16(c, &a, slots, note) : multiply(c, &a, slots, note));
    krn_cuda_mix_call(&a.mix, &call);
    return launch(c, &call, note);
}

enum status gpu_cuda_run_experts(struct cuda *c, const struct cuda_stage *s, uint32_t rows,
                                 struct status_note *note) {
    struct krn_cuda_call call;
    krn_cuda_route_call(&s->a.experts.route, rows, &call);
    TRY(launch(c, &call, note));
    for (uint32_t first = 0; first < rows; first += c->mix.rows)
        TRY(run_chunk(c, &s->a.experts, first,
                      rows - first < c->mix.rows ? rows - first : c->mix.rows, note));
    return STATUS_OK;
}
