/* SPDX-License-Identifier: Apache-2.0
 * Products with packed weights and the pairwise sum of ranks (numerics.md 3). Many rows: a group of
 * blocks is widened once to fp32 and read by every row tile. Few rows: the packed weight is
 * streamed once, several blocks side by side; cells are widened a few at a time.
 */
#ifndef KERNELS_CPU_PRODUCT_H
#define KERNELS_CPU_PRODUCT_H

#include "kernels/cpu/cells.h"
#include "kernels/cpu/micro.h"
#include "kernels/cpu/product_close.h"
#include "kernels/rowfn.h"

enum {
    PRODUCT_GROUP = 16, /* blocks of a panel at most */
    PRODUCT_CELLS = 2,  /* cells of each block that few rows widen at a time */
    PRODUCT_ROWS_MAX = VEC_PANEL_R > VEC_ROWS ? VEC_PANEL_R : VEC_ROWS,
    PRODUCT_ACC = PRODUCT_ROWS_MAX * PRODUCT_GROUP * 16, /* floats of one tile's sums */
    PRODUCT_PANEL = KRN_SCRATCH_BYTES / 4 - KRN_V_MAX * PRODUCT_ACC - PRODUCT_ROWS_MAX * MICRO_XS
};
_Static_assert(PRODUCT_PANEL >= 1 << 17, "a panel holds a block of 8,192 inputs");

struct product_scratch {
    float acc[KRN_V_MAX * PRODUCT_ACC]; /* sums of each segment: [s][r][b][16] */
    float x[PRODUCT_ROWS_MAX * MICRO_XS];
    float panel[PRODUCT_PANEL];
};

static inline size_t product_element(enum krn_dtype dtype) {
    return dtype == KRN_F32 ? 4 : 2;
}

/* Few rows: tiles straight over the packed form. */
static void product_direct(const struct krn_product *p, uint32_t block0, uint32_t block1,
                           struct product_scratch *t) {
    const struct krn_packed *w = p->w;
    uint32_t len = w->k / p->segments;
    uint32_t tiles = (p->rows + VEC_ROWS - 1) / VEC_ROWS;
    uint32_t widest = (p->rows + tiles - 1) / tiles;
    size_t e = product_element(w->dtype);
    for (uint32_t b = block0; b < block1;) {
        uint32_t nb = micro_blocks(widest, block1 - b);
        const char *at = (const char *)w->data + (size_t)b * w->k * 16 * e;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t r0 = (uint32_t)((uint64_t)p->rows * i / tiles);
            uint32_t nr = (uint32_t)((uint64_t)p->rows * (i + 1) / tiles) - r0;
            for (uint32_t s = 0; s < p->segments; s++) {
                struct micro m = {.x = p->x + r0 * p->ldx + (size_t)s * len,
                                  .xs = p->ldx,
                                  .w = at + (size_t)s * len * 16 * e,
                                  .wk = 16,
                                  .wb = (size_t)w->k * 16,
                                  .k = len,
                                  .acc = t->acc + s * nr * nb * 16,
                                  .as = nb * 16,
                                  .fresh = 1};
                micro_direct[w->dtype][nb][nr](&m);
            }
            product_finish(p, t->acc, r0, nr, b, nb);
        }
        b += nb;
    }
}

/* Few rows over cells: a few cells of several blocks are widened, and the chains of every segment
 * that they touch go on. */
static void product_cells(const struct krn_product *p, uint32_t block0, uint32_t block1,
                          struct product_scratch *t) {
    const struct krn_packed *w = p->w;
    enum { STEP = PRODUCT_CELLS * KRN_CELL };
    const uint32_t len = w->k / p->segments, cell = krn_cell_bytes(krn_cell(w->dtype));
    for (uint32_t r0 = 0; r0 < p->rows; r0 += VEC_ROWS) {
        uint32_t nr = p->rows - r0 < VEC_ROWS ? p->rows - r0 : VEC_ROWS;
        for (uint32_t b = block0, nb; b < block1; b += nb) {
            nb = micro_blocks(nr, block1 - b);
            for (uint32_t k0 = 0; k0 < w->k; k0 += STEP) {
                uint32_t kc = w->k - k0 < STEP ? w->k - k0 : STEP;
                for (uint32_t i = 0; i < nb; i++)
                    cells_widen[w->dtype]((const uint8_t *)w->data +
                                              ((size_t)(b + i) * w->k + k0) / KRN_CELL * cell,
                                          kc / KRN_CELL, t->panel + (size_t)i * STEP * 16);
                for (uint32_t at = k0, end; at < k0 + kc; at = end) {
                    uint32_t s = at / len;
                    end = (s + 1) * len < k0 + kc ? (s + 1) * len : k0 + kc;
                    struct micro m = {.x = p->x + r0 * p->ldx + at,
                                      .xs = p->ldx,
                                      .w = t->panel + (size_t)(at - k0) * 16,
                                      .wk = 16,
                                      .wb = (size_t)STEP * 16,
                                      .k = end - at,
                                      .acc = t->acc + s * nr * nb * 16,
                                      .as = nb * 16,
                                      .fresh = at == s * len};
                    micro_direct[KRN_F32][nb][nr](&m);
                }
            }
            product_finish(p, t->acc, r0, nr, b, nb);
        }
    }
}

static void product_widen(const struct krn_packed *w, uint32_t b, uint32_t nb, float *panel) {
    size_t n = (size_t)nb * w->k * 16;
    if (w->dtype >= KRN_DTYPES) {
        size_t cells = (size_t)w->k / KRN_CELL;
        cells_widen[w->dtype]((const uint8_t *)w->data +
                                  b * cells * krn_cell_bytes(krn_cell(w->dtype)),
                              (uint32_t)(nb * cells), panel);
        return;
    }
    const uint16_t *from = (const uint16_t *)w->data + (size_t)b * w->k * 16;
    if (w->dtype == KRN_BF16)
        for (size_t i = 0; i < n; i += 16)
            v_store(panel + i, v_load_bf16(from + i));
    else
        for (size_t i = 0; i < n; i += 16)
            v_store(panel + i, v_load_f16(from + i));
}

/* Inputs [k0, k0 + kc) of a row tile lie in t->x: continues the chains of every segment that they
 * touch, two blocks side by side. */
static void product_chunk(const struct krn_product *p, const float *panel, uint32_t k0, uint32_t kc,
                          uint32_t nr, uint32_t nb, struct product_scratch *t) {
    uint32_t k = p->w->k, len = k / p->segments;
    for (uint32_t b = 0; b < nb; b += VEC_PANEL_B) {
        uint32_t n = nb - b < VEC_PANEL_B ? nb - b : VEC_PANEL_B;
        for (uint32_t at = k0, end; at < k0 + kc; at = end) {
            uint32_t s = at / len;
            end = (s + 1) * len < k0 + kc ? (s + 1) * len : k0 + kc;
            struct micro m = {.x = t->x + (at - k0),
                              .w = panel + ((size_t)b * k + at) * 16,
                              .wb = (size_t)k * 16,
                              .k = end - at,
                              .acc = t->acc + (s * nr * nb + b) * 16,
                              .as = nb * 16,
                              .fresh = at == s * len};
            micro_panel[n][nr](&m);
        }
    }
}

/* One row tile against nb blocks of fp32 weights. */
static void product_tile(const struct krn_product *p, const float *panel, uint32_t r0, uint32_t nr,
                         uint32_t b0, uint32_t nb, struct product_scratch *t) {
    for (uint32_t k0 = 0; k0 < p->w->k; k0 += MICRO_KC) {
        uint32_t kc = p->w->k - k0 < MICRO_KC ? p->w->k - k0 : MICRO_KC;
        for (uint32_t r = 0; r < nr; r++)
            memcpy(t->x + r * MICRO_XS, p->x + (r0 + r) * p->ldx + k0, kc * sizeof(float));
        product_chunk(p, panel, k0, kc, nr, nb, t);
    }
    product_finish(p, t->acc, r0, nr, b0, nb);
}

static void rowfn_product(const struct krn_product *p, uint32_t block0, uint32_t block1,
                          void *scratch) {
    struct product_scratch *t = scratch;
    const struct krn_packed *w = p->w;
    CHECK(block1 <= w->n_blocks);
    CHECK(p->segments >= 1 && p->segments <= KRN_V_MAX && w->k % p->segments == 0);
    CHECK((p->segments & (p->segments - 1)) == 0);
    uint32_t group =
        PRODUCT_PANEL / 16 / w->k; /* f32 needs no panel, but its group should stay near too */
    if (group < VEC_PANEL_B && w->dtype == KRN_F32)
        group = VEC_PANEL_B;
    if (group > PRODUCT_GROUP)
        group = PRODUCT_GROUP;
    if (group > VEC_PANEL_B)
        group -= group % VEC_PANEL_B;
    if (w->dtype >= KRN_DTYPES && (p->rows <= VEC_ROWS || group == 0)) {
        product_cells(p, block0, block1, t);
        return;
    }
    if (w->dtype < KRN_DTYPES &&
        (p->rows <= (w->dtype == KRN_F32 ? VEC_ROWS : VEC_DIRECT_ROWS) || group == 0)) {
        product_direct(p, block0, block1, t);
        return;
    }
    uint32_t tiles = (p->rows + VEC_PANEL_R - 1) / VEC_PANEL_R;
    for (uint32_t b = block0; b < block1;) {
        uint32_t nb = block1 - b < group ? block1 - b : group;
        const float *panel = t->panel;
        if (w->dtype == KRN_F32)
            panel = (const float *)w->data + (size_t)b * w->k * 16;
        else
            product_widen(w, b, nb, t->panel);
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t r0 = (uint32_t)((uint64_t)p->rows * i / tiles);
            uint32_t r1 = (uint32_t)((uint64_t)p->rows * (i + 1) / tiles);
            product_tile(p, panel, r0, r1 - r0, b, nb, t);
        }
        b += nb;
    }
}

static void rowfn_add(const float *a, const float *b, float *y, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_add(v_load(a + i), v_load(b + i)));
    if (i < n)
        v_store_n(y + i, v_add(v_load_n(a + i, n - i), v_load_n(b + i, n - i)), n - i);
}

#endif
