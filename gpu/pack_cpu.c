/* SPDX-License-Identifier: Apache-2.0
 * The CPU device's weights: the op list is cut into stages (what runs as one region or a few), and
 * this rank's part of each weight is packed into one mapping in the order in which the stages read
 * it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "actors/check.h"
#include "gpu/cpu.h"
#include "kernels/approx.h"
#include "kernels/weights/store.h"

/* A matrix that the team packs, block by block: each depends on its own rows alone. */
struct pack_job {
    const struct krn_tensor *t;
    uint32_t row0, n, col0, k;
    unsigned char *out;
    uint64_t block_bytes;
};

/* Walks the op list twice with the same steps: first to count bytes and matrices (base NULL), then
 * to pack. */
struct packer {
    struct cpu *c;
    unsigned char *base;
    uint64_t at;
    struct pack_job *jobs;
    uint32_t n_jobs;
    unsigned char *sample; /* a block of any matrix */
    uint64_t sample_bytes;
    const struct krn_tensor *table; /* of the embedding */
    struct krn_packed table_packed;
};

static void *take(struct packer *p, uint64_t bytes) {
    uint64_t from = (p->at + 63) / 64 * 64;
    p->at = from + bytes;
    return p->base == NULL ? NULL : p->base + from;
}

/* Elements [first, first + n) of a vector as floats; NULL for no tensor. */
static const float *pack_vector(struct packer *p, const struct krn_tensor *t, uint32_t first,
                                uint32_t n) {
    if (t == NULL)
        return NULL;
    float *out = take(p, (uint64_t)n * sizeof *out);
    if (out == NULL)
        return NULL;
    if (t->dtype == KRN_F32)
        memcpy(out, (const float *)t->data + first, n * sizeof *out);
    const uint16_t *half = (const uint16_t *)t->data + first;
    for (uint32_t i = 0; i < n && t->dtype != KRN_F32; i++)
        out[i] = t->dtype == KRN_BF16 ? krn_widen_bf16(half[i]) : krn_widen_f16(half[i]);
    return out;
}

/* The factors of a norm of n: w, or 1 + w. */
static const float *pack_norm(struct packer *p, const struct krn_op *op, uint32_t n) {
    float *out = (float *)(uintptr_t)pack_vector(p, op->w, 0, n);
    for (uint32_t i = 0; op->one_more && out != NULL && i < n; i++)
        out[i] = 1.0f + out[i];
    return out;
}

/* The packed form is what is read from now on: the file's pages of a tensor go back to the kernel,
 * which can read them again from the file should somebody look. Owned memory is left alone. */
static void release_tensor(const struct krn_model *model, const struct krn_tensor *t) {
    const struct krn_store *store = model->store;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)t->data;
    for (uint32_t i = 0; store != NULL && i < store->n_files; i++) {
        uintptr_t file = (uintptr_t)store->files[i].bytes;
        if (at < file || at + t->bytes > file + store->files[i].size)
            continue;
        uintptr_t first = (at + page - 1) / page * page, last = (at + t->bytes) / page * page;
        if (first < last)
            madvise((void *)first, last - first, MADV_DONTNEED);
    }
}

static struct krn_packed pack_matrix(struct packer *p, const struct krn_tensor *t, uint32_t row0,
                                     uint32_t n, uint32_t col0, uint32_t k) {
    struct krn_packed packed = {.dtype = t->dtype, .n = n, .k = k};
    const struct krn_matmul *matmul = &p->c->matmul;
    unsigned char *out = take(p, matmul->packed_bytes(t->dtype, n, k));
    uint32_t job = p->n_jobs++;
    uint64_t block_bytes = matmul->packed_bytes(t->dtype, KRN_BLOCK, k);
    if (block_bytes > p->sample_bytes)
        p->sample_bytes = block_bytes;
    if (out == NULL)
        return packed;
    p->jobs[job] = (struct pack_job){t, row0, n, col0, k, out, block_bytes};
    if (n > 0) { /* One block says what all become. Who touches a page first has it cleared, so the
                    matrix itself is left to the team. */
        matmul->pack(t, row0, n < KRN_BLOCK ? n : KRN_BLOCK, col0, k, p->sample, &packed);
        packed.data = out;
        packed.n = n;
        packed.n_blocks = (n + KRN_BLOCK - 1) / KRN_BLOCK;
        packed.bytes = matmul->packed_bytes(t->dtype, n, k);
    }
    return packed;
}

/* Matrix by matrix; then the file's pages of that matrix go. */
static void pack_blocks(void *self, struct gpu_member *m) {
    enum { UNIT_BYTES = 128 << 10, UNITS_EACH = 4 };
    const struct packer *p = self;
    for (uint32_t i = 0; i < p->n_jobs; i++) {
        const struct pack_job *j = &p->jobs[i];
        uint32_t begin, end, blocks = (j->n + KRN_BLOCK - 1) / KRN_BLOCK;
        uint64_t least = UNIT_BYTES / (j->block_bytes + 1) + 1;
        uint32_t grain = blocks / (UNITS_EACH * m->size) + 1;
        grain = grain < least ? (uint32_t)least : grain;
        while (blocks > 0 && gpu_team_take(m, blocks, grain, &begin, &end)) {
            struct krn_packed packed;
            uint32_t first = begin * KRN_BLOCK, last = end * KRN_BLOCK;
            last = last < j->n ? last : j->n;
            p->c->matmul.pack(j->t, j->row0 + first, last - first, j->col0, j->k,
                              j->out + begin * j->block_bytes, &packed);
        }
        if (blocks > 0)
            gpu_team_end(m);
        if (m->index == 0)
            release_tensor(p->c->config.net->model, j->t);
    }
}

/* Blocks [row0, row0 + n) of a weight that is packed already. */
static struct krn_packed packed_part(const struct packer *p, uint32_t row0, uint32_t n) {
    const struct krn_packed *whole = &p->table_packed;
    struct krn_packed part = *whole;
    uint64_t block_bytes = p->c->matmul.packed_bytes(p->table->dtype, KRN_BLOCK, whole->k);
    CHECK(row0 % KRN_BLOCK == 0 || n == 0);
    part.n = n;
    part.n_blocks = (n + KRN_BLOCK - 1) / KRN_BLOCK;
    part.bytes = part.n_blocks * block_bytes;
    if (whole->data != NULL)
        part.data = (const unsigned char *)whole->data + row0 / KRN_BLOCK * block_bytes;
    return part;
}

static void pack_product(struct packer *p, const struct krn_op *op, struct cpu_product *out) {
    const struct gpu_device_config *config = &p->c->config;
    struct gpu_shard s =
        gpu_shard_of(op, &p->c->model, &config->profile, config->rank, config->world);
    *out = (struct cpu_product){.shard = s, .src = op->src, .dst = op->dst, .add = op->add};
    if (op->w == p->table && s.col0 == 0 && s.k == op->k)
        out->w = packed_part(p, s.row0, s.n);
    else
        out->w = pack_matrix(p, op->w, s.row0, s.n, s.col0, s.k);
    out->bias = pack_vector(p, op->bias, s.row0, s.n);
}

/* A norm and the products that read it, gate and up with the gate. Returns the ops that it
 * takes. */
static uint32_t cut_group(struct packer *p, const struct krn_op *op, uint32_t left,
                          struct cpu_stage *s) {
    uint32_t i = 0;
    enum krn_buf src = op->src;
    s->kind = CPU_GROUP;
    if (op->kind == KRN_OP_NORM) {
        s->norm = pack_norm(p, op, op->n);
        s->has_norm = true;
        s->norm_add = op->add;
        s->eps = op->eps;
        s->norm_src = op->src;
        s->norm_dst = src = op->dst;
        i = 1;
        if (op->add)
            return i;
    }
    while (i < left && s->n_products < CPU_GROUP_MAX && op[i].kind == KRN_OP_PRODUCT &&
           op[i].src == src && op[i].dst != KRN_BUF_L && op[i].dst != src) {
        bool alone = op[i].split == KRN_SPLIT_ROWS || op[i].add;
        if (alone && i > 0)
            break;
        s->rounds = s->rounds || p->c->matmul.rounds(op[i].w->dtype);
        pack_product(p, &op[i++], &s->product[s->n_products++]);
        if (alone)
            break;
    }
    if (i < left && op[i].kind == KRN_OP_GATE && s->n_products == 2 &&
        s->product[0].dst == op[i].dst && s->product[1].dst == op[i].src &&
        s->product[0].w.n == s->product[1].w.n) {
        s->gate = true;
        s->gelu = op[i].gelu;
        i++;
    }
    return i;
}

/* Heads' norms, rotation and attention of one layer. */
static uint32_t cut_attend(struct packer *p, const struct krn_op *op, uint32_t left,
                           struct cpu_stage *s) {
    uint32_t i = 0;
    s->kind = CPU_ATTEND;
    for (; i < left && op[i].kind == KRN_OP_HEAD_NORM; i++) {
        const float **norm = op[i].dst == KRN_BUF_Q ? &s->q_norm : &s->k_norm;
        *norm = pack_norm(p, &op[i], op[i].k);
        s->eps = op[i].eps;
    }
    if (left - i < 2 || op[i].kind != KRN_OP_ROPE_KV || op[i + 1].kind != KRN_OP_ATTEND ||
        op[i + 1].layer != s->layer)
        return 0;
    s->local_rope = op[i].local_rope;
    s->scale = op[i + 1].scale;
    s->window = op[i + 1].window;
    return i + 2;
}

/* The router's rows and weights are fp32 in every profile (numerics.md 13.1). */
static struct krn_packed pack_router(struct packer *p, const struct krn_op *op) {
    struct krn_packed packed = {.dtype = op->w->dtype, .n = op->n, .k = op->k};
    void *out = take(p, krn_packed_bytes(op->w->dtype, op->n, op->k));
    if (out != NULL)
        krn_pack(op->w, 0, op->n, 0, op->k, out, &packed);
    return packed;
}

/* Each matrix packed alone; of down each segment alone. */
static void pack_experts(struct packer *p, const struct krn_op *op, struct cpu_stage *s) {
    const struct gpu_device_config *config = &p->c->config;
    const struct krn_matmul *matmul = &p->c->matmul;
    const struct krn_op in = {.n = op->n, .k = op->k, .split = KRN_SPLIT_COLUMNS};
    const struct krn_op out = {.n = op->k, .k = op->n, .split = KRN_SPLIT_ROWS};
    struct gpu_shard wide =
        gpu_shard_of(&in, &p->c->model, &config->profile, config->rank, config->world);
    struct gpu_shard down =
        gpu_shard_of(&out, &p->c->model, &config->profile, config->rank, config->world);
    uint32_t part = down.k / down.segments;
    struct cpu_expert *experts = take(p, op->n_experts * sizeof *experts), counted;
    s->experts = experts;
    s->product[0] = (struct cpu_product){
        .w = {.n = down.n}, .shard = down, .src = op->src, .dst = op->dst, .add = true};
    for (uint32_t e = 0; e < op->n_experts; e++) {
        const struct krn_expert *from = &op->experts[e];
        struct cpu_expert *to = experts == NULL ? &counted : &experts[e];
        s->rounds =
            s->rounds || matmul->rounds(from->gate->dtype) || matmul->rounds(from->up->dtype);
        s->rounds_down = s->rounds_down || matmul->rounds(from->down->dtype);
        to->gate = pack_matrix(p, from->gate, wide.row0, wide.n, 0, wide.k);
        to->up = pack_matrix(p, from->up, wide.row0, wide.n, 0, wide.k);
        for (uint32_t i = 0; i < down.segments; i++)
            to->down[i] = pack_matrix(p, from->down, 0, down.n, down.col0 + i * part, part);
    }
}

/* A norm, the router that reads it, and the experts. */
static uint32_t cut_experts(struct packer *p, const struct krn_op *op, uint32_t left,
                            struct cpu_stage *s) {
    if (left < 3 || op[0].add || op[2].kind != KRN_OP_EXPERTS || op[1].src != op[0].dst ||
        op[2].src != op[0].dst || op[1].bias != NULL)
        return 0;
    s->kind = CPU_EXPERTS;
    s->norm = pack_norm(p, &op[0], op[0].n);
    s->has_norm = true;
    s->eps = op[0].eps;
    s->norm_src = op[0].src;
    s->norm_dst = op[0].dst;
    s->router = pack_router(p, &op[1]);
    s->n_experts = op[2].n_experts;
    s->used = op[2].used;
    s->norm_used = op[2].norm_used;
    pack_experts(p, &op[2], s);
    return 3;
}

/* Cuts the next stage; returns how many ops it takes, 0 for an order that this device does not
 * know. */
static uint32_t cut_stage(struct packer *p, const struct krn_op *op, uint32_t left,
                          struct cpu_stage *s) {
    *s = (struct cpu_stage){.layer = op->layer};
    switch (op->kind) {
    case KRN_OP_EMBED:
        s->kind = CPU_EMBED;
        s->scale = op->scale;
        p->table = op->w;
        s->product[0].w = p->table_packed =
            pack_matrix(p, op->w, 0, (uint32_t)op->w->dims[0], 0, (uint32_t)op->w->dims[1]);
        return 1;
    case KRN_OP_PRODUCT:
        if (op->dst != KRN_BUF_L)
            return cut_group(p, op, left, s);
        s->kind = CPU_LOGITS;
        s->n_products = 1;
        s->rounds = p->c->logits_round = p->c->matmul.rounds(op->w->dtype);
        pack_product(p, op, &s->product[0]);
        return 1;
    case KRN_OP_NORM:
        return left > 1 && op[1].dst == KRN_BUF_R ? cut_experts(p, op, left, s)
                                                  : cut_group(p, op, left, s);
    case KRN_OP_HEAD_NORM:
    case KRN_OP_ROPE_KV:
        return cut_attend(p, op, left, s);
    case KRN_OP_GATE:
        s->kind = CPU_GATE;
        s->gelu = op->gelu;
        s->gate_n = op->n / p->c->config.world;
        return 1;
    case KRN_OP_FINAL:
        s->kind = CPU_FINAL;
        s->norm = pack_norm(p, op, op->n);
        s->eps = op->eps;
        return 1;
    default:
        return 0;
    }
}

static enum status cut_all(struct packer *p, struct status_note *note) {
    const struct krn_net *net = p->c->config.net;
    p->c->n_stages = 0;
    for (uint32_t i = 0; i < net->n_ops;) {
        uint32_t used = cut_stage(p, &net->ops[i], net->n_ops - i, &p->c->stages[p->c->n_stages++]);
        if (used == 0)
            return status_say(
                note, STATUS_UNSUPPORTED,
                "the CPU device does not know op %u (kind %d, layer %u) in this place", i,
                (int)net->ops[i].kind, net->ops[i].layer);
        i += used;
    }
    return STATUS_OK;
}

/* The packed form is what is read from now on: the file's pages go back to the kernel, which can
 * read them again from the file should somebody look. Owned memory is left alone. */
static void release_files(const struct krn_model *model) {
    const struct krn_store *store = model->store;
    for (uint32_t i = 0; store != NULL && i < store->n_files; i++)
        madvise((void *)(uintptr_t)store->files[i].bytes, store->files[i].size, MADV_DONTNEED);
}

enum status gpu_cpu_pack(struct cpu *c, struct status_note *note) {
    struct packer count = {.c = c};
    c->stages = calloc(c->config.net->n_ops, sizeof *c->stages);
    if (c->stages == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the stages of a step");
    TRY(cut_all(&count, note));
    void *map =
        mmap(NULL, count.at + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %llu MiB of packed weights",
                          (unsigned long long)(count.at >> 20));
    madvise(map, count.at, MADV_HUGEPAGE);
    c->weights = map;
    c->weights_bytes = count.at + 64;
    struct packer pack = {.c = c, .base = map};
    pack.jobs = calloc(count.n_jobs, sizeof *pack.jobs);
    pack.sample = aligned_alloc(64, (count.sample_bytes + 63) / 64 * 64);
    enum status status = STATUS_NO_MEMORY;
    if (pack.jobs == NULL || pack.sample == NULL)
        status_say(note, status, "no memory for the list of %u matrices", count.n_jobs);
    else
        status = cut_all(&pack, note);
    if (status == STATUS_OK) {
        CHECK(pack.at == count.at && pack.n_jobs == count.n_jobs);
        gpu_team_run(c->team, pack_blocks, &pack);
    }
    free(pack.jobs);
    free(pack.sample);
    TRY(status);
    release_files(c->config.net->model);
    return STATUS_OK;
}
