/* SPDX-License-Identifier: Apache-2.0
 * The upper part of the tree. Plain additions, left operand first, no contraction: numerics.md 3.
 */
#include "fabric/tree.h"

#include <string.h>

#include "actors/check.h"

static void sum_two(const float *const *p, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = p[0][i] + p[1][i];
}

static void sum_four(const float *const *p, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = (p[0][i] + p[1][i]) + (p[2][i] + p[3][i]);
}

static void sum_eight(const float *const *p, float *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = ((p[0][i] + p[1][i]) + (p[2][i] + p[3][i])) +
                 ((p[4][i] + p[5][i]) + (p[6][i] + p[7][i]));
}

void fab_tree_sum(const float *const *part, uint32_t world, float *out, size_t n) {
    CHECK(world == 1 || world == 2 || world == 4 || world == FAB_WORLD_MAX);
    if (world == 1)
        memmove(out, part[0], n * sizeof *out);
    else if (world == 2)
        sum_two(part, out, n);
    else if (world == 4)
        sum_four(part, out, n);
    else
        sum_eight(part, out, n);
}
