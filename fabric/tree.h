/* SPDX-License-Identifier: Apache-2.0
 * The tree in which ranks add: a complete binary tree over virtual ranks, of which each rank owns
 * one whole subtree. A rank's partial sum is its subtree's root; the upper part, over ranks, is
 * added here. So every world size adds in one order.
 */
#ifndef FABRIC_TREE_H
#define FABRIC_TREE_H

#include <stddef.h>
#include <stdint.h>

enum { FAB_WORLD_MAX = 8 };

/* Virtual ranks [first, first + n) of V belong to a rank. world divides V, both are powers of
 * two. */
static inline uint32_t fab_tree_first(uint32_t virtual_ranks, uint32_t rank, uint32_t world) {
    return virtual_ranks / world * rank;
}
static inline uint32_t fab_tree_count(uint32_t virtual_ranks, uint32_t world) {
    return virtual_ranks / world;
}

/* out[i] = the tree's sum over part[0..world)[i]; world is a power of two up to FAB_WORLD_MAX; out
 * may be one of them. */
void fab_tree_sum(const float *const *part, uint32_t world, float *out, size_t n);

#endif
