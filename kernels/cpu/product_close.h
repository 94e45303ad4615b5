/* SPDX-License-Identifier: Apache-2.0
 * The end of a product of any profile: the segments' tree, bias, residual (numerics.md 3.2, 3.3).
 */
#ifndef KERNELS_CPU_PRODUCT_CLOSE_H
#define KERNELS_CPU_PRODUCT_CLOSE_H

#include "kernels/cpu/vec.h"
#include "kernels/rowfn.h"

/* Sixteen outputs: the segments' sums, `step` floats apart, added in one complete binary tree. */
VEC_FN v16 product_tree(const float *acc, size_t step, const uint32_t segments) {
    v16 t[KRN_V_MAX];
    UNROLL for (uint32_t s = 0; s < segments; s++) t[s] = v_load(acc + s * step);
    UNROLL for (uint32_t left = segments; left > 1; left /= 2) {
        UNROLL for (uint32_t s = 0; s < left / 2; s++) t[s] = v_add(t[2 * s], t[2 * s + 1]);
    }
    return t[0];
}

/* y = tree (+ bias) (+ y) for rows [r0, r0 + nr) and blocks [b0, b0 + nb). */
VEC_FN void product_close(const struct krn_product *p, const float *acc, uint32_t r0, uint32_t nr,
                          uint32_t b0, uint32_t nb, const uint32_t segments) {
    for (uint32_t r = 0; r < nr; r++) {
        float *y = p->y + (r0 + r) * p->ldy;
        for (uint32_t b = 0; b < nb; b++) {
            uint32_t col = (b0 + b) * 16;
            uint32_t n = p->w->n - col < 16 ? p->w->n - col : 16;
            v16 v = product_tree(acc + (r * nb + b) * 16, nr * nb * 16, segments);
            if (p->bias != NULL)
                v = v_add(v, v_load_n(p->bias + col, n));
            if (p->add)
                v = v_add(v_load_n(y + col, n), v);
            v_store_n(y + col, v, n);
        }
    }
}

VEC_FN void product_finish(const struct krn_product *p, const float *acc, uint32_t r0, uint32_t nr,
                           uint32_t b0, uint32_t nb) {
    switch (p->segments) {
    case 1:
        product_close(p, acc, r0, nr, b0, nb, 1);
        break;
    case 2:
        product_close(p, acc, r0, nr, b0, nb, 2);
        break;
    case 4:
        product_close(p, acc, r0, nr, b0, nb, 4);
        break;
    default:
        product_close(p, acc, r0, nr, b0, nb, KRN_V_MAX);
    }
}

#endif
