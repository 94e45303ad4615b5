/* SPDX-License-Identifier: Apache-2.0
 * The tensor-core half of the CUDA device's packing (numerics.md 16): weights become bf16 tiles,
 * made on the device from rows that are carried as they are stored; products read packed rows, and
 * attention leaves its own.
 */
#include <string.h>

#include "actors/check.h"
#include "gpu/blocks_cuda.h"
#include "kernels/approx.h"
#include "kernels/cuda/block_unit.h"
#include "kernels/quant/quant.h"

/* Rows that any shape may launch with, whole tiles of them. */
static uint64_t rows_cap(const struct cuda *c) {
    uint32_t both = c->limits.rows > c->limits.draws ? c->limits.rows : c->limits.draws;
    return (uint64_t)krn_bf16_row_tiles(gpu_cuda_round_up(both)) * KRN_BF16_SIDE;
}

static gpu_cu_ptr_t cut(gpu_cu_ptr_t base, uint64_t *at, uint64_t bytes) {
    uint64_t from = (*at + 1023) / 1024 * 1024;
    *at = from + bytes;
    return base + from;
}

uint64_t gpu_cuda_place_bf16(struct cuda *c, gpu_cu_ptr_t base, uint64_t at) {
    const struct krn_config *m = &c->model;
    uint32_t rows = (uint32_t)rows_cap(c), world = c->config.world;
    uint32_t v = c->config.profile.virtual_ranks / world;
    c->packed[KRN_BUF_H] = cut(base, &at, krn_bf16_bytes(rows, m->hidden, 1));
    c->packed[KRN_BUF_A] = cut(base, &at, krn_bf16_bytes(rows, c->heads * m->head_dim, v));
    c->packed[KRN_BUF_G] = cut(base, &at, krn_bf16_bytes(rows, krn_dense_width(m) / world, v));
    c->product_work = cut(base, &at, krn_cuda_product_bf16_work(&c->machine));
    c->attend_work = cut(base, &at, krn_cuda_attend_work(m->head_dim, CUDA_ATTEND_ITEMS));
    c->row_major = cut(base, &at, CUDA_STAGING);
    c->blocks.widened = cut(base, &at, c->blocks.bytes);
    return at;
}

/* Columns [col0, col0 + k) of a row of a blocked format, which may begin and end inside blocks. */
static void unpack_row(const struct krn_tensor *t, uint64_t row, uint32_t col0, uint32_t k,
                       float *out) {
    enum { PIECE = KRN_QUANT_BLOCK_MAX };
    float piece[PIECE];
    uint64_t ld = t->dims[1], end = (uint64_t)col0 + k;
    for (uint64_t at = col0 / PIECE * PIECE; at < end; at += PIECE) {
        uint64_t width = ld - at < PIECE ? ld - at : PIECE, from = at < col0 ? col0 - at : 0;
        krn_unpack(t->dtype, t->data, row * ld + at, width, piece);
        for (uint64_t i = from; i < width && at + i < end; i++)
            out[at + i - col0] = piece[i];
    }
}

/* Rows [row0, row0 + n), columns [col0, col0 + k) as they are stored: bf16, or widened to f32. */
static void stage_rows(const struct krn_tensor *t, uint64_t row0, uint32_t n, uint32_t col0,
                       uint32_t k, void *out) {
    uint64_t ld = t->dims[1];
    for (uint32_t r = 0; r < n; r++) {
        uint64_t from = (row0 + r) * ld + col0;
        float *to = (float *)out + (size_t)r * k;
        if (t->dtype == KRN_BF16)
            memcpy((uint16_t *)out + (size_t)r * k, (const uint16_t *)t->data + from,
                   2 * (size_t)k);
        else if (t->dtype == KRN_F32)
            memcpy(to, (const float *)t->data + from, sizeof *to * (size_t)k);
        else if (t->dtype == KRN_F16)
            for (uint32_t i = 0; i < k; i++)
                to[i] = krn_widen_f16(((const uint16_t *)t->data)[from + i]);
        else
            unpack_row(t, row0 + r, col0, k, to);
    }
}

/* One part of whole tiles of rows, through row-major memory of the device. */
static void pack_part(struct gpu_cuda_packer *p, const struct krn_tensor *t,
                      struct krn_cuda_rows_bf16 *a, uint64_t row0, uint32_t col0) {
    struct cuda *c = p->c;
    struct krn_cuda_call call;
    uint64_t element = a->type == KRN_ROWS_BF16 ? 2 : 4;
    if (t->data == NULL) {
        gpu_cuda_fill(p, t, row0, a->rows, col0, a->k, false, a->x);
    } else {
        stage_rows(t, row0, a->rows, col0, a->k, c->staging);
        gpu_cuda_carry(p, a->x, (uint64_t)a->rows * a->k * element);
    }
    if (p->status != STATUS_OK)
        return;
    krn_cuda_rows_bf16_call(a, &call);
    p->status = gpu_launch(c->launcher, c->streams[GPU_STREAM_IN], &call, p->note);
    if (p->status == STATUS_OK && t->data != NULL) /* the staging memory is used again */
        p->status = gpu_cuda_said(c, c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]),
                                  "packing weights", p->note);
}

static uint32_t group_rows(const struct gpu_cuda_group *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        n += g->part[i].n;
    return n;
}

/* A group's weights as tiles, one matrix behind the other or woven. */
static gpu_cu_ptr_t pack_tiles(struct gpu_cuda_packer *p, const struct gpu_cuda_group *g) {
    struct cuda *c = p->c;
    uint32_t k = g->part[0].k, segments = g->part[0].segments, all = group_rows(g), before = 0;
    uint64_t bytes = krn_bf16_bytes(all, k, segments);
    uint64_t tile_row = (uint64_t)krn_bf16_blocks(k, segments) * KRN_BF16_TILE_BYTES;
    gpu_cu_ptr_t out = gpu_cuda_take(p, bytes + 1024);
    out = (out + 1023) / 1024 * 1024;
    uint32_t most = (uint32_t)(CUDA_STAGING / (k * sizeof(float)) / KRN_BF16_SIDE * KRN_BF16_SIDE);
    CHECK(most > 0);
    if (p->base != 0 && all % KRN_BF16_SIDE != 0 && p->status == STATUS_OK)
        p->status = gpu_cuda_said(
            c, c->driver->fill8(out + bytes - tile_row, 0, tile_row, c->streams[GPU_STREAM_IN]),
            "packing weights", p->note);
    for (uint32_t i = 0; i < g->n_ops; before += g->part[i++].n)
        for (uint32_t row = 0; row < g->part[i].n && p->base != 0 && p->status == STATUS_OK;
             row += most) {
            const struct krn_tensor *t = g->op[i].w;
            uint32_t rows = g->part[i].n - row < most ? g->part[i].n - row : most;
            struct krn_cuda_rows_bf16 a = {.x = c->row_major,
                                           .out = out,
                                           .type =
                                               t->dtype == KRN_BF16 ? KRN_ROWS_BF16 : KRN_ROWS_F32,
                                           .rows = rows,
                                           .ldx = k,
                                           .k = k,
                                           .segments = segments,
                                           .out_row = g->gates ? 2 * row + 8 * i : before + row,
                                           .spread = g->gates ? 8 : 0};
            pack_part(p, t, &a, g->part[i].row0 + row, g->part[i].col0);
        }
    return out;
}

gpu_cu_ptr_t gpu_cuda_pack_tiles(struct gpu_cuda_packer *p, const struct krn_op *op,
                                 const struct gpu_shard *part) {
    return pack_tiles(p, &(struct gpu_cuda_group){.op = op, .n_ops = 1, .part = {*part}});
}

/* Biases of a group, one vector; groups have one only where they lie side by side. */
static gpu_cu_ptr_t pack_biases(struct gpu_cuda_packer *p, const struct gpu_cuda_group *g) {
    gpu_cu_ptr_t first = 0, next;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        next = gpu_cuda_pack_vector(p, g->op[i].bias, g->part[i].row0, g->part[i].n, false);
        CHECK(i == 0 || first == 0 ||
              next == first + group_rows(&(struct gpu_cuda_group){
                                  .n_ops = i, .part = {g->part[0], g->part[1]}}) *
                                  sizeof(float));
        first = i == 0 ? next : first;
    }
    return first;
}

static bool is_product(const struct krn_op *op, enum krn_buf src, enum krn_buf dst) {
    return op->kind == KRN_OP_PRODUCT && op->src == src && op->dst == dst && !op->add;
}

/* What op begins: Q, K, V and G, U, gate become one product where nothing is in the way. */
static struct gpu_cuda_group group_of(const struct gpu_cuda_packer *p, const struct krn_op *op,
                                      uint32_t left) {
    const struct cuda *c = p->c;
    struct gpu_cuda_group g = {.op = op, .n_ops = 1};
    uint32_t wide = KRN_BLOCK * sizeof(float); /* floats between which vectors are aligned */
    bool qkv = left > 2 && is_product(op, op->src, KRN_BUF_Q) &&
               is_product(op + 1, op->src, KRN_BUF_K) && is_product(op + 2, op->src, KRN_BUF_V);
    g.gates = left > 3 && is_product(op, op->src, KRN_BUF_G) &&
              is_product(op + 1, op->src, KRN_BUF_U) && op[2].kind == KRN_OP_GATE &&
              op[3].kind == KRN_OP_PRODUCT && op[3].src == KRN_BUF_G && op->bias == NULL &&
              op[1].bias == NULL;
    uint32_t n = qkv ? 3 : g.gates ? 2 : 1;
    for (uint32_t i = 0; i < n; i++)
        g.part[i] =
            gpu_shard_of(&op[i], &c->model, &c->config.profile, c->config.rank, c->config.world);
    if (g.gates && g.part[0].n % 8 != 0)
        g.gates = false;
    for (uint32_t i = 1; i < n; i++) /* one launch reads one type of blocks */
        if (gpu_cuda_blocks(c, &op[i], &g.part[i]) != gpu_cuda_blocks(c, op, &g.part[0]))
            qkv = g.gates = false;
    g.blocks = gpu_cuda_blocks(c, op, &g.part[0]);
    if (qkv && g.blocks != 0 && (g.part[0].n | g.part[1].n) % KRN_UNIT_ROWS != 0)
        qkv = false;
    for (uint32_t i = 1; qkv && i < 3; i++)
        qkv = (op[i].bias == NULL) == (op->bias == NULL) &&
              (op->bias == NULL || g.part[i - 1].n % wide == 0);
    g.n_ops = qkv ? 3 : g.gates ? 2 : 1;
    return g;
}

uint32_t gpu_cuda_product_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                               struct cuda_stage *s) {
    struct cuda *c = p->c;
    struct gpu_cuda_group g = group_of(p, op, left);
    struct gpu_shard part = g.part[0];
    bool logits = op->dst == KRN_BUF_L, gather = logits && c->config.world > 1;
    CHECK(c->packed[op->src] != 0 || p->base == 0);
    s->kind = logits ? CUDA_LOGITS_BF16 : CUDA_PRODUCT_BF16;
    s->packs = !p->packed[op->src];
    p->packed[op->src] = true;
    s->rows = (struct krn_cuda_rows_bf16){.x = c->buf[op->src],
                                          .out = c->packed[op->src],
                                          .type = KRN_ROWS_F32,
                                          .ldx = c->ld[op->src],
                                          .k = part.k,
                                          .segments = part.segments};
    gpu_cu_ptr_t w = g.blocks != 0 ? gpu_cuda_pack_units(p, &g) : pack_tiles(p, &g);
    gpu_cu_ptr_t bias = pack_biases(p, &g);
    struct krn_cuda_product_bf16 *a = &s->a.product_bf16;
    *a = (struct krn_cuda_product_bf16){.x = c->packed[op->src],
                                        .w = w,
                                        .bias = part.reduce ? 0 : bias,
                                        .y = gather ? c->logits_part : c->buf[op->dst],
                                        .work = c->product_work,
                                        .n = group_rows(&g),
                                        .ldy = gather ? c->logits_stride : c->ld[op->dst],
                                        .k_blocks = krn_bf16_blocks(part.k, part.segments),
                                        .segments = part.segments,
                                        .flags = op->add && !part.reduce ? KRN_BF16_ADD : 0};
    s->blocks = g.blocks;
    s->reduce = part.reduce;
    if (part.reduce) {
        a->y = c->partial;
        a->ldy = c->ld[KRN_BUF_X];
        s->sum = gpu_cuda_sum_of(c, op, bias);
    }
    for (uint32_t i = 1; i < g.n_ops; i++)
        p->packed[op[i].dst] = false;
    if (!g.gates) {
        gpu_cuda_widen_room(c, s);
        return g.n_ops;
    }
    struct gpu_shard next =
        gpu_shard_of(&op[3], &c->model, &c->config.profile, c->config.rank, c->config.world);
    a->flags = KRN_BF16_GATE | (op[2].gelu ? (uint32_t)KRN_BF16_GATE_GELU : 0u);
    a->y = 0;
    a->packed = c->packed[KRN_BUF_G];
    a->packed_segment = next.k / next.segments;
    a->packed_blocks = krn_bf16_blocks(next.k, next.segments);
    p->packed[KRN_BUF_G] = true;
    gpu_cuda_widen_room(c, s);
    return 3;
}

gpu_cu_ptr_t gpu_cuda_norm_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left) {
    enum krn_buf dst = op->kind == KRN_OP_FINAL ? KRN_BUF_H : op->dst;
    if (op->add || dst != KRN_BUF_H)
        return 0;
    for (uint32_t i = 1; i < left; i++) {
        if (op[i].src == dst && op[i].kind != KRN_OP_PRODUCT)
            return 0;
        if (op[i].dst == dst || op[i].kind == KRN_OP_FINAL)
            break;
    }
    p->packed[dst] = true;
    return p->c->packed[dst];
}

void gpu_cuda_attend_bf16(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                          struct cuda_stage *s) {
    struct cuda *c = p->c;
    uint32_t table = op->window != 0 ? 1 : 0, next = 1;
    while (next < left && !(op[next].kind == KRN_OP_PRODUCT && op[next].src == KRN_BUF_A))
        next++;
    CHECK(next < left);
    struct gpu_shard out =
        gpu_shard_of(&op[next], &c->model, &c->config.profile, c->config.rank, c->config.world);
    s->kind = CUDA_ATTEND_BF16;
    s->a.attend_bf16 =
        (struct krn_cuda_attend_bf16){.table = c->image, /* and where its shape has it */
                                      .pages = c->image,
                                      .q = c->buf[KRN_BUF_Q],
                                      .packed = c->packed[KRN_BUF_A],
                                      .pool = c->pool,
                                      .work = c->attend_work,
                                      .page_bytes = c->device.page_bytes,
                                      .layer_off = op->layer * c->layer_bytes,
                                      .page_tokens = c->config.page_tokens,
                                      .heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .head_dim = c->model.head_dim,
                                      .ldq = c->ld[KRN_BUF_Q],
                                      .window = op->window,
                                      .segment = c->config.profile.attn_segment,
                                      .packed_segment = out.k / out.segments,
                                      .packed_blocks = krn_bf16_blocks(out.k, out.segments),
                                      .items_max = CUDA_ATTEND_ITEMS,
                                      .scale = op->scale};
    c->table_of[table] = s->a.attend_bf16;
    p->packed[KRN_BUF_A] = true;
}
