/* SPDX-License-Identifier: Apache-2.0
 * The products of `amx-bf16` in tiles: up to 32 rows by 32 outputs at a time, every K-step one
 * instruction a tile of 16 x 16.
 */
#define KRN_ISA_AVX512
#include <string.h>

#include "actors/check.h"
#include "kernels/cpu/attend.h"
#include "kernels/cpu/product_close.h"
#include "kernels/cpu/tables.h"

enum {
    AMX_ROWS = 16, /* of a tile */
    AMX_AHEAD = 4, /* K-steps: so long before its use few rows ask for a weight */
    AMX_SUMS = 2 * AMX_ROWS * 2 * KRN_BLOCK
};

/* What ldtilecfg reads: rows of a tile and bytes of each, eight tiles. */
struct amx_shape {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct amx_shape) == 64, "the processor's own layout");

struct amx_scratch {
    float acc[KRN_V_MAX * AMX_SUMS]; /* sums of each segment: [s][row][2][16] */
};

/* The instructions by themselves: compilers' forms of them do not all say that memory is read. */
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_LOAD(t, at, stride)                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(at)),                    \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
#define TILE_STORE(t, at, stride)                                                                  \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(at)),                      \
                     "r"((size_t)(stride))                                                         \
                     : "memory")
#define TILE_FMA(sum, rows, weights)                                                               \
    __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sum ::)
#define TILE_RELEASE() __asm__ volatile("tilerelease" ::)

/* Tiles 0 to 3 are sums: rows a or b by block 0 or 1; 4 and 5 rows, 6 and 7 weights. */
static void amx_configure(uint32_t rows_a, uint32_t rows_b) {
    struct amx_shape s = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        s.bytes[i] = 64;
        s.rows[i] = (uint8_t)(i >= 6 ? 16 : i == 0 || i == 1 || i == 4 ? rows_a : rows_b);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(s));
}

/* steps K-steps of rows a and b with two neighbouring blocks. */
static void amx_2_2(const char *a, const char *b, size_t ldq, const char *w, size_t wb,
                    uint32_t steps) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (uint32_t s = 0; s < steps; s++, a += 64, b += 64, w += BF16_STEP_BYTES) {
        TILE_LOAD(4, a, ldq);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
        TILE_LOAD(7, w + wb, 64);
        TILE_FMA(1, 4, 7);
        TILE_LOAD(5, b, ldq);
        TILE_FMA(2, 5, 6);
        TILE_FMA(3, 5, 7);
    }
}

static inline void amx_ahead(const char *w) {
    for (uint32_t i = 0; i < BF16_STEP_BYTES; i += 64)
        __builtin_prefetch(w + AMX_AHEAD * BF16_STEP_BYTES + i);
}

static void amx_1_2(const char *a, size_t ldq, const char *w, size_t wb, uint32_t steps) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    for (uint32_t s = 0; s < steps; s++, a += 64, w += BF16_STEP_BYTES) {
        amx_ahead(w);
        amx_ahead(w + wb);
        TILE_LOAD(4, a, ldq);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
        TILE_LOAD(7, w + wb, 64);
        TILE_FMA(1, 4, 7);
    }
}

static void amx_2_1(const char *a, const char *b, size_t ldq, const char *w, uint32_t steps) {
    TILE_ZERO(0);
    TILE_ZERO(2);
    for (uint32_t s = 0; s < steps; s++, a += 64, b += 64, w += BF16_STEP_BYTES) {
        TILE_LOAD(4, a, ldq);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
        TILE_LOAD(5, b, ldq);
        TILE_FMA(2, 5, 6);
    }
}

static void amx_1_1(const char *a, size_t ldq, const char *w, uint32_t steps) {
    TILE_ZERO(0);
    for (uint32_t s = 0; s < steps; s++, a += 64, w += BF16_STEP_BYTES) {
        TILE_LOAD(4, a, ldq);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
    }
}

/* rows_a (and rows_b) rows from r0 on by nb blocks from b0 on. */
static void amx_tile(const struct krn_product *p, uint32_t r0, uint32_t rows_a, uint32_t rows_b,
                     uint32_t b0, uint32_t nb, struct amx_scratch *t) {
    size_t padded = krn_bf16_padded(p->w->k), wb = padded * KRN_BLOCK * 2;
    uint32_t steps = (uint32_t)padded / BF16_STEP / p->segments, rows = rows_a + rows_b;
    size_t stride = (size_t)nb * KRN_BLOCK * sizeof(float);
    for (uint32_t s = 0; s < p->segments; s++) {
        const char *a = (const char *)p->q + r0 * p->ldq + (size_t)s * steps * BF16_STEP * 2;
        const char *b = a + rows_a * p->ldq;
        const char *w = (const char *)p->w->data + b0 * wb + (size_t)s * steps * BF16_STEP_BYTES;
        float *acc = t->acc + (size_t)s * rows * nb * KRN_BLOCK;
        float *acc_b = acc + (size_t)rows_a * nb * KRN_BLOCK;
        if (nb == 2 && rows_b > 0)
            amx_2_2(a, b, p->ldq, w, wb, steps);
        else if (nb == 2)
            amx_1_2(a, p->ldq, w, wb, steps);
        else if (rows_b > 0)
            amx_2_1(a, b, p->ldq, w, steps);
        else
            amx_1_1(a, p->ldq, w, steps);
        TILE_STORE(0, acc, stride);
        if (nb == 2)
            TILE_STORE(1, acc + KRN_BLOCK, stride);
        if (rows_b > 0)
            TILE_STORE(2, acc_b, stride);
        if (rows_b > 0 && nb == 2)
            TILE_STORE(3, acc_b + KRN_BLOCK, stride);
    }
    product_finish(p, t->acc, r0, rows, b0, nb);
}

static void amx_product(const struct krn_product *p, uint32_t block0, uint32_t block1,
                        void *scratch) {
    const struct krn_packed *w = p->w;
    CHECK(block1 <= w->n_blocks && w->dtype == KRN_BF16);
    CHECK(p->segments >= 1 && p->segments <= KRN_V_MAX);
    CHECK((p->segments & (p->segments - 1)) == 0);
    CHECK(p->segments == 1 || w->k % (p->segments * BF16_STEP) == 0);
    CHECK(p->ldq >= (size_t)krn_bf16_padded(w->k) * 2);
    uint32_t tiles = (p->rows + AMX_ROWS - 1) / AMX_ROWS, rows_a = 0, rows_b = 0;
    for (uint32_t i = 0, r0 = 0; i < tiles; i += 2) {
        /* Tiles of nearly equal height, two at a time. */
        uint32_t mid = (uint32_t)((uint64_t)p->rows * (i + 1) / tiles);
        uint32_t end = i + 2 <= tiles ? (uint32_t)((uint64_t)p->rows * (i + 2) / tiles) : mid;
        if (mid - r0 != rows_a || end - mid != rows_b) {
            rows_a = mid - r0;
            rows_b = end - mid;
            amx_configure(rows_a, rows_b > 0 ? rows_b : rows_a);
        }
        for (uint32_t b = block0, nb; b < block1; b += nb) {
            nb = block1 - b >= 2 ? 2 : 1;
            amx_tile(p, r0, rows_a, rows_b, b, nb, scratch);
        }
        r0 = end;
    }
    TILE_RELEASE();
}

static void amx_round(const float *x, uint32_t k, void *out) {
    krn_bf16_avx512.round(x, k, out);
}

static void amx_write(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos, uint32_t head,
                      const float *k, const float *v) {
    krn_bf16_avx512.kv_write(kv, pages, pos, head, k, v);
}

/* Up to sixteen lines by four blocks; as: bytes from line to line of the sums. */
static void amx_lines_4(const char *x, size_t xs, const char *w, size_t wb, uint32_t steps,
                        float *acc, size_t as, bool fresh) {
    if (fresh) {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    } else {
        TILE_LOAD(0, acc, as);
        TILE_LOAD(1, acc + 16, as);
        TILE_LOAD(2, acc + 32, as);
        TILE_LOAD(3, acc + 48, as);
    }
    for (uint32_t s = 0; s < steps; s++, x += 64, w += BF16_STEP_BYTES) {
        TILE_LOAD(4, x, xs);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
        TILE_LOAD(7, w + wb, 64);
        TILE_FMA(1, 4, 7);
        TILE_LOAD(6, w + 2 * wb, 64);
        TILE_FMA(2, 4, 6);
        TILE_LOAD(7, w + 3 * wb, 64);
        TILE_FMA(3, 4, 7);
    }
    TILE_STORE(0, acc, as);
    TILE_STORE(1, acc + 16, as);
    TILE_STORE(2, acc + 32, as);
    TILE_STORE(3, acc + 48, as);
}

static void amx_lines_1(const char *x, size_t xs, const char *w, uint32_t steps, float *acc,
                        size_t as, bool fresh) {
    if (fresh)
        TILE_ZERO(0);
    else
        TILE_LOAD(0, acc, as);
    for (uint32_t s = 0; s < steps; s++, x += 64, w += BF16_STEP_BYTES) {
        TILE_LOAD(4, x, xs);
        TILE_LOAD(6, w, 64);
        TILE_FMA(0, 4, 6);
    }
    TILE_STORE(0, acc, as);
}

/* Any number of lines and blocks: tiles of sixteen lines, then what is left. */
static void amx_lines(struct attend_scratch *t, const uint16_t *x, size_t xs, const void *w,
                      uint32_t steps, uint32_t blocks, float *acc, size_t as, uint32_t lines,
                      bool fresh) {
    size_t wb = (size_t)steps * BF16_STEP_BYTES;
    for (uint32_t i = 0; i < lines; i += AMX_ROWS) {
        uint32_t rows = lines - i < AMX_ROWS ? lines - i : AMX_ROWS;
        if (t->tile_rows != rows)
            amx_configure(rows, rows);
        t->tile_rows = rows;
        const char *from = (const char *)(x + i * xs);
        float *to = acc + i * as;
        uint32_t b = 0;
        for (; b + 4 <= blocks; b += 4)
            amx_lines_4(from, xs * 2, (const char *)w + b * wb, wb, steps, to + b * 16, as * 4,
                        fresh);
        for (; b < blocks; b++)
            amx_lines_1(from, xs * 2, (const char *)w + b * wb, steps, to + b * 16, as * 4, fresh);
    }
}

static void bf16_scores(struct attend_scratch *t, const void *k, uint32_t d, uint32_t i0,
                        uint32_t i1) {
    amx_lines(t, t->q_half + i0 * ATTEND_QS, ATTEND_QS, k, krn_bf16_padded(d) / BF16_STEP,
              KRN_TILE / 16, t->s + i0 * ATTEND_SS, ATTEND_SS, i1 - i0, true);
}

static void bf16_values(struct attend_scratch *t, const void *v, uint32_t d, uint32_t i0,
                        uint32_t i1) {
    amx_lines(t, t->p_half + i0 * ATTEND_PS, ATTEND_PS, v, KRN_TILE / BF16_STEP, d / 16,
              t->o + i0 * ATTEND_DS, ATTEND_DS, i1 - i0, false);
}

#include "kernels/cpu/attend_bf16.h"

static void amx_attend(const struct krn_attend *a, uint32_t unit0, uint32_t unit1, void *scratch) {
    attend_units_bf16(a, unit0, unit1, scratch);
    TILE_RELEASE();
}

const struct krn_bf16_fn krn_bf16_amx = {.isa = "amx",
                                         .round = amx_round,
                                         .product = amx_product,
                                         .kv_write = amx_write,
                                         .attend = amx_attend};
