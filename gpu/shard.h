/* SPDX-License-Identifier: Apache-2.0
 * Which part of each weight and of the KV heads a rank owns (kernels/families/family.h names the
 * rules). Pure. Ranks own whole subtrees of the V segments of a row-split product, and whole blocks
 * of every other one.
 */
#ifndef GPU_SHARD_H
#define GPU_SHARD_H

#include "kernels/families/family.h"

struct gpu_shard {
    uint32_t row0,
        n; /* outputs [row0, row0 + n) of the whole weight; n may be 0 of a small vocabulary */
    uint32_t col0, k;  /* inputs [col0, col0 + k) */
    uint32_t segments; /* of this rank's part of K */
    uint32_t
        stride;  /* VOCAB: outputs that each rank has room for when the parts lie side by side */
    bool reduce; /* ranks' results are partial sums */
};

/* world must divide V (gpu_world_check). */
struct gpu_shard gpu_shard_of(const struct krn_op *op, const struct krn_config *c,
                              const struct krn_profile *p, uint32_t rank, uint32_t world);

/* KV heads of a rank and the first of them; copied to several ranks when there are more ranks than
 * KV heads. */
uint32_t gpu_shard_kv_heads(const struct krn_config *c, uint32_t world);
uint32_t gpu_shard_kv_first(const struct krn_config *c, uint32_t rank, uint32_t world);

/* BAD_REQUEST names the limit when this model and profile cannot be cut for so many ranks. */
enum status gpu_world_check(const struct krn_config *c, const struct krn_profile *p, uint32_t world,
                            struct status_note *note);

#endif
