/* SPDX-License-Identifier: Apache-2.0
 * Packing of blocked weights, and the launches over them (blocks_cuda.h).
 */
#include <string.h>

#include "actors/check.h"
#include "gpu/blocks_cuda.h"
#include "kernels/cuda/product_blocks.h"
#include "kernels/quant/quant.h"

/* Outputs of a part that is widened: whole tiles of w's rows and of packed results. */
enum { WIDEN_OUTPUTS = 2 * KRN_BF16_SIDE };

uint32_t gpu_cuda_blocks(const struct cuda *c, const struct krn_op *op,
                         const struct gpu_shard *part) {
    const struct krn_tensor *t = op->w;
    if (c->config.weights == GPU_WEIGHTS_WIDE || t->data == NULL ||
        !krn_cuda_blocks_fit(t->dtype, part->col0, part->k, part->segments))
        return 0;
    return t->dtype;
}

enum status gpu_cuda_weights_settle(struct cuda *c, struct status_note *note) {
    bool packed = c->blocks.bytes > 0; /* every matrix of blocks has asked for room */
    if (!c->bf16 && c->config.weights != GPU_WEIGHTS_AUTO)
        return status_say(note, STATUS_UNSUPPORTED,
                          "--weights %s is of profile cuda-bf16-sm90; profile %s has one way to "
                          "keep weights on a GPU: leave it out",
                          c->config.weights == GPU_WEIGHTS_WIDE ? "wide" : "packed",
                          c->config.profile.name);
    if (!packed && c->config.weights == GPU_WEIGHTS_PACKED)
        return status_say(note, STATUS_UNSUPPORTED,
                          "--weights packed: no matrix of this model is in blocks of a GGUF file "
                          "that a GPU multiplies as they are: leave it out, or say wide");
    if (c->bf16)
        c->device.weights = packed ? GPU_WEIGHTS_PACKED : GPU_WEIGHTS_WIDE;
    c->device.weights_bytes = c->weights_bytes;
    return STATUS_OK;
}

/* Stored rows of a tensor [row0, row0 + n) into staging memory at `at`. */
static void stage_stored(const struct cuda *c, const struct krn_tensor *t, uint64_t row0,
                         uint32_t n, uint64_t row_bytes, uint64_t at) {
    memcpy(c->staging + at, (const unsigned char *)t->data + row0 * row_bytes, n * row_bytes);
}

/* Rows [row, row + n) of op i of a group (with gates of both) as units behind `out`. */
static void pack_part(struct gpu_cuda_packer *p, const struct gpu_cuda_group *g, uint32_t i,
                      uint32_t row, uint32_t n, uint64_t row_bytes, gpu_cu_ptr_t out) {
    struct cuda *c = p->c;
    struct krn_cuda_call call;
    uint64_t bytes = n * row_bytes;
    struct krn_cuda_pack_blocks a = {.x = {c->row_major, c->row_major + bytes},
                                     .out = out,
                                     .row_bytes = row_bytes,
                                     .type = g->blocks,
                                     .spread = g->gates,
                                     .rows = n,
                                     .units = krn_unit_rows(g->gates ? 2 * n : n),
                                     .blocks = krn_bf16_blocks(g->part[i].k, g->part[i].segments),
                                     .k = g->part[i].k,
                                     .segments = g->part[i].segments,
                                     .col0 = g->part[i].col0};
    stage_stored(c, g->op[i].w, g->part[i].row0 + row, n, row_bytes, 0);
    if (g->gates)
        stage_stored(c, g->op[1].w, g->part[1].row0 + row, n, row_bytes, bytes);
    gpu_cuda_carry(p, c->row_major, g->gates ? 2 * bytes : bytes);
    if (p->status != STATUS_OK)
        return;
    krn_cuda_pack_blocks_call(&a, &call);
    p->status = gpu_launch(c->launcher, c->streams[GPU_STREAM_IN], &call, p->note);
    if (p->status == STATUS_OK) /* the staging memory is used again */
        p->status = gpu_cuda_said(c, c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]),
                                  "packing weights", p->note);
}

gpu_cu_ptr_t gpu_cuda_pack_units(struct gpu_cuda_packer *p, const struct gpu_cuda_group *g) {
    const struct krn_format *f = krn_format_of((enum krn_dtype)g->blocks);
    uint64_t row_bytes = g->op->w->dims[1] / f->block * f->bytes;
    uint32_t k = g->part[0].k, segments = g->part[0].segments, n = 0, before = 0;
    uint64_t a_unit = (uint64_t)krn_bf16_blocks(k, segments) * krn_unit_bytes(g->blocks);
    /* So many rows at a time, of each of a pair. */
    uint32_t most = (uint32_t)(CUDA_STAGING / 2 / row_bytes / KRN_UNIT_ROWS * KRN_UNIT_ROWS);
    CHECK(most > 0);
    for (uint32_t i = 0; i < g->n_ops; i++)
        n += g->part[i].n;
    gpu_cu_ptr_t out = gpu_cuda_take(p, krn_unit_matrix_bytes(g->blocks, n, k, segments));
    for (uint32_t i = 0; i < (g->gates ? 1 : g->n_ops); before += g->part[i++].n)
        for (uint32_t row = 0; row < g->part[i].n && p->base != 0 && p->status == STATUS_OK;
             row += most) {
            uint32_t rows = g->part[i].n - row < most ? g->part[i].n - row : most;
            uint32_t first = g->gates ? 2 * row : before + row;
            CHECK(first % KRN_UNIT_ROWS == 0);
            pack_part(p, g, i, row, rows, row_bytes, out + first / KRN_UNIT_ROWS * a_unit);
        }
    return out;
}

/* Outputs that are widened at a time: all, or so many that their tiles fit. Packed results can be
 * cut where tiles of theirs are, which needs segments of whole tiles. */
static uint32_t widen_outputs(const struct cuda *c, const struct krn_cuda_product_bf16 *a) {
    uint64_t a_row = (uint64_t)a->k_blocks * KRN_BF16_ROW_BYTES;
    uint64_t fit = c->blocks.most / a_row / WIDEN_OUTPUTS * WIDEN_OUTPUTS;
    if ((a->flags & KRN_BF16_GATE) != 0 && a->packed_segment % KRN_BF16_SIDE != 0)
        return a->n;
    fit = fit < WIDEN_OUTPUTS ? WIDEN_OUTPUTS : fit;
    return fit < a->n ? (uint32_t)fit : a->n;
}

void gpu_cuda_widen_room(struct cuda *c, const struct cuda_stage *s) {
    const struct krn_cuda_product_bf16 *a = &s->a.product_bf16;
    uint64_t tiles = krn_bf16_row_tiles(widen_outputs(c, a));
    uint64_t bytes = tiles * a->k_blocks * KRN_BF16_TILE_BYTES;
    if (s->blocks == 0 || bytes <= c->blocks.bytes)
        return;
    CHECK(c->blocks.widened == 0); /* counted before it is placed */
    c->blocks.bytes = bytes;
}

/* Part by part: its tiles, then the product that reads them. */
static enum status product_widened(struct cuda *c, const struct cuda_stage *s,
                                   const struct krn_cuda_product_bf16 *all,
                                   struct status_note *note) {
    uint32_t most = widen_outputs(c, all), gates = all->flags & KRN_BF16_GATE ? 2 : 1;
    uint64_t a_unit = (uint64_t)all->k_blocks * krn_unit_bytes(s->blocks);
    for (uint32_t o = 0; o < all->n; o += most) {
        struct krn_cuda_product_bf16 a = *all;
        struct krn_cuda_call call;
        a.n = all->n - o < most ? all->n - o : most;
        const struct krn_cuda_widen_blocks w = {.w = all->w + o / KRN_UNIT_ROWS * a_unit,
                                                .out = c->blocks.widened,
                                                .type = s->blocks,
                                                .units = krn_unit_rows(a.n),
                                                .blocks = a.k_blocks};
        krn_cuda_widen_blocks_call(&w, &call);
        TRY(gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], &call, note));
        a.w = c->blocks.widened;
        a.bias += a.bias == 0 ? 0 : o * sizeof(float);
        a.y += a.y == 0 ? 0 : o / gates * sizeof(float);
        a.packed += a.packed == 0 ? 0 : o / gates / KRN_BF16_SIDE * (uint64_t)KRN_BF16_TILE_BYTES;
        if (!krn_cuda_product_bf16_call(&a, &c->machine, KRN_BF16_AUTO, &call))
            return status_say(note, STATUS_UNSUPPORTED, "no product of %u rows on this GPU",
                              a.rows);
        /* Its weights are the kernel's before: nothing of it may begin early. */
        call.flags &= ~(uint32_t)KRN_CUDA_OVERLAP;
        TRY(gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], &call, note));
    }
    return STATUS_OK;
}

enum status gpu_cuda_product_blocks(struct cuda *c, const struct cuda_stage *s,
                                    const struct krn_cuda_product_bf16 *a,
                                    struct status_note *note) {
    struct krn_cuda_product_blocks b = {.p = *a, .type = s->blocks};
    struct krn_cuda_call call;
    if (a->rows > c->blocks.rows || !krn_cuda_product_blocks_call(&b, &c->machine, &call))
        return product_widened(c, s, a, note);
    return gpu_launch(c->launcher, c->streams[GPU_STREAM_COMPUTE], &call, note);
}
