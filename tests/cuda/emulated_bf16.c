/* SPDX-License-Identifier: Apache-2.0
 * The kernels of cuda-bf16 as numerics.md 16 says what they leave.
 */
#include "tests/cuda/emulated_bf16.h"

#include <stdlib.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/cuda/block_value.h"
#include "kernels/oracle_rows.h"
#include "kernels/step16.h"
#include "tests/cuda/emulated.h"

static void bf16_rows(const struct krn_cuda_rows_bf16 *p) {
    const struct krn_cuda_rows_bf16 a = *p;
    uint32_t blocks = krn_bf16_blocks(a.k, a.segments), part = a.k / a.segments;
    uint32_t rows = a.rows > a.out_rows ? a.rows : a.out_rows, wide = blocks / a.segments * 64;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t at = 0; at < blocks * 64; at++) {
            uint32_t to = a.out_row + (a.spread == 0 ? r : 16 * (r / 8) + r % 8);
            uint32_t column = at / wide * part + at % wide;
            uint64_t from = (uint64_t)r * a.ldx + column;
            uint16_t h = 0;
            if (r < a.rows && at % wide < part)
                h = a.type == KRN_ROWS_F32 ? krn_step16_bf16(KRN_CUDA_AT(const float, a.x)[from])
                                           : KRN_CUDA_AT(const uint16_t, a.x)[from];
            uint64_t tile = (uint64_t)(to / 64) * blocks + at / 64;
            memcpy(KRN_CUDA_AT(unsigned char, a.out) + tile * KRN_BF16_TILE_BYTES +
                       krn_bf16_at(to % 64, at % 64),
                   &h, sizeof h);
        }
}

/* Row `row` of a packed matrix, blocks [b0, b1), side by side. */
static void bf16_unpack(krn_cuda_ptr_t m, uint32_t row, uint32_t k_blocks, uint32_t b0, uint32_t b1,
                        uint16_t *out) {
    for (uint32_t b = b0; b < b1; b++)
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t tile = (uint64_t)(row / 64) * k_blocks + b;
            memcpy(out + (b - b0) * 64 + i,
                   KRN_CUDA_AT(const unsigned char, m) + tile * KRN_BF16_TILE_BYTES +
                       krn_bf16_at(row % 64, i),
                   sizeof *out);
        }
}

static float bf16_gate(float g, float u, bool gelu) {
    float t = gelu ? g * fmaf(g * g, KRN_GELU_3, KRN_GELU_1) : g;
    return g / (1.0f + krn_expf(-t)) * u;
}

static void bf16_finish(const struct krn_cuda_product_bf16 *a, uint32_t row, const float *sum) {
    uint32_t outputs = a->flags & KRN_BF16_GATE ? a->n / 2 : a->n;
    for (uint32_t o = 0; o < outputs; o++) {
        uint32_t g = a->flags & KRN_BF16_GATE ? o / 8 * 16 + o % 8 : o;
        const float *bias = KRN_CUDA_AT(const float, a->bias);
        float v = a->bias != 0 ? sum[g] + bias[g] : sum[g];
        if (a->flags & KRN_BF16_GATE)
            v = bf16_gate(v, a->bias != 0 ? sum[g + 8] + bias[g + 8] : sum[g + 8],
                          (a->flags & KRN_BF16_GATE_GELU) != 0);
        if (a->y != 0) {
            float *y = KRN_CUDA_AT(float, a->y) + (uint64_t)row * a->ldy + o;
            *y = v = a->flags & KRN_BF16_ADD ? *y + v : v;
        }
        uint16_t h = krn_step16_bf16(v);
        if (a->packed != 0)
            memcpy(KRN_CUDA_AT(unsigned char, a->packed) +
                       krn_bf16_place(row, o, a->packed_segment, a->packed_blocks),
                   &h, sizeof h);
    }
}

static bool other_cores;

void emulate_other_cores(bool on) {
    other_cores = on;
}

static void bf16_product(const struct krn_cuda_product_bf16 *a) {
    uint32_t k = a->k_blocks * 64, len = k / a->segments;
    uint16_t *x = malloc(k * sizeof *x), *w = malloc((size_t)a->n * k * sizeof *w);
    float *sum = malloc(a->n * sizeof *sum);
    CHECK(x != NULL && w != NULL && sum != NULL);
    for (uint32_t n = 0; n < a->n; n++)
        bf16_unpack(a->w, n, a->k_blocks, 0, a->k_blocks, w + (size_t)n * k);
    for (uint32_t r = 0; r < a->rows; r++) {
        bf16_unpack(a->x, r, a->k_blocks, 0, a->k_blocks, x);
        for (uint32_t n = 0; n < a->n; n++) {
            float part[KRN_V_MAX];
            for (uint32_t s = 0; s < a->segments; s++)
                part[s] = krn_step16_chain(0.0f, x + s * len, w + (size_t)n * k + s * len, len);
            for (uint32_t left = a->segments; left > 1; left /= 2)
                for (uint32_t s = 0; s < left / 2; s++)
                    part[s] = part[2 * s] + part[2 * s + 1];
            sum[n] = other_cores && part[0] != 0.0f ? krn_float(krn_bits(part[0]) + 1) : part[0];
        }
        bf16_finish(a, r, sum);
    }
    free(x);
    free(w);
    free(sum);
}

static void pack_blocks(const struct krn_cuda_pack_blocks *a) {
    for (uint32_t u = 0; u < a->units; u++)
        for (uint32_t i = 0; i < a->blocks * KRN_UNIT_LANES; i++)
            krn_unit_pack(a, a->type, u, i / KRN_UNIT_LANES, i % KRN_UNIT_LANES);
}

/* The rows and columns of one lane of a unit as bf16, in its tile. */
static void widen_lane(uint32_t type, const unsigned char *unit, uint32_t lane, uint32_t row0,
                       unsigned char *tile) {
    const struct krn_unit_form f = krn_unit_form(type);
    struct krn_unit_lane l = {.plane = {0}};
    krn_unit_load(type, unit, lane, &l);
    for (uint32_t step = 0; step < 4; step++) {
        float factor[2], added[2];
        for (uint32_t row = 0; row < 2; row++)
            krn_unit_scale(f, &l, row, step, &factor[row], &added[row]);
        uint32_t v[4];
        krn_unit_step(type, &l, step, factor, added, v);
        for (uint32_t r = 0; r < 4; r++)
            memcpy(tile + krn_bf16_at(row0 + lane / 4 + 8 * (r % 2),
                                      16 * step + 8 * (r / 2) + lane % 4 * 2),
                   &v[r], sizeof v[r]);
    }
}

static void widen_blocks(const struct krn_cuda_widen_blocks *a) {
    uint32_t tiles = krn_bf16_row_tiles(a->units * KRN_UNIT_ROWS);
    unsigned char *out = KRN_CUDA_AT(unsigned char, a->out);
    memset(out, 0, (uint64_t)tiles * a->blocks * KRN_BF16_TILE_BYTES);
    for (uint32_t i = 0; i < a->units * a->blocks * KRN_UNIT_LANES; i++) {
        uint32_t at = i / KRN_UNIT_LANES, u = at / a->blocks;
        const unsigned char *w = KRN_CUDA_AT(const unsigned char, a->w);
        uint64_t tile = (uint64_t)(u / 4) * a->blocks + at % a->blocks;
        widen_lane(a->type, w + at * (uint64_t)krn_unit_bytes(a->type), i % KRN_UNIT_LANES,
                   u % 4 * KRN_UNIT_ROWS, out + tile * KRN_BF16_TILE_BYTES);
    }
}

static void product_blocks(const struct krn_cuda_product_blocks *a) {
    struct krn_cuda_widen_blocks wide = {
        .w = a->p.w, .type = a->type, .units = krn_unit_rows(a->p.n), .blocks = a->p.k_blocks};
    uint64_t tiles = krn_bf16_row_tiles(a->p.n) * (uint64_t)a->p.k_blocks;
    struct krn_cuda_product_bf16 p = a->p;
    void *made = malloc(tiles * KRN_BF16_TILE_BYTES);
    CHECK(made != NULL && a->unit_bytes == krn_unit_bytes(a->type));
    wide.out = p.w = (krn_cuda_ptr_t)made;
    widen_blocks(&wide);
    bf16_product(&p);
    free(made);
}

/* Keys and values of a span's KV head as far as its last row sees, as fp32. */
static void bf16_gather(const struct krn_cuda_attend_bf16 *a, uint32_t first_page, uint32_t n,
                        uint32_t value, float *out) {
    uint32_t tiles = a->page_tokens / 64, bytes = krn_bf16_kv_bytes(a->head_dim), d = a->head_dim;
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t h = 0; h < a->kv_heads; h++) {
            uint32_t page = KRN_CUDA_AT(const uint32_t, a->pages)[first_page + j / a->page_tokens];
            const unsigned char *tile = KRN_CUDA_AT(const unsigned char, a->pool) +
                                        page * a->page_bytes + a->layer_off +
                                        (uint64_t)(h * tiles + j % a->page_tokens / 64) * bytes;
            for (uint32_t i = 0; i < d; i++) {
                uint16_t b;
                memcpy(&b, tile + krn_bf16_kv_at(d, value, j % 64, i), sizeof b);
                out[((uint64_t)j * a->kv_heads + h) * d + i] = krn_widen_bf16(b);
            }
        }
}

static void bf16_span(const struct krn_cuda_attend_bf16 *a, const struct krn_cuda_attend_span *s) {
    uint32_t n = s->first_pos + s->rows, width = a->kv_heads * a->head_dim;
    float *keys = malloc((size_t)n * width * sizeof *keys);
    float *values = malloc((size_t)n * width * sizeof *values);
    float *row = malloc((size_t)a->heads * a->head_dim * sizeof *row);
    CHECK(keys != NULL && values != NULL && row != NULL);
    bf16_gather(a, s->first_page, n, 0, keys);
    bf16_gather(a, s->first_page, n, 1, values);
    for (uint32_t r = 0; r < s->rows; r++) {
        const struct krn_oracle_attend o = {.q = KRN_CUDA_AT(const float, a->q) +
                                                 (uint64_t)(s->first_row + r) * a->ldq,
                                            .keys = keys,
                                            .values = values,
                                            .pos = s->first_pos + r,
                                            .heads = a->heads,
                                            .kv_heads = a->kv_heads,
                                            .head_dim = a->head_dim,
                                            .window = a->window,
                                            .segment = a->segment,
                                            .scale = a->scale,
                                            .out = row};
        krn_oracle_attend_cuda(&o);
        for (uint32_t i = 0; i < a->heads * a->head_dim; i++) {
            uint16_t h = krn_step16_bf16(row[i]);
            if (a->out != 0)
                KRN_CUDA_AT(float, a->out)[(uint64_t)(s->first_row + r) * a->ldo + i] = row[i];
            if (a->packed != 0)
                memcpy(KRN_CUDA_AT(unsigned char, a->packed) +
                           krn_bf16_place(s->first_row + r, i, a->packed_segment, a->packed_blocks),
                       &h, sizeof h);
        }
    }
    free(keys);
    free(values);
    free(row);
}

static void bf16_attend(const struct krn_cuda_attend_bf16 *a, bool wide) {
    const struct krn_cuda_attend_table *t =
        KRN_CUDA_AT(const struct krn_cuda_attend_table, a->table);
    const struct krn_cuda_attend_span *spans = (const void *)(t + 1);
    for (uint32_t i = wide ? 0 : t->n_wide; i < (wide ? t->n_wide : t->n_wide + t->n_narrow); i++)
        bf16_span(a, &spans[i]);
}

/* All slots of a tile over one segment. */
static void bf16_tile(const struct krn_cuda_experts_bf16 *a, const struct krn_cuda_tile *tile,
                      uint32_t t, uint32_t s, uint16_t *x, uint16_t *w) {
    uint32_t each = a->k_blocks / a->segments, k = each * 64, b0 = s * each;
    for (uint32_t r = 0; r < tile->slots; r++)
        bf16_unpack(a->x, 64 * t + r, a->k_blocks, b0, b0 + each, x + (size_t)r * k);
    for (uint32_t n = 0; n < a->n; n++) {
        bf16_unpack(a->w + tile->expert * a->w_stride, n, a->k_blocks, b0, b0 + each, w);
        for (uint32_t r = 0; r < tile->slots; r++) {
            uint64_t row = (uint64_t)(tile->first + r) * a->segments + s;
            KRN_CUDA_AT(float, a->y)
            [row * a->ldy + n] = krn_step16_chain(0.0f, x + (size_t)r * k, w, k);
        }
    }
}

static void bf16_experts(const struct krn_cuda_experts_bf16 *a) {
    uint32_t n_tiles = *KRN_CUDA_AT(const uint32_t, a->n_tiles);
    size_t k = (size_t)a->k_blocks / a->segments * 64;
    uint16_t *x = malloc(64 * k * sizeof *x), *w = malloc(k * sizeof *w);
    CHECK(x != NULL && w != NULL && n_tiles <= a->tiles_max);
    for (uint32_t t = 0; t < n_tiles; t++)
        for (uint32_t s = 0; s < a->segments; s++)
            bf16_tile(a, KRN_CUDA_AT(const struct krn_cuda_tile, a->tiles) + t, t, s, x, w);
    free(x);
    free(w);
}

/* Arguments as a launch has them, at any alignment. */
#define EMULATED_BF16(name, type, call)                                                            \
    void emulated_##name(const void *args) {                                                       \
        struct type a;                                                                             \
        memcpy(&a, args, sizeof a);                                                                \
        call;                                                                                      \
    }
EMULATED_BF16(bf16_rows, krn_cuda_rows_bf16, bf16_rows(&a))
EMULATED_BF16(bf16_product, krn_cuda_product_bf16, bf16_product(&a))
EMULATED_BF16(bf16_narrow, krn_cuda_attend_bf16, bf16_attend(&a, false))
EMULATED_BF16(bf16_wide, krn_cuda_attend_bf16, bf16_attend(&a, true))
EMULATED_BF16(bf16_experts, krn_cuda_experts_bf16, bf16_experts(&a))
EMULATED_BF16(pack_blocks, krn_cuda_pack_blocks, pack_blocks(&a))
EMULATED_BF16(widen_blocks, krn_cuda_widen_blocks, widen_blocks(&a))
EMULATED_BF16(product_blocks, krn_cuda_product_blocks, product_blocks(&a))
