/* SPDX-License-Identifier: Apache-2.0
 * The shard rules.
 */
#include "gpu/shard.h"

#include "actors/check.h"
#include "kernels/rowfn.h"

uint32_t gpu_shard_kv_heads(const struct krn_config *c, uint32_t world) {
    return world <= c->kv_heads ? c->kv_heads / world : 1;
}

uint32_t gpu_shard_kv_first(const struct krn_config *c, uint32_t rank, uint32_t world) {
    return (uint32_t)((uint64_t)rank * c->kv_heads / world);
}

enum status gpu_world_check(const struct krn_config *c, const struct krn_profile *p, uint32_t world,
                            struct status_note *note) {
    if (world == 0 || (world & (world - 1)) != 0 || world > p->virtual_ranks)
        return status_say(
            note, STATUS_BAD_REQUEST,
            "%u ranks: this model adds in V = %u virtual ranks, so 1 to %u ranks, a power "
            "of two, can run it",
            world, p->virtual_ranks, p->virtual_ranks);
    bool kv = c->kv_heads % world == 0 || world % c->kv_heads == 0;
    if (c->heads % world != 0 || !kv)
        return status_say(note, STATUS_BAD_REQUEST,
                          "%u ranks cannot share %u heads and %u KV heads", world, c->heads,
                          c->kv_heads);
    return STATUS_OK;
}

static void shard_vocab(struct gpu_shard *s, uint32_t rank, uint32_t world) {
    uint32_t total = s->n, blocks = (total + KRN_BLOCK - 1) / KRN_BLOCK;
    s->stride = (blocks + world - 1) / world * KRN_BLOCK;
    uint64_t row0 = (uint64_t)rank * s->stride;
    s->row0 = row0 < total ? (uint32_t)row0 : total;
    s->n = total - s->row0 < s->stride ? total - s->row0 : s->stride;
}

struct gpu_shard gpu_shard_of(const struct krn_op *op, const struct krn_config *c,
                              const struct krn_profile *p, uint32_t rank, uint32_t world) {
    struct gpu_shard s = {.n = op->n, .k = op->k, .segments = 1, .stride = op->n};
    CHECK(rank < world && p->virtual_ranks % world == 0);
    switch (op->split) {
    case KRN_SPLIT_NONE:
        break;
    case KRN_SPLIT_HEADS:
    case KRN_SPLIT_COLUMNS:
        CHECK(op->n % (world * KRN_BLOCK) == 0);
        s.n = op->n / world;
        s.row0 = rank * s.n;
        break;
    case KRN_SPLIT_KV_HEADS:
        s.n = gpu_shard_kv_heads(c, world) * c->head_dim;
        s.row0 = gpu_shard_kv_first(c, rank, world) * c->head_dim;
        break;
    case KRN_SPLIT_VOCAB:
        shard_vocab(&s, rank, world);
        break;
    case KRN_SPLIT_ROWS:
        CHECK(op->k % p->virtual_ranks == 0);
        s.k = op->k / world;
        s.col0 = rank * s.k;
        s.segments = p->virtual_ranks / world;
        s.reduce = world > 1;
        break;
    }
    return s;
}
