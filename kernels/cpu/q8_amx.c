/* SPDX-License-Identifier: Apache-2.0
 * Profile `q8` with AMX: sixteen rows or more go through tiles of 8 rows by 32 inputs by 16
 * outputs, one a cell, two blocks side by side; fewer rows, and Q6_K with its halves of 16 inputs,
 * through VNNI. The weights of two blocks are made bytes once for all rows of a call.
 */
#define KRN_ISA_AVX512
#include "kernels/cpu/amx.h"
#include "kernels/cpu/q8.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/cpu/q8_round_avx512.h"

enum {
    TILE_ROWS = 8,
    TILE_BLOCKS = 2,
    LEAST_ROWS = 16,            /* for fewer it does not pay to make the weights bytes */
    TILE_INTS = TILE_ROWS * 16, /* sums of one tile */
    PANEL_CELL = TILE_BLOCKS * (KRN_CELL_CODES + 2 * 16 * 4),
    SCALES_CELL = 2 * TILE_ROWS * 4 /* bytes of a row group's scales and edges of a cell */
};

/* Two blocks as a chain reads them: of each cell the signed codes, the factors, what is added. */
struct panel_cell {
    int8_t code[TILE_BLOCKS][8][64];
    float step[TILE_BLOCKS][16], min[TILE_BLOCKS][16];
};
_Static_assert(sizeof(struct panel_cell) == PANEL_CELL, "no holes");

/* Scales and edges of a row group, cell by cell. */
struct scales_cell {
    float scale[TILE_ROWS], edge[TILE_ROWS];
};
_Static_assert(sizeof(struct scales_cell) == SCALES_CELL, "no holes");

/* Tiles 0 to 3 hold sums of two cells in turn, 4 rows, 5 and 6 weights. */
static void tiles_begin(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = {.palette = 1};
    for (int t = 0; t < 7; t++) {
        shape.row_bytes[t] = t == 4 ? KRN_CELL : 64;
        shape.rows[t] = 8;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));
}

VEC_FN void widen(const enum krn_dtype type, const uint8_t *cell, int b, struct panel_cell *out) {
    const struct krn_cell c = krn_cell(type);
    const __m512i offset = _mm512_set1_epi8((char)c.offset);
    q8_ask(c, cell);
    UNROLL for (int g = 0; g < 8; g++) {
        __m512i v = cell_group(c, cell, g);
        if (c.offset != 0)
            v = _mm512_sub_epi8(v, offset);
        _mm512_store_si512((void *)out->code[b][g], v);
    }
    const struct cell_scales s = cell_scales_of(c, cell);
    v_store(out->step[b], s.step[0]);
    v_store(out->min[b], s.min);
}

#define WIDEN(type)                                                                                \
    static void widen_##type(const uint8_t *cell, uint32_t n, int b, struct panel_cell *out) {     \
        for (uint32_t i = 0; i < n; i++, cell += krn_cell_bytes(krn_cell(type)))                   \
            widen(type, cell, b, out + i);                                                         \
    }
WIDEN(KRN_Q8_0)
WIDEN(KRN_Q4_0)
WIDEN(KRN_Q4_1)
WIDEN(KRN_Q5_0)
WIDEN(KRN_Q5_1)
WIDEN(KRN_Q4_K)
WIDEN(KRN_Q5_K)
WIDEN(KRN_IQ4_NL)
#define WIDEN_ENTRY(type) [type] = widen_##type
static void (*const widens[KRN_TYPES])(const uint8_t *, uint32_t, int, struct panel_cell *) = {
    WIDEN_ENTRY(KRN_Q8_0), WIDEN_ENTRY(KRN_Q4_0), WIDEN_ENTRY(KRN_Q4_1), WIDEN_ENTRY(KRN_Q5_0),
    WIDEN_ENTRY(KRN_Q5_1), WIDEN_ENTRY(KRN_Q4_K), WIDEN_ENTRY(KRN_Q5_K), WIDEN_ENTRY(KRN_IQ4_NL)};

/* Integer sums of one cell into tiles t and t + 1, and from there to memory. */
#define TILE_CELL(t0, t1, x, ldq, cell, out)                                                       \
    do {                                                                                           \
        _tile_loadd(4, (x), (ldq));                                                                \
        _tile_zero(t0);                                                                            \
        _tile_loadd(5, (cell)->code[0], 64);                                                       \
        _tile_dpbssd(t0, 4, 5);                                                                    \
        _tile_stored(t0, (out), 64);                                                               \
        if (NB == 2) {                                                                             \
            _tile_zero(t1);                                                                        \
            _tile_loadd(6, (cell)->code[1], 64);                                                   \
            _tile_dpbssd(t1, 4, 6);                                                                \
            _tile_stored(t1, (out) + TILE_INTS, 64);                                               \
        }                                                                                          \
    } while (0)

VEC_FN void add_cell(const int NB, const bool min, const int32_t *sums, const struct panel_cell *w,
                     const struct scales_cell *s, v16 *acc) {
    UNROLL for (int b = 0; b < NB; b++) {
        v16 step = v_load(w->step[b]), m = v_load(w->min[b]);
        UNROLL for (int r = 0; r < TILE_ROWS; r++) {
            v16 sum = _mm512_cvtepi32_ps(
                _mm512_load_si512((const void *)(sums + b * TILE_INTS + 16 * r)));
            v16 a = v_fma(sum, v_mul(step, v_set1(s->scale[r])), acc[r * NB + b]);
            acc[r * NB + b] = min ? v_fma(m, v_set1(s->edge[r]), a) : a;
        }
    }
}

struct chain {
    const struct panel_cell *w;
    const struct scales_cell *s;
    const int8_t *x; /* codes of the group's first row */
    size_t ldq;
    uint32_t n; /* cells, one at least */
    float *acc; /* [8][NB][16] */
};

/* The tiles work on the next cell while the vectors add the last. */
VEC_FN void run_chain(const int NB, const bool min, const struct chain *c) {
    int32_t sums[2][TILE_BLOCKS * TILE_INTS] __attribute__((aligned(64)));
    v16 acc[TILE_ROWS * TILE_BLOCKS];
    UNROLL for (int i = 0; i < TILE_ROWS * NB; i++) acc[i] = v_zero();
    TILE_CELL(0, 1, c->x, c->ldq, c->w, sums[0]);
    for (uint32_t i = 0; i < c->n; i += 2) {
        if (i + 1 < c->n)
            TILE_CELL(2, 3, c->x + (size_t)(i + 1) * KRN_CELL, c->ldq, c->w + i + 1, sums[1]);
        add_cell(NB, min, sums[0], c->w + i, c->s + i, acc);
        if (i + 1 == c->n)
            break;
        if (i + 2 < c->n)
            TILE_CELL(0, 1, c->x + (size_t)(i + 2) * KRN_CELL, c->ldq, c->w + i + 2, sums[0]);
        add_cell(NB, min, sums[1], c->w + i + 1, c->s + i + 1, acc);
    }
    UNROLL for (int i = 0; i < TILE_ROWS * NB; i++) v_store(c->acc + i * 16, acc[i]);
}

static void chain_1(const struct chain *c) {
    run_chain(1, false, c);
}
static void chain_1_min(const struct chain *c) {
    run_chain(1, true, c);
}
static void chain_2(const struct chain *c) {
    run_chain(2, false, c);
}
static void chain_2_min(const struct chain *c) {
    run_chain(2, true, c);
}
static void (*const chains[2][2])(const struct chain *) = {{chain_1, chain_1_min},
                                                           {chain_2, chain_2_min}};

/* Scales and edges of rows [r0, r0 + groups * 8), turned. */
static void turn_scales(const struct krn_product *p, uint32_t r0, uint32_t groups,
                        struct scales_cell *out) {
    const uint32_t cells = p->w->k / KRN_CELL;
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t r = 0; r < TILE_ROWS; r++) {
            struct q8_row row = q8_row_at(p, r0 + g * TILE_ROWS + r);
            for (uint32_t i = 0; i < cells; i++) {
                out[(size_t)g * cells + i].scale[r] = row.scale[i];
                out[(size_t)g * cells + i].edge[r] = row.edge[i];
            }
        }
}

/* Rows [r0, r0 + groups * 8) by blocks [b, b + nb), whose panel is made. */
static void run_groups(const struct krn_product *p, uint32_t b, uint32_t nb, uint32_t r0,
                       uint32_t groups, const struct panel_cell *panel,
                       const struct scales_cell *scales) {
    const struct krn_cell c = krn_cell(p->w->dtype);
    const bool min = c.scales == KRN_CELL_DM || c.scales == KRN_CELL_K;
    const uint32_t cells = p->w->k / KRN_CELL, n = cells / p->segments;
    float acc[KRN_V_MAX * TILE_BLOCKS * TILE_INTS] __attribute__((aligned(64)));
    for (uint32_t g = 0; g < groups; g++, r0 += TILE_ROWS) {
        const int8_t *x = (const int8_t *)p->q + r0 * p->ldq;
        for (uint32_t s = 0; s < p->segments; s++) {
            struct chain chain = {.w = panel + s * n,
                                  .s = scales + (size_t)g * cells + s * n,
                                  .x = x + (size_t)s * n * KRN_CELL,
                                  .ldq = p->ldq,
                                  .n = n,
                                  .acc = acc + s * nb * TILE_INTS};
            chains[nb - 1][min](&chain);
        }
        product_finish(p, acc, r0, TILE_ROWS, b, nb);
    }
}

static void run_tiles(const struct krn_product *p, uint32_t block0, uint32_t block1, uint32_t rows,
                      uint32_t most, void *scratch) {
    const struct krn_packed *w = p->w;
    const uint32_t cells = w->k / KRN_CELL;
    const size_t block_bytes = (size_t)cells * krn_cell_bytes(krn_cell(w->dtype));
    struct panel_cell *panel = scratch;
    struct scales_cell *scales = (struct scales_cell *)(void *)(panel + cells);
    tiles_begin();
    for (uint32_t r0 = 0; r0 < rows; r0 += most) {
        uint32_t groups = (rows - r0 < most ? rows - r0 : most) / TILE_ROWS;
        turn_scales(p, r0, groups, scales);
        for (uint32_t b = block0, nb; b < block1; b += nb) {
            nb = block1 - b < TILE_BLOCKS ? block1 - b : TILE_BLOCKS;
            for (uint32_t i = 0; i < nb; i++)
                widens[w->dtype]((const uint8_t *)w->data + (b + i) * block_bytes, cells, (int)i,
                                 panel);
            __asm__ volatile("" ::: "memory"); /* a tile's load is not known to read memory */
            run_groups(p, b, nb, r0, groups, panel, scales);
        }
    }
    _tile_release();
}

static void product(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch) {
    if (q8_is_plain(p, block0, block1, scratch))
        return;
    const struct krn_packed *w = p->w;
    CHECK(block1 <= w->n_blocks && w->k % (KRN_CELL * p->segments) == 0);
    CHECK(p->segments >= 1 && p->segments <= KRN_V_MAX && (p->segments & (p->segments - 1)) == 0);
    /* rows whose scales find room beside the panel */
    const size_t cells = w->k / KRN_CELL, panel = cells * sizeof(struct panel_cell);
    const size_t left = panel < KRN_SCRATCH_BYTES ? KRN_SCRATCH_BYTES - panel : 0;
    const uint32_t most = (uint32_t)(left / (cells * sizeof(struct scales_cell))) * TILE_ROWS;
    if (p->rows < LEAST_ROWS || w->dtype == KRN_Q6_K || most == 0 || block0 == block1) {
        q8_blocks(p, block0, block1);
        return;
    }
    const uint32_t rows = p->rows / TILE_ROWS * TILE_ROWS;
    run_tiles(p, block0, block1, rows, most, scratch);
    for (uint32_t b = block0; b < block1 && rows < p->rows; b++)
        q8_rows(p, b, rows, p->rows - rows);
}

const struct krn_q8 krn_q8_amx = {"amx", q8_round, product};
