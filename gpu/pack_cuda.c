/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's weights: the op list becomes stages, and this rank's part of each weight is
 * packed on the host, a bounded number of blocks at a time, and carried to one allocation in the
 * order in which the stages read it.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/experts_cuda.h"
#include "kernels/approx.h"
#include "kernels/cuda/fill.h"
#include "kernels/quant/quant.h"

gpu_cu_ptr_t gpu_cuda_take(struct gpu_cuda_packer *p, uint64_t bytes) {
    uint64_t from = (p->at + 255) / 256 * 256;
    p->at = from + bytes;
    return p->base + from;
}

void gpu_cuda_carry(struct gpu_cuda_packer *p, gpu_cu_ptr_t to, uint64_t bytes) {
    struct cuda *c = p->c;
    if (p->status != STATUS_OK || bytes == 0)
        return;
    gpu_cu_t r = c->driver->copy_in(to, c->staging, bytes, c->streams[GPU_STREAM_IN]);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]);
    p->status = gpu_cuda_said(c, r, "carrying weights to the device", p->note);
}

gpu_cu_ptr_t gpu_cuda_pack_vector(struct gpu_cuda_packer *p, const struct krn_tensor *t,
                                  uint32_t first, uint32_t n, bool one_more) {
    if (t == NULL || n == 0)
        return 0;
    gpu_cu_ptr_t out = gpu_cuda_take(p, (uint64_t)n * sizeof(float));
    if (p->base == 0)
        return out;
    enum { PART = CUDA_STAGING / sizeof(float) };
    float *staged = (float *)(void *)p->c->staging;
    for (uint32_t done = 0; done < n;) {
        uint32_t part = n - done < PART ? n - done : PART;
        for (uint32_t i = 0; i < part; i++) {
            uint32_t at = first + done + i;
            float x = t->dtype == KRN_F32    ? ((const float *)t->data)[at]
                      : t->dtype == KRN_BF16 ? krn_widen_bf16(((const uint16_t *)t->data)[at])
                                             : krn_widen_f16(((const uint16_t *)t->data)[at]);
            staged[i] = one_more ? 1.0f + x : x;
        }
        gpu_cuda_carry(p, out + (uint64_t)done * sizeof(float), (uint64_t)part * sizeof(float));
        done += part;
    }
    return out;
}

enum krn_dtype gpu_cuda_packed_type(const struct krn_tensor *t) {
    return t->dtype < KRN_DTYPES ? t->dtype : KRN_F32;
}

/* Sixteen rows of a blocked format as one block of f32; columns may begin and end inside the
 * format's blocks. */
static void unpack_block(const struct krn_tensor *t, uint64_t row0, uint32_t n, uint32_t col0,
                         uint32_t k, float *out) {
    enum { PIECE = KRN_QUANT_BLOCK_MAX };
    float piece[PIECE];
    uint64_t ld = t->dims[1];
    memset(out, 0, (size_t)k * KRN_BLOCK * sizeof *out);
    for (uint32_t r = 0; r < n; r++)
        for (uint64_t at = col0 / PIECE * PIECE; at < (uint64_t)col0 + k; at += PIECE) {
            uint64_t width = ld - at < PIECE ? ld - at : PIECE;
            krn_unpack(t->dtype, t->data, (row0 + r) * ld + at, width, piece);
            for (uint64_t i = at < col0 ? col0 - at : 0; i < width && at + i < (uint64_t)col0 + k;
                 i++)
                out[(at + i - col0) * KRN_BLOCK + r] = piece[i];
        }
}

/* Rows [row0, row0 + n) and columns [col0, col0 + k) as blocks [block][k][16]. */
static void pack_blocks(const struct krn_tensor *t, uint32_t row0, uint32_t n, uint32_t col0,
                        uint32_t k, void *out) {
    struct krn_packed packed;
    if (t->dtype < KRN_DTYPES) {
        krn_pack(t, row0, n, col0, k, out, &packed);
        return;
    }
    for (uint32_t b = 0; b < n; b += KRN_BLOCK)
        unpack_block(t, (uint64_t)row0 + b, n - b < KRN_BLOCK ? n - b : KRN_BLOCK, col0, k,
                     (float *)out + (size_t)b * k);
}

void gpu_cuda_fill(struct gpu_cuda_packer *p, const struct krn_tensor *t, uint64_t row0, uint32_t n,
                   uint32_t col0, uint32_t k, bool blocked, gpu_cu_ptr_t out) {
    CHECK(t->dtype == KRN_BF16 || t->dtype == KRN_F32);
    const struct krn_cuda_fill a = {.out = out,
                                    .stream = t->fill.stream,
                                    .first = row0 * t->dims[1] + col0,
                                    .offset = t->fill.offset,
                                    .reach = t->fill.reach,
                                    .rows = n,
                                    .k = k,
                                    .ld = (uint32_t)t->dims[1],
                                    .dtype = t->dtype,
                                    .blocked = blocked};
    struct krn_cuda_call call;
    krn_cuda_fill_call(&a, &call);
    if (p->status == STATUS_OK)
        p->status = gpu_launch(p->c->launcher, p->c->streams[GPU_STREAM_IN], &call, p->note);
}

gpu_cu_ptr_t gpu_cuda_pack_matrix(struct gpu_cuda_packer *p, const struct krn_tensor *t,
                                  uint32_t row0, uint32_t n, uint32_t col0, uint32_t k) {
    uint64_t block = krn_packed_bytes(gpu_cuda_packed_type(t), KRN_BLOCK, k);
    uint32_t blocks = (n + KRN_BLOCK - 1) / KRN_BLOCK;
    gpu_cu_ptr_t out = gpu_cuda_take(p, blocks * block);
    CHECK(block <= CUDA_STAGING);
    if (t->data == NULL) {
        if (p->base != 0 && n > 0)
            gpu_cuda_fill(p, t, row0, n, col0, k, true, out);
        return out;
    }
    for (uint32_t b = 0; b < blocks && p->base != 0 && p->status == STATUS_OK;) {
        uint32_t most = (uint32_t)(CUDA_STAGING / block), first = b * KRN_BLOCK;
        uint32_t part = blocks - b < most ? blocks - b : most;
        uint32_t rows = n - first < part * KRN_BLOCK ? n - first : part * KRN_BLOCK;
        pack_blocks(t, row0 + first, rows, col0, k, p->c->staging);
        gpu_cuda_carry(p, out + b * block, part * block);
        b += part;
    }
    return out;
}

struct krn_cuda_sum gpu_cuda_sum_of(const struct cuda *c, const struct krn_op *op,
                                    gpu_cu_ptr_t bias) {
    return (struct krn_cuda_sum){.step = c->image,
                                 .part = c->partial,
                                 .bias = bias,
                                 .y = c->buf[op->dst],
                                 .n = op->n,
                                 .ldp = c->ld[KRN_BUF_X],
                                 .ldy = c->ld[op->dst],
                                 .add = op->add};
}

static void pack_product(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s) {
    struct cuda *c = p->c;
    const struct gpu_device_config *config = &c->config;
    struct gpu_shard part =
        gpu_shard_of(op, &c->model, &config->profile, config->rank, config->world);
    bool logits = op->dst == KRN_BUF_L, gather = logits && config->world > 1;
    struct krn_cuda_product *a = &s->a.product;
    *a = (struct krn_cuda_product){.count =
                                       c->image + (logits ? offsetof(struct krn_cuda_step, n_draws)
                                                          : offsetof(struct krn_cuda_step, n_rows)),
                                   .x = c->buf[op->src],
                                   .ldx = c->ld[op->src],
                                   .y = gather ? c->logits_part : c->buf[op->dst],
                                   .ldy = gather ? c->logits_stride : c->ld[op->dst],
                                   .n = part.n,
                                   .k = part.k,
                                   .segments = part.segments,
                                   .dtype = gpu_cuda_packed_type(op->w),
                                   .add = op->add};
    if (op->w == p->table && part.col0 == 0 && part.k == op->k) {
        CHECK(part.row0 % KRN_BLOCK == 0 || part.n == 0);
        a->w = p->table_at + part.row0 / KRN_BLOCK *
                                 krn_packed_bytes((enum krn_dtype)a->dtype, KRN_BLOCK, part.k);
    } else {
        a->w = gpu_cuda_pack_matrix(p, op->w, part.row0, part.n, part.col0, part.k);
    }
    gpu_cu_ptr_t bias = gpu_cuda_pack_vector(p, op->bias, part.row0, part.n, false);
    s->kind = logits ? CUDA_LOGITS : CUDA_PRODUCT;
    s->reduce = part.reduce;
    if (!part.reduce) {
        a->bias = bias;
        return;
    }
    a->add = 0;
    a->y = c->partial;
    a->ldy = c->ld[KRN_BUF_X];
    s->sum = gpu_cuda_sum_of(c, op, bias);
}

static void cut_embed(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s) {
    struct cuda *c = p->c;
    p->table = op->w;
    p->table_at =
        gpu_cuda_pack_matrix(p, op->w, 0, (uint32_t)op->w->dims[0], 0, (uint32_t)op->w->dims[1]);
    s->kind = CUDA_EMBED;
    s->a.embed = (struct krn_cuda_embed){.step = c->image,
                                         .begun = c->answer + c->at.times,
                                         .last = c->last,
                                         .tokens = c->tokens,
                                         .w = p->table_at,
                                         .y = c->buf[op->dst],
                                         .dtype = gpu_cuda_packed_type(op->w),
                                         .k = (uint32_t)op->w->dims[1],
                                         .ldy = c->ld[op->dst],
                                         .scale = op->scale};
}

static void cut_norm(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                     struct cuda_stage *s) {
    struct cuda *c = p->c;
    bool final = op->kind == KRN_OP_FINAL;
    enum krn_buf src = final ? KRN_BUF_X : op->src, dst = final ? KRN_BUF_H : op->dst;
    gpu_cu_ptr_t packed = c->bf16 ? gpu_cuda_norm_bf16(p, op, left) : 0;
    s->kind = final ? CUDA_FINAL : CUDA_NORM;
    s->a.norm = (struct krn_cuda_norm){.step = c->image,
                                       .x = c->buf[src],
                                       .w = gpu_cuda_pack_vector(p, op->w, 0, op->n, op->one_more),
                                       .y = packed != 0 && !final ? 0 : c->buf[dst],
                                       .packed = packed,
                                       .n = op->n,
                                       .ldx = c->ld[src],
                                       .ldy = c->ld[dst],
                                       .eps = op->eps,
                                       .add = op->add,
                                       .drawn = final};
}

static void cut_rope(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s) {
    struct cuda *c = p->c;
    s->kind = CUDA_ROPE;
    s->a.rope = (struct krn_cuda_rope){.step = c->image,
                                       .q = c->buf[KRN_BUF_Q],
                                       .k = c->buf[KRN_BUF_K],
                                       .v = c->buf[KRN_BUF_V],
                                       .q_norm = p->q_norm,
                                       .k_norm = p->k_norm,
                                       .angles = c->rope[op->local_rope],
                                       .kv = c->kv,
                                       .heads = c->heads,
                                       .ldq = c->ld[KRN_BUF_Q],
                                       .ldk = c->ld[KRN_BUF_K],
                                       .ldv = c->ld[KRN_BUF_V],
                                       .eps = p->head_eps,
                                       .bf16 = c->bf16};
    s->a.rope.kv.layer_off = op->layer * c->layer_bytes;
    p->q_norm = p->k_norm = 0;
}

static void cut_attend(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s) {
    struct cuda *c = p->c;
    s->kind = CUDA_ATTEND;
    s->a.attend = (struct krn_cuda_attend){.step = c->image,
                                           .q = c->buf[KRN_BUF_Q],
                                           .out = c->buf[KRN_BUF_A],
                                           .kv = c->kv,
                                           .heads = c->heads,
                                           .ldq = c->ld[KRN_BUF_Q],
                                           .ldo = c->ld[KRN_BUF_A],
                                           .scale = op->scale,
                                           .window = op->window,
                                           .segment = c->config.profile.attn_segment};
    s->a.attend.kv.layer_off = op->layer * c->layer_bytes;
}

static void cut_gate(struct gpu_cuda_packer *p, const struct krn_op *op, struct cuda_stage *s) {
    struct cuda *c = p->c;
    s->kind = CUDA_GATE;
    s->a.gate = (struct krn_cuda_gate){.step = c->image,
                                       .g = c->buf[KRN_BUF_G],
                                       .u = c->buf[KRN_BUF_U],
                                       .n = op->n / c->config.world,
                                       .ld = c->ld[KRN_BUF_G],
                                       .gelu = op->gelu};
}

/* One op, or some that go together, as a stage; false for an op that makes none. taken: how many
 * ops; 0 for one that this device does not know. */
static bool cut_op(struct gpu_cuda_packer *p, const struct krn_op *op, uint32_t left,
                   struct cuda_stage *s, uint32_t *taken) {
    *s = (struct cuda_stage){0};
    *taken = 1;
    p->packed[op->kind == KRN_OP_FINAL ? KRN_BUF_H : op->dst] = false;
    switch (op->kind) {
    case KRN_OP_EMBED:
        cut_embed(p, op, s);
        return true;
    case KRN_OP_NORM:
    case KRN_OP_FINAL:
        cut_norm(p, op, left, s);
        return true;
    case KRN_OP_PRODUCT:
        if (p->c->bf16 && op->dst != KRN_BUF_R) /* routers are fp32 in every profile */
            *taken = gpu_cuda_product_bf16(p, op, left, s);
        else
            pack_product(p, op, s);
        return true;
    case KRN_OP_HEAD_NORM: { /* taken by the rotation that follows */
        gpu_cu_ptr_t w = gpu_cuda_pack_vector(p, op->w, 0, op->k, op->one_more);
        *(op->dst == KRN_BUF_Q ? &p->q_norm : &p->k_norm) = w;
        p->head_eps = op->eps;
        return false;
    }
    case KRN_OP_ROPE_KV:
        cut_rope(p, op, s);
        return true;
    case KRN_OP_ATTEND:
        if (p->c->bf16)
            gpu_cuda_attend_bf16(p, op, left, s);
        else
            cut_attend(p, op, s);
        return true;
    case KRN_OP_GATE:
        cut_gate(p, op, s);
        return true;
    case KRN_OP_EXPERTS:
        gpu_cuda_cut_experts(p, op, s);
        return true;
    default:
        *taken = 0;
        return false;
    }
}

static enum status cut_all(struct gpu_cuda_packer *p) {
    const struct krn_net *net = p->c->config.net;
    p->c->n_stages = 0;
    for (uint32_t i = 0, taken; i < net->n_ops && p->status == STATUS_OK; i += taken) {
        if (cut_op(p, &net->ops[i], net->n_ops - i, &p->c->stages[p->c->n_stages], &taken))
            p->c->n_stages++;
        if (taken == 0)
            return status_say(p->note, STATUS_UNSUPPORTED,
                              "the CUDA device does not know op %u (kind %d, layer %u)", i,
                              (int)net->ops[i].kind, net->ops[i].layer);
    }
    return p->status;
}

/* A model whose input is wider than the staging memory would need longer packing. */
static enum status check_widths(const struct cuda *c, struct status_note *note) {
    const struct krn_net *net = c->config.net;
    /* So many rows are packed at a time at least, and as what. */
    uint32_t rows = c->bf16 ? KRN_BF16_SIDE : KRN_BLOCK;
    for (uint32_t i = 0; i < net->n_ops; i++) {
        const struct krn_op *op = &net->ops[i];
        const struct krn_tensor *w = op->w;
        uint32_t k = op->k;
        if (op->kind == KRN_OP_EXPERTS) {
            k = op->n > op->k ? op->n : op->k;
            w = op->experts[0].down;
        } else if (op->kind != KRN_OP_PRODUCT) {
            continue;
        }
        enum krn_dtype type = c->bf16 ? KRN_F32 : gpu_cuda_packed_type(w);
        if (krn_packed_bytes(type, rows, k) > CUDA_STAGING)
            return status_say(note, STATUS_UNSUPPORTED,
                              "op %u reads %u inputs: the CUDA device packs at most %u", i, k,
                              (unsigned)(CUDA_STAGING / rows / sizeof(float)));
    }
    return STATUS_OK;
}

uint64_t gpu_cuda_weights_bytes(struct cuda *c, struct status_note *note) {
    struct gpu_cuda_packer count = {.c = c, .note = note};
    if (check_widths(c, note) != STATUS_OK)
        return 0;
    return cut_all(&count) == STATUS_OK ? count.at + 256 : 0;
}

enum status gpu_cuda_pack(struct cuda *c, struct status_note *note) {
    struct gpu_cuda_packer pack = {.c = c, .base = c->weights, .note = note};
    TRY(cut_all(&pack));
    TRY(gpu_cuda_said(c, c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]),
                      "packing weights", note));
    CHECK(pack.at + 256 == c->weights_bytes);
    return STATUS_OK;
}
