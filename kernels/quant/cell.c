/* SPDX-License-Identifier: Apache-2.0
 * From the files' blocks to cells, and single rows back.
 */
#include "kernels/quant/cell.h"

#include <string.h>

#include "actors/check.h"

const uint8_t krn_cell_steps[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                    129, 141, 153, 166, 181, 197, 217, 241};

bool krn_cell_fits(enum krn_dtype type, uint32_t k) {
    return type >= KRN_DTYPES && k % KRN_CELL == 0;
}

/* Written once, compiled for each type. */
#define INLINE static inline __attribute__((always_inline))

/* 32 neighbouring elements of one row. */
struct run {
    uint8_t code[KRN_CELL]; /* nibbles' bytes as the file has them, or codes */
    bool nibbles;           /* code[0..16) holds them as the file does */
    uint32_t high;          /* bit i: bit 4 of element i, where nibbles have one */
    uint8_t scale[6];       /* d, then m or dmin, little-endian; then s, u; or d, s0, s1 */
};

static uint32_t word(const uint8_t *at) {
    uint32_t w;
    memcpy(&w, at, sizeof w);
    return w;
}

/* Scale and minimum of run r: six bits each (numerics.md 12). */
static void run_pair(const uint8_t *s, unsigned r, uint8_t *scale, uint8_t *min) {
    *scale = r < 4 ? s[r] & 63 : (uint8_t)((s[r + 4] & 15) | s[r - 4] >> 6 << 4);
    *min = r < 4 ? s[r + 4] & 63 : (uint8_t)(s[r + 4] >> 4 | s[r] >> 6 << 4);
}

static void run_k(const uint8_t *b, unsigned r, bool five, struct run *out) {
    const uint8_t *high = b + 16, *q = (five ? b + 48 : b + 16) + (size_t)r / 2 * 32;
    for (unsigned i = 0; i < KRN_CELL; i++) {
        out->code[i] = q[i] >> 4 * (r % 2) & 15;
        if (five)
            out->code[i] |= (uint8_t)((high[i] >> r & 1) << 4);
    }
    memcpy(out->scale, b, 4);
    run_pair(b + 4, r, &out->scale[4], &out->scale[5]);
}

static void run_k6(const uint8_t *b, unsigned r, struct run *out) {
    const uint8_t *q = b + (size_t)r / 4 * 64 + (size_t)r % 2 * 32;
    const uint8_t *high = b + 128 + (size_t)r / 4 * 32;
    for (unsigned i = 0; i < KRN_CELL; i++)
        out->code[i] =
            (uint8_t)((q[i] >> 4 * (r % 4 / 2) & 15) | (high[i] >> 2 * (r % 4) & 3) << 4);
    memcpy(out->scale, b + 208, 2);
    memcpy(out->scale + 2, b + 192 + 2 * (size_t)r, 2);
}

/* Elements [at, at + 32) of a row whose blocks begin at `from`. */
INLINE void run_read(const enum krn_dtype type, const uint32_t block, const uint32_t bytes,
                     const uint8_t *from, uint64_t at, struct run *out) {
    const uint8_t *b = from + at / block * bytes;
    unsigned r = (unsigned)(at % block / KRN_CELL);
    out->nibbles = block == KRN_CELL && type != KRN_Q8_0;
    out->high = 0;
    switch (type) {
    case KRN_Q4_1:
    case KRN_Q5_1:
        memcpy(out->scale, b, 4);
        break;
    default:
        memcpy(out->scale, b, 2);
    }
    switch (type) {
    case KRN_Q8_0:
        for (unsigned i = 0; i < KRN_CELL; i++)
            out->code[i] = b[2 + i] ^ 0x80;
        break;
    case KRN_Q4_K:
    case KRN_Q5_K:
        run_k(b, r, type == KRN_Q5_K, out);
        break;
    case KRN_Q6_K:
        run_k6(b, r, out);
        break;
    default: /* nibbles end the block, the fifth bits lie before them */
        memcpy(out->code, b + bytes - 16, 16);
        if (type == KRN_Q5_0 || type == KRN_Q5_1)
            out->high = word(b + bytes - 20);
    }
}

/* Nibble bytes and planes of one output from its codes. */
INLINE void run_split(struct run *r, uint32_t planes, uint32_t plane[2]) {
    plane[0] = r->high;
    plane[1] = 0;
    if (r->nibbles)
        return;
    plane[0] = 0;
    for (uint32_t i = 0; i < KRN_CELL && planes > 0; i++) {
        plane[0] |= (r->code[i] >> 4 & 1u) << i;
        plane[1] |= (r->code[i] >> 5 & 1u) << i;
    }
    for (uint32_t i = 0; i < KRN_CELL / 2; i++)
        r->code[i] = (uint8_t)((r->code[i] & 15) | r->code[16 + i] << 4);
}

INLINE void put_scales(const enum krn_cell_scales kind, const struct run *r, uint32_t n,
                       uint8_t *out) {
    memcpy(out + 2 * n, r->scale, 2);
    switch (kind) {
    case KRN_CELL_D:
        break;
    case KRN_CELL_DM:
        memcpy(out + 32 + 2 * n, r->scale + 2, 2);
        break;
    case KRN_CELL_K:
        memcpy(out + 32 + 2 * n, r->scale + 2, 2);
        out[64 + n] = r->scale[4];
        out[80 + n] = r->scale[5];
        break;
    case KRN_CELL_K6:
        out[32 + n] = r->scale[2];
        out[48 + n] = r->scale[3];
        break;
    }
}

/* Puts one output into a cell of zeros. */
INLINE void put_run(const struct krn_cell c, struct run *r, uint32_t n, uint8_t *out) {
    uint32_t groups = c.wide ? 8 : 4;
    uint32_t plane[2];
    if (!c.wide)
        run_split(r, c.planes, plane);
    for (uint32_t g = 0; g < groups; g++)
        memcpy(out + (size_t)64 * g + 4 * n, r->code + 4 * g, 4);
    for (uint32_t p = 0; p < c.planes; p++)
        for (uint32_t g = 0; g < 8; g++) { /* bits 4n to 4n + 3 of word g, little-endian */
            uint8_t four = plane[p] >> 4 * g & 15;
            out[256 + 64 * p + 8 * g + n / 2] |= (uint8_t)(four << n % 2 * 4);
        }
    put_scales(c.scales, r, n, out + krn_cell_scales_at(c));
}

INLINE void pack(const enum krn_dtype type, const uint32_t block, const uint32_t bytes,
                 const uint8_t *data, uint64_t row_bytes, uint32_t n, uint64_t col0, uint32_t k,
                 uint8_t *out) {
    const struct krn_cell c = krn_cell(type);
    for (uint32_t at = 0; at < k; at += KRN_CELL, out += krn_cell_bytes(c))
        for (uint32_t i = 0; i < n; i++) {
            struct run r;
            run_read(type, block, bytes, data + i * row_bytes, col0 + at, &r);
            put_run(c, &r, i, out);
        }
}

void krn_cell_pack(const struct krn_tensor *w, uint64_t row0, uint32_t n, uint32_t col0, uint32_t k,
                   uint8_t *out) {
    CHECK(krn_cell_fits(w->dtype, k) && col0 % KRN_CELL == 0 && n <= KRN_BLOCK);
    const struct krn_format *f = krn_format_of(w->dtype);
    CHECK(w->dims[1] % f->block == 0);
    const uint64_t row_bytes = w->dims[1] / f->block * f->bytes;
    const uint8_t *data = (const uint8_t *)w->data + row0 * row_bytes;
    memset(out, 0, k / KRN_CELL * (uint64_t)krn_cell_bytes(krn_cell(w->dtype)));
#define PACK(type, n_block, n_bytes)                                                               \
    case type:                                                                                     \
        CHECK((n_block) == f->block && (n_bytes) == f->bytes);                                     \
        pack(type, n_block, n_bytes, data, row_bytes, n, col0, k, out);                            \
        break;
    switch (w->dtype) {
        PACK(KRN_Q8_0, 32, 34)
        PACK(KRN_Q4_0, 32, 18)
        PACK(KRN_Q4_1, 32, 20)
        PACK(KRN_Q5_0, 32, 22)
        PACK(KRN_Q5_1, 32, 24)
        PACK(KRN_Q4_K, 256, 144)
        PACK(KRN_Q5_K, 256, 176)
        PACK(KRN_Q6_K, 256, 210)
        PACK(KRN_IQ4_NL, 32, 18)
    default:
        CHECK(!"a blocked format");
    }
#undef PACK
}

/* The byte of element i of output n. */
static uint32_t code_at(const struct krn_cell c, const uint8_t *cell, uint32_t n, uint32_t i) {
    if (c.wide)
        return cell[i / 4 * 64 + 4 * n + i % 4];
    uint32_t code = cell[i % 16 / 4 * 64 + 4 * n + i % 4] >> i / 16 * 4 & 15;
    if (c.uneven)
        return krn_cell_steps[code];
    for (uint32_t p = 0; p < c.planes; p++) {
        uint32_t bit = 4 * n + i % 4;
        code |= (cell[256 + 64 * p + 8 * (i / 4) + bit / 8] >> bit % 8 & 1u) << (4 + p);
    }
    return code;
}

void krn_cell_row(const struct krn_packed *w, uint32_t row, float *y) {
    const struct krn_cell c = krn_cell(w->dtype);
    const uint64_t bytes = krn_cell_bytes(c);
    uint32_t n = row % KRN_BLOCK;
    const uint8_t *cell =
        (const uint8_t *)w->data + (size_t)(row / KRN_BLOCK) * (w->k / KRN_CELL) * bytes;
    for (uint32_t at = 0; at < w->k; at += KRN_CELL, cell += bytes) {
        const uint8_t *s = cell + krn_cell_scales_at(c);
        float d = krn_quant_f16(s + 2 * n), step = d;
        bool second = c.scales == KRN_CELL_DM || c.scales == KRN_CELL_K;
        float m = second ? krn_quant_f16(s + 32 + 2 * n) : 0.0f;
        for (uint32_t i = 0; i < KRN_CELL; i++) {
            float q = (float)((int)code_at(c, cell, n, i) - c.offset);
            if (c.scales == KRN_CELL_K6)
                step = d * (float)(int8_t)s[32 + i / 16 * 16 + n];
            if (c.scales == KRN_CELL_DM)
                y[at + i] = d * q + m;
            else if (c.scales == KRN_CELL_K)
                y[at + i] = d * (float)s[64 + n] * q - m * (float)s[80 + n];
            else
                y[at + i] = step * q;
        }
    }
}
